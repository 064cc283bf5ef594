#!/usr/bin/env python3
"""`compile` against every measured compiled step, also those whose base has its trace in another folder, which tools/accuracy.py cannot pair.

    tools/compile_accuracy.py               each network judged by host costs fitted without it
    tools/compile_accuracy.py --in-sample   by those of src/host/hosts
    tools/compile_accuracy.py data/h200-unseen    the compiled rows of a folder, with its own bases

What generated kernels take (src/whatif/compilers) is fitted on six traces; leaving one out changes errors from 12.3 to 12.4 %, so one file serves all.
"""

import argparse
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

import gates
from fit_host import OUTPUT as HOST
from fit_host import compiled
from host_traces import USUAL_SPEED
from truth import ROOT, Folder, Row, json_lines, whatifs_of

DATA = ROOT / "data"
CLEAN, LENGTHS = DATA / "h200-clean", DATA / "h200-lengths"
# Compiled starts whose eager start has a trace; bases that were recorded for another folder on the same machine.
STARTS = {"gpt2-compiled": "gpt2-today"}
ELSEWHERE = {"vit_b_16-today": LENGTHS, "t5_4x4-today": LENGTHS}


@dataclass
class Pair:
    name: str
    trace: Path
    base_ms: float
    uses: list[str]
    row: Row


def pairs_of(path: Path) -> list[Pair]:
    out = []
    folder = Folder(path)
    bases = {r.model: r for r in reversed(folder.rows) if r.variant == "base"}  # the first of each
    for r in folder.rows:
        start = STARTS.get(r.model) if path == CLEAN and r.variant == "base" else None
        uses = ["compile"] if start else whatifs_of(r.variant) or []
        base = bases.get(start or r.model)
        if "compile" not in uses or base is None or r.gpu_ms is None:
            continue
        trace = base.trace
        if trace is None and base.model in ELSEWHERE:
            trace = ELSEWHERE[base.model] / f"{base.model}.base.json.gz"
        if trace is not None:
            out.append(Pair(f"{start or r.model} {'compile' if start else r.variant}", trace, folder.base_ms(base), uses, r))
    return out


def searched() -> list[Pair]:
    """What `optimize` proposed and was run (data/h200-search), where its base can be read."""
    out = []
    clean = Folder(CLEAN)
    resnet = next(r for r in clean.rows if r.model == "resnet50" and r.variant == "base")
    places: dict[tuple, tuple] = {("resnet50", 64): (resnet.trace, clean.base_ms(resnet))}
    truth = os.environ.get("FORETRACE_TRUTH")
    if truth:
        bert = next(r for r in Folder(Path(truth) / "h200-large").rows if r.model == "bert_base" and r.variant == "base")
        places["bert_base", 128] = (bert.trace, bert.median)
    for r in (Row(DATA / "h200-search", {"variant": ""} | row) for row in json_lines(DATA / "h200-search" / "truth.jsonl")):
        uses = r.data.get("whatifs") or []
        at = places.get((r.model, r.data.get("bs")))
        if at and any(u.startswith("compile") for u in uses) and "gpu_ms" in r.data:
            out.append(Pair(f"{r.model}@{r.data['bs']} " + "+".join(u.split(":")[0] for u in uses), at[0], at[1], uses, r))
    return out


def host_without(network: str, folder: Path) -> Path:
    figures = compiled(USUAL_SPEED, network)
    lines = [f"{line.split(',')[0]},{figures[line.split(',')[0]][0]:.5g}" if line.split(",")[0] in figures else line
             for line in HOST.read_text().splitlines()]
    path = folder / f"{network}.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, metavar="TRUTH_DIR")
    parser.add_argument("--program", type=Path, default=ROOT / "build" / "foretrace")
    parser.add_argument("--in-sample", action="store_true", help="the host's figures as they are")
    options = parser.parse_args()
    pairs = [p for f in options.folders for p in pairs_of(f.resolve())] if options.folders else \
        [p for f in ("h200-clean", "h200-catalogue", "h200-more") for p in pairs_of(DATA / f)] + searched()
    errors: dict[str, list[float]] = {"step": [], "GPU time": [], "memory": []}
    signed = []
    with tempfile.TemporaryDirectory() as folder:
        for p in pairs:
            host = [] if options.in_sample else ["--host", str(host_without(p.row.network, Path(folder)))]
            answer = gates.ask(options.program, "whatif", str(p.trace), *p.uses, "--stack", "--measured-ms", str(p.base_ms), *host)["predictions"][0]
            if answer.get("declined"):
                print(f"{p.name:62} declined: {answer['declined']}")
                continue
            r = p.row
            ms = answer["step_ms"] if "step_ms" in answer else answer["ms"]
            off = {"step": r.error_pct(ms), "GPU time": 100 * (answer["gpu_ms"] / r.gpu_ms - 1)}
            signed.append(100 * (ms / r.median - 1))
            if answer.get("peak_bytes") and r.peak_bytes:
                off["memory"] = 100 * (answer["peak_bytes"] / r.peak_bytes - 1)
            for name, value in off.items():
                errors[name].append(abs(value))
            print(f"{p.name:62} {r.median:7.1f}{'' if r.quiet else ' noisy':6} {ms:7.1f} ms "
                  + "  ".join(f"{n} {v:+.1f} %" for n, v in off.items()) + f"  (to the median {signed[-1]:+.1f} %)")
    for name, values in errors.items():
        if values:
            print(f"{name}: {mean(values):.1f} % mean, {max(values):.1f} % max, {len(values)} rows")
    if signed:
        print(f"step to the median, noisy rows too: {mean(map(abs, signed)):.1f} % mean, {max(map(abs, signed)):.1f} % max")
    return 0


if __name__ == "__main__":
    sys.exit(main())
