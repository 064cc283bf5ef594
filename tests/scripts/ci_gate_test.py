"""The recipe for CI that docs/compare.md shows, on stored recordings: what passes, what fails, and the comment it writes."""

import gzip
import json
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

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


if __name__ == "__main__":
    unittest.main()
