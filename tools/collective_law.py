"""Collectives over a fabric as src/hardware/collective_fabric.cpp has them, for fitting: every algorithm and protocol is latency + bytes over
bandwidth, and the cheapest is taken.

Of a level, a latency scale and a bandwidth are a system's own: the smallest and the largest message of one collective give them (calibrate). All else
is in the parameters, which src/hardware/fabrics/protocols.csv holds by name: `node_base_ll`, `pcie_step_simple`, `payload_ll128`, …
"""

import collections
import csv
import dataclasses
import gzip
import math

import numpy as np

PROTOCOLS = ("ll", "ll128", "simple")
PEERS = ("send_recv", "gather", "scatter", "all_to_all")
ROOTED = ("broadcast", "reduce")
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


def bus_factor(kind, n):
    """Bytes the busiest link carries per byte of the tensor."""
    if kind == "all_reduce":
        return 2 * (n - 1) / n
    return 1.0 if kind in ROOTED or kind == "send_recv" else (n - 1) / n


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
        size = np.array(sorted(sizes))
        curves.append(Curve(system, kind, ranks, per_node, size, np.array([sorted(sizes[s])[len(sizes[s]) // 2] for s in size])))
    return curves


def candidates(p, kind, n, per_node, inner, outer):
    """(us, us per byte) of every algorithm and protocol there is. `inner`: inside a node, None where nodes hold one; `outer`: between them, or None."""
    k, nodes = min(per_node, n), -(-n // per_node)
    inner, outer = inner if k > 1 else None, outer if nodes > 1 else None
    passes = 2 if kind == "all_reduce" else 1
    far = outer or inner
    found = []
    for protocol in PROTOCOLS:
        if protocol == "ll128" and (inner is None or inner.link != "nvlink"):
            continue

        def hop(level, shape="step", protocol=protocol):
            return p[f"{level.link}_{shape}_{protocol}"] * level.scale if level else 0.0

        simple = protocol == "simple"
        base = p[f"{'network' if outer else 'node'}_base_{protocol}"] * far.scale
        payload = p[f"payload_{protocol}"] * 1e3
        near, out = inner.gbs * payload if inner else math.inf, outer.gbs * k * payload if outer else math.inf
        rate = min(near, out)
        if kind in PEERS:
            if protocol == "ll128":
                continue
            us = hop(far) + (base if outer else p[f"peer_base_{protocol}"] * far.scale)
            if kind != "all_to_all":
                found.append((us, bus_factor(kind, n) / (far.gbs * payload)))
            else:
                found.append((us, (k - 1) / n / near + (n - k) / n / (out / k)))
            continue
        crossing = passes * (nodes - 1) if outer else 0
        own = 1 / n / (inner.gbs * 1e3 * p["local_copy"]) if not outer and inner.link == "nvlink" and kind not in ROOTED else 0.0
        found.append((base + crossing * hop(outer) + (passes * (n - 1) - crossing) * hop(inner), bus_factor(kind, n) / rate + own))
        if kind != "all_reduce":
            continue
        depth = math.floor(math.log2(nodes))
        found.append((base + 2 * ((k - 1) * hop(inner, "tree") + (depth * hop(outer, "tree") if outer else 0)), 2 / (rate * p["tree_share"])))
        if inner is None or not inner.nvls or not simple or (not outer and n < 3):
            continue
        inside = (k + 1) / k / (near * p["nvls_share"])
        between = 2 / (out * p["tree_share"]) if outer else 0.0
        found.append((base + p["nvls_base"] * inner.scale + (2 * depth * hop(outer, "tree") if outer else 0), max(inside, between)))
    return found


def predicted_us(p, curve, inner, outer):
    us = np.min([a + w * curve.bytes for a, w in candidates(p, curve.kind, curve.ranks, curve.per_node, inner, outer)], axis=0)
    return np.maximum(us, (outer or inner).floor_us)


def calibrate(p, level, curve):
    """The level by which the curve's smallest and largest message come out; nodes of one GPU, or one node. All candidates grow with the scale and fall
    with the bandwidth, so the least of them meets a time where the first of them does. A small message that takes longer than the slowest steps do waited
    for its launch: that becomes a floor, and steps take what they usually do."""
    level = dataclasses.replace(level, gbs=1.0, scale=1.0, floor_us=0.0)
    network = level.link == "network"
    small_bytes, small_us, large_bytes, large_us = curve.bytes[0], curve.us[0], curve.bytes[-1], curve.us[-1]
    unit = dataclasses.replace(level)
    parts = candidates(p, curve.kind, curve.ranks, curve.per_node, None if network else unit, unit if network else None)
    for _ in range(8):
        level.gbs = min((w * large_bytes / (large_us - a * level.scale) for a, w in parts if large_us > a * level.scale), default=1e5)
        scale = max((small_us - w * small_bytes / level.gbs) / a for a, w in parts)
        host = not network and scale > p["slowest"]
        level.floor_us = small_us if host else 0.0
        level.scale = p[f"{level.link}_usual_scale"] if host else max(scale, 1e-3)
    return level
