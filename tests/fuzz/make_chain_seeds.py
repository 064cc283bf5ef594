#!/usr/bin/env python3
"""Writes the seeds of chain_fuzz: real steps of data/, cut down to a few operations of every kind, one record per line.

  tests/fuzz/make_chain_seeds.py [FOLDER]      default: tests/fuzz/corpus/chain_fuzz

A step of a real model has thousands of records; a few operations of it, with their launches, kernels, gradients, memory and
update, walk the same code in a hundredth of the time. Variants: inference, a CUDA graph, kernels without a launch, two steps.
"""

import copy
import gzip
import itertools
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
GPU = ("kernel", "gpu_memcpy", "gpu_memset")
CALLS = ("cuda_runtime", "cuda_driver")


def load(path):
    with gzip.open(ROOT / path) as file:
        return json.load(file)


def end(event):
    return event["ts"] + event.get("dur", 0)


def inside(event, outer):
    return event["tid"] == outer["tid"] and outer["ts"] <= event["ts"] <= end(outer)


def cut(trace, forward, update):
    """A few top-level operations of the step, what they launched, and their backward nodes."""
    events = [e for e in trace["traceEvents"] if e.get("ph") in ("X", "i") and "ts" in e]
    step = next(e for e in events if e["name"].startswith("ProfilerStep") and e.get("cat") == "user_annotation")
    events = [e for e in events if step["ts"] <= e["ts"] <= end(step) or e.get("cat") in GPU]
    ops = sorted((e for e in events if e.get("cat") == "cpu_op"), key=lambda e: (e["ts"], -e["dur"]))
    tops, last = [], {}
    for op in ops:
        if op["ts"] >= last.get(op["tid"], 0):
            tops.append(op)
            last[op["tid"]] = end(op)
    optimizer = next((e for e in events if e["name"].startswith("Optimizer.step")), None)
    updates = [o for o in tops if optimizer and inside(o, optimizer)]
    of_forward = [o for o in tops if o["tid"] == step["tid"] and o not in updates]
    seen = set()
    chosen = []
    for op in of_forward:  # one of each kind, then more from the front
        if op["name"] not in seen and len(chosen) < forward:
            seen.add(op["name"])
            chosen.append(op)
    numbers = {e["args"]["Sequence number"] for o in chosen for e in ops
               if inside(e, o) and "Sequence number" in e.get("args", {})}
    nodes = [o for o in tops if o["name"].startswith("autograd::engine") and o["args"].get("Sequence number") in numbers]
    kept = chosen + nodes + [o for o in tops if "AccumulateGrad" in o["name"]][:2] + updates[:update]
    out = [step] + ([optimizer] if optimizer and update else [])
    for e in events:
        if e is step or e is optimizer:
            continue
        layer = e["name"].startswith("layer:") and any(inside(o, e) for o in kept)
        own = e.get("cat") in ("cpu_op", "cpu_instant_event", *CALLS) and any(inside(e, o) for o in kept)
        wait = "Synchronize" in e["name"] and e.get("cat") in CALLS
        if layer or own or wait:
            out.append(e)
    calls = {e["args"]["correlation"] for e in out if e.get("cat") in CALLS}
    out += [e for e in events if e.get("cat") in GPU and e["args"].get("correlation") in calls]
    # Times closer together, so that what is left is no string of pauses: nothing moves in front of anything.
    times = sorted({e["ts"] for e in out} | {end(e) for e in out})
    moved, at = {}, 0.0
    for a, b in itertools.pairwise(times):
        moved[a] = at
        at += min(b - a, 40.0)
    moved[times[-1]] = at
    for e in out:
        begin, finish = moved[e["ts"]], moved[end(e)]
        e["ts"] = round(begin + 1000, 3)
        if "dur" in e:
            e["dur"] = round(finish - begin, 3)
    return sorted(out, key=lambda e: e["ts"])


