"""What training on several workers, offloading and batches of worker processes cost the CPU at speed 1, from steps without a profiler
(data/h200-hooks, tools/measure/workers.py, offload.py and hooks.py); tools/fit_host.py writes it into a host's file.

The host's speed is that of the plain Python loop beside every step. What a wrapper adds is the step with it less the plain one."""

import csv
import gzip
import json
import math
from collections import defaultdict
from pathlib import Path
from statistics import median

import numpy as np
from host_hooks import Figure, least_distance
from host_traces import FAST_LOOP_US

HOOKS = Path(__file__).resolve().parent.parent / "data" / "h200-hooks"
RANKS = HOOKS.parent / "h200-ranks"
PARTS = ("forward_us", "until_last_us", "tail_us", "update_us")
BUFFERS = 3  # of a batch norm


def rows(name: str) -> list[dict[str, str]]:
    with open(HOOKS / name) as file:
        return list(csv.DictReader(file))


def steps(name: str) -> dict[tuple[str, str, int, int], np.ndarray]:
    """µs of each part at speed 1, by network, kind, tensors and buckets (or units): the median of all turns."""
    turns = defaultdict(list)
    for r in rows(name):
        speed = float(r["loop_us"]) / FAST_LOOP_US
        turns[r["network"], r["kind"], int(r["tensors"]), int(r["buckets"])].append([float(r[p]) / speed for p in PARTS])
    return {k: np.median(np.array(v), axis=0) for k, v in turns.items()}


def solved(equations: list[tuple[list[float], float]]) -> tuple[np.ndarray, np.ndarray]:
    """The figures, and how far they may be off."""
    a, y = np.array([e for e, _ in equations]), np.array([v for _, v in equations])
    fit = least_distance(a, y)
    return fit, np.sqrt(np.diag(np.linalg.inv(a.T @ a))) * 1.48 * float(np.median(np.abs(a @ fit - y)))


def ddp() -> dict[str, Figure]:
    """Hooks run until the last gradient is there, and so do the calls of all buckets but the last; behind it come that one, the
    waits and the copies back, which gradients that are views of their bucket do not need."""
    found = steps("ddp.w2.csv")
    plain = {network: parts for (network, kind, *_), parts in found.items() if kind == "plain"}
    equations, forward, buffers = [], [], []
    for (network, kind, tensors, buckets), parts in found.items():
        how, more = kind.split("@")[0], parts - plain[network]
        if how in ("nosync", "plain"):
            continue
        hooked = float(how in ("hooked", "fp16"))
        equations.append(([tensors, 0.0, buckets - 1, 0.0, hooked * (buckets - 1)], float(more[1])))
        equations.append(([0.0, 0.0 if how == "view" else tensors, 1.0, buckets, hooked], float(more[2])))
        if network.startswith("layers"):
            forward.append(float(more[0]))
        elif how == "ddp":
            buffers.append(([1.0, BUFFERS * tensors / 4], float(more[0])))  # a layer and a norm are four tensors
    fit, off = solved(equations)
    of = f"{len(equations)} times of 5 networks; 2 ranks"
    out = {n: (max(0.1, float(v)), of, float(o)) for n, v, o in zip(
        ("ddp_gradient_us", "ddp_copy_back_us", "ddp_collective_us", "ddp_wait_us", "ddp_hook_us"), fit, off)}
    out["ddp_forward_us"] = (median(forward), f"{len(forward)} wrapped networks", float(np.std(forward) / math.sqrt(len(forward))))
    (fixed, each), off = solved([(e, v - out["ddp_forward_us"][0]) for e, v in buffers])
    of = f"{len(buffers)} networks of 15 to 240 buffers"
    return out | {"ddp_buffers_us": (float(fixed), of, float(off[0])), "ddp_buffer_us": (float(each), of, float(off[1]))}


def compressions(usual: float) -> dict[str, Figure]:
    """Not measured without a profiler yet. Hooks of 28 to 40 operations take 1.8 to 2.1 ms in traces of two ranks, 1.5 times what they take alone;
    PowerSGD's by tensor from the steps it bounds (data/h200-ranks: ResNet-50 and BERT-base)."""
    of = "traces and steps of data/h200-ranks"
    return {"hook_op_us": (40 / usual, of, 0.0), "powersgd_matrix_us": (400 / usual, of, 0.0), "powersgd_vector_us": (40 / usual, of, 0.0)}


