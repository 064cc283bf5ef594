#!/usr/bin/env python3
"""What to expect of a prediction, by kind of question: the first tables of docs/internals/accuracy.md.

    tools/expectation.py            writes them from the rows of docs/internals/appendix-accuracy.md
    tools/expectation.py --check    fails when they do not say what those rows do

`tools/accuracy.py --update-docs` writes the rows, and then these tables. Only rows whose time can be judged count (tools/truth.py).
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev

import fitted
from accuracy_tables import aligned, with_between
from track_record import APPENDIX, between
from truth import ROOT, Folder, whatifs_of

DOCS = ROOT / "docs" / "internals" / "accuracy.md"
MARK = "expectation"
# What people ask, by the what-if that answers it.
KINDS = {
    "precision: amp, tf32, fp32, fp8, half": {"amp", "tf32", "fp32", "fp8", "half"},
    "batch size, sequence length, layers": {"batch", "sequence", "layers"},
    "accumulate, checkpoint, offload, compress-activations": {"accumulate", "checkpoint", "offload", "compress-activations"},
    "optimizer, cuda-graph, no-sync, dataloader": {"fused-optimizer", "foreach-optimizer", "cuda-graph", "no-sync", "dataloader"},
    "attention, layout": {"flash-attention", "channels-last"},
    "compile": {"compile"},
    "kernels of one's own: batchnorm, substitute": {"batchnorm", "substitute"},
}
TOGETHER = "several changes together"


@dataclass
class Case:
    """One row of the appendix. Percent; None where there is nothing to compare."""

    name: str
    network: str
    quiet: bool
    measured_ms: float
    span_ms: tuple[float, float]
    predicted_ms: float | None
    in_band: bool
    timed: bool
    gpu_pct: float | None
    memory_pct: float | None

    @property
    def model(self) -> str:
        return " ".join(self.name.split()[:2])

    @property
    def kind(self) -> str:
        uses = whatifs_of(self.name.split()[-1]) or []
        if len(uses) > 1:
            return TOGETHER
        return next(kind for kind, names in KINDS.items() if uses[0].split(":")[0] in names)

    @property
    def to_median_pct(self) -> float:
        return 100.0 if self.predicted_ms is None else 100 * (self.predicted_ms / self.measured_ms - 1)

    @property
    def to_span_pct(self) -> float:
        if self.predicted_ms is None:
            return 100.0
        low, high = self.span_ms
        return 100 * (self.predicted_ms - min(max(self.predicted_ms, low), high)) / self.measured_ms


def number(cell: str) -> float | None:
    return None if cell == "–" else float(cell)


def span(cell: str) -> tuple[float, float]:
    low, high = cell.split("…")
    return float(low), float(high)


def cases(table: list[list[str]]) -> list[Case]:
    out = []
    for name, measured, predicted, _, _, _, time, gpu, memory, measured_span, in_band, network in table:
        out.append(Case(name, network, "noisy" not in measured, float(measured.split()[0]), span(measured_span),
                        None if predicted == "declined" else float(predicted), in_band == "yes", time != "–", number(gpu), number(memory)))
    return out


def mean_and_worst(values: list[float]) -> str:
    return f"{mean(map(abs, values)):.1f} / {max(map(abs, values)):.1f}" if values else "–"


def cells(title: str, mine: list[Case]) -> list[str]:
    def half(rows: list[Case], bias: bool) -> list[str]:
        errors = [c.to_median_pct for c in rows]
        return [str(len(rows)), mean_and_worst(errors), *([f"{mean(errors):+.1f}" if rows else "–"] if bias else []),
                mean_and_worst([c.to_span_pct for c in rows])]

    return [title, str(len({c.network for c in mine})), *half([c for c in mine if c.quiet], False), *half([c for c in mine if not c.quiet], True),
            f"{sum(c.in_band for c in mine)} of {len(mine)}"]


def table(groups: dict[str, list[Case]]) -> list[str]:
    head = ["question", "networks", "quiet rows", "to the median %", "to the span %", "noisy rows", "to the median %", "bias %", "to the span %", "in band"]
    return aligned(head, [cells(title, mine) for title, mine in groups.items() if mine])


def by_kind(rows: list[Case]) -> dict[str, list[Case]]:
    return {**{kind: [c for c in rows if c.kind == kind] for kind in [*KINDS, TOGETHER]}, "all": rows}


def worst(rows: list[Case], count: int) -> list[str]:
    def line(c: Case) -> str:
        said = "declined" if c.predicted_ms is None else f"{c.predicted_ms:.1f} ms predicted"
        return f"- {c.name}: {said}, {c.measured_ms:.1f} measured ({c.span_ms[0]:.1f} … {c.span_ms[1]:.1f}), {c.to_median_pct:+.0f} %"

    return [line(c) for c in sorted(rows, key=lambda c: -abs(c.to_median_pct))[:count]]


def together(rows: list[Case]) -> tuple[float, float, float]:
    """The mean error of a model, averaged over models, its standard error, and the part of the variance that is between models."""
    models: dict[str, list[float]] = {}
    for c in rows:
        models.setdefault(c.model, []).append(c.to_median_pct)
    means = [mean(errors) for errors in models.values()]
    within = sum((e - mean(errors)) ** 2 for errors in models.values() for e in errors)
    whole = sum((c.to_median_pct - mean(r.to_median_pct for r in rows)) ** 2 for c in rows)
    return mean(means), stdev(means) / len(means) ** 0.5, 1 - within / whole


def measured_twice(folder: Folder) -> list[float]:
    """How far the second measurement of a noisy step is from the first, in percent."""
    again = {r.model: r.median for r in folder.rows if r.variant == "again"}
    return [100 * (again[r.model] / r.median - 1) for r in folder.rows if r.variant == "base" and r.model in again and not r.quiet]


def text_of(appendix: str, twice: list[float]) -> str:
    every, unseen = cases(between(appendix, "rows")), cases(between(appendix, "unseen-rows"))
    rows = [c for c in every if c.timed]
    attached = [c for c in every if not c.timed]
    noisy = [c for c in rows if not c.quiet]
    bias, deviation, shared = together(noisy)
    gpu, memory = ([v for c in every if (v := getattr(c, name)) is not None] for name in ("gpu_pct", "memory_pct"))
    unseen_gpu, unseen_memory = ([v for c in unseen if (v := getattr(c, name)) is not None] for name in ("gpu_pct", "memory_pct"))
    return "\n".join([
        "**Networks the project was developed with.** Costs and bands are fitted to such rows; the band of a row leaves its own network out."
        " Errors are mean / worst.", "", *table(by_kind(rows)), "", "Worst:", "", *worst(rows, 5), "",
        "**Networks nothing is fitted on** (`data/h200-unseen`), with the program as it is now:", "", *table({"all": unseen}), "", "Worst:", "",
        *worst(unseen, 3), "",
        f"GPU time is {mean_and_worst(gpu)} % off in the first group and {mean_and_worst(unseen_gpu)} % in the second; peak memory"
        f" {mean_and_worst(memory)} % and {mean_and_worst(unseen_memory)} %.", "",
        f"**Noise and bias.** Noisy rows are mostly CPU-bound steps. The same step, measured again on the same host, differs by"
        f" {mean(map(abs, twice)):.1f} % on average ({len(twice)} steps). Predictions of noisy rows are {mean(c.to_median_pct for c in noisy):+.1f} %"
        f" off on average. Rows of one model err together ({100 * shared:.0f} % of the variance is between models). A likely cause is that"
        f" its unchanged step was timed at one moment of the host and its changes at others. Averaged by model the bias is {bias:+.1f} ± {deviation:.1f} %.", "",
        f"{len(attached)} more rows were timed while CUPTI, the profiler's library, was attached. It makes CPU-bound steps longer, and predictions"
        f" are of steps without it: they are {mean(c.to_median_pct for c in attached):+.1f} % off. Only the GPU time and memory of these rows"
        " count."])


def now() -> str:
    return text_of(APPENDIX.read_text(), measured_twice(Folder(ROOT / "data" / "h200-clean", every=True)))


def files(docs: Path = DOCS) -> dict[Path, str]:
    """The page as the rows would have it."""
    return {docs: with_between(docs, MARK, now())}


if __name__ == "__main__":
    sys.exit(fitted.main(__doc__, lambda _: files()))
