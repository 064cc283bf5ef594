#!/usr/bin/env python3
"""There and back, and by way of another GPU: does a step that moves to a GPU and on lose what it was?

    tools/gpu_round_trip.py [--recorded] [--gate] [--json] [--few] [--program build/foretrace]

A moved step holds the times of its new GPU and nothing of the one it came from, as if it had been recorded there. Six traces go to twelve GPUs, from each of them back
and to every other, compared with the direct way; ASKED are the moves that people ask for most. Compared is the time of all GPU work. What is lost on the way are
residuals: what a kernel missed its law by shows on an unlike GPU in part. --few: three traces and six GPUs. --gate: exit 1 beyond LIMITS.

--recorded: the step does not stay in memory. What it does on the other GPU is written as the profiler's trace of that GPU (gpu_recorded.py), and the way
on starts from this file alone. Kernels keep their names and launches.
"""

import itertools
import json
import pathlib
import sys
import tempfile

import gates
import gpu_recorded

ROOT = pathlib.Path(__file__).resolve().parent.parent
TRACES = ("examples/resnet50-h200", "data/h200-more/bert_l8.amp", "data/h200-more/llama_w4.amp", "data/h200-more/convnext_tiny.amp",
          "data/h200-more/vit_b_16.base", "data/h200-more/vgg16.tf32")  # fmt: skip
GPUS = ("V100-SXM2-32GB", "T4", "RTX-2080-Ti", "A100-SXM4-80GB", "RTX-3090", "RTX-4080", "RTX-4090", "L4", "L40S", "H100-SXM5", "B200", "RTX-5090")
HERE = "H200-SXM"  # the traces' own
ASKED = tuple(itertools.product(("RTX-4090", "L4"), ("H100-SXM5", "A100-SXM4-80GB", "B200")))  # away from low bandwidth
# (aim, what is reached with a little room), %
LIMITS = {"there and back, mean": (5.0, 5.0), "there and back, max": (12.0, 11.5), "by way of another, mean": (5.0, 2.2),
          "by way of another, max": (12.0, 20.0), "RTX 4090 and L4 to H100, A100 and B200, mean": (5.0, 3.0),
          "RTX 4090 and L4 to H100, A100 and B200, max": (12.0, 7.5)}  # fmt: skip


def gpu_ms(program, trace, targets, *way):
    """{GPU: the sum of all GPU work} of a step that moves along `way` and on to each of the targets."""
    answer = gates.ask(program, "gpus", str(trace), *(f"gpu:to={gpu}" for gpu in way), "--to", ",".join(targets))
    found = {p["device"]: p["gpu_ms"] for p in answer.get("predictions", []) if "gpu_ms" in p}
    if set(found) != set(targets):
        sys.exit(f"{trace} {' '.join(way)}: {answer.get('error', 'declined: ' + ', '.join(set(targets) - set(found)))}")
    return found


def from_there(program, trace, gpu, targets, recorded):
    if not recorded:
        return gpu_ms(program, trace, targets, gpu)
    with tempfile.TemporaryDirectory() as scratch:
        file = pathlib.Path(scratch) / "there.json"
        gpu_recorded.write(program, trace, gpu, file)
        return gpu_ms(program, file, targets)


def percent(found, expected):
    return round(100 * (found / expected - 1), 2)


def mean(errors):
    return round(sum(map(abs, errors)) / len(errors), 2)


def figures_of(back, way):
    """Of {trace: {GPU: %}} and {trace: {(origin, target): %}}."""
    round_trips = [e for by_gpu in back.values() for e in by_gpu.values()]
    others = [e for by_pair in way.values() for e in by_pair.values()]
    found = {"there and back, mean": mean(round_trips), "there and back, max": max(map(abs, round_trips)), "by way of another, mean": mean(others), "by way of another, max": max(map(abs, others))}
    if asked := [e for by_pair in way.values() for pair, e in by_pair.items() if pair in ASKED]:
        found |= {"RTX 4090 and L4 to H100, A100 and B200, mean": mean(asked), "RTX 4090 and L4 to H100, A100 and B200, max": max(map(abs, asked))}
    return found


def main():
    parser = gates.parser(__doc__, limits=False)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--recorded", action="store_true")
    parser.add_argument("--few", action="store_true")
    args = parser.parse_args()
    traces, gpus = (TRACES[:3], GPUS[1::2]) if args.few else (TRACES, GPUS)
    back: dict = {}
    way: dict = {}
    for name in traces:
        trace = ROOT / f"{name}.json.gz"
        direct = gpu_ms(args.program, trace, (*gpus, HERE))
        for origin in gpus:
            others = tuple(gpu for gpu in gpus if gpu != origin)
            found = from_there(args.program, trace, origin, (*others, HERE), args.recorded)
            back.setdefault(name, {})[origin] = percent(found[HERE], direct[HERE])
            way.setdefault(name, {}).update({(origin, gpu): percent(found[gpu], direct[gpu]) for gpu in others})
    found = figures_of(back, way)
    if args.json:
        pairs = {name: {" -> ".join(pair): e for pair, e in by_pair.items()} for name, by_pair in way.items()}
        print(json.dumps({"schema": 1, "there_and_back_pct": back, "by_way_of_another_pct": pairs, "figures": found}, indent=1))
    else:
        for name, by_gpu in back.items():
            print(f"{pathlib.Path(name).name}: " + ", ".join(f"{gpu} {e:+.1f} %" for gpu, e in by_gpu.items()))
            for origin in gpus:
                mine = [e for (o, _), e in way[name].items() if o == origin]
                print(f"  by way of {origin}: {mean(mine)} % mean, {max(map(abs, mine))} at most")
            for pair in ASKED:
                if pair in way[name]:
                    print(f"  {' -> '.join(pair)}: {way[name][pair]:+.1f} %")
        for name, value in found.items():
            print(f"{name}: {value} % (aim {LIMITS[name][0]:g})")
    return gates.verdict([f"{name} is {found[name]}, at most {limit}" for name, (_, limit) in LIMITS.items() if found.get(name, 0) > limit], args.gate)


if __name__ == "__main__":
    sys.exit(main())
