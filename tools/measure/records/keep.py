"""Puts what tools/measure/records measured into data/: of the recorded steps the shortest, which the host disturbed least; where an
observed step stands behind them, the last, and that one.

    python -m tools.measure.records.keep DIR… --to data/h200-records

A file of a later DIR takes the place of one of the same name; lines of overhead.jsonl of the same model and name likewise.
"""

from __future__ import annotations

import argparse
import gzip
import json
import shutil
import sys
from pathlib import Path
from typing import Any

LEFT_OUT = ("Trace", "ac2g")  # neither is read


def one_step(trace: dict[str, Any]) -> dict[str, Any]:
    """The trace with one of its steps. They end by waiting for the GPU: nothing of one is in another."""
    events = trace["traceEvents"]
    steps = [e for e in events if e.get("cat") == "user_annotation" and e["name"].startswith(("ProfilerStep#", "step "))]
    observed = any(e["name"] == "observed step" for e in events)
    step = max(steps, key=lambda e: e["ts"]) if observed else min(steps, key=lambda e: e["dur"])
    begin, end = step["ts"], float("inf") if observed else step["ts"] + step["dur"]
    number = sorted(e["ts"] for e in steps).index(begin)
    ends: dict[Any, set[str]] = {}
    for e in events:
        if e.get("cat") == "fwdbwd" and begin <= e["ts"] < end:
            ends.setdefault(e["id"], set()).add(e["ph"])

    def belongs(event: dict[str, Any]) -> bool:
        if event["ph"] == "M":
            return True
        if event.get("cat") in LEFT_OUT or not begin <= event["ts"] < end:
            return False
        return event.get("cat") != "fwdbwd" or ends[event["id"]] == {"s", "f"}

    out = trace | {"traceEvents": [e for e in events if belongs(e)]}
    if figures := out.get("foretrace"):
        out["foretrace"] = figures | {"traced_steps": 1, "traced_host_ms": figures["traced_host_ms"][number : number + 1]}
    return out


def write(path: Path, data: bytes) -> None:
    path.write_bytes(gzip.compress(data, 9, mtime=0))


def keep(folders: list[Path], to: Path) -> None:
    (to / "scripts").mkdir(parents=True, exist_ok=True)
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for folder in folders:
        for path in sorted(folder.glob("*.json.gz")):
            text = gzip.decompress(path.read_bytes())
            if not path.name.endswith(".et.json.gz"):
                text = json.dumps(one_step(json.loads(text)), separators=(",", ":"), ensure_ascii=False).encode()
            write(to / path.name, text)
        for path in sorted((folder / "scripts").glob("*")):
            if path.suffix == ".pb":
                write(to / "scripts" / f"{path.name}.gz", path.read_bytes())
            else:
                shutil.copyfile(path, to / "scripts" / path.name)
        if (folder / "overhead.jsonl").exists():
            for line in (folder / "overhead.jsonl").read_text().splitlines():
                row = json.loads(line)
                rows[row["model"], row["what"]] = row
    (to / "overhead.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows.values()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--to", type=Path, required=True)
    options = parser.parse_args()
    keep(options.folders, options.to)
    return 0


if __name__ == "__main__":
    sys.exit(main())
