"""How wide reports and messages are."""

from __future__ import annotations

import shutil
import sys
import textwrap


def report_width() -> int:
    return max(60, shutil.get_terminal_size((100, 24)).columns)


def tell(text: str) -> None:
    """Prints "foretrace: …" on standard error; wrapped where that is a terminal."""
    lines = f"foretrace: {text}".split("\n")
    if sys.stderr.isatty():
        wrapped = [textwrap.fill(line, report_width(), subsequent_indent=" " * (len(line) - len(line.lstrip()) + 2), break_long_words=False,
                                 break_on_hyphens=False) for line in lines]
        lines = [part for part in wrapped if part]
    print("\n".join(lines), file=sys.stderr)
