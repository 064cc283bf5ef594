"""What sending saved tensors to the host costs the CPU (torch.autograd.graph.save_on_cpu), without a profiler.

    python -u -m tools.measure.offload --out DIR [--seconds 60] [--models 'mlp resnet18@8']

A process per model; in it the step as it is and with its saved tensors offloaded, in turns, with a plain Python loop timed with each for the host's
speed. offload.csv: host µs of each phase, and how many tensors a step saves. Backward is the one to read: in forward every copy waits for the GPU.
"""

from __future__ import annotations

import csv
import sys
import time
from pathlib import Path

import torch

from .host_rounds import each_model, loop_us

MODELS = "mlp resnet18@8 bert_base@4 vit_b_16@4 gpt2@1-today wav2vec@1 swin_t@4 t5_4x4@2"
TURNS, TURN_S, WARM = 5, 0.25, 4
PHASES = ("data", "forward", "backward", "update", "wait")


def saved_tensors(step) -> int:
    """Of one forward pass."""
    count = 0

    def pack(t: torch.Tensor) -> torch.Tensor:
        nonlocal count
        count += 1
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t), step._cast():
        step.job.loss(step.called, step._move())
    step.finish()
    return count


def one_model(model: str, path: Path, cpu: bool) -> None:
    from .jobs import JOBS
    from .steps import Step
    from .switches import Spec
    rows = []
    device = "cpu" if cpu else "cuda"
    steps = {}
    for variant in ("base", "offload"):
        spec = Spec(model, variant)
        job = JOBS[spec.job]
        steps[variant] = Step(job, 2 if cpu else spec.batch, spec.switches(job.update), device, cpu)
    tensors = saved_tensors(steps["base"])
    for step in steps.values():
        for _ in range(WARM):
            step()
        step.finish()
    for turn in range(TURNS):
        for variant, step in steps.items():
            found: list[tuple[float, ...]] = []
            end = time.perf_counter() + TURN_S
            while len(found) < 3 or (time.perf_counter() < end and len(found) < 40):
                before = loop_us()
                step()
                found.append((*(1e6 * step.host[p] for p in PHASES), (before + loop_us()) / 2))
                step.finish()
            rows.append((model, variant, tensors, turn, *(f"{sorted(v)[len(v) // 2]:.2f}" for v in zip(*found))))
    with open(path, "a", newline="") as file:
        csv.writer(file).writerows(rows)


def table(out: Path) -> Path:
    path = out / "offload.csv"
    path.write_text("model,variant,tensors,turn," + ",".join(f"{p}_us" for p in PHASES) + ",loop_us\n")
    return path


if __name__ == "__main__":
    sys.exit(each_model(__doc__, MODELS, 60, 6, one_model, table))
