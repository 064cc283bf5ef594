#!/usr/bin/env python3
"""How far predictions of each what-if were off where it was really made: src/whatif/validation/errors.csv, which the page of
`foretrace report` shows next to each change.

    tools/track_record.py            writes the file from the rows of docs/internals/appendix-{accuracy,scale,jobs,published}.md
    tools/track_record.py --check    fails when the file does not say what those rows do

The rows are those that tools/accuracy.py, jax_accuracy.py, scale_accuracy.py, plan_accuracy.py, job_predictions.py and published_steps.py
write with `--update-docs`; all but the last write this file too. A row counts for every what-if it needs, alone or among others. Errors are those of
all predictions, rows are measurements: a step of a job that is predicted from one GPU and from all ranks is one. The error in
time is the distance to the median, of noisy rows to their 10th … 90th percentile, as everywhere in docs/internals/accuracy.md. Networks are what
connected the ranks of the rows with a time (tools/job_rows.py); a step on one GPU has none. Blind rows are those of data/*/first.csv: predicted
by the program that had not met them (tools/first_predictions.py).
"""

import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean

import fitted
import job_rows
from truth import ROOT, csv_rows, whatifs_of

ERRORS = ROOT / "src" / "whatif" / "validation" / "errors.csv"
APPENDIX = ROOT / "docs" / "internals" / "appendix-accuracy.md"
SCALE = ROOT / "docs" / "internals" / "appendix-scale.md"
PUBLISHED = ROOT / "docs" / "internals" / "appendix-published.md"
JAX = "jax-rows"  # the mark of its rows in the same appendix
HEAD = "# what-if,rows with a time,step % mean,step % worst,GPU time % mean,peak memory % mean,worst row,unseen rows,unseen step % mean,networks,blind rows,blind step % mean: written by tools/track_record.py\n"
# What a case of several workers shows. zero3 is fsdp under its other name (docs/internals/scale.md).
CASES = {
    "ddp": ["ddp"], "ddpfp16": ["ddp", "compress-gradients"], "powersgd": ["ddp", "compress-gradients"],
    "topk": ["ddp", "compress-gradients"], "dgc": ["ddp", "compress-gradients"], "qsgd": ["ddp", "compress-gradients"],
    "terngrad": ["ddp", "compress-gradients"], "fsdp": ["fsdp", "zero3"], "ps": ["ps"], "servers": ["ps"], "zero1": ["zero1"],
    "zero2": ["zero2"], "blueconnect": ["blueconnect"], "p3": ["p3"], "horovod": ["horovod"], "fsdp1": ["fsdp", "zero3"], "bandwidth": ["bandwidth"],
}  # fmt: skip


FIRST = "first.csv"  # of a folder of data/: what was predicted of its rows before the program had met them (tools/first_predictions.py)


@dataclass(frozen=True)
class First:
    """A row as it was first predicted."""

    row: str
    network: str  # between its ranks; empty on one GPU
    whatifs: tuple[str, ...]
    error_pct: float
    measured_ms: float = 0
    first_ms: float | None = None  # None: declined
    to_median_pct: float = 0


def first_predictions() -> list[First]:
    rows = [row for path in sorted((ROOT / "data").glob(f"*/{FIRST}")) for row in csv_rows(path)]
    return [First(r["row"], r["network"], tuple(r["what-ifs"].split(" + ")), float(r["error_pct"]), float(r["measured_ms"]),
                  float(r["first_ms"]) if r["first_ms"] else None, float(r["to_median_pct"])) for r in rows]


@dataclass
class Errors:
    """Absolute percent, one entry a row that can be judged."""

    step: list[float] = field(default_factory=list)
    gpu: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    unseen: list[float] = field(default_factory=list)  # steps of networks that nothing is fitted on
    blind: list[float] = field(default_factory=list)  # steps as they were predicted before their measurements were used
    worst: tuple[float, str] = (-1.0, "")
    networks: set[str] = field(default_factory=set)
    measured: set[str] = field(default_factory=set)  # measurements with a time: some are predicted in two ways

    def add_step(self, value: float, row: str, network: str = "", measurement: str = "") -> None:
        self.step.append(value)
        self.measured.add(measurement or f"{row}, {len(self.step)}")
        if network:
            self.networks.add(network)
        self.worst = max(self.worst, (value, row), key=lambda w: w[0])


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def between(text: str, name: str) -> list[list[str]]:
    """The rows of the table that stands between two marks, without its head."""
    part = text.split(f"<!-- {name} -->", 1)[1].split("<!-- end of", 1)[0]
    table = [cells(line) for line in part.splitlines() if line.startswith("|")]
    return [row for row in table[1:] if not set(row[0]) <= set("-:")]


