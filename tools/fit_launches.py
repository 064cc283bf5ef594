#!/usr/bin/env python3
"""What launching costs the CPU under AMD's driver, over NVIDIA's: src/host/drivers.csv.

    tools/fit_launches.py [--check]
    tools/fit_launches.py --read      reads the rows of data/published/launches.csv that come from traces again ($FORETRACE_PUBLIC)

No source has both drivers on one host, so each host is measured by what its own CPU takes for PyTorch's operations, without the calls inside them: the
logarithm of an operation's time is a figure of the operation plus one of the host (least absolute errors, so that single operations of another
version of PyTorch count little). The logarithm of a launch follows that of the host, with one slope for all, and AMD's driver moves it: `ratio` is
by how much. `spread` is the standard deviation of log time of a launch that moves to a host nobody measured: what hosts are off that line, and what the ratio
itself is not known by. Recorded times, since few programs time a launch without a profiler; those that do agree (docs/internals/gpus.md).

A row of a trace is the mean of the middle half of its times (others wait for a full queue, or are the first), a row of a printed table the mean. A trace
that was recorded with so many extras that a view takes more than 20 us says nothing of its host and is left out.
"""

import collections
import gzip
import json
import math
import sys
from pathlib import Path

import fitted
import numpy as np
from truth import ROOT, csv_rows

ROWS = ROOT / "data" / "published" / "launches.csv"
TABLE = ROOT / "src" / "host" / "drivers.csv"
HEAD = "source,driver,item,calls,us"
LAUNCH = "launch"
CALLS = {"cudaLaunchKernel", "cuLaunchKernel", "hipLaunchKernel", "hipExtModuleLaunchKernel", "hipModuleLaunchKernel"}
# Operations that do the same in every version: views and allocations, and short ones that launch a kernel.
ITEMS = ("view", "as_strided", "slice", "transpose", "reshape", "t", "expand", "select", "empty", "empty_strided",
         "add", "add_", "mul", "mul_", "fill_", "copy_", "sum")
FEWEST = 10  # times of a trace behind a row
FLOOR = 0.1  # of an absolute error in logarithms: below it, errors count as squares
TRACES = {
    "tracelens-ddp": ("amd", ["zoo/mi300x-ddp-resnet-checkpoint.json.gz"]),
    "tracelens-sglang": ("amd", ["zoo/sglang-qwen3-8b-decode.json.gz"]),
    "hta-resnet": ("nvidia", ["kineto-misc/resnet_v100_ns.json.gz"]),
    "tracelens-owlv2": ("nvidia", ["zoo2/h100-owlv2.json.gz"]),
    "hta-graphs": ("nvidia", ["zoo/a100-16ranks-graphs.json.gz"]),
    "param-resnet": ("nvidia", ["zoo/param-resnet.json.gz"]),
    "param-dlrm": ("nvidia", [f"dlrm-8ranks-v100/rank{r}.json.gz" for r in range(8)]),
    "switch-transformers": ("nvidia", ["zoo2/cold-switch-transformers.json.gz"]),
    "kineto-2021": ("nvidia", ["zoo/kineto-2021-resnet50-workers0.json.gz"]),
}
OWN = "h200-clean"  # data/: one more host
OWN_TRACES = ("bert_base", "gpt2", "densenet121@8", "convnext_tiny@8-image")


def self_times(path: Path, found: dict[str, list[float]]) -> None:
    """Microseconds of calls and of operations without what they call, by name."""
    with gzip.open(path) as file:
        trace = json.load(file)
    threads = collections.defaultdict(list)
    for e in trace if isinstance(trace, list) else trace["traceEvents"]:
        kind = str(e.get("cat", "")).lower()
        if e.get("ph") == "X" and (kind in ("cpu_op", "operator") or "runtime" in kind or "driver" in kind):
            threads[e["pid"], e["tid"]].append((float(e["ts"]), -float(e["dur"]), e["name"]))
    for events in threads.values():
        inside: list[list] = []  # [name, end, self time]
        for start, minus, name in sorted(events):
            while inside and inside[-1][1] <= start + 1e-9:
                done = inside.pop()
                found[done[0]].append(done[2])
            if inside:
                inside[-1][2] += minus
            inside.append([name, start - minus, -minus])
        for done in inside:
            found[done[0]].append(done[2])


