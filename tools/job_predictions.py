#!/usr/bin/env python3
"""Jobs of several ranks, all of them simulated together, against their measured rows: the step without the profiler, and the same job
after a change, from the traces alone and with the measured step of today. `--gate` fails where a promise is broken (jobs of the truth), where
anything is worse than tools/job_limits.json (by folders), or has no limit there.

    tools/job_predictions.py [--gate] [FOLDER…]      jobs in $FORETRACE_TRUTH/h200-parallel, or in these folders
    tools/job_predictions.py --update-docs           changes of every job at hand, into docs/internals/appendix-jobs.md

A job is the traces `<model>.<tag>.<case>.w<world>.r<rank>.json.gz` of a folder with `truth.jsonl` (or `rows.jsonl`), whose rows are the steps of
each rank without the profiler; `<case>/bs2` and the like are the same job after a change, in any of the folders. Rows with fewer channels
(`max_ctas`) are the same job on slower links: `bandwidth` by what large all-reduces of both were measured to take (`collectives.jsonl`), and
`network` by all that was measured. DDP of a folder that has its row on another network too (tags of data/README.md) is predicted there from the
trace of one rank and the collectives of both networks. Traces in a folder `slowed` are jobs with a rank slowed down on purpose, which `no-straggler` makes the same job without that (case `slow-none`). A row whose
10th and 90th percentile are more than 5 % apart counts by its distance to the two; the distance to its median is printed next to it. Without
such a folder there is nothing to judge (exit code 77).
"""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean

import fitted
import gates
import job_rows
import track_record
from gates import ask, verdict
from job_accuracy import NO_JOB, jobs_in, options_and_folders
from job_rows import JobRow, Step
from truth import ROOT, json_lines

QUIET = 0.05  # of the median: rows that vary less count by their median
CHANGES = {"bs2": "batch:x=2", "bsh": "batch:x=0.5", "ckpt": "checkpoint", "accum2": "accumulate:n=2", "compile": "compile",
           "bucket5": "bucket:mb=5", "bucket100": "bucket:mb=100"}
# What a recorded variant is changed into to become the job without it.
UNDONE = {"eager": "flash-attention", "fp32": "amp:dtype=bf16", "cut": "stage-balance:layers=", "slow": "no-straggler"}
SCHEDULES = {"pp": "1f1b", "gp": "gpipe"}
USUAL_CHANNELS = "4"
NETWORK_OF_CHANNELS = job_rows.NETWORKS["inside"]  # what tags such as `w2c4` were measured on
LIMITS = Path(__file__).resolve().parent / "job_limits.json"
SLACK_PCT = 0.1
# Percent: mean and largest error, promised for the jobs of the truth. All else, and other schedules of a pipeline everywhere, are held to what is
# reached: with micro-batches of one sample the CPU decides, whose time differs from session to session (docs/internals/ranks.md).
STEP, CHANGED, MEASURED, MEMORY = (6.0, 15.0), (5.0, 12.0), (4.0, 12.0), (3.0, 8.0)
PROMISED = "h200-parallel"
RESCHEDULED = "pipeline:"


def lines_of(file: Path) -> list[dict]:
    return json_lines(file) if file.exists() else []


def channels_of(row: dict) -> str:
    return row.get("max_ctas", USUAL_CHANNELS)


class Rows:
    """Measured steps of all folders."""

    def __init__(self, folders: list[Path]):
        self.of = {f: [r for name in ("truth.jsonl", "rows.jsonl") for r in lines_of(f / name) if "median_ms" in r] for f in folders}

    def measured(self, job: str, case: str, first: Path, channels: str = USUAL_CHANNELS) -> dict | None:
        """Means over the ranks, the highest peak, and the folder; of the job's own folder where that has the case."""
        model, tag, _, world = job.split(".")
        for folder in sorted(self.of, key=lambda f: f != first):
            mine = [r for r in self.of[folder] if (r["model"], r["tag"], r["case"], f"w{r['world']}") == (model, tag, case, world)
                    and channels_of(r) == channels]
            if mine:
                step = {name: mean(r[name] for r in mine) for name in ("median_ms", "p10_ms", "p90_ms")}
                return step | {"peak": max((r["peak_bytes"] for r in mine if r.get("peak_bytes")), default=None), "folder": folder}
        return None

    def cases(self, job: str) -> set[str]:
        model, tag, _, world = job.split(".")
        return {r["case"] for rows in self.of.values() for r in rows if (r["model"], r["tag"], f"w{r['world']}") == (model, tag, world)}


