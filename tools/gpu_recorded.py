"""A step that moved to another GPU, as the profiler's trace of that GPU: what was recorded, with that GPU's properties and times.

Only the step that the program chooses stays. Work on the GPU begins and lasts as simulated there; calls of a thread begin and end where the simulated thread
is as far.
"""

import bisect
import csv
import gzip
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import tomllib

DEVICES = pathlib.Path(__file__).resolve().parent.parent / "src" / "hardware" / "devices"
SAME_US = 0.002  # the table of tasks is in nanoseconds
GPU_WORK = ("kernel", "gpu_memcpy", "gpu_memset")


def properties(gpu):
    """What the profiler says of a GPU."""
    device = tomllib.loads((DEVICES / f"{gpu}.toml").read_text())
    compute, (major, minor) = device["compute"], device["compute"]["capability"].split(".")
    return {
        "id": 0, "name": device["driver_names"][0], "totalGlobalMem": int(device["memory"].get("reported_gb", device["memory"]["gb"]) * 1e9),
        "computeMajor": int(major), "computeMinor": int(minor), "maxThreadsPerBlock": 1024, "maxThreadsPerMultiprocessor": compute["threads_per_sm"],
        "regsPerBlock": 65536, "warpSize": 32, "sharedMemPerBlock": 49152, "numSms": compute["sms"],
    }  # fmt: skip


def tasks(program, trace, gpu):
    """The step's name and its tasks: when each began as recorded, and when it begins and ends on `gpu`."""
    with tempfile.TemporaryDirectory() as scratch:
        file = pathlib.Path(scratch) / "step.csv"
        command = [str(program), "export", str(trace), f"gpu:to={gpu}", "--format", "csv", "-o", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{trace}: {done.stderr.strip()}")
        lines = file.read_text().splitlines()
    step = re.search(r"ProfilerStep#\d+", done.stdout + done.stderr)
    if step is None:
        sys.exit(f"{trace}: no step is named")
    head = next(i for i, line in enumerate(lines) if line.startswith("task,"))
    return step.group(), list(csv.DictReader(lines[head:]))


class Clock:
    """Where a thread's recorded time (us) is in its simulated time. Where the thread stands still before a task, as at a full launch queue, the call that
    the task is begins before that and ends after it."""

    def __init__(self, rows):
        rows = sorted(rows, key=lambda row: (int(row["measured_start_ns"]), int(row["task"])))
        self.points, before = [], 0.0
        for row in rows:
            at, there = int(row["measured_start_ns"]) / 1e3, int(row["start_ns"]) / 1e3
            self.points += [(at, before), (at, max(before, there))]
            before = max(before, int(row["end_ns"]) / 1e3)
        self.points.append((self.points[-1][0] + (before - self.points[-1][1]), before))

    def __call__(self, time, ends=False):
        found = bisect.bisect_right(self.points, (time + SAME_US, float("inf"))) if ends else bisect.bisect_left(self.points, (time - SAME_US, 0.0))
        if found == len(self.points):
            return self.points[-1][1] + time - self.points[-1][0]
        (to, then) = self.points[found]
        if not ends and abs(to - time) <= SAME_US:
            return then
        (since, there) = self.points[max(found - 1, 0)]
        return there + (then - there) * min(1.0, max(0.0, (time - since) / max(to - since, 1e-3)))


def clocks(rows):
    """By thread; the thread with most tasks also stands for threads without any."""
    lanes: dict[int, list[dict[str, str]]] = {}
    for row in rows:
        if found := re.match(r"thread (\d+)", row["lane"]):
            lanes.setdefault(int(found[1]), []).append(row)
    usual = max(lanes, key=lambda tid: len(lanes[tid]))
    by_thread = {tid: Clock(mine) for tid, mine in lanes.items()}
    return by_thread, by_thread[usual]


def of_step(events, step):
    """When the step begins, and its events with what they launched."""
    mark = next(e for e in events if e.get("name") == step and e.get("cat") == "user_annotation")
    begin, end = float(mark["ts"]), float(mark["ts"]) + float(mark["dur"])

    def inside(event):
        return "ts" in event and begin <= float(event["ts"]) <= end

    launched = {e["args"]["correlation"] for e in events if e.get("cat") in ("cuda_runtime", "cuda_driver") and inside(e)}
    kept = []
    for event in events:
        if event.get("cat") in GPU_WORK:
            mine = event["args"].get("correlation") in launched
        elif event.get("cat") == "ac2g":
            mine = event.get("id") in launched
        else:
            mine = event.get("ph") == "M" or (inside(event) and event.get("cat") != "gpu_user_annotation")
        if mine:
            kept.append(event)
    return begin, kept


def write(program, trace, gpu, path):
    step, rows = tasks(program, trace, gpu)
    whole = json.loads(gzip.open(trace).read())
    begin, kept = of_step(whole["traceEvents"], step)
    pieces = sorted((e for e in kept if e.get("cat") in GPU_WORK), key=lambda e: (e["args"]["stream"], float(e["ts"])))
    work = sorted((r for r in rows if r["stream"]), key=lambda r: (int(r["stream"]), int(r["measured_start_ns"]), int(r["task"])))
    if [e["args"]["stream"] for e in pieces] != [int(row["stream"]) for row in work]:
        sys.exit(f"{trace}: {len(work)} pieces of work on the GPU, {len(pieces)} recorded")
    began = {e["args"]["correlation"]: begin + int(row["start_ns"]) / 1e3 for e, row in zip(pieces, work, strict=True)}
    for event, row in zip(pieces, work, strict=True):
        event["ts"], event["dur"] = begin + int(row["start_ns"]) / 1e3, int(row["cost_ns"]) / 1e3
    by_thread, usual = clocks(rows)
    for event in kept:
        if "ts" not in event or event.get("cat") in GPU_WORK:
            continue
        if event.get("cat") == "ac2g" and event["ph"] == "f":
            event["ts"] = began.get(event["id"], event["ts"])
            continue
        clock, at = by_thread.get(event.get("tid"), usual), float(event["ts"]) - begin
        event["ts"] = begin + clock(at)
        if "dur" in event:
            event["dur"] = max(0.0, begin + clock(at + float(event["dur"]), ends=True) - event["ts"])
    whole |= {"traceEvents": kept, "deviceProperties": [properties(gpu)]}
    path.write_text(json.dumps(whole))
