"""What things cost the CPU: the cases of host_cases.py round by round, without a profiler and as the recorder traces, with the host's
speed with each. Hosts that change their speed within seconds make one time and another incomparable; a loop of 15 µs of plain
Python next to a round says which it was. Tensors are tiny, so that the GPU never holds the host up.

    python -u -m tools.measure.host_rounds --out DIR [--cases REGEX]

`cases.csv` has a line per round: µs of one call, and µs of the loop just before and behind it. `host.csv` has a line per case: the
median and how many events of each kind the profiler recorded for one call.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import os
import re
import sys
from bisect import bisect_right
from collections import Counter
from pathlib import Path
from time import perf_counter, perf_counter_ns, time_ns
from typing import Any

ROUNDS = {"off": 12, "recorder": 6}
EVENTS = ("ops", "ranges", "calls", "memory", "frames")


def loop_us() -> float:
    """A plain Python loop: how fast the core is right now."""
    start = perf_counter_ns()
    for _ in range(1000):
        pass
    return (perf_counter_ns() - start) / 1e3


def measure(mode: str, out: Path, cpu: bool, only: str) -> None:
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
            print(f"host_rounds: {case.name}: {error}", flush=True)
    activity = torch.profiler.ProfilerActivity
    recorder = torch.profiler.profile(activities=[activity.CPU, activity.CUDA], record_shapes=True, profile_memory=True)
    found, spans = [], []
    with recorder if mode == "recorder" else contextlib.nullcontext() as profile:
        for case, run in made:
            run()
            rounds = []
            for _ in range(ROUNDS[mode]):
                if case.before:
                    case.before()
                wait()
                before = loop_us()
                start = perf_counter_ns()
                run()
                end = perf_counter_ns()
                rounds.append((round((end - start) / 1e3 / case.times, 4), round(before, 2), round(loop_us(), 2)))
            found.append((case, rounds))
            spans.append((start, end))
        wait()
    counts = counted(profile, spans) if profile else [Counter[str]()] * len(spans)
    with open(out / "cases.csv", "a", newline="") as file:
        csv.writer(file).writerows((case.kind, case.name, mode, *line) for case, rounds in found for line in rounds)
    with open(out / "host.csv", "a", newline="") as file:
        for (case, rounds), events in zip(found, counts):
            us = sorted(line[0] for line in rounds)
            shown = [us[len(us) // 2], us[len(us) // 10], us[len(us) * 9 // 10], len(us), case.times]
            csv.writer(file).writerow([case.kind, case.name, mode, *shown, *(round(events[e] / case.times, 3) for e in EVENTS)])


def counted(profile: Any, spans: list[tuple[int, int]]) -> list[Counter[str]]:
    """Events the profiler recorded on the host in each span, by kind. Its clock is that of the wall, ours is not: both are read here."""
    import torch

    shift = min((time_ns() - perf_counter_ns() for _ in range(50)), key=abs)
    starts, ends = ([t + shift for t in side] for side in zip(*spans))
    out: list[Counter[str]] = [Counter() for _ in spans]
    for event in profile.profiler.kineto_results.events():
        at = bisect_right(starts, event.start_ns()) - 1
        if event.device_type() == torch.autograd.DeviceType.CPU and at >= 0 and event.start_ns() < ends[at]:
            out[at][kind_of(event)] += 1
    return out


def kind_of(event: Any) -> str:
    name = event.name()
    if event.is_user_annotation():
        return "ranges"
    if name.startswith(("cuda", "cu")) and "::" not in name and "(" not in name:
        return "calls"
    if name == "[memory]":
        return "memory"
    return "frames" if "(" in name or name.startswith(("<built-in", "nn.Module")) else "ops"


def in_child(call: Any, *arguments: Any) -> None:
    pid = os.fork()
    if pid == 0:
        code = 0
        try:
            call(*arguments)
        except BaseException as error:  # printed, and the others go on
            print(f"{arguments}: {type(error).__name__}: {str(error)[:300]}", flush=True)
            code = 1
        sys.stdout.flush()
        os._exit(code)
    os.waitpid(pid, 0)


def each_model(about: str | None, models: str, seconds: float, least_s: float, one_model: Any, prepare: Any = lambda out: out) -> int:
    """A process per model: one_model(model, prepare(DIR), cpu), while `least_s` of the time are left."""
    name = Path(sys.argv[0]).stem
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", ".")))
    parser.add_argument("--seconds", type=float, default=seconds)
    parser.add_argument("--models", default=models)
    parser.add_argument("--cpu", action="store_true", help="tiny networks on the CPU, to try the program")
    options = parser.parse_args()
    end = perf_counter() + options.seconds
    from . import jobs

    jobs.import_what_jobs_need(name)
    to = prepare(options.out)
    for model in options.models.split():
        if end - perf_counter() < least_s:
            print(f"{name}: {model} left out", flush=True)
            continue
        began = perf_counter()
        in_child(one_model, model, to, options.cpu)
        print(f"{name}: {model} {perf_counter() - began:.1f} s", flush=True)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", ".")))
    parser.add_argument("--cases", default="", help="only these, as KIND,NAME")
    parser.add_argument("--cpu", action="store_true", help="on the CPU, to try the program")
    options = parser.parse_args()
    (options.out / "cases.csv").write_text("kind,name,mode,us,loop_before,loop_after\n")
    (options.out / "host.csv").write_text("kind,name,mode,us,p10,p90,rounds,per_round," + ",".join(EVENTS) + "\n")
    for mode in ROUNDS:
        in_child(measure, mode, options.out, options.cpu, options.cases)
    return 0


if __name__ == "__main__":
    sys.exit(main())
