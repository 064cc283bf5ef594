#!/usr/bin/env python3
"""Fits how a kernel that stays the same goes to another GPU (same_kernel_us of tools/laws.py): src/hardware/laws/same_kernel.csv.

    tools/fit_same_kernel.py [PUBLIC] [--check]

Over pairs of GPUs and the element-wise and row-wise operations of PUBLIC's tables (FORETRACE_PUBLIC; docs/internals/gpus.md), as tools/gpu_accuracy.py judges them:
measured times hold the host. Beside the parameters stands the error over all pairs, and with each GPU's pairs told by a fit to the others.
"""

import argparse
import csv
import itertools
import os
import pathlib
import sys

import fit_laws
import fitted
import gpu_accuracy
import laws
import numpy as np
import pandas as pd
import transfer_model as model
import transfer_tables as tables
from truth import ROOT

TABLE = fit_laws.FOLDER / "same_kernel.csv"
MOST = 60  # rows of a pair and operation


def empty_kernel_us():
    for path in sorted((ROOT / "src" / "graph" / "latencies").glob("*.csv")):
        for row in csv.reader(line for line in path.read_text().splitlines() if not line.startswith("#")):
            if "empty_kernel" in row:
                return float(row[row.index("empty_kernel") + 1]) / 1e3
    sys.exit("no latency called empty_kernel")


def pairs(folder):
    """{(origin, target): [(kernel us, bytes, blocks, host us, floor us, truth us)]}"""
    out: dict[tuple[str, str], list] = {}
    for op, (tensors, _) in gpu_accuracy.ALIKE.items():
        paths = sorted(folder.glob(f"gpu-kernels-fp32*/{op}.csv.gz"))
        if not paths:
            continue
        raw = pd.concat([tables.with_gpu(pd.read_csv(p)) for p in paths]).drop_duplicates(["B", "H", "gpu"])
        raw["blocks"] = raw["Grid x"] * raw["Grid y"] * raw["Grid z"]
        every = raw.pivot(index=["B", "H"], columns="gpu", values="Latency") * 1e3
        blocks = raw.pivot(index=["B", "H"], columns="gpu", values="blocks")
        floors = {g: float(every[g].quantile(tables.FLOOR_QUANTILE)) for g in every.columns}
        for o, t in itertools.permutations(every.columns, 2):
            time = every[[o, t]].dropna()
            if len(time) < 10:
                continue
            time = time.iloc[np.linspace(0, len(time) - 1, min(MOST, len(time))).astype(int)]
            moved = 4.0 * tensors * np.array([b * h for b, h in time.index], float)
            host = gpu_accuracy.HOST_SHARE * floors[o]
            hidden = time[o].values < gpu_accuracy.AT_FLOOR * floors[o]
            kernel = np.where(hidden, np.minimum(moved / (model.Device(o).streaming * 1e3) + 1.0, time[o].values - host), time[o].values - host)
            fixed = np.full(len(time), gpu_accuracy.HOST_SHARE * floors[t]), np.full(len(time), floors[t])
            out.setdefault((o, t), []).append(np.column_stack([np.maximum(kernel, 0.1), moved, blocks[o].loc[time.index].values, *fixed, time[t].values]))
    return {pair: np.concatenate(parts) for pair, parts in out.items()}


def errors_of(p, rows, empty):
    found = []
    for (o, t), r in rows.items():
        us = laws.same_kernel_us(p, r[:, 0], r[:, 1], r[:, 2], model.Device(o), model.Device(t), empty)
        found.append(np.log(np.maximum(r[:, 4], r[:, 3] + us) / r[:, 5]))
    return np.concatenate(found)


def text(folder):
    rows, empty = pairs(folder), empty_kernel_us()
    start = {name: bound[0] for name, bound in laws.SAME_KERNEL.items()}

    def fitted(some):
        return fit_laws.search(lambda p: errors_of(p, some, empty), start, laws.SAME_KERNEL)[0]

    p = fitted(rows)
    left = []
    for gpu in sorted({g for pair in rows for g in pair}):
        others = {pair: r for pair, r in rows.items() if gpu not in pair}
        left.append(errors_of(fitted(others), {pair: r for pair, r in rows.items() if pair[1] == gpu}, empty))
    e, l = errors_of(p, rows, empty), np.concatenate(left)
    comment = (f"# same kernel: {len(e)} rows of {len(rows)} pairs of GPUs; {fit_laws.figures(e)}, {100 * np.mean(np.abs(np.expm1(e))):.1f} % mean; "
               f"target left out {fit_laws.figures(l)}, {100 * np.mean(np.abs(np.expm1(l))):.1f} % mean")  # fmt: skip
    print(comment, flush=True)
    return "\n".join([fit_laws.HEAD, comment, *fit_laws.lines_of("streaming", "same kernel", "any", {"overlap": laws.SAME_OVERLAP, "beyond_narrow": laws.BEYOND_NARROW} | p)]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("public", type=pathlib.Path, nargs="?", default=os.environ.get("FORETRACE_PUBLIC") and pathlib.Path(os.environ["FORETRACE_PUBLIC"]))
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    if not args.public:
        print("left out: no folder given, and FORETRACE_PUBLIC is not set", file=sys.stderr)
        return 77
    return fitted.keep(TABLE, text(args.public), args.check)


if __name__ == "__main__":
    sys.exit(main())
