"""The injection library in a program without a GPU: it builds, loads and leaves the program alone, and what a CUPTI reports comes
out as a trace that foretrace reads."""

import argparse
import gzip
import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

STEP_RECORDS = 20  # that one step of fake_cupti.cpp gives, without the call nobody waits for
ARGUMENTS = argparse.Namespace()


class Injection(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.out = Path(self.folder.name) / "out.json.gz"

    def tearDown(self):
        self.folder.cleanup()

    def environment(self, **more):
        given = {"CUDA_INJECTION64_PATH": ARGUMENTS.library, "FORETRACE_CUPTI": ARGUMENTS.cupti, "FORETRACE_CUDA_OUTPUT": str(self.out),
                 "FAKE_CUPTI_REPEATS": "4"}
        clean = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE", "FORETRACE_RECORD_STATUS")}
        return clean | given | {k: str(v) for k, v in more.items()}

    def run_program(self, *arguments, **more):
        return subprocess.run([ARGUMENTS.program, *arguments], capture_output=True, text=True, env=self.environment(**more), timeout=60)

    def trace(self, path=None):
        with gzip.open(path or self.out) as file:
            return json.load(file)

    def left(self):
        return sorted(os.listdir(self.folder.name))

    def test_a_program_ends_as_it_would(self):
        done = self.run_program("exit", "7")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (7, "works\n", ""))
        self.assertEqual(self.left(), ["out.json.gz"])

    def test_every_record_is_in_the_file(self):
        self.run_program()
        trace = self.trace()
        counts = {}
        for event in trace["traceEvents"]:
            counts[event.get("cat", event["ph"])] = counts.get(event.get("cat", event["ph"]), 0) + 1
        self.assertEqual(counts, {"M": 1, "kernel": 8, "gpu_memcpy": 4, "gpu_memset": 4, "cuda_runtime": 28, "cuda_sync": 8,
                                  "cuda_event": 4, "user_annotation": 4, "cpu_op": 4, "cpu_instant_event": 8})
        self.assertEqual(trace["foretrace_cuda"], {"version": 1, "records": 4 * STEP_RECORDS, "dropped_full": 0, "dropped_cupti": 0, "untimed": 0})
        self.assertEqual(trace["deviceProperties"][0]["name"], 'NVIDIA Pretended "GPU"')
        self.assertEqual(trace["deviceProperties"][0]["numSms"], 132)
        self.assertGreater(trace["baseTimeNanoseconds"], 1_600_000_000 * 10**9)

    def test_what_a_record_says(self):
        self.run_program()
        events = self.trace()["traceEvents"]
        kernel = next(e for e in events if e.get("cat") == "kernel")
        operation = next(e for e in events if e.get("cat") == "cpu_op")
        launch = next(e for e in events if e.get("cat") == "cuda_runtime")
        self.assertEqual(kernel["name"], "gemm(float*, float*)")
        self.assertEqual((kernel["ts"], kernel["dur"], kernel["pid"], kernel["tid"]), (10.0, 200.0, 0, 7))
        self.assertEqual((kernel["args"]["grid"], kernel["args"]["block"]), ([12, 1, 1], [256, 1, 1]))
        self.assertEqual((kernel["args"]["registers per thread"], kernel["args"]["shared memory"]), (40, 1124))
        # The operation launched it.
        self.assertEqual(operation["name"], "aten::addmm")
        self.assertEqual(operation["args"]["Input Dims"], [[10], [64, 512], [512, 10]])
        self.assertEqual(operation["args"]["Sequence number"], 3)
        for event in (launch, kernel):
            self.assertEqual(event["args"]["External id"], operation["args"]["External id"])
        self.assertEqual((launch["name"], launch["args"]["correlation"]), ("cudaLaunchKernel", kernel["args"]["correlation"]))
        waits = [e for e in events if e["name"] == "Stream Wait Event"]
        records = [e for e in events if e.get("cat") == "cuda_event"]
        self.assertEqual([w["args"]["wait_on_cuda_event_record_corr_id"] for w in waits],
                         [r["args"]["correlation"] for r in records])
        self.assertEqual({w["args"]["wait_on_stream"] for w in waits}, {7})
        in_graph = [e for e in events if e["name"] == "in_a_graph"]
        self.assertEqual({e["args"]["graph id"] for e in in_graph}, {9})
        copy = next(e for e in events if e.get("cat") == "gpu_memcpy")
        self.assertEqual((copy["name"], copy["args"]["bytes"]), ("Memcpy DtoH (Device -> Pinned)", 4096))
        memory = [e["args"]["Total Allocated"] for e in events if e["name"] == "[memory]"]
        self.assertEqual(memory, [512, 0] * 4)

    def test_foretrace_reads_it(self):
        self.run_program(FAKE_CUPTI_REPEATS=8)
        for verb in ("doctor", "summary", "replay"):
            done = subprocess.run([ARGUMENTS.foretrace, verb, str(self.out), "--steps-by", "step", "--json"], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        replay = json.loads(done.stdout)
        self.assertTrue(replay["schema"] == 1)

    def test_a_crash_leaves_nothing(self):
        done = self.run_program("crash")
        self.assertEqual(done.returncode, -signal.SIGABRT)
        self.assertEqual(self.left(), [])

    def test_an_interruption_leaves_a_whole_file(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            running = subprocess.Popen([ARGUMENTS.program, "wait"], env=self.environment(), stdout=subprocess.PIPE, text=True)
            self.assertEqual(running.stdout.readline(), "works\n")
            running.send_signal(number)
            self.assertEqual(running.wait(30), -number)
            running.stdout.close()
            self.assertEqual(self.trace()["foretrace_cuda"]["records"], 4 * STEP_RECORDS)
            self.out.unlink()

    def test_a_child_by_fork_writes_nothing(self):
        done = self.run_program("fork", "3")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertEqual(self.left(), ["out.json.gz"])

    def test_a_child_by_fork_ends_by_signals_as_it_would(self):
        """The child has the handlers, but no thread that waits for them."""
        done = self.run_program("fork-wait")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.left(), ["out.json.gz"])

    def test_a_program_that_becomes_another(self):
        """What exec replaces writes nothing; the program it becomes is recorded from its own beginning."""
        done = self.run_program("exec", "4")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (4, "works\nworks\n", ""))
        self.assertEqual(self.trace()["foretrace_cuda"]["records"], 4 * STEP_RECORDS)

    def test_a_program_that_leaves_without_a_word(self):
        """_exit runs no handlers: there is no file, and nothing unfinished next to it."""
        done = self.run_program("leave", "6")
        self.assertEqual((done.returncode, done.stdout), (6, "works\n"))
        self.assertEqual(self.left(), [])

    def test_killed(self):
        done = self.run_program("kill")
        self.assertEqual(done.returncode, -signal.SIGKILL)
        self.assertEqual(self.left(), [])

    def test_a_handler_of_the_program_is_left_alone(self):
        running = subprocess.Popen([ARGUMENTS.program, "handles"], env=self.environment(), stdout=subprocess.PIPE, text=True)
        self.assertEqual(running.stdout.readline(), "works\n")
        running.send_signal(signal.SIGTERM)
        self.assertEqual(running.stdout.readline(), "handled\n")
        self.assertEqual(running.wait(30), 9)
        running.stdout.close()
        self.assertEqual(self.left(), ["out.json.gz"])

    def test_it_stands_aside_where_a_framework_profiles(self):
        done = self.run_program(FORETRACE_CUDA="never")
        self.assertEqual((done.returncode, done.stdout, done.stderr, self.left()), (0, "works\n", "", []))

    def test_kinds_can_be_left_out(self):
        self.run_program(FORETRACE_CUDA_WITHOUT="driver,memory")
        trace = self.trace()
        self.assertEqual(trace["foretrace_cuda"]["left_out"], "driver,memory")

    def test_drops_are_counted(self):
        done = self.run_program("exit", "0", FORETRACE_CUDA_RECORDS=30, FAKE_CUPTI_DROPPED=5)
        told = self.trace()["foretrace_cuda"]
        self.assertEqual(told["records"], 30)
        self.assertEqual(told["dropped_cupti"], 5)
        self.assertGreaterEqual(told["dropped_full"], 4 * STEP_RECORDS - 30)
        self.assertEqual(done.stderr.count("were dropped"), 1)

    def test_work_without_a_time_is_counted_and_left_out(self):
        self.run_program(FAKE_CUPTI_UNTIMED=1)
        trace = self.trace()
        self.assertEqual((trace["foretrace_cuda"]["records"], trace["foretrace_cuda"]["untimed"]), (4 * STEP_RECORDS - 4, 4))
        self.assertLess(max(e.get("ts", 0) for e in trace["traceEvents"]), 1e9)
        done = subprocess.run([ARGUMENTS.foretrace, "doctor", str(self.out), "--json"], capture_output=True, text=True)
        self.assertIn("untimed", [p["name"] for p in json.loads(done.stdout)["traces"][0]["problems"]])

    def test_many_records_stay_bounded(self):
        """More than the buffers hold at once: they are handed round."""
        self.run_program(FAKE_CUPTI_REPEATS=40000, FORETRACE_CUDA_RECORDS=900000)
        told = self.trace()["foretrace_cuda"]
        self.assertEqual(told["records"], 40000 * STEP_RECORDS)

    def test_ranks_and_processes_have_files_of_their_own(self):
        self.run_program(RANK=3, WORLD_SIZE=4)
        self.assertEqual(self.left(), ["out.rank3.json.gz"])
        self.assertEqual(self.trace(self.out.parent / "out.rank3.json.gz")["distributedInfo"], {"rank": 3, "world_size": 4})
        with tempfile.TemporaryDirectory() as status:
            for _ in range(2):
                self.run_program(FORETRACE_RECORD_STATUS=status)
            self.assertEqual(len(self.left()), 3)
            lines = [json.loads(line) for path in Path(status).glob("*.jsonl") for line in path.read_text().splitlines()]
            self.assertEqual(len({line["file"] for line in lines}), 2)

    def test_what_cannot_be_had_is_said_and_the_program_goes_on(self):
        cases = [({"FORETRACE_CUPTI": "/no/such/libcupti.so"}, "CUPTI was not found"), ({"FAKE_CUPTI_TAKEN": 1}, "another tool"),
                 ({"FAKE_CUPTI_REPEATS": 0}, "no work on a GPU"),
                 ({"FORETRACE_CUDA_OUTPUT": "/no/such/folder/x.json"}, "could not be written"),
                 ({"FORETRACE_CUPTI": "libc.so.6"}, "lacks functions")]
        for more, said in cases:
            done = self.run_program("exit", "5", **more)
            self.assertEqual((done.returncode, done.stdout), (5, "works\n"), more)
            self.assertIn(said, done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 1)
            self.assertEqual(self.left(), [])

    def test_without_a_request_nothing_happens(self):
        done = self.run_program("exit", "5", FORETRACE_CUDA_OUTPUT="")
        self.assertEqual((done.returncode, done.stdout, done.stderr, self.left()), (5, "works\n", "", []))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("library", "cupti", "program", "foretrace"):
        parser.add_argument("--" + name, required=True)
    ARGUMENTS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
