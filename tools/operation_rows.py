"""Measured operations of data/h200-operations: their rows, and which of their kernels are their own."""

from __future__ import annotations

import csv
import gzip
import re
from pathlib import Path
from typing import Any


def read(folder: Path, kinds: list[str] | None = None) -> list[dict[str, Any]]:
    """All rows; `sizes` holds the shape by name."""
    rows = []
    for path in sorted(folder.glob("*.csv.gz")):
        if kinds and path.name.removesuffix(".csv.gz") not in kinds:
            continue
        with gzip.open(path, "rt", newline="") as file:
            rows += list(csv.DictReader(file))
    for row in rows:
        row["sizes"] = {k: int(v) for k, v in (item.split("=") for item in row["shape"].split(";"))}
        row["kernel_us"] = float(row["kernel_us"])
    return rows


# Kernels that the framework records under operations of their own, by their names: fills, copies, casts, counting, turning around.
FILLED, COPIED, ELEMENTS = "FillFunctor", "Memcpy", "elementwise_kernel"
ELSEWHERE = {
    **{(name, "bwd"): FILLED for name in ("nll_loss", "max_pool", "adaptive_avg_pool", "nearest", "bilinear", "bicubic", "batch_norm", "gather", "along",
                                          "index_select", "sort", "topk")},
    **{(name, "fwd"): COPIED for name in ("index_add", "scatter_add", "index_put")},
    **{(name, "bwd"): ELEMENTS for name in ("embedding", "embedding_bag", "index", "pairs", "softmax")},
    **{(name, way): f"{ELEMENTS}|{COPIED}" for name in ("fft", "rfft", "rfft2", "sort", "argsort") for way in ("fwd", "bwd") if (name, way) != ("sort", "bwd")},
    # Fused attention makes a bias of a mask first; in fp32 it multiplies and sums what its gradient starts from, and copies what does not lie as
    # its kernels want it.
    ("fused", "fwd"): ELEMENTS, ("fused", "bwd"): f"{ELEMENTS}|reduce_kernel",
    # Channels last are copied first, by an operation of its own.
    ("group_norm", "fwd"): "direct_copy_kernel",
    ("batch_norm", "fwd"): FILLED, ("mse_loss", "fwd"): "reduce_kernel", ("cumsum", "bwd"): ELEMENTS,
}  # fmt: skip


def elsewhere(name: str, way: str) -> re.Pattern[str] | None:
    """What matches the kernels of this operation that belong to others."""
    return re.compile(ELSEWHERE[name, way]) if (name, way) in ELSEWHERE else None


def kernels_of(text: str) -> list[tuple[str, float]]:
    """Name and us of every kernel of a row; those of one name share their time evenly."""
    out = []
    for part in text.split(" | "):
        match = re.fullmatch(r"(.*) x(\d+)@([\d.]+)", part, re.DOTALL)
        if match:
            out += [(match[1], float(match[3]) / int(match[2]))] * int(match[2])
    return out
