"""What NVTX ranges and the injection library cost the CPU, from data/h200-records: the same step in processes that differ in who
listens (overhead.jsonl)."""

import gzip
import json
import math
from pathlib import Path
from statistics import median

RECORDS = Path(__file__).resolve().parent.parent / "data" / "h200-records"
GPU_WORK = ("kernel", "gpu_memcpy", "gpu_memset")


def in_a_step(model: str) -> tuple[float, float]:
    """Operations and launches of a step, as the recording has them."""
    with gzip.open(RECORDS / f"{model}.nvtx.json.gz") as file:
        events = json.load(file)["traceEvents"]
    steps = sum(e["name"].startswith("step ") for e in events)
    return sum(e.get("cat") == "cpu_op" for e in events) / steps, sum(e.get("cat") in GPU_WORK for e in events) / steps


def costs(view_us: float, left: float) -> dict[str, tuple[float, str, float]]:
    """event_nvtx_us: what a step takes longer when its operations are ranges, by operation; event_injected_call_us: when the library
    listens, by launch, beyond what every profiler adds to the rest of the step (`left`: what the rest keeps without one). Round by
    round, at the speed that a view shows in the process nobody listens to. `view_us`: of a view at speed 1."""
    rows = [json.loads(line) for line in (RECORDS / "overhead.jsonl").read_text().splitlines()]
    by_name = {(r["model"], r["what"]): r for r in rows}
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
