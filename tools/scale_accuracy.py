#!/usr/bin/env python3
"""Predicted against measured steps of several workers.

    scale_accuracy.py [--foretrace build/foretrace] [--all-ranks] [--gate MEAN,MAX] FOLDER…
    scale_accuracy.py --update-docs data/h200-ranks data/h200-schemes $FORETRACE_TRUTH/h200-ranks     writes the tables of the documentation

A FOLDER holds truth.jsonl (rows with tag, rank, world, model, case, median_ms, p10_ms, p90_ms), traces of the case `solo` named
MODEL.TAG.solo.wWORLD.rRANK.json.gz, and collectives.jsonl. Each other case is predicted from the solo trace of the same rank with its measured step and
the measured collectives. Noisy rows count their distance to [p10, p90].
"""
import argparse
import pathlib
import sys
from collections import defaultdict
from dataclasses import dataclass
from statistics import mean, median

import fitted
import gates
import job_rows
import track_record
from accuracy_tables import aligned, write_between
from truth import ROOT, json_lines

DOCS = ROOT / "docs" / "internals"
HEAD = ["model", "ranks", "case", "network", "measured ms", "p10 … p90", "predicted ms", "band", "exposed ms", "error %", "to the median %", "in band"]


# What the command line says for each case.
SCHEMES = {
    "ddp": [],
    "ddpfp16": ["--compress", "fp16"],
    "powersgd": ["--compress", "powersgd"],
    "topk": ["--compress", "topk"],
    "dgc": ["--compress", "dgc"],
    "qsgd": ["--compress", "qsgd"],
    "terngrad": ["--compress", "terngrad"],
    "fsdp": ["--parallel", "fsdp"],
    "ps": ["--parallel", "ps"],
    "zero1": ["--parallel", "zero1"],
    "zero2": ["--parallel", "zero2"],
    "blueconnect": ["--parallel", "blueconnect", "--gpus-per-node", "2"],
}
NUMBERED = {  # the number behind the @ is no bucket size
    "servers": ["--parallel", "ps", "--servers"],
    "horovod": ["--parallel", "horovod", "--cycle-ms"],
}


# The largest error a case may have, in percent, in addition to what --gate says of the ddp cases. P3's sender is a Python thread in
# data/h200-ranks, which holds the training thread up more than the network does (docs/internals/scale.md). Rows of data/h200-ranks were
# timed with CUPTI attached, which makes what the CPU decides 15 to 35 % too long there: the hooks of topk, which wait for the CPU, come out
# that much shorter by a host's clean figures. A case without a limit fails the gate.
LARGEST = {"fsdp": 10, "fsdp1": 5, "ps": 6, "powersgd": 10, "zero1": 12, "zero2": 7, "qsgd": 15, "topk": 18, "terngrad": 9, "dgc": 8,
           "blueconnect": 7, "servers": 9, "horovod": 12, "p3": 21, "bandwidth": 16}
BY_GATE = ("ddp", "ddpfp16")
# How many rows each folder has by case: fewer, and something that was measured is no longer compared.
ROWS = {"truth/h200-ranks": {"ddp": 10, "ddpfp16": 3},
        "data/h200-ranks": {"ddp": 9, "ddpfp16": 3, "fsdp": 3, "ps": 2, "powersgd": 3, "zero1": 1, "zero2": 3, "qsgd": 3, "topk": 2,
                            "terngrad": 1, "dgc": 1, "blueconnect": 1, "servers": 2, "p3": 2, "horovod": 2},
        "data/h200-schemes": {"ddp": 7, "zero1": 7, "p3": 6, "horovod": 5, "ps": 6, "fsdp1": 6, "zero2": 7, "fsdp": 7, "dgc": 6, "terngrad": 3, "topk": 3,
                              "blueconnect": 6, "servers": 1, "bandwidth": 6}}


