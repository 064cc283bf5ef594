#!/usr/bin/env python3
"""Figures that single what-ifs rest on, each a median of what was measured: src/whatif/figures/H200-SXM.csv.

    tools/fit_figures.py             writes the table
    tools/fit_figures.py --check     nothing is written; fails where the table is not what the measurements say

Two digits: the samples differ by more than the third. `low` and `high` are the smallest and the largest of them.
"""

import argparse
import csv
import gzip
import json
import sys
from statistics import median

import fitted
from truth import ROOT

DATA = ROOT / "data"
TABLE = ROOT / "src" / "whatif" / "figures" / "H200-SXM.csv"
PEAK_GBS = 4800.0  # memory of the H200, as in src/hardware/devices
# What updates over lists of tensors move for each element: passes of PyTorch's foreach optimizers, read and written, in bytes.
LIST_BYTES = {"adam_foreach": 72, "adamw_foreach": 80, "sgdm_foreach": 32, "sgd_foreach": 12}
MANY = 50e6  # parameters, from which on launches are full and the last of each no longer counts


def updates():
    """{(kind of update, list of tensors): row} of single updates."""
    with gzip.open(DATA / "h200-kernels" / "opt.csv.gz", "rt") as file:
        rows = [r for r in csv.DictReader(file) if r["kind"] == "opt" and r["dtype"] == "fp32" and r["cold"] == "0"]
    return {(r["name"], r["layout"]): r | dict(part.split("=") for part in r["shape"].split(";")) for r in rows}


def list_share():
    """Of the memory's bandwidth, what an update over lists of tensors reaches."""
    return [LIST_BYTES[kind] * float(r["params"]) / (float(r["kernel_us"]) * 1e3) / PEAK_GBS
            for (kind, _), r in updates().items() if kind in LIST_BYTES and float(r["params"]) >= MANY]


def capturable_kernels():
    """Small kernels that a capturable Adam, whose step count lies on the GPU, runs beside each of the plain one's."""
    all_of = updates()
    return [int(r["n_kernels"]) / int(all_of["adam_loop", tensors]["n_kernels"]) - 1
            for (kind, tensors), r in all_of.items() if kind == "adam_capt" and ("adam_loop", tensors) in all_of]


def pageable_copy():
    """A copy to the GPU from memory that is not pinned, over one that is: it goes through a buffer of the driver."""
    rows = [json.loads(line) for line in (DATA / "h200-catalogue" / "copies.jsonl").read_text().splitlines()]
    return [r["pageable_h2d_us"] / r["h2d_us"] for r in rows]


def worker_slowdown():
    """A batch of a worker process over one of the main thread, pinning aside: it goes through shared memory, and workers share caches."""
    folder = DATA / "h200-catalogue"
    rows = [json.loads(line) for line in (folder / "truth.jsonl").read_text().splitlines()]
    base = next(r for r in rows if r["model"] == "resnet18" and r["variant"] == "base")
    with gzip.open(folder / base["trace"], "rt") as file:
        events = [e for e in json.load(file)["traceEvents"] if e.get("ph") == "X"]
    loads = [e["dur"] for e in events if e["name"].startswith("enumerate(DataLoader)")]
    pinned = [e["dur"] for e in events if e["name"] == "aten::pin_memory"]
    alone_ms = (sum(loads) - sum(pinned)) / len(loads) / 1e3
    # As long as the workers are what the step waits for.
    behind = [r for r in rows if r["model"] == "resnet18" and r.get("workers", 0) > 0 and r["median_ms"] > 2 * r["gpu_ms"]]
    return [r["median_ms"] * r["workers"] / alone_ms for r in behind]


FIGURES = {
    "list_share": (list_share, "h200-kernels/opt.csv.gz"),
    "capturable_kernels": (capturable_kernels, "h200-kernels/opt.csv.gz"),
    "pageable_copy": (pageable_copy, "h200-catalogue/copies.jsonl"),
    "worker_slowdown": (worker_slowdown, "h200-catalogue/truth.jsonl and resnet18.base.json.gz"),
}


def text():
    lines = ["# figure,value,low,high,samples,of data/: made by tools/fit_figures.py, which says what each is"]
    for name, (samples_of, source) in FIGURES.items():
        samples = samples_of()
        lines.append(",".join([name, *(f"{x:.2g}" for x in (median(samples), min(samples), max(samples))), str(len(samples)), source]))
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    now = text()
    print(now, end="")
    return fitted.keep(TABLE, now, args.check)


if __name__ == "__main__":
    sys.exit(main())
