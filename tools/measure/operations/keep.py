"""Puts tables of tools.measure.operations into a folder, one file for each kind of work.

    python -m tools.measure.operations.keep TABLE… --to data/h200-operations

Rows stay in the order in which they were measured; of a case that several tables hold the last is kept, and how far the others
lie from it is printed.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import math
import sys
from pathlib import Path
from statistics import median

KEY = ("kind", "name", "pass", "dtype", "layout", "benchmark", "shape")


def read(path: Path) -> list[dict[str, str]]:
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", newline="") as file:
        return list(csv.DictReader(file))


def keep(tables: list[Path], to: Path) -> str:
    found: dict[tuple[str, ...], dict[str, str]] = {}
    again: dict[str, list[float]] = {}
    for path in tables:
        for row in read(path):
            key = tuple(row[k] for k in KEY)
            if key in found:
                again.setdefault(row["kind"], []).append(abs(math.log(float(row["kernel_us"]) / float(found[key]["kernel_us"]))))
            found[key] = row
    to.mkdir(parents=True, exist_ok=True)
    kinds = sorted({row["kind"] for row in found.values()})
    for kind in kinds:
        rows = [row for row in found.values() if row["kind"] == kind]
        text = io.StringIO(newline="")
        table = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
        (to / f"{kind}.csv.gz").write_bytes(gzip.compress(text.getvalue().encode(), 9, mtime=0))
        print(f"{kind}: {len(rows)} rows")
    for kind, off in again.items():
        off.sort()
        print(f"{kind} measured again: {len(off)} rows, off by {100 * median(off):.2f} % (median), {100 * off[int(0.9 * len(off))]:.2f} % (p90)")
    return f"{len(found)} rows of {len(kinds)} kinds"


def main() -> int:
    parser = argparse.ArgumentParser(prog="tools.measure.operations.keep", description=__doc__.split("\n")[0])
    parser.add_argument("tables", type=Path, nargs="+", metavar="TABLE")
    parser.add_argument("--to", type=Path, required=True)
    args = parser.parse_args()
    print(keep(args.tables, args.to))
    return 0


if __name__ == "__main__":
    sys.exit(main())
