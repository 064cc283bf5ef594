#!/usr/bin/env python3
"""The residuals that bands are made from, by family of errors and model: src/whatif/residuals/H200-SXM.csv.

    tools/fit_bands.py                   writes it from data/ and $FORETRACE_TRUTH
    tools/fit_bands.py --update-docs     shows how many residuals the bands hold, in sample and left out, in docs/internals/accuracy.md
    tools/fit_bands.py TRUTH_DIR… -o F   the same from your own measurements, for `foretrace whatif --residuals F`

One line per family, model and row: log(measured / predicted). A row with a trace of its own is compared family by family; of one with only the GPU's
time, the difference belongs to the family that holds most of what was modelled. What a step is off by beyond its kernels is the host's, if the CPU
decides it. What a combination is off by beyond that is shared among the changes after the first.
"""

import argparse
import math
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import mean

import accuracy
from accuracy_tables import aligned, write_between
from truth import ROOT, Folder, default_folders

TABLE = ROOT / "src" / "whatif" / "residuals" / "H200-SXM.csv"
# A family tells something about itself when it holds this part of the GPU's time,
LEAST_SHARE = 0.03
# a total tells only about what holds this part of it (else it is the total's own spread that is seen),
LEAST_OF_TOTAL = 0.3
# and a total tells something about a family when that family holds this part of what could be wrong.
MOST = 0.6
# The normal distribution's 90th percentile, and Student's over it for 1, 2, … models (src/whatif/predict/residuals.cpp).
TENTH = 1.2816
STUDENT = (2.402, 1.471, 1.278, 1.196, 1.152, 1.123, 1.104, 1.090, 1.079, 1.071)
# The CPU decides a step whose length follows it to this part.
CPU_BOUND = 0.5
# The family of kernels that somebody writes for a change (src/whatif/predict/bands.hpp).
WRITTEN = "written kernels"


def log_ratio(measured: float, predicted: float) -> float | None:
    return math.log(measured / predicted) if measured > 0 and predicted > 0 else None


def in_groups(families: dict) -> dict[str, dict[str, float]]:
    """Time by family of errors and origin."""
    groups: dict[str, dict[str, float]] = {}
    for times in families.values():
        mine = groups.setdefault(times["errors"], {"measured": 0.0, "scaled": 0.0, "modelled": 0.0})
        mine["measured"] += times.get("measured_ms", 0)
        mine["scaled"] += times.get("scaled_ms", 0)
        mine["modelled"] += times.get("modelled_ms", 0) + times.get("analytic_ms", 0)
    return groups


def by_trace(predicted: dict, measured: dict) -> dict[str, float]:
    """Families of a row whose own trace shows them."""
    whole = sum(sum(t.values()) for t in predicted.values())
    out = {}
    for family, times in predicted.items():
        if times["modelled"] < LEAST_SHARE * whole or family not in measured:
            continue
        # Scaled kernels of the same kind cannot be distinguished from modelled ones in the other trace: they err together here.
        guessed = times["modelled"] + times["scaled"]
        ratio = log_ratio(sum(measured[family].values()) - times["measured"], guessed)
        if ratio is not None:
            out[family] = ratio
    return out


def by_total(predicted: dict, gpu_ms: float) -> dict[str, float]:
    """Where only the GPU's time is known: the family that holds most of what was not simply measured."""
    whole = sum(sum(t.values()) for t in predicted.values())
    parts = {f: t["modelled"] for f, t in predicted.items() if t["modelled"] > 0}
    parts["scaled"] = sum(t["scaled"] for t in predicted.values())
    family = max(parts, key=lambda f: parts[f])
    uncertain = sum(parts.values())
    if parts[family] < LEAST_OF_TOTAL * whole or parts[family] < MOST * uncertain:
        return {}
    ratio = log_ratio(gpu_ms - (whole - parts[family]), parts[family])
    return {} if ratio is None else {family: ratio}


def elasticities(prediction: dict) -> dict[str, float]:
    """How much of the step follows each family: d log step / d log time."""
    return {p["family"]: (p["up_ms"] + p["down_ms"]) / (2 * p["sigma"] * prediction["ms"])
            for p in prediction["band"] if p["sigma"] > 0}


