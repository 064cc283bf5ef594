#!/usr/bin/env python3
"""First predictions: the program's predictions of measured rows before they were used for fitting, next to those of today.

    tools/first_predictions.py --write --program OLD    asks OLD, the program as it was when rows arrived, for those that no data/FOLDER/first.csv
                                                        has yet, and adds its answers there as they come
    tools/first_predictions.py                          writes the tables of docs/internals/accuracy.md and appendix-first.md from these files
    tools/first_predictions.py --check                  fails when the tables say something else

What is there stays: a row is predicted for the first time once. OLD is the commit before no model had been touched for the rows: 3847595c for
h200-changes (but for Inception) and most of h200-schemes, 0b18c8b6 for h200-loading, h200-more-jobs and what came with them. Programs of h200-jax were
predicted before they were run: their first.csv is made of what was kept then (predicted-2026-11-19.csv). Errors are counted as everywhere
(tools/truth.py). A prediction that was declined is wrong altogether: 100 %.
"""

import csv
import io
import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import mean

import accuracy
import fitted
import jax_accuracy
import job_predictions
import job_rows
import plan_accuracy
import scale_accuracy
import track_record
from accuracy_tables import aligned, with_between
from job_rows import NETWORKS, Step
from track_record import First, records, scheme_whatifs
from truth import ROOT, Folder, csv_rows, json_lines

DOCS = ROOT / "docs" / "internals" / "accuracy.md"
APPENDIX = ROOT / "docs" / "internals" / "appendix-first.md"
MARK, ROWS = "first-predictions", "first-rows"
DATA = ROOT / "data"
SCHEMES, JOBS, CHANGES = DATA / "h200-schemes", DATA / "h200-more-jobs", (DATA / "h200-changes", DATA / "h200-loading")
JAX = DATA / "h200-jax"
JAX_SAID = JAX / "predicted-2026-11-19.csv"  # tools/jax_accuracy.py --blind, before any of these programs had been run
DECLINED_PCT = 100.0


def changes(program: Path, folder: Path) -> Iterator[dict]:
    """Changes of a step on one GPU. Its own table of residuals made the bands: it had none of these rows."""
    for r in accuracy.measure(accuracy.Program(program), [Folder(folder)])[0]:
        if r.time_pct is not None:
            yield line(f"{r.folder} {r.name}", "", [u.split(":")[0] for u in r.uses], r.row.median, r.prediction, r.time_pct)


def schemes(program: Path) -> Iterator[dict]:
    for row, prediction, problem in scale_accuracy.predicted(program, SCHEMES):
        name = f"{row['model']} {row['world']} {row['case']}"
        error = DECLINED_PCT if prediction is None else 100 * scale_accuracy.distance(prediction["ms"], row)
        yield line(name, NETWORKS[row["tag"]], scheme_whatifs(row["case"]), row["median_ms"], prediction or {"declined": problem}, error)


def jobs(program: Path) -> Iterator[dict]:
    """Jobs of several ranks: from the trace of one, and from those of all ranks of another job."""
    options = Namespace(program=program, collectives=None, measured=False, plans=False, case=None)
    found = job_predictions.Judged()
    job_predictions.judge_folder(program, [JOBS, *job_predictions.documented()], JOBS, found)
    for row in [*plan_accuracy.predicted(options, plan_accuracy.default_folders(), JOBS)[0], *found.rows]:
        yield line(row.name, NETWORKS[row.tag], row.whatifs or (job_rows.NO_WHATIF,), row.measured.median_ms, row.prediction, row.step_pct)


def jax() -> Iterator[dict]:
    """Programs in another precision, from the profile of the one in FP32. Other batches in FP32 were predicted too, but never run."""
    rows = json_lines(JAX / "truth.jsonl")
    said = {(r["from"], r["what if"]): r for r in csv_rows(JAX_SAID)}
    for base in rows:
        for use, row in jax_accuracy.changes(rows, base):
            name = jax_accuracy.name_of(base)
            if use == "no-sync" or not (first := said.get((name, use))):
                continue
            prediction = {key: float(first[column]) for key, column in (("ms", "step_ms"), ("low_ms", "low_ms"), ("high_ms", "high_ms"))}
            error = Step(row["p10_ms"], row["median_ms"], row["p90_ms"]).error_pct(prediction["ms"])
            yield line(f"h200-jax {name} {use}", "", [use.split(":")[0]], row["median_ms"], prediction, error)


