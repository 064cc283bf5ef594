"""Fused attention as PyTorch picks it: b sequences, h heads (kv of them for keys and values), q queries, s keys, head size d.

Layouts: `full`, `causal`, `mask` (a boolean mask for every query and key), `bias` (the same, added), `dropout`,
`causal-dropout`. Tensors lie as a projection leaves them: batch, sequence, heads, head size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.nn import functional as F

from .cases import PRECISIONS, Case, Draw, Pass, Shape, crossed, unique

LAYOUTS = ("full", "causal", "mask", "bias", "dropout", "causal-dropout")
LENGTHS = (49, 64, 77, 100, 128, 128, 196, 197, 200, 256, 256, 384, 512, 512, 577, 768, 1000, 1024, 1024, 1536, 2048, 4096)

FIRST = 146  # shapes of the first sweep


def _shape(d: Draw) -> Shape | None:
    heads, q = d.one((1, 4, 6, 8, 8, 12, 12, 16, 16, 20, 32, 40)), d.one(LENGTHS)
    shared = d.one([n for n in (1, 1, 1, 2, 4, heads) if heads % n == 0])
    s = {"b": d.one((1, 2, 4, 8, 8, 16, 16, 32, 32, 64, 128, 256)), "h": heads, "kv": heads // shared, "q": q,
         "s": d.one((q, q, q, q, *LENGTHS)), "d": d.one((16, 32, 40, 48, 64, 64, 64, 64, 72, 80, 96, 128, 128, 128, 160, 192, 256))}
    work = 4.0 * s["b"] * heads * q * s["s"] * s["d"]
    tokens = s["b"] * max(q, s["s"]) * heads * s["d"]
    return s if 2e7 <= work <= 1.5e11 and tokens <= 1.5e8 and s["b"] * heads * q * s["s"] <= 3e8 else None


def build(case: Case, device: str) -> list[Pass]:
    s, dtype = case.sizes, case.torch_dtype

    def part(length: int, heads: int) -> torch.Tensor:
        return torch.randn(s["b"], length, heads, s["d"], device=device, dtype=dtype).transpose(1, 2).requires_grad_()

    q, k, v = part(s["q"], s["h"]), part(s["s"], s["kv"]), part(s["s"], s["kv"])
    mask = None
    if case.layout in ("mask", "bias"):
        keep = torch.rand(s["b"], 1, s["q"], s["s"], device=device) > 0.1
        mask = keep if case.layout == "mask" else torch.zeros_like(keep, dtype=dtype).masked_fill_(~keep, -1e4)
    how = {"attn_mask": mask, "dropout_p": 0.1 if "dropout" in case.layout else 0.0, "is_causal": case.layout.startswith("causal"),
           "enable_gqa": s["kv"] != s["h"]}

    def run(_: Any = None) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, **how)

    out = run()
    dy = torch.randn(s["b"], s["q"], s["h"], s["d"], device=device, dtype=dtype).transpose(1, 2)
    return [Pass("fwd", run, (q, k, v)), Pass("bwd", lambda _: torch.autograd.grad(out, (q, k, v), dy, retain_graph=True), (dy,))]


def cases(name: str, count: int) -> Iterator[Case]:
    """Every shape full and causal, and in one other way in turn."""
    draw = Draw(f"attention {name}")
    for i, shape in enumerate(unique(iter(lambda: _shape(draw), 0), count)):
        layouts = ("full", "causal", LAYOUTS[2 + i % 4]) if shape["q"] == shape["s"] else ("full", LAYOUTS[2 + i % 3])
        # With grouped queries in fp32 attention is computed from its parts, operations of their own: the first shapes hold enough of these.
        parts = shape["kv"] != shape["h"] and i >= FIRST
        yield from crossed("sdpa", name, shape, build, layouts, ("fp16", "bf16") if parts else PRECISIONS)


def families() -> Iterator[tuple[str, float, Iterator[Case]]]:
    yield "sdpa fused", 4.5, cases("fused", 480)
