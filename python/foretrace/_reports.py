"""doctor and summary as objects: print one to read it, index it to compute with it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from typing import Any

from . import _core
from ._trace import Trace, load


class Report(Mapping[str, Any]):
    """A report: `print(report)` shows the text the command line prints, `report["key"]` the values of its JSON form."""

    def __init__(self, text: str, raw: str) -> None:
        self._text = text
        self._raw = raw
        self._values: dict[str, Any] | None = None

    @property
    def text(self) -> str:
        """The report as people read it."""
        return self._text

    def json(self) -> dict[str, Any]:
        """The report as `foretrace … --json` gives it."""
        return json.loads(self._raw)

    def __getitem__(self, key: str) -> Any:
        if self._values is None:
            self._values = self.json()
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.json())

    def __len__(self) -> int:
        return len(self.json())

    def __repr__(self) -> str:
        return self._text.rstrip("\n")


class Doctor(Report):
    """What a trace holds, what it lacks, and what each lack costs a prediction."""


class Summary(Report):
    """Where the time of one step goes."""


def _trace_of(source: str | os.PathLike[str] | Trace) -> Trace:
    return source if isinstance(source, Trace) else load(source)


def _width() -> int:
    return max(60, shutil.get_terminal_size((100, 24)).columns)


def doctor(source: str | os.PathLike[str] | Trace) -> Doctor:
    """What a trace (or the file at a path) holds, lacks, and what each lack costs."""
    return Doctor(*_core.doctor(_trace_of(source)._core, _width()))


def summary(source: str | os.PathLike[str] | Trace, step: int | None = None, samples: float | None = None,
            top: int = 10) -> Summary:
    """Where the time of one step goes.

    step: the number in ProfilerStep#N; default the median step.
    samples: samples a step works on, for samples per second.
    top: rows shown of each long table (the JSON form has them all).
    """
    return Summary(*_core.summary(_trace_of(source)._core, step, samples, _width(), top))
