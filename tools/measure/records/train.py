"""One job of tools/measure, trained and recorded in one way, in this process.

    python -m tools.measure.records.train WAY MODEL [FILE] [--cpu]

WAY `kineto`: foretrace.record into FILE. `execution`: together with PyTorch's execution trace. `nvtx`: operations and steps as NVTX
ranges, for whoever listens (`foretrace record --cuda`, nsys); FILE is not used.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import torch

from ..jobs import JOBS
from ..rows import FULL, TINY, warm_up
from ..steps import Step
from ..switches import Spec

MEASURED, TRACED, SETTLE = 15, 3, 2


def step_of(model: str, device: str, tiny: bool) -> Step:
    spec = Spec(model, "base")
    job = JOBS[spec.job]
    return Step(job, 2 if tiny else spec.batch, spec.switches(job.update), device, tiny)


def ready_step(model: str, device: str, tiny: bool) -> Step:
    step = step_of(model, device, tiny)
    warm_up(step, TINY if tiny else FULL)
    return step


def recorded(step: Step, path: str, execution_trace: bool) -> None:
    from foretrace.recorder import record

    with record(path, warmup=2, measure=MEASURED, steps=TRACED, model=step.model, execution_trace=execution_trace) as r:
        while not r.done:
            step()
            r.step()


def ranged(step: Step) -> None:
    """A few steps in which every operation is a range; the first of them settle, and are not captured."""
    with torch.autograd.profiler.emit_nvtx(record_shapes=True):
        for _ in range(SETTLE):
            step()
        step.finish()
        torch.cuda.cudart().cudaProfilerStart()
        for i in range(TRACED):
            with torch.cuda.nvtx.range(f"step {i}"):
                step()
        step.finish()
        torch.cuda.cudart().cudaProfilerStop()


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("way", choices=("kineto", "execution", "nvtx"))
    parser.add_argument("model")
    parser.add_argument("file", nargs="?")
    parser.add_argument("--cpu", action="store_true")
    options: Any = parser.parse_args(argv)
    step = ready_step(options.model, "cpu" if options.cpu else "cuda", options.cpu)
    if options.way == "nvtx":
        ranged(step)
    else:
        recorded(step, options.file, options.way == "execution")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
