#!/usr/bin/env python3
"""What boards hold in long products: src/hardware/boards/power.csv, and `[sustained]` in device files.

    tools/fit_boards.py [--check] [--program build/tests/gpu_figures]

A long product reaches a share s of what the law says at the rated clock without a power limit: torch.matmul of square matrices from 8192 on
(data/published/products.csv), and rows of at least LARGE_FLOP in the tables of $FORETRACE_PUBLIC.

- Where s is below LIMITED, the power limit holds the board back: power = energy x rate x V(s)^2, with V(s) = floor + (1 - floor) s. `voltage` is the floor under
  which boards of one architecture agree best on the energy, `lanes` and `tensor` are energies (W for each TFLOP/s; TF32 counts for two), the mean of the
  boards. An architecture without such a board takes the energy of its nearest (architectures.csv), else of the one
  with the nearest process node, in proportion to the node, and never more than a board of
  its own shows that was not held back. Lanes of GeForce boards are the same chip: they run above their rated clock until the limit holds them, and where no other board
  was measured their energy is brought to the rated clock of the others, as the square of the voltage there.
- Boards that were measured get s itself in their device file; but not those whose own tables the law was fitted to. GeForce boards run above their rated clock
  where power allows: one that was not measured gets the mean of the measured ones of its architecture.
- A board at its limit that was measured in one kind of work only shows how much more or less energy it takes than others of its architecture do for the same work (its
  memory, its losses, its chip). The kinds that were not measured get what the limit leaves with that energy.
"""

import collections
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys

import fitted
import tomllib
from devices import DEVICES, HARDWARE
from truth import ROOT, csv_rows

SIZES = (8192, 10240)
LIMITED = 0.97
LARGE_FLOP = 5e11  # rows of the tables from here on last long enough for the limit to hold
# What gpu_figures calls it, bytes of an element, and under which name device files hold it.
KINDS = {"fp32": ("fp32", 4, "fp32"), "tf32": ("tf32", 4, "tf32"), "fp16": ("fp16", 2, "half"), "bf16": ("half", 2, "half")}
FLOORS = [x / 20 for x in range(4, 17)]
# Its tables hold less than other boards of the architecture do at their limit: it was hot. The laws rest on it.
HOT = {"T4"}
# The reference: what long products of data/ hold there (846 TFLOP/s in half precision and 423 in TF32 but for loading operands), with which tools/fit_products.py fitted its parameters.
REFERENCE = {"H200-SXM": {"tf32": 0.856, "half": 0.889}}
OWN_TABLES = {
    "A100-PCIe-40GB",
    "A100-SXM4-80GB",
    "H100-SXM5",
    "H200-SXM",
    "B200",
    "GB200",
    "L40S",
    "V100-PCIe-32GB",
    "P100-PCIe-16GB",
    "P4",
    "T4",
    "MI210",
}


def device(name):
    return tomllib.loads((DEVICES / f"{name}.toml").read_text())


def geforce(name):
    """Their tensor cores are sold below what the chip can do: what they lack is not power."""
    return any("GeForce" in driver for driver in device(name)["driver_names"])


def architecture(file):
    return file.get("architecture") or file["compute"]["capability"]


def free_us(program, asked):
    """The law's times without a power limit; asked: [(kind, device, m, n, k, bytes, batch)], a batch of 1 may be left out."""
    lines = ["power 1000000", *(f"product {a[0]} {a[1]} {a[1]} {a[6] if len(a) > 6 else 1} {a[2]} {a[3]} {a[4]} {a[5]} 0" for a in asked)]
    done = subprocess.run([str(program)], input="\n".join(lines) + "\n", capture_output=True, text=True, check=True)
    times = [float(line.split()[0]) for line in done.stdout.splitlines()]
    shipped = {dev: device(dev).get("sustained", {}) for dev in {a[1] for a in asked}}
    return [us * max(1.0, shipped[a[1]].get("half" if a[0] == "fp16" else a[0], 1.0)) for us, a in zip(times, asked)]


