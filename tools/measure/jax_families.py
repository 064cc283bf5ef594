"""Four more trainings in plain JAX, one of each family: a decoder whose layers run under lax.scan, a U-Net that removes noise, an MLP-Mixer,
and an encoder of sound with convolutions in front. Types are those of jax_models.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .jax_models import Training, Tree, adam, cast, cross_entropy, norm

NHWC = ("NHWC", "HWIO", "NHWC")
NWC = ("NWC", "WIO", "NWC")


@dataclass(frozen=True)
class FamilySizes:
    layers: int = 8
    width: int = 768
    heads: int = 12
    vocabulary: int = 16384
    tokens: int = 512
    channels: int = 64
    image: int = 64
    patches: int = 196
    mixer: int = 512
    samples: int = 64000
    encoder: int = 512
    encoders: int = 4


FAMILY_TINY = FamilySizes(layers=2, width=32, heads=2, vocabulary=64, tokens=8, channels=8, image=16, patches=16, mixer=32, samples=1600,
                          encoder=32, encoders=1)  # fmt: skip


class Weights:
    def __init__(self) -> None:
        self.random = np.random.default_rng(0)

    def matrix(self, *shape: int) -> Any:
        spread = np.float32(np.prod(shape[:-1]) ** -0.5)
        return self.random.standard_normal(shape, np.float32) * spread

    def linear(self, into: int, out: int) -> Tree:
        return {"w": self.matrix(into, out), "b": np.zeros(out, np.float32)}


def scaled(width: int) -> Tree:
    return {"scale": np.ones(width, np.float32), "shift": np.zeros(width, np.float32)}


def linear(p: Tree, x: Any) -> Any:
    return x @ p["w"] + p["b"]


def layer_norm(p: Tree, x: Any) -> Any:
    return norm(x, p["scale"], p["shift"])


def trained(loss: Callable[[Tree, Tree], Any], params: Tree, data: Tree, compute: Any, kept: Any) -> Training:
    """One step of Adam on `loss`, of the parameters in `compute` and the data."""
    params = cast(params, kept)
    zeros = jax.tree.map(np.zeros_like, params)

    def step(state: Tree, data: Tree) -> tuple[Tree, Any]:
        params, states = state
        value, gradients = jax.value_and_grad(lambda p: loss(cast(p, compute), data))(params)
        return adam(params, gradients, states), value

    return Training((params, (zeros, zeros, np.zeros((), np.float32))), data, step)


# -- a decoder with rotary positions, RMSNorm and SwiGLU, its layers under lax.scan


def rms_norm(x: Any, scale: Any) -> Any:
    wide = x.astype(jnp.float32)
    return (wide * lax.rsqrt(jnp.square(wide).mean(-1, keepdims=True) + 1e-6)).astype(x.dtype) * scale


def rotated(x: Any) -> Any:
    half = x.shape[-1] // 2
    angle = jnp.arange(x.shape[1])[:, None] * (10000.0 ** (-jnp.arange(half) / half))
    sine, cosine = (f(angle)[None, :, None, :].astype(x.dtype) for f in (jnp.sin, jnp.cos))
    near, far = x[..., :half], x[..., half:]
    return jnp.concatenate([near * cosine - far * sine, near * sine + far * cosine], -1)


def attended(q: Any, k: Any, v: Any, mask: Any) -> Any:
    """Of (batch, tokens, heads, size); `mask` says what may be seen."""
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k).astype(jnp.float32) * q.shape[-1] ** -0.5
    weights = jax.nn.softmax(jnp.where(mask, scores, -1e9), axis=-1).astype(q.dtype)
    return jnp.einsum("bhqk,bkhd->bqhd", weights, v)


def decoder_training(batch: int, compute: Any, kept: Any, s: FamilySizes) -> Training:
    w, hidden = Weights(), s.width * 8 // 3 // 64 * 64 or s.width
    params = {
        "embed": w.matrix(s.vocabulary, s.width), "head": w.matrix(s.width, s.vocabulary), "last": np.ones(s.width, np.float32),
        "layers": {
            "qkv": w.matrix(s.layers, s.width, 3 * s.width), "out": w.matrix(s.layers, s.width, s.width),
            "gate": w.matrix(s.layers, s.width, 2 * hidden), "down": w.matrix(s.layers, hidden, s.width),
            "before": np.ones((s.layers, s.width), np.float32), "after": np.ones((s.layers, s.width), np.float32),
        },
    }  # fmt: skip
    ids = w.random.integers(0, s.vocabulary, (batch, s.tokens + 1), np.int32)
    mask = np.tril(np.ones((s.tokens, s.tokens), bool))

    def layer(x: Any, p: Tree) -> tuple[Any, None]:
        q, k, v = jnp.split((rms_norm(x, p["before"]) @ p["qkv"]).reshape(*x.shape[:2], 3 * s.heads, -1), 3, axis=2)
        x = x + attended(rotated(q), rotated(k), v, mask).reshape(x.shape) @ p["out"]
        gate, up = jnp.split(rms_norm(x, p["after"]) @ p["gate"], 2, axis=-1)
        return x + (jax.nn.silu(gate) * up) @ p["down"], None

    def loss(p: Tree, ids: Any) -> Any:
        with jax.named_scope("embed"):
            x = p["embed"][ids[:, :-1]]
        with jax.named_scope("layers"):
            x, _ = lax.scan(layer, x, p["layers"])
        with jax.named_scope("head"):
            logits = rms_norm(x, p["last"]) @ p["head"]
        with jax.named_scope("loss"):
            return cross_entropy(logits, ids[:, 1:])

    return trained(loss, params, ids, compute, kept)


# -- a U-Net with group normalisation, SiLU, a time embedding and one attention


def group_norm(p: Tree, x: Any, groups: int = 8) -> Any:
    wide = x.astype(jnp.float32).reshape(*x.shape[:3], groups, -1)
    mean = wide.mean((1, 2, 4), keepdims=True)
    variance = jnp.square(wide - mean).mean((1, 2, 4), keepdims=True)
    return ((wide - mean) * lax.rsqrt(variance + 1e-5)).reshape(x.shape).astype(x.dtype) * p["scale"] + p["shift"]


def conv(p: Tree, x: Any, stride: int = 1) -> Any:
    return lax.conv_general_dilated(x, p["w"], (stride, stride), "SAME", dimension_numbers=NHWC) + p["b"]


def unet_block(p: Tree, x: Any, time: Any) -> Any:
    hidden = conv(p["first"], jax.nn.silu(group_norm(p["norm1"], x))) + linear(p["time"], time)[:, None, None, :]
    hidden = conv(p["second"], jax.nn.silu(group_norm(p["norm2"], hidden)))
    return hidden + (linear(p["short"], x) if "short" in p else x)


def unet_parameters(s: FamilySizes, w: Weights) -> Tree:
    widths = [s.channels, 2 * s.channels, 4 * s.channels]

    def filters(size: int, into: int, out: int) -> Tree:
        return {"w": w.matrix(size, size, into, out), "b": np.zeros(out, np.float32)}

    def block(into: int, out: int) -> Tree:
        short = {"short": w.linear(into, out)} if into != out else {}
        return {"norm1": scaled(into), "first": filters(3, into, out), "time": w.linear(widths[1], out), "norm2": scaled(out),
                "second": filters(3, out, out)} | short  # fmt: skip

    into, down, up = s.channels, [], []
    for out in widths:
        down.append({"block": block(into, out), "down": filters(3, out, out)})
        into = out
    for out in reversed(widths):
        up.append({"up": filters(3, into, out), "block": block(2 * out, out)})
        into = out
    return {"stem": filters(3, 3, s.channels), "time": w.linear(s.channels, widths[1]), "down": down, "middle": block(widths[2], widths[2]),
            "norm": scaled(widths[2]), "qkv": w.linear(widths[2], 3 * widths[2]), "out": w.linear(widths[2], widths[2]), "up": up,
            "last": scaled(s.channels), "head": filters(3, s.channels, 3)}  # fmt: skip


def unet(p: Tree, x: Any, time: Any) -> Any:
    with jax.named_scope("stem"):
        half = p["time"]["w"].shape[0] // 2
        angle = time[:, None] * (10000.0 ** (-jnp.arange(half) / half))
        time = jax.nn.silu(linear(p["time"], jnp.concatenate([jnp.sin(angle), jnp.cos(angle)], -1).astype(x.dtype)))
        x, skips = conv(p["stem"], x), []
    for i, level in enumerate(p["down"]):
        with jax.named_scope(f"down{i}"):
            x = unet_block(level["block"], x, time)
            skips.append(x)
            x = conv(level["down"], x, 2)
    with jax.named_scope("middle"):
        x = unet_block(p["middle"], x, time)
        rows = group_norm(p["norm"], x).reshape(x.shape[0], -1, x.shape[-1])
        q, k, v = jnp.split(linear(p["qkv"], rows).reshape(*rows.shape[:2], 12, -1), 3, axis=2)
        x = x + linear(p["out"], attended(q, k, v, True).reshape(rows.shape)).reshape(x.shape)
    for i, level in enumerate(p["up"]):
        with jax.named_scope(f"up{i}"):
            x = conv(level["up"], x.repeat(2, axis=1).repeat(2, axis=2))
            x = unet_block(level["block"], jnp.concatenate([x, skips.pop()], -1), time)
    with jax.named_scope("head"):
        return conv(p["head"], jax.nn.silu(group_norm(p["last"], x)))


def unet_training(batch: int, compute: Any, kept: Any, s: FamilySizes) -> Training:
    w = Weights()
    params = unet_parameters(s, w)
    shape = (batch, s.image, s.image, 3)
    data = (w.random.standard_normal(shape, np.float32), w.random.random(batch, np.float32) * 1000, w.random.standard_normal(shape, np.float32))

    def loss(p: Tree, data: Tree) -> Any:
        images, time, noise = data
        out = unet(p, images.astype(p["head"]["w"].dtype), time)
        with jax.named_scope("loss"):
            return jnp.square(out.astype(jnp.float32) - noise).mean()

    return trained(loss, params, data, compute, kept)


# -- an MLP-Mixer of patches


def mixer_training(batch: int, compute: Any, kept: Any, s: FamilySizes) -> Training:
    w = Weights()

    def block() -> Tree:
        return {"norm1": scaled(s.mixer), "token1": w.linear(s.patches, s.mixer // 2), "token2": w.linear(s.mixer // 2, s.patches),
                "norm2": scaled(s.mixer), "up": w.linear(s.mixer, 4 * s.mixer), "down": w.linear(4 * s.mixer, s.mixer)}  # fmt: skip

    params = {"patch": w.linear(16 * 16 * 3, s.mixer), "blocks": [block() for _ in range(s.layers)], "last": scaled(s.mixer),
              "head": w.linear(s.mixer, 1000)}  # fmt: skip
    data = (w.random.standard_normal((batch, s.patches, 16 * 16 * 3), np.float32), w.random.integers(0, 1000, (batch,), np.int32))

    def loss(p: Tree, data: Tree) -> Any:
        with jax.named_scope("patch"):
            x = linear(p["patch"], data[0].astype(p["head"]["w"].dtype))
        for i, b in enumerate(p["blocks"]):
            with jax.named_scope(f"block{i}"):
                turned = layer_norm(b["norm1"], x).transpose(0, 2, 1)
                x = x + linear(b["token2"], jax.nn.gelu(linear(b["token1"], turned))).transpose(0, 2, 1)
                x = x + linear(b["down"], jax.nn.gelu(linear(b["up"], layer_norm(b["norm2"], x))))
        with jax.named_scope("head"):
            logits = linear(p["head"], layer_norm(p["last"], x).mean(1))
        with jax.named_scope("loss"):
            return cross_entropy(logits, data[1])

    return trained(loss, params, data, compute, kept)


# -- an encoder of sound: convolutions over samples, then blocks that normalise afterwards


def sound_training(batch: int, compute: Any, kept: Any, s: FamilySizes) -> Training:
    w, width, heads = Weights(), s.encoder, s.heads * 2 // 3 or 1
    shapes = [(10, 5), (8, 4), (4, 2), (4, 2), (4, 2)]

    def block() -> Tree:
        return {"qkv": w.linear(width, 3 * width), "out": w.linear(width, width), "norm1": scaled(width), "up": w.linear(width, 4 * width),
                "down": w.linear(4 * width, width), "norm2": scaled(width)}  # fmt: skip

    filters = [{"w": w.matrix(size, width // 2 if i else 1, width // 2)} | scaled(width // 2) for i, (size, _) in enumerate(shapes)]
    params = {"filters": filters, "into": w.linear(width // 2, width), "blocks": [block() for _ in range(s.encoders)], "head": w.linear(width, 64)}
    frames = s.samples
    for _, stride in shapes:
        frames = -(-frames // stride)
    sound = w.random.standard_normal((batch, s.samples, 1), np.float32)
    data = (sound, w.random.integers(frames // 2, frames + 1, (batch,), np.int32), w.random.integers(0, 64, (batch, frames), np.int32))

    def loss(p: Tree, data: Tree) -> Any:
        sound, lengths, labels = data
        x = sound.astype(p["head"]["w"].dtype)
        for i, (f, (_, stride)) in enumerate(zip(p["filters"], shapes)):
            with jax.named_scope(f"filter{i}"):
                x = jax.nn.gelu(layer_norm(f, lax.conv_general_dilated(x, f["w"], (stride,), "SAME", dimension_numbers=NWC)))
        x = linear(p["into"], x)
        mask = (jnp.arange(x.shape[1]) < lengths[:, None])[:, None, None, :]
        for i, b in enumerate(p["blocks"]):
            with jax.named_scope(f"block{i}"):
                q, k, v = jnp.split(linear(b["qkv"], x).reshape(*x.shape[:2], 3 * heads, -1), 3, axis=2)
                x = layer_norm(b["norm1"], x + linear(b["out"], attended(q, k, v, mask).reshape(x.shape)))
                x = layer_norm(b["norm2"], x + linear(b["down"], jax.nn.gelu(linear(b["up"], x))))
        with jax.named_scope("head"):
            logits = linear(p["head"], x)
        with jax.named_scope("loss"):
            return cross_entropy(logits, labels)

    return trained(loss, params, data, compute, kept)


_FAMILIES = {"decoder": decoder_training, "unet": unet_training, "mixer": mixer_training, "sound": sound_training}


def family(model: str, batch: int, precision: str, sizes: FamilySizes) -> Training:
    compute = jnp.float32 if precision in ("fp32", "tf32") else jnp.bfloat16
    kept = jnp.bfloat16 if precision == "purebf16" else jnp.float32
    return _FAMILIES[model](batch, compute, kept, sizes)
