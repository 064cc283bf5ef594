"""What the CPU does in each phase of a step, with the host's speed beside every figure: hosts that change their speed within
seconds make one row's time and another's incomparable, and a loop of 15 µs of plain Python next to a phase says which it was.

    python -u -m tools.measure.phases --out DIR [--seconds 140] [--only REGEX] [--cases REGEX]

A process per model, as for rows: first steps without a profiler, then traced as the recorder traces them. `phases.csv` has a
line per step and phase: µs of the phase, and µs of the loop just before and behind it on the thread that did the work
(backward has a thread of its own, so its loops run in hooks of the first and the last gradient). `cases.csv` has the
micro-benchmarks of host_cases.py the same way, a line per round.
"""

from __future__ import annotations

import argparse
import csv
import os
import re
import sys
import time
from pathlib import Path
from time import perf_counter_ns
from typing import Any

MODELS = """mlp bert_base@4 gpt2@1-today t5_4x4@2 resnet50-image efficientnet_b0@16 vit_b_16@4 swin_t@4 bert_base-today dlrm@2048
unet@4-image wav2vec@1 mobilenet_v3_large@16 densenet121@8 convnext_tiny@8-image llama_gqa@1 lstm_lm@8 resnet18 nmt_3x3 resnet50
gpt2-today gpt2 bert_base llama_gqa-today"""
VARIANTS = """gpt2@1-today.ckpt resnet50-image.ckpt bert_base@4.ckpt bert_base@4.amp mlp.amp swin_t@4.amp mlp.fused mlp.foreach
efficientnet_b0@16.amp t5_4x4@2.ckptreentrant t5_4x4@2.ckpt vit_b_16@4.bf16fused lstm_lm@8.amp lstm_lm@8.bf16"""
STEPS, TRACED, MODEL_S = 40, 4, 1.3
CASE_ROUNDS = {"off": 12, "recorder": 6}


def loop_us() -> float:
    """A plain Python loop: how fast the core is right now."""
    start = perf_counter_ns()
    for _ in range(1000):
        pass
    return (perf_counter_ns() - start) / 1e3


class Phased:
    """A step of tools.measure.steps, with the loop around each phase."""

    def __init__(self, step: Any):
        self.step = step
        self.rows: list[tuple] = []
        self.marks: list[tuple[float, int]] = []
        first = next(p for p in step.model.parameters() if p.requires_grad)
        first.register_post_accumulate_grad_hook(lambda _: self.mark())

    def mark(self) -> None:
        began = perf_counter_ns()
        self.marks.append((loop_us(), perf_counter_ns() - began))

    def __call__(self, index: int, traced: bool) -> None:
        s = self.step
        switches, parts = s.switches, []
        s.finish()
        before = loop_us()
        start = perf_counter_ns()
        moved = s._move()
        s.optimizer.zero_grad(set_to_none=True)
        end = perf_counter_ns()
        after = loop_us()
        parts.append(("data", end - start, before, after))
        start = perf_counter_ns()
        with s._cast(), s._saved():
            loss = s.job.loss(s.called, moved) / s.parts
        end = perf_counter_ns()
        before, after = after, loop_us()
        parts.append(("forward", end - start, before, after))
        self.marks.clear()
        scaled = s.scaler.scale(loss)
        scaled.register_hook(lambda _: self.mark())
        start = perf_counter_ns()
        scaled.backward()
        end = perf_counter_ns()
        own = sum(t for _, t in self.marks)
        parts.append(("backward", end - start - own, self.marks[0][0], self.marks[-1][0]))
        before = loop_us()
        start = perf_counter_ns()
        s.scaler.step(s.optimizer)
        s.scaler.update()
        end = perf_counter_ns()
        parts.append(("update", end - start, before, loop_us()))
        start = perf_counter_ns()
        if not switches.get("nosync"):
            loss.item()
        parts.append(("wait", perf_counter_ns() - start, 0.0, 0.0))
        s.finish()
        self.rows += [(index, int(traced), name, round(ns / 1e3, 2), round(a, 2), round(b, 2)) for name, ns, a, b in parts]


