"""What watching costs a step: the same job in several processes that differ in who listens, timed in turns.

All processes live at once and train one after the other, a block of steps each, round after round: what the host does to the speed of
steps (other tenants, clocks) happens to all of them alike, and the ratio of medians of the same round tells them apart.

The clean measurement of a recording is compared within one process: blocks with the recorder's clocks on and off in turns.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import multiprocessing
import os
import statistics
import sys
import time
import traceback
from pathlib import Path
from typing import Any

BLOCK_S, ROUNDS = 0.06, 50
CORES = 4  # the same for all: cores may differ in speed


def import_all() -> None:
    """What jobs are made of, once, before processes are forked; nothing here touches the GPU."""
    for library in ("torchvision", "transformers"):
        with contextlib.suppress(ImportError):
            importlib.import_module(library)
    with contextlib.suppress(ImportError):  # which imports its models one by one
        importlib.import_module("transformers.models.gpt2.modeling_gpt2")
        importlib.import_module("transformers.models.bert.modeling_bert")


def listeners(library: Path, scratch: Path) -> dict[str, dict[str, str]]:
    """Environments by name: nobody listens, the injection library does, the program's operations are NVTX ranges as well."""
    injected = {"CUDA_INJECTION64_PATH": str(library), "FORETRACE_CUDA": "always", "FORETRACE_CUDA_OUTPUT": str(scratch / "never.json.gz")}
    return {"plain": {}, "injection": injected, "injection, nvtx": injected}


def _child(pipe: Any, model: str, name: str, environment: dict[str, str], device: str, tiny: bool) -> None:
    os.environ.update(environment)  # before CUDA is initialised, which reads it
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    try:
        import torch

        from .train import ready_step

        step = ready_step(model, device, tiny)
        ranges = torch.autograd.profiler.emit_nvtx(record_shapes=True) if name.endswith("nvtx") else contextlib.nullcontext()
        with ranges:
            pipe.send("ready")
            while (seconds := pipe.recv()) is not None:
                pipe.send(_block(step, seconds))
    except BaseException:
        pipe.send(traceback.format_exc())
    os._exit(0)  # nothing is written: the file of millions of steps is nobody's


def _block(step: Any, seconds: float) -> tuple[list[float], float]:
    """ms of each step, and µs of a view: the host's speed just now."""
    import torch

    step()
    view = _view_us(torch)
    step.finish()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        begun = time.perf_counter()
        step()
        times.append((time.perf_counter() - begun) * 1e3)
    step.finish()
    return times, view


def _view_us(torch: Any, times: int = 200) -> float:
    x = torch.ones(16)
    begun = time.perf_counter()
    for _ in range(times):
        x.view(4, 4)
    return (time.perf_counter() - begun) / times * 1e6


def of_listeners(model: str, environments: dict[str, dict[str, str]], *, device: str = "cuda", tiny: bool = False,
                 rounds: int = ROUNDS, seconds: float = BLOCK_S) -> list[dict[str, Any]]:
    """A row for each listener: its medians by round, and how much longer they are than those of `plain`."""
    fork = multiprocessing.get_context("fork")
    children: dict[str, Any] = {}
    medians: dict[str, list[float]] = {}
    views: dict[str, list[float]] = {}
    for name, environment in environments.items():
        ours, theirs = fork.Pipe()
        process = fork.Process(target=_child, args=(theirs, model, name, environment, device, tiny), daemon=True)
        process.start()
        theirs.close()
        children[name] = (process, ours)
    for name, (_, pipe) in list(children.items()):
        try:
            said = pipe.recv()
        except EOFError:
            said = "ended without a word"
        if said != "ready":
            print(f"{model} {name}: {said}", flush=True)
            del children[name]
    for number in range(rounds):
        order = list(children) if number % 2 == 0 else list(reversed(children))
        for name in order:
            pipe = children[name][1]
            pipe.send(seconds)
            times, view = pipe.recv()
            medians.setdefault(name, []).append(statistics.median(times))
            views.setdefault(name, []).append(view)
    for process, pipe in children.values():
        pipe.send(None)
        process.join(10)
    plain = medians.get("plain", [])
    return [{"model": model, "what": name, "ms": [round(m, 4) for m in found], "view_us": [round(v, 3) for v in views[name]],
             "longer": round(statistics.median(m / p for m, p in zip(found, plain)) - 1, 5)} for name, found in medians.items()]


def of_measuring(model: str, *, device: str = "cuda", tiny: bool = False, rounds: int = 3 * ROUNDS, steps: int = 4) -> dict[str, Any]:
    """The row of the clean measurement, in this process. `steps`: of a block, few, so that both kinds meet the host at one speed;
    of four measured steps one has its phases marked."""
    import torch
    from foretrace._recorder_figures import Meter

    from .train import ready_step

    step = ready_step(model, device, tiny)

    def plain() -> list[float]:
        borders = [time.perf_counter()]
        for _ in range(steps):
            step()
            borders.append(time.perf_counter())
        step.finish()
        return [(b - a) * 1e3 for a, b in itertools.pairwise(borders)]

    def measured() -> list[float]:
        meter = Meter(torch, steps, memory=True)
        meter.begin()
        borders = [time.perf_counter()]
        for _ in range(steps):
            step()
            now = time.perf_counter()
            meter.border(now)
            borders.append(time.perf_counter())
        meter.finish()
        return [(b - a) * 1e3 for a, b in itertools.pairwise(borders)]

    plain(), measured()
    found: dict[str, list[float]] = {"plain": [], "measured": []}
    for number in range(rounds):
        for name, run in (("plain", plain), ("measured", measured))[:: 1 if number % 2 == 0 else -1]:
            found[name].append(statistics.median(run()))
    longer = statistics.median(m / p for m, p in zip(found["measured"], found["plain"])) - 1
    return {"model": model, "what": "clean measurement", "plain_ms": round(statistics.median(found["plain"]), 4),
            "ms": round(statistics.median(found["measured"]), 4), "longer": round(longer, 5), "rounds": rounds}


def in_a_process(function: Any, *arguments: Any, **named: Any) -> Any:
    """What the function returns in a process of its own, so that CUDA is not initialised in this one."""
    fork = multiprocessing.get_context("fork")
    ours, theirs = fork.Pipe()

    def child() -> None:
        try:
            theirs.send(function(*arguments, **named))
        except BaseException:
            theirs.send({"error": traceback.format_exc()})
        sys.stdout.flush()
        os._exit(0)

    process = fork.Process(target=child)
    process.start()
    theirs.close()
    try:
        return ours.recv()
    except EOFError:
        return {"error": "ended without a word"}
    finally:
        process.join()
