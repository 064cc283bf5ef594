"""Changes as the command line writes them: "batch:x=2"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def written(name: str, parameters: Mapping[str, Any]) -> str:
    """The use of a what-if with these parameters; None: not given."""
    pairs = []
    for key, value in parameters.items():
        if value is None:
            continue
        key = key.rstrip("_")  # a word of Python as a parameter: async_
        text = "|".join(map(text_of, value)) if isinstance(value, (list, tuple)) else text_of(value)
        pairs.append(f"{key}='{text}'" if any(c in text for c in ",:=") else f"{key}={text}")
    return name + (":" + ",".join(pairs) if pairs else "")


def text_of(value: Any) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def on_off(value: bool | None) -> str | None:
    """A switch whose values are "on" and "off"."""
    return None if value is None else "on" if value else "off"
