#!/usr/bin/env python3
"""Predictions against measured steps: every variant of every measured model, predicted from the model's base trace alone, and the base from
the traces of variants that a what-if leads back from (truth.BACK).

    tools/accuracy.py [TRUTH_DIR…]       these folders; else those of data/, and of $FORETRACE_TRUTH where set
    tools/accuracy.py --rows             also every row; --worst 10: the worst rows by time, GPU time and memory
    tools/accuracy.py --no-measured      without the measured step of the base: from the trace alone
    tools/accuracy.py --daydream         also Daydream's printed rules (tools/daydream.py)
    tools/accuracy.py --in-sample        also bands that know the row's own model
    tools/accuracy.py --update-docs      all of it, written into docs/internals/accuracy.md and appendix-accuracy.md
    tools/accuracy.py --gate             fails where a what-if or the bands got worse than tools/accuracy_limits.json allows (--update-limits)

A row is quiet when p90 - p10 is at most 5 % of its median; its error is the distance to the median. Otherwise it is the distance to [p10, p90]. Of rows
measured with CUPTI attached only those the GPU bounds count for time (tools/truth.py). A declined row counts as 100 %. Bands come from residuals in which
the row's model was not measured (tools/fit_bands.py).
"""

import json
import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean

import accuracy_tables as tables
import expectation
import fitted
import gates
import track_record
from daydream import predictions as daydream_predictions
from truth import ROOT, Folder, Row, default_folders, whatifs_of

DOCS = ROOT / "docs" / "internals" / "accuracy.md"
ROWS = ROOT / "docs" / "internals" / "appendix-accuracy.md"
UNSEEN = ROOT / "data" / "h200-unseen"  # networks that nothing is fitted on
LIMITS = Path(__file__).resolve().parent / "accuracy_limits.json"
RESIDUALS = ROOT / "src" / "whatif" / "residuals" / "H200-SXM.csv"
DECLINED_PCT = 100.0
# What a gate allows above what was reached when the limits were written: a change elsewhere may move a row by this much.
SLACK_PCT = 0.5


@dataclass
class Result:
    """One row of truth and its prediction. Errors are signed percent; None where there is nothing to compare."""

    folder: str
    base: Row
    row: Row
    uses: list[str]
    prediction: dict = field(default_factory=dict)
    daydream: tuple[float, float] | None = None

    @property
    def declined(self) -> str | None:
        return self.prediction.get("declined")

    @property
    def name(self) -> str:
        """Within its folder."""
        return f"{self.row.model} {self.row.variant}"

    @property
    def whatif(self) -> str:
        return " + ".join(self.uses)

    @property
    def time_pct(self) -> float | None:
        if not self.row.judges_time:
            return None
        return DECLINED_PCT if self.declined else self.row.error_pct(self.prediction["ms"])

    @property
    def gpu_pct(self) -> float | None:
        truth = self.row.gpu_ms
        if truth is None:
            return None
        return DECLINED_PCT if self.declined else 100 * (self.prediction["gpu_ms"] - truth) / truth

    @property
    def memory_pct(self) -> float | None:
        truth = self.row.peak_bytes
        if truth is None:
            return None
        mine = self.prediction.get("peak_bytes")
        return DECLINED_PCT if self.declined or mine is None else 100 * (mine - truth) / truth

    @property
    def covered(self) -> bool | None:
        return None if self.declined or not self.row.judges_time else self.prediction["low_ms"] <= self.row.median <= self.prediction["high_ms"]

    @property
    def half_width_pct(self) -> float | None:
        return None if self.declined or not self.row.judges_time else 50 * (self.prediction["high_ms"] - self.prediction["low_ms"]) / self.prediction["ms"]

    @property
    def speedup(self) -> float:
        return self.base.median / self.row.median

    def as_json(self) -> dict:
        out = {"folder": self.folder, "model": self.row.model, "bs": self.row.data.get("bs"), "variant": self.row.variant,
               "whatif": self.whatif, "quiet": self.row.quiet, "measured_ms": self.row.median,
               "p10_ms": self.row.data["p10_ms"], "p90_ms": self.row.data["p90_ms"], "measured_speedup": self.speedup,
               "measured_gpu_ms": self.row.gpu_ms, "measured_peak_bytes": self.row.peak_bytes, "time_error_pct": self.time_pct,
               "gpu_error_pct": self.gpu_pct, "memory_error_pct": self.memory_pct, "in_band": self.covered,
               "half_width_pct": self.half_width_pct}
        keys = ("declined", "ms", "low_ms", "high_ms", "speedup", "gpu_ms", "peak_bytes", "origin", "validated")
        out |= {k: self.prediction[k] for k in keys if k in self.prediction}
        if self.daydream:
            out["daydream_ms"], out["daydream_clean_ms"] = self.daydream
        return out


