#!/usr/bin/env python3
"""Fits the model that carries matrix products and convolutions from one GPU to another.

    tools/train_transfer.py DIR                     writes src/hardware/transfer/products.csv
    tools/train_transfer.py DIR --without T4 -o F   the same with one GPU left out
    tools/train_transfer.py DIR --each tools/transfer-left-out     one file per GPU left out

DIR is a folder with `gpu-kernels-fp32/{linear,bmm,conv}.csv.gz` and `gpu-gemm-bf16.csv.gz` (docs/gpus.md says where they come
from). Needs numpy, scipy and pandas. Four kinds of product are fitted: half (tensor cores), fp32, fp32-batched, conv. Each gets
parameters for all GPUs together ("any") and for each architecture, in which that architecture's GPUs count more. Parameters
minimise the log error of measured times (soft L1), on a fixed sample, so that the same tables give the same file.

Measured times in these tables hold the host: a row lasts at least as long as the host needs to launch it (`floor`), and a share
of that (`host`) comes on top of the kernel. Both belong to the tables, not to the model.
"""

import argparse
import itertools
import pathlib
import sys

import numpy as np
from scipy.optimize import least_squares

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import transfer_model as model
import transfer_tables as tables

# Tiles by what kernels' names say in the tables: libraries for older GPUs use one or two for all batched products.
TILES = {
    ("half", "any"): "256x128 128x256 128x128 256x64 64x256 128x64 64x128 64x64 64x32 32x64 64x16 16x64",
    ("fp32", "any"): "128x64 64x128 128x128 64x64 32x128 128x32 64x32 32x64 32x32",
    ("fp32", "6"): "32x128 128x32 64x64",
    ("fp32-batched", "any"): "128x64 64x128 64x64",
    ("fp32-batched", "6"): "128x64 64x128",
    ("fp32-batched", "7"): "64x64 32x128 128x32 128x64 64x128",
    ("fp32-batched", "8.0"): "128x128",
    ("conv", "any"): "128x128 128x64 64x128 64x64 128x32 32x128",
}
OWN_WEIGHT = {"half": 4.0, "fp32": 2.0, "fp32-batched": 2.0, "conv": 2.0}
CARRY = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


def tiles_of(kind, arch):
    text = TILES.get((kind, arch), TILES[(kind, "any")])
    return [tuple(int(x) for x in t.split("x")) for t in text.split()]


class Fit:
    """One kind of product over the GPUs given."""

    def __init__(self, kind, table, gpus):
        self.kind, self.table, self.gpus = kind, table, gpus
        own = model.CONV_BOUNDS if kind == "conv" else {}
        self.names = [*model.BOUNDS, *own, *(["host"] if table.has_host else [])]
        self.bounds = {**model.BOUNDS, **own, "host": (0.6, 0.05, 1.0)}
        shared = table.rows.dropna()  # shapes that every GPU has
        self.rows = shared.sample(min(len(shared), 500), random_state=1)

    def decode(self, z):
        return {n: self.bounds[n][1] + (self.bounds[n][2] - self.bounds[n][1]) / (1 + np.exp(-v)) for n, v in zip(self.names, z)}

    def encode(self, p):
        z = []
        for n in self.names:
            _, low, high = self.bounds[n]
            x = min(max((p.get(n, self.bounds[n][0]) - low) / (high - low), 0.002), 0.998)
            z.append(np.log(x / (1 - x)))
        return np.array(z)

    def times(self, p, gpu, rows, arch):
        dev = self.table.devices[gpu]
        tiles = tiles_of(self.kind, arch if arch is not None else dev.arch)
        if self.kind == "conv":
            us = model.conv_us(p, tiles, rows.images, rows.channels, rows["size"], rows.out_channels, rows.kernel, rows.stride, rows.out_size, dev)
        else:
            us = model.product_us(p, tiles, rows.batch, rows.m, rows.n, rows.k, self.table.element_bytes, dev, self.kind)
        if not self.table.has_host:
            return us
        return np.maximum(self.table.floors[gpu], p["host"] * self.table.floors[gpu] + us)

    def run(self, arch, start, steps):
        """arch: whose GPUs count more; None for all alike."""
        known = {self.table.devices[g].arch for g in self.gpus}

        def residuals(z):
            p = self.decode(z)
            out = []
            for g in self.gpus:
                own = self.table.devices[g].arch
                weight = OWN_WEIGHT[self.kind] if own == arch else 1.0
                out.append(weight * np.log(self.rows[g].values / self.times(p, g, self.rows, own if own in known else "any")))
            return np.concatenate(out)

        p = start or {n: b[0] for n, b in self.bounds.items()}
        found = least_squares(residuals, self.encode(p), loss="soft_l1", f_scale=0.1, diff_step=1e-2, max_nfev=steps)
        return self.decode(found.x)

    def carry(self, p):
        """How much of what the model misses on the origin shows on a target of another architecture too. Judged with the
        parameters of all GPUs, since those of the target's own would know what it misses."""
        pairs = [(o, t) for o, t in itertools.permutations(self.gpus, 2) if self.table.devices[o].arch != self.table.devices[t].arch]
        logs = {g: np.log(self.times(p, g, self.rows, None)) for g in self.gpus}
        errors = []
        for c in CARRY:
            e = [np.abs(np.exp(logs[t] + c * (np.log(self.rows[o].values) - logs[o])) / self.rows[t].values - 1).mean() for o, t in pairs]
            errors.append(np.mean(e))
        return CARRY[int(np.argmin(errors))] if pairs else 0.3


