"""The model of matrix products on any GPU, as src/hardware/cost_product.cpp has it, for training and for tests.

A product of b x (m x k)(k x n) is cut into tiles; tiles run on SMs in waves; a tile's time is its arithmetic, its loads or the
latency of its steps along k, whichever is longer; the whole is never faster than the device's peak, its power limit or its
memory. The library picks the best tile and split along k, and so does the model. tests/python/test_transfer.py holds this file and
the C++ to the same numbers.
"""

import copy
import functools
import pathlib

import numpy as np
import tomllib

SPLITS = np.array([1, 2, 3, 4, 6, 8, 12, 16, 32], float)
# How energy per multiplication falls with the process. FP32 products reach 20 W per TFLOP/s on V100 and T4; a power of 1 says 11.7 for an A100
# and 8.3 for an H100, which their power does not hold back, and 10 for an MI210, which reaches 9.6. BF16 ones reach 1.56 on an A100, 0.87
# on an H100, 0.62 on a B200 at their best: from 7 nm on tensor cores gained more, a power of 1.5. Between 12 and 7 nm a power of 1 holds for them
# too: it says 2.7 for a V100, and a V100S of 250 W was published with 89 TFLOP/s (tools/published-products.csv), 2.8.
USUAL = dict(line.split(",")[:2] for line in (pathlib.Path(__file__).resolve().parent.parent / "src/hardware/devices/usual.csv").read_text().splitlines() if line[0] != "#")
ENERGY_BY_NODE = {"half": float(USUAL["tensor_power"]), "fp32": 1.0}
TENSOR_NODE = float(USUAL["tensor_node"])
NARROW = 128  # FLOP per clock of an SM with 64 lanes
FOLDER = pathlib.Path(__file__).resolve().parent.parent / "src" / "hardware"
# Parameters of a product model: start value, least and largest.
BOUNDS = {
    "start": (1.5, 0.5, 4.0),  # us: a kernel's begin and end
    "pad": (0.3, 0.0, 1.0),  # share of a partly filled tile's empty part that is paid for
    "share": (0.85, 0.3, 1.0),  # of the peak rate
    "traffic": (7.0, 0.01, 60.0),  # tile edge (harmonic mean) at which loading operands halves the rate
    "start_k": (60.0, 0.1, 250.0),  # steps of k a tile loses at its begin and end
    "fill": (500.0, 10.0, 6000.0),  # cycles a tile waits for its first operands
    "step": (2.0, 0.05, 20.0),  # cycles of latency per step of k
    "load": (30.0, 2.0, 300.0),  # bytes per cycle one SM can load
    "round": (0.3, 0.0, 1.0),  # 1: a part of a wave costs a whole one
    "memory": (0.9, 0.3, 1.0),  # of the streaming bandwidth
    "cache": (0.3, 0.02, 1.5),  # share of L2 in which operands stay between uses
    "hit": (0.7, 0.0, 1.0),  # share of traffic they then save
    "blend": (3.0, 1.0, 10.0),  # joins arithmetic and memory: large is the maximum, 1 the sum
    "split": (3.0, 0.1, 30.0),  # us to add up what was split along k
    "energy": (20.0, 0.2, 60.0),  # W per TFLOP/s at 12 nm
    "shrink": (2.0, 0.0, 4.0),  # how energy falls with the process: (nm / 12) to this power
}
# Of convolutions beside them.
CONV_BOUNDS = {"transform": (0.4, 0.05, 3.0)}  # traffic of a Winograd algorithm's transforms, as a share of all they read and write


@functools.cache
def usual(name):
    """What is taken of a device whose file does not say it (tools/fit_devices.py)."""
    rows = (line.split(",") for line in (FOLDER / "devices" / "usual.csv").read_text().splitlines() if not line.startswith("#"))
    return {row[0]: float(row[1]) for row in rows}[name]


