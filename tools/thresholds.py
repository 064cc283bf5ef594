#!/usr/bin/env python3
"""What becomes of predictions when a threshold is half or twice as large: docs/internals/thresholds.md.

    tools/thresholds.py TREE [--only REGEX] [--update-docs]

TREE is a scratch copy of the sources with a configured build/: each threshold of tools/threshold_list.py is changed there, the program built, and the
rows of FOLDERS predicted. A threshold decides between two explanations; it is no figure that was measured, and a good one can be moved without harm. For
each: how many predicted steps move by more than half a percent, and what becomes of the mean error, at half of it and at twice of it. Of shares close to
1 (marked ·) the distance from 1 is what is halved and doubled.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from statistics import mean

import accuracy
import fitted
from accuracy_tables import aligned, write_between
from threshold_list import THRESHOLDS
from truth import ROOT, Folder

DOCS = ROOT / "docs" / "internals" / "thresholds.md"
MOVED = 0.005  # of a predicted step
# What the CPU bounds and what the GPU does, 41 recorded bases of most families.
FOLDERS = ("h200-clean", "h200-heldout")
def every() -> list[tuple[str, str, str, bool]]:
    """File, name, what it separates, whether it is a share close to 1."""
    return [(file, name.lstrip("·"), text, name.startswith("·")) for file, names in THRESHOLDS.items() for name, text in names.items()]


def changed(text: str, name: str, factor: float, share: bool) -> str:
    """The source with `T name = value` times the factor; an error where there is no such constant."""
    found = re.search(rf"\b{name} =\s+([^,;{{}}(]+)", text)
    if not found:
        raise SystemExit(f"no constant {name}")
    value = f"1 - {factor} * (1 - {found[1]})" if share else f"{factor} * {found[1]}"
    return text[:found.start(1)] + value + text[found.end(1):]


def steps(tree: Path) -> dict[tuple[str, str, str], tuple[float | None, float | None]]:
    """Predicted step and its error, by row."""
    subprocess.run(["cmake", "--build", tree / "build", "--target", "foretrace"], check=True, stdout=subprocess.DEVNULL)
    results, _ = accuracy.measure(accuracy.Program(tree / "build" / "foretrace"), [Folder(ROOT / "data" / f) for f in FOLDERS])
    return {(r.folder, r.row.model, r.row.variant): (r.prediction.get("ms"), r.time_pct) for r in results}


def at(factor: float, tree: Path, file: str, name: str, share: bool) -> dict:
    path = tree / file
    text = path.read_text()
    path.write_text(changed(text, name, factor, share))
    try:
        return steps(tree)
    finally:
        path.write_text(text)


def effect(now: dict, then: dict) -> tuple[int, float]:
    """Rows that moved, and by how many points the mean error changed."""
    moved = sum((then[k][0] is None) != (ms is None) or (ms is not None and abs(then[k][0] / ms - 1) > MOVED) for k, (ms, _) in now.items())
    errors = [(abs(then[k][1]), abs(pct)) for k, (_, pct) in now.items() if pct is not None and then[k][1] is not None]
    return moved, mean(a for a, _ in errors) - mean(b for _, b in errors)


def main() -> int:
    parser = fitted.parser(__doc__)
    parser.add_argument("tree", type=Path)
    parser.add_argument("--only", type=re.compile, default=re.compile(""))
    parser.add_argument("--update-docs", action="store_true")
    options = parser.parse_args()
    now, found = steps(options.tree), {}
    for file, name, _, share in every():
        key = f"{file}:{name}"
        if options.only.search(key):
            found[key] = [effect(now, at(factor, options.tree, file, name, share)) for factor in (0.5, 2)]
            print(key, *(f"{moved} rows, {points:+.3f} points" for moved, points in found[key]), sep="; ", flush=True)
    if options.update_docs:
        rows = [[f"`{Path(file).name}` {'· ' if share else ''}`{name}`", text,
                 *(f"{moved} ({points:+.2f})" for moved, points in found[f"{file}:{name}"])]
                for file, name, text, share in every() if f"{file}:{name}" in found]
        head = ["threshold", "separates", "at half: rows that move (points of the mean error)", "at twice"]
        write_between(DOCS, "thresholds", "\n".join([f"{len(now)} rows of {' and '.join(FOLDERS)}.", "", *aligned(head, rows)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
