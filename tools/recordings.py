"""Recordings of one unchanged program: ten each of five programs, made one after the other, and bases that were recorded again on another day."""

import json
from functools import cache
from pathlib import Path

from truth import GPU_BOUND, ROOT, Folder, Row, default_folders, json_lines

RECORDINGS = ROOT / "data" / "h200-clean" / "recordings"


def repeated() -> dict[str, list[Path]]:
    """Recordings made one after the other, by program."""
    out: dict[str, list[Path]] = {}
    for path in sorted(RECORDINGS.glob("*.json.gz")):
        out.setdefault(path.name.split(".base")[0], []).append(path)
    return out


def _program(row: Row) -> tuple:
    switches = {k: v for k, v in row.data.get("switches", {}).items() if k != "optimizer"}
    return row.model, row.data.get("bs"), row.data.get("params"), json.dumps(switches, sort_keys=True)


@cache
def _days() -> dict[str, list[tuple[Path, Row]]]:
    found: dict[tuple, dict[Path, Row]] = {}
    for folder in default_folders():
        for row in Folder(folder).rows:
            if row.variant == "base" and row.trace:
                found.setdefault(_program(row), {}).setdefault(row.trace.resolve(), row)
    return {key[0]: list(rows.items()) for key, rows in sorted(found.items()) if len(rows) > 1}


def on_other_days() -> dict[str, list[Path]]:
    """The same job with the same batch and switches, recorded in several sessions, by program."""
    return {model: [path for path, _ in rows] for model, rows in _days().items()}


def clean_steps() -> dict[str, tuple[bool, list[float]]]:
    """Steps without the profiler that were measured several times, by program: (whether the GPU decides them, ms of each)."""
    out: dict[str, tuple[bool, list[float]]] = {}
    folder = RECORDINGS.parent
    rows = [r for name in ("truth.jsonl", "moments.jsonl") for r in json_lines(folder / name)
            if r.get("variant") in ("base", "again") and r.get("median_ms")]
    for row in rows:
        busy = row.get("gpu_busy_ms", row.get("gpu_ms"))
        if busy:
            out.setdefault(row["model"], (busy >= GPU_BOUND * row["median_ms"], []))
        if row["model"] in out:
            out[row["model"]][1].append(row["median_ms"])
    for row in json_lines(RECORDINGS / "recordings.jsonl"):
        out.setdefault(row["model"], (row["gpu_busy_ms"] >= GPU_BOUND * row["figures"]["measured_ms"], []))[1].append(row["figures"]["measured_ms"])
    return {model: values for model, values in out.items() if len(values[1]) > 1}


def gpu_bound() -> dict[str, bool]:
    """Whether the GPU decides the step without the profiler, by program."""
    out = {model: bound for model, (bound, _) in clean_steps().items()}
    for model, rows in _days().items():
        row = rows[0][1]
        out.setdefault(model, row.cpu_bound is False)
    return out
