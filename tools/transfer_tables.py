"""Measured operations on several GPUs, from folders laid out as docs/internals/gpus.md describes. Needs pandas.

Devices are the stems of src/hardware/devices that match the names in the tables; rows of GPUs without a device file are left out
and named in `unknown`. Not every GPU has every shape.
"""

import functools
import pathlib
import re

import numpy as np
import pandas as pd
from devices import DEVICES, Device

GEMM_COLUMNS = {"a100_sxm": "A100-SXM4-80GB", "l40s": "L40S", "h100_sxm": "H100-SXM5", "h200_sxm": "H200-SXM", "b200_sxm": "B200",
                "gb200_sxm": "GB200", "gb200": "GB200", "l4": "L4", "a10": "A10", "a40": "A40", "h800_sxm": "H800-SXM5",
                "h100_pcie": "H100-PCIe", "a100_pcie": "A100-PCIe-80GB", "v100_sxm": "V100-SXM2-32GB", "t4": "T4"}  # fmt: skip
# Smallest rows of a table are the host's; this share of rows is taken to be.
FLOOR_QUANTILE = 0.02


def _key(name):
    text = re.sub(r"[^a-z0-9]", "", name.lower())
    for vendor in ("nvidia", "tesla", "geforce", "amd", "instinct"):
        text = text.removeprefix(vendor)
    return text


@functools.cache
def device_names():
    """{key: stem} of every device file, by stem and by what drivers call it."""
    names = {}
    for path in sorted(DEVICES.glob("*.toml")):
        names[_key(path.stem)] = path.stem
        for driver in Device(path.stem).driver_names:
            names.setdefault(_key(driver), path.stem)
    return names


def device_of(text):
    """"Tesla P100-PCIE-16GB", "NVIDIA_A100_80GB_PCIe" -> the stem of a device file, None when there is none."""
    key = _key(text)
    names = device_names()
    if key in names:
        return names[key]
    parts = set(re.findall(r"[a-z]+|\d+", key))
    like = [stem for k, stem in names.items() if set(re.findall(r"[a-z]+|\d+", k)) == parts]
    begins = sorted({stem for k, stem in names.items() if k.startswith(key)}, key=len)
    return like[0] if like else begins[0] if begins else None


class Table:
    def __init__(self, rows, devices, has_host, element_bytes):
        self.rows, self.devices, self.has_host, self.element_bytes = rows, devices, has_host, element_bytes
        self.floors = {g: float(rows[g].quantile(FLOOR_QUANTILE)) for g in devices} if has_host else {}


unknown: set[str] = set()
"""Names in tables that no device file has."""


def with_gpu(d):
    """Rows of known GPUs, with the column `gpu`."""
    found = {name: device_of(name) for name in d.Device.unique()}
    unknown.update(name for name, gpu in found.items() if gpu is None)
    d = d.assign(gpu=d.Device.map(found))
    return d[d.gpu.notna()]


def wide(paths, keys):
    """One row per shape, one column per device (us), NaN where a device lacks the shape."""
    d = pd.concat([with_gpu(pd.read_csv(path)) for path in paths])
    w = d.pivot_table(index=keys, columns="gpu", values="Latency", aggfunc="mean") * 1e3
    return w.reset_index()


@functools.cache
def product_table(folder, kind):
    """kind: half, fp32, fp32-batched, conv. None when the folder does not have it. Columns batch, m, n, k and one per device."""
    folder = pathlib.Path(folder)
    if kind == "half":
        path = folder / "gpu-gemm-bf16.csv.gz"
        if not path.exists():
            return None
        d = pd.read_csv(path)
        for more in sorted(folder.glob("gpu-gemm-bf16-*.csv.gz")):
            d = d.merge(pd.read_csv(more), on=["m", "n", "k"], how="outer")
        found = {c: GEMM_COLUMNS.get(c.removesuffix("_ms")) or device_of(c.removesuffix("_ms")) for c in d.columns if c.endswith("_ms")}
        unknown.update(c for c, g in found.items() if not g)
        d = d.rename(columns={c: g for c, g in found.items() if g})
        gpus = [g for g in found.values() if g]
        d[gpus] *= 1e3
        d["batch"] = 1
        return Table(d[["batch", "m", "n", "k", *gpus]], {g: Device(g) for g in gpus}, False, 2)
    name, keys = {"fp32": ("linear", list("BMNK")), "fp32-batched": ("bmm", list("BMNK")),
                  "conv": ("conv", ["B", "Input_Channel", "Output_Channel", "Kernel_Szie", "Input_Size", "Stride", "Padding"])}[kind]  # fmt: skip
    # Tables of GPUs measured later are next to the first, `gpu-kernels-fp32-h100`; they need not hold the same shapes.
    paths = sorted(folder.glob(f"gpu-kernels-fp32*/{name}.csv.gz"))
    if not paths:
        return None
    w = wide(paths, keys)
    gpus = [c for c in w.columns if c not in keys]
    if kind == "conv":
        out = np.floor((w.Input_Size + 2 * w.Padding - w.Kernel_Szie) / w.Stride) + 1
        rows = pd.DataFrame({"batch": 1, "m": w.B * out**2, "n": w.Output_Channel, "k": w.Input_Channel * w.Kernel_Szie**2,
                             "images": w.B, "channels": w.Input_Channel, "size": w.Input_Size, "out_channels": w.Output_Channel,
                             "kernel": w.Kernel_Szie, "stride": w.Stride, "padding": w.Padding, "out_size": out})  # fmt: skip
    else:
        # Their N is what is summed over and their K the columns of the result: in every row of linear and bmm on five GPUs the
        # launched grid is K over the kernel's tile by M over its other side, and never depends on N.
        rows = w[list("BMNK")].rename(columns={"B": "batch", "M": "m", "K": "n", "N": "k"})
    rows = pd.concat([rows, w[gpus]], axis=1)
    return Table(rows, {g: Device(g) for g in gpus}, True, 4)


def product_gpus(folder):
    gpus = []
    for kind in ("half", "fp32", "fp32-batched", "conv"):
        table = product_table(folder, kind)
        gpus += [g for g in (table.devices if table else []) if g not in gpus]
    return gpus
