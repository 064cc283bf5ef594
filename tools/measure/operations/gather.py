"""Embeddings and their gradients, rows taken and added where an index says. `v` rows of `c` elements, `i` indices; layout
`even` draws indices evenly, `skewed` as words in a text (few of them are most of them). `b`: indices to a bag; `pairs` takes the
pairs of `c` columns in each of `n` matrices; `along` takes `k` of the `c` elements of each of `i` rows."""

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


def _bags(d: Draw) -> Shape | None:
    s = _shape(d)
    return s | {"b": d.one((1, 1, 2, 4, 20, 100))} if s and s["c"] >= 8 else None


def _pairs(d: Draw) -> Shape | None:
    s = {"n": round(d.near(64, 1e5)) // 8 * 8, "c": d.one((4, 8, 13, 27, 27, 32, 48, 64))}
    return s if 1e3 <= s["n"] * s["c"] ** 2 <= 5e7 else None


def _along(d: Draw) -> Shape | None:
    s = {"i": round(d.near(64, 1e5)) // 8 * 8, "c": d.one((8, 64, 1000, 4096, 32000, 50257, 128256)), "k": d.one((1, 1, 2, 8, 64, 512))}
    return s if s["k"] <= s["c"] and s["i"] * s["c"] <= 2e8 and s["i"] * s["k"] <= 5e7 else None


def pairs(case: Case, device: str) -> list[Pass]:
    s = case.sizes
    x = torch.randn(s["n"], s["c"], s["c"], device=device, dtype=case.torch_dtype, requires_grad=True)
    rows, columns = torch.tril_indices(s["c"], s["c"], -1, device=device)
    return differentiated(lambda x: x[:, rows, columns], [x])


def along(case: Case, device: str) -> list[Pass]:
    s = case.sizes
    x = torch.randn(s["i"], s["c"], device=device, dtype=case.torch_dtype, requires_grad=True)
    at = (torch.rand(s["i"], s["k"], device=device) * s["c"]).long().clamp_(0, s["c"] - 1)
    return differentiated(lambda x: x.gather(1, at), [x])


def bags(case: Case, device: str) -> list[Pass]:
    s = case.sizes
    table = torch.randn(s["v"], s["c"], device=device, dtype=case.torch_dtype, requires_grad=True)
    at, offsets = _indices(case, device), torch.arange(0, s["i"], s.get("b", 8), device=device)
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
    yield "gather more bags", 0.3, drawn("gather", "embedding_bag", _bags, 60, bags, ("even",), DTYPES, " of sizes")
    put = partial(added, lambda t, at, r: t.index_put((at,), r))
    yield "gather more put", 0.2, drawn("gather", "index_put", _shape, 45, put, ("even",), DTYPES)
    yield "gather more pairs", 0.3, drawn("gather", "pairs", _pairs, 50, pairs, ("even",), DTYPES)
    yield "gather more along", 0.3, drawn("gather", "along", _along, 60, along, ("even",), DTYPES)
