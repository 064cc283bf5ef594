#!/usr/bin/env python3
"""The model of collectives against measured ones.

usage: collective_accuracy.py [--program build/tests/collective_figures] [--gate] [CSV]

Without a CSV, collectives.csv.gz of the folder named by FORETRACE_PUBLIC. For every system and level one bandwidth and one
latency come from the largest and the smallest message of one collective; sizes between, other rank counts and other
collectives are predicted. `five sizes`: five sizes of each curve measured, the others interpolated.
"""
import argparse
import collections
import json
import os
import pathlib
import statistics
import subprocess
import sys

from scale_accuracy import update_docs

LIMITS = {("nvlink", "two points"): 20, ("network", "two points"): 30, ("nvlink", "five sizes"): 8, ("network", "five sizes"): 8}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("csv", nargs="?")
    parser.add_argument("--program", default="build/tests/collective_figures")
    parser.add_argument("--update-docs", action="store_true", help="write the table into docs/scale.md")
    parser.add_argument("--gate", action="store_true", help="exit 1 when a median is over its limit")
    args = parser.parse_args()
    csv = args.csv or (pathlib.Path(os.environ["FORETRACE_PUBLIC"]) / "collectives.csv.gz" if "FORETRACE_PUBLIC" in os.environ else None)
    if csv is None:
        print("no measured collectives: name a CSV, or set FORETRACE_PUBLIC")
        return 0
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
    failed = False
    table = ["| level | from | curves | median error | limit |", "|---|---|---:|---:|---:|"]
    for (level, how), medians in sorted(by_level.items()):
        median, limit = statistics.median(medians), LIMITS.get((level, how))
        failed |= limit is not None and median > limit
        table.append(f"| {level} | {how} | {len(medians)} | {median:.1f} % | {f'{limit} %' if limit else '–'} |")
        print(f"{how:12} {level:8} median of {len(medians):3} curves {median:5.1f} %" + (f"  (limit {limit} %)" if limit else ""))
    if args.update_docs:
        update_docs("collectives", table)
    return 1 if failed and args.gate else 0


if __name__ == "__main__":
    sys.exit(main())
