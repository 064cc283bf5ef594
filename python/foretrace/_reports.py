"""doctor, summary and replay as objects: print one to read it, use its properties to compute with it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import cached_property
from html import escape
from typing import Any

from . import _core
from ._report_rows import Finding, KernelTime, LayerTime, OperationTime, PhaseTime, ReplayedStep, rows
from ._result import Bar, Result, bar
from ._trace import Trace, load
from ._width import report_width


class Report(Result, Mapping[str, Any]):
    """A report: `print(report)` shows the text the command line prints. What is asked for most has a property of its own;
    `report["key"]` gives any value of the JSON form."""

    def __init__(self, text: str, raw: str) -> None:
        self._text = text
        self._raw = raw

    @property
    def text(self) -> str:
        """The report as people read it."""
        return self._text

    def json(self) -> dict[str, Any]:
        """The report as `foretrace … --json` gives it."""
        values: dict[str, Any] = json.loads(self._raw)
        return values

    @cached_property
    def _values(self) -> dict[str, Any]:
        return self.json()

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __str__(self) -> str:
        return self._text.rstrip("\n")

    def __repr__(self) -> str:
        return self._text.rstrip("\n")

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self._text)}</pre>"


class Doctor(Report):
    """What a trace holds, what it lacks, and what each lack costs a prediction."""

    @property
    def verdict(self) -> str:
        """One sentence."""
        return str(self["verdict"])

    @property
    def predicts(self) -> bool:
        """Whether anything can be predicted from this trace."""
        return bool(self["events"]) and not any(f.weight == "blocks" for f in self.findings)

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """What it lacks or is odd about it, heaviest first."""
        return rows(Finding, self["findings"])

    @property
    def ms(self) -> float | None:
        """The median step as traced; None where no step was found."""
        steps = sorted(float(s["traced_ms"]) for s in self["steps"])
        return steps[(len(steps) - 1) // 2] if steps else None

    def _rows(self) -> list[dict[str, Any]]:
        """One row for each finding."""
        return [asdict(finding) for finding in self.findings]

    def _bars(self) -> tuple[list[Bar], float | None]:
        return [bar(s["step"], s["traced_ms"]) for s in self["steps"]], None

    def _title(self) -> str:
        return "the steps of the trace"


class Summary(Report):
    """Where the time of one step goes."""

    def __init__(self, text: str, raw: str, top: int = 10) -> None:
        super().__init__(text, raw)
        self._top = top

    @property
    def ms(self) -> float:
        """The step without the profiler; as traced where no graph could be built."""
        return self.traced_ms if self.unprofiled_ms is None else self.unprofiled_ms

    def _rows(self) -> list[dict[str, Any]]:
        """One row for each kernel."""
        return [asdict(kernel) for kernel in self.kernels]

    def _bars(self) -> tuple[list[Bar], float | None]:
        return [bar(kernel.kernel, kernel.total_ms) for kernel in self.kernels[:self._top]], None

    def _title(self) -> str:
        return f"the longest kernels of {self.step}"

    @property
    def step(self) -> str:
        """"ProfilerStep#4"."""
        return str(self["step"])

    @property
    def traced_ms(self) -> float:
        return float(self["traced_ms"])

    @property
    def unprofiled_ms(self) -> float | None:
        """The step as it runs without the profiler; None where no graph could be built."""
        return _number(self["unprofiled_ms"])

    @property
    def gpu_ms(self) -> float:
        """Kernels and copies together."""
        return float(self["gpu_ms"])

    @property
    def gpu_busy_ms(self) -> float:
        """While any of them ran."""
        return float(self["gpu_busy_ms"])

    @property
    def samples_per_s(self) -> float | None:
        """As traced; None where neither `batch` nor the shapes in the trace say how many samples a step has."""
        return _number(self["samples_per_s"])

    @property
    def unprofiled_samples_per_s(self) -> float | None:
        """Without the profiler."""
        return _number(self["unprofiled_samples_per_s"])

    @property
    def tokens_per_s(self) -> float | None:
        """Without the profiler; None where the shapes in the trace do not say how many tokens a step has."""
        return _number(self["tokens_per_s"])

    @property
    def mfu(self) -> float | None:
        """Model FLOPs utilisation of the step without the profiler, 0 to 1."""
        return _number(self["mfu"])

    @property
    def hfu(self) -> float | None:
        """The same with what is computed a second time."""
        return _number(self["hfu"])

    @property
    def achieved_tflops(self) -> float | None:
        """Model FLOPs over the step without the profiler."""
        return _number(self["achieved_tflops"])

    @property
    def peak_bytes(self) -> int | None:
        """Of the allocator; None where the trace has no memory events."""
        return None if self["peak_bytes"] is None else int(self["peak_bytes"])

    @property
    def bottleneck(self) -> str | None:
        """What the length of the step follows without the profiler, in one sentence."""
        return None if self["unprofiled_bottleneck"] is None else str(self["unprofiled_bottleneck"])

    @property
    def bound_by(self) -> str | None:
        """"cpu", "gpu", "communication", "loading", "other_ranks", "mixed" or "waits": the first word of it; None without a graph."""
        return None if self["bound_by"] is None else str(self["bound_by"])

    def _repr_html_(self) -> str:
        from ._pictures import html_table, paragraphs

        traced = f"{self.traced_ms:.2f} ms as traced"
        time = traced if self.unprofiled_ms is None else f"{self.unprofiled_ms:.2f} ms without the profiler ({traced})"
        rates = [f"{rate:.0f} {of}/s" for rate, of in ((self.unprofiled_samples_per_s, "samples"), (self.tokens_per_s, "tokens")) if rate]
        if self.mfu is not None:
            rates.append(f"MFU {100 * self.mfu:.1f} %")
        said = [f"{self.step}: {time}.", self.bottleneck or "", ", ".join(rates)]
        layers = [(r["layer"], r["type"], r["gpu_ms"], r["cpu_ms"]) for r in self["layers"]]
        kernels = [(r["kernel"][:90], r["launches"], r["total_ms"]) for r in self["kernels"]]
        return (paragraphs(said) + html_table(("layer", "type", "GPU ms", "CPU ms"), layers, most=self._top) +
                html_table(("kernel", "launches", "ms"), kernels, most=self._top))

    @cached_property
    def phases(self) -> tuple[PhaseTime, ...]:
        return rows(PhaseTime, self["phases"])

    @cached_property
    def layers(self) -> tuple[LayerTime, ...]:
        """By GPU time."""
        return rows(LayerTime, self["layers"])

    @cached_property
    def operations(self) -> tuple[OperationTime, ...]:
        """By GPU time."""
        return rows(OperationTime, self["operations"])

    @cached_property
    def kernels(self) -> tuple[KernelTime, ...]:
        """By time."""
        return rows(KernelTime, self["kernels"])


class Replay(Report):
    """Every step simulated unchanged and compared with the trace, and the step as it runs without the profiler."""

    @cached_property
    def steps(self) -> tuple[ReplayedStep, ...]:
        return rows(ReplayedStep, self["steps"])

    @property
    def ms(self) -> float:
        """The median step without the profiler."""
        return self.unprofiled_ms

    def _rows(self) -> list[dict[str, Any]]:
        return [asdict(step) for step in self.steps]

    def _bars(self) -> tuple[list[Bar], float | None]:
        return [bar(f"{step.step}, {how}", ms) for step in self.steps
                for how, ms in (("traced", step.traced_ms), ("replayed", step.replayed_ms))], None

    def _title(self) -> str:
        return "steps as traced and as replayed"

    @property
    def mean_abs_error_pct(self) -> float:
        return float(self["mean_abs_error_pct"])

    @property
    def unprofiled_ms(self) -> float:
        """The median step as it runs without the profiler."""
        return float(self["unprofiled_ms"])

    @property
    def unprofiled_low_ms(self) -> float:
        """10th percentile."""
        return float(self["unprofiled_low_ms"])

    @property
    def unprofiled_high_ms(self) -> float:
        """90th percentile."""
        return float(self["unprofiled_high_ms"])

    @property
    def bottleneck(self) -> str:
        """What the length of the step follows without the profiler, in one sentence."""
        return str(self["unprofiled_bottleneck"])

    @property
    def bound_by(self) -> str:
        """As `Summary.bound_by`."""
        return str(self["bound_by"])


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _trace_of(source: str | os.PathLike[str] | Trace) -> Trace:
    return source if isinstance(source, Trace) else load(source)


def doctor(source: str | os.PathLike[str] | Trace) -> Doctor:
    """What a trace (or the file at a path) holds, lacks, and what each lack costs."""
    return Doctor(*_core.doctor(_trace_of(source)._core, report_width()))


def summary(source: str | os.PathLike[str] | Trace, step: int | None = None, samples: float | None = None,
            top: int = 10) -> Summary:
    """Where the time of one step goes.

    step: the number in ProfilerStep#N; default the median step.
    samples: samples a step works on, for samples per second.
    top: rows shown of each long table (the JSON form has them all).
    """
    return Summary(*_core.summary(_trace_of(source)._core, step, samples, report_width(), top), top)


def replay(source: str | os.PathLike[str] | Trace, step: int | None = None, *, measured_ms: float | None = None) -> Replay:
    """Every step simulated unchanged and compared with the trace: what predictions start from.

    step: only the one with this number in ProfilerStep#N. measured_ms: how long a step really takes without the profiler.
    """
    return Replay(*_core.replay(_trace_of(source)._core, step, measured_ms, report_width()))