def broken(errors, folders, mean_limit, largest_limit):
    """What the gate holds against these errors by case."""
    bad = [f"{case}: no limit for its largest error" for case in errors if case not in LARGEST and case not in BY_GATE]
    bad += [f"{case}: off by up to {100 * max(errors[case]):.1f} %, at most {limit} % allowed" for case, limit in LARGEST.items()
            if 100 * max(errors.get(case, [0])) > limit]
    gated = [e for case in BY_GATE for e in errors.get(case, [])]
    if not gated:
        bad.append("ddp: no row at all")
    elif 100 * sum(gated) / len(gated) > mean_limit or 100 * max(gated) > largest_limit:
        bad.append(f"ddp cases: mean and largest error over {mean_limit:g} and {largest_limit:g} %")
    for case in (*BY_GATE, *LARGEST):
        wanted = sum(ROWS.get("/".join(f.resolve().parts[-2:]), {}).get(case, 0) for f in folders)
        if len(errors.get(case, [])) < wanted:
            bad.append(f"{case}: {len(errors.get(case, []))} rows, there were {wanted}")
    return bad


def options(row):
    """ddp is bucket_cap_mb=25 given explicitly (or not given: default_buckets); ddp@X is X; None: no prediction."""
    name, _, number = row["case"].partition("@")
    if name == "p3":
        # Who sends slices, and what one costs the CPU, is a property of the program: rows that say the cost are of one that trains and sends in
        # one thread, the others had a Python thread for it (data/README.md).
        sender = f"{row['send_us']:.0f},sender=training" if "send_us" in row else "450"
        return f"p3:slice_mb={number},send_us={sender}"
    if name in NUMBERED:
        return [*NUMBERED[name], number]
    if name in BY_WHATIF:
        return BY_WHATIF[name]
    if name not in SCHEMES:
        return None
    extra = [] if name == "fsdp" or row.get("default_buckets") else ["--bucket-mb", number or "25"]
    return SCHEMES[name] + extra


def own_collectives(row):
    """The rows of collectives.jsonl: of all ranks, or of BlueConnect's levels, groups of two that are busy at once."""
    return row["tag"] + "-levels" if row["case"] == "blueconnect" else row.get("was", row["tag"])


def workers(row):
    """Ranks that are servers do not train."""
    name, _, number = row["case"].partition("@")
    return row["world"] - int(number) if name == "servers" else row["world"]


def memory_error(prediction, row):
    """Of the peak; None where one of both is not known."""
    predicted, measured = prediction.get("peak_bytes"), row.get("peak_bytes")
    return predicted / measured - 1 if predicted and measured else None


def solo_trace(folder, row):
    """The trace of one worker alone: of the same session, else of another with the same model and share of the GPU."""
    own = folder / f"{row['model']}.{row['tag']}.solo.w{row['world']}.r{row['rank']}.json.gz"
    others = sorted(folder.glob(f"{row['model']}.*.solo.w{row['world']}.r{row['rank']}.json.gz"))
    return own if own.exists() else next(iter(others), None)


# Cases that `scale` has no option for, as what-ifs; behind the first, which gets workers and network, what is stacked on it.
BY_WHATIF = {"fsdp1": "fsdp:version=1", "bandwidth": "ddp:"}
LARGE_MB = 16  # where bandwidth decides


def all_cases(folder):
    """The measured rows, and DDP on each network once more as DDP on another that is x times as fast."""
    rows = json_lines(folder / "truth.jsonl")
    found: defaultdict[tuple[str, int], dict[float, float]] = defaultdict(dict)
    for c in json_lines(folder / "collectives.jsonl"):
        if c["coll"] == "all_reduce" and c["mb"] >= LARGE_MB and "dtype" not in c:
            found[c["tag"], c["world"]][c["mb"]] = c["ms"]
    where = {(r["tag"], r["model"], r["world"]) for r in rows if r["case"] == "ddp"}
    changed = []
    for row in rows:
        for tag, model, world in sorted(where):
            if row["case"] != "ddp" or "peak_bytes" not in row or (model, world) != (row["model"], row["world"]) or tag == row["tag"]:
                continue
            here, there = found[row["tag"], world], found[tag, world]
            x = median(there[mb] / here[mb] for mb in here.keys() & there.keys())
            changed.append({k: v for k, v in row.items() if k != "peak_bytes"} | {"case": "bandwidth", "was": tag, "x": x})
    return rows + changed


