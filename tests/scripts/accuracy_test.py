"""The accuracy suite's own arithmetic: variants, errors of quiet and noisy rows, limits, Daydream's simulation."""

import argparse
import json
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import accuracy
import daydream
import expectation
import first_predictions
import fit_bands
import fitted
import gates
import job_rows
import measured_table
import plan_accuracy
import scale_accuracy
import track_record
import truth
import validation


def row(median=100.0, p10=99.0, p90=101.0, **more):
    return truth.Row(Path("."), {"model": "m", "variant": "amp", "median_ms": median, "p10_ms": p10, "p90_ms": p90, "took_s": 1.0, **more})


def result(ms, **more):
    r = row(peak_bytes=1000, gpu_ms=50.0, **more)
    base = row(median=200.0)
    return accuracy.Result("f", base, r, ["amp"], {"ms": ms, "low_ms": ms - 2, "high_ms": ms + 2, "gpu_ms": 55.0, "peak_bytes": 900})


class Variants(unittest.TestCase):
    def test_combinations_are_read_from_the_left(self):
        self.assertEqual(truth.whatifs_of("ampclfused"), ["amp", "channels-last", "fused-optimizer"])
        self.assertEqual(truth.whatifs_of("bf16sdpafused"), ["amp:dtype=bf16", "flash-attention", "fused-optimizer"])
        self.assertEqual(truth.whatifs_of("compile"), ["compile"])
        self.assertIsNone(truth.whatifs_of("amp2"))


