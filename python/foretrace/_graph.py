"""Graph: the work of one step and why each piece of it cannot start yet."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _core
from ._graph_tables import GraphLane, GraphNotes, Layer, LowerBounds, Unprofiled
from ._step_questions import StepQuestions
from ._tables import Strings
from ._timeline import Timeline, simulate

if TYPE_CHECKING:
    import pandas

    from ._pictures import Picture
    from ._trace import Trace

TASK_KINDS: tuple[str, ...] = _core.TASK_KINDS
"""Names of the kinds of tasks; Graph.kind indexes into it."""
DEPENDENCY_KINDS: tuple[str, ...] = _core.DEPENDENCY_KINDS
"""Names of the reasons to wait; Graph.dep_kind and Timeline.cause_kind index into it."""
PHASES: tuple[str, ...] = _core.PHASES
"""Names of the phases of a step; Graph.phase indexes into it."""
ORIGINS: tuple[str, ...] = _core.ORIGINS
"""Where a cost comes from, from best known to least; Graph.origin indexes into it."""
NO_ID: int = 0xFFFFFFFF
"""In columns that index into something: none."""
WHOLE: int = _core.WHOLE
"""Graph.dep_point counts in parts of a task's cost: 0 is its start, WHOLE its end."""

_SHARE = np.dtype([("from", "u4"), ("point", "u4"), ("lag", "i8"), ("slack", "i8")])


