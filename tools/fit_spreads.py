#!/usr/bin/env python3
"""Default errors, where no table of parameters states its own: src/hardware/spreads/*.csv.

    tools/fit_spreads.py [--check]

transfer.csv, of log time, from kernels measured on several GPUs ($FORETRACE_PUBLIC, as tools/gpu_accuracy.py reads it): a band of 80 % holds 80 % of
the rows, each pair of GPUs counted once.

- `same_kernel`: element-wise and row-wise kernels that stay the same on another architecture.
- `same_silicon`: products in BF16 and attention between boards of one architecture.
- `attention`: causal attention forward, its target left out of the fit.
- `unmeasured`: the default for all that was not measured on two GPUs: the widest of the above and of products on architectures that were not measured, times the
  root of two (an error that was measured, and one as large that was not).

H200-SXM.kernels.csv, of log time, from the tables of operations measured there (build/tools/kernel_figures):

- `own_kernel`: operations along rows and by index, estimated without those of their shape: one in two hundred is further off.

Exit 77: the folder is not there (H200-SXM.kernels.csv is done all the same).
"""

import collections
import itertools
import json
import pathlib
import subprocess
import sys

import fitted
import gpu_accuracy as accuracy
import numpy as np
import train_transfer as training
import transfer_tables as tables
from devices import HARDWARE, Device
from truth import ROOT

FOLDER = ROOT / "src" / "hardware" / "spreads"
HEAD = "# name,value,samples: made by tools/fit_spreads.py, which says what each is"
OTHERS = ("conv", "gemm", "attention", "rnn")  # pools that are no rows
RARE = 1 / 200


def quantile(parts, at):
    """Of values in parts that count alike."""
    values = np.concatenate(parts)
    weights = np.concatenate([np.full(len(p), 1 / len(p)) for p in parts])
    order = np.argsort(values, kind="stable")
    return float(values[order][np.searchsorted(np.cumsum(weights[order]), at * weights.sum())])


def spread(errors):
    return quantile([np.abs(e) for e in errors], 0.8) / accuracy.BAND


def carried(folder, program):
    figures, sample = accuracy.Figures(program), accuracy.Sample(False)
    same: dict[tuple, list] = collections.defaultdict(list)
    silicon: list = []
    attention: list = []
    for o, t, truth, answers in accuracy.same_kernel_pairs(folder, figures, sample):
        same[o, t].append(np.log(answers["ours"] / truth))
    for o, t, truth, in_sample, left_out, _ in accuracy.attention_pairs(folder, figures, sample):
        alike = Device(o).arch == Device(t).arch
        (silicon if alike else attention).append(np.log((in_sample if alike else left_out) / truth))
    table = tables.product_table(folder, "half")
    for o, t in itertools.permutations(table.devices, 2):
        if table.devices[o].arch == table.devices[t].arch:
            rows = sample(table.rows.dropna(subset=[o, t]), 400)
            silicon.append(np.log(accuracy.move_products(figures, table, "half", rows, o, t, accuracy.NOBODY)[0] / rows[t].values))
    found = {"same_kernel": [np.concatenate(e) for e in same.values()], "same_silicon": silicon, "attention": attention}
    values = {name: float(f"{spread(errors):.2g}") for name, errors in found.items()}
    rows = [f"{name},{values[name]:g},{sum(map(len, errors))} rows of {len(errors)} pairs" for name, errors in found.items()]
    products = [p["spread_new"] for of in training.read_weights(HARDWARE / "transfer" / "products.csv").values() for p in of.values()]
    widest = max(*values.values(), *products)
    return [HEAD, *rows, f"unmeasured,{2**0.5 * widest:.2g},{widest:.2g} times the root of 2"]


def of_tables(program):
    rows = [json.loads(line) for line in subprocess.run([program], capture_output=True, text=True, check=True).stdout.splitlines()]
    errors = np.abs(np.concatenate([r["errors"] for r in rows if not {"change", "without"} & set(r) and r["pool"].split()[0] not in OTHERS]))
    return [HEAD, f"own_kernel,{np.quantile(errors, 1 - RARE):.2g},{len(errors)} operations"]


def main():
    parser = fitted.parser(__doc__)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build" / "tests" / "gpu_figures")
    parser.add_argument("--kernels", type=pathlib.Path, default=ROOT / "build" / "tools" / "kernel_figures")
    args = parser.parse_args()
    status = fitted.keep({FOLDER / "H200-SXM.kernels.csv": "\n".join(of_tables(args.kernels)) + "\n"}, args.check)
    if not (public := fitted.public_folder()):
        print("fit_spreads: no kernels of several GPUs: set FORETRACE_PUBLIC")
        return status or 77
    rows = carried(public, args.program)
    return fitted.keep({FOLDER / "transfer.csv": "\n".join(rows) + "\n"}, args.check) or status


if __name__ == "__main__":
    sys.exit(main())
