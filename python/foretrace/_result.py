"""What every answer can do: become a data frame, and a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas

    from ._pictures import Picture

Bar = tuple[str, float, float, float]
"""Name, low, value and high in ms; low and high are the value where there is no band."""


class Result:
    """An answer as a table of rows. Each kind of answer says which rows and which bars it has."""

    def _rows(self) -> list[dict[str, Any]]:
        raise NotImplementedError

    def _bars(self) -> tuple[list[Bar], float | None]:
        """The bars of the picture, and today's step in ms where it belongs into it."""
        raise NotImplementedError

    def _title(self) -> str:
        return ""

    def to_pandas(self) -> pandas.DataFrame:
        """The answer as a data frame, times in ms. Needs pandas."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError(f"{type(self).__name__}.to_pandas needs pandas: pip install pandas") from error
        return pd.DataFrame(self._rows())

    def plot(self) -> Picture:
        """The answer as a picture (SVG): notebooks show it, `save` writes it."""
        from ._pictures import bars

        rows, today = self._bars()
        return bars(rows, today, self._title())


def bar(name: str, ms: float | None) -> Bar:
    """A value without a band."""
    value = float(ms or 0)
    return name, value, value, value
