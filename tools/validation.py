#!/usr/bin/env python3
"""Counts the measured steps behind each what-if and writes src/whatif/validation/counts.csv, from which `foretrace list
whatifs` and every JSON answer say on how many rows and models a change was compared with reality.

    FORETRACE_TRUTH=… tools/validation.py            writes the file from data/ and $FORETRACE_TRUTH
    tools/validation.py --check                      fails when the file does not say what the measurements do

A row counts for every what-if it needs; a model measured in several folders or sizes counts once. Steps on one GPU are those
tools/accuracy.py predicts, steps of several workers those of tools/scale_accuracy.py, steps on other GPUs those of
tools/published_steps.py. Without FORETRACE_TRUTH the check only
sees the project's own rows: it then fails where the file claims fewer than these, or a what-if that has none at all. The check
also compares docs/internals/accuracy.md with the file, and its first tables with the rows of the appendix.
"""

import argparse
import os
import re
import sys
from collections import defaultdict
from pathlib import Path

import expectation
import fitted
import published_beside
import scale_accuracy
import track_record
from track_record import CASES
from truth import ROOT, Folder, default_folders, whatifs_of

COUNTS = ROOT / "src" / "whatif" / "validation" / "counts.csv"
HEAD = "# what-if,measured rows,models: written by tools/validation.py\n"


def rank_folders() -> list[Path]:
    found = [ROOT / "data" / "h200-ranks", ROOT / "data" / "h200-schemes"]
    if truth := os.environ.get("FORETRACE_TRUTH"):
        found.append(Path(truth, "h200-ranks"))
    return [f for f in found if (f / "truth.jsonl").exists()]


def measured_rows() -> list[tuple[str, str]]:
    """(what-if, model) of every row that is predicted."""
    out = []
    for folder in map(Folder, default_folders()):
        for _, rows in folder.cases():
            for row in rows:
                out += [(use.split(":")[0], row.network) for use in whatifs_of(row.variant) or []]
    for path in rank_folders():
        for step in scale_accuracy.all_cases(path):
            case, _, number = step["case"].partition("@")
            if step["rank"] != 0 or case not in CASES or scale_accuracy.solo_trace(path, step) is None:
                continue
            out += [(name, step["model"]) for name in CASES[case] + (["bucket"] if case == "ddp" and number else [])]
    out += [("gpu", row[1].split()[0]) for row in track_record.between(track_record.PUBLISHED.read_text(), "published-rows")]
    return out


def counted(rows: list[tuple[str, str]]) -> dict[str, tuple[int, int]]:
    models = defaultdict(list)
    for name, model in rows:
        models[name].append(model)
    return {name: (len(mine), len(set(mine))) for name, mine in sorted(models.items())}


def parsed(text: str) -> dict[str, tuple[int, int]]:
    lines = (line.split(",") for line in text.splitlines() if line and not line.startswith("#"))
    return {name: (int(rows), int(models)) for name, rows, models in lines}


def problems(said: dict, found: dict, whole: bool) -> list[str]:
    """What the file says against what was counted; `whole`: nothing it was written from is missing here."""
    out = []
    for name in sorted({*said, *found}):
        mine, true = said.get(name, (0, 0)), found.get(name, (0, 0))
        if mine != true if whole else (mine[0] < true[0] or mine[1] < true[1]):
            out.append(f"{name}: the file says {mine[0]} rows of {mine[1]} models, measured are {true[0]} of {true[1]}")
    return out


def documented(text: str) -> dict[str, tuple[int, int]]:
    """What docs/internals/accuracy.md says was measured on one GPU: rows and models by what-if."""
    found = re.findall(r"^\| (\S+) +\| +(\d+) rows alone, (\d+) combined, (\d+) models \|", text, re.MULTILINE)
    return {name: (int(alone) + int(combined), int(models)) for name, alone, combined, models in found}


def undocumented(said: dict, page: dict) -> list[str]:
    """Where the page and `foretrace list whatifs` disagree."""
    return [f"{name}: docs/internals/accuracy.md says {rows} rows of {models} models, `foretrace list whatifs` {said.get(name, (0, 0))}"
            for name, (rows, models) in page.items() if said.get(name) != (rows, models)] or ([] if page else ["docs/internals/accuracy.md counts no rows"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    options = parser.parse_args()
    whole = bool(os.environ.get("FORETRACE_TRUTH"))
    found = counted(measured_rows())
    if not options.check:
        if not whole:
            parser.error("set FORETRACE_TRUTH: the file counts what lies there too")
        COUNTS.write_text(HEAD + "".join(f"{name},{rows},{models}\n" for name, (rows, models) in found.items()))
        print(f"validation: {len(found)} what-ifs, {COUNTS.relative_to(ROOT)}")
        return 0
    said = parsed(COUNTS.read_text())
    bad = problems(said, found, whole) + undocumented(said, documented(expectation.DOCS.read_text()))
    bad += [f"{path.name}: not what the rows say" for path in fitted.stale(track_record.files() | expectation.files()) + fitted.stale(published_beside.files())]
    print("\n".join(bad) or f"validation: {len(found)} what-ifs counted as the file says")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
