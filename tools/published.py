"""What others published, to be compared with our own figures for other GPUs (tools/gpu_accuracy.py).

Habitat's wave scaling (Yu et al., USENIX ATC 2021):

    Eq. 1   T_d = ceil(B / W_d) ((D_o / D_d) (W_d / W_o))^g (C_o / C_d)^(1-g) ceil(B / W_o)^-1 T_o
    Eq. 2   T_d = (D_o / D_d)^g (W_o / W_d)^(1-g) (C_o / C_d)^(1-g) T_o
    Eq. 3   g = 1 - 0.5 x / R  for x < R = P / D of the destination,  0.5 R / x  otherwise;  g = 1 without metrics

B blocks, W blocks per wave (SMs x occupancy), D bandwidth, C clock, P peak FLOP/s, x FLOP per byte. Figures of GPUs Habitat lists
(measured bandwidth, base clock) come from its device list when the folder has one, else from our device files.

NeuSight: `neusight-published.csv` holds the absolute errors (%) of sitar-lab/NeuSight (MIT), `scripts/asplos/summary/nvidia_inf.csv` and
`nvidia_train.csv`: NeuSight's, its own roofline's, and those of Habitat retrained by it (54 inference rows, mean 9.7 %; 26 training rows, mean 7.3 %). It
predicts a GPU from its figures alone; we need the same model measured on another GPU, so that a row of NeuSight's is compared with the mean of ours over
all origins. It was trained on P4, P100, V100, T4 and the A100 of 40 GB. Ours were never fitted to the target.

Largest products: `published-products.csv` holds TFLOP/s of PyTorch's product of square matrices, the best of SIZES, as people sent them to
github.com/zzc0721/torch-performance-test-data (`database.md`, 2025), of GPUs that have a device file. Left out: what a GPU does not multiply natively
(BF16 before Ampere, FP16 on Pascal), an H100's "FP32" of 404 (TF32), and modified cards. The V100 is a V100S.
"""

import pathlib
import re

import numpy as np
import pandas as pd
import transfer_tables as tables
from truth import ROOT


class HabitatFigures:
    def __init__(self, sms, bandwidth_gbs, clock_mhz, gflops, threads_per_sm):
        self.sms, self.bandwidth, self.clock, self.gflops, self.threads_per_sm = sms, bandwidth_gbs, clock_mhz, gflops, threads_per_sm


def habitat_devices(folder):
    """{name: fields} of habitat_devices.yml; empty when there is none."""
    path = pathlib.Path(folder) / "habitat_devices.yml"
    devices: dict[str, dict] = {}
    fields = None
    for line in path.read_text().splitlines() if path.exists() else []:
        if match := re.match(r"^(\w+):\s*$", line):
            fields = devices.setdefault(match.group(1), {})
        elif fields is not None and (match := re.match(r"^\s+(\w+):\s*([\d.]+)", line)):
            fields[match.group(1)] = float(match.group(2))
    return devices


def habitat_figures(device, known):
    """Of one of our devices; `known` from listed()."""
    h = known.get(device.name.split("-")[0])
    if h is None:
        return HabitatFigures(device.sms, device.streaming, device.clock_mhz, device.tflops["fp32"] * 1e3, device.threads_per_sm)
    return HabitatFigures(h["num_sms"], h["mem_bandwidth_gb"], h["base_clock_mhz"], h["peak_gflops_per_second"],
                   h["max_threads_per_multiprocessor"])


