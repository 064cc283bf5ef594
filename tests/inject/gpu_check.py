#!/usr/bin/env python3
"""The injection library on a GPU: runs gpu_program.cu under `foretrace record --cuda`, to each of its ends, and compares what it says
it did with what was recorded. Needs nvcc, a GPU and the library. Prints PASS and exits with 0, or what is wrong and exits with 1.

    python3 tests/inject/gpu_check.py --library build/inject/libforetrace_cuda.so [--out FOLDER]      FOLDER keeps the recordings
"""

import argparse
import collections
import gzip
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
failures = []


def check(ok, text):
    print(f"  {'ok  ' if ok else 'FAIL'} {text}", flush=True)
    if not ok:
        failures.append(text)


class Runs:
    def __init__(self, library, out, program):
        self.out, self.program = out, program
        self.environment = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE")} | {
            "FORETRACE_CUDA_LIBRARY": str(library), "PYTHONPATH": str(ROOT / "python")}

    def start(self, name, *arguments):
        # A program of neither PyTorch nor JAX is recorded without being asked to.
        command = [sys.executable, "-m", "foretrace", "record", *(() if name == "unasked" else ("--cuda",)), "-o", str(self.out / f"{name}.json.gz"), "--",
                   str(self.program), *arguments]
        return subprocess.Popen(command, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                start_new_session=True)

    def run(self, name, *arguments):
        return self.finish(name, self.start(name, *arguments))

    def finish(self, name, process):
        out, err = process.communicate(timeout=60)
        print(f"{name}: exit {process.returncode}; {err.strip()}", flush=True)
        path = self.out / f"{name}.json.gz"
        trace = None
        if path.exists():
            with gzip.open(path) as file:
                trace = json.load(file)
        left = [p.name for p in self.out.iterdir() if p.name.startswith(("." , f"{name}.")) and p != path]
        if left:
            check(False, f"nothing else is left: {left}")
        return process.returncode, out, trace


def counts_of(trace):
    events = trace["traceEvents"]
    found = collections.Counter(e.get("cat", e["ph"]) for e in events)
    kernels = [e for e in events if e.get("cat") == "kernel"]
    return {"kernels": sum("graph id" not in e["args"] for e in kernels), "graph_kernels": sum("graph id" in e["args"] for e in kernels),
            "copies": found["gpu_memcpy"], "fills": found["gpu_memset"], "ranges": found["user_annotation"],
            "event_records": found["cuda_event"], "waits": sum(e["name"] == "Stream Wait Event" for e in events)}


def check_contents(trace):
    events = trace["traceEvents"]
    print("  ", dict(collections.Counter(e.get("cat", e["ph"]) for e in events)), trace["foretrace_cuda"], trace["cupti_version"], flush=True)
    kernels = [e for e in events if e.get("cat") == "kernel"]
    calls = {e["args"]["correlation"]: e for e in events if e.get("cat") == "cuda_runtime"}
    check(all(e["args"]["correlation"] in calls for e in kernels), "every kernel has its launch")
    check({e["name"].replace("(anonymous namespace)::", "").split("(")[0] for e in kernels} == {"scale", "add"}, "kernels by name")
    check({tuple(e["args"]["block"]) for e in kernels} == {(256, 1, 1)} and {e["args"]["grid"][0] for e in kernels} == {4096}, "geometry")
    late = [e for e in kernels if e["ts"] < calls[e["args"]["correlation"]]["ts"] - 5]
    check(not late, f"no kernel starts before its launch ({len(late)} do)")
    waits = [e for e in events if e["name"] == "Stream Wait Event"]
    records = {e["args"]["correlation"] for e in events if e.get("cat") == "cuda_event"}
    check(all(w["args"].get("wait_on_cuda_event_record_corr_id") in records for w in waits), "every wait has its event's record")
    ranges = [e for e in events if e.get("cat") == "user_annotation"]
    threads = {e["tid"] for e in calls.values()}
    check({e["tid"] for e in ranges} <= threads, f"ranges lie on threads of calls ({ {e['tid'] for e in ranges} } of {threads})")
    check(any(e["name"] == 'update "é"' for e in ranges), "names of ranges as they are")
    steps = sorted((e for e in ranges if e["name"].startswith("step ")), key=lambda e: e["ts"])
    launches = [e for e in calls.values() if e["name"] in ("cudaLaunchKernel", "cudaLaunchKernelExC", "cudaGraphLaunch")]
    inside = [sum(s["ts"] <= e["ts"] and e["ts"] + e["dur"] <= s["ts"] + s["dur"] for e in launches) for s in steps]
    check(set(inside) == {3}, f"three launches lie in every step ({sorted(set(inside))})")
    held = [e["args"]["Total Allocated"] for e in events if e["name"] == "[memory]"]
    check(bool(held) and max(held) >= 8 << 20, f"memory: {len(held)} events, most held {max(held, default=0)}")
    check(trace["deviceProperties"] and trace["deviceProperties"][0]["numSms"] > 0, "the device is named")
    for key in ("dropped_full", "dropped_cupti", "untimed"):
        check(trace["foretrace_cuda"][key] == 0, f"{key} 0")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        out = arguments.out or Path(scratch)
        out.mkdir(parents=True, exist_ok=True)
        program = Path(scratch) / "gpu_program"
        subprocess.run(["nvcc", "-O1", "-std=c++17", "-arch=native", "-o", str(program), str(HERE / "gpu_program.cu")], check=True)
        runs = Runs(arguments.library.absolute(), out, program)

        for name, how in (("exit", ("exit", "7")), ("thread", ("thread",)), ("unasked", ("exit",)), ("fork", ("fork",))):
            code, said, trace = runs.run(name, *how)
            check(code == (7 if name == "exit" else 0), f"{name}: its exit code")
            check(trace is not None, f"{name}: a file")
            if trace is not None:
                wanted = {k: v for k, v in json.loads(said).items() if k != "steps"}
                check(counts_of(trace) == wanted, f"{name}: as many as it did: {counts_of(trace)}, not {wanted}")
                if name != "fork":
                    check_contents(trace)

        for name, number, file in (("SIGINT", signal.SIGINT, True), ("SIGTERM", signal.SIGTERM, True), ("SIGKILL", signal.SIGKILL, False)):
            process = runs.start(name, "wait")
            process.stdout.readline()
            time.sleep(0.2)
            child = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True).stdout.split()
            os.kill(int(child[0]), number)
            code, _, trace = runs.finish(name, process)
            check(code == -number, f"{name}: ends by it")
            check((trace is not None) == file, f"{name}: {'a' if file else 'no'} file")

        for name, code, file in (("_exit", 5, False), ("abort", -signal.SIGABRT, False), ("segv", -signal.SIGSEGV, False)):
            got, _, trace = runs.run(name, name)
            check(got == code, f"{name}: ends as it would")
            check((trace is not None) == file, f"{name}: {'a' if file else 'no'} file")
    print("FAIL" if failures else "PASS", *failures, sep="\n  ")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
