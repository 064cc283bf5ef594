"""The step of a job from Python: the same answers as the command gives of all its ranks."""

import json
import os
import re
import subprocess

import foretrace
import pytest
from helpers import ROOT

FOLDER = ROOT / "examples" / "resnet50-ddp"


def command(*arguments):
    """What the command says, in JSON."""
    program = os.environ.get("FORETRACE_PROGRAM")
    if not program:
        pytest.skip("FORETRACE_PROGRAM is not set")
    out = subprocess.run([program, *map(str, arguments), "--json", "-q"], check=True, capture_output=True, text=True)
    return json.loads(re.sub(r'"seconds": [^,}]*', '"seconds": 0', out.stdout))


def alike(ours, theirs):
    """A prediction of the module and one of the command."""
    assert ours.whatif == theirs["whatif"] and ours.declined is None
    for name in ("ms", "low_ms", "high_ms", "speedup", "gpu_ms", "peak_bytes", "fits", "samples", "fullest_rank", "origin"):
        assert getattr(ours, name) == theirs[name], name
    assert [vars(rank) for rank in ours.ranks] == theirs["ranks"]


@pytest.fixture(scope="module")
def step():
    return foretrace.load_ranks(FOLDER).step()


def test_the_step_that_predictions_start_from(step):
    said = command("whatif", FOLDER, "bandwidth:x=2")
    baseline, job = said["baseline"], said["job"]
    assert step.name == said["step"] and step.ms == baseline["unprofiled_ms"] and step.traced_ms == baseline["traced_ms"]
    assert step.low_ms <= step.ms <= step.high_ms
    assert [vars(rank) for rank in step.ranks] == job["ranks"] and step.fullest_rank == job["fullest_rank"]
    assert list(step.notes) == job["notes"]


def test_predictions_are_the_command_s(step):
    changes = ("bandwidth:x=2", "batch:x=2")
    said = command("whatif", FOLDER, *changes)["predictions"]
    for ours, theirs in zip(step.each(*changes), said, strict=True):
        alike(ours, theirs)
    assert len(step.predict("amp").graph) > 1000


def test_changes_on_one_rank():
    one = foretrace.load_ranks(FOLDER).step(ranks=[1])
    alike(one.predict("cpu:x=2"), command("whatif", FOLDER, "cpu:x=2", "--rank", "1")["predictions"][0])
    with pytest.raises(foretrace.UsageError, match="rank 7"):
        foretrace.load_ranks(FOLDER).step(ranks=[7]).predict("amp")
    with pytest.raises(foretrace.UsageError, match="all ranks"):
        one.report("page.html")


def test_a_measured_step(step):
    alike(step.predict("bandwidth:x=2", measured_ms=70), command("whatif", FOLDER, "bandwidth:x=2", "--measured-ms", "70")["predictions"][0])


def test_advice(step):
    ours, theirs = step.advise(), command("advise", FOLDER)
    assert [(a.whatif, a.declined or a.ms) for a in ours.advice][:5] == \
        [(a["whatif"], a.get("declined") or a["ms"]) for a in theirs["advice"]][:5]
    assert ours.advice


def test_the_best_strategy(step):
    ours, theirs = step.optimize(evaluations=40), command("optimize", FOLDER, "--budget-evals", "40")
    assert [(part.whatif, part.gain_ms) for part in ours.parts] == [(part["part"], part["gain_ms"]) for part in theirs["parts"]]
    assert ours.ms == theirs["best"]["ms"]
    assert ours.baseline_ms == pytest.approx(step.ms)
    with pytest.raises(foretrace.DeclinedError, match="one rank"):
        step.optimize(workers=8, fabric="DGX-H100")


def test_other_gpus(step):
    ours, theirs = step.gpus(to=["A100-SXM4-80GB"]), command("gpus", FOLDER, "--to", "A100-SXM4-80GB")
    assert ours["predictions"] == theirs["predictions"]
    assert step.on("A100-SXM4-80GB").ms == pytest.approx(ours.gpus[0].ms)


def test_export_with_a_change(step, tmp_path):
    plain, changed = (step.export(tmp_path / name, *whatifs) for name, whatifs in (("a.json", ()), ("b.json.gz", ("bandwidth:x=2",))))
    assert "with bandwidth:x=2" in changed.step and changed.tasks > 1000 and plain.replayed_ms > 0
    processes = {e["args"]["name"] for e in json.loads((tmp_path / "a.json").read_text())["traceEvents"] if e["name"] == "process_name"}
    assert {"rank 0 measured", "rank 1 simulated"} <= processes
    with pytest.raises(foretrace.UsageError):
        step.export(tmp_path / "c.csv", format="csv")


def test_page(step, tmp_path):
    assert "all ranks simulated together" in step.report(tmp_path / "job.html", "bandwidth:x=2")
    assert (tmp_path / "job.html").stat().st_size > 100_000


def test_compared_jobs():
    one, other = foretrace.load_ranks(FOLDER), foretrace.load_ranks(FOLDER)
    same = foretrace.compare(one, other, gate=3)
    assert isinstance(same, foretrace.JobComparison) and same.change_pct == 0 and same.changed_ranks == () and same.outcome == "passed"
    assert len(same.to_pandas()) == 2
    theirs = command("compare", FOLDER, FOLDER, "--gate", "3")
    assert same.json() == theirs
    with pytest.raises(foretrace.UsageError, match="one side is a job"):
        foretrace.compare(one, ROOT / "examples" / "resnet50-h200.json.gz")


def test_an_operation_trace_has_no_step():
    job = foretrace.load_ranks(ROOT / "examples" / "pipeline" / "job.csv")
    with pytest.raises(foretrace.DeclinedError, match="no kernels"):
        job.step().predict("amp")
    with pytest.raises(foretrace.DeclinedError, match="no kernels"):
        job.export("job.json")
