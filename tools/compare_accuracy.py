#!/usr/bin/env python3
"""Does `foretrace compare` find what changed, on recordings whose difference is known?

    tools/compare_accuracy.py [--fast] [--gate] [--update-limits]     tables; a fixed subset; fails where something falls short
    tools/compare_accuracy.py --write-noise     writes src/compare/noise/recordings.csv from the repeated recordings (tools/fit_noise.py)
    tools/compare_accuracy.py --left-out        how well that table fits a program that it was not made from

named     base -> variant of every truth folder where both have a trace: the first sentence names the change, of a combination all parts
same      all pairs of the repeated recordings of one step (data/h200-clean/recordings): no difference may be claimed in 95 %
injected  one family of kernels with at least 5 % of GPU time made 5 % slower in a copy of a recording: found and named, against the
          recording itself and against another of the same program
gates     `compare --gate 3` on unchanged and slowed recordings (tools/compare_gates.py); limits in tools/compare_limits.json
whatif    `compare --whatif` on the pairs: GPU time and memory off by what tools/accuracy.py says of the row
"""

import gzip
import itertools
import json
import math
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import compare_gates
import fit_noise
import gates
from recordings import repeated
from truth import Folder, Row, default_folders, gpu_ms_of_trace

LEAST_SHARE = 0.05  # of GPU time, for a family to be slowed
SLOWER = 1.05
# Variants that change how it was recorded, and what the first sentence then has to say.
RECORDED = {"stack": "Python stacks", "plain": "without ranges that name layers"}


def compare(program: Path, *arguments: str) -> dict:
    return gates.ask(program, "compare", *arguments)


def each(program: Path, cases: list[tuple[str, ...]]) -> list[dict]:
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda case: compare(program, *case), cases))


def pairs() -> list[tuple[str, Path, Path, list[str], Row]]:
    """(name, base trace, variant trace, what changed, the variant's row)."""
    out: list[tuple[str, Path, Path, list[str], Row]] = []
    for folder in default_folders():
        rows = Folder(folder).rows
        bases = {r.model: r for r in rows if r.variant == "base" and r.trace}
        for row in rows:
            base = bases.get(row.model)
            if row.variant in ("base", "again") or base is None or base.trace is None or row.trace is None:
                continue
            want = [RECORDED[row.variant]] if row.variant in RECORDED else row.uses
            if want:
                out.append((f"{folder.name} {row.model} {row.variant}", base.trace, row.trace, want, row))
    return out


def names(answer: dict, want: list[str]) -> bool:
    """The causes said first are those wanted, in any order, and nothing comes before them."""
    causes = [c for c in answer.get("causes", []) if c["of"] in ("setup", "waits", "recording")]
    said = [c["whatif"] or c["what"] for c in causes[: len(want)]]
    return all(any(w == s or w in s for s in said) for w in want)


def named(program: Path, fast: bool) -> tuple[int, int, list[str]]:
    cases = pairs()[:: 8 if fast else 1]
    answers = each(program, [(str(a), str(b)) for _, a, b, _, _ in cases])
    wrong = [f"{name}: {want} — {(answer.get('sentences') or [answer.get('error')])[0]}"
             for (name, _, _, want, _), answer in zip(cases, answers) if not names(answer, want)]
    return len(cases) - len(wrong), len(cases), wrong


def same(program: Path, fast: bool) -> tuple[int, int, list[str]]:
    cases = [pair for files in repeated().values() for pair in itertools.combinations(files, 2)]
    cases = cases[:: 15 if fast else 1]
    answers = each(program, [(str(a), str(b)) for a, b in cases])
    wrong = [f"{a.name} {b.name}: {(answer.get('sentences') or [answer.get('error')])[0]}" for (a, b), answer in zip(cases, answers)
             if "error" in answer or answer["beyond_noise"] or answer["causes"]]
    return len(cases) - len(wrong), len(cases), wrong


def slowed(path: Path, kernels: set[str], out: Path) -> None:
    """The recording with these kernels longer; what came behind them on their stream moves back, as it would."""
    trace = json.loads(gzip.decompress(path.read_bytes()))
    for event in trace["traceEvents"]:
        if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset") and event["name"] in kernels:
            event["dur"] = event["dur"] * SLOWER
    out.write_bytes(gzip.compress(json.dumps(trace).encode(), 1))


