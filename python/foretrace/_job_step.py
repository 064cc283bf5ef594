"""JobStep: one training step of all ranks of a job, and what can be asked about it."""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ._errors import UsageError, make_error
from ._export import Exported
from ._graph import Graph
from ._predictions import PredictedRank
from ._questions import Questions
from ._whatifs import WhatIf, given_uses

if TYPE_CHECKING:
    from . import _core


class JobStep(Questions):
    """One step of a job: what `Job.step()` gives. A change is made on its ranks, and all of them are simulated together.

    >>> step = foretrace.load_ranks("traces/").step()
    >>> step.ms, [rank.wait_ms for rank in step.ranks]
    >>> step.predict("bandwidth:x=2")
    """

    def __init__(self, core: _core.Job, number: int | None, only: list[int]) -> None:
        self._core = core
        self._number = number
        self._only = only
        self._models: dict[float | None, _core.Model] = {}

    @property
    def name(self) -> str:
        """"ProfilerStep#4"."""
        return str(self._figures["name"])

    @property
    def traced_ms(self) -> float:
        """From the earliest start of a rank's step to the latest end."""
        return float(self._figures["traced"] / 1e6)

    @property
    def replayed_ms(self) -> float:
        return float(self._figures["replayed"] / 1e6)

    @property
    def ms(self) -> float:
        """Without the profiler, estimated: what predictions start from. With measured_ms they start from that."""
        return float(self._figures["unprofiled"] / 1e6)

    @property
    def low_ms(self) -> float:
        """10th percentile of `ms`."""
        return float(self._figures["low"] / 1e6)

    @property
    def high_ms(self) -> float:
        """90th percentile of `ms`."""
        return float(self._figures["high"] / 1e6)

    @property
    def peak_bytes(self) -> int | None:
        """Of `fullest_rank`; None where the traces have no memory events."""
        peak: int | None = self._figures["peak_bytes"]
        return peak

    @property
    def fullest_rank(self) -> int | None:
        """The rank whose memory decides what fits."""
        rank: int | None = self._figures["fullest_rank"]
        return rank

    @cached_property
    def ranks(self) -> tuple[PredictedRank, ...]:
        """Where each rank spends the step without the profiler, by rank. Empty for a single rank."""
        return tuple(PredictedRank(**rank) for rank in self._figures["ranks"])

    @property
    def notes(self) -> tuple[str, ...]:
        """What was left out or assumed."""
        return tuple(self._figures["notes"])

    def export(self, path: str | os.PathLike[str], *whatifs: str | WhatIf, format: str = "perfetto") -> Exported:
        """Writes all ranks into one file, as measured and as simulated; with changes as they are predicted to make them.

        A path that ends with .gz is compressed.

        >>> step.export("job.json.gz")                    # then open it in ui.perfetto.dev
        >>> step.export("predicted.json.gz", "bandwidth:x=2")
        """
        given_uses(whatifs)
        name = os.fspath(path)
        data, values = self._core.export(self._number, format, name.endswith(".gz"), [str(w) for w in whatifs], self._only)
        with open(name, "wb") as file:
            file.write(data)
        return Exported(path=name, format=format, nbytes=len(data), **values)

    def report(self, path: str | os.PathLike[str], *whatifs: str, measured_ms: float | None = None) -> str:
        """Writes everything about the step as one HTML page that needs nothing else, and returns its first sentence.

        The page shows the first rank in detail, and all ranks together.

        >>> step.report("report.html")
        """
        if self._only:
            raise make_error(UsageError, "the page changes all ranks", hint="take the step without ranks=…")
        html, answer = self._core.page(self._number, measured_ms, list(whatifs), f"foretrace.report({os.fspath(path)!r})")
        with open(path, "wb") as file:
            file.write(html)
        return answer

    @cached_property
    def _figures(self) -> dict[str, Any]:
        return self._model(None).figures()

    def _model(self, measured_ms: float | None) -> _core.Model:
        if measured_ms not in self._models:
            self._models[measured_ms] = self._core.model(self._number, measured_ms, self._only)
        return self._models[measured_ms]

    def _changed(self, core: _core.Graph) -> Graph:
        return Graph(core, None)

    def __repr__(self) -> str:
        only = f", changes on ranks {', '.join(map(str, self._only))}" if self._only else ""
        return f"<foretrace.JobStep {self.name}: {self.ms:.3f} ms without the profiler{only}>"
