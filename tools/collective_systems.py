"""Measured systems for tools/fit_collectives.py: which curves belong to which level, and how far the law is off on each, as tests/collective_figures.cpp
calibrates and counts them."""

import dataclasses

import collective_law as law
import numpy as np

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
        out, inner = {}, law.Level(self.level, nvls=self.switch)
        if r := reference(self.inside, False):
            out[self.level] = inner = law.calibrate(p, inner, r)
        if r := reference(self.bridged, False):
            out["bridged"] = law.calibrate(p, law.Level("pcie"), r)
        if r := reference(self.between, True):
            out["network"] = law.calibrate(p, law.Level("network"), r)
        return out

    def errors(self, p):
        """[(level, curve, log(predicted / measured))]; the two points that calibrated are left out."""
        levels, out = self.levels(p), []
        for name, curves, fewest in ((self.level, self.inside, False), ("bridged", self.bridged, False), ("network", self.between, True)):
            skip = reference(curves, fewest)
            for c in curves:
                if name == "network":
                    us = law.predicted_us(p, c, dataclasses.replace(levels[self.level], floor_us=0.0), levels["network"])
                else:
                    us = law.predicted_us(p, c, levels[name], None)
                e = np.log(us / c.us)
                out.append((name, c, e[1:-1] if c is skip else e))
        return out


def read(path, thin=True):
    """`thin`: at most MOST sizes of a curve, which tell a search as much."""
    curves: dict = {}
    for c in law.read(path):
        curves.setdefault(c.system, []).append(thinned(c) if thin else c)
    return [System(name, of) for name, of in sorted(curves.items())]
