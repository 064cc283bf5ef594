#!/usr/bin/env python3
"""What steps and protocols of collectives cost: src/hardware/fabrics/protocols.csv.

    tools/fit_collectives.py [--check]

Steps are those of NCCL's own tuning model (PUBLISHED). The rest is fitted to the published runs in $FORETRACE_PUBLIC (`collectives.csv.gz`, `parallel/collectives-more.csv.gz`): a search for
the least error of log time, each curve counted once, every system with the bandwidth and the latency that two points of one of its collectives
give. The table states the error of each level, in sample and with the system left out. Spreads are such that a band of 80 % holds 80 % of messages of a
megabyte and more. Exit 77: the runs are not there. data/h200-ranks has no part in it: loopback sockets on one GPU are no link of a fabric.
"""

import collections
import json
import subprocess
import sys

import collective_systems as law
import fitted
import numpy as np
from truth import ROOT

FABRICS = ROOT / "src" / "hardware" / "fabrics"
TABLE = FABRICS / "protocols.csv"
NCCL = "NCCL src/graph/tuning.cc"
BAND = 1.2816  # standard deviations to either side of a band of 80 %
LARGE = 1 << 20  # bytes


def by_protocol(name, values):
    return {f"{name}_{protocol}": v for protocol, v in zip(law.PROTOCOLS, values)}


# us by protocol (LL, LL128, Simple), and shares: NCCL's tables of latencies, and what it takes a tree to reach of a ring.
PUBLISHED = (
    by_protocol("network_base", (6.6, 14.0, 8.4))
    | by_protocol("nvlink_step", (0.6, 1.9, 3.4))
    | by_protocol("nvlink_tree", (0.6, 1.25, 4.0))
    | by_protocol("pcie_step", (1.0, 2.5, 5.7))
    | by_protocol("pcie_tree", (1.0, 1.9, 4.0))
    | by_protocol("network_step", (2.7, 4.0, 14.0))
    | by_protocol("network_tree", (5.0, 8.5, 14.0))
    | {"nvls_base": 25.0, "tree_share": 0.92, "network_typical_scale": 1.0}
)
DEFINED = {"payload_simple": 1.0}  # no flags with the data
# Where the search starts: NCCL's figures for rings, what LL (a flag with every 4 bytes) and LL128 (8 bytes of 128) leave at best, round numbers otherwise.
START = (
    by_protocol("node_base", (6.6, 14.0, 8.4))
    | {"peer_base_ll": 6.6, "peer_base_simple": 8.4, "payload_ll": 0.5, "payload_ll128": 0.938, "nvls_share": 0.9, "peers_share": 0.9, "local_copy": 2.0, "slowest": 2.0}
)
SHARES = ("payload_ll", "payload_ll128", "nvls_share", "peers_share")
STEPS = (1.3, 1.1, 1.03)  # of the search, coarse to fine
ROUNDS = 40


def missed(p, systems):
    """Mean over curves of the mean error of log time; a factor of e is an error like any larger one."""
    errors = [float(np.minimum(np.abs(e), 1).mean()) for s in systems for _, _, e in s.errors(p)]
    return sum(errors) / len(errors)


def search(systems):
    p = PUBLISHED | DEFINED | START | {"nvlink_typical_scale": 1.0, "pcie_typical_scale": 1.0}
    least = missed(p, systems)
    for step in STEPS:
        for _ in range(ROUNDS):
            before = least
            for name in START:
                for factor in (step, 1 / step):
                    other = p | {name: float(f"{p[name] * factor:.3g}")}
                    if name in SHARES and other[name] > 1:
                        continue
                    if (error := missed(other, systems)) < least - 1e-6:
                        p, least = other, error
            if before - least < 1e-5:
                break
    return p | {f"{link}_typical_scale": float(f"{typical_scale(p, systems, link):.3g}") for link in ("nvlink", "pcie")}


