#!/usr/bin/env python3
"""How well the CPU is known: the clean rows of data/h200-clean, each predicted with host costs fitted without its network
(tools/fit_host.py): from the trace alone, with host times of phases as the recorder takes them, and with the measured step.

    tools/cpu_accuracy.py [--rows] [--gate] [--update-limits]     limits in tools/cpu_accuracy_limits.json

Errors are distances to the median; a base's is the mean of both times it was measured, and its own distance to those is the host's drift, which no
prediction can beat.
"""

import math
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

import accuracy
import fit_host
import gates
import host_traces
from accuracy_tables import aligned
from truth import ROOT, Folder, Row, whatifs_of, with_figures

LIMITS = Path(__file__).resolve().parent / "cpu_accuracy_limits.json"
SLACK_PCT = 1.0
KNOWN = ("trace", "recorder", "measured")
"""What is known of the CPU: the plain trace, host times of phases together with it, or the base's measured step."""


@dataclass
class Judged:
    row: Row
    base: Row
    known: str
    off_pct: float | None  # None: declined
    in_band: bool
    uses: list[str]


def recorded(row: Row, traced: dict[str, host_traces.Phase]) -> dict:
    """What the recorder stores of the CPU, from the row's own host times. At the end of a phase the GPU is behind by what it still has to
    do of what was launched until then; at the end of the step, by what the host waits."""
    host = row.data["host_ms"]
    ms = {"forward": host["forward"] + host["data"], "backward": host["backward"], "update": host["update"]}
    behind, launched, clock = {}, 0.0, 0.0
    for phase, took in ms.items():
        launched += traced[phase].gpu_us / 1e3
        clock += took
        behind[phase] = max(0.0, launched - clock)
    behind["update"] = host["wait"]
    return {"version": 1, "phase_ms": ms, "phase_behind_ms": behind, "traced_phase_ms": {p: traced[p].us / 1e3 for p in ms}}


def judge(program: accuracy.Program, folder: Folder, scratch: Path) -> list[Judged]:
    hosts = fit_host.without_each(program.path, scratch)

    def one(case: tuple[Row, list[Row]]) -> list[Judged]:
        base, rows = case
        assert base.trace is not None
        rows = [r for r in rows if whatifs_of(r.variant) is not None]
        stacks = [r.uses or [] for r in rows]
        base_ms = folder.base_ms(base)
        out = []
        for known in KNOWN:
            place = scratch / known
            place.mkdir(exist_ok=True)
            figures = recorded(base, host_traces.phases_of(program.path, base.trace)) if known == "recorder" else None
            trace = with_figures(base.trace, figures, place)
            options = ["--host", str(hosts[base.network])] + (["--measured-ms", repr(base_ms)] if known == "measured" else [])
            unchanged = program.run("whatif", str(trace), "cpu:x=1", *options)["baseline"]
            out.append(Judged(base, base, known, 100 * (unchanged["unprofiled_ms"] / base_ms - 1),
                              unchanged["unprofiled_low_ms"] <= base_ms <= unchanged["unprofiled_high_ms"], []))
            for row, uses, p in zip(rows, stacks, program.predict(trace, options, stacks)[1]):
                declined = "declined" in p
                out.append(Judged(row, base, known, None if declined else 100 * (p["ms"] / row.median - 1),
                                  not declined and p["low_ms"] <= row.median <= p["high_ms"], uses))
            trace.unlink()
        return out

    with ThreadPoolExecutor(2) as pool:
        return [j for found in pool.map(one, folder.cases()) for j in found]


UNCOVERING = {"amp", "tf32", "compile", "cuda-graph", "flash-attention", "fused-optimizer", "channels-last"}


