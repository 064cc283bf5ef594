#!/usr/bin/env python3
"""Whether a step says the same however it was recorded: with PyTorch's profiler (`kineto`), with its execution trace beside
(`execution`), and as NVTX ranges under the injection library (`nvtx`). Prints tables; `--gate` fails when a promise is broken.

    tools/record_accuracy.py [FOLDER]            data/h200-records, as tools/measure/records leaves it
    tools/record_accuracy.py --gate

A step that the GPU bounds must replay within 1 % of itself in each way and of the other ways that leave it bound by the GPU, and be
predicted within 3 % of all of them.
Of one that the CPU bounds, which every profiler lengthens by an amount of its own, each recording must replay within 1 % of itself,
and its step without the profiler must lie in the bands of the others. What watching may cost: the injection 10 % of a step that the
CPU bounds, the clean measurement 1 %. Recordings of unmodified scripts must be good for predictions.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = os.environ.get("FORETRACE", str(ROOT / "build" / "foretrace"))
WAYS = ("kineto", "execution", "nvtx")
WHATIFS = {"duration": "duration:select=*elementwise*,x=0.5", "cuda-graph": "cuda-graph", "gpu": "gpu:to=A100-SXM4-80GB",
           "ddp": "ddp:workers=8,fabric=DGX-H100"}
REPLAY_PCT, PREDICTED_PCT, INJECTION_PCT, MEASURING_PCT = 1.0, 3.0, 10.0, 1.0
# Of the step without a profiler, and with one, that some kernel runs: then the GPU bounds it. A profiler that costs the CPU much may
# make it bound a step that the GPU bounds without: then the recorded steps differ, and only predictions can agree.
GPU_BOUND_SHARE, TRACED_SHARE = 0.9, 0.95


def ask(*arguments: str) -> dict:
    done = subprocess.run([PROGRAM, *arguments, "--json"], check=False, capture_output=True, text=True)
    try:
        found = json.loads(done.stdout)
    except ValueError:
        found = {"error": {"message": done.stderr.strip() or f"exit {done.returncode}"}}
    return found


class Recording:
    """One file: its median step replayed and predicted."""

    def __init__(self, path: Path) -> None:
        self.path = path
        steps = ask("replay", str(path)).get("steps", [])
        self.replay_pct = max((s["error_pct"] for s in steps), key=abs, default=float("nan"))
        self.predicted: dict[str, float] = {}
        self.errors: list[str] = []
        for name, whatif in WHATIFS.items():
            said = ask("whatif", str(path), whatif)
            answer = said if "error" in said else said["predictions"][0]
            if "ms" not in answer:
                self.errors.append(f"{path.name}: {name}: {json.dumps(answer)[:200]}")
                continue
            self.baseline = said["baseline"]
            self.predicted[name] = answer["ms"]

    @property
    def band(self) -> tuple[float, float, float]:
        b = self.baseline
        return b["unprofiled_low_ms"], b["unprofiled_ms"], b["unprofiled_high_ms"]


def apart(values: list[float]) -> float:
    """Percent between the smallest and the largest."""
    return (max(values) / min(values) - 1) * 100


def gpu_bound(recording: Recording) -> bool:
    summary = ask("summary", str(recording.path))
    return summary["gpu_busy_ms"] >= GPU_BOUND_SHARE * (summary["measured_ms"] or summary["traced_ms"])


def gpu_bound_as_traced(recording: Recording) -> bool:
    summary = ask("summary", str(recording.path))
    return summary["gpu_busy_ms"] >= TRACED_SHARE * summary["traced_ms"]


def ways_table(folder: Path, bad: list[str]) -> list[str]:
    lines = ["| model | as traced bound by | way | traced ms | replay % | unprofiled ms (band) | " + " | ".join(WHATIFS) + " |",
             "|---|---|---|---:|---:|---:|" + "---:|" * len(WHATIFS)]
    models = sorted({p.name.split(".")[0] for p in folder.glob("*.kineto.json.gz")})
    seen = 0  # models that the GPU bounds in every way
    for model in models:
        found = {way: Recording(folder / f"{model}.{way}.json.gz") for way in WAYS if (folder / f"{model}.{way}.json.gz").exists()}
        bad += [f"{model} was not recorded as {way}" for way in WAYS if way not in found]
        bad += [error for r in found.values() for error in r.errors]
        found = {way: r for way, r in found.items() if not r.errors}
        if len(found) < 2:
            continue
        by_gpu = gpu_bound(found["kineto"])
        held_up = [way for way, r in found.items() if by_gpu and not gpu_bound_as_traced(r)]
        seen += by_gpu and not held_up
        for way, r in found.items():
            low, middle, high = r.band
            lines.append(f"| {model} | {'CPU' if not by_gpu or way in held_up else 'GPU'} | {way} | {r.baseline['traced_ms']:.3f} | {r.replay_pct:+.2f} | "
                         f"{middle:.3f} ({low:.3f}–{high:.3f}) | " + " | ".join(f"{r.predicted[w]:.3f}" for w in WHATIFS) + " |")
            if not abs(r.replay_pct) <= REPLAY_PCT:
                bad.append(f"{model}: {way} replays {r.replay_pct:+.2f} % off its own trace")
        everyone = list(found.values())
        if by_gpu:
            off = {"replay": apart([r.baseline["replayed_ms"] for way, r in found.items() if way not in held_up])}
            off |= {w: apart([r.predicted[w] for r in everyone]) for w in WHATIFS}
            lines.append(f"| {model} | | apart, % | | {off['replay']:.2f} | | " + " | ".join(f"{off[w]:.2f}" for w in WHATIFS) + " |")
            bad += [f"{model}: {w} is {o:.2f} % apart between the ways" for w, o in off.items()
                    if o > (REPLAY_PCT if w == "replay" else PREDICTED_PCT)]
        else:
            bad += [f"{model}: unprofiled, {a} says {x.band[1]:.3f} ms, outside of the band of {b} ({y.band[0]:.3f}–{y.band[2]:.3f})"
                    for a, x in found.items() for b, y in found.items() if not y.band[0] <= x.band[1] <= y.band[2]]
    if not seen:
        bad.append("no model that the GPU bounds in every way")
    return lines


def scripts_table(folder: Path, bad: list[str]) -> list[str]:
    lines = ["| script | doctor | steps | step without the profiler, ms |", "|---|---|---:|---:|"]
    for path in sorted([*folder.glob("scripts/*.json.gz"), *folder.glob("scripts/*.xplane.pb*")]):
        said = ask("doctor", str(path))
        files = said.get("traces", [said])
        verdict = files[0].get("verdict", said.get("error", {}).get("message", "?"))
        measured = ask("whatif", str(path), "duration:select=*elementwise*,x=1").get("baseline", {}).get("measured_ms")
        lines.append(f"| {path.name.split('.')[0]} | {verdict} | {len(files[0].get('steps', []))} | {measured} |")
        if not str(verdict).startswith("Good for predictions"):
            bad.append(f"{path.name}: {verdict}")
    return lines


def overhead_table(folder: Path, bad: list[str]) -> list[str]:
    lines = ["| model | who watches | step, ms | longer, % |", "|---|---|---:|---:|"]
    allowed = {"injection": INJECTION_PCT, "clean measurement": MEASURING_PCT}
    for line in (folder / "overhead.jsonl").read_text().splitlines():
        row = json.loads(line)
        times = row["ms"] if isinstance(row["ms"], list) else [row["ms"]]
        lines.append(f"| {row['model']} | {row['what']} | {sorted(times)[len(times) // 2]:.3f} | {row['longer'] * 100:+.2f} |")
        if row["longer"] * 100 > allowed.get(row["what"], float("inf")):
            bad.append(f"{row['model']}: {row['what']} makes steps {row['longer'] * 100:.1f} % longer, {allowed[row['what']]} % is allowed")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=ROOT / "data" / "h200-records")
    parser.add_argument("--gate", action="store_true")
    options = parser.parse_args()
    bad: list[str] = []
    for table in (ways_table, scripts_table, overhead_table):
        print(*table(options.folder, bad), sep="\n", end="\n\n")
    if options.gate:
        print(*bad, sep="\n", end="\n" if bad else "")
        print("FAILED" if bad else "every recording says what the others say")
    return 1 if options.gate and bad else 0


if __name__ == "__main__":
    sys.exit(main())
