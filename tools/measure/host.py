"""What things cost the CPU: one operation of each kind, a launch, a call of the runtime, a module, Python between them, with the
profiler off and on in several ways. Tensors are tiny, so that the GPU never holds the host up."""

from __future__ import annotations

import csv
import statistics
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, perf_counter_ns
from typing import Any

import torch

from .host_cases import Case, cases

ROUNDS, PROFILED_ROUNDS = 21, 5
COLUMNS = ("kind", "name", "mode", "us", "p10", "p90", "rounds", "per_round", "ops", "ranges", "calls", "memory", "frames")


@dataclass(frozen=True)
class Mode:
    """`options`: of torch.profiler.profile; None: no profiler."""

    name: str
    options: dict[str, Any] | None


def modes(device: str) -> Iterator[Mode]:
    """In this order: nothing unprofiled may come after the first profile except to show what CUPTI leaves behind."""
    activity = torch.profiler.ProfilerActivity
    both = [activity.CPU, activity.CUDA] if device == "cuda" else [activity.CPU]
    yield Mode("off", None)
    yield Mode("cpu", {"activities": [activity.CPU]})
    if device == "cuda":
        yield Mode("cuda", {"activities": [activity.CUDA]})
    yield Mode("both", {"activities": both})
    yield Mode("shapes", {"activities": both, "record_shapes": True})
    yield Mode("memory", {"activities": both, "profile_memory": True})
    yield Mode("recorder", {"activities": both, "record_shapes": True, "profile_memory": True})
    yield Mode("modules", {"activities": both, "with_modules": True})
    yield Mode("stack", {"activities": both, "with_stack": True})
    yield Mode("after", None)


def write(path: Path, device: str = "cuda", quick: bool = False) -> int:
    """Measures everything into a CSV; how many rows."""
    made, written = [], 0
    for case in cases(device):
        try:
            made.append((case, case.make(device)))
        except Exception as error:
            print(f"host: {case.kind} {case.name} cannot be had: {type(error).__name__}: {error}", flush=True)
    with open(path, "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(COLUMNS)
        for mode in modes(device):
            start = perf_counter()
            rounds = 2 if quick else ROUNDS if mode.options is None else PROFILED_ROUNDS
            try:
                found = one_mode(made, mode, device, rounds)
            except Exception as error:
                print(f"host: mode {mode.name} failed: {type(error).__name__}: {error}", flush=True)
                continue
            for case, times, counts in found:
                per = case.times
                out.writerow([case.kind, case.name, mode.name, *(round(percentile(times, p), 4) for p in (50, 10, 90)), len(times), per,
                              *(round(counts.get(c, 0) / per, 3) if counts is not None else "" for c in COLUMNS[8:])])
                written += 1
            file.flush()
            print(f"host: {mode.name}, {len(found)} cases in {perf_counter() - start:.1f} s", flush=True)
    return written


def percentile(values: list[float], p: int) -> float:
    return statistics.median(values) if p == 50 else sorted(values)[min(len(values) - 1, len(values) * p // 100)]


def one_mode(made: list[tuple[Case, Callable[[], None]]], mode: Mode, device: str,
             rounds: int) -> list[tuple[Case, list[float], Counter | None]]:
    """µs per operation of each round, and what the profiler recorded in the last round of each case."""
    wait = torch.cuda.synchronize if device == "cuda" else (lambda: None)
    out, spans = [], []
    profiler = torch.profiler.profile(**mode.options) if mode.options is not None else nullcontext()
    with profiler as profile:
        for case, run in made:
            try:
                run()
                times = []
                for _ in range(rounds):
                    if case.before:
                        case.before()
                    wait()
                    first = perf_counter_ns()
                    run()
                    last = perf_counter_ns()
                    times.append((last - first) / 1e3 / case.times)
                out.append((case, times))
                spans.append((first, last))
            except Exception as error:
                print(f"host: {mode.name} {case.name} failed: {type(error).__name__}: {error}", flush=True)
        wait()
    if mode.options is None:
        return [(case, times, None) for case, times in out]
    counted = count(profile, spans)
    return [(case, times, found) for (case, times), found in zip(out, counted)]


def count(profile: Any, spans: list[tuple[int, int]]) -> list[Counter]:
    """Events the profiler recorded on the host, by kind. Its clock is that of the wall, ours is not: both are read here."""
    from bisect import bisect_right
    from time import time_ns
    shift = min((time_ns() - perf_counter_ns() for _ in range(50)), key=abs)
    starts = [a + shift for a, _ in spans]
    ends = [b + shift for _, b in spans]
    out: list[Counter] = [Counter() for _ in spans]
    cpu = torch.autograd.DeviceType.CPU
    for event in profile.profiler.kineto_results.events():
        if event.device_type() != cpu:
            continue
        at = bisect_right(starts, event.start_ns()) - 1
        if at >= 0 and event.start_ns() < ends[at]:
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
    if "(" in name or name.startswith(("<built-in", "nn.Module")):
        return "frames"
    return "ops"
