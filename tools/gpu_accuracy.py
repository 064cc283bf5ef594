#!/usr/bin/env python3
"""How well the library carries measured operations from one GPU to another.

    tools/gpu_accuracy.py [DIR] [--json] [--gate] [--program build/tests/gpu_figures]

DIR (default: the folder FORETRACE_PUBLIC names) is laid out as docs/gpus.md describes: `gpu-kernels-fp32/*.csv.gz`,
`gpu-gemm-bf16.csv.gz`, `neusight-e2e/`; what is missing is left out and said so. All ordered pairs of the GPUs found there are predicted, also of GPUs the model was never fitted to. A GPU
that it was fitted to is left out: files of `tools/train_transfer.py --each` beside this script. The figures are the library's own
(the program evaluates the C++); this script prepares requests and compares. Needs numpy and pandas. --gate: exit 1 when a figure
falls behind what was reached (REACHED).
"""

import argparse
import itertools
import json
import os
import pathlib
import re
import subprocess
import sys

try:
    import numpy as np
    import pandas as pd
except ImportError as missing:
    sys.exit(f"{missing}: numpy and pandas are needed; `scripts/setup python` puts them into .venv")

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import habitat_wave_scaling as habitat
import transfer_model as model
import transfer_tables as tables
from gpu_tables import TITLES, show, update_docs

LEFT_OUT = HERE / "transfer-left-out"
NOBODY = ""  # as the GPU to leave out: the parameters fitted to all of them
# Tensors read and written by each same-kernel table, and FLOP per element for Habitat's arithmetic intensity.
ALIKE = {"add": (3, 1), "div": (3, 1), "mul": (3, 1), "pow": (3, 1), "addu": (2, 1), "divu": (2, 1), "mulu": (2, 1), "powu": (2, 1),
         "relu": (2, 1), "gelu": (2, 8), "tanh": (2, 4), "softmax": (2, 5), "ln": (2, 8)}  # fmt: skip
# Measured times hold the host: this share of the smallest row's comes on top of every kernel (element-wise tables).
HOST_SHARE = 0.4
# Rows within this factor of the host's floor say nothing about their kernel.
AT_FLOOR = 1.08
NO_KERNEL = 0.25  # of the time its operands would need: an operation this fast moved nothing
LONG_US = 10.0  # kernels at least this long on every GPU: below, launch latency is measured
LIMITS = {"same_kernel median": 10.0, "same_kernel mean": 15.0, "same_kernel mean, origin's host": 15.0, "bf16 mean": 12.0, "bf16 worst pair": 25.0,
          "bf16 mean, from 10 us": 12.0, "bf16 worst, from 10 us": 25.0, "fp32 mean": 15.0, "models mean": 8.0}
# What is reached, with a little room: no change may fall behind it (--gate). Above LIMITS where those are missed (docs/gpus.md).
REACHED = {"same_kernel median": 4.0, "same_kernel mean": 7.5, "same_kernel mean, origin's host": 17.5, "bf16 mean": 16.0, "bf16 worst pair": 30.5,
           "bf16 mean, from 10 us": 11.0, "bf16 worst, from 10 us": 16.0, "fp32 mean": 20.0, "models mean": 11.5}
NEUSIGHT = {"inf": 9.7, "train": 7.3}  # published means over 54 and 26 cases, their own GPUs and models


