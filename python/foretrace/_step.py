"""Step: one training iteration of a trace, its graph, and what can be asked about it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ._graph import DEPENDENCY_KINDS, Graph
from ._tables import StepRow

if TYPE_CHECKING:
    from . import _core
    from ._trace import Trace


class Step(Graph):
    """One step of a trace: what `trace.step()` gives. It has the columns of its graph, and answers questions.

    >>> step = foretrace.load("examples/resnet50-h200.json.gz").step()
    >>> step.ms, step.number
    >>> step.predict(foretrace.amp(dtype="bf16"))
    >>> step.gpus(to=["A100-SXM4-80GB"])
    """

    def __init__(self, core: _core.Graph, trace: Trace | None, row: StepRow, step_index: int | None = None) -> None:
        super().__init__(core, trace, step_index)
        self._row = row

    @property
    def name(self) -> str:
        """"ProfilerStep#4"."""
        return self._row.name

    @property
    def number(self) -> int:
        return self._row.number

    @property
    def start(self) -> int:
        """ns, on the scale of Trace.start"""
        return self._row.start

    @property
    def end(self) -> int:
        return self._row.end

    @property
    def waited(self) -> int:
        """ns between start and end spent waiting for work that is not in the file"""
        return self._row.waited

    @property
    def duration(self) -> int:
        """ns, without `waited`"""
        return self._row.duration


def build(trace: Trace, graphs: _core.StepGraphs, step: int | StepRow | Step | None, without: Iterable[str], device_gaps: bool,
          strict: bool) -> Step:
    """A step of `trace`; see Trace.step."""
    left_out = [without] if isinstance(without, str) else list(without)
    for kind in left_out:
        if kind not in DEPENDENCY_KINDS or kind in ("none", "lane"):
            raise ValueError(f"cannot leave out {kind!r}; there are {', '.join(DEPENDENCY_KINDS[2:])}")
    number = step.number if isinstance(step, (StepRow, Step)) else step
    index = graphs.index(number)
    core = graphs.build(index, [DEPENDENCY_KINDS.index(kind) for kind in left_out], device_gaps, strict)
    if graphs.embedded():  # an exported file holds the graph, and its events are not those the graph was built from
        return Step(core, None, StepRow(core.step_name(), graphs.number(index), 0, core.traced(), None))
    return Step(core, trace, trace.steps[index], index)
