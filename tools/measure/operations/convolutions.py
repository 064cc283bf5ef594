"""Convolutions of two dimensions, of one and of three: forward, gradient of the data, gradient of the weights.

A shape is n c h w (input), k (output channels), r s (filter), stride, pad, dilation, groups; d and q are the third dimension
of the input and the filter. Transposed ones are named `transposed`; their c and k are those of their own input and output."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from .cases import Case, Draw, Pass, Shape, crossed, unique

WIDTHS = (16, 24, 32, 40, 48, 64, 64, 80, 96, 128, 128, 160, 192, 256, 256, 320, 384, 512, 512, 768, 1024)
EDGES = (7, 8, 10, 14, 14, 16, 20, 28, 28, 32, 40, 56, 56, 64, 80, 112, 128)
BATCHES = (1, 2, 4, 8, 16, 16, 24, 32, 32, 48, 64, 64, 96, 128, 128, 256)
LARGEST_ELEMENTS = 110e6
FEWEST_FLOPS, MOST_FLOPS = 2e7, 6e10


def out_edge(size: int, filter_edge: int, stride: int, pad: int, dilation: int) -> int:
    return (size + 2 * pad - dilation * (filter_edge - 1) - 1) // stride + 1


def admitted(s: Shape, spatial: tuple[int, ...], filters: tuple[int, ...], transposed: bool = False,
             most_flops: float = MOST_FLOPS) -> Shape | None:
    """The shape, unless it is too large, too small or empty."""
    pixels = taps = outputs = 1
    for size, edge in zip(spatial, filters):
        out = (size - 1) * s["stride"] - 2 * s["pad"] + edge if transposed else out_edge(size, edge, s["stride"], s["pad"], s["dilation"])
        if out < 1:
            return None
        pixels, taps, outputs = pixels * size, taps * edge, outputs * out
    elements = max(s["n"] * s["c"] * pixels, s["n"] * s["k"] * outputs)
    flops = 2.0 * s["n"] * s["c"] // s["groups"] * s["k"] * taps * (pixels if transposed else outputs)
    least = FEWEST_FLOPS / (s["groups"] if s["groups"] == s["c"] else 1)
    fits = elements <= LARGEST_ELEMENTS and s["c"] // s["groups"] * s["k"] * taps <= 40e6
    return s if fits and least <= flops <= most_flops else None


def shape2d(n: int, c: int, h: int, k: int, r: int, stride: int = 1, pad: int | None = None, dilation: int = 1,
            groups: int = 1, s: int | None = None, transposed: bool = False) -> Shape | None:
    s = r if s is None else s
    pad = dilation * (max(r, s) - 1) // 2 if pad is None else pad
    return admitted({"n": n, "c": c, "h": h, "w": h, "k": k, "r": r, "s": s, "stride": stride, "pad": pad,
                     "dilation": dilation, "groups": groups}, (h, h), (r, s), transposed)


def _square(d: Draw) -> Shape | None:
    return shape2d(d.one(BATCHES), d.one(WIDTHS), d.one(EDGES), d.one(WIDTHS), 3)


def _pointwise(d: Draw) -> Shape | None:
    return shape2d(d.one(BATCHES), d.one((*WIDTHS, 1536, 2048)), d.one(EDGES), d.one((*WIDTHS, 1536, 2048)), 1,
                   stride=d.one((1, 1, 1, 2)))


def _grouped(d: Draw) -> Shape | None:
    width, groups = d.one((2, 4, 8, 8, 16, 24, 32, 48, 64, 112)), d.one((2, 4, 4, 8, 8, 16, 32, 32, 64))
    channels = width * groups
    return shape2d(d.one(BATCHES), channels, d.one(EDGES), channels * d.one((1, 1, 1, 2)), d.one((3, 3, 3, 1, 5)),
                   stride=d.one((1, 1, 2)), groups=groups) if channels <= 2048 else None


def _depthwise(d: Draw) -> Shape | None:
    channels = d.one((32, 48, 64, 96, 96, 144, 192, 192, 240, 288, 384, 384, 480, 576, 672, 768, 960, 1152))
    return shape2d(d.one(BATCHES), channels, d.one(EDGES), channels * d.one((1, 1, 1, 1, 1, 2)), d.one((3, 3, 3, 5, 5, 7, 7, 13)),
                   stride=d.one((1, 1, 2)), groups=channels, dilation=d.one((1, 1, 1, 1, 2)))


def _dilated(d: Draw) -> Shape | None:
    return shape2d(d.one(BATCHES), d.one(WIDTHS), d.one(EDGES), d.one(WIDTHS), 3, dilation=d.one((2, 2, 3, 4, 6, 12, 18)))


def _strided(d: Draw) -> Shape | None:
    r, stride, pad = d.one(((3, 2, 1), (3, 2, 1), (4, 2, 1), (2, 2, 0), (4, 4, 0), (5, 2, 2), (5, 3, 2)))
    return shape2d(d.one(BATCHES), d.one(WIDTHS), d.one((*EDGES, 224)), d.one(WIDTHS), r, stride, pad)


def _image(d: Draw) -> Shape | None:
    r, stride, pad = d.one(((3, 1, 1), (3, 2, 1), (3, 2, 1), (7, 2, 3), (7, 2, 3), (11, 4, 2), (4, 4, 0), (16, 16, 0), (5, 1, 2), (4, 2, 1), (7, 4, 2)))
    return shape2d(d.one(BATCHES), d.one((1, 3, 3, 3, 4, 6)), d.one((28, 32, 64, 128, 160, 192, 224, 224, 256, 299)),
                   d.one((16, 24, 32, 64, 64, 96, 128, 192, 384, 768)), r, stride, pad)


def _large(d: Draw) -> Shape | None:
    r, s = d.one(((5, 5), (5, 5), (7, 7), (9, 9), (11, 11), (1, 7), (7, 1), (1, 3), (3, 1)))
    if r != s:  # one padding for both edges would grow the image: along one edge only is what networks do
        n, c, h, k = d.one(BATCHES), d.one(WIDTHS), d.one(EDGES), d.one(WIDTHS)
        return shape2d(n, c, h, k, r, pad=0, s=s)
    return shape2d(d.one(BATCHES), d.one(WIDTHS), d.one(EDGES), d.one(WIDTHS), r)


def _few(d: Draw) -> Shape | None:
    """Few output channels, or a number of channels that is not a multiple of eight: heads and odd widths."""
    c, k = d.one(((64, 1), (64, 3), (128, 21), (256, 4), (3, 3), (12, 12), (36, 60), (20, 50), (100, 100), (255, 255), (6, 16), (257, 255)))
    return shape2d(d.one(BATCHES), c, d.one(EDGES), k, d.one((1, 3, 3, 5)))


def _transposed(d: Draw) -> Shape | None:
    r, stride, pad = d.one(((4, 2, 1), (4, 2, 1), (2, 2, 0), (3, 2, 1), (3, 1, 1), (4, 1, 0)))
    return shape2d(d.one(BATCHES), d.one((*WIDTHS, 100)), d.one((1, 4, *EDGES)), d.one((1, 3, *WIDTHS)), r, stride, pad, transposed=True)


def _line(d: Draw) -> Shape | None:
    r, stride = d.one(((1, 1), (3, 1), (3, 1), (5, 1), (7, 1), (9, 1), (10, 5), (3, 2), (2, 2), (8, 4), (16, 8), (15, 1)))
    dilation = d.one((1, 1, 1, 2, 4, 16, 64)) if stride == 1 and r > 1 else 1
    c = d.one((1, 2, *WIDTHS))
    depthwise = c > 8 and d.one((0, 0, 0, 1))
    k = c if depthwise else d.one(WIDTHS)
    pad = dilation * (r - 1) // 2 if stride == 1 else d.one((0, r // 2))
    w = d.one((64, 128, 200, 256, 500, 512, 1024, 1500, 2048, 4096, 16000))
    return admitted({"n": d.one(BATCHES), "c": c, "w": w, "k": k, "s": r, "stride": stride, "pad": pad, "dilation": dilation,
                     "groups": c if depthwise else 1}, (w,), (r,))


def _volume(d: Draw) -> Shape | None:
    q, r = d.one(((3, 3), (3, 3), (3, 3), (1, 1), (1, 3), (3, 1), (2, 2), (5, 5)))
    stride = 2 if q == 2 else d.one((1, 1, 1, 2))
    depth, h = d.one(((4, 7), (8, 14), (8, 28), (8, 56), (16, 28), (16, 56), (16, 16), (32, 32), (16, 112), (48, 48), (64, 64), (96, 96)))
    c = d.one((1, 3, 8, 16, 32, 32, 64, 64, 128, 256, 512))
    depthwise = c >= 16 and d.one((0, 0, 0, 0, 0, 0, 1))
    return admitted({"n": d.one((1, 1, 2, 2, 4, 8, 16, 32)), "c": c, "d": depth, "h": h, "w": h,
                     "k": c if depthwise else d.one((8, 16, 32, 64, 64, 128, 256, 512)), "q": q, "r": r, "s": r, "stride": stride,
                     "pad": (max(q, r) - 1) // 2 if q == r else 0, "dilation": 1, "groups": c if depthwise else 1},
                    (depth, h, h), (q, r, r), most_flops=1.2e11)


FORMATS = {"nchw": torch.contiguous_format, "nhwc": torch.channels_last, "ncdhw": torch.contiguous_format,
           "ndhwc": torch.channels_last_3d, "ncw": torch.contiguous_format}


def build(case: Case, device: str) -> list[Pass]:
    s, form = case.sizes, FORMATS[case.layout]
    transposed = case.name.startswith("transposed")
    spatial = [s[a] for a in "dhw" if a in s]
    filters = [s[a] for a in ("q", "r", "s") if a in s]
    many = len(spatial)

    def tensor(*sizes: int) -> torch.Tensor:
        return torch.randn(*sizes, device=device, dtype=case.torch_dtype).to(memory_format=form) if many > 1 else \
            torch.randn(*sizes, device=device, dtype=case.torch_dtype)

    x = tensor(s["n"], s["c"], *spatial)
    outer, inner = (s["c"], s["k"]) if transposed else (s["k"], s["c"])
    w = tensor(outer, inner // s["groups"], *filters)
    how: tuple[Any, ...] = ([s["stride"]] * many, [s["pad"]] * many, [s["dilation"]] * many, transposed, [0] * many, s["groups"])
    dy = torch.randn_like(torch.ops.aten.convolution(x, w, None, *how))

    def back(mask: list[bool]) -> Callable[[Any], Any]:
        return lambda _: torch.ops.aten.convolution_backward(dy, x, w, None, *how, mask)

    return [Pass("fwd", lambda _: torch.ops.aten.convolution(x, w, None, *how), (x,)),
            Pass("dgrad", back([True, False, False]), (dy,)),
            Pass("wgrad", back([False, True, False]), (dy,))]


GENERATORS: dict[str, tuple[Callable[[Draw], Shape | None], tuple[str, ...]]] = {
    "square": (_square, ("nchw", "nhwc")), "pointwise": (_pointwise, ("nchw", "nhwc")), "grouped": (_grouped, ("nchw", "nhwc")),
    "depthwise": (_depthwise, ("nchw", "nhwc")), "dilated": (_dilated, ("nchw", "nhwc")), "strided": (_strided, ("nchw", "nhwc")),
    "image": (_image, ("nchw", "nhwc")), "large": (_large, ("nchw", "nhwc")), "few": (_few, ("nchw", "nhwc")),
    "transposed": (_transposed, ("nchw", "nhwc")), "line": (_line, ("ncw",)), "volume": (_volume, ("ncdhw", "ndhwc")),
}
SHAPES = 120


def shapes(name: str, count: int = SHAPES) -> Iterator[Shape]:
    """Every third shape comes with half and twice its batch, where that is no other shape already."""
    draw, seen = Draw(f"convolution {name}"), set()
    for i, shape in enumerate(unique(iter(lambda: GENERATORS[name][0](draw), 0), count)):
        for n in ([shape["n"], 2 * shape["n"], shape["n"] // 2] if i % 3 == 0 else [shape["n"]]):
            one = shape | {"n": n}
            if n >= 1 and n * shape["c"] <= 2 ** 18 and tuple(one.items()) not in seen:
                seen.add(tuple(one.items()))
                yield one


def cases(name: str) -> Iterator[Case]:
    for shape in shapes(name):
        yield from crossed("conv", name, shape, build, GENERATORS[name][1])


def families() -> Iterator[tuple[str, float, Iterator[Case]]]:
    weights = {"square": 1.6, "pointwise": 1.6, "grouped": 1.6, "depthwise": 1.6}
    for name in GENERATORS:
        yield f"conv {name}", weights.get(name, 1.0), cases(name)
