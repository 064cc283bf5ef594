"""Embeddings and their gradients, rows taken and added where an index says. `v` rows of `c` elements, `i` indices; layout
`even` draws indices evenly, `skewed` as words in a text (few of them are most of them)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch.nn import functional as F

from .cases import Case, Draw, Pass, Shape, differentiated, drawn

DTYPES = ("fp32", "fp16", "bf16")


def _shape(d: Draw) -> Shape | None:
    s = {"v": d.one((2, 100, 512, 1000, 4096, 10000, 30522, 32000, 50257, 200000, 1000000)),
         "c": d.one((1, 8, 16, 64, 64, 128, 256, 512, 768, 768, 1024, 2048, 4096)), "i": round(d.near(32, 4e5)) // 8 * 8}
    return s if s["v"] * s["c"] <= 1.3e8 and s["i"] * s["c"] <= 1.3e8 and s["i"] * s["c"] >= 1e3 else None


def _indices(case: Case, device: str) -> torch.Tensor:
    s = case.sizes
    even = torch.rand(s["i"], device=device)
    return ((even ** 6 if case.layout == "skewed" else even) * s["v"]).long().clamp_(0, s["v"] - 1)


def taken(function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], case: Case, device: str) -> list[Pass]:
    """Rows taken from a table; the gradient adds them up again."""
    s = case.sizes
    table = torch.randn(s["v"], s["c"], device=device, dtype=case.torch_dtype, requires_grad=True)
    at = _indices(case, device)
    return differentiated(lambda t: function(t, at), [table])


def added(function: Callable[..., torch.Tensor], case: Case, device: str) -> list[Pass]:
    """Rows added into a table; the gradient takes them out."""
    s = case.sizes
    rows = torch.randn(s["i"], s["c"], device=device, dtype=case.torch_dtype, requires_grad=True)
    table = torch.zeros(s["v"], s["c"], device=device, dtype=case.torch_dtype)
    at = _indices(case, device)
    return differentiated(lambda r: function(table, at, r), [rows])


def bags(case: Case, device: str) -> list[Pass]:
    s = case.sizes
    table = torch.randn(s["v"], s["c"], device=device, dtype=case.torch_dtype, requires_grad=True)
    at, offsets = _indices(case, device), torch.arange(0, s["i"], 8, device=device)
    return differentiated(lambda t: F.embedding_bag(at, t, offsets, mode="sum"), [table])


def _wide(at: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    return at[:, None].expand(-1, table.shape[1])


OPERATIONS: dict[str, Callable[[Case, str], list[Pass]]] = {
    "embedding": partial(taken, lambda t, at: F.embedding(at, t)),
    "index_select": partial(taken, lambda t, at: t.index_select(0, at)),
    "index": partial(taken, lambda t, at: t[at]),
    "gather": partial(taken, lambda t, at: t.gather(0, _wide(at, t))),
    "index_add": partial(added, lambda t, at, r: t.index_add(0, at, r)),
    "scatter_add": partial(added, lambda t, at, r: t.scatter_add(0, _wide(at, r), r)),
    "embedding_bag": bags,
}


def families() -> Iterator[tuple[str, float, Iterator[Case]]]:
    for name, build in OPERATIONS.items():
        layouts = ("even", "skewed") if name in ("embedding", "index", "scatter_add") else ("even",)
        yield f"gather {name}", 0.3, drawn("gather", name, _shape, 90, build, layouts, DTYPES)
