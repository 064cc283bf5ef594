"""Whole models of tools/gpu_accuracy.py: the origin's measured end to end times what its operations become on the target.

Every operation of a listing was timed alone, and its time holds what the host adds: as much as operations without a kernel take (7 us on an H100,
12 on a P100). A step hides that, and a trace has it apart from the kernel; so it comes off. Without it the operations add up to the model: 0.98 to
1.03 of it on the H100, 1.00 on the P100.

Next to ours are the ratio of rooflines and Habitat's wave scaling (Eq. 2, all operations alike) on the same operations, and the rule
itself with the target's own measured operations in place of predicted ones.
"""

import itertools
import re

import numpy as np
import pandas as pd
import published
import transfer_tables as tables
from devices import Device

NO_KERNEL = 0.25  # of the time its operands would need: an operation this fast moved nothing
LAYER = re.compile(r"\b(?:h|layer|layers|block|blocks)\.0\b")
LINEAR = ("dense", "query", "key", "value", "decoder", "lm_head", "fc1", "fc2", "proj", "c_attn", "c_fc", "seq_relationship", "Linear")


def shapes_of(text):
    return [tuple(int(x) for x in re.findall(r"\d+", s)) for s in re.findall(r"\[([\d, ]+)\]", str(text))]


def is_linear(target, shapes, out):
    return any(target.endswith(w) for w in LINEAR) and len(shapes[0]) == len(out)


def operations(path, layers):
    """(kind, sizes, forward us, backward us, times it runs) of one model's listing."""
    d = pd.read_csv(path)
    inside = np.array([bool(LAYER.search(f"{t} {m}")) for t, m in zip(d.target, d.meta)])
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
        result.append((kind, sizes, forward, backward, layers if within else 1))
    return result


def without_kernel(kind, sizes, us, bandwidth):
    """Views and shapes: no kernel moved so many bytes in so little time."""
    return kind == "same_kernel" and sizes / (bandwidth * 1e3) > us / NO_KERNEL


def kernels(ops, o):
    """The operations with what their kernels took."""
    bandwidth = Device(o).streaming
    idle = [us for kind, sizes, forward, backward, _ in ops for us in (forward, backward) if us > 0 and without_kernel(kind, sizes, us, bandwidth)]
    host = float(np.median(idle)) if idle else 0.0

    def kernel(kind, sizes, us):
        return 0.0 if us <= 0 or without_kernel(kind, sizes, us, bandwidth) else max(us - host, 0.0)

    return [(kind, sizes, kernel(kind, sizes, forward), kernel(kind, sizes, backward), times) for kind, sizes, forward, backward, times in ops]


def pieces(ops):
    """(element-wise: bytes, us, times), (products: kind, (b, m, n, k), us, times)."""
    same, products = [], []
    for kind, sizes, forward, backward, times in ops:
        if kind == "same_kernel":
            same += [(sizes, us, times) for us in (forward, backward) if us > 0]
            continue
        b, m, n, k = sizes
        if forward > 0:
            products.append((kind, sizes, forward, times))
        if backward > 0:  # of the input and of the weights
            products += [(kind, s, backward / 2, times) for s in ((b, m, k, n), (b, k, n, m))]
    return same, products


def ours(figures, ops, o, t, without):
    """Sum of operations on t, from the measured ones on o: what foretrace does with the kernels of a step."""
    same, products = pieces(ops)
    total = 0.0
    if same:
        moved = figures.ask([f"same_kernel {o} {t} {size} 0 0 {us}" for size, us, _ in same])[:, 0]
        total += float(np.dot(moved, [n for _, _, n in same]))
    if not products:
        return total
    lines = [f"product {kind} {o} {t} {b} {m} {n} {k} 4 {us}" for kind, (b, m, n, k), us, _ in products]
    here = figures.ask(lines, without)[:, 0]
    us = np.array([p[2] for p in products])
    weight = np.array([p[2] * p[3] for p in products])
    kinds = np.array([p[0] for p in products])
    common = [f"common {k} {np.average(np.log(us / here)[kinds == k], weights=weight[kinds == k])}" for k in sorted(set(kinds))]
    moved = figures.ask(common + lines, without)[:, 2]
    return total + float(np.dot(moved, [p[3] for p in products]))


