"""Rows of reports, as frozen dataclasses. Fields are named as in the JSON form; None: the trace does not show it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

Row = TypeVar("Row")


def rows(kind: type[Row], values: Iterable[Mapping[str, Any]]) -> tuple[Row, ...]:
    """One object for each; members of the JSON form that have no field here are left to it."""
    names = [f.name for f in fields(kind)]  # type: ignore[arg-type]
    return tuple(kind(**{name: v.get(name) for name in names}) for v in values)


@dataclass(frozen=True)
class Finding:
    """Something a trace lacks, or that is odd about it."""

    name: str  # stable, for scripts: "no_shapes"
    weight: str  # "blocks", "costs", "note"
    what: str
    cost: str  # what it costs a prediction
    remedy: str  # how to record a trace without this lack; may be empty
    count: int  # how many events it concerns; 0 when it is not about single events

    def __str__(self) -> str:
        return f"{self.what} [{self.name}]"


class _GpuTime:
    gpu_ms: float

    @property
    def ms(self) -> float:
        """GPU time."""
        return self.gpu_ms


@dataclass(frozen=True)
class PhaseTime(_GpuTime):
    """A phase of the step: forward, backward, …"""

    phase: str
    gpu_ms: float
    gpu_share: float
    cpu_ms: float
    gpu_tasks: int
    model_flops: float | None  # None where the trace does not show the shapes
    achieved_tflops: float | None  # over its GPU time
    mfu: float | None  # model FLOPs utilisation, 0 to 1


@dataclass(frozen=True)
class LayerTime(_GpuTime):
    """A module of the model, or a group of operations where nothing names modules."""

    layer: str
    type: str
    synthetic: bool
    gpu_ms: float
    forward_gpu_ms: float
    backward_gpu_ms: float
    cpu_ms: float
    gpu_tasks: int
    model_flops: float | None  # None where the trace does not show the shapes
    achieved_tflops: float | None  # over its GPU time
    mfu: float | None  # model FLOPs utilisation, 0 to 1


@dataclass(frozen=True)
class OperationTime(_GpuTime):
    """All calls of an operation."""

    operation: str
    calls: int
    gpu_ms: float
    cpu_ms: float
    gpu_tasks: int


@dataclass(frozen=True)
class KernelTime:
    """All launches of a kernel."""

    kernel: str
    kind: str
    launches: int
    total_ms: float
    mean_us: float
    share: float

    @property
    def ms(self) -> float:
        return self.total_ms


@dataclass(frozen=True)
class ReplayedStep:
    """A step simulated unchanged, compared with the trace. Errors are signed: negative where the replay is shorter."""

    step: str
    number: int
    traced_ms: float
    replayed_ms: float
    error_pct: float
    period_ms: float | None  # where the GPU runs behind the CPU: the distance of the same work in two steps
    error_vs_period_pct: float | None
    frozen_pct: float  # of the step: waits that nothing explains and no change shortens
    strict_error_pct: float | None  # without the lags that no rule explains
    cross_error_pct: float | None  # with the costs of another step in this one's graph
    tasks: int
    dependencies: int

    @property
    def ms(self) -> float:
        return self.traced_ms

    def __str__(self) -> str:
        return f"{self.step}: {self.replayed_ms:.3f} ms replayed, {self.traced_ms:.3f} ms traced, {self.error_pct:+.2f} %"


@dataclass(frozen=True)
class RankTime:
    """One rank of a job in one step, on aligned clocks."""

    rank: int
    offset_ns: int  # of its clock
    step_ms: float
    replayed_ms: float
    wait_ms: float  # for other ranks, inside collectives
    transfer_ms: float
    arrived_last: int  # at so many collectives
    critical_ms: float  # of the job's critical path

    @property
    def ms(self) -> float:
        return self.step_ms
