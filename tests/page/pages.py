"""Pages to look at: where the program is, and how it makes one."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(os.environ.get("FORETRACE_PROGRAM", ROOT / "build" / "foretrace"))
EXAMPLE = ROOT / "examples" / "resnet50-h200.json.gz"


def report(folder: Path, *arguments: str | Path) -> Path:
    out = folder / "report.html"
    subprocess.run([PROGRAM, "report", *map(str, arguments), "-o", str(out), "--quiet"], check=True, stdout=subprocess.DEVNULL)
    return out
