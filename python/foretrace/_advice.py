"""Advice: what to switch on, ranked by gain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ._predictions import Prediction
from ._result import Bar, Result


@dataclass(frozen=True)
class Advice(Result):
    """One change, or several together, and what they give."""

    prediction: Prediction
    gain: float  # samples per second, as a multiple of now; 0 when declined
    samples: float  # in a step, as a multiple of the traced step's
    fits: bool  # into the GPU's memory
    effort: str  # "one line", "a few lines", "work"
    code: tuple[str, ...]  # how to switch it on in PyTorch, one line per change

    @property
    def whatif(self) -> str:
        return self.prediction.whatif

    @property
    def declined(self) -> str | None:
        return self.prediction.declined

    @property
    def ms(self) -> float:
        return self.prediction.ms

    def _rows(self) -> list[dict[str, Any]]:
        return [{**row, "gain": self.gain, "fits": self.fits, "effort": self.effort, "code": "\n".join(self.code)}
                for row in self.prediction._rows()]

    def _bars(self) -> tuple[list[Bar], float | None]:
        return self.prediction._bars()

    def _title(self) -> str:
        return self.whatif

    def __str__(self) -> str:
        if self.declined is not None:
            return str(self.prediction)
        p = self.prediction
        memory = "" if p.peak_bytes is None else f", peak {p.peak_bytes / 1e9:.2f} GB"
        crowded = "" if self.fits else ", more than the GPU's memory"
        return f"{p.whatif}: {self.gain:.2f} x, {p.ms:.3f} ms [{p.low_ms:.3f}, {p.high_ms:.3f}]{memory}{crowded}; {self.effort}"


@dataclass(frozen=True)
class Advised(Result):
    """What was tried on a step: each change alone by gain, what was declined last, and the best combinations."""

    advice: tuple[Advice, ...]
    combined: Advice | None  # at the same batch; None when nothing pays
    larger_batch: Advice | None  # where a larger batch pays more
    memory_limit: int | None  # bytes
    tried: int  # predictions made

    def __str__(self) -> str:
        lines = [str(a) for a in self.advice]
        if self.combined is not None:
            lines.append(f"together: {self.combined}")
        if self.larger_batch is not None:
            lines.append(f"with a larger batch: {self.larger_batch}")
        return "\n".join(lines)

    def _answered(self) -> list[Advice]:
        """The best together first, then each alone."""
        return [a for a in (self.combined, self.larger_batch, *self.advice) if a is not None and a.declined is None]

    def _repr_html_(self) -> str:
        from ._pictures import band_svg, html_table

        answered = self._answered()
        most = 1.05 * max((a.prediction.high_ms for a in answered), default=1)
        rows = [(a.whatif, a.prediction.ms, band_svg(a.prediction.low_ms, a.prediction.ms, a.prediction.high_ms, most),
                 f"{a.gain:.2f} x", "" if a.prediction.peak_bytes is None else f"{a.prediction.peak_bytes / 1e9:.2f} GB", a.effort)
                for a in answered]
        return html_table(("change", "ms", "10 % … 90 %", "samples/s", "peak", "effort"), rows, most=30)

    @property
    def ms(self) -> float | None:
        """The step with the best combination at the same batch; None when nothing pays."""
        return None if self.combined is None else self.combined.ms

    def _rows(self) -> list[dict[str, Any]]:
        return [row for a in (self.combined, self.larger_batch, *self.advice) if a is not None for row in a._rows()]

    def _bars(self) -> tuple[list[Bar], float | None]:
        answered = [a.prediction for a in self._answered()]
        return [(p.whatif, p.low_ms, p.ms, p.high_ms) for p in answered], answered[0].ms * answered[0].speedup if answered else None

    def _title(self) -> str:
        return "what each change gives"


def advised(values: dict[str, Any]) -> Advised:
    """From what the compiled half gives."""
    return Advised(tuple(_one(a) for a in values["advice"]), _maybe(values["combined"]), _maybe(values["larger_batch"]),
                   values["memory_limit"], values["tried"])


def _maybe(value: dict[str, Any] | None) -> Advice | None:
    return None if value is None else _one(value)


def _one(value: dict[str, Any]) -> Advice:
    prediction = {**value["prediction"], "graph": None}
    return Advice(Prediction(**prediction), value["gain"], value["samples"], value["fits"], value["effort"], value["code"])
