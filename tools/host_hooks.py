"""What hooks cost the CPU at speed 1 (tools/fit_host.py writes it into a host's file): functions played from CUDA graphs, graphs,
tensors sent to the host.
"""

import csv
import gzip
import json
import math
from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from statistics import median

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
HOOKS = ROOT / "data" / "cpu-hooks"
RECURRENT = ROOT / "data" / "h200-families" / "lstm_lm.amp.json.gz"
CPU = {"cpu_op": "ops", "user_annotation": "ops", "cuda_runtime": "calls", "cuda_driver": "calls"}
Figure = tuple[float, str, float]


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
