"""Convolutions as networks have them, each over a series of batches: where a library changes its algorithm as the batch grows, the border lies
between two measured shapes. Families of layers, not networks: what several architectures share stands here once.

A layer is input channels, edge of the image, output channels, filter, stride (and more by name); `tools.measure.operations` runs them as
`conv layers …`, under the names of the random shapes of convolutions.py."""

from __future__ import annotations

from collections.abc import Iterator

from .cases import Case, Shape
from .convolutions import FORMATS, build, out_edge

BATCHES = (16, 1, 64, 4, 128, 32, 8, 2, 256)
LARGEST_ELEMENTS, MOST_FLOPS = 210e6, 2.2e11


def image(c: int, h: int, k: int, r: int, stride: int = 1, pad: int | None = None, dilation: int = 1, groups: int = 1, s: int | None = None) -> Shape:
    s = r if s is None else s
    pad = dilation * (max(r, s) - 1) // 2 if pad is None else pad
    return {"c": c, "h": h, "w": h, "k": k, "r": r, "s": s, "stride": stride, "pad": pad, "dilation": dilation, "groups": groups}


def line(c: int, w: int, k: int, s: int, stride: int = 1, pad: int = 0, dilation: int = 1, groups: int = 1) -> Shape:
    return {"c": c, "w": w, "k": k, "s": s, "stride": stride, "pad": pad, "dilation": dilation, "groups": groups}


def volume(c: int, d: int, h: int, k: int, q: int, r: int, stride: int = 1, pad: int = 0) -> Shape:
    return {"c": c, "d": d, "h": h, "w": h, "k": k, "q": q, "r": r, "s": r, "stride": stride, "pad": pad, "dilation": 1, "groups": 1}


def depthwise(c: int, h: int, r: int, stride: int = 1) -> Shape:
    return image(c, h, c, r, stride, groups=c)