def residuals_of(program: accuracy.Program, result: accuracy.Result) -> list[tuple[str, str, float]]:
    # A change that its rows do not support has a width of its own on top ("not validated"): its errors are not those of all others.
    if result.declined or not result.prediction["validated"]:
        return []
    p = result.prediction
    found: dict[str, float] = {}
    if any(b["family"] == WRITTEN for b in p["band"]):
        pass  # the author's kernels tell nothing about the cost models
    elif result.row.trace:
        shown = program.run("whatif", str(result.row.trace), "cpu:x=1")
        found = by_trace(in_groups(p["gpu_families"]), in_groups(shown.get("baseline", {}).get("gpu_families", {})))
    elif result.row.gpu_ms:
        found = by_total(in_groups(p["gpu_families"]), result.row.gpu_ms)
    pull = elasticities(p)
    off = math.log(result.row.median / p["ms"])
    explained = sum(pull.get(f, 0) * r for f, r in found.items())
    if not result.row.judges_time:
        return [(family, result.row.network, value) for family, value in sorted(found.items())]
    if pull.get("host", 0) >= CPU_BOUND:
        found["host"] = (off - explained) / pull["host"]
    elif result.uses == ["cuda-graph"]:
        found["launches"] = off - explained
    elif not found and pull.get("scaled", 0) >= MOST:
        found["scaled"] = off / pull["scaled"]
    elif len(result.uses) > 1:  # what the CPU decides is the host's error already
        known = sum(((b["up_ms"] + b["down_ms"]) / 2 / p["ms"]) ** 2 for b in p["band"] if b["family"] != "combined")
        beyond = math.sqrt(max(0.0, off * off - known) / (len(result.uses) - 1))
        found["combined"] = math.copysign(beyond, off)
    return [(family, result.row.network, value) for family, value in sorted(found.items())]


def sigma(rows: list[tuple[str, str, float]]) -> float:
    """As the library makes it of a family's rows (src/whatif/predict/residuals.cpp): what holds four of five, a vote per model, Student's t
    where models are few."""
    by_model: dict[str, list[float]] = {}
    for _, model, value in rows:
        by_model.setdefault(model, []).append(abs(value))
    votes = len(by_model)
    student = STUDENT[votes - 1] if votes <= len(STUDENT) else 1 + 0.71 / votes
    held = 0.0
    for size, vote in sorted((value, 1 / len(values)) for values in by_model.values() for value in values):
        held += vote
        if held >= 0.8 * votes - 1e-9:
            return size / TENTH * student
    return 0.0


def inside(rows: list[tuple[str, str, float]], leave_out: bool) -> float | None:
    """How many of a family's residuals its 10th and 90th percentile hold, in percent; each judged without its own model or with it."""
    held = []
    for _, model, value in rows:
        known = [r for r in rows if r[1] != model] if leave_out else rows
        if known:
            held.append(abs(value) <= TENTH * sigma(known))
    return 100 * mean(held) if held else None


def table(rows: list[tuple[str, str, float]]) -> list[str]:
    """By family of errors: 80 % should be inside, for models the table does not know as for those it does."""
    lines = []
    for family in sorted({r[0] for r in rows}):
        mine = [r for r in rows if r[0] == family]
        left_out = inside(mine, True)
        lines.append([family, str(len(mine)), str(len({m for _, m, _ in mine})), f"{sigma(mine):.3f}", f"{mean(v for *_, v in mine):+.3f}",
                      f"{inside(mine, False):.0f}", "–" if left_out is None else f"{left_out:.0f}"])
    return aligned(["family", "rows", "models", "standard deviation", "mean", "inside, in sample %", "inside, model left out %"], lines)


def read_table(path: Path) -> list[tuple[str, str, float]]:
    lines = (line.split(",") for line in path.read_text().splitlines() if line and not line.startswith("#"))
    return [(family, model, float(value)) for family, model, value in lines]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, metavar="TRUTH_DIR")
    parser.add_argument("-o", "--output", type=Path, default=TABLE)
    parser.add_argument("--program", type=Path, default=ROOT / "build" / "foretrace")
    parser.add_argument("--show", action="store_true", help="only show the table that is there, in sample and left out")
    parser.add_argument("--update-docs", action="store_true", help="write that into docs/internals/accuracy.md")
    options = parser.parse_args()
    if options.show or options.update_docs:
        lines = table(read_table(options.output))
        print("\n".join(lines))
        if options.update_docs:
            write_between(accuracy.DOCS, "fitted-bands", "\n".join(lines))
        return 0
    if not options.folders and not os.environ.get("FORETRACE_TRUTH"):
        parser.error("name the folders, or set FORETRACE_TRUTH: the project's own are too few for its table")
    program = accuracy.Program(options.program)
    folders = [Folder(f.resolve()) for f in options.folders or default_folders()]
    results, _ = accuracy.measure(program, folders)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        rows = [line for lines in pool.map(lambda r: residuals_of(program, r), results) for line in lines]
    rows.sort(key=lambda r: (r[0], r[1]))
    text = "# family,model,log(measured / predicted): written by tools/fit_bands.py\n"
    options.output.write_text(text + "".join(f"{f},{m},{v:.4f}\n" for f, m, v in rows))
    print("\n".join(table(rows)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
