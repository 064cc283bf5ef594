#!/usr/bin/env python3
"""The table of README.md: every change to the example's step that was made and measured, and what foretrace predicts for it.

    tools/evidence.py [--program build/foretrace]      writes the table
    tools/evidence.py --check                          fails when the README says something else

Each prediction is of exactly the change that was measured: the what-ifs are read off the switches the measuring script ran with. No
measured time is given to foretrace.
"""

import sys
from pathlib import Path

import fitted
import gates
from accuracy_tables import aligned, with_between
from truth import ROOT, json_lines

README = ROOT / "README.md"
MARK = "evidence"
EXAMPLE = ROOT / "examples" / "resnet50-h200.json.gz"
# The rows of the example's network, FP32 with Adam and batch 64 where nothing is switched.
FOLDERS = ("h200-clean", "h200-batches")
MODELS = ("resnet50", "resnet50-compiled")
# What a switch of tools/measure asks for; order as one would stack them.
WHATIFS = {
    ("amp", "fp16"): "amp", ("amp", "bf16"): "amp:dtype=bf16", ("tf32", 1): "tf32", ("cl", 1): "channels-last", ("opt", "fused"): "fused-optimizer",
    ("compile", 1): "compile", ("graph", 1): "cuda-graph", ("ckpt", "plain"): "checkpoint", ("accum", 2): "accumulate:n=2",
    ("bsx", 0.5): "batch:x=0.5", ("bsx", 2.0): "batch:x=2", ("bsx", 4.0): "batch:x=4",
}  # fmt: skip
# What changes nothing: the step as recorded, and attention in a network that has none.
NOTHING = {("amp", None), ("tf32", 0), ("opt", "loop"), ("optimizer", "adam"), ("attn", "eager"), ("attn", "sdpa")}


def whatifs_of(switches: dict) -> list[str]:
    unknown = [s for s in switches.items() if s not in WHATIFS and s not in NOTHING]
    if unknown:
        raise SystemExit(f"evidence: no what-if for {unknown}")
    return [use for switch, use in WHATIFS.items() if switch in switches.items()]


def measured() -> dict[str, dict]:
    """The measured rows by their what-ifs; of a step measured twice the first."""
    out: dict[str, dict] = {}
    for folder in FOLDERS:
        for row in json_lines(ROOT / "data" / folder / "truth.jsonl"):
            if row["model"] in MODELS and row["variant"] != "again" and row.get("median_ms"):
                out.setdefault(" + ".join(whatifs_of(row["switches"])), row)
    return out


def predicted(program: Path, uses: str) -> tuple[float, float, float]:
    if not uses:
        baseline = gates.ask(program, "whatif", str(EXAMPLE), "tf32")["baseline"]
        return baseline["unprofiled_ms"], baseline["unprofiled_low_ms"], baseline["unprofiled_high_ms"]
    answer = gates.ask(program, "whatif", str(EXAMPLE), *uses.split(" + "), "--stack")["predictions"][0]
    return answer["ms"], answer["low_ms"], answer["high_ms"]


def text_of(program: Path) -> str:
    rows = []
    for uses, row in sorted(measured().items(), key=lambda item: (len(item[0].split(" + ")) > 1, bool(item[0]), item[1]["median_ms"])):
        ms, low, high = predicted(program, uses)
        rows.append([f"`{uses}`" if uses else "as it is", f"{ms:.1f}", f"{low:.1f} … {high:.1f}", f"{row['median_ms']:.1f}",
                     f"{row['p10_ms']:.1f} … {row['p90_ms']:.1f}", f"{100 * (ms / row['median_ms'] - 1):+.0f} %"])
    return "\n".join(aligned(["change", "predicted ms", "band", "measured ms", "10 % … 90 %", "error"], rows))


if __name__ == "__main__":
    sys.exit(fitted.main(__doc__, lambda given: {README: with_between(README, MARK, text_of(given.program))}, gates.FORETRACE))
