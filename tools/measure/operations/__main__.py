"""Times single operations on a GPU and writes a table of them.

    python -u -m tools.measure.operations --out DIR [--seconds 510] [--benchmark] [--only REGEX] [--done FILE…] [--share I/N] [--list | --dry]

Families (a kind and a name) take turns: the next batch is of the one that had the least time so far for its weight, so that a
run that ends early leaves a balanced table. DIR gets operations.csv, complete after every batch, and failed.txt.
`--done` names tables of earlier runs, whose cases are not measured again. `--benchmark` lets cuDNN try its algorithms instead of
asking its heuristic; in a process of its own, since PyTorch keeps one choice for both. A process that a case brought down
is started again without that case's batch. Where libraries compile kernels for every shape (fused attention, depthwise
convolutions) the host takes most of the time: several processes, each with `--share I/N`, prepare their cases side by side and
take turns with timing (`--turns FILE`, a file they lock). `--dry` builds and runs every case without memory, to see that it is well-formed.
"""

from __future__ import annotations

import argparse
import csv
import fcntl
import gzip
import itertools
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from . import attention, convolutions, gather, layers, products, recurrent, rows, spatial, streams
from .cases import Case

COLUMNS = ("kind", "name", "pass", "dtype", "layout", "benchmark", "shape", "kernel_us", "min_us", "busy_us", "n_kernels", "reps",
           "workspace_bytes", "kept_bytes", "kernels")
PASSES = 48  # in one profiler session
HUNG_S = 60


@dataclass
class Family:
    name: str
    weight: float
    cases: Iterator[Case]
    spent: float = 0.0


def families(only: re.Pattern[str] | None, skip: set[str], share: tuple[int, int] = (0, 1)) -> list[Family]:
    found = [Family(*f) for part in (convolutions, layers, products, recurrent, attention, rows, gather, spatial, streams) for f in part.families()]
    for family in found:
        cases = (list(group) for _, group in itertools.groupby(family.cases, key=lambda c: c.text))
        mine = itertools.chain.from_iterable(itertools.islice(cases, share[0], None, share[1]))
        family.cases = filter(lambda c: c.key not in skip, mine)
    return [f for f in found if not only or only.search(f.name)]


def keys_of(tables: list[Path], benchmark: bool) -> set[str]:
    found = set()
    for path in (p for p in tables if p.exists()):
        with (gzip.open if path.suffix == ".gz" else open)(path, "rt", newline="") as file:
            found |= {",".join(r[c] for c in ("kind", "name", "dtype", "layout", "shape")) for r in csv.DictReader(file)
                      if r["benchmark"] == str(int(benchmark))}
    return found


