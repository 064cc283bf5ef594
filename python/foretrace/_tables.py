"""Rows of the small tables of a trace, as frozen dataclasses."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Lane:
    """Where events happen one after another: a CPU thread or a GPU stream."""

    index: int
    kind: str  # "cpu_thread", "gpu_stream", "other"
    label: str  # "Thread 400 (python)", "GPU 0 stream 7"
    pid: str  # as spelled in the file
    tid: str
    pid_number: int | None  # process id, or device index on GPU lanes
    tid_number: int | None  # thread id, or stream id
    name: str
    process_name: str
    process_labels: str
    sort_index: int | None


@dataclass(frozen=True)
class Device:
    """A GPU as the trace describes it. None: the trace does not say."""

    id: int
    name: str
    total_memory_bytes: int | None
    compute_major: int | None
    compute_minor: int | None
    sm_count: int | None
    warp_size: int | None
    max_threads_per_block: int | None
    max_threads_per_sm: int | None
    registers_per_sm: int | None
    registers_per_block: int | None
    shared_memory_per_block: int | None
    shared_memory_per_block_optin: int | None
    shared_memory_per_sm: int | None


@dataclass(frozen=True)
class Distributed:
    """The place of this trace in a job of several ranks."""

    rank: int | None
    world_size: int | None
    backend: str
    nccl_version: str


@dataclass(frozen=True)
class Category:
    """A distinct `cat` of the file and what it means."""

    name: str
    kind: str  # one of foretrace.KINDS


@dataclass(frozen=True)
class Problem:
    """Bad records of one sort, counted, with the first of them."""

    name: str
    severity: str  # "info", "data_loss"
    meaning: str
    count: int
    example: str
    offset: int | None


@dataclass(frozen=True)
class StepRow:
    """A training iteration as a row of `trace.steps`; `trace.step(row)` is the step itself. Times in ns, on the scale of Trace.start."""

    name: str  # "ProfilerStep#4"
    number: int
    start: int
    end: int
    lane: int | None  # index into Trace.lanes
    waited: int = 0  # ns between start and end spent waiting for work that is not in the file

    @property
    def duration(self) -> int:
        """ns, without what it waited for work that is not in the file"""
        return self.end - self.start - self.waited

    @property
    def ms(self) -> float:
        return self.duration / 1e6


@dataclass(frozen=True)
class StepCandidate:
    """A range that could mark steps."""

    name: str  # numbers as "%d"; what load(steps_by=…) takes
    count: int
    median: int  # ns
    gpu_share: float  # of the trace's GPU time, launched inside of it

    @property
    def ms(self) -> float:
        return self.median / 1e6


class Steps(Sequence[StepRow]):
    """The steps of a trace by start time, and how they were found."""

    def __init__(self, source: str, steps: list[StepRow], median: int | None, marked_by: str = "") -> None:
        self.marked_by = marked_by
        """The ranges they were found by; empty where no name decided."""
        self.source = source
        """"ProfilerStep ranges", "optimizer ranges", …"""
        self._steps = steps
        self._median = median

    @property
    def median(self) -> StepRow:
        """The step reports use by default: the median by duration, of an even count the lower one."""
        if self._median is None:
            raise IndexError("the trace has no timed event, and so no step")
        return self._steps[self._median]

    def __len__(self) -> int:
        return len(self._steps)

    @overload
    def __getitem__(self, index: int) -> StepRow: ...
    @overload
    def __getitem__(self, index: slice) -> list[StepRow]: ...
    def __getitem__(self, index: Any) -> Any:
        return self._steps[index]

    def __iter__(self) -> Iterator[StepRow]:
        return iter(self._steps)

    def to_pandas(self) -> pandas.DataFrame:
        """One row for each step: name, number, ms, start, end (ns)."""
        import pandas as pd

        return pd.DataFrame([{"step": s.name, "number": s.number, "ms": s.ms, "start": s.start, "end": s.end} for s in self])

    def __repr__(self) -> str:
        rows = "".join(f"\n  {s.name}: {s.ms:.3f} ms" for s in self._steps)
        return f"{len(self._steps)} step(s) from {self.source}{rows}"


class Strings(Sequence[str]):
    """The interned strings of a trace; name ids index into it. Strings become Python objects when asked for."""

    def __init__(self, core: Any) -> None:
        self._core = core
        self._all: list[str] | None = None

    def __len__(self) -> int:
        return int(self._core.string_count())

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self.to_list()[index]
        i = int(index)
        n = len(self)
        if i < 0:
            i += n
        if not 0 <= i < n:
            raise IndexError(f"string {index} of {n}")
        return self._all[i] if self._all is not None else self._core.string(i)

    def to_list(self) -> list[str]:
        """All of them; made once."""
        if self._all is None:
            self._all = self._core.string_list()
        return list(self._all)

    def __repr__(self) -> str:
        return f"<{len(self)} strings>"


def json_value(raw: str) -> Any:
    """A JSON value, or its text where it is none."""
    try:
        return json.loads(raw, strict=False)
    except ValueError:
        return {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}.get(raw.lower(), raw)
