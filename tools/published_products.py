"""The best rate that large products reach, on GPUs that no table of ours holds and on some that do.

`published-products.csv`: TFLOP/s of PyTorch's product of square matrices, the best of 1024, 2048, 4096, 8192 and 10240 rows, as people sent them to
github.com/zzc0721/torch-performance-test-data (`database.md`, 2025); a row each, desktop and server GPUs that have a device file. Left out: what a GPU does
not multiply natively (BF16 before Ampere, FP16 on Pascal), an H100's "FP32" of 404 (TF32), and modified cards. The V100 is a V100S. One product of a cold
card is no training step: a T4 and a P4 hold such rates for seconds.
"""

import pathlib

import numpy as np
import pandas as pd

PUBLISHED = pathlib.Path(__file__).resolve().parent / "published-products.csv"
SIZES = (1024, 2048, 4096, 8192, 10240)
KINDS = {"fp32": ("fp32", 4), "half": ("fp16", 2)}  # the model's times of FP16 and BF16 are the same


def compared(figures, fitted):
    """[{device, kind, measured, model, error_pct, fitted}]; `fitted`: {kind: GPUs the parameters saw}."""
    table = pd.read_csv(PUBLISHED)
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


def summary(rows):
    new = [abs(r["error_pct"]) for r in rows if not r["fitted"]]
    return {"rows": len(rows), "new": len(new), "median_pct": round(float(np.median([abs(r["error_pct"]) for r in rows])), 1),
            "new_median_pct": round(float(np.median(new)), 1) if new else None}  # fmt: skip
