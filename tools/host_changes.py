"""What changes of a step cost the CPU: checkpointed blocks and passes of compiled models (rows of data/h200-clean), kernels launched from Python
(data/h200-changes), NVTX ranges and the injection library (data/h200-records); and what a phase takes by what it is made of: calls of modules, and launches where one is like the other. tools/fit_host.py writes it into a
host's file.

Counts do not change with the host's speed, as traced times do; how much weight they get next to those is what left-one-network-out says of both."""

import functools
import math
import re
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from host_traces import DATA, PHASES, phases_of, rows
from truth import ROOT, Folder, json_lines, trace_events

Figure = tuple[float, str, float]

# Launches of an update by tensor (Adam as a loop) and in all (fused), and those of the loss and of copies outside the model.
ADAM_LAUNCHES, FUSED_LAUNCHES, OUTSIDE_LAUNCHES = 7, 8, 8
# Repeated blocks of the networks that were checkpointed.
BLOCKS = {"gpt2": 12, "bert_base": 12, "resnet50": 16, "t5_4x4": 8, "efficientnet_b0": 16, "swin_t": 12, "llama_gqa": 8,
          "convnext_tiny": 18, "vit_b_16": 12, "nmt_3x3": 6}



def of_models(values: list[float]) -> tuple[float, str, float]:
    return median(values), f"{len(values)} models", float(np.std(values) / math.sqrt(len(values)))


def checkpoints(usual: float, without: str | None) -> dict[str, tuple[float, str, float]]:
    """A checkpointed block without its second forward: what rows with checkpoints take longer than their bases."""
    by_model: dict[str, dict[str, dict]] = defaultdict(dict)
    for r in rows():
        if r["network"] != without:
            by_model[r["model"]][r["variant"]] = r["host_ms"]
    forward, backward, reentrant = [], [], []
    for model, hosts in by_model.items():
        blocks = BLOCKS.get(re.split("[@-]", model)[0])
        if not blocks or "base" not in hosts or "compiled" in model:
            continue
        base = {p: (hosts["base"][p] + hosts.get("again", hosts["base"])[p]) / 2 for p in PHASES}
        # What a block costs in forward, and in backward without its second forward.
        extra = {v: ((h["forward"] - base["forward"]) / blocks, (h["backward"] - base["backward"] - base["forward"]) / blocks)
                 for v, h in hosts.items() if v in ("ckpt", "ckptreentrant")}
        if "ckpt" in extra:
            forward.append(1e3 * extra["ckpt"][0] / usual)
            backward.append(1e3 * extra["ckpt"][1] / usual)
            if "ckptreentrant" in extra:
                reentrant.append(sum(extra["ckptreentrant"]) / sum(extra["ckpt"]))
    out = {"checkpoint_forward_us": of_models(forward), "checkpoint_backward_us": of_models(backward)}
    return out | ({"reentrant_share": of_models(reentrant)} if reentrant else {})


@functools.cache
def parameters_of(trace: Path) -> int:
    """Trained tensors: what accumulates a gradient in the backward pass."""
    return sum(e.get("name") == "torch::autograd::AccumulateGrad" for e in trace_events(trace))


@functools.cache
def compiled(usual: float, *without: str | None) -> dict[str, tuple[float, str, float]]:
    """Passes of compiled models: so much for a pass and so much for each launch in it, over both passes together. Launches of a
    loop's update are seven for each tensor, those of a fused one a handful; both are taken off what a row launched."""
    found = [r for r in rows() if r["switches"].get("compile") and r["network"] not in without and "gpu_launched" in r
             and not r["switches"].get("graph") and not r["switches"].get("ckpt")]
    tensors = {}
    for r in rows():
        if r.get("trace") and r["network"] not in tensors and r["network"] in {f["network"] for f in found}:
            tensors[r["network"]] = parameters_of(DATA / r["trace"])
    x, y, weight = [], [], []
    for r in found:
        if r["network"] not in tensors:
            continue
        update = ADAM_LAUNCHES * tensors[r["network"]] if r["switches"]["opt"] == "loop" else FUSED_LAUNCHES
        parts = r["switches"].get("accum", 1)
        x.append((2.0, (r["gpu_launched"] - update - OUTSIDE_LAUNCHES) / parts))
        y.append(1e3 * (r["host_ms"]["forward"] + r["host_ms"]["backward"]) / parts / usual)
        weight.append(1 / math.sqrt(sum(f["network"] == r["network"] for f in found)) / y[-1])
    w = np.array(weight)
    a, b = np.array(x) * w[:, None], np.array(y) * w
    fit, *_ = np.linalg.lstsq(a, b, rcond=None)
    spread = np.sqrt(np.diag(np.linalg.inv(a.T @ a)) * np.sum((a @ fit - b) ** 2) / max(1, len(y) - 2))
    of = f"{len(y)} rows of {len(tensors)} networks"
    return {"compiled_call_us": (float(fit[0]), of, float(spread[0])), "compiled_launch_us": (float(fit[1]), of, float(spread[1]))}


