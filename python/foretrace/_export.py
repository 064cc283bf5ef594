"""A step written for another program."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import _core

if TYPE_CHECKING:
    from ._trace import Trace


@dataclass(frozen=True)
class Exported:
    """A file that was written, and what it shows."""

    path: str
    format: str  # "perfetto", "chakra", "csv", "parquet"
    nbytes: int
    step: str  # "ProfilerStep#4 with amp"
    tasks: int
    dependencies: int
    critical_tasks: int  # on the critical path
    traced_ms: float
    replayed_ms: float
    hint: str  # what to do with it

    def __str__(self) -> str:
        return f"{self.path}: {self.step}, {self.tasks:,} tasks, {self.critical_tasks:,} of them on the critical path\n{self.hint}"


def export_step(trace: Trace, step: int | None, path: str | os.PathLike[str], whatifs: list[str], format: str) -> Exported:
    name = os.fspath(path)
    if format == "parquet":
        from . import _parquet

        _core.set_table_packer(_parquet.pack)
    data, values = _core.export_step(trace._core, step, format, name.endswith(".gz"), whatifs)
    with open(name, "wb") as file:
        file.write(data)
    return Exported(path=name, format=format, nbytes=len(data), **values)
