#!/usr/bin/env python3
"""A change that a step already has: every what-if on the traces of steps that have it must be declined, with a reason that says
so, or leave the step within 1 % of what it is; and no step may be said to have what it has not. Prints what fails.

    tools/already_there.py               the truth folders of data/, and of $FORETRACE_TRUTH where set
    tools/already_there.py --rows        also what each trace has, and the answer
    tools/already_there.py --gate        fails where a change is neither declined nor without effect, and where one is declined
                                         as already there that is not

What a step has comes from the switches its row was measured with, never from the program.
"""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import accuracy
import gates
from accuracy_tables import aligned
from truth import ROOT, Folder, Row

UNCHANGED_PCT = 1.0
# What a switch stands for, by its value: the changes a step with it has. A fused update has no use for lists of tensors.
HAS: dict[str, dict[object, list[str]]] = {
    "amp": {"fp16": ["amp", "amp:dtype=bf16"], "bf16": ["amp:dtype=bf16", "amp"]},
    "weights": {"bf16": ["amp:dtype=bf16", "amp"]},
    "tf32": {1: ["tf32"]},
    "opt": {"fused": ["fused-optimizer", "foreach-optimizer"], "foreach": ["foreach-optimizer"]},
    "attn": {"sdpa": ["flash-attention"]},
    "cl": {1: ["channels-last"]},
    "compile": {1: ["compile", "batchnorm"]},
    "graph": {1: ["cuda-graph"]},
    "ckpt": {"plain": ["checkpoint"], "reentrant": ["checkpoint:reentrant=1"]},
    "accum": {2: ["accumulate:n=2"], 4: ["accumulate:n=4"]},
    "offload": {1: ["offload"]},
    "nosync": {1: ["no-sync"]},
}
# Traces of ranks say what they are in their names: MODEL.TAG.CASE.wN.rK.
SCHEMES = {"ddp": ["ddp", "bucket:mb={mb}"], "ddpfp16": ["ddp", "compress-gradients:method=fp16"], "fsdp": ["fsdp", "zero3"]}
IN_FP32 = "h200-ranks"  # ranks of other folders train in BF16 with fused updates
SWITCHED = ["amp", "tf32", "fused-optimizer", "foreach-optimizer", "flash-attention", "channels-last", "compile", "cuda-graph", "checkpoint",
            "accumulate:n=2", "offload", "ddp", "fsdp"]
# The compiler lays convolutions out as it likes; several ranks have what their case is made of.
NOT_SWITCHED = {"compile": ["channels-last"], "graph": ["channels-last"]}
# Networks that have something whatever is switched: torchvision attention calls the fused kernels.
BUILT_IN = {"vit_b_16": ["flash-attention"], "wav2vec": ["flash-attention"]}


@dataclass
class Case:
    trace: Path
    has: list[str]
    lacks: list[str]


@dataclass
class Answer:
    trace: Path
    use: str
    had: bool
    declined: str | None
    off_pct: float

    @property
    def holds(self) -> bool:
        if not self.had:
            return "already" not in (self.declined or "")
        return self.declined is not None or abs(self.off_pct) <= UNCHANGED_PCT


def case_of(row: Row) -> Case:
    assert row.trace is not None
    switches = row.data.get("switches") or {}
    has = [use for name, values in HAS.items() for use in values.get(switches.get(name), [])]
    open_ = [use for name, uses in NOT_SWITCHED.items() if switches.get(name) for use in uses]
    open_ += next((uses for network, uses in BUILT_IN.items() if row.model.startswith(network)), [])
    return Case(row.trace, has, [use for use in SWITCHED if use not in has + open_])


def cases(folders: list[Path]) -> list[Case]:
    """Every trace, and what it has."""
    found: dict[Path, Case] = {}
    for folder in folders:
        for row in Folder(folder, every=True).rows:
            if row.trace:
                found.setdefault(row.trace, case_of(row))
        for trace in sorted(folder.glob("*.w?.r0.json.gz")):
            scheme, _, bucket = trace.name.split(".")[2].partition("@")
            if scheme in SCHEMES:
                lacks = ["amp", "fused-optimizer", "cuda-graph"] if folder.name == IN_FP32 else ["cuda-graph"]
                found[trace] = Case(trace, [use.format(mb=bucket or 25) for use in SCHEMES[scheme]], lacks)
    return list(found.values())


def folders_at_hand() -> list[Path]:
    places = [ROOT / "data"] + ([Path(os.environ["FORETRACE_TRUTH"])] if os.environ.get("FORETRACE_TRUTH") else [])
    return [p.parent for place in places for p in sorted(place.glob("*/truth.jsonl"))]


def judge(program: accuracy.Program, case: Case) -> list[Answer]:
    uses = case.has + case.lacks
    answer = program.run("whatif", str(case.trace), *uses)
    if "predictions" not in answer:
        raise SystemExit(f"already_there: {case.trace}: {answer.get('error', 'no answer')}")
    now = answer["baseline"]["unprofiled_ms"]
    return [Answer(case.trace, use, use in case.has, p.get("declined"), 0.0 if "declined" in p else 100 * (p["ms"] / now - 1))
            for use, p in zip(uses, answer["predictions"])]


def main() -> int:
    parser = gates.parser(__doc__, limits=False)
    parser.add_argument("--rows", action="store_true")
    options = parser.parse_args()
    program = accuracy.Program(options.program)
    with ThreadPoolExecutor(2) as pool:
        found = [a for answers in pool.map(lambda c: judge(program, c), cases(folders_at_hand())) for a in answers]
    shown = found if options.rows else [a for a in found if not a.holds]
    if shown:
        print("\n".join(aligned(["trace", "what if", "step %", "declined"], [
            [f"{a.trace.parent.name}/{a.trace.name}", a.use, "–" if a.declined else f"{a.off_pct:+.1f}", a.declined or "–"] for a in shown])))
    bad = [a for a in found if not a.holds]
    had = [a for a in found if a.had]
    declined = sum(a.declined is not None for a in had)
    neither = sum(not a.holds for a in had)
    print(f"{len(had)} changes that {len({a.trace for a in had})} steps already have: {declined} declined, {len(had) - declined - neither} within "
          f"{UNCHANGED_PCT:g} %, {neither} neither; {len(found) - len(had)} that they have not: {len(bad) - neither} called already there")
    return 1 if options.gate and (bad or not had) else 0


if __name__ == "__main__":
    sys.exit(main())