KINDS = ("half", "fp32", "fp32-batched", "conv")


def train(folder, without, start=None, steps=24, log=lambda text: None, kinds=KINDS, cold=False):
    """{kind: {arch: parameters}}; `without`: a device name, or None. Kinds that are not asked for come from `start`;
    the others begin there too, unless `cold`."""
    result: dict = {}
    for kind in KINDS:
        if kind not in kinds:
            result[kind] = start[kind]
            continue
        table = tables.product_table(folder, kind)
        if table is None:
            continue
        gpus = [g for g in table.devices if g != without]
        fit = Fit(kind, table, gpus)
        begin = start.get(kind) if start and not cold else None
        by_arch = {"any": fit.run(None, begin["any"] if begin else None, steps)}
        for arch in sorted({table.devices[g].arch for g in gpus}):
            known = begin.get(arch) if begin else None
            by_arch[arch] = fit.run(arch, known or by_arch["any"], max(8, steps // 2))
        carry = fit.carry(by_arch["any"])
        for p in by_arch.values():
            p["carry_other"] = carry
        result[kind] = by_arch
        log(f"{kind}: {len(gpus)} GPUs, carry {carry:.1f}")
    return result


def text_of(result):
    lines = ["kind,architecture,parameter,value"]
    for kind, by_arch in result.items():
        for arch, p in by_arch.items():
            tiles = TILES.get((kind, arch), TILES[(kind, "any")])
            lines.append(f"{kind},{arch},tiles,{tiles}")
            lines += [f"{kind},{arch},{name},{value:.6g}" for name, value in p.items() if name != "tiles"]
    return "\n".join(lines) + "\n"


def read_weights(path):
    result: dict = {}
    for line in pathlib.Path(path).read_text().splitlines()[1:]:
        kind, arch, name, value = line.split(",")
        result.setdefault(kind, {}).setdefault(arch, {})[name] = value if name == "tiles" else float(value)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--without", help="a device to leave out")
    parser.add_argument("--only", choices=KINDS, help="fit this kind alone; the others stay as they are in the files")
    parser.add_argument("--each", type=pathlib.Path, help="write one file per device left out into this folder")
    parser.add_argument("-o", "--output", type=pathlib.Path, default=model.FOLDER / "transfer" / "products.csv")
    args = parser.parse_args()
    shipped = model.FOLDER / "transfer" / "products.csv"
    if args.each:
        args.each.mkdir(parents=True, exist_ok=True)
        start = read_weights(shipped)
        for gpu in tables.product_gpus(args.folder):
            known = args.each / f"{gpu}.csv"
            if args.only and gpu not in tables.product_table(args.folder, args.only).devices:
                continue
            begin = {**start, **{k: v for k, v in read_weights(known).items() if k != args.only}} if args.only else start
            found = train(args.folder, gpu, start=begin, steps=14, kinds=(args.only,) if args.only else KINDS)
            (args.each / f"{gpu}.csv").write_text(text_of(found))
            print(f"without {gpu}: done", flush=True)
        return
    found = train(args.folder, args.without, start=read_weights(shipped) if args.only else None,
                  kinds=(args.only,) if args.only else KINDS, cold=True, log=lambda text: print(text, flush=True))
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(text_of(found))
    print(f"{args.output}: {args.output.stat().st_size} bytes")


if __name__ == "__main__":
    main()