class Device:
    """What the model reads of a device file."""

    def __init__(self, name):
        with open(FOLDER / "devices" / f"{name}.toml", "rb") as f:
            t = tomllib.load(f)
        c, m = t["compute"], t["memory"]
        self.name = name
        self.driver_names = t.get("driver_names", [])
        self.major, self.minor = (int(x) for x in c["capability"].split("."))
        self.sms, self.clock_mhz = c["sms"], c.get("clock_mhz", 1500)
        self.threads_per_sm = c.get("threads_per_sm", 2048)
        self.vendor, self.gfx = t.get("vendor", "nvidia"), t.get("architecture", "")
        rates = t["tflops"]
        # Products: matrix cores that multiply in fp32 (AMD) count. Element-wise work: `vector`.
        self.tflops = {"fp32": max(rates["fp32"], rates.get("fp32_matrix", 0)), "half": rates.get("bf16", rates.get("fp16", rates["fp32"]))}
        self.vector = rates["fp32"]
        self.bandwidth, self.streaming = m["bandwidth_gbs"], m["bandwidth_gbs"] * m.get("achievable_bandwidth", usual("bandwidth_share"))
        self.l2_mb, self.power_w = m.get("l2_mb", 0), t.get("board", {}).get("power_w", 0)

    def drawing(self, times):
        """The same card with a limit of power so many times as high."""
        other = copy.copy(self)
        other.power_w = self.power_w * times
        return other

    @property
    def arch(self):
        return "amd" if self.vendor == "amd" else architecture(self.major, self.minor)

    @property
    def generation(self):
        """GPUs of one design: Pascal as a whole, then by compute capability."""
        return "6" if self.vendor == "nvidia" and self.major == 6 else self.arch

    @property
    def relative(self):
        """The measured architecture whose SMs are most like its own, as the C++ has it."""
        if self.vendor == "amd":
            return "amd"
        if self.major == 6:  # Pascal's two chips stand in for each other
            return "6.1" if self.minor == 0 else "6.0"
        return "8.9" if (self.major == 8 and self.minor >= 6) or self.major == 12 else f"{self.major}.0"

    @property
    def nanometres(self):
        """The width of transistors: what a multiplication costs in energy follows it."""
        if self.vendor == "amd":
            return {"gfx908": 7, "gfx90a": 6, "gfx942": 5, "gfx950": 3}.get(self.gfx, 5)
        if self.major <= 7:
            return 16 if self.major <= 6 else 12
        if self.major > 8:
            return 5 if self.major == 9 else 4
        return {0: 7, 9: 5}.get(self.minor, 8)

    def energy(self, p, kind):
        """W per TFLOP/s. Up to 12 nm one law holds for all GPUs (ENERGY_BY_NODE); above, Pascal, what was fitted."""
        nm = self.nanometres
        if nm > 12:
            return p["energy"] * (nm / 12) ** p["shrink"]
        if kind != "half":
            return p["energy"] * (nm / 12) ** ENERGY_BY_NODE["fp32"]
        return p["energy"] * (min(nm, TENSOR_NODE) / 12) ** ENERGY_BY_NODE["half"] * max(1.0, nm / TENSOR_NODE) ** ENERGY_BY_NODE["fp32"]

    def flops_per_clock(self, kind):
        """Of one SM, from the peak rate: cards sold for games run some types at half the rate of the same silicon elsewhere."""
        return self.tflops["half" if kind == "half" else "fp32"] * 1e6 / (self.sms * self.clock_mhz)


    def width(self, kind):
        """How many operands an SM's arithmetic asks for, against what it can load. SMs of 128 lanes load no more in a clock than those of
        64 and wait twice as long; tensor cores that are sold at half their rate, or less, hide the loading of their operands."""
        if kind != "half":
            return self.flops_per_clock(kind) / NARROW
        if self.vendor != "nvidia" or self.major < 7:
            return 1.0
        native = 2048 if (self.major, self.minor) == (8, 0) else {9: 4096, 10: 8192}.get(self.major, 1024)
        return min(1.0, self.flops_per_clock(kind) / (0.9 * native))  # peaks are given at clocks below the boost


def architecture(major, minor):
    """GPUs whose libraries pick alike: Pascal, Volta and Turing as families, later ones by compute capability."""
    return f"{major}.{minor}"


