"""Timeline: when the tasks of a graph run."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _core
from ._graph_tables import Breakdown, CriticalPath

if TYPE_CHECKING:
    import pandas

    from ._graph import Graph
    from ._pictures import Picture

# Longer steps would leave 64-bit nanoseconds when repeated; 18 years are enough for one.
_LONGEST_NS = 2.0 ** 59


class Timeline:
    """When every task of a graph runs, and why not earlier. One row per task of the graph; times since the step's begin.

    Where work outlives the step, the step was simulated several times in a row until it repeats; the rows are of the last
    time, and a task held back by the time before has no cause.
    """

    def __init__(self, core: _core.Timeline, graph: Graph) -> None:
        self._core = core
        self._graph = graph

    def __len__(self) -> int:
        return len(self._graph)

    def __repr__(self) -> str:
        repeated = f", {self.copies} steps in a row" if self.copies > 1 else ""
        return (f"<foretrace.Timeline {self._graph.step_name!r}: {self.step_ms:.3f} ms simulated, "
                f"{self._graph.traced_ms:.3f} ms traced{repeated}>")

    @property
    def graph(self) -> Graph:
        return self._graph

    @property
    def step(self) -> int:
        """Length of the step, ns."""
        return self._core.step()

    @property
    def step_ms(self) -> float:
        return self.step / 1e6

    ms = step_ms

    @property
    def copies(self) -> int:
        """Steps simulated in a row."""
        return self._core.copies()

    @property
    def settled(self) -> bool:
        """Their length repeats to 0.1 %."""
        return self._core.settled()

    @cached_property
    def start(self) -> NDArray[np.int64]:
        return self._core.column("start")

    @cached_property
    def end(self) -> NDArray[np.int64]:
        return self._core.column("end")

    @cached_property
    def cause(self) -> NDArray[np.uint32]:
        """The task that held this one back last; NO_ID: none of this step."""
        return self._core.column("cause")

    @cached_property
    def cause_kind(self) -> NDArray[np.uint8]:
        """How, an index into DEPENDENCY_KINDS."""
        return self._core.column("cause_kind")

    def critical_path(self) -> CriticalPath:
        """The chain of tasks that makes the step as long as it is."""
        task, why, start, wait, work, before = self._core.critical_path()
        return CriticalPath(self._graph, task, why, start, wait, work, before.view(np.bool_))

    def breakdown(self) -> Breakdown:
        """Where the time of the step goes."""
        return Breakdown(**self._core.breakdown())

    def to_pandas(self, tasks: ArrayLike | None = None) -> pandas.DataFrame:
        """The graph's frame with start, end, cause and cause_kind."""
        from ._graph_frames import timeline_to_pandas

        return timeline_to_pandas(self, tasks)

    def plot(self) -> Picture:
        """Where the time goes, as an SVG: the picture of `breakdown()`."""
        return self.breakdown().plot()


def simulate(graph: Graph, cost: ArrayLike | None) -> Timeline:
    """See Graph.simulate."""
    return Timeline(_core.simulate(graph._core, None if cost is None else _costs(graph, cost)), graph)


def _costs(graph: Graph, cost: ArrayLike) -> NDArray[np.int64]:
    given = np.asarray(cost)
    if given.shape != (len(graph),):
        raise ValueError(f"cost needs one value for each of the {len(graph)} tasks, not shape {given.shape}")
    if given.dtype.kind not in "iuf":
        raise TypeError(f"cost must hold numbers (ns), not {given.dtype}")
    as_float = given.astype(np.float64)
    if not np.isfinite(as_float).all() or (as_float < 0).any():
        task = int(np.flatnonzero(~np.isfinite(as_float) | (as_float < 0))[0])
        raise ValueError(f"a cost cannot be negative, infinite or nan: that of task {task} is {given[task]}")
    if as_float.sum() > _LONGEST_NS:
        raise ValueError("these costs add up to more than 18 years; they are in ns")
    if given.dtype.kind == "f":
        given = np.rint(as_float)
    return np.ascontiguousarray(given, dtype=np.int64)
