"""LSTM, GRU and plain recurrent layers: b sequences of t steps, i inputs, h units, l layers in dirs directions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from .cases import Case, Draw, Pass, Shape, drawn

CELLS = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}
UNITS = (64, 100, 128, 200, 256, 256, 300, 320, 384, 512, 512, 650, 768, 1000, 1024, 1024, 1500, 2048)


def _shape(d: Draw) -> Shape | None:
    h = d.one(UNITS)
    s = {"b": d.one((1, 2, 4, 8, 16, 20, 32, 48, 64, 80, 100, 128, 200, 256, 512)), "t": d.one((8, 16, 25, 35, 50, 64, 100, 128, 200)),
         "i": d.one((h, h, *UNITS)), "h": h, "l": d.one((1, 1, 1, 2, 2, 3)), "dirs": d.one((1, 1, 1, 2))}
    work = 8.0 * s["b"] * s["t"] * s["l"] * s["dirs"] * h * (h + s["i"])
    return s if work <= 4e11 else None


def build(case: Case, device: str) -> list[Pass]:
    s = case.sizes
    layer = CELLS[case.name](s["i"], s["h"], s["l"], bidirectional=s["dirs"] == 2, device=device, dtype=case.torch_dtype)
    x = torch.randn(s["t"], s["b"], s["i"], device=device, dtype=case.torch_dtype, requires_grad=True)
    dy = torch.randn(s["t"], s["b"], s["h"] * s["dirs"], device=device, dtype=case.torch_dtype)
    wanted = [x, *layer.parameters()]

    def back(out: torch.Tensor) -> Any:
        return torch.autograd.grad(out, wanted, dy)

    return [Pass("fwd", lambda _: layer(x)[0], (x,)), Pass("bwd", back, (dy,), before=lambda: layer(x)[0])]


def families() -> Iterator[tuple[str, float, Iterator[Case]]]:
    for cell, count, weight in (("lstm", 240, 0.7), ("gru", 240, 0.7), ("rnn", 80, 0.3)):
        yield f"rnn {cell}", weight, drawn("rnn", cell, _shape, count, build)
