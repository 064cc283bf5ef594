#!/usr/bin/env python3
"""There and back, and by way of another GPU: does a step that moves to a GPU and on lose what it was?

    tools/gpu_round_trip.py [--recorded] [--gate] [--json] [--few] [--program build/foretrace]

A moved step holds the times of its new GPU and nothing of the one it came from, as if it had been recorded there. Six traces go to twelve GPUs and back; the
first also goes from each of them to every other, beside the direct way. Compared is the time of all GPU work. What is lost on the way are residuals: what a
kernel missed its law by shows on an unlike GPU in part. --few: a quarter of it. --gate: exit 1 beyond LIMITS.

--recorded: the step does not stay in memory. What it does on the other GPU is written as the profiler's trace of that GPU (gpu_recorded.py), and the way
back starts from this file alone. Kernels keep their names and launches.
"""

import argparse
import csv
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile

import gpu_recorded

ROOT = pathlib.Path(__file__).resolve().parent.parent
TRACES = ("examples/resnet50-h200", "data/h200-more/bert_l8.amp", "data/h200-more/llama_w4.amp", "data/h200-more/convnext_tiny.amp",
          "data/h200-more/vit_b_16.base", "data/h200-more/vgg16.tf32")  # fmt: skip
GPUS = ("V100-SXM2-32GB", "T4", "RTX-2080-Ti", "A100-SXM4-80GB", "RTX-3090", "RTX-4080", "RTX-4090", "L4", "L40S", "H100-SXM5", "B200", "RTX-5090")
HERE = "H200-SXM"  # the traces' own
# (aim, what is reached with a little room), %
LIMITS = {"there and back, mean": (5.0, 5.0), "there and back, max": (12.0, 11.5), "by way of another, mean": (5.0, 1.5)}


def gpu_ms(program, trace, *ways):
    """The sum of all GPU work of a step that moves along these GPUs."""
    with tempfile.TemporaryDirectory() as scratch:
        file = pathlib.Path(scratch) / "step.csv"
        path = trace if isinstance(trace, pathlib.Path) else ROOT / f"{trace}.json.gz"
        command = [str(program), "export", str(path), *(f"gpu:to={gpu}" for gpu in ways), "--format", "csv", "-o", str(file), "-q"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{trace}: {done.stderr.strip()}")
        lines = file.read_text().splitlines()
    head = next(i for i, line in enumerate(lines) if line.startswith("task,"))
    return sum(int(row["cost_ns"]) for row in csv.DictReader(lines[head:]) if row["stream"]) / 1e6


def recorded_ms(program, trace, gpu):
    """There, as a trace that was recorded on the other GPU, and back."""
    with tempfile.TemporaryDirectory() as scratch:
        file = pathlib.Path(scratch) / "there.json"
        gpu_recorded.write(program, ROOT / f"{trace}.json.gz", gpu, file)
        return gpu_ms(program, file, HERE)


def percent(found, expected):
    return round(100 * (found / expected - 1), 2)


def mean(errors):
    return round(sum(map(abs, errors)) / len(errors), 2)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gate", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--recorded", action="store_true")
    parser.add_argument("--few", action="store_true")
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build" / "foretrace")
    args = parser.parse_args()
    traces, gpus = (TRACES[:3], GPUS[::2]) if args.few else (TRACES, GPUS)
    back = {}
    for trace in traces:
        here = gpu_ms(args.program, trace)
        back[trace] = {gpu: percent(recorded_ms(args.program, trace, gpu) if args.recorded else gpu_ms(args.program, trace, gpu, HERE), here) for gpu in gpus}
    direct = {gpu: gpu_ms(args.program, traces[0], gpu) for gpu in gpus}
    way = {f"{o} -> {t}": percent(gpu_ms(args.program, traces[0], o, t), direct[t]) for o, t in itertools.permutations(gpus, 2)}
    errors = [e for by_gpu in back.values() for e in by_gpu.values()]
    found = {"there and back, mean": mean(errors), "there and back, max": max(map(abs, errors)), "by way of another, mean": mean(way.values())}
    if args.json:
        print(json.dumps({"schema": 1, "there_and_back_pct": back, "by_way_of_another_pct": way, "figures": found}, indent=1))
    else:
        for trace, by_gpu in back.items():
            print(f"{pathlib.Path(trace).name}: " + ", ".join(f"{gpu} {e:+.1f} %" for gpu, e in by_gpu.items()))
        for origin in gpus:
            mine = [e for pair, e in way.items() if pair.startswith(f"{origin} -> ")]
            print(f"{traces[0]} by way of {origin}: {mean(mine)} % mean, {max(map(abs, mine))} at most")
        for name, value in found.items():
            print(f"{name}: {value} % (aim {LIMITS[name][0]:g})")
    sys.exit(1 if args.gate and any(found[name] > limit for name, (_, limit) in LIMITS.items()) else 0)


if __name__ == "__main__":
    main()
