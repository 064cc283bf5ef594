#!/usr/bin/env python3
"""Steps of JAX on an H200, predicted from the profile of one and measured as another (data/h200-jax).

    tools/jax_accuracy.py [--gate]                every pair of rows that differ in batch or precision, every row without waiting, every profile replayed
    tools/jax_accuracy.py --update-docs           every measured row once for each what-if, into docs/internals/appendix-accuracy.md
    tools/jax_accuracy.py FOLDER --blind MODEL…   only what is predicted for these models: no measured row is read but the one a prediction starts from

A pair is predicted from the profile of the first with its measured time, and judged by the median step and the GPU time of the second; `no-sync` by the same
program's steps that nothing waits for. Promised: from a base (BASES) a step within 10 % at twice and half the batch and in another precision, a replay
within 1 % of the profile, at most 15 % of the middle step frozen (in one of three the host may be interrupted).
"""

from __future__ import annotations

import math
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median

import fitted
import gates
import track_record
from accuracy_tables import aligned, write_between
from gates import ask
from job_rows import Step
from truth import ROOT, json_lines

LIMITS = Path(__file__).with_name("jax_limits.json")
SLACK = 0.3  # percentage points
# Rows from which the promise is kept, for every model; from others it is not always (docs/reference/jax.md says why), and limits hold what is reached.
BASES = ("transformer.fp32.b8", "transformer.tf32.b8", "resnet18.fp32.b64", "decoder.tf32.b8", "mixer.tf32.b64", "unet.tf32.b32", "sound.tf32.b16")
STEP_PCT, REPLAY_PCT, FROZEN_PCT = 10, 1, 15
# What makes one precision of another; what a compiler did with command buffers is not asked.
PRECISIONS = {("fp32", "tf32"): "tf32", ("fp32", "bf16"): "amp:dtype=bf16", ("tf32", "bf16"): "amp:dtype=bf16",
              ("tf32", "fp32"): "fp32", ("bf16", "fp32"): "fp32", ("bf16", "tf32"): "fp32:products=tf32"}  # fmt: skip


HEAD = ["from", "what if", "measured", "network", "measured ms", "p10 … p90", "predicted ms", "band", "step %", "to the median %", "GPU time %", "in band"]


def name_of(row: dict) -> str:
    return row["trace"].removesuffix(".xplane.pb.gz")


@dataclass(frozen=True)
class Pair:
    """A row predicted from the profile of another one, or the same program's steps that nothing waits for."""

    base: dict
    use: str
    row: dict
    said: dict

    @property
    def name(self) -> str:
        return f"{name_of(self.base)} {self.use}"

    @property
    def step_pct(self) -> float:
        return 100 * (self.said["ms"] / self.row["median_ms"] - 1)

    @property
    def gpu_pct(self) -> float:
        return 100 * (self.said["gpu_ms"] / self.row["gpu_ms"] - 1)

    @property
    def inside(self) -> bool:
        return self.said["low_ms"] <= self.row["median_ms"] <= self.said["high_ms"]

    @property
    def target(self) -> tuple[str, str]:
        """The measurement it is judged by, and the what-if."""
        return self.use.split(":")[0], name_of(self.row)

    @property
    def order(self) -> tuple:
        """Of several ways to one measurement, the first counts: from a base of the promise, the nearest batch, the nearest precision."""
        precision = list(PRECISIONS).index((self.base["precision"], self.row["precision"])) if self.base["precision"] != self.row["precision"] else -1
        return name_of(self.base) not in BASES, abs(math.log2(self.row["bs"] / self.base["bs"])), precision, self.name

    def cells(self) -> list[str]:
        row, said = self.row, self.said
        known = self.use != "no-sync"  # of a loop without waiting only the mean step is known
        step = Step(row["p10_ms"], row["median_ms"], row["p90_ms"]) if known else Step(row["median_ms"], row["median_ms"], row["median_ms"])
        return [name_of(self.base), self.use, name_of(row), row["model"], f"{row['median_ms']:.2f}", f"{step.low_ms:.2f} … {step.high_ms:.2f}" if known else "–",
                f"{said['ms']:.2f}", f"{said['low_ms']:.2f} … {said['high_ms']:.2f}", f"{step.error_pct(said['ms']):+.1f}", f"{self.step_pct:+.1f}",
                f"{self.gpu_pct:+.1f}", "yes" if self.inside else "no"]


def each_once(pairs: Iterable[Pair]) -> list[Pair]:
    """One prediction of each measurement for each what-if. Of the rows of a what-if, none is both predicted and predicted from."""
    pairs = list(pairs)
    neighbours = Counter(name_of(p.base) for p in pairs if abs(math.log2(p.row["bs"] / p.base["bs"])) == 1)
    found: dict[tuple[str, str], Pair] = {}
    bases: set[tuple[str, str]] = set()
    for pair in sorted(pairs, key=lambda p: (p.order[0], -neighbours[name_of(p.base)], p.order)):
        base = (pair.target[0], name_of(pair.base))
        if pair.use != "no-sync" and (base in found or pair.target in bases):
            continue
        if pair.target not in found:
            found[pair.target] = pair
            bases.add(base)
    return sorted(found.values(), key=lambda p: p.target)


