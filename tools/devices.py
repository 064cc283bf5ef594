"""The device files of src/hardware/devices, as far as the tools ask for them."""

import functools

import tomllib
from truth import ROOT

HARDWARE = ROOT / "src" / "hardware"
DEVICES = HARDWARE / "devices"


@functools.cache
def default(name):
    """What is assumed of a device whose file does not say it (tools/fit_devices.py)."""
    rows = (line.split(",") for line in (DEVICES / "defaults.csv").read_text().splitlines() if not line.startswith("#"))
    return {row[0]: float(row[1]) for row in rows}[name]


class Device:
    def __init__(self, name):
        t = tomllib.loads((DEVICES / f"{name}.toml").read_text())
        c, m, rates = t["compute"], t["memory"], t["tflops"]
        self.name, self.vendor = name, t.get("vendor", "nvidia")
        self.driver_names = t.get("driver_names", [])
        self.arch = "amd" if self.vendor == "amd" else c["capability"]
        # GPUs of one design: Pascal as a whole, then by compute capability.
        self.generation = "6" if self.arch.startswith("6.") else self.arch
        self.sms, self.clock_mhz, self.threads_per_sm = c["sms"], c.get("clock_mhz", 1500), c.get("threads_per_sm", 2048)
        # Products: matrix cores that multiply in fp32 (AMD) count.
        self.tflops = {"fp32": max(rates["fp32"], rates.get("fp32_matrix", 0)), "half": rates.get("bf16", rates.get("fp16", rates["fp32"]))}
        self.bandwidth, self.streaming = m["bandwidth_gbs"], m["bandwidth_gbs"] * m.get("achievable_bandwidth", default("bandwidth_share"))
        self.l2_mb = m.get("l2_mb", 0)
