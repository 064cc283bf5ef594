"""Puts what runs of tools.measure brought back into a truth folder, as small as it can be read.

    python -m tools.measure.keep OUT… --to data/h200-clean [--bases data/FOLDER…]

Rows stay in the order in which they were measured; failed ones are counted and left out. A trace is cut to the first step it
holds: the last one also holds the wait for the GPU before the trace is written. Its arrows from launches to kernels are left
out, since `correlation` says the same. Recordings go to a folder of their own, kernels by name to kernels.jsonl. `--bases` are truth folders
whose recorded bases the rows belong to, the first that has the model at its batch: a base that was not measured again is taken from there, and one
that was gets the trace from there.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import sys
import tarfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

GPU_KINDS = ("kernel", "gpu_memcpy", "gpu_memset", "cuda_sync")


def first_step(trace: dict[str, Any]) -> dict[str, Any]:
    """The trace with nothing but its first step: what began on the host in its range, and what that started on the GPU."""
    events = trace["traceEvents"]
    steps = [e for e in events if e.get("cat") == "user_annotation" and e["name"].startswith("ProfilerStep#")]
    step = min(steps, key=lambda e: e["ts"])
    begin, end = step["ts"], step["ts"] + step["dur"]

    def inside(event: dict[str, Any]) -> bool:
        return begin <= event["ts"] < end

    host = [e for e in events if e["ph"] == "X" and e.get("cat") not in (*GPU_KINDS, "gpu_user_annotation", "Trace") and inside(e)]
    launched = {e["args"]["correlation"] for e in host if "correlation" in e.get("args", {})}
    ranges = {e["args"]["External id"] for e in host if e["cat"] == "user_annotation"}
    ends: dict[int, set[str]] = {}
    for e in events:
        if e.get("cat") == "fwdbwd" and inside(e):
            ends.setdefault(e["id"], set()).add(e["ph"])

    def belongs(event: dict[str, Any]) -> bool:
        kind = event.get("cat")
        if event["ph"] == "M":
            return True
        if kind in GPU_KINDS:
            return event["args"]["correlation"] in launched
        if kind == "gpu_user_annotation":
            return event["args"]["External id"] in ranges
        if kind == "fwdbwd":
            return inside(event) and ends[event["id"]] == {"s", "f"}
        return kind not in (None, "Trace", "ac2g") and inside(event)

    out = trace | {"traceEvents": [e for e in events if belongs(e)]}
    if figures := out.get("foretrace"):
        out["foretrace"] = figures | {"traced_steps": 1, "traced_host_ms": figures["traced_host_ms"][:1]}
    return out


def keep_trace(data: bytes, path: Path) -> None:
    trace = first_step(json.loads(gzip.decompress(data))) | {"traceName": path.name.removesuffix(".gz")}
    text = json.dumps(trace, separators=(",", ":"), ensure_ascii=False).encode()
    path.write_bytes(gzip.compress(text, 9, mtime=0))


def rows_of(folder: Path, name: str) -> list[dict[str, Any]]:
    path = folder / name
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps({k: v for k, v in r.items() if k != "gz_bytes"}) + "\n" for r in rows))


def with_bases(rows: list[dict[str, Any]], folders: list[Path], to: Path) -> list[dict[str, Any]]:
    """The rows, each model's base among them with the trace of another folder."""
    out = list(rows)
    for model in dict.fromkeys(r["model"] for r in rows):
        mine = [r for r in rows if r["model"] == model]
        if any("trace" in r for r in mine if r["variant"] == "base"):
            continue
        batch = round(mine[0]["bs"] / mine[0]["switches"].get("bsx", 1))
        found = next(((folder, r) for folder in folders for r in rows_of(folder, "truth.jsonl")
                      if r.get("model") == model and r.get("variant") == "base" and r.get("bs") == batch and r.get("trace")
                      and (folder / r["trace"]).exists()), None)
        if found is None:
            print(f"no recorded base: {model} at {batch}")
            continue
        folder, there = found
        trace = {"trace": os.path.relpath(folder / there["trace"], to)}
        base = next((r for r in mine if r["variant"] == "base"), None)
        if base is not None:
            base |= trace
        else:
            out.insert(out.index(mine[0]), there | trace)
    return out


def keep(measured: list[Path], to: Path, bases: list[Path]) -> str:
    """What was kept, in words."""
    rows = [r for folder in measured for r in rows_of(folder, "truth.jsonl")]
    recordings = [r for folder in measured for r in rows_of(folder, "recordings.jsonl")]
    failed = [r for r in rows + recordings if "error" in r]
    rows, recordings = ([r for r in some if "error" not in r] for some in (rows, recordings))
    places = {r["trace"]: to for r in rows if "trace" in r} | {r["trace"]: to / "recordings" for r in recordings}
    (to / "recordings" if recordings else to).mkdir(parents=True, exist_ok=True)
    traces: list[tuple[bytes, Path]] = []
    for tar_path in (p for folder in measured for p in sorted(folder.glob("*.tar"))):
        with tarfile.open(tar_path) as tar:
            for member in tar:
                content = tar.extractfile(member)
                if content is None:  # a folder
                    continue
                data = content.read()
                if member.name in places:
                    traces.append((data, places[member.name] / member.name))
    with ProcessPoolExecutor() as pool:
        list(pool.map(keep_trace, [data for data, _ in traces], [path for _, path in traces]))
    kernels = [{"model": r["model"], "variant": r["variant"], "kernels": r.pop("kernels")} for r in rows if "kernels" in r]
    write_rows(to / "truth.jsonl", with_bases(rows, bases, to) if bases else rows)
    if kernels:
        write_rows(to / "kernels.jsonl", kernels)
    if recordings:
        write_rows(to / "recordings" / "recordings.jsonl", recordings)
    missing = [name for name, place in places.items() if not (place / name).exists()]
    for row in failed:
        print(f"failed: {row['model']}.{row['variant']}: {row['error'][:100]}")
    for name in missing:
        print(f"no trace: {name}")
    return f"{len(rows)} rows, {len(places) - len(missing)} traces, {len(recordings)} of them recordings; {len(failed)} failed"


def main() -> int:
    parser = argparse.ArgumentParser(prog="tools.measure.keep", description=__doc__.split("\n")[0])
    parser.add_argument("measured", type=Path, nargs="+", metavar="OUT")
    parser.add_argument("--to", type=Path, required=True)
    parser.add_argument("--bases", type=Path, nargs="*", default=[])
    args = parser.parse_args()
    print(keep(args.measured, args.to, args.bases))
    return 0


if __name__ == "__main__":
    sys.exit(main())
