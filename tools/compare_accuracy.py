#!/usr/bin/env python3
"""What `foretrace compare` is worth, on recordings whose difference is known.

    tools/compare_accuracy.py                everything below, as tables
    tools/compare_accuracy.py --fast         a fixed subset, in seconds
    tools/compare_accuracy.py --gate         fails where something falls short
    tools/compare_accuracy.py --write-noise  writes src/compare/noise/recordings.csv from the repeated recordings

named     base -> variant of every truth folder where both have a trace: the first sentence names the change, of a combination all
          parts, before anything else
same      all pairs of the repeated recordings of one step (data/h200-clean/recordings): no difference may be claimed in 95 %
injected  one family of kernels that holds at least 5 % of GPU time made 5 % slower in a copy of a recording: found and named; against
          the recording itself, and against another recording of the same program
whatif    `compare --whatif` on the pairs: GPU time and memory off by what tools/accuracy.py says of the row
"""

import argparse
import gzip
import itertools
import json
import math
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median, pstdev

from truth import ROOT, Folder, Row, default_folders, gpu_ms_of_trace, whatifs_of

RECORDINGS = ROOT / "data" / "h200-clean" / "recordings"
NOISE = ROOT / "src" / "compare" / "noise" / "recordings.csv"
LEAST_SHARE = 0.05  # of GPU time, for a family to be slowed
SLOWER = 1.05
# Variants that change how it was recorded, and what the first sentence then has to say.
RECORDED = {"stack": "Python stacks", "plain": "without ranges that name layers"}


class Program:
    def __init__(self, path: Path):
        self.path = path

    def compare(self, *arguments: str) -> dict:
        done = subprocess.run([str(self.path), "compare", *arguments, "--json"], capture_output=True, text=True, check=False)
        try:
            return json.loads(done.stdout)
        except json.JSONDecodeError:
            return {"error": done.stderr.strip() or f"exit {done.returncode}"}

    def each(self, cases: list[tuple[str, ...]]) -> list[dict]:
        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(lambda case: self.compare(*case), cases))


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
            want = [RECORDED[row.variant]] if row.variant in RECORDED else whatifs_of(row.variant)
            if want:
                out.append((f"{folder.name} {row.model} {row.variant}", base.trace, row.trace, want, row))
    return out


def names(answer: dict, want: list[str]) -> bool:
    """The causes said first are those wanted, in any order, and nothing comes before them."""
    causes = [c for c in answer.get("causes", []) if c["of"] in ("setup", "waits", "recording")]
    said = [c["whatif"] or c["what"] for c in causes[: len(want)]]
    return all(any(w == s or w in s for s in said) for w in want)


def named(program: Program, fast: bool) -> tuple[int, int, list[str]]:
    cases = pairs()[:: 8 if fast else 1]
    answers = program.each([(str(a), str(b)) for _, a, b, _, _ in cases])
    wrong = [f"{name}: {want} — {(answer.get('sentences') or [answer.get('error')])[0]}"
             for (name, _, _, want, _), answer in zip(cases, answers) if not names(answer, want)]
    return len(cases) - len(wrong), len(cases), wrong


def by_model() -> dict[str, list[Path]]:
    out: dict[str, list[Path]] = {}
    for path in sorted(RECORDINGS.glob("*.json.gz")):
        out.setdefault(path.name.split(".base")[0], []).append(path)
    return out


def same(program: Program, fast: bool) -> tuple[int, int, list[str]]:
    cases = [pair for files in by_model().values() for pair in itertools.combinations(files, 2)]
    cases = cases[:: 15 if fast else 1]
    answers = program.each([(str(a), str(b)) for a, b in cases])
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


def injected(program: Program, fast: bool) -> tuple[int, int, int, list[str], list[str]]:
    """Kernel names of a family are asked of the program: what it calls a family is what it has to name."""
    wrong, missed, found, crossed, cases = [], [], 0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        todo = []
        for model, files in by_model().items():
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
                mine, crossing = program.each([(str(before), str(after)), (str(other), str(after))])
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


