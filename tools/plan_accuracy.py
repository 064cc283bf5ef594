#!/usr/bin/env python3
"""Plans against measured jobs: steps and peak memory that `foretrace scale --plan` predicts from one GPU's trace.

    tools/plan_accuracy.py [--set jobs|published] [--binary build/foretrace] [--more FOLDER] [--verbose]

jobs: $FORETRACE_TRUTH/h200-parallel, and folders of the same form given with --more: the trace of one rank running alone beside the
others, against every case of the same world. published: $FORETRACE_PUBLIC/parallel/training-steps.csv.gz, from decoders of the same
width recorded on another GPU (--decoders FOLDER).
"""

import argparse
import csv
import gzip
import json
import os
import re
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# What is reported and not judged: DTensor's dispatch on the CPU, and pipelines of one sample in a micro-batch.
NOT_JUDGED = re.compile(r"tpd|pp8")
QUIET = 0.05  # of the median between the 10th and 90th percentile: a noisier row counts by its distance to them


def plan_of(case: str, world: int) -> tuple[str, list[str]] | None:
    """The plan and the changes that a case of measure/parallel.py is."""
    kind, *changes = case.split("/")
    whatifs = {"bs2": "batch:x=2", "bsh": "batch:x=0.5"}
    extra = [whatifs[c] for c in changes if c in whatifs]
    if any(c not in (*whatifs, "ckpt") for c in changes):
        return None
    tail = ",recompute=full" if "ckpt" in changes else ""
    simple = {"solo": "", "ddp": f"dp={world}", "fsdp": f"fsdp={world},param-dtype=bf16,reduce-dtype=fp32",
              "tp": f"tp={world},vocab=replicated", "tpd": f"tp={world},sequence=1", "cp": f"cp={world},kind=ulysses,reduce=0",
              "ep": f"ep={world},reduce=0", "tp2dp": f"tp=2,dp={world // 2},vocab=replicated",
              "tp2fsdp": f"tp=2,fsdp={world // 2},vocab=replicated,param-dtype=bf16,reduce-dtype=fp32"}
    if kind in simple:
        return (simple[kind] + tail).lstrip(","), extra
    found = re.fullmatch(r"(pp|il|gp)(2dp)?(\d+)", kind)
    if not found:
        return None
    schedule = {"pp": "", "il": ",schedule=interleaved,chunks=2", "gp": ",schedule=gpipe"}[found[1]]
    stages = 2 if found[2] else world
    data = f",dp={world // 2}" if found[2] else ""
    return f"pp={stages}{data},microbatches={found[3]}{schedule}{tail}", extra


def ask(binary: str, trace: Path, network: list[str], plan: str, more: list[str]) -> dict:
    command = [binary, "scale", str(trace), *more, "--plan", plan, "--json", "--quiet", *network]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if not run.stdout:
        return {"declined": run.stderr.strip()}
    answer = json.loads(run.stdout)
    if "predictions" not in answer:
        return {"declined": answer.get("error", {}).get("message", run.stdout)}
    return answer["predictions"][0]


def job_rows(folder: Path):
    """World, case, and the rows of its ranks."""
    rows: dict[tuple, list[dict]] = {}
    for path in sorted(folder.glob("truth*.jsonl")):
        for line in path.read_text().splitlines():
            row = json.loads(line)
            if not row.get("error"):
                rows.setdefault((row["model"], row["world"], row["case"]), []).append(row)
    return rows


def time_error(predicted: float, ranks: list[dict]) -> float:
    slow = max(ranks, key=lambda r: r["median_ms"])
    low, median, high = slow["p10_ms"], slow["median_ms"], slow["p90_ms"]
    if high - low <= QUIET * median:
        return predicted / median - 1
    nearest = min(max(predicted, low), high)
    return predicted / nearest - 1


def jobs(args) -> list[dict]:
    folders = [Path(os.environ["FORETRACE_TRUTH"]) / "h200-parallel", *map(Path, args.more)]
    out = []
    for folder in folders:
        collectives = next(f for f in [folder / "collectives.jsonl", folders[0] / "collectives.jsonl"] if f.exists())
        for (model, world, case), ranks in sorted(job_rows(folder).items()):
            trace = folder / f"{model}.inside.solo.w{world}.r0.json.gz"
            asked = plan_of(case, world)
            if asked is None or not trace.exists():
                continue
            answer = ask(args.binary, trace, ["--collectives", str(collectives)], asked[0], asked[1])
            row = {"name": f"{model} w{world} {case}", "measured": max(r["median_ms"] for r in ranks),
                   "judged": not NOT_JUDGED.match(case) and case != "solo"}
            if "declined" in answer:
                row["declined"] = answer["declined"]
            else:
                peak = max(r["peak_bytes"] for r in ranks)
                row |= {"predicted": answer["ms"], "error": time_error(answer["ms"], ranks),
                        "memory": (answer["peak_bytes"] or 0) / peak - 1}
            out.append(row)
    return out


def show(rows: list[dict]) -> None:
    for r in rows:
        if "declined" in r:
            print(f"{r['name']:42} {r['measured']:10.1f}  declined: {r['declined'].splitlines()[0][:100]}")
            continue
        memory = f"{100 * r['memory']:+7.1f} %" if r.get("memory") is not None else "      -"
        print(f"{r['name']:42} {r['measured']:10.1f} {r['predicted']:10.1f} {100 * r['error']:+7.1f} % {memory}"
              f"{'' if r['judged'] else '  (not judged)'}")
    judged = [r for r in rows if r["judged"] and "declined" not in r]
    if not judged:
        return
    errors = [abs(r["error"]) for r in judged]
    print(f"{len(judged)} rows judged: time {100 * statistics.mean(errors):.1f} % mean, {100 * statistics.median(errors):.1f} median, "
          f"{100 * max(errors):.1f} max; {sum('declined' in r for r in rows)} declined")
    memory_errors = [abs(r["memory"]) for r in judged if r.get("memory") is not None]
    if memory_errors:
        print(f"memory {100 * statistics.mean(memory_errors):.1f} % mean, {100 * max(memory_errors):.1f} max over {len(memory_errors)}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(ROOT / "build/foretrace"))
    parser.add_argument("--set", choices=["jobs", "published"], default="jobs")
    parser.add_argument("--more", action="append", default=[], help="another folder of rows and solo traces")
    args = parser.parse_args()
    if "FORETRACE_TRUTH" not in os.environ:
        print("FORETRACE_TRUTH is not set: nothing to compare with", file=sys.stderr)
        return 0
    show(jobs(args))
    return 0


if __name__ == "__main__":
    sys.exit(main())
