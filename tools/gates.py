"""What gates share: the program they ask, the command line, and limits (figures that may not grow or shrink, rows that may not vanish), which
each tool keeps in a JSON file of its own.
"""

import argparse
import json
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from truth import ROOT

FORETRACE = ROOT / "build" / "foretrace"


def ask(program: Path | str, *arguments: str) -> dict:
    """The program's answer in JSON, or its complaint as `error`."""
    done = subprocess.run([str(program), *arguments, "--json"], capture_output=True, text=True, check=False)
    try:
        return json.loads(done.stdout)
    except json.JSONDecodeError:
        return {"error": done.stderr.strip().splitlines()[0] if done.stderr.strip() else f"exit {done.returncode}"}


def parser(about: str | None, program: Path | None = FORETRACE, limits: bool = True) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    if program:
        made.add_argument("--program", type=Path, default=program)
    made.add_argument("--gate", action="store_true", help="exit 1 where something is worse than its limit, has none, or is gone")
    if limits:
        made.add_argument("--update-limits", action="store_true", help="write what is reached as the limits of --gate")
    return made


def verdict(bad: list[str], gate: bool) -> int:
    """Prints what a gate fails for; the exit code."""
    for line in bad if gate else []:
        print(f"FAILED {line}")
    return 1 if bad and gate else 0


def load(path: Path) -> dict:
    return json.loads(path.read_text()) if path.exists() else {}


def save(path: Path, limits: Mapping) -> None:
    path.write_text(json.dumps(limits, indent=1, ensure_ascii=False) + "\n")


def over(where: str, now: Mapping[str, float], allowed: Mapping[str, float], slack: float, least: Mapping[str, float] | None = None) -> list[str]:
    """Figures above their limit, or without one. Those of `least` are floors with a slack of their own: they may not fall."""
    least = least or {}
    bad = []
    for name, value in now.items():
        shown = f"{where}: {name.replace('_', ' ')}"
        if name not in allowed:
            bad.append(f"{shown} is {value:.2f} and has no limit (--update-limits writes one)")
        elif (name in least and value < allowed[name] - least[name]) or (name not in least and value > allowed[name] + slack):
            bad.append(f"{shown} is {value:.2f}, was {allowed[name]:.2f}")
    return bad


def vanished(where: str, now: Iterable[str], listed: Iterable[str]) -> list[str]:
    """Rows that the limits were written over and that are no longer there, or no longer as often."""
    gone = Counter(listed) - Counter(now)
    return [f"{where}: the row {name} is gone" for name in sorted(gone.elements())]


def rounded(figures: Mapping) -> dict:
    return {k: rounded(v) if isinstance(v, Mapping) else round(v, 2) if isinstance(v, float) else v for k, v in figures.items()}