def predict(foretrace, trace, measured_ms, world, collectives, tag, extra, faster=None):
    if isinstance(extra, str):
        use = f"{extra}{'' if extra.endswith(':') else ','}workers={world},collectives={collectives},collectives_tag={tag}"
        uses = [use, f"bandwidth:x={faster:.4f}", "--stack"] if faster else [use]
        answer = gates.ask(foretrace, "whatif", str(trace), *uses, "--measured-ms", str(measured_ms))
    else:
        answer = gates.ask(foretrace, "scale", str(trace), "--workers", str(world), "--measured-ms", str(measured_ms), "--collectives",
                           str(collectives), "--collectives-tag", tag, *extra)
    return (answer["predictions"][0], None) if "predictions" in answer else (None, answer["error"])


def distance(ms, row):
    low, high, median = row["p10_ms"], row["p90_ms"], row["median_ms"]
    if high - low <= 0.05 * median:
        return ms / median - 1
    if low <= ms <= high:
        return 0.0
    return (ms - (low if ms < low else high)) / median


def predicted(foretrace, folder, all_ranks=False):
    """Every case with its prediction, or what came instead of one."""
    rows = all_cases(folder)
    solo = {(r["tag"], r["model"], r["world"], r["rank"]): r for r in rows if r["case"] == "solo"}
    for row in rows:
        extra = options(row)
        trace = solo_trace(folder, row)
        if row["case"] == "solo" or extra is None or trace is None or (row["rank"] and not all_ranks):
            continue
        base = solo[(row["tag"], row["model"], row["world"], row["rank"])]
        yield row, *predict(foretrace, trace, base["median_ms"], workers(row), folder / "collectives.jsonl", own_collectives(row), extra, row.get("x"))


@dataclass(frozen=True)
class Compared:
    """A row and its prediction; errors are parts of the median, without a sign."""

    case: str
    model: str
    error: float
    to_median: float
    inside: bool  # the band holds the median

    @property
    def left_out(self) -> bool:
        """No figure that the case needs was fitted on this model (tools/host_hooks.py, tools/fit_figures.py)."""
        return self.model not in FITTED_ON.get(self.case, {"resnet50"})


# Models whose steps gave a figure that only these cases need (operations of hooks); those of all cases (kernel_contention, FSDP's hooks) are ResNet-50's.
FITTED_ON = {case: {"resnet50", "bert_base"} for case in ("powersgd", "topk", "qsgd", "dgc", "terngrad")}