class Figures:
    """The library's answers."""

    def __init__(self, program):
        self.program = program

    def ask(self, lines, without=None):
        weights = LEFT_OUT / f"{without}.csv" if without else None
        command = [str(self.program)] + ([str(weights)] if weights and weights.exists() else [])
        done = subprocess.run(command, input="\n".join(lines) + "\n", capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{command[0]}: {done.stderr.strip()}")
        return np.array([[float(x) for x in line.split()] for line in done.stdout.splitlines()])


def percent(x):
    return round(100 * float(x), 2)


def summary(errors):
    """{(origin, target): array of relative errors} -> figures."""
    every = np.concatenate(list(errors.values()))
    by_pair = {f"{o} -> {t}": percent(e.mean()) for (o, t), e in errors.items()}
    worst = max(by_pair, key=lambda pair: by_pair[pair])
    return {"rows": len(next(iter(errors.values()))), "pairs": len(errors), "mean_pct": percent(every.mean()),
            "median_pct": percent(np.median(every)), "p90_pct": percent(np.quantile(every, 0.9)), "worst_pair": worst,
            "worst_pair_pct": by_pair[worst], "by_pair": by_pair}


def same_kernel(folder, figures):
    """Kernels that stay the same, ours beside Habitat's."""
    known = habitat.listed(folder)
    errors: dict[str, dict] = {name: {} for name in ("ours", "ours, host floor of the origin kept", "Habitat Eq. 2, roofline share",
                                    "Habitat Eq. 2, memory only", "Habitat Eq. 1, roofline share")}  # fmt: skip
    by_op: dict[str, list] = {}
    for op, (tensors, flop) in ALIKE.items():
        path = folder / "gpu-kernels-fp32" / f"{op}.csv.gz"
        if not path.exists():
            continue
        raw = tables.with_gpu(pd.read_csv(path)).drop_duplicates(["B", "H", "gpu"])
        raw["blocks"] = raw["Grid x"] * raw["Grid y"] * raw["Grid z"]
        raw["threads"] = raw["Block x"] * raw["Block y"] * raw["Block z"]
        every = raw.pivot(index=["B", "H"], columns="gpu", values="Latency") * 1e3
        shape = {c: raw.pivot(index=["B", "H"], columns="gpu", values=c) for c in ("blocks", "threads")}
        gpus = list(every.columns)
        floors = {g: float(every[g].quantile(tables.FLOOR_QUANTILE)) for g in gpus}
        devices = {g: model.Device(g) for g in gpus}
        for o, t in itertools.permutations(gpus, 2):
            time = every[[o, t]].dropna()
            if time.empty:
                continue
            elements = np.array([b * h for b, h in time.index], float)
            size = 4.0 * tensors * elements
            hidden = time[o].values < AT_FLOOR * floors[o]
            host = HOST_SHARE * floors[o]
            stream = size / (devices[o].streaming * 1e3)
            kernel = np.where(hidden, np.minimum(stream + 1.0, time[o].values - host), time[o].values - host)
            blocks, threads = (shape[c][o].loc[time.index].values for c in ("blocks", "threads"))
            lines = [f"same_kernel {o} {t} {b} {int(n)} {int(th)} {max(us, 0.1)}" for b, n, th, us in zip(size, blocks, threads, kernel)]
            moved = figures.ask(lines)[:, 0]
            truth = time[t].values
            ours = np.maximum(floors[t], HOST_SHARE * floors[t] + moved)
            blind = np.maximum(floors[o], host + moved)
            ho, hd = habitat.figures(devices[o], known), habitat.figures(devices[t], known)
            g = habitat.gamma(flop * elements / size, hd)
            answers = {"ours": ours, "ours, host floor of the origin kept": blind,
                       "Habitat Eq. 2, roofline share": habitat.equation_2(time[o].values, blocks, threads, g, ho, hd),
                       "Habitat Eq. 2, memory only": habitat.equation_2(time[o].values, blocks, threads, 1.0, ho, hd),
                       "Habitat Eq. 1, roofline share": habitat.equation_1(time[o].values, blocks, threads, g, ho, hd)}  # fmt: skip
            for name, predicted in answers.items():
                e = np.abs(predicted / truth - 1)
                errors[name][(o, t)] = np.concatenate([errors[name].get((o, t), np.array([])), e])
            by_op.setdefault(op, []).append(np.abs(ours / truth - 1))
    if not by_op:
        return None
    result = {name: summary(e) for name, e in errors.items()}
    result["ours"]["by_operation"] = {op: percent(np.concatenate(e).mean()) for op, e in by_op.items()}
    return result


def roofline_us(rows, element_bytes, dev, kind):
    flop = 2.0 * rows.batch * rows.m * rows.n * rows.k
    size = element_bytes * rows.batch * (rows.m * rows.n + rows.m * rows.k + rows.k * rows.n)
    return np.maximum(flop / (dev.tflops["half" if kind == "half" else "fp32"] * 1e6), size / (dev.bandwidth * 1e3)).values


def move_products(figures, table, kind, rows, o, t, without):
    """Predicted table times on t from those on o."""
    host_o = host_t = 0.0
    known = rows[o].values
    if table.has_host:
        host_o, host_t = (host_share(kind, without) * table.floors[g] for g in (o, t))
        known = np.where(known < AT_FLOOR * table.floors[o], 0.0, known - host_o)
    if kind == "conv":
        sizes = rows[["images", "channels", "size", "out_channels", "kernel", "stride", "padding"]].astype(int).values
        lines = [f"conv {o} {t} {' '.join(map(str, s))} {us}" for s, us in zip(sizes, known)]
    else:
        lines = [f"product {kind} {o} {t} {int(b)} {int(m)} {int(n)} {int(k)} {table.element_bytes} {us}"
                 for b, m, n, k, us in zip(rows.batch, rows.m, rows.n, rows.k, known)]  # fmt: skip
    moved = figures.ask(lines, without)[:, 2]
    return np.maximum(table.floors[t], host_t + moved) if table.has_host else moved


def host_share(kind, without):
    path = LEFT_OUT / f"{without}.csv"
    text = (path if path.exists() else model.FOLDER / "transfer" / "products.csv").read_text()
    match = re.search(rf"^{kind},any,host,([\d.e+-]+)$", text, re.M)
    return float(match.group(1)) if match else HOST_SHARE


def products(folder, figures, kind, in_sample=False):
    """Each target left out of the fit in turn, beside the ratio of rooflines; `in_sample`: also with all GPUs in the fit."""
    table = tables.product_table(folder, kind)
    if table is None:
        return None
    gpus = list(table.devices)
    if len(gpus) < 2:
        return None
    names = ["all rows"] + ([f"rows of at least {LONG_US:.0f} us on every GPU"] if kind == "half" else [])
    ours: dict[str, dict] = {name: {} for name in names}
    plain: dict[str, dict] = {name: {} for name in names}
    fitted: dict[str, dict] = {name: {} for name in names}
    for o, t in itertools.permutations(gpus, 2):
        rows = table.rows.dropna(subset=[o, t])
        if rows.empty:
            continue
        moved = move_products(figures, table, kind, rows, o, t, t)
        known = move_products(figures, table, kind, rows, o, t, NOBODY) if in_sample else None
        roof = {g: roofline_us(rows, table.element_bytes, table.devices[g], kind) for g in (o, t)}
        truth = rows[t].values
        long = rows[gpus].min(axis=1).values >= LONG_US
        for name, mask in zip(names, (np.ones(len(rows), bool), long)):
            if mask.any():
                ours[name][(o, t)] = np.abs(moved[mask] / truth[mask] - 1)
                if known is not None:
                    fitted[name][(o, t)] = np.abs(known[mask] / truth[mask] - 1)
                plain[name][(o, t)] = np.abs((rows[o].values * roof[t] / roof[o])[mask] / truth[mask] - 1)
    return {name: {"ours": summary(ours[name]), "roofline ratio": summary(plain[name])}
            | ({"in sample": summary(fitted[name])} if in_sample else {}) for name in names if ours[name]} or None


LAYER = re.compile(r"\b(?:h|layer|layers|block|blocks)\.0\b")


def shapes_of(text):
    return [tuple(int(x) for x in re.findall(r"\d+", s)) for s in re.findall(r"\[([\d, ]+)\]", str(text))]


def operations(path, layers):
    """(name, kind, sizes, forward us, backward us, times it runs) of one model's listing."""
    d = pd.read_csv(path)
    inside = d.apply(lambda r: bool(LAYER.search(f"{r.target} {r.meta}")), axis=1).to_numpy(copy=True)
    if inside.any():
        first, last = np.flatnonzero(inside)[[0, -1]]
        inside[first : last + 1] = True
    result = []
    for row, within in zip(d.itertuples(), inside):
        forward = 1e3 * float(row.fw_latency)
        backward = 1e3 * (float(row.bw_latency) + float(row.acc_latency))
        if forward + backward <= 0:
            continue
        shapes, out = shapes_of(row.input_shapes), tuple(int(x) for x in re.findall(r"\d+", str(row.output_shape)))
        target = str(row.target)
        kind, sizes = "same_kernel", 4.0 * (sum(np.prod(s) for s in shapes) + (np.prod(out) if out else 0))
        if "addmm" in target and len(shapes) >= 3:
            kind, sizes = "fp32", (1, shapes[1][0], shapes[2][1], shapes[1][1])
        elif "matmul" in target or "bmm" in target:
            if len(shapes) >= 2 and len(shapes[0]) >= 3:
                kind, sizes = "fp32-batched", (int(np.prod(shapes[0][:-2])), shapes[0][-2], shapes[1][-1], shapes[0][-1])
        elif row.op == "call_module" and shapes and out and len(out) >= 2 and is_linear(target, shapes, out):
            kind, sizes = "fp32", (1, int(np.prod(out[:-1])), out[-1], shapes[0][-1])
        result.append((str(row.Name), kind, sizes, forward, backward, layers if within else 1))
    return result


def is_linear(target, shapes, out):
    words = ("dense", "query", "key", "value", "decoder", "lm_head", "fc1", "fc2", "proj", "c_attn", "c_fc", "seq_relationship", "Linear")
    return any(target.endswith(w) for w in words) and len(shapes[0]) == len(out)


def move_model(figures, ops, o, t, without):
    """Sum of operations on t, from the measured ones on o: what foretrace does with the kernels of a step."""
    same_kernel_lines, same_kernel_times, product_rows = [], [], []
    bandwidth = model.Device(o).streaming
    kept = 0.0
    for _, kind, sizes, forward, backward, times in ops:
        if kind == "same_kernel":
            for us in (forward, backward):
                # Views and shapes: no kernel moved so many bytes in so little time; the host's time stays.
                if us > 0 and sizes / (bandwidth * 1e3) > us / NO_KERNEL:
                    kept += us * times
                elif us > 0:
                    same_kernel_lines.append(f"same_kernel {o} {t} {sizes} 0 0 {us}")
                    same_kernel_times.append(times)
            continue
        b, m, n, k = sizes
        product_rows.append((kind, f"{b} {m} {n} {k}", forward, times))
        if backward > 0:  # of the input and of the weights
            product_rows += [(kind, f"{b} {mm} {nn} {kk}", backward / 2, times) for mm, nn, kk in ((m, k, n), (k, n, m))]
    total = kept + float(np.dot(figures.ask(same_kernel_lines)[:, 0], same_kernel_times))
    if not product_rows:
        return total
    lines = [f"product {kind} {o} {t} {size} 4 {us}" for kind, size, us, _ in product_rows]
    here = figures.ask(lines, without)[:, 0]
    us = np.array([r[2] for r in product_rows])
    weight = np.array([r[2] * r[3] for r in product_rows])
    kinds = np.array([r[0] for r in product_rows])
    common = [f"common {k} {np.average(np.log(us / here)[kinds == k], weights=weight[kinds == k])}" for k in sorted(set(kinds))]
    moved = figures.ask(common + lines, without)[:, 2]
    return total + float(np.dot(moved, [r[3] for r in product_rows]))


def models(folder, figures):
    """Whole models: the origin's measured end to end times predicted over measured operations."""
    path = folder / "neusight-e2e" / "measured_e2e.csv"
    if not path.exists():
        return None
    measured = pd.read_csv(path)
    cases: dict = {}
    listings: dict = {}
    for row in measured.itertuples():
        option = "" if pd.isna(row.option) else str(row.option)
        if option:
            continue  # fused variants have no listing of their own
        listing = folder / "neusight-e2e" / "ops" / row.device / f"{row.model}-{row.mode}-{row.seqlen}-{row.batch}.csv.gz"
        gpu = tables.device_of(row.device)
        if gpu is None:
            tables.unknown.add(row.device)
        case = (row.model, row.mode, int(row.seqlen), int(row.batch))
        if gpu:
            cases.setdefault(case, {})[gpu] = (float(row.e2e_ms), int(row.num_layer), listing)
    rows = []
    for case, by_gpu in cases.items():
        for o, t in itertools.permutations(by_gpu, 2):
            e2e, layers, listing = by_gpu[o]
            if not listing.exists():
                continue
            if listing not in listings:
                listings[listing] = operations(listing, layers)
            ops = listings[listing]
            total = sum((f + b) * n for _, _, _, f, b, n in ops)
            # The A100 of 40 and 80 GB are one chip: whichever is the target, neither was fitted to.
            without = "A100-PCIe-40GB" if t.startswith("A100") else t
            predicted = e2e * move_model(figures, ops, o, t, without) / total
            truth = by_gpu[t][0]
            # What the rule itself can reach: the target's own measured operations in place of predicted ones.
            there = by_gpu[t][2]
            perfect = None
            if there.exists():
                if there not in listings:
                    listings[there] = operations(there, layers)
                perfect = percent(e2e * sum((f + b) * n for _, _, _, f, b, n in listings[there]) / total / truth - 1)
            rows.append({"model": case[0], "mode": case[1], "seqlen": case[2], "batch": case[3], "from": o, "to": t,
                         "measured_ms": truth, "predicted_ms": round(predicted, 2), "error_pct": percent(predicted / truth - 1), "with_measured_operations_pct": perfect})
    if not rows:
        return None
    errors = np.array([abs(r["error_pct"]) for r in rows])
    rule = [abs(r["with_measured_operations_pct"]) for r in rows if r["with_measured_operations_pct"] is not None]
    by_target = {t: percent(np.mean([abs(r["error_pct"]) for r in rows if r["to"] == t]) / 100) for t in sorted({r["to"] for r in rows})}
    by_mode = {m: percent(np.mean([abs(r["error_pct"]) for r in rows if r["mode"] == m]) / 100) for m in sorted({r["mode"] for r in rows})}
    return {"cases": len(rows), "mean_pct": percent(errors.mean() / 100), "median_pct": percent(np.median(errors) / 100),
            "max_pct": percent(errors.max() / 100), "by_target": by_target, "by_mode": by_mode, "with_measured_operations_mean_pct": percent(np.mean(rule) / 100) if rule else None, "neusight_published_pct": NEUSIGHT, "rows": rows}


def judged(result):
    """[(limit, figure, allowed, met)]"""
    found = []

    def add(name, value):
        found.append({"limit": name, "aim_pct": LIMITS[name], "found_pct": value, "met": value <= LIMITS[name],
                      "fell_behind": value > REACHED[name]})

    if result["same_kernel"]:
        add("same_kernel median", result["same_kernel"]["ours"]["median_pct"])
        add("same_kernel mean", result["same_kernel"]["ours"]["mean_pct"])
        add("same_kernel mean, origin's host", result["same_kernel"]["ours, host floor of the origin kept"]["mean_pct"])
    if result["half"]:
        long = list(result["half"].values())[-1]["ours"]
        every = result["half"]["all rows"]["ours"]
        add("bf16 mean", every["mean_pct"])
        add("bf16 worst pair", every["worst_pair_pct"])
        add("bf16 mean, from 10 us", long["mean_pct"])
        add("bf16 worst, from 10 us", long["worst_pair_pct"])
    fp32 = [result[k]["all rows"]["ours"]["mean_pct"] for k in ("fp32", "fp32-batched", "conv") if result[k]]
    if fp32:
        add("fp32 mean", round(float(np.mean(fp32)), 2))
    if result["models"]:
        add("models mean", result["models"]["mean_pct"])
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, nargs="?")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--gate", action="store_true")
    parser.add_argument("--in-sample", action="store_true", help="also with the target's own measurements in the fit")
    parser.add_argument("--update-docs", action="store_true", help="write the tables into docs/gpus.md and docs/accuracy.md")
    parser.add_argument("--program", type=pathlib.Path, default=HERE.parent / "build" / "tests" / "gpu_figures")
    args = parser.parse_args()
    if args.folder is None:
        if not os.environ.get("FORETRACE_PUBLIC"):
            print("left out: no folder given, and FORETRACE_PUBLIC is not set", file=sys.stderr)
            sys.exit(77)
        args.folder = pathlib.Path(os.environ["FORETRACE_PUBLIC"])
    if not args.program.exists():
        sys.exit(f"{args.program} is not built: cmake --build build --target gpu_figures")
    figures = Figures(args.program)
    result = {"schema": 1, "folder": args.folder.name, "same_kernel": same_kernel(args.folder, figures)}
    for kind in TITLES:
        result[kind] = products(args.folder, figures, kind, args.in_sample or args.update_docs)
    result["models"] = models(args.folder, figures)
    result["unknown_gpus"] = sorted(tables.unknown)
    result["limits"] = judged(result)
    if args.json:
        print(json.dumps(result, indent=1))
    else:
        show(result)
    if args.update_docs:
        update_docs(result)
    sys.exit(1 if args.gate and any(j["fell_behind"] for j in result["limits"]) else 0)


if __name__ == "__main__":
    main()