def middle(times: list[float]) -> float:
    cut = len(times) // 4
    return float(np.mean(sorted(times)[cut:len(times) - cut]))


def rows_of(source: str, driver: str, paths: list[Path]) -> list[str]:
    found: dict[str, list[float]] = collections.defaultdict(list)
    for path in paths:
        self_times(path, found)
    items = {LAUNCH: [t for call in sorted(CALLS) for t in found.get(call, [])]} | {i: found.get(f"aten::{i}", []) for i in ITEMS}
    return [f"{source},{driver},{item},{len(times)},{middle(times):.3f}" for item, times in items.items() if len(times) >= FEWEST and middle(times) > 0]


def read() -> int:
    public = fitted.public_folder()
    if not public:
        sys.exit("set FORETRACE_PUBLIC: the traces are there")
    tables = [f"{r['source']},{r['driver']},{r['item']},{r['calls']},{r['us']}" for r in csv_rows(ROWS) if r["source"] not in {*TRACES, OWN}]
    own = [ROOT / "data" / OWN / f"{name}.base.json.gz" for name in OWN_TRACES]
    traces = [row for source, (driver, files) in TRACES.items() for row in rows_of(source, driver, [public / f for f in files])]
    return fitted.keep({ROWS: "\n".join([HEAD, *tables, *traces, *rows_of(OWN, "nvidia", own)]) + "\n"}, check=False)


def hosts(times: dict[str, dict[str, float]]) -> np.ndarray:
    """Log time of each source's host, by its operations."""
    rows = [(s, i) for s in times for i in times[s] if i != LAUNCH]
    sources, items = list(times), sorted({i for _, i in rows})
    a = np.zeros((len(rows) + 1, len(sources) + len(items)))
    for k, (source, item) in enumerate(rows):
        a[k, sources.index(source)] = a[k, len(sources) + items.index(item)] = 1
    a[-1, :len(sources)] = 1  # hosts are 1 on average
    y = np.array([math.log(times[s][i]) for s, i in rows] + [0])
    weight = np.ones(len(y))
    for _ in range(50):
        x = np.linalg.lstsq(a * weight[:, None], y * weight, rcond=None)[0]
        weight = 1 / np.sqrt(np.maximum(np.abs(y - a @ x), FLOOR))
        weight[-1] = 1
    return x[:len(sources)]


def table() -> str:
    times: dict[str, dict[str, float]] = collections.defaultdict(dict)
    driver = {}
    for row in csv_rows(ROWS):
        times[row["source"]][row["item"]] = float(row["us"])
        driver[row["source"]] = row["driver"]
    amd = np.array([float(driver[s] == "amd") for s in times])
    a = np.stack([np.ones(len(times)), hosts(times), amd], axis=1)
    y = np.log([times[s][LAUNCH] for s in times])
    x = np.linalg.lstsq(a, y, rcond=None)[0]
    variance = float(((y - a @ x) ** 2).sum()) / (len(times) - a.shape[1])
    of_ratio = float(np.linalg.inv(a.T @ a)[2, 2]) * variance
    for source, host, off in zip(times, a[:, 1], y - a @ x):
        print(f"{source:22} host {math.exp(host):5.2f}  launch {times[source][LAUNCH]:5.2f} us, {100 * math.expm1(off):+.0f} % off", file=sys.stderr)
    print(f"slope {x[1]:.2f}, ratio {math.exp(x[2]):.3f} within {math.sqrt(of_ratio):.2f}; hosts {math.sqrt(variance):.2f}", file=sys.stderr)
    sample = f"{int(amd.sum())} recordings under AMD's driver and {int((1 - amd).sum())} under NVIDIA's"
    return ("# name,value,of: made by tools/fit_launches.py, which says what each is\n"
            f"ratio,{math.exp(x[2]):.2f},{sample}\nspread,{math.hypot(math.sqrt(variance), math.sqrt(of_ratio)):.2f},{sample}\n")


if __name__ == "__main__":
    sys.exit(read() if sys.argv[1:] == ["--read"] else fitted.main(__doc__, lambda _: {TABLE: table()}))