def from_published(program):
    """{(device, precision): [log s]}"""
    asked, found = [], []
    for row in csv_rows(ROOT / "data" / "published" / "products.csv"):
        kind, size, name = KINDS[row["precision"]]
        for n in SIZES:
            if row[f"n{n}"]:
                asked.append((kind, row["device"], n, n, n, size))
                found.append((row["device"], name, float(row[f"n{n}"]), 2.0 * n**3))
    for row in csv_rows(ROOT / "data" / "published" / "kernels.csv"):
        if row["kind"] == "product":
            kind, size, name = KINDS[row["precision"]]
            m, n, k = map(int, row["shape"].split("x"))
            flop = 2.0 * m * n * k
            if flop >= LARGE_FLOP:
                asked.append((kind, row["device"], m, n, k, size))
                found.append((row["device"], name, float(row["value"]) if row["unit"] != "us" else flop / float(row["value"]) / 1e6, flop))
    shares = collections.defaultdict(list)
    for (dev, kind, rate, flop), us in zip(found, free_us(program, asked)):
        shares[(dev, kind)].append(math.log(rate * us * 1e6 / flop))
    return shares


def from_tables(program, folder):
    """The same of the largest rows of our tables."""
    import transfer_tables as tables

    shares = collections.defaultdict(list)
    for kind, name in (("half", "half"), ("fp32", "fp32"), ("fp32-batched", "fp32")):
        table = tables.product_table(folder, kind)
        if table is None:
            continue
        rows = table.rows[2.0 * table.rows.batch * table.rows.m * table.rows.n * table.rows.k >= LARGE_FLOP]
        for dev in table.devices:
            mine = rows[rows[dev].notna()]
            mine = mine.sample(min(len(mine), 200), random_state=1)
            asked = [(name, dev, int(r.m), int(r.n), int(r.k), table.element_bytes, int(r.batch)) for r in mine.itertuples()]
            for us, measured in zip(free_us(program, asked) if asked else [], mine[dev]):
                shares[(dev, name)].append(math.log(us / measured))
    # Many rows in FP32 are slow for other reasons (operands lost from a small L2): the fastest quarter shows what the limit leaves.
    return {key: sorted(some)[3 * len(some) // 4 :] if key[1] == "fp32" else some for key, some in shares.items()}


def voltage(share, floor):
    return floor + (1 - floor) * min(1.0, share)


def boards(shares):
    """[(unit, architecture, device, kind, s, W, TFLOP/s at that)]"""
    found = []
    for (dev, kind), logs in sorted(shares.items()):
        file = device(dev)
        watts = file["board"].get("power_w", 0)
        unit, times = (
            ("lanes", 1) if kind == "fp32" and "fp32_matrix" not in file["tflops"] else ("tensor", {"fp32": 4, "tf32": 2, "half": 1}[kind])
        )
        if watts:
            found.append((unit, architecture(file), dev, kind, math.exp(statistics.mean(logs)), watts, times))
    return found


def energies(found, rates, floor):
    """{(unit, architecture): [log W per TFLOP/s]}"""
    result = collections.defaultdict(list)
    for unit, arch, dev, kind, s, watts, times in found:
        if s < LIMITED and not geforce(dev):
            result[(unit, arch)].append(math.log(watts / (rates[(dev, kind)] * times * voltage(s, floor) ** 2)))
    return result


def share_at(power, floor):
    """x with x V(x)^2 = power, of what the rated clock takes (board_power.cpp has the same)."""
    low, high = 0.0, 1.0
    while high - low > 1e-6:
        x = (low + high) / 2
        low, high = (x, high) if x * voltage(x, floor) ** 2 < power else (low, x)
    return low


def of_its_energy(found, rates, floor, program):
    """{device: {kind: (s, why)}} of the kinds that were not measured."""
    result: dict[str, dict[str, tuple[float, str]]] = {}
    for dev in sorted({f[2] for f in found if not geforce(f[2]) and f[2] not in OWN_TABLES and architecture(device(f[2]))[:3] != "gfx"}):
        mine = [f for f in found if f[2] == dev]
        others = energies([f for f in found if f[2] != dev], rates, floor)
        more = [x - statistics.mean(others[key]) for key, some in energies(mine, rates, floor).items() if key in others for x in some]
        missing = [kind for kind in ("fp32", "tf32", "half") if kind not in {f[3] for f in mine}]
        arch, watts = architecture(device(dev)), device(dev)["board"].get("power_w", 0)
        if not more or not missing or ("tensor", arch) not in others:
            continue
        energy = math.exp(statistics.mean(others[("tensor", arch)]) + statistics.mean(more))
        for kind in missing:
            asked = ("fp16" if kind == "half" else kind, dev, 10240, 10240, 10240, 2 if kind == "half" else 4)
            free = 2.0 * 10240**3 / free_us(program, [asked])[0] / 1e6 * (2 if kind == "tf32" else 1)
            share = share_at(watts / (energy * free), floor)
            if share < LIMITED:
                result.setdefault(dev, {})[kind] = (
                    share,
                    f"not measured: at the limit of {watts} W with {math.exp(statistics.mean(more)):.2f} times the energy of others, as in {', '.join(f[3] for f in mine)}",
                )
    return result


def of_geforce(found, rates, floor, arch):
    """[log W per TFLOP/s] of lanes at the rated clock of the architecture's other boards. Nothing where the law was fitted to one of them at its limit."""
    if any(architecture(device(dev)) == arch for dev in OWN_TABLES - HOT):
        return []
    others = [
        device(path.stem)["compute"]["clock_mhz"]
        for path in DEVICES.glob("*.toml")
        if architecture(device(path.stem)) == arch and not geforce(path.stem)
    ]
    logs = []
    for unit, a, dev, kind, s, watts, times in found:
        if (unit, a) == ("lanes", arch) and geforce(dev) and others:
            x = s * device(dev)["compute"]["clock_mhz"] / statistics.median(others)
            logs.append(math.log(watts / (rates[(dev, kind)] * times * (floor + (1 - floor) * x) ** 2)))
    return logs


def spread(by_unit):
    logs = [x - statistics.mean(some) for some in by_unit.values() if len(some) > 1 for x in some]
    return math.sqrt(statistics.mean(x * x for x in logs))


def files(options):
    if not os.environ.get("FORETRACE_PUBLIC"):
        print("left out: FORETRACE_PUBLIC is not set", file=sys.stderr)
        sys.exit(77)
    folder = pathlib.Path(os.environ["FORETRACE_PUBLIC"])
    shares = from_published(options.program)
    shares |= {key: some for key, some in from_tables(options.program, folder).items() if key not in shares or key[0] in HOT}
    found = [f for f in boards(shares) if f[2] not in HOT]
    asked = [
        ("fp16" if kind == "half" else kind, dev, 10240, 10240, 10240, 2 if kind == "half" else 4) for _, _, dev, kind, _, _, _ in found
    ]
    rates = {(f[2], f[3]): 2.0 * 10240**3 / us / 1e6 * f[4] for f, us in zip(found, free_us(options.program, asked))}
    floor = min(FLOORS, key=lambda x: spread(energies(found, rates, x)))
    known = energies(found, rates, floor)
    rows = csv_rows_of(HARDWARE / "architectures.csv")
    nodes = {(r["vendor"], r["architecture"]): float(r["process_nm"]) for r in rows}
    like = {(r["vendor"], r["architecture"]): r["nearest"] for r in rows}
    held = {
        key: (math.exp(statistics.mean(logs)), len(logs), statistics.stdev(logs) if len(logs) > 1 else None) for key, logs in known.items()
    }
    lines = ["# made by tools/fit_boards.py, which says what each row is. boards: how many were held back by their limit; spread: of log energy",
             "unit,architecture,value,boards,spread", f"voltage,any,{floor:g},{sum(len(x) for x in known.values())},{spread(known):.2f}"]  # fmt: skip
    for unit in ("lanes", "tensor"):
        for (vendor, arch), nm in nodes.items():
            if unit == "lanes" and vendor == "amd":
                continue  # their FP32 products run on matrix cores
            if (unit, arch) in held:
                value, many, off = held[(unit, arch)]
            elif unit == "lanes" and (logs := of_geforce(found, rates, floor, arch)):
                value, many, off = math.exp(statistics.mean(logs)), len(logs), statistics.stdev(logs) if len(logs) > 1 else None
            else:
                near = min((a for u, a in held if u == unit and (vendor == "amd") == a.startswith("gfx")), default=None,
                           key=lambda a: (a != like[(vendor, arch)], abs(math.log(nodes[(vendor, a)] / nm))))  # fmt: skip
                if near is None:
                    continue
                value, many, off = held[(unit, near)][0] * nm / nodes[(vendor, near)], 0, None
                free = [
                    watts / (rates[(dev, kind)] * times)
                    for u, a, dev, kind, s, watts, times in found
                    if (u, a) == (unit, arch) and s >= LIMITED
                ]
                value = min([value, *free])
            lines.append(f"{unit},{arch},{value:.3g},{many},{'' if off is None else f'{off:.2f}'}")
    texts = {HARDWARE / "boards" / "power.csv": "\n".join(lines) + "\n"}
    return texts | device_files(shares, of_its_energy(found, rates, floor, options.program))


def csv_rows_of(path):
    """Rows of a table with comments."""
    import csv

    return list(csv.DictReader(line for line in path.read_text().splitlines() if not line.startswith("#")))


def apart(logs):
    """How well a share is known."""
    return f"{100 * statistics.stdev(logs):.0f} % apart"


def device_files(shares, by_energy):
    """Device files with what was measured, and what follows for kinds that were not."""
    sets: dict[str, dict[str, tuple[float, str]]] = collections.defaultdict(dict)
    above = collections.defaultdict(list)
    for (dev, kind), logs in shares.items():
        if (dev not in OWN_TABLES or dev in HOT) and architecture(device(dev))[:3] != "gfx":
            sets[dev][kind] = (math.exp(statistics.mean(logs)), ("1 product" if len(logs) == 1 else f"{len(logs)} products, {apart(logs)}"))
            if geforce(dev) and "Laptop" not in dev:
                above[(architecture(device(dev)), kind)].append(math.exp(statistics.mean(logs)))
    for dev, held in by_energy.items():
        sets[dev] |= held
    for dev, held in REFERENCE.items():
        sets[dev] = {kind: (share, "data/, tools/fit_products.py") for kind, share in held.items()}
    for path in sorted(DEVICES.glob("*.toml")):
        if path.stem in sets or not geforce(path.stem) or "Laptop" in path.stem:
            continue
        for kind in ("fp32", "tf32", "half"):
            if some := above.get((architecture(device(path.stem)), kind)):
                sets[path.stem][kind] = (
                    statistics.mean(some),
                    f"not measured: {len(some)} GeForce boards of this architecture"
                    + (f", {apart(map(math.log, some))}" if len(some) > 1 else ""),
                )
    texts = {}
    for path in sorted(DEVICES.glob("*.toml")):
        text = re.sub(r"\[sustained\][^\[]*", "", path.read_text())
        if mine := sets.get(path.stem):
            rows = "".join(f"{kind} = {mine[kind][0]:.3g}  # {mine[kind][1]}\n" for kind in ("fp32", "tf32", "half") if kind in mine)
            text = text.replace(
                "[link]",
                f"[sustained]  # clock that long products hold, as a share of clock_mhz; apart: one standard deviation\n{rows}\n[link]",
                1,
            )
        texts[path] = text
    return texts


if __name__ == "__main__":
    sys.exit(fitted.main(__doc__, files, ROOT / "build" / "tests" / "gpu_figures"))
