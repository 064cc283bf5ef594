"""What is read, and questions asked of a file at once."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from . import _core
from ._export import Exported
from ._graph import Graph
from ._optimize import Optimized
from ._trace import Trace, load
from ._whatifs import WhatIf


def formats() -> list[tuple[str, str, str]]:
    """What this build reads: (name, about, extensions)."""
    return _core.formats()


def find_traces(paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[str]:
    """The trace files behind paths that may be files or folders, sorted by rank where it is known."""
    many = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    return _core.find_trace_files([os.fspath(p) for p in many])


def _step_of(source: str | os.PathLike[str] | Trace | Graph, step: int | None) -> Graph:
    if isinstance(source, Graph):
        return source
    trace = source if isinstance(source, Trace) else load(source)
    return trace.step(step)


def optimize(source: str | os.PathLike[str] | Trace | Graph, *, step: int | None = None, **options: Any) -> Optimized:
    """The best strategy for a step of a trace (or of the file at a path); options as for Graph.optimize."""
    return _step_of(source, step).optimize(**options)


def export(source: str | os.PathLike[str] | Trace | Graph, path: str | os.PathLike[str], *whatifs: str | WhatIf,
           step: int | None = None, format: str = "perfetto") -> Exported:
    """Writes a step of a trace (or of the file at a path) for another program; as Graph.export."""
    return _step_of(source, step).export(path, *whatifs, format=format)
