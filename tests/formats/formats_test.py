"""Nsight Systems and XLA files against other eyes: counts by sqlite3 and by a protobuf reader of our own, replays, bad input.

    FORETRACE_PROGRAM=build/foretrace python3 -m unittest discover -s tests/formats -p '*_test.py'

Real files are read from FORETRACE_PUBLIC/nsys and FORETRACE_TRUTH/jax where those are set. Versions of Nsight's schema other than
3.25 are databases made from the documented columns (nsight_database.py), not recorded ones.
"""

from __future__ import annotations

import collections
import csv
import gzip
import json
import os
import random
import shutil
import sqlite3
import statistics
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import nsight_database
import protobuf
import xplane_file

PROGRAM = os.environ.get("FORETRACE_PROGRAM", str(Path(__file__).resolve().parents[2] / "build" / "foretrace"))
SCHEMAS = ["3.16.1", "3.18.0", "3.20.0", "3.22.0", "3.25.0", "3.27.0"]
KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"


def run(*arguments: object, code: int = 0) -> str:
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=120)
    assert done.returncode == code, f"exit {done.returncode}, expected {code}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout + done.stderr


def doctor(path: object, *more: str, code: int = 0) -> dict:
    done = subprocess.run([PROGRAM, "doctor", "--json", str(path), *more], capture_output=True, text=True, timeout=120)
    assert done.returncode == code, f"exit {done.returncode}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return json.loads(done.stdout)["traces"][0]


def categories(report: dict) -> dict[str, int]:
    return report["categories"]


def real(variable: str, folder: str, pattern: str) -> list[Path]:
    root = os.environ.get(variable)
    return sorted(Path(root, folder).glob(pattern)) if root else []


JAX = Path(__file__).resolve().parents[2] / "data" / "h200-jax"


def profiles() -> list[Path]:
    """Real profiles of XLA: those of the project and those at hand."""
    return sorted(JAX.glob("*.xplane.pb.gz")) + real("FORETRACE_TRUTH", "jax", "*.xplane.pb")


class Folder(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="formats-"))
        self.addCleanup(shutil.rmtree, self.folder)


