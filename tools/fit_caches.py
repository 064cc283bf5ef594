#!/usr/bin/env python3
"""What L2 holds and how fast it is, by architecture: src/hardware/caches.csv.

    tools/fit_caches.py [--check]

From data/published/streams.csv: two arrays that change places, so that each kernel reads what the one before it wrote. `share`: of L2's size, the bytes of both
arrays at which the rate is half-way from L2's to memory's. `rate`: by how much time grows with bytes between a fifth and a half of L2, in bytes for each clock of
an SM; both are shown over an H200's, whose L2 the laws know from kernels of steps (tools/fit_same_kernel.py). `any` is the mean of all.
"""

import collections
import sys

import fitted
import numpy as np
import tomllib
from devices import DEVICES, HARDWARE, Device
from truth import ROOT, csv_rows

TABLE = HARDWARE / "caches.csv"
REFERENCE = "H200-SXM"
INSIDE = (0.2, 0.5)  # of L2: most of it holds, and the kernel's start does not decide
FAR = 4.0  # times L2: nothing is found


def curves():
    """{device: (bytes, us) of kernels in a graph, by bytes}"""
    found = collections.defaultdict(list)
    for row in csv_rows(ROOT / "data" / "published" / "streams.csv"):
        if row["launch"] == "graph":
            found[row["device"]].append((float(row["bytes"]), float(row["bytes"]) / float(row["gbs"]) / 1e3))
    return {device: np.array(sorted(rows)).T for device, rows in found.items()}


def figures(device, size, us):
    """Share and rate of one GPU's L2."""
    d = Device(device)
    l2 = d.l2_mb * 1e6
    near, far = np.interp([x * l2 for x in INSIDE], size, us)
    gbs = (INSIDE[1] - INSIDE[0]) * l2 / (far - near) / 1e3
    start = max(0.0, near - INSIDE[0] * l2 / gbs / 1e3)
    net = size / np.maximum(us - start, 1e-9) / 1e3
    memory = float(np.median(net[size > FAR * l2]))
    beyond = size > INSIDE[1] * l2
    half = float(np.interp(-(gbs + memory) / 2, -np.minimum.accumulate(net[beyond]), size[beyond]))
    return half / l2, gbs / (d.sms * d.clock_mhz * 1e-3)


def architecture(device):
    text = tomllib.loads((DEVICES / f"{device}.toml").read_text())
    return text.get("architecture", text["compute"]["capability"])


def table():
    by_device = {device: figures(device, *rows) for device, rows in curves().items()}
    share, rate = by_device[REFERENCE]
    rows = {architecture(device): (s / share, r / rate, device) for device, (s, r) in by_device.items()}
    rows["any"] = (*np.mean([row[:2] for row in rows.values()], axis=0), f"{len(by_device)} GPUs")
    lines = ["# made by tools/fit_caches.py, which says what each is: over an H200's", "architecture,share,rate,of"]
    return "\n".join(lines + [f"{name},{s:.3g},{r:.3g},{of}" for name, (s, r, of) in sorted(rows.items(), key=lambda row: row[0] != "any")]) + "\n"


if __name__ == "__main__":
    sys.exit(fitted.main(__doc__, lambda _: {TABLE: table()}))
