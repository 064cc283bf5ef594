"""tools/measure without a GPU: every job is built and trained for a step at a tiny size, under every switch a CPU knows, and the
program that forks a process per row writes what it should."""

import importlib.util
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT))
from tools.measure import collect, plan
from tools.measure.jobs import JOBS
from tools.measure.steps import Step, checkpoint_blocks
from tools.measure.switches import Spec, parse_model

SLOW = {"vgg16", "vit_b_16", "resnet152", "efficientnet_b4"}  # they have no tiny size of their own


def job_of(name):
    job = JOBS[name]
    if job.library and not importlib.util.find_spec(job.library):
        pytest.skip(f"{job.library} is not installed")
    return job


def trained(name, variant, start=""):
    job = job_of(name)
    step = Step(job, 4, Spec(f"{name}-{start}" if start else name, variant).switches(job.update), "cpu", tiny=True)
    step()
    without = [n for n, p in step.model.named_parameters() if p.grad is None]
    assert not without, f"{name} trains without {without[:3]}"
    return step


@pytest.mark.parametrize("name", JOBS)
def test_a_rebuilt_network_has_as_many_parameters_as_the_measured_one(name):
    with torch.device("meta"):
        model = job_of(name).build("eager", False)
    assert sum(p.numel() for p in model.parameters()) == JOBS[name].params


@pytest.mark.parametrize("name", [n for n in JOBS if n not in SLOW])
def test_a_step_of_every_job(name):
    step = trained(name, "base")
    assert all(step.host[phase] > 0 for phase in ("data", "forward", "backward", "update", "wait"))
    trained(name, "accum2", "today")


@pytest.mark.parametrize("name", [n for n, j in JOBS.items() if j.blocks and n not in SLOW])
def test_checkpoints_give_the_same_gradients(name):
    job = job_of(name)
    gradients = []
    for variant in ("base", "ckpt"):
        step = Step(job, 4, Spec(name, variant).switches(job.update), "cpu", tiny=True)
        for module in step.model.modules():  # chance is not compared, nor averages over batches
            if "rop" in type(module).__name__ or hasattr(module, "track_running_stats"):
                module.eval()
        step.optimizer.step = lambda *_: None
        step()
        gradients.append([p.grad for p in step.model.parameters()])
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-5)


def test_checkpointing_a_network_without_blocks_is_refused():
    with pytest.raises(ValueError, match="repeats no block"):
        checkpoint_blocks(torch.nn.Linear(1, 1), (), reentrant=False)


@pytest.mark.parametrize("variant", ["amp", "foreach", "fused", "nosync", "offload", "sdpa", "ckptreentrant", "bs2"])
def test_switches(variant):
    trained("t5_4x4", variant)


def test_names():
    assert parse_model("efficientnet_b0@16-image") == ("efficientnet_b0", 16, "image")
    assert Spec("gpt2-today", "compilegraph").switches("loop") == {
        "opt": "fused", "amp": "bf16", "tf32": 0, "attn": "sdpa", "compile": 1, "graph": 1}
    with pytest.raises(ValueError, match="nothing is called"):
        Spec("gpt2", "ampsomething").switches("loop")
    with pytest.raises(ValueError, match="START"):
        parse_model("gpt2-tomorrow")


def test_the_plan():
    tasks = plan.tasks(["first", "second", "compiled", "unseen"])
    rows = [t for t in tasks if t.kind == "row"]
    for task in rows:
        JOBS[task.spec.job]
        switches = task.spec.switches(JOBS[task.spec.job].update)
        assert not switches.get("ckpt") or JOBS[task.spec.job].blocks, task.key
        assert not switches.get("cl") or JOBS[task.spec.job].image, task.key
    of = [t.spec.switches("loop") for t in rows]
    assert len(rows) >= 90 and sum("compile" in s for s in of) >= 10 and sum("ckpt" in s for s in of) >= 8
    assert len({t.spec.job for t in rows}) >= 14
    assert not set(plan.RECORDED) - {f"{j}" for j in plan.RECORDED if parse_model(j)[0] in JOBS}
    # A row that is done is not compiled for either.
    done = {t.key for t in rows if t.compiled}
    assert not [t for t in plan.tasks(["compiled"], done) if t.kind == "compile" or t.compiled]


def test_a_run(tmp_path):
    command = [sys.executable, "-u", "-m", "tools.measure", "first", "recordings", "--cpu", "--out", str(tmp_path), "--seconds", "200",
               "--only", r"^mlp\.(base$|graph|fused)|^mlp\.base\.0[01]"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    assert run.returncode == 0, run.stderr
    rows = {r["variant"]: r for r in map(json.loads, (tmp_path / "truth.jsonl").read_text().splitlines())}
    assert set(rows) == {"base", "fused", "graph"}
    assert "error" in rows["graph"]  # a row that cannot be measured says why, and the run goes on
    base = rows["base"]
    assert base["median_ms"] > 0 and base["p10_ms"] <= base["median_ms"] <= base["p90_ms"] and len(base["step_ms"]) == base["n"]
    assert sum(base["host_ms"].values()) < 1.2 * base["p90_ms"]
    assert base["network"] == "mlp" and base["start"] == "" and base["figures"]["measured_ms"] > 0
    recorded = [json.loads(r) for r in (tmp_path / "recordings.jsonl").read_text().splitlines()]
    assert [r["number"] for r in recorded] == [0, 1]
    with tarfile.open(tmp_path / "first-recordings.0.tar") as tar:
        assert set(tar.getnames()) == {"mlp.base.json.gz", "mlp.base.00.json.gz", "mlp.base.01.json.gz"}
    assert collect.already([tmp_path / "truth.jsonl", tmp_path / "recordings.jsonl"]) == {
        "mlp.base", "mlp.fused", "mlp.base.00", "mlp.base.01"}
    again = subprocess.run([*command, "--list", "--done", str(tmp_path / "truth.jsonl")], cwd=ROOT, capture_output=True, text=True)
    assert "row mlp.graph" in again.stdout and "row mlp.base" not in again.stdout
