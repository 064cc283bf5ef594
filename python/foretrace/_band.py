"""The band around an answer, shared by _scale and _graph_tables."""

from __future__ import annotations


class Band:
    """Of a frozen dataclass with the 10th and 90th percentile of a step, in ns."""

    low: int
    high: int

    @property
    def low_ms(self) -> float:
        return self.low / 1e6

    @property
    def high_ms(self) -> float:
        return self.high / 1e6
