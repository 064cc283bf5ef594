"""The recipe for CI that docs/reference/compare.md shows, on stored recordings: what passes, what fails, and the comment it writes."""

import gzip
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from workflow import Workflow

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(os.environ.get("FORETRACE_PROGRAM", ROOT / "build" / "foretrace"))
RECORDINGS = ROOT / "data" / "h200-clean" / "recordings"


def slowed(path: Path, out: Path, factor: float) -> None:
    """A recording whose kernels and whose steps without the profiler take longer."""
    trace = json.loads(gzip.decompress(path.read_bytes()))
    for event in trace["traceEvents"]:
        if event.get("cat") == "kernel":
            event["dur"] *= factor
    figures = trace["foretrace"] if isinstance(trace["foretrace"], dict) else json.loads(trace["foretrace"])
    for name in ("measured_ms", "measured_p10_ms", "measured_p90_ms"):
        figures[name] *= factor
    figures["step_ms"] = [factor * ms for ms in figures["step_ms"]]
    trace["foretrace"] = figures
    out.write_bytes(gzip.compress(json.dumps(trace).encode(), 1))


def cpu_only(path: Path, factor: float) -> None:
    """Steps of a training loop without a GPU, as torch.profiler writes them."""
    events = []
    for step in range(3):
        begin = step * 20_000.0
        events.append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step + 1}", "pid": 1, "tid": 1, "ts": begin, "dur": 10_000 + 8_000 * (factor - 1)})
        for k in range(40):
            dur = 200 * (factor if k % 2 else 1)
            events.append({"ph": "X", "cat": "cpu_op", "name": "aten::mm" if k % 2 else "aten::relu", "pid": 1, "tid": 1, "ts": begin + 230 * k * (factor + 1) / 2, "dur": dur})
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))


