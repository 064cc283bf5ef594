"""The recipe for CI (examples/ci/compare.yml) with recordings really made, on the CPU: a training script with the recorder around its
loop, three recordings a side, the gate and the comment."""

import os
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "scripts"))
workflow = pytest.importorskip("workflow")
pytest.importorskip("yaml")

TRAIN = """
import argparse, torch, foretrace
parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int)
parser.add_argument("--trace")
options = parser.parse_args()
torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), *([torch.nn.Linear(512, 512)] * LAYERS), torch.nn.Linear(512, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
x, y = torch.randn(64, 256), torch.randint(10, (64,))
with foretrace.record(options.trace, steps=3, measure=options.steps - 7, warmup=2) as recorder:
    for _ in range(options.steps):
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
        recorder.step()
"""


def test_recordings_of_this_machine(tmp_path: Path) -> None:
    program = os.environ.get("FORETRACE_PROGRAM") or shutil.which("foretrace", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert program, "no foretrace command next to this Python"
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    ci = workflow.Workflow(Path(program), checkout, Path(sys.executable))
    # The gate is about a program that got slower by more than a busy machine's noise: fifteen layers instead of one are that.
    for layers, event, expected in ((1, "push", 0), (1, "pull_request", 0), (15, "pull_request", 1)):
        (checkout / "train.py").write_text(TRAIN.replace("LAYERS", str(layers)))
        code, log = ci.run(event)
        assert code == expected, f"{layers} layers, {event}: {log}"
    comment = ci.comments()
    assert "The gate of 3 % fails" in comment
    assert "aten::" in comment
    assert (ci.artifact("step-time") / "report.html").stat().st_size > 50_000
