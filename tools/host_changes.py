"""What changes of a step cost the CPU, from rows of data/h200-clean: checkpointed blocks and passes of compiled models. tools/fit_host.py
writes it into a host's file."""

import functools
import gzip
import json
import math
import re
from collections import defaultdict
from pathlib import Path
from statistics import median

import numpy as np
from host_traces import DATA, PHASES, rows

# Launches of an update by tensor (Adam as a loop) and in all (fused), and those of the loss and of copies beside the model.
ADAM_LAUNCHES, FUSED_LAUNCHES, OUTSIDE_LAUNCHES = 7, 8, 8
# Repeated blocks of the networks that were checkpointed.
BLOCKS = {"gpt2": 12, "bert_base": 12, "resnet50": 16, "t5_4x4": 8, "efficientnet_b0": 16, "swin_t": 12, "llama_gqa": 8,
          "convnext_tiny": 18, "vit_b_16": 12, "nmt_3x3": 6}



def of_models(values: list[float]) -> tuple[float, str, float]:
    return median(values), f"{len(values)} models", float(np.std(values) / math.sqrt(len(values)))


def checkpoints(usual: float, without: str | None) -> dict[str, tuple[float, str, float]]:
    """A checkpointed block beside its second forward: what rows with checkpoints take longer than their bases."""
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
        # What a block costs in forward, and in backward beside its second forward.
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
    with gzip.open(trace, "rt") as file:
        return sum(e.get("name") == "torch::autograd::AccumulateGrad" for e in json.load(file)["traceEvents"])


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
