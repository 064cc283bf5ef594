"""Rows of kernels that stay the same on every GPU (element-wise and row-wise operations), as pairs of GPUs: tools/gpu_accuracy.py, fit_same_kernel.py, fit_spreads.py."""

import itertools

import numpy as np
import pandas as pd
import transfer_tables as tables
from devices import Device

# Tensors read and written by each same-kernel table, and FLOP per element for Habitat's arithmetic intensity.
ALIKE = {"add": (3, 1), "div": (3, 1), "mul": (3, 1), "pow": (3, 1), "addu": (2, 1), "divu": (2, 1), "mulu": (2, 1), "powu": (2, 1),
         "relu": (2, 1), "gelu": (2, 8), "tanh": (2, 4), "softmax": (2, 5), "ln": (2, 8)}  # fmt: skip
# Measured times hold the host: this share of the smallest row's comes on top of every kernel (element-wise tables).
HOST_SHARE = 0.5
# Rows within this factor of the host's floor say nothing about their kernel.
AT_FLOOR = 1.08


def at_its_sizes(raw, o, t):
    """Times of both where they measured other shapes: the origin's at the target's numbers of elements, between those it has. Of element-wise work, whose time
    follows from that number."""
    elements = {}
    for gpu in (o, t):
        mine = raw[raw.gpu == gpu]
        elements[gpu] = mine.groupby(mine.B * mine.H)[["Latency", "blocks", "threads"]].median()
    here, there = elements[o], elements[t]
    there = there[(there.index >= here.index.min()) & (there.index <= here.index.max())]

    def between(column):
        return np.exp(np.interp(np.log(there.index), np.log(here.index), np.log(here[column])))

    index = pd.MultiIndex.from_arrays([there.index, np.ones(len(there), int)])
    shape = {c: pd.DataFrame({o: np.round(between(c))}, index=index) for c in ("blocks", "threads")}
    return pd.DataFrame({o: between("Latency") * 1e3, t: there.Latency.values * 1e3}, index=index), shape


def alike_pairs(folder, op, tensors, sample, other_sizes=False):
    """(origin, target, measured times of both, kernel us on the origin, bytes, blocks, threads, floors) of one operation whose kernel is the same everywhere.
    `other_sizes`: the pairs of GPUs that measured different shapes, and only those."""
    paths = sorted(folder.glob(f"gpu-kernels-fp32*/{op}.csv.gz"))
    if not paths:
        return
    raw = pd.concat([tables.with_gpu(pd.read_csv(p)) for p in paths]).drop_duplicates(["B", "H", "gpu"])
    raw["blocks"] = raw["Grid x"] * raw["Grid y"] * raw["Grid z"]
    raw["threads"] = raw["Block x"] * raw["Block y"] * raw["Block z"]
    every = raw.pivot(index=["B", "H"], columns="gpu", values="Latency") * 1e3
    shape = {c: raw.pivot(index=["B", "H"], columns="gpu", values=c) for c in ("blocks", "threads")}
    floors = {g: float(every[g].quantile(tables.FLOOR_QUANTILE)) for g in every.columns}
    for o, t in itertools.permutations(every.columns, 2):
        time = every[[o, t]].dropna()
        if (len(time) < 10) != other_sizes:
            continue
        if other_sizes:
            time, shape = at_its_sizes(raw, o, t)
        time = sample(time)
        size = 4.0 * tensors * np.array([b * h for b, h in time.index], float)
        above = time[o].values - HOST_SHARE * floors[o]
        hidden = time[o].values < AT_FLOOR * floors[o]
        kernel = np.where(hidden, np.minimum(size / (Device(o).streaming * 1e3) + 1.0, above), above)
        yield o, t, time, np.maximum(kernel, 0.1), size, *(shape[c][o].loc[time.index].values for c in ("blocks", "threads")), floors
