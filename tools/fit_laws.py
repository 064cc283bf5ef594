#!/usr/bin/env python3
"""Fits the laws of fused attention, recurrent layers and work that streams (tools/laws.py): src/hardware/laws/*.csv.

    tools/fit_laws.py [PUBLIC]           writes H200-SXM.csv from data/, and attention.csv from PUBLIC's table of attention on four GPUs where it is given
                                         (else the folder FORETRACE_PUBLIC names)
    tools/fit_laws.py --check [PUBLIC]   nothing is written; fails where a file is not what the data say
    tools/fit_laws.py --each PUBLIC      attention without one GPU each, for tools/gpu_accuracy.py: tools/laws-left-out/<GPU>.csv

The search goes along one parameter after the other on three digits, so that it ends in the same place anywhere. Beside each set stands its error over all
rows, and over rows left out: shapes are split in two halves, each told by a fit to the other; of the public table, each GPU by a fit to the others.
"""

import argparse
import csv
import gzip
import math
import os
import pathlib
import sys
import zlib

import fit_kernels
import fit_products
import laws
import numpy as np
import operation_rows
import transfer_model as model
from truth import ROOT

FOLDER = ROOT / "src" / "hardware" / "laws"
LEFT_OUT = ROOT / "tools" / "laws-left-out"
DEVICE = "H200-SXM"
HEAD = "law,kind,architecture,parameter,value"
ROUNDS = (1.6, 1.6, 1.25, 1.25, 1.1, 1.04, 1.6, 1.25, 1.1, 1.04)
BLOCKS = ((128, 128), (128, 64), (64, 64), (64, 128))
# Of the peak rate that multiplications of fused attention begin their search at: there is no kernel for TF32.
SHARES = {"half": 0.6, "fp32": 0.6, "tf32": 0.1}
TYPES = {"fp16": "half", "bf16": "half", "tf32": "tf32", "fp32": "fp32"}
SIZES = {"half": 2, "tf32": 4, "fp32": 4}


def search(errors, start, bounds):
    """Parameters with the least mean |log error|; beyond a factor of e an error is an error."""

    def loss(p):
        return float(np.mean(np.minimum(np.abs(errors(p)), 1.0)))

    p = dict(start)
    least = loss(p)
    for step in ROUNDS:
        for name, (_, low, high) in bounds.items():
            for factor in (step, 1 / step):
                value = float(f"{min(max(p[name] * factor, low), high):.3g}")
                if value != p[name] and (found := loss(p | {name: value})) < least - 1e-5:
                    p, least = p | {name: value}, found
    return p, least


def figures(e):
    off = np.sort(np.abs(np.expm1(e)))
    return f"{100 * off[len(off) // 2]:.1f} % median, {100 * off[int(0.9 * len(off))]:.1f} % 90th percentile"


def spread(e):
    """Two of three errors are smaller."""
    return float(f"{np.sort(np.abs(e))[int(0.683 * len(e))]:.2g}") if len(e) else 0.0


def lines_of(law, kind, architecture, p):
    return [f"{law},{kind},{architecture},{name},{value:.6g}" for name, value in p.items()]


def halves(shapes):
    return np.array([zlib.crc32(",".join(map(str, s)).encode()) % 2 for s in shapes])


def rate_of(device, kind):
    return device.flops_per_clock("half") / 2 if kind == "tf32" else device.flops_per_clock(kind)


def attention_rows():
    """{kind: (shapes, us)}; the columns of tools/laws.py."""
    out: dict[str, list] = {}
    for sizes, cells in sorted(fit_kernels.measured()["attention"].items()):
        for column, us in sorted(cells.items()):
            way, dtype, layout = column.split()
            masked = layout in ("mask", "bias")
            shape = (*sizes, layout.startswith("causal"), layout.endswith("dropout"), masked)
            out.setdefault(f"{way} {TYPES[dtype]}" + " masked" * masked, []).append((*shape, math.exp(sum(map(math.log, us)) / len(us))))
    return {kind: (np.array(rows, float)[:, :-1], np.array(rows, float)[:, -1]) for kind, rows in sorted(out.items())}


