"""Measured operations: the trace that is written of them, how they are compared, and that the kernel table is made of them."""

import json
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import itertools

import fit_kernels
import fit_operations
import operation_rows


def row(kind, name, which, shape, kernels="k x1@10.00", dtype="bf16", layout="", us=10.0):
    return {"kind": kind, "name": name, "pass": which, "dtype": dtype, "layout": layout, "benchmark": "0", "shape": shape, "kernel_us": us,
            "kernels": kernels, "sizes": {k: int(v) for k, v in (i.split("=") for i in shape.split(";"))}}


def traced(rows):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.json"
        spelt = operation_rows.write_trace(rows, path)
        return spelt, json.loads(path.read_text())["traceEvents"]


class Trace(unittest.TestCase):
    def test_a_gradient_says_which_one_it_is_and_how_its_tensors_lie(self):
        shape = "n=8;c=16;h=14;w=14;k=32;r=3;s=3;stride=2;pad=1;dilation=1;groups=1"
        _, events = traced([row("conv", "strided", "wgrad", shape, layout="nhwc")])
        op = events[0]
        self.assertEqual(op["name"], "aten::convolution_backward")
        self.assertEqual(op["args"]["Input Dims"][:3], [[8, 32, 7, 7], [8, 16, 14, 14], [32, 16, 3, 3]])
        self.assertEqual(op["args"]["Input Strides"][1], [16 * 196, 1, 16 * 14, 16])
        self.assertEqual(op["args"]["Concrete Inputs"][10], "[False, True, False]")

    def test_every_kernel_is_launched_inside_its_operation_and_no_two_overlap(self):
        spelt, events = traced([row("gemm", "linear", "fwd", "m=4;n=8;k=16", "a x2@6.00 | b x1@4.00")] * 3)
        self.assertEqual(len(spelt), 3)
        kernels = [e for e in events if e["cat"] == "kernel"]
        self.assertEqual([k["dur"] for k in kernels[:3]], [3.0, 3.0, 4.0])
        calls = {e["args"]["correlation"]: e for e in events if e["cat"] == "cuda_runtime"}
        for i, k in enumerate(kernels):
            op, call = events[i // 3], calls[k["args"]["correlation"]]
            self.assertLess(op["ts"], call["ts"])
            self.assertLess(call["ts"] + call["dur"], op["ts"] + op["dur"])
        for a, b in itertools.pairwise(kernels):
            self.assertLessEqual(a["ts"] + a["dur"], b["ts"])

    def test_kernels_of_other_operations_are_left_out(self):
        spelt, events = traced([row("rows", "softmax", "bwd", "rows=8;c=16", "vectorized_elementwise_kernel x1@4.00 | softmax_warp_backward x1@6.00")])
        self.assertEqual(spelt[0]["kernel_us"], 6.0)
        self.assertEqual([e["name"] for e in events if e["cat"] == "kernel"], ["softmax_warp_backward"])

    def test_masks_and_copies_around_attention_are_left_out(self):
        kernels = "elementwise_kernel<where> x1@4.00 | Memset (Device) x1@1.00 | cudnn_generated_fort_native_sdpa x1@6.00 | reduce_kernel x1@2.00"
        spelt, _ = traced([row("sdpa", "fused", "fwd", "b=2;h=4;kv=4;q=8;s=8;d=64", kernels, layout="mask")])
        self.assertEqual(spelt[0]["kernel_us"], 9.0)
        spelt, _ = traced([row("sdpa", "fused", "bwd", "b=2;h=4;kv=4;q=8;s=8;d=64", kernels, layout="mask")])
        self.assertEqual(spelt[0]["kernel_us"], 7.0)

    def test_streams_say_how_their_operands_lie(self):
        _, events = traced([row("streams", "transpose", "fwd", "rows=6;c=4", "elementwise_kernel x1@4.00")])
        self.assertEqual(events[0]["name"], "aten::copy_")
        self.assertEqual(events[0]["args"]["Input Dims"][:2], [[4, 6], [4, 6]])
        self.assertEqual(events[0]["args"]["Input Strides"][:2], [[6, 1], [1, 4]])
        _, events = traced([row("streams", "heads_keys", "fwd", "b=2;s=3;h=4;d=5", "elementwise_kernel x1@4.00")])
        self.assertEqual(events[0]["args"]["Input Strides"][1], [60, 5, 1, 20])

    def test_an_index_says_in_its_launch_what_it_does_not_record(self):
        _, events = traced([row("gather", "index", "fwd", "v=60;c=512;i=480", "vectorized_gather_kernel<16> x1@5.00", layout="even")])
        self.assertEqual(events[0]["args"]["Input Dims"], [[60, 512], []])
        self.assertEqual([e["args"]["grid"] for e in events if e["cat"] == "kernel"], [[480, 1, 1]])
        spelt, events = traced([row("gather", "pairs", "bwd", "n=64;c=27", "vectorized_elementwise_kernel x4@6.00 | Memset x1@1.00 | indexing_backward x1@9.00")])
        self.assertEqual((events[0]["name"], events[0]["args"]["Input Dims"][2]), ("aten::_index_put_impl_", [64, 351]))
        self.assertEqual(spelt[0]["kernel_us"], 10.0)

    def test_a_row_of_several_operations_is_no_operation(self):
        spelt, _ = traced([row("rows", "cross_entropy", "fwd", "rows=8;c=16")])
        self.assertEqual(spelt, [])


class Comparison(unittest.TestCase):
    def test_a_change_is_judged_by_the_row_it_leads_to(self):
        shape, double = (f"n={n};c=16;h=14;w=14;k=32;r=3;s=3;stride=1;pad=1;dilation=1;groups=1" for n in (8, 16))
        model = {"predicted_us": 20.0, "known": 1.0, "tf32": 5.0, "fp16": 5.0, "bf16": 8.0, "nhwc": 0.0, "x2": 22.0, "xh": 0.0}
        rows = [row("conv", "square", "fwd", s, dtype=d, layout="nchw", us=us) | {"model": model}
                for s, d, us in ((shape, "fp32", 10.0), (shape, "bf16", 4.0), (double, "fp32", 20.0))]
        figures = fit_operations.compare(rows, passes=False)
        self.assertEqual(figures["fp32 -> bf16"]["conv square"]["bf16"]["median_pct"], 100.0)
        self.assertEqual(figures["x2"]["conv square"]["fp32"], {"n": 1, "unknown": 0, "median_pct": 10.0, "p90_pct": 10.0, "ratio": 1.1})
        self.assertEqual(figures["xh"]["conv square"]["fp32"], {"n": 0, "unknown": 1})


class Tables(unittest.TestCase):
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
