#!/usr/bin/env python3
"""Fits the law of matrix products to those measured here: src/hardware/transfer/<device>.csv.

    tools/fit_products.py             writes the parameters of the device's architecture, from data/h200-kernels and data/h200-operations
    tools/fit_products.py --check     writes nothing; fails where the file is not what the data say

Half precision, TF32, FP32 and FP32 in batches, each over the products whose rows a 16-byte access fits, of at least two rows, columns and
steps; the residual model handles alignment and the order of operands (tools/fit_kernels.py). The search starts from the parameters of other
GPUs (transfer/products.csv). Each set comes with its error over all rows, and over rows left out: shapes are split in two halves, each
estimated by a fit to the other.
"""

import sys
import zlib

import fit_kernels
import fitted
import laws
import numpy as np
import train_transfer
import transfer_carried
from devices import HARDWARE, Device

DEVICE = "H200-SXM"
TABLE = HARDWARE / "transfer" / f"{DEVICE}.csv"
# Kind of the law, whose parameters it starts from, bytes of an element.
KINDS = {"half": ("half", 2), "tf32": ("half", 4), "fp32": ("fp32", 4), "fp32-batched": ("fp32-batched", 4)}
TYPES = {"fp16": "half", "bf16": "half", "tf32": "tf32", "fp32": "fp32"}
ORDERS = ("nt", "nn", "tn")
FIXED = ("shrink", "host", "burst", "carry_other", "energy", *transfer_carried.NAMES)
ROUNDS = (1.6, 1.6, 1.25, 1.25, 1.1, 1.04)
ROWS = 500  # of a kind, for the search
BOUNDS = {name: bound for name, bound in laws.PRODUCT.items() if name not in FIXED} | {"start": (1.5, 0.5, 8.0)}


def alignment(m, n, k, order):
    """As work::Gemm::alignment has it."""
    power, sides = 1, (m if order[0] == "t" else k, k if order[1] == "t" else n, n)
    while power < 16 and all(side % (2 * power) == 0 for side in sides):
        power *= 2
    return power


def rows_by_kind():
    """{kind: array of batch, m, n, k, us, half of its shape, order of operands}"""
    out: dict[str, list[tuple[float, ...]]] = {kind: [] for kind in KINDS}
    for (b, m, n, k), cells in sorted(fit_kernels.measured()["gemm"].items()):
        fold = zlib.crc32(f"{b},{m},{n},{k}".encode()) % 2
        for column, us in sorted(cells.items()):
            _, dtype, order = column.split()
            kind = TYPES[dtype]
            if min(m, n, k) < 2 or (kind != "fp32" and alignment(m, n, k, order) < (8 if kind == "half" else 4)):
                continue
            kind = "fp32-batched" if kind == "fp32" and b > 1 else kind
            out[kind].append((b, m, n, k, float(np.exp(np.mean(np.log(us)))), fold, ORDERS.index(order)))
    return {kind: np.array(rows) for kind, rows in out.items()}


def errors(kind, p, rows):
    """Without what all products of one order of operands have in common apart from the first, which the residuals hold: tensor cores read TF32
    along k only."""
    law, size = KINDS[kind]
    e = np.log(laws.product_us(p, train_transfer.TILES[law], kind, DEVICE, [*rows.T[:4], size, 0, 1]) / rows[:, 4])
    for order in range(1, len(ORDERS)):
        if kind == "tf32" and (mine := rows[:, 6] == order).any():
            e[mine] -= np.median(e[mine])
    return e


def fit(kind, rows, start):
    rows = rows[np.argsort([zlib.crc32(row.tobytes()) for row in rows], kind="stable")[:ROWS]]
    first = {name: float(f"{value:.3g}") if name in BOUNDS else value for name, value in start.items()}
    return laws.search(lambda p: errors(kind, p, rows), first, BOUNDS, ROUNDS)[0]


def text():
    shipped = train_transfer.read_weights(HARDWARE / "transfer" / "products.csv")
    arch = Device(DEVICE).arch
    lines = ["kind,architecture,parameter,value"]
    for kind, rows in rows_by_kind().items():
        law = KINDS[kind][0]
        start = {k: v for k, v in shipped[law][arch].items() if k not in ("tiles", "host", "burst")}
        left = np.concatenate([errors(kind, fit(kind, rows[rows[:, 5] != f], start), rows[rows[:, 5] == f]) for f in (0, 1)])
        p = fit(kind, rows, start)
        lines.append(f"# {kind}: {len(rows)} products; {laws.figures(errors(kind, p, rows))}; left out {laws.figures(left)}")
        print(lines[-1], flush=True)
        lines.append(f"{kind},{arch},tiles,{train_transfer.TILES[law]}")
        lines += [f"{kind},{arch},{name},{value:.6g}" for name, value in p.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(fitted.main(__doc__, lambda _: {TABLE: text()}))
