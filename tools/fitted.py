"""Tables that a tool makes of measurements: written, or held against what it would write."""

import sys
from pathlib import Path


def keep(table: Path, text: str, check: bool) -> int:
    """The exit code; `check` writes nothing and fails where the table says something else."""
    if check:
        if not table.is_file() or table.read_text() != text:
            print(f"{table.name}: not what the data say", file=sys.stderr)
            return 1
        return 0
    table.parent.mkdir(exist_ok=True)
    table.write_text(text)
    return 0
