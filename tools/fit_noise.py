"""Fits src/compare/noise/recordings.csv: how much recordings of one unchanged program differ.

Each figure is a standard deviation of log time, pooled over programs: the root of the mean variance, every program counting once, because
recordings of one program share its conditions. Its error is the jackknife's over programs. `left_out` judges every program by the
others: the share of its pairs of recordings that differ by less than the 99 % interval that one recording per side gets.
"""

import itertools
import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import fmean, median, pstdev, variance

import gates
import recordings
from truth import ROOT

NOISE = ROOT / "src" / "compare" / "noise" / "recordings.csv"
Values = dict[str, list[list[float]]]  # program -> groups of log times that should be equal


def compared(program: Path, files: list[Path]) -> list[dict]:
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda f: gates.ask(program, "compare", str(files[0]), str(f)), files))


def part(answer: dict, name: str) -> float:
    return next(p["after_ms"] for p in answer["parts"] if p["name"] == name)


def pooled(values: Values) -> float:
    return math.sqrt(fmean(fmean(variance(group) for group in groups) for groups in values.values()))


def quartile(values: Values) -> float:
    spread = sorted(pstdev(group) for groups in values.values() for group in groups)
    return spread[int(0.75 * len(spread))]


def largest(values: Values) -> float:
    return max(pstdev(group) for groups in values.values() for group in groups)


def jackknife(values: Values, figure: Callable[[Values], float]) -> float:
    if len(values) < 2:
        return 0
    parts = [figure({k: v for k, v in values.items() if k != left}) for left in values]
    return math.sqrt((len(parts) - 1) / len(parts) * sum((p - fmean(parts)) ** 2 for p in parts))


def quantile_99(freedom: int) -> float:
    """Of Student's t, by integrating its density."""
    constant = math.gamma((freedom + 1) / 2) / (math.sqrt(freedom * math.pi) * math.gamma(freedom / 2))
    step, t, mass = 0.001, 0.0, 0.0
    while mass < 0.495:
        mass += step * constant * (1 + (t + step / 2) ** 2 / freedom) ** (-(freedom + 1) / 2)
        t += step
    return t


def collect(program: Path) -> dict[str, tuple[Values, Callable[[Values], float]]]:
    values: dict[str, Values] = {name: {} for name in ("host_clean", "host_traced", "host_sessions", "gpu", "common", "long_kernel", "kernel",
                                                       "short_kernel", "host_copy", "cpu_op")}

    def add(figure: str, model: str, times: list[float]) -> None:
        values[figure].setdefault(model, []).append([math.log(t) for t in times])

    for model, (bound, times) in recordings.clean_steps().items():
        add("gpu" if bound else "host_clean", model, times)
    for model, files in recordings.repeated().items():
        answers = compared(program, files)
        add("host_traced", model, [part(a, "CPU work") for a in answers])
        add("host_sessions", model, [part(a, "CPU work") for a in answers])
        add("gpu", model, [part(a, "GPU work") for a in answers])
        add("common", model, [a["after"]["gpu_ms"] for a in answers])
        for figure, times in kernels([a["tables"] for a in answers]):
            add(figure, model, times)
    for model, files in recordings.on_other_days().items():
        answers = compared(program, files)
        # Another job under the same name is not the same work.
        same = [a for a in answers if not any(c["of"] in ("setup", "recording") for c in a["causes"]) and a["matched_share"] > 0.8]
        if len(same) > 1:
            add("host_sessions", model, [part(a, "CPU work") for a in same])
            add("gpu", model, [part(a, "GPU work") for a in same])
    # Copies from the host have two speeds, and one clock serves all kernels: the largest spread. Of kernels three quarters vary by less.
    how = {"host_copy": largest, "common": largest, **dict.fromkeys(("long_kernel", "kernel", "short_kernel", "cpu_op"), quartile)}
    return {name: (groups, how.get(name, pooled)) for name, groups in values.items()}


def kernels(tables: list[dict]) -> Iterator[tuple[str, list[float]]]:
    """Kernels launched once a step show what one kernel varies by; operations of the CPU are taken relative to all others."""
    for row in tables[0]["kernels"]:
        times = [next((r["after_ms"] for r in t["kernels"] if r["name"] == row["name"]), 0) for t in tables]
        if row["after_count"] != 1 or min(times) <= 0:
            continue
        copy = "HtoD" in row["name"] or "DtoH" in row["name"]
        yield "host_copy" if copy else "short_kernel" if median(times) < 0.005 else "kernel" if median(times) < 0.05 else "long_kernel", times
    whole = [sum(r["after_ms"] for r in t["cpu_operations"]) for t in tables]
    for row in tables[0]["cpu_operations"]:
        times = [next((r["after_ms"] for r in t["cpu_operations"] if r["name"] == row["name"]), 0) for t in tables]
        if min(times) > 0.02 * max(whole):
            yield "cpu_op", [t / w for t, w in zip(times, whole)]


def pairs(values: Values) -> int:
    return sum(len(group) * (len(group) - 1) // 2 for groups in values.values() for group in groups)


def left_out(program: Path) -> list[str]:
    """Every program judged by the noise of the others."""
    lines = []
    for name, (values, figure) in collect(program).items():
        if figure is not pooled:
            continue
        shares = {}
        for model, groups in values.items():
            others = {k: v for k, v in values.items() if k != model}
            limit = quantile_99(len(others)) * figure(others) * math.sqrt(2)
            inside = [abs(a - b) <= limit for group in groups for a, b in itertools.combinations(group, 2)]
            shares[model] = fmean(inside)
        worst = min(shares, key=lambda m: shares[m])
        lines.append(f"{name}: {100 * figure(values):.2f} % over {len(values)} programs; each by the others: {100 * fmean(shares.values()):.1f} % of its "
                     f"pairs inside the 99 % interval, worst {worst} {100 * shares[worst]:.0f} %")
    return lines


def write(program: Path) -> None:
    lines = ["# name,standard deviation of log time,programs,pairs of recordings,error: written by tools/compare_accuracy.py --write-noise"]
    for name, (values, figure) in collect(program).items():
        lines.append(f"{name},{figure(values):.4f},{len(values)},{pairs(values)},{jackknife(values, figure):.4f}")
    NOISE.write_text("\n".join(lines) + "\n")
    print(NOISE.read_text(), end="")