def line(row: str, network: str, whatifs: Iterable[str], measured_ms: float, prediction: dict, error_pct: float) -> dict:
    said = {name: f"{prediction[name]:.2f}" if name in prediction else "" for name in ("ms", "low_ms", "high_ms")}
    to_median = 100 * (prediction["ms"] / measured_ms - 1) if "ms" in prediction else DECLINED_PCT
    return {"row": row, "network": network, "what-ifs": " + ".join(whatifs), "measured_ms": f"{measured_ms:.2f}", "first_ms": said["ms"],
            "first_low_ms": said["low_ms"], "first_high_ms": said["high_ms"], "error_pct": f"{error_pct:+.1f}", "to_median_pct": f"{to_median:+.1f}"}


def with_new(folder: Path, lines: Iterable[dict]) -> str:
    """The folder's first predictions, and behind them those of rows it does not have yet."""
    path = folder / track_record.FIRST
    rows: list[dict] = csv_rows(path) if path.exists() else []
    there = {(r["row"], r["network"]) for r in rows}
    rows += [new for new in lines if (new["row"], new["network"]) not in there]
    out = io.StringIO()
    writer = csv.DictWriter(out, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def now() -> dict[tuple[str, str], float]:
    """Errors of today's program, by the row's name and network."""
    found = {(row["row"], ""): float(row["time %"]) for row in records(track_record.APPENDIX.read_text(), "rows") if row["time %"] != "–"}
    for row in records(track_record.APPENDIX.read_text(), track_record.JAX):
        found[(f"h200-jax {row['from']} {row['what if']}", "")] = float(row["step %"])
    shown = [*records(track_record.SCALE.read_text(), "scale-rows"),
             *(r for mark in job_rows.MARKS.values() for r in records(job_rows.APPENDIX.read_text(), mark))]
    for row in shown:
        found[f"{row['model']} {row['ranks']} {row['case']} {row['measured ms']}", row["network"]] = float(row["error %"])
    return found


def today(first: First, errors: dict[tuple[str, str], float]) -> float | None:
    """Several folders have a row of one name: those of schemes are distinguished by what was measured."""
    name = f"{first.row} {first.measured_ms:.1f}" if first.network else first.row
    return errors.get((name, first.network))


def mean_and_worst(values: list[float]) -> str:
    return f"{mean(values):.1f} / {max(values):.1f}" if values else "–"


def summary(firsts: list[First]) -> list[str]:
    errors = now()
    rows = []
    for name in sorted({w for f in firsts for w in f.whatifs} - {job_rows.NO_WHATIF}):
        mine = [f for f in firsts if name in f.whatifs]
        later = [abs(e) for f in mine if (e := today(f, errors)) is not None]
        rows.append([name, str(len(mine)), mean_and_worst([abs(f.error_pct) for f in mine]), mean_and_worst([abs(f.to_median_pct) for f in mine]),
                     mean_and_worst(later)])
    return aligned(["what-if", "rows", "first: error % mean / worst", "to the median %", "now: error % mean / worst"], rows)


def table(firsts: list[First]) -> list[str]:
    errors = now()
    rows = []
    for f in firsts:
        later = today(f, errors)
        rows.append([f.row, f.network or "–", " + ".join(f.whatifs), f"{f.measured_ms:.2f}", f"{f.first_ms:.2f}" if f.first_ms else "declined",
                     f"{f.error_pct:+.1f}", f"{f.to_median_pct:+.1f}", "–" if later is None else f"{later:+.1f}"])
    return aligned(["row", "network", "what-if", "measured ms", "first ms", "first error %", "to the median %", "error % now"], rows)


def files(options) -> dict[Path, str]:
    if options.write:
        return {folder / track_record.FIRST: with_new(folder, lines) for folder, lines in (
            *((folder, changes(options.program, folder)) for folder in CHANGES), (SCHEMES, schemes(options.program)), (JOBS, jobs(options.program)), (JAX, jax()))}
    firsts = track_record.first_predictions()
    return {DOCS: with_between(DOCS, MARK, "\n".join(summary(firsts))), APPENDIX: with_between(APPENDIX, ROWS, "\n".join(table(firsts)))}


def main() -> int:
    parser = fitted.parser(__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a table is not what the data say")
    parser.add_argument("--write", action="store_true", help="keep what --program says as first predictions")
    parser.add_argument("--program", type=Path, help="the program as it was when the rows arrived")
    options = parser.parse_args()
    if options.write and (options.check or not options.program):
        parser.error("--write needs --program, the program as it was when the rows arrived")
    return fitted.keep(files(options), options.check)


if __name__ == "__main__":
    sys.exit(main())
