#!/usr/bin/env python3
"""Fits the law of convolutions (src/hardware/law_conv.cpp) to those measured here: src/hardware/convolutions/<device>.csv.

    tools/fit_convolutions.py             writes the parameters, from data/h200-kernels and data/h200-operations
    tools/fit_convolutions.py --check     writes nothing; fails where the file is not what the data say

A set of parameters for each kind of filter (one tap; several; groups; one channel to a group), pass, element type and layout. The search
starts from the parameters of products (transfer/<device>.csv). Each set comes with its error over all rows, and over rows left out:
shapes are split in two halves (all batches of a shape in one), each estimated by a fit to the other. What libraries choose beyond the law is
in the residuals (tools/fit_kernels.py).
"""

import math
import sys
import zlib

import fit_kernels
import fit_products
import fitted
import laws
import numpy as np
import train_transfer
from devices import HARDWARE

DEVICE = "H200-SXM"
TABLE = HARDWARE / "convolutions" / f"{DEVICE}.csv"
FILTERS, PASSES, TYPES = ("pointwise", "dense", "grouped", "depthwise"), ("fwd", "dgrad", "wgrad"), ("fp32", "tf32", "half")
ROWS = 500  # of a set, for the search
# Steps of the search, round by round, and the error (of the logarithm) beyond which all are as bad: wide at first, to find the place.
ROUNDS = ((6.0, 4.0), (2.5, 4.0), (2.5, 1.0), (1.6, 1.0), (1.6, 1.0), (1.25, 1.0), (1.25, 1.0), (1.1, 1.0))
# Parameters in addition to those of products (tools/laws.py), and wider bounds for some of them: start, least, largest.
BOUNDS = {name: bound for name, bound in laws.PRODUCT.items() if name not in fit_products.FIXED} | {
    "start": (3.0, 0.5, 60.0), "share": (0.85, 0.002, 1.0), "traffic": (7.0, 0.01, 200.0), "fill": (500.0, 1.0, 60000.0),
    "step": (2.0, 0.05, 60.0), "load": (30.0, 1.0, 400.0), "split": (3.0, 0.1, 60.0),
    "transform": (1.0, 0.05, 60.0),  # traffic of Winograd's transforms, as a share of writing and reading its operands
    "copy": (1.0, 0.02, 8.0),  # of the copies into another layout, as a share of reading and writing every tensor once
    "copy_start": (2.0, 0.5, 5.0),  # us: one copy's begin and end
    "odd": (1.0, 0.01, 8.0),  # the same traffic of filling channels up
    "loop": (0.05, 0.001, 10.0),  # us for each group that is done by a kernel of its own
    "least_n": (8.0, 1.0, 128.0), "least_k": (8.0, 1.0, 128.0),  # channels of a group, outer and inner, that its tiles are made for
}  # fmt: skip
NAMES = (*BOUNDS, "energy")


# The columns of the law (tools/laws.cpp).
COLUMNS = ("n", "c", "h", "w", "k", "r", "s", "out_h", "out_w", "stride", "dims", "dilation", "groups")


