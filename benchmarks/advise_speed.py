#!/usr/bin/env python3
"""How long `foretrace advise` takes, beside what it takes to read the same trace and replay its step.

    benchmarks/advise_speed.py                          three traces, best of five
    benchmarks/advise_speed.py --against OTHER          also another binary: ratios, and whether the answers are equal

The traces: the one in examples/, bert_base.base of $FORETRACE_TRUTH/h200 when that is set, and one step of 250,000 events
made of it (make_trace --one-step), else of the first. Seconds are those of the whole process, with all threads the machine has.
`of a replay` divides by `foretrace replay` of the same file, run in turn with it, so that machines and busy moments compare.
"""

import argparse
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

from run import ROOT, shown, wait_until_idle

EVENTS = "250k"


class Timed:
    """The best of several runs of a command."""

    def __init__(self, *command: object) -> None:
        self.command = [str(part) for part in command]
        self.wall = self.cpu = float("inf")
        self.output = b""

    def run(self) -> None:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        begin = time.monotonic()
        self.output = subprocess.run(self.command, stdout=subprocess.PIPE, check=True).stdout
        wall = time.monotonic() - begin
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.wall = min(self.wall, wall)
        self.cpu = min(self.cpu, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def traces(build: Path) -> list[tuple[Path, float]]:
    """(file, goal in seconds on two cores)"""
    found = [(ROOT / "examples" / "resnet50-h200.json.gz", 0.5)]
    truth = os.environ.get("FORETRACE_TRUTH")
    if truth and (bert := Path(truth, "h200", "bert_base.base.json.gz")).exists():
        found.append((bert, 1.0))
    source = found[-1][0]
    large = build / "bench" / f"one-step-{EVENTS}-{source.name.split('.')[0]}.json"
    if not large.exists():
        large.parent.mkdir(exist_ok=True)
        subprocess.run([build / "benchmarks" / "make_trace", "--events", EVENTS, "--one-step", "-o", large, source],
                       check=True)
    return [*found, (large, 4.0)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--against", type=Path, help="another foretrace")
    options = parser.parse_args()
    same = True
    for path, goal in traces(options.build):
        advise = Timed(options.build / "foretrace", "advise", "--json", path)
        replay = Timed(options.build / "foretrace", "replay", path)
        other = Timed(options.against, "advise", "--json", path) if options.against else None
        wait_until_idle()
        for _ in range(options.repetitions):
            for timed in filter(None, (advise, replay, other)):
                timed.run()
        print(f"{shown(path)}: advise {advise.wall:.2f} s ({advise.cpu:.2f} s of processors), goal <= {goal} s "
              f"{'ok' if advise.wall <= goal else 'MISS'}; {advise.cpu / replay.cpu:.1f} of a replay", flush=True)
        if other:
            equal = other.output == advise.output
            same &= equal
            print(f"  {shown(options.against)}: {other.wall:.2f} s ({other.cpu:.2f} s of processors), "
                  f"{other.cpu / advise.cpu:.1f} x as many; answers {'equal' if equal else 'DIFFER'}", flush=True)
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
