"""All ranks of one job: clocks, waits against transfers, stragglers."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import asdict
from functools import cached_property
from typing import TYPE_CHECKING, Any

from . import _core
from ._report_rows import RankTime, rows
from ._reports import Report
from ._result import Bar, bar
from ._width import report_width

if TYPE_CHECKING:
    from ._export import Exported
    from ._job_step import JobStep


class RanksReport(Report):
    """Who waits for whom, what transfers cost, and who holds the job up."""

    @cached_property
    def ranks(self) -> tuple[RankTime, ...]:
        """In order; empty for an operation trace of a pipeline."""
        return rows(RankTime, self.get("ranks") or () if "step_source" in self else ())

    @property
    def traced_ms(self) -> float:
        """From the earliest step start to the latest step end, on aligned clocks."""
        return float(self["traced_ms"])

    @property
    def job_step_ms(self) -> float:
        """The mean over the ranks of their own steps, as recorded."""
        return float(self["job_step_ms"])

    @property
    def parallel(self) -> str:
        """The kind of job: "tp2 dp4"."""
        return str(self["parallel"])

    @property
    def bubble_ms(self) -> float | None:
        """Of a pipeline: mean over the ranks."""
        return self.get("bubble_ms")

    @property
    def connected(self) -> bool:
        """Whether any rank communicates with another; if not, the files are no job."""
        return bool(self["connected"])

    @property
    def ms(self) -> float:
        return self.traced_ms

    def _rows(self) -> list[dict[str, Any]]:
        return [asdict(rank) for rank in self.ranks]

    def _bars(self) -> tuple[list[Bar], float | None]:
        return [bar(f"rank {rank.rank}", rank.step_ms) for rank in self.ranks], None

    def _title(self) -> str:
        return "the step of each rank"

    @property
    def replayed_ms(self) -> float:
        return float(self["replayed_ms"])


class Job:
    """The traces of all ranks of one job, or one operation trace of all its workers.

    >>> job = foretrace.load_ranks("traces/")
    >>> print(job.report())
    >>> job.report(step=12)["stragglers"]
    >>> job.step().predict("bandwidth:x=2")
    """

    def __init__(self, core: _core.Job) -> None:
        self._core = core

    @property
    def ranks(self) -> list[int]:
        """The ranks a trace was read of, in order."""
        return list(self._core.ranks)

    @property
    def missing(self) -> list[int]:
        """Ranks of the job no trace was given of."""
        return list(self._core.missing)

    @property
    def world_size(self) -> int:
        return self._core.world_size

    @property
    def is_pipeline(self) -> bool:
        """Whether this is an operation trace of a pipeline-parallel job."""
        return self._core.pipeline

    @property
    def notes(self) -> list[str]:
        """What was left out or assumed."""
        return list(self._core.notes)

    def report(self, step: int | None = None, align: bool = True) -> RanksReport:
        """What `foretrace ranks` says; index it by the names of its JSON form.

        step: the number in ProfilerStep#N; default the median step.
        align: False takes the ranks' clocks as written.
        """
        return RanksReport(*self._core.report(step, align, report_width()))

    def step(self, number: int | None = None, *, ranks: Iterable[int] = ()) -> JobStep:
        """A step of all ranks, to be asked what `Step` is asked: predict, each, advise, optimize, gpus, on.

        number: that in ProfilerStep#N; default the median step. ranks: changes are made on these only; default all.

        >>> job.step().predict("bandwidth:x=2").ms
        >>> job.step(ranks=[1]).predict("no-straggler")
        """
        from ._job_step import JobStep

        return JobStep(self._core, number, list(ranks))

    def export(self, path: str | os.PathLike[str], step: int | None = None) -> Exported:
        """Writes all ranks into one file for ui.perfetto.dev; compressed when the path ends with .gz."""
        return self.step(step).export(path)

    def __repr__(self) -> str:
        if self.is_pipeline:
            return "<foretrace.Job of a pipeline>"
        return f"<foretrace.Job of {len(self.ranks)} of {self.world_size} ranks>"


def load_ranks(paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], threads: int = 0,
               partial: bool = False, steps_by: str = "") -> Job:
    """Reads the traces of all ranks of a job: a folder, or the files. steps_by: as for `load`."""
    many = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    files = _core.find_trace_files([os.fspath(p) for p in many])
    return Job(_core.load_ranks(files, threads, partial, steps_by))
