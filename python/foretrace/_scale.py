"""The same step on N workers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ._band import Band
from ._result import Bar, Result

if TYPE_CHECKING:
    from ._graph import Graph


@dataclass(frozen=True)
class Scaled(Result, Band):
    """A step of several workers. Times in ns; low and high are the 10th and 90th percentile."""

    workers: int
    network: str
    step: int
    low: int
    high: int
    communication: int
    exposed_communication: int  # communication during which nothing is computed
    efficiency: float  # one worker's step over this one: N workers do N times the work
    buckets: int
    peak_bytes: int | None  # of one worker's allocator; None where the trace has no memory events
    origin: str  # where the costs come from: "measured", "scaled", "modelled", "analytic"
    validated: bool  # the scheme is checked against measurements
    not_modelled: tuple[str, ...]
    graph: Graph = field(repr=False, compare=False)  # of one worker, with the communication

    @property
    def ms(self) -> float:
        return self.step / 1e6

    @property
    def exposed_ms(self) -> float:
        return self.exposed_communication / 1e6

    def _rows(self) -> list[dict[str, Any]]:
        return [{"workers": self.workers, "network": self.network, "ms": self.ms, "low_ms": self.low_ms, "high_ms": self.high_ms,
                 "exposed_ms": self.exposed_ms, "efficiency": self.efficiency, "buckets": self.buckets,
                 "peak_bytes": self.peak_bytes, "origin": self.origin, "validated": self.validated}]

    def _bars(self) -> tuple[list[Bar], float | None]:
        return [(f"{self.workers} workers", self.low_ms, self.ms, self.high_ms)], self.ms * self.efficiency

    def _title(self) -> str:
        return f"{self.workers} workers over {self.network}"

    def __str__(self) -> str:
        text = (f"{self.workers} workers over {self.network}: {self.ms:.3f} ms [{self.low_ms:.3f}, {self.high_ms:.3f}], "
                f"{self.exposed_ms:.3f} ms of communication exposed, efficiency {100 * self.efficiency:.1f} %; costs {self.origin}")
        return text + "".join(f"\n  not modelled: {what}" for what in self.not_modelled)
