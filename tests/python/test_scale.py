"""The step on several workers, from Python: what the command says, and what it refuses."""

import json

import foretrace
import pytest
from foretrace import _core
from helpers import EXAMPLE

MEASURED = 71.6


@pytest.fixture(scope="module")
def step(example):
    return example.step()


def said_by_command(*arguments, capfd):
    assert _core.run(["scale", str(EXAMPLE), "--measured-ms", str(MEASURED), "--json", *arguments]) == 0
    (said,) = json.loads(capfd.readouterr().out)["predictions"]
    return said


@pytest.mark.parametrize(("options", "arguments"), [
    ({"fabric": "25GbE"}, ["--fabric", "25GbE"]),
    ({"fabric": "DGX-A100", "parallel": "fsdp"}, ["--fabric", "DGX-A100", "--parallel", "fsdp"]),
    ({"fabric": "25GbE", "bucket_mb": 5, "compress": "fp16"}, ["--fabric", "25GbE", "--bucket-mb", "5", "--compress", "fp16"]),
    ({"fabric": "100GbE", "parallel": "ps", "servers": 2, "slice_mb": 4},
     ["--fabric", "100GbE", "--parallel", "ps", "--servers", "2", "--slice-mb", "4"]),
    ({"fabric": "100GbE", "gpus_per_node": 4, "parallel": "blueconnect"},
     ["--fabric", "100GbE", "--gpus-per-node", "4", "--parallel", "blueconnect"]),
    ({"fabric": "25GbE", "slow_worker": 1.3, "ring_steps": True}, ["--fabric", "25GbE", "--slow-worker", "1.3", "--ring-steps"]),
])
def test_the_same_as_the_command(step, options, arguments, capfd):
    scaled = step.scale(16, measured_ms=MEASURED, **options)
    said = said_by_command("--workers", "16", *arguments, capfd=capfd)
    assert scaled.workers == said["workers"] == 16
    for key in ("ms", "low_ms", "high_ms", "efficiency"):
        assert getattr(scaled, key) == pytest.approx(said[key], rel=1e-9), key
    assert scaled.exposed_ms == pytest.approx(said["exposed_comm_ms"], abs=1e-6)
    for key in ("buckets", "peak_bytes", "origin", "validated"):
        assert getattr(scaled, key) == said[key], key
    assert list(scaled.not_modelled) == said["not_modelled"]


def test_one_worker_is_the_measured_step(step):
    assert step.scale(1, fabric="25GbE", measured_ms=MEASURED).ms == pytest.approx(MEASURED, rel=1e-4)


def test_the_graph_holds_the_communication(step):
    whole = step.scale(4, fabric="25GbE", measured_ms=MEASURED)
    steps = step.scale(4, fabric="25GbE", measured_ms=MEASURED, ring_steps=True)
    collective = foretrace.TASK_KINDS.index("collective")
    reduces = [sum(g.names()[g.kind == collective] == "all-reduce of a bucket") for g in (whole.graph, steps.graph)]
    assert reduces == [whole.buckets, 6 * whole.buckets]


def test_measured_collectives(step, tmp_path):
    file = tmp_path / "collectives.jsonl"
    rows = [{"world": 2, "coll": "all_reduce", "mb": mb, "ms": mb / 10} for mb in (1, 100)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    scaled = step.scale(2, collectives=file, measured_ms=MEASURED)
    assert scaled.network == "measured collectives" and scaled.communication > 8e6


@pytest.mark.parametrize(("options", "code", "text"), [
    ({"workers": 0, "fabric": "25GbE"}, "usage", "workers"),
    ({"workers": 20000, "fabric": "25GbE"}, "usage", "workers"),
    ({"workers": 4}, "usage", "which network"),
    ({"workers": 4, "fabric": "26GbE"}, "usage", "26GbE"),
    ({"workers": 4, "fabric": "25GbE", "parallel": "ddpp"}, "usage", "ddpp"),
    ({"workers": 4, "fabric": "25GbE", "servers": 2}, "usage", "servers"),
    ({"workers": 4, "fabric": "25GbE", "slice_mb": -1}, "usage", "slice"),
    ({"workers": 4, "fabric": "25GbE", "parallel": "blueconnect"}, "declined", "two levels"),
])
def test_what_is_refused(step, options, code, text):
    with pytest.raises(foretrace.Error, match=text) as error:
        step.scale(**options)
    assert error.value.code == code
