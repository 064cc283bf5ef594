#!/usr/bin/env python3
"""How far today's cost models are from measured single operations, by family and element type.

    tools/fit_operations.py [data/h200-operations] [--kind conv …] [--passes] [--json FILE] [--update-docs] [--program build/tests/operation_figures]
    tools/fit_operations.py --copies          copies of convolutions into another layout: which are made, and what they take

Writes the measured operations as a trace, has the library describe and predict them (the program evaluates the C++), and compares:
`absolute` is what the models say of an operation they only know by its shape; a change (`fp32 -> bf16`, `nchw -> nhwc`, `x2`, …) starts
from the measured time of the same operation before it, as a what-if does. Errors are relative to what was measured. Families marked * are told
by these very tables: `tools/fit_kernels.py --figures` shows what they are worth with the shape left out. No other model was fitted to them, so
that every row of the others counts as left out.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
import fit_kernels
import operation_rows
from accuracy_tables import write_between
from truth import ROOT

CHANGES = {"tf32": "dtype", "fp16": "dtype", "bf16": "dtype", "nhwc": "layout", "x2": "batch", "xh": "batch"}
COPY = re.compile(r"nchwToNhwcKernel|nhwcToNchwKernel|nchwToFoldedNhwcKernel|foldedNhwcToNchwKernel")
LAUNCHES = re.compile(r" x(\d+)@([\d.]+)$")
LAST = {"nchw": "nhwc", "ncdhw": "ndhwc"}


def predicted(rows: list[dict[str, Any]], program: Path) -> list[dict[str, Any]]:
    """The rows that the library can describe, each with `model`: what the program says of it."""
    with tempfile.TemporaryDirectory(prefix="operations-") as folder:
        path = Path(folder) / "operations.json"
        spelt = operation_rows.write_trace(rows, path)
        done = subprocess.run([str(program), str(path)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{program}: {done.stderr.strip()}")
    sums: dict[int, dict[str, float]] = {}
    for line in csv.DictReader(done.stdout.splitlines()):
        event = int(line["event"])
        if event >= len(spelt):
            continue
        values = {k: float(v) for k, v in line.items() if k not in ("event", "family")}
        if event in sums:  # an operation that was described in parts
            known = min(values["known"], sums[event]["known"])
            values = {k: values[k] + sums[event][k] for k in values} | {"known": known}
        sums[event] = values
    out = []
    for event, row in enumerate(spelt):
        out.append(row | {"model": sums.get(event)})
    return out


def half_or_double(row: dict[str, Any], change: str) -> str | None:
    """The shape with half or twice the batch."""
    s = dict(row["sizes"])
    by = "n" if row["kind"] == "conv" else "b" if "b" in s else "m" if "m" in s else None
    if by is None or (change == "xh" and s[by] % 2):
        return None
    # A weight gradient of a linear layer sums over the samples: the same m.
    s[by] = s[by] * 2 if change == "x2" else s[by] // 2
    return ";".join(f"{k}={v}" for k, v in s.items())


def key(row: dict[str, Any], **other: str) -> tuple[str, ...]:
    return tuple(other.get(k, row[k]) for k in ("kind", "name", "pass", "dtype", "layout", "benchmark", "shape"))


def moved(row: dict[str, Any], change: str) -> tuple[str, ...] | None:
    """The row that is this one after the change."""
    if CHANGES[change] == "dtype":
        return key(row, dtype=change) if row["dtype"] == "fp32" else None
    if change == "nhwc":
        return key(row, layout=LAST[row["layout"]]) if row["layout"] in LAST else None
    shape = half_or_double(row, change)
    return key(row, shape=shape) if shape else None


class Errors:
    """Signed log errors of one cell."""

    def __init__(self) -> None:
        self.logs: list[float] = []
        self.unknown = 0

    def add(self, guess: float | None, truth: float) -> None:
        if guess and guess > 0:
            self.logs.append(math.log(guess / truth))
        else:
            self.unknown += 1

    def figures(self) -> dict[str, Any]:
        off = sorted(abs(math.expm1(x)) for x in self.logs)
        if not off:
            return {"n": 0, "unknown": self.unknown}
        return {"n": len(off), "unknown": self.unknown, "median_pct": round(100 * median(off), 1),
                "p90_pct": round(100 * off[min(len(off) - 1, int(0.9 * len(off)))], 1),
                "ratio": round(math.exp(median(self.logs)), 2)}


def family_of(row: dict[str, Any], passes: bool) -> str:
    """Kind and name. Rows that are added to by many indices at once take turns: that is in the indices' values, which neither a trace nor the
    tables have, so that they stand apart."""
    taking_turns = row["kind"] == "gather" and fit_kernels.place_of_operation(row) is None
    return f"{row['kind']} {row['name']}" + (f" {row['pass']}" if passes else "") + (f" {row['layout']}" if taking_turns else "")


def compare(rows: list[dict[str, Any]], passes: bool) -> dict[str, dict[str, dict[str, Any]]]:
    """{question: {family: {dtype: figures}}}"""
    measured = {key(r): r["kernel_us"] for r in rows}
    cells: dict[str, dict[str, dict[str, Errors]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(Errors)))
    for row in rows:
        family = family_of(row, passes)
        model = row["model"]
        cells["absolute"][family][row["dtype"]].add(model["predicted_us"] if model and model["known"] else None, row["kernel_us"])
        for change in CHANGES:
            to = moved(row, change)
            if to in measured:
                label = f"fp32 -> {change}" if CHANGES[change] == "dtype" else "nchw -> nhwc" if change == "nhwc" else change
                cells[label][family][change if CHANGES[change] == "dtype" else row["dtype"]].add(model[change] if model else None, measured[to])
    return {question: {family: {dtype: e.figures() for dtype, e in by.items()} for family, by in families.items()}
            for question, families in cells.items()}


def told(family: str) -> bool:
    """Whether these very measurements are what the model interpolates in."""
    kind, name, *rest = family.split()
    other = ("misaligned", "argsort", "cumsum", "norm", "fft", "rfft", "rfft2")
    return "skewed" not in rest and (kind in ("conv", "rnn", "sdpa", "gather") or name in fit_kernels.SIZES or name in other)


def table(families: dict[str, dict[str, dict[str, Any]]]) -> str:
    """Median and 90th percentile of the error in %, and predicted over measured, by family and element type."""
    dtypes = [d for d in operation_rows.TYPES if any(d in by for by in families.values())]
    lines = ["| family | " + " | ".join(f"{d}: median, p90, ratio (rows)" for d in dtypes) + " |", "|---|" + "---|" * len(dtypes)]
    for family, by in families.items():
        cells = []
        for d in dtypes:
            f = by.get(d, {"n": 0, "unknown": 0})
            unknown = f" +{f['unknown']} unknown" if f["unknown"] else ""
            cells.append(f"{f['median_pct']:.0f}, {f['p90_pct']:.0f}, {f['ratio']:.2f} ({f['n']}{unknown})" if f["n"] else f"-{unknown}")
        star = " *" if told(family) else ""
        lines.append(f"| {family}{star} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def copies(rows: list[dict[str, Any]]) -> str:
    """By element type, layout and pass: how often the rule says rightly that there are copies, and as many; their time over all rows."""
    lines = ["| type | layout | pass | rows | whether right | as many | kernels, said | ms, said |", "|---|---|---|--:|--:|--:|--:|--:|"]
    groups: dict[tuple[str, str, str], list[tuple[float, float, float, float]]] = defaultdict(list)
    for row in rows:
        if row["kind"] != "conv" or not row["model"]:
            continue
        ran = [LAUNCHES.search(k) for k in row["kernels"].split(" | ") if COPY.search(k)]
        count, us = sum(int(m[1]) for m in ran if m), sum(float(m[2]) for m in ran if m)
        dtype = "half" if row["dtype"] in ("fp16", "bf16") else row["dtype"]
        last = "channels last" if row["layout"].endswith("c") else "channels first"
        groups[dtype, last, row["pass"]].append((count, us, row["model"]["copies"], row["model"]["copies_us"]))
    all_rows = [r for by in groups.values() for r in by]
    for (dtype, last, what), by in [*sorted(groups.items()), (("all", "", ""), all_rows)]:
        whether = sum((r[0] > 0) == (r[2] > 0) for r in by) / len(by)
        same = sum(r[0] == r[2] for r in by) / len(by)
        lines.append(f"| {dtype} | {last} | {what} | {len(by)} | {100 * whether:.0f} % | {100 * same:.0f} % | "
                     f"{sum(r[0] for r in by):.0f}, {sum(r[2] for r in by):.0f} | {sum(r[1] for r in by) / 1e3:.1f}, {sum(r[3] for r in by) / 1e3:.1f} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", type=Path, nargs="?", default=Path("data/h200-operations"))
    parser.add_argument("--kind", nargs="*", help="only these files of the folder")
    parser.add_argument("--copies", action="store_true", help="only copies of convolutions into another layout")
    parser.add_argument("--passes", action="store_true", help="forward and gradients apart")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--update-docs", action="store_true", help="write the tables into docs/internals/appendix-operations.md")
    parser.add_argument("--program", type=Path, default=Path("build/tests/operation_figures"))
    args = parser.parse_args()
    kinds = ["conv"] if args.copies else args.kind
    rows = [r for r in operation_rows.read(args.tables, kinds) if r["benchmark"] == "0"]
    if not rows:
        sys.exit(f"{args.tables}: no tables of operations")
    found = predicted(rows, args.program)
    print(f"{len(found)} of {len(rows)} rows are one operation each")
    if args.copies:
        print(copies(found))
        return 0
    figures = compare(found, args.passes)
    text = "\n\n".join(f"**{question}**\n\n{table(families)}" for question, families in figures.items())
    print(text)
    if args.update_docs:
        write_between(ROOT / "docs" / "internals" / "appendix-operations.md", "operations", text)
    if args.json:
        args.json.write_text(json.dumps(figures, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
