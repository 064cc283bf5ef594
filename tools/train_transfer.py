#!/usr/bin/env python3
"""Fits the model that carries matrix products and convolutions from one GPU to another.

    tools/train_transfer.py DIR                     writes src/hardware/transfer/products.csv
    tools/train_transfer.py DIR --without T4 -o F   the same with one GPU left out
    tools/train_transfer.py DIR --each tools/transfer-left-out     one file per GPU left out, one per generation left out
    tools/train_transfer.py DIR --carried           adds to all of them what those left out show of what is carried (transfer_carried.py)

DIR is a folder with `gpu-kernels-fp32*/{linear,bmm,conv}.csv.gz` and `gpu-gemm-bf16*.csv.gz` (docs/internals/gpus.md says where they come
from). Needs numpy, scipy and pandas. Four kinds of product are fitted: half (tensor cores), fp32, fp32-batched, conv. Each gets
parameters for all GPUs together ("any"), in which every GPU counts alike, and parameters for each architecture that was measured, drawn
towards those of all (ARCH_PRIOR): what an architecture's rows do not tell stays what its neighbours say. Parameters minimise the log
error of measured times (soft L1), on a fixed sample, so that the same tables give the same file.

Measured times in these tables hold the host: a row lasts at least as long as the host needs to launch it (`floor`), and a share
of that (`host`) comes on top of the kernel. Their short rows ran on a card that had not been held back yet: the limit of a board's
power is kept on average, and a product timed a few times in a row is over before that counts. A T4 reaches 0.54 of its peak in
products of up to a millisecond and 0.37 to 0.41 in those of 50 and more, in linear and in bmm alike; so such a row may draw BURST times the limit,
and `burst` (ms) is how long a product lasts that is halfway to the limit. All three belong to the tables, not to the model: a step of training
goes on for minutes.
"""

import functools
import itertools
import pathlib

import fitted
import laws
import numpy as np
import transfer_tables as tables
from devices import HARDWARE, Device, default

TILES = {
    "half": "256x128 128x256 128x128 256x64 64x256 128x64 64x128 64x64 64x32 32x64 64x16 16x64",
    "fp32": "128x64 64x128 128x128 64x64 32x128 128x32 64x32 32x64 32x32",
    "fp32-batched": "128x64 64x128 64x64",
    "conv": "128x128 128x64 64x128 64x64 128x32 32x128",
}
# W per TFLOP/s at 12 nm. In FP32 not fitted, since rows that are not held back by their power say nothing about it: a V100 reaches 12.9 TFLOP/s
# of 250 W in long products, 19.4, of which the loading of operands takes a tenth; a P4 3.24 of 75 W in bmm, which is 17.4 by the law of nodes. With
# tensor cores architectures differ (an L40S reaches 1.5 at 5 nm, an H100 0.87), so each has its own, within bounds.
ENERGY = {"fp32": 18.0, "fp32-batched": 18.0}
FITTED_ENERGY = {"half": (3.0, 1.0, 9.0), "conv": (20.0, 10.0, 30.0)}
# How firmly parameters are drawn to where they start (all GPUs: the middle of their bounds; one architecture: those of all GPUs), against
# the rows of one GPU.
ANY_PRIOR, ARCH_PRIOR = 0.3, 1.0
ROWS = 150  # of each GPU
BURST = 1.5  # times the power limit, that short rows of tables timed one by one draw
TRANSFORM = (0.4, 0.05, 3.0)  # of convolutions: traffic of Winograd's transforms, as a share of all they read and write
CARRY = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


def held_back(free_us, limited_us, burst_ms):
    """A row of a table, between a card that may draw BURST times its limit and one that keeps it."""
    lasts = free_us / (1e3 * burst_ms)
    return free_us + (limited_us - free_us) * lasts / (1 + lasts)


def law_times(kind, p, gpu, rows, element_bytes, power=1.0):
    columns = [rows.batch, rows.m, rows.n, rows.k, element_bytes, 0, power]
    if kind == "conv":  # 0 images: not by Winograd's algorithms
        columns += [np.where((rows.kernel == 3) & (rows.stride == 1), rows.images, 0), rows.channels, rows["size"], rows.out_channels, rows.out_size]
    return laws.product_us(p, TILES[kind], kind, gpu, columns)


