"""Draft: the primitives a what-if of your own is written with."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _core
from ._contract import Changes, Parts
from ._draft_memory import DraftMemory, ids_of, numbers_of
from ._errors import DeclinedError

if TYPE_CHECKING:
    from ._graph import Graph


class Draft:
    """A list of changes to the graph of a step, without the profiler: what a what-if's function is given.

    Tasks are named by integer arrays, as `select` gives them; costs are in ns. Nothing is rebuilt until the function returns,
    and then once. It can be used only until then.
    """

    def __init__(self, core: _core.Draft, parts: Parts, changes: Changes) -> None:
        self._core = core
        self._parts = parts
        self._changes = changes

    @cached_property
    def graph(self) -> Graph:
        """The graph as it was before this what-if, a copy: its columns, for selections of any kind."""
        from ._graph import Graph

        return Graph(self._core.graph(), None, op_names=self._core.op_names)

    @cached_property
    def memory(self) -> DraftMemory | None:
        """The memory of the step, to be changed; None where the trace has no memory events.

        Only of a what-if that says so: parts=foretrace.Parts(memory="modelled").
        """
        if self._parts.memory != "modelled":
            raise ValueError('this what-if does not say that it changes memory: parts=foretrace.Parts(memory="modelled")')
        return DraftMemory(self._core) if self._core.has_memory() else None

    def scale_batch(self, factor: float) -> None:
        """So many times as many samples in a step, for the rates a prediction shows. Costs and memory are yours to change.

        Only of a what-if that says so: changes="batch".
        """
        if self._changes != "batch":
            raise ValueError('this what-if does not say that it changes the batch: changes="batch"')
        self._core.scale_batch(float(factor))

    def select(self, *, kind: str | None = None, op: str = "", name: str = "", layer: str = "", phase: str | None = None,
               after: str = "", shape: str = "", gpu: bool = False, lane: int | None = None) -> NDArray[np.int64]:
        """Tasks of the graph for which everything given holds, ascending; those removed or inserted by now are not among them.

        kind: one of foretrace.TASK_KINDS; gpu=True: any GPU task. phase: one of foretrace.PHASES. lane: an index into lanes.
        name, op, layer: globs (* and ?) over the task's (kernel's) name, the operation it works for or any around that, and
        its layer. after: a glob over operations; the task before it on its lane works for one. shape: a glob over the input
        shapes of its operation as the trace writes them, blanks included: "*[64,*3,*224,*224]*".
        """
        return self._core.select(kind, phase, name, op, layer, after, shape, gpu, lane)

    def cost(self, tasks: ArrayLike) -> NDArray[np.int64]:
        """What tasks cost by now, ns."""
        return self._core.cost(ids_of(tasks))

    def scale(self, tasks: ArrayLike, factor: ArrayLike) -> None:
        """Costs times a factor, or one factor for each task."""
        self._core.scale(ids_of(tasks), numbers_of(factor))

    def set(self, tasks: ArrayLike, cost: ArrayLike) -> None:
        """Costs in ns, one for all or one for each."""
        self._core.set(ids_of(tasks), numbers_of(cost))

    def remove(self, tasks: ArrayLike, *, launch: bool = False) -> None:
        """Takes tasks out and links what is left. launch=True: a GPU task takes its call and the CPU time of its operation
        with it, as far as nothing else is launched by them."""
        self._core.remove(ids_of(tasks), launch)

    def insert(self, name: str, cost: ArrayLike, *, after: ArrayLike, kind: str = "kernel", cpu_after: ArrayLike | None = None,
               cpu_cost: ArrayLike | None = None, phase: str | None = None) -> NDArray[np.int64]:
        """A new GPU task behind each of the GPU tasks `after`, launched by a call of its own; gives their ids.

        cpu_after: CPU tasks the calls follow; default those that launched `after`. cpu_cost: of a call with the operation
        around it; default what launches cost in this step. Phase and layer are those of the task it follows.
        """
        return self._core.insert(name, ids_of(after), numbers_of(cost), kind, None if cpu_after is None else ids_of(cpu_after),
                                 None if cpu_cost is None else numbers_of(cpu_cost), phase)

    def insert_cpu(self, name: str, cost: ArrayLike, *, after: ArrayLike) -> NDArray[np.int64]:
        """CPU work behind each of the CPU tasks `after`; gives the ids."""
        return self._core.insert_cpu(name, ids_of(after), numbers_of(cost))

    def insert_wait(self, name: str, *, after: int, until: ArrayLike, lag: float = 0) -> int:
        """A place behind the CPU task `after` where it waits until tasks have ended; gives its id."""
        return self._core.insert_wait(name, int(after), ids_of(until), float(lag))

    def add_lane(self, name: str, kind: str = "gpu") -> int:
        """A new lane, "cpu", "gpu" or "network", for `append`."""
        return self._core.add_lane(name, kind)

    def append(self, lane: int, name: str, cost: float, *, kind: str = "kernel", phase: str = "other") -> int:
        """A task at the end of a lane that this what-if added; gives its id. `depend` says what it waits for."""
        return self._core.append(int(lane), name, float(cost), kind, phase)

    def depend(self, first: ArrayLike, then: ArrayLike, *, lag: float = 0, kind: str = "sync") -> None:
        """`then` starts no earlier than `lag` ns after the end of `first`; one task, or as many on both sides.

        kind: one of foretrace.DEPENDENCY_KINDS.
        """
        self._core.depend(ids_of(first), ids_of(then), float(lag), kind)

    def schedule(self, tasks: ArrayLike, priority: ArrayLike) -> None:
        """The lanes of these tasks no longer run in order: of the tasks that could start, the one with the highest priority
        goes first. Tasks without one have priority 0."""
        self._core.schedule(ids_of(tasks), numbers_of(priority))

    def decline(self, reason: str) -> NoReturn:
        """Ends the what-if: it does not apply to this step. The prediction carries the reason."""
        raise DeclinedError(reason)

    def not_modelled(self, what: str) -> None:
        """Says what this prediction leaves out; it shows in its `not_modelled`."""
        self._core.not_modelled(what)

    def __repr__(self) -> str:
        return "<foretrace.Draft>"