def one_model(model: str, variant: str, path: Path, cpu: bool) -> None:
    import torch

    from .jobs import JOBS
    from .pace import Pace
    from .rows import warm_up
    from .steps import Step
    from .switches import Spec
    spec = Spec(model, variant)
    job = JOBS[spec.job]
    switches = spec.switches(job.update)
    batch = 4 if cpu else spec.batch
    step = Step(job, max(1, int(batch * switches.get("bsx", 1))), switches, "cpu" if cpu else "cuda", cpu)
    warm_up(step, Pace(6, 0.4))
    phased = Phased(step)
    end = time.perf_counter() + MODEL_S
    index = 0
    while index < STEPS and (index < 10 or time.perf_counter() < end):
        phased(index, False)
        index += 1
    activity = torch.profiler.ProfilerActivity
    schedule = torch.profiler.schedule(wait=0, warmup=2, active=TRACED)
    with torch.profiler.profile(activities=[activity.CPU, activity.CUDA], record_shapes=True, profile_memory=True, schedule=schedule,
                                acc_events=True) as profile:
        for i in range(TRACED + 2):
            phased(index + i, i >= 2)
            profile.step()
    with open(path, "a", newline="") as file:
        csv.writer(file).writerows((model, variant, *row) for row in phased.rows)


def host_cases(mode: str, path: Path, cpu: bool, only: str = "") -> None:
    import contextlib

    import torch

    from .host_cases import cases
    device, made = "cpu" if cpu else "cuda", []
    wait = (lambda: None) if cpu else torch.cuda.synchronize
    for case in cases(device):
        if not re.search(only, f"{case.kind},{case.name}"):
            continue
        try:
            made.append((case, case.make(device)))
        except Exception as error:
            print(f"phases: {case.name}: {error}", flush=True)
    activity = torch.profiler.ProfilerActivity
    options = {"activities": [activity.CPU, activity.CUDA], "record_shapes": True, "profile_memory": True}
    rows = []
    with torch.profiler.profile(**options) if mode == "recorder" else contextlib.nullcontext():
        for case, run in made:
            run()
            for _ in range(CASE_ROUNDS[mode]):
                if case.before:
                    case.before()
                wait()
                before = loop_us()
                start = perf_counter_ns()
                run()
                end = perf_counter_ns()
                rows.append((case.kind, case.name, mode, round((end - start) / 1e3 / case.times, 4), round(before, 2), round(loop_us(), 2)))
        wait()
    with open(path, "a", newline="") as file:
        csv.writer(file).writerows(rows)


def in_child(call: Any, *arguments: Any) -> None:
    pid = os.fork()
    if pid == 0:
        code = 0
        try:
            call(*arguments)
        except BaseException as error:  # said, and the others go on
            print(f"phases: {arguments}: {type(error).__name__}: {str(error)[:300]}", flush=True)
            code = 1
        sys.stdout.flush()
        os._exit(code)
    os.waitpid(pid, 0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", ".")))
    parser.add_argument("--seconds", type=float, default=140)
    parser.add_argument("--only", default="", help="models and variants")
    parser.add_argument("--cases", default="", help="micro-benchmarks, as KIND,NAME")
    parser.add_argument("--cpu", action="store_true", help="tiny networks on the CPU, to try the program")
    options = parser.parse_args()
    end = time.perf_counter() + options.seconds
    from . import jobs

    jobs.import_what_jobs_need("phases")
    phases, cases = options.out / "phases.csv", options.out / "cases.csv"
    phases.write_text("model,variant,step,traced,phase,us,loop_before,loop_after\n")
    cases.write_text("kind,name,mode,us,loop_before,loop_after\n")
    tasks = [(m, "base") for m in MODELS.split()] + [tuple(v.split(".")) for v in VARIANTS.split()]
    tasks = [t for t in tasks if re.search(options.only, ".".join(t))]
    tasks[10:10] = [("host", "off"), ("host", "recorder")]
    for model, variant in tasks:
        left = end - time.perf_counter()
        if left < 6:
            print(f"phases: {model}.{variant} left out", flush=True)
            continue
        began = time.perf_counter()
        if model == "host":
            in_child(host_cases, variant, cases, options.cpu, options.cases)
        else:
            in_child(one_model, model, variant, phases, options.cpu)
        print(f"phases: {model}.{variant} {time.perf_counter() - began:.1f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
