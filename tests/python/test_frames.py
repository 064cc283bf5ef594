"""to_pandas, and to_arrow where that is installed; a clear message where not."""

import sys

import foretrace
import pandas as pd
import pytest


def test_pandas(example):
    frame = example.to_pandas()
    assert len(frame) == len(example)
    assert list(frame.columns) == ["start", "duration", "name", "kind", "category", "lane", "correlation", "external_id"]
    kernels = frame[frame.kind == "kernel"]
    assert len(kernels) == 3586
    assert kernels.duration.sum() == example.duration[example.select("kernel")].sum()
    assert kernels.name.iloc[0] == example.names(example.select("kernel"))[0]
    operations = frame[frame.kind == "cpu_op"]
    assert operations.correlation.isna().all() and operations.external_id.notna().all()
    by_name = kernels.groupby("name", observed=True).duration.sum().sort_values(ascending=False)
    assert by_name.iloc[0] > 0
    part = example.to_pandas(example.select("memcpy"))
    assert len(part) == 6 and list(part.index) == list(example.select("memcpy"))
    assert isinstance(frame["name"].dtype, pd.CategoricalDtype)


def test_arrow(example):
    pytest.importorskip("pyarrow")
    table = example.to_arrow()
    assert table.num_rows == len(example)
    assert table["start"].to_pylist()[:3] == example.start[:3].tolist()
    assert table["correlation"].null_count == int((example.correlation == foretrace.ABSENT).sum())
    assert table["name"][0].as_py() == example.names()[0]


@pytest.mark.parametrize("package, method", [("pandas", "to_pandas"), ("pyarrow", "to_arrow")])
def test_message_when_missing(example, monkeypatch, package, method):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"{method} needs {package}: pip install {package}"):
        getattr(example, method)()
