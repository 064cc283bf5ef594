"""Pooling and interpolation of images n c h w. `r` `stride` `pad` of a pooling window; `to` the edge an image is brought to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch.nn import functional as F

from .cases import Case, Draw, Pass, Shape, differentiated, drawn

DTYPES = ("fp32", "fp16", "bf16")


def _image(d: Draw) -> Shape | None:
    h = d.one((7, 8, 14, 16, 28, 32, 35, 56, 64, 112, 128, 224))
    s = {"n": d.one((1, 2, 4, 8, 16, 32, 64, 128, 256)), "c": d.one((3, 16, 32, 64, 96, 128, 192, 256, 320, 512, 1024, 2048)), "h": h, "w": h}
    return s if 1e4 <= s["n"] * s["c"] * h * h <= 1e8 else None


def _window(d: Draw) -> Shape | None:
    s = _image(d)
    r, stride, pad = d.one(((2, 2, 0), (2, 2, 0), (3, 2, 1), (3, 2, 1), (3, 1, 1), (3, 2, 0), (3, 3, 0), (5, 1, 2), (13, 1, 6)))
    return s | {"r": r, "stride": stride, "pad": pad} if s and s["h"] + 2 * pad >= r else None


def _resized(d: Draw) -> Shape | None:
    s = _image(d)
    to = d.one((2 * s["h"], 2 * s["h"], 4 * s["h"], s["h"] // 2, 224)) if s else 0
    return s | {"to": to} if s and 1 <= to <= 512 and s["n"] * s["c"] * to * to <= 1e8 else None


def _adaptive(d: Draw) -> Shape | None:
    s = _image(d)
    return s | {"to": d.one((1, 1, 1, 2, 6, 7))} if s else None


def _smaller(d: Draw) -> Shape | None:
    s = _image(d)
    return s | {"to": d.one((2, 3, 4, 5, 6, 7, 14))} if s else None


def build(function: Callable[[Shape, torch.Tensor], torch.Tensor], case: Case, device: str) -> list[Pass]:
    s = case.sizes
    x = torch.randn(s["n"], s["c"], s["h"], s["w"], device=device, dtype=case.torch_dtype)
    if case.layout == "nhwc":
        x = x.to(memory_format=torch.channels_last)
    return differentiated(lambda x: function(s, x), [x.requires_grad_()])


def _resize(mode: str) -> Callable[[Shape, torch.Tensor], torch.Tensor]:
    corners = {} if mode == "nearest" else {"align_corners": False}
    return lambda s, x: F.interpolate(x, size=(s["to"], s["to"]), mode=mode, **corners)


OPERATIONS: dict[str, tuple[Callable[[Shape, torch.Tensor], torch.Tensor], Callable[[Draw], Shape | None]]] = {
    "max_pool": (lambda s, x: F.max_pool2d(x, s["r"], s["stride"], min(s["pad"], s["r"] // 2)), _window),
    "avg_pool": (lambda s, x: F.avg_pool2d(x, s["r"], s["stride"], min(s["pad"], s["r"] // 2)), _window),
    "adaptive_avg_pool": (lambda s, x: F.adaptive_avg_pool2d(x, s["to"]), _adaptive),
    "nearest": (_resize("nearest"), _resized),
    "bilinear": (_resize("bilinear"), _resized),
    "bicubic": (_resize("bicubic"), _resized),
}


def families() -> Iterator[tuple[str, float, Iterator[Case]]]:
    for name, (function, draw) in OPERATIONS.items():
        yield f"spatial {name}", 0.3, drawn("spatial", name, draw, 90, partial(build, function), ("nchw", "nhwc"), DTYPES)
    yield "spatial more adaptive_avg_pool", 0.3, drawn("spatial", "adaptive_avg_pool", _smaller, 60, partial(build, OPERATIONS["adaptive_avg_pool"][0]),
                                                       ("nchw", "nhwc"), DTYPES, " to several")