def convolutions():
    """{(filter, pass, type, layout): rows by name}, as work::describe and measured_work.cpp have them: depth is part of the height."""
    out: dict[tuple[str, str, str, str], list[dict[str, float]]] = {}
    for sizes, cells in sorted(fit_kernels.measured()["conv"].items()):
        s = dict(zip(fit_kernels.CONV, sizes))
        if s["tuned"]:
            continue
        edges = {}
        for size, tap in (("d", "q"), ("h", "r"), ("w", "s"))[3 - s["dims"]:]:  # fmt: skip
            reach = s["dilation"] * (s[tap] - 1) + 1
            edges[size] = (s[size] - 1) * s["stride"] - 2 * s["pad"] + reach if s["transposed"] else (s[size] + 2 * s["pad"] - reach) // s["stride"] + 1
        image, result = (s["d"] * s["h"], s["w"]), (edges.get("d", 1) * edges.get("h", 1), edges["w"])
        c, k = s["c"], s["k"]
        if s["transposed"]:
            c, k, image, result = k, c, result, image
        g, taps = s["groups"], s["q"] * s["r"] * s["s"]
        kind = ("depthwise" if g == c and k % g == 0 else "grouped") if g > 1 else "pointwise" if taps == 1 and s["stride"] == 1 else "dense"
        half = zlib.crc32(",".join(map(str, sizes[1:])).encode()) % 2
        for column, us in sorted(cells.items()):
            how, dtype, layout = column.split()
            if s["transposed"]:
                how = {"fwd": "dgrad", "dgrad": "fwd"}.get(how, how)
            kept = {"fp16": "half", "bf16": "half"}.get(dtype, dtype)
            row = (s["n"], c, *image, k, s["q"] * s["r"], s["s"], *result, s["stride"], s["dims"], s["dilation"], g)
            out.setdefault((kind, how, kept, layout), []).append(dict(zip(COLUMNS, row)) | {"fold": half, "us": math.exp(sum(map(math.log, us)) / len(us))})
    return {key: {name: np.array([row[name] for row in rows], float) for name in rows[0]} for key, rows in out.items()}


def errors(p, key, x):
    """Of log time."""
    tiles, name = train_transfer.TILES[fit_products.KINDS[key[2]][0]], " ".join(key)
    table = ",".join(["set", *p, "tiles"]) + "\n" + ",".join([name, *map(repr, p.values()), tiles])
    return np.log(laws.evaluate(f"convolution {name}", table, DEVICE, [x[c] for c in COLUMNS]) / x["us"])


def taken(x, which):
    return {name: values[which] for name, values in x.items()}


def fit(key, x, start):
    seen = (x["n"], x["c"], x["k"], x["groups"], x["r"] * x["s"], x["h"] * x["w"], x["us"])
    order = np.argsort([zlib.crc32(row.tobytes()) for row in np.stack(seen, 1)], kind="stable")
    x = taken(x, order[:ROWS])
    return laws.search(lambda p: errors(p, key, x), start, BOUNDS, ROUNDS)[0]


def figures(e):
    off = np.sort(np.abs(np.expm1(e)))
    return f"{100 * off[len(off) // 2]:.1f},{100 * off[int(0.9 * len(off))]:.1f}"


def started(dtype):
    """Where the search begins: the products of this type, as measured here."""
    lines = [line.split(",") for line in fit_products.TABLE.read_text().splitlines()[1:] if not line.startswith("#")]
    own = {name: float(value) for kind, _, name, value in lines if kind == dtype and name in NAMES and name not in ("start", "transform")}
    p = {name: BOUNDS[name][0] for name in BOUNDS} | own
    return {name: float(f"{value:.3g}") if name in BOUNDS else value for name, value in p.items()}


def text():
    lines = ["# Made by tools/fit_convolutions.py. Errors in %: over all rows, and with half of the shapes left out (median, 90th percentile).",
             ",".join(["set", "rows", "median", "p90", "left out", "left out p90", *NAMES, "tiles"])]  # fmt: skip
    rows = convolutions()
    for key in [(f, p, t, layout) for f in FILTERS for p in PASSES for t in TYPES for layout in ("nchw", "nhwc")]:
        x, start = rows[key], started(key[2])
        left = np.concatenate([errors(fit(key, taken(x, x["fold"] != f), start), key, taken(x, x["fold"] == f)) for f in (0, 1)])
        p = fit(key, x, start)
        tiles = train_transfer.TILES[fit_products.KINDS[key[2]][0]]
        lines.append(",".join([" ".join(key), str(len(x["us"])), figures(errors(p, key, x)), figures(left), *(f"{p[n]:.6g}" for n in NAMES), tiles]))
        print(",".join(lines[-1].split(",")[:6]), flush=True)
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(fitted.main(__doc__, lambda _: {TABLE: text()}))
