"""Work along rows: norms, softmax, losses, sums, sorting, prefix sums, Fourier transforms. `rows` rows of `c` elements, or an
image n c h w with `g` groups; `k` of topk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch.nn import functional as F

from .cases import Case, Draw, Pass, Shape, differentiated, drawn

Function = Callable[..., torch.Tensor]
COLUMNS = (8, 16, 32, 49, 64, 96, 100, 128, 192, 197, 256, 320, 384, 512, 577, 768, 1000, 1024, 1536, 2048, 3072, 4096, 5000, 8192, 16384, 32000, 50257)
HALVES = ("fp32", "fp16", "bf16")


def _table(d: Draw, most: float = 1.3e8, columns: tuple[int, ...] = COLUMNS) -> Shape | None:
    c, rows = d.one(columns), round(d.near(1, 4e6))
    rows = rows if rows < 16 else 1 << (rows.bit_length() - 1) if d.one((0, 1)) else rows // 8 * 8
    return {"rows": rows, "c": c} if 1e3 <= rows * c <= most else None


def _image(d: Draw) -> Shape | None:
    s = {"n": d.one((1, 2, 4, 8, 16, 32, 64, 128, 256)), "c": d.one((16, 32, 64, 96, 128, 192, 256, 320, 512, 640, 960, 1024, 1280, 2048)),
         "h": d.one((4, 7, 8, 14, 16, 28, 32, 56, 64, 112, 128))}
    s["w"] = s["h"]
    return s if 1e4 <= s["n"] * s["c"] * s["h"] ** 2 <= 1.3e8 else None


def _grouped(d: Draw) -> Shape | None:
    s, g = _image(d), d.one((1, 4, 8, 16, 32, 32))
    return s | {"g": g} if s and s["c"] % g == 0 else None


def _random(case: Case, device: str, *sizes: int, gradient: bool = True) -> torch.Tensor:
    x = torch.randn(*sizes, device=device, dtype=case.torch_dtype)
    if case.layout == "nhwc":
        x = x.to(memory_format=torch.channels_last)
    return x.requires_grad_(gradient)


def on_table(function: Function, case: Case, device: str, weights: int = 0, backward: bool = True) -> list[Pass]:
    """`function(x, weight…)`; a weight has one element per column."""
    s = case.sizes
    x = _random(case, device, s["rows"], s["c"], gradient=backward)
    return differentiated(function, [x, *(_random(case, device, s["c"], gradient=backward) for _ in range(weights))], backward=backward)


def on_image(function: Function, case: Case, device: str, weights: int = 0) -> list[Pass]:
    s = case.sizes
    x = _random(case, device, s["n"], s["c"], s["h"], s["w"])
    # Statistics and weights of a norm stay in fp32 with half activations only in batch norm; others share one type.
    dtype = torch.float32 if case.name == "batch_norm" else case.torch_dtype
    scale = [torch.randn(s["c"], device=device, dtype=dtype, requires_grad=True) for _ in range(weights)]
    return differentiated(partial(function, s) if case.name == "group_norm" else function, [x, *scale])


def batch_norm(case: Case, device: str) -> list[Pass]:
    c = case.sizes["c"]
    mean, variance = torch.zeros(c, device=device), torch.ones(c, device=device)
    return on_image(lambda x, w, b: F.batch_norm(x, mean, variance, w, b, True), case, device, 2)


def loss_of(function: Function, case: Case, device: str) -> list[Pass]:
    """`function(x, targets)` where targets are classes."""
    s = case.sizes
    x = _random(case, device, s["rows"], s["c"])
    y = torch.randint(0, s["c"], (s["rows"],), device=device)
    return differentiated(lambda x: function(x, y), [x])


def pair_loss(function: Function, case: Case, device: str) -> list[Pass]:
    s = case.sizes
    x, y = (_random(case, device, s["rows"], s["c"], gradient=g) for g in (True, False))
    return differentiated(lambda x: function(x, y.sigmoid() if function is F.binary_cross_entropy_with_logits else y), [x])


def _wide(d: Draw) -> Shape | None:
    return _table(d, most=2e8, columns=(1024, 1025, 1030, 2000, 4096, 4097, 6000, 12288, 30522, 50257, 65536, 128256, 151936, 250112))


def _small_image(d: Draw) -> Shape | None:
    s = {"n": round(d.near(2, 2e5)), "c": d.one((16, 30, 64, 128, 256, 300, 512, 1024, 2048)), "h": d.one((1, 1, 1, 2, 3, 4))}
    s["w"] = s["h"]
    return s if 1e3 <= s["n"] * s["c"] * s["h"] ** 2 <= 5e7 else None


def _largest(d: Draw) -> Shape | None:
    s = _table(d, 5e7, (8, 16, 64, 128, 512, 1000, 1024, 2048, 8192, 32000, 50257, 131072))
    return s | {"k": d.one((1, 2, 2, 5, 50, 256, 2048))} if s else None


def largest(case: Case, device: str) -> list[Pass]:
    k = case.sizes["k"]
    return on_table(_first(lambda x: torch.topk(x, min(k, x.shape[-1]), -1)), case, device)


def planes(case: Case, device: str) -> list[Pass]:
    s = case.sizes
    x = _random(case, device, s["n"], s["c"], s["h"], s["w"], gradient=False)
    return differentiated(lambda x: x.sum((0, 2, 3)), [x], backward=False)


def transform_2d(case: Case, device: str) -> list[Pass]:
    s = case.sizes
    x = torch.randn(s["n"], s["h"], s["w"], device=device, requires_grad=True)
    return differentiated(lambda x: torch.view_as_real(torch.fft.rfft2(x)), [x])


def _plane(d: Draw) -> Shape | None:
    s = {"n": round(d.near(1, 2000)), "h": d.one((14, 16, 32, 49, 64, 100, 128, 224, 256, 384, 512)), "w": d.one((14, 16, 32, 64, 100, 128, 224, 256, 512))}
    return s if 1e3 <= s["n"] * s["h"] * s["w"] <= 3e7 else None


def _first(function: Function) -> Function:
    return lambda x, *more: function(x, *more)[0]


def transform(function: Function, case: Case, device: str) -> list[Pass]:
    """Fourier transforms exist in fp32 for every length, in half only for powers of two: fp32 alone is measured."""
    s = case.sizes
    x = torch.randn(s["rows"], s["c"], device=device)
    out = function(x.requires_grad_())
    dy = torch.randn_like(out)
    return [Pass("fwd", lambda _: function(x), (x,)), Pass("bwd", lambda _: torch.autograd.grad(out, x, dy, retain_graph=True), (dy,))]


TABLES: dict[str, tuple[Callable[[Case, str], list[Pass]], float, tuple[str, ...]]] = {
    "layer_norm": (partial(on_table, lambda x, w, b: F.layer_norm(x, x.shape[1:], w, b), weights=2), 1.3e8, HALVES),
    "rms_norm": (partial(on_table, lambda x, w: F.rms_norm(x, x.shape[1:], w), weights=1), 1.3e8, HALVES),
    "softmax": (partial(on_table, lambda x: torch.softmax(x, -1)), 1.3e8, HALVES),
    "log_softmax": (partial(on_table, lambda x: torch.log_softmax(x, -1)), 1.3e8, HALVES),
    "cross_entropy": (partial(loss_of, F.cross_entropy), 1.3e8, HALVES),
    "nll_loss": (partial(loss_of, F.nll_loss), 1.3e8, HALVES),
    "mse_loss": (partial(pair_loss, F.mse_loss), 1.3e8, HALVES),
    "bce_logits": (partial(pair_loss, F.binary_cross_entropy_with_logits), 1.3e8, HALVES),
    "sum_rows": (partial(on_table, lambda x: x.sum(-1), backward=False), 1.3e8, HALVES),
    "sum_columns": (partial(on_table, lambda x: x.sum(0), backward=False), 1.3e8, HALVES),
    "amax": (partial(on_table, lambda x: x.amax(-1)), 1.3e8, HALVES),
    "norm": (partial(on_table, lambda x: x.norm(), backward=False), 1.3e8, HALVES),
    "cumsum": (partial(on_table, lambda x: x.cumsum(-1)), 1.3e8, HALVES),
    "sort": (partial(on_table, _first(lambda x: torch.sort(x, -1))), 2e7, HALVES),
    "argsort": (partial(on_table, lambda x: torch.argsort(x, -1), backward=False), 2e7, HALVES),
    "topk": (partial(on_table, _first(lambda x: torch.topk(x, min(8, x.shape[-1]), -1))), 5e7, HALVES),
    "rfft": (partial(transform, lambda x: torch.fft.rfft(x)), 5e7, ("fp32",)),
    "fft": (partial(transform, lambda x: torch.fft.fft(torch.complex(x, x))), 3e7, ("fp32",)),
}
IMAGES: dict[str, tuple[Callable[[Case, str], list[Pass]], Callable[[Draw], Shape | None], tuple[str, ...]]] = {
    "batch_norm": (batch_norm, _image, ("nchw", "nhwc")),
    "group_norm": (partial(on_image, lambda s, x, w, b: F.group_norm(x, s["g"], w, b), weights=2), _grouped, ("nchw", "nhwc")),
    "instance_norm": (partial(on_image, lambda x, w, b: F.instance_norm(x, None, None, w, b), weights=2), _image, ("nchw",)),
}


def families() -> Iterator[tuple[str, float, Iterator[Case]]]:
    for name, (build, most, dtypes) in TABLES.items():
        yield f"rows {name}", 0.22, drawn("rows", name, partial(_table, most=most), 90, build, dtypes=dtypes)
    for name, (build, draw, layouts) in IMAGES.items():
        yield f"rows {name}", 0.4, drawn("rows", name, draw, 120, build, layouts, HALVES)
    # What the first tables left thin: long rows, small planes, other counts of topk, sums over planes.
    table = {name: TABLES[name][0] for name in TABLES}
    for name in ("softmax", "log_softmax", "layer_norm", "nll_loss"):
        yield f"rows more {name}", 0.25, drawn("rows", name, _wide, 40, table[name], dtypes=HALVES, more=" wide")
    for name in ("sum_columns", "sum_rows", "softmax"):
        yield f"rows more {name}", 0.25, drawn("rows", name, _table, 80, table[name], dtypes=HALVES, more=" again")
    yield "rows more batch_norm", 0.3, drawn("rows", "batch_norm", _small_image, 40, batch_norm, ("nchw",), HALVES, " small")
    yield "rows more topk", 0.3, drawn("rows", "topk", _largest, 60, largest, dtypes=HALVES, more=" of sizes")
    yield "rows more sum_planes", 0.2, drawn("rows", "sum_planes", _image, 45, planes, ("nchw", "nhwc"), HALVES)
    yield "rows more rfft2", 0.15, drawn("rows", "rfft2", _plane, 50, transform_2d, dtypes=("fp32",))
