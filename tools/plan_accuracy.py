#!/usr/bin/env python3
"""Parallel jobs predicted from the trace of one GPU, against measured ones: step and peak memory of the fullest rank.

    tools/plan_accuracy.py [FOLDER] [--collectives FILE] [--measured] [--case NAME]

FOLDER (default: $FORETRACE_TRUTH/h200-parallel) holds rows by rank in `truth*.jsonl`, traces `<model>.<tag>.solo.w<world>.r0.json.gz` of
ranks that run side by side without communication, and `collectives.jsonl` unless another file is named. A row counts by its distance to the
median; where its p90 - p10 exceeds 5 % of that, by its distance to [p10, p90]. With --measured the predictions also know the step of the
ranks side by side as it was measured without the profiler. Without such a folder there is nothing to judge (exit code 77).
"""

import argparse
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from statistics import mean, median

from gates import FORETRACE, ask
from truth import json_lines

QUIET_PCT = 5.0  # a row whose p90 - p10 is below this counts by its median
FSDP = "param_dtype=bf16,reduce_dtype=fp32,{n}"
# What a case is, as what-ifs on the trace of one GPU; {w}: ranks, {h}: half of them, {n}: the network's parameters.
CASES: list[tuple[str, list[str]]] = [
    ("ddp", ["ddp:workers={w},{n}"]),
    ("ddp/bs2", ["batch:x=2", "ddp:workers={w},{n}"]),
    ("ddp/ckpt", ["checkpoint", "ddp:workers={w},{n}"]),
    ("fsdp", ["fsdp:workers={w}," + FSDP]),
    ("fsdp/ckpt", ["checkpoint", "fsdp:workers={w}," + FSDP]),
    ("tp", ["tp:size={w},vocab=replicated,{n}"]),
    ("tp/bs2", ["batch:x=2", "tp:size={w},vocab=replicated,{n}"]),
    ("tp/ckpt", ["checkpoint", "tp:size={w},vocab=replicated,{n}"]),
    ("tp2dp", ["tp:size=2,vocab=replicated,{n}", "ddp:workers={h},{n}"]),
    ("tp2fsdp", ["tp:size=2,vocab=replicated,{n}", "fsdp:workers={h}," + FSDP]),
    ("cp", ["cp:size={w},kind=ulysses,reduce=0,{n}"]),
    ("ep", ["ep:size={w},reduce=0,{n}"]),
]
# The same as plans: those with a pipeline only a plan can say; --plans asks for all of them that way.
PLANS: dict[str, str] = {
    "ddp": "dp={w}", "ddp/ckpt": "dp={w},recompute=full",
    "fsdp": "fsdp={w},param-dtype=bf16,reduce-dtype=fp32", "fsdp/ckpt": "fsdp={w},param-dtype=bf16,reduce-dtype=fp32,recompute=full",
    "tp": "tp={w},vocab=replicated", "tp/ckpt": "tp={w},vocab=replicated,recompute=full", "tp2dp": "tp=2,dp={h},vocab=replicated",
    "tp2fsdp": "tp=2,fsdp={h},vocab=replicated,param-dtype=bf16,reduce-dtype=fp32", "cp": "cp={w},kind=ulysses,reduce=0",
    "ep": "ep={w},reduce=0", "pp4": "pp={w},microbatches=4,outputs=kept", "pp8": "pp={w},microbatches=8,outputs=kept",
    "gp4": "pp={w},microbatches=4,schedule=gpipe,outputs=kept", "il4": "pp={w},microbatches=4,schedule=interleaved,outputs=kept",
    "il8": "pp={w},microbatches=8,schedule=interleaved,outputs=kept", "pp2dp4": "pp=2,dp={h},microbatches=4,outputs=kept",
}
NOT_JUDGED = {"pp8"}  # micro-batches of one sample: launches alone


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


def step_of(ranks: list[dict]) -> tuple[float, float, float]:
    low, middle, high = (median(r[key] for r in ranks) for key in ("p10_ms", "median_ms", "p90_ms"))
    return low, middle, high


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=Path(os.environ.get("FORETRACE_TRUTH", "")) / "h200-parallel")
    parser.add_argument("--collectives", type=Path)
    parser.add_argument("--measured", action="store_true")
    parser.add_argument("--plans", action="store_true", help="every case as a plan, not only pipelines")
    parser.add_argument("--case", action="append", help="only this case; may be repeated")
    options = parser.parse_args()
    folder: Path = options.folder
    files = sorted(folder.glob("truth*.jsonl"))
    if not files:
        print(f"{folder}: no measured jobs")
        return 77
    measured = jobs(row for file in files for row in json_lines(file))
    steps: list[float] = []
    peaks: list[float] = []
    print(f"{'model':6} {'case':10} {'ranks':>5} {'measured':>9} {'predicted':>9} {'error':>7}   {'peak GB':>7} {'predicted':>9} {'error':>7}")
    uses = dict(CASES)
    for (model, world, case, tag), ranks in sorted(measured.items()):
        as_plan = case in PLANS and (options.plans or case not in uses)
        if not (case in uses or as_plan) or (options.case and case not in options.case):
            continue
        trace = folder / f"{model}.{tag}.solo.w{world}.r0.json.gz"
        network = f"collectives={options.collectives or folder / 'collectives.jsonl'},collectives_tag={tag}"
        asked = [use.format(w=world, h=world // 2, n=network) for use in uses.get(case, [])]
        alone = measured.get((model, world, "solo", tag))
        known = ["--measured-ms", str(step_of(alone)[1])] if options.measured and alone else []
        if as_plan:
            file = str(options.collectives or folder / "collectives.jsonl")
            answer = ask(FORETRACE, "scale", str(trace), "--plan", PLANS[case].format(w=world, h=world // 2), "--collectives", file,
                         "--collectives-tag", tag, *known)
        else:
            answer = ask(FORETRACE, "whatif", str(trace), *asked, *(["--stack"] if len(asked) > 1 else []), *known)
        found = answer.get("predictions", [{}])[-1]
        if "ms" not in found:
            print(f"{model:6} {case:10} {world:5} {answer.get('error') or found.get('declined') or found}")
            continue
        low, middle, high = step_of(ranks)
        full = max(r["peak_bytes"] for r in ranks)
        step = error_pct(found["ms"], low, middle, high)
        peak = 100 * (found["peak_bytes"] / full - 1)
        if case not in NOT_JUDGED:
            steps.append(abs(step))
            peaks.append(abs(peak))
        print(f"{model:6} {case:10} {world:5} {middle:9.2f} {found['ms']:9.2f} {step:+6.1f}%   {full / 1e9:7.2f} "
              f"{found['peak_bytes'] / 1e9:9.2f} {peak:+6.1f}%")
    if steps:
        print(f"step: mean {mean(steps):.1f} %, most {max(steps):.1f} %; peak: mean {mean(peaks):.1f} %, most {max(peaks):.1f} %")
    return 0


if __name__ == "__main__":
    sys.exit(main())
