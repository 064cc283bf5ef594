#!/usr/bin/env python3
"""What replays are worth: every step of every trace simulated unchanged, strictly, with another step's costs, with kernels
at half their time, and without each family of dependencies. Prints tables; `--gate` fails when a promise is broken.

    tools/replay_accuracy.py                     the traces of the project, and $FORETRACE_TRUTH and $FORETRACE_PUBLIC where set
    tools/replay_accuracy.py TRACE…              these traces
    tools/replay_accuracy.py --ablation          also without each family of dependencies
    tools/replay_accuracy.py --update-docs       the same, written into docs/accuracy.md

Why more than one figure: a graph keeps each kernel's own distance to what it waited for, so an unchanged replay is near
exact by construction. `strict` replaces every distance that no rule explains by the usual one; `crossed` puts another
step's costs into this step's graph; `x 0.5` shows whether the graph knows what waited and what worked.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import mean

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs" / "accuracy.md"
BEGIN, END = "<!-- replay -->", "<!-- end of replay -->"

# Families in the order of docs/architecture.md, and what leaving one out means.
FAMILIES = {
    "strict": "all families",
    "launch": "without launch → kernel",
    "sync": "without synchronisation → CPU",
    "thread": "without thread hand-overs",
    "queue": "without bounded launch queues",
    "stream-wait": "without stream waits",
    "share": "without kernels that fill the GPU",
    "border": "without work from the step before",
    "device-gaps": "without the device's own gaps",
}


class Group:
    """Traces that share their promises."""

    def __init__(self, name: str, traces: list[Path], step_pct: float, mean_pct: float | None, half: float | None = None,
                 layers_pct: float = 95):
        self.name, self.traces = name, traces
        self.step_pct, self.mean_pct, self.half, self.layers_pct = step_pct, mean_pct, half, layers_pct
        self.results: list[dict] = []

    def steps(self) -> list[tuple[str, dict]]:
        return [(Path(r["trace"]).name.split(".json")[0], step) for r in self.results for step in r["steps"]]


def found(folder: Path, *patterns: str) -> list[Path]:
    return sorted({path for pattern in patterns for path in folder.glob(pattern)})


def default_groups() -> list[Group]:
    groups = [Group("examples", found(ROOT / "examples", "*.json.gz"), 0.5, 0.2),
              Group("data/h200-more", found(ROOT / "data" / "h200-more", "*.json.gz"), 0.5, 0.2)]
    if truth := os.environ.get("FORETRACE_TRUTH"):
        # Layers ≥ 99 % holds for annotated traces; `plain` has no annotation, and a CUDA graph has no host ranges at all.
        groups += [Group("truth/h200", found(Path(truth, "h200"), "*.json.gz"), 0.5, 0.2),
                   Group("truth/h200-large", found(Path(truth, "h200-large"), "*.base.json.gz"), 0.5, 0.2, half=0.6),
                   Group("truth/h200-ranks", found(Path(truth, "h200-ranks"), "*.json.gz"), 0.5, 0.2)]
    if public := os.environ.get("FORETRACE_PUBLIC"):
        groups.append(Group("public", found(Path(public), "kineto-misc/*.json*", "dlrm-8ranks-v100/*.json*"), 2, None))
    return [g for g in groups if g.traces]


def measure(program: Path, group: Group, ablation: bool) -> None:
    command = [program, *(["--ablation"] if ablation else []), *group.traces]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False)
    group.results = [json.loads(line) for line in done.stdout.splitlines()]
    for line in done.stderr.splitlines():
        print(f"replay_accuracy: {line}", file=sys.stderr)


def judged(group: Group) -> list[tuple[str, dict]]:
    # Without ProfilerStep ranges the "step" is our own finding, and nothing outside says how long it was. Errors are against
    # the period, which ramp-up steps have too (docs/replay.md).
    named = {Path(r["trace"]).name.split(".json")[0] for r in group.results if "ProfilerStep" in r["found_by"]}
    return [(t, s) for t, s in group.steps() if t in named]


def failures(group: Group) -> list[str]:
    bad = []
    steps = judged(group)
    for trace, s in steps:
        where = f"{group.name}: {trace} {s['step']}"
        if abs(s["error_pct"]) > group.step_pct:
            bad.append(f"{where} replays {s['error_pct']:+.2f} % off, at most {group.step_pct} % allowed")
        if s.get("p95_us", 0) > 20 and group.mean_pct is not None:
            bad.append(f"{where}: kernel starts {s['p95_us']:.1f} us off at the 95th percentile, at most 20 allowed")
        crossed = s.get("transplant")
        if group.mean_pct is not None and crossed and crossed["unmatched"] == 0 and abs(crossed["error_pct"]) > 1:
            bad.append(f"{where}: with the costs of {crossed['from']} {crossed['error_pct']:+.2f} % off, at most 1 % allowed")
        if group.half is not None and s["half_kernels"] > group.half:
            bad.append(f"{where}: kernels x 0.5 leave {s['half_kernels']:.3f} of the step, at most {group.half} allowed")
        if group.mean_pct is not None and s["layers_pct"] < group.layers_pct:
            bad.append(f"{where}: {s['layers_pct']:.1f} % of GPU time in layers, at least {group.layers_pct} % wanted")
    if group.mean_pct is not None and steps and (m := mean(abs(s["error_pct"]) for _, s in steps)) > group.mean_pct:
        bad.append(f"{group.name}: mean replay error {m:.3f} %, at most {group.mean_pct} % allowed")
    return bad


def largest(values: list[float]) -> float:
    return max((abs(v) for v in values), default=0.0)


def overview(groups: list[Group]) -> list[str]:
    lines = ["| traces | steps | replay mean / max % | kernel starts p95 µs | strict mean / max % | crossed mean / max % | kernels × 0.5"
             " | in a layer % | in a named layer % |", "|---|---|---|---|---|---|---|---|---|"]
    for g in groups:
        steps = [s for _, s in judged(g)]
        if not steps:
            continue
        error = [s["error_pct"] for s in steps]
        strict = [s["variants"]["strict"]["error_pct"] for s in steps]
        crossed = [s["transplant"]["error_pct"] for s in steps if s.get("transplant")]
        half = [s["half_kernels"] for s in steps]
        crossed_text = f"{mean(map(abs, crossed)):.3f} / {largest(crossed):.2f}" if crossed else "–"
        lines.append(f"| {g.name} | {len(steps)} | {mean(map(abs, error)):.3f} / {largest(error):.3f} |"
                     f" {largest([s.get('p95_us', 0) for s in steps]):.2f} | {mean(map(abs, strict)):.3f} / {largest(strict):.2f} |"
                     f" {crossed_text} | {min(half):.3f}–{max(half):.3f} | {min(s['layers_pct'] for s in steps):.1f}–100 |"
                     f" {min(s['named_layers_pct'] for s in steps):.1f}–{max(s['named_layers_pct'] for s in steps):.1f} |")
    return lines


def ablation_table(groups: list[Group]) -> list[str]:
    """Crossed, because a step's own costs hide what a missing family would have to explain."""
    lines = ["| | step error mean / max % | kernel starts p95 mean / max µs | crossed mean / max % | kernels × 0.5, h200-large |",
             "|---|---|---|---|---|"]
    steps = [s for g in groups if g.mean_pct is not None for _, s in judged(g)]
    large = [s for g in groups if g.half is not None for _, s in judged(g)]
    for family, title in FAMILIES.items():
        rows = [s["variants"][family] for s in steps if family in s["variants"]]
        if not rows:
            continue
        error = [r["error_pct"] for r in rows]
        p95 = [r.get("p95_us", 0.0) for r in rows]
        crossed = [r["transplant"]["error_pct"] for r in rows if r.get("transplant")] or [0.0]
        half = [s["variants"][family]["half_kernels"] for s in large if family in s["variants"]]
        lines.append(f"| {title} | {mean(map(abs, error)):.3f} / {largest(error):.2f} | {mean(p95):.1f} / {max(p95):.0f} |"
                     f" {mean(map(abs, crossed)):.3f} / {largest(crossed):.2f} |"
                     f" {f'{min(half):.3f}–{max(half):.3f}' if half else '–'} |")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="*", type=Path)
    parser.add_argument("--program", type=Path, default=ROOT / "build" / "tests" / "replay_figures")
    parser.add_argument("--ablation", action="store_true", help="also without each family of dependencies")
    parser.add_argument("--gate", action="store_true", help="exit 1 when a promise of the project is broken")
    parser.add_argument("--update-docs", action="store_true", help="write the tables into docs/accuracy.md")
    parser.add_argument("--json", type=Path, help="keep all figures in this file")
    options = parser.parse_args()
    if not options.program.exists():
        parser.error(f"{options.program} is not there: cmake --build build --target replay_figures")
    groups = [Group("given", options.traces, 0.5, None)] if options.traces else default_groups()
    if not options.traces and not os.environ.get("FORETRACE_TRUTH"):
        print("replay_accuracy: FORETRACE_TRUTH is not set: only the project's own traces")
    for group in groups:
        measure(options.program, group, options.ablation or options.update_docs)
        if len(group.results) < len(group.traces):
            print(f"replay_accuracy: {len(group.traces) - len(group.results)} traces of {group.name} could not be read")
    tables = overview(groups)
    if options.ablation or options.update_docs:
        tables += ["", "Without a family of dependencies (strict replays, all steps but the public ones):", "",
                   *ablation_table(groups)]
    print("\n".join(tables))
    if options.json:
        options.json.write_text(json.dumps({g.name: g.results for g in groups}, indent=1))
    if options.update_docs:
        text = DOCS.read_text()
        DOCS.write_text(text.split(BEGIN)[0] + "\n".join([BEGIN, "", *tables, "", END]) + text.split(END)[1])
        print(f"replay_accuracy: wrote {os.path.relpath(DOCS)}")
    bad = [line for g in groups for line in failures(g)]
    for line in bad:
        print(f"{'FAILED' if options.gate else 'note'} {line}")
    return 1 if options.gate and bad else 0


if __name__ == "__main__":
    sys.exit(main())
