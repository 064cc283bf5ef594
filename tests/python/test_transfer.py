"""Published tables of products are read with the sizes their kernels were launched for."""

import os
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.skipif("FORETRACE_PUBLIC" not in os.environ, reason="FORETRACE_PUBLIC is not set")
@pytest.mark.parametrize("name", ["linear", "bmm"])
def test_tables_are_read_as_their_grids_say(name, monkeypatch):
    """Kernels named by their tile were launched over the result: columns by rows, and never over what is summed."""
    pd = pytest.importorskip("pandas")
    path = Path(os.environ["FORETRACE_PUBLIC"]) / "gpu-kernels-fp32" / f"{name}.csv.gz"
    if not path.exists():
        pytest.skip("the table is not there")
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import transfer_tables

    rows = transfer_tables.product_table(path.parent.parent, "fp32" if name == "linear" else "fp32-batched").rows
    d = pd.read_csv(path).drop_duplicates(list("BMNK"))
    tile = d["Kernel Name"].str.extract(r"sgemm_(\d+)x(\d+)").astype(float)
    # The columns the reader takes for m, n and k are those of the file that hold the same numbers.
    column = {ours: next(c for c in "MNK" if set(rows[ours]) >= set(d[c]) and not set(rows[other]) >= set(d[c]))
              for ours, other in (("n", "k"), ("k", "n"))}  # fmt: skip
    named = tile.notna().all(axis=1)
    grid = (np.ceil(d[column["n"]] / tile[0]) == d["Grid x"]) & (np.ceil(d.M / tile[1]) == d["Grid y"])
    assert grid[named].mean() > 0.99
    assert (np.ceil(d[column["k"]] / tile[0]) == d["Grid x"])[named].mean() < 0.5