def fitted_attention(kind, x, us, blocks=BLOCKS):
    device, dtype, backward = model.Device(DEVICE), kind.split()[1], kind.startswith("bwd")
    start = {name: bound[0] for name, bound in laws.ATTENTION.items()} | {"share": SHARES[dtype]}

    def errors(p):
        return np.log(laws.attention_us(p, x, device, rate_of(device, dtype), SIZES[dtype], backward) / us)

    found = [search(errors, {"rows": rows, "columns": columns} | start, laws.ATTENTION) for rows, columns in blocks]
    p = min(found, key=lambda f: f[1])[0]
    return p, errors(p)


def attention_here():
    """[line], and {kind: parameters}"""
    lines, sets = [], {}
    for kind, (x, us) in attention_rows().items():
        p, e = fitted_attention(kind, x, us)
        fold, left = halves([tuple(int(v) for v in row[:6]) for row in x]), []
        for half in (0, 1):
            q, _ = fitted_attention(kind, x[fold != half], us[fold != half], [(p["rows"], p["columns"])])
            device, dtype = model.Device(DEVICE), kind.split()[1]
            told = laws.attention_us(q, x[fold == half], device, rate_of(device, dtype), SIZES[dtype], kind.startswith("bwd"))
            left.append(np.log(told / us[fold == half]))
        lines.append(f"# attention {kind}: {len(us)} operations; {figures(e)}; left out {figures(np.concatenate(left))}")
        print(lines[-1], flush=True)
        # Forward in half precision other GPUs were measured, too.
        lines += lines_of("attention", kind, model.Device(DEVICE).arch if kind == "fwd half" else "any", p)
        sets[kind] = p
    return lines, sets


class Public:
    """Causal attention forward in BF16 on several GPUs, as tools/gpu_accuracy.py reads it: measured times hold the host."""

    HOST, FLOOR = 0.8, 0.01
    SAME = ("rows", "columns", "wide", "drop", "pad_size")  # one head size, no dropout: what was measured here holds
    MOST = 1500

    def __init__(self, folder):
        import transfer_tables

        with gzip.open(folder / "gpu-attention-bf16.csv.gz", "rt", newline="") as file:
            rows = list(csv.DictReader(file))
        times = {g: [float(r[c] or "nan") * 1e3 for r in rows] for c in rows[0] if c.endswith("_ms") and (g := transfer_tables.GEMM_COLUMNS.get(c.removesuffix("_ms")))}
        self.times = {g: np.array(t) for g, t in times.items()}
        self.floors = {g: float(np.nanquantile(t, transfer_tables.FLOOR_QUANTILE)) for g, t in self.times.items()}
        names = ("batch_size", "num_heads", "num_key_value_heads", "isl", "isl", "head_dim")
        self.x = np.array([[float(r[n]) for n in names] + [1.0, 0.0, 0.0] for r in rows])
        order = np.argsort([zlib.crc32(row.tobytes()) for row in self.x], kind="stable")[: self.MOST]
        self.sample = np.zeros(len(rows), bool)
        self.sample[order] = True

    def errors(self, p, gpu, every):
        device, some = model.Device(gpu), np.isfinite(self.times[gpu]) & (every | self.sample)
        us = laws.attention_us(p, self.x[some], device, device.flops_per_clock("half"), 2, False)
        floor = self.floors[gpu]
        return np.log(np.maximum(floor, self.HOST * floor + us) / self.times[gpu][some])

    def fit(self, start, without=""):
        gpus = [g for g in self.times if g != without]
        bounds = {k: v for k, v in laws.ATTENTION.items() if k not in self.SAME}
        return search(lambda p: np.concatenate([self.errors(p, g, False) for g in gpus]), start, bounds)[0]