def case_of(job: str, cases: set[str]) -> str:
    """File names have a dash where rows have a slash."""
    name = job.split(".")[2]
    return next((c for c in cases if c.replace("/", "-") == name), name)


def changes_of(case: str, cases: set[str]) -> dict[str, str]:
    """By what-if, the case it leads to."""
    kind, *variants = case.split("/")
    if variants:
        undone = next((w for v, w in UNDONE.items() if variants[0].startswith(v)), None)
        if undone and undone.endswith("layers="):  # "cut5-3" of two stages: as many on each
            layers = [int(n) for n in re.findall(r"\d+", variants[0])]
            undone += "|".join([str(sum(layers) // len(layers))] * len(layers))
        return {undone: kind} if undone and kind in cases else {}
    found = {w: f"{kind}/{c}" for c, w in CHANGES.items() if f"{kind}/{c}" in cases}
    if here := re.fullmatch(r"(pp|gp)(\d+)", kind):
        for other in sorted(cases):
            there = re.fullmatch(r"(pp|gp)(\d+)", other)
            if there and other != kind:
                said = ([f"microbatches={there[2]}"] if there[2] != here[2] else []) + ([f"schedule={SCHEDULES[there[1]]}"] if there[1] != here[1] else [])
                found["pipeline:" + ",".join(said)] = other
    return found


def between_networks(here: tuple[Path, str], there: tuple[Path, str]) -> str:
    """From one network to another, by the file and the tag of what was measured on each."""
    return f"network:collectives={there[0]},collectives_tag={there[1]},was_collectives={here[0]},was_collectives_tag={here[1]}"


def slower_links(folders: list[Path], job: str) -> list[tuple[str, str]]:
    """Channels, and what they make of the network: bandwidth over today's of large all-reduces on as many ranks, and all that was measured."""
    world = int(job.split(".")[3].removeprefix("w"))
    ms: dict[str, list[float]] = {}
    measured: dict[str, tuple[Path, str]] = {}
    for folder in folders:
        for r in lines_of(folder / "collectives.jsonl"):
            elsewhere = job_rows.NETWORKS.get(r["tag"], NETWORK_OF_CHANNELS) != job_rows.NETWORKS[job.split(".")[1]]
            if r["coll"] == "all_reduce" and r["world"] == world and r.get("mib") == 32 and r.get("share", "") != "100" and not elsewhere:
                ms.setdefault(channels_of(r), []).append(r["ms"])
                measured.setdefault(channels_of(r), (folder / "collectives.jsonl", r["tag"]))
    if USUAL_CHANNELS not in ms:
        return []
    return [(c, whatif) for c, v in ms.items() if c != USUAL_CHANNELS
            for whatif in (f"bandwidth:x={mean(ms[USUAL_CHANNELS]) / mean(v):.3f}", between_networks(measured[USUAL_CHANNELS], measured[c]))]


def off_pct(ms: float, row: dict) -> tuple[float, float]:
    """The error that counts, and the distance to the median."""
    to_median = 100 * (ms / row["median_ms"] - 1)
    if row["p90_ms"] - row["p10_ms"] <= QUIET * row["median_ms"]:
        return to_median, to_median
    nearest = min(max(ms, row["p10_ms"]), row["p90_ms"])
    return 100 * (ms - nearest) / row["median_ms"], to_median


def shown(what: str, ms: float, row: dict) -> float:
    off, to_median = off_pct(ms, row)
    print(f"{what:40} {ms:7.2f} ms, measured {row['median_ms']:7.2f} [{row['p10_ms']:.1f}, {row['p90_ms']:.1f}]: {off:+6.2f} % "
          f"({to_median:+.2f} % to the median)")
    return abs(off)


def called(whatif: str) -> str:
    """Without paths of files."""
    return whatif if "collectives=" not in whatif else whatif.split(":")[0] + " as measured"


def broken(name: str, errors: list[float], limits: tuple[float, float]) -> list[str]:
    return [f"{name}: {what} error {value:.2f} %, at most {limit} % allowed"
            for what, value, limit in zip(("mean", "largest"), (mean(errors), max(errors)), limits, strict=True) if value > limit]


def named(folder: Path) -> str:
    """As limits call it: from the root of the repository, else by its last part."""
    here = folder.resolve()
    return str(here.relative_to(ROOT)) if here.is_relative_to(ROOT) else here.name


def judged(folders: list[Path], errors: dict[str, list[float]], promises: dict[str, tuple[float, float]], update: bool) -> list[str]:
    """Prints the errors of each kind; what is wrong with them."""
    bad = []
    reached = {}
    here = " + ".join(map(named, folders))
    for name, all_of in errors.items():
        if not all_of:
            continue
        print(f"{name}: {len(all_of)} rows, mean {mean(all_of):.2f} %, largest {max(all_of):.2f} %")
        reached[name] = {"mean_pct": mean(all_of), "largest_pct": max(all_of)}
        if name in promises and here == PROMISED:
            bad += broken(name, all_of, promises[name])
    held = gates.load(LIMITS)
    if update:
        held[here] = gates.rounded(reached)
        gates.save(LIMITS, dict(sorted(held.items())))
    for name, now in reached.items():
        bad += gates.over(f"{here}, {name}", now, held.get(here, {}).get(name, {}), SLACK_PCT)
    return bad + gates.vanished(here, list(reached), list(held.get(here, {})))


def job_row(folder: Path, job: str, case: str, whatif: str, row: dict, prediction: dict) -> JobRow:
    model, tag, _, world = job.split(".")
    step = Step(row["p10_ms"], row["median_ms"], row["p90_ms"], row.get("peak"))
    outside = next((f for f in (folder, row.get("folder", folder)) if job_rows.outside(f)), folder)  # what one needs in addition to the repository
    return JobRow(outside, model, int(world.removeprefix("w")), case, (whatif.split(":")[0],), tag, step, prediction)


def moved_jobs(program: Path, folder: Path) -> Iterator[JobRow]:
    """DDP recorded on one network, against its steps on another."""
    rows, file = [r for r in lines_of(folder / "truth.jsonl") if r.get("case") == "ddp" and "median_ms" in r], folder / "collectives.jsonl"
    for trace in sorted(folder.glob("*.ddp.w*.r0.json.gz")):
        model, here, _, world, *_ = trace.name.split(".")
        same = [r for r in rows if (r["model"], f"w{r['world']}") == (model, world)]
        for there in sorted({r["tag"] for r in same}):
            if job_rows.NETWORKS[there] == job_rows.NETWORKS[here]:
                continue
            measured = job_rows.step_of(r for r in same if r["tag"] == there)
            row = {"median_ms": measured.median_ms, "p10_ms": measured.low_ms, "p90_ms": measured.high_ms}
            prediction = ask(program, "whatif", str(trace), between_networks((file, here), (file, there)))["predictions"][0]
            shown(f"{model} ddp {here} → {there}", prediction["ms"], row)
            yield job_row(folder, f"{model}.{there}.ddp.{world}", f"ddp → ddp over {job_rows.NETWORKS[there]}", "network", row, prediction)


def slowed_jobs(program: Path, folder: Path) -> Iterator[JobRow]:
    """Jobs with a slowed rank, against the same job without."""
    unslowed = {(r["model"], r["world"]): r for r in lines_of(folder / "truth.jsonl") if r["case"] == "slow-none" and r["rank"] == 0}
    for first in sorted((folder / "slowed").glob("*.r0.json.zst")):
        model, slowed, *_ = first.name.split(".")
        traces = sorted(folder.glob(f"slowed/{model}.{slowed}.r*.json.zst"))
        row = unslowed[model, len(traces)]
        for prediction in ask(program, "whatif", *map(str, traces), "no-straggler").get("predictions", []):
            shown(f"{model} slow-{slowed} no-straggler", prediction["ms"], row)
            job = f"{model}.{row['tag']}.ddp.w{row['world']}"
            yield job_row(folder, job, f"slow-{slowed} → slow-none", "no-straggler", row, prediction)


PROMISES = {"steps without the profiler": STEP, "changes": CHANGED, "changes from a measured step": MEASURED, "memory of changes": MEMORY}
KINDS = (*PROMISES, "other schedules", "memory of other schedules", "jobs without their straggler", "other networks")


@dataclass
class Judged:
    """Rows of the documentation, absolute errors in percent by kind, and what could not be asked."""

    rows: list[JobRow] = field(default_factory=list)
    errors: dict[str, list[float]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    declined: list[str] = field(default_factory=list)


def questions(folders: list[Path], folder: Path, job: str, case: str, rows: Rows) -> dict[str, tuple[str, dict]]:
    """By what-if: the case it leads to, and that one as it was measured."""
    cases = rows.cases(job)
    asked = {w: (c, row) for w, c in changes_of(case, cases).items() if (row := rows.measured(job, c, folder))}
    for channels, whatif in slower_links(folders, job):
        if row := rows.measured(job, case, folder, channels):
            asked[whatif] = f"{case} over {channels} of {USUAL_CHANNELS} channels", row
    return asked


def judge_job(program: Path, folders: list[Path], folder: Path, job: str, traces: list[Path], rows: Rows, to: Judged) -> None:
    case = case_of(job, rows.cases(job))
    whole = job.endswith(f".w{len(traces)}")  # not one rank of several
    if not whole or case.split("/")[0] in NO_JOB or not (today := rows.measured(job, case, folder)):
        return
    asked = questions(folders, folder, job, case, rows)
    answer = ask(program, "whatif", *map(str, traces), *(asked or ["bandwidth:x=2"]))
    if "error" in answer:
        to.declined.append(f"{job}: {answer['error']}")
        return
    to.errors["steps without the profiler"].append(shown(job, answer["baseline"]["unprofiled_ms"], today))
    for (whatif, (becomes, row)), prediction in zip(asked.items(), answer["predictions"], strict=False):
        if "declined" in prediction:
            to.declined.append(f"{job} {whatif}: {prediction['declined']}")
            print(f"  {whatif}: declined: {prediction['declined']}")
            continue
        to.rows.append(job_row(folder, job, f"{case} → {becomes}", whatif, row, prediction))
        again = whatif.startswith(RESCHEDULED)
        to.errors["other schedules" if again else "changes"].append(shown(f"  {called(whatif)}", prediction["ms"], row))
        if not prediction.get("peak_bytes") or not row["peak"]:
            continue
        peak = 100 * (prediction["peak_bytes"] / row["peak"] - 1)
        to.errors["memory of other schedules" if again else "memory of changes"].append(abs(peak))
        print(f"  {'peak of the fullest rank':38} {prediction['peak_bytes'] / 1e9:7.2f} GB, measured {row['peak'] / 1e9:7.2f}: {peak:+6.2f} %")
    if asked:
        answer = ask(program, "whatif", *map(str, traces), *asked, "--measured-ms", f"{today['median_ms']:.3f}")
        to.errors["changes from a measured step"] += [
            shown(f"  {called(w)}, today measured", p["ms"], row) for (w, (_, row)), p in zip(asked.items(), answer["predictions"], strict=False)
            if "ms" in p and not w.startswith(RESCHEDULED)]


def judge_folder(program: Path, folders: list[Path], folder: Path, to: Judged) -> None:
    """The jobs of one folder. Rows they are compared with may lie in any of the folders."""
    rows = Rows(folders)
    for job, traces in jobs_in(folder).items():
        judge_job(program, folders, folder, job, traces, rows, to)
    slowed, moved = list(slowed_jobs(program, folder)), list(moved_jobs(program, folder))
    to.rows += slowed + moved
    to.errors["jobs without their straggler"] += [abs(r.step_pct) for r in slowed]
    to.errors["other networks"] += [abs(r.step_pct) for r in moved]


def documented() -> list[Path]:
    """Every folder of jobs at hand."""
    return [*job_rows.truth_folder("h200-parallel"),
            *(ROOT / "data" / name for name in ("h200-jobs", "h200-more-jobs", "h200-parallel", "h200-ranks", "h200-schemes"))]


def main() -> int:
    options, folders = options_and_folders(__doc__, limits=True, update_docs=True)
    if options.update_docs:
        folders = options.folders or documented()
    found = Judged()
    for folder in folders:
        judge_folder(options.program, folders, folder, found)
    if options.update_docs:
        job_rows.write("all", found.rows)
        fitted.keep(track_record.files(), check=False)
    return verdict(found.declined + judged(folders, found.errors, PROMISES, options.update_limits), options.gate)


if __name__ == "__main__":
    sys.exit(main())
