#!/usr/bin/env python3
"""Training steps that others published, predicted from steps recorded on an H200 in FP32.

    tools/published_steps.py [--rows] [--json] [--gate] [--write-spreads] [--update-docs] [--program build/foretrace]

Two tables of rows: `data/published/steps.csv` (sources: `sources.csv` next to it) and `training-throughput.csv.gz` in $FORETRACE_PUBLIC.
Batch, precision, layout and sequence length of a row are stacked on a trace (TRACES; of the second table: gpu_throughput.py). TF32 stands for what "FP32"
means in NVIDIA's containers from Ampere on.

How each source was matched with a trace: `matched` in sources.csv, which the appendix shows.

A step is compared where the recorded network is the published one (`same`). Where the prediction waits for the CPU of the trace's host, which the source did not
have, the GPU's own time is compared instead. A ratio compares two GPUs in one source, model and precision, so that what the
code of the source does in addition cancels: `like` networks count there too. Rows of the RTX 3090, V100 and A100 in the second table were known when rules were
chosen, and those of data/published were looked at while the model of the power limit was made: nothing was fitted to either but the width of bands.

--write-spreads: src/hardware/spreads/steps.csv. Four in five steps are within 1.28 times the spread, for each thing that was learnt of the target (learnt.hpp):
`device`, a board of an architecture whose products are in our tables; `architecture`, of another; `geforce`, cards for games in half precision; `vendor`, a GPU of
another maker (one network on one GPU: learnt.cpp takes it for no less than work that nobody measured on two GPUs).
"""

import collections
import itertools
import json
import math
import os
import pathlib
import statistics
import sys

import gates
import gpu_throughput
import tomllib
import track_record
from accuracy_tables import aligned, write_between
from devices import DEVICES, HARDWARE
from truth import ROOT, csv_rows

FOLDER = ROOT / "data" / "published"
# Name in the table: trace, its batch, how near it is, changes on top.
TRACES = {
    "resnet50": ("h200-clean/resnet50", 64, "same", ()), "ssd": ("h200-throughput/ssd300", 32, "same", ()),
    # A language model's output layer instead of the question answering head; 8 of BERT-large's 24 layers.
    "bert_base_squad": ("h200-clean/bert_base", 32, "like", ("sequence:x=3",)),
    "bert_large_squad": ("h200-heldout/bert_large8", 16, "like", ("sequence:x=0.75",)),
    # Sentences of other lengths.
    "gnmt": ("$FORETRACE_TRUTH/h200/gnmt", 64, "like", ()),
}  # fmt: skip
NO_RATIO = {"lambda-2025", "csc-2023-rocm"}
CONSUMER = ("RTX-20", "RTX-30", "RTX-40", "RTX-50", "GTX-", "Titan")
CLASSES = {"FP32": "FP32 and TF32", "TF32": "FP32 and TF32", "AMP-FP16": "half"}
AIMS = {"FP32 and TF32": 10.0, "half": 14.0, "ratios": 7.0}
LIMITS = ROOT / "tools" / "published_limits.json"


def own_rows():
    """Of data/published."""
    for r in csv_rows(FOLDER / "steps.csv"):
        if r["source"] == "lambda-2020-turing" and r["model"] == "ssd" and r["precision"] == "FP32":
            continue  # sources.csv says why
        trace, own, near, changes = TRACES[r["model"]]
        batch = int(r["batch"])
        yield {"source": r["source"], "device": r["device"], "model": r["model"], "precision": r["precision"], "batch": batch, "near": near, "trace": trace,
               "uses": (*changes, *gpu_throughput.stacked(r["source"], r["model"], r["precision"], batch, own)), "measured_ms": 1e3 * batch / float(r["throughput"])}  # fmt: skip


