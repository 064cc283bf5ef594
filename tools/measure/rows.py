"""One row, measured in this process: timed first, profiled afterwards, since CUPTI stays attached to a process for good and
makes steps that the CPU bounds 15 to 35 % longer."""

from __future__ import annotations

import csv
import gzip
import json
import os
import sys
import time
import types
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from .models import Job
from .steps import PHASES, Step


@dataclass(frozen=True)
class Pace:
    """How long a row is watched: steps and seconds to warm up, both at the least; the same of those timed; steps the recorder measures."""

    warm_up: int = 8
    warm_up_s: float = 0.7
    least: int = 10
    seconds: float = 2.0
    measured: int = 15


FULL = Pace()
FEW = Pace(5, 0, 5, 0, 5)  # `--few`: rows that are only to be recorded
SHORT = Pace(3, 0.4, 4, 0.7)  # `--short`: rows whose GPU time and memory are wanted, many of them
TINY = Pace(2, 0, seconds=0.1)  # to try the program itself

MOST = 150  # steps that are timed
PROBE_TIMES, PROBE_ROUNDS = 100, 9
BURSTS = 2  # of a loader, between two looks at the clock
TOGETHER = 5  # steps between two waits where the loss is not read
NAME_CHARS = 150  # of a kernel: templates go on for thousands
GPU_KINDS = ("kernel", "gpu_memcpy", "gpu_memset")


def write_rows(path: Path, columns: Sequence[str], rows: Iterable[dict[str, Any]]) -> None:
    """Each as soon as it is measured."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, columns)
        table.writeheader()
        for row in rows:
            table.writerow(row)
            file.flush()


def nothing() -> None:
    pass


def measure(job: Job, model: str, variant: str, batch: int, switches: dict[str, Any], *, quiet: Callable[[], None] = nothing,
            gpu_free: Callable[[], None] = nothing, trace: Path | None = None, device: str = "cuda", tiny: bool = False,
            pace: Pace = FULL) -> dict[str, Any]:
    """The row. `quiet` returns when nothing else is running; `gpu_free` is called when the GPU is not needed any more."""
    begun = time.perf_counter()
    batch = max(1, int(batch * switches.get("bsx", 1)))
    step = Step(job, batch, switches, device, tiny)
    first = step.first() if not switches.get("graph") else {}
    warm_up(step, pace)
    ready_s = time.perf_counter() - begun
    quiet()
    row: dict[str, Any] = {"model": model, "bs": batch, "variant": variant, "switches": switches | {"optimizer": job.optimizer}} | first
    before = probe(device)
    row |= timed(step, pace)
    row |= {"probe": before, "probe_after": probe(device), "params": sum(p.numel() for p in step.model.parameters()),
            "ready_s": round(ready_s, 1)}
    row |= surroundings(device)
    if trace is not None:
        gpu_free_once = _once(gpu_free)
        row["figures"] = record(step, trace, before_writing=gpu_free_once, measured=pace.measured)
        gpu_free_once()
        row |= gpu_of_trace(trace) | {"trace": trace.name, "gz_bytes": trace.stat().st_size}
    else:
        row |= gpu_of_profile(step) if device == "cuda" else {}
        step.close()
        gpu_free()
    return row


def probe(device: str = "cuda") -> dict[str, float]:
    """Median µs of one: `python` an empty call, `view` an operation without a kernel, `add` one with a launch."""
    x = torch.ones(16, device=device)
    out = {}
    for name, call in (("python_us", nothing), ("view_us", lambda: x.view(4, 4)), ("add_us", lambda: x + x)):
        times = []
        for _ in range(PROBE_ROUNDS):
            if device == "cuda":
                torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(PROBE_TIMES):
                call()
            times.append((time.perf_counter() - start) / PROBE_TIMES * 1e6)
        out[name] = round(sorted(times)[PROBE_ROUNDS // 2], 3)
    return out


def warm_up(step: Step, pace: Pace = FULL) -> None:
    end = time.perf_counter() + pace.warm_up_s
    done = 0
    while done < max(pace.warm_up, 3 * step.switches.get("workers", 0)) or (time.perf_counter() < end and done < 100):
        step()
        done += 1
    step.finish()


def timed(step: Step, pace: Pace) -> dict[str, Any]:
    """Steps as they are, each waited for (unless the variant waits for nothing), and where the host was in them."""
    # Batches of a loader arrive in bursts, as many as it has workers.
    group = BURSTS * max(1, step.switches.get("workers", 0)) if step.batches else TOGETHER if step.switches.get("nosync") else 1
    times: list[float] = []
    hosts: list[dict[str, float]] = []
    if step.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    step.finish()
    thread, process, end = time.thread_time(), time.process_time(), time.perf_counter() + pace.seconds
    while len(times) < MOST and (len(times) < pace.least or time.perf_counter() < end):
        sums = dict.fromkeys(PHASES, 0.0)
        start = time.perf_counter()
        for _ in range(group):
            step()
            for phase in PHASES:
                sums[phase] += step.host[phase]
        step.finish()
        times.append((time.perf_counter() - start) / group * 1e3)
        hosts.append({phase: s / group * 1e3 for phase, s in sums.items()})
    n = len(times)
    thread, process = time.thread_time() - thread, time.process_time() - process
    phases = {phase: [h[phase] for h in hosts] for phase in PHASES}
    return {
        "median_ms": percentile(times, 50), "p10_ms": percentile(times, 10), "p90_ms": percentile(times, 90), "n": n,
        "peak_bytes": torch.cuda.max_memory_allocated() if step.device == "cuda" else None,
        "host_ms": {p: percentile(v, 50) for p, v in phases.items()},
        "host_p10_ms": {p: percentile(v, 10) for p, v in phases.items()},
        "host_p90_ms": {p: percentile(v, 90) for p, v in phases.items()},
        "thread_cpu_ms": round(thread * 1e3 / n / group, 4), "cpu_ms": round(process * 1e3 / n / group, 4),
        "step_ms": [round(t, 3) for t in times],
    }


def percentile(values: list[float], p: float) -> float:
    """As the rows of the truth folders have it: a value that was measured, except for a median between two."""
    ordered = sorted(values)
    if p == 50 and len(ordered) % 2 == 0:
        return round((ordered[len(ordered) // 2 - 1] + ordered[len(ordered) // 2]) / 2, 4)
    return round(ordered[min(len(ordered) - 1, int(len(ordered) * p / 100))], 4)


def surroundings(device: str) -> dict[str, Any]:
    out = {"torch": torch.__version__, "cores": sorted(os.sched_getaffinity(0)), "gpu": None}
    if device == "cuda":
        out |= {"gpu": torch.cuda.get_device_name(), "cuda": torch.version.cuda}
    return out


def gpu_of_profile(step: Step, steps: int = 2) -> dict[str, Any]:
    """Kernels and copies of a step: their sum, the time in which at least one ran, and how many and how long by name."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(steps):
            step()
        step.finish()
    cuda = torch.autograd.DeviceType.CUDA
    events = [e for e in profile.profiler.kineto_results.events() if e.device_type() == cuda and not e.is_user_annotation()]
    kernels: dict[str, list[float]] = {}
    for e in events:
        of = kernels.setdefault(e.name()[:NAME_CHARS], [0, 0.0])
        of[0] += 1 / steps
        of[1] += e.duration_ns() / 1e3 / steps
    longest = sorted(kernels.items(), key=lambda item: -item[1][1])
    return _gpu([(e.start_ns(), e.start_ns() + e.duration_ns()) for e in events], steps, 1e6) | {
        "kernels": {name: [n, round(us, 1)] for name, (n, us) in longest}}


