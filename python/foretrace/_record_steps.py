"""Which of the recurring events of a training loop ends its step."""

from __future__ import annotations

from collections.abc import Hashable

# The loop has lost the event that ended its steps (an optimizer was replaced) when this many cycles passed without it.
_LOST_CYCLES = 10
# Events that come seldom are waited for this many times as long as the first one needs.
_PATIENCE = 4


class StepBorders:
    """Told of every event that may end a step (an optimizer's step, a call of a compiled function), says which ones do.

    A loop may have several: a GAN steps two optimizers, an optimizer fused into backward is one for each parameter, a sharded
    one calls another. A step is the whole cycle, so the event that comes least often ends it; of those that come equally often,
    the one that was last to appear. What comes once (an initialisation) is none.

    >>> borders = StepBorders(rounds=2)
    >>> [borders.seen(key) for key in "ABABABAB"]
    [False, False, False, True, False, True, False, True]
    """

    def __init__(self, rounds: int) -> None:
        self._rounds = max(2, rounds)
        self._counts: dict[Hashable, int] = {}
        self._border: Hashable | None = None
        self._cycle = 1.0  # events of a step
        self._since = 0  # events since the last border

    def seen(self, key: Hashable) -> bool:
        """Whether this event ends a step. Never true before `rounds` events of the first kind are known."""
        if self._border is None:
            self._counts[key] = self._counts.get(key, 0) + 1
            self._choose()
            return key == self._border
        self._since += 1
        if key != self._border and self._since > _LOST_CYCLES * self._cycle:
            self._border = key
        if key != self._border:
            return False
        self._since = 0
        return True

    def _choose(self) -> None:
        first = next(iter(self._counts.values()))
        settled = first >= self._rounds and min(self._counts.values()) >= 2
        if not settled and first < _PATIENCE * self._rounds:
            return
        counts = {key: n for key, n in self._counts.items() if n >= 2}
        least = min(counts.values())
        self._border = [key for key, n in counts.items() if n == least][-1]
        self._cycle = sum(counts.values()) / least
