"""Measured operations of data/ as the rows that tools/fit_laws.py fits the laws to, by the kind of the law."""

import csv
import gzip
import math
import random

import fit_kernels
import laws
import numpy as np
import operation_rows
from truth import ROOT

DEVICE = "H200-SXM"
TYPES = {"fp16": "half", "bf16": "half", "tf32": "tf32", "fp32": "fp32"}


def mean(us):
    return math.exp(sum(map(math.log, us)) / len(us))


def attention():
    """{kind: (shapes, us)}; the columns of the law (tools/laws.cpp)."""
    out: dict[str, list] = {}
    for sizes, cells in sorted(fit_kernels.measured()["attention"].items()):
        for column, us in sorted(cells.items()):
            how, dtype, layout = column.split()
            masked = layout in ("mask", "bias")
            shape = (*sizes, layout.startswith("causal"), layout.endswith("dropout"), masked)
            out.setdefault(f"{how} {TYPES[dtype]}" + " masked" * masked, []).append((*shape, mean(us)))
    return {kind: (np.array(rows, float)[:, :-1], np.array(rows, float)[:, -1]) for kind, rows in sorted(out.items())}


def recurrent():
    """{kind: ([(dtype, columns of the law)], us)}"""
    out: dict[str, tuple[list, list]] = {}
    for sizes, cells in sorted(fit_kernels.measured()["rnn"].items()):
        for column, us in sorted(cells.items()):
            how, dtype, _ = column.split()
            rows, times = out.setdefault(laws.describe(f"{how} {dtype}", DEVICE, sizes), ([], []))
            rows.append((dtype, sizes))
            times.append(mean(us))
    return {kind: (rows, np.array(times)) for kind, (rows, times) in sorted(out.items())}


# Of data/h200-kernels and data/h200-operations: kind of the law, tensors of the operation's own type read and written, bytes of others for an element,
# and elements written for one of the shape.
KERNELS = {
    **dict.fromkeys(("add", "add_", "mul", "relu_bwd"), ("plain", 3, 0)), **dict.fromkeys(("mul_scalar", "relu", "relu_", "pow2", "tanh", "clone"), ("plain", 2, 0)),
    "gelu": ("gelu fwd", 2, 0), "gelu_tanh": ("gelu fwd", 2, 0), "gelu_bwd": ("gelu bwd", 3, 0), "silu": ("silu fwd", 2, 0), "silu_bwd": ("silu bwd", 3, 0),
    "dropout": ("dropout", 2, 1), "cast_up": ("cast", 1, 4), "add_mixed": ("mixed", 1, 8), "mul_mixed": ("mixed", 1, 8), "bias_add": ("strided", 2, 0),
    "perm_bshd": ("strided", 2, 0), "perm_2d": ("transposed", 2, 0), "perm_last": ("transposed", 2, 0), "perm_nhwc": ("transposed", 2, 0),
    "cat2": ("pieces", 2, 0), "fill_": ("fill", 1, 0), "zero_": ("fill", 1, 0),
}  # fmt: skip
OPERATIONS = {
    **dict.fromkeys((("add", "fwd"), ("mul", "fwd"), ("tanh", "bwd"), ("sigmoid", "bwd")), ("plain", 3, 0)),
    **dict.fromkeys(((n, "fwd") for n in ("scale", "relu", "tanh", "sigmoid", "exp", "sqrt", "copy")), ("plain", 2, 0)), ("addcmul", "fwd"): ("plain", 4, 0),
    ("gelu", "fwd"): ("gelu fwd", 2, 0), ("gelu", "bwd"): ("gelu bwd", 3, 0), ("gelu_tanh", "fwd"): ("gelu fwd", 2, 0), ("gelu_tanh", "bwd"): ("gelu bwd", 3, 0),
    ("silu", "fwd"): ("silu fwd", 2, 0), ("silu", "bwd"): ("silu bwd", 3, 0), ("dropout", "fwd"): ("dropout", 2, 1), ("fill", "fwd"): ("fill", 1, 0),
    ("cast", "fwd"): ("cast", 1, 4), ("mixed", "fwd"): ("mixed", 1, 8), ("row", "fwd"): ("strided", 2, 0), ("column", "fwd"): ("strided", 2, 0),
    ("heads", "fwd"): ("strided", 2, 0), ("slice", "fwd"): ("strided", 2, 0, 0.5), ("transpose", "fwd"): ("transposed", 2, 0), ("heads_keys", "fwd"): ("transposed", 2, 0),
    ("cat_rows", "fwd"): ("pieces", 2, 0, 2), ("cat_columns", "fwd"): ("pieces", 2, 0, 2),
}  # fmt: skip
# Lists of tensors: how many lists are read (or written new), how many written.
LISTS = {"foreach_mul": (1, 1), "foreach_sqrt": (2, 0), "foreach_add": (2, 1), "foreach_lerp": (2, 1), "foreach_addcmul": (3, 1), "foreach_addcdiv": (3, 1),
         "fused_adam": (4, 3)}  # fmt: skip
