"""What was measured of a kind of host (data/h200-clean): CPU time of the phases of traces, the speed each trace was made at, and
micro-benchmarks. tools/fit_host.py makes figures of them."""

import functools
import math
import re
import subprocess
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import numpy as np
from truth import ROOT, csv_rows, read_rows

DATA = ROOT / "data" / "h200-clean"
HOOKS = ROOT / "data" / "h200-hooks"
PHASES = ("forward", "backward", "update")
# µs of the loop timed with every micro-benchmark when the host is at its fastest: speed 1.
FAST_LOOP_US = 11.3
# Calls that show a trace's speed, and how much of it a launch shows next to an allocation.
SPEED_CALLS = {"cudaLaunchKernel": "launch", "aten::empty": "empty"}
WORKING = ("LaunchKernel", "Memcpy", "Memset", "GraphLaunch")
ENOUGH = 6
USUAL_SPEED = 1.45


@dataclass
class Phase:
    """CPU time of one phase as traced, what the profiler recorded in it, and calls that tell the speed. µs."""

    us: float = 0.0
    ops: int = 0
    calls: int = 0
    working: int = 0  # of these, calls that give the GPU work
    layers: int = 0
    frames: int = 0
    launches: int = 0
    generated: int = 0  # kernels of a compiler among those it launched
    rooms: list[float] = field(default_factory=list)  # for each call that gives the GPU no work: itself and what follows until the next event
    gpu_us: float = 0.0  # of the kernels and copies it launched
    shown: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))


def phases_of(program: Path, trace: Path) -> dict[str, Phase]:
    """From the graph the program builds: costs are work, waits are left out."""
    text = subprocess.run([str(program), "graph", "dump", str(trace), "--quiet"], capture_output=True, text=True, check=True).stdout
    out = {p: Phase() for p in PHASES}
    lane = ""
    main = None
    room: list[float] | None = None  # of the call just seen, while nothing else was recorded
    for line in text.splitlines():
        if line.startswith("lane "):
            lane, room = line, None
            main = main or line
            continue
        if line.startswith("task ") and lane.startswith("lane gpu"):
            value = dict(re.findall(r" ([a-z_]+)=([^\s\"]+)", line))
            phase = out[{"optimizer": "update", "backward": "backward"}.get(value.get("phase", ""), "forward")]
            phase.gpu_us += int(value.get("cost", 0)) / 1e3
            phase.generated += '"triton_' in line
            continue
        if not line.startswith("task ") or not lane.startswith("lane cpu"):
            continue
        kind = line.split(" ", 3)[2]
        name = re.search(r'"((?:[^"\\]|\\.)*)"', line)
        value = dict(re.findall(r" ([a-z_]+)=([^\s\"]+)", line))
        phase = out["update" if value.get("phase") == "optimizer" else "forward" if lane is main else "backward"]
        cost = int(value.get("cost", 0)) / 1e3
        phase.us += cost
        recorded = any(int(value.get(count, 0)) for count in ("ops", "calls", "layers", "frames"))
        if room is not None and not recorded:
            room[-1] += cost
        room = None
        for count in ("ops", "calls", "layers", "frames"):
            setattr(phase, count, getattr(phase, count) + int(value.get(count, 0)))
        if kind == "call" and name and "LaunchKernel" in name[1]:
            phase.launches += 1
        if kind == "call" and name and any(work in name[1] for work in WORKING):
            phase.working += 1
        elif kind == "call":
            phase.rooms.append(cost)
            room = phase.rooms
        if name and name[1] in SPEED_CALLS and (kind == "call") == (name[1] == "cudaLaunchKernel"):
            phase.shown[SPEED_CALLS[name[1]]].append(cost)
    return out


@functools.cache
def rows() -> list[dict]:
    return read_rows(DATA)


def read_traces(program: Path) -> list[tuple[dict, dict | None, dict[str, Phase]]]:
    """Rows with a trace that are no CUDA graph, the base measured again where the row is one, and what the trace shows."""
    again = {r["model"]: r for r in rows() if r["variant"] == "again"}
    return [(r, again.get(r["model"]) if r["variant"] == "base" else None, phases_of(program, DATA / r["trace"]))
            for r in rows() if r.get("trace") and "graph" not in r["variant"]]


# -- the speed a trace was made at


def speed_references(traces: list) -> dict[str, float]:
    """Median µs of the calls in phases made at full speed: the fastest quarter; and how a launch follows an allocation."""
    pairs = [(median(p.shown["launch"]), median(p.shown["empty"])) for _, _, phases in traces for p in phases.values()
             if len(p.shown["launch"]) >= ENOUGH and len(p.shown["empty"]) >= ENOUGH]
    launch, empty = (np.array(v) for v in zip(*pairs))
    fast = empty <= np.quantile(empty, 0.4)
    slow = empty >= np.quantile(empty, 0.7)
    follows = math.log(np.median(launch[slow]) / np.median(launch[fast])) / math.log(np.median(empty[slow]) / np.median(empty[fast]))
    return {"launch_call_us": float(np.median(launch[fast])), "launch_follows": follows, "empty_us": float(np.median(empty[fast])),
            "speed_samples": len(pairs)}


def speeds(phases: dict[str, Phase], ref: dict[str, float]) -> dict[str, float]:
    out = {}
    for name, p in phases.items():
        parts = []
        if len(p.shown["launch"]) >= ENOUGH:
            parts.append(math.log(median(p.shown["launch"]) / ref["launch_call_us"]) / ref["launch_follows"])
        if len(p.shown["empty"]) >= ENOUGH:
            parts.append(math.log(median(p.shown["empty"]) / ref["empty_us"]))
        if parts:
            out[name] = math.exp(sum(parts) / len(parts))
    # Forward and update share a thread: the first that is known stands for what is not.
    return {p: out.get(p, next(iter(out.values()))) for p in phases} if out else {}


# -- micro-benchmarks


def cases() -> dict[tuple[str, str, str], list[float]]:
    """µs at speed 1 of every round, by kind, name and mode."""
    out = defaultdict(list)
    for r in csv_rows(DATA / "cases.csv.gz") + csv_rows(HOOKS / "cases.csv"):
        speed = math.sqrt(float(r["loop_before"]) * float(r["loop_after"])) / FAST_LOOP_US
        out[r["kind"], r["name"], r["mode"]].append(float(r["us"]) / speed)
    return out
