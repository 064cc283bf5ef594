#!/usr/bin/env python3
"""Laws of architectures that no table of ours holds, from what others published: src/hardware/transfer/published.csv, src/hardware/laws/amd.csv.

    tools/fit_published.py [--check] [--program build/tests/gpu_figures]

- `half`, `amd`: products in half precision of AMD's libraries (hipBLASLt, rocBLAS), one set for CDNA to CDNA 4, fitted to data/published/products.csv and
  kernels.csv, in which every GPU counts alike. It starts from the parameters of all GPUs (products.csv); those named in HALF are searched one after the other.
- `fp32`, `6.1`: Pascal's cards. The only table is that of a P4, whose parameters stand in its own file: with 2 MB of L2 and 192 GB/s its products lose most of their
  time to operands that were lost from L2. Others reach nine tenths of their peak (torch-test-60), which decides `traffic`.
- `half`, `8.6`: libraries run the kernels that were made for the A100 there.
- Attention: AOTriton forward and Composable Kernel backward on an MI300X, rates and softmax alone; all else as on NVIDIA's.

`spread_known` and `spread_new` are how far the rows are off, with every GPU left out in turn for `half`. Run tools/fit_boards.py before and after: it says what the power limit leaves.
"""

import collections
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile

import fitted
from devices import HARDWARE
from truth import ROOT, csv_rows

PRODUCTS = HARDWARE / "transfer" / "products.csv"
HEAD = "kind,architecture,parameter,value"
HALF = {
    "start": (1.0, 1.5),
    "share": (0.6, 1.0),
    "traffic": (1.0, 40.0),
    "start_k": (1.0, 250.0),
    "fill": (100.0, 6000.0),
    "memory": (0.3, 1.0),
    "blend": (1.0, 6.0),
}
ATTENTION = {"start": (2.0, 6.0), "share": (0.1, 1.0), "soft": (0.005, 1.0)}
STEPS = (1.6, 1.25, 1.1, 1.04)
PASSES = 3
DROPPED = ("energy", "shrink", "burst", "host")
SIZES = (1024, 2048, 4096, 8192, 10240)
# Shorter rows of benchmarks that time from the host hold its launches: 15 to 20 us on ROCm. Profilers' rows do not.
HOST_US = 60.0
PROFILED = ("aiter-tuning", "aiter-mi355x")


def kernel_products():
    """[(device, m, n, k, us)] of kernels.csv, in half precision."""
    found = []
    for row in csv_rows(ROOT / "data" / "published" / "kernels.csv"):
        if row["kind"] == "product" and row["precision"] in ("fp16", "bf16"):
            m, n, k = map(int, row["shape"].split("x"))
            us = float(row["value"]) if row["unit"] == "us" else 2.0 * m * n * k / float(row["value"]) / 1e6
            if us > HOST_US or row["source"] in PROFILED:
                found.append((row["device"], m, n, k, us))
    return found


def product_rows():
    """The same, with AMD's square products in half precision."""
    found = []
    for row in csv_rows(ROOT / "data" / "published" / "products.csv"):
        if row["device"].startswith("MI") and row["precision"] in ("fp16", "bf16"):
            times = [(n, 2.0 * n**3 / float(row[f"n{n}"]) / 1e6) for n in SIZES if row[f"n{n}"]]
            found += [(row["device"], n, n, n, us) for n, us in times if us > HOST_US]
    return found + kernel_products()


def attention_rows(backward):
    """[(device, batch, heads, length, size, causal, us)]"""
    found = []
    for row in csv_rows(ROOT / "data" / "published" / "kernels.csv"):
        if row["kind"].startswith("attention") and ("backward" in row["kind"]) == backward:
            batch, heads, length, size = map(int, row["shape"].split("x"))
            causal, value = "causal" in row["kind"], float(row["value"])
            flop = (10 if backward else 4) * batch * heads * length * length * size / (2 if causal else 1)
            found.append((row["device"], batch, heads, length, size, causal, value * 1e3 if row["unit"] == "ms" else flop / value / 1e6))
    return found


