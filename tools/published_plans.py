#!/usr/bin/env python3
"""Plans against published steps of other people's clusters, from decoders of the same width and few layers recorded on one GPU.

    tools/published_plans.py [DECODERS] [--source NAME] [--verbose] [--gate] [--update-limits] [--update-docs]

DECODERS (default: data/h200-decoders) holds `truth.jsonl` (the shape of each) and the traces next to it; published_plan_rows.py says which
row is asked of which decoder, and how. None of the rows is fitted on. A row that cannot be asked is counted with the reason.
"""

import collections
import dataclasses
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import mean, median

import gates
import published_plan_rows as published
from accuracy_tables import write_between
from truth import ROOT, json_lines

LIMITS = ROOT / "tools" / "published_plans_limits.json"
FABRICS = ROOT / "src" / "hardware" / "fabrics"
SLACK_PCT = 0.5
NEAR_BEST = 1.05  # a plan this near the measured best is as good


@dataclasses.dataclass
class Row:
    """A published step and what was predicted for it."""

    given: dict
    plan: str
    ms: float
    peak_bytes: float | None
    fits: bool

    @property
    def measured_ms(self) -> float:
        return float(self.given["step_ms"])

    @property
    def error(self) -> float:
        return self.ms / self.measured_ms - 1

    @property
    def memory_error(self) -> float | None:
        if not self.given["memory_gib"] or not self.peak_bytes:
            return None
        return self.peak_bytes / 2**30 / float(self.given["memory_gib"]) - 1


def release_means(rows: list[Row]) -> list[float]:
    """One mean of the absolute errors for each release of the source."""
    by_release = collections.defaultdict(list)
    for row in rows:
        by_release[row.given["source"]].append(abs(row.error))
    return [mean(errors) for errors in by_release.values()]


def sizes(rows: list[Row]) -> list[float]:
    return [abs(row.error) for row in rows]


@dataclasses.dataclass
class Source:
    name: str  # part of the column `source`
    title: str
    wanted: str
    judged: Callable[[list[Row]], float]
    belongs: Callable[[dict], bool] = lambda _: True
    fastest_repeat: bool = False


SOURCES = (
    Source("SimuMax b200", "SimuMax, cut Llama and DeepSeek, eight B200", "12 % mean", lambda rows: mean(sizes(rows))),
    Source("dgxc", "dgxc, Llama 8B pre-training, H100", "10 % mean of releases", lambda rows: mean(release_means(rows)), lambda r: "8B" in r["model"] and "SFT" not in r["model"]),
    Source("torchtitan", "torchtitan, Llama 8B to 405B, H100 of 500 W", "10 % mean", lambda rows: mean(sizes(rows))),
    Source("llm-foundry", "llm-foundry, MPT under FSDP, A100 and H100", "15 % median", lambda rows: median(sizes(rows))),
    Source("Playbook", "Ultra-Scale Playbook, 3B, H100 over EFA", "12 % median", lambda rows: median(sizes(rows)), fastest_repeat=True),
    Source("vTrain", "vTrain, GPT with TP × DP × PP, A100", "12 % mean", lambda rows: mean(sizes(rows))),
)


def fastest(rows: list[dict]) -> list[dict]:
    """Of repeats of one configuration, the fastest."""
    best: dict[tuple, dict] = {}
    for row in rows:
        key = (row["gpus"], row["global_batch"], published.plan_of(row))
        if key not in best or float(row["step_ms"]) < float(best[key]["step_ms"]):
            best[key] = row
    return list(best.values())


def fabric_argument(question: published.Question, folder: Path) -> str:
    if question.per_gpu_gbs is None:
        return question.fabric
    head, *levels = (FABRICS / f"{question.fabric}.toml").read_text().split("[[level]]")
    lines = [f"gbs = {question.per_gpu_gbs:g}" if line.startswith("gbs") else line for line in levels[-1].splitlines()]
    file = folder / f"{question.fabric}-{question.per_gpu_gbs:g}.toml"
    file.write_text("[[level]]".join([head, *levels[:-1], "\n".join(lines) + "\n"]))
    return str(file)


def predict(rows: list[dict], decoders: list[dict], folder: Path, options) -> tuple[list[Row], collections.Counter]:
    asked: dict[published.Question, list[tuple[str, dict]]] = collections.defaultdict(list)
    missing: collections.Counter = collections.Counter()
    for row in rows:
        question = published.question_of(row, decoders)
        if isinstance(question, str):
            missing[question] += 1
        else:
            asked[question].append((published.plan_of(row), row))
    found = []
    for q, plans in asked.items():
        command = ["--fabric", fabric_argument(q, folder), "--layers", str(q.layers), "--global-batch", f"{q.batch:g}", "--gpu", q.gpu]
        command += [word for plan in sorted({plan for plan, _ in plans}) for word in ("--plan", plan or "tp=1")]
        for changes in dict.fromkeys(((*q.changes, *q.wanted), q.changes)):
            answer = gates.ask(options.program, "scale", str(options.decoders / q.trace), *changes, *command)
            if "predictions" in answer:
                break
        if "predictions" not in answer:
            missing[str(answer.get("error", answer))[:90]] += len(plans)
            continue
        # Those it declines come last, and keys in an order of its own.
        answers = {keys_of(p["plan"]): p for p in answer["predictions"]}
        for plan, row in plans:
            p = answers[keys_of(plan)]
            if "ms" in p:
                found.append(Row(row, plan, p["ms"], p["peak_bytes"], p["fits"]))
            else:
                missing[p.get("declined", "not answered")[:90]] += 1
    return found, missing