class Graph(StepQuestions):
    """The work of one step, as tasks on lanes and dependencies between them. Never changes.

    A task is a row; ids follow lane order, so a lane is a range of ids, and the task before t on its lane is t - 1. Columns
    are read-only NumPy arrays over the builder's memory. Times are int64 nanoseconds.

    >>> graph = foretrace.load("examples/resnet50-h200.json.gz").step()
    >>> graph.simulate().step_ms
    """

    def __init__(self, core: _core.Graph, trace: Trace | None, step_index: int | None = None,
                 op_names: Callable[[NDArray[np.uint32]], list[str]] | None = None) -> None:
        self._core = core
        self._trace = trace
        self._op_names = op_names  # where there is no trace to ask: a draft's graph
        self._step_index = step_index  # known where the graph is a step of the trace as traced
        self._models = {}

    @classmethod
    def parse(cls, text: str) -> Graph:
        """The graph whose dump() is `text`. It has no trace, and its event ids speak of the one it was built from."""
        return cls(_core.parse_graph(text), None)

    def __len__(self) -> int:
        return len(self._core)

    def __repr__(self) -> str:
        return (f"<foretrace.{type(self).__name__} {self.step_name!r}: {len(self):,} tasks on {len(self.lanes)} lanes, "
                f"{len(self.dep_to):,} dependencies, {self.traced_ms:.3f} ms traced>")

    # -- the step

    @property
    def trace(self) -> Trace | None:
        """What it was built from; None for a graph read from a text or an exported file."""
        return self._trace

    @property
    def step_name(self) -> str:
        """"ProfilerStep#4"."""
        return self._core.step_name()

    @property
    def traced(self) -> int:
        """Length of the step in the trace, ns."""
        return self._core.traced()

    @property
    def traced_ms(self) -> float:
        return self.traced / 1e6

    @property
    def ms(self) -> float:
        """The step as traced; `unprofiled().ms` is the step without the profiler."""
        return self.traced_ms

    @property
    def periodic(self) -> bool:
        """Work outlives the step: its length is the distance between the ends of two steps in a row."""
        return self._core.periodic()

    @property
    def main_lane(self) -> int:
        """The lane that carries the step; its first task is the step's begin."""
        return self._core.main_lane()

    @property
    def last(self) -> int | None:
        """The task whose end ends the step."""
        return self._core.last()

    @cached_property
    def lanes(self) -> list[GraphLane]:
        return [GraphLane(**lane) for lane in self._core.lanes()]

    @cached_property
    def layers(self) -> list[Layer]:
        return [Layer(**layer) for layer in self._core.layers()]

    @cached_property
    def strings(self) -> Strings:
        """Interned strings; `name_id` indexes into it."""
        return Strings(self._core)

    @cached_property
    def notes(self) -> GraphNotes:
        """What the builder could not explain or had to leave out."""
        return GraphNotes(**self._core.notes())

    # -- tasks

    @cached_property
    def kind(self) -> NDArray[np.uint8]:
        """Index into TASK_KINDS."""
        return self._core.column("kind")

    @cached_property
    def cost(self) -> NDArray[np.int64]:
        """Work, ns: waiting is never part of it."""
        return self._core.column("cost")

    @cached_property
    def lane(self) -> NDArray[np.uint32]:
        """Index into lanes."""
        return self._core.column("lane")

    @cached_property
    def lane_lag(self) -> NDArray[np.int64]:
        """Least distance from the end of the task before it on its lane, ns."""
        return self._core.column("lane_lag")

    @cached_property
    def name_id(self) -> NDArray[np.uint32]:
        """Index into strings."""
        return self._core.column("name")

    @cached_property
    def phase(self) -> NDArray[np.uint8]:
        """Index into PHASES."""
        return self._core.column("phase")

    @cached_property
    def layer(self) -> NDArray[np.uint32]:
        """Index into layers, NO_ID when none."""
        return self._core.column("layer")

    @cached_property
    def launch(self) -> NDArray[np.uint32]:
        """Of GPU tasks: the call (a task) that launched it; NO_ID when unknown."""
        return self._core.column("launch")

    @cached_property
    def event(self) -> NDArray[np.uint32]:
        """The event of the trace behind it; NO_ID for waits and the begin."""
        return self._core.column("event")

    @cached_property
    def op(self) -> NDArray[np.uint32]:
        """The innermost operation it works for, an event of the trace; NO_ID when none."""
        return self._core.column("op")

    @cached_property
    def measured(self) -> NDArray[np.int64]:
        """Measured start since the step's begin, ns."""
        return self._core.column("measured")

    @cached_property
    def share(self) -> NDArray[np.uint32]:
        """Row in shares: who made room on the GPU for it; NO_ID when it found room."""
        return self._core.column("share")

    @cached_property
    def origin(self) -> NDArray[np.uint8]:
        """Where the cost comes from, an index into ORIGINS."""
        return self._core.column("origin")

    # -- dependencies: those of task t are dep_begin[t] to dep_begin[t + 1]

    @cached_property
    def dep_begin(self) -> NDArray[np.uint32]:
        """len(graph) + 1 offsets into the columns below."""
        return self._core.column("dep_begin")

    @cached_property
    def dep_from(self) -> NDArray[np.uint32]:
        """The task that has to come first. Computed from dep_begin, made once."""
        out = np.repeat(np.arange(len(self), dtype=np.uint32), np.diff(self.dep_begin))
        out.flags.writeable = False
        return out

    @cached_property
    def dep_to(self) -> NDArray[np.uint32]:
        """The task that waits."""
        return self._core.column("dep_to")

    @cached_property
    def dep_lag(self) -> NDArray[np.int64]:
        """It starts no earlier than this after the first task's point, ns."""
        return self._core.column("dep_lag")

    @cached_property
    def dep_point(self) -> NDArray[np.uint32]:
        """How much of the first task has to be done: WHOLE is all of it, 0 its start."""
        return self._core.column("dep_point")

    @cached_property
    def dep_kind(self) -> NDArray[np.uint8]:
        """Index into DEPENDENCY_KINDS."""
        return self._core.column("dep_kind")

    @cached_property
    def shares(self) -> NDArray[np.void]:
        """Who made room on the GPU: from (a task), point, lag, slack (ignored when `from` starts later than this after the
        task is otherwise ready), in ns."""
        return self._core.shares().view(_SHARE)

    # -- texts

    def names(self, tasks: ArrayLike | None = None) -> NDArray[np.object_]:
        """Names of tasks (all by default) as str objects; equal names share one object."""
        table = np.array(self.strings.to_list(), dtype=object)
        return table[self.name_id if tasks is None else self.name_id[np.asarray(tasks)]]

    def op_names(self, tasks: ArrayLike | None = None) -> NDArray[np.object_]:
        """Names of the operations tasks (all by default) work for; "" where there is none."""
        ids = self.op if tasks is None else self.op[np.asarray(tasks)]
        out = np.full(len(ids), "", dtype=object)
        known = ids != NO_ID
        if self._trace is not None:
            out[known] = self._trace.names(ids[known])
        elif self._op_names is not None:
            out[known] = self._op_names(np.ascontiguousarray(ids[known]))
        else:
            raise ValueError("this graph was read from a text or an exported file and has no trace to name operations")
        return out

    def layer_names(self, tasks: ArrayLike | None = None) -> NDArray[np.object_]:
        """Names of the layers tasks (all by default) work for; "" where there is none."""
        ids = self.layer if tasks is None else self.layer[np.asarray(tasks)]
        table = np.array([layer.name for layer in self.layers] + [""], dtype=object)
        return table[np.where(ids == NO_ID, len(self.layers), ids)]

    def dump(self) -> str:
        """The graph as text, a line per lane, task and dependency; Graph.parse reads it back."""
        return self._core.dump()

    def to_pandas(self, tasks: ArrayLike | None = None) -> pandas.DataFrame:
        """A data frame of tasks (all by default): kind, name, lane, phase, layer, cost, measured, launch, …"""
        from ._graph_frames import graph_to_pandas

        return graph_to_pandas(self, tasks)

    def plot(self) -> Picture:
        """GPU and CPU time of the tasks by phase, as an SVG."""
        from ._pictures import bars
        from ._result import bar

        gpu = self.kind >= TASK_KINDS.index("kernel")
        shown = [(f"{phase}, {side}", int(self.cost[(self.phase == i) & mask].sum()))
                 for i, phase in enumerate(PHASES) for side, mask in (("GPU", gpu), ("CPU", ~gpu))]
        return bars([bar(name, ns / 1e6) for name, ns in shown if ns], None, f"{self.step_name}: work by phase")

    # -- simulation

    def simulate(self, cost: ArrayLike | None = None) -> Timeline:
        """When every task starts, with other costs where given (ns, one per task): nothing is rebuilt.

        >>> gpu = graph.kind >= foretrace.TASK_KINDS.index("kernel")
        >>> graph.simulate(np.where(gpu, graph.cost / 2, graph.cost)).step_ms
        """
        return simulate(self, cost)

    def lower_bounds(self) -> LowerBounds:
        """How long the step would be if one resource cost nothing: what no change of it alone can beat."""
        return LowerBounds(*self._core.lower_bounds())

    def unprofiled(self, measured_ms: float | None = None) -> Unprofiled:
        """The step as it runs without the profiler.

        measured_ms: how long a step really takes, to calibrate on; default what the recorder stored in the trace, and where
        it stored nothing, what recording it usually costs.
        """
        measured = self._measured(measured_ms)
        values = self._core.unprofiled(measured, None if self._trace is None else self._trace._core)
        if measured is not None and measured_ms is None:
            values["origin"] = "recorder"
        return Unprofiled(**values, _of=self)

    def _with_factors(self, factors: dict[str, float], profiler: tuple[float, float, float]) -> Graph:
        return Graph(self._core.apply(**factors, profiler=profiler), self._trace)
