"""The same step on other GPUs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ._report_rows import rows
from ._reports import Report
from ._result import Bar


@dataclass(frozen=True)
class GpuTime:
    """The step on one GPU. Times are None where nothing could be predicted; `declined` says why."""

    device: str
    ms: float | None
    low_ms: float | None
    high_ms: float | None
    speedup: float | None
    cpu_bound: bool | None  # the CPU, not the GPU, makes the step as long as it is there
    fits: bool | None  # into its memory; None where the trace has no memory events
    usd_per_hour: float | None
    usd_per_1k_steps: float | None
    steps_per_usd: float | None
    origin: str | None  # where the costs come from
    declined: str | None


class Gpus(Report):
    """A step on several GPUs: `print` it, or use its rows."""

    @cached_property
    def gpus(self) -> tuple[GpuTime, ...]:
        """In the order asked for; declined ones last."""
        return rows(GpuTime, self["predictions"])

    @property
    def ms(self) -> float:
        """The step on the GPU of the trace, without the profiler."""
        return float(self["baseline_ms"])

    def _rows(self) -> list[dict[str, Any]]:
        return list(self["predictions"])

    def _bars(self) -> tuple[list[Bar], float | None]:
        return [(g.device, g.low_ms or g.ms, g.ms, g.high_ms or g.ms) for g in self.gpus if g.ms is not None], self.ms

    def _title(self) -> str:
        return f"{self['step']} on other GPUs"
