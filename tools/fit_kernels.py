#!/usr/bin/env python3
"""Makes src/hardware/kernels/<device>.csv from measured kernel tables.

    tools/fit_kernels.py data/h200-kernels data/h200-operations [-o src/hardware/kernels/H200-SXM.csv]
    tools/fit_kernels.py --figures build/tests/kernel_figures [--update-docs]

A folder holds CSV files with the columns kind, name, dtype, layout, shape, kernel_us, …, kernels: one row per operation and
shape, the median time of its kernels. Where there is a column cold, operands were left in L2 (0) or flushed out of it (1); in a
training step they are partly in L2, and the geometric mean of both is kept. Where there is a column pass, the table is one of
tools.measure.operations, whose operands lie as in a step. Kernels that the framework records under an operation of their own
(the product inside softmax's gradient, fills) are taken out.

Only families whose kernels depend on the shape in no simple way are kept: norms, softmax, pooling, strict fp32
convolutions. The others have formulas (src/hardware/cost_*.cpp).
"""

import argparse
import csv
import gzip
import json
import math
import pathlib
import re
import subprocess
import sys

from accuracy_tables import aligned, write_between
from truth import ROOT

KEEP = {
    "ln_fwd", "ln_bwd", "softmax_fwd", "softmax_fwd_up", "softmax_bwd", "lsm_fwd", "lsm_bwd", "bn_fwd", "bn_bwd", "maxpool",
    "maxpool_bwd", "avgpool", "avgpool_bwd",
}  # fmt: skip
STRICT = {"fwd", "dgrad", "wgrad"}  # convolutions, fp32 only
# What tools.measure.operations calls them. Pooling is not among them: which kernel runs depends on the window, which the models do
# not see.
OPERATIONS = {"layer_norm": "ln", "softmax": "softmax", "log_softmax": "lsm", "batch_norm": "bn", "group_norm": "gn"}
ELSEWHERE = {"softmax_bwd": ["elementwise"], "maxpool_bwd": ["FillFunctor"], "bn_fwd": ["FillFunctor"], "bn_bwd": ["FillFunctor"]}


def name_of(row):
    """The kernel's name in the table this tool makes; None for rows it has no use for."""
    if "pass" in row:
        if row["name"] == "group_norm" and row["layout"] == "nhwc":
            return None  # a copy, an operation of its own, and then the same
        return f"{OPERATIONS[row['name']]}_{row['pass']}" if row["name"] in OPERATIONS else None
    strict = row.get("kind") == "conv" and row["name"] in STRICT and row["dtype"] == "fp32"
    return row["name"] if "kernel_us" in row and (row["name"] in KEEP or strict) else None


def place_of(name, row):
    """Layout and shape as the table has them: a group norm's groups are rows."""
    if not name.startswith("gn_"):
        return row["layout"], row["shape"]
    s = {k: int(v) for k, v in (item.split("=") for item in row["shape"].split(";"))}
    return "", f"rows={s['n'] * s['g']};c={s['c'] // s['g'] * s['h'] * s['w']}"


def own_share(name, row):
    """The share of a row's time that its own kernels take."""
    words = ELSEWHERE.get(name)
    if not words:
        return 1.0
    total = mine = 0.0
    for part in row["kernels"].split(" | "):
        match = re.search(r" x\d+@([\d.]+)$", part)
        if not match:
            continue
        us = float(match.group(1))
        total += us
        if not any(w in part for w in words):
            mine += us
    return mine / total if total else 1.0


def show(program, update_docs):
    """A shape is told by its nearest neighbours: among them itself (in sample), and without itself as an unseen one is."""
    done = subprocess.run([program], capture_output=True, text=True, check=True)
    pools = [json.loads(line) for line in done.stdout.splitlines()]

    def percent(log_error):
        return f"{100 * math.expm1(log_error):.1f}"

    def row(title, mine):
        shapes = sum(p["samples"] for p in mine)
        return [title, str(shapes), *(percent(math.sqrt(sum(p["samples"] * p[how] ** 2 for p in mine) / shapes)) for how in ("in_sample", "left_out"))]

    families: dict[str, list] = {}
    for p in pools:
        families.setdefault(re.split(r" (?:backward|fp32|half|bf16)\b", p["pool"])[0], []).append(p)
    head = ["kernels", "shapes", "off by, in sample %", "off by, shape left out %"]
    short = aligned(head, [*(row(family, mine) for family, mine in families.items()), row("all", pools)])
    lines = aligned(head, [row(p["pool"], [p]) for p in pools])
    print("\n".join([*lines, "", *short]))
    if update_docs:
        write_between(ROOT / "docs" / "accuracy.md", "fitted-kernels", "\n".join(short))
        write_between(ROOT / "docs" / "appendix-accuracy.md", "kernels", "\n".join(lines))
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", type=pathlib.Path, nargs="*", metavar="FOLDER")
    parser.add_argument("-o", "--output", type=pathlib.Path, default=pathlib.Path("src/hardware/kernels/H200-SXM.csv"))
    parser.add_argument("--figures", type=pathlib.Path, metavar="PROGRAM", help="show how well the compiled table tells its own shapes"
                        " (build/tests/kernel_figures)")
    parser.add_argument("--update-docs", action="store_true", help="write that into docs/accuracy.md")
    args = parser.parse_args()
    if args.figures:
        return show(args.figures, args.update_docs)
    if not args.tables:
        parser.error("name folders of measured tables, or --figures")
    times: dict[tuple[str, str, str, str], list[float]] = {}
    for path in sorted(p for folder in args.tables for p in [*folder.glob("*.csv"), *folder.glob("*.csv.gz")]):
        with (gzip.open if path.suffix == ".gz" else open)(path, "rt", newline="") as file:
            for row in csv.DictReader(file):
                if name := name_of(row):
                    key = (name, row["dtype"], *place_of(name, row))
                    times.setdefault(key, []).append(float(row["kernel_us"]) * own_share(name, row))
    if not times:
        sys.exit(f"{', '.join(map(str, args.tables))}: no kernel tables with rows this tool keeps")
    with args.output.open("w") as out:
        out.write("# kind,dtype,layout,shape,us: made by tools/fit_kernels.py from measured kernels\n")
        for (name, dtype, layout, shape), us in sorted(times.items()):
            mean = math.exp(sum(math.log(u) for u in us) / len(us))
            out.write(f"{name},{dtype},{layout},{shape},{mean:.2f}\n")
    print(f"{args.output}: {len(times)} shapes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