class Nsight(Folder):
    def compare(self, path: Path, database: Path) -> None:
        """Counts per table of every process that used a GPU equal those of sqlite3."""
        db = sqlite3.connect(database)
        tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type='table'")}
        gpu = [t for t in (KERNELS, "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET") if t in tables]
        owners: dict[int, int] = {}
        for table in gpu:
            for pid, device in db.execute(f"SELECT (globalPid >> 24) & 0xFFFFFF, min(deviceId) FROM {table} GROUP BY 1"):
                owners[pid] = min(device, owners.get(pid, device))
        processes = sorted(owners, key=lambda p: (owners[p], p))
        for index, pid in enumerate(processes):
            name = f"{path}#{index}" if len(processes) > 1 else path
            found = categories(doctor(name))

            def rows(table: str, owner: str, where: str = "1", pid: int = pid) -> int:
                if table not in tables:
                    return 0
                return db.execute(f"SELECT count(*) FROM {table} WHERE (({owner} >> 24) & 0xFFFFFF) = ? AND {where}", (pid,)).fetchone()[0]

            for table, category in [(KERNELS, "kernel"), ("CUPTI_ACTIVITY_KIND_MEMCPY", "gpu_memcpy"), ("CUPTI_ACTIVITY_KIND_MEMSET", "gpu_memset"),
                                    ("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "cuda_sync"), ("CUPTI_ACTIVITY_KIND_CUDA_EVENT", "cuda_event")]:  # fmt: skip
                self.assertEqual(found.get(category, 0), rows(table, "globalPid"), f"{name} {table}")
            calls = rows("CUPTI_ACTIVITY_KIND_RUNTIME", "globalTid")
            self.assertEqual(found.get("cuda_runtime", 0) + found.get("cuda_driver", 0), calls, f"{name} calls")
            ranges = found.get("cpu_op", 0) + found.get("user_annotation", 0) + found.get("nvtx_range", 0)
            self.assertEqual(ranges + found.get("nvtx_mark", 0) + found.get("nvtx_name", 0), rows("NVTX_EVENTS", "globalTid"), f"{name} ranges")
            self.assertEqual(found.get("overhead", 0), rows("CUPTI_ACTIVITY_KIND_OVERHEAD", "globalTid"))
        self.assertGreater(len(processes), 0)

    def test_real_files_lose_nothing(self) -> None:
        for path in real("FORETRACE_PUBLIC", "nsys", "*.sqlite.gz"):
            plain = self.folder / path.stem
            plain.write_bytes(gzip.decompress(path.read_bytes()))
            self.compare(path, plain)
            self.compare(plain, plain)

    def test_real_files_replay(self) -> None:
        for path in real("FORETRACE_PUBLIC", "nsys", "*.sqlite.gz"):
            for rank in (0, 1):
                for step in json.loads(run("replay", path, "--rank", rank, "--json"))["steps"]:
                    self.assertLessEqual(abs(step["error_pct"]), 1, f"{path} {rank}")
                    self.assertLessEqual(step["frozen_pct"], 15, f"{path} {rank}")

    def collective_bytes(self, path: Path) -> dict[str, set[int]]:
        """Bytes of the collectives of a job, by kind, as `ranks` has them."""
        found: dict[str, set[int]] = collections.defaultdict(set)
        for c in json.loads(run("ranks", path, "--json"))["collectives"]:
            found[c["kind"]].add(c["bytes"])
        return dict(found)

    def test_sizes_of_collectives_from_nccl_s_payloads(self) -> None:
        expected = {"all-reduce": {4 << 20}, "all-gather": {2 << 20}, "all-to-all": {6_000}}
        for payload in ("bytes", "digits", "json"):
            for groups in (False, True):
                path = nsight_database.collectives(self.folder / f"{payload}{groups}.sqlite", payload, groups=groups)
                self.assertEqual(self.collective_bytes(path), expected, (payload, groups))
                self.assertNotIn("no_collective_sizes", [f["name"] for f in doctor(f"{path}#0")["findings"]])

    def test_collectives_without_payloads(self) -> None:
        path = nsight_database.collectives(self.folder / "bare.sqlite", "none")
        remedies = {f["name"]: f["remedy"] for f in doctor(f"{path}#0")["findings"]}
        self.assertIn("--include-blobs=true", remedies["no_collective_sizes"])
        self.assertLessEqual(set().union(*self.collective_bytes(path).values()), {-1, None})

    def test_payloads_that_are_damaged(self) -> None:
        """Cut, of no known schema, of sizes that lie: they say nothing, and the rest is read."""
        path = nsight_database.collectives(self.folder / "odd.sqlite")
        expected = doctor(f"{path}#0")["categories"]
        for damage in ("substr(binaryData, 1, 40)", "x'00'", "zeroblob(200)", "substr(binaryData, 1, 16) || x'ffffffffffffffffffffffffffffffff'", "'zz'"):
            other = self.folder / "damaged.sqlite"
            shutil.copy(path, other)
            db = sqlite3.connect(other)
            db.execute(f"UPDATE NVTX_EVENTS SET binaryData = {damage} WHERE binaryData IS NOT NULL")
            db.commit()
            db.close()
            report = doctor(f"{other}#0")
            self.assertEqual(report["categories"], expected, damage)
            self.assertIn("no_collective_sizes", [f["name"] for f in report["findings"]], damage)

    def test_a_real_file_with_payloads_put_back(self) -> None:
        """The exporter left the payloads out of the real file; its ranges and kernels show that sizes reach the right ones."""
        for path in real("FORETRACE_PUBLIC", "nsys", "mfu*.sqlite.gz"):
            plain = self.folder / path.stem
            plain.write_bytes(gzip.decompress(path.read_bytes()))
            db = sqlite3.connect(plain)
            names = dict(db.execute("SELECT id, value FROM StringIds WHERE value IN ('ncclSend', 'ncclRecv')"))
            for name, schema in (("ncclSend", 16777225), ("ncclRecv", 16777226)):
                blob = struct.pack("<QQQQ", 1, schema, 24, 56) + struct.pack("<QQiI", 99, 5_000, 1, 0)
                for key in (k for k, v in names.items() if v == name):
                    db.execute("UPDATE NVTX_EVENTS SET binaryData = ? WHERE textId = ?", (blob, key))
            db.commit()
            db.close()
            self.assertEqual(set().union(*self.collective_bytes(plain).values()), {10_000})

    def test_all_schemas(self) -> None:
        for schema in SCHEMAS:
            path = nsight_database.training(self.folder / f"{schema}.sqlite", schema, processes=2)
            self.compare(path, path)
            report = doctor(f"{path}#0")
            self.assertEqual(len(report["steps"]), 4, schema)
            replay = json.loads(run("replay", f"{path}#0", "--json"))
            self.assertLessEqual(max(abs(s["error_pct"]) for s in replay["steps"]), 1, schema)

    def test_other_forms_of_the_same_file(self) -> None:
        plain = nsight_database.training(self.folder / "a.sqlite")
        answer = json.loads(run("replay", plain, "--json"))["steps"]
        packed = self.folder / "b.sqlite.gz"
        packed.write_bytes(gzip.compress(plain.read_bytes()))
        wal = nsight_database.training(self.folder / "c.sqlite", journal_mode="wal")
        small = nsight_database.training(self.folder / "d.sqlite", page_size="512")
        wide = nsight_database.training(self.folder / "e.sqlite", encoding="'UTF-16le'")
        for path in (packed, wal, small, wide):
            self.assertEqual(json.loads(run("replay", path, "--json"))["steps"], answer, path)

    def test_waits_know_their_record(self) -> None:
        for schema in ("3.16.1", "3.25.0"):
            db = nsight_database.Database(self.folder / f"w{schema}.sqlite", schema)
            # The event is reused: only the id of the pair, or the order of calls, tells which record a wait is for.
            for i, (record, wait) in enumerate([(1, 2), (11, 12)]):
                db.call(record * 1000, record * 1000 + 500, record, "cudaEventRecord_v3020")
                db.event(record, 7, event=5, pair=100 + i)
                db.call(wait * 1000, wait * 1000 + 500, wait, "cudaStreamWaitEvent_v3020")
                db.sync(wait * 1000, wait * 1000 + 400, wait, 2, 9, event=5, pair=100 + i)
            db.call(20_000, 21_000, 20)
            db.kernel(0, 22_000, 30_000, 20)
            report = doctor(db.close())
            self.assertNotIn("unresolved_stream_waits", [f["name"] for f in report["findings"]], schema)

    def test_a_lazy_database(self) -> None:
        """Tables that were not made, tables without rows, columns that do not exist."""
        db = nsight_database.Database(self.folder / "lazy.sqlite")
        db.kernel(0, 10_000, 20_000, 1)
        db.table("NVTX_EVENTS", nsight_database.NVTX)
        db.table("CUPTI_ACTIVITY_KIND_MEMCPY", ["start", "end", "globalPid"])
        found = categories(doctor(db.close()))
        self.assertEqual(found, {"kernel": 1})

    def test_no_rows_at_all(self) -> None:
        db = nsight_database.Database(self.folder / "none.sqlite")
        self.assertIn("no events", run("doctor", db.close(), code=4))

    def test_only_ranges(self) -> None:
        db = nsight_database.Database(self.folder / "ranges.sqlite")
        db.range(0, 1000, "step 0")
        db.range(1000, None, "left open")
        db.range(10, 20, "a mark", kind=34)
        report = doctor(db.close(), code=4)
        self.assertEqual(categories(report), {"user_annotation": 1, "nvtx_mark": 2})
        self.assertIn("open_range", [p["name"] for p in report["problems"]])

    def test_names_that_dangle(self) -> None:
        path = nsight_database.training(self.folder / "dangling.sqlite")
        db = sqlite3.connect(path)
        db.execute("DELETE FROM StringIds WHERE value LIKE '%mm_kernel%'")
        db.commit()
        problems = {p["name"]: p for p in doctor(path)["problems"]}
        self.assertEqual(problems["dangling_string"]["count"], 4)

    def test_times_that_are_none(self) -> None:
        path = nsight_database.training(self.folder / "odd.sqlite", steps=20)
        db = sqlite3.connect(path)
        db.execute(f"UPDATE {KERNELS} SET start='yesterday' WHERE rowid = 5")
        db.execute(f"UPDATE {KERNELS} SET end=9223372036854775807 WHERE rowid = 6")
        db.execute(f"UPDATE {KERNELS} SET start=NULL WHERE rowid = 7")
        db.commit()
        db.close()
        problems = {p["name"]: p for p in doctor(path)["problems"]}
        self.assertEqual(problems["bad_row"]["count"], 3)
        self.assertIn("bad", run("summary", path, "--strict", code=3) + "bad")

    def test_clock_domains_that_disagree(self) -> None:
        """The GPU's times by another clock, behind and ahead: said, and put where launches and waits allow."""
        path = nsight_database.training(self.folder / "agree.sqlite", steps=20)
        expected = json.loads(run("replay", path, "--json"))["steps"]
        for by in (-5_000_000, -2_000_000_000, -86_400_000_000_000, 400_000, 2_000_000_000):
            other = self.folder / "apart.sqlite"
            shutil.copy(path, other)
            db = sqlite3.connect(other)
            db.execute(f"UPDATE {KERNELS} SET start=start+({by}), end=end+({by})")
            db.commit()
            db.close()
            problems = [p["name"] for p in doctor(other)["problems"]]
            self.assertIn("clock_domains" if by < 0 else "device_clock", problems, by)
            steps = json.loads(run("replay", other, "--json"))["steps"]
            self.assertEqual(len(steps), len(expected), by)
            for step, was in zip(steps, expected):
                self.assertLessEqual(abs(step["error_pct"]), 1, by)
                self.assertAlmostEqual(step["traced_ms"], was["traced_ms"], delta=0.02 * was["traced_ms"])

    def test_whole_graphs(self) -> None:
        db = nsight_database.Database(self.folder / "graphs.sqlite")
        db.table("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", nsight_database.GRAPH)
        for i in range(4):
            db.call(i * 100_000, i * 100_000 + 8_000, i + 1, "cudaGraphLaunch_v10000")
            db.add("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", start=i * 100_000 + 10_000, end=i * 100_000 + 90_000, deviceId=0, contextId=1, streamId=7,
                   correlationId=i + 1, globalPid=nsight_database.pid(100), graphId=3, graphExecId=4)  # fmt: skip
        remedies = {f["name"]: f["remedy"] for f in doctor(db.close())["findings"]}
        self.assertIn("--cuda-graph-trace=node", remedies["whole_graphs"])

    def test_shapes_of_nvtx_give_work(self) -> None:
        with_shapes = nsight_database.training(self.folder / "shapes.sqlite")
        names = [f["name"] for f in doctor(with_shapes)["findings"]]
        self.assertNotIn("no_shapes", names)
        without = nsight_database.training(self.folder / "bare.sqlite", shapes=False)
        remedies = {f["name"]: f["remedy"] for f in doctor(without)["findings"]}
        self.assertIn("emit_nvtx(record_shapes=True)", remedies["no_shapes"])

    def test_work_launched_before_the_recording(self) -> None:
        """The recording begins while the GPU has much to do: that work follows its stream and is not frozen."""
        db = nsight_database.Database(self.folder / "behind.sqlite")
        for i in range(300):
            db.kernel(0, 1_000_000 + i * 51_000, 1_050_000 + i * 51_000, 1 + i, name=f"kernel_{i % 7}_{i // 100}")
        for i in range(15):
            db.range(1_000_000 + i * 20_000, 1_018_000 + i * 20_000, f"aten::mul, op_id = {i}")
            db.call(1_004_000 + i * 20_000, 1_010_000 + i * 20_000, 1_000 + i)
            db.kernel(0, 16_301_000 + i * 51_000, 16_350_000 + i * 51_000, 1_000 + i, name=f"other_{i}")
        for step in json.loads(run("replay", db.close(), "--json"))["steps"]:
            self.assertLessEqual(abs(step["error_pct"]), 1)
            self.assertLessEqual(step["frozen_pct"], 15)

    def test_sizes_of_nvtx_predict(self) -> None:
        path = nsight_database.training(self.folder / "sizes.sqlite")
        self.assertIn("modelled", run("whatif", path, "tf32"))

    def test_a_newer_schema(self) -> None:
        report = doctor(nsight_database.training(self.folder / "new.sqlite", "3.99.0"))
        self.assertIn("newer_schema", [p["name"] for p in report["problems"]])

    def test_another_program_s_database(self) -> None:
        path = self.folder / "browser.sqlite"
        db = sqlite3.connect(path)
        db.execute("CREATE TABLE bookmarks (id INTEGER, url TEXT)")
        db.commit()
        db.close()
        self.assertIn("none of Nsight Systems", run("summary", path, code=3))
        # In a folder of traces it is no trace.
        nsight_database.training(self.folder / "run.sqlite")
        self.assertIn("step 1", run("summary", self.folder))

    def test_cut_off_and_damaged(self) -> None:
        whole = nsight_database.training(self.folder / "whole.sqlite", steps=200).read_bytes()
        path = self.folder / "cut.sqlite"
        path.write_bytes(whole[: len(whole) // 2])
        self.assertIn("cut off", run("summary", path, code=3))
        self.assertTrue(doctor(path, "--partial")["partial"])
        damaged = bytearray(whole)
        damaged[len(whole) // 2 : len(whole) // 2 + 20_000] = b"\xff" * 20_000
        path.write_bytes(bytes(damaged))
        self.assertIn("damaged", run("summary", path, code=3))
        for seed in range(15):
            damaged = bytearray(whole)
            for i in range(20):
                damaged[(seed * 7919 + i * 104729) % len(damaged)] ^= 1 << (seed + i) % 8
            path.write_bytes(bytes(damaged))
            done = subprocess.run([PROGRAM, "doctor", str(path), "--partial"], capture_output=True, timeout=60)
            self.assertIn(done.returncode, (0, 3, 4), f"seed {seed}")
        path.write_bytes(b"SQLite format 3\0" + b"\0" * 50)
        run("summary", path, code=3)
        packed = self.folder / "cut.sqlite.gz"
        packed.write_bytes(gzip.compress(whole)[:-1000])
        run("summary", packed, code=3)

    def test_a_report_names_the_export(self) -> None:
        path = self.folder / "run.nsys-rep"
        path.write_bytes(b"\x01\x02\x03 a report")
        told = run("summary", path, code=3)
        self.assertIn(f"nsys export --type sqlite --output {self.folder}/run.sqlite {path}", told)
        self.assertIn("nsys export", run("ranks", self.folder, code=3))

    def test_a_part_that_is_not_there(self) -> None:
        path = nsight_database.training(self.folder / "two.sqlite", processes=2)
        self.assertIn("there is no #7", run("summary", f"{path}#7", code=2))

    def test_ranks_of_one_file(self) -> None:
        path = nsight_database.training(self.folder / "job.sqlite", processes=2)
        self.assertIn("rank 1 of 2", run("summary", path, "--rank", 1))


class Solvers(Folder):
    """Steps of programs that mark nothing: time steps of a solver, between what it does before and after them."""

    def steps(self, names: list[str], reads_after: str = "calc_dt") -> list[dict]:
        path = nsight_database.sequence(self.folder / f"{len(list(self.folder.iterdir()))}.sqlite", names, reads_after)
        # Without GPU properties of a real program some answers are declined; what counts is what the steps are.
        done = subprocess.run([PROGRAM, "doctor", "--json", str(path)], capture_output=True, text=True, timeout=120)
        report = json.loads(done.stdout)["traces"][0]
        return [] if report["step_source"].startswith("nothing") else report["steps"]

    def test_between_preparation_and_results(self) -> None:
        before = ["initialise", "generate_chunk", *["update_halo_left"] * 40]
        after = ["field_summary", "reduce", "reduce", "visit"]
        steps = self.steps(before + nsight_database.solver_step(250) * 20 + after)
        self.assertIn(len(steps), (19, 20))
        lengths = [step["traced_ms"] for step in steps]
        self.assertLess(max(lengths) - min(lengths), 0.05 * max(lengths))

    def test_a_kernel_more_or_less(self) -> None:
        chance = random.Random(7)
        names = ["initialise"] * 30
        for _ in range(30):
            step = nsight_database.solver_step(250)
            if chance.random() < 0.4:
                step.insert(chance.randrange(len(step)), "tea_leaf_check")
            if chance.random() < 0.2:
                del step[chance.randrange(100, 110)]
            names += step
        self.assertIn(len(self.steps(names + ["visit"] * 7)), range(27, 31))

    def test_a_step_that_writes_results(self) -> None:
        names: list[str] = ["initialise"]
        for number in range(40):
            names += nsight_database.solver_step(120) + (["pack_output"] * 30 if number % 15 == 14 else [])
        self.assertIn(len(self.steps(names)), range(37, 41))

    def test_sweeps_that_alternate_are_one_step_of_two(self) -> None:
        names = ["initialise"] * 9
        for number in range(40):
            names += nsight_database.solver_step(125, odd=number % 2 == 1)
        self.assertIn(len(self.steps(names + ["visit"])), (19, 20))

    def test_small_steps_read_a_result_back(self) -> None:
        names = ["initialise"] * 5 + nsight_database.solver_step(20) * 30 + ["visit"]
        self.assertIn(len(self.steps(names)), (29, 30))
        self.assertEqual(self.steps(names, reads_after=""), [], "as they could be layers of a network")

    def test_nothing_repeats(self) -> None:
        chance = random.Random(3)
        shuffled = nsight_database.solver_step(250) * 20
        chance.shuffle(shuffled)
        self.assertEqual(self.steps(shuffled), [])
        self.assertEqual(self.steps([f"kernel_{i}" for i in range(2000)]), [])
        self.assertEqual(self.steps([f"kernel_{i.bit_count() % 2}" for i in range(2000)]), [])
        # Levels of a multigrid: the same kernels, another number of them each time.
        self.assertEqual(self.steps([name for level in range(2, 40) for name in ["restrict", *["smooth"] * level, "prolong"]]), [])
        # One pass, a long one: what it repeats is a part of it.
        self.assertEqual(self.steps(["embed", *(["norm", "qkv", "attend", "project", "up", "gelu", "down", "add", "cast"] * 80), "head"], ""), [])


class Xla(Folder):
    def counts(self, path: Path) -> tuple[collections.Counter, collections.Counter]:
        """Events by plane, and names of the GPU's, as a reader of our own sees them."""
        planes: collections.Counter = collections.Counter()
        names: collections.Counter = collections.Counter()
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        for raw in protobuf.message(content)[1]:
            plane = protobuf.message(raw)
            name = plane[2][0].decode()
            known = {protobuf.message(e)[1][0]: protobuf.message(protobuf.message(e)[2][0]).get(2, [b""])[0].decode() for e in plane.get(4, [])}
            for line in plane.get(3, []):
                events = protobuf.message(line).get(4, [])
                planes[name] += len(events)
                if name.startswith("/device"):
                    names.update(known[protobuf.message(e)[1][0]] for e in events)
        return planes, names

    def test_real_files_lose_nothing(self) -> None:
        for path in profiles():
            planes, names = self.counts(path)
            found = categories(doctor(path))
            gpu = found.get("kernel", 0) + found.get("gpu_memcpy", 0) + found.get("gpu_memset", 0)
            self.assertEqual(gpu, planes["/device:GPU:0"])
            self.assertEqual(found.get("gpu_memset", 0), sum(n for name, n in names.items() if name.startswith("Memset")))
            inferred = found.get("inferred_wait", 0)
            self.assertEqual(sum(found.values()) - gpu - inferred, planes["/host:CPU"])

    def test_real_files_replay(self) -> None:
        for path in profiles() + real("FORETRACE_TRUTH", "jax", "*.json.gz"):
            replay = json.loads(run("replay", path, "--json"))
            self.assertEqual(len(replay["steps"]), 3)
            for step in replay["steps"]:
                self.assertLessEqual(abs(step["error_pct"]), 1, path)
            # In one of the three the host may have been interrupted.
            self.assertLessEqual(statistics.median(step["frozen_pct"] for step in replay["steps"]), 15, path)

    def test_every_step_waits_where_python_asked_for_its_result(self) -> None:
        """Also where the GPU was done before the host, which the profiler delays, came to ask (resnet18.bf16.b32)."""
        for line in (JAX / "truth.jsonl").read_text().splitlines():
            row = json.loads(line)
            if row["how"] == "default":
                self.assertEqual(categories(doctor(JAX / row["trace"])).get("inferred_wait"), 3, row["trace"])

    def test_real_file_knows_every_kernel(self) -> None:
        for path in profiles():
            names = [p["name"] for p in doctor(path)["problems"]]
            self.assertNotIn("unknown_instruction", names)

    def test_every_launch_is_one(self) -> None:
        """Outside of command buffers a launch bears the name of its kernel."""
        for path in profiles():
            self.assertNotIn("orphan_kernels", [f["name"] for f in doctor(path)["findings"]], path)

    def test_parameters_are_those_that_were_trained(self) -> None:
        for line in (JAX / "truth.jsonl").read_text().splitlines():
            row = json.loads(line)
            summary = json.loads(run("summary", JAX / row["trace"], "--json"))
            self.assertEqual(summary["memory"][0]["peak_parts"]["parameters"], 4 * row["params"], row["trace"])

    def test_a_convolution_is_all_its_kernels(self) -> None:
        path = xplane_file.convolution_profile(self.folder / "conv.xplane.pb", precision=2)
        report = doctor(path)
        self.assertEqual(categories(report), {"kernel": 30, "cuda_driver": 30, "user_annotation": 3, "inferred_wait": 3})
        self.assertNotIn("orphan_kernels", [f["name"] for f in report["findings"]])
        # On tensor cores one kernel with at most two changes of layout does what six did, in a tenth of the time.
        said = json.loads(run("whatif", path, "tf32", "--json"))
        self.assertLess(said["predictions"][0]["gpu_ms"], 0.4)
        base = said["baseline"]["gpu_families"]
        self.assertAlmostEqual(base["conv forward"]["measured_ms"], 0.65)
        self.assertAlmostEqual(base["conv weight grad"]["measured_ms"], 0.7)

    def test_what_xla_multiplies_in(self) -> None:
        """FP32 operands are multiplied in TF32 unless the program asks for more."""
        path = xplane_file.convolution_profile(self.folder / "conv.xplane.pb")
        self.assertIn("already", run("whatif", path, "tf32", code=4))

    def test_only_samples_grow_with_the_batch(self) -> None:
        path = xplane_file.convolution_profile(self.folder / "conv.xplane.pb", precision=2)
        costs = []
        for more in ((), ("batch:x=2",)):
            out = self.folder / "step.csv"
            run("export", path, *more, "--format", "csv", "-o", out)
            rows = list(csv.DictReader(out.read_text().splitlines()))
            costs.append({r["name"]: int(r["cost_ns"]) for r in rows if r["device"] and r["name"].split("_")[0] in ("wrapped", "loop")})
        was, now = costs
        for name in ("wrapped_transpose", "loop_subtract_fusion"):
            self.assertEqual(now[name], was[name])
        for name in ("loop_maximum_fusion", "loop_select_fusion"):
            self.assertGreater(now[name], 1.8 * was[name])

    def test_with_and_without_command_buffers(self) -> None:
        for command_buffer in (True, False):
            path = xplane_file.profile(self.folder / "a.xplane.pb", command_buffer=command_buffer)
            planes, _ = self.counts(path)
            found = categories(doctor(path))
            self.assertEqual(found["kernel"] + found["gpu_memset"], planes["/device:GPU:0"])
            self.assertNotIn("unknown_instruction", [p["name"] for p in doctor(path)["problems"]])
            told = run("summary", path)
            self.assertIn("block0", told)
            for phase in ("forward", "backward", "optimizer"):
                self.assertIn(phase, told)
            for step in json.loads(run("replay", path, "--json"))["steps"]:
                self.assertLessEqual(abs(step["error_pct"]), 1)
                self.assertLessEqual(step["frozen_pct"], 15)

    def test_every_turn_of_a_loop_is_its_body(self) -> None:
        path = xplane_file.profile(self.folder / "scan.xplane.pb", loop=True)
        rows = csv.DictReader(run("export", path, "--format", "csv", "-q").splitlines())
        found = [(r["name"], r["layer"]) for r in rows if r["device"]]
        self.assertEqual(found, [(name, layer) for name, _, layer in xplane_file.SCAN_KERNELS])

    def test_collectives_know_their_sizes(self) -> None:
        """Of the operands, in every form of replica groups; with and without command buffers."""
        for command_buffer in (True, False):
            path = xplane_file.profile(self.folder / f"job{command_buffer}.xplane.pb", gpus=2, command_buffer=command_buffer, collectives=True)
            found = collections.Counter((c["kind"], c["bytes"], c["ranks"]) for c in json.loads(run("ranks", path, "--json"))["collectives"])
            floats = 768 * 3072 * 4
            self.assertEqual(found, {("all-reduce", floats, 2): 1, ("all-reduce", floats + 200, 2): 1, ("all-gather", 8_000, 2): 1}, command_buffer)
            self.assertNotIn("no_collective_sizes", [f["name"] for f in doctor(f"{path}#0")["findings"]])
            self.assertNotIn("unknown_instruction", [p["name"] for p in doctor(f"{path}#0")["problems"]])

    def test_what_ifs_of_a_compiled_program(self) -> None:
        path = xplane_file.profile(self.folder / "a.xplane.pb")
        self.assertIn("modelled", run("whatif", path, "tf32"))
        run("whatif", path, "batch:x=2")
        run("whatif", path, "duration:select=*gemm*,x=0.5")
        run("whatif", path, "ddp:workers=8")
        run("whatif", path, "fsdp:workers=8")
        run("whatif", path, "gpu:to=A100-SXM4-80GB")
        run("whatif", path, "amp")
        run("whatif", xplane_file.profile(self.folder / "job.xplane.pb", gpus=2, collectives=True), "bandwidth:x=2")
        for name, why in [("compile", "compiled program already"), ("fused-optimizer", "XLA fuses the update"), ("checkpoint", "jax.checkpoint")]:
            self.assertIn(why, run("whatif", path, name, code=4))

    def test_several_gpus(self) -> None:
        path = xplane_file.profile(self.folder / "two.xplane.pb", gpus=2)
        self.assertIn("rank 1 of 2", run("summary", path, "--rank", 1))
        self.assertIn("there is no #5", run("summary", f"{path}#5", code=2))

    def test_steps_without_marks(self) -> None:
        path = xplane_file.profile(self.folder / "unmarked.xplane.pb", marked=False, steps=6)
        remedies = {f["name"]: f["remedy"] for f in doctor(path)["findings"]}
        self.assertIn("StepTraceAnnotation", remedies["no_profiler_step"])

    def test_without_programs(self) -> None:
        path = xplane_file.profile(self.folder / "bare.xplane.pb", programs=False)
        remedies = {f["name"]: f["remedy"] for f in doctor(path)["findings"]}
        self.assertIn("xplane.pb", remedies["cuda_graph"])

    def test_cut_off_and_damaged(self) -> None:
        whole = xplane_file.profile(self.folder / "whole.xplane.pb", steps=20).read_bytes()
        path = self.folder / "cut.xplane.pb"
        for at in (len(whole) // 3, len(whole) - 5):
            path.write_bytes(whole[:at])
            self.assertIn("cut off", run("summary", path, code=3))
            subprocess.run([PROGRAM, "doctor", str(path), "--partial"], capture_output=True, timeout=60)
        for seed in range(15):
            damaged = bytearray(whole)
            for i in range(20):
                damaged[(seed * 7919 + i * 104729) % len(damaged)] ^= 1 << (seed + i) % 8
            path.write_bytes(bytes(damaged))
            done = subprocess.run([PROGRAM, "doctor", str(path), "--partial"], capture_output=True, timeout=60)
            self.assertIn(done.returncode, (0, 3, 4), f"seed {seed}")


if __name__ == "__main__":
    unittest.main()
