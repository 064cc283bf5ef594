#!/usr/bin/env python3
"""Plans against published steps of other people's clusters, from decoders of the same width and few layers recorded on one GPU.

    tools/published_plans.py [DECODERS] [--source NAME] [--verbose]

DECODERS (default: data/h200-decoders) holds `truth.jsonl` (the shape of each) and the traces beside it. The steps are those of
$FORETRACE_PUBLIC/parallel/training-steps.csv.gz. A row is predicted from the decoder with its width, heads and length on its GPU with its
depth, and none of the rows is fitted on. Rows whose decoder was not recorded are counted as such.
"""

import argparse
import csv
import gzip
import os
import sys
from collections import Counter, defaultdict
from pathlib import Path
from statistics import mean, median

from gates import FORETRACE, ask
from truth import ROOT, json_lines

# How the sources name GPUs and what joins them.
GPUS = [("B200", "B200", "DGX-B200"), ("H100-80GB", "H100-SXM5", "DGX-H100"), ("H100-SXM5", "H100-SXM5", "DGX-H100"),
        ("H100-96GB", "H100-HBM2e", "DGX-H100"), ("A100-SXM4-40GB", "A100-SXM4-40GB", "DGX-A100"), ("A100", "A100-SXM4-80GB", "DGX-A100"),
        ("H200", "H200-SXM", "DGX-H200")]
SOURCES = ["SimuMax b200", "dgxc", "torchtitan", "llm-foundry", "Playbook", "vTrain"]
LAUNCH_BOUND_TFLOPS = 20  # of vTrain's rows: below that the launches decide (the table's README)


def number(row: dict, key: str, otherwise: int = 1) -> int:
    return int(float(row[key])) if row[key] not in ("", "none") else otherwise


def decoder_of(row: dict, decoders: list[dict]) -> dict | None:
    for d in decoders:
        s = d["shape"]
        same = s["width"] == number(row, "hidden") and s["length"] == number(row, "seq") and s["weights"] == "pure"
        experts = number(row, "experts", 0)
        if same and not s["recompute"] and s["layers"] > 1 and s["layers"] <= 8 and s["experts"] == experts:
            if number(row, "ffn", s["ffn"]) == s["ffn"] and number(row, "heads", s["heads"]) == s["heads"]:
                return d
    return None


def plan_of(row: dict) -> str:
    parts = [f"{key}={number(row, key)}" for key in ("tp", "pp", "cp", "ep", "dp") if number(row, key) > 1]
    if number(row, "zero", 0) > 0 and number(row, "dp") * number(row, "cp") > 1:
        parts.append(f"zero={number(row, 'zero', 0)}")
    if number(row, "tp") > 1 and row["sequence_parallel"] != "0":
        parts.append("sequence=1")
    if number(row, "vp") > 1:
        parts.append(f"schedule=interleaved,chunks={number(row, 'vp')}")
    if row["micro_batch"]:
        parts.append(f"microbatch={float(row['micro_batch']):g}")
    if "full" in row["recompute"]:
        parts.append("recompute=full")
    elif "selective" in row["recompute"]:
        parts.append("recompute=selective")
    # Megatron and its kin keep FP32 weights, gradients and moments; FSDP with a policy of its own keeps what the source says.
    if any(name in row["framework"] for name in ("Megatron", "NeMo", "nanotron")):
        parts.append("master=fp32")
    return ",".join(parts)


def usable(row: dict) -> bool:
    if not row["step_ms"] or "flag:" in row["note"] or not row["global_batch"] or not row["layers"]:
        return False
    if "fp8" in row["precision"] or "float8" in row["precision"] or "LoRA" in row["model"]:
        return False
    if "vTrain" in row["source"] and row["tflops_per_gpu"] and float(row["tflops_per_gpu"]) < LAUNCH_BOUND_TFLOPS:
        return False
    return "Playbook" not in row["source"] or not row["mfu"] or float(row["mfu"]) >= 10


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("decoders", type=Path, nargs="?", default=ROOT / "data" / "h200-decoders")
    parser.add_argument("--source", action="append")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    file = Path(os.environ.get("FORETRACE_PUBLIC", "")) / "parallel" / "training-steps.csv.gz"
    if not file.exists() or not (options.decoders / "truth.jsonl").exists():
        print("no published steps, or no decoders")
        return 77
    decoders = json_lines(options.decoders / "truth.jsonl")
    with gzip.open(file, "rt") as lines:
        rows = [r for r in csv.DictReader(lines) if usable(r)]
    for source in options.source or SOURCES:
        judge(source, [r for r in rows if source in r["source"]], decoders, options)
    return 0


def judge(source: str, rows: list[dict], decoders: list[dict], options: argparse.Namespace) -> None:
    asked: dict[tuple, list[tuple[str, dict]]] = defaultdict(list)
    missing: Counter = Counter()
    for row in rows:
        decoder = decoder_of(row, decoders)
        gpu = next((g for g in GPUS if g[0] in row["gpu"]), None)
        if decoder is None or gpu is None:
            missing["no decoder of this shape was recorded" if gpu else "no such GPU"] += 1
            continue
        asked[decoder["trace"], gpu[1], gpu[2], number(row, "layers"), float(row["global_batch"])].append((plan_of(row), row))
    errors, memory = [], []
    for (trace, gpu, fabric, layers, batch), plans in asked.items():
        command = [str(options.decoders / trace), "--fabric", fabric, "--layers", str(layers), "--global-batch", f"{batch:g}", "--gpu", gpu]
        unique = sorted({plan for plan, _ in plans})
        answer = ask(FORETRACE, "scale", *command, *(word for plan in unique for word in ("--plan", plan or "tp=1")))
        if "predictions" not in answer:
            missing[str(answer.get("error", answer))[:100]] += len(plans)
            continue
        found = answer["predictions"]
        made = [p for p in found if "ms" in p]
        by_workers = {p["plan"]: p for p in found}
        for plan, row in plans:
            p = by_workers.get(normal(plan, by_workers))
            if p is None or "ms" not in p:
                missing[(p or {}).get("declined", f"not answered: {plan}")[:100]] += 1
                continue
            error = p["ms"] / float(row["step_ms"]) - 1
            errors.append(error)
            line = f"  {row['model']:18} {row['gpus']:>5} {plan:58} {float(row['step_ms']):9.1f} {p['ms']:9.1f} {100 * error:+6.1f} %"
            if row["memory_gib"] and p["peak_bytes"]:
                memory.append(p["peak_bytes"] / 2**30 / float(row["memory_gib"]) - 1)
                line += f"  {float(row['memory_gib']):6.1f} GiB {100 * memory[-1]:+6.1f} %"
            if options.verbose:
                print(line)
        del made
    if errors:
        sizes = [abs(e) for e in errors]
        print(f"{source}: {len(errors)} rows, step {100 * mean(sizes):.1f} % mean, {100 * median(sizes):.1f} median, {100 * max(sizes):.1f} most, "
              f"signed median {100 * median(errors):+.1f}")
    if memory:
        sizes = [abs(e) for e in memory]
        print(f"{source}: memory {100 * mean(sizes):.1f} % mean, {100 * max(sizes):.1f} most of {len(memory)}")
    for why, count in missing.most_common():
        print(f"{source}: {count} not predicted: {why}")


def normal(plan: str, known: dict) -> str:
    """The plan as the program writes it."""
    wanted = sorted(plan.split(",")) if plan else []
    return next((k for k in known if sorted(k.split(",")) == wanted or (not wanted and not k)), plan)


if __name__ == "__main__":
    sys.exit(main())
