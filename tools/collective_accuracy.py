#!/usr/bin/env python3
"""The model of collectives against measured ones.

usage: collective_accuracy.py [--program build/tests/collective_figures] [--gate] [--update-limits] [CSV]

Without a CSV, collectives.csv.gz of the folder named by FORETRACE_PUBLIC. For every system and level one bandwidth and one
latency come from the largest and the smallest message of one collective; sizes between, other rank counts and other
collectives are predicted. `five sizes`: five sizes of each curve measured, the others interpolated.

`--gate` fails where a system's median error grew beyond tools/collective_limits.json or has no limit there, where curves are
gone, and where a level misses what is wanted of it (WANTED). Exit 77: there is nothing to measure against.
"""
import argparse
import collections
import json
import os
import pathlib
import statistics
import subprocess
import sys

import limits
from scale_accuracy import update_docs

LIMITS = pathlib.Path(__file__).resolve().parent / "collective_limits.json"
WANTED = {("nvlink", "two points"): 20, ("network", "two points"): 30, ("nvlink", "five sizes"): 8, ("network", "five sizes"): 8}
SLACK_PCT = 0.5


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("csv", nargs="?")
    parser.add_argument("--program", default="build/tests/collective_figures")
    parser.add_argument("--update-docs", action="store_true", help="write the table into docs/internals/scale.md")
    parser.add_argument("--gate", action="store_true", help="exit 1 when a median is over its limit or curves are gone")
    parser.add_argument("--update-limits", action="store_true", help="write what is reached as the limits of --gate")
    args = parser.parse_args()
    public = os.environ.get("FORETRACE_PUBLIC")
    csv = pathlib.Path(args.csv) if args.csv else pathlib.Path(public) / "collectives.csv.gz" if public else None
    if csv is None or not csv.is_file():
        print(f"collective_accuracy: no measured collectives ({csv}): name a CSV, or set FORETRACE_PUBLIC")
        return 2 if args.csv else 77
    done = subprocess.run([args.program, str(csv)], capture_output=True, text=True, check=True)
    curves = collections.defaultdict(list)
    for line in done.stdout.splitlines():
        row = json.loads(line)
        error = 100 * abs(row["predicted_ms"] / row["ms"] - 1)
        curves[(row["how"], row["level"], row["system"], row["coll"], row["ranks"], row["per_node"])].append(error)
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
        update_docs("collectives", table)
    if args.update_limits:
        limits.save(LIMITS, limits.rounded({"figures": dict(sorted(reached.items())), "curves": sorted(names)}))
    held = limits.load(LIMITS)
    for key, now in reached.items():
        bad += limits.over(key, now, held.get("figures", {}).get(key, {}), SLACK_PCT)
    bad += limits.vanished(csv.name, names, held.get("curves", []))
    for line in bad if args.gate else []:
        print(f"FAILED {line}")
    return 1 if bad and args.gate else 0


if __name__ == "__main__":
    sys.exit(main())
