#!/usr/bin/env python3
"""Jobs of several ranks, all of them simulated together, against their measured rows: the step without the profiler, and the same job
after a change, from the traces alone and with the measured step of today. `--gate` fails where a promise is broken.

    tools/job_predictions.py [--gate] [FOLDER…]      jobs in $FORETRACE_TRUTH/h200-parallel, or in these folders

A job is the traces `<model>.<tag>.<case>.w<world>.r<rank>.json.gz` of a folder with `truth.jsonl`, whose rows are the steps of each rank
without the profiler; `<case>/bs2` and `<case>/ckpt` are the same job after a change. A row whose 10th and 90th percentile are more than 5 %
apart counts by its distance to the two; the distance to its median is printed next to it. Without such a folder there is nothing to judge
(exit code 77).
"""

import sys
from statistics import mean

from gates import ask, verdict
from job_accuracy import NO_JOB, jobs_in, options_and_folders
from truth import json_lines

QUIET = 0.05  # of the median: rows that vary less count by their median
CHANGES = {"bs2": "batch:x=2", "bsh": "batch:x=0.5", "ckpt": "checkpoint"}
# Percent: mean and largest error. What the step without the profiler is held to is what is reached; CPU-bound jobs with much Python between
# their operations are known to be off (docs/internals/ranks.md).
STEP, CHANGED, MEASURED, MEMORY = (6.5, 25.0), (5.0, 12.0), (4.0, 12.0), (3.0, 8.0)


def measured(rows: list[dict], job: str, change: str = "") -> dict[str, float] | None:
    """Means over the ranks, and the highest peak."""
    model, tag, case, world = job.split(".")
    mine = [r for r in rows if (r["model"], r["tag"], r["case"], f"w{r['world']}") == (model, tag, case + (change and "/" + change), world)
            and "median_ms" in r]
    if not mine:
        return None
    return {name: mean(r[name] for r in mine) for name in ("median_ms", "p10_ms", "p90_ms")} | {"peak": max(r["peak_bytes"] for r in mine)}


def off_pct(ms: float, row: dict[str, float]) -> tuple[float, float]:
    """The error that counts, and the distance to the median."""
    to_median = 100 * (ms / row["median_ms"] - 1)
    if row["p90_ms"] - row["p10_ms"] <= QUIET * row["median_ms"]:
        return to_median, to_median
    nearest = min(max(ms, row["p10_ms"]), row["p90_ms"])
    return 100 * (ms - nearest) / row["median_ms"], to_median


def shown(what: str, ms: float, row: dict[str, float]) -> float:
    off, to_median = off_pct(ms, row)
    print(f"{what:40} {ms:7.2f} ms, measured {row['median_ms']:7.2f} [{row['p10_ms']:.1f}, {row['p90_ms']:.1f}]: {off:+6.2f} % "
          f"({to_median:+.2f} % to the median)")
    return abs(off)


def summed(name: str, errors: list[float], limits: tuple[float, float]) -> list[str]:
    if not errors:
        return []
    print(f"{name}: {len(errors)} rows, mean {mean(errors):.2f} %, largest {max(errors):.2f} %")
    return [f"{name}: {what} error {value:.2f} %, at most {limit} % allowed"
            for what, value, limit in zip(("mean", "largest"), (mean(errors), max(errors)), limits, strict=True) if value > limit]


def main() -> int:
    options, folders = options_and_folders(__doc__)
    bad, steps, changes, known, peaks = [], [], [], [], []
    for folder in folders:
        rows = json_lines(folder / "truth.jsonl")
        for job, traces in jobs_in(folder).items():
            if job.split(".")[2] in NO_JOB or not (today := measured(rows, job)):
                continue
            asked = {CHANGES[c]: row for c in CHANGES if (row := measured(rows, job, c))}
            answer = ask(options.program, "whatif", *map(str, traces), *(asked or ["bandwidth:x=2"]))
            if "error" in answer:
                bad.append(f"{job}: {answer['error']}")
                continue
            steps.append(shown(job, answer["baseline"]["unprofiled_ms"], today))
            for prediction in answer["predictions"] if asked else []:
                row = asked[prediction["whatif"]]
                if "declined" in prediction:
                    bad.append(f"{job} {prediction['whatif']}: {prediction['declined']}")
                    continue
                changes.append(shown(f"  {prediction['whatif']}", prediction["ms"], row))
                peak = 100 * (prediction["peak_bytes"] / row["peak"] - 1)
                peaks.append(abs(peak))
                print(f"  {'peak of the fullest rank':38} {prediction['peak_bytes'] / 1e9:7.2f} GB, measured {row['peak'] / 1e9:7.2f}: {peak:+6.2f} %")
            if asked:
                answer = ask(options.program, "whatif", *map(str, traces), *asked, "--measured-ms", f"{today['median_ms']:.3f}")
                known += [shown(f"  {p['whatif']}, today measured", p["ms"], asked[p["whatif"]]) for p in answer["predictions"] if "ms" in p]
    bad += summed("steps without the profiler", steps, STEP)
    bad += summed("changes", changes, CHANGED)
    bad += summed("changes from a measured step", known, MEASURED)
    bad += summed("memory of changes", peaks, MEMORY)
    return verdict(bad, options.gate)


if __name__ == "__main__":
    sys.exit(main())