def attention_elsewhere(public, here):
    table = Public(public)
    p = table.fit(here)
    left = {g: table.fit(here, g) for g in table.times}
    lines = [HEAD]
    for g in table.times:
        lines.append(f"# attention fwd half, {g}: {int(np.isfinite(table.times[g]).sum())} shapes; {figures(table.errors(p, g, True))}; this GPU left out "
                     f"{figures(table.errors(left[g], g, True))}")
        print(lines[-1], flush=True)
    return "\n".join([*lines, *lines_of("attention", "fwd half", "any", p)]) + "\n", left


def product_us(dtype):
    """The law of products with the parameters of the GPU at hand, as best_product_us asks it."""
    sets: dict[str, dict] = {}
    for line in fit_products.TABLE.read_text().splitlines()[1:]:
        if not line.startswith("#"):
            kind, _, name, value = line.split(",")
            if name != "tiles":
                sets.setdefault(kind, {})[name] = float(value)

    def one(kind, m, n, k):
        law, size = fit_products.KINDS[kind]
        return model.product_us(sets[kind], fit_products.tiles_of(law), np.ones(len(m)), m, n, k, size, fit_products.device_for(kind), law)

    def best(m, n, k):
        m, n, k = (np.broadcast_to(v, np.broadcast_shapes(np.shape(m), np.shape(n), np.shape(k))).astype(float) for v in (m, n, k))
        plain = one("fp32", m, n, k)
        return plain if TYPES[dtype] == "fp32" else np.minimum(one(TYPES[dtype], m, n, k), plain)

    return best


def recurrent_rows():
    out: dict[str, list] = {}
    for (b, t, i, h, layers, directions, gates), cells in sorted(fit_kernels.measured()["rnn"].items()):
        for column, us in sorted(cells.items()):
            way, dtype, _ = column.split()
            kept = laws.kept_on_chip(dtype, b, i, h, layers, directions, gates, way == "bwd")
            row = (b, t, i, h, layers, directions, gates, math.exp(sum(map(math.log, us)) / len(us)))
            out.setdefault(f"{way} {TYPES[dtype]}{kept}", []).append((dtype, row))
    return dict(sorted(out.items()))


def recurrent_here():
    device, lines = model.Device(DEVICE), []
    for kind, rows in recurrent_rows().items():
        kept, backward, dtype = kind.endswith(("kept", "persistent")), kind.startswith("bwd"), kind.split()[1]
        x, us = np.array([r[:-1] for _, r in rows], float), np.array([r[-1] for _, r in rows], float)
        parts = laws.recurrent_parts(x, device, SIZES[dtype], backward, product_us("fp16" if dtype == "half" else dtype))
        bounds = laws.KEPT if kept else laws.RECURRENT
        # Rows that no 16-byte access fits take longer; the neighbours tell by how much.
        odd = x[:, 3] % (8 if dtype == "half" else 4) != 0

        def errors(p, some, parts=parts, us=us, odd=odd, kept=kept):
            e = np.log(laws.recurrent_us(p, {k: v[some] for k, v in parts.items()}, device, kept) / us[some])
            mine = odd[some]
            return np.where(mine, e - np.median(e[mine]), e) if mine.any() else e

        start = {name: bound[0] for name, bound in bounds.items()}
        every, fold = np.ones(len(us), bool), halves([r[:-1] for _, r in rows])
        p = search(lambda p, errors=errors, every=every: errors(p, every), start, bounds)[0]
        left = []
        for half in (0, 1):
            q = search(lambda p, errors=errors, some=fold != half: errors(p, some), start, bounds)[0]
            left.append(errors(q, fold == half))
        lines.append(f"# recurrent {kind}: {len(us)} layers; {figures(errors(p, every))}; left out {figures(np.concatenate(left))}")
        print(lines[-1], flush=True)
        lines += lines_of("recurrent", kind, "any", p)
    return lines


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
SHORT_US = 12.0  # below, it matters more whether operands are still in L2
# Between these shares of L2 a kernel measured alone finds operands there and leaves its results there. In a step it writes back what the kernel before
# it left: a law with L2 in it tells single kernels to 5.5 % (median) instead of 7.8, and mixed precision of whole steps 1.5 to 2.5 % too fast.
IN_L2 = (0.02, 2.0)
# What no table here tells apart, with where it was read from.
READ_ELSEWHERE = {
    "relayout half": ({"start": 1.8, "handled": 2.25}, "12,644 launches of cuDNN's conversions in data/h200-operations: 7 to 12 % median by type and direction"),
    "relayout fp32": ({"start": 1.8, "handled": 2.15}, "the same"),
    "mixed strided half": ({"start": 1.8, "handled": 0.755}, "steps of five models: 9 % of their time"),
    "mixed strided fp32": ({"start": 1.8, "handled": 0.755}, "the same"),
    "fill bytes half": ({"start": 1.1, "handled": 13.7}, "masks of data/h200-kernels"),
    "fill bytes fp32": ({"start": 1.1, "handled": 13.7}, "the same"),
    "plain bytes": ({"start": 1.17}, "nothing of one byte was measured, FP8 of data/h200-lengths apart: memory alone limits"),
    "device copy": ({"start": 1.0}, "copies of the traces of data/"),
    "host copy": ({"start": 1.2}, "data/h200-catalogue/copies.jsonl, pinned"),
}
READ_SPREADS = {"device copy": (0.4, 0.15), "host copy": (0.4, 0.1)}