@unittest.skipUnless(PROGRAM.exists(), "build/foretrace is not built")
class Gate(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def gate(self, main: str, branch: str, *more: str) -> tuple[int, str]:
        done = subprocess.run(["bash", str(ROOT / "examples" / "ci" / "gate.sh"), main, branch, *more], cwd=self.folder, text=True,
                              capture_output=True, env=os.environ | {"FORETRACE": str(PROGRAM)}, check=False)
        return done.returncode, (self.folder / "comment.md").read_text() if (self.folder / "comment.md").exists() else done.stderr

    def recordings(self, name: str, numbers: range, factor: float = 1.0) -> str:
        (self.folder / name).mkdir()
        for i in numbers:
            source = RECORDINGS / f"lstm_lm.base.0{i}.json.gz"
            if factor == 1:
                shutil.copy(source, self.folder / name)
            else:
                slowed(source, self.folder / name / source.name, factor)
        return name

    def test_an_unchanged_program_passes(self):
        code, comment = self.gate(self.recordings("main", range(3)), self.recordings("branch", range(3, 6)))
        self.assertEqual(code, 0, comment)
        self.assertIn("The gate of 3 % holds", comment)

    def test_a_slower_one_fails_and_says_why(self):
        code, comment = self.gate(self.recordings("main", range(3)), self.recordings("branch", range(3, 6), 1.08))
        self.assertEqual(code, 1, comment)
        self.assertIn("The gate of 3 % fails", comment)
        self.assertIn("kernels take", comment)

    def test_recordings_that_cannot_tell_are_neither_passed_nor_failed(self):
        for name, number in (("main", 0), ("branch", 1)):
            (self.folder / name).mkdir()
            shutil.copy(RECORDINGS / f"mlp.base.0{number}.json.gz", self.folder / name)
        code, comment = self.gate("main", "branch")
        self.assertEqual(code, 5, comment)
        self.assertIn("The gate of 3 % is inconclusive", comment)
        for word, expected in (("pass", 0), ("fail", 1)):
            done = subprocess.run([str(PROGRAM), "compare", "main", "branch", "--gate", "3", "--inconclusive", word], cwd=self.folder,
                                  capture_output=True, check=False)
            self.assertEqual(done.returncode, expected, word)

    def test_the_first_recording_has_nothing_to_be_compared_with(self):
        code, comment = self.gate("nothing", self.recordings("branch", range(1)))
        self.assertEqual((code, "becomes the first" in comment), (0, True))

    def test_recordings_of_a_cpu_are_compared_too(self):
        for name, factor in (("main", 1.0), ("branch", 3.0)):
            (self.folder / name).mkdir()
            for i in range(3):
                cpu_only(self.folder / name / f"run{i}.json", factor * (1 + 0.002 * i))
        code, comment = self.gate("main", "branch")
        self.assertEqual(code, 1, comment)
        self.assertIn("aten::mm", comment)


# A training script as the workflow calls it: it "records" by taking the next of the recordings that lie ready.
TRAIN = """
import pathlib, shutil, sys
assert sys.argv[1:3] == ["--steps", "12"] and sys.argv[3] == "--trace", sys.argv
ready = sorted(pathlib.Path("ready").iterdir())
number = len(list(pathlib.Path(sys.argv[4]).parent.iterdir()))
shutil.copy(ready[number % len(ready)], sys.argv[4])
"""


@unittest.skipUnless(PROGRAM.exists(), "build/foretrace is not built")
@unittest.skipUnless(importlib.util.find_spec("yaml"), "no PyYAML: the workflow is not read")
class WorkflowFile(unittest.TestCase):
    """examples/ci/compare.yml, step by step, on stored recordings of a GPU and on a CPU's."""

    def setUp(self):
        folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        self.checkout = folder / "checkout"
        (self.checkout / "ready").mkdir(parents=True)
        (self.checkout / "train.py").write_text(TRAIN)
        self.workflow = Workflow(PROGRAM, self.checkout)

    def ready(self, numbers: range, factor: float = 1.0) -> None:
        shutil.rmtree(self.checkout / "ready")
        (self.checkout / "ready").mkdir()
        for i in numbers:
            slowed(RECORDINGS / f"lstm_lm.base.0{i}.json.gz", self.checkout / "ready" / f"{i}.json.gz", factor)

    def test_the_first_pull_request_has_nothing_to_compare_with(self):
        self.ready(range(3))
        code, log = self.workflow.run("pull_request")
        self.assertEqual(code, 0, log)
        self.assertIn("Nothing is recorded on the main branch yet", self.workflow.comments())

    def test_an_unchanged_branch_passes_and_a_slower_one_fails(self):
        self.ready(range(3))
        code, log = self.workflow.run("push")
        self.assertEqual(code, 0, log)
        self.assertEqual(len(list(self.workflow.artifact("recordings-main").iterdir())), 3)
        self.assertEqual(self.workflow.comments(), "", "a push has no pull request")
        self.ready(range(3, 6))
        code, log = self.workflow.run("pull_request")
        self.assertEqual(code, 0, log)
        self.assertIn("The gate of 3 % holds", self.workflow.comments())
        self.ready(range(3, 6), 1.08)
        code, log = self.workflow.run("pull_request")
        self.assertEqual(code, 1, log)
        self.assertIn("The gate of 3 % fails", self.workflow.comments())
        page = (self.workflow.artifact("step-time") / "report.html").read_text()
        self.assertIn('"compare":', page)

    def test_recordings_that_cannot_be_read_fail(self):
        self.ready(range(3))
        self.workflow.run("push")
        for file in (self.checkout / "ready").iterdir():
            file.write_text("nothing")
        code, log = self.workflow.run("pull_request")
        self.assertNotEqual(code, 0, log)
        self.assertIn("could not be compared", self.workflow.comments())

    def test_recordings_of_a_cpu(self):
        for factor, event, expected in ((1.0, "push", 0), (1.0, "pull_request", 0), (3.0, "pull_request", 1)):
            shutil.rmtree(self.checkout / "ready")
            (self.checkout / "ready").mkdir()
            for i in range(3):
                plain = self.checkout / "plain.json"
                cpu_only(plain, factor * (1 + 0.002 * i))
                (self.checkout / "ready" / f"{i}.json.gz").write_bytes(gzip.compress(plain.read_bytes()))
            code, log = self.workflow.run(event)
            self.assertEqual(code, expected, log)
        self.assertIn("aten::mm", self.workflow.comments())


if __name__ == "__main__":
    unittest.main()
