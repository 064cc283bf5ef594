#!/usr/bin/env python3
"""The bubble of a pipeline's rank, counted over its recorded timeline without foretrace: the time of one step in which no compute kernel runs
while a receive does.

    tools/bubble_count.py TRACE…      ms of each step

What a kernel of sends and receives carries was recorded on the CPU before its launch (`record_param_comms`).
"""

import re
import sys
from collections import defaultdict
from pathlib import Path

from truth import trace_events

Span = tuple[float, float]


def union(spans: list[Span]) -> list[Span]:
    out: list[Span] = []
    for begin, end in sorted(spans):
        if out and begin <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((begin, end))
    return out


def overlap(a: list[Span], b: list[Span]) -> float:
    """Time in both; each is a union."""
    both, i, j = 0.0, 0, 0
    while i < len(a) and j < len(b):
        both += max(0.0, min(a[i][1], b[j][1]) - max(a[i][0], b[j][0]))
        i, j = (i + 1, j) if a[i][1] < b[j][1] else (i, j + 1)
    return both


def receives(events: list[dict]) -> set[int]:
    """Correlation ids of kernels with a receive among what the launching thread recorded since its launch before."""
    communicates = {e["args"]["correlation"] for e in events if e.get("cat") == "kernel" and "nccl" in e["name"].lower()}
    threads = defaultdict(list)
    for e in events:
        if e["name"] == "record_param_comms" and e["args"].get("Collective name") in ("send", "recv"):
            threads[e["tid"]].append((e["ts"], None, e["args"]["Collective name"]))
        elif e.get("cat") in ("cuda_runtime", "cuda_driver") and e.get("args", {}).get("correlation") in communicates:
            threads[e["tid"]].append((e["ts"], e["args"]["correlation"], ""))
    found: set[int] = set()
    for happened in threads.values():
        waiting = False
        for _, launched, name in sorted(happened, key=lambda h: h[0]):
            if launched is None:
                waiting |= name == "recv"
            else:
                found |= {launched} if waiting else set()
                waiting = False
    return found


def bubbles(trace: Path) -> list[float]:
    events = [e for e in trace_events(trace) if e.get("ph") == "X"]
    steps = sorted((e["ts"], e["ts"] + e["dur"]) for e in events
                   if e.get("cat") == "user_annotation" and re.fullmatch(r"ProfilerStep#\d+", e["name"]))
    kernels = [e for e in events if e.get("cat") == "kernel"]
    ids = receives(events)
    compute = union([(e["ts"], e["ts"] + e["dur"]) for e in kernels if "nccl" not in e["name"].lower()])
    waits = union([(e["ts"], e["ts"] + e["dur"]) for e in kernels if e["args"]["correlation"] in ids])
    out = []
    for begin, end in steps:
        inside = [(max(begin, a), min(end, b)) for a, b in waits if a < end and b > begin]
        out.append((sum(b - a for a, b in inside) - overlap(inside, compute)) / 1e3)
    return out


if __name__ == "__main__":
    for path in sys.argv[1:]:
        print(path, " ".join(f"{ms:.3f}" for ms in bubbles(Path(path))))