def sizes_of(text):
    return {k: int(v) for k, v in (item.split("=") for item in text.split(";") if "=" in item) if v.isdigit()}


def streaming_rows():
    """{kind: {(elements, bytes, shape): [us]}}; what is measured twice counts once."""
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
    return dict(sorted(out.items()))


def list_rows():
    """Of tensors of different sizes, as networks have them, and of networks' own."""
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
    return found


def direct_rows():
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
    import random

    if not s["mixed"]:
        return [s["n"]] * s["tensors"]
    draw = random.Random(f"list {s['tensors']} {s['n']}")
    return [max(1, round(s["n"] / 16 * 64 ** draw.random())) for _ in range(s["tensors"])]


def told(law, kind, n, bounds, errors, shapes, us_of, all_errors=None, overlap=laws.OVERLAP):
    """Lines of one set: fitted to all, its spread by length, its error with halves of the shapes left out."""
    start = {name: bound[0] for name, bound in bounds.items()}
    every, fold = np.ones(n, bool), halves(shapes)
    p = search(lambda p: errors(p, every), start, bounds)[0]
    left = [errors(search(lambda p, half=half: errors(p, fold != half), start, bounds)[0], fold == half) for half in (0, 1) if (fold == half).any() and (fold != half).any()]
    e, brief = np.concatenate(left), np.concatenate([us_of[fold == half] for half in (0, 1) if (fold == half).any() and (fold != half).any()]) < SHORT_US
    p |= {"overlap": overlap, "short_us": SHORT_US, "short_spread": max(0.06, spread(e[brief])), "spread": max(0.04, spread(e[~brief]))}
    text = f"# {law} {kind}: {n} kernels; {figures(errors(p, every))}; left out {figures(e)}"
    if all_errors:
        text += f"; with those in L2 {figures(all_errors(p))}"
    print(text, flush=True)
    return [text, *lines_of(law, kind, "any", p)]


