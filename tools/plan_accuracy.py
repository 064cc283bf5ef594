#!/usr/bin/env python3
"""Parallel jobs predicted from the trace of one GPU, against measured ones: step and peak memory of the fullest rank.

    tools/plan_accuracy.py [FOLDER]      default: $FORETRACE_TRUTH/h200-parallel

The folder holds `truth.jsonl` (rows by rank), traces `<model>.<tag>.solo.w<world>.r0.json.gz` of ranks that run side by side without
communication, and `collectives.jsonl`. A row counts by its distance to the median; where its p90 - p10 exceeds 5 % of that, by its distance
to [p10, p90]. Without such a folder there is nothing to judge (exit code 77).
"""

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from statistics import mean, median

from gates import FORETRACE, ask
from truth import json_lines

QUIET_PCT = 5.0  # a row whose p90 - p10 is below this counts by its median
# What a case is, as what-ifs on the trace of one GPU; {w}: ranks, {h}: half of them, {n}: the network's parameters.
CASES: list[tuple[str, list[str]]] = [
    ("ddp", ["ddp:workers={w},{n}"]),
    ("ddp/bs2", ["batch:x=2", "ddp:workers={w},{n}"]),
    ("ddp/ckpt", ["checkpoint", "ddp:workers={w},{n}"]),
    ("fsdp", ["fsdp:workers={w},param_dtype=bf16,reduce_dtype=fp32,{n}"]),
    ("fsdp/ckpt", ["checkpoint", "fsdp:workers={w},param_dtype=bf16,reduce_dtype=fp32,{n}"]),
    ("tp", ["tp:size={w},vocab=replicated,{n}"]),
    ("tp/bs2", ["batch:x=2", "tp:size={w},vocab=replicated,{n}"]),
    ("tp/ckpt", ["checkpoint", "tp:size={w},vocab=replicated,{n}"]),
    ("tp2dp", ["tp:size=2,vocab=replicated,{n}", "ddp:workers={h},{n}"]),
    ("tp2fsdp", ["tp:size=2,vocab=replicated,{n}", "fsdp:workers={h},param_dtype=bf16,reduce_dtype=fp32,{n}"]),
    ("cp", ["cp:size={w},kind=ulysses,reduce=0,{n}"]),
    ("ep", ["ep:size={w},reduce=0,{n}"]),
]

def error_pct(predicted: float, low: float, middle: float, high: float) -> float:
    """Signed, in percent of the median."""
    if 100 * (high - low) <= QUIET_PCT * middle:
        return 100 * (predicted / middle - 1)
    return 100 * (max(0.0, predicted - high) - max(0.0, low - predicted)) / middle


def jobs(rows: Iterable[dict]) -> dict[tuple[str, int, str, str], list[dict]]:
    """Rows of all ranks, by model, world, case and tag."""
    found: dict[tuple[str, int, str, str], list[dict]] = {}
    for row in rows:
        if "error" not in row:
            found.setdefault((row["model"], row["world"], row["case"], row["tag"]), []).append(row)
    return found


def main() -> int:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(os.environ.get("FORETRACE_TRUTH", "")) / "h200-parallel")
    if not (folder / "truth.jsonl").exists():
        print(f"{folder}: no measured jobs")
        return 77
    steps: list[float] = []
    peaks: list[float] = []
    print(f"{'model':6} {'case':10} {'ranks':>5} {'measured':>9} {'predicted':>9} {'error':>7}   {'peak GB':>7} {'predicted':>9} {'error':>7}")
    uses = dict(CASES)
    for (model, world, case, tag), ranks in sorted(jobs(json_lines(folder / "truth.jsonl")).items()):
        if case not in uses:
            continue
        trace = folder / f"{model}.{tag}.solo.w{world}.r0.json.gz"
        network = f"collectives={folder / 'collectives.jsonl'},collectives_tag={tag}"
        asked = [use.format(w=world, h=world // 2, n=network) for use in uses[case]]
        answer = ask(FORETRACE, "whatif", str(trace), *asked, *(["--stack"] if len(asked) > 1 else []))
        found = answer.get("predictions", [{}])[-1]
        if "ms" not in found:
            print(f"{model:6} {case:10} {world:5} {answer.get('error') or found.get('declined') or found}")
            continue
        low, middle, high = (median(r[key] for r in ranks) for key in ("p10_ms", "median_ms", "p90_ms"))
        full = max(r["peak_bytes"] for r in ranks)
        step = error_pct(found["ms"], low, middle, high)
        peak = 100 * (found["peak_bytes"] / full - 1)
        steps.append(abs(step))
        peaks.append(abs(peak))
        print(f"{model:6} {case:10} {world:5} {middle:9.2f} {found['ms']:9.2f} {step:+6.1f}%   {full / 1e9:7.2f} "
              f"{found['peak_bytes'] / 1e9:9.2f} {peak:+6.1f}%")
    if steps:
        print(f"step: mean {mean(steps):.1f} %, most {max(steps):.1f} %; peak: mean {mean(peaks):.1f} %, most {max(peaks):.1f} %")
    return 0


if __name__ == "__main__":
    sys.exit(main())
