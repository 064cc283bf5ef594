"""The table of tasks as Parquet, through pyarrow where it is installed."""

from __future__ import annotations

import io

_TEXTS = ("kind", "name", "phase", "layer", "operation", "lane", "origin", "cause")


def pack(csv: bytes) -> bytes | str:
    """The table that `export --format csv` writes, typed and compressed; or what is missing for that, in words.

    Numbers are int64 and null where there are none, `critical` is a bool, `waits_for` a list of tasks.
    """
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.csv
        import pyarrow.parquet
    except ImportError:
        return "the format 'parquet' needs pyarrow, which this Python does not have: pip install pyarrow"
    header = csv[: csv.index(b"\n")].decode().split(",")
    types = {name: pyarrow.string() if name in (*_TEXTS, "waits_for") else pyarrow.int64() for name in header}
    options = pyarrow.csv.ConvertOptions(column_types=types, strings_can_be_null=False)
    parsing = pyarrow.csv.ParseOptions(newlines_in_values=True)
    table = pyarrow.csv.read_csv(io.BytesIO(csv), parse_options=parsing, convert_options=options)
    waits = [[int(task) for task in text.split()] for text in table["waits_for"].to_pylist()]
    table = table.set_column(header.index("waits_for"), "waits_for", pyarrow.array(waits, pyarrow.list_(pyarrow.int64())))
    table = table.set_column(header.index("critical"), "critical", pyarrow.compute.equal(table["critical"], 1))
    out = io.BytesIO()
    pyarrow.parquet.write_table(table, out, compression="zstd")
    return out.getvalue()