def product_us(p, tiles, batch, m, n, k, element_bytes, dev, kind, moved=None):
    """Microseconds, for arrays of shapes. `p`: parameters by name; `tiles`: pairs; `moved`: bytes read and written, where they are not the
    operands' sizes."""
    b, m, n, k = (np.asarray(x, float)[:, None, None] for x in (batch, m, n, k))
    tile = np.array(tiles, float)
    tm, tn = tile[:, 0][None, :, None], tile[:, 1][None, :, None]
    s = SPLITS[None, None, :]
    edge = tm * tn / (tm + tn)
    clock = float(dev.clock_mhz)  # cycles per us
    loss = (edge + p["traffic"]) / edge
    width = dev.width(kind)
    wide = np.maximum(1.0, width * loss) if kind == "half" else (edge + p["traffic"] * width) / edge
    begin = p["start_k"] * (width * loss if kind == "half" else wide)
    rate = dev.flops_per_clock(kind) * clock * p["share"]
    count = b * (p["pad"] * np.ceil(m / tm) + (1 - p["pad"]) * m / tm) * (p["pad"] * np.ceil(n / tn) + (1 - p["pad"]) * n / tn)
    waves = count * s / dev.sms
    turns = p["round"] * np.ceil(waves) + (1 - p["round"]) * np.maximum(waves, 1)
    steps = k / s
    turn = np.maximum(2 * tm * tn * (steps * wide + begin) / rate,
                      np.maximum(p["step"] * steps / clock,
                                 element_bytes * (np.minimum(tm, m) + np.minimum(tn, n)) * steps / (p["load"] * clock)))
    turn = turn + p["fill"] / clock
    whole = 2e-6 * count * tm * tn * k * wide / (dev.tflops["half" if kind == "half" else "fp32"] * p["share"])
    if dev.power_w > 0:
        whole = np.maximum(whole, 2e-6 * count * tm * tn * k * loss * dev.energy(p, kind) / dev.power_w)
    traffic = element_bytes * b * (m * n + m * k + k * n) if moved is None else np.asarray(moved, float)[:, None, None]
    kept = p["hit"] * np.clip(1 - traffic / max(1.0, dev.l2_mb * 1e6 * p["cache"]), 0, 1)
    memory = traffic * (1 - kept) / (dev.streaming * p["memory"] * 1e3)
    x = p["blend"]
    t = (np.maximum(turns * turn, whole) ** x + memory**x) ** (1 / x)
    t = t + np.where(s > 1, p["split"] + s * b * m * n * 4 / (dev.streaming * 2e3), 0)
    return p["start"] + t.reshape(t.shape[0], -1).min(1)


def conv_us(p, tiles, images, channels, size, out_channels, kernel, stride, out_size, dev):
    """A strict fp32 convolution of square images: as a product, or where it is 3 x 3 with stride 1 by Winograd's algorithms,
    whichever is fastest: F(2 x 2) in one kernel (16 / 36 of the multiplications), F(4 x 4) with its transforms through memory
    (36 / 144)."""
    one = np.ones(len(images))
    images, channels, size, out_channels, out_size = (np.asarray(x, float) for x in (images, channels, size, out_channels, out_size))
    taps = np.asarray(kernel, float) ** 2
    best = product_us(p, tiles, one, images * out_size**2, out_channels, channels * taps, 4, dev, "conv")
    small = images * np.ceil(out_size / 2) ** 2
    fused = product_us(p, tiles, one, 16 * small, out_channels, channels, 4, dev, "conv")
    large = images * np.ceil(out_size / 4) ** 2
    moved = 4 * (72 * large * (channels + out_channels) + images * (size**2 * channels + out_size**2 * out_channels))
    apart = product_us(p, tiles, 36 * one, large, out_channels, channels, 4, dev, "conv") + p["transform"] * moved / (dev.streaming * 1e3)
    winograd = (np.asarray(kernel) == 3) & (np.asarray(stride) == 1)
    return np.where(winograd, np.minimum(best, np.minimum(fused, apart)), best)
