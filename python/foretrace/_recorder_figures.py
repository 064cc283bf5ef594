"""What is measured without the profiler: step times, CPU time, allocator peak, and where that was."""

from __future__ import annotations

import os
import platform
import re
import statistics
import time
from typing import Any

from ._recorder_phases import PHASES, PhaseClock
from ._recorder_probe import probe, waited_ns

VERSION = 1
"""Of the figures' layout, their key "version"."""

# A wait of more than this share of a step after the last border: the GPU still works when a step ends.
_TAIL_SHARE = 0.05
# A thread that was ready to run and had no core for more than this share of its time has neighbours.
_SHARED_SHARE = 0.02
# CUDA events that account for less than this share of the time did not see the streams the work ran on.
_SEEN_SHARE = 0.9


class Meter:
    """Times steps at their borders, waiting for the device only before the first and after the last of them.

    Three clocks run side by side: the host's at every border; CUDA events recorded at every border, which tell when the
    device got there and cost no wait; and the whole stretch from wait to wait. Where the device lags behind (a step
    that waits for nothing), the host's borders say when work was queued, not when it was done: the events count.
    """

    def __init__(self, torch: Any, steps: int, memory: bool) -> None:
        self._cuda = torch.cuda if cuda_in_use(torch) else None
        self._memory = self._cuda if memory else None  # whose peak is looked at
        self._events = [self._cuda.Event(enable_timing=True) for _ in range(steps + 1)] if self._cuda else []
        self._borders: list[float] = []
        self._thread = self._process = 0.0
        self._end = 0.0
        self._peak: tuple[int, int] | None = None
        self._torch = torch
        self._phases: PhaseClock | None = None
        self._phase_figures: dict[str, Any] = {}
        self._waited: int | None = None

    def begin(self) -> None:
        self._phases = PhaseClock(self._torch, self._cuda)
        self._phases.settle()
        if self._memory:
            self._memory.reset_peak_memory_stats()
        self._thread, self._process, self._waited = time.thread_time(), time.process_time(), waited_ns()
        self.border(time.perf_counter())

    def border(self, now: float) -> None:
        """The end of a step."""
        assert self._phases is not None
        if self._cuda:
            self._events[len(self._borders)].record()
        if self._borders:
            self._phases.end()
        self._borders.append(now)
        self._phases.begin(now)

    def close(self) -> None:
        """Watches no more. Safe to repeat."""
        if self._phases is not None:
            self._phases.close()

    def finish(self) -> None:
        """After the last border."""
        self._thread = time.thread_time() - self._thread
        self._process = time.process_time() - self._process
        waited = waited_ns()
        self._waited = None if waited is None or self._waited is None else waited - self._waited
        self.close()
        if self._cuda:
            self._cuda.synchronize()
        self._end = time.perf_counter()
        if self._memory:
            self._peak = self._memory.max_memory_allocated(), self._memory.max_memory_reserved()
        assert self._phases is not None
        self._phase_figures = {"phase_ms": self._phases.medians(), "phase_behind_ms": self._phases.behind(),
                               "probe": probe(self._torch, self._cuda)}

    def figures(self) -> dict[str, Any]:
        n = len(self._borders) - 1
        host = [(b - a) * 1e3 for a, b in zip(self._borders, self._borders[1:])]
        device = [a.elapsed_time(b) for a, b in zip(self._events, self._events[1 : n + 1])] if self._cuda else None
        found = choose(host, device, (self._end - self._borders[-1]) * 1e3)
        found |= {
            "measured_steps": n,
            "cpu_ms_per_step": _us(self._process * 1e3 / n),
            "thread_cpu_ms_per_step": _us(self._thread * 1e3 / n),
            "cores_shared": None if self._waited is None else self._waited > _SHARED_SHARE * sum(host) * 1e6,
            "peak_bytes": self._peak[0] if self._peak else None,
            "peak_reserved_bytes": self._peak[1] if self._peak else None,
        }
        return found | self._phase_figures


def choose(host: list[float], device: list[float] | None, tail: float) -> dict[str, Any]:
    """The step's time out of what the clocks say, all in ms.

    host: between borders; device: between the events recorded there; tail: the wait after the last border.
    """
    period = (sum(host) + tail) / len(host)
    times, by = host, "host"
    late = device is not None and tail > _TAIL_SHARE * statistics.median(host)
    if device is not None and late:
        seen = sum(device) >= _SEEN_SHARE * (sum(host) + tail)
        times, by = (device, "cuda_events") if seen else ([], "period")
    ordered = sorted(times)
    return {
        "measured_ms": _us(statistics.median(times) if times else period),
        "measured_p10_ms": _us(ordered[len(ordered) // 10]) if times else None,
        "measured_p90_ms": _us(ordered[len(ordered) * 9 // 10]) if times else None,
        "measured_by": by,
        "period_ms": _us(period),
        "asynchronous": late if device is not None else False,
        "step_ms": [_us(t) for t in times],
        "host_step_ms": [_us(t) for t in host] if by != "host" else None,
    }


def unmeasured() -> dict[str, Any]:
    """The keys of a recording that timed no step."""
    keys = ("measured_ms", "measured_p10_ms", "measured_p90_ms", "measured_by", "period_ms", "asynchronous", "step_ms",
            "host_step_ms", "cpu_ms_per_step", "thread_cpu_ms_per_step", "cores_shared", "peak_bytes", "peak_reserved_bytes",
            "phase_ms", "phase_behind_ms", "probe")
    return dict.fromkeys(keys) | {"measured_steps": 0}


def traced_phases(clock: PhaseClock | None) -> dict[str, float | None]:
    return clock.medians() if clock is not None else dict.fromkeys(PHASES)


def surroundings(torch: Any, rank: int | None, world: int | None) -> dict[str, Any]:
    """The machine and the software, as far as they matter to a step's time."""
    in_use = cuda_in_use(torch)
    return {
        "torch": str(torch.__version__),
        "cuda": torch.version.cuda or getattr(torch.version, "hip", None),
        "python": platform.python_version(),
        "device": torch.cuda.get_device_name() if in_use else "cpu",
    } | host_surroundings() | {
        "intra_op_threads": torch.get_num_threads(),
        "rank": rank,
        "world_size": world,
    }


def host_surroundings() -> dict[str, Any]:
    """The CPU."""
    return {
        "host_cpu": _cpu_name(),
        "host_cpu_count": os.cpu_count(),
        "host_cpus_usable": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
    }


def cuda_in_use(torch: Any) -> bool:
    """Whether this process works on a GPU; never wakes one up to find out."""
    return bool(torch.cuda.is_available() and torch.cuda.is_initialized())


def plain(value: Any) -> Any:
    """The value with texts in plain ASCII: Kineto turns every backslash of a metadata value into a slash, so nothing in
    it may need escaping."""
    if isinstance(value, str):
        return re.sub(r"[^ !#-\[\]-~]", "'", value)
    if isinstance(value, dict):
        return {plain(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value


def _us(ms: float) -> float:
    return round(ms, 4)


def _cpu_name() -> str | None:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as info:
            for line in info:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or None
