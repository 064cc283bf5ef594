#!/usr/bin/env python3
"""Parallel jobs predicted from the trace of one GPU, against measured ones: step and peak memory of the fullest rank.

    tools/plan_accuracy.py [FOLDER…] [--collectives FILE] [--measured] [--case NAME] [--update-docs] [--gate]

A FOLDER (default: data/h200-parallel, data/h200-jobs, data/h200-more-jobs and $FORETRACE_TRUTH/h200-parallel) holds rows by rank in `truth*.jsonl` or `rows.jsonl`.
Traces `<model>.<tag>.solo.w<world>.r0.json.gz` of ranks that run side by side without communication, and the `collectives.jsonl` of their
session, are in one of the folders. A row counts by its distance to the median; where its p90 - p10 exceeds 5 % of that, by its distance to [p10, p90]. With
--measured the predictions also know the step of the ranks side by side as it was measured without the profiler. --update-docs writes the rows
into docs/internals/appendix-jobs.md. --gate: no folder may get worse than tools/plan_limits.json allows, and no row may vanish.
"""

import sys
from collections.abc import Iterable
from pathlib import Path
from statistics import mean

import fitted
import gates
import job_rows
import track_record
from gates import ask
from job_rows import USUAL_CHANNELS, JobRow, channels_of, rows_of, step_of, truth_folder
from truth import ROOT, json_lines

LIMITS = Path(__file__).with_name("plan_limits.json")
SLACK = 0.5  # percent
DATA = ("h200-parallel", "h200-jobs", "h200-more-jobs")
FSDP = "param_dtype=bf16,reduce_dtype=fp32,{n}"
# What a case is, as what-ifs on the trace of one GPU; {w}: ranks, {h}: half of them, {n}: the network's parameters.
CASES: dict[str, list[str]] = {
    "ddp": ["ddp:workers={w},{n}"],
    "fsdp": ["fsdp:workers={w}," + FSDP],
    "tp": ["tp:size={w},vocab=replicated,{n}"],
    "tp2dp": ["tp:size=2,vocab=replicated,{n}", "ddp:workers={h},{n}"],
    "tp2fsdp": ["tp:size=2,vocab=replicated,{n}", "fsdp:workers={h}," + FSDP],
    "cp": ["cp:size={w},kind=ulysses,reduce=0,{n}"],
    "ep": ["ep:size={w},reduce=0,{n}"],
    "pp4": ["pp:stages={w},microbatches=4,outputs=kept,{n}"], "pp8": ["pp:stages={w},microbatches=8,outputs=kept,{n}"],
    "gp4": ["pp:stages={w},microbatches=4,schedule=gpipe,outputs=kept,{n}"],
    "il4": ["pp:stages={w},microbatches=4,schedule=interleaved,outputs=kept,{n}"],
    "il8": ["pp:stages={w},microbatches=8,schedule=interleaved,outputs=kept,{n}"],
    "ddp/bucket5": ["bucket:mb=5,workers={w},{n}"],
    "ddp/bucket100": ["bucket:mb=100,workers={w},{n}"],
}
# What stands behind a case's slash: a change of the step on one GPU.
VARIANTS = {"bs2": "batch:x=2", "ckpt": "checkpoint", "accum2": "accumulate:n=2"}
# The same as plans; --plans asks for all of them that way. Stages that reduce behind their last backward pass only a plan can say.
PLANS: dict[str, str] = {
    "ddp": "dp={w}", "ddp/ckpt": "dp={w},recompute=full",
    "fsdp": "fsdp={w},param-dtype=bf16,reduce-dtype=fp32", "fsdp/ckpt": "fsdp={w},param-dtype=bf16,reduce-dtype=fp32,recompute=full",
    "tp": "tp={w},vocab=replicated", "tp/ckpt": "tp={w},vocab=replicated,recompute=full", "tp2dp": "tp=2,dp={h},vocab=replicated",
    "tp2fsdp": "tp=2,fsdp={h},vocab=replicated,param-dtype=bf16,reduce-dtype=fp32", "cp": "cp={w},kind=ulysses,reduce=0",
    "ep": "ep={w},reduce=0", "pp4": "pp={w},microbatches=4,outputs=kept", "pp8": "pp={w},microbatches=8,outputs=kept",
    "gp4": "pp={w},microbatches=4,schedule=gpipe,outputs=kept", "il4": "pp={w},microbatches=4,schedule=interleaved,outputs=kept",
    "il8": "pp={w},microbatches=8,schedule=interleaved,outputs=kept",
    # Stages under DistributedDataParallel reduce behind their last backward pass: so in the traces of all ranks.
    "pp2dp4": "pp=2,dp={h},microbatches=4,outputs=kept,overlap=0",
}
NOT_JUDGED = {"pp8"}  # micro-batches of one sample: launches alone


# Ranks that do not communicate are the same on every network.
ALONE = "inside"


def jobs(rows: Iterable[dict]) -> dict[tuple[str, int, str, str], list[dict]]:
    """Rows of all ranks over the usual links, by model, world, case and tag."""
    found: dict[tuple[str, int, str, str], list[dict]] = {}
    for row in rows:
        if channels_of(row) == USUAL_CHANNELS:
            found.setdefault((row["model"], row["world"], row["case"], row["tag"]), []).append(row)
    return found


def uses_of(case: str) -> list[str]:
    """The what-ifs that make a case of the step on one GPU; none where only a plan can say it, or nothing."""
    kind, _, variant = case.partition("/")
    if case in CASES:
        return CASES[case]
    return [VARIANTS[variant], *CASES[kind]] if kind in CASES and variant in VARIANTS else []


