#!/usr/bin/env python3
"""How fast a block of cuDNN's batch norm goes over its channel: src/hardware/laws/channel_norms.csv, from the table of measured norms.

    tools/fit_channel_norms.py [--check]

The law is that of src/hardware/cost_norm.cpp, written here once more: `block` elements of a channel in a clock and `plane` clocks for each sample's part of it, next
to what memory takes, joined by `overlap`. Channels that stay on chip and images of one pixel run in other kernels. By pass and precision, with the number of
shapes and the errors that remain.
Nothing but an H200 was measured so; of a V100, whose trace of ResNet-50 has the same kernels (kineto-misc/resnet_v100_ns.json.gz in $FORETRACE_PUBLIC), the large
ones come out within a tenth.
"""

import csv
import itertools
import math
import statistics
import sys

import fitted
import tomllib
from devices import DEVICES
from truth import ROOT

DEVICE = "H200-SXM"
TABLE = ROOT / "src" / "hardware" / "laws" / "channel_norms.csv"
NORMS = ROOT / "src" / "hardware" / "kernels" / f"{DEVICE}.batch_norm.csv"
START_US, OVERLAP, ON_CHIP = 2.0, 1.5, 150e3
HELD = {"fwd": 2, "bwd": 4}  # blocks of 512 threads with 48 and 32 registers each, on an SM
BLOCKS, PLANES = [x / 50 for x in range(10, 70)], range(0, 301, 10)
WIDTHS = {"half": ("fp16", 2), "fp32": ("fp32", 4)}


def shapes(rows, column, backward, size):
    """(measured us, GB, channels, elements of a channel, of a plane) of those that go over their channel twice."""
    for row in rows:
        n, c, h, w = (int(row[x]) for x in "nchw")
        channel = n * h * w
        if row[column] and h * w > 1 and channel * size * (2 if backward else 1) > ON_CHIP:
            yield float(row[column]), 1e-9 * c * channel * size * (5 if backward else 3), c, channel, h * w


def files(_options):
    device = tomllib.loads((DEVICES / f"{DEVICE}.toml").read_text())
    sms, clock = device["compute"]["sms"], device["compute"]["clock_mhz"]
    gbs = device["memory"]["bandwidth_gbs"] * device["memory"]["achievable_bandwidth"]
    rows = list(csv.DictReader(line for line in NORMS.read_text().splitlines() if not line.startswith("#")))
    lines = ["law,kind,architecture,parameter,value"]
    for way, held in HELD.items():
        for width, (name, size) in WIDTHS.items():
            some = list(shapes(rows, f"{way} {name} nchw", way == "bwd", size))

            def law(block, plane, moved, channels, channel, pixels, held=held):
                turn = channel * (1 / block + plane / pixels) / clock
                return START_US + ((1e6 * moved / gbs) ** OVERLAP + (max(1, channels / held / sms) * turn) ** OVERLAP) ** (1 / OVERLAP)

            def errors(found, some=some, law=law):
                return [abs(math.log(us / law(*found, *sizes))) for us, *sizes in some]

            found = min(itertools.product(BLOCKS, PLANES), key=lambda x: statistics.mean(errors(x)))
            kind = f"channel norm {way} {width}"
            lines.append(f"# {kind}: {len(some)} shapes on an {DEVICE}; {100 * statistics.median(errors(found)):.1f} % median, {100 * statistics.mean(errors(found)):.1f} % mean")
            values = {"start": START_US, "block": found[0], "plane": found[1], "overlap": OVERLAP}
            lines += [f"streaming,{kind},any,{parameter},{value:g}" for parameter, value in values.items()]
    return {TABLE: "\n".join(lines) + "\n"}


if __name__ == "__main__":
    sys.exit(fitted.main(__doc__, files))
