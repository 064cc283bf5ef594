"""What hooks cost the CPU at speed 1 (tools/fit_host.py writes it into a host's file): functions played from CUDA graphs, graphs, tensors sent to the host,
training on several workers, and batches of worker processes. Times of workers are of steps without a profiler (data/h200-hooks; tools/measure/workers.py,
offload.py and hooks.py): the host's speed is that of the plain Python loop timed with every step, and what a wrapper adds is the step with it less the plain one.
"""

import math
from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
from statistics import median

import numpy as np
from host_changes import of_models
from host_traces import FAST_LOOP_US
from truth import ROOT, csv_rows, trace_events

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
    rows = csv_rows(HOOKS / "units.csv")
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
    """A call of an autograd function, and each tensor it is given; at speed 1 by the view timed with it."""
    rows = csv_rows(HOOKS / "functions.csv")
    a = np.array([(1.0, float(r["tensors"])) for r in rows])
    y = np.array([float(r["forward_us"]) / float(r["view_us"]) * view_us for r in rows])
    fit, *_ = np.linalg.lstsq(a / y[:, None], np.ones(len(y)), rcond=None)
    of = f"{len(rows)} rounds of {len({r['tensors'] for r in rows})} sizes"
    return {"function_us": (float(fit[0]), of, 0.0), "function_tensor_us": (float(fit[1]), of, 0.0)}


def recurrent(speed: Callable[[dict[str, list[float]]], float]) -> dict[str, Figure]:
    """Autocast lays the weights of a recurrent layer out anew in every pass: between two of the operations that make a view of each, cuDNN is asked
    where it belongs. Nothing is recorded in that time."""
    events = [e for e in trace_events(RECURRENT) if e.get("ph") == "X" and e.get("cat") in CPU]
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


# -- workers

WORKERS = ROOT / "data" / "h200-hooks"
PARTS = ("forward_us", "until_last_us", "tail_us", "update_us")
BUFFERS = 3  # of a batch norm


def steps(name: str) -> dict[tuple[str, str, int, int], np.ndarray]:
    """µs of each part at speed 1, by network, kind, tensors and buckets (or units): the median of all turns."""
    turns = defaultdict(list)
    for r in csv_rows(WORKERS / name):
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


# Rank 0 of a job of FSDP, one a model.
FILLED = ("h200-ranks/resnet50.mps.fsdp.w2", "h200-jobs/gptB.inside.fsdp.w2", "h200-more-jobs/lmB.inside.fsdp.w4")


def filled() -> Figure:
    """Of a reduction's hook until its collective is called, the part in which its input is copied together: ranges of traced steps."""
    shares: list[list[float]] = []
    for trace in FILLED:
        events = [e for e in trace_events(ROOT / "data" / f"{trace}.r0.json.gz") if e.get("ph") == "X" and e.get("cat") in ("cpu_op", "user_annotation")]
        shares.append([])
        for hook in (e for e in events if e["name"].startswith("FSDP::post_backward_reduce")):
            def until(name: str, hook: dict = hook, events: list[dict] = events) -> float | None:
                ends = [e["ts"] + e["dur"] - hook["ts"] for e in events if e["name"] == name and e["tid"] == hook["tid"]
                        and hook["ts"] <= e["ts"] <= hook["ts"] + hook["dur"]]
                return ends[0] if ends else None
            copied, called = until("fsdp::chunk_cat"), until("c10d::_reduce_scatter_base_")
            if copied and called:
                shares[-1].append(copied / called)
    value, of, spread = of_models([median(of_model) for of_model in shares])
    return value, f"{sum(map(len, shares))} units of {of}", spread


def sharded() -> dict[str, Figure]:
    """fully_shard by unit and tensor. Gathers, copies out and reductions from PyTorch's own ranges; all else around a unit's forward and backward is
    what the pass takes longer with them; the update (SGD over lists) works on sharded tensors, each unwrapped in Python."""
    hooks: dict[str, list[tuple[list[float], float]]] = defaultdict(list)
    for r in csv_rows(WORKERS / "shards.w2.csv"):
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
    for r in csv_rows(WORKERS / "offload.csv"):
        times[r["model"], r["variant"], int(r["tensors"])].append(float(r["backward_us"]) / float(r["loop_us"]) * FAST_LOOP_US)
    return [(model, (median(v) - median(times[model, "base", tensors])) / tensors) for (model, variant, tensors), v in times.items()
            if variant == "offload" and model.split("@")[0].split("-")[0] != without]


def batches(view_us: float) -> dict[str, Figure]:
    """Taking a batch that is ready: from the pinning thread's queue, where the number of its tensors does not matter; without one,
    as a worker hands it over, by the clock: its tensors' memory comes through a socket that the worker serves."""
    found = csv_rows(WORKERS / "batches.csv")
    speed = median(float(r["view_us"]) for r in found) / view_us
    pinned = [float(r["wall_us"]) / speed for r in found if r["pinned"] == "1"]
    alone = [([1.0, float(r["tensors"])], float(r["wall_us"]) / speed) for r in found if r["pinned"] == "0" and r["workers"] == "1"]
    fit, off = solved(alone)
    of = f"{len(alone)} loaders of 1 to 4 tensors"
    return {"take_batch_us": (median(pinned), f"{len(pinned)} loaders of 1 to 4 tensors", float(np.std(pinned) / math.sqrt(len(pinned)))),
            "open_batch_us": (float(fit[0]), of, float(off[0])), "open_tensor_us": (float(fit[1]), of, float(off[1]))}