class Worker:
    def __init__(self, args: argparse.Namespace):
        from .timing import Clock
        self.out, self.end, self.benchmark = args.out, args.end, args.benchmark
        torch.backends.cudnn.benchmark = args.benchmark
        self.clock = Clock()
        self.begun = args.out / f"begun{int(args.benchmark)}.txt"
        skip = keys_of(args.done, args.benchmark) | (set(self.begun.read_text().splitlines()) if self.begun.exists() else set())
        self.families = families(args.only, skip, args.share)
        self.turns = open(args.turns, "a") if args.turns else None
        self.memory = args.memory * 1e9
        self.count = 0
        self.most_cases = max(4, PASSES // 3 // (1 + args.share[1] // 4))

    def run(self) -> None:
        started = time.time()
        while self.families and time.time() < self.end:
            family = min(self.families, key=lambda f: f.spent / f.weight)
            cases = list(itertools.islice(family.cases, self.most_cases))
            if not cases:
                self.families.remove(family)
                continue
            begin = time.time()
            self._batch(cases)
            family.spent += time.time() - begin
            print(f"{time.time() - started:.0f} s {family.name}: {len(cases)} cases in {time.time() - begin:.2f} s; {self.count} passes",
                  flush=True)

    def _batch(self, cases: list[Case]) -> None:
        with open(self.begun, "a") as file:
            file.writelines(c.key + "\n" for c in cases)
        timed: list = []
        for case in cases:
            if torch.cuda.memory_allocated() > self.memory / 2:
                self._finish(timed)
                timed = []
            try:
                timed += self.clock.prepared(case, case.build(case, "cuda"))
            except Exception as error:
                self._failed(case, f"{type(error).__name__}: {error}")
                if "illegal" in str(error) or "unspecified launch" in str(error):
                    raise
            if time.time() > self.end:
                break
        self._finish(timed)

    def _finish(self, timed: list) -> None:
        if timed and not self._timed(timed):
            for t in timed:
                self._failed(t.case, "marks were lost")
            return
        self._write([{"kind": t.case.kind, "name": t.case.name, "dtype": t.case.dtype, "layout": t.case.layout,
                      "benchmark": int(self.benchmark), "shape": t.case.text} | t.row() for t in timed])
        timed.clear()
        if torch.cuda.memory_reserved() > self.memory:
            torch.cuda.empty_cache()

    def _timed(self, passes: list) -> bool:
        if self.turns is None:
            return self.clock.time(passes)
        fcntl.flock(self.turns, fcntl.LOCK_EX)
        try:
            return self.clock.time(passes)
        finally:
            fcntl.flock(self.turns, fcntl.LOCK_UN)

    def _write(self, found: list[dict]) -> None:
        path = self.out / "operations.csv"
        first = not path.exists()
        with open(path, "a", newline="") as file:
            table = csv.DictWriter(file, COLUMNS)
            if first:
                table.writeheader()
            table.writerows(found)
        self.count += len(found)

    def _failed(self, case: Case, why: str) -> None:
        with open(self.out / "failed.txt", "a") as file:
            file.write(f"{case.key}\t{int(self.benchmark)}\t{why[:300]!r}\n")


def supervise(args: argparse.Namespace, command: list[str]) -> int:
    """Runs workers until the time is over or nothing is left; one that is stuck is ended."""
    while args.end - time.time() > 5:
        child = subprocess.Popen([*command, "--worker"])
        begun, last = args.out / f"begun{int(args.benchmark)}.txt", time.time()
        while child.poll() is None:
            time.sleep(0.2)
            if begun.exists():
                last = max(last, begun.stat().st_mtime)
            if time.time() - last > HUNG_S or time.time() > args.end + 10:
                print("stuck, or over time: ended", flush=True)
                child.kill()
                child.wait()
        if child.returncode == 0:
            return 0
        print(f"worker ended with {child.returncode}", flush=True)
    return 0


def dry(found: list[Family]) -> int:
    """Every family's first cases on the meta device, where shapes are computed and nothing else."""
    wrong = 0
    for family in found:
        count = 0
        for case in itertools.islice(family.cases, 12):
            try:
                for run in case.build(case, "meta"):
                    run.call(run.before() if run.before else None)
                count += 1
            except Exception as error:
                wrong += 1
                print(f"  {case.key}: {type(error).__name__}: {error}"[:300])
        print(f"{family.name}: {count} run", flush=True)
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(prog="tools.measure.operations", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("measured"))
    parser.add_argument("--seconds", type=float, default=510)
    parser.add_argument("--benchmark", action="store_true")
    parser.add_argument("--only", type=re.compile, help="only families in whose name this is found")
    parser.add_argument("--done", type=Path, nargs="*", default=[])
    parser.add_argument("--share", type=lambda text: tuple(map(int, text.split("/"))), default=(0, 1), metavar="I/N", help="every Nth shape from the Ith on")
    parser.add_argument("--turns", type=Path, help="a file that processes lock while they time")
    parser.add_argument("--memory", type=float, default=60, help="GB that a process may keep")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--dry", action="store_true")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--end", type=float, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.list or args.dry:
        found = families(args.only, keys_of(args.done, args.benchmark), args.share)
        if args.dry:
            return int(dry(found) > 0)
        for family in found:
            print(f"{family.name}: {sum(1 for _ in family.cases)} cases, weight {family.weight}")
        return 0
    args.out.mkdir(parents=True, exist_ok=True)
    args.end = args.end or time.time() + args.seconds
    if args.worker:
        Worker(args).run()
        return 0
    command = [sys.executable, "-u", "-m", "tools.measure.operations", "--out", str(args.out), "--end", str(args.end)]
    command += ["--benchmark"] * args.benchmark + (["--only", args.only.pattern] if args.only else [])
    command += ["--share", "/".join(map(str, args.share))] + (["--turns", str(args.turns)] if args.turns else [])
    command += ["--memory", str(args.memory)]
    command += ["--done", *map(str, args.done)] if args.done else []
    return supervise(args, command)


if __name__ == "__main__":
    sys.exit(main())
