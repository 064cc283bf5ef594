"""What hooks cost the CPU at speed 1 (tools/fit_host.py writes it into a host's file): functions played from CUDA graphs, graphs,
tensors sent to the host. `counts` says how many operations and runtime calls each hook of fully sharded training has, from the
ranges PyTorch puts around them in a trace; what they take is in host_workers.py.
"""

import csv
import gzip
import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
SHARDED = ROOT / "data" / "h200-ranks" / "resnet50.mps.fsdp.w2.r0.json.gz"
HOOKS = ROOT / "data" / "cpu-hooks"
RECURRENT = ROOT / "data" / "h200-families" / "lstm_lm.amp.json.gz"
CPU = {"cpu_op": "ops", "user_annotation": "ops", "cuda_runtime": "calls", "cuda_driver": "calls"}
WORKING = ("Launch", "Memcpy", "Memset")  # calls that give the GPU work
Figure = tuple[float, str, float]


@dataclass
class Hook:
    """A range of PyTorch's around one hook of one unit; what lies in ranges inside it is theirs."""

    name: str
    unit: str
    thread: int
    us: float
    counts: Counter = field(default_factory=Counter)
    tensors: int = 0


def hooks_of(path: Path) -> tuple[list[Hook], dict[int, dict[str, list[float]]]]:
    """Hooks in the order of the trace, and of each thread the calls that tell its speed."""
    with gzip.open(path, "rt") as file:
        events = [e for e in json.load(file)["traceEvents"] if e.get("ph") == "X" and e.get("cat") in CPU]
    found: list[Hook] = []
    shown: dict[int, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for thread in sorted({e["tid"] for e in events}):
        open_: list[tuple[float, Hook | None]] = []
        for e in sorted((e for e in events if e["tid"] == thread), key=lambda e: (e["ts"], -e["dur"])):
            while open_ and e["ts"] >= open_[-1][0]:
                open_.pop()
            if e["name"] in ("cudaLaunchKernel", "aten::empty"):
                shown[thread][e["name"]].append(e["dur"])
            around = next((h for _, h in reversed(open_) if h), None)
            hook = None
            if e["name"].startswith("FSDP::"):
                of = re.fullmatch(r"FSDP::(\w+)(?: for (\S+))?(?: \((\S+)\))?", e["name"])
                assert of, e["name"]
                hook = Hook(of[1], of[2] or of[3] or "", thread, e["dur"], Counter(ops=1))
                found.append(hook)
                if around:
                    around.us -= e["dur"]
            elif around:
                working = CPU[e["cat"]] == "calls" and any(work in e["name"] for work in WORKING)
                around.counts["working" if working else CPU[e["cat"]]] += 1
                if e["name"] in ("fsdp::all_gather_copy_in", "fsdp::chunk_cat"):
                    around.tensors = len(e["args"]["Input Dims"][0])
            open_.append((e["ts"] + e["dur"], hook))
    tensors = {h.unit: h.tensors for h in found if h.tensors}
    for h in found:
        h.tensors = tensors.get(h.unit, 0)
    return found, shown


def least_distance(a: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The line with the smallest sum of distances: a hook now and then waits for something."""
    w = np.ones(len(y))
    fit: np.ndarray = np.zeros(a.shape[1])
    for _ in range(30):
        fit, *_ = np.linalg.lstsq(a * w[:, None], y * w, rcond=None)
        w = 1 / np.sqrt(np.maximum(1.0, np.abs(a @ fit - y)))
    return fit


def flat() -> dict[str, Figure]:
    """FullyShardedDataParallel against fully_shard, without a GPU: of a unit's time and of a tensor's."""
    with open(HOOKS / "units.csv") as file:
        rows = list(csv.DictReader(file))
    lines: dict[str, np.ndarray] = {}
    for kind in ("fully_shard", "flat"):
        mine = [r for r in rows if r["kind"] == kind]
        a = np.array([(1.0, float(r["tensors"])) for r in mine])
        y = np.array([float(r["forward_us"]) + float(r["backward_us"]) for r in mine])
        lines[kind], *_ = np.linalg.lstsq(a / y[:, None], np.ones(len(y)), rcond=None)
    of = f"{len(rows)} rounds of {len({r['tensors'] for r in rows})} sizes"
    share = lines["flat"] / lines["fully_shard"]
    return {"flat_unit_share": (float(share[0]), of, 0.0), "flat_tensor_share": (float(share[1]), of, 0.0)}


def functions(view_us: float) -> dict[str, Figure]:
    """A call of an autograd function, and each tensor it is given; at speed 1 by the view beside it."""
    with open(HOOKS / "functions.csv") as file:
        rows = list(csv.DictReader(file))
    a = np.array([(1.0, float(r["tensors"])) for r in rows])
    y = np.array([float(r["forward_us"]) / float(r["view_us"]) * view_us for r in rows])
    fit, *_ = np.linalg.lstsq(a / y[:, None], np.ones(len(y)), rcond=None)
    of = f"{len(rows)} rounds of {len({r['tensors'] for r in rows})} sizes"
    return {"function_us": (float(fit[0]), of, 0.0), "function_tensor_us": (float(fit[1]), of, 0.0)}


def recurrent(speed: Callable[[dict[str, list[float]]], float]) -> dict[str, Figure]:
    """Autocast lays the weights of a recurrent layer out anew in every pass: between two of the operations that make a view of each, cuDNN is asked
    where it belongs. Nothing is recorded in that time."""
    with gzip.open(RECURRENT, "rt") as file:
        events = [e for e in json.load(file)["traceEvents"] if e.get("ph") == "X" and e.get("cat") in CPU]
    outer = [e for e in events if e["name"] == "aten::_cudnn_rnn"]
    each = []
    for o in outer:
        inside = sorted((e for e in events if e["tid"] == o["tid"] and o["ts"] < e["ts"] < o["ts"] + o["dur"]), key=lambda e: e["ts"])
        made = [(a, b) for a, b in pairwise([e for e in inside if e["cat"] == "cpu_op"]) if (a["name"], b["name"]) == ("aten::set_", "aten::empty")]
        each += [b["ts"] - a["ts"] - a["dur"] for a, b in made]
    shown = defaultdict(list)
    for e in events:
        if e["name"] in ("cudaLaunchKernel", "aten::empty") and e["tid"] == outer[0]["tid"]:
            shown[e["name"]].append(e["dur"])
    at = speed(shown)
    each = [us / at for us in each]
    return {"rnn_weight_us": (median(each), f"{len(each)} weights of a trace", float(np.std(each) / math.sqrt(len(each))))}


def graphs(rows: list[dict], replay_us: float, replay_nodes: int, usual: float) -> dict[str, Figure]:
    """A launch of a CUDA graph: a case of few nodes, and host times of rows whose whole step is one."""
    nodes = [(1e3 * r["host_ms"]["update"] / usual, r["gpu_launched"]) for r in rows if r["switches"].get("graph")]
    each = [max(0.0, us - replay_us) / (n - replay_nodes) for us, n in nodes]
    node = median(each)
    return {"graph_call_us": (max(0.1, replay_us - node * replay_nodes), "12 rounds of 1 cases", 0.0),
            "graph_node_us": (node, f"{len(each)} rows", float(np.std(each) / math.sqrt(len(each))))}


def hooked_copies(rows: list[dict], usual: float) -> list[tuple[str, float]]:
    """What the backward pass of offloaded rows takes longer, by the copies: as many come back as go. The way there waits for the GPU."""
    base = defaultdict(list)
    for r in rows:
        if r["variant"] in ("base", "again"):
            base[r["model"]].append(r)
    each = []
    for r in rows:
        if r["variant"] == "offload" and base[r["model"]]:
            copies = (r["gpu_launched"] - base[r["model"]][0]["gpu_launched"]) / 2
            backward = np.mean([b["host_ms"]["backward"] for b in base[r["model"]]])
            each.append((r["model"], float(1e3 * (r["host_ms"]["backward"] - backward) / copies / usual)))
    return each


def counts() -> list[str]:
    """Operations and runtime calls of each hook of a unit, by tensors: what a trace shows."""
    found, _ = hooks_of(SHARDED)
    by: dict[tuple[str, int], list[Hook]] = defaultdict(list)
    for h in found:
        if h.unit:
            by[h.name, h.tensors].append(h)
    return [f"{name}, {tensors} tensors: {median(h.counts['ops'] for h in of):g} operations, {median(h.counts['calls'] for h in of):g} calls, "
            f"{median(h.counts['working'] for h in of):g} that give the GPU work, "
            f"{len(of)} times" for (name, tensors), of in sorted(by.items())]
