#!/usr/bin/env python3
"""The table of docs/internals/accuracy.md that says what each what-if of the catalogue was compared with, how far it was off there, and what is
missing before it may be believed.

    tools/measured_table.py [--program build/foretrace]     writes the table
    tools/measured_table.py --check                         fails when it says something else

Names, definitions and what the program itself says come from `foretrace list whatifs`, rows and errors from src/whatif/validation
(tools/validation.py, tools/track_record.py).
"""

import sys
from dataclasses import dataclass
from pathlib import Path

import fitted
import gates
from accuracy_tables import aligned, with_between
from truth import ROOT

DOCS = ROOT / "docs" / "internals" / "accuracy.md"
MARK = "measured-what-ifs"
VALIDATION = ROOT / "src" / "whatif" / "validation"
# What a what-if changes where several ranks and a network are part of the question.
OF_SCHEMES = {"workers", "network"}
HEAD = ["what-if", "rows", "in data/", "models", "networks", "step % mean / worst", "worst row", "first predictions %", "unfitted networks %",
        "GPU time %", "memory %", "says validated", "missing"]


@dataclass(frozen=True)
class Enough:
    """What a what-if needs before its errors mean something."""

    rows: int
    models: int
    networks: int

    def missing(self, rows: int, models: int, networks: int) -> list[str]:
        pairs = (("row", rows, self.rows), ("model", models, self.models), ("network", networks, self.networks))
        return [f"{there} of {wanted} {what}s" for what, there, wanted in pairs if there < wanted]


ON_ONE_GPU, ON_SEVERAL = Enough(4, 3, 0), Enough(6, 3, 2)


def by_name(table: str) -> dict[str, dict[str, str]]:
    """A file of src/whatif/validation; its first line names the columns."""
    head, *lines = (VALIDATION / f"{table}.csv").read_text().splitlines()
    names = head.removeprefix("# ").split(": written by")[0].split(",")
    return {row["what-if"]: row for row in (dict(zip(names, line.split(","), strict=True)) for line in lines)}


def missing(whatif: dict, rows: int, models: int, networks: int, timed: int) -> str:
    """`timed`: rows whose step can be judged."""
    if whatif.get("by_definition"):
        return "by definition: " + whatif["by_definition"]
    wanted = ON_SEVERAL if whatif["changes"] in OF_SCHEMES else ON_ONE_GPU
    untimed = [f"{timed} of {rows} rows tell the time"] if timed < min(rows, wanted.rows) else []
    return "; ".join(wanted.missing(rows, models, networks) + untimed) or "–"


def cells(whatif: dict, counted: dict[str, str], errors: dict[str, str]) -> list[str]:
    def judged(value: str, rows: str) -> str:
        return f"{errors[value]} ({errors[rows]} rows)" if errors.get(value) else "–"

    rows, models, networks = (int(table.get(column, 0)) for table, column in ((counted, "measured rows"), (counted, "models"), (errors, "networks")))
    step = f"{errors['step % mean']} / {errors['step % worst']}" if errors.get("step % mean") else "–"
    return [whatif["name"], str(rows), counted.get("in data/", "0"), str(models), str(networks or "–"), step, errors.get("worst row") or "–",
            judged("blind step % mean", "blind rows"), judged("unseen step % mean", "unseen rows"), errors.get("GPU time % mean") or "–",
            errors.get("peak memory % mean") or "–", "yes" if whatif["validated"] else "no", missing(whatif, rows, models, networks, int(errors.get("rows with a time", 0)))]


def unfounded(whatifs: list[dict], counted: dict[str, dict[str, str]]) -> list[str]:
    """What-ifs that say they are validated, and no measured row shows it."""
    return [w["name"] for w in whatifs if w["validated"] and not w.get("by_definition") and w["name"] not in counted]


def catalogue(program: Path) -> list[dict]:
    return gates.ask(program, "list", "whatifs")["whatifs"]


def text_of(whatifs: list[dict]) -> str:
    counted, errors = by_name("counts"), by_name("errors")
    return "\n".join(aligned(HEAD, [cells(w, counted.get(w["name"], {}), errors.get(w["name"], {})) for w in whatifs]))


def files(program: Path) -> dict[Path, str]:
    return {DOCS: with_between(DOCS, MARK, text_of(catalogue(program)))}


if __name__ == "__main__":
    sys.exit(fitted.main(__doc__, lambda options: files(options.program), program=gates.FORETRACE))