def keys_of(plan: str) -> frozenset[str]:
    return frozenset(plan.split(","))


def ranks_of(values: list[float]) -> list[float]:
    order = sorted(range(len(values)), key=lambda i: values[i])
    ranks = [0.0] * len(values)
    for place, i in enumerate(order):
        ranks[i] = float(place)
    return ranks


def rank_correlation(rows: list[Row]) -> float:
    """Spearman's, of predicted and measured steps."""
    a, b = ranks_of([r.ms for r in rows]), ranks_of([r.measured_ms for r in rows])
    middle = (len(rows) - 1) / 2
    return sum((x - middle) * (y - middle) for x, y in zip(a, b)) / sum((x - middle) ** 2 for x in a)


def best_plans(rows: list[Row]) -> tuple[int, int]:
    """Numbers of nodes for which the plan predicted fastest is near the measured best, and those with several rows."""
    by_gpus = collections.defaultdict(list)
    for row in rows:
        by_gpus[row.given["gpus"]].append(row)
    several = [of for of in by_gpus.values() if len(of) > 1]
    near = sum(min(of, key=lambda r: r.ms).measured_ms <= NEAR_BEST * min(r.measured_ms for r in of) for of in several)
    return near, len(several)


def show(source: Source, rows: list[Row]) -> None:
    for row in rows:
        line = f"  {row.given['model']:18} {row.given['gpus']:>5} {row.plan:58} {row.measured_ms:9.1f} {row.ms:9.1f} {100 * row.error:+6.1f} %"
        if row.memory_error is not None:
            line += f"  {float(row.given['memory_gib']):6.1f} GiB {100 * row.memory_error:+6.1f} %"
        print(line)


def figures_of(source: Source, rows: list[Row]) -> dict[str, float]:
    figures = {"judged_pct": 100 * source.judged(rows), "median_pct": 100 * median(sizes(rows))}
    if memory := [abs(r.memory_error) for r in rows if r.memory_error is not None]:
        figures |= {"memory_pct": 100 * mean(memory), "refused_pct": 100 * mean(not r.fits for r in rows if r.memory_error is not None)}
    return figures


def main() -> int:
    parser = gates.parser(__doc__)
    parser.add_argument("decoders", type=Path, nargs="?", default=ROOT / "data" / "h200-decoders")
    parser.add_argument("--source", action="append")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--update-docs", action="store_true", help="write the table into docs/internals/scale.md")
    options = parser.parse_args()
    table = Path(os.environ.get("FORETRACE_PUBLIC", "")) / "parallel" / "training-steps.csv.gz"
    if not table.is_file() or not (options.decoders / "truth.jsonl").is_file():
        print("published_plans: no published steps (set FORETRACE_PUBLIC), or no decoders")
        return 77
    decoders = json_lines(options.decoders / "truth.jsonl")
    usable = published.rows_of(table)
    lines = ["| source | rows | step: wanted | reached | median, signed | memory | fits |", "|---|---:|---|---:|---:|---:|---:|"]
    reached, bad, held = {}, [], gates.load(LIMITS)
    for source in SOURCES:
        if options.source and not any(name in source.name for name in options.source):
            continue
        of = [r for r in usable if source.name in r["source"] and source.belongs(r)]
        of = fastest(of) if source.fastest_repeat else of
        with tempfile.TemporaryDirectory() as folder:
            rows, missing = predict(of, decoders, Path(folder), options)
        if options.verbose:
            show(source, rows)
        for why, count in missing.most_common():
            print(f"{source.name}: {count} of {len(of)} not predicted: {why}")
        if not rows:
            continue
        now = figures_of(source, rows)
        signed = 100 * median(r.error for r in rows)
        memory = f"{now['memory_pct']:.1f} %" if "memory_pct" in now else "–"
        fits = f"{100 - now['refused_pct']:.0f} %" if "refused_pct" in now else "–"
        lines.append(f"| {source.title} | {len(rows)} of {len(of)} | {source.wanted} | {now['judged_pct']:.1f} % | {signed:+.1f} % | {memory} | {fits} |")
        print(lines[-1])
        if source.fastest_repeat:
            near, several = best_plans(rows)
            lines.append(f"| … order of its plans | {len(rows)} | rank correlation 0.9; best plan in 5 of 6 | {rank_correlation(rows):.2f}; {near} of {several} | | | |")
            print(lines[-1])
        reached[source.name] = now
        bad += gates.over(source.name, now, held.get(source.name, {}), SLACK_PCT)
    if options.update_docs:
        write_between(ROOT / "docs" / "internals" / "scale.md", "published plans", "\n".join(lines))
    if options.update_limits:
        gates.save(LIMITS, gates.rounded(held | reached))
    return gates.verdict(bad, options.gate)


if __name__ == "__main__":
    sys.exit(main())
