"""How wide reports are."""

from __future__ import annotations

import shutil


def report_width() -> int:
    return max(60, shutil.get_terminal_size((100, 24)).columns)
