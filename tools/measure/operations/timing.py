"""Times passes on a GPU and says which kernels ran.

Before every repetition a buffer larger than L2 is read, then the operation's newest operands are written again, as the
operation before it would have done in a training step. A kernel that does nothing else in PyTorch (`spin_kernel`) marks where a
repetition begins and ends: many passes share one profiler session, and kernels are told apart by the marks between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import torch
from torch.autograd import ProfilerActivity

from .cases import Case, Pass, set_precision

MARK = "spin_kernel"
NAME_LENGTH = 160
FLUSH_ELEMENTS = 40 << 20  # 160 MB of fp32
LONG_MS, MOST, FEWEST = 15.0, 7, 2


@dataclass
class Event:
    name: str
    start: int
    duration: int  # ns


@dataclass
class Timed:
    """A pass that ran once: what it keeps and needs, then how it was timed."""

    case: Case
    run: Pass
    repetitions: int = MOST
    kept_bytes: int = 0
    workspace_bytes: int = 0
    kernels: list[list[Event]] = field(default_factory=list)

    def row(self) -> dict[str, Any]:
        sums = [sum(e.duration for e in r) / 1e3 for r in self.kernels]
        middle = min(self.kernels, key=lambda r: abs(sum(e.duration for e in r) / 1e3 - median(sums)))
        return {"pass": self.run.name, "kernel_us": f"{median(sums):.3f}", "min_us": f"{min(sums):.3f}",
                "busy_us": f"{median(busy_us(r) for r in self.kernels):.3f}", "n_kernels": len(middle), "reps": len(self.kernels),
                "workspace_bytes": self.workspace_bytes, "kept_bytes": self.kept_bytes, "kernels": described(middle)}


def short(name: str) -> str:
    for word in ("void ", "at::native::", "(anonymous namespace)::", "cudnn::engines_precompiled::"):
        name = name.replace(word, "")
    return name[:NAME_LENGTH]


def described(kernels: Sequence[Event]) -> str:
    """`name xCOUNT@US | …` in the order in which names first ran."""
    found: dict[str, list[int]] = {}
    for e in kernels:
        found.setdefault(short(e.name), []).append(e.duration)
    return " | ".join(f"{name} x{len(ns)}@{sum(ns) / 1e3:.2f}" for name, ns in found.items())


def busy_us(kernels: Sequence[Event]) -> float:
    """Time during which any of them ran."""
    total = end = 0
    for e in sorted(kernels, key=lambda e: e.start):
        total += max(0, e.start + e.duration - max(end, e.start))
        end = max(end, e.start + e.duration)
    return total / 1e3


def between_marks(events: Sequence[Event]) -> list[list[Event]]:
    """What ran between the first mark and the second, the third and the fourth, and so on."""
    parts: list[list[Event]] = []
    inside = False
    for e in sorted(events, key=lambda e: e.start):
        if MARK in e.name:
            inside = not inside
            if inside:
                parts.append([])
        elif inside:
            parts[-1].append(e)
    return parts


def _gpu_events(result: Any) -> list[Event]:
    return [Event(e.name(), e.start_ns(), e.duration_ns()) for e in result.events()
            if e.device_type() == torch.autograd.DeviceType.CUDA and "Sync" not in e.name()]


class Clock:
    def __init__(self) -> None:
        self._buffer = torch.zeros(FLUSH_ELEMENTS, device="cuda")
        self._config = torch.autograd.ProfilerConfig(torch.autograd.ProfilerState.KINETO, False, False, False, False, False,
                                                     torch._C._profiler._ExperimentalConfig())
        torch.cuda._sleep(1)
        torch.cuda.synchronize()

    def prepared(self, case: Case, runs: Sequence[Pass]) -> list[Timed]:
        """Each pass run twice: the first time chooses algorithms and loads kernels; the second is looked at."""
        set_precision(case.dtype)
        out = []
        for run in runs:
            timed = Timed(case, run)
            self._once(run)
            state = run.before() if run.before else None
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            was = torch.cuda.memory_allocated()
            begin.record()
            result = run.call(state)
            end.record()
            timed.kept_bytes = torch.cuda.memory_allocated() - was
            timed.workspace_bytes = torch.cuda.max_memory_allocated() - torch.cuda.memory_allocated()
            del result, state
            end.synchronize()
            timed.repetitions = max(FEWEST, min(MOST, int(LONG_MS / max(begin.elapsed_time(end), 1e-3))))
            out.append(timed)
        return out

    def time(self, passes: Sequence[Timed]) -> bool:
        """Fills in kernels. False: marks were lost, nothing was filled in."""
        activities = {ProfilerActivity.CUDA}
        torch.autograd._prepare_profiler(self._config, activities)
        torch.autograd._enable_profiler(self._config, activities)
        for timed in passes:
            set_precision(timed.case.dtype)
            for _ in range(timed.repetitions):
                state = timed.run.before() if timed.run.before else None
                self._buffer.sum()
                for tensor in timed.run.newest:
                    tensor.data.mul_(1)
                torch.cuda._sleep(1)
                timed.run.call(state)
                torch.cuda._sleep(1)
                del state
        torch.cuda.synchronize()
        parts = between_marks(_gpu_events(torch.autograd._disable_profiler()))
        if len(parts) != sum(t.repetitions for t in passes):
            return False
        at = iter(parts)
        for timed in passes:
            timed.kernels = [next(at) for _ in range(timed.repetitions)]
        return True

    @staticmethod
    def _once(run: Pass) -> None:
        run.call(run.before() if run.before else None)
