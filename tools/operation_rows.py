"""Measured operations (data/h200-operations) as the trace a profiler would have written of them, so that the library describes them
the way it describes any step: the operation with its shapes, strides, types and values, and the kernels it launched."""

from __future__ import annotations

import csv
import gzip
import json
import re
from pathlib import Path
from typing import Any

TYPES = {"fp32": "float", "tf32": "float", "fp16": "c10::Half", "bf16": "c10::BFloat16"}


def read(folder: Path, kinds: list[str] | None = None) -> list[dict[str, Any]]:
    """All rows; `sizes` holds the shape by name."""
    rows = []
    for path in sorted(folder.glob("*.csv.gz")):
        if kinds and path.name.removesuffix(".csv.gz") not in kinds:
            continue
        with gzip.open(path, "rt", newline="") as file:
            rows += list(csv.DictReader(file))
    for row in rows:
        row["sizes"] = {k: int(v) for k, v in (item.split("=") for item in row["shape"].split(";"))}
        row["kernel_us"] = float(row["kernel_us"])
    return rows


class Arguments:
    """The inputs of an operation, as a profiler writes them."""

    def __init__(self, dtype: str):
        self.type = TYPES[dtype]
        self.dims: list[Any] = []
        self.strides: list[Any] = []
        self.types: list[str] = []
        self.values: list[str] = []

    def tensor(self, *shape: int, order: str = "", kind: str = "") -> Arguments:
        """`order`: "last" has channels innermost, "t" the last two dimensions swapped, "heads" dimensions 1 and 2; "expanded" repeats one
        column."""
        if order == "expanded":
            return self._add(list(shape), [1] + [0] * (len(shape) - 1), kind or self.type, "")
        rank = range(len(shape))
        by = {"": list(rank), "last": [0, *range(2, len(shape)), 1], "t": [*rank][:-2] + [len(shape) - 1, len(shape) - 2],
              "heads": [0, 2, 1, 3]}[order]
        strides, step = [0] * len(shape), 1
        for dim in reversed(by):
            strides[dim] = step
            step *= shape[dim]
        return self._add(list(shape), strides, kind or self.type, "")

    def strided(self, shape: tuple[int, ...], strides: list[int]) -> Arguments:
        return self._add(list(shape), strides, self.type, "")

    def value(self, value: Any) -> Arguments:
        return self._add([], [], "ScalarList" if isinstance(value, list) else "Scalar", str(value))

    def none(self, count: int = 1) -> Arguments:
        for _ in range(count):
            self._add([], [], "", "")
        return self

    def indices(self, *shape: int, order: str = "") -> Arguments:
        return self.tensor(*shape, kind="long int", order=order)

    def put(self, *values: int, adds: bool = True) -> str:
        self.tensor(*values).value(adds).value(True)
        return "aten::_index_put_impl_"

    def rows_added(self, name: str, *values: int) -> str:
        self.tensor(*values)
        return name

    def _add(self, dims: Any, strides: Any, kind: str, value: str) -> Arguments:
        self.dims.append(dims)
        self.strides.append(strides)
        self.types.append(kind)
        self.values.append(value)
        return self

    def recorded(self) -> dict[str, Any]:
        return {"Input Dims": self.dims, "Input Strides": self.strides, "Input type": self.types, "Concrete Inputs": self.values}


