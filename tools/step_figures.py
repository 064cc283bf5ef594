"""What tests/accuracy/step_figures measures of the graphs of real steps, and what its two judges share: which traces there are,
the command line, the place of a table in the documentation. tools/replay_accuracy.py judges replays, tools/frozen_accuracy.py
whether graphs can move.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import gates
from accuracy_tables import write_between
from truth import ROOT


@dataclass
class Group:
    """Traces that share their promises."""

    name: str
    traces: list[Path]
    public: bool = False  # made by others: a wider tolerance
    results: list[dict] = field(default_factory=list)

    def steps(self, found_by: str = "") -> list[tuple[str, dict]]:
        """The trace's name and the figures of each step, of traces whose steps were found that way."""
        return [(Path(r["trace"]).name.split(".json")[0], step) for r in self.results if found_by in r["found_by"]
                for step in r["steps"]]


def traces_under(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("*.json*") if p.suffix in (".json", ".gz", ".zst") and "straggler" not in str(p))


def folders_of(folder: Path) -> list[Path]:
    return sorted(f for f in folder.iterdir() if f.is_dir())


def all_groups() -> list[Group]:
    """Every trace of the project, and under $FORETRACE_TRUTH and $FORETRACE_PUBLIC where set."""
    groups = [Group("examples", traces_under(ROOT / "examples"))]
    groups += [Group(f"data/{f.name}", traces_under(f)) for f in folders_of(ROOT / "data")]
    if truth := os.environ.get("FORETRACE_TRUTH"):
        groups += [Group(f"truth/{f.name}", traces_under(f)) for f in folders_of(Path(truth))]
    if public := os.environ.get("FORETRACE_PUBLIC"):
        for folder in folders_of(Path(public)):
            if folder.name == "zoo":  # traces of very different kinds: each for itself
                groups += [Group(f"public/zoo/{t.name.split('.json')[0]}", [t], True) for t in traces_under(folder)]
            else:
                groups.append(Group(f"public/{folder.name}", traces_under(folder), True))
    return [g for g in groups if g.traces]


def largest(values: list[float]) -> float:
    """Of the values without their signs."""
    return max((abs(v) for v in values), default=0.0)


@dataclass
class Judge:
    """One tool: what it measures of which traces, what it shows, and what it holds them to."""

    name: str
    about: str
    groups: Callable[[list[Path]], list[Group]]  # of the traces given, or of all
    table: Callable[[list[Group], argparse.Namespace], list[str]]
    failures: Callable[[Group], list[str]]
    docs: Path
    mark: str  # the table stands between <!-- mark --> and <!-- end of mark -->
    flags: Callable[[argparse.Namespace], list[str]] = lambda _: []
    options: Callable[[argparse.ArgumentParser], None] = lambda _: None

    def say(self, text: str, file=None) -> None:
        print(f"{self.name}: {text}", file=file)

    def measure(self, program: Path, flags: list[str], groups: list[Group]) -> None:
        of = {str(t): g for g in groups for t in g.traces}
        done = subprocess.run([str(program), *flags, *of], capture_output=True, text=True, check=False)
        for line in done.stderr.splitlines():
            self.say(line, sys.stderr)
        for line in done.stdout.splitlines():
            result = json.loads(line)
            of[result["trace"]].results.append(result)

    def run(self) -> int:
        parser = argparse.ArgumentParser(description=self.about, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("traces", nargs="*", type=Path)
        parser.add_argument("--program", type=Path, default=ROOT / "build" / "tests" / "step_figures")
        parser.add_argument("--gate", action="store_true", help="exit 1 when a promise of the project is broken")
        parser.add_argument("--update-docs", action="store_true", help=f"write the tables into {os.path.relpath(self.docs, ROOT)}")
        parser.add_argument("--json", type=Path, help="keep all figures in this file")
        self.options(parser)
        options = parser.parse_args()
        if not options.program.exists():
            parser.error(f"{options.program} is not there: cmake --build build --target step_figures")
        if not options.traces and not os.environ.get("FORETRACE_TRUTH"):
            self.say("FORETRACE_TRUTH is not set: only the project's own traces")
        groups = self.groups(options.traces)
        self.measure(options.program, self.flags(options), groups)
        lines = self.table(groups, options)
        print("\n".join(lines))
        if options.json:
            options.json.write_text(json.dumps({g.name: g.results for g in groups}, indent=1))
        if options.update_docs:
            write_between(self.docs, self.mark, "\n".join(lines))
            self.say(f"wrote {os.path.relpath(self.docs)}")
        bad = [line for g in groups for line in self.failures(g)]
        for line in bad if not options.gate else []:
            print(f"note {line}")
        return gates.verdict(bad, options.gate)