# -- kernels of one's own

CHANGES = ROOT / "data" / "h200-changes"
# Kernels of tools/measure/changes by the pass that launches them from Python.
OF_FORWARD = {"forward_sums", "forward_finish", "forward_apply", "relu_and_bits", "pool_forward", "to_eight", "write_bits", "write_values"}
OF_BACKWARD = {"backward_sums", "backward_finish", "backward_apply", "slope_from_bits", "pool_backward", "from_eight", "read_values"}
# One kernel of each autograd function and pass: the tensors its call is given, and the launches of PyTorch that it replaces.
FUNCTIONS = {"forward_apply": (5, 2), "backward_apply": (1, 2), "relu_and_bits": (1, 1), "slope_from_bits": (1, 1), "pool_forward": (1, 1),
             "pool_backward": (1, 1)}
WAITING = "write_bits"  # forward, the host waits for what follows it


@functools.cache
def launches_of(program: Path, trace: Path) -> dict[str, int]:
    return {name: phase.launches for name, phase in phases_of(program, trace).items()}


def python_launches(program: Path, function_us: tuple[float, float], usual: float, follows: float) -> list[tuple[str, str, float, int]]:
    """By network and row, at speed 1: what a pass takes longer with kernels launched from Python, without the functions around them (`function_us`: of
    one, and for each tensor given), and how many they are. The base was timed at another moment of the host: how fast it was then, taking the batch
    over says, which no change touches; as far as a step's speed follows (`follows`)."""
    kernels = {(r["model"], r["variant"]): r["kernels"] for r in json_lines(CHANGES / "kernels.jsonl")}
    out = []
    for base, changed in Folder(CHANGES).cases():
        for row in changed:
            if "host_ms" not in base.data or "host_ms" not in row.data:
                continue
            hosts, counts = (base.data["host_ms"], row.data["host_ms"]), {n: round(v[0]) for n, v in kernels[row.model, row.variant].items()}
            moment = (hosts[1]["data"] / hosts[0]["data"]) ** follows
            for phase, names in (("forward", OF_FORWARD), ("backward", OF_BACKWARD)):
                mine = {n: c for n, c in counts.items() if n in names}
                if not mine or WAITING in mine:
                    continue
                calls = [(c, *FUNCTIONS[n]) for n, c in mine.items() if n in FUNCTIONS]
                left = 1 - sum(c * replaced for c, _, replaced in calls) / launches_of(program, base.trace)[phase]
                us = 1e3 * (hosts[1][phase] / math.sqrt(moment) - left * hosts[0][phase] * math.sqrt(moment)) / usual
                us -= sum(c * (function_us[0] + function_us[1] * tensors) for c, tensors, _ in calls)
                out.append((row.network, f"{row.model}.{row.variant}", us, sum(mine.values())))
    return out


def triton_launch(found: list[tuple[str, str, float, int]]) -> dict[str, Figure]:
    """Of each network the mean over its rows and passes."""
    each = defaultdict(list)
    for network, _, us, kernels in found:
        each[network].append(us / kernels)
    value, of, spread = of_models([float(np.mean(v)) for v in each.values()])
    return {"triton_launch_us": (value, f"{len(found)} passes of {of}", spread)}


# -- recording

RECORDS = ROOT / "data" / "h200-records"
GPU_WORK = ("kernel", "gpu_memcpy", "gpu_memset")