def changes(rows: list[dict], base: dict) -> Iterator[tuple[str, dict]]:
    if base["how"] == "recorded":  # its loop never waits, and foretrace.record's own figures say how long it took
        return
    yield "no-sync", base | {"median_ms": base["unblocked_ms"]}
    for row in rows:
        if row["model"] != base["model"] or row["how"] != base["how"]:
            continue
        if row["precision"] == base["precision"] and row["bs"] != base["bs"]:
            yield f"batch:x={row['bs'] / base['bs']:g}", row
        use = PRECISIONS.get((base["precision"], row["precision"]))
        if row["bs"] == base["bs"] and use:
            yield use, row


def predicted(program: Path, folder: Path, rows: list[dict]) -> Iterator[Pair]:
    for base in rows:
        asked = list(changes(rows, base))
        if not asked:
            continue
        answer = ask(program, "whatif", str(folder / base["trace"]), *(use for use, _ in asked), "-m", str(base["median_ms"]))
        for (use, row), said in zip(asked, answer["predictions"]):
            if use == "no-sync" and "ms" not in said:
                continue  # the profiled step did not wait: the host was behind the GPU
            if "ms" not in said:
                sys.exit(f"{name_of(base)} {use}: {said}")
            yield Pair(base, use, row, said)


def blind(program: Path, folder: Path, models: list[str]) -> None:
    """A table of predictions, to be kept before anybody compares them."""
    rows = json_lines(folder / "truth.jsonl")
    print("from,what if,step_ms,low_ms,high_ms,gpu_ms,peak_gb")
    for base in rows:
        if base["model"] not in models or not (folder / base["trace"]).exists():
            continue
        asked = ["tf32", "amp:dtype=bf16", "batch:x=0.5", "batch:x=2"]
        for use, said in zip(asked, ask(program, "whatif", str(folder / base["trace"]), *asked, "-m", str(base["median_ms"]))["predictions"], strict=True):
            if "ms" in said:
                peak = said.get("peak_bytes") or 0
                print(f"{name_of(base)},{use},{said['ms']:.3f},{said['low_ms']:.3f},{said['high_ms']:.3f},{said['gpu_ms']:.3f},{peak / 1e9:.2f}")
            else:
                print(f"{name_of(base)},{use},,,,,")


def replayed(program: Path, traces: list[Path]) -> Iterator[tuple[str, float, float]]:
    for trace in traces:
        steps = ask(program, "replay", str(trace))["steps"]
        yield trace.name.split(".xplane")[0], max(abs(s["error_pct"]) for s in steps), median(s["frozen_pct"] for s in steps)


def main() -> int:
    parser = gates.parser(__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "data" / "h200-jax")
    parser.add_argument("--blind", nargs="+", metavar="MODEL", help="print what is predicted, and compare nothing")
    parser.add_argument("--update-docs", action="store_true", help="write the rows into docs/internals/appendix-accuracy.md")
    options = parser.parse_args()
    if options.blind:
        blind(options.program, options.folder, options.blind)
        return 0
    rows = json_lines(options.folder / "truth.jsonl")
    bad: list[str] = []
    pairs = list(predicted(options.program, options.folder, rows))
    for pair in sorted(pairs, key=lambda p: -abs(p.step_pct)):
        print(f"  {pair.name:48} step {pair.step_pct:+6.1f} %   GPU {pair.gpu_pct:+6.1f} %   {'inside' if pair.inside else 'outside'} its band")
        if abs(pair.step_pct) > STEP_PCT and name_of(pair.base) in BASES:
            bad.append(f"{pair.name}: the step is off by {pair.step_pct:+.1f} %, {STEP_PCT} were promised")
    traces = [options.folder / r["trace"] for r in rows]
    if truth := os.environ.get("FORETRACE_TRUTH"):
        traces += sorted(Path(truth, "jax").glob("*.xplane.pb"))
    for name, error, frozen in replayed(options.program, traces):
        print(f"  {name:48} replay {error:5.2f} %   frozen {frozen:5.1f} %")
        if error > REPLAY_PCT or frozen > FROZEN_PCT:
            bad.append(f"{name}: replay {error:.2f} %, frozen {frozen:.1f} %")
    now = {
        "step_mean": mean(abs(p.step_pct) for p in pairs), "step_max": max(abs(p.step_pct) for p in pairs),
        "gpu_mean": mean(abs(p.gpu_pct) for p in pairs), "gpu_max": max(abs(p.gpu_pct) for p in pairs),
    }  # fmt: skip
    held = sum(p.inside for p in pairs)
    print(f"{len(pairs)} pairs: step {now['step_mean']:.1f} % on average, {now['step_max']:.1f} at most; "
          f"GPU time {now['gpu_mean']:.1f} and {now['gpu_max']:.1f}; {held} inside their bands")  # fmt: skip
    if options.update_docs:
        write_between(track_record.APPENDIX, track_record.JAX, "\n".join(aligned(HEAD, [p.cells() for p in each_once(pairs)])))
        fitted.keep(track_record.files(), check=False)
    names = sorted(p.name for p in pairs)
    allowed = gates.load(LIMITS)
    if options.update_limits:
        gates.save(LIMITS, {"figures": gates.rounded(now), "rows": names})
    elif options.gate:
        bad += gates.over("jax", now, allowed.get("figures", {}), SLACK)
        bad += gates.vanished("jax", names, allowed.get("rows", []))
        print("\n".join(bad) or "jax: within its limits")
        return 1 if bad else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