def summary(found):
    """By case, all of them, and those of models that nothing was fitted on: errors that count, to the median, and bands that hold the median."""
    def line(title, rows):
        errors = [f"{100 * how(values):.1f}" for values in ([c.error for c in rows], [c.to_median for c in rows]) for how in (mean, max)]
        return [title, str(len(rows)), *errors, f"{sum(c.inside for c in rows)} of {len(rows)}"]

    cases = list(dict.fromkeys(c.case for c in found))
    head = ["case", "rows", "error % mean", "largest", "to the median % mean", "largest", "in band"]
    return aligned(head, [*(line(case, [c for c in found if c.case == case]) for case in cases), line("all", found),
                          line("all, models nothing was fitted on", [c for c in found if c.left_out])])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="+", type=pathlib.Path)
    parser.add_argument("--foretrace", default="build/foretrace")
    parser.add_argument("--all-ranks", action="store_true", help="every rank's row, not only rank 0's")
    parser.add_argument("--cases", help="only cases that start with one of these, separated by commas")
    parser.add_argument("--update-docs", action="store_true", help="write the tables into docs/internals/scale.md and docs/internals/appendix-scale.md")
    parser.add_argument("--gate", help="MEAN,MAX in percent over the ddp cases, and each other case's own largest: exit 1 above")
    args = parser.parse_args()
    errors: dict[str, list[float]] = {}
    memory: dict[str, list[float]] = {}
    found: list[Compared] = []
    lines: list[list[str]] = []
    print(f"{'model':10} {'tag':7} {'world':>5} {'case':11} {'rank':>4} {'measured':>9} {'p10..p90':>17} {'predicted':>9} {'exposed':>8} {'error':>8}")
    for folder in args.folder:
        for row, p, problem in predicted(args.foretrace, folder, args.all_ranks):
            if args.cases and not row["case"].startswith(tuple(args.cases.split(","))):
                continue
            case = row["case"].partition("@")[0]
            if p is None:
                print(f"{row['model']:10} {row['tag']:7} {row['world']:5} {row['case']:11} {row['rank']:4} {problem}")
                errors.setdefault(case, []).append(1.0)
                continue
            e = distance(p["ms"], row)
            off = p["ms"] / row["median_ms"] - 1
            inside = p["low_ms"] <= row["median_ms"] <= p["high_ms"]
            errors.setdefault(case, []).append(abs(e))
            found.append(Compared(case, row["model"], abs(e), abs(off), inside))
            m = memory_error(p, row)
            if m is not None:
                memory.setdefault(case, []).append(abs(m))
            exposed = f"{p['exposed_comm_ms']:.1f}" if "exposed_comm_ms" in p else "–"
            lines.append([row["model"], str(row["world"]), row["case"], job_rows.NETWORKS[row["tag"]], f"{row['median_ms']:.1f}",
                          f"{row['p10_ms']:.1f} … {row['p90_ms']:.1f}", f"{p['ms']:.1f}", f"{p['low_ms']:.1f} … {p['high_ms']:.1f}", exposed,
                          f"{100 * e:+.1f}", f"{100 * off:+.1f}", "yes" if inside else "no"])
            print(f"{row['model']:10} {row['tag']:7} {row['world']:5} {row['case']:11} {row['rank']:4} {row['median_ms']:9.2f} "
                  f"{row['p10_ms']:8.2f}..{row['p90_ms']:<7.2f} {p['ms']:9.2f} {p.get('exposed_comm_ms', float('nan')):8.2f} {100 * e:7.1f}%"
                  + (f"  to the median {100 * off:+.1f}%" if e != off else "") + ("" if inside else "  outside the band")
                  + (f"  peak {row['peak_bytes'] / 1e9:.2f} GB {100 * m:+.1f}%" if m is not None else ""))
    print()
    for case, all_errors in errors.items():
        peaks = memory.get(case)
        mine = [c for c in found if c.case == case]
        print(f"{case:11} rows {len(all_errors):3}  mean {100 * mean(all_errors):5.1f} %  max {100 * max(all_errors):5.1f} %  to the median "
              f"{100 * mean([c.to_median for c in mine]):5.1f} %  max {100 * max(c.to_median for c in mine):5.1f} %  in band {sum(c.inside for c in mine)} of {len(mine)}"
              + (f"  peak mean {100 * sum(peaks) / len(peaks):4.1f} %  max {100 * max(peaks):4.1f} %" if peaks else ""))
    if args.update_docs:
        write_between(DOCS / "scale.md", "scale", "\n".join(summary(found)))
        write_between(DOCS / "appendix-scale.md", "scale-rows", "\n".join(aligned(HEAD, lines)))
        fitted.keep(track_record.files(), check=False)
    gated = [e for case in BY_GATE for e in errors.get(case, [])]
    if gated:
        print(f"ddp cases  rows {len(gated):3}  mean {100 * sum(gated) / len(gated):5.1f} %  max {100 * max(gated):5.1f} %")
    if not args.gate:
        return 0
    bad = broken(errors, args.folder, *(float(x) for x in args.gate.split(",")))
    return gates.verdict(bad, True)


if __name__ == "__main__":
    sys.exit(main())
