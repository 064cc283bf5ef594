"""Steps of jobs, per rank. Started by torchrun (run.py).  usage: -m tools.measure.parallel.jobs OUT MODEL:CASE[+][,MODEL:CASE[+]...]   + records every rank"""

from __future__ import annotations

import gc
import gzip
import os
import statistics
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from .cases import Built, build
from .ranks import about, begin, keep, settle, tag

WARM_UP, MOST, FEWEST, SECONDS = 6, 24, 8, 1.8  # steps that are not timed; steps that are, and for how long


def timed(built: Built, device: torch.device) -> dict[str, Any]:
    for _ in range(WARM_UP - 1 if device.type == "cuda" else 1):
        built.step()
    # All ranks take the same number of steps.
    began = time.perf_counter()
    built.step()
    took = torch.tensor([time.perf_counter() - began], device=device)
    dist.all_reduce(took, op=dist.ReduceOp.MAX)
    count = max(FEWEST, min(MOST, int(SECONDS / float(took)))) if device.type == "cuda" else 2
    settle(device)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    steps = []
    for _ in range(count):
        began = time.perf_counter()
        built.step()
        steps.append((time.perf_counter() - began) * 1e3)
    ordered = sorted(steps)
    tenth = max(0, round(0.1 * count) - 1)
    row = {"median_ms": statistics.median(steps), "p10_ms": ordered[tenth], "p90_ms": ordered[count - 1 - tenth], "n": count,
           "step_ms": [round(s, 3) for s in steps]}
    if device.type == "cuda":
        row["peak_bytes"] = torch.cuda.max_memory_allocated()
    return row


def recorded(built: Built, device: torch.device, file: Path) -> list[float]:
    from torch.profiler import ProfilerActivity, profile, schedule

    more: dict[str, Any] = {}
    activities = [ProfilerActivity.CPU]
    if device.type == "cuda":
        activities.append(ProfilerActivity.CUDA)
        more["experimental_config"] = torch._C._profiler._ExperimentalConfig(enable_cuda_sync_events=True)
    steps = []
    with profile(activities=activities, schedule=schedule(wait=0, warmup=2, active=2, repeat=1), record_shapes=True, profile_memory=True,
                 on_trace_ready=lambda p: p.export_chrome_trace(str(file)), **more) as p:
        for _ in range(4):
            began = time.perf_counter()
            built.step()
            steps.append((time.perf_counter() - began) * 1e3)
            p.step()
    packed = gzip.compress(file.read_bytes(), 6)
    file.with_name(file.name + ".gz.part").write_bytes(packed)
    file.with_name(file.name + ".gz.part").rename(file.with_name(file.name + ".gz"))
    file.unlink()
    return steps[2:]


def measure(out: Path, model: str, name: str, record: bool, device: torch.device) -> dict[str, Any]:
    built = build(model, name, device)
    slow = os.environ.get("SLOW")
    said = f"{name}/slow{slow}" if slow else name
    row = {"tag": tag(), "model": model, "case": said, "bs": built.batch, "seq": built.length, "params": built.parameters}
    row |= about(device) | timed(built, device)
    settle(device)
    if record:
        file = out / f"{model}.{tag()}.{said.replace('/', '-')}.w{row['world']}.r{row['rank']}.json"
        row["profiled_ms"] = recorded(built, device, file)
        row["trace"] = file.name + ".gz"
        settle(device)
    return row


def main() -> None:
    out, cases = Path(sys.argv[1]), sys.argv[2].split(",")
    out.mkdir(parents=True, exist_ok=True)
    device = begin()
    for case in cases:
        model, name = case.rstrip("+").split(":")
        began = time.perf_counter()
        failed = False
        try:
            row = measure(out, model, name, case.endswith("+"), device)
        except Exception as e:  # the others wait for this rank: the program ends, and run.py goes on with the next case
            traceback.print_exc(limit=-3)
            row, failed = {"model": model, "case": name, "tag": tag(), "error": repr(e)[:300]} | about(device), True
        row["took_s"] = round(time.perf_counter() - began, 1)
        keep(out / f"rows.r{dist.get_rank()}.jsonl", row)
        if dist.get_rank() == 0:
            ms = "{median_ms:.2f} [{p10_ms:.2f}, {p90_ms:.2f}]".format(**row) if "median_ms" in row else row["error"]
            print(f"ROW w{row['world']} {model} {name} {ms} peak {row.get('peak_bytes', 0) / 1e9:.2f} GB {row['took_s']} s", flush=True)
        if failed:
            sys.exit(1)
        gc.collect()
        if device.type == "cuda":
            torch.cuda.empty_cache()
        torch._dynamo.reset()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
