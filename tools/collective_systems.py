"""Measured systems for tools/fit_collectives.py: their curves, which belong to which level, and the law of src/hardware/collective_fabric.cpp with the parameters that are tried.

Every algorithm and protocol is latency + bytes over bandwidth, and the cheapest is taken. Of a level, a latency scale and a bandwidth are a system's own: the
smallest and the largest message of one collective give them (calibrate). All else is in the parameters, by their names in
src/hardware/fabrics/protocols.csv.
"""

import collections
import contextlib
import csv
import dataclasses
import gzip
import itertools
import pathlib
import tempfile

import laws
import numpy as np
import tomllib
from truth import ROOT

PROTOCOLS = ("ll", "ll128", "simple")
LINKS = ("nvlink", "pcie", "network")
SPELT = {"allreduce": "all_reduce", "allgather": "all_gather", "reducescatter": "reduce_scatter", "alltoall": "all_to_all", "sendrecv": "send_recv"}


@dataclasses.dataclass
class Level:
    link: str  # nvlink, pcie, network
    gbs: float = 1.0
    scale: float = 1.0
    nvls: bool = False
    floor_us: float = 0.0


@dataclasses.dataclass
class Curve:
    """One collective over one layout of ranks; sizes ascend, a time each."""

    system: str
    kind: str
    ranks: int
    per_node: int
    bytes: np.ndarray
    us: np.ndarray


# Kernels of their own, not NCCL's, and what is said of one curve only at one size.
NOT_NCCL = ("custom", "deepep", "Playbook", "sku_perf", "Arc")
# Systems of collectives-more.csv.gz by what its rows say of the source, where one GPU is measured in several.
SOURCES = {"Azure": "Azure", "alps": "Slingshot-11", "awsome": "EFA", "vTrain": "vTrain"}


def rows_of(path):
    """(system, collective, ranks, ranks per node, bytes, us) of a table of either form."""
    with gzip.open(path, "rt") as file:
        for r in csv.DictReader(file):
            if "op" in r:  # source,system,op,ranks,ranks_per_node,size,unit,ms
                yield r["system"], r["op"].removesuffix("_perf"), r["ranks"], r["ranks_per_node"], float(r["size"]), float(r["ms"]) * 1e3
            elif r["gpus"] and r["us"] and "flag:" not in r["note"] and not any(word in r["source"] + r["gpu"] + r["nccl"] for word in NOT_NCCL):
                place = next((f" ({name})" for source, name in SOURCES.items() if r["source"].startswith(source)), "")
                yield r["gpu"].split(" (")[0] + place, r["collective"], r["gpus"], r["gpus_per_node"], float(r["bytes"]), float(r["us"])


