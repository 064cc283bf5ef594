#!/usr/bin/env python3
"""Steps of JAX on an H200, predicted from the profile of one and measured as another (data/h200-jax).

    tools/jax_accuracy.py [--gate]                every pair of rows that differ in batch or precision, every row without waiting, every profile replayed
    tools/jax_accuracy.py FOLDER --blind MODEL…   only what is predicted for these models: no measured row is read but the one a prediction starts from

A pair is predicted from the profile of the first with its measured time, and judged by the median step and the GPU time of the second; `no-sync` by the same
program's steps that nobody waits for. Promised: from a base (BASES) a step within 10 % at twice and half the batch and in another precision, a replay
within 1 % of the profile, at most 15 % of it frozen.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import mean

import gates
from gates import ask
from truth import ROOT, json_lines

LIMITS = Path(__file__).with_name("jax_limits.json")
SLACK = 0.3  # percentage points
# Rows from which the promise is kept, for either model; from others it is not always (docs/reference/jax.md says why), and limits hold what is reached.
BASES = ("transformer.fp32.b8", "transformer.tf32.b8", "resnet18.fp32.b64")
STEP_PCT, REPLAY_PCT, FROZEN_PCT = 10, 1, 15
# What makes one precision of another; what a compiler did with command buffers is not asked.
PRECISIONS = {("fp32", "tf32"): "tf32", ("fp32", "bf16"): "amp:dtype=bf16", ("tf32", "bf16"): "amp:dtype=bf16",
              ("tf32", "fp32"): "fp32", ("bf16", "fp32"): "fp32", ("bf16", "tf32"): "fp32:products=tf32"}  # fmt: skip


def name_of(row: dict) -> str:
    return row["trace"].removesuffix(".xplane.pb.gz")


def changes(rows: list[dict], base: dict) -> Iterator[tuple[str, dict]]:
    if base["how"] == "recorded":  # its loop never waits, and foretrace.record's own figures say how long it took
        return
    yield "no-sync", base | {"median_ms": base["unblocked_ms"]}
    for row in rows:
        if row["model"] != base["model"] or row["how"] != base["how"]:
            continue
        if row["precision"] == base["precision"] and row["bs"] != base["bs"]:
            yield f"batch:x={row['bs'] / base['bs']:g}", row
        use = PRECISIONS.get((base["precision"], row["precision"]))
        if row["bs"] == base["bs"] and use:
            yield use, row


def predicted(program: Path, folder: Path, rows: list[dict]) -> Iterator[tuple[str, float, float, bool]]:
    """Each pair: its name, the errors of step and GPU time in percent, and whether the step was inside the band."""
    for base in rows:
        asked = list(changes(rows, base))
        if not asked:
            continue
        answer = ask(program, "whatif", str(folder / base["trace"]), *(use for use, _ in asked), "-m", str(base["median_ms"]))
        for (use, row), said in zip(asked, answer["predictions"]):
            if use == "no-sync" and "ms" not in said:
                continue  # the profiled step did not wait: the host was behind the GPU
            if "ms" not in said:
                sys.exit(f"{name_of(base)} {use}: {said}")
            step, gpu = (100 * (a / b - 1) for a, b in ((said["ms"], row["median_ms"]), (said["gpu_ms"], row["gpu_ms"])))
            yield f"{name_of(base)} {use}", step, gpu, said["low_ms"] <= row["median_ms"] <= said["high_ms"]


def blind(program: Path, folder: Path, models: list[str]) -> None:
    """A table of predictions, to be kept before anybody compares them."""
    rows = json_lines(folder / "truth.jsonl")
    print("from,what if,step_ms,low_ms,high_ms,gpu_ms,peak_gb")
    for base in rows:
        if base["model"] not in models or not (folder / base["trace"]).exists():
            continue
        asked = ["tf32", "amp:dtype=bf16", "batch:x=0.5", "batch:x=2"]
        for use, said in zip(asked, ask(program, "whatif", str(folder / base["trace"]), *asked, "-m", str(base["median_ms"]))["predictions"], strict=True):
            if "ms" in said:
                peak = said.get("peak_bytes") or 0
                print(f"{name_of(base)},{use},{said['ms']:.3f},{said['low_ms']:.3f},{said['high_ms']:.3f},{said['gpu_ms']:.3f},{peak / 1e9:.2f}")
            else:
                print(f"{name_of(base)},{use},,,,,")


def replayed(program: Path, traces: list[Path]) -> Iterator[tuple[str, float, float]]:
    for trace in traces:
        steps = ask(program, "replay", str(trace))["steps"]
        yield trace.name.split(".xplane")[0], max(abs(s["error_pct"]) for s in steps), max(s["frozen_pct"] for s in steps)


def main() -> int:
    parser = gates.parser(__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "data" / "h200-jax")
    parser.add_argument("--blind", nargs="+", metavar="MODEL", help="print what is predicted, and compare nothing")
    options = parser.parse_args()
    if options.blind:
        blind(options.program, options.folder, options.blind)
        return 0
    rows = json_lines(options.folder / "truth.jsonl")
    bad: list[str] = []
    pairs = list(predicted(options.program, options.folder, rows))
    for name, step, gpu, inside in sorted(pairs, key=lambda p: -abs(p[1])):
        print(f"  {name:48} step {step:+6.1f} %   GPU {gpu:+6.1f} %   {'inside' if inside else 'outside'} its band")
        if abs(step) > STEP_PCT and name.split(" ")[0] in BASES:
            bad.append(f"{name}: the step is off by {step:+.1f} %, {STEP_PCT} were promised")
    traces = [options.folder / r["trace"] for r in rows]
    if truth := os.environ.get("FORETRACE_TRUTH"):
        traces += sorted(Path(truth, "jax").glob("*.xplane.pb"))
    for name, error, frozen in replayed(options.program, traces):
        print(f"  {name:48} replay {error:5.2f} %   frozen {frozen:5.1f} %")
        if error > REPLAY_PCT or frozen > FROZEN_PCT:
            bad.append(f"{name}: replay {error:.2f} %, frozen {frozen:.1f} %")
    now = {
        "step_mean": mean(abs(p[1]) for p in pairs), "step_max": max(abs(p[1]) for p in pairs),
        "gpu_mean": mean(abs(p[2]) for p in pairs), "gpu_max": max(abs(p[2]) for p in pairs),
    }  # fmt: skip
    held = sum(p[3] for p in pairs)
    print(f"{len(pairs)} pairs: step {now['step_mean']:.1f} % on average, {now['step_max']:.1f} at most; "
          f"GPU time {now['gpu_mean']:.1f} and {now['gpu_max']:.1f}; {held} inside their bands")  # fmt: skip
    names = sorted(p[0] for p in pairs)
    allowed = gates.load(LIMITS)
    if options.update_limits:
        gates.save(LIMITS, {"figures": gates.rounded(now), "rows": names})
    elif options.gate:
        bad += gates.over("jax", now, allowed.get("figures", {}), SLACK)
        bad += gates.vanished("jax", names, allowed.get("rows", []))
        print("\n".join(bad) or "jax: within its limits")
        return 1 if bad else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
