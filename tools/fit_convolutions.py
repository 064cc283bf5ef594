#!/usr/bin/env python3
"""Fits the law of convolutions (src/hardware/law_conv.cpp) to those measured here: src/hardware/convolutions/<device>.csv.

    tools/fit_convolutions.py             writes the parameters, from data/h200-kernels and data/h200-operations
    tools/fit_convolutions.py --check     nothing is written; fails where the file is not what the data say

A set of parameters for each kind of filter (one tap; several; groups; one channel to a group), pass, element type and layout. The search
goes along one parameter after the other from where products end (transfer/<device>.csv), on three digits, so that it ends in the same
place anywhere. Beside each set stands its error over all rows, and over rows left out: shapes are split in two halves (all batches of a shape
in one), each told by a fit to the other. What libraries choose beyond the law the neighbours tell (tools/fit_kernels.py).
"""

import argparse
import math
import sys
import zlib

import fit_kernels
import fit_products
import fitted
import numpy as np
import train_transfer
import transfer_model as model

DEVICE = "H200-SXM"
TABLE = model.FOLDER / "convolutions" / f"{DEVICE}.csv"
FILTERS, PASSES, TYPES = ("pointwise", "dense", "grouped", "depthwise"), ("fwd", "dgrad", "wgrad"), ("fp32", "tf32", "half")
ROWS = 500  # of a set, for the search
# Steps of the search, round by round, and the error (of the logarithm) beyond which all are as bad: wide at first, to find the place.
ROUNDS = ((6.0, 4.0), (2.5, 4.0), (2.5, 1.0), (1.6, 1.0), (1.6, 1.0), (1.25, 1.0), (1.25, 1.0), (1.1, 1.0))
# Parameters beside those of products (tools/transfer_model.py), and wider bounds for some of them: start, least, largest.
BOUNDS = {name: model.BOUNDS[name] for name in model.BOUNDS if name not in fit_products.FIXED} | {
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


def convolutions():
    """{(filter, pass, type, layout): rows by name}, as work::describe and measured_work.cpp have them."""
    out: dict[tuple[str, str, str, str], list[dict[str, float]]] = {}
    for sizes, cells in sorted(fit_kernels.measured()["conv"].items()):
        s = dict(zip(fit_kernels.CONV, sizes))
        if s["tuned"]:
            continue
        names = (("d", "q"), ("h", "r"), ("w", "s"))[3 - s["dims"]:]  # fmt: skip
        image, result = 1, 1
        for size, edge in names:
            reach = s["dilation"] * (s[edge] - 1) + 1
            out_edge = (s[size] - 1) * s["stride"] - 2 * s["pad"] + reach if s["transposed"] else (s[size] + 2 * s["pad"] - reach) // s["stride"] + 1
            image, result = image * s[size], result * out_edge
        c, k = s["c"], s["k"]
        if s["transposed"]:
            c, k, image, result = k, c, result, image
        g, taps = s["groups"], s["q"] * s["r"] * s["s"]
        kind = ("depthwise" if g == c and k % g == 0 else "grouped") if g > 1 else "pointwise" if taps == 1 and s["stride"] == 1 else "dense"
        half = zlib.crc32(",".join(map(str, sizes[1:])).encode()) % 2
        winograd = g == 1 and s["dims"] == 2 and s["r"] == s["s"] == 3 and s["stride"] == 1 and s["dilation"] == 1
        for column, us in sorted(cells.items()):
            how, dtype, layout = column.split()
            if s["transposed"]:
                how = {"fwd": "dgrad", "dgrad": "fwd"}.get(how, how)
            kept = {"fp16": "half", "bf16": "half"}.get(dtype, dtype)
            out.setdefault((kind, how, kept, layout), []).append({
                "n": s["n"], "c": c, "k": k, "g": g, "taps": taps, "image": image, "result": result, "fold": half,
                "skipped": s["stride"] ** s["dims"], "winograd": winograd, "us": math.exp(sum(map(math.log, us)) / len(us)),
            })  # fmt: skip
    return {key: {name: np.array([row[name] for row in rows], float) for name in rows[0]} for key, rows in out.items()}


def copied(kind, how, dtype, layout):
    """Whether the library copies tensors into the layout its kernels read: layout_changes.cpp."""
    strict, last = dtype == "fp32", layout == "nhwc"
    if last != strict or kind == "depthwise":
        return False
    return how != "wgrad" if strict else kind != "pointwise"


def law_us(p, key, x, device):
    """Microseconds; the formula of law_conv.cpp."""
    kind, how, dtype, _ = key
    size = 2.0 if dtype == "half" else 4.0
    law = fit_products.KINDS[dtype][0]
    tiles = train_transfer.tiles_of(law)
    stream = device.streaming * 1e3
    read, written = x["n"] * x["image"] * x["c"] * size, x["n"] * x["result"] * x["k"] * size
    moved = read + written + x["k"] * x["c"] / x["g"] * x["taps"] * size
    c, k = x["c"] / x["g"], x["k"] / x["g"]
    beside = np.zeros(len(c))
    if dtype != "fp32":
        together = 8 if dtype == "half" else 4
        odd = (x["c"] % together != 0) * read + (x["k"] % together != 0) * written
        c, k = c * np.ceil(x["c"] / together) * together / x["c"], k * np.ceil(x["k"] / together) * together / x["k"]
        beside += np.where(odd > 0, p["copy_start"] + p["odd"] * 2 * odd / stream, 0)
    if kind in ("grouped", "depthwise"):
        c, k = np.maximum(c, p["least_k"]), np.maximum(k, p["least_n"])
        beside += p["loop"] * x["g"]
    if copied(*key):
        beside += 3 * p["copy_start"] + p["copy"] * 2 * moved / stream
    inputs, outputs = x["n"] * x["image"], x["n"] * x["result"]
    sizes = {"fwd": (outputs, k, c * x["taps"]), "dgrad": (inputs, c, np.maximum(1, k * x["taps"] / x["skipped"])), "wgrad": (k, c * x["taps"], outputs)}[how]
    us = model.product_us(p, tiles, x["g"], *sizes, size, device, law, moved)
    if dtype == "fp32" and (mine := x["winograd"] > 0).any():
        parts = outputs[mine] / 16
        sizes = {"fwd": (parts, k[mine], c[mine]), "dgrad": (parts, c[mine], k[mine]), "wgrad": (k[mine], c[mine], parts)}[how]
        fast = model.product_us(p, tiles, 36 * np.ones(len(parts)), *sizes, size, device, law, moved[mine])
        fast = fast + p["transform"] * size * 72 * parts * (x["c"][mine] + x["k"][mine]) / stream
        us[mine] = np.minimum(us[mine], fast)
    return us + beside


def errors(p, key, x, device):
    return np.log(law_us(p, key, x, device) / x["us"])


def taken(x, which):
    return {name: values[which] for name, values in x.items()}


def fit(key, x, start, device):
    order = np.argsort([zlib.crc32(row.tobytes()) for row in np.stack([x[n] for n in ("n", "c", "k", "g", "taps", "image", "us")], 1)], kind="stable")
    x = taken(x, order[:ROWS])

    def loss(p, most):
        return float(np.mean(np.minimum(np.abs(errors(p, key, x, device)), most)))

    p = dict(start)
    for step, most in ROUNDS:
        least = loss(p, most)
        for name in BOUNDS:
            for factor in (step, 1 / step):
                value = float(f"{min(max(p[name] * factor, BOUNDS[name][1]), BOUNDS[name][2]):.3g}")
                if value != p[name] and (found := loss(p | {name: value}, most)) < least - 1e-5:
                    p, least = p | {name: value}, found
    return p


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
        x, device = rows[key], fit_products.device_for(key[2])
        start = started(key[2])
        left = np.concatenate([errors(fit(key, taken(x, x["fold"] != f), start, device), key, taken(x, x["fold"] == f), device) for f in (0, 1)])
        p = fit(key, x, start, device)
        tiles = train_transfer.TILES[fit_products.KINDS[key[2]][0]]
        lines.append(",".join([" ".join(key), str(len(x["us"])), figures(errors(p, key, x, device)), figures(left), *(f"{p[n]:.6g}" for n in NAMES), tiles]))
        print(",".join(lines[-1].split(",")[:6]), flush=True)
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    return fitted.keep(TABLE, text(), args.check)


if __name__ == "__main__":
    sys.exit(main())