def _conv(row: dict[str, Any], a: Arguments) -> str:
    s = row["sizes"]
    transposed, last = row["name"] == "transposed", "last" if row["layout"] in ("nhwc", "ndhwc") else ""
    spatial, filters = [s[x] for x in "dhw" if x in s], [s[x] for x in ("q", "r", "s") if x in s]
    n = len(spatial)
    outer, inner = (s["c"], s["k"]) if transposed else (s["k"], s["c"])
    x, w = (s["n"], s["c"], *spatial), (outer, inner // s["groups"], *filters)
    out = [(e - 1) * s["stride"] - 2 * s["pad"] + f if transposed else (e + 2 * s["pad"] - s["dilation"] * (f - 1) - 1) // s["stride"] + 1
           for e, f in zip(spatial, filters)]
    if row["pass"] != "fwd":
        a.tensor(s["n"], s["k"], *out, order=last)
    a.tensor(*x, order=last).tensor(*w, order=last).none()
    a.value([s["stride"]] * n).value([s["pad"]] * n).value([s["dilation"]] * n).value(transposed).value([0] * n).value(s["groups"])
    if row["pass"] == "fwd":
        return "aten::convolution"
    a.value([row["pass"] == "dgrad", row["pass"] == "wgrad", False])
    return "aten::convolution_backward"


def _gemm(row: dict[str, Any], a: Arguments) -> str:
    s, how = row["sizes"], row["layout"]
    if row["name"] == "batched":
        a.tensor(s["b"], s["m"], s["k"], order="t" if how[0] == "t" else "").tensor(s["b"], s["k"], s["n"], order="t" if how[1] == "t" else "")
        return "aten::bmm"
    if row["pass"] == "fwd":
        a.tensor(s["n"]).tensor(s["m"], s["k"]).tensor(s["k"], s["n"], order="t")
        return "aten::addmm"
    if row["pass"] == "dgrad":
        a.tensor(s["m"], s["n"]).tensor(s["n"], s["k"])
    else:
        a.tensor(s["n"], s["m"], order="t").tensor(s["m"], s["k"])
    return "aten::mm"


def _rnn(row: dict[str, Any], a: Arguments) -> str:
    s, back = row["sizes"], row["pass"] == "bwd"
    a.tensor(s["t"], s["b"], s["i"]).none().value(4).none(3)
    if back:
        a.tensor(s["t"], s["b"], s["h"] * s["dirs"]).tensor(s["t"], s["b"], s["h"] * s["dirs"]).none(2)
    a.value({"rnn": 1, "lstm": 2, "gru": 3}[row["name"]]).value(s["h"]).value(0).value(s["l"]).value(False).value(0.0).value(True)
    a.value(s["dirs"] == 2)
    return "aten::_cudnn_rnn_backward" if back else "aten::_cudnn_rnn"


def _sdpa(row: dict[str, Any], a: Arguments) -> str | None:
    s, back = row["sizes"], row["pass"] == "bwd"
    dropout, causal = (0.1 if "dropout" in row["layout"] else 0.0), row["layout"].startswith("causal")
    q, k = (s["b"], s["h"], s["q"], s["d"]), (s["b"], s["kv"], s["s"], s["d"])
    if back:
        a.tensor(*q, order="heads")
    a.tensor(*q, order="heads").tensor(*k, order="heads").tensor(*k, order="heads")
    names = row["kernels"]

    def bias() -> Arguments:
        return a.tensor(s["b"], s["h"], s["q"], s["s"]) if row["layout"] in ("mask", "bias") else a.none()

    if "cudnn" in names and "sdpa" in names:
        if back:
            a.tensor(*q, order="heads").none(3)
            bias().none(2).value(s["q"]).value(s["s"]).value(dropout).value(causal)
            return "aten::_cudnn_attention_backward"
        bias().none(2).value(s["q"]).value(s["s"]).value(True).value(dropout).value(causal)
        return "aten::_cudnn_attention_forward"
    if "flash" in names:
        if back:
            a.tensor(*q, order="heads").none(5).value(dropout).value(causal)
            return "aten::_scaled_dot_product_flash_attention_backward"
        a.value(dropout).value(causal)
        return "aten::_scaled_dot_product_flash_attention"
    if "fmha" in names and not back:
        bias().value(True).value(dropout).value(causal)
        return "aten::_scaled_dot_product_efficient_attention"
    return None  # several operations; or a gradient whose operation is described by its sequence-first form only


def _rows(row: dict[str, Any], a: Arguments) -> str | None:
    s, back = row["sizes"], row["pass"] == "bwd"
    name, last = row["name"], "last" if row["layout"] == "nhwc" else ""
    if name in ("batch_norm", "group_norm"):
        x: tuple[int, ...] = (s["n"], s["c"], s["h"], s["w"])
        if name == "batch_norm":
            if back:
                a.tensor(*x, order=last).tensor(*x, order=last).tensor(s["c"], kind="float")
                return "aten::native_batch_norm_backward"
            a.tensor(*x, order=last).tensor(s["c"], kind="float").tensor(s["c"], kind="float")
            return "aten::native_batch_norm"
        a.tensor(*x, order=last)
        if back:
            a.tensor(*x, order=last).tensor(s["n"], s["g"]).tensor(s["n"], s["g"]).tensor(s["c"])
        else:
            a.tensor(s["c"]).tensor(s["c"])
        a.value(s["n"]).value(s["c"]).value(s["h"] * s["w"]).value(s["g"])
        return "aten::native_group_norm_backward" if back else "aten::native_group_norm"
    if "rows" not in s:
        return None
    x = (s["rows"], s["c"])
    if name == "rms_norm":
        a.tensor(*x)
        if back:
            a.tensor(*x).value([s["c"]]).tensor(s["rows"], 1, kind="float").tensor(s["c"])
            return "aten::_fused_rms_norm_backward"
        a.value([s["c"]]).tensor(s["c"])
        return "aten::_fused_rms_norm"
    if name == "layer_norm":
        a.tensor(*x)
        if back:
            a.tensor(*x)
        a.value([s["c"]])
        if back:
            a.tensor(s["rows"], 1, kind="float").tensor(s["rows"], 1, kind="float")
        a.tensor(s["c"]).tensor(s["c"])
        return "aten::native_layer_norm_backward" if back else "aten::native_layer_norm"
    if name in ("softmax", "log_softmax"):
        a.tensor(*x)
        if back:
            a.tensor(*x)
        a.value(-1).value(False)
        return f"aten::_{name}_backward_data" if back else f"aten::_{name}"
    if name == "nll_loss":
        if back:
            a.tensor()
        a.tensor(*x).indices(s["rows"]).none().value(1).value(-100)
        return "aten::nll_loss_backward" if back else "aten::nll_loss_forward"
    if name == "mse_loss":
        if back:
            a.tensor()
        a.tensor(*x).tensor(*x).value(1)
        return "aten::mse_loss_backward" if back else "aten::mse_loss"
    if name in ("sum_rows", "sum_columns"):
        a.tensor(*x).value([-1 if name == "sum_rows" else 0]).value(False)
        return "aten::sum"
    if name in ("cumsum", "sort", "argsort") and not (back and name != "cumsum"):
        a.tensor(*x).value(-1)
        return "aten::cumsum" if name == "cumsum" else "aten::sort"
    if name == "topk":
        k = min(s.get("k", 8), s["c"])
        if back:
            a.tensor(*x).value(-1).indices(s["rows"], k).tensor(s["rows"], k)
            return "aten::scatter_"
        a.tensor(*x).value(k).value(-1).value(True).value(True)
        return "aten::topk"
    return None


def _gather(row: dict[str, Any], a: Arguments) -> str | None:
    s, back, name = row["sizes"], row["pass"] == "bwd", row["name"]
    if name == "embedding":
        if back:
            a.tensor(s["i"], s["c"]).indices(s["i"]).value(s["v"]).value(-1).value(False)
            return "aten::embedding_dense_backward"
        a.tensor(s["v"], s["c"]).indices(s["i"])
        return "aten::embedding"
    if name == "embedding_bag":
        bags = -(-s["i"] // s.get("b", 8))
        if back:
            a.tensor(bags, s["c"]).indices(s["i"]).indices(s["i"]).indices(bags).indices(0).value(s["v"]).value(False).value(0)
            return "aten::_embedding_bag_dense_backward"
        a.tensor(s["v"], s["c"]).indices(s["i"]).indices(bags).value(False).value(0)
        return "aten::_embedding_bag"
    if name == "pairs":
        count = s["c"] * (s["c"] - 1) // 2
        a.tensor(s["n"], s["c"], s["c"]).none()
        return a.put(s["n"], count) if back else "aten::index"
    if name == "along":
        a.tensor(s["i"], s["c"]).value(1).indices(s["i"], s["k"])
        if back:
            a.tensor(s["i"], s["k"])
        return "aten::scatter_add_" if back else "aten::gather"
    # Rows taken have rows added as their gradient, and the other way round.
    a.tensor(s["v"], s["c"])
    if name == "index":
        a.none()
        return a.put(s["i"], s["c"]) if back else "aten::index"
    if name == "index_put":
        a.none()
        return "aten::index" if back else a.put(s["i"], s["c"], adds=False)
    a.value(0)
    if name in ("index_select", "index_add"):
        a.indices(s["i"])
        return a.rows_added("aten::index_add_", s["i"], s["c"]) if back == (name == "index_select") else "aten::index_select"
    a.indices(s["i"], s["c"], order="expanded")
    return a.rows_added("aten::scatter_add_", s["i"], s["c"]) if back == (name == "gather") else "aten::gather"


def _spatial(row: dict[str, Any], a: Arguments) -> str | None:
    s, back, last = row["sizes"], row["pass"] == "bwd", "last" if row["layout"] == "nhwc" else ""
    x, name = (s["n"], s["c"], s["h"], s["w"]), row["name"]
    if name in ("max_pool", "avg_pool"):
        pad = min(s["pad"], s["r"] // 2)
        edge = (s["h"] + 2 * pad - s["r"]) // s["stride"] + 1
    else:
        edge = s["to"]
    out = (s["n"], s["c"], edge, edge)
    if back:
        a.tensor(*out, order=last)
    if name == "max_pool":
        a.tensor(*x, order=last).value([s["r"]] * 2).value([s["stride"]] * 2).value([pad] * 2).value([1, 1]).value(False)
        if back:
            a.indices(*out)
        return "aten::max_pool2d_with_indices_backward" if back else "aten::max_pool2d_with_indices"
    if name == "avg_pool":
        a.tensor(*x, order=last).value([s["r"]] * 2).value([s["stride"]] * 2).value([pad] * 2)
        return "aten::avg_pool2d_backward" if back else "aten::avg_pool2d"
    if name == "adaptive_avg_pool":
        if edge == 1:
            return None  # a mean
        a.tensor(*x, order=last)
        if not back:
            a.value([edge, edge])
        return "aten::_adaptive_avg_pool2d_backward" if back else "aten::_adaptive_avg_pool2d"
    if not back:
        a.tensor(*x, order=last)
    a.value([edge, edge])
    if back:
        a.value(list(x))
    return f"aten::upsample_{name}2d_backward" if back else f"aten::upsample_{name}2d"


def _streams(row: dict[str, Any], a: Arguments) -> str | None:
    s, back, name = row["sizes"], row["pass"] == "bwd", row["name"]
    if name in ("heads", "heads_keys"):
        # A copy into a contiguous tensor of what lies in another order.
        shape = (s["b"], s["h"], s["s"], s["d"]) if name == "heads" else (s["b"], s["h"], s["d"], s["s"])
        a.tensor(*shape)
        if name == "heads":
            a.tensor(*shape, order="heads")
        else:
            step = s["h"] * s["d"]
            a.strided(shape, [s["s"] * step, s["d"], 1, step])
        a.value(False)
        return "aten::copy_"
    if "rows" not in s:
        return None  # a list of tensors
    x = (s["rows"], s["c"])
    if name in ("add", "mul", "mixed", "row", "column"):
        a.tensor(*x)
        if name == "row":
            a.tensor(s["c"])
        else:
            a.tensor(*((s["rows"], 1) if name == "column" else x), kind="float" if name == "mixed" else "")
        return "aten::mul" if name in ("mul", "column") else "aten::add"
    simple = {"relu": "relu", "exp": "exp", "sqrt": "rsqrt", "tanh": "tanh", "sigmoid": "sigmoid", "gelu": "gelu", "gelu_tanh": "gelu", "silu": "silu"}
    if name in simple:
        if back:
            a.tensor(*x)
        a.tensor(*x)
        return f"aten::{simple[name]}_backward" if back else f"aten::{simple[name]}"
    if name == "dropout" and not back:
        a.tensor(*x).value(0.1).value(True)
        return "aten::native_dropout"
    if name == "addcmul":
        a.tensor(*x).tensor(*x).tensor(*x)
        return "aten::addcmul"
    if name == "fill":
        a.tensor(*x).value(1.0)
        return "aten::fill_"
    if name in ("copy", "cast"):
        to = "float" if row["dtype"] != "fp32" else "c10::BFloat16"
        a.tensor(*x, kind=to if name == "cast" else "").tensor(*x).value(False)
        return "aten::copy_"
    if name in ("transpose", "slice"):
        out = (s["c"], s["rows"]) if name == "transpose" else (s["rows"], s["c"] // 2)
        a.tensor(*out).strided(out, [1, s["c"]] if name == "transpose" else [s["c"], 1]).value(False)
        return "aten::copy_"
    return None


# Kernels that the framework records under operations of their own, by their names: fills, copies, casts, counting, turning around.
FILLED, COPIED, ELEMENTS = "FillFunctor", "Memcpy", "elementwise_kernel"
ELSEWHERE = {
    **{(name, "bwd"): FILLED for name in ("nll_loss", "max_pool", "adaptive_avg_pool", "nearest", "bilinear", "bicubic", "batch_norm", "gather", "along",
                                          "index_select", "sort", "topk")},
    **{(name, "fwd"): COPIED for name in ("index_add", "scatter_add", "index_put")},
    **{(name, "bwd"): ELEMENTS for name in ("embedding", "embedding_bag", "index", "pairs", "softmax")},
    **{(name, way): f"{ELEMENTS}|{COPIED}" for name in ("fft", "rfft", "rfft2", "sort", "argsort") for way in ("fwd", "bwd") if (name, way) != ("sort", "bwd")},
    # Fused attention makes a bias of a mask first; in fp32 it multiplies and sums what its gradient starts from, and copies what does not lie as
    # its kernels want it.
    ("fused", "fwd"): ELEMENTS, ("fused", "bwd"): f"{ELEMENTS}|reduce_kernel",
    # Channels last are copied first, by an operation of its own.
    ("group_norm", "fwd"): "direct_copy_kernel",
    ("batch_norm", "fwd"): FILLED, ("mse_loss", "fwd"): "reduce_kernel", ("cumsum", "bwd"): ELEMENTS,
}  # fmt: skip


def elsewhere(name: str, way: str) -> re.Pattern[str] | None:
    """What matches the kernels of this operation that belong to others."""
    return re.compile(ELSEWHERE[name, way]) if (name, way) in ELSEWHERE else None


SPELT = {"conv": _conv, "gemm": _gemm, "rnn": _rnn, "sdpa": _sdpa, "rows": _rows, "gather": _gather, "spatial": _spatial, "streams": _streams}


def kernels_of(text: str) -> list[tuple[str, float]]:
    """Name and us of every kernel of a row; those of one name share their time evenly."""
    out = []
    for part in text.split(" | "):
        match = re.fullmatch(r"(.*) x(\d+)@([\d.]+)", part, re.DOTALL)
        if match:
            out += [(match[1], float(match[3]) / int(match[2]))] * int(match[2])
    return out


def launch_of(row: dict[str, Any], kernel: str) -> dict[str, Any]:
    """The launch of a kernel that tells how many indices there were: index records none."""
    s = row["sizes"]
    if "vectorized_gather_kernel" in kernel:
        return {"grid": [s["i"], 1, 1], "block": [128, 1, 1]}
    if "index_elementwise_kernel" in kernel and row["kind"] == "gather":
        elements = s["n"] * s["c"] * (s["c"] - 1) // 2 if row["name"] == "pairs" else s["i"] * s["c"]
        return {"grid": [-(-elements // 512), 1, 1], "block": [128, 1, 1]}
    return {}


def whole_name(kernel: str, dtype: str) -> str:
    """A mangled name is cut in the tables before it says its element type. Staged kernels of convolutions multiply on tensor cores: no row in strict
    fp32 has one."""
    return kernel + "NS_10tfloat32_tE" if dtype == "tf32" and kernel.startswith("_ZN") and "ImplicitGemmMultista" in kernel else kernel


def write_trace(rows: list[dict[str, Any]], path: Path) -> list[dict[str, Any]]:
    """Writes the rows that are one operation as a step; returns them, in the order of the file's first events."""
    spelt, operations, launches = [], [], []
    now, correlation = 100.0, 1
    for row in rows:
        arguments = Arguments(row["dtype"])
        name = SPELT[row["kind"]](row, arguments)
        if name is None:
            continue
        others = elsewhere(row["name"], row["pass"])
        kernels = [(whole_name(k, row["dtype"]), us) for k, us in kernels_of(row["kernels"]) if others is None or not others.search(k)]
        if not kernels:
            continue
        spelt.append(row | {"kernel_us": sum(us for _, us in kernels)} if others else row)
        operation = {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": now, "dur": 5.0 * len(kernels) + 10,
                     "args": {"External id": len(spelt)} | arguments.recorded()}
        operations.append(operation)
        at = now + 5.0 * len(kernels) + 10
        for i, (kernel, us) in enumerate(kernels):
            copied = kernel.startswith(("Memcpy", "Memset"))
            kind = "gpu_memset" if kernel.startswith("Memset") else "gpu_memcpy" if copied else "kernel"
            launches.append({"ph": "X", "cat": "cuda_runtime", "name": "cudaMemsetAsync" if copied else "cudaLaunchKernel", "pid": 1, "tid": 1,
                             "ts": now + 5.0 * i + 2, "dur": 2.0, "args": {"External id": len(spelt), "correlation": correlation}})
            launches.append({"ph": "X", "cat": kind, "name": kernel, "pid": 0, "tid": 7, "ts": round(at, 3), "dur": round(us, 3),
                             "args": {"External id": len(spelt), "device": 0, "stream": 7, "correlation": correlation} | launch_of(row, kernel)})
            at += us + 1
            correlation += 1
        now = round(at + 10, 3)
    step = {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": 1, "tid": 1, "ts": 50.0, "dur": now, "args": {}}
    device = {"id": 0, "name": "NVIDIA H200", "computeMajor": 9, "computeMinor": 0, "numSms": 132}
    text = json.dumps({"schemaVersion": 1, "deviceProperties": [device], "traceEvents": [*operations, *launches, step]}, separators=(",", ":"))
    path.write_text(text)
    return spelt