def public_rows():
    """Of training-throughput.csv.gz; nothing where the folder is not there."""
    path = pathlib.Path(os.environ.get("FORETRACE_PUBLIC", "")) / "training-throughput.csv.gz"
    if not os.environ.get("FORETRACE_PUBLIC") or not path.exists():
        print("left out: training-throughput.csv.gz, since FORETRACE_PUBLIC is not set", file=sys.stderr)
        return
    for r in csv_rows(path):
        if r["precision"] not in gpu_throughput.PRECISIONS or r["gpu"] not in gpu_throughput.DEVICES or r["doubtful"] == "mild":
            continue
        found: tuple | None = gpu_throughput.PAIRS.get((r["model"], r["input_size"]))
        if r["gpu"] == "RTX 3090":
            image = gpu_throughput.IMAGES.get(r["model"])
            found = (*image, "same", ()) if image else None
        if not found:
            continue
        trace, own, near, changes = found
        batch = int(float(r["batch_per_gpu"]))
        layout = gpu_throughput.layout_of(r["model"], r["memory_format"])
        source = r["source_repo"].split("/")[0]
        yield {"source": source, "device": gpu_throughput.DEVICES[r["gpu"]], "model": f"{r['model']} {r['input_size']} {layout}",
               "precision": r["precision"], "batch": batch, "near": "same" if near == "same" and r["model"] != "gnmt_v2" else "like", "trace": trace,
               "uses": (*changes, *gpu_throughput.stacked(source, r["model"], r["precision"], batch, own, layout)), "measured_ms": 1e3 * batch / float(r["throughput"])}  # fmt: skip


def predicted(rows, program):
    """The rows that the program answers, with its prediction; one call for all GPUs of a trace and its changes."""
    groups = collections.defaultdict(list)
    for r in rows:
        trace = gpu_throughput.trace_of(r["trace"])
        if trace is not None:
            groups[(trace, r["uses"])].append(r)
    found = []
    for (trace, uses), some in groups.items():
        answer = gates.ask(program, "gpus", str(trace), *uses, "--to", ",".join(sorted({r["device"] for r in some})))
        by_device = {p["device"]: p for p in answer.get("predictions", []) if "ms" in p}
        for r in some:
            if p := by_device.get(r["device"]):
                ms = p["gpu_ms"] if p["cpu_bound"] else p["ms"]
                low, high = (p[edge] * ms / p["ms"] for edge in ("low_ms", "high_ms"))
                found.append(r | {"predicted_ms": ms, "of": "GPU" if p["cpu_bound"] else "step", "error_pct": 100 * (ms / r["measured_ms"] - 1),
                                  "inside": low <= r["measured_ms"] <= high})  # fmt: skip
            else:
                print(f"left out, {trace.name} {' '.join(uses)} on {r['device']}: {answer.get('error', 'declined')}", file=sys.stderr)
    return found


def of_steps(rows):
    errors = [r["error_pct"] for r in rows]
    return {"rows": len(rows), "gpus": len({r["device"] for r in rows}), "consumer rows": sum(r["device"].startswith(CONSUMER) for r in rows),
            "mean_pct": statistics.mean(map(abs, errors)), "bias_pct": statistics.mean(errors),
            "inside_pct": 100 * statistics.mean(r["inside"] for r in rows)} if rows else None  # fmt: skip


def ratios(rows):
    """(source, class, error in %) of every pair of GPUs."""
    groups: dict = collections.defaultdict(dict)
    for r in rows:
        if r["source"] not in NO_RATIO:
            groups[(r["source"], r["model"], CLASSES[r["precision"]])].setdefault(r["device"], r)
    for (source, _, kind), by_device in groups.items():
        for a, b in itertools.combinations(by_device.values(), 2):
            off = math.log(a["predicted_ms"] / a["measured_ms"] * b["measured_ms"] / b["predicted_ms"])
            yield source, kind, 100 * (math.exp(abs(off)) - 1)


def by_gpu(rows):
    """How far a GPU is off the others of its source, model and precision: the mean over those of log(predicted / measured) against the group's median."""
    groups = collections.defaultdict(list)
    for r in rows:
        if r["source"] not in NO_RATIO:
            groups[(r["source"], r["model"], CLASSES[r["precision"]])].append((r["device"], math.log(r["predicted_ms"] / r["measured_ms"])))
    off = collections.defaultdict(list)
    for (_, _, kind), some in groups.items():
        middle = statistics.median(x for _, x in some)
        if len({device for device, _ in some}) > 1:
            for device, x in some:
                off[(device, kind)].append(x - middle)
    return {key: (len(x), 100 * (math.exp(statistics.mean(x)) - 1)) for key, x in sorted(off.items())}


# Compute capabilities whose products are in our tables, or run kernels of one that is (src/hardware/transfer).
TABLES = {"FP32 and TF32": ("6.0", "6.1", "7.0", "7.5", "8.0", "9.0"), "half": ("8.0", "8.6", "8.9", "9.0", "10.0")}
LEAST_ROWS = 8