def with_file(folders: list[Path], name: str, first: Path) -> Path | None:
    """A file by its name, in the row's own folder if it is there."""
    return next((f / name for f in (first, *folders) if (f / name).exists()), None)


def collectives_of(folders: list[Path], first: Path, tag: str) -> Path | None:
    """Measured collectives of the session, or of another on the same links."""
    files = [f / "collectives.jsonl" for f in (first, *folders) if (f / "collectives.jsonl").exists()]
    return next((file for file in files if any(c.get("tag") == tag for c in json_lines(file))), None)


def default_folders() -> list[Path]:
    return [*(ROOT / "data" / name for name in DATA), *truth_folder("h200-parallel")]


def predicted(options, folders: list[Path], folder: Path) -> tuple[list[JobRow], list[str]]:
    """Every row that can be asked for, and what came instead of a prediction."""
    measured = jobs(rows_of(folder))
    found: list[JobRow] = []
    bad: list[str] = []
    for (model, world, case, tag), ranks in sorted(measured.items()):
        uses = uses_of(case)
        as_plan = case in PLANS and (options.plans or not uses)
        trace = with_file(folders, f"{model}.{ALONE}.solo.w{world}.r0.json.gz", folder)
        file = options.collectives or collectives_of(folders, folder, tag)
        if not (uses or as_plan) or (options.case and case not in options.case) or not trace or not file:
            continue
        alone = measured.get((model, world, "solo", tag))
        known = ["--measured-ms", str(step_of(alone).median_ms)] if options.measured and alone else []
        asked = [use.format(w=world, h=world // 2, n=f"collectives={file},collectives_tag={tag}") for use in uses]
        if as_plan:
            answer = ask(options.program, "scale", str(trace), "--plan", PLANS[case].format(w=world, h=world // 2), "--collectives", str(file),
                         "--collectives-tag", tag, *known)
        else:
            answer = ask(options.program, "whatif", str(trace), *asked, *(["--stack"] if len(asked) > 1 else []), *known)
        said = answer.get("predictions", [{}])[-1]
        if "ms" not in said:
            bad.append(f"{folder.name} {model} {world} {case}: {answer.get('error') or said.get('declined') or said}")
            continue
        names = () if as_plan else tuple(use.split(":")[0] for use in asked)
        found.append(JobRow(trace.parent, model, world, case, names, tag, step_of(ranks), said))
    return found, bad


def show(rows: list[JobRow]) -> None:
    for r in rows:
        measured, peak = r.measured.peak_bytes, ""
        if measured and r.peak_pct is not None:
            peak = f"{measured / 1e9:7.2f} {r.prediction['peak_bytes'] / 1e9:9.2f} {r.peak_pct:+6.1f}%"
        inside = "" if r.in_band is None else "" if r.in_band else "  outside the band"
        print(f"{r.model:6} {r.case:10} {r.ranks:5} {r.measured.median_ms:9.2f} {r.prediction['ms']:9.2f} {r.step_pct:+6.1f}% "
              f"{r.measured.to_median_pct(r.prediction['ms']):+6.1f}%   {peak}{inside}")


def figures(rows: list[JobRow]) -> dict[str, float]:
    steps = [abs(r.step_pct) for r in rows]
    peaks = [abs(r.peak_pct) for r in rows if r.peak_pct is not None]
    return {"step_mean_pct": mean(steps), "step_largest_pct": max(steps), "peak_mean_pct": mean(peaks), "peak_largest_pct": max(peaks)}


def main() -> int:
    parser = gates.parser(__doc__)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--collectives", type=Path)
    parser.add_argument("--measured", action="store_true")
    parser.add_argument("--plans", action="store_true", help="every case as a plan, not only pipelines")
    parser.add_argument("--case", action="append", help="only this case; may be repeated")
    parser.add_argument("--update-docs", action="store_true", help="write the rows into docs/internals/appendix-jobs.md")
    options = parser.parse_args()
    folders = options.folders or default_folders()
    limits = gates.load(LIMITS)
    every: list[JobRow] = []
    bad: list[str] = []
    reached: dict[str, dict] = {}
    print(f"{'model':6} {'case':10} {'ranks':>5} {'measured':>9} {'predicted':>9} {'error':>7} {'median':>7}   {'peak GB':>7} {'predicted':>9} {'error':>7}")
    for folder in folders:
        rows, declined = predicted(options, folders, folder)
        show(rows)
        every += rows
        bad += declined
    # By the folder of the trace: some of them may be absent.
    for name in sorted({job_rows.folder_name(r.folder) for r in every}):
        rows = [r for r in every if job_rows.folder_name(r.folder) == name]
        judged = [r for r in rows if r.case not in NOT_JUDGED]
        if judged:
            print(f"{name}: {job_rows.summary(judged)}")
            reached[name] = figures(judged) | {"rows": [r.name for r in rows]}
            kept = limits.get(name, {})
            bad += gates.over(name, figures(judged), kept, SLACK) + gates.vanished(name, [r.name for r in rows], kept.get("rows", []))
    for line in [] if options.gate else bad:
        print(line)
    if options.update_limits:
        gates.save(LIMITS, gates.rounded(limits | reached))
    if options.update_docs:
        job_rows.write("one", every)
        fitted.keep(track_record.files(), check=False)
    return gates.verdict(bad, options.gate)


if __name__ == "__main__":
    sys.exit(main())