def table_times(kind, table, p, gpu, rows):
    """The rows of a table by these parameters, host and bursts included."""
    us = law_times(kind, p, gpu, rows, table.element_bytes)
    if "burst" in p:
        us = held_back(law_times(kind, p, gpu, rows, table.element_bytes, BURST), us, p["burst"])
    return np.maximum(table.floors[gpu], p["host"] * table.floors[gpu] + us) if table.has_host else us


class Fit:
    """One kind of product over the GPUs given."""

    def __init__(self, kind, table, gpus):
        self.kind, self.table, self.gpus = kind, table, gpus
        own = ({"transform": TRANSFORM} if kind == "conv" else {}) | ({"energy": FITTED_ENERGY[kind]} if kind in FITTED_ENERGY else {})
        self.fixed = {"energy": ENERGY[kind]} if kind in ENERGY else {}
        if kind in ENERGY:  # one law of energy for all of them
            self.fixed["shrink"] = 1.0
        elif not any(table.devices[g].generation == "6" for g in gpus):  # whose transistors are wider than 12 nm
            self.fixed["shrink"] = default("tensor_power")
        of_tables = {"host": (0.6, 0.05, 1.0)} if table.has_host else {}
        if table.has_host and kind in ENERGY:
            of_tables["burst"] = (1.5, 0.02, 20.0)
        self.bounds = {**laws.PRODUCT, **own, **of_tables}
        self.names = [n for n in self.bounds if n not in self.fixed]
        self.rows = {g: self.sample(g) for g in gpus}

    def sample(self, gpu):
        rows = self.table.rows[self.table.rows[gpu].notna()]
        if self.table.has_host:
            rows = rows[rows[gpu] > 1.08 * self.table.floors[gpu]]  # others are the host's
        return rows.sample(min(len(rows), ROWS), random_state=1)

    def decode(self, z):
        return self.fixed | {n: self.bounds[n][1] + (self.bounds[n][2] - self.bounds[n][1]) / (1 + np.exp(-v)) for n, v in zip(self.names, z)}

    def encode(self, p):
        z = []
        for n in self.names:
            _, low, high = self.bounds[n]
            x = min(max((p.get(n, self.bounds[n][0]) - low) / (high - low), 0.002), 0.998)
            z.append(np.log(x / (1 - x)))
        return np.array(z)

    def times(self, p, gpu, rows):
        return table_times(self.kind, self.table, p, gpu, rows)

    def run(self, gpus, start, prior, steps):
        """Parameters of these GPUs, drawn to `start`. A power limit that holds nothing back has no slope, so that what fits better is
        looked for from twice the energy as well."""
        tries = [self.run_from(gpus, start, start, prior, steps)]
        if self.kind == "half" and start:
            tries.append(self.run_from(gpus, start | {"energy": 2 * start["energy"]}, start, prior, steps))
        return min(tries, key=lambda t: t[1])[0]

    def run_from(self, gpus, first, start, prior, steps):
        from scipy.optimize import least_squares  # reading parameters must not need it

        begin = self.encode(start)

        def residuals(z):
            p = self.decode(z)
            rows = [np.log(self.rows[g][g].values / self.times(p, g, self.rows[g])) * np.sqrt(ROWS / len(self.rows[g])) for g in gpus]
            return np.concatenate([*rows, 0.1 * prior * np.sqrt(len(gpus)) * (z - begin)])

        found = least_squares(residuals, self.encode(first), loss="soft_l1", f_scale=0.1, diff_step=1e-2, max_nfev=steps)
        return self.decode(found.x), found.cost

    def carry(self, p):
        """How much of what the model misses on the origin shows on a target of another architecture too. Judged with the
        parameters of all GPUs, since those of the target's own would know what it misses."""
        errors = np.zeros(len(CARRY))
        for o, t in itertools.permutations(self.gpus, 2):
            rows = self.table.rows.dropna(subset=[o, t])
            if self.table.devices[o].arch == self.table.devices[t].arch or len(rows) < 10:
                continue
            rows = rows.sample(min(len(rows), ROWS), random_state=1)
            missed = np.log(rows[o].values) - np.log(self.times(p, o, rows))
            there = self.times(p, t, rows)
            errors += [np.abs(there * np.exp(c * missed) / rows[t].values - 1).mean() for c in CARRY]
        return CARRY[int(np.argmin(errors))] if errors.any() else 0.3


