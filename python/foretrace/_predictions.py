"""Predictions as objects."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ._errors import DeclinedError
from ._result import Bar, Result

if TYPE_CHECKING:
    from ._graph import Graph


@dataclass(frozen=True)
class Applied:
    """One what-if of a prediction, as it was carried out."""

    whatif: str
    changed: int  # tasks changed, added or removed
    seconds: float  # spent on it


@dataclass(frozen=True)
class PredictedRank:
    """Of a job: where one rank spends the simulated step."""

    rank: int
    wait_ms: float  # inside collectives, for ranks that arrive later
    transfer_ms: float  # of collectives, from the last arrival on
    gpu_ms: float  # kernels and copies, without collectives
    waited_for: int  # collectives at which it arrived last, and others waited
    peak_bytes: int | None


@dataclass(frozen=True)
class Pipeline:
    """Of a model divided into the stages of a pipeline."""

    gpus: int  # that share the layers
    microbatches: int
    bubble_ms: float  # in which the busiest of them waits for the others
    tokens: float | None  # in a step of the whole job; None where the trace does not show its batch
    tokens_per_s: float | None


@dataclass(frozen=True)
class Prediction(Result):
    """A step with changes. Times in ns, low and high are the 10th and 90th percentile; `declined` says why there are none."""

    whatif: str  # "amp + fused-optimizer"
    declined: str | None
    step: int
    low: int
    high: int
    speedup: float  # against the measured step, else the step without the profiler
    gpu_time: int  # sum of kernels and copies
    peak_bytes: int | None  # of the allocator; None where the trace has no memory events
    fits: bool | None  # what is reserved and what the driver keeps into the GPU's memory; None where one is unknown
    samples: float  # in a step, as a multiple of the traced step's
    largest_batch: float | None  # that fits the GPU, as a multiple of the traced one; where the batch changes
    origin: str  # where the costs come from: "measured", "scaled", "modelled", "analytic"
    validated: bool  # all its what-ifs are checked against measurements
    not_modelled: tuple[str, ...]
    applied: tuple[Applied, ...]
    graph: Graph | None = field(repr=False, compare=False)  # the step with the changes
    # Bytes of the peak: parameters, gradients, optimizer_states, activations, …; with fragmentation those reserved.
    peak_parts: dict[str, int] | None = None
    reserved_bytes: int | None = None  # what the allocator takes from the GPU for that peak
    bound: int | None = None  # no step with these changes takes less; None where the trace does not say
    bound_source: str = ""  # what sets the bound: "GPU busy time", "roofline", "PCIe"
    bound_decided: bool = False  # the models predict less, and `step` is the bound
    band_reasons: tuple[str, ...] = ()  # why low and high are this far apart, the largest reason first
    ranks: tuple[PredictedRank, ...] = ()  # of a job, by rank
    fullest_rank: int | None = None  # of a job: the one whose memory this is
    pipeline: Pipeline | None = None  # where a change divides the layers; there is no graph then

    def __post_init__(self) -> None:
        object.__setattr__(self, "ranks", tuple(PredictedRank(**r) if isinstance(r, dict) else r for r in self.ranks))
        if isinstance(self.pipeline, dict):
            object.__setattr__(self, "pipeline", Pipeline(**self.pipeline))
        object.__setattr__(self, "applied", tuple(Applied(*a) if isinstance(a, tuple) else a for a in self.applied))

    @property
    def ms(self) -> float:
        return self._known(self.step) / 1e6

    @property
    def low_ms(self) -> float:
        return self._known(self.low) / 1e6

    @property
    def high_ms(self) -> float:
        return self._known(self.high) / 1e6

    @property
    def gpu_ms(self) -> float:
        return self._known(self.gpu_time) / 1e6

    @property
    def bound_ms(self) -> float | None:
        return None if self.bound is None else self.bound / 1e6

    @property
    def gain(self) -> float:
        """Samples per second, as a multiple of now: what to compare where the batch changes."""
        return self.speedup * self.samples

    @property
    def _reason(self) -> str:
        """`declined` to stand behind `whatif`: without the name where that is of one change only."""
        name = self.whatif.partition(":")[0]
        return (self.declined or "").removeprefix("" if " + " in self.whatif else f"{name}: ")

    def _known(self, value: int) -> int:
        if self.declined is not None:
            raise DeclinedError(f"nothing was predicted. {self.whatif}: {self._reason}")
        return value

    def __str__(self) -> str:
        if self.declined is not None:
            return f"{self.whatif}: declined. {self._reason}"
        memory = "" if self.peak_bytes is None else f", peak {self.peak_bytes / 1e9:.2f} GB"
        memory += ", more than the GPU's memory" if self.fits is False else ""
        rate = "" if self.samples == 1 else f" ({self.gain:.3f} x samples per second)"
        text = (f"{self.whatif}: {self.ms:.3f} ms [{self.low_ms:.3f}, {self.high_ms:.3f}], {self.speedup:.3f} x{rate}, "
                f"GPU {self.gpu_ms:.3f} ms{memory}; costs {self.origin}")
        if self.bound_decided:
            text += f"\n  the bound decided: no step is below {self.bound_ms:.3f} ms ({self.bound_source})"
        return text + "".join(f"\n  not modelled: {what}" for what in self.not_modelled)

    def _repr_html_(self) -> str:
        from ._pictures import band_svg, html_table, paragraphs

        if self.declined is not None:
            return paragraphs([str(self)])
        row = (self.whatif, self.ms, band_svg(self.low_ms, self.ms, self.high_ms, 1.05 * max(self.high_ms, self.ms * self.speedup),
                                              self.ms * self.speedup),
               f"{self.low_ms:.2f} … {self.high_ms:.2f}", f"{self.gain:.2f} x", self.gpu_ms,
               "" if self.peak_bytes is None else f"{self.peak_bytes / 1e9:.2f} GB", self.origin)
        return (html_table(("change", "ms", "10 % … 90 %, today dashed", "", "samples/s", "GPU ms", "peak", "costs"), [row]) +
                paragraphs(f"not modelled: {what}" for what in self.not_modelled))

    def _rows(self) -> list[dict[str, Any]]:
        if self.declined is not None:
            return [{"whatif": self.whatif, "declined": self.declined}]
        return [{"whatif": self.whatif, "ms": self.ms, "low_ms": self.low_ms, "high_ms": self.high_ms, "speedup": self.speedup,
                 "gain": self.gain, "gpu_ms": self.gpu_ms, "peak_bytes": self.peak_bytes, "fits": self.fits,
                 "origin": self.origin, "validated": self.validated, "declined": None}]

    def _bars(self) -> tuple[list[Bar], float | None]:
        return [(self.whatif, self.low_ms, self.ms, self.high_ms)], self.ms * self.speedup

    def _title(self) -> str:
        return self.whatif


class Predictions(list[Prediction], Result):
    """Several changes, each alone."""

    def __str__(self) -> str:
        return "\n".join(str(p) for p in self)

    def _repr_html_(self) -> str:
        return "".join(p._repr_html_() for p in self)

    def _answered(self) -> list[Prediction]:
        return [p for p in self if p.declined is None]

    @property
    def ms(self) -> float | None:
        """The shortest of them; None where none applies."""
        return min((p.ms for p in self._answered()), default=None)

    def _rows(self) -> list[dict[str, Any]]:
        return [row for p in self for row in p._rows()]

    def _bars(self) -> tuple[list[Bar], float | None]:
        answered = self._answered()
        return [(p.whatif, p.low_ms, p.ms, p.high_ms) for p in answered], answered[0].ms * answered[0].speedup if answered else None

    def _title(self) -> str:
        return "each change alone"
