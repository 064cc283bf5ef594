"""optimize, replay, export and typed reports: what the command line says, as objects."""

import json
import subprocess
import sys

import foretrace
import pytest
from helpers import EXAMPLE


@pytest.fixture(scope="module")
def step(example):
    return example.step()


def command(*args) -> dict:
    done = subprocess.run([sys.executable, "-m", "foretrace", *map(str, args), "--json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_optimize_is_what_the_command_says(step, tmp_path):
    best = step.optimize(evaluations=30)
    said = command("optimize", EXAMPLE, "--budget-evals", 30)
    assert best.ms == pytest.approx(said["best"]["ms"], abs=1e-6)
    assert best.baseline_ms == pytest.approx(said["baseline"]["ms"], abs=1e-6)
    assert [p.whatif for p in best.parts] == [p["part"] for p in said["parts"]]
    assert [p.gain_ms for p in best.parts] == pytest.approx([p["gain_ms"] for p in said["parts"]], abs=1e-6)
    assert best.evaluations == said["evaluations"] == 30 and not best.converged
    assert best.strategy_json()["whatifs"] == said["best"]["strategy"]["whatifs"]
    assert list(best.declined) == said["declined"] and best.speedup > 1
    assert best.prediction.whatif == said["best"]["about"]
    # It can be given back, as objects and as a file.
    assert step.predict(*best.whatifs).step == best.prediction.step
    best.save(tmp_path / "best.json")
    assert command("whatif", EXAMPLE, "--strategy", tmp_path / "best.json")["predictions"][0]["ms"] == pytest.approx(best.ms)
    best.save_code(tmp_path / "best.py")
    compile((tmp_path / "best.py").read_text(), "best.py", "exec")
    assert best.parts[0].whatif in str(best) and "Optimized(" in repr(best)


def test_optimize_for_several_workers(step):
    best = step.optimize(workers=8, fabric="25GbE", only=["fused-optimizer", "ddp"], evaluations=20)
    assert best.strategy_json()["communication"]["workers"] == 8
    assert foretrace.optimize(step, only="fused-optimizer", evaluations=5).whatifs == ("fused-optimizer",)


@pytest.mark.parametrize("options, message", [
    ({"only": ["ampp"]}, "no what-if named 'ampp'"),
    ({"workers": 8}, "network"),
    ({"workers": 8, "fabric": "25GbF"}, "25GbF"),
    ({"workers": 0}, "number of workers"),
    ({"fabric": "25GbE"}, "how many workers"),
    ({"workers": 8, "fabric": "25GbE", "gpus_per_node": 3}, "3"),
    ({"evaluations": 0}, "budget"),
    ({"bucket_mb": [0.0]}, "size of buckets"),
])
def test_wrong_searches(step, options, message):
    with pytest.raises(foretrace.UsageError, match=message):
        step.optimize(**options)


def test_replay(example):
    replayed = foretrace.replay(example)
    said = command("replay", EXAMPLE)
    assert [s.step for s in replayed.steps] == ["ProfilerStep#3", "ProfilerStep#4"]
    for mine, theirs in zip(replayed.steps, said["steps"], strict=True):
        assert (mine.replayed_ms, mine.error_pct, mine.tasks) == (theirs["replayed_ms"], theirs["error_pct"], theirs["tasks"])
    assert replayed.unprofiled_low_ms < replayed.unprofiled_ms == said["unprofiled_ms"] < replayed.unprofiled_high_ms
    assert len(foretrace.replay(EXAMPLE, 4, measured_ms=71.6).steps) == 1
    assert "ProfilerStep#4" in str(replayed.steps[1]) and replayed.bottleneck in " ".join(str(replayed).split())
    with pytest.raises(foretrace.UsageError):
        foretrace.replay(example, 99)


def test_export(step, example, tmp_path):
    written = step.export(tmp_path / "now.json.gz")
    assert written.step == "ProfilerStep#4" and written.traced_ms == step.traced_ms == written.replayed_ms
    assert (tmp_path / "now.json.gz").stat().st_size == written.nbytes and written.tasks == len(step)
    assert "perfetto" in str(written)
    assert foretrace.load(tmp_path / "now.json.gz").step().dump() == step.dump()
    changed = foretrace.export(example, tmp_path / "then.json", "fused-optimizer")
    assert changed.step == "ProfilerStep#4 with fused-optimizer" and changed.tasks < written.tasks
    assert json.loads((tmp_path / "then.json").read_text())["traceEvents"]
    with pytest.raises(foretrace.DeclinedError, match="no attention"):
        step.export(tmp_path / "never.json", "flash-attention")
    with pytest.raises(foretrace.UsageError, match="no export format 'perfeto'"):
        step.export(tmp_path / "never.json", format="perfeto")
    assert not (tmp_path / "never.json").exists()


def test_scale_with_changes(step):
    plain, half = step.scale(8, fabric="25GbE"), step.scale(8, "fused-optimizer", fabric="25GbE")
    (said,) = command("scale", EXAMPLE, "fused-optimizer", "--workers", 8, "--fabric", "25GbE")["predictions"]
    assert half.ms == pytest.approx(said["ms"]) and half.efficiency == pytest.approx(said["efficiency"])
    assert half.ms < plain.ms
    assert half.efficiency == pytest.approx(step.predict("fused-optimizer").step / half.step)


def test_typed_reports(example):
    doctor = foretrace.doctor(example)
    assert doctor.verdict == "Good for predictions." and doctor.predicts
    assert doctor.findings[0].name == "unresolved_stream_waits" and doctor.findings[0].count == 244
    summary = foretrace.summary(example, samples=32)
    assert summary.step == "ProfilerStep#4" and summary.gpu_busy_ms <= summary.gpu_ms < summary.traced_ms
    assert summary.samples_per_s == pytest.approx(32e3 / summary.traced_ms)
    by_shapes = foretrace.summary(example)  # a batch of 64 in every convolution
    assert by_shapes.unprofiled_samples_per_s == pytest.approx(64e3 / by_shapes.unprofiled_ms) and by_shapes.tokens_per_s is None
    assert 0 < summary.mfu == summary.hfu < 1 and summary.achieved_tflops > 0
    assert summary.layers[0].mfu == summary["layers"][0]["mfu"] > 0 and summary.phases[0].achieved_tflops > 0
    assert summary.layers[0].gpu_ms == max(layer.gpu_ms for layer in summary.layers)
    assert summary.kernels[0].total_ms == summary["kernels"][0]["total_ms"]
    assert {p.phase for p in summary.phases} >= {"forward", "backward", "optimizer"}
    assert summary.operations[0].calls > 0 and summary.bottleneck and summary.peak_bytes == summary["peak_bytes"]
    ranks = foretrace.load_ranks(EXAMPLE.parent / "resnet50-ddp").report()
    assert [r.rank for r in ranks.ranks] == [0, 1] and ranks.ranks[0].transfer_ms > 0 and ranks.replayed_ms > 0
