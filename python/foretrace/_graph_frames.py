"""A graph or a timeline as a pandas frame, where that is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._frames import _labelled
from ._graph import DEPENDENCY_KINDS, NO_ID, ORIGINS, PHASES, TASK_KINDS, Graph
from ._timeline import Timeline

if TYPE_CHECKING:
    import pandas


def graph_to_pandas(graph: Graph, tasks: ArrayLike | None) -> pandas.DataFrame:
    pd = _pandas("Graph")
    columns = _columns(pd, graph, tasks)
    return pd.DataFrame(columns, index=_index(pd, tasks))


def timeline_to_pandas(timeline: Timeline, tasks: ArrayLike | None) -> pandas.DataFrame:
    pd = _pandas("Timeline")
    columns = _columns(pd, timeline.graph, tasks)
    columns["start"] = _pick(timeline.start, tasks)
    columns["end"] = _pick(timeline.end, tasks)
    columns["cause"] = _optional(pd, _pick(timeline.cause, tasks))
    columns["cause_kind"] = _category(pd, _pick(timeline.cause_kind, tasks), list(DEPENDENCY_KINDS))
    return pd.DataFrame(columns, index=_index(pd, tasks))


def _columns(pd: Any, graph: Graph, tasks: ArrayLike | None) -> dict[str, Any]:
    layers = [layer.name for layer in graph.layers] + [""]
    layer = _pick(graph.layer, tasks)
    columns = {
        "kind": _category(pd, _pick(graph.kind, tasks), list(TASK_KINDS)),
        "name": _category(pd, _pick(graph.name_id, tasks), graph.strings.to_list()),
        "lane": _category(pd, _pick(graph.lane, tasks), [lane.name for lane in graph.lanes]),
        "phase": _category(pd, _pick(graph.phase, tasks), list(PHASES)),
        "layer": _category(pd, np.where(layer == NO_ID, len(layers) - 1, layer), layers),
        "cost": _pick(graph.cost, tasks),
        "measured": _pick(graph.measured, tasks),
        "launch": _optional(pd, _pick(graph.launch, tasks)),
        "event": _optional(pd, _pick(graph.event, tasks)),
        "op": _optional(pd, _pick(graph.op, tasks)),
        "origin": _category(pd, _pick(graph.origin, tasks), list(ORIGINS)),
    }
    if graph.trace is not None:
        names = graph.op_names(tasks)
        columns["op_name"] = pd.Categorical(names, categories=list(dict.fromkeys(names)))
    return columns


def _pick(column: NDArray[Any], tasks: ArrayLike | None) -> NDArray[Any]:
    return column if tasks is None else column[np.asarray(tasks)]


def _index(pd: Any, tasks: ArrayLike | None) -> Any:
    if tasks is None:
        return None
    given = np.asarray(tasks)
    return pd.Index(np.flatnonzero(given) if given.dtype == bool else given, name="task")


def _category(pd: Any, ids: NDArray[Any], labels: list[str]) -> Any:
    codes, used = _labelled(ids, labels)
    return pd.Categorical.from_codes(codes, categories=used)


def _optional(pd: Any, ids: NDArray[Any]) -> Any:
    return pd.arrays.IntegerArray(ids.astype(np.int64), ids == NO_ID)


def _pandas(what: str) -> Any:
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError(f"{what}.to_pandas needs pandas: pip install pandas") from error
    return pd