def wave(blocks_threads, f):
    """Blocks per wave; element-wise and row-wise kernels are limited by threads and by 32 blocks (16 on Turing) per SM."""
    per_sm = np.minimum(f.threads_per_sm // np.maximum(32, np.ceil(blocks_threads / 32) * 32), 16 if f.threads_per_sm <= 1024 else 32)
    return f.sms * np.maximum(1, per_sm)


def gamma(flop_per_byte, f):
    ridge = f.gflops / f.bandwidth
    return np.where(flop_per_byte < ridge, 1 - 0.5 * flop_per_byte / ridge, 0.5 * ridge / np.maximum(flop_per_byte, 1e-9))


def equation_1(t, blocks, threads, g, o, d):
    wo, wd = wave(threads, o), wave(threads, d)
    return (np.ceil(blocks / wd) * ((o.bandwidth / d.bandwidth) * (wd / wo)) ** g * (o.clock / d.clock) ** (1 - g)
            / np.ceil(blocks / wo) * t)


def equation_2(t, blocks, threads, g, o, d):
    wo, wd = wave(threads, o), wave(threads, d)
    return (o.bandwidth / d.bandwidth) ** g * (wo / wd) ** (1 - g) * (o.clock / d.clock) ** (1 - g) * t


NEUSIGHT = ROOT / "tools" / "neusight-published.csv"
NEW_TO_IT = ("NVIDIA_H100_80GB_HBM3", "NVIDIA_L4", "NVIDIA_A100_80GB_PCIe")
OURS = {"ours, GPU left out": "error_pct", "ours, generation left out": "generation_left_out_pct", "ratio of rooflines": "roofline_pct",
        "Habitat's wave scaling (Eq. 2)": "habitat_pct"}  # fmt: skip
THEIRS = {"NeuSight": "neusight_pct", "NeuSight's roofline": "roofline_pct", "Habitat, as NeuSight trained it": "habitat_pct"}


def compare_with_neusight(rows):
    """rows of gpu_models.models -> {selection: {way: mean %}, "rows": ...} over (model, target) that both predict."""
    by_target: dict = {}
    for row in rows:
        by_target.setdefault((row["model"], row["mode"], row["seqlen"], row["batch"], row["to"]), []).append(row)
    found = []
    for p in pd.read_csv(NEUSIGHT).itertuples():
        mine = by_target.get((p.model, p.mode, p.seqlen, p.batch, tables.device_of(p.device)))
        if not mine:
            continue
        one = {way: float(np.mean([abs(r[key]) for r in mine])) for way, key in OURS.items()}
        one |= {way: float(getattr(p, key)) for way, key in THEIRS.items()}
        found.append({"mode": p.mode, "new": p.device in NEW_TO_IT, **one})
    parts = {"all": found, "inference": [f for f in found if f["mode"] == "inf"], "training": [f for f in found if f["mode"] == "train"],
             "GPUs new to NeuSight": [f for f in found if f["new"]]}  # fmt: skip
    return {name: {"rows": len(part), **{way: round(float(np.mean([f[way] for f in part])), 2) for way in (*OURS, *THEIRS)}}
            for name, part in parts.items() if part}  # fmt: skip


PRODUCTS = ROOT / "tools" / "published-products.csv"
SIZES = (1024, 2048, 4096, 8192, 10240)
KINDS = {"fp32": ("fp32", 4), "half": ("fp16", 2)}  # the model's times of FP16 and BF16 are the same


def largest_products(figures, fitted):
    """[{device, kind, measured, model, error_pct, fitted}]; `fitted`: {kind: GPUs the parameters saw}."""
    table = pd.read_csv(PRODUCTS)
    table["half"] = table[["fp16", "bf16"]].mean(axis=1)
    found = []
    for device, rows in table.groupby("device"):
        for column, (kind, element_bytes) in KINDS.items():
            measured = rows[column].median()
            if np.isnan(measured):
                continue
            lines = [f"product {kind} {device} {device} 1 {n} {n} {n} {element_bytes} 0" for n in SIZES]
            model = float(np.max(2.0 * np.array(SIZES, float) ** 3 / figures.ask(lines)[:, 0] / 1e6))
            found.append({"device": device, "kind": column, "measured": round(float(measured), 1), "model": round(model, 1),
                          "error_pct": round(100 * (model / measured - 1), 1), "fitted": device in fitted.get(column, ())})  # fmt: skip
    return found


def products_summary(rows):
    new = [abs(r["error_pct"]) for r in rows if not r["fitted"]]
    return {"rows": len(rows), "new": len(new), "median_pct": round(float(np.median([abs(r["error_pct"]) for r in rows])), 1),
            "new_median_pct": round(float(np.median(new)), 1) if new else None}  # fmt: skip
