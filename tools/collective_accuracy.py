#!/usr/bin/env python3
"""The model of collectives against measured ones.

usage: collective_accuracy.py [--program build/tests/collective_figures] [--gate] [--update-limits] [CSV…]

Without a CSV, the published runs in the folder named by FORETRACE_PUBLIC. `two points`: for every system and level one
bandwidth and one latency come from the largest and the smallest message of one collective; sizes between, other rank counts
and other collectives are predicted. `five sizes`: five sizes of each curve measured, the others interpolated. `by its
fabric`: nothing of the system is known but the built-in fabric it is of.

`--gate` fails where a system's median error grew beyond tools/collective_limits.json or has no limit there, where curves are
gone, and where a level misses what is wanted of it (WANTED). Exit 77: there is nothing to measure against.
"""
import collections
import json
import os
import pathlib
import statistics
import subprocess
import sys

import collective_systems as systems
import gates
import numpy as np
from accuracy_tables import write_between
from truth import ROOT

LIMITS = pathlib.Path(__file__).resolve().parent / "collective_limits.json"
WANTED = {("nvlink", "two points"): 20, ("network", "two points"): 30, ("nvlink", "five sizes"): 8, ("network", "five sizes"): 8}
SLACK_PCT = 0.5
LARGE = 1 << 20  # bytes


def of_fabrics(measured):
    """[(fabric, system, curve, errors of log time)]"""
    p = {name: float(value) for name, value in protocol_rows()}
    return [(fabric, system, curve, errors) for system in measured for fabric, curve, errors in systems.errors_by_file(p, system)]


def protocol_rows():
    for line in (systems.FABRICS / "protocols.csv").read_text().splitlines():
        if not line.startswith("#"):
            yield line.split(",")[:2]


def table_of_fabrics(fabrics):
    """How far a built-in fabric is off on the systems that were measured; each curve counts once. Small messages are below a megabyte."""
    by_fabric = collections.defaultdict(list)
    for fabric, system, curve, errors in fabrics:
        by_fabric[fabric].append((system.name, curve, np.abs(np.expm1(errors)), curve.bytes >= LARGE))
    rows = ["| fabric | systems | curves | large messages | small messages |", "|---|---:|---:|---:|---:|"]
    for fabric, of in sorted(by_fabric.items()):
        large = [float(np.median(e[at])) for _, _, e, at in of if at.any()]
        small = [float(np.median(e[~at])) for _, _, e, at in of if (~at).any()]
        shown = [f"{100 * statistics.median(values):.0f} %" if values else "–" for values in (large, small)]
        rows.append(f"| {fabric} | {len({name for name, *_ in of})} | {len(of)} | {shown[0]} | {shown[1]} |")
    return rows


def main():
    parser = gates.parser(__doc__, pathlib.Path("build/tests/collective_figures"))
    parser.add_argument("csv", nargs="*")
    parser.add_argument("--update-docs", action="store_true", help="write the table into docs/internals/scale.md")
    args = parser.parse_args()
    public = os.environ.get("FORETRACE_PUBLIC")
    paths = [pathlib.Path(path) for path in args.csv] or (systems.tables(pathlib.Path(public)) if public else [])
    if not paths or not all(path.is_file() for path in paths):
        print(f"collective_accuracy: no measured collectives ({', '.join(map(str, paths))}): name tables, or set FORETRACE_PUBLIC")
        return 2 if args.csv else 77
    measured = systems.systems_of(paths, thin=False)
    with systems.files_for_program(measured) as files:
        done = subprocess.run([args.program, *files], capture_output=True, text=True, check=True)
    curves = collections.defaultdict(list)
    for line in done.stdout.splitlines():
        row = json.loads(line)
        error = 100 * abs(row["predicted_ms"] / row["ms"] - 1)
        curves[(row["how"], row["level"], row["system"], row["coll"], row["ranks"], row["per_node"])].append(error)
    fabrics = of_fabrics(measured)
    for _, system, c, errors in fabrics:
        level = "network" if c.per_node < c.ranks else system.level
        curves["by its fabric", level, system.name, c.kind, c.ranks, c.per_node] = [100 * abs(float(np.expm1(e))) for e in errors]
    # Curves are sampled at very different densities (21 sizes or 2,247): each counts once, by its median.
    by_system = collections.defaultdict(list)
    by_level = collections.defaultdict(list)
    for (how, level, system, *_), errors in curves.items():
        by_system[(how, level, system)].append(statistics.median(errors))
        by_level[(level, how)].append(statistics.median(errors))
    print(f"{'how':12} {'level':8} {'system':28} {'curves':>6} {'median':>8} {'worst curve':>12}")
    for (how, level, system), medians in sorted(by_system.items()):
        print(f"{how:12} {level:8} {system:28} {len(medians):6} {statistics.median(medians):7.1f}% {max(medians):11.1f}%")
    print()
    bad = []
    table = ["| level | from | curves | median error | wanted |", "|---|---|---:|---:|---:|"]
    for (level, how), medians in sorted(by_level.items()):
        median, wanted = statistics.median(medians), WANTED.get((level, how))
        if wanted is not None and median > wanted:
            bad.append(f"{level}, {how}: median error {median:.1f} %, {wanted} % wanted")
        table.append(f"| {level} | {how} | {len(medians)} | {median:.1f} % | {f'{wanted} %' if wanted else '–'} |")
        print(f"{how:12} {level:8} median of {len(medians):3} curves {median:5.1f} %" + (f"  (wanted {wanted} %)" if wanted else ""))
    reached = {", ".join(key): {"median_pct": statistics.median(medians), "worst_pct": max(medians)} for key, medians in by_system.items()}
    names = [", ".join(map(str, key)) for key in curves]
    if args.update_docs:
        page = ROOT / "docs" / "internals" / "scale.md"
        write_between(page, "collectives", "\n".join(table))
        write_between(page, "fabrics", "\n".join(table_of_fabrics(fabrics)))
    if args.update_limits:
        gates.save(LIMITS, gates.rounded({"figures": dict(sorted(reached.items())), "curves": sorted(names)}))
    held = gates.load(LIMITS)
    for key, now in reached.items():
        bad += gates.over(key, now, held.get("figures", {}).get(key, {}), SLACK_PCT)
    bad += gates.vanished("published runs", names, held.get("curves", []))
    return gates.verdict(bad, args.gate)


if __name__ == "__main__":
    sys.exit(main())
