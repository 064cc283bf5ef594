#!/usr/bin/env python3
"""Makes src/hardware/kernels/<device>.csv from measured kernel tables.

    tools/fit_kernels.py data/h200-kernels [-o src/hardware/kernels/H200-SXM.csv]

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
import math
import pathlib
import re
import sys

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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", type=pathlib.Path)
    parser.add_argument("-o", "--output", type=pathlib.Path, default=pathlib.Path("src/hardware/kernels/H200-SXM.csv"))
    args = parser.parse_args()
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


if __name__ == "__main__":
    main()
