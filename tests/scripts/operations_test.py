"""The kernel tables are made of the measured operations."""

import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import fit_kernels


def row(kind, name, which, shape, kernels="k x1@10.00", dtype="bf16", layout="", us=10.0):
    return {"kind": kind, "name": name, "pass": which, "dtype": dtype, "layout": layout, "benchmark": "0", "shape": shape, "kernel_us": us,
            "kernels": kernels, "sizes": {k: int(v) for k, v in (i.split("=") for i in shape.split(";"))}}


class Tables(unittest.TestCase):
    def test_kernels_of_other_operations_are_left_out(self):
        softmax = row("rows", "softmax", "bwd", "rows=8;c=16", "vectorized_elementwise_kernel x1@4.00 | softmax_warp_backward x1@6.00") | {"min_us": ""}
        self.assertEqual(fit_kernels.own_us(softmax, fit_kernels.operation_rows.elsewhere("softmax", "bwd")), 6.0)
        kernels = "elementwise_kernel<where> x1@4.00 | Memset (Device) x1@1.00 | cudnn_generated_fort_native_sdpa x1@6.00 | reduce_kernel x1@2.00"
        for which, us in (("fwd", 9.0), ("bwd", 7.0)):
            mask = row("sdpa", "fused", which, "b=2;h=4;kv=4;q=8;s=8;d=64", kernels, us=13.0) | {"min_us": ""}
            self.assertAlmostEqual(fit_kernels.own_us(mask, fit_kernels.operation_rows.elsewhere("fused", which)), us)

    def test_bad_guesses_are_marked(self):
        """The same filters over twice the signals were over in a quarter of the time: in the other half type, too. What was tried is no guess."""
        sizes = {n: (n, 768, 1, 1, 99, 768, 1, 1, 128, 1, 64, 1, 16, 1, 0, 0) for n in (1, 2)}
        tried = (*sizes[1][:-1], 1)
        rows = [(sizes[1], "fwd bf16 nchw", 900.0), (sizes[2], "fwd fp16 nchw", 200.0), (tried, "fwd bf16 nchw", 900.0), (sizes[1], "fwd fp32 nchw", 900.0)]
        self.assertEqual(fit_kernels.bad_guesses(rows), {(sizes[1], "fwd bf16 nchw")})
        text = fit_kernels.text_of("conv", {sizes[1]: {"fwd bf16 nchw": [900.0]}}, {(sizes[1], "fwd bf16 nchw")})
        self.assertTrue(text.endswith(",900?\n"))

    def test_a_cell_of_the_table_is_the_mean_of_what_was_measured(self):
        """Two measurements of one shape, one of them with others running meanwhile; a linear layer's gradient is a product of its own."""
        text = fit_kernels.text_of("gemm", {(1, 8, 16, 4): {"fwd fp16 nn": [2.0, 8.0]}, (1, 4, 4, 4): {"fwd fp32 nt": [1.0]}})
        self.assertEqual(text.splitlines()[1:], ["b,m,n,k,fwd fp16 nn,fwd fp32 nt", "1,4,4,4,,1", "1,8,16,4,4"])
        busy = row("conv", "square", "fwd", "n=8;c=16", us=10.0) | {"min_us": "7.0"}
        self.assertEqual(fit_kernels.own_us(busy, None), 7.0)
        sizes, lie = fit_kernels.gemm_cell({"m": 32, "n": 8, "k": 16}, "wgrad")
        self.assertEqual((sizes, lie), ({"b": 1, "m": 8, "n": 16, "k": 32}, "tn"))

    def test_rows_by_index_go_to_the_table_of_what_is_done_with_them(self):
        def place(name, which, shape, layout="even"):
            return fit_kernels.place_of_operation(row("gather", name, which, shape, layout=layout))

        self.assertEqual(place("index_select", "bwd", "v=9;c=4;i=7"), ("added", {"i": 7, "c": 4, "v": 9, "sets": 1}, "fwd bf16 all"))
        self.assertEqual(place("pairs", "bwd", "n=10;c=4"), ("sorted", {"i": 60, "c": 1, "v": 16, "sets": 10}, "fwd bf16 all"))
        self.assertEqual(place("embedding_bag", "fwd", "v=9;c=4;i=17")[1]["b"], 3)
        # What alike indices cost is in their values: only taking rows does not depend on them.
        self.assertIsNone(place("index", "bwd", "v=9;c=4;i=7", "skewed"))
        self.assertEqual(place("index", "fwd", "v=9;c=4;i=7", "skewed")[0], "taken")

    def test_a_table_that_was_changed_by_hand_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            kept = fit_kernels.KERNELS
            try:
                fit_kernels.KERNELS = Path(folder)
                made = {"nll_loss": {(8, 16): {"fwd fp32 all": [2.0]}}}
                with unittest.mock.patch.object(fit_kernels, "measured", lambda *_: made), unittest.mock.patch.object(sys, "argv", ["fit_kernels.py"]):
                    fit_kernels.main()
                    with unittest.mock.patch.object(sys, "argv", ["fit_kernels.py", "--check"]):
                        self.assertEqual(fit_kernels.main(), 0)
                        path = Path(folder) / "H200-SXM.nll_loss.csv"
                        path.write_text(path.read_text().replace(",2", ",3"))
                        self.assertEqual(fit_kernels.main(), 1)
            finally:
                fit_kernels.KERNELS = kept


if __name__ == "__main__":
    unittest.main()
