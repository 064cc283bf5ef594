#!/usr/bin/env python3
"""What `foretrace ranks` says of recorded jobs of all kinds of parallelism, against their measured rows: every step replayed over all
ranks, and no collective in an impossible order. `--gate` fails where a promise is broken.

    tools/job_accuracy.py [--gate] [FOLDER…]      jobs in $FORETRACE_TRUTH/h200-parallel, or in these folders

A job is the traces `<model>.<tag>.<case>.w<world>.r<rank>.json.gz` of a folder with `truth.jsonl`, whose rows have the steps under the
profiler of each rank (`profiled_ms`). Without such a folder there is nothing to judge (exit code 77).
"""

import os
import re
import sys
from collections import defaultdict
from pathlib import Path
from statistics import mean

from gates import ask, parser, verdict
from truth import json_lines

MOST_PCT = 2.0  # of the step under the profiler: how far a replayed job may be off
NO_JOB = ("solo",)  # cases whose ranks run side by side


def jobs_in(folder: Path) -> dict[str, list[Path]]:
    """Traces by job, in the order of their ranks."""
    found = defaultdict(list)
    for path in folder.glob("*.json.gz"):
        if named := re.fullmatch(r"(.+\.w\d+)\.r(\d+)\.json\.gz", path.name):
            found[named[1]].append((int(named[2]), path))
    return {name: [path for _, path in sorted(paths)] for name, paths in sorted(found.items())}


def profiled(rows: list[dict], job: str) -> list[float]:
    """Mean over the ranks of each traced step, as the program itself timed it."""
    model, tag, case, world = re.fullmatch(r"(.+?)\.(.+?)\.(.+)\.w(\d+)", job).groups()
    mine = [r["profiled_ms"] for r in rows
            if (r["model"], r["tag"], r["case"], r["world"]) == (model, tag, case, int(world)) and r.get("profiled_ms")]
    return [mean(step) for step in zip(*mine, strict=False)]


def judge(program: Path, job: str, traces: list[Path], rows: list[dict]) -> list[str]:
    bad = []
    case = job.split(".")[2]
    files = [str(t) for t in traces]
    first = ask(program, "ranks", *files)
    if "error" in first:
        return [f"{job}: {first['error']}"]
    for number, measured in zip(first["steps"], profiled(rows, job), strict=False):
        answer = ask(program, "ranks", *files, "--step", str(number))
        off = 100 * (answer["job_step_replayed_ms"] / measured - 1)
        impossible = answer["clocks"]["violations_left"]
        print(f"{job:28} step {number}: measured {measured:7.2f} ms, replayed {answer['job_step_replayed_ms']:7.2f} ({off:+.2f} %), "
              f"{len(answer['collectives'])} collectives, {impossible} in an impossible order")
        if abs(off) > MOST_PCT:
            bad.append(f"{job} step {number}: replayed {off:+.2f} % off, at most {MOST_PCT} % allowed")
        if impossible:
            bad.append(f"{job} step {number}: {impossible} collectives in an impossible order")
        if answer["connected"] == (case in NO_JOB):
            bad.append(f"{job}: {'no job' if case in NO_JOB else 'a job'}, and the answer says otherwise")
        if case in NO_JOB and answer["stragglers"]:
            bad.append(f"{job} step {number}: stragglers among ranks that do not communicate")
    return bad


def main() -> int:
    arguments = parser(__doc__, limits=False)
    arguments.add_argument("folders", nargs="*", type=Path)
    options = arguments.parse_args()
    folders = options.folders
    if not folders:
        if not (truth := os.environ.get("FORETRACE_TRUTH")):
            print("no recorded jobs: FORETRACE_TRUTH is not set")
            return 77
        folders = [Path(truth) / "h200-parallel"]
    bad = []
    for folder in folders:
        rows = json_lines(folder / "truth.jsonl")
        for job, traces in jobs_in(folder).items():
            bad += judge(options.program, job, traces, rows)
    return verdict(bad, options.gate)


if __name__ == "__main__":
    sys.exit(main())