def read(path):
    """All curves of a table, each size with its median time."""
    found: dict = collections.defaultdict(lambda: collections.defaultdict(list))
    for system, op, ranks, per_node, size, us in rows_of(path):
        kind = op.replace("_", "")
        if size > 0:
            found[system, SPELT.get(kind, kind), int(ranks), int(per_node)][size].append(us)
    curves = []
    for (system, kind, ranks, per_node), sizes in sorted(found.items()):
        ascending = sorted(sizes)
        times = [sorted(sizes[size])[len(sizes[size]) // 2] for size in ascending]
        curves.append(Curve(system, kind, ranks, per_node, np.array(ascending), np.array(times)))
    return curves


def evaluate(p, kind, ranks, per_node, inner, outer, size, algorithm=-1, protocol=-1):
    """Microseconds; NaN where the algorithm or the protocol does not apply. Without an inner level, nodes are joined inside by nothing that takes time."""
    if inner is None and per_node > 1:
        inner = Level("pcie", 1e18, 0.0)
    inside = (LINKS.index(inner.link), inner.gbs, inner.scale, inner.nvls) if inner else (0, 0, 0, 0)
    between = (outer.gbs, outer.scale) if outer else (0, 0)
    figures = p | {"fabric_spread": 1, "measured_spread": 1, "derived_spread": 1}
    text = "\n".join(f"{name},{value!r}" for name, value in figures.items())
    return laws.evaluate(f"collective {kind}", text, "", [ranks, per_node, size, *inside, *between, algorithm, protocol])


def predicted_us(p, curve, inner, outer):
    return np.maximum(evaluate(p, curve.kind, curve.ranks, curve.per_node, inner, outer, curve.bytes), (outer or inner).floor_us)


def calibrate(p, level, curve):
    """The level by which the curve's smallest and largest message come out; nodes of one GPU, or one node. All candidates grow with the scale and fall
    with the bandwidth, so the least of them meets a time where the first of them does. A small message that takes longer than the slowest steps do waited
    for its launch: that becomes a floor, and steps take what they usually do."""
    level = dataclasses.replace(level, gbs=1.0, scale=1.0, floor_us=0.0)
    network = level.link == "network"
    small_bytes, small_us, large_bytes, large_us = curve.bytes[0], curve.us[0], curve.bytes[-1], curve.us[-1]
    # Microseconds and microseconds per byte of each algorithm (ring, tree, NVLS) and protocol there is.
    how = np.array(list(itertools.product((0, 1, 3), range(len(PROTOCOLS)), (0.0, 1e9)))).T
    us = evaluate(p, curve.kind, curve.ranks, curve.per_node, None if network else level, level if network else None, how[2], how[0], how[1])
    parts = [(a, (b - a) / 1e9) for a, b in us.reshape(-1, 2) if np.isfinite(a)]
    for _ in range(8):
        level.gbs = min((w * large_bytes / (large_us - a * level.scale) for a, w in parts if large_us > a * level.scale), default=1e5)
        scale = max((small_us - w * small_bytes / level.gbs) / a for a, w in parts)
        host = not network and scale > p["slowest"]
        level.floor_us = small_us if host else 0.0
        level.scale = p[f"{level.link}_typical_scale"] if host else max(scale, 1e-3)
    return level


# Bytes over a link of a ring, for a tensor of one byte and infinitely many ranks.
FACTOR = {"all_reduce": 2, "all_gather": 1}
# A ring's all-reduce and all-gather differ by at most 11 % in the systems below, and NVLS reaches 1.3 times a ring or more.
ABOVE_RING = 1.2
ORDER = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all", "send_recv", "gather", "scatter")
MOST = 60  # sizes of a curve that are looked at, evenly over their logarithm; curves hold 21 to 2,247


# The built-in fabric whose first level joins a system's GPUs inside a node, by what the system's name holds; the first that fits.
INSIDE = (
    ("l40s", "PCIe4"),
    ("rtx pro", "RTX-PRO-6000"),
    ("v100", "NVLink2"),
    ("a100", "NVLink3"),
    ("a40", "NVLink3"),
    ("gh200", "GH200-Slingshot11"),
    ("b200", "NVLink5"),
    ("b300", "NVLink5"),
    ("h100", "NVLink4"),
    ("h200", "NVLink4"),
)
# The built-in fabric whose second level joins a system's nodes.
BETWEEN = {
    "A100-SXM4-80GB (EFA)": "AWS-p4de",
    "H100-SXM5-80GB (EFA)": "AWS-p5",
    "GH200-120GB (Slingshot-11)": "GH200-Slingshot11",
    "NVIDIA H100 80GB HBM3": "DGX-H100",
    "h100_dgx": "DGX-H100",
}
FABRICS = ROOT / "src" / "hardware" / "fabrics"


def fabric_of(system):
    return next(fabric for part, fabric in INSIDE if part in system.lower())


def described_level(fabric, p, at=0):
    """A level as its file describes it, with the latency of the typical system."""
    level = tomllib.loads((FABRICS / f"{fabric}.toml").read_text())["level"][at]
    scale = p[f"{level['link']}_typical_scale"] * level.get("latency_scale", 1)
    return Level(level["link"], level["gbs"] * level["efficiency"], scale, level.get("nvls", False))


def thinned(curve):
    if len(curve.bytes) <= MOST:
        return curve
    at = np.linspace(np.log(curve.bytes[0]), np.log(curve.bytes[-1]), MOST)
    kept = sorted({int(np.argmin(np.abs(np.log(curve.bytes) - x))) for x in at} | {0, len(curve.bytes) - 1})
    return dataclasses.replace(curve, bytes=curve.bytes[kept], us=curve.us[kept])


def reference(curves, fewest):
    """All-reduce where there is one, over the most ranks, between nodes over the fewest; the first of those that are alike."""
    best = None
    for c in curves:
        rank = (c.kind == "all_reduce", -c.ranks if fewest else c.ranks)
        if best is None or rank > best[0]:
            best = (rank, c)
    return best[1] if best else None


class System:
    def __init__(self, name, curves):
        self.name, self.fabric, self.pairs = name, fabric_of(name), "pairwise" in name
        curves = sorted(curves, key=lambda c: (ORDER.index(c.kind), c.ranks, c.per_node))
        inside = [c for c in curves if c.per_node >= c.ranks]
        self.inside = [c for c in inside if not (self.pairs and c.ranks > 2)]
        self.bridged = [c for c in inside if self.pairs and c.ranks > 2]
        self.between = [c for c in curves if c.per_node < c.ranks]
        described = described_level(self.fabric, {"nvlink_typical_scale": 1, "pcie_typical_scale": 1})
        self.level, self.switch = described.link, described.nvls and not self.pairs and self.adds_in_switch()

    def adds_in_switch(self):
        """Whether all-reduces went through the switch, which no table says: without it they reach what all-gathers do, the ring's rate."""
        reached = {
            kind: max((FACTOR[kind] * (c.ranks - 1) / c.ranks * c.bytes[-1] / c.us[-1] for c in self.inside if c.kind == kind and c.ranks > 2), default=0)
            for kind in FACTOR
        }
        return reached["all_gather"] == 0 or reached["all_reduce"] > ABOVE_RING * reached["all_gather"]

    def levels(self, p):
        """{level: what its two points give}; inside a node that was not measured, what the built-in fabric says."""
        out = {self.level: described_level(self.fabric, p)}
        if r := reference(self.inside, False):
            out[self.level] = calibrate(p, Level(self.level, nvls=self.switch), r)
        if r := reference(self.bridged, False):
            out["bridged"] = calibrate(p, Level("pcie"), r)
        if r := reference(self.between, True):
            out["network"] = calibrate(p, Level("network"), r)
        return out

    def errors(self, p):
        """[(level, curve, log(predicted / measured))]; the two points that calibrated are left out."""
        levels, out = self.levels(p), []
        for name, curves, fewest in ((self.level, self.inside, False), ("bridged", self.bridged, False), ("network", self.between, True)):
            skip = reference(curves, fewest)
            for c in curves:
                if name == "network":
                    us = predicted_us(p, c, dataclasses.replace(levels[self.level], floor_us=0.0), levels["network"])
                else:
                    us = predicted_us(p, c, levels[name], None)
                e = np.log(us / c.us)
                out.append((name, c, e[1:-1] if c is skip else e))
        return out


def errors_by_file(p, system):
    """[(fabric, curve, log(predicted / measured))] where nothing of a system is known but the built-in fabric it is of."""
    if system.pairs:
        return []
    inner = dataclasses.replace(described_level(system.fabric, p), nvls=system.switch)
    out = [(system.fabric, c, np.log(predicted_us(p, c, inner, None) / c.us)) for c in system.inside]
    if system.name in BETWEEN:
        fabric = BETWEEN[system.name]
        inner, outer = described_level(fabric, p), described_level(fabric, p, 1)
        out += [(fabric, c, np.log(predicted_us(p, c, inner, outer) / c.us)) for c in system.between]
    return out


def out_of_form(curve):
    """Above two ranks that L40S host reaches a hundredth of what two do; fewer than eight V100 share a mesh in which not all are neighbours."""
    return (curve.system == "l40s" and curve.ranks > 2) or (curve.system.startswith("V100") and curve.ranks < 8)


def tables(folder):
    """The published runs: two tables, of other systems each."""
    return [path for path in (folder / "collectives.csv.gz", folder / "parallel" / "collectives-more.csv.gz") if path.is_file()]


def systems_of(paths, thin=True):
    """`thin`: at most MOST sizes of a curve, which tell a search as much."""
    curves: dict = {}
    for path in paths:
        for c in read(path):
            if not out_of_form(c):
                curves.setdefault(c.system, []).append(thinned(c) if thin else c)
    return [System(name, of) for name, of in sorted(curves.items())]


@contextlib.contextmanager
def files_for_program(systems):
    """The arguments of build/tests/collective_figures."""
    with tempfile.TemporaryDirectory() as folder:
        table, joined = pathlib.Path(folder, "collectives.csv"), pathlib.Path(folder, "systems.csv")
        with table.open("w", newline="") as file:
            out = csv.writer(file)
            out.writerow(("source", "system", "op", "ranks", "ranks_per_node", "size", "unit", "ms"))
            for s in systems:
                for c in s.inside + s.bridged + s.between:
                    out.writerows(("", s.name, c.kind, c.ranks, c.per_node, int(size), "bytes", f"{us * 1e-3:.9g}") for size, us in zip(c.bytes, c.us))
        with joined.open("w", newline="") as file:
            out = csv.writer(file)
            out.writerow(("system", "link", "nvls", "pairs"))
            out.writerows((s.name, s.level, int(s.switch), int(s.pairs)) for s in systems)
        yield [str(table), str(joined)]
