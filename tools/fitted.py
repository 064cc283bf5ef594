"""Tables that a tool makes of measurements: written, or compared with what it would write."""

import argparse
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path


def stale(files: Mapping[Path, str]) -> list[Path]:
    """Those that hold another text."""
    return [path for path, text in files.items() if not path.is_file() or path.read_text() != text]


def keep(files: Mapping[Path, str], check: bool) -> int:
    """The exit code; `check` writes nothing and fails where a table says something else."""
    old = stale(files)
    for path in old:
        if check:
            print(f"{path.name}: not what the data say", file=sys.stderr)
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(files[path])
    return 1 if old and check else 0


def parser(about: str | None) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)


def public_folder() -> Path | None:
    """The folder of measurements made by others."""
    return Path(os.environ["FORETRACE_PUBLIC"]) if os.environ.get("FORETRACE_PUBLIC") else None


def main(about: str | None, files: Callable[[argparse.Namespace], Mapping[Path, str]], program: Path | None = None) -> int:
    """A tool that makes tables: `files` returns their texts. `program`: what it asks by default (--program)."""
    options = parser(about)
    options.add_argument("--check", action="store_true", help="write nothing; fail where a table is not what the data say")
    if program:
        options.add_argument("--program", type=Path, default=program)
    given = options.parse_args()
    return keep(files(given), given.check)