def shorten(event):
    """The arguments the chain reads."""
    args = event.get("args", {})
    for key in ("Record function id", "Concrete Inputs", "Ev Idx", "est. achieved occupancy %", "warps per SM",
                "queued", "context", "Input Strides", "Python id", "Python parent id", "cbid"):
        if key != "Concrete Inputs" or "conv" not in event["name"]:
            args.pop(key, None)
    if len(event["name"]) > 70:
        event["name"] = event["name"][:70]
    return event


def write(folder, name, way, trace, events):
    head = {k: trace[k] for k in ("schemaVersion", "deviceProperties") if k in trace}
    head["deviceProperties"] = head.get("deviceProperties", [])[:1]
    lines = [json.dumps(head)[:-1] + ', "traceEvents": [']
    lines += [json.dumps(shorten(copy.deepcopy(e))) + "," for e in events]
    text = "\n".join(lines).rstrip(",") + "\n]}\n"
    (folder / name).write_bytes(bytes([way]) + text.encode())
    print(f"{name}: {len(events)} records, {len(text)} bytes")


def without_backward(events):
    gone = [e for e in events if e["name"].startswith(("autograd::", "Optimizer.step"))]
    calls = {e["args"]["correlation"] for e in events if e.get("cat") in CALLS and any(inside(e, g) for g in gone)}
    return [e for e in events if not any(e is g or (e.get("cat") not in GPU and inside(e, g)) for g in gone)
            and e.get("args", {}).get("correlation") not in calls]


def as_graph(events):
    events = copy.deepcopy(events)
    call = next(e for e in events if e.get("cat") in CALLS and "Launch" in e["name"])
    call["name"] = "cudaGraphLaunch"
    launches = {e["args"]["correlation"] for e in events if e.get("cat") in CALLS and "Launch" in e["name"]}
    out = [e for e in events if e is call or not (e.get("cat") in CALLS and "Launch" in e["name"])]
    for e in out:
        if e.get("cat") in GPU and e["args"].get("correlation") in launches:
            e["args"]["correlation"] = call["args"]["correlation"]
    return out


def orphaned(events):
    calls = [e["args"]["correlation"] for e in events if e.get("cat") in CALLS]
    gone = set(calls[::3])
    return [e for e in events if not (e.get("cat") in CALLS and e["args"]["correlation"] in gone)]


def twice(events):
    length = max(end(e) for e in events) - min(e["ts"] for e in events) + 50
    again = copy.deepcopy(events)
    for e in again:
        e["ts"] = round(e["ts"] + length, 3)
        if e["name"].startswith("ProfilerStep"):
            e["name"] = "ProfilerStep#77"
        for key in ("correlation", "External id"):
            if key in e.get("args", {}):
                e["args"][key] += 1_000_000
    return events + again


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "tests/fuzz/corpus/chain_fuzz"
    folder.mkdir(parents=True, exist_ok=True)
    mlp = load("data/h200-heldout/mlp.base.json.gz")
    images = load("data/h200-heldout/resnet34.base.json.gz")
    half = load("data/h200-more/vgg16.amp.json.gz")
    llama = load("data/h200-heldout/llama_gqa.base.json.gz")
    train = cut(copy.deepcopy(mlp), 6, 4)
    write(folder, "train", 3, mlp, train)
    write(folder, "two_steps", 2, mlp, twice(train))
    write(folder, "orphans", 1, mlp, orphaned(train))
    pictures = cut(copy.deepcopy(images), 6, 4)
    write(folder, "images", 0, images, pictures)
    write(folder, "inference", 8, images, without_backward(pictures))
    write(folder, "images_orphans", 7, images, orphaned(pictures))
    write(folder, "graph", 4, images, as_graph(pictures))
    write(folder, "half", 5, half, cut(copy.deepcopy(half), 6, 4))
    text = cut(copy.deepcopy(llama), 10, 2)
    write(folder, "attention", 6, llama, text)
    write(folder, "attention_inference", 9, llama, without_backward(text))


if __name__ == "__main__":
    main()
