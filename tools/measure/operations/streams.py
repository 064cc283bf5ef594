"""Work that streams: element-wise operations, copies into another order, casts, concatenation, updates over lists of tensors.

`rows` rows of `c` elements; heads are `b` sequences of `s` tokens with `h` heads of `d`; lists are `tensors` tensors of `n`
elements (or, where `mixed` is 1, of sizes between n / 16 and 4 n)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch.nn import functional as F

from .cases import Case, Draw, Pass, Shape, differentiated, drawn

HALVES = ("fp32", "fp16", "bf16")
COLUMNS = (8, 30, 64, 96, 100, 128, 197, 256, 384, 512, 768, 1000, 1024, 1536, 2048, 3072, 4096, 8192, 11008, 32000)


def _table(d: Draw, most: float = 1.3e8) -> Shape | None:
    c, elements = d.one(COLUMNS), d.near(4e3, most)
    rows = round(elements / c)
    rows = rows if rows < 16 else rows // 8 * 8
    return {"rows": rows, "c": c} if rows > 0 else None


def _heads(d: Draw) -> Shape | None:
    s = {"b": d.one((1, 2, 4, 8, 16, 32, 64)), "s": d.one((49, 64, 128, 197, 256, 512, 577, 1024, 2048, 4096)),
         "h": d.one((4, 8, 12, 16, 20, 32)), "d": d.one((32, 40, 64, 64, 80, 128, 128))}
    return s if 4e3 <= s["b"] * s["s"] * s["h"] * s["d"] <= 1.3e8 else None


def _list(d: Draw) -> Shape | None:
    s = {"tensors": d.one((1, 2, 4, 8, 16, 30, 60, 100, 160, 200, 300, 400)), "n": round(d.near(64, 4e7)), "mixed": d.one((0, 1))}
    return s if 1e3 <= s["tensors"] * s["n"] <= 2e8 else None


def _random(case: Case, device: str, *sizes: int, gradient: bool = False, dtype: torch.dtype | None = None) -> torch.Tensor:
    return torch.randn(*sizes, device=device, dtype=dtype or case.torch_dtype, requires_grad=gradient)


def on_table(function: Callable[..., torch.Tensor], case: Case, device: str, more: Sequence[str] = (), backward: bool = False) -> list[Pass]:
    """`function(x, …)`; more operands are of the same size ("same"), a "row", a "column", "wide" (fp32) or a "mask"."""
    rows, c = case.sizes["rows"], case.sizes["c"]
    made = {"same": lambda: _random(case, device, rows, c), "row": lambda: _random(case, device, c), "column": lambda: _random(case, device, rows, 1),
            "wide": lambda: _random(case, device, rows, c, dtype=torch.float32), "mask": lambda: torch.rand(rows, c, device=device) > 0.5}
    return differentiated(function, [_random(case, device, rows, c, gradient=backward), *(made[m]() for m in more)], backward=backward)


def on_heads(function: Callable[[torch.Tensor], torch.Tensor], case: Case, device: str) -> list[Pass]:
    s = case.sizes
    return differentiated(function, [_random(case, device, s["b"], s["s"], s["h"], s["d"])], backward=False)


def sizes_of(s: Shape) -> list[int]:
    """Of the tensors of a list: the same in every run."""
    if not s["mixed"]:
        return [s["n"]] * s["tensors"]
    draw = Draw(f"list {s['tensors']} {s['n']}")
    return [max(1, round(draw.near(s["n"] / 16, 4 * s["n"]))) for _ in range(s["tensors"])]


def on_list(function: Callable[..., Any], lists: int, case: Case, device: str) -> list[Pass]:
    made = [[_random(case, device, n) for n in sizes_of(case.sizes)] for _ in range(lists)]
    for tensor in made[-1]:
        tensor.abs_()
    return [Pass("fwd", lambda _: function(*made), made[0][-1:])]


def fused_adam(case: Case, device: str) -> list[Pass]:
    """Parameters, gradients and two states in one kernel."""
    sizes = sizes_of(case.sizes)
    made = [[_random(case, device, n) for n in sizes] for _ in range(4)]
    for tensor in made[-1]:
        tensor.abs_()
    steps = [torch.ones((), device=device) for _ in sizes]
    how = {"lr": 1e-3, "beta1": 0.9, "beta2": 0.999, "weight_decay": 0.01, "eps": 1e-8, "amsgrad": False, "maximize": False}
    return [Pass("fwd", lambda _: torch._fused_adamw_(*made, [], steps, **how), made[1][-1:])]


TABLES: dict[str, Callable[[Case, str], list[Pass]]] = {
    "add": partial(on_table, torch.add, more=("same",)),
    "mul": partial(on_table, torch.mul, more=("same",)),
    "scale": partial(on_table, lambda x: x * 0.5),
    "relu": partial(on_table, torch.relu),
    "gelu": partial(on_table, F.gelu, backward=True),
    "gelu_tanh": partial(on_table, partial(F.gelu, approximate="tanh"), backward=True),
    "silu": partial(on_table, F.silu, backward=True),
    "tanh": partial(on_table, torch.tanh, backward=True),
    "sigmoid": partial(on_table, torch.sigmoid, backward=True),
    "exp": partial(on_table, torch.exp),
    "sqrt": partial(on_table, lambda x: torch.rsqrt(x)),
    "dropout": partial(on_table, partial(F.dropout, p=0.1), backward=True),
    "where": partial(on_table, lambda x, m: torch.where(m, x, 0.0), more=("mask",)),
    "masked_fill": partial(on_table, lambda x, m: x.masked_fill(m, -1e4), more=("mask",)),
    "addcmul": partial(on_table, torch.addcmul, more=("same", "same")),
    "fill": partial(on_table, lambda x: x.fill_(1.0)),
    "copy": partial(on_table, torch.clone),
    "cast": partial(on_table, lambda x: x.to(torch.float32 if x.dtype != torch.float32 else torch.bfloat16)),
    "mixed": partial(on_table, torch.add, more=("wide",)),
    "row": partial(on_table, torch.add, more=("row",)),
    "column": partial(on_table, torch.mul, more=("column",)),
    "transpose": partial(on_table, lambda x: x.t().contiguous()),
    "slice": partial(on_table, lambda x: x[:, : x.shape[1] // 2].contiguous()),
    "cat_rows": partial(on_table, lambda x, y: torch.cat((x, y), 0), more=("same",)),
    "cat_columns": partial(on_table, lambda x, y: torch.cat((x, y), 1), more=("same",)),
    "stack": partial(on_table, lambda x, y: torch.stack((x, y), -1), more=("same",)),
}
HEADS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "heads": lambda x: x.transpose(1, 2).contiguous(),
    "heads_keys": lambda x: x.permute(0, 2, 3, 1).contiguous(),
}
LISTS: dict[str, Callable[[Case, str], list[Pass]]] = {
    "foreach_mul": partial(on_list, lambda x: torch._foreach_mul_(x, 0.9), 1),
    "foreach_sqrt": partial(on_list, torch._foreach_sqrt, 1),
    "foreach_add": partial(on_list, lambda x, y: torch._foreach_add_(x, y, alpha=0.1), 2),
    "foreach_lerp": partial(on_list, lambda x, y: torch._foreach_lerp_(x, y, 0.1), 2),
    "foreach_addcmul": partial(on_list, lambda x, y, z: torch._foreach_addcmul_(x, y, z, 0.1), 3),
    "foreach_addcdiv": partial(on_list, lambda x, y, z: torch._foreach_addcdiv_(x, y, z, 0.1), 3),
    "foreach_norm": partial(on_list, torch._foreach_norm, 1),
    "fused_adam": fused_adam,
}


def families() -> Iterator[tuple[str, float, Iterator[Case]]]:
    for name, build in TABLES.items():
        yield f"streams {name}", 0.1, drawn("streams", name, _table, 40, build, dtypes=HALVES)
    for name, function in HEADS.items():
        yield f"streams {name}", 0.1, drawn("streams", name, _heads, 40, partial(on_heads, function), dtypes=HALVES)
    for name, build in LISTS.items():
        yield f"streams {name}", 0.15, drawn("streams", name, _list, 40, build, dtypes=("fp32", "bf16") if name.startswith("fused") else ("fp32",))
