#!/usr/bin/env python3
"""Checks that a file is a Chrome JSON trace that viewers draw as it is meant, and counts what it holds.

    tools/check_chrome_trace.py FILE…

Slices of a track nest or follow each other (viewers drop or misplace what overlaps), every arrow has one tail and one head
that each lie in a slice, every track has a name and a place, no thread id is used in two processes, no time is negative.
Times are compared as exact nanoseconds.
"""

import bisect
import collections
import gzip
import json
import sys
from decimal import Decimal


def ns(value) -> int:
    return int(Decimal(str(value)) * 1000)


def problems(document):
    events = document["traceEvents"]
    tracks, flows, named, placed = collections.defaultdict(list), collections.defaultdict(list), {}, set()
    owner: dict = {}
    for number, e in enumerate(events):
        missing = [k for k in ("ph", "name", "pid", "tid") if k not in e]
        if missing:
            yield f"event {number} lacks {', '.join(missing)}"
            continue
        if e["ph"] == "M":
            if e["name"] == "thread_name":
                named[e["pid"], e["tid"]] = e["args"]["name"]
            if e["name"] == "thread_sort_index":
                placed.add((e["pid"], e["tid"]))
            continue
        if owner.setdefault(e["tid"], e["pid"]) != e["pid"]:
            yield f"thread {e['tid']} is used in processes {owner[e['tid']]} and {e['pid']}"
        if e["ts"] < 0 or e.get("dur", 0) < 0:
            yield f"event {number} has a negative time"
        if e["ph"] == "X":
            tracks[e["pid"], e["tid"]].append((ns(e["ts"]), -ns(e["dur"]), number))
        elif e["ph"] in "sf":
            flows[e["id"]].append(e)
        else:
            yield f"event {number} has phase {e['ph']!r}"
    for track, slices in tracks.items():
        if track not in named or track not in placed:
            yield f"track {track} has no name or no place"
        slices.sort()
        open_ends: list = []
        for start, minus_duration, number in slices:
            end = start - minus_duration
            while open_ends and open_ends[-1] <= start:
                open_ends.pop()
            if open_ends and end > open_ends[-1]:
                yield f"slice {number} ({events[number]['name']}) overlaps the one before it on {named.get(track)}"
            open_ends.append(end)
    starts = {track: [s[0] for s in slices] for track, slices in tracks.items()}
    for flow, ends in flows.items():
        if sorted(e["ph"] for e in ends) != ["f", "s"]:
            yield f"arrow {flow} does not have one tail and one head"
            continue
        for e in ends:
            if e["ph"] == "f" and e.get("bp") != "e":
                yield f"arrow {flow} does not bind to the slice around its head"
            at, track = ns(e["ts"]), (e["pid"], e["tid"])
            i = bisect.bisect_right(starts.get(track, []), at) - 1
            if i < 0 or at > tracks[track][i][0] - tracks[track][i][1]:
                yield f"arrow {flow} ({e['name']}) ends in no slice"
        if ns(next(e for e in ends if e["ph"] == "f")["ts"]) < ns(next(e for e in ends if e["ph"] == "s")["ts"]):
            yield f"arrow {flow} ({ends[0]['name']}) points back in time"


def main(files) -> int:
    failed = False
    for file in files:
        data = open(file, "rb").read()
        document = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
        found = list(problems(document))
        for problem in found[:10]:
            print(f"{file}: {problem}")
        failed |= bool(found)
        count = collections.Counter(e["ph"] for e in document["traceEvents"])
        print(f"{file}: {len(found)} problems; {count['X']} slices, {count['s']} arrows, "
              f"{sum(e['name'] == 'thread_name' for e in document['traceEvents'])} tracks")
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
