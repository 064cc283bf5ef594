"""Does `compare --gate 3` decide rightly? Recordings of one program against each other, as they are and slowed by a known amount.

    unchanged   pairs of recordings of one program
    stretched   the whole timeline of the second (`ts` and `dur`) longer by 5 to 80 %; in half of the pairs also the recorder's own figures,
                since a program that is slower is slower without the profiler too
    family      one family of kernels with at least 20 % of GPU time longer by 80 %
    itself      a file against itself

Programs whose step the GPU decides are judged with one recording per side, the others with one and with five.
"""

import gzip
import itertools
import json
import random
import tempfile
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import gates
import recordings

GATE_PCT = 3
FACTORS = (1.05, 1.1, 1.2, 1.25, 1.5, 1.8)
FAMILY_FACTOR, FAMILY_SHARE = 1.8, 0.2
APART = (2, 5)  # recordings of a pair, in the order they were made
SPLITS = 10
FIVE = 5
OUTCOMES = ("passed", "failed", "inconclusive")
SLACK_PCT = 2.0  # of the cases of a kind: one of a few that another model of the step turns
LIMITS = Path(__file__).resolve().parent / "compare_limits.json"

# What a gate has to reach, in percent of the cases of each kind: (figure, at most) or (figure, at least).
AT_MOST = {
    "GPU-bound": {"unchanged failed": 3, "unchanged inconclusive": 15, **{f"+{pct} % passed": 0 for pct in (10, 20, 25, 50, 80)}, "family passed": 0},
    "CPU-bound": {"unchanged failed": 3, **{f"+{pct} % passed": 0 for pct in (25, 50, 80)}},
    "CPU-bound, five per side": {"unchanged inconclusive": 30, "+50 % passed": 0},
}
AT_LEAST = {
    "GPU-bound": {"+50 % failed": 100, "+80 % failed": 100, "itself passed": 100},
    "CPU-bound": {"itself passed": 100},
    "CPU-bound, five per side": {"+50 % failed": 90},
}


def percent(factor: float) -> str:
    return f"+{round(100 * (factor - 1))} %"