def records(text: str, name: str) -> list[dict[str, str]]:
    """The same rows, by the names of their columns."""
    part = text.split(f"<!-- {name} -->", 1)[1].split("<!-- end of", 1)[0]
    head = next(cells(line) for line in part.splitlines() if line.startswith("|"))
    return [dict(zip(head, row, strict=True)) for row in between(text, name)]


def job_records(jobs: str) -> list[dict[str, str]]:
    """Rows of parallel jobs that a what-if was asked for."""
    return [row for mark in job_rows.MARKS.values() for row in records(jobs, mark) if row["what-if"] != job_rows.NO_WHATIF]


def job_whatifs(row: dict[str, str]) -> list[str]:
    """What a row of parallel jobs shows."""
    names = row["what-if"].split(" + ")
    return names + (["zero3"] if "fsdp" in names else [])  # its other name (docs/internals/scale.md)


def job_measurement(row: dict[str, str]) -> str:
    """What a row of parallel jobs was compared with: the case behind the arrow. From one GPU and from all ranks, it is the same measurement."""
    return f"{row['model']} {row['ranks']} {row['case'].split('→')[-1].strip()} {row['measured ms']}"


def scheme_whatifs(case: str) -> list[str]:
    """The what-ifs a case of several workers shows: "ddp@5" has buckets of its own."""
    name, _, number = case.partition("@")
    return CASES.get(name, []) + (["bucket"] if name == "ddp" and number else [])


def percent(cell: str) -> float | None:
    try:
        return abs(float(cell.removesuffix("%").strip()))
    except ValueError:
        return None


def found(appendix: str, scale: str, jobs: str, published: str, firsts: Iterable[First] = ()) -> dict[str, Errors]:
    out: dict[str, Errors] = defaultdict(Errors)
    for row in between(appendix, "rows"):
        for use in whatifs_of(row[0].split()[-1]) or []:
            mine = out[use.split(":")[0]]
            if (value := percent(row[6])) is not None:
                mine.add_step(value, row[0])
            for values, cell in ((mine.gpu, row[7]), (mine.memory, row[8])):
                if (value := percent(cell)) is not None:
                    values.append(value)
    for pair in records(appendix, JAX):
        mine = out[pair["what if"].split(":")[0]]
        if (value := percent(pair["step %"])) is not None:
            mine.add_step(value, f"JAX {pair['measured']} from {pair['from']}")
        if (value := percent(pair["GPU time %"])) is not None:
            mine.gpu.append(value)
    for row in between(appendix, "unseen-rows"):
        for use in whatifs_of(row[0].split()[-1]) or []:
            if (value := percent(row[6])) is not None:
                out[use.split(":")[0]].unseen.append(value)
    for step in records(scale, "scale-rows"):
        for name in scheme_whatifs(step["case"]):
            if (value := percent(step["error %"])) is not None:
                out[name].add_step(value, f"{step['model']} {step['ranks']} {step['case']}", step["network"])
    for step in job_records(jobs):
        for name in job_whatifs(step):
            if (value := percent(step["error %"])) is not None:
                out[name].add_step(value, f"{step['model']} {step['ranks']} {step['case']}", step["network"], job_measurement(step))
            if (value := percent(step["peak %"])) is not None:
                out[name].memory.append(value)
    for row in between(published, "published-rows"):
        if (value := percent(row[7])) is not None:
            out["gpu"].add_step(value, f"{row[0]} {row[1]} {row[2]} on {row[4]}")
    for first in firsts:
        for name in set(first.whatifs) - {job_rows.NO_WHATIF}:
            out[name].blind.append(abs(first.error_pct))
    return out


def text_of(errors: dict[str, Errors]) -> str:
    def one(values: list[float], how=mean) -> str:
        return f"{how(values):.1f}" if values else ""

    lines = (f"{name},{len(e.measured)},{one(e.step)},{one(e.step, max)},{one(e.gpu)},{one(e.memory)},{e.worst[1].replace(',', ' ')},{len(e.unseen)},{one(e.unseen)},"
             f"{len(e.networks)},{len(e.blind)},{one(e.blind)}\n"
             for name, e in sorted(errors.items()))
    return HEAD + "".join(lines)


def now() -> str:
    return text_of(found(APPENDIX.read_text(), SCALE.read_text(), job_rows.APPENDIX.read_text(), PUBLISHED.read_text(), first_predictions()))


def files() -> dict[Path, str]:
    return {ERRORS: now()}


if __name__ == "__main__":
    sys.exit(fitted.main(__doc__, lambda _: files()))
