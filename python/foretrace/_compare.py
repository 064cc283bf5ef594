"""Two recordings of one program, before and after a change."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Union, overload

from . import _core
from ._errors import UsageError, make_error
from ._ranks import Job
from ._reports import Report
from ._result import Bar, bar
from ._trace import Trace, load
from ._width import report_width

Recording = Union[str, "os.PathLike[str]", Trace]


@dataclass(frozen=True)
class Cause:
    """Something that differs beyond noise. `ms`: after less before, GPU time of kernels, CPU time of CPU work."""

    what: str
    where: str
    ms: float
    of: str  # "setup", "kernels", "work", "cpu", "waits", "memory", "recording"
    whatif: str  # the change of the catalogue that it is; empty when it is none


@dataclass(frozen=True)
class ComparedPart:
    """A part of the step on both sides, judged by its own noise. `step_pct`: the change of the step if only this part changed."""

    name: str  # "GPU work", "CPU work", "communication", "waits"
    before_ms: float
    after_ms: float
    change_pct: float
    noise_pct: float
    low_pct: float  # interval of the change: 95 %, or 99 % with one recording per side
    high_pct: float
    p_value: float
    step_pct: float


class _Compared(Report):
    """What every comparison says of the step."""

    def __init__(self, text: str, raw: str, markdown: str) -> None:
        super().__init__(text, raw)
        self._markdown = markdown

    @property
    def before_ms(self) -> float:
        return float(self["before"]["ms"])

    @property
    def after_ms(self) -> float:
        return float(self["after"]["ms"])

    @property
    def ms(self) -> float:
        """The step after the change."""
        return self.after_ms

    def _title(self) -> str:
        return f"{self.before_ms:.1f} ms before, {self.after_ms:.1f} ms after"

    @property
    def change_pct(self) -> float:
        """Of the step; positive is slower."""
        return float(self["change_pct"])

    @property
    def noise_pct(self) -> float:
        """A step slower by this may be noise."""
        return float(self["noise_pct"])

    @property
    def beyond_noise(self) -> bool:
        return bool(self["beyond_noise"])

    @property
    def passed(self) -> bool | None:
        """Whether the gate passed; None without one. An inconclusive gate has not passed: see `outcome`."""
        return None if self["outcome"] is None else self["outcome"] == "passed"

    @property
    def outcome(self) -> str | None:
        """"passed", "failed" or "inconclusive" (the recordings cannot tell); None without a gate."""
        value: str | None = self["outcome"]
        return value

    @property
    def recordings_needed(self) -> int | None:
        """Recordings per side that would decide an inconclusive gate; None where it is decided, or where more than 100 would be needed."""
        value: int | None = self["recordings_needed"]
        return value

    @property
    def p_value(self) -> float:
        """Probability that chance alone gives a change of the step this large."""
        return float(self["p_value"])

    @property
    def sentences(self) -> tuple[str, ...]:
        return tuple(self["sentences"])

    @cached_property
    def causes(self) -> tuple[Cause, ...]:
        """What did it, most telling first; of a job, what all ranks share."""
        return tuple(Cause(c["what"], c["where"], c["ms"], c["of"], c["whatif"]) for c in self["causes"])

    @property
    def prediction(self) -> dict[str, Any] | None:
        """BEFORE predicted with the change that was asked for, against AFTER: errors of step and memory, and of one rank of
        GPU time and families."""
        value: dict[str, Any] | None = self._values.get("prediction")
        return value

    def markdown(self) -> str:
        """For a comment under a pull request."""
        return self._markdown


class Comparison(_Compared):
    """Is the step slower, by more than steps differ anyway, and what did it? `print` it, or use its properties."""

    @cached_property
    def parts(self) -> tuple[ComparedPart, ...]:
        """GPU work, CPU work, communication and waits."""
        return tuple(ComparedPart(**part) for part in self["parts"])

    def _rows(self) -> list[dict[str, Any]]:
        """One row for each part of the step."""
        return [asdict(part) for part in self.parts]

    def _bars(self) -> tuple[list[Bar], float | None]:
        return [bar(f"{part.name}, {when}", ms) for part in self.parts
                for when, ms in (("before", part.before_ms), ("after", part.after_ms))], None

    def _repr_html_(self) -> str:
        from ._pictures import html_table, paragraphs

        rows = [(r["name"], r["before_ms"], r["after_ms"], r["after_ms"] - r["before_ms"]) for r in self["tables"]["families"]]
        return paragraphs(self.sentences) + html_table(("family of kernels", "before ms", "after ms", "change ms"), rows)


class JobComparison(_Compared):
    """Is the step of a job slower, and which rank, group or collective did it? `print` it, or use its properties."""

    @property
    def changed_ranks(self) -> tuple[int, ...]:
        """Ranks whose own work changed beyond noise, and with it their step."""
        return tuple(rank["rank"] for rank in self["ranks"] if rank["changed"])

    def _rows(self) -> list[dict[str, Any]]:
        """One row for each rank that is on both sides."""
        return [{key: value for key, value in rank.items() if key not in ("parts", "causes")} for rank in self["ranks"]]

    def _bars(self) -> tuple[list[Bar], float | None]:
        return [bar(f"rank {rank['rank']}, {when}", rank[f"{when}_ms"]) for rank in self["ranks"] for when in ("before", "after")], None

    def _repr_html_(self) -> str:
        from ._pictures import html_table, paragraphs

        rows = [(r["rank"], r["before_ms"], r["after_ms"], r["own_pct"], r["wait_after_ms"] - r["wait_before_ms"]) for r in self["ranks"]]
        return paragraphs(self.sentences) + html_table(("rank", "before ms", "after ms", "own work %", "waits ms"), rows)


def _side(given: Recording | Iterable[Recording]) -> list[_core.Trace]:
    many = [given] if isinstance(given, (str, os.PathLike, Trace)) else list(given)
    return [(one if isinstance(one, Trace) else load(one))._core for one in many]


@overload
def compare(before: Job, after: Job, *whatifs: str, gate: float | None = None, step: int | None = None,
            before_ms: float | None = None, after_ms: float | None = None) -> JobComparison: ...


@overload
def compare(before: Recording | Iterable[Recording], after: Recording | Iterable[Recording], *whatifs: str,
            gate: float | None = None, step: int | None = None, before_ms: float | None = None,
            after_ms: float | None = None) -> Comparison: ...


def compare(before: Job | Recording | Iterable[Recording], after: Job | Recording | Iterable[Recording], *whatifs: str,
            gate: float | None = None, step: int | None = None, before_ms: float | None = None,
            after_ms: float | None = None) -> Comparison | JobComparison:
    """What changed between two recordings, and whether the step got slower.

    Either side may be several recordings of the same program: what they differ by is then the noise. Two jobs (`load_ranks`) are
    compared with all their ranks. whatifs: BEFORE predicted with these changes, stacked, against AFTER. gate: percent; `outcome` says
    whether the step is slower by more than that beyond noise, or that the recordings cannot tell. before_ms, after_ms: the steps
    without the profiler, where the recorder did not store them.

    >>> print(foretrace.compare("main.json.gz", "branch.json.gz", gate=3))
    >>> foretrace.compare(foretrace.load_ranks("monday/"), foretrace.load_ranks("tuesday/")).changed_ranks
    """
    if (before_ms is None) != (after_ms is None):
        raise ValueError("before_ms and after_ms go together")
    how = (step, before_ms, after_ms, gate, list(whatifs), report_width())
    if isinstance(before, Job) and isinstance(after, Job):
        return JobComparison(*_core.compare_jobs(before._core, after._core, *how))
    if isinstance(before, Job) or isinstance(after, Job):
        raise make_error(UsageError, "one side is a job and the other is not", hint="read both with load_ranks, or give traces of one rank")
    return Comparison(*_core.compare(_side(before), _side(after), *how))