KINDS = ("half", "fp32", "fp32-batched", "conv")


def train(folder, without, steps=12, log=lambda text: None, known=None):
    """{kind: {arch: parameters}}; `without`: names of devices; `known`: kinds that are there already."""
    result: dict = {}
    for kind in KINDS:
        if known and kind in known:
            result[kind] = known[kind]
            continue
        table = tables.product_table(folder, kind)
        if table is None:
            continue
        gpus = tuple(g for g in table.devices if g not in without)
        result[kind] = train_kind(folder, kind, gpus, steps)
        log(f"{kind}: {len(gpus)} GPUs, carry {result[kind]['any']['carry_other']:.1f}")
    return result


@functools.cache
def train_kind(folder, kind, gpus, steps):
    """{arch: parameters}. Leaving out a GPU that a table does not hold asks for the same fit again."""
    table = tables.product_table(folder, kind)
    fit = Fit(kind, table, list(gpus))
    by_arch = {"any": fit.run(gpus, {}, ANY_PRIOR, steps)}
    for arch in sorted({table.devices[g].arch for g in gpus}):
        by_arch[arch] = fit.run([g for g in gpus if table.devices[g].arch == arch], by_arch["any"], ARCH_PRIOR, steps)
    carry = fit.carry(by_arch["any"])
    for p in by_arch.values():
        p["carry_other"] = carry
    return by_arch


def text_of(result):
    lines = ["kind,architecture,parameter,value"]
    for kind, by_arch in result.items():
        for arch, p in by_arch.items():
            lines.append(f"{kind},{arch},tiles,{TILES[kind]}")
            lines += [f"{kind},{arch},{name},{value:.6g}" for name, value in p.items() if name != "tiles"]
    return "\n".join(lines) + "\n"


def read_weights(path):
    result: dict = {}
    for line in pathlib.Path(path).read_text().splitlines()[1:]:
        kind, arch, name, value = line.split(",")
        result.setdefault(kind, {}).setdefault(arch, {})[name] = value if name == "tiles" else float(value)
    return result


def left_out(folder):
    """{name of a file: GPUs left out}: each GPU, and each generation ("generation-9.0")."""
    gpus = tables.product_gpus(folder)
    sets = {g: {g} for g in gpus}
    for g in gpus:
        sets.setdefault(f"generation-{Device(g).generation}", set()).add(g)
    return sets


def main():
    parser = fitted.parser(__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--without", help="a device to leave out")
    parser.add_argument("--each", type=pathlib.Path, help="write one file per device left out into this folder")
    parser.add_argument("--carried", action="store_true", help="how far the files miss, into the files")
    parser.add_argument("--only", action="append", choices=KINDS, help="fit this kind again; the others stay as they are in the files")
    parser.add_argument("-o", "--output", type=pathlib.Path, default=HARDWARE / "transfer" / "products.csv")
    args = parser.parse_args()
    if args.carried:
        import transfer_carried

        transfer_carried.write(args.folder, args.output)
        return
    if args.each:
        args.each.mkdir(parents=True, exist_ok=True)
        for name, gpus in left_out(args.folder).items():
            file = args.each / f"{name}.csv"
            known = {k: v for k, v in read_weights(file).items() if k not in args.only} if args.only and file.exists() else None
            file.write_text(text_of(train(args.folder, gpus, known=known)))
            print(f"without {name}: done", flush=True)
        return
    known = {k: v for k, v in read_weights(args.output).items() if k not in args.only} if args.only and args.output.exists() else None
    found = train(args.folder, {args.without}, known=known, log=lambda text: print(text, flush=True))
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(text_of(found))
    print(f"{args.output}: {args.output.stat().st_size} bytes")


if __name__ == "__main__":
    main()