class Errors(unittest.TestCase):
    def test_quiet_rows_are_compared_with_their_median(self):
        self.assertAlmostEqual(row().error_pct(103), 3)

    def test_noisy_rows_are_compared_with_their_span(self):
        noisy = row(p10=90, p90=120)
        self.assertFalse(noisy.quiet)
        self.assertEqual(noisy.error_pct(119), 0)
        self.assertAlmostEqual(noisy.error_pct(130), 10)
        self.assertAlmostEqual(noisy.error_pct(85), -5)

    def test_a_declined_row_counts_as_wrong_altogether(self):
        r = accuracy.Result("f", row(), row(peak_bytes=1, gpu_ms=1.0), ["amp"], {"declined": "no"})
        self.assertEqual((r.time_pct, r.gpu_pct, r.memory_pct), (100, 100, 100))

    def test_rows_with_cupti_attached_tell_nothing_the_cpu_decides(self):
        spoilt, base = row(gpu_ms=50.0, run=1), row(gpu_ms=50.0, run=1)
        base.data["variant"] = "base"
        self.assertFalse(spoilt.judges_time)
        self.assertTrue(base.judges_time and row(gpu_ms=50.0).judges_time and row(gpu_ms=95.0, run=1).judges_time)
        unknown = {"run": 1, "p10": 80.0}
        self.assertTrue(row(run=1).judges_time)
        self.assertFalse(row(**unknown).judges_time)
        r = accuracy.Result("f", base, spoilt, ["amp"], {"ms": 150, "low_ms": 140, "high_ms": 160, "gpu_ms": 55.0})
        self.assertEqual((r.time_pct, r.covered, r.half_width_pct), (None, None, None))
        self.assertAlmostEqual(r.gpu_pct, 10)

    def test_a_base_measured_twice_is_the_mean_of_both(self):
        with tempfile.TemporaryDirectory() as folder:
            lines = [row(median=m, p10=m, p90=m).data | {"variant": v} for v, m in (("base", 80.0), ("again", 125.0))]
            (Path(folder) / "truth.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
            found = truth.Folder(Path(folder))
            self.assertAlmostEqual(found.base_ms(found.rows[0]), 100)

    def test_figures(self):
        f = accuracy.figures([result(101), result(97)])
        self.assertAlmostEqual(f["quiet_mean"], 2)
        self.assertAlmostEqual(f["quiet_max"], 3)
        self.assertAlmostEqual(f["gpu_max"], 10)
        self.assertAlmostEqual(f["memory_mean"], 10)


class Gate(unittest.TestCase):
    def failures(self, now, held, folders=("f",)):
        return accuracy.regressions(now, held, list(folders))

    def test_it_sees_what_got_worse(self):
        held = accuracy.limits_of([result(101)])
        self.assertEqual(self.failures([result(101)], held), [])
        self.assertEqual(len([line for line in self.failures([result(103)], held) if "quiet" in line and "bands" not in line]), 2)

    def test_a_figure_without_a_limit_fails(self):
        held = accuracy.limits_of([result(101)])
        del held["figures"]["f"]["amp"]["gpu_max"]
        self.assertEqual(len(self.failures([result(101)], held)), 1)
        self.assertIn("gpu max is 10.00 and has no limit", self.failures([result(101)], held)[0])
        self.assertTrue(self.failures([result(101)], {}))

    def test_a_row_that_is_gone_fails(self):
        held = accuracy.limits_of([result(101), result(101)])
        self.assertEqual(self.failures([result(101)], held), ["f: the row m amp is gone"])
        self.assertEqual(len(self.failures([], held)), 2)          # the whole folder
        self.assertEqual(self.failures([], held, folders=[]), [])  # a folder nobody asked for

    def test_bands_may_neither_miss_more_nor_widen(self):
        rows = [result(101) for _ in range(10)]
        held = accuracy.limits_of(rows)
        one = [result(103), *rows[1:]]  # 103 - 2 is above the measured 100: one row in ten is no reason to stop
        self.assertEqual([line for line in self.failures(one, held) if "bands" in line], [])
        two = [result(103), result(103), *rows[2:]]
        self.assertEqual(len([line for line in self.failures(two, held) if "coverage" in line]), 2)
        for r in rows:
            r.prediction["high_ms"] += 4
        self.assertEqual(len([line for line in self.failures(rows, held) if "half width" in line]), 1)


class OtherGates(unittest.TestCase):
    def test_limits(self):
        self.assertEqual(gates.over("x", {"a": 1.4}, {"a": 1.0}, 0.5), [])
        self.assertEqual(len(gates.over("x", {"a": 1.6}, {"a": 1.0}, 0.5)), 1)
        self.assertEqual(len(gates.over("x", {"a": 0.1}, {}, 0.5)), 1)
        self.assertEqual(len(gates.over("x", {"a": 70}, {"a": 80}, 0.5, {"a": 5})), 1)
        self.assertEqual(gates.over("x", {"a": 76}, {"a": 80}, 0.5, {"a": 5}), [])
        self.assertEqual(gates.over("x", {"a": 96}, {"a": 80}, 0.5, {"a": 5}), [])

    def test_steps_of_several_workers(self):
        folder = [truth.ROOT / "data" / "h200-ranks"]
        good = {case: [0.01] * rows for case, rows in scale_accuracy.ROWS["data/h200-ranks"].items()}
        self.assertEqual(scale_accuracy.broken(good, folder, 6, 15), [])
        self.assertEqual(len(scale_accuracy.broken(good | {"fsdp": [0.01, 0.2, 0.01]}, folder, 6, 15)), 1)
        self.assertEqual(len(scale_accuracy.broken(good | {"fsdp": [0.01]}, folder, 6, 15)), 1)
        self.assertEqual(len(scale_accuracy.broken(good | {"gossip": [0.01]}, folder, 6, 15)), 1)
        self.assertEqual(len(scale_accuracy.broken(good | {"ddp": [0.01] * 8 + [0.2]}, folder, 6, 15)), 1)


class Fitted(unittest.TestCase):
    def test_bands_in_sample_and_left_out(self):
        # Three models that agree and one that is further off: in sample it widens the band, left out nothing has foreseen it.
        rows = [("gemm", m, v) for m, v in (("a", 0.01), ("b", -0.01), ("c", 0.01), ("d", 0.02))]
        self.assertEqual(fit_bands.inside(rows, False), 100)
        self.assertEqual(fit_bands.inside(rows, True), 75)
        self.assertIsNone(fit_bands.inside(rows[:1], True))
        self.assertEqual([c.strip() for c in fit_bands.table(rows)[2].strip("|").split("|")][-2:], ["100", "75"])

    def test_a_model_has_one_vote(self):
        once = [("gemm", "a", 0.1), ("gemm", "b", 0.2)]
        self.assertAlmostEqual(fit_bands.sigma(once), fit_bands.sigma([*once, *[("gemm", "a", 0.1)] * 8]))


class Validation(unittest.TestCase):
    def test_counts(self):
        rows = [validation.Measured(*r) for r in (("amp", "a", True), ("amp", "a", False), ("amp", "b", True), ("tf32", "a", False))]
        self.assertEqual(validation.counted(rows), {"amp": (3, 2, 2), "tf32": (1, 1, 0)})

    def test_a_claim_beyond_the_rows_fails(self):
        said = validation.parsed("# head\namp,3,2,2\ntf32,1,1,0\n")
        self.assertEqual(validation.problems(said, said, whole=True), [])
        self.assertEqual(len(validation.problems(said, {"amp": (2, 2, 2), "tf32": (1, 1, 0)}, whole=True)), 1)
        self.assertEqual(len(validation.problems(said, {"amp": (3, 2, 2)}, whole=True)), 1)
        # Where some of the measurements are not at hand, a count may be larger than what is seen, never smaller; what the
        # repository holds is at hand always.
        self.assertEqual(validation.problems(said, {"amp": (2, 2, 2)}, whole=False), [])
        self.assertEqual(len(validation.problems(said, {"amp": (4, 2, 2)}, whole=False)), 1)
        self.assertEqual(len(validation.problems(said, {"amp": (2, 2, 1)}, whole=False)), 1)

    def test_what_the_repository_says_holds(self):
        found = validation.counted(validation.measured_rows())
        self.assertEqual(validation.problems(validation.parsed(validation.COUNTS.read_text()), found, whole=False), [])


class Folders(unittest.TestCase):
    def test_rows_belong_to_the_base_of_their_run(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            rows = [{"model": "a", "variant": v, "run": run, "median_ms": 1, "p10_ms": 1, "p90_ms": 1, "trace": f"{run}.json"}
                    for v, run in (("base", "x"), ("amp", "x"), ("base", "y"), ("tf32", "y"), ("sgd", "y"), ("fused", "z"))]
            (folder / "truth.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
            for run in "xy":
                (folder / f"{run}.json").write_text("{}")
            cases = truth.Folder(folder).cases()
            self.assertEqual([[r.variant for r in mine] for _, mine in cases], [["amp", "fused"], ["tf32"]])


class Daydream(unittest.TestCase):
    def test_rules_and_simulation(self):
        """Two kernels of 30 us behind calls of 10 us and gaps of 5, then a call that waits for both."""
        def call(ts, dur, corr, name="cudaLaunchKernel"):
            return {"ph": "X", "cat": "cuda_runtime", "name": name, "tid": 1, "ts": ts, "dur": dur, "args": {"correlation": corr}}

        def kernel(ts, corr, name):
            return {"ph": "X", "cat": "kernel", "name": name, "ts": ts, "dur": 30, "args": {"correlation": corr, "stream": 7}}

        events = [{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "ts": 0, "dur": 80, "tid": 1},
                  call(0, 10, 1), call(15, 10, 2), call(30, 48, 3, "cudaDeviceSynchronize"),
                  kernel(15, 1, "a_sgemm_b"), kernel(45, 2, "elementwise")]
        with tempfile.TemporaryDirectory() as name:
            path = Path(name) / "t.json"
            path.write_text(json.dumps({"traceEvents": events}))
            step = daydream.Step(path, "ProfilerStep#1")
        # Kernels at 15 and 45 end at 75; the waiting call needs 3 us after them, and 2 follow it.
        self.assertAlmostEqual(step.simulate() * 1e3, 80)
        # 30/3 and 30/2: the second starts at 30, when its call and the gap behind it are over.
        self.assertAlmostEqual(step.predict(["amp"]) * 1e3, 50)
        self.assertIsNone(step.predict(["tf32"]))


class TrackRecord(unittest.TestCase):
    APPENDIX = """<!-- rows -->

| row | measured ms | predicted ms | band | speed-up | measured | time % | GPU time % | memory % |
|-----|------------:|-------------:|-----:|---------:|---------:|-------:|-----------:|---------:|
| f a amp | 10 | 9 | 8 … 10 | 2 | 2 | -10.0 | +1.0 | – |
| f b ampfused | 10 noisy | 9 | 8 … 10 | 2 | 2 | +2.0 | – | -0.5 |
| f c fused | 10 noisy | 9 | 8 … 10 | 2 | 2 | – | +4.0 | +0.0 |

<!-- end of rows -->
<!-- unseen-rows -->
| row | measured ms | predicted ms | band | speed-up | measured | time % | GPU time % | memory % |
| f d amp | 10 | 9 | 8 … 10 | 2 | 2 | -3.0 | – | – |
<!-- end of unseen-rows -->
<!-- jax-rows -->
| from | what if | measured | network | step % | GPU time % |
|---|---:|---:|---:|---:|---:|
| net.tf32.b8 | fp32:products=tf32 | net.fp32.b8 | net | +4.0 | -2.0 |
<!-- end of jax-rows -->
"""
    PUBLISHED = """<!-- published-rows -->
| source | network | precision | batch | GPU | published ms | predicted ms | step % | in band |
|---|---:|---:|---:|---:|---:|---:|---:|---:|
| lab | net 224 | FP32 | 64 | A100 | 10.0 | 10.7 | +7.0 | yes |
| lab | net 224 | TF32 | 64 | A100 | 10.0 | 9.7 | -3.0 | yes |
<!-- end of published-rows -->
"""
    SCALE = """<!-- scale-rows -->
| model | ranks | case | network | measured ms | predicted ms | error % |
|---|---:|---|---:|---:|---:|---:|
| a | 2 | ddp@5 | sockets | 88 | 82 | -4.0 |
<!-- end of scale-rows -->
"""
    JOBS = """<!-- jobs-from-one -->
| folder | model | ranks | case | what-if | measured ms | error % | network | peak % |
|---|---|---:|---|---:|---:|---:|---:|---:|
| f | a | 2 | ddp/amp | amp + ddp | 50.0 | +8.0 | one GPU | +1.0 |
| f | a | 2 | pp4 | – | 40.0 | +50.0 | one GPU | – |
<!-- end of jobs-from-one --><!-- jobs-from-all -->
| folder | model | ranks | case | what-if | measured ms | error % | network | peak % |
|---|---|---:|---|---:|---:|---:|---:|---:|
| f | a | 2 | tp → tp/fused | fused-optimizer | 30.0 | +0.0 | one GPU | – |
| f | a | 2 | ddp → ddp/amp | amp | 50.0 | -2.0 | one GPU | – |
<!-- end of jobs-from-all -->
"""

    def lines(self):
        pages = (self.APPENDIX, self.SCALE, self.JOBS, self.PUBLISHED)
        return dict(line.split(",", 1) for line in track_record.text_of(track_record.found(*pages, self.FIRST)).splitlines()[1:])

    FIRST = (track_record.First("f a amp", "", ("amp",), 20.0), track_record.First("a 2 ddp@5", "sockets", ("ddp", "bucket"), 30.0))

    def test_a_row_counts_for_every_whatif_it_needs(self):
        found = [f"{name}," + ",".join(line.split(",")[:5]) for name, line in self.lines().items()]
        self.assertEqual(found, ["amp,3,5.5,10.0,1.0,0.8", "bucket,1,4.0,4.0,,", "ddp,2,6.0,8.0,,1.0", "fp32,1,4.0,4.0,2.0,",
                                 "fused-optimizer,2,1.0,2.0,4.0,0.2", "gpu,2,5.0,7.0,,"])

    def test_the_worst_row_unseen_networks_and_first_predictions_are_named(self):
        lines = self.lines()
        self.assertTrue(lines["gpu"].endswith(",lab net 224 FP32 on A100,0,,0,0,"), lines["gpu"])
        self.assertTrue(lines["amp"].endswith(",f a amp,1,3.0,1,1,20.0"), lines["amp"])
        self.assertIn(",JAX net.fp32.b8 from net.tf32.b8,", lines["fp32"])

    def test_networks_are_counted_once(self):
        self.assertTrue(self.lines()["ddp"].endswith(",a 2 ddp/amp,0,,2,1,30.0"))


class JobRows(unittest.TestCase):
    def row(self, ms, folder=truth.ROOT / "data", low=95.0, high=105.0, **said):
        step = job_rows.Step(low, 100.0, high, 1000)
        return job_rows.JobRow(folder, "m", 2, "ddp", ("ddp",), "net", step, {"ms": ms, "low_ms": ms - 2, "high_ms": ms + 2, **said})

    def test_noisy_steps_are_compared_with_their_span(self):
        noisy, quiet = self.row(110), self.row(110, low=98.0, high=102.0)
        self.assertAlmostEqual(noisy.step_pct, 5)
        self.assertAlmostEqual(quiet.step_pct, 10)
        self.assertAlmostEqual(self.row(80).step_pct, -15)
        self.assertEqual((self.row(104).step_pct, self.row(104).in_band, self.row(101).in_band), (0, False, True))

    def test_a_row_says_where_it_lies_and_what_connects_its_ranks(self):
        cells = dict(zip(job_rows.HEAD, self.row(104, Path("/elsewhere/h200"), peak_bytes=1100).cells(), strict=True))
        self.assertEqual((cells["folder"], cells["network"], cells["peak %"]), ("FORETRACE_TRUTH/h200", "sockets", "+10.0"))
        self.assertEqual(self.row(104).cells()[0], "data")

    def test_ranks_wait_for_each_other(self):
        ranks = [{"p10_ms": 9, "median_ms": 10, "p90_ms": 11, "peak_bytes": 5}, {"p10_ms": 9, "median_ms": 12, "p90_ms": 13, "peak_bytes": 7}]
        self.assertEqual(job_rows.step_of(ranks), job_rows.Step(9, 11, 12, 7))


class PlanAccuracy(unittest.TestCase):
    def test_steps_over_fewer_channels_are_another_network(self):
        rows = [{"model": "m", "world": 2, "case": "ddp", "tag": "inside", "rank": r, "median_ms": 1.0, **more} for r in (0, 1)
                for more in ({}, {"max_ctas": "4"}, {"max_ctas": "1"})]
        (key, mine), = plan_accuracy.jobs(rows).items()
        self.assertEqual((key, len(mine)), (("m", 2, "ddp", "inside"), 4))

    def test_a_case_is_a_change_and_a_scheme(self):
        def names(case):
            return [use.split(":")[0] for use in plan_accuracy.uses_of(case)]

        self.assertEqual(names("tp2dp/ckpt"), ["checkpoint", "tp", "ddp"])
        self.assertEqual(names("ddp/bucket5"), ["bucket"])
        self.assertEqual((names("ddp/eager"), names("pp4"), names("pp4/bs2")), ([], ["pp"], ["batch", "pp"]))


class Schemes(unittest.TestCase):
    def test_models_that_nothing_was_fitted_on_are_shown_apart(self):
        found = [scale_accuracy.Compared("ddp", "resnet50", 0.1, 0.2, True), scale_accuracy.Compared("ddp", "vgg16", 0.3, 0.4, False),
                 scale_accuracy.Compared("topk", "bert_base", 0.5, 0.6, False)]
        lines = {cells[0]: cells[1:] for cells in ([c.strip() for c in line.strip("|").split("|")] for line in scale_accuracy.summary(found))}
        self.assertEqual(lines["all"], ["3", "30.0", "50.0", "40.0", "60.0", "1 of 3"])
        self.assertEqual(lines["all, models nothing was fitted on"], ["1", "30.0", "30.0", "40.0", "40.0", "0 of 1"])


class FirstPredictions(unittest.TestCase):
    def test_a_row_is_found_again_by_its_network_and_what_was_measured(self):
        errors = {("resnet50 2 ddp 72.7", "one GPU"): 0.6, ("resnet50 2 ddp 82.1", "sockets"): -1.9, ("f m amp", ""): 3.0}
        first = track_record.First("resnet50 2 ddp", "one GPU", ("ddp",), 5.0, 72.68)
        self.assertEqual(first_predictions.today(first, errors), 0.6)
        self.assertIsNone(first_predictions.today(track_record.First("resnet50 2 ddp", "sockets", ("ddp",), 5.0, 79.1), errors))
        self.assertEqual(first_predictions.today(track_record.First("f m amp", "", ("amp",), 5.0, 10.0), errors), 3.0)

    def test_what_was_declined_is_wrong_altogether(self):
        said = first_predictions.line("f m amp", "", ["amp"], 10.0, {"declined": "no"}, 100.0)
        self.assertEqual((said["first_ms"], said["error_pct"], said["to_median_pct"]), ("", "+100.0", "+100.0"))

    def test_the_tables_say_what_was_kept(self):
        options = argparse.Namespace(write=False)
        self.assertEqual(fitted.stale(first_predictions.files(options)), [])


class MeasuredTable(unittest.TestCase):
    def test_what_is_missing_is_said(self):
        def said(changes, *counted, **more):
            return measured_table.missing({"name": "x", "changes": changes, **more}, *counted)

        self.assertEqual(said("shapes", 4, 3, 0, 4), "–")
        self.assertEqual(said("shapes", 3, 1, 0, 0), "3 of 4 rows; 1 of 3 models; 0 of 3 rows tell the time")
        self.assertEqual(said("workers", 6, 3, 1, 6), "1 of 2 networks")
        self.assertEqual(said("host", 0, 0, 0, 0, by_definition="arithmetic"), "by definition: arithmetic")

    def test_no_claim_without_rows(self):
        whatifs = [{"name": "a", "validated": True}, {"name": "b", "validated": True}, {"name": "c", "validated": False},
                   {"name": "d", "validated": True, "by_definition": "arithmetic"}]
        self.assertEqual(measured_table.unfounded(whatifs, {"a": {}}), ["b"])


class Expectation(unittest.TestCase):
    HEAD = "| row | measured ms | predicted ms | band | speed-up | measured | time % | GPU time % | memory % | measured span ms | in band | network |\n|---|\n"
    ROWS = HEAD + """| f a amp | 10.00 | 11.00 | 10 … 12 | 2 | 2 | +10.0 | +1.0 | – | 9.90 … 10.10 | no | a |
| f a bs2 | 10.00 noisy | 9.00 | 8 … 10 | 2 | 2 | +0.0 | – | -0.5 | 8.00 … 12.00 | yes | a |
| f b@2 bs2 | 10.00 noisy | 13.00 | 9 … 14 | 2 | 2 | +10.0 | – | -0.5 | 8.00 … 12.00 | yes | b |
| f b ampfused | 10.00 noisy | 5.00 | 4 … 6 | 2 | 2 | – | +4.0 | +0.0 | 9.00 … 12.00 | – | b |
| f c ckpt | 10.00 | declined | – | – | 2 | +100.0 | +100.0 | – | 9.90 … 10.10 | – | c |
"""

    def cases(self):
        return expectation.cases(track_record.between(f"<!-- rows -->\n{self.ROWS}<!-- end of rows -->", "rows"))

    def test_distances_to_the_median_and_to_the_span(self):
        amp, bs2, far, _, declined = self.cases()
        self.assertAlmostEqual(amp.to_median_pct, 10)
        self.assertAlmostEqual(amp.to_span_pct, 9)
        self.assertAlmostEqual(bs2.to_median_pct, -10)
        self.assertEqual(bs2.to_span_pct, 0)
        self.assertAlmostEqual(far.to_span_pct, 10)
        self.assertEqual((declined.to_median_pct, declined.to_span_pct, declined.in_band), (100, 100, False))

    def test_kinds_of_questions(self):
        self.assertEqual([c.kind.split(":")[0].split(",")[0] for c in self.cases()],
                         ["precision", "batch size", "batch size", "several changes together", "accumulate"])
        for use in truth.SWITCHES.values():
            if use != "batchnorm":
                self.assertTrue(any(use.split(":")[0] in names for names in expectation.KINDS.values()), use)

    def test_a_line_of_the_table(self):
        timed = [c for c in self.cases() if c.timed]
        self.assertEqual(expectation.cells("all", timed), ["all", "3", "2", "55.0 / 100.0", "54.5 / 100.0", "2", "20.0 / 30.0", "+10.0", "5.0 / 10.0", "2 of 4"])

    def test_the_page_must_say_what_the_rows_do(self):
        with tempfile.TemporaryDirectory(dir=truth.ROOT / "tests") as temp:
            page = Path(temp) / "page.md"
            page.write_text(expectation.DOCS.read_text())
            self.assertEqual(fitted.stale(expectation.files(page)), [])
            page.write_text(page.read_text().replace("**Noise and bias.**", "**Noise.**"))
            self.assertEqual(fitted.stale(expectation.files(page)), [page])


if __name__ == "__main__":
    unittest.main()
