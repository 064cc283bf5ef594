"""What gates hold: figures that may not grow or shrink, and rows that may not vanish. Each tool keeps its own in a JSON file."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path


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
