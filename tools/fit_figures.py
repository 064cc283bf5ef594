#!/usr/bin/env python3
"""Figures that single what-ifs rest on: src/hardware/figures/H200-SXM.csv.

    tools/fit_figures.py [--check]

Two digits. Most are medians, and `low` and `high` the smallest and the largest sample; of spreads and sums over all samples, what comes out with one
model or trace left out at a time.
"""

import gzip
import json
import math
import sys
from collections import defaultdict
from statistics import median

import fitted
import operation_rows
from truth import ROOT, csv_rows, json_lines, trace_events

DATA = ROOT / "data"
TABLE = ROOT / "src" / "hardware" / "figures" / "H200-SXM.csv"
PEAK_GBS = 4800.0  # memory of the H200, as in src/hardware/devices
# What updates over lists of tensors move for each element: passes of PyTorch's foreach optimizers, read and written, in bytes.
LIST_BYTES = {"adam_foreach": 72, "adamw_foreach": 80, "sgdm_foreach": 32, "sgd_foreach": 12}
MANY = 50e6  # parameters, from which on launches are full and the last of each no longer counts


def updates():
    """{(kind of update, list of tensors): row} of single updates."""
    rows = [r for r in csv_rows(DATA / "h200-kernels" / "opt.csv.gz") if r["kind"] == "opt" and r["dtype"] == "fp32" and r["cold"] == "0"]
    return {(r["name"], r["layout"]): r | dict(part.split("=") for part in r["shape"].split(";")) for r in rows}


def list_share():
    """Of the memory's bandwidth, what an update over lists of tensors reaches."""
    return [LIST_BYTES[kind] * float(r["params"]) / (float(r["kernel_us"]) * 1e3) / PEAK_GBS
            for (kind, _), r in updates().items() if kind in LIST_BYTES and float(r["params"]) >= MANY]


def capturable_kernels():
    """Small kernels that a capturable Adam, whose step count is on the GPU, runs in addition to each of the plain one's."""
    all_of = updates()
    return [int(r["n_kernels"]) / int(all_of["adam_loop", tensors]["n_kernels"]) - 1
            for (kind, tensors), r in all_of.items() if kind == "adam_capt" and ("adam_loop", tensors) in all_of]


def pageable_copy():
    """A copy to the GPU from memory that is not pinned, over one that is: it goes through a buffer of the driver."""
    rows = json_lines(DATA / "h200-catalogue" / "copies.jsonl")
    return [r["pageable_h2d_us"] / r["h2d_us"] for r in rows]


def worker_slowdown():
    """A batch of a worker process over one of the main thread, pinning aside: it goes through shared memory, and workers share caches."""
    folder = DATA / "h200-catalogue"
    rows = json_lines(folder / "truth.jsonl")
    base = next(r for r in rows if r["model"] == "resnet18" and r["variant"] == "base")
    events = [e for e in trace_events(folder / base["trace"]) if e.get("ph") == "X"]
    loads = [e["dur"] for e in events if e["name"].startswith("enumerate(DataLoader)")]
    pinned = [e["dur"] for e in events if e["name"] == "aten::pin_memory"]
    alone_ms = (sum(loads) - sum(pinned)) / len(loads) / 1e3
    # As long as the workers are what the step waits for.
    behind = [r for r in rows if r["model"] == "resnet18" and r.get("workers", 0) > 0 and r["median_ms"] > 2 * r["gpu_ms"]]
    found = [r["median_ms"] * r["workers"] / alone_ms for r in behind]
    return found + [r["median_ms"] * r["switches"]["workers"] / alone["host_ms"]["data"] for alone, r in with_workers() if r["host_ms"]["data"] > 0.1 * r["median_ms"]]


def with_workers():
    """Steps of h200-loading behind worker processes, each with the same step that loads in its main thread."""
    rows = json_lines(DATA / "h200-loading" / "truth.jsonl")
    base = {r["model"]: r for r in rows if r["variant"] == "base"}
    return [(base[r["model"]], r) for r in rows if r["switches"].get("workers")]


def gpu_repeat():
    """Of log time in which the GPU works, between two runs of the same step: bases and the same measured again, minutes later in another process."""
    by: dict[str, dict[str, float]] = defaultdict(dict)
    for row in json_lines(DATA / "h200-clean" / "truth.jsonl"):
        by[row["model"]][row["variant"]] = row["gpu_busy_ms"]
    apart = [math.log(v["again"] / v["base"]) for v in by.values() if "again" in v and "base" in v]

    def spread(some):
        return math.sqrt(sum(d * d for d in some) / len(some) / 2)  # both are off
    without = [spread([*apart[:i], *apart[i + 1:]]) for i in range(len(apart))]
    return spread(apart), min(without), max(without), len(apart)


def kernels_of(trace):
    """Kernels of a trace, and when collectives ran: [(what, begin, end)], [(begin, end)], blocks of a collective."""
    events = [e for e in trace_events(DATA / "h200-ranks" / f"{trace}.json.gz") if e.get("cat") == "kernel"]
    nccl = [e for e in events if "nccl" in e["name"].lower()]
    others = [((e["name"], str(e["args"].get("grid"))), e["ts"], e["ts"] + e["dur"]) for e in events if "nccl" not in e["name"].lower()]
    return others, [(e["ts"], e["ts"] + e["dur"]) for e in nccl], median(e["args"]["grid"][0] for e in nccl) if nccl else 0


