"""How long a row is watched."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Pace:
    """How long a row is watched: steps and seconds to warm up, both at the least; the same of those timed; steps the recorder measures."""

    warm_up: int = 8
    warm_up_s: float = 0.7
    least: int = 10
    seconds: float = 2.0
    measured: int = 15


FULL = Pace()
FEW = Pace(5, 0, 5, 0, 5)  # `--few`: rows that are only to be recorded
SHORT = Pace(3, 0.4, 4, 0.7)  # `--short`: rows whose GPU time and memory are wanted, many of them
TINY = Pace(2, 0, seconds=0.1)  # to try the program itself
