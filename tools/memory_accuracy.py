#!/usr/bin/env python3
"""Reserved memory: the model of PyTorch's allocator against what traces recorded.

    tools/memory_accuracy.py [--gate]      every trace with memory events, and every change whose own trace is there

*replayed*: the blocks of one step, put through the allocator's rules, against `Total Reserved` of the same trace. *changed*: what `whatif` says is reserved
after a change, from the trace of the base, against the trace of the step that ran with it. Runs that shared a process with steps of other kinds
(FORETRACE_TRUTH/h200) kept segments of theirs, which no trace shows.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import mean

import gates
from gates import ask
from truth import Folder, Row, default_folders

LIMITS = Path(__file__).with_name("memory_limits.json")
SLACK = 0.3  # percentage points


def peak_of(program: Path, trace: Path) -> dict | None:
    peaks = ask(program, "summary", str(trace)).get("memory", [])
    return peaks[0] if len(peaks) == 1 and peaks[0].get("reserved_bytes") and peaks[0].get("replayed_reserved_bytes") else None


def percent(said: float, recorded: float) -> float:
    return 100 * (said / recorded - 1)


def replayed(program: Path, folder: Folder) -> Iterator[tuple[str, float, float]]:
    """Each trace: the error of the replay, and that of taking the peak for it."""
    # A captured step is in a pool of its graph's own, which no event of the step shows.
    # A base that another folder recorded is replayed there.
    traces = {r.trace for r in folder.rows if r.trace and r.trace.resolve().parent == folder.path.resolve() and "graph" not in r.variant}
    for trace in sorted(traces):
        if peak := peak_of(program, trace):
            recorded = peak["reserved_bytes"]
            name = f"{folder.name} {trace.name.removesuffix('.json.gz')}"
            yield name, percent(peak["replayed_reserved_bytes"], recorded), percent(peak["peak_bytes"], recorded)


def changed(program: Path, folder: Folder) -> Iterator[tuple[str, float, float]]:
    for base, rows in folder.cases():
        for row in rows:
            if (answer := after_change(program, base, row)) is not None:
                yield f"{folder.name} {row.model} {row.variant}", *answer


def after_change(program: Path, base: Row, row: Row) -> tuple[float, float] | None:
    uses = row.uses
    if not uses or row.trace is None or "graph" in row.variant or base.trace is None:
        return None
    peak = peak_of(program, row.trace)
    if peak is None:
        return None
    said = ask(program, "whatif", str(base.trace), *uses, "--stack").get("predictions", [])
    if not said or not said[0].get("reserved_bytes"):
        return None
    return percent(said[0]["reserved_bytes"], peak["reserved_bytes"]), percent(said[0]["peak_bytes"], peak["peak_bytes"])


def figures(rows: list[tuple[str, float, float]]) -> dict[str, float]:
    errors = [abs(e) for _, e, _ in rows]
    return {"reserved_mean": mean(errors), "reserved_max": max(errors)}


def main() -> int:
    parser = gates.parser(__doc__)
    parser.add_argument("folders", nargs="*", type=Path)
    options = parser.parse_args()
    allowed = gates.load(LIMITS)
    bad: list[str] = []
    for path in options.folders or default_folders():
        folder = Folder(path)
        for kind, rows in (("replayed", list(replayed(options.program, folder))), ("changed", list(changed(options.program, folder)))):
            if not rows:
                continue
            where = f"{folder.name} {kind}"
            for name, error, peak_error in sorted(rows, key=lambda r: -abs(r[1])):
                print(f"  {kind:8}  {name:52}  reserved {error:+6.1f} %   {'peak alone' if kind == 'replayed' else 'peak'} {peak_error:+6.1f} %")
            now = figures(rows)
            print(f"{where}: {len(rows)} rows, {now['reserved_mean']:.1f} % on average, {now['reserved_max']:.1f} % at most")
            entry = allowed.get(where, {})
            bad += gates.over(where, now, entry.get("figures", {}), SLACK)
            bad += gates.vanished(where, [r[0] for r in rows], entry.get("rows", []))
            if options.update_limits:
                allowed[where] = {"figures": gates.rounded(now), "rows": sorted(r[0] for r in rows)}
    if options.update_limits:
        gates.save(LIMITS, allowed)
    elif options.gate:
        print("\n".join(bad) or "memory: within its limits")
        return 1 if bad else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