def families_of(program: Program, path: Path) -> dict[str, tuple[float, set[str]]]:
    """GPU time and kernels of each family whose kernels no other family shares."""
    answer = program.compare(str(path), str(path))
    kinds = {k["name"]: set(k["families"]) for k in answer["tables"]["kernels"]}
    times = {f["name"]: f["before_ms"] for f in answer["tables"]["families"]}
    return {family: (ms, {k for k, of in kinds.items() if family in of}) for family, ms in times.items()}


def whatif(program: Program, fast: bool) -> tuple[int, int, list[str]]:
    import accuracy  # its Program asks for the list of what-ifs

    asked = accuracy.Program(program.path)
    wrong, cases = [], [c for c in pairs() if c[4].variant not in RECORDED and c[3] != ["gpu"]][:: 8 if fast else 1]
    for name, before, after, want, row in cases:
        base_ms = ["-m", str(row_base(row).median)]
        _, [prediction] = asked.predict(before, base_ms, [want])
        answer = program.compare(str(before), str(after), *itertools.chain.from_iterable(("--whatif", w) for w in want),
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


def write_noise(program: Program) -> None:
    """Standard deviations of log time between recordings of one program; the largest of the programs, so that none is claimed."""
    spread: dict[str, list[float]] = {}
    singles: dict[str, list[float]] = {}
    for files in by_model().values():
        answers = program.each([(str(files[0]), str(f)) for f in files])
        clean = [math.log(a["after"]["clean_ms"]) for a in answers]
        traced = [math.log(a["after"]["traced_ms"]) for a in answers]
        gpu = [math.log(a["after"]["gpu_ms"]) for a in answers]
        bound = answers[0]["after"]["gpu_ms"] > 0.9 * answers[0]["after"]["clean_ms"]
        spread.setdefault("gpu" if bound else "host_clean", []).append(pstdev(clean))
        spread.setdefault("gpu" if bound else "host_traced", []).append(pstdev(traced))
        spread.setdefault("common", []).append(pstdev(gpu))
        collect_kernels([a["tables"] for a in answers], singles)
    lines = ["# what,standard deviation of log time between recordings: written by tools/compare_accuracy.py --write-noise"]
    for name in ("host_clean", "host_traced", "gpu", "common"):
        lines.append(f"{name},{max(spread[name]):.4f}")
    for name in ("long_kernel", "kernel", "short_kernel", "host_copy", "cpu_op"):
        values = sorted(singles[name])
        # Copies from the host have two speeds: the largest spread seen. Of the others three quarters scatter by less.
        at = len(values) - 1 if name == "host_copy" else int(0.75 * len(values))
        lines.append(f"{name},{values[at]:.4f}")
    NOISE.write_text("\n".join(lines) + "\n")
    print(NOISE.read_text(), end="")


def collect_kernels(tables: list[dict], out: dict[str, list[float]]) -> None:
    """Kernels launched once a step tell what one kernel scatters by; operations of the CPU against all others."""
    for row in tables[0]["kernels"]:
        count = row["after_count"]
        values = [next((r["after_ms"] for r in t["kernels"] if r["name"] == row["name"]), 0) for t in tables]
        if count != 1 or min(values) <= 0:
            continue
        copy = "HtoD" in row["name"] or "DtoH" in row["name"]
        kind = "host_copy" if copy else "short_kernel" if median(values) < 0.005 else "kernel" if median(values) < 0.05 else "long_kernel"
        out.setdefault(kind, []).append(pstdev(math.log(v) for v in values))
    whole = [sum(r["after_ms"] for r in t["cpu_operations"]) for t in tables]
    for row in tables[0]["cpu_operations"]:
        values = [next((r["after_ms"] for r in t["cpu_operations"] if r["name"] == row["name"]), 0) for t in tables]
        if min(values) > 0.02 * max(whole):
            out.setdefault("cpu_op", []).append(pstdev(math.log(v / w) for v, w in zip(values, whole)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, default=ROOT / "build" / "foretrace")
    parser.add_argument("--fast", action="store_true")
    parser.add_argument("--gate", action="store_true")
    parser.add_argument("--write-noise", action="store_true")
    parser.add_argument("--only", choices=["named", "same", "injected", "whatif"])
    options = parser.parse_args()
    program = Program(options.program)
    if options.write_noise:
        write_noise(program)
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
    return int(options.gate and failed)


if __name__ == "__main__":
    sys.exit(main())
