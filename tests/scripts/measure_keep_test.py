"""What is kept of a measurement: the first step of a trace, rows that did not fail."""

import gzip
import io
import json
import sys
import tarfile
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tools.measure import keep


def span(cat, name, ts, dur, **args):
    return {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "args": args}


def step(number, at):
    """A step of 100 µs that launches a kernel which ends after the step's range has."""
    first = 10 * number
    return [
        span("user_annotation", f"ProfilerStep#{number}", at, 100, **{"External id": first}),
        span("gpu_user_annotation", f"ProfilerStep#{number}", at + 20, 90, **{"External id": first}),
        span("cpu_op", "aten::add", at + 5, 10),
        span("cuda_runtime", "cudaLaunchKernel", at + 8, 4, correlation=first),
        span("kernel", "add", at + 101, 9, correlation=first),
        {"ph": "s", "cat": "ac2g", "name": "ac2g", "id": first, "ts": at + 8},
        {"ph": "s", "cat": "fwdbwd", "name": "fwdbwd", "id": number, "ts": at + 5},
        {"ph": "f", "cat": "fwdbwd", "name": "fwdbwd", "id": number, "ts": at + 50},
        {"ph": "f", "cat": "fwdbwd", "name": "fwdbwd", "id": number - 1, "ts": at + 60},  # whose forward was not recorded
        {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "ts": at + 9, "args": {}},
    ]


def trace():
    # The later step first: files are not in order of time.
    events = [{"ph": "M", "name": "process_name", "ts": 0, "args": {}}, *step(4, 1100), *step(3, 1000),
              span("Trace", "PyTorch Profiler (0)", 900, 400)]
    return {"traceEvents": events, "foretrace": {"traced_steps": 2, "traced_host_ms": [0.1, 0.2], "measured_ms": 0.09}}


class FirstStep(unittest.TestCase):
    def test_holds_what_began_in_it_and_what_that_launched(self):
        kept = keep.first_step(trace())
        wanted = [e for e in step(3, 1000) if e["cat"] != "ac2g" and not (e["cat"] == "fwdbwd" and e["id"] == 2)]
        self.assertEqual(kept["traceEvents"], [trace()["traceEvents"][0], *wanted])

    def test_the_recorder_s_figures_say_so(self):
        self.assertEqual(keep.first_step(trace())["foretrace"], {"traced_steps": 1, "traced_host_ms": [0.1], "measured_ms": 0.09})


class Kept(unittest.TestCase):
    def test_rows_traces_and_recordings(self):
        with tempfile.TemporaryDirectory() as scratch:
            out, to = Path(scratch, "out"), Path(scratch, "to")
            out.mkdir()
            rows = [{"model": "m", "variant": "base", "trace": "m.base.json.gz", "gz_bytes": 7},
                    {"model": "m", "variant": "graph", "error": "RuntimeError: no"}, {"rows": 3, "host": True}]
            (out / "truth.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
            (out / "recordings.jsonl").write_text(
                json.dumps({"model": "m", "variant": "base", "number": 0, "trace": "m.base.00.json.gz"}) + "\n")
            with tarfile.open(out / "first.0.tar", "w") as tar:
                for name, data in (("m.base.json.gz", gzip.compress(json.dumps(trace()).encode())), ("host.csv", b"a,b\n"),
                                   ("m.base.00.json.gz", gzip.compress(json.dumps(trace()).encode()))):
                    member = tarfile.TarInfo(name)
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))
            said = keep.keep([out], to)
            self.assertEqual(said, "1 rows, 2 traces, 1 of them recordings; 1 failed")
            self.assertEqual([json.loads(line) for line in (to / "truth.jsonl").read_text().splitlines()],
                             [{"model": "m", "variant": "base", "trace": "m.base.json.gz"}])
            self.assertEqual((to / "host.csv").read_text(), "a,b\n")
            for path in (to / "m.base.json.gz", to / "recordings" / "m.base.00.json.gz"):
                with gzip.open(path) as file:
                    names = {e["name"] for e in json.load(file)["traceEvents"]}
                self.assertIn("ProfilerStep#3", names)
                self.assertNotIn("ProfilerStep#4", names)


if __name__ == "__main__":
    unittest.main()
