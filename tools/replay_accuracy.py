#!/usr/bin/env python3
"""What replays are worth: every step of every trace simulated unchanged, strictly, with another step's costs, with kernels
at half their time, and without each family of dependencies. Prints tables; `--gate` fails when a promise is broken.

    tools/replay_accuracy.py                     the traces of the project, and $FORETRACE_TRUTH and $FORETRACE_PUBLIC where set
    tools/replay_accuracy.py TRACE…              these traces
    tools/replay_accuracy.py --ablation          also without each family of dependencies
    tools/replay_accuracy.py --update-docs       the same, written into docs/internals/accuracy.md

Why more than one figure: a graph keeps each kernel's own distance to what it waited for, so an unchanged replay is near
exact by construction. `strict` replaces every distance that no rule explains by the usual one; `crossed` puts another
step's costs into this step's graph; `x 0.5` shows whether the graph knows what waited and what worked.
"""

import argparse
import sys
from pathlib import Path
from statistics import mean

from step_figures import ROOT, Group, Judge, all_groups, largest

# Families in the order of docs/internals/architecture.md, and what leaving one out means.
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


# Folders whose replays are held to something; in those made by others the steps are not held to a mean.
HELD = ("examples", "data/h200-more", "truth/h200", "truth/h200-large", "truth/h200-ranks", "public/kineto-misc",
        "public/dlrm-8ranks-v100")
MEAN_PCT = 0.2
LAYERS_PCT = 95
HALF = {"truth/h200-large": 0.6}  # GPU-bound steps: what kernels at half their time may leave of them


def groups_of(traces: list[Path]) -> list[Group]:
    return [Group("given", traces, True)] if traces else [g for g in all_groups() if g.name in HELD]


def judged(group: Group) -> list[tuple[str, dict]]:
    # Without ProfilerStep ranges the "step" is our own finding, and nothing outside says how long it was. Errors are against
    # the period, which ramp-up steps have too (docs/internals/replay.md).
    return group.steps("ProfilerStep")


def failures(group: Group) -> list[str]:
    bad = []
    steps = judged(group)
    most = 2 if group.public else 0.5
    for trace, s in steps:
        where = f"{group.name}: {trace} {s['step']}"
        if abs(s["error_pct"]) > most:
            bad.append(f"{where} replays {s['error_pct']:+.2f} % off, at most {most} % allowed")
        if group.public:
            continue
        if s.get("p95_us", 0) > 20:
            bad.append(f"{where}: kernel starts {s['p95_us']:.1f} us off at the 95th percentile, at most 20 allowed")
        crossed = s.get("transplant")
        if crossed and crossed["unmatched"] == 0 and abs(crossed["error_pct"]) > 1:
            bad.append(f"{where}: with the costs of {crossed['from']} {crossed['error_pct']:+.2f} % off, at most 1 % allowed")
        if s["half_kernels"] > HALF.get(group.name, 1):
            bad.append(f"{where}: kernels x 0.5 leave {s['half_kernels']:.3f} of the step, at most {HALF[group.name]} allowed")
        if s["layers_pct"] < LAYERS_PCT:
            bad.append(f"{where}: {s['layers_pct']:.1f} % of GPU time in layers, at least {LAYERS_PCT} % wanted")
    if not group.public and steps and (m := mean(abs(s["error_pct"]) for _, s in steps)) > MEAN_PCT:
        bad.append(f"{group.name}: mean replay error {m:.3f} %, at most {MEAN_PCT} % allowed")
    return bad


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
    steps = [s for g in groups if not g.public for _, s in judged(g)]
    large = [s for g in groups if g.name in HALF for _, s in judged(g)]
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


def table(groups: list[Group], options: argparse.Namespace) -> list[str]:
    lines = overview(groups)
    if "--ablation" in flags_of(options):
        lines += ["", "Without a family of dependencies (strict replays, all steps but the public ones):", "",
                  *ablation_table(groups)]
    return lines


def flags_of(options: argparse.Namespace) -> list[str]:
    return ["--ablation"] if options.ablation or options.update_docs else ["--replays"]


def options_of(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--ablation", action="store_true", help="also without each family of dependencies")


if __name__ == "__main__":
    sys.exit(Judge("replay_accuracy", __doc__, groups_of, table, failures, ROOT / "docs" / "internals" / "accuracy.md", "replay", flags_of,
                   options_of).run())