class Slowed:
    """Copies of recordings that take longer, made once."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.made: dict[tuple, Path] = {}

    def _write(self, key: tuple, path: Path, change: Callable[[dict], None]) -> Path:
        if key not in self.made:
            trace = json.loads(gzip.decompress(path.read_bytes()))
            change(trace)
            out = self.folder / f"{len(self.made)}.{path.name}"
            out.write_bytes(gzip.compress(json.dumps(trace).encode(), 1))
            self.made[key] = out
        return self.made[key]

    def stretched(self, path: Path, factor: float, figures: bool) -> Path:
        def change(trace: dict) -> None:
            for event in trace["traceEvents"]:
                for name in ("ts", "dur"):
                    if name in event:
                        event[name] = float(event[name]) * factor
            recorded = trace.get("foretrace")
            if figures and isinstance(recorded, dict):
                for name, value in recorded.items():
                    if name.endswith("_ms") and isinstance(value, (int, float)):
                        recorded[name] = value * factor
                    elif name.endswith("_ms") and isinstance(value, list):
                        recorded[name] = [factor * v for v in value]

        return self._write((path, factor, figures), path, change)

    def family(self, path: Path, family: str, kernels: set[str]) -> Path:
        def change(trace: dict) -> None:
            for event in trace["traceEvents"]:
                if event.get("cat") == "kernel" and event["name"] in kernels:
                    event["dur"] = float(event["dur"]) * FAMILY_FACTOR

        return self._write((path, family), path, change)


def ordered_pairs(files: list[Path], fast: bool) -> list[tuple[Path, Path]]:
    count = len(files)
    apart = APART[1:] if fast else APART
    found = {(i, (i + k) % count) for i in range(count) for k in apart if (i + k) % count != i}
    chosen = [(files[a], files[b]) for a, b in sorted(found)]
    return chosen[:: max(1, len(chosen) // 3)] if fast else chosen


def large_families(program: Path, path: Path) -> dict[str, set[str]]:
    answer = gates.ask(program, "compare", str(path), str(path))
    kinds = {k["name"]: set(k["families"]) for k in answer["tables"]["kernels"]}
    times = {f["name"]: f["before_ms"] for f in answer["tables"]["families"]}
    return {f: {k for k, of in kinds.items() if f in of} for f, ms in times.items() if ms >= FAMILY_SHARE * sum(times.values())}


def outcome(program: Path, before: list[Path], after: list[Path]) -> str:
    more = [a for f in before[1:] for a in ("--before", str(f))] + [a for f in after[1:] for a in ("--after", str(f))]
    answer = gates.ask(program, "compare", str(before[0]), str(after[0]), "--gate", str(GATE_PCT), *more)
    return answer.get("outcome") or f"error: {answer.get('error')}"


Case = tuple[str, str, list[Path], list[Path]]  # kind of program, what was done, the two sides


def cases(program: Path, slowed: Slowed, fast: bool) -> list[Case]:
    bound = recordings.gpu_bound()
    groups: dict[str, list[Path]] = {**recordings.repeated()}
    for model, files in recordings.on_other_days().items():
        groups.setdefault(f"{model}, other days", files)
    factors = (1.1, 1.25, 1.5) if fast else FACTORS
    out: list[Case] = []
    for name, files in groups.items():
        kind = "GPU-bound" if bound[name.split(",")[0]] else "CPU-bound"
        families = large_families(program, files[0])
        out.append((kind, "itself", files[:1], files[:1]))
        for number, (before, after) in enumerate(ordered_pairs(files, fast)):
            out.append((kind, "unchanged", [before], [after]))
            out += [(kind, percent(f), [before], [slowed.stretched(after, f, number % 2 == 0)]) for f in factors]
            out += [(kind, "family", [before], [slowed.family(after, family, kernels)]) for family, kernels in families.items()]
        if kind == "CPU-bound" and len(files) >= 2 * FIVE:
            out += five_per_side(name, files, slowed, 2 if fast else SPLITS)
    return out


def five_per_side(name: str, files: list[Path], slowed: Slowed, splits: int) -> list[Case]:
    """Random halves: a host that drifts would make the first and the last five differ for good."""
    chance = random.Random(name)
    out: list[Case] = []
    for number in range(splits):
        order = chance.sample(files, len(files))
        before, after = order[:FIVE], order[FIVE:2 * FIVE]
        kind = "CPU-bound, five per side"
        out.append((kind, "unchanged", before, after))
        out.append((kind, "+50 %", before, [slowed.stretched(f, 1.5, number % 2 == 0) for f in after]))
    return out


def study(program: Path, fast: bool, show: bool = False) -> dict[str, dict[str, float]]:
    """Percent of the cases of each kind with each outcome."""
    counts: dict[str, dict[str, Counter]] = {}
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        todo = cases(program, Slowed(Path(folder)), fast)
        for (kind, what, before, after), found in zip(todo, pool.map(lambda c: outcome(program, c[2], c[3]), todo)):
            counts.setdefault(kind, {}).setdefault(what, Counter())[found] += 1
            if show and f"{what} {found}" in AT_MOST.get(kind, {}):
                print(f"  {kind}: {before[0].name} {after[0].name} {what}: {found}")
    figures: dict[str, dict[str, float]] = {}
    for kind, by in sorted(counts.items()):
        for what, tally in by.items():
            whole = sum(tally.values())
            print(f"gate, {kind}, {what}: " + ", ".join(f"{o} {tally[o]}" for o in OUTCOMES if tally[o]) + f" of {whole}")
            for result in OUTCOMES:
                figures.setdefault(kind, {})[f"{what} {result}"] = 100 * tally[result] / whole
            if errors := whole - sum(tally[o] for o in OUTCOMES):
                figures[kind][f"{what} not answered"] = 100 * errors / whole
    return figures


def judge(figures: dict[str, dict[str, float]], fast: bool, update: bool) -> list[str]:
    """What falls short of its goal, or of what was reached before."""
    bad = []
    for kind, now in figures.items():
        bad += [f"gate, {kind}: {f} {now[f]:.1f} %, at most {g}" for f, g in AT_MOST[kind].items() if f in now and now[f] > g]
        bad += [f"gate, {kind}: {f} {now[f]:.1f} %, at least {g}" for f, g in AT_LEAST[kind].items() if f in now and now[f] < g]
        bad += [f"gate, {kind}: {f}" for f in now if f.endswith("not answered")]
    held = gates.load(LIMITS)
    part = "fast" if fast else "all"
    reached = {kind: {f: v for f, v in now.items() if f in AT_MOST[kind] or f in AT_LEAST[kind]} for kind, now in figures.items()}
    if update:
        held[part] = gates.rounded(reached)
        gates.save(LIMITS, held)
    for kind, now in reached.items():
        bad += gates.over(f"gate, {kind}", now, held.get(part, {}).get(kind, {}), SLACK_PCT, dict.fromkeys(AT_LEAST[kind], SLACK_PCT))
    bad += gates.vanished("gate", itertools.chain(*reached.values()), itertools.chain(*held.get(part, {}).values()))
    return bad