def scales(p, systems, link):
    """Latencies of systems over NCCL's, where the smallest message did not wait for its launch."""
    levels = [s.levels(p).get(link) for s in systems]
    return [level.scale for level in levels if level and level.floor_us == 0]


def typical_scale(p, systems, link):
    found = scales(p, systems, link)
    return float(np.median(found)) if found else 1.0


def spread(curves):
    """Of log time; each curve counts once."""
    values = np.concatenate([np.abs(e) for e in curves])
    weights = np.concatenate([np.full(len(e), 1 / len(e)) for e in curves])
    order = np.argsort(values, kind="stable")
    return float(values[order][np.searchsorted(np.cumsum(weights[order]), 0.8 * weights.sum())]) / BAND


def by_file(p, systems):
    """Errors of log time, large messages, where nothing of a system is known but the fabric it is of."""
    found = [(c, e) for s in systems for _, c, e in law.errors_by_file(p, s)]
    return [e[c.bytes >= LARGE] for c, e in found if (c.bytes >= LARGE).any()]


def of_program(program, systems):
    """{"five sizes", "derived": errors of log time of each curve, large messages}"""
    with law.files_for_program(systems) as files:
        done = subprocess.run([program, *files], capture_output=True, text=True, check=True)
    found: dict = collections.defaultdict(lambda: collections.defaultdict(list))
    for line in done.stdout.splitlines():
        r = json.loads(line)
        if r["bytes"] >= LARGE:
            key = (r["system"], r["level"], r["coll"], r["ranks"], r["per_node"])
            found[r["how"]][key].append(float(np.log(r["predicted_ms"] / r["ms"])))
    return {how: [np.array(e) for e in curves.values()] for how, curves in found.items()}


def medians(p, systems):
    """{level: median error of each curve, %}"""
    out = collections.defaultdict(list)
    for s in systems:
        for level, _, e in s.errors(p):
            out[level].append(100 * float(np.median(np.abs(np.exp(e) - 1))))
    return out


def rows_of(systems, whole, program):
    p = search(systems)
    inside = medians(p, whole)
    left_out: dict[str, list] = collections.defaultdict(list)
    for i, s in enumerate(whole):
        for level, errors in medians(search(systems[:i] + systems[i + 1 :]), [s]).items():
            left_out[level] += errors
    measured, described = of_program(program, whole), by_file(p, whole)
    spreads = {"fabric_spread": described, "measured_spread": measured["five sizes"], "derived_spread": measured["derived"]}
    rows = ["# name,value,source: made by tools/fit_collectives.py, which says what each is"]
    for level in ("nvlink", "pcie", "bridged", "network"):
        names = f"{len(inside[level])} curves over {level}"
        rows.append(f"# {names}, a bandwidth and a latency known: {np.median(inside[level]):.1f} % median; their system left out {np.median(left_out[level]):.1f} %")
    rows += [f"{name},{p[name]:g},{NCCL}" for name in PUBLISHED]
    rows += [f"{name},{p[name]:g},definition" for name in DEFINED]
    rows += [f"{name},{p[name]:g},published runs of {len(systems)} systems" for name in START]
    for link in ("nvlink", "pcie"):
        found = scales(p, systems, link)
        rows.append(f"{link}_typical_scale,{p[f'{link}_typical_scale']:g},median of {len(found)} systems from {min(found):.2f} to {max(found):.2f}")
    rows += [f"{name},{spread(curves):.3g},{len(curves)} curves" for name, curves in spreads.items()]
    return rows


def main():
    if not (folder := fitted.public_folder()) or len(tables := law.tables(folder)) < 2:
        print("fit_collectives: no published runs: set FORETRACE_PUBLIC")
        return 77

    def files(options):
        rows = rows_of(law.systems_of(tables), law.systems_of(tables, thin=False), options.program)
        if not options.check:
            print("\n".join(rows))
        return {TABLE: "\n".join(rows) + "\n"}

    return fitted.main(__doc__, files, ROOT / "build" / "tests" / "collective_figures")


if __name__ == "__main__":
    sys.exit(main())
