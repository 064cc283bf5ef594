#!/usr/bin/env python3
"""What kernels that torch.compile generates take: src/whatif/compilers/H200-SXM.inductor.csv, from the compiled steps in data/.

    tools/fit_compiled.py [--check]      also prints errors in sample and for networks left out

A generated kernel's record names its operations and holds its arguments' shapes and types, so that its bytes are known, except that an argument read and
written in place appears once. Rates come from kernels that cannot work in place: copies into another type or shape, forward kernels whose inputs are
wanted later, statistics of batch norm, second stages of sums, dropout and GELU on top. They are shares of the streaming rate, and
operations of the FP32 units: other GPUs have other ones.
"""

import math
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import fitted
import numpy as np
from truth import ROOT, trace_events

OUTPUT = ROOT / "src" / "whatif" / "compilers" / "H200-SXM.inductor.csv"
TRACES = {"gpt2": "h200-clean/gpt2-compiled.base", "bert_base": "h200-clean/bert_base-compiled.base",
          "resnet50": "h200-clean/resnet50-compiled.base", "resnet50 image": "h200-clean/resnet50-image.compile",
          "llama_w4": "h200-more/llama_w4.compile", "bert_l4": "h200-catalogue/bert_l4.compile"}
BYTES = {"float": 4, "c10::BFloat16": 2, "c10::Half": 2, "bool": 1, "long int": 8, "int": 4, "signed char": 1, "unsigned char": 1}
# The H200 of the traces: GB/s of a streaming kernel and TFLOP/s, as in src/hardware/devices.
STREAM, TFLOPS = 4320.0, 67.0
COPIES = ("_to_copy", "clone", "cat", "mm", "view", "transpose", "unsafe", "t", "slice", "addmm", "bmm", "expand", "fused", "")


@dataclass
class Kernel:
    network: str
    name: str
    us: float
    arguments: list[tuple[int, int]]  # elements, bytes of one

    @property
    def bytes(self) -> float:
        return float(sum(n * size for n, size in self.arguments))

    @property
    def largest(self) -> int:
        return max((n for n, _ in self.arguments), default=0)

    @property
    def operations(self) -> set[str]:
        return set(self.name.split("_fused_", 1)[1].rsplit("_", 1)[0].replace("_to_copy", "").split("_"))


def read(network: str, path: Path) -> list[Kernel]:
    events = trace_events(path)
    launched = {e["args"]["External id"]: e for e in events if e.get("cat") == "cpu_op" and "External id" in e.get("args", {})}
    times = defaultdict(list)
    for e in events:
        if e.get("cat") == "kernel" and e["name"].startswith("triton_") and e["args"].get("External id") in launched:
            args = launched[e["args"]["External id"]]["args"]
            shapes = tuple((math.prod(d), BYTES[t]) for d, t in zip(args["Input Dims"], args["Input type"]) if t in BYTES)
            times[e["name"], shapes].append(e["dur"])
    return [Kernel(network, name, median(us), list(shapes)) for (name, shapes), us in times.items()]


def is_copy(k: Kernel) -> bool:
    """Two large arguments that differ: nothing can be in place. Its operations only move data."""
    return k.name.startswith("triton_poi") and k.operations <= set(COPIES) and len(k.arguments) == 2 and \
        (k.arguments[0][1] != k.arguments[1][1] or "clone" in k.name or "cat" in k.name)


def is_fused(k: Kernel) -> bool:
    """Element-wise work and norms of the forward pass whose inputs are still wanted: nothing is in place."""
    return any(n in k.name for n in ("relu", "silu", "rsqrt")) and "backward" not in k.name and k.largest > 1e6 and \
        "embedding" not in k.name and not is_statistics(k)


def is_in_place(k: Kernel) -> bool:
    """The gradient that reaches a layer norm through the residual is written over: the compiler puts such an argument first."""
    return k.name.startswith("triton_per") and "add_native_dropout_backward_native_layer_norm_backward" in k.name and k.largest > 1e6 and \
        k.arguments[0] == (k.largest, 4)


def is_statistics(k: Kernel) -> bool:
    return k.name.startswith("triton_red") and "batch_norm_legit" in k.name and "backward" not in k.name and k.largest > 1e6


def is_finishing(k: Kernel) -> bool:
    return k.name.startswith("triton_per") and "sum" in k.name + "layer_norm_backward" and k.bytes < 2e6 and k.largest > 1000


def is_random(k: Kernel) -> bool:
    return "native_dropout" in k.name and "dropout_backward" not in k.name and "embedding" not in k.name and k.largest > 1e6


def is_slow(k: Kernel) -> bool:
    return k.name.startswith("triton_poi") and ("gelu_view" in k.name or "tanh_view" in k.name) and "backward" not in k.name


def is_gelu_gradient(k: Kernel) -> bool:
    """Two tensors of one size: the gradient and what GELU read. Sums over rows next to it are hidden behind the arithmetic."""
    return "gelu_gelu_backward" in k.name and "norm" not in k.name and k.largest > 1e6 and sum(n == k.largest for n, _ in k.arguments) == 2


