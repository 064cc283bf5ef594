#!/usr/bin/env python3
"""Counts the measured steps behind each what-if and writes src/whatif/validation/counts.csv, from which `foretrace list
whatifs` and every JSON answer say on how many rows and models a change was compared with reality.

    FORETRACE_TRUTH=… tools/validation.py            writes the file from data/ and $FORETRACE_TRUTH
    tools/validation.py --check                      fails when the file does not say what the measurements do

A row counts for every what-if it needs, and once however many ways it is predicted in; a model measured in several folders or sizes counts
once. Steps on one GPU are those tools/accuracy.py predicts and, of JAX, tools/jax_accuracy.py, steps of several workers those of
tools/scale_accuracy.py, parallel jobs those of docs/internals/appendix-jobs.md, steps on other GPUs those of tools/published_steps.py. `in data/`:
rows that need nothing outside the repository; without FORETRACE_TRUTH the check sees only these, and fails where the file says another number of
them. The check also compares the tables of docs/internals/accuracy.md with the file and with the rows of the appendices.
"""

import argparse
import os
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import expectation
import fitted
import gates
import job_rows
import measured_table
import published_comparison
import scale_accuracy
import track_record
from track_record import job_records, job_whatifs, scheme_whatifs
from truth import ROOT, Folder, default_folders, whatifs_of

COUNTS = ROOT / "src" / "whatif" / "validation" / "counts.csv"
HEAD = "# what-if,measured rows,models,in data/: written by tools/validation.py\n"


def rank_folders() -> list[Path]:
    found = [ROOT / "data" / "h200-ranks", ROOT / "data" / "h200-schemes"]
    if truth := os.environ.get("FORETRACE_TRUTH"):
        found.append(Path(truth, "h200-ranks"))
    return [f for f in found if (f / "truth.jsonl").exists()]


@dataclass(frozen=True)
class Measured:
    """A row that is predicted, for one of the what-ifs it needs."""

    whatif: str
    model: str
    inside: bool  # all of it is in the repository
    measurement: str = ""  # of which there is one, in however many ways it is predicted; empty: predicted once


def measured_rows() -> list[Measured]:
    out = []
    for folder in map(Folder, default_folders()):
        for _, rows in (*folder.cases(), *folder.back()):
            for row in rows:
                out += [Measured(use.split(":")[0], row.network, folder.path.is_relative_to(ROOT)) for use in whatifs_of(row.variant) or []]
    for path in rank_folders():
        for step in scale_accuracy.all_cases(path):
            if step["rank"] == 0 and scale_accuracy.solo_trace(path, step) is not None:
                out += [Measured(name, step["model"], path.is_relative_to(ROOT)) for name in scheme_whatifs(step["case"])]
    for job in job_records(job_rows.APPENDIX.read_text()):
        out += [Measured(name, job["model"], not job["folder"].startswith(job_rows.OUTSIDE), track_record.job_measurement(job)) for name in job_whatifs(job)]
    out += [Measured(row["what if"].split(":")[0], row["network"], True) for row in track_record.records(track_record.APPENDIX.read_text(), track_record.JAX)]
    out += [Measured("gpu", row[1].split()[0], True) for row in track_record.between(track_record.PUBLISHED.read_text(), "published-rows")]
    return out


def counted(rows: list[Measured]) -> dict[str, tuple[int, int, int]]:
    """By what-if: rows, models, and rows that need nothing outside the repository. A measurement that is predicted in two ways is one row."""
    mine: dict[str, dict[str, list[Measured]]] = defaultdict(lambda: defaultdict(list))
    for i, row in enumerate(rows):
        mine[row.whatif][row.measurement or str(i)].append(row)
    return {name: (len(found), len({r.model for ways in found.values() for r in ways}), sum(any(r.inside for r in ways) for ways in found.values()))
            for name, found in sorted(mine.items())}


def parsed(text: str) -> dict[str, tuple[int, int, int]]:
    lines = (line.split(",") for line in text.splitlines() if line and not line.startswith("#"))
    return {name: (int(rows), int(models), int(inside)) for name, rows, models, inside in lines}


def problems(said: dict, found: dict, whole: bool) -> list[str]:
    """What the file says against what was counted; `whole`: nothing it was written from is missing here."""
    out = []
    for name in sorted({*said, *found}):
        mine, true = said.get(name, (0, 0, 0)), found.get(name, (0, 0, 0))
        if mine != true if whole else (mine[0] < true[0] or mine[1] < true[1] or mine[2] != true[2]):
            out.append(f"{name}: the file says {mine[0]} rows of {mine[1]} models, {mine[2]} rows in data/; measured are {true[0]} of {true[1]}, {true[2]}")
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    parser.add_argument("--program", type=Path, default=gates.FORETRACE)
    options = parser.parse_args()
    whole = bool(os.environ.get("FORETRACE_TRUTH"))
    found = counted(measured_rows())
    if not options.check:
        if not whole:
            parser.error("set FORETRACE_TRUTH: the file counts what is there too")
        COUNTS.write_text(HEAD + "".join(f"{name},{rows},{models},{inside}\n" for name, (rows, models, inside) in found.items()))
        print(f"validation: {len(found)} what-ifs, {COUNTS.relative_to(ROOT)}")
        return 0
    said = parsed(COUNTS.read_text())
    bad = problems(said, found, whole)
    bad += [f"{name} says it is validated, and no measured row shows it"
            for name in measured_table.unfounded(measured_table.catalogue(options.program), measured_table.by_name("counts"))]
    written = (track_record.files(), expectation.files(), published_comparison.files(), measured_table.files(options.program))
    bad += [f"{path.name}: not what the rows say" for files in written for path in fitted.stale(files)]
    print("\n".join(bad) or f"validation: {len(found)} what-ifs counted as the file says")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