SOLO, TOGETHER = "resnet50.mps.solo.w2.r0", ("resnet50.mps.ddp@5.w2.r0", "resnet50.mps.fsdp.w2.r0")
SMS = 66  # of each of two ranks that share an H200
LONG_US, ALIKE = 5.0, 0.15  # kernels long enough for the profiler's clock, and with the same time every time


def kernel_contention():
    """Speed that kernels lose during a collective, beyond the SMs it holds: their time in a rank's trace over that of the same kernels of a rank that
    trains alone. Those that only move data lose no more than the others."""
    times: dict[tuple, list[float]] = defaultdict(list)
    for what, begin, end in kernels_of(SOLO)[0]:
        times[what].append(end - begin)
    alone = {what: median(us) for what, us in times.items() if median(us) > LONG_US and max(us) - min(us) < ALIKE * median(us)}
    sums = []
    for trace in TOGETHER:
        kernels, collectives, blocks = kernels_of(trace)
        apart, shared_times = [], []
        for what, begin, end in kernels:
            shared = sum(max(0.0, min(end, b) - max(begin, a)) for a, b in collectives) / (end - begin)
            if what in alone and shared == 0:
                apart.append((end - begin) / alone[what])
            elif what in alone and shared > 0.9:
                shared_times.append((end - begin, alone[what]))
        drift = median(apart)  # of the process, whatever runs at the same time
        sums.append((sum(us for us, _ in shared_times), sum(us for _, us in shared_times) * drift / (1 - blocks / SMS), len(shared_times)))
    each = [1 - fewer / longer for longer, fewer, _ in sums]
    return 1 - sum(f for _, f, _ in sums) / sum(us for us, *_ in sums), min(each), max(each), sum(n for *_, n in sums)


def collective_contention():
    """Speed that an all-reduce loses while kernels run: products and copies of tensors."""
    rows = json_lines(DATA / "h200-ranks" / "busy.jsonl")
    return middle([1 - r["coll_alone_ms"] / r["coll_ms"] for r in rows if r["work"] in ("gemm", "stream")])


def collective_inside():
    """The same between ranks inside one GPU: during products, on as many channels as it has alone."""
    rows = [json.loads(line) for line in gzip.open(DATA / "h200-jobs" / "contention.jsonl.gz", "rt")]
    of = [(r, r["collective"]) for r in rows if "us" in (r.get("collective") or {})]
    alone = {(r["label"], r["collective_of"], r["mib"], r["rank"]): c["us"] for r, c in of if r["mode"] == "alone"}
    asked = [((r["label"], r["collective_of"], r["collective_mib"], r["rank"]), c["us"]) for r, c in of if r["mode"] == "beside" and r["kind"] == "product"]
    return [1 - alone[what] / us for what, us in asked if what in alone]


def half_sum():
    """An all-reduce of half-precision numbers over one of as many bytes of FP32."""
    rows = json_lines(DATA / "h200-ranks" / "collectives.jsonl")
    times = {(r["world"], r["mb"], r["dtype"]): r["ms"] for r in rows if r["tag"] == "mps" and r["coll"] == "all_reduce"}
    return [ms / times[world, mb, "float32"] for (world, mb, kind), ms in times.items() if kind == "float16" and (world, mb, "float32") in times]


COPIES = ("nchwToNhwc", "nhwcToNchw", "FoldedNhwc")


def layout_share():
    """Of a convolution's time the most that changes of layout take: 99 of 100 convolutions that have any."""
    shares = []
    for row in csv_rows(DATA / "h200-operations" / "conv.csv.gz"):
        kernels = operation_rows.kernels_of(row["kernels"])
        copies = sum(us for name, us in kernels if any(c in name for c in COPIES))
        if copies > 0:
            shares.append(copies / sum(us for _, us in kernels))
    shares.sort()
    return shares[len(shares) * 99 // 100], median(shares), shares[-1], len(shares)


def middle(samples):
    return median(samples), min(samples), max(samples), len(samples)


FIGURES = {
    "list_share": (list_share, "h200-kernels/opt.csv.gz"),
    "capturable_kernels": (capturable_kernels, "h200-kernels/opt.csv.gz"),
    "pageable_copy": (pageable_copy, "h200-catalogue/copies.jsonl"),
    "worker_slowdown": (worker_slowdown, "h200-catalogue/truth.jsonl and resnet18.base.json.gz; h200-loading/truth.jsonl"),
    "gpu_repeat": (gpu_repeat, "h200-clean/truth.jsonl"),
    "kernel_contention": (kernel_contention, "h200-ranks: resnet50.mps solo; ddp@5; fsdp"),
    "collective_contention": (collective_contention, "h200-ranks/busy.jsonl"),
    "collective_inside": (collective_inside, "h200-jobs/contention.jsonl.gz"),
    "half_sum": (half_sum, "h200-ranks/collectives.jsonl"),
    "layout_share": (layout_share, "h200-operations/conv.csv.gz"),
}


def text():
    lines = ["# figure,value,low,high,samples,of data/: made by tools/fit_figures.py, which says what each is"]
    for name, (samples_of, source) in FIGURES.items():
        found = samples_of()
        *figures, count = found if isinstance(found, tuple) else middle(found)
        lines.append(",".join([name, *(f"{x:.2g}" for x in figures), str(count), source]))
    return "\n".join(lines) + "\n"


def files(_):
    now = text()
    print(now, end="")
    return {TABLE: now}


if __name__ == "__main__":
    sys.exit(fitted.main(__doc__, files))