def raw(program, lines, weights=None, laws=None):
    """Lines of the program's answer."""
    command = [str(program)]
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (("weights", weights), ("laws", laws)):
            if text or (name == "weights" and laws):
                (pathlib.Path(folder) / name).write_text(text or "")
                command.append(str(pathlib.Path(folder) / name) if text else "-")
        done = subprocess.run(command, input="\n".join(lines) + "\n", capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def ask(program, lines, weights=None, laws=None):
    return [float(line.split()[0]) for line in raw(program, lines, weights, laws)]


def set_of(kind, arch):
    found = {}
    for line in PRODUCTS.read_text().splitlines()[1:]:
        k, a, name, value = line.split(",")
        if (k, a) == (kind, arch) and name not in DROPPED:
            found[name] = value if name == "tiles" else float(value)
    return found


def text_of(kind, arch, p):
    return "".join(f"{kind},{arch},{name},{value if name == 'tiles' else f'{value:.4g}'}\n" for name, value in p.items())


def loss(predicted, rows):
    by_device = collections.defaultdict(list)
    for us, row in zip(predicted, rows):
        by_device[row[0]].append(math.sqrt(1 + (math.log(us / row[-1]) / 0.1) ** 2) - 1)
    return statistics.mean(statistics.mean(some) for some in by_device.values())


def search(p, bounds, cost):
    best = cost(p)
    for _ in range(PASSES):
        for step in STEPS:
            for name, (low, high) in bounds.items():
                for factor in (step, 1 / step):
                    trial = p | {name: min(high, max(low, p[name] * factor))}
                    if trial[name] != p[name] and (now := cost(trial)) < best - 1e-4:
                        p, best = trial, now
    return p


def half_times(program, p, rows):
    return ask(
        program, [f"product fp16 {d} {d} 1 {m} {n} {k} 2 0" for d, m, n, k, _ in rows], PRODUCTS.read_text() + text_of("half", "amd", p)
    )


def half_fit(program, rows):
    return search(set_of("half", "any"), HALF, lambda p: loss(half_times(program, p, rows), rows))


def half_errors(program, p, rows):
    return [math.log(us / row[-1]) for us, row in zip(half_times(program, p, rows), rows)]


def half_left_out(program):
    """{GPU: log errors of its rows}, fitted without them."""
    rows = product_rows()
    return {left: half_errors(program, half_fit(program, [r for r in rows if r[0] != left]), [r for r in rows if r[0] == left])
            for left in sorted({r[0] for r in rows})}  # fmt: skip


def half(program):
    rows = product_rows()
    p = half_fit(program, rows)
    known, off = half_errors(program, p, rows), [x for some in half_left_out(program).values() for x in some]
    return p | {
        "spread_known": math.sqrt(statistics.mean(x * x for x in known)),
        "spread_new": math.sqrt(statistics.mean(x * x for x in off)),
    }


def pascal(program):
    rows = [(r["device"], n, n, n, 2.0 * n**3 / float(r[f"n{n}"]) / 1e6) for r in csv_rows(ROOT / "data" / "published" / "products.csv")
            if r["device"] == "GTX-1080-Ti" for n in SIZES[2:]]  # fmt: skip
    shipped = PRODUCTS.read_text()

    def cost(p):
        return loss(
            ask(program, [f"product fp32 {d} {d} 1 {m} {n} {k} 4 0" for d, m, n, k, _ in rows], shipped + text_of("fp32", "6.1", p)), rows
        )

    return search(set_of("fp32", "6.1"), {"traffic": (0.5, 60.0)}, cost)


def laws_text(kind, p):
    return "".join(f"attention,{kind},amd,{name},{value:.4g}\n" for name, value in p.items())


def attention(program, kind, backward):
    path = HARDWARE / "laws" / ("H200-SXM.csv" if backward else "attention.csv")
    lines = [line.split(",") for line in path.read_text().splitlines() if line.startswith(f"attention,{kind},")]
    start = {name: float(value) for _, _, _, name, value in lines}
    rows = attention_rows(backward)
    asked = [f"attention_law {d} {b} {h} {s} {z} {int(c)} {int(backward)}" for d, b, h, s, z, c, _ in rows]

    def cost(p):
        return loss(ask(program, asked, laws="law,kind,architecture,parameter,value\n" + laws_text(kind, p)), rows)

    p = search(start, ATTENTION, cost)
    off = [
        math.log(us / r[-1])
        for us, r in zip(ask(program, asked, laws="law,kind,architecture,parameter,value\n" + laws_text(kind, p)), rows)
    ]
    print(f"{kind}: {len(rows)} rows, {100 * statistics.mean(abs(math.exp(x) - 1) for x in off):.1f} % mean", file=sys.stderr)
    return laws_text(kind, p)


def files(options):
    program = options.program
    products = half(program)
    print(f"half, amd: spread {products['spread_known']:.2f}, GPU left out {products['spread_new']:.2f}", file=sys.stderr)
    text = (
        f"# made by tools/fit_published.py, which says of what\n{HEAD}\n"
        + text_of("fp32", "6.1", pascal(program))
        + text_of("half", "8.6", set_of("half", "8.0"))
    )
    text += text_of("half", "amd", products)
    laws = "law,kind,architecture,parameter,value\n# made by tools/fit_published.py, which says of what\n"
    laws += attention(program, "fwd half", False) + attention(program, "bwd half", True)
    return {HARDWARE / "transfer" / "published.csv": text, HARDWARE / "laws" / "amd.csv": laws}


if __name__ == "__main__":
    sys.exit(fitted.main(__doc__, files, ROOT / "build" / "tests" / "gpu_figures"))
