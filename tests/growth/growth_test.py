#!/usr/bin/env python3
"""The cost of a command grows with the input, not with its square: for traces of many shapes (shapes.py), the CPU time for twice the
events is less than three times as much. Ratios, not seconds, and the best of several runs, so that a busy machine does not decide.

  FORETRACE_PROGRAM=build/foretrace tests/growth/growth_test.py [--all] [SHAPE…]

Without --all: the shapes that once failed, with a few commands, at small sizes. --all: every shape with every command that reads, and
files of ten million events, which must stay below 2 GB and 20 s of CPU time.
"""

import argparse
import gzip
import os
import pathlib
import resource
import subprocess
import sys
import tempfile

import shapes

PROGRAM = os.environ.get("FORETRACE_PROGRAM", str(pathlib.Path(__file__).resolve().parents[2] / "build" / "foretrace"))
MOST = 3.0  # times the CPU time for twice the input: 2 is linear, 4 is the square
TOO_SHORT_S = 0.12  # what ends sooner has no room for a square
ONCE_FAILED = ["overlap", "overlap_streams", "threads", "deep", "deep_launched", "same_correlation", "nested_steps", "layers"]
FEW = [("doctor", "{trace}"), ("replay", "{trace}"), ("whatif", "{trace}", "amp")]
ALL = [*FEW, ("summary", "{trace}"), ("graph", "dump", "{trace}"), ("advise", "{trace}"), ("ranks", "{trace}"), ("gpus", "{trace}"),
       ("export", "{trace}", "-o", "{folder}/out.json"), ("report", "{trace}", "-o", "{folder}/out.html"),
       ("scale", "{trace}", "--fabric", "100GbE")]  # fmt: skip


def used(command):
    """CPU seconds and most memory (bytes) of a command, which must answer or decline."""
    done = subprocess.Popen([PROGRAM, *command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    _, status, usage = os.wait4(done.pid, 0)
    code = os.waitstatus_to_exitcode(status)
    message = done.stderr.read().decode(errors="replace")
    done.stderr.close()
    assert code in (0, 3, 4), f"{' '.join(command)}: exit {code}: {message[-500:]}"
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, code


def ratio(command, folder, name):
    """The smallest of up to three."""
    best = float("inf")
    for _ in range(3):
        small, large = (used([w.format(trace=f"{folder}/{name}{k}.json", folder=folder) for w in command])[0] for k in (1, 2))
        if large < TOO_SHORT_S:
            return 2.0
        best = min(best, large / small)
        if best < MOST:
            break
    return best


def grow(names, commands, events, folder):
    failed = []
    for name in names:
        for k in (1, 2):
            shapes.write(name, k * events, f"{folder}/{name}{k}.json")
        found = {command[0]: ratio(command, folder, name) for command in commands}
        print(f"{name:22}", " ".join(f"{verb} {r:.1f}" for verb, r in found.items()), flush=True)
        failed += [f"{name}, {verb}: {r:.1f} times the CPU time for twice the events" for verb, r in found.items() if r >= MOST]
        for k in (1, 2):
            os.remove(f"{folder}/{name}{k}.json")
    return failed


def packed(path, begin, record, count, end):
    with gzip.open(path, "wb", compresslevel=6) as out:
        out.write(begin)
        block = b",".join([record] * 10_000)
        for i in range(count // 10_000):
            out.write((b"," if i else b"") + block)
        out.write(end)


def refuse_nesting(folder):
    """A megabyte of gzip that holds a gigabyte of brackets is refused after the first of them."""
    failed = []
    for what, begin, bracket in (("array", b"", b"["), ("event", b'{"traceEvents": [', b'{"a":'), ("head", b'{"x": ', b"[")):
        path = f"{folder}/nested.json.gz"
        with gzip.open(path, "wb", compresslevel=6) as out:
            out.write(begin)
            for _ in range(300):
                out.write(bracket * (1 << 20))
        seconds, memory, code = used(["doctor", path])
        print(f"nested {what}: {seconds:.2f} s, {memory / 1e6:.0f} MB")
        if code != 3 or seconds > 2 or memory > 1e9:
            failed.append(f"nested {what}: exit {code}, {seconds:.1f} s, {memory / 1e9:.1f} GB")
    return failed


def ten_million(folder):
    """A few megabytes of gzip that hold ten million events."""
    records = {"kernels": b'{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":1,"args":{"stream":7,"device":0}}',
               "operations": b'{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1,"dur":1}',
               "calls": b'{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":1,"dur":1,"args":{"correlation":1}}',
               "ranges": b'{"ph":"X","cat":"user_annotation","name":"ProfilerStep#1","pid":1,"tid":1,"ts":1,"dur":1}',
               "plain": b'{"ph":"X","name":"a","pid":1,"tid":1,"ts":1,"dur":1}'}  # fmt: skip
    failed = []
    for what, record in records.items():
        path = f"{folder}/{what}.json.gz"
        packed(path, b'{"traceEvents":[', record, 10_000_000, b"]}")
        for command in (["doctor", path], ["summary", path], ["whatif", path, "amp"]):
            seconds, memory, code = used(command)
            print(f"10 M {what}, {command[0]}: {seconds:.1f} s of CPU, {memory / 1e9:.2f} GB, exit {code}", flush=True)
            if seconds > 20 or memory > 2e9:
                failed.append(f"10 M {what}, {command[0]}: {seconds:.1f} s, {memory / 1e9:.2f} GB")
        os.remove(path)
    return failed


def bounded(folder):
    """--max-memory holds, and its error names it."""
    path = f"{folder}/bound.json.gz"
    packed(path, b'{"traceEvents":[', b'{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":1}', 4_000_000, b"]}")
    failed = []
    for verb in ("doctor", "summary", "replay", "advise", "ranks"):
        done = subprocess.run([PROGRAM, verb, path, "--max-memory", "0.15"], capture_output=True, text=True, check=False)
        if done.returncode != 3 or "--max-memory" not in done.stderr:
            failed.append(f"{verb} --max-memory 0.15: exit {done.returncode}: {done.stderr[-300:]}")
    _, memory, _ = used(["doctor", path, "--max-memory", "0.15"])
    if memory > 0.25e9:
        failed.append(f"doctor --max-memory 0.15 took {memory / 1e9:.2f} GB")
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("shapes", nargs="*", choices=[[], *shapes.SHAPES])
    args = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with tempfile.TemporaryDirectory(prefix="growth-") as folder:
        names = args.shapes or (list(shapes.SHAPES) if args.all else ONCE_FAILED)
        failed = grow(names, ALL if args.all else FEW, 20_000 if args.all else 10_000, folder)
        if not args.shapes:
            failed += refuse_nesting(folder) + bounded(folder)
        if args.all and not args.shapes:
            failed += ten_million(folder)
    print("\n".join(failed) if failed else "growth: all linear")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