def gpu_of_trace(path: Path) -> dict[str, Any]:
    with gzip.open(path) as file:
        events = json.load(file)["traceEvents"]
    steps = {e["name"] for e in events if str(e.get("name", "")).startswith("ProfilerStep#")}
    spans = [(e["ts"], e["ts"] + e["dur"]) for e in events if e.get("cat") in GPU_KINDS]
    ranges = [e["dur"] / 1e3 for e in events if str(e.get("name", "")).startswith("ProfilerStep#") and e.get("cat") == "user_annotation"]
    return _gpu(spans, max(1, len(steps)), 1e3) | {"profiled_ms": ranges}


def _gpu(spans: list[tuple[float, float]], steps: int, per_ms: float) -> dict[str, Any]:
    busy, end = 0.0, 0.0
    for start, stop in sorted(spans):
        busy += max(0.0, stop - max(start, end))
        end = max(end, stop)
    return {"gpu_ms": round(sum(b - a for a, b in spans) / per_ms / steps, 4), "gpu_busy_ms": round(busy / per_ms / steps, 4),
            "gpu_launched": len(spans) // steps}


def record(step: Step, path: Path, before_writing: Callable[[], None] = nothing, measured: int = FULL.measured, steps: int = 2) -> dict[str, Any]:
    """Records the step with the project's recorder, and returns what that measured."""
    recorder = _recorder()
    layers = not (step.switches.get("compile") or step.switches.get("graph"))
    with recorder.record(path, steps=steps, measure=measured, warmup=1, layers=layers, model=step.model if layers else None) as r:
        for _ in range(r.steps_needed - 1):
            step()
            r.step()
        step()
        step.finish()
        before_writing()
        r.step()
    if not path.exists():
        raise RuntimeError(f"the recorder wrote no file: it ended in phase '{r.phase}'")
    return r.figures or {}


def _recorder() -> Any:
    """foretrace.recorder without the compiled module that `import foretrace` loads."""
    if "foretrace" not in sys.modules:
        package = types.ModuleType("foretrace")
        package.__path__ = [str(Path(__file__).resolve().parents[2] / "python" / "foretrace")]
        sys.modules["foretrace"] = package
    from foretrace import recorder
    return recorder


def _once(call: Callable[[], None]) -> Callable[[], None]:
    left = [call]
    return lambda: left.pop()() if left else None
