#!/usr/bin/env python3
"""Counts the events of Chrome-style traces per phase and category with Python's json: slow, simple, independent.

    tools/count_events.py trace.json.gz …                               print the counts
    tools/count_events.py --against build/foretrace trace.json.gz …     compare with `foretrace doctor --json`; exit 1
                                                                        when any count differs

Nothing here shares code with foretrace's importer, which is the point: "no event was lost" means that both agree.
Begin/end pairs (B, E) count as in the file; foretrace turns each pair's B into a complete event.
"""

import argparse
import collections
import gzip
import json
import subprocess
import sys
from pathlib import Path


def read_json(path: Path):
    data = path.read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    elif data[:4] == b"\x28\xb5\x2f\xfd":
        data = subprocess.run(["zstd", "-dc"], input=data, stdout=subprocess.PIPE, check=True).stdout
    return json.loads(data)


def events_of(path: Path) -> list:
    document = read_json(path)
    return document if isinstance(document, list) else document["traceEvents"]


def count_events(path: Path) -> dict:
    """{"events": n, "by_category": {cat: n}, "by_phase": {ph: n}, "by_both": {"ph cat": n}}; "" for a missing cat."""
    both = collections.Counter((e.get("ph", ""), e.get("cat", "")) for e in events_of(path))
    category: collections.Counter[str] = collections.Counter()
    phase: collections.Counter[str] = collections.Counter()
    for (ph, cat), n in both.items():
        category[cat] += n
        phase[ph] += n
    return {
        "events": sum(both.values()),
        "by_category": dict(category.most_common()),
        "by_phase": dict(phase.most_common()),
        "by_both": {f"{ph} {cat}".strip(): n for (ph, cat), n in both.most_common()},
    }


def doctor_counts(program: str, path: Path) -> dict:
    """What foretrace counted, in the shape of count_events."""
    done = subprocess.run([program, "doctor", "--json", path], stdout=subprocess.PIPE, check=False)
    if done.returncode not in (0, 4):  # 4: read well, but nothing can be predicted from it
        done.check_returncode()
    report = json.loads(done.stdout)
    report = report["traces"][0] if "traces" in report else report
    return {"events": report["events"], "by_category": report["categories"],
            "lost": report["lost_records"]}


def difference(expected: dict, found: dict) -> list[str]:
    """One sentence per count that differs."""
    said = []
    if expected["events"] != found["events"]:
        said.append(f"{expected['events']} events in the file, {found['events']} read")
    for cat in sorted(expected["by_category"].keys() | found["by_category"].keys()):
        a, b = expected["by_category"].get(cat, 0), found["by_category"].get(cat, 0)
        if a != b:
            said.append(f"category {cat!r}: {a} in the file, {b} read")
    return said


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", metavar="PROGRAM", help="compare with what this foretrace counts")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("traces", nargs="+", type=Path)
    options = parser.parse_args()
    bad = 0
    for path in options.traces:
        counts = count_events(path)
        if options.against:
            said = difference(counts, doctor_counts(options.against, path))
            print(f"{path}: {counts['events']} events: {'equal' if not said else '; '.join(said)}")
            bad += bool(said)
        elif options.json:
            print(json.dumps({"file": str(path), **counts}))
        else:
            print(f"{path}: {counts['events']} events")
            for name, n in counts["by_both"].items():
                print(f"  {n:>10}  {name}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