def in_a_step(model: str) -> tuple[float, float]:
    """Operations and launches of a step, as the recording has them."""
    events = trace_events(RECORDS / f"{model}.nvtx.json.gz")
    steps = sum(e["name"].startswith("step ") for e in events)
    return sum(e.get("cat") == "cpu_op" for e in events) / steps, sum(e.get("cat") in GPU_WORK for e in events) / steps


def recording_costs(view_us: float, left: float) -> dict[str, tuple[float, str, float]]:
    """event_nvtx_us: what a step takes longer when its operations are ranges, by operation; event_injected_call_us: when the library
    listens, by launch, beyond what every profiler adds to the rest of the step (`left`: what the rest keeps without one). Round by
    round, at the speed that a view shows in the process without a profiler. `view_us`: of a view at speed 1."""
    found = json_lines(RECORDS / "overhead.jsonl")
    by_name = {(r["model"], r["what"]): r for r in found}
    ranges: list[float] = []
    calls: list[float] = []
    models = sorted({model for model, what in by_name if what == "injection, nvtx" and (RECORDS / f"{model}.nvtx.json.gz").exists()})
    for model in models:
        operations, launches = in_a_step(model)
        plain, injected, ranged = (by_name[model, what] for what in ("plain", "injection", "injection, nvtx"))
        for a, b, c, view in zip(plain["ms"], injected["ms"], ranged["ms"], plain["view_us"]):
            ranges.append((c - b) * 1e3 / operations / (view / view_us))
            calls.append((b - a / left) * 1e3 / launches / (view / view_us))

    def figure(found: list[float]) -> tuple[float, str, float]:
        middle = median(found)
        spread = math.sqrt(sum((f - middle) ** 2 for f in found) / len(found))
        return middle, f"{len(found)} rounds of {len(models)} models", spread / math.sqrt(len(found))

    return {"event_nvtx_us": figure(ranges), "event_injected_call_us": figure(calls)}


# -- counts

ENOUGH = 30  # launches; src/host/phase_counts.cpp takes as many
MOSTLY = 0.25  # of a phase's launches from generated code: a compiled pass


def is_compiled(s: Any) -> bool:
    return s.phase != "update" and s.traced.generated > MOSTLY * s.traced.launches


def modules(s: Any) -> int:
    """Calls of modules in a phase: compiled passes, backward and updates have none."""
    return 0 if s.phase != "forward" or is_compiled(s) else s.traced.layers


def module_figures(found: dict, some: list) -> dict[str, Figure]:
    """A call alone, nested and in a row, at speed 1; and modules for each operation of a forward pass, for traces that do not show them."""
    calls = [v / n for name, n in (("identity", 1), ("sequential_of_8", 9), ("nested_8_deep", 9)) for v in found.get(("module", name, "off"), [])]
    each = [s.traced.layers / s.traced.ops for s in some if modules(s) and "ckpt" not in s.name]
    return {"module_us": (median(calls), f"{len(calls)} rounds of modules alone; nested and in a row", float(np.std(calls) / np.sqrt(len(calls)))),
            "modules_of_op": (median(each), f"{len(each)} forward passes", float(np.std(each) / np.sqrt(len(each))))}


def kind(s: Any) -> str | None:
    """Which launches of a phase are alike; None: they are not, or there are few."""
    if is_compiled(s):
        return "compiled"
    return s.phase if s.phase != "forward" and s.traced.launches > ENOUGH else None


def weights(pairs: list[tuple[str, float, float]]) -> dict[str, Figure]:
    """`pairs`: kind, log error by the trace's times and by the count, each left out. The mix of least square error of each kind, no
    more than three quarters: a handful of networks decide."""
    out = {}
    for k in ("backward", "update", "compiled"):
        mine = np.array([(t, n) for name, t, n in pairs if name == k])
        (vt, vc), both = np.mean(mine**2, axis=0), float(np.mean(mine[:, 0] * mine[:, 1]))
        w = float(np.clip((vt - both) / max(1e-9, vt + vc - 2 * both), 0.01, 0.75))
        out[f"counted_{k}"] = (w, f"{len(mine)} phases: by time {100 * np.sqrt(vt):.0f} %; by count {100 * np.sqrt(vc):.0f} %", 0.0)
    return out