def learnt(row):
    file = tomllib.loads((DEVICES / f"{row['device']}.toml").read_text())
    if file["vendor"] != "nvidia":
        return "vendor"
    kind = CLASSES[row["precision"]]
    if kind == "half" and "GeForce" in file["driver_names"][0]:
        return "geforce"
    return "device" if file["compute"]["capability"] in TABLES[kind] else "architecture"


def spreads(rows):
    """The text of src/hardware/spreads/steps.csv."""
    off = collections.defaultdict(list)
    for r in rows:
        if r["near"] == "same":
            off[(learnt(r), "half" if CLASSES[r["precision"]] == "half" else "fp32")].append(
                abs(math.log(r["predicted_ms"] / r["measured_ms"]))
            )
    lines = ["# made by tools/published_steps.py --write-spreads, which says what each is", "learnt,precision,spread,steps"]
    for precision in ("fp32", "half"):
        least = 0.0  # less known is never taken to be better known
        for what in ("device", "architecture", "geforce", "vendor"):
            if len(some := off.get((what, precision), [])) >= (1 if what == "vendor" else LEAST_ROWS):
                least = max(least, sorted(some)[math.ceil(0.8 * len(some)) - 1] / 1.2816)
                lines.append(f"{what},{precision},{least:.2g},{len(some)}")
    return "\n".join(lines) + "\n"


def figures(rows):
    result: dict = {"steps": {}, "ratios": {}}
    same = [r for r in rows if r["near"] == "same"]
    own = [r for r in same if r["source"].startswith(("lambda", "csc"))]
    for kind in ("FP32 and TF32", "half"):
        for name, some in (("data/published", own), ("training-throughput.csv.gz", [r for r in same if r not in own]), ("all", same)):
            if found := of_steps([r for r in some if CLASSES[r["precision"]] == kind]):
                result["steps"][f"{kind}, {name}"] = found
    every = list(ratios(rows))
    for source in sorted({s for s, _, _ in every}):
        for kind in ("FP32 and TF32", "half"):
            if errors := [e for s, k, e in every if (s, k) == (source, kind)]:
                result["ratios"][f"{source}, {kind}"] = {"pairs": len(errors), "mean_pct": statistics.mean(errors)}
    if every:
        result["ratios"]["all"] = {"pairs": len(every), "mean_pct": statistics.mean(e for _, _, e in every)}
    result["steps"] |= {f"{device}, {kind}": found for device in sorted({r["device"] for r in same}) if device.startswith("MI") for kind in ("FP32 and TF32", "half")
                        if (found := of_steps([r for r in same if (r["device"], CLASSES[r["precision"]]) == (device, kind)]))}  # fmt: skip
    result["by_gpu"] = {f"{device}, {kind}": {"rows": n, "off_pct": off} for (device, kind), (n, off) in by_gpu(rows).items()}
    return result


def appendix(rows):
    """The text of docs/internals/appendix-published.md."""
    same = sorted(
        (r for r in rows if r["near"] == "same"), key=lambda r: (r["source"], r["model"], r["precision"], r["device"], r["batch"])
    )
    head = ["source", "network", "precision", "batch", "GPU", "published ms", "predicted ms", "step %", "in band", "of"]
    cells = [[r["source"], r["model"], r["precision"], str(r["batch"]), r["device"], f"{r['measured_ms']:.1f}", f"{r['predicted_ms']:.1f}",
              f"{r['error_pct']:+.1f}", "yes" if r["inside"] else "no", r["of"]] for r in same]  # fmt: skip
    matched = [f"- `{s['source']}` ({s['software']}): {s['matched']}" for s in csv_rows(FOLDER / "sources.csv") if s["matched"]]
    gpus = [[device, kind, str(f["rows"]), f"{f['mean_pct']:.1f}", f"{f['bias_pct']:+.1f}", f"{f['inside_pct']:.0f}"]
            for device in sorted({r["device"] for r in same}) for kind in sorted(set(CLASSES.values()))
            if (f := of_steps([r for r in same if (r["device"], CLASSES[r["precision"]]) == (device, kind)]))]  # fmt: skip
    return ("# Appendix: published steps\n\nTraining steps that others published, predicted from steps recorded on an H200 in FP32, where the recorded network is the\n"
            "published one. Written by `tools/published_steps.py --update-docs`. [GPUs](gpus.md) has the summary. `of`: GPU where the prediction waits for the CPU of the\n"
            "trace's host; the GPU's own time is compared then.\n\n## How each source was matched\n\nAddresses: `data/published/sources.csv`.\n\n"
            + "\n".join(matched)
            + "\n\n## Each GPU\n\n" + "\n".join(aligned(["GPU", "precision", "rows", "mean %", "bias %", "in band %"], gpus))
            + "\n\n## Every row\n\n<!-- published-rows -->\n\n" + "\n".join(aligned(head, cells)) + "\n\n<!-- end of published-rows -->\n")  # fmt: skip


