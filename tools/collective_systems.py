"""Measured systems for tools/fit_collectives.py: their curves, which belong to which level, and the law of src/hardware/collective_fabric.cpp with the parameters that are tried.

Every algorithm and protocol is latency + bytes over bandwidth, and the cheapest is taken. Of a level, a latency scale and a bandwidth are a system's own: the
smallest and the largest message of one collective give them (calibrate). All else is in the parameters, by their names in
src/hardware/fabrics/protocols.csv.
"""

import collections
import csv
import dataclasses
import gzip
import itertools

import laws
import numpy as np

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


def read(path):
    """All curves of a table source,system,op,ranks,ranks_per_node,size,unit,ms."""
    found: dict = collections.defaultdict(lambda: collections.defaultdict(list))
    with gzip.open(path, "rt") as file:
        for r in csv.DictReader(file):
            kind = r["op"].removesuffix("_perf").replace("_", "")
            if (size := float(r["size"])) > 0:
                found[r["system"], SPELT.get(kind, kind), int(r["ranks"]), int(r["ranks_per_node"])][size].append(float(r["ms"]) * 1e3)
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


ORDER = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all", "send_recv", "gather", "scatter")
MOST = 60  # sizes of a curve that are looked at, evenly over their logarithm; curves hold 21 to 2,247


def has_switch(system):
    return "h100" in system.lower() or "h200" in system


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
        self.name = name
        pcie, pairs = name == "l40s", "pairwise" in name
        curves = sorted((c for c in curves if not (pcie and c.ranks > 2)), key=lambda c: (ORDER.index(c.kind), c.ranks, c.per_node))
        inside = [c for c in curves if c.per_node >= c.ranks]
        self.level = "pcie" if pcie else "nvlink"
        self.inside = [c for c in inside if not (pairs and c.ranks > 2)]
        self.bridged = [c for c in inside if pairs and c.ranks > 2]
        self.between = [c for c in curves if c.per_node < c.ranks]
        self.switch = has_switch(name) and not pairs

    def levels(self, p):
        """{level: what its two points give}"""
        out, inner = {}, Level(self.level, nvls=self.switch)
        if r := reference(self.inside, False):
            out[self.level] = inner = calibrate(p, inner, r)
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


def systems_of(path, thin=True):
    """`thin`: at most MOST sizes of a curve, which tell a search as much."""
    curves: dict = {}
    for c in read(path):
        curves.setdefault(c.system, []).append(thinned(c) if thin else c)
    return [System(name, of) for name, of in sorted(curves.items())]
