"""Which predictions count as rows behind a what-if: those of JAX, ways back from a recorded variant, one measurement in several predictions."""

import json
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import jax_accuracy
import truth
import validation


class RowsOfJax(unittest.TestCase):
    @staticmethod
    def pair(base: dict, use: str, row: dict) -> jax_accuracy.Pair:
        return jax_accuracy.Pair(base, use, row, {"ms": 1.0})

    def test_nothing_is_both_predicted_and_predicted_from(self):
        small, middle, large = ({"trace": f"net.fp32.b{b}.xplane.pb.gz", "precision": "fp32", "bs": b} for b in (32, 64, 128))
        pairs = [self.pair(base, f"batch:x={row['bs'] / base['bs']:g}", row) for base in (small, middle, large) for row in (small, middle, large) if base is not row]
        # The one that has a neighbour on both sides is the base of the others.
        self.assertEqual([p.name for p in jax_accuracy.each_once(pairs)], ["net.fp32.b64 batch:x=2", "net.fp32.b64 batch:x=0.5"])

    def test_a_loop_that_nobody_waits_for_is_judged_by_its_own_program(self):
        row = {"trace": "net.fp32.b8.xplane.pb.gz", "precision": "fp32", "bs": 8}
        self.assertEqual(len(jax_accuracy.each_once([self.pair(row, "no-sync", row)])), 1)


class WayBack(unittest.TestCase):
    def test_the_base_is_a_row_of_the_variant_it_is_made_of_again(self):
        with tempfile.TemporaryDirectory() as folder:
            rows = [{"model": "net", "variant": v, "median_ms": m, "p10_ms": m, "p90_ms": m, "trace": f"net.{v}.json.gz"} for v, m in (("base", 20.0), ("tf32", 10.0), ("amp", 9.0))]
            Path(folder, "truth.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
            for r in rows:
                Path(folder, str(r["trace"])).touch()
            (recorded, (row,)), = truth.Folder(Path(folder)).back()
            self.assertEqual((recorded.variant, recorded.median, row.uses, row.median), ("tf32", 10.0, ["fp32"], 20.0))
            self.assertAlmostEqual(truth.Folder(Path(folder)).base_ms(recorded), 10.0)


class Measurements(unittest.TestCase):
    def test_a_measurement_predicted_in_two_ways_is_one_row(self):
        rows = [validation.Measured("amp", "a", inside, measurement) for inside, measurement in ((False, "a 2 ddp/amp 50.0"), (True, "a 2 ddp/amp 50.0"), (False, ""), (False, ""))]
        self.assertEqual(validation.counted(rows), {"amp": (3, 1, 1)})


if __name__ == "__main__":
    unittest.main()
