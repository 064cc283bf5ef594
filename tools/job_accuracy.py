#!/usr/bin/env python3
"""What `foretrace ranks` says of recorded jobs of all kinds of parallelism, against their measured rows: every step replayed over all
ranks, no collective in an impossible order, the kind of the job, the bubble of pipelines against a count over the recorded timeline, and no
straggler, for these ranks are equal by construction. `--gate` fails where a promise is broken.

    tools/job_accuracy.py [--gate] [FOLDER…]      jobs in $FORETRACE_TRUTH/h200-parallel, or in these folders

A job is the traces `<model>.<tag>.<case>.w<world>.r<rank>.json.gz` of a folder with `truth.jsonl` or `rows.jsonl`, whose rows have the steps
under the profiler of each rank (`profiled_ms`). Without such a folder there is nothing to judge (exit code 77).
"""

import argparse
import os
import re
import sys
from collections import defaultdict
from pathlib import Path
from statistics import mean

from bubble_count import bubbles
from gates import ask, parser, verdict
from truth import json_lines

MOST_PCT = 2.0  # of the step under the profiler: how far a replayed job may be off
BUBBLE_PCT = 10.0  # of the bubble as counted
NO_JOB = ("solo",)  # cases whose ranks run side by side
# What a case is called, of w ranks; numbers in its name are micro-batches.
KINDS = {"cp": "cp{w}", "ddp": "dp{w}", "fsdp": "fsdp{w}", "tp": "tp{w}", "tpd": "tp{w}", "ep": "ep{w}", "pp": "pp{w} 1f1b", "il": "pp{w} interleaved",
         "gp": "pp{w} gpipe", "tp2dp": "tp2 dp{h}", "tp2fsdp": "tp2 fsdp{h}", "pp2dp": "pp2 dp{h} 1f1b"}


def expected(case: str, world: int) -> str:
    """"pp2 dp2 1f1b 4": the parallelism, and of pipelines the schedule and the micro-batches."""
    case = case.split("/")[0].split("-")[0]
    named = re.fullmatch(r"(pp2dp|pp|il|gp)(\d+)", case)
    kind, batches = (named[1], f" {named[2]}") if named else (case, "")
    return KINDS[kind].format(w=world, h=world // 2) + batches


def called(answer: dict) -> str:
    pipeline = answer["pipeline"]
    return answer["parallel"] + (f" {pipeline['schedule']} {pipeline['micro_batches']}" if pipeline else "")


def jobs_in(folder: Path) -> dict[str, list[Path]]:
    """Traces by job, in the order of their ranks."""
    found = defaultdict(list)
    for path in folder.glob("*.json.gz"):
        if named := re.fullmatch(r"(.+\.w\d+)\.r(\d+)\.json\.gz", path.name):
            found[named[1]].append((int(named[2]), path))
    return {name: [path for _, path in sorted(paths)] for name, paths in sorted(found.items())}


def profiled(rows: list[dict], job: str) -> list[float]:
    """Mean over the ranks of each traced step, as the program itself timed it. File names have a dash where rows have a slash."""
    named = re.fullmatch(r"(.+?)\.(.+?)\.(.+)\.w(\d+)", job)
    if named is None:
        raise SystemExit(f"{job}: not MODEL.TAG.CASE.wN")
    model, tag, case, world = named.groups()
    mine = [r["profiled_ms"] for r in rows
            if (r["model"], r["tag"], r["case"].replace("/", "-"), r["world"]) == (model, tag, case, int(world)) and r.get("profiled_ms")]
    return [mean(step) for step in zip(*mine, strict=False)]


def judge(program: Path, job: str, traces: list[Path], rows: list[dict]) -> list[str]:
    bad = []
    case, world = job.split(".")[2], len(traces)
    files = [str(t) for t in traces]
    first = ask(program, "ranks", *files)
    if "error" in first:
        return [f"{job}: {first['error']}"]
    if case not in NO_JOB and called(first) != expected(case, world):
        bad.append(f"{job}: called {called(first)}, is {expected(case, world)}")
    if case.startswith("tpd") and not first["sequence_parallel"]:
        bad.append(f"{job}: sequence parallel is not seen")
    counted = list(zip(*(bubbles(t) for t in traces), strict=True)) if first["pipeline"] else []
    for place, (number, measured) in enumerate(zip(first["steps"], profiled(rows, job), strict=False)):
        answer = ask(program, "ranks", *files, "--step", str(number))
        off = 100 * (answer["job_step_replayed_ms"] / measured - 1)
        impossible = answer["clocks"]["violations_left"]
        print(f"{job:28} step {number}: measured {measured:7.2f} ms, replayed {answer['job_step_replayed_ms']:7.2f} ({off:+.2f} %), "
              f"{len(answer['collectives'])} collectives, {impossible} in an impossible order; {called(answer) or 'no job'}")
        if abs(off) > MOST_PCT:
            bad.append(f"{job} step {number}: replayed {off:+.2f} % off, at most {MOST_PCT} % allowed")
        if impossible:
            bad.append(f"{job} step {number}: {impossible} collectives in an impossible order")
        if answer["connected"] == (case in NO_JOB):
            bad.append(f"{job}: {'no job' if case in NO_JOB else 'a job'}, and the answer says otherwise")
        if answer["stragglers"]:
            bad.append(f"{job} step {number}: stragglers among ranks that are equal by construction")
        for rank, bubble in zip(answer["ranks"], counted[place] if counted else [], strict=False):
            print(f"    rank {rank['rank']}: bubble {rank['bubble_ms']:.2f} ms, counted {bubble:.2f}")
            if abs(rank["bubble_ms"] - bubble) > BUBBLE_PCT / 100 * bubble:
                bad.append(f"{job} step {number} rank {rank['rank']}: bubble {rank['bubble_ms']:.2f} ms, counted {bubble:.2f}")
    return bad


def options_and_folders(about: str | None, limits: bool = False, update_docs: bool = False) -> tuple[argparse.Namespace, list[Path]]:
    """What was asked for, and the folders of recorded jobs; ends with 77 (skipped) where there are none. `update_docs`: the tool has that option."""
    arguments = parser(about, limits=limits)
    if update_docs:
        arguments.add_argument("--update-docs", action="store_true", help="write the rows into the page that documents them")
    arguments.add_argument("folders", nargs="*", type=Path)
    options = arguments.parse_args()
    if options.folders:
        return options, options.folders
    if not (truth := os.environ.get("FORETRACE_TRUTH")):
        print("no recorded jobs: FORETRACE_TRUTH is not set")
        sys.exit(77)
    return options, [Path(truth) / "h200-parallel"]


def main() -> int:
    options, folders = options_and_folders(__doc__)
    bad = []
    for folder in folders:
        rows = [row for name in ("truth.jsonl", "rows.jsonl") if (folder / name).exists() for row in json_lines(folder / name)]
        for job, traces in jobs_in(folder).items():
            bad += judge(options.program, job, traces, rows)
    return verdict(bad, options.gate)


if __name__ == "__main__":
    sys.exit(main())
