"""What NVTX ranges cost the CPU, from data/h200-records: the same step in processes that differ in who listens (overhead.jsonl)."""

import gzip
import json
import math
from pathlib import Path
from statistics import median

RECORDS = Path(__file__).resolve().parent.parent / "data" / "h200-records"


def operations_of_step(model: str) -> float:
    """Ranges of operations in a step of the recording."""
    with gzip.open(RECORDS / f"{model}.nvtx.json.gz") as file:
        events = json.load(file)["traceEvents"]
    steps = sum(e["name"].startswith("step ") for e in events)
    return sum(e.get("cat") == "cpu_op" for e in events) / steps


def ranges(view_us: float) -> dict[str, tuple[float, str, float]]:
    """event_nvtx_us: what a step takes longer when its operations are ranges, by operation, round by round, at the speed the host
    had in the round. `view_us`: of a view at speed 1."""
    rows = [json.loads(line) for line in (RECORDS / "overhead.jsonl").read_text().splitlines()]
    by_name = {(r["model"], r["what"]): r for r in rows}
    found: list[float] = []
    models = sorted({model for model, what in by_name if what == "injection, nvtx"})
    for model in models:
        ranged, plain, ops = by_name[model, "injection, nvtx"], by_name[model, "injection"], operations_of_step(model)
        for with_ms, without_ms, v, w in zip(ranged["ms"], plain["ms"], ranged["view_us"], plain["view_us"]):
            found.append((with_ms - without_ms) * 1e3 / ops / (math.sqrt(v * w) / view_us))
    spread = (sum((f - median(found)) ** 2 for f in found) / len(found)) ** 0.5
    return {"event_nvtx_us": (median(found), f"{len(found)} rounds of {len(models)} models", spread / math.sqrt(len(found)))}
