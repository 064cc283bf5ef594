"""Trace: the columns of a trace as NumPy arrays, without copying."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _core
from ._memory_bound import memory_bound
from ._tables import Category, Device, Distributed, Lane, Problem, StepCandidate, StepRow, Steps, Strings, json_value

if TYPE_CHECKING:
    import pandas
    import pyarrow

    from ._step import Step

ABSENT: int = _core.ABSENT
"""Marks an integer (correlation, external_id, fields of side tables) that an event does not carry."""
NO_ARGS: int = 0xFFFFFFFF
"""In Trace.args_id and Trace.side: none."""
KINDS: tuple[str, ...] = _core.KINDS
"""Names of the event kinds; the numbers of Trace.kind index into it."""

_SIDE_TYPES = {
    "op_ids": np.dtype([("record_function_id", "i8"), ("sequence_number", "i8"), ("event_index", "i8")]),
    "python_ids": np.dtype([("id", "i8"), ("parent_id", "i8"), ("event_index", "i8")]),
    "memory_ids": np.dtype([("address", "i8"), ("bytes", "i8"), ("total_allocated", "i8"), ("total_reserved", "i8"),
                            ("event_index", "i8")]),
    "sync_ids": np.dtype([("event_id", "i8"), ("record_correlation", "i8")]),
    "copy_ids": np.dtype([("bytes", "i8"), ("gbytes_per_s", "f8")]),
}
# kind -> its side table, and the argument each field of it came from
_SIDE_OF_KIND = {
    "cpu_op": "op_ids", "annotation": "op_ids", "python": "python_ids", "memory": "memory_ids", "sync": "sync_ids",
    "cuda_event": "sync_ids", "memcpy": "copy_ids", "memset": "copy_ids",
}
_ARGUMENT_OF_FIELD = {
    "record_function_id": "Record function id", "sequence_number": "Sequence number", "event_index": "Ev Idx",
    "id": "Python id", "parent_id": "Python parent id", "address": "Addr", "bytes": "Bytes",
    "total_allocated": "Total Allocated", "total_reserved": "Total Reserved",
    "record_correlation": "wait_on_cuda_event_record_corr_id",
}
_FLOWS = ("flow_start", "flow_end")


class Trace:
    """What a profiler wrote: one row per event of the file, in the order of the file.

    Columns are read-only NumPy arrays over the memory the importer filled; they stay valid as long as any of them is
    alive. Times are int64 nanoseconds relative to `base_time_ns`.

    >>> trace = foretrace.load("examples/resnet50-h200.json.gz")
    >>> kernels = trace.select("kernel")
    >>> trace.duration[kernels].sum() / 1e6
    """

    def __init__(self, core: _core.Trace) -> None:
        self._core = core
        self._parsed: dict[int, dict[str, Any]] = {}

    def __len__(self) -> int:
        return len(self._core)

    def __repr__(self) -> str:
        steps = self.steps
        return (f"<foretrace.Trace {self.path!r}: {len(self):,} events on {len(self.lanes)} lanes, {len(steps)} step(s)"
                f" from {steps.source}>")

    # -- the file

    @property
    def path(self) -> str:
        return self._core.path()

    @property
    def format(self) -> str:
        """The importer's name, "kineto"."""
        return self._core.format()

    @property
    def input_bytes(self) -> int:
        """Size of the input, uncompressed."""
        return self._core.input_bytes()

    @property
    def partial(self) -> bool:
        """The input was cut off and read with partial=True."""
        return self._core.partial()

    @property
    def base_time_ns(self) -> int:
        """Absolute time of an event in ns = base_time_ns + start. 0 when the file gives absolute times itself."""
        return self._core.base_time_ns()

    @property
    def nbytes(self) -> int:
        """Memory held by columns and tables."""
        return self._core.bytes()

    @cached_property
    def metadata(self) -> dict[str, Any]:
        """Top-level keys of the file other than its events. May hold host and user names."""
        return {key: json_value(raw) for key, raw in self._core.metadata()}

    @cached_property
    def devices(self) -> list[Device]:
        return [Device(**d) for d in self._core.devices()]

    @cached_property
    def distributed(self) -> Distributed | None:
        """None when the file does not say that it is one rank of several."""
        info = self._core.distributed()
        return None if info is None else Distributed(**info)

    @cached_property
    def problems(self) -> list[Problem]:
        """Bad records, counted by name; empty for a clean file."""
        return [Problem(**p) for p in self._core.problems()]

    @cached_property
    def lanes(self) -> list[Lane]:
        return [Lane(**lane) for lane in self._core.lanes()]

    @cached_property
    def categories(self) -> list[Category]:
        return [Category(name, KINDS[kind]) for name, kind in self._core.categories()]

    @cached_property
    def strings(self) -> Strings:
        """Interned strings; `name_id` indexes into it."""
        return Strings(self._core)

    @cached_property
    def steps(self) -> Steps:
        source, steps, median, marked_by = self._core.steps()
        return Steps(source, [StepRow(**s) for s in steps], median, marked_by)

    def steps_by(self, name: str) -> Steps:
        """The steps by ranges of this name (a pattern with *, or without its numbers), instead of those found.

        Graphs and predictions follow the steps the trace was loaded with: `foretrace.load(path, steps_by=name)`.
        """
        source, steps, median, marked_by = self._core.steps_by(name)
        return Steps(source, [StepRow(**s) for s in steps], median, marked_by)

    @cached_property
    def step_candidates(self) -> list[StepCandidate]:
        """Ranges that could mark steps, those that hold most of the GPU's time first."""
        return [StepCandidate(**c) for c in self._core.step_candidates()]

    # -- columns

    @cached_property
    def start(self) -> NDArray[np.int64]:
        return self._core.column("start")

    @cached_property
    def duration(self) -> NDArray[np.int64]:
        """ns; 0 for instants and flows."""
        return self._core.column("duration")

    @cached_property
    def name_id(self) -> NDArray[np.uint32]:
        return self._core.column("name")

    @cached_property
    def lane_id(self) -> NDArray[np.uint32]:
        """Index into lanes."""
        return self._core.column("lane")

    @cached_property
    def category_id(self) -> NDArray[np.uint16]:
        """Index into categories."""
        return self._core.column("category")

    @cached_property
    def correlation(self) -> NDArray[np.int64]:
        """Correlation id; the flow's id on flow events; ABSENT when none."""
        return self._core.column("correlation")

    @cached_property
    def external_id(self) -> NDArray[np.int64]:
        return self._core.column("external_id")

    @cached_property
    def args_id(self) -> NDArray[np.uint32]:
        """Which distinct argument tuple the event carries; NO_ARGS when none."""
        return self._core.column("args")

    @cached_property
    def side(self) -> NDArray[np.uint32]:
        """Row in the side table of the event's kind; NO_ARGS when none."""
        return self._core.column("side")

    @cached_property
    def ph(self) -> NDArray[np.bytes_]:
        """Chrome phase letter: b"X", b"i", …"""
        return self._core.column("ph").view("S1")

    @cached_property
    def op_ids(self) -> NDArray[np.void]:
        """Side table of operations and annotations: record_function_id, sequence_number, event_index."""
        return self._side("op_ids")

    @cached_property
    def python_ids(self) -> NDArray[np.void]:
        """Side table of Python frames: id, parent_id, event_index."""
        return self._side("python_ids")

    @cached_property
    def memory_ids(self) -> NDArray[np.void]:
        """Side table of allocator events: address, bytes, total_allocated, total_reserved, event_index."""
        return self._side("memory_ids")

    @cached_property
    def sync_ids(self) -> NDArray[np.void]:
        """Side table of synchronisation and CUDA-event records: event_id, record_correlation."""
        return self._side("sync_ids")

    @cached_property
    def copy_ids(self) -> NDArray[np.void]:
        """Side table of copies and fills: bytes, gbytes_per_s."""
        return self._side("copy_ids")

    def _side(self, name: str) -> NDArray[np.void]:
        return self._core.column(name).view(_SIDE_TYPES[name])

    @cached_property
    def kind(self) -> NDArray[np.uint8]:
        """What each event is, as an index into foretrace.KINDS. Computed from the category, made once."""
        kinds = np.array([KINDS.index(c.kind) for c in self.categories] or [0], dtype=np.uint8)
        out = kinds[self.category_id]
        out.flags.writeable = False
        return out

    # -- selections

    def select(self, kind: str | None = None, *, name: str | None = None, step: StepRow | Step | None = None) -> NDArray[np.int64]:
        """Indices of events of a kind (one of foretrace.KINDS), with exactly this name, starting within a step."""
        mask = np.ones(len(self), dtype=bool)
        if kind is not None:
            if kind not in KINDS:
                raise ValueError(f"unknown kind {kind!r}; there are {', '.join(KINDS)}")
            mask &= self.kind == KINDS.index(kind)
        if name is not None:
            ids = [i for i, s in enumerate(self.strings.to_list()) if s == name]
            mask &= self.name_id == ids[0] if ids else False
        if step is not None:
            mask &= (self.start >= step.start) & (self.start < step.end)
        return np.flatnonzero(mask)

    def names(self, events: ArrayLike | None = None) -> NDArray[np.object_]:
        """Names of events (all by default) as str objects; equal names share one object."""
        table = np.array(self.strings.to_list(), dtype=object)
        return table[self.name_id if events is None else self.name_id[np.asarray(events)]]

    def arg(self, key: str, events: ArrayLike | None = None) -> NDArray[np.object_]:
        """One argument of events (all by default), None where absent. Each distinct tuple is decoded once.

        >>> trace.arg("grid", trace.select("kernel"))
        """
        ids = self.args_id if events is None else self.args_id[np.asarray(events)]
        out = np.full(len(ids), None, dtype=object)
        distinct, inverse = np.unique(ids, return_inverse=True)
        values = np.empty(len(distinct), dtype=object)
        for i, args_id in enumerate(distinct):
            values[i] = self._tuple(int(args_id)).get(key)
        if len(distinct):
            out[:] = values[inverse]
        return out

    # -- single events

    def args(self, event: int) -> dict[str, Any]:
        """All arguments of an event: what lives in columns and side tables merged with its tuple. A new dict each time."""
        i = self._index(event)
        merged = {k: v for k, v in self._tuple(int(self.args_id[i])).items() if not k.startswith("event.")}
        kind = KINDS[self.kind[i]]
        if self.correlation[i] != ABSENT and kind not in _FLOWS:
            merged["correlation"] = int(self.correlation[i])
        if self.external_id[i] != ABSENT:
            merged["External id"] = int(self.external_id[i])
        if self.side[i] != NO_ARGS:
            row = getattr(self, _SIDE_OF_KIND[kind])[self.side[i]]
            for field in row.dtype.names:
                value = row[field].item()
                if value == ABSENT:
                    continue
                if kind in ("memcpy", "memset"):
                    key = {"bytes": "bytes", "gbytes_per_s": "memory bandwidth (GB/s)"}[field]
                elif field == "event_id":
                    key = "event_id" if kind == "cuda_event" else "wait_on_cuda_event_id"
                else:
                    key = _ARGUMENT_OF_FIELD[field]
                merged[key] = value
        return merged

    def event(self, event: int) -> dict[str, Any]:
        """One event with everything the file says about it, for looking at; times in ns."""
        i = self._index(event)
        lane = self.lanes[self.lane_id[i]]
        kind = KINDS[self.kind[i]]
        out: dict[str, Any] = {
            "name": self.strings[self.name_id[i]], "kind": kind, "cat": self.categories[self.category_id[i]].name,
            "ph": self.ph[i].decode(), "start": int(self.start[i]), "duration": int(self.duration[i]),
            "pid": lane.pid, "tid": lane.tid, "lane": lane.label,
        }
        if kind in _FLOWS and self.correlation[i] != ABSENT:
            out["id"] = int(self.correlation[i])
        for key, value in self._tuple(int(self.args_id[i])).items():
            if key.startswith("event."):
                out[key.removeprefix("event.")] = value
        out["args"] = self.args(i)
        return out

    def _index(self, event: int) -> int:
        i = int(event)
        if i < 0:
            i += len(self)
        if not 0 <= i < len(self):
            raise IndexError(f"event {event} of {len(self)}")
        return i

    def _tuple(self, args_id: int) -> dict[str, Any]:
        if args_id == NO_ARGS:
            return {}
        found = self._parsed.get(args_id)
        if found is None:
            try:
                found = json.loads(self._core.args_text(args_id), strict=False)
            except ValueError:  # a profiler that printed "nan" or "inf"
                found = {key: json_value(raw) for key, raw in self._core.args_pairs(args_id)}
            self._parsed[args_id] = found
        return found

    # -- the graph

    def step(self, number: int | StepRow | Step | None = None, *, without: Iterable[str] = (), device_gaps: bool = True,
             strict: bool = False) -> Step:
        """A step: its graph (its tasks, and why each cannot start earlier), and what can be asked about it.

        number: that in ProfilerStep#N, or one of `steps`; default the median step.
        For studies: without leaves out reasons (names of foretrace.DEPENDENCY_KINDS), device_gaps=False the device's own
        gaps between tasks, and strict=True replaces delays that no rule explains by the usual ones.
        """
        from ._step import build

        return build(self, self._graphs, number, without, device_gaps, strict)

    @cached_property
    def _graphs(self) -> _core.StepGraphs:
        return _core.step_graphs(self._core)

    # -- frames

    def to_pandas(self, events: ArrayLike | None = None) -> pandas.DataFrame:
        """A data frame of events (all by default): start, duration, name, kind, category, lane, correlation, …"""
        from ._frames import to_pandas

        return to_pandas(self, events)

    def to_arrow(self, events: ArrayLike | None = None) -> pyarrow.Table:
        """An Arrow table of events (all by default). Times are not copied; names are dictionary-encoded."""
        from ._frames import to_arrow

        return to_arrow(self, events)


