#!/usr/bin/env python3
"""The table of docs/internals/accuracy.md that compares Daydream's ten what-ifs and dPRO's schemes with ours: the errors their papers show and those of the same
kind of change here.

    tools/published_comparison.py            writes the table
    tools/published_comparison.py --check    fails when it says something else

Theirs come from the figures and tables of the papers, row by row (data/published/what-ifs.csv), ours from src/whatif/validation.
"""

import sys
from pathlib import Path
from statistics import mean

import fitted
from accuracy_tables import aligned, with_between
from truth import ROOT, csv_rows

DOCS = ROOT / "docs" / "internals" / "accuracy.md"
THEIRS = ROOT / "data" / "published" / "what-ifs.csv"
ERRORS = ROOT / "src" / "whatif" / "validation" / "errors.csv"
COUNTS = ROOT / "src" / "whatif" / "validation" / "counts.csv"
MARK = "published-what-ifs"
# What the papers call a change, and what it is called here.
CHANGES = (
    ("Daydream", "mixed precision", "amp"), ("Daydream", "FusedAdam", "fused-optimizer"), ("Daydream", "restructured batch norm", "batchnorm"),
    ("Daydream", "data parallel", "ddp"), ("Daydream", "P3", "p3"), ("Daydream", "BlueConnect", "blueconnect"), ("Daydream", "MetaFlow", "substitute"),
    ("Daydream", "vDNN", "offload"), ("Daydream", "Gist", "compress-activations"), ("Daydream", "DGC", "compress-gradients"),
    ("dPRO", "Horovod", "horovod"), ("dPRO", "BytePS", "ps"), ("dPRO", "recomputation", "checkpoint"), ("dPRO", "gradient accumulation", "accumulate"),
)  # fmt: skip


def table(path: Path) -> dict[str, list[str]]:
    return {line.split(",")[0]: line.split(",") for line in path.read_text().splitlines() if line and not line.startswith("#")}


def theirs(system: str, change: str) -> str:
    rows = [r for r in csv_rows(THEIRS) if (r["system"], r["change"]) == (system.lower(), change)]
    errors = [100 * abs(float(r["predicted_ms"]) / float(r["measured_ms"]) - 1) for r in rows]
    if not errors:
        return "not evaluated"
    return f"{mean(errors):.1f}, worst {max(errors):.1f} ({len(rows)} rows, {len({r['model'] for r in rows})} models)"


def ours(change: str) -> str:
    counted, found = table(COUNTS).get(change), table(ERRORS).get(change)
    if counted is None:
        return "not measured"
    rows = f"({counted[1]} rows, {counted[2]} models)"
    return f"{found[2]}, worst {found[3]} {rows}" if found and found[2] else f"no time {rows}"


def text_of() -> str:
    rows = [[paper, name, theirs(paper, change), f"`{change}`", ours(change)] for paper, name, change in CHANGES]
    return "\n".join(aligned(["paper", "its change", "its error %", "here", "error % here"], rows))


def files() -> dict[Path, str]:
    return {DOCS: with_between(DOCS, MARK, text_of())}


if __name__ == "__main__":
    sys.exit(fitted.main(__doc__, lambda _: files()))
