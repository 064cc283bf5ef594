"""A real training step with a data loader put in front of it: predictions for other batches and workers against the closed form.

    FORETRACE_PROGRAM=build/foretrace python3 -m unittest discover -s tests/loading -p '*_test.py'

The recorded steps of ResNet-50 are moved apart, and a loader's range of a fixed cost per sample is put between them. Loading in the main thread adds
to the step, workers bound it: x * load + step(x), max(x * load / workers, step(x) with a slower CPU).
"""

from __future__ import annotations

import csv
import gzip
import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("FORETRACE_PROGRAM", str(ROOT / "build" / "foretrace"))
TRACE = ROOT / "examples" / "resnet50-h200.json.gz"
SINGLE, WORKERS = (f"enumerate(DataLoader)#_{name}DataLoaderIter.__next__" for name in ("SingleProcess", "MultiProcessing"))
LOAD_US = 400_000.0
NEAR = 0.05
HOST = csv.reader((ROOT / "src/host/hosts/xeon-h200.csv").read_text().splitlines())
SLOWER_WITH_WORKERS = next(float(row[1]) for row in HOST if row[0] == "slower_with_workers")


def ask(trace: Path, verb: str, *rest: str) -> dict:
    done = subprocess.run([PROGRAM, verb, str(trace), *rest, "--json"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def with_loader(range_name: str, load_us: float) -> dict:
    """The trace with a loader's range at the beginning of every step; without measured figures, which would contradict it."""
    trace = json.loads(gzip.decompress(TRACE.read_bytes()))
    trace = {key: value for key, value in trace.items() if not key.startswith("foretrace")}
    events = trace["traceEvents"]
    steps = sorted((e for e in events if e.get("name", "").startswith("ProfilerStep#") and e.get("cat") == "user_annotation"),
                   key=lambda e: e["ts"])
    starts = [e["ts"] for e in steps]

    def delay(ts: float) -> float:
        return load_us * sum(start < ts for start in starts)

    # What runs on the GPU moves with the call that launched it.
    launched = {e["args"]["correlation"]: e["ts"] for e in events
                if e.get("cat") in ("cuda_runtime", "cuda_driver") and "correlation" in e.get("args", {})}
    on_gpu = ("kernel", "gpu_memcpy", "gpu_memset")
    for e in events:
        if "ts" not in e or any(e is step for step in steps):
            continue
        cause = launched.get(e.get("args", {}).get("correlation")) if e.get("cat") in on_gpu else None
        e["ts"] += delay(e["ts"] if cause is None else cause)
    for i, step in enumerate(steps):
        step["ts"] += load_us * i
        step["dur"] += load_us
        events.append({"ph": "X", "cat": "user_annotation", "name": range_name, "pid": step["pid"], "tid": step["tid"],
                       "ts": step["ts"] + 1, "dur": load_us - 2, "args": {}})
    return trace


class LoadingTest(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def write(self, trace: dict) -> Path:
        path = Path(self.folder.name) / "trace.json"
        path.write_text(json.dumps(trace))
        return path

    def ms(self, trace: Path, *whatifs: str) -> float:
        answer = ask(trace, "whatif", *whatifs, "--stack")
        return answer["predictions"][-1]["ms"]

    def near(self, found: float, expected: float, what: str) -> None:
        self.assertLess(abs(found - expected), NEAR * expected, f"{what}: {found:.2f} ms instead of {expected:.2f}")

    def test_loading_in_the_main_thread(self) -> None:
        loads = self.write(with_loader(SINGLE, LOAD_US))
        summary = ask(loads, "summary")
        self.assertTrue(summary["bottleneck"].startswith("loader-bound"), summary["bottleneck"])
        self.assertEqual(summary["step_kind"], "training")
        one = self.ms(loads, "dataloader:workers=1")  # a worker takes longer for a batch than the main thread
        for x in (0.5, 2, 4):
            step = self.ms(TRACE, f"batch:x={x}")
            self.near(self.ms(loads, f"batch:x={x}"), x * LOAD_US / 1e3 + step, f"0 workers, batch x {x}")
            # Workers take the main thread's cores and memory: what it does is slower with them.
            slowed = self.ms(TRACE, f"batch:x={x}", f"cpu:x={1 / SLOWER_WITH_WORKERS:.4f}")
            for workers in (2, 8):
                expected = max(x * one / workers, slowed)
                for stack in ((f"batch:x={x}", f"dataloader:workers={workers}"), (f"dataloader:workers={workers}", f"batch:x={x}")):
                    self.near(self.ms(loads, *stack), expected, " + ".join(stack))

    def test_workers_that_are_waited_for(self) -> None:
        waits = self.write(with_loader(WORKERS, LOAD_US))
        summary = ask(waits, "summary")
        self.assertTrue(summary["bottleneck"].startswith("loader-bound"), summary["bottleneck"])
        period = summary["traced_ms"]
        self.near(self.ms(waits, "amp:dtype=bf16"), period, "no change but more workers shortens it")
        for x in (0.5, 2, 4):
            step = self.ms(TRACE, f"batch:x={x}")
            self.near(self.ms(waits, f"batch:x={x}"), max(x * period, step), f"batch x {x}")
            for workers in (2, 8):
                expected = max(x * period * 2 / workers, step)
                self.near(self.ms(waits, f"batch:x={x}", f"dataloader:workers={workers},now=2"), expected, f"{x}, 2 to {workers} workers")


if __name__ == "__main__":
    unittest.main()