def load(path: str | os.PathLike[str], threads: int = 0, strict: bool = False, partial: bool = False,
         steps_by: str = "", max_memory: float | None = None) -> Trace:
    """Reads a trace: .json, .json.gz or .json.zst, or standard input for "-".

    threads: 0 uses all the machine has; the result is the same for any number.
    strict: raise Error when any record is lost, instead of listing it in Trace.problems. partial: read what a cut-off file still holds.
    steps_by: the name of the range that encloses a step, instead of the ranges foretrace would find (`Trace.step_candidates`).
    max_memory: the most memory to take for it, in 10^9 bytes; more is an UnreadableError. Without it there is no bound.
    """
    _check_threads(threads)
    with memory_bound(max_memory, os.fspath(path)):
        return Trace(_core.load(os.fspath(path), threads, strict, partial, steps_by))


def load_bytes(data: bytes, name: str = "<bytes>", threads: int = 0, strict: bool = False,
               partial: bool = False, steps_by: str = "", max_memory: float | None = None) -> Trace:
    """Reads a trace from memory (compressed or not); `name` is used in messages. The rest as for `load`."""
    _check_threads(threads)
    with memory_bound(max_memory, name):
        return Trace(_core.load_bytes(bytes(data), name, threads, strict, partial, steps_by))


def _check_threads(threads: int) -> None:
    if threads < 0:
        raise ValueError(f"threads must be 0 (all) or more, not {threads}")
