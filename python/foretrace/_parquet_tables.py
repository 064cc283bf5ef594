"""Folders of `TABLE.parquet`, as `nsys export --type parquetdir` writes them, for the compiled half: columns as NumPy arrays.

What cannot be read is returned as (message, hint), from which the compiled half makes the error.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy

_ROWS = 1 << 16
_Wrong = tuple[str, str]
_AGAIN = "export it again: nsys export --type parquetdir --force-overwrite=true REPORT.nsys-rep"


def _file(folder: str, table: str) -> str:
    return os.path.join(folder, table + ".parquet")


def tables(folder: str) -> dict[str, set[str]] | _Wrong:
    """The tables of a folder with the names of their columns."""
    try:
        import pyarrow.parquet
    except ImportError:
        return "reading Nsight's parquet export needs pyarrow, which this Python does not have", "pip install pyarrow"
    found: dict[str, set[str]] = {}
    for path in sorted(Path(folder).glob("*.parquet")):
        try:
            found[path.stem] = set(pyarrow.parquet.read_schema(path).names)
        except (OSError, pyarrow.ArrowException) as error:
            return _damaged(path.stem, error)
    return found


def scan(folder: str, table: str, columns: list[str]) -> Iterator[tuple[int, Any]]:
    """Batches (rows, [(numbers, offsets, bytes, present) of each column]); at damage (0, what is wrong) comes last."""
    import pyarrow
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(_file(folder, table)) as file:
            for batch in file.iter_batches(batch_size=_ROWS, columns=columns):
                yield batch.num_rows, [_column(batch.column(name)) for name in columns]
    except (OSError, pyarrow.ArrowException) as error:
        yield 0, _damaged(table, error)


def _damaged(table: str, error: Exception) -> _Wrong:
    first = (str(error).splitlines() or [type(error).__name__])[0]
    return f"the table {table} is damaged or cut off ({first})", _AGAIN


def _column(values: Any) -> tuple[Any, Any, Any, Any]:
    import pyarrow
    import pyarrow.compute
    from pyarrow import types

    if types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if types.is_null(values.type):
        return None, None, None, None
    present = None
    if values.null_count:
        present = numpy.ascontiguousarray(values.is_valid().to_numpy(zero_copy_only=False).view(numpy.uint8))
    # Bytes too are written as texts; they need not be UTF-8.
    if types.is_string(values.type) or types.is_binary(values.type) or types.is_large_string(values.type) or types.is_large_binary(values.type):
        values = values.cast(pyarrow.large_binary())
        _, offsets, data = values.buffers()
        starts = numpy.frombuffer(offsets, numpy.int64)[values.offset : values.offset + len(values) + 1]
        return None, starts, numpy.frombuffer(data, numpy.uint8) if data is not None else numpy.zeros(1, numpy.uint8), present
    if types.is_uint64(values.type):
        values = values.view(pyarrow.int64())
    elif not types.is_int64(values.type):
        values = pyarrow.compute.cast(values, pyarrow.int64(), safe=False)
    return numpy.ascontiguousarray(values.fill_null(0).to_numpy(zero_copy_only=False)), None, None, present
