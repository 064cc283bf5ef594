"""Measured steps of parallel jobs next to their predictions, as the rows of docs/internals/appendix-jobs.md: tools/plan_accuracy.py and
tools/job_predictions.py write one table each, tools/validation.py and tools/track_record.py read them.
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median

from accuracy_tables import aligned, write_between
from truth import QUIET_SPREAD, ROOT, json_lines

APPENDIX = ROOT / "docs" / "internals" / "appendix-jobs.md"
MARKS = {"one": "jobs-from-one", "all": "jobs-from-all"}  # by what was recorded: one GPU, or all ranks of another job
OUTSIDE = "FORETRACE_TRUTH"  # the place of folders that are not part of the repository
HEAD = ["folder", "model", "ranks", "case", "what-if", "measured ms", "p10 … p90", "predicted ms", "band", "error %", "to the median %", "in band",
        "network", "peak %"]
# What connects the ranks, by the tag of a session (data/README.md): the network is what differs, not the day.
NETWORKS = {"inside": "one GPU", "inside2": "one GPU", "inside1": "one GPU", "fast": "sockets", "net": "sockets", "mps": "sockets",
            "pairs": "two nodes over sockets"}
NO_WHATIF = "–"
USUAL_CHANNELS = "4"


@dataclass(frozen=True)
class Step:
    """A measured step over all ranks of a job, and the peak of the fullest."""

    low_ms: float
    median_ms: float
    high_ms: float
    peak_bytes: int | None = None

    @property
    def quiet(self) -> bool:
        return self.high_ms - self.low_ms <= QUIET_SPREAD * self.median_ms

    def to_median_pct(self, ms: float) -> float:
        return 100 * (ms / self.median_ms - 1)

    def error_pct(self, ms: float) -> float:
        """Signed: to the median of a quiet row, to the nearer end of [p10, p90] of a noisy one."""
        return self.to_median_pct(ms if self.quiet else self.median_ms + ms - min(max(ms, self.low_ms), self.high_ms))


@dataclass(frozen=True)
class JobRow:
    folder: Path  # the folder of the trace
    model: str
    ranks: int
    case: str  # what was measured: "ddp/bs2"; behind an arrow where a job was recorded: "ddp → ddp/bs2"
    whatifs: tuple[str, ...]  # that were asked for it: names of the catalogue; none: a plan
    tag: str
    measured: Step
    prediction: dict  # of the program's JSON

    @property
    def step_pct(self) -> float:
        return self.measured.error_pct(self.prediction["ms"])

    @property
    def peak_pct(self) -> float | None:
        predicted, measured = self.prediction.get("peak_bytes"), self.measured.peak_bytes
        return 100 * (predicted / measured - 1) if predicted and measured else None

    @property
    def in_band(self) -> bool | None:
        """Whether the band holds the measured median."""
        low, high = self.prediction.get("low_ms"), self.prediction.get("high_ms")
        return None if low is None or high is None else low <= self.measured.median_ms <= high

    @property
    def name(self) -> str:
        return f"{self.model} {self.ranks} {self.case}"

    def cells(self) -> list[str]:
        p, m = self.prediction, self.measured
        peak, inside = self.peak_pct, self.in_band
        return [folder_name(self.folder), self.model, str(self.ranks), self.case, " + ".join(self.whatifs) or NO_WHATIF, f"{m.median_ms:.1f}",
                f"{m.low_ms:.1f} … {m.high_ms:.1f}", f"{p['ms']:.1f}", NO_WHATIF if inside is None else f"{p['low_ms']:.1f} … {p['high_ms']:.1f}",
                f"{self.step_pct:+.1f}", f"{m.to_median_pct(p['ms']):+.1f}", NO_WHATIF if inside is None else "yes" if inside else "no",
                NETWORKS[self.tag], NO_WHATIF if peak is None else f"{peak:+.1f}"]


def outside(folder: Path) -> bool:
    return not folder.resolve().is_relative_to(ROOT)


def folder_name(folder: Path) -> str:
    return f"{OUTSIDE}/{folder.name}" if outside(folder) else folder.name


def truth_folder(name: str) -> list[Path]:
    """A folder outside the repository, where it is at hand."""
    path = Path(os.environ.get("FORETRACE_TRUTH", "")) / name
    return [path] if os.environ.get("FORETRACE_TRUTH") and path.is_dir() else []


def rows_of(folder: Path) -> list[dict]:
    """The measured rows of every rank."""
    files = [*sorted(folder.glob("truth*.jsonl")), *folder.glob("rows.jsonl")]
    return [row for file in files for row in json_lines(file) if "median_ms" in row]


def channels_of(row: dict) -> str:
    return row.get("max_ctas", USUAL_CHANNELS)


def step_of(ranks: Iterable[dict]) -> Step:
    """All ranks wait for each other: the medians over them, and the highest peak."""
    rows = list(ranks)
    low, middle, high = (median(r[key] for r in rows) for key in ("p10_ms", "median_ms", "p90_ms"))
    peaks = [r["peak_bytes"] for r in rows if r.get("peak_bytes")]
    return Step(low, middle, high, max(peaks, default=None))


def summary(rows: Sequence[JobRow]) -> str:
    steps, peaks = [abs(r.step_pct) for r in rows], [abs(p) for r in rows if (p := r.peak_pct) is not None]
    middle = [abs(r.measured.to_median_pct(r.prediction["ms"])) for r in rows]
    known = [r.in_band for r in rows if r.in_band is not None]
    return (f"{len(rows)} rows: step {mean(steps):.1f} % off on average, {max(steps):.1f} % at most ({mean(middle):.1f} and {max(middle):.1f} % to the"
            f" median); in the band {sum(known)} of {len(known)}; peak memory of {len(peaks)}: {mean(peaks):.1f} and {max(peaks):.1f} %.")


def write(kind: str, rows: Sequence[JobRow]) -> None:
    ordered = sorted(rows, key=lambda r: (folder_name(r.folder), r.name, r.whatifs))
    write_between(APPENDIX, MARKS[kind], "\n".join([*aligned(HEAD, [r.cells() for r in ordered]), "", summary(ordered)]))
