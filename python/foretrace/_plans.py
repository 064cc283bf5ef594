"""Plans: one training job divided over many GPUs, from the step of one of them."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ._core import answer
from ._errors import DeclinedError, Error, UnreadableError, UsageError, make_error
from ._report_rows import rows
from ._reports import Report
from ._result import Bar, Result
from ._width import report_width

if TYPE_CHECKING:
    from ._pictures import Picture

ERRORS: dict[str, type[Error]] = {"usage": UsageError, "declined": DeclinedError, "unreadable": UnreadableError}


@dataclass(frozen=True)
class PlanRank:
    """One GPU of a plan's pipeline."""

    stages: tuple[int, ...]  # it holds
    blocks: int  # repeated blocks of the model
    busy_ms: float
    bubble_ms: float  # waiting for others until the pipeline is empty
    gradients_ms: float  # then: reductions and gathers that nothing hides
    update_ms: float  # of the parameters, behind them
    in_flight: float  # micro-batches whose activations it holds at most
    states_bytes: int  # parameters, gradients and what the optimizer keeps
    activation_bytes: int
    peak_bytes: int | None


@dataclass(frozen=True)
class PlanAction:
    """A pass of one micro-batch through one stage."""

    rank: int  # GPU of the pipeline
    stage: int
    kind: str  # "F" forward, "B" backward; "I" backward of inputs only, "W" of weights only
    microbatch: int
    chunk: int  # which of the GPU's stages
    begin_ms: float
    end_ms: float


@dataclass(frozen=True)
class Plan(Result):
    """One way to divide the job. Times are of a step of the whole job."""

    plan: str  # "tp=2,pp=4,dp=8"; empty: one GPU
    workers: int
    ms: float
    low_ms: float
    high_ms: float
    bubble_ms: float
    exposed_comm_ms: float  # all of the following three
    exposed_groups_ms: float  # collectives of tp, cp and ep
    exposed_stages_ms: float  # sends between stages
    exposed_gradients_ms: float  # reductions of gradients, gathers of parameters
    peak_bytes: int | None  # of the fullest GPU
    fits: bool | None
    mfu: float | None
    tokens_per_s: float | None
    usd_per_million_tokens: float | None
    global_batch: float | None
    tokens: float | None  # in a step
    microbatches: int
    ranks: tuple[PlanRank, ...]  # one for each GPU of the pipeline, first stage first
    actions: tuple[PlanAction, ...]  # of one pipeline; of a search only the fastest with a pipeline has them

    def _rows(self) -> list[dict[str, Any]]:
        """One row for each GPU of the pipeline."""
        return [asdict(rank) for rank in self.ranks]

    def _bars(self) -> tuple[list[Bar], float | None]:
        return [(self.plan or "one GPU", self.low_ms, self.ms, self.high_ms)], None

    def plot(self) -> Picture:
        """Its stages over time, a lane for each GPU of the pipeline; without a pipeline its band."""
        from ._pictures import lanes

        if len(self.ranks) < 2:
            return super().plot()
        if not self.actions:
            raise make_error(DeclinedError, f"{self.plan}: of a search only the fastest plan with a pipeline has its passes", hint=f"step.plan({self.plan!r}, …) has those of this one")
        passes = [[(a.begin_ms, a.end_ms, a.kind, str(a.microbatch)) for a in self.actions if a.rank == rank] for rank in range(len(self.ranks))]
        for rank, row in zip(self.ranks, passes, strict=True):
            for kind, length in (("gradients", rank.gradients_ms), ("update", rank.update_ms)):
                end = row[-1][1]
                if length > 0:
                    row.append((end, end + length, kind, ""))
        return lanes(passes, f"{self.plan}: {self.ms:.1f} ms, bubble {self.bubble_ms:.1f} ms")


def plan_of(values: Mapping[str, Any]) -> Plan:
    """A plan as the JSON form has it."""
    exposed = {f"exposed_{part}": ms for part, ms in values.get("exposed", {}).items()}
    parts = {"ranks": rows(PlanRank, [{**r, "stages": tuple(r["stages"])} for r in values.get("ranks", ())]),
             "actions": rows(PlanAction, values.get("actions", ()))}
    return rows(Plan, [{**values, **exposed, **parts}])[0]


class Plans(Report):
    """Plans, best first: `print` them, or use their rows."""

    def __init__(self, text: str, raw: str, asked: tuple[str, ...] = ()) -> None:
        super().__init__(text, raw)
        self._asked = asked

    @cached_property
    def plans(self) -> tuple[Plan, ...]:
        """Those that go; of a search those that fit."""
        return tuple(plan_of(p) for p in self["plans" if "plans" in self else "predictions"] if "declined" not in p)

    @property
    def best(self) -> Plan | None:
        """The fastest one that fits; None where none does."""
        return self.plans[0] if self.plans else None

    @property
    def ms(self) -> float | None:
        """The step of the best one."""
        return self.best.ms if self.best else None

    def report(self, path: str | os.PathLike[str]) -> None:
        """Writes them as one HTML page: stages over time, memory of each GPU, the search by sizes of tp and pp."""
        with tempfile.TemporaryDirectory() as folder:
            page = os.path.join(folder, "plan.html")
            answer([*self._asked, "--output", page, "--quiet"], report_width())
            shutil.copyfile(page, path)

    def _rows(self) -> list[dict[str, Any]]:
        """One row for each plan; its GPUs are rows of `plan.to_pandas()`."""
        return [{name: value for name, value in vars(plan).items() if name not in ("ranks", "actions")} for plan in self.plans]

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
    return Plans(answer([*args, "--quiet"], report_width()), raw, tuple(args))
