"""Matrix products: of linear layers (forward with a bias, both gradients) and batched ones, with dimensions of any alignment.

A product is (m x k)(k x n), `b` of them. Layouts say how the operands lie, as BLAS does: n for rows one after the other, t for
columns."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from .cases import Case, Draw, Pass, Shape, drawn

EVEN = (64, 96, 128, 192, 256, 320, 384, 512, 640, 768, 1024, 1280, 1536, 2048, 3072, 4096, 5120, 8192, 11008)
ODD = (1, 2, 3, 4, 6, 10, 12, 13, 20, 33, 36, 50, 65, 77, 100, 101, 150, 197, 200, 300, 500, 650, 1000, 1001, 1500, 2049, 5000, 30522, 32000, 50257)
ROWS = (1, 2, 8, 16, 32, 64, 77, 128, 197, 200, 256, 512, 1000, 1024, 2048, 3152, 4096, 8192, 12608, 16384, 25216, 32768, 65536)
MOST_FLOPS, MOST_ELEMENTS = 3e11, 5e8


def _allowed(s: Shape) -> Shape | None:
    b = s.get("b", 1)
    sizes = (s["m"] * s["k"], s["k"] * s["n"], s["m"] * s["n"])
    fits = all(b * e <= MOST_ELEMENTS for e in sizes) and 2.0 * b * s["m"] * s["n"] * s["k"] <= MOST_FLOPS
    return s if fits and 2.0 * b * s["m"] * s["n"] * s["k"] >= 1e5 else None


def _linear(d: Draw) -> Shape | None:
    return _allowed({"m": d.one(ROWS), "n": d.one(EVEN), "k": d.one(EVEN)})


def _misaligned(d: Draw) -> Shape | None:
    n, k = d.one(((d.one(ODD), d.one(EVEN)), (d.one(EVEN), d.one(ODD)), (d.one(ODD), d.one(ODD))))
    return _allowed({"m": d.one(ROWS), "n": n, "k": k})


def _batched(d: Draw) -> Shape | None:
    b = d.one((2, 4, 8, 12, 16, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048))
    long = (16, 32, 49, 50, 64, 77, 100, 128, 128, 196, 197, 200, 256, 256, 384, 512, 512, 1000, 1024, 2048)
    head = (8, 16, 32, 40, 64, 64, 64, 80, 96, 128, 128, 256)
    m, n, k = d.one(((d.one(long), d.one(long), d.one(head)), (d.one(long), d.one(head), d.one(long)), (d.one(EVEN), d.one(EVEN), d.one(EVEN))))
    return _allowed({"b": b, "m": m, "n": n, "k": k})


def _stored(device: str, dtype: torch.dtype, transposed: bool, *sizes: int) -> torch.Tensor:
    *batch, rows, columns = sizes
    return torch.randn(*batch, columns, rows, device=device, dtype=dtype).transpose(-1, -2) if transposed else \
        torch.randn(*sizes, device=device, dtype=dtype)


def linear(case: Case, device: str) -> list[Pass]:
    s, dtype = case.sizes, case.torch_dtype
    x = torch.randn(s["m"], s["k"], device=device, dtype=dtype)
    w = torch.randn(s["n"], s["k"], device=device, dtype=dtype)
    bias = torch.randn(s["n"], device=device, dtype=dtype)
    dy = torch.randn(s["m"], s["n"], device=device, dtype=dtype)
    return [Pass("fwd", lambda _: torch.addmm(bias, x, w.t()), (x,)), Pass("dgrad", lambda _: torch.mm(dy, w), (dy,)),
            Pass("wgrad", lambda _: torch.mm(dy.t(), x), (dy,))]


def batched(case: Case, device: str) -> list[Pass]:
    s, dtype = case.sizes, case.torch_dtype
    a = _stored(device, dtype, case.layout[0] == "t", s["b"], s["m"], s["k"])
    b = _stored(device, dtype, case.layout[1] == "t", s["b"], s["k"], s["n"])
    return [Pass("fwd", lambda _: torch.bmm(a, b), (a,))]


def families() -> Iterator[tuple[str, float, Iterator[Case]]]:
    for name, draw, build, count, layouts, weight in (
            ("linear", _linear, linear, 150, ("",), 0.6), ("misaligned", _misaligned, linear, 250, ("",), 1.0),
            ("batched", _batched, batched, 200, ("nn", "nt", "tn"), 1.0)):
        yield f"gemm {name}", weight, drawn("gemm", name, draw, count, build, layouts)