def streaming_here():
    device, lines = model.Device(DEVICE), []
    for kind, rows in streaming_rows().items():
        elements, moved = (np.array([key[i] for key in rows], float) for i in (0, 1))
        us = np.array([math.exp(sum(map(math.log, v)) / len(v)) for v in rows.values()])
        share = moved / (device.l2_mb * 1e6)
        kept = (share < IN_L2[0]) | (share > IN_L2[1])

        def errors(p, some, moved=moved[kept], elements=elements[kept], us=us[kept]):
            return np.log(laws.streaming_us(p, moved[some], elements[some], device) / us[some])

        def every(p, moved=moved, elements=elements, us=us):
            return np.log(laws.streaming_us(p, moved, elements, device) / us)

        lines += told("streaming", kind, int(kept.sum()), laws.STREAMING, errors, [key[2:] for key, k in zip(rows, kept) if k], us[kept], every)
    for kind, rows in (("lists", [r for r in list_rows() if r[3] < 4]), ("lists fused", [r for r in list_rows() if r[3] >= 4])):
        elements, moved, tensors, read, us = (np.array([r[i] for r in rows], float) for i in range(5))

        def list_errors(p, some, elements=elements, moved=moved, tensors=tensors, read=read, us=us):
            return np.log(laws.lists_us(p, moved[some], elements[some], tensors[some], read[some], device) / us[some])

        lines += told("streaming", kind, len(us), laws.LISTS, list_errors, [r[5:] for r in rows], us, overlap=laws.LIST_OVERLAP)
    lines += direct_here(device)
    for kind, (p, source) in READ_ELSEWHERE.items():
        short, long = READ_SPREADS.get(kind, (0.25, 0.15))
        lines.append(f"# streaming {kind}: {source}")
        lines += lines_of("streaming", kind, "any", p | {"overlap": laws.OVERLAP, "short_us": SHORT_US, "short_spread": short, "spread": long})
    return lines


def direct_here(device):
    lines, sums, late = [], [], []
    for how, rows in direct_rows().items():
        multiplied, depth, us, added, took = (np.array([r[i] for r in rows], float) for i in range(5))
        ran = np.isfinite(us)

        def errors(p, some, multiplied=multiplied[ran], depth=depth[ran], us=us[ran]):
            return np.log(laws.direct_us(p, multiplied[some], depth[some], device) / us[some])

        some = told("streaming", f"direct {how}", int(ran.sum()), laws.DIRECT, errors, [r[5:] for r, one in zip(rows, ran) if one], us[ran])
        p = {line.split(",")[3]: float(line.split(",")[4]) for line in some[1:]}
        direct = laws.direct_us(p, multiplied, depth, device)
        sums.append(added / direct)
        late.append(np.log(took / direct))
        lines += some
    # Kernels of a loop over groups run beside each other: by how many times the direct kernel's time they add up to one tells best which is over first, by what is
    # lost where that is wrong.
    added, later = np.concatenate(sums), np.concatenate(late)
    lost = {q: float(np.abs(later[(added > q) != (later > 0)]).sum()) for q in np.arange(1, 8.1, 0.25)}
    best = min(lost, key=lambda q: lost[q])
    wrong = int(((added > best) != (later > 0)).sum())
    lines.append(f"# streaming direct: {len(added)} grouped convolutions, {int((later > 0).sum())} of which took longer than the direct kernel would; told wrongly {wrong}")
    return lines + lines_of("streaming", "direct", "any", {"beside": best})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("public", type=pathlib.Path, nargs="?", default=os.environ.get("FORETRACE_PUBLIC") and pathlib.Path(os.environ["FORETRACE_PUBLIC"]))
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--each", action="store_true", help="also the files without one GPU each")
    args = parser.parse_args()
    lines, sets = attention_here()
    files = {FOLDER / f"{DEVICE}.csv": "\n".join([HEAD, *lines, *recurrent_here(), *streaming_here()]) + "\n"}
    if args.public and (args.public / "gpu-attention-bf16.csv.gz").is_file():
        files[FOLDER / "attention.csv"], left = attention_elsewhere(args.public, sets["fwd half"])
        for gpu, p in left.items() if args.each else ():
            # What was measured here is of the H200 itself: without it the GPUs of its architecture know the others' only.
            own = [] if gpu == DEVICE else lines_of("attention", "fwd half", model.Device(DEVICE).arch, sets["fwd half"])
            files[LEFT_OUT / f"{gpu}.csv"] = "\n".join([HEAD, *lines_of("attention", "fwd half", "any", p), *own]) + "\n"
    stale = [path.name for path, text in files.items() if not path.is_file() or path.read_text() != text]
    if args.check:
        for name in stale:
            print(f"{name}: not what the data say", file=sys.stderr)
        return 1 if stale else 0
    for path, text in files.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
