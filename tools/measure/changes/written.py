"""The code that foretrace itself writes for a change (src/report/pytorch), to be measured as it is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

FOLDER = Path(__file__).resolve().parents[3] / "src" / "report" / "pytorch"


def written(name: str, *others: str) -> Any:
    """The function or class of this name; `others` are pieces it calls."""
    names: dict[str, Any] = {"torch": torch}
    for piece in (*others, name):
        exec(compile((FOLDER / f"{piece}.py").read_text(), f"{piece}.py", "exec"), names)
    return names[name]
