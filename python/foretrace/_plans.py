"""Plans: one training job divided over many GPUs, from the step of one of them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ._core import answer
from ._errors import DeclinedError, Error, UnreadableError, UsageError
from ._report_rows import rows
from ._reports import Report
from ._result import Bar
from ._width import report_width

ERRORS: dict[str, type[Error]] = {"usage": UsageError, "declined": DeclinedError, "unreadable": UnreadableError}


@dataclass(frozen=True)
class Plan:
    """One way to divide the job. Times are of a step of the whole job."""

    plan: str  # "tp=2,pp=4,dp=8"; empty: one GPU
    workers: int
    ms: float
    low_ms: float
    high_ms: float
    bubble_ms: float
    exposed_comm_ms: float
    peak_bytes: int | None  # of the fullest GPU
    fits: bool | None
    mfu: float | None
    tokens_per_s: float | None
    usd_per_million_tokens: float | None
    global_batch: float
    tokens: float | None  # in a step
    microbatches: int


class Plans(Report):
    """Plans, best first: `print` them, or use their rows."""

    @cached_property
    def plans(self) -> tuple[Plan, ...]:
        return rows(Plan, self._rows())

    @property
    def best(self) -> Plan | None:
        """The fastest one that fits; None where none does."""
        return self.plans[0] if self.plans else None

    @property
    def ms(self) -> float | None:
        """The step of the best one."""
        return self.best.ms if self.best else None

    def _rows(self) -> list[dict[str, Any]]:
        return list(self["plans" if "plans" in self else "predictions"])

    def _bars(self) -> tuple[list[Bar], float | None]:
        return [(p.plan or "one GPU", p.low_ms, p.ms, p.high_ms) for p in self.plans], None

    def _title(self) -> str:
        return f"plans for {self['step']}"


def ask(args: list[str]) -> Plans:
    """What the command line answers."""
    raw = answer([*args, "--json", "--quiet"], report_width())
    values = json.loads(raw)
    if error := values.get("error"):
        kind = ERRORS.get(error["code"], Error)
        raise kind(error["message"], file=error["file"], offset=error["offset"], hint=error["hint"], code=error["code"])
    return Plans(answer([*args, "--quiet"], report_width()), raw)
