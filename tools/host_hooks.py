"""What hooks cost the CPU at speed 1 (tools/fit_host.py writes it into a host's file): those of fully sharded training, functions
played from CUDA graphs, tensors sent to the host, batches from worker processes.

Sharded training is read from the ranges PyTorch puts around its hooks in a trace: their time at the speed of their thread, less what
recording each event inside took, times what is left beside a profiler. `counts` says how many operations and runtime calls each has.
"""

import csv
import gzip
import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
SHARDED = ROOT / "data" / "h200-ranks" / "resnet50.mps.fsdp.w2.r0.json.gz"
HOOKS = ROOT / "data" / "cpu-hooks"
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


def sharded(speed: Callable[[dict[str, list[float]]], float], costs: dict[str, float], left: float) -> dict[str, Figure]:
    """Of each kind of hook what a unit and each of its tensors takes."""
    found, shown = hooks_of(SHARDED)

    def us(h: Hook) -> float:
        recorded = costs["event_op_us"] * h.counts["ops"] + costs["event_call_us"] * h.counts["working"] \
            + costs["event_short_call_us"] * h.counts["calls"]
        return left * (h.us / speed(shown[h.thread]) - recorded)

    out: dict[str, Figure] = {}
    for figure, name in (("gather", "all_gather"), ("copy", "all_gather_copy_out"), ("reduce", "post_backward_reduce")):
        mine = [h for h in found if h.name == name and h.unit]
        a, y = np.array([(1.0, h.tensors) for h in mine]), np.array([us(h) for h in mine])
        fit = least_distance(a, y)
        spread = np.sqrt(np.diag(np.linalg.inv(a.T @ a))) * 1.48 * np.median(np.abs(a @ fit - y))
        of = f"{len(mine)} hooks of {len({h.unit for h in mine})} units"
        out[f"shard_{figure}_us"] = (float(fit[0]), of, float(spread[0]))
        out[f"shard_{figure}_tensor_us"] = (float(fit[1]), of, float(spread[1]))
    for figure, names in (("forward", ("pre_forward", "post_forward")),
                          ("backward", ("pre_backward", "backward_prefetch", "post_backward_accumulate", "post_backward_reshard"))):
        each = [[us(h) for h in found if h.name == n and h.unit] for n in names]
        out[f"shard_{figure}_us"] = (sum(median(v) for v in each), f"{sum(map(len, each))} hooks of {len({h.unit for h in found}) - 1} units",
                                     math.sqrt(sum(float(np.var(v)) / len(v) for v in each)))
    return out


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


def batches(view_us: float) -> dict[str, Figure]:
    """A batch of two tensors that a worker has ready. What takes it from the pinning thread's queue was read from one trace: 54 to 75 µs
    of _MultiProcessingDataLoaderIter.__next__, with a profiler."""
    with open(HOOKS / "batches.csv") as file:
        each = [float(r["next_us"]) / 2 / float(r["view_us"]) * view_us for r in csv.DictReader(file)]
    return {"take_batch_us": (41.0, "a trace", 0.0),
            "open_tensor_us": (median(each), f"{len(each)} rounds", float(np.std(each) / math.sqrt(len(each))))}


def graphs(rows: list[dict], replay_us: float, replay_nodes: int, usual: float) -> dict[str, Figure]:
    """A launch of a CUDA graph: a case of few nodes, and host times of rows whose whole step is one."""
    nodes = [(1e3 * r["host_ms"]["update"] / usual, r["gpu_launched"]) for r in rows if r["switches"].get("graph")]
    each = [max(0.0, us - replay_us) / (n - replay_nodes) for us, n in nodes]
    node = median(each)
    return {"graph_call_us": (max(0.1, replay_us - node * replay_nodes), "12 rounds of 1 cases", 0.0),
            "graph_node_us": (node, f"{len(each)} rows", float(np.std(each) / math.sqrt(len(each))))}


def hooked_copies(rows: list[dict], usual: float) -> dict[str, Figure]:
    """What the backward pass of an offloaded step takes longer, by the copies: as many come back as go. The way there waits for the GPU."""
    base = defaultdict(list)
    for r in rows:
        if r["variant"] in ("base", "again"):
            base[r["model"]].append(r)
    each = []
    for r in rows:
        if r["variant"] == "offload" and base[r["model"]]:
            copies = (r["gpu_launched"] - base[r["model"]][0]["gpu_launched"]) / 2
            backward = np.mean([b["host_ms"]["backward"] for b in base[r["model"]]])
            each.append(1e3 * (r["host_ms"]["backward"] - backward) / copies / usual)
    return {"hooked_copy_us": (median(each), f"{len(each)} models", 0.0)}


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