class Program:
    def __init__(self, path: Path):
        self.path = path
        self.whatifs = self.run("list", "whatifs")["whatifs"]
        self.names = {w["name"] for w in self.whatifs}

    def run(self, *arguments: str) -> dict:
        return gates.ask(self.path, *arguments)

    def predict(self, trace: Path, options: list[str], stacks: list[list[str]]) -> tuple[str, list[dict]]:
        """The step, and one prediction per stack of what-ifs; a failed command is a declined prediction."""
        out: list[dict] = [{} for _ in stacks]
        step = ""
        alone = []
        for i, uses in enumerate(stacks):
            missing = [u for u in uses if u.split(":")[0] not in self.names]
            if missing:
                out[i] = {"declined": f"no what-if {missing[0]}"}
            elif len(uses) == 1:
                alone.append(i)
        runs: list[tuple[list[int], list[str], list[str]]] = [(alone, [u for i in alone for u in stacks[i]], [])] if alone else []
        runs += [([i], uses, ["--stack"]) for i, uses in enumerate(stacks) if not out[i] and len(uses) > 1]
        for indices, uses, together in runs:
            answer = self.run("whatif", str(trace), *uses, *options, *together)
            step = answer.get("step", step)
            got = answer.get("predictions") or [{"declined": answer.get("error", "no answer")}] * len(indices)
            for i, prediction in zip(indices, got):
                out[i] = prediction
        return step, out


def residuals_without(network: str, folder: str) -> Path:
    """The table behind the bands as it would be without measurements of this network."""
    lines = RESIDUALS.read_text().splitlines()
    path = Path(folder) / f"{network}.csv"
    path.write_text("".join(f"{line}\n" for line in lines if line.startswith("#") or line.split(",")[1] != network))
    return path


def measure(program: Program, folders: list[Folder], measured: bool = True, daydream: bool = False,
            scratch: str | None = None) -> tuple[list[Result], list[str]]:
    """All rows, and those with an unknown variant. `scratch`: a folder for residuals that leave the row's model out."""
    pairs = [(f, base, rows) for f in folders for base, rows in (*f.cases(), *f.back())]
    unknown = sorted({f"{f.name}: {r.model} {r.variant}" for f, _, rows in pairs for r in rows
                      if whatifs_of(r.variant) is None})
    cases = [(f, base, [r for r in rows if whatifs_of(r.variant) is not None]) for f, base, rows in pairs]

    def one(case) -> list[Result]:
        folder, base, rows = case
        stacks = [r.uses or [] for r in rows]
        options = ["--measured-ms", repr(folder.base_ms(base))] if measured else []
        if scratch:
            options += ["--residuals", str(residuals_without(base.network, scratch))]
        step, predictions = program.predict(base.trace, options, stacks)
        results = [Result(folder.name, base, r, uses, p) for r, uses, p in zip(rows, stacks, predictions)]
        if daydream and step:
            for result, printed in zip(results, daydream_predictions(base.trace, step, base.median, stacks)):
                result.daydream = printed
        return results

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return [r for results in pool.map(one, cases) for r in results], unknown


