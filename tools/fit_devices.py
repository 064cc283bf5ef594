#!/usr/bin/env python3
"""What is assumed of a device whose file does not say it: src/hardware/devices/defaults.csv.

    tools/fit_devices.py [--check]

Shares are rounded down to two digits: what was not measured is not credited with more.

- `bandwidth_share`: of the peak, that a streaming kernel reaches: the median of NVIDIA's generations, each by the mean of what its boards' files state.
- `reported_share`: of the memory as it is sold, in 2^30 bytes, that drivers report: the median of data/published/memory.csv, without boards that keep ECC in GDDR6
  (their files say what they report).
- `pcie_share`: of a link's rate after coding, that large pinned copies reach: measured on an H200 (data/h200-catalogue/copies.jsonl).
- `tensor_power`, `tensor_node`: with which power of the process node the energy of a multiplication on tensor cores falls, and from which node on:
  watts for the best published rate of BF16 products (tools/published-products.csv), of server boards with HBM that their power holds back; to a half.
"""

import collections
import math
import statistics
import sys

import fitted
import tomllib
from truth import ROOT, csv_rows, json_lines

FOLDER = ROOT / "src" / "hardware" / "devices"
TABLE = FOLDER / "defaults.csv"
COPIES = ROOT / "data" / "h200-catalogue" / "copies.jsonl"
MEMORY = ROOT / "data" / "published" / "memory.csv"
# Server boards with GDDR6 lose a tenth to ECC, which their files say; AMD's all have theirs.
LOSE_TO_ECC = {"NVIDIA A10", "NVIDIA A10G", "NVIDIA A2", "NVIDIA L4"}
GDDR_WITH_ECC = {"A10G", "A40", "L40S", "T4"}
PCIE5_GBS = 63.0  # sixteen lanes of 32 GT/s after coding (PCI-SIG)
LARGE_MB = 64
PUBLISHED = ROOT / "tools" / "published-products.csv"
NANOMETRES = {"A100-SXM4-80GB": 7, "H100-SXM5": 5, "H200-SXM": 5, "B200": 4}  # NVIDIA's; an H20 has less to multiply with than its power would allow


def rounded_down(share):
    return math.floor(100 * share + 1e-9) / 100


def tensor_law():
    """The power, the width from which on it holds, and the power that each board says."""
    best: dict[str, float] = collections.defaultdict(float)
    for row in csv_rows(PUBLISHED):
        if row["device"] in NANOMETRES:
            best[row["device"]] = max(best[row["device"]], float(row["bf16"]))
    watts = {name: tomllib.loads((FOLDER / f"{name}.toml").read_text())["board"]["power_w"] / rate for name, rate in best.items()}
    oldest = max(watts, key=lambda name: NANOMETRES[name])
    powers = [math.log(watts[oldest] / w) / math.log(NANOMETRES[oldest] / NANOMETRES[name]) for name, w in watts.items() if NANOMETRES[name] < NANOMETRES[oldest]]
    return round(2 * statistics.mean(powers)) / 2, NANOMETRES[oldest], powers


def files(_):
    files = [tomllib.loads(path.read_text()) for path in sorted(FOLDER.glob("*.toml"))]
    by_generation = collections.defaultdict(set)
    for f in files:
        if (share := f["memory"].get("achievable_bandwidth")) and f.get("vendor") != "amd" and f["driver_names"][0] not in LOSE_TO_ECC:
            capability = f.get("architecture") or f["compute"]["capability"]
            by_generation["6" if capability.startswith("6.") else capability].add(share)
    shares = [share for of in by_generation.values() for share in of]
    usual = statistics.median(statistics.mean(sorted(of)) for of in by_generation.values())
    reported = [float(r["mebibytes"]) / 1024 / tomllib.loads((FOLDER / f"{r['device']}.toml").read_text())["memory"]["gb"]
                for r in csv_rows(MEMORY) if r["device"] not in GDDR_WITH_ECC]  # fmt: skip
    copies = json_lines(COPIES)
    reached = [r["mb"] * 2**20 / r[way] / 1e3 / PCIE5_GBS for r in copies if r["mb"] >= LARGE_MB for way in ("h2d_us", "d2h_us")]
    power, node, powers = tensor_law()
    rows = ["# name,value,of: made by tools/fit_devices.py, which says what each is",
            f"bandwidth_share,{rounded_down(usual):g},{len(by_generation)} generations from {min(shares):g} to {max(shares):g}",
            f"reported_share,{rounded_down(statistics.median(reported)):g},{len(reported)} boards from {min(reported):.3f} to {max(reported):.3f}",
            f"pcie_share,{rounded_down(statistics.median(reached)):g},{len(reached)} copies from {min(reached):.3f} to {max(reached):.3f}",
            f"tensor_power,{power:g},{len(powers)} boards from {min(powers):.2f} to {max(powers):.2f}", f"tensor_node,{node:g},the oldest of them"]  # fmt: skip
    return {TABLE: "\n".join(rows) + "\n"}


if __name__ == "__main__":
    sys.exit(fitted.main(__doc__, files))