def groups(found: list[Judged]) -> dict[str, list[Judged]]:
    """The questions, and the rows that answer them."""
    out: dict[str, list[Judged]] = {}

    def names(j: Judged) -> set[str]:
        return {u.split(":")[0] for u in j.uses}

    def add(title: str, take) -> None:
        for known in KNOWN:
            mine = [j for j in found if j.known == known and take(j)]
            if mine:
                out[f"{title}, {known}"] = mine
    add("the step itself, CPU-bound", lambda j: not j.uses and j.row.cpu_bound)
    add("the step itself, GPU-bound", lambda j: not j.uses and not j.row.cpu_bound)
    add("changes that uncover the CPU of GPU-bound steps",
        lambda j: j.uses and not j.base.cpu_bound and names(j) <= UNCOVERING and (j.row.cpu_bound or "graph" in j.row.variant))
    add("checkpoint on CPU-bound steps", lambda j: names(j) == {"checkpoint"} and j.base.cpu_bound)
    add("other changes of CPU-bound steps",
        lambda j: j.uses and j.base.cpu_bound and not names(j) & {"checkpoint", "compile"})
    for start in ("today", "image", "compiled"):
        add(f"from {start}, without compile", lambda j, s=start: j.uses and j.row.data["start"] == s and "compile" not in names(j))
    return out


def figures(mine: list[Judged]) -> dict[str, float]:
    off = [100.0 if j.off_pct is None else abs(j.off_pct) for j in mine]
    return {"rows": len(off), "mean": mean(off), "max": max(off), "in_band_pct": 100 * mean(j.in_band for j in mine)}


def drift(folder: Folder) -> str:
    """Base against base, measured again."""
    by: dict[str, dict[str, Row]] = {}
    for r in folder.rows:
        by.setdefault(r.model, {})[r.variant] = r
    off = [100 * abs(v["again"].median / v["base"].median - 1) for v in by.values() if {"base", "again"} <= set(v) and v["base"].cpu_bound]
    return (f"The host's own drift: bases the CPU bounds, measured twice, are {mean(off):.1f} % apart on average, {max(off):.0f} % at most. "
            f"So one row that the CPU bounds is about {mean(off) / math.sqrt(2):.0f} % from its own mean: no prediction comes nearer on average.")


def main() -> int:
    parser = gates.parser(__doc__)
    parser.add_argument("--rows", action="store_true")
    options = parser.parse_args()
    folder = Folder(ROOT / "data" / "h200-clean")
    with tempfile.TemporaryDirectory() as scratch:
        found = judge(accuracy.Program(options.program), folder, Path(scratch))
    lines = groups(found)
    now = {title: figures(mine) for title, mine in lines.items()}
    print("\n".join(aligned(["question, what is known", "rows", "error % mean / max", "in band %"],
                            [[t, str(f["rows"]), f"{f['mean']:.1f} / {f['max']:.1f}", f"{f['in_band_pct']:.0f}"] for t, f in now.items()])))
    print("\n" + drift(folder))
    if options.rows:
        rows = sorted({(j.row.model, j.row.variant) for j in found})
        by = {(j.row.model, j.row.variant, j.known): j for j in found}
        print()
        print("\n".join(aligned(["row", "measured ms", "bound", *(f"{k} %" for k in KNOWN)], [
            [f"{m} {v}", f"{by[m, v, 'trace'].row.median:.1f}", "CPU" if by[m, v, "trace"].row.cpu_bound else "GPU",
             *("declined" if by[m, v, k].off_pct is None else f"{by[m, v, k].off_pct:+.1f}" for k in KNOWN)] for m, v in rows])))
    if options.update_limits:
        gates.save(LIMITS, {t: gates.rounded({"mean": f["mean"], "max": f["max"]}) for t, f in now.items()})
        print(f"cpu_accuracy: wrote {LIMITS.name}")
    limits = gates.load(LIMITS)
    bad = [f"{t}: {name} error {f[name]:.1f} %, was {limits[t][name]:.1f} %" for t, f in now.items() for name in ("mean", "max")
           if t in limits and f[name] > limits[t][name] + SLACK_PCT]
    bad += [f"{t}: no limit; tools/cpu_accuracy.py --update-limits writes them" for t in now if t not in limits]
    return gates.verdict(bad, options.gate)


if __name__ == "__main__":
    sys.exit(main())