def by_whatif(results: list[Result]) -> dict[str, list[Result]]:
    """Alone by what-if and parameters, all combinations together."""
    groups: dict[str, list[Result]] = {}
    for r in sorted(results, key=lambda r: (len(r.uses) > 1, r.whatif)):
        groups.setdefault(r.whatif if len(r.uses) == 1 else "combinations", []).append(r)
    return groups


def figures(results: list[Result]) -> dict[str, float]:
    """Mean and largest errors of some rows, as the gate and the tables name them."""
    out: dict[str, float] = {}

    def add(name: str, values: list[float]) -> None:
        if values:
            out[f"{name}_mean"], out[f"{name}_max"] = mean(map(abs, values)), max(map(abs, values))

    add("quiet", [r.time_pct for r in results if r.time_pct is not None and r.row.quiet])
    add("noisy", [r.time_pct for r in results if r.time_pct is not None and not r.row.quiet])
    add("gpu", [r.gpu_pct for r in results if r.gpu_pct is not None])
    add("memory", [r.memory_pct for r in results if r.memory_pct is not None])
    return out


def reached(results: list[Result]) -> dict[str, dict[str, dict[str, float]]]:
    return {f: {w: figures(rs) for w, rs in by_whatif(mine).items()} for f, mine in by_folder(results).items()}


def by_folder(results: list[Result]) -> dict[str, list[Result]]:
    folders: dict[str, list[Result]] = {}
    for r in results:
        folders.setdefault(r.folder, []).append(r)
    return folders


# A band that holds nothing is as wrong as one that holds everything: its coverage may not fall, its width not grow.
HELD_BAND_FIGURES = ("coverage_pct", "quiet_coverage_pct", "half_width_mean_pct")
# Of all medians, the 10th and 90th percentile should hold four of five.
WANTED_COVERAGE_PCT = 80


def band_limits(results: list[Result]) -> dict[str, dict[str, float]]:
    out = {}
    for folder, mine in by_folder(results).items():
        found = tables.band_figures(mine)
        out[folder] = {name: found[name] for name in HELD_BAND_FIGURES if name in found}
    return out


def limits_of(results: list[Result]) -> dict:
    """What --update-limits writes: rows, figures by folder and what-if, and the bands."""
    return gates.rounded({"rows": {f: sorted(r.name for r in mine) for f, mine in by_folder(results).items()},
                           "bands": band_limits(results), "figures": reached(results)})


def regressions(results: list[Result], held: dict, folders: list[str]) -> list[str]:
    """What got worse than the limits, has none, or is gone. `folders`: those that were read."""
    bad = []
    mine = by_folder(results)
    for folder in folders:
        bad += gates.vanished(folder, [r.name for r in mine.get(folder, [])], held.get("rows", {}).get(folder, []))
    for folder, whatifs in reached(results).items():
        for whatif, now in whatifs.items():
            bad += gates.over(f"{folder}: {whatif}", now, held.get("figures", {}).get(folder, {}).get(whatif, {}), SLACK_PCT)
    for folder, now in band_limits(results).items():
        one_row = {name: 100 / max(1, sum(r.row.quiet or name == "coverage_pct" for r in mine[folder])) + 0.1
                   for name in ("coverage_pct", "quiet_coverage_pct")}
        bad += gates.over(f"{folder}: bands", now, held.get("bands", {}).get(folder, {}), SLACK_PCT, one_row)
    return bad


