#!/usr/bin/env python3
"""Whether the graphs of real steps can move: frozen time, the two limits, and the replay against the period, over every trace
at hand. Prints a table; `--gate` fails when a promise is broken.

    tools/frozen_accuracy.py                     the traces of the project, and $FORETRACE_TRUTH and $FORETRACE_PUBLIC where set
    tools/frozen_accuracy.py TRACE…              these traces, one line each
    tools/frozen_accuracy.py --update-docs       the same, written into docs/internals/replay.md

frozen: the step with every cost at zero, in percent of the replayed step. A graph that keeps a wait as a distance replays
exactly and moves with nothing; this is where it shows.
limits: with the CPU at zero the step must come down to the GPU's critical path, with the GPU at zero to the CPU's work.
"""

import argparse
import sys
from pathlib import Path

from step_figures import ROOT, Group, Judge, all_groups

LIMIT_PCT = 5
SIDES = ("cpu_free", "gpu_free")


def groups_of(traces: list[Path]) -> list[Group]:
    return [Group(t.name, [t]) for t in traces] or all_groups()


def moving(group: Group) -> list[tuple[str, dict]]:
    return [(trace, s) for trace, s in group.steps() if s["gpu_ms"] > 0]


def failures(group: Group) -> list[str]:
    bad = []
    most_off, most_frozen = (2, 15) if group.public else (0.5, 12)
    for trace, s in moving(group):
        where = f"{group.name}: {trace} {s['step']}"
        alone = s["periodic"] and s["period_ms"] == 0  # nothing outside says how long it was
        if abs(s["error_pct"]) > most_off and not alone:
            bad.append(f"{where} replays {s['error_pct']:+.2f} % off, at most {most_off} % allowed")
        if s["frozen_pct"] > most_frozen:
            bad.append(f"{where}: {s['frozen_pct']:.1f} % frozen, at most {most_frozen} % allowed")
        bad += [f"{where}: {side} {s[f'{side}_off_pct']:+.1f} % off its path, at most {LIMIT_PCT} % allowed"
                for side in SIDES if abs(s[f"{side}_off_pct"]) > LIMIT_PCT]
    return bad


def table(groups: list[Group], _: argparse.Namespace) -> list[str]:
    lines = ["| traces | steps | behind | replay against period or range, worst % | frozen % | CPU free against GPU path, worst % |"
             " GPU free against CPU work, worst % |", "|---|---|---|---|---|---|---|"]
    for g in groups:
        steps = [s for _, s in moving(g)]
        if not steps:
            continue
        worst = max((s["error_pct"] for s in steps), key=abs)
        frozen = [s["frozen_pct"] for s in steps]
        off = [max((s[f"{side}_off_pct"] for s in steps), key=abs) for side in SIDES]
        lines.append(f"| {g.name} | {len(steps)} | {sum(s['periodic'] for s in steps)} | {worst:+.2f} |"
                     f" {min(frozen):.1f}–{max(frozen):.1f} | {off[0]:+.1f} | {off[1]:+.1f} |")
    return lines


if __name__ == "__main__":
    sys.exit(Judge("frozen_accuracy", __doc__, groups_of, table, failures, ROOT / "docs" / "internals" / "replay.md", "frozen").run())
