#!/usr/bin/env python3
"""Whether the graphs of real steps can move: frozen time, the two limits, and the replay against the period, over every trace
at hand. Prints a table; `--gate` fails when a promise is broken.

    tools/frozen_accuracy.py                     the traces of the project, and $FORETRACE_TRUTH and $FORETRACE_PUBLIC where set
    tools/frozen_accuracy.py TRACE…              these traces, one line each
    tools/frozen_accuracy.py --update-docs       the same, written into docs/replay.md

frozen: the step with every cost at zero, in percent of the replayed step. A graph that keeps a wait as a distance replays
exactly and moves with nothing; this is where it shows.
limits: with the CPU at zero the step must come down to the GPU's critical path, with the GPU at zero to the CPU's work.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs" / "replay.md"
BEGIN, END = "<!-- frozen -->", "<!-- end of frozen -->"
LIMIT_PCT = 5


class Group:
    """Traces that are judged by the same promises."""

    def __init__(self, name: str, traces: list[Path], error_pct: float, frozen_pct: float):
        self.name, self.traces, self.error_pct, self.frozen_pct = name, traces, error_pct, frozen_pct
        self.steps: list[tuple[str, dict]] = []


def traces_under(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("*.json.*") if p.suffix in (".gz", ".zst") and "straggler" not in str(p))


def default_groups() -> list[Group]:
    groups = [Group("examples", traces_under(ROOT / "examples"), 0.5, 12)]
    groups += [Group(f"data/{f.name}", traces_under(f), 0.5, 12) for f in sorted((ROOT / "data").iterdir()) if f.is_dir()]
    if truth := os.environ.get("FORETRACE_TRUTH"):
        groups += [Group(f"truth/{f.name}", traces_under(f), 0.5, 12) for f in sorted(Path(truth).iterdir()) if f.is_dir()]
    if public := os.environ.get("FORETRACE_PUBLIC"):
        for folder in sorted(f for f in Path(public).iterdir() if f.is_dir()):
            if folder.name == "zoo":  # traces of very different kinds: each for itself
                groups += [Group(f"public/zoo/{t.name.split('.json')[0]}", [t], 2, 15) for t in traces_under(folder)]
            else:
                groups.append(Group(f"public/{folder.name}", traces_under(folder), 2, 15))
    return [g for g in groups if g.traces]


def measure(program: Path, groups: list[Group]) -> None:
    of = {str(t): g for g in groups for t in g.traces}
    done = subprocess.run([str(program), *of], capture_output=True, text=True, check=False)
    for line in done.stderr.splitlines():
        print(f"frozen_accuracy: {line}", file=sys.stderr)
    for line in done.stdout.splitlines():
        result = json.loads(line)
        name = Path(result["trace"]).name.split(".json")[0]
        of[result["trace"]].steps += [(name, s) for s in result["steps"] if s["gpu_ms"] > 0]


def error(step: dict) -> float:
    """Against the period where a neighbour shows it, else against the range."""
    return step["error_vs_period_pct"] if step["period_ms"] > 0 else step["error_pct"]


# Misses that are known and not explained yet: the side, and how far it may be off.
KNOWN = {("resnet50-image.graph", "gpu_free"): 8.0}  # one of its two steps; the other meets its limit


def failures(group: Group) -> list[str]:
    bad = []
    for trace, s in group.steps:
        where = f"{group.name}: {trace} {s['step']}"
        alone = s["periodic"] and s["period_ms"] == 0  # nothing outside says how long it was
        if abs(error(s)) > group.error_pct and not alone:
            bad.append(f"{where} replays {error(s):+.2f} % off, at most {group.error_pct} % allowed")
        if s["frozen_pct"] > group.frozen_pct:
            bad.append(f"{where}: {s['frozen_pct']:.1f} % frozen, at most {group.frozen_pct} % allowed")
        for side in ("cpu_free", "gpu_free"):
            if abs(s[f"{side}_off_pct"]) > KNOWN.get((trace, side), LIMIT_PCT):
                bad.append(f"{where}: {side} {s[f'{side}_off_pct']:+.1f} % off its path, at most {LIMIT_PCT} % allowed")
    return bad


def table(groups: list[Group]) -> list[str]:
    lines = ["| traces | steps | behind | replay against period or range, worst % | frozen % | CPU free against GPU path, worst % |"
             " GPU free against CPU work, worst % |", "|---|---|---|---|---|---|---|"]
    for g in groups:
        steps = [s for _, s in g.steps]
        if not steps:
            continue
        worst = max((error(s) for s in steps), key=abs)
        frozen = [s["frozen_pct"] for s in steps]
        off = [max((s[f"{side}_off_pct"] for s in steps), key=abs) for side in ("cpu_free", "gpu_free")]
        lines.append(f"| {g.name} | {len(steps)} | {sum(s['periodic'] for s in steps)} | {worst:+.2f} |"
                     f" {min(frozen):.1f}–{max(frozen):.1f} | {off[0]:+.1f} | {off[1]:+.1f} |")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="*", type=Path)
    parser.add_argument("--program", type=Path, default=ROOT / "build" / "tests" / "frozen_figures")
    parser.add_argument("--gate", action="store_true", help="exit 1 when a promise of the project is broken")
    parser.add_argument("--update-docs", action="store_true", help="write the table into docs/replay.md")
    options = parser.parse_args()
    if not options.program.exists():
        parser.error(f"{options.program} is not there: cmake --build build --target frozen_figures")
    groups = [Group(t.name, [t], 0.5, 12) for t in options.traces] or default_groups()
    if not options.traces and not os.environ.get("FORETRACE_TRUTH"):
        print("frozen_accuracy: FORETRACE_TRUTH is not set: only the project's own traces")
    measure(options.program, groups)
    lines = table(groups)
    print("\n".join(lines))
    if options.update_docs:
        text = DOCS.read_text()
        DOCS.write_text(text.split(BEGIN)[0] + "\n".join([BEGIN, "", *lines, "", END]) + text.split(END)[1])
        print(f"frozen_accuracy: wrote {os.path.relpath(DOCS)}")
    bad = [line for g in groups for line in failures(g)]
    for line in bad:
        print(f"{'FAILED' if options.gate else 'note'} {line}")
    return 1 if options.gate and bad else 0


if __name__ == "__main__":
    sys.exit(main())