def others(ops, o, t, known):
    """The same sum by the ratio of rooflines and by Habitat's wave scaling."""
    same, products = pieces(ops)
    do, dt = Device(o), Device(t)
    ho, ht = published.habitat_figures(do, known), published.habitat_figures(dt, known)
    roofline = scaled = 0.0
    for _, us, times in same:
        roofline += us * times * do.bandwidth / dt.bandwidth
        scaled += times * float(published.equation_2(us, 0, 256, 1.0, ho, ht))
    for _, (b, m, n, k), us, times in products:
        flop, size = 2.0 * b * m * n * k, 4.0 * b * (m * n + m * k + k * n)

        def bound(d, flop=flop, size=size):
            return max(flop / (d.tflops["fp32"] * 1e6), size / (d.bandwidth * 1e3))

        roofline += us * times * bound(dt) / bound(do)
        scaled += times * float(published.equation_2(us, 0, 256, float(published.gamma(np.array(flop / size), ht)), ho, ht))
    return roofline, scaled


def read_cases(folder):
    """{(model, mode, seqlen, batch): {gpu: (end to end ms, layers, listing)}}"""
    cases: dict = {}
    for path in sorted((folder / "neusight-e2e").glob("measured_e2e*.csv")):
        for row in pd.read_csv(path).itertuples():
            if not pd.isna(row.option) and str(row.option):
                continue  # fused and parallel variants have no listing of their own
            gpu = tables.device_of(row.device)
            if gpu is None:
                tables.unknown.add(row.device)
                continue
            listing = folder / "neusight-e2e" / "ops" / row.device / f"{row.model}-{row.mode}-{row.seqlen}-{row.batch}.csv.gz"
            cases.setdefault((row.model, row.mode, int(row.seqlen), int(row.batch)), {})[gpu] = (float(row.e2e_ms), int(row.num_layer), listing)
    return cases


def left_out_of(t):
    """Files of parameters without this GPU, and without its generation. The A100 of 40 and 80 GB are one chip: whichever is the
    target, neither was fitted to."""
    return "A100-PCIe-40GB" if t.startswith("A100") else t, f"generation-{Device(t).generation}"


def models(folder, figures):
    known = published.habitat_devices(folder)
    listings: dict = {}

    def read(gpu, layers, listing):
        if listing not in listings:
            listings[listing] = kernels(operations(listing, layers), gpu) if listing.exists() else None
        return listings[listing]

    rows = []
    for case, by_gpu in read_cases(folder).items():
        for o, t in itertools.permutations(by_gpu, 2):
            e2e, layers, listing = by_gpu[o]
            ops = read(o, layers, listing)
            if ops is None:
                continue
            total = sum((f + b) * n for _, _, f, b, n in ops)
            truth = by_gpu[t][0]
            there = read(t, layers, by_gpu[t][2])
            gpu, generation = left_out_of(t)
            roofline, scaled = others(ops, o, t, known)
            sums = {"error_pct": ours(figures, ops, o, t, gpu), "generation_left_out_pct": ours(figures, ops, o, t, generation),
                    "roofline_pct": roofline, "habitat_pct": scaled,
                    "with_measured_operations_pct": sum((f + b) * n for _, _, f, b, n in there) if there else None}  # fmt: skip
            rows.append({"model": case[0], "mode": case[1], "seqlen": case[2], "batch": case[3], "from": o, "to": t, "measured_ms": truth,
                         "predicted_ms": round(e2e * sums["error_pct"] / total, 2)}
                        | {k: None if v is None else round(100 * (e2e * v / total / truth - 1), 2) for k, v in sums.items()})  # fmt: skip
    if not rows:
        return None

    def mean(key, keep=lambda r: True):
        found = [abs(r[key]) for r in rows if r[key] is not None and keep(r)]
        return round(float(np.mean(found)), 2) if found else None

    errors = np.array([abs(r["error_pct"]) for r in rows])
    return {"cases": len(rows), "mean_pct": mean("error_pct"), "median_pct": round(float(np.median(errors)), 2), "max_pct": round(float(errors.max()), 2),
            "generation_left_out_mean_pct": mean("generation_left_out_pct"), "roofline_mean_pct": mean("roofline_pct"), "habitat_mean_pct": mean("habitat_pct"),
            "by_origin": {o: mean("error_pct", lambda r, o=o: r["from"] == o) for o in sorted({r["from"] for r in rows})},
            "by_target": {t: mean("error_pct", lambda r, t=t: r["to"] == t) for t in sorted({r["to"] for r in rows})},
            "by_mode": {m: mean("error_pct", lambda r, m=m: r["mode"] == m) for m in sorted({r["mode"] for r in rows})},
            "with_measured_operations_mean_pct": mean("with_measured_operations_pct"), "next_to_neusight": published.compare_with_neusight(rows), "rows": rows}  # fmt: skip