def filled() -> Figure:
    """Of a reduction's hook until its collective is called, the part in which its input is copied together: ranges of a traced step."""
    with gzip.open(RANKS / "resnet50.mps.fsdp.w2.r0.json.gz") as file:
        events = [e for e in json.load(file)["traceEvents"] if e.get("ph") == "X" and e.get("cat") in ("cpu_op", "user_annotation")]
    shares = []
    for hook in (e for e in events if e["name"].startswith("FSDP::post_backward_reduce")):
        def until(name: str, hook: dict = hook) -> float | None:
            ends = [e["ts"] + e["dur"] - hook["ts"] for e in events if e["name"] == name and e["tid"] == hook["tid"]
                    and hook["ts"] <= e["ts"] <= hook["ts"] + hook["dur"]]
            return ends[0] if ends else None
        copied, called = until("fsdp::chunk_cat"), until("c10d::_reduce_scatter_base_")
        if copied and called:
            shares.append(copied / called)
    return median(shares), f"{len(shares)} units of a traced step; 2 ranks", float(np.std(shares) / math.sqrt(len(shares)))


def sharded() -> dict[str, Figure]:
    """fully_shard by unit and tensor. Gathers, copies out and reductions from PyTorch's own ranges; all else around a unit's forward and backward is
    what the pass takes longer beside them; the update (SGD over lists) works on sharded tensors, each unwrapped in Python."""
    hooks: dict[str, list[tuple[list[float], float]]] = defaultdict(list)
    for r in rows("shards.w2.csv"):
        hooks[r["hook"]].append(([1.0, float(r["tensors"])], float(r["median_us"]) / float(r["loop_us"]) * FAST_LOOP_US))
    out: dict[str, Figure] = {}
    inside: dict[str, dict[float, float]] = {}
    for figure, hook in (("gather", "all_gather"), ("copy", "all_gather_copy_out"), ("reduce", "post_backward_reduce")):
        fit, off = solved(hooks[hook])
        of = f"{len(hooks[hook])} sizes of units; 2 ranks"
        out[f"shard_{figure}_us"], out[f"shard_{figure}_tensor_us"] = ((float(v), of, float(o)) for v, o in zip(fit, off))
        inside[figure] = {e[1]: us for e, us in hooks[hook]}
    out["shard_fill_share"] = filled()
    found = steps("sharded.w2.csv")
    rest: dict[str, list[float]] = defaultdict(list)
    for (network, kind, tensors, units), parts in found.items():
        if kind == "plain":
            continue
        more = (parts - found[network, "plain", tensors, units]) / units
        both = inside["gather"][tensors] + inside["copy"][tensors]
        rest["forward"].append(float(more[0]) - both)
        rest["backward"].append(float(more[1] + more[2]) - both - inside["reduce"][tensors])
        rest["update_tensor"].append(float(more[3]) / tensors)
    for figure, each in rest.items():
        out[f"shard_{figure}_us"] = (median(each), f"{len(each)} sizes of units; 2 ranks", float(np.std(each) / math.sqrt(len(each))))
    return out


def offloaded(without: str | None) -> list[tuple[str, float]]:
    """Each model's µs of a saved tensor that is fetched back: the way there waits for the GPU."""
    times = defaultdict(list)
    for r in rows("offload.csv"):
        times[r["model"], r["variant"], int(r["tensors"])].append(float(r["backward_us"]) / float(r["loop_us"]) * FAST_LOOP_US)
    return [(model, (median(v) - median(times[model, "base", tensors])) / tensors) for (model, variant, tensors), v in times.items()
            if variant == "offload" and model.split("@")[0].split("-")[0] != without]


def batches(view_us: float) -> dict[str, Figure]:
    """Taking a batch that is ready: from the pinning thread's queue, where the number of its tensors does not matter; without one,
    as a worker hands it over, by the clock: its tensors' memory comes through a socket that the worker serves."""
    found = rows("batches.csv")
    speed = median(float(r["view_us"]) for r in found) / view_us
    pinned = [float(r["wall_us"]) / speed for r in found if r["pinned"] == "1"]
    alone = [([1.0, float(r["tensors"])], float(r["wall_us"]) / speed) for r in found if r["pinned"] == "0" and r["workers"] == "1"]
    fit, off = solved(alone)
    of = f"{len(alone)} loaders of 1 to 4 tensors"
    return {"take_batch_us": (median(pinned), f"{len(pinned)} loaders of 1 to 4 tensors", float(np.std(pinned) / math.sqrt(len(pinned)))),
            "open_batch_us": (float(fit[0]), of, float(off[0])), "open_tensor_us": (float(fit[1]), of, float(off[1]))}
