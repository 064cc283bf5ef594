#!/usr/bin/env python3
"""Does a step give the same answers however it was recorded: with PyTorch's profiler (`kineto`), with its execution trace (`execution`), and as NVTX
ranges under the injection library (`nvtx`)?

    tools/record_accuracy.py [FOLDER] [--gate] [--update-limits]     data/h200-records, limits in record_limits.json

A step that the GPU bounds must replay within 1 % of itself and of the other recordings that leave it GPU-bound, and be predicted within 3 % of all. One
that the CPU bounds, which every profiler lengthens differently, must replay within 1 % of itself, and its step without the profiler must lie in
the bands of the others. The injection may cost 10 % of a CPU-bound step, the clean measurement 1 %. Recordings of unmodified scripts must be good for
predictions.
"""

import json
import os
import sys
from pathlib import Path

import gates
from truth import ROOT, json_lines

PROGRAM = os.environ.get("FORETRACE", str(ROOT / "build" / "foretrace"))
WAYS = ("kineto", "execution", "nvtx")
WHATIFS = {"duration": "duration:select=*elementwise*,x=0.5", "cuda-graph": "cuda-graph", "gpu": "gpu:to=A100-SXM4-80GB",
           "ddp": "ddp:workers=8,fabric=DGX-H100"}
LIMITS = Path(__file__).with_name("record_limits.json")
SLACK = 0.5  # of a figure, in percent
REPLAY_PCT, PREDICTED_PCT, INJECTION_PCT, MEASURING_PCT = 1.0, 3.0, 10.0, 1.0
# Of the step without a profiler, and with one, that some kernel runs: then the GPU bounds it. A profiler that costs the CPU much may
# make it bound a step that the GPU bounds without: then the recorded steps differ, and only predictions can agree.
GPU_BOUND_SHARE, TRACED_SHARE = 0.9, 0.95


class Figures:
    """What is promised to stay below a figure, and what it is."""

    def __init__(self) -> None:
        self.values: dict[str, float] = {}
        self.broken: list[str] = []

    def add(self, name: str, value: float, promised: float) -> None:
        self.values[name] = value
        if not value <= promised:
            self.broken.append(f"{name}: {value:.2f}, promised at most {promised:g}")


def ask(*arguments: str) -> dict:
    return gates.ask(PROGRAM, *arguments)


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


def ways_table(folder: Path, figures: Figures) -> list[str]:
    lines = ["| model | as traced bound by | way | traced ms | replay % | unprofiled ms (band) | " + " | ".join(WHATIFS) + " |",
             "|---|---|---|---:|---:|---:|" + "---:|" * len(WHATIFS)]
    models = sorted({p.name.split(".")[0] for p in folder.glob("*.kineto.json.gz")})
    seen = 0  # models that the GPU bounds in every way
    for model in models:
        found = {way: Recording(folder / f"{model}.{way}.json.gz") for way in WAYS if (folder / f"{model}.{way}.json.gz").exists()}
        missing = [f"not recorded as {way}" for way in WAYS if way not in found] + [e for r in found.values() for e in r.errors]
        figures.add(f"{model}: missing", len(missing), 0)
        if missing:
            lines.append(f"| {model} | {'; '.join(missing)} |")
            continue
        by_gpu = gpu_bound(found["kineto"])
        held_up = [way for way, r in found.items() if by_gpu and not gpu_bound_as_traced(r)]
        seen += by_gpu and not held_up
        for way, r in found.items():
            low, middle, high = r.band
            lines.append(f"| {model} | {'CPU' if not by_gpu or way in held_up else 'GPU'} | {way} | {r.baseline['traced_ms']:.3f} | {r.replay_pct:+.2f} | "
                         f"{middle:.3f} ({low:.3f}–{high:.3f}) | " + " | ".join(f"{r.predicted[w]:.3f}" for w in WHATIFS) + " |")
            figures.add(f"{model}: {way} replays off its own trace, %", abs(r.replay_pct), REPLAY_PCT)
        everyone = list(found.values())
        if by_gpu:
            off = {"replay": apart([r.baseline["replayed_ms"] for way, r in found.items() if way not in held_up])}
            off |= {w: apart([r.predicted[w] for r in everyone]) for w in WHATIFS}
            lines.append(f"| {model} | | apart, % | | {off['replay']:.2f} | | " + " | ".join(f"{off[w]:.2f}" for w in WHATIFS) + " |")
            for w, o in off.items():
                figures.add(f"{model}: {w} apart between the ways, %", o, REPLAY_PCT if w == "replay" else PREDICTED_PCT)
        else:
            for a, x in found.items():
                for b, y in found.items():
                    low, _, high = y.band
                    out = max(0.0, low / x.band[1] - 1, x.band[1] / high - 1) * 100
                    figures.add(f"{model}: unprofiled by {a} outside of the band of {b}, %", out, 0)
    figures.add("models that the GPU bounds in every way: missing", 0 if seen else 1, 0)
    return lines


def scripts_table(folder: Path, figures: Figures) -> list[str]:
    lines = ["| script | doctor | steps | step without the profiler, ms |", "|---|---|---:|---:|"]
    for path in sorted([*folder.glob("scripts/*.json.gz"), *folder.glob("scripts/*.xplane.pb*")]):
        said = ask("doctor", str(path))
        files = said.get("traces", [said])
        verdict = files[0].get("verdict", "?")
        measured = ask("whatif", str(path), "duration:select=*elementwise*,x=1").get("baseline", {}).get("measured_ms")
        lines.append(f"| {path.name.split('.')[0]} | {verdict} | {len(files[0].get('steps', []))} | {measured} |")
        figures.add(f"{path.name.split('.')[0]}: not good for predictions", 0 if str(verdict).startswith("Good for predictions") else 1, 0)
    return lines


def overhead_table(folder: Path, figures: Figures) -> list[str]:
    lines = ["| model | who watches | step, ms | longer, % |", "|---|---|---:|---:|"]
    allowed = {"injection": INJECTION_PCT, "clean measurement": MEASURING_PCT}
    for row in json_lines(folder / "overhead.jsonl"):
        times = row["ms"] if isinstance(row["ms"], list) else [row["ms"]]
        lines.append(f"| {row['model']} | {row['what']} | {sorted(times)[len(times) // 2]:.3f} | {row['longer'] * 100:+.2f} |")
        if row["what"] in allowed:
            figures.add(f"{row['model']}: {row['what']}, % longer", row["longer"] * 100, allowed[row["what"]])
    return lines


def main() -> int:
    parser = gates.parser(__doc__, None)
    parser.add_argument("folder", type=Path, nargs="?", default=ROOT / "data" / "h200-records")
    options = parser.parse_args()
    figures = Figures()
    for table in (ways_table, scripts_table, overhead_table):
        print(*table(options.folder, figures), sep="\n", end="\n\n")
    print(f"{len(figures.values) - len(figures.broken)} of {len(figures.values)} promises kept; not kept:" if figures.broken else "every promise kept")
    print(*figures.broken, sep="\n", end="\n" if figures.broken else "")
    if options.update_limits:
        gates.save(LIMITS, gates.rounded(figures.values))
    allowed = gates.load(LIMITS)
    worse = gates.over("records", figures.values, allowed, SLACK) + gates.vanished("records", list(figures.values), list(allowed))
    return gates.verdict(worse, options.gate)


if __name__ == "__main__":
    sys.exit(main())
