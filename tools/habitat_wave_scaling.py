"""Habitat's wave scaling as published (Yu et al., USENIX ATC 2021), to stand beside our own figures.

    Eq. 1   T_d = ceil(B / W_d) ((D_o / D_d) (W_d / W_o))^g (C_o / C_d)^(1-g) ceil(B / W_o)^-1 T_o
    Eq. 2   T_d = (D_o / D_d)^g (W_o / W_d)^(1-g) (C_o / C_d)^(1-g) T_o
    Eq. 3   g = 1 - 0.5 x / R  for x < R = P / D of the destination,  0.5 R / x  otherwise;  g = 1 without metrics

B blocks, W blocks per wave (SMs x occupancy), D bandwidth, C clock, P peak FLOP/s, x FLOP per byte. Figures of GPUs Habitat lists
(measured bandwidth, base clock) come from its device list when the folder has one, else from our device files.
"""

import pathlib
import re

import numpy as np


class Figures:
    def __init__(self, sms, bandwidth_gbs, clock_mhz, gflops, threads_per_sm):
        self.sms, self.bandwidth, self.clock, self.gflops, self.threads_per_sm = sms, bandwidth_gbs, clock_mhz, gflops, threads_per_sm


def listed(folder):
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


def figures(device, known):
    """Of one of our devices; `known` from listed()."""
    h = known.get(device.name.split("-")[0])
    if h is None:
        return Figures(device.sms, device.streaming, device.clock_mhz, device.tflops["fp32"] * 1e3, device.threads_per_sm)
    return Figures(h["num_sms"], h["mem_bandwidth_gb"], h["base_clock_mhz"], h["peak_gflops_per_second"],
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
