#!/usr/bin/env python3
"""Kernels that others published, against the laws: products and attention, GPU by GPU.

    tools/published_kernels.py [--rows] [--left-out] [--gate] [--program build/tests/gpu_figures]

Rows of data/published/products.csv (square products; sizes from 4096 on, below which their timing holds the host) and kernels.csv. A product is carried from an
H100's law (transfer.hpp), with the band that comes with it; attention is the law's own time, its band that of kernels of another maker. AMD's GPUs are shown one
by one. Parameters in half precision and of attention were fitted to these rows (tools/fit_published.py): --left-out shows how far products of each GPU are off when the
set is fitted without it (a minute).
"""

import collections
import math
import statistics
import sys

import fit_published
import gates
from accuracy_tables import aligned, write_between
from devices import HARDWARE
from truth import ROOT, csv_rows

DOCS = ROOT / "docs" / "internals" / "gpus.md"
LIMITS = ROOT / "tools" / "published_limits.json"
BAND = 1.2816
SIZES = (4096, 8192, 10240)
ORIGIN = "H100-SXM5"
AIM_PCT, AIM_INSIDE = 20.0, 70.0


def unmeasured():
    return next(
        float(line.split(",")[1])
        for line in (HARDWARE / "spreads" / "transfer.csv").read_text().splitlines()
        if line.startswith("unmeasured")
    )


def rows(program):
    """[(device, what, log of predicted over measured, sigma)]"""
    lines, found = [], []
    for row in csv_rows(ROOT / "data" / "published" / "products.csv"):
        kind, size = {"fp32": ("fp32", 4), "tf32": ("tf32", 4), "fp16": ("fp16", 2), "bf16": ("half", 2)}[row["precision"]]
        for n in SIZES:
            if row[f"n{n}"]:
                lines.append(f"product {kind} {ORIGIN} {row['device']} 1 {n} {n} {n} {size} 0")
                found.append((row["device"], "half" if size == 2 else row["precision"], 2.0 * n**3 / float(row[f"n{n}"]) / 1e6))
    for device, m, n, k, us in fit_published.kernel_products():
        lines.append(f"product fp16 {ORIGIN} {device} 1 {m} {n} {k} 2 0")
        found.append((device, "half", us))
    answers = [line.split() for line in fit_published.raw(program, lines)]
    result = [(device, what, math.log(float(a[2]) / us), float(a[3])) for (device, what, us), a in zip(found, answers)]
    for backward in (False, True):
        some = fit_published.attention_rows(backward)
        asked = [f"attention_law {d} {b} {h} {s} {z} {int(c)} {int(backward)}" for d, b, h, s, z, c, _ in some]
        for us, row in zip(fit_published.ask(program, asked), some):
            result.append((row[0], "attention " + ("backward" if backward else "forward"), math.log(us / row[-1]), unmeasured()))
    return result


def figures(found):
    return {"rows": len(found), "mean_pct": 100 * statistics.mean(abs(math.expm1(x)) for _, _, x, _ in found),
            "bias_pct": 100 * statistics.mean(math.expm1(x) for _, _, x, _ in found),
            "inside_pct": 100 * statistics.mean(abs(x) <= BAND * sigma for _, _, x, sigma in found)}  # fmt: skip


def main():
    parser = gates.parser(__doc__, ROOT / "build" / "tests" / "gpu_figures")
    parser.add_argument("--rows", action="store_true", help="every GPU and kind")
    parser.add_argument("--update-docs", action="store_true", help="write the table of docs/internals/gpus.md")
    parser.add_argument("--left-out", action="store_true", help="products of AMD's GPUs, fitted without each")
    args = parser.parse_args()
    found = rows(args.program)
    amd = [r for r in found if r[0].startswith("MI")]
    tables = {f"AMD, {d}": [r for r in amd if r[0] == d] for d in sorted({r[0] for r in amd})}
    tables |= {"AMD, MI300X and MI250X": [r for r in amd if r[0] in ("MI300X", "MI250X")], "AMD, all": amd}
    tables |= {f"NVIDIA, {what}": [r for r in found if r[1] == what and not r[0].startswith("MI")] for what in ("fp32", "tf32", "half")}
    if args.rows:
        by = collections.defaultdict(list)
        for r in found:
            by[f"  {r[0]}, {r[1]}"].append(r)
        tables |= dict(sorted(by.items()))
    shown = {name: figures(some) for name, some in tables.items() if some}
    for name, f in shown.items():
        print(
            f"{name:40} rows {f['rows']:4}  mean {f['mean_pct']:5.1f} %  bias {f['bias_pct']:+6.1f} %  inside the band {f['inside_pct']:5.1f} %"
        )
    left_out = fit_published.half_left_out(args.program) if args.left_out or args.update_docs else {}
    means = {gpu: 100 * statistics.mean(abs(math.expm1(x)) for x in off) for gpu, off in left_out.items()}
    for gpu, off in left_out.items():
        print(f"left out, {gpu:30} rows {len(off):4}  mean {means[gpu]:5.1f} %  bias {100 * statistics.mean(map(math.expm1, off)):+6.1f} %")
    if args.update_docs:
        cells = [[name, str(f["rows"]), f"{f['mean_pct']:.1f}", f"{f['bias_pct']:+.1f}", f"{f['inside_pct']:.0f}",
                  f"{means[gpu]:.1f}" if (gpu := name.removeprefix("AMD, ")) in means else "-"]
                 for name, f in shown.items() if not name.startswith("  ")]  # fmt: skip
        head = ["kernels", "rows", "mean %", "bias %", "inside the band of 80 %, %", "left out, mean %"]
        write_between(DOCS, "published-kernels", "\n".join(aligned(head, cells)))
    now = {f"kernels: {name}, mean %": shown[name]["mean_pct"] for name in ("AMD, MI300X and MI250X", "AMD, all")}
    if args.update_limits:
        gates.save(LIMITS, gates.load(LIMITS) | {name: round(value, 1) for name, value in now.items()})
    return gates.verdict(gates.over("published", now, gates.load(LIMITS), 0.3), args.gate)


if __name__ == "__main__":
    sys.exit(main())