def summary(rows, result):
    """The table of docs/internals/gpus.md."""
    same = [r for r in rows if r["near"] == "same"]
    nvidia = [r for r in same if not r["device"].startswith("MI")]
    parts = {"FP32 and TF32": [r for r in nvidia if CLASSES[r["precision"]] != "half"],
             "half precision, data/published": [r for r in nvidia if CLASSES[r["precision"]] == "half" and r["source"].startswith(("lambda", "csc"))],
             "half precision, training-throughput.csv.gz": [r for r in nvidia if CLASSES[r["precision"]] == "half" and not r["source"].startswith(("lambda", "csc"))],
             "MI250X, one die, FP32": [r for r in same if r["device"] == "MI250X" and CLASSES[r["precision"]] != "half"],
             "MI250X, one die, half precision": [r for r in same if r["device"] == "MI250X" and CLASSES[r["precision"]] == "half"]}  # fmt: skip
    cells = [[name, str(f["rows"]), str(f["gpus"]), f"{f['mean_pct']:.1f}", f"{f['bias_pct']:+.1f}", f"{f['inside_pct']:.0f}"]
             for name, some in parts.items() if (f := of_steps(some))]  # fmt: skip
    ratio = result["ratios"]["all"]
    cells.append(["ratios of two GPUs in one source", str(ratio["pairs"]), "-", f"{ratio['mean_pct']:.1f}", "-", "-"])
    return "\n".join(aligned(["published steps", "rows", "GPUs", "mean %", "bias %", "in band %"], cells))


def main():
    parser = gates.parser(__doc__)
    parser.add_argument("--rows", action="store_true", help="every row")
    parser.add_argument("--json", action="store_true")
    parser.add_argument(
        "--update-docs",
        action="store_true",
        help="the rows of equal networks, into docs/internals/appendix-published.md, and the table of gpus.md",
    )
    parser.add_argument("--write-spreads", action="store_true", help="how far they are off, into src/hardware/spreads/steps.csv")
    args = parser.parse_args()
    rows = predicted([*own_rows(), *public_rows()], args.program)
    if args.write_spreads:
        (HARDWARE / "spreads" / "steps.csv").write_text(spreads(rows))
    if args.update_docs:
        track_record.PUBLISHED.write_text(appendix(rows))
    result = figures(rows)
    if args.update_docs:
        write_between(ROOT / "docs" / "internals" / "gpus.md", "published-steps", summary(rows, result))
    now = {f"{name}, mean %": f["mean_pct"] for part in ("steps", "ratios") for name, f in result[part].items() if name.endswith("all")}
    if args.update_limits:
        gates.save(LIMITS, gates.load(LIMITS) | {name: round(value, 1) for name, value in now.items()})
    if args.json:
        print(json.dumps(result | {"rows": rows if args.rows else len(rows)}, indent=1))
    else:
        for r in sorted(rows, key=lambda r: (r["source"], r["model"], r["precision"], r["device"])) if args.rows else []:
            print(
                f"{r['source']:20} {r['model']:32} {r['precision']:9} {r['batch']:6} {r['device']:16} {r['near']:5} {r['measured_ms']:9.1f} {r['predicted_ms']:9.1f} {r['error_pct']:+6.0f} % {'' if r['inside'] else 'outside'}"
            )
        for part in ("steps", "ratios", "by_gpu"):
            print(f"\n{part}")
            for name, f in result[part].items():
                print(
                    f"  {name:44}"
                    + "  ".join(
                        f"{key.replace('_pct', ' %')} {value:.1f}" if isinstance(value, float) else f"{key} {value}"
                        for key, value in f.items()
                    )
                )
    return gates.verdict(gates.over("published", now, gates.load(LIMITS), 0.3), args.gate)


if __name__ == "__main__":
    sys.exit(main())