def injected(program: Path, fast: bool) -> tuple[int, int, int, list[str], list[str]]:
    """Kernel names of a family are asked of the program: what it calls a family is what it has to name."""
    wrong, missed, found, crossed, cases = [], [], 0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        todo = []
        for model, files in repeated().items():
            families = families_of(program, files[0])
            whole = sum(ms for ms, _ in families.values())
            for family, (ms, kernels) in sorted(families.items()):
                if ms >= LEAST_SHARE * whole and family not in ("memory", "communication"):
                    todo.append((model, files, family, kernels))
        if fast:
            todo = todo[::6]
        rounds = 1 if fast else math.ceil(50 / len(todo))
        for turn in range(rounds):
            for model, files, family, kernels in todo:
                if cases >= 50:
                    break
                cases += 1
                before, other = files[turn % len(files)], files[(turn + 3) % len(files)]
                after = Path(folder) / f"{model}.{family.replace(' ', '-')}.{turn}.json.gz"
                slowed(before, kernels, after)
                mine, crossing = each(program, [(str(before), str(after)), (str(other), str(after))])
                said = [c["what"] for c in mine.get("causes", [])]
                if any(text.startswith(f"{family} kernels take") for text in said):
                    found += 1
                else:
                    wrong.append(f"{before.name} {family}: {said or mine.get('sentences') or mine.get('error')}")
                if any(c["what"].startswith(f"{family} kernels take") for c in crossing.get("causes", [])):
                    crossed += 1
                else:
                    missed.append(f"{other.name} {after.name}: not found")
                after.unlink()
    return found, crossed, cases, missed, wrong


def families_of(program: Path, path: Path) -> dict[str, tuple[float, set[str]]]:
    """GPU time and kernels of each family whose kernels no other family shares."""
    answer = compare(program, str(path), str(path))
    kinds = {k["name"]: set(k["families"]) for k in answer["tables"]["kernels"]}
    times = {f["name"]: f["before_ms"] for f in answer["tables"]["families"]}
    return {family: (ms, {k for k, of in kinds.items() if family in of}) for family, ms in times.items()}


def whatif(program: Path, fast: bool) -> tuple[int, int, list[str]]:
    import accuracy  # its Program asks for the list of what-ifs

    asked = accuracy.Program(program)
    wrong, cases = [], [c for c in pairs() if c[4].variant not in RECORDED and c[3] != ["gpu"]][:: 8 if fast else 1]
    for name, before, after, want, row in cases:
        base_ms = ["-m", str(row_base(row).median)]
        _, [prediction] = asked.predict(before, base_ms, [want])
        answer = compare(program, str(before), str(after), *itertools.chain.from_iterable(("--whatif", w) for w in want),
                                 "--before-ms", str(row_base(row).median), "--after-ms", str(row.median))
        mine = answer.get("prediction", {"declined": answer.get("error")})
        if "declined" in mine or "declined" in prediction:
            if ("declined" in mine) != ("declined" in prediction):
                wrong.append(f"{name}: {mine.get('declined')} / {prediction.get('declined')}")
            continue
        truth = 100 * (prediction["gpu_ms"] - row.gpu_ms) / row.gpu_ms if row.gpu_ms else None
        # The row speaks of all steps that were traced, the file kept some of them.
        kept = 110 * abs(gpu_ms_of_trace(after) / row.gpu_ms - 1) if row.gpu_ms else 0
        if truth is not None and abs(truth - mine["gpu_error_pct"]) > 0.1 + kept:
            wrong.append(f"{name}: GPU time {mine['gpu_error_pct']:+.1f} %, {truth:+.1f} % in docs/internals/accuracy.md")
        if row.peak_bytes and mine["memory_error_pct"] is not None:
            truth = 100 * (prediction["peak_bytes"] - row.peak_bytes) / row.peak_bytes
            if abs(truth - mine["memory_error_pct"]) > 0.6:
                wrong.append(f"{name}: memory {mine['memory_error_pct']:+.1f} %, {truth:+.1f} % in docs/internals/accuracy.md")
    return len(cases) - len(wrong), len(cases), wrong


def row_base(row):
    return next(r for r in Folder(row.folder).rows if r.model == row.model and r.variant == "base")


def main() -> int:
    parser = gates.parser(__doc__)
    parser.add_argument("--fast", action="store_true")
    parser.add_argument("--write-noise", action="store_true")
    parser.add_argument("--left-out", action="store_true")
    parser.add_argument("--only", choices=["named", "same", "injected", "whatif", "gates"])
    options = parser.parse_args()
    program = options.program
    if options.write_noise:
        fit_noise.write(program)
        return 0
    if options.left_out:
        print("\n".join(fit_noise.left_out(program)))
        return 0
    failed = False
    for name, needed in (("named", 1.0), ("same", 0.95), ("whatif", 1.0)):
        if options.only not in (None, name):
            continue
        good, of, wrong = {"named": named, "same": same, "whatif": whatif}[name](program, options.fast)
        print(f"{name}: {good} of {of}" + (f" ({100 * good / of:.1f} %)" if of else ""))
        for line in wrong:
            print(f"  {line}")
        failed |= good < needed * of or of == 0
    if options.only in (None, "injected"):
        found, crossed, cases, missed, wrong = injected(program, options.fast)
        print(f"injected: {found} of {cases} in a copy, {crossed} of {cases} against another recording")
        for line in wrong + missed:
            print(f"  {line}")
        failed |= found < cases or cases == 0
    if options.only in (None, "gates"):
        bad = compare_gates.judge(compare_gates.study(program, options.fast), options.fast, options.update_limits)
        failed |= gates.verdict(bad, options.gate) != 0
    return int(options.gate and failed)


if __name__ == "__main__":
    sys.exit(main())