UPDATES = {"adam_fused": (4, 3), "adamw_fused": (4, 3), "sgdm_fused": (3, 2), "unscale": (1, 1)}


def sizes_of(text):
    return {k: int(v) for k, v in (item.split("=") for item in text.split(";") if "=" in item) if v.isdigit()}


def streaming():
    """{kind: (bytes, elements, us, shapes)}; what is measured twice counts once."""
    out: dict[str, dict] = {}

    def add(kind, dtype, elements, tensors, more, shape, us):
        size = 4 if dtype == "fp32" else 2
        out.setdefault(f"{kind} {'fp32' if dtype == 'fp32' else 'half'}", {}).setdefault((elements, elements * (tensors * size + more), shape), []).append(us)

    with gzip.open(ROOT / "data" / "h200-kernels" / "elem.csv.gz", "rt", newline="") as file:
        for row in csv.DictReader(file):
            if row["kind"] == "elem" and row["name"] in KERNELS:
                kind, tensors, more = KERNELS[row["name"]]
                add(kind, row["dtype"], sizes_of(row["shape"])["n"], tensors, more, f"{row['name']} {row['dtype']} {row['shape']}", float(row["kernel_us"]))
    path = ROOT / "data" / "h200-operations" / "streams.csv.gz"
    if path.is_file():
        for row in operation_rows.read(path.parent, ["streams"]):
            if row["kernel_us"] > 0 and (how := OPERATIONS.get((row["name"], row["pass"]))):
                s = row["sizes"]
                elements = math.prod(s.values()) * (how[3] if len(how) > 3 else 1)
                wider = 2 if row["dtype"] == "fp32" and how[0] == "cast" else how[2]
                add(how[0], row["dtype"], elements, how[1], wider, f"{row['name']} {row['pass']} {row['dtype']} {row['shape']}", row["kernel_us"])
    return {kind: (*(np.array([key[i] for key in rows], float) for i in (1, 0)), np.array([mean(v) for v in rows.values()]), [key[2:] for key in rows])
            for kind, rows in sorted(out.items())}


def lists():
    """{kind: [(elements, bytes, tensors, lists read, us, shape)]} of tensors of different sizes, as networks have them, and of networks' own."""
    path, found = ROOT / "data" / "h200-operations" / "streams.csv.gz", []
    with gzip.open(ROOT / "data" / "h200-kernels" / "opt.csv.gz", "rt", newline="") as file:
        for row in csv.DictReader(file):
            if row["name"] in UPDATES:
                s, (read, written) = sizes_of(row["shape"]), UPDATES[row["name"]]
                found.append((s["params"], s["params"] * 4 * (read + written), s["tensors"], read, float(row["kernel_us"]), row["name"] + row["shape"]))
    if path.is_file():
        for row in operation_rows.read(path.parent, ["streams"]):
            if row["name"] in LISTS and row["sizes"]["tensors"] > 1 and row["sizes"]["mixed"]:
                s, (read, written) = row["sizes"], LISTS[row["name"]]
                sizes = list_sizes(s)
                found.append((sum(sizes), sum(sizes) * (read + written) * (4 if row["dtype"] == "fp32" else 2), s["tensors"], read, row["kernel_us"], row["shape"]))
    return {"lists": [r for r in found if r[3] < 4], "lists fused": [r for r in found if r[3] >= 4]}


def direct():
    """{pass: [(multiplications, of one thread, us of cuDNN's direct kernel where it ran, us of all kernels, time in which any ran, shape)]} of grouped convolutions that it
    can do and all of whose multiplications are of use: stride 1, filters of more than one tap."""
    found: dict[str, list] = {"fwd": [], "dgrad": []}
    for row in operation_rows.read(ROOT / "data" / "h200-operations", ["conv"]):
        s = {"h": 1, "r": 1} | row["sizes"]
        taps = s["r"] * s["s"]
        if s["groups"] == 1 or s["c"] == s["groups"] or "d" in s or row["layout"] not in ("nchw", "ncw"):
            continue
        if row["pass"] not in found or s["stride"] > 1 or s["dilation"] > 1 or taps == 1:
            continue
        kernels = [us for name, us in operation_rows.kernels_of(row["kernels"]) if "grouped_direct" in name]
        outputs = math.prod(s[size] + 2 * (s["pad"] if s[tap] > 1 else 0) - s[tap] + 1 for size, tap in (("h", "r"), ("w", "s")))
        depth = s["c" if row["pass"] == "fwd" else "k"] // s["groups"] * taps
        multiplied = s["n"] * s["k"] * outputs * s["c"] // s["groups"] * taps
        found[row["pass"]].append((multiplied, depth, kernels[0] if len(kernels) == 1 else math.nan, row["kernel_us"], float(row["busy_us"]), row["shape"]))
    return found


def list_sizes(s):
    """As tools/measure/operations/streams.py draws them."""
    if not s["mixed"]:
        return [s["n"]] * s["tensors"]
    draw = random.Random(f"list {s['tensors']} {s['n']}")
    return [max(1, round(s["n"] / 16 * 64 ** draw.random())) for _ in range(s["tensors"])]