def moved_us(figures: dict[str, float], size: np.ndarray) -> np.ndarray:
    return figures["copy_start_us"] + size / (figures["copy_share"] * STREAM * 1e3)


def fit(kernels: list[Kernel]) -> dict[str, tuple[float, str, float]]:
    def of(some: list) -> str:
        return f"{len(some)} kernels of {len({k.network for k in some})} networks"

    out = {}
    for what, chosen in (("copy", is_copy), ("fused", is_fused)):
        some = [k for k in kernels if chosen(k)]
        size, us = np.array([k.bytes for k in some]), np.array([k.us for k in some])
        a = np.stack([np.ones_like(size), size], axis=1) / us[:, None]
        found, *_ = np.linalg.lstsq(a, np.ones_like(us), rcond=None)
        spread = np.sqrt(np.diag(np.linalg.inv(a.T @ a)) * np.mean((a @ found - 1) ** 2))
        share = 1e-3 / found[1] / STREAM
        out[f"{what}_start_us"] = (found[0], of(some), spread[0])
        out[f"{what}_share"] = (share, of(some), share * spread[1] / found[1])
    figures = {n: float(v) for n, (v, *_) in out.items()}

    def middle(name: str, some: list[Kernel], value) -> None:
        values = [value(k) for k in some]
        out[name] = (median(values), of(some), float(np.std(values) / math.sqrt(len(values))))

    start = figures["fused_start_us"]
    middle("in_place_share", [k for k in kernels if is_in_place(k)],
           lambda k: (k.bytes + 4 * k.largest) / 1e3 / STREAM / max(0.1, k.us - start))
    statistics = [k for k in kernels if is_statistics(k)]
    middle("statistics_share", statistics, lambda k: k.bytes / 1e3 / STREAM / max(0.1, k.us - start))
    middle("finishing_us", [k for k in kernels if is_finishing(k)], lambda k: k.us)
    # Operations by element on top of what the bytes take. Dropout's kernel reads its in-place argument once more.
    middle("random_flop", [k for k in kernels if is_random(k)],
           lambda k: max(0.0, k.us - start - (k.bytes + 4 * k.largest) / 1e3 / STREAM / figures["fused_share"]) / k.largest * TFLOPS * 1e6)
    middle("slow_flop", [k for k in kernels if is_slow(k)], lambda k: (k.us - start) / k.largest * TFLOPS * 1e6)
    middle("gelu_gradient_flop", [k for k in kernels if is_gelu_gradient(k)], lambda k: (k.us - start) / k.largest * TFLOPS * 1e6)
    return {n: (float(v), s, float(e)) for n, (v, s, e) in out.items()}


def errors(kernels: list[Kernel], figures: dict[str, float]) -> list[float]:
    """Percent, of copies and statistics: what is known exactly."""
    out = [100 * (float(moved_us(figures, np.array(k.bytes))) / k.us - 1) for k in kernels if is_copy(k)]
    start = figures["fused_start_us"]
    out += [100 * ((start + k.bytes / 1e3 / STREAM / figures["fused_share"]) / k.us - 1) for k in kernels if is_fused(k)]
    return out + [100 * ((start + k.bytes / 1e3 / STREAM / figures["statistics_share"]) / k.us - 1) for k in kernels if is_statistics(k)]


def files(_) -> dict[Path, str]:
    kernels = [k for network, trace in TRACES.items() for k in read(network, ROOT / "data" / f"{trace}.json.gz")]
    figures = fit(kernels)
    values = {n: v for n, (v, *_) in figures.items()}
    off = errors(kernels, values)
    print(f"in sample: {np.mean(np.abs(off)):.1f} % mean, {np.mean(off):+.1f} % signed, {len(off)} kernels")
    off = []
    for network in sorted({k.network.split()[0] for k in kernels}):
        without = {n: v for n, (v, *_) in fit([k for k in kernels if k.network.split()[0] != network]).items()} \
            if any(is_statistics(k) for k in kernels if k.network.split()[0] != network) else values
        off += errors([k for k in kernels if k.network.split()[0] == network], without)
    print(f"left out: {np.mean(np.abs(off)):.1f} % mean, {np.mean(off):+.1f} % signed (statistics are of one network)")
    for name, (value, sample, spread) in figures.items():
        print(f"  {name:18} {value:8.4g}  {sample}, {spread:.2g}")
    head = "# figure,value,sample,spread: what kernels that torch.compile generates take (Inductor of PyTorch 2.11 on an H200);\n" \
           "# src/whatif/rewrite/generated_kernels.hpp says what each is. Written by tools/fit_compiled.py.\n"
    text = head + "".join(f"{n},{v:.4g},{s},{e:.2g}\n" for n, (v, s, e) in figures.items())
    return {OUTPUT: text}


if __name__ == "__main__":
    sys.exit(fitted.main(__doc__, files))