def main() -> int:
    parser = gates.parser(__doc__)
    parser.add_argument("folders", nargs="*", type=Path, metavar="TRUTH_DIR")
    parser.add_argument("--rows", action="store_true", help="print every row")
    parser.add_argument("--worst", type=int, metavar="N", default=0, help="print the N worst rows by time, GPU time and memory")
    parser.add_argument("--model", help="only models whose name holds this")
    parser.add_argument("--whatif", help="only rows whose what-ifs hold this")
    parser.add_argument("--no-measured", action="store_true", help="do not give the base's measured step to the command")
    parser.add_argument("--own-residuals", action="store_true", help="bands from all models, the row's own among them")
    parser.add_argument("--in-sample", action="store_true", help="in addition to the bands, those from all models")
    parser.add_argument("--daydream", action="store_true", help="Daydream's printed rules next to ours")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep all figures in this file (- for standard output)")
    parser.add_argument("--update-docs", action="store_true", help="write the tables into docs/internals/accuracy.md")
    options = parser.parse_args()
    if not options.program.exists():
        parser.error(f"{options.program} is not there: make build")
    if not options.folders and not os.environ.get("FORETRACE_TRUTH"):
        print("accuracy: FORETRACE_TRUTH is not set: only the project's own measurements", file=sys.stderr)
    missing = [f for f in options.folders if not (f / "truth.jsonl").exists()]
    if missing:
        parser.error(f"{missing[0]} holds no truth.jsonl")
    options.daydream |= options.update_docs

    program = Program(options.program)
    folders = [Folder(f.resolve()) for f in options.folders or default_folders()]
    with tempfile.TemporaryDirectory() as scratch:
        results, unknown = measure(program, folders, not options.no_measured, options.daydream,
                                   None if options.own_residuals else scratch)
        in_sample = measure(program, folders, not options.no_measured)[0] if options.in_sample or options.update_docs else []
        unseen = measure(program, [Folder(UNSEEN)], scratch=scratch)[0] if options.update_docs else []
    results, in_sample = ([r for r in rs if (options.model or "") in r.row.model and (options.whatif or "") in r.whatif]
                          for rs in (results, in_sample))
    for line in unknown:
        print(f"accuracy: not a variant this suite knows: {line}", file=sys.stderr)
    if not results:
        print("accuracy: no row to predict", file=sys.stderr)
        return 1
    page = tables.page(results, by_whatif(results), figures, in_sample)
    text = "\n".join(page)
    if options.json:
        data = {"schema": 1, "rows": [r.as_json() for r in results], "whatifs": reached(results),
                "bands": tables.band_figures(results)}
        blob = json.dumps(data, indent=1)
        print(blob) if str(options.json) == "-" else options.json.write_text(blob + "\n")
    if str(options.json) != "-":
        print(text)
        if options.rows:
            print("\n".join(["", *tables.row_table(results)]))
        if options.worst:
            print("\n".join(["", *tables.worst(results, options.worst)]))
    whole = not options.folders and os.environ.get("FORETRACE_TRUTH") and not (options.model or options.whatif)
    if (options.update_docs or options.update_limits) and not whole:
        parser.error("tables and limits are written over all folders only: set FORETRACE_TRUTH and name no folder")
    if options.update_docs:
        tables.write_between(DOCS, "accuracy", text)
        tables.write_between(ROWS, "rows", "\n".join(tables.row_table(results)))
        tables.write_between(ROWS, "unseen-rows", "\n".join(tables.row_table(unseen)))
        fitted.keep(expectation.files() | track_record.files(), check=False)
        print(f"accuracy: wrote {os.path.relpath(DOCS)} and {os.path.relpath(ROWS)}")
    if options.update_limits:
        gates.save(LIMITS, limits_of(results))
        print(f"accuracy: wrote {os.path.relpath(LIMITS)}")
    held = gates.load(LIMITS)
    filtered = options.model or options.whatif
    read = [] if filtered else list(held.get("rows", {})) if whole else [f.name for f in folders]
    bad = regressions(results, held, read) if not filtered else []
    if whole:
        coverage = tables.band_figures(results)["coverage_pct"]
        if coverage < WANTED_COVERAGE_PCT:
            bad.append(f"bands hold {coverage:.0f} % of all medians, {WANTED_COVERAGE_PCT} % wanted")
    return gates.verdict(bad, options.gate)


if __name__ == "__main__":
    sys.exit(main())
