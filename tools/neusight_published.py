"""NeuSight's own errors on the whole models of tools/gpu_accuracy.py, as its authors published them.

`neusight-published.csv` holds the absolute errors (%) of sitar-lab/NeuSight (MIT), `scripts/asplos/summary/nvidia_inf.csv` and `nvidia_train.csv`:
NeuSight's, and those of its own roofline and of Habitat retrained by it (54 inference rows, mean 9.7 %; 26 training rows, mean 7.3 %). The signs
are not published. It predicts a GPU from its figures alone; we need the same model measured on another GPU, so that a row of
NeuSight's stands beside the mean of ours over all origins. It was trained on P4, P100, V100, T4 and the A100 of 40 GB; H100, L4 and the A100 of
80 GB were new to it. Ours were never fitted to the target.
"""

import pathlib

import numpy as np
import pandas as pd
import transfer_tables as tables

PUBLISHED = pathlib.Path(__file__).resolve().parent / "neusight-published.csv"
NEW_TO_IT = ("NVIDIA_H100_80GB_HBM3", "NVIDIA_L4", "NVIDIA_A100_80GB_PCIe")
OURS = {"ours, GPU left out": "error_pct", "ours, generation left out": "generation_left_out_pct", "ratio of rooflines": "roofline_pct",
        "Habitat's wave scaling (Eq. 2)": "habitat_pct"}  # fmt: skip
THEIRS = {"NeuSight": "neusight_pct", "NeuSight's roofline": "roofline_pct", "Habitat, as NeuSight trained it": "habitat_pct"}


def beside(rows):
    """rows of gpu_models.models -> {selection: {way: mean %}, "rows": ...} over (model, target) that both predict."""
    by_target: dict = {}
    for row in rows:
        by_target.setdefault((row["model"], row["mode"], row["seqlen"], row["batch"], row["to"]), []).append(row)
    found = []
    for p in pd.read_csv(PUBLISHED).itertuples():
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