LAYERS: dict[str, list[Shape]] = {
    # 3 x 3 of residual networks, VGG, dense blocks, encoders and decoders of images, feature pyramids.
    "square": [image(*x, 3) for x in (
        (64, 56, 64), (128, 28, 128), (256, 14, 256), (512, 7, 512), (64, 112, 64), (64, 112, 128), (128, 112, 128), (128, 56, 256), (256, 56, 256),
        (256, 28, 512), (512, 28, 512), (512, 14, 512), (64, 224, 64), (128, 56, 32), (128, 28, 32), (128, 14, 32), (128, 7, 32), (128, 56, 128),
        (256, 28, 256), (32, 128, 32), (64, 128, 64), (64, 64, 64), (128, 64, 128), (256, 32, 256), (512, 16, 512), (1024, 16, 512), (512, 32, 256),
        (256, 64, 128), (128, 128, 64), (256, 64, 256), (256, 16, 256), (64, 32, 64), (128, 16, 128), (256, 8, 256), (512, 4, 512), (160, 32, 160),
        (320, 64, 320), (640, 32, 640), (1280, 16, 1280), (320, 32, 320), (64, 48, 256), (96, 35, 96), (192, 28, 192), (384, 13, 256), (192, 13, 384),
        (16, 32, 16), (32, 16, 32), (20, 24, 50), (256, 13, 512), (512, 13, 1024))],
    "pointwise": [image(*x) for x in (
        (64, 56, 256, 1), (256, 56, 64, 1), (256, 56, 128, 1), (128, 28, 512, 1), (512, 28, 128, 1), (512, 28, 256, 1), (256, 14, 1024, 1),
        (1024, 14, 256, 1), (1024, 14, 512, 1), (512, 7, 2048, 1), (2048, 7, 512, 1), (64, 56, 64, 1), (256, 56, 512, 1, 2), (512, 28, 1024, 1, 2),
        (1024, 14, 2048, 1, 2), (64, 56, 128, 1, 2), (128, 28, 256, 1, 2), (256, 14, 512, 1, 2), (16, 112, 96, 1), (24, 56, 144, 1), (144, 56, 24, 1),
        (32, 28, 192, 1), (192, 28, 32, 1), (64, 14, 384, 1), (384, 14, 64, 1), (96, 14, 576, 1), (576, 14, 96, 1), (160, 7, 960, 1), (960, 7, 160, 1),
        (320, 7, 1280, 1), (96, 56, 128, 1), (224, 28, 128, 1), (480, 14, 128, 1), (832, 14, 128, 1), (992, 7, 128, 1), (256, 28, 128, 1), (32, 112, 16, 1),
        (40, 28, 240, 1), (240, 28, 40, 1), (112, 14, 672, 1), (672, 14, 112, 1), (192, 7, 1152, 1), (1152, 7, 192, 1), (320, 32, 320, 1),
        (256, 64, 256, 1), (64, 128, 21, 1), (960, 1, 240, 1), (240, 1, 960, 1), (96, 1, 4, 1), (768, 14, 768, 1))],
    "strided": [image(*x) for x in (
        (64, 56, 128, 3, 2), (128, 28, 256, 3, 2), (256, 14, 512, 3, 2), (128, 56, 128, 3, 2), (256, 28, 256, 3, 2), (512, 14, 512, 3, 2),
        (96, 56, 192, 2, 2, 0), (192, 28, 384, 2, 2, 0), (384, 14, 768, 2, 2, 0), (64, 32, 128, 4, 2, 1), (128, 16, 256, 4, 2, 1), (256, 8, 512, 4, 2, 1),
        (64, 64, 128, 4, 2, 1), (64, 128, 128, 3, 2), (320, 64, 320, 3, 2), (16, 112, 32, 3, 2))],
    "image": [image(*x) for x in (
        (3, 224, 64, 7, 2), (3, 224, 32, 3, 2), (3, 224, 64, 3), (3, 224, 768, 16, 16, 0), (3, 224, 96, 4, 4, 0), (3, 32, 64, 3), (3, 32, 16, 3),
        (3, 64, 64, 4, 2, 1), (1, 28, 32, 3), (3, 299, 32, 3, 2, 0), (3, 224, 64, 11, 4, 2), (3, 512, 64, 7, 2), (4, 64, 320, 3), (3, 224, 16, 3, 2),
        (3, 96, 64, 9), (3, 128, 32, 3), (3, 224, 384, 16, 16, 0))],
    "few": [image(*x) for x in ((64, 96, 3, 9), (64, 128, 1, 3), (64, 128, 3, 1), (320, 64, 4, 3), (256, 32, 84, 3), (512, 19, 84, 3), (64, 96, 3, 3), (48, 56, 3, 3))],
    "grouped": [image(c, h, k, 3, st, groups=g) for c, h, k, st, g in (
        (128, 56, 128, 1, 32), (256, 28, 256, 1, 32), (512, 14, 512, 1, 32), (1024, 7, 1024, 1, 32), (256, 56, 256, 2, 32), (512, 28, 512, 2, 32),
        (1024, 14, 1024, 2, 32), (64, 56, 64, 1, 8), (160, 28, 160, 1, 20), (400, 14, 400, 1, 50), (48, 56, 48, 1, 2), (120, 28, 120, 1, 5),
        (336, 14, 336, 1, 14), (888, 7, 888, 1, 37), (224, 56, 224, 1, 2), (448, 28, 448, 1, 4), (896, 14, 896, 1, 8), (256, 56, 256, 1, 4), (96, 56, 96, 1, 4))],
    "depthwise": [depthwise(*x) for x in (
        (32, 112, 3), (96, 112, 3, 2), (144, 56, 3), (144, 56, 3, 2), (192, 28, 3), (192, 28, 3, 2), (384, 14, 3), (576, 14, 3), (576, 14, 3, 2), (960, 7, 3),
        (240, 28, 5), (672, 14, 5), (672, 14, 5, 2), (1152, 7, 5), (96, 56, 7), (192, 28, 7), (384, 14, 7), (768, 7, 7), (128, 56, 7), (1024, 7, 7),
        (16, 112, 3), (64, 112, 3, 2), (72, 56, 3), (72, 56, 5, 2), (144, 56, 5, 2), (120, 28, 5), (240, 28, 3, 2), (200, 14, 3), (184, 14, 3), (480, 14, 3),
        (480, 14, 5), (672, 14, 3), (960, 7, 5), (1152, 7, 3), (116, 28, 3), (232, 14, 3), (464, 7, 3), (58, 56, 3, 2))],
    "dilated": [image(c, h, k, r, dilation=d) for c, h, k, r, d in (
        (256, 28, 256, 3, 2), (512, 28, 512, 3, 2), (512, 28, 512, 3, 4), (2048, 28, 256, 3, 12), (2048, 28, 256, 3, 24), (2048, 28, 256, 3, 36),
        (512, 14, 512, 3, 2), (64, 64, 64, 3, 2), (64, 64, 64, 3, 4), (256, 32, 256, 3, 6))],
    "large": [image(*x) for x in (
        (48, 35, 64, 5), (32, 28, 96, 5), (64, 27, 192, 5, 1, 2), (16, 14, 48, 5), (64, 96, 64, 9), (64, 28, 64, 7), (96, 14, 128, 5))] +
        [image(128, 17, 128, 1, s=7, pad=3), image(128, 17, 128, 7, s=1, pad=3), image(192, 17, 192, 7, s=1, pad=3), image(192, 17, 192, 1, s=7, pad=3)],
    "transposed": [image(*x) for x in (
        (100, 1, 512, 4, 1, 0), (512, 4, 256, 4, 2, 1), (256, 8, 128, 4, 2, 1), (128, 16, 64, 4, 2, 1), (64, 32, 3, 4, 2, 1), (1024, 16, 512, 2, 2, 0),
        (512, 32, 256, 2, 2, 0), (256, 64, 128, 2, 2, 0), (128, 128, 64, 2, 2, 0), (256, 14, 256, 2, 2, 0), (64, 14, 32, 3, 2, 1))],
    # Positional convolutions and feature extractors of speech, depthwise ones of conformers, dilated ones of waveforms, text.
    "line": [line(768, w, 768, 128, pad=64, groups=16) for w in (24, 49, 99, 149, 199, 249, 374, 499, 749)] +
        [line(1024, w, 1024, 128, pad=64, groups=16) for w in (49, 249, 499)] +
        [line(768, 199, 768, 19, pad=9, groups=16), line(512, 199, 512, 31, pad=15, groups=16), line(768, 149, 768, 64, pad=32, groups=4),
         line(256, 199, 256, 128, pad=64, groups=8)] +
        [line(1, 16000, 512, 10, 5), line(512, 3199, 512, 3, 2), line(512, 1599, 512, 3, 2), line(512, 799, 512, 3, 2), line(512, 399, 512, 2, 2),
         line(512, 199, 512, 2, 2), line(80, 3000, 512, 3, pad=1), line(512, 3000, 512, 3, 2, pad=1), line(80, 3000, 384, 3, pad=1), line(256, 500, 256, 31, pad=15, groups=256),
         line(512, 250, 512, 15, pad=7, groups=512), line(64, 4096, 64, 3, pad=4, dilation=4), line(64, 4096, 64, 2, dilation=64), line(128, 1024, 128, 7, pad=3),
         line(300, 128, 100, 5), line(512, 256, 512, 5, pad=2), line(32, 16000, 64, 8, 4, pad=2), line(256, 1024, 256, 1), line(1536, 2048, 1536, 4, pad=3, groups=1536)],
    "volume": [volume(*x) for x in (
        (64, 16, 56, 64, 3, 3, 1, 1), (128, 8, 28, 128, 3, 3, 1, 1), (256, 4, 14, 256, 3, 3, 1, 1), (512, 2, 7, 512, 3, 3, 1, 1), (3, 16, 112, 64, 3, 3, 1, 1),
        (64, 16, 56, 64, 1, 3), (64, 16, 56, 64, 3, 1), (32, 64, 64, 32, 3, 3, 1, 1), (64, 32, 32, 64, 3, 3, 1, 1), (128, 16, 16, 128, 3, 3, 1, 1),
        (3, 16, 224, 768, 2, 16, 16), (64, 16, 56, 128, 3, 3, 2, 1))],
}  # fmt: skip


