#!/usr/bin/env python3
"""Fits the law of matrix products (tools/transfer_model.py) to those measured here: src/hardware/transfer/<device>.csv.

    tools/fit_products.py             writes the parameters of the device's architecture, from data/h200-kernels and data/h200-operations
    tools/fit_products.py --check     nothing is written; fails where the file is not what the data say

Half precision, TF32, FP32 and FP32 in batches, each over the products whose rows a 16-byte access fits, of at least two rows, columns and
steps; what alignment and the order of operands do beside it, the neighbours tell (tools/fit_kernels.py). The search goes along one parameter
after the other from where the tables of other GPUs end (transfer/products.csv), on three digits, so that it ends in the same place anywhere.
Beside each set stands its error over all rows, and over rows left out: shapes are split in two halves, each told by a fit to the other.
"""

import argparse
import sys
import zlib

import fit_kernels
import fitted
import numpy as np
import train_transfer
import transfer_carried
import transfer_model as model

DEVICE = "H200-SXM"
TABLE = model.FOLDER / "transfer" / f"{DEVICE}.csv"
# Kind of the law, whose parameters it starts from, bytes of an element.
KINDS = {"half": ("half", 2), "tf32": ("half", 4), "fp32": ("fp32", 4), "fp32-batched": ("fp32-batched", 4)}
TYPES = {"fp16": "half", "bf16": "half", "tf32": "tf32", "fp32": "fp32"}
LIES = ("nt", "nn", "tn")
FIXED = ("shrink", "host", "burst", "carry_other", "energy", *transfer_carried.NAMES)
ROUNDS = (1.6, 1.6, 1.25, 1.25, 1.1, 1.04)
ROWS = 500  # of a kind, for the search
BOUNDS = model.BOUNDS | {"start": (1.5, 0.5, 8.0)}


def alignment(m, n, k, lie):
    """As work::Gemm::alignment has it."""
    power, sides = 1, (m if lie[0] == "t" else k, k if lie[1] == "t" else n, n)
    while power < 16 and all(side % (2 * power) == 0 for side in sides):
        power *= 2
    return power


def rows_by_kind():
    """{kind: array of batch, m, n, k, us, half of its shape, order of operands}"""
    out: dict[str, list[tuple[float, ...]]] = {kind: [] for kind in KINDS}
    for (b, m, n, k), cells in sorted(fit_kernels.measured()["gemm"].items()):
        fold = zlib.crc32(f"{b},{m},{n},{k}".encode()) % 2
        for column, us in sorted(cells.items()):
            _, dtype, lie = column.split()
            kind = TYPES[dtype]
            if min(m, n, k) < 2 or (kind != "fp32" and alignment(m, n, k, lie) < (8 if kind == "half" else 4)):
                continue
            kind = "fp32-batched" if kind == "fp32" and b > 1 else kind
            out[kind].append((b, m, n, k, float(np.exp(np.mean(np.log(us)))), fold, LIES.index(lie)))
    return {kind: np.array(rows) for kind, rows in out.items()}


class Tf32Device(model.Device):
    """TF32 runs at half the rate, and each multiplication moves twice the bits, as the C++ has it."""

    def __init__(self, name):
        super().__init__(name)
        self.half = model.Device(name)
        self.tflops = self.tflops | {"half": self.tflops["half"] / 2}

    def energy(self, p, kind):
        return 2 * self.half.energy(p, kind)

    def width(self, kind):
        return min(1.0, self.flops_per_clock("half") / (0.9 * 2048))


def device_for(kind):
    return Tf32Device(DEVICE) if kind == "tf32" else model.Device(DEVICE)


def errors(kind, p, rows, device):
    law, size = KINDS[kind]
    us = model.product_us(p, tiles_of(law), rows[:, 0], rows[:, 1], rows[:, 2], rows[:, 3], size, device, law)
    return np.log(us / rows[:, 4])


def shape_errors(kind, p, rows, device):
    """Without what all products of one order of operands have in common beside the first, which the neighbours tell: tensor cores read TF32
    along k only."""
    e = errors(kind, p, rows, device)
    for lie in range(1, len(LIES)):
        if kind == "tf32" and (mine := rows[:, 6] == lie).any():
            e[mine] -= np.median(e[mine])
    return e


def tiles_of(law):
    return train_transfer.tiles_of(law)


def fit(kind, rows, start):
    device = device_for(kind)
    rows = rows[np.argsort([zlib.crc32(row.tobytes()) for row in rows], kind="stable")[:ROWS]]

    def loss(p):
        return float(np.mean(np.minimum(np.abs(shape_errors(kind, p, rows, device)), 1.0)))

    p, names = dict(start), [n for n in BOUNDS if n not in FIXED]
    for n in names:
        p[n] = float(f"{p[n]:.3g}")
    least = loss(p)
    for step in ROUNDS:
        for name in names:
            for factor in (step, 1 / step):
                value = float(f"{min(max(p[name] * factor, BOUNDS[name][1]), BOUNDS[name][2]):.3g}")
                other = p | {name: value}
                if value != p[name] and (found := loss(other)) < least - 1e-5:
                    p, least = other, found
    return p


def figures(e):
    off = np.sort(np.abs(np.expm1(e)))
    return f"{100 * off[len(off) // 2]:.1f} % median, {100 * off[int(0.9 * len(off))]:.1f} % 90th percentile"


def text():
    shipped = train_transfer.read_weights(model.FOLDER / "transfer" / "products.csv")
    arch = model.Device(DEVICE).arch
    lines = ["kind,architecture,parameter,value"]
    for kind, rows in rows_by_kind().items():
        law = KINDS[kind][0]
        start = {k: v for k, v in shipped[law][arch].items() if k not in ("tiles", "host", "burst")}
        device = device_for(kind)
        left = np.concatenate([shape_errors(kind, fit(kind, rows[rows[:, 5] != f], start), rows[rows[:, 5] == f], device) for f in (0, 1)])
        p = fit(kind, rows, start)
        lines.append(f"# {kind}: {len(rows)} products; {figures(shape_errors(kind, p, rows, device))}; left out {figures(left)}")
        lines.append(f"{kind},{arch},tiles,{train_transfer.TILES[law]}")
        lines += [f"{kind},{arch},{name},{value:.6g}" for name, value in p.items()]
        print(lines[-len(p) - 2], flush=True)
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    return fitted.keep(TABLE, text(), args.check)


if __name__ == "__main__":
    sys.exit(main())
