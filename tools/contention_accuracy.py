#!/usr/bin/env python3
"""Kernels that run while a collective holds some of the SMs, as predicted from their grids and as measured.

usage: tools/contention_accuracy.py [--gate] [--update-limits] [--rows]

data/h200-jobs/contention.jsonl.gz holds kernels alone and next to five collectives of 1, 2 and 4 thread blocks, on two ranks. Their time
next to a collective is predicted from their time alone on the same rank, by the law of src/hardware/contention.cpp
(build/tools/foretrace_laws.so). Both ranks compute in either case, so they share the memory alike. A pair is a kernel and a
collective: its error is the mean over its ranks. --gate fails where a mean or the worst pair grew beyond tools/contention_limits.json, or
has no limit there, and where pairs are gone. Exit 77: the library is not built.
"""

import collections
import gzip
import json
import math
import pathlib
import statistics
import sys

import gates
import laws
from truth import ROOT

PAIRS = ROOT / "data" / "h200-jobs" / "contention.jsonl.gz"
LIMITS = pathlib.Path(__file__).resolve().parent / "contention_limits.json"
DEVICE = "H200-SXM"
SLACK_PCT = 0.1
WANTED = {"products": 10}  # percent, on average


def measured():
    """Of every rank: the name of the pair, the kernel's row alone, and its row next to the collective."""
    rows = [json.loads(line) for line in gzip.open(PAIRS, "rt")]
    alone = {(r["label"], r["mark"].partition("|")[0], r["rank"]): r for r in rows if r["mode"] == "alone" and r["parts"]}
    for row in rows:
        kernel, _, collective = row["mark"].partition("|")
        base = alone.get((row["label"], kernel, row["rank"]))
        if row["mode"] == "beside" and base and all("us" in p for p in row["parts"]) and [p["kernel"] for p in base["parts"]] == [p["kernel"] for p in row["parts"]]:
            yield f"{kernel}, {collective}, {row['max_ctas']} blocks", base, row


def predicted_us(base, taken):
    """The sum over the kernels of an operation."""
    total = 0.0
    for part in base["parts"]:
        blocks = math.prod(part["grid"]) if part["grid"] else 0  # a copy has none, and goes on as before
        row = [part["us"], blocks, base.get("m", 0), base.get("n", 0), base["sms"], taken]
        total += laws.evaluate(f"contention {part['kernel']}", "", DEVICE, [[x] for x in row])[0]
    return total


def main():
    parser = gates.parser(__doc__, None)
    parser.add_argument("--rows", action="store_true", help="every pair")
    args = parser.parse_args()
    pairs = collections.defaultdict(list)
    for name, base, row in measured():
        us = sum(part["us"] for part in row["parts"])
        before = sum(part["us"] for part in base["parts"])
        now = predicted_us(base, row["collective"]["grid"][0])
        kind = f"{row['kind']}s" if row["kind"] == "product" else row["kind"]
        pairs[(kind, row.get("type", ""), int(row["max_ctas"]), name)].append((abs(100 * (now / us - 1)), us / before, now / before, base))
    groups: dict[str, list[float]] = collections.defaultdict(list)
    for (kind, dtype, blocks, name), ranks in sorted(pairs.items()):
        error = statistics.mean(r[0] for r in ranks)
        for group in {kind, f"{kind} {dtype}".strip(), f"{kind}, collectives of {blocks} blocks"}:
            groups[group].append(error)
        if args.rows:
            slower, thought = statistics.mean(r[1] for r in ranks), statistics.mean(r[2] for r in ranks)
            print(f"{error:6.1f} %  {slower:5.2f} x measured  {thought:5.2f} x predicted  {name}  "
                  f"{' + '.join(p['kernel'][:70] + str(p['grid']) for p in ranks[0][3]['parts'])}")
    print(f"{'':36} {'pairs':>6} {'mean':>8} {'median':>8} {'worst':>8}")
    reached = {}
    for group, values in sorted(groups.items()):
        reached[group] = {"mean_pct": statistics.mean(values), "worst_pct": max(values)}
        print(f"{group:36} {len(values):6} {statistics.mean(values):7.1f}% {statistics.median(values):7.1f}% {max(values):7.1f}%"
              + (f"  (wanted {WANTED[group]} %)" if group in WANTED else ""))
    bad = []
    names = sorted(name for *_, name in pairs)
    if args.update_limits:
        gates.save(LIMITS, gates.rounded({"figures": dict(sorted(reached.items())), "pairs": names}))
    held = gates.load(LIMITS)
    for group, now in reached.items():
        bad += gates.over(group, now, held.get("figures", {}).get(group, {}), SLACK_PCT)
    bad += gates.vanished(PAIRS.name, names, held.get("pairs", []))
    return gates.verdict(bad, args.gate)


if __name__ == "__main__":
    sys.exit(main())