def sizes_of(shape: Shape) -> list[tuple[int, int]]:
    """Edge and filter along each axis."""
    return [(shape[a], shape[f]) for a, f in (("d", "q"), ("h", "r"), ("w", "s")) if a in shape]


def fits(shape: Shape, transposed: bool) -> bool:
    pixels = outputs = taps = 1
    for size, edge in sizes_of(shape):
        reach = shape["dilation"] * (edge - 1) + 1
        out = (size - 1) * shape["stride"] - 2 * shape["pad"] + reach if transposed else out_edge(size, edge, shape["stride"], shape["pad"], shape["dilation"])
        if out < 1:
            return False
        pixels, outputs, taps = pixels * size, outputs * out, taps * edge
    work = 2.0 * shape["n"] * shape["c"] // shape["groups"] * shape["k"] * taps * (pixels if transposed else outputs)
    return shape["n"] * max(shape["c"] * pixels, shape["k"] * outputs) <= LARGEST_ELEMENTS and work <= MOST_FLOPS


def dtypes_of(name: str, shape: Shape) -> tuple[str, ...]:
    """Both half types only where they run different kernels: one channel to a group, a few channels, three dimensions, long filters."""
    apart = shape["groups"] == shape["c"] or shape["c"] <= 4 or name == "volume" or (name == "line" and shape["groups"] > 1)
    return ("fp32", "tf32", "fp16", "bf16") if apart else ("fp32", "tf32", "fp16")


def cases(name: str) -> Iterator[Case]:
    """All layers at one batch, then at the next: a run that ends early has the series of none, but the ends of all."""
    layouts = {"line": ("ncw",), "volume": ("ncdhw", "ndhwc")}.get(name, ("nchw", "nhwc"))
    assert all(layout in FORMATS for layout in layouts)
    for n in BATCHES:
        for layer in LAYERS[name]:
            shape = {"n": n} | layer
            if not fits(shape, name == "transposed"):
                continue
            for dtype in dtypes_of(name, shape):
                for layout in layouts:
                    yield Case("conv", name, dtype, layout, tuple(shape.items()), build)


def families() -> Iterator[tuple[str, float, Iterator[Case]]]:
    for name, layers in LAYERS.items():
        yield f"conv layers {name}", float(len(layers)), cases(name)
