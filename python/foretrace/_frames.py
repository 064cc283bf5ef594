"""A trace as a pandas or Arrow frame, where those are installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._trace import ABSENT, KINDS, Trace

if TYPE_CHECKING:
    import pandas
    import pyarrow

_MAY_BE_ABSENT = ("correlation", "external_id")


def to_pandas(trace: Trace, events: ArrayLike | None) -> pandas.DataFrame:
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError("Trace.to_pandas needs pandas: pip install pandas") from error
    columns: dict[str, Any] = {}
    for name, values in _columns(trace, events).items():
        if isinstance(values, tuple):
            columns[name] = pd.Categorical.from_codes(values[0], categories=values[1])
        elif name in _MAY_BE_ABSENT:
            columns[name] = pd.arrays.IntegerArray(values.copy(), values == ABSENT)
        else:
            columns[name] = values
    return pd.DataFrame(columns, index=None if events is None else np.asarray(events))


def to_arrow(trace: Trace, events: ArrayLike | None) -> pyarrow.Table:
    try:
        import pyarrow as pa
    except ImportError as error:
        raise ImportError("Trace.to_arrow needs pyarrow: pip install pyarrow") from error
    columns: dict[str, Any] = {}
    for name, values in _columns(trace, events).items():
        if isinstance(values, tuple):
            labels = pa.array(values[1], type=pa.string())
            columns[name] = pa.DictionaryArray.from_arrays(pa.array(values[0]), labels)
        elif name in _MAY_BE_ABSENT:
            columns[name] = pa.array(values, mask=values == ABSENT)
        else:
            columns[name] = pa.array(values)
    return pa.table(columns)


def _columns(trace: Trace, events: ArrayLike | None) -> dict[str, Any]:
    """Plain arrays, and (codes, labels) for what repeats."""

    def pick(column: NDArray[Any]) -> NDArray[Any]:
        return column if events is None else column[np.asarray(events)]

    return {
        "start": pick(trace.start),
        "duration": pick(trace.duration),
        "name": _labelled(pick(trace.name_id), trace.strings.to_list()),
        "kind": _labelled(pick(trace.kind), list(KINDS)),
        "category": _labelled(pick(trace.category_id), [c.name for c in trace.categories]),
        "lane": _labelled(pick(trace.lane_id), [lane.label for lane in trace.lanes]),
        "correlation": pick(trace.correlation),
        "external_id": pick(trace.external_id),
    }


def _labelled(ids: NDArray[Any], labels: list[str]) -> tuple[NDArray[np.int32], list[str]]:
    """Codes into the labels that occur; two ids may share a label."""
    used, inverse = np.unique(ids, return_inverse=True)
    texts = [labels[i] for i in used]
    code_of = {text: code for code, text in enumerate(dict.fromkeys(texts))}
    codes = np.array([code_of[text] for text in texts], dtype=np.int32)
    return codes[inverse], list(code_of)
