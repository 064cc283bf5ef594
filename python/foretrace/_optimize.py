"""The best strategy found for a step."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import Any

from ._predictions import Prediction
from ._result import Bar, Result, bar


@dataclass(frozen=True)
class OptimizedPart:
    """One change of a strategy and what it is for. Times in ns."""

    whatif: str  # as written, or "communication"
    gain: int  # of the step, on top of the other parts
    without: int  # the step without this part; 0: without it nothing is left that fits or can be predicted
    saved_bytes: int | None  # of the peak
    why: str  # "shortens the GPU's part of the critical path by 12.10 ms"
    may_break: str
    code: str  # how to switch it on in PyTorch

    @property
    def gain_ms(self) -> float:
        return self.gain / 1e6

    @property
    def ms(self) -> float:
        """What it gains."""
        return self.gain_ms

    def __str__(self) -> str:
        return f"{self.whatif}: {self.gain_ms:.3f} ms; {self.why}"


@dataclass(frozen=True)
class Optimized(Result):
    """The best strategy a search found. `print` shows what the command line prints."""

    prediction: Prediction  # of the step with the strategy
    parts: tuple[OptimizedPart, ...]
    baseline: int  # today's step, ns
    baseline_peak: int | None  # bytes
    memory_limit: int | None  # bytes
    evaluations: int  # strategies predicted
    converged: bool  # ended by itself, not by a budget
    declined: tuple[str, ...]  # changes that do not apply here, and why
    strategy: str = field(repr=False)  # as JSON: what `foretrace whatif --strategy` reads
    script: str = field(repr=False)  # a PyTorch script that switches it on
    text: str = field(repr=False)

    @property
    def whatifs(self) -> tuple[str, ...]:
        """The changes as `Graph.predict` takes them, in order."""
        return tuple(a.whatif for a in self.prediction.applied)

    @property
    def ms(self) -> float:
        return self.prediction.ms

    @property
    def speedup(self) -> float:
        return self.prediction.speedup

    @property
    def baseline_ms(self) -> float:
        return self.baseline / 1e6

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the strategy for `foretrace whatif --strategy`."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.strategy)

    def save_code(self, path: str | os.PathLike[str]) -> None:
        """Writes the PyTorch script."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.script)

    def _rows(self) -> list[dict[str, Any]]:
        """One row for each part."""
        return [{"whatif": p.whatif, "gain_ms": p.gain_ms, "saved_bytes": p.saved_bytes, "why": p.why, "may_break": p.may_break,
                 "code": p.code} for p in self.parts]

    def _bars(self) -> tuple[list[Bar], float | None]:
        p = self.prediction
        today = bar("today", self.baseline_ms)
        return [today] if p.declined is not None else [today, (p.whatif, p.low_ms, p.ms, p.high_ms)], None

    def _title(self) -> str:
        return "the best strategy found"

    def strategy_json(self) -> dict[str, Any]:
        """The strategy as a dict."""
        found: dict[str, Any] = json.loads(self.strategy)
        return found

    def __str__(self) -> str:
        return self.text.rstrip("\n")


def optimized(values: dict[str, Any]) -> Optimized:
    """From what the compiled half gives."""
    prediction = Prediction(**{**values["prediction"], "graph": None})
    return Optimized(**{**values, "prediction": prediction, "parts": tuple(OptimizedPart(**p) for p in values["parts"])})
