#!/usr/bin/env python3
"""Makes src/hardware/kernels/<device>.csv from measured kernel tables.

    tools/fit_kernels.py data/h200-kernels [-o src/hardware/kernels/H200-SXM.csv]
    tools/fit_kernels.py --figures build/tests/kernel_figures [--update-docs]

TABLES_DIR holds CSV files with the columns kind, name, dtype, layout, cold, shape, kernel_us, …, kernels: one row per
operation and shape, the median time of its kernels, with operands left in L2 (cold 0) or flushed out of it (cold 1). In a
training step operands are partly in L2: the geometric mean of both is kept. Kernels that the framework records under an
operation of their own (the product inside softmax's gradient, fills) are taken out.

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
ELSEWHERE = {"softmax_bwd": ["elementwise"], "maxpool_bwd": ["FillFunctor"]}


def own_share(row):
    """The share of a row's time that its own kernels take."""
    words = ELSEWHERE.get(row["name"])
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

    rows = [[p["pool"], str(p["samples"]), percent(p["in_sample"]), percent(p["left_out"])] for p in pools]
    total = sum(p["samples"] for p in pools)
    together = {k: math.sqrt(sum(p["samples"] * p[k] ** 2 for p in pools) / total) for k in ("in_sample", "left_out")}
    rows.append(["all", str(total), percent(together["in_sample"]), percent(together["left_out"])])
    lines = aligned(["kernels", "shapes", "off by, in sample %", "off by, shape left out %"], rows)
    print("\n".join(lines))
    if update_docs:
        write_between(ROOT / "docs" / "accuracy.md", "fitted-kernels", "\n".join(lines))
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", type=pathlib.Path, nargs="?")
    parser.add_argument("-o", "--output", type=pathlib.Path, default=pathlib.Path("src/hardware/kernels/H200-SXM.csv"))
    parser.add_argument("--figures", type=pathlib.Path, metavar="PROGRAM", help="show how well the compiled table tells its own shapes"
                        " (build/tests/kernel_figures)")
    parser.add_argument("--update-docs", action="store_true", help="write that into docs/accuracy.md")
    args = parser.parse_args()
    if args.figures:
        return show(args.figures, args.update_docs)
    if args.tables is None:
        parser.error("name the folder of measured tables, or --figures")
    times: dict[tuple[str, str, str, str], list[float]] = {}
    for path in sorted([*args.tables.glob("*.csv"), *args.tables.glob("*.csv.gz")]):
        with (gzip.open if path.suffix == ".gz" else open)(path, "rt", newline="") as file:
            for row in csv.DictReader(file):
                strict = row.get("kind") == "conv" and row["name"] in STRICT and row["dtype"] == "fp32"
                if "kernel_us" not in row or not (row["name"] in KEEP or strict):
                    continue
                key = (row["name"], row["dtype"], row["layout"], row["shape"])
                times.setdefault(key, []).append(float(row["kernel_us"]) * own_share(row))
    if not times:
        sys.exit(f"{args.tables}: no kernel tables with rows this tool keeps")
    with args.output.open("w") as out:
        out.write("# kind,dtype,layout,shape,us: made by tools/fit_kernels.py from measured kernels\n")
        for (name, dtype, layout, shape), us in sorted(times.items()):
            mean = math.exp(sum(math.log(u) for u in us) / len(us))
            out.write(f"{name},{dtype},{layout},{shape},{mean:.2f}\n")
    print(f"{args.output}: {len(times)} shapes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
