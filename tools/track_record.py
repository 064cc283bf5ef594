#!/usr/bin/env python3
"""How far predictions of each what-if were off where it was really made: src/whatif/validation/errors.csv, which the page of
`foretrace report` shows beside each change.

    tools/track_record.py            writes the file from the rows of docs/internals/appendix-{accuracy,scale,published}.md
    tools/track_record.py --check    fails when the file does not say what those rows do

The rows are those that tools/accuracy.py, tools/scale_accuracy.py and tools/published_steps.py write with `--update-docs`; the first two write this file too. A row
counts for every what-if it needs, alone or among others. The error in time is the distance to the median, of noisy rows to their
10th … 90th percentile, as everywhere in docs/internals/accuracy.md.
"""

import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean

import fitted
from truth import ROOT, whatifs_of

ERRORS = ROOT / "src" / "whatif" / "validation" / "errors.csv"
APPENDIX = ROOT / "docs" / "internals" / "appendix-accuracy.md"
SCALE = ROOT / "docs" / "internals" / "appendix-scale.md"
PUBLISHED = ROOT / "docs" / "internals" / "appendix-published.md"
HEAD = "# what-if,rows with a time,step % mean,step % worst,GPU time % mean,peak memory % mean,worst row,unseen rows,unseen step % mean: written by tools/track_record.py\n"
# What a case of several workers shows. zero3 is fsdp under its other name (docs/internals/scale.md).
CASES = {
    "ddp": ["ddp"], "ddpfp16": ["ddp", "compress-gradients"], "powersgd": ["ddp", "compress-gradients"],
    "topk": ["ddp", "compress-gradients"], "dgc": ["ddp", "compress-gradients"], "qsgd": ["ddp", "compress-gradients"],
    "terngrad": ["ddp", "compress-gradients"], "fsdp": ["fsdp", "zero3"], "ps": ["ps"], "servers": ["ps"], "zero1": ["zero1"],
    "zero2": ["zero2"], "blueconnect": ["blueconnect"], "p3": ["p3"], "horovod": ["horovod"], "fsdp1": ["fsdp", "zero3"], "bandwidth": ["bandwidth"],
}  # fmt: skip


@dataclass
class Errors:
    """Absolute percent, one entry a row that can be judged."""

    step: list[float] = field(default_factory=list)
    gpu: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    unseen: list[float] = field(default_factory=list)  # steps of networks that nothing is fitted on
    worst: tuple[float, str] = (-1.0, "")

    def add_step(self, value: float, row: str) -> None:
        self.step.append(value)
        self.worst = max(self.worst, (value, row), key=lambda w: w[0])


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def between(text: str, name: str) -> list[list[str]]:
    """The rows of the table that stands between two marks, without its head."""
    part = text.split(f"<!-- {name} -->", 1)[1].split("<!-- end of", 1)[0]
    table = [cells(line) for line in part.splitlines() if line.startswith("|")]
    return [row for row in table[1:] if not set(row[0]) <= set("-:")]


def percent(cell: str) -> float | None:
    try:
        return abs(float(cell.removesuffix("%").strip()))
    except ValueError:
        return None


def found(appendix: str, scale: str, published: str) -> dict[str, Errors]:
    out: dict[str, Errors] = defaultdict(Errors)
    for row in between(appendix, "rows"):
        for use in whatifs_of(row[0].split()[-1]) or []:
            mine = out[use.split(":")[0]]
            if (value := percent(row[6])) is not None:
                mine.add_step(value, row[0])
            for values, cell in ((mine.gpu, row[7]), (mine.memory, row[8])):
                if (value := percent(cell)) is not None:
                    values.append(value)
    for row in between(appendix, "unseen-rows"):
        for use in whatifs_of(row[0].split()[-1]) or []:
            if (value := percent(row[6])) is not None:
                out[use.split(":")[0]].unseen.append(value)
    for row in between(scale, "scale-rows"):
        case, _, number = row[2].partition("@")
        for name in CASES.get(case, []) + (["bucket"] if case == "ddp" and number else []):
            if (value := percent(row[7])) is not None:
                out[name].add_step(value, " ".join(row[:3]))
    for row in between(published, "published-rows"):
        if (value := percent(row[7])) is not None:
            out["gpu"].add_step(value, f"{row[0]} {row[1]} {row[2]} on {row[4]}")
    return out


def text_of(errors: dict[str, Errors]) -> str:
    def one(values: list[float], how=mean) -> str:
        return f"{how(values):.1f}" if values else ""

    lines = (f"{name},{len(e.step)},{one(e.step)},{one(e.step, max)},{one(e.gpu)},{one(e.memory)},{e.worst[1].replace(',', ' ')},{len(e.unseen)},{one(e.unseen)}\n"
             for name, e in sorted(errors.items()))
    return HEAD + "".join(lines)


def now() -> str:
    return text_of(found(APPENDIX.read_text(), SCALE.read_text(), PUBLISHED.read_text()))


def files() -> dict[Path, str]:
    return {ERRORS: now()}


if __name__ == "__main__":
    sys.exit(fitted.main(__doc__, lambda _: files()))
