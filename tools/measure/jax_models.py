"""Two trainings in plain JAX, to measure: a transformer of the sizes of the public-truth one (8 blocks of 768, 256 tokens, Adam) and a
ResNet-18 (224 x 224, batch normalisation, SGD with momentum).

Parameters and optimizer states are FP32. `precision` says what the passes compute in: "fp32" is FP32 products
(jax_default_matmul_precision "highest"), "tf32" what XLA does by default with FP32 operands, "bf16" casts parameters and input to
BF16 inside the differentiated function; losses, normalisations' statistics and the update stay FP32. "purebf16" keeps the
parameters and states themselves in BF16.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Tree = Any
PRECISIONS = ("fp32", "tf32", "bf16", "purebf16")


@dataclass(frozen=True)
class Training:
    state: Tree  # of NumPy, as is the batch: nothing is on the GPU yet
    batch: Tree
    step: Callable[[Tree, Tree], tuple[Tree, Any]]  # not compiled


@dataclass(frozen=True)
class Sizes:
    blocks: int = 8
    width: int = 768
    heads: int = 12
    vocabulary: int = 32000
    tokens: int = 256
    image: int = 224
    channels: int = 64
    classes: int = 1000


TINY = Sizes(blocks=2, width=32, heads=2, vocabulary=64, tokens=8, image=32, channels=8, classes=10)


def cast(tree: Tree, dtype: Any) -> Tree:
    return jax.tree.map(lambda a: a.astype(dtype) if jnp.issubdtype(a.dtype, jnp.floating) else a, tree)


# -- transformer


def norm(x: Any, scale: Any, shift: Any) -> Any:
    wide = x.astype(jnp.float32)
    mean = wide.mean(-1, keepdims=True)
    variance = jnp.square(wide - mean).mean(-1, keepdims=True)
    return ((wide - mean) * lax.rsqrt(variance + 1e-5)).astype(x.dtype) * scale + shift


def attention(p: Tree, x: Any, heads: int) -> Any:
    batch, tokens, width = x.shape
    q, k, v = jnp.split(x @ p["qkv"] + p["qkv_bias"], 3, axis=-1)
    q, k, v = (a.reshape(batch, tokens, heads, width // heads).transpose(0, 2, 1, 3) for a in (q, k, v))
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / (width // heads) ** 0.5
    mask = jnp.tril(jnp.ones((tokens, tokens), bool))
    weights = jax.nn.softmax(jnp.where(mask, scores, -1e9).astype(jnp.float32), axis=-1).astype(x.dtype)
    out = jnp.einsum("bhqk,bhkd->bhqd", weights, v).transpose(0, 2, 1, 3).reshape(batch, tokens, width)
    return out @ p["out"] + p["out_bias"]


def transformer(p: Tree, ids: Any, s: Sizes) -> Any:
    with jax.named_scope("embed"):
        x = p["embed"][ids] + p["position"]
    for i, b in enumerate(p["blocks"]):
        with jax.named_scope(f"block{i}"):
            x = x + attention(b, norm(x, b["scale1"], b["shift1"]), s.heads)
            hidden = jax.nn.gelu(norm(x, b["scale2"], b["shift2"]) @ b["up"] + b["up_bias"])
            x = x + hidden @ b["down"] + b["down_bias"]
    with jax.named_scope("head"):
        return x @ p["head"]


def transformer_parameters(s: Sizes, random: np.random.Generator) -> Tree:
    w = s.width

    def matrix(*shape: int) -> Any:
        return random.standard_normal(shape, np.float32) * np.float32(0.02)

    def block() -> Tree:
        return {
            "qkv": matrix(w, 3 * w), "qkv_bias": np.zeros(3 * w, np.float32), "out": matrix(w, w), "out_bias": np.zeros(w, np.float32),
            "up": matrix(w, 4 * w), "up_bias": np.zeros(4 * w, np.float32), "down": matrix(4 * w, w), "down_bias": np.zeros(w, np.float32),
            "scale1": np.ones(w, np.float32), "shift1": np.zeros(w, np.float32), "scale2": np.ones(w, np.float32), "shift2": np.zeros(w, np.float32),
        }  # fmt: skip

    return {"embed": matrix(s.vocabulary, w), "position": matrix(s.tokens, w), "head": matrix(w, s.vocabulary),
            "blocks": [block() for _ in range(s.blocks)]}  # fmt: skip


def adam(params: Tree, gradients: Tree, states: Tree) -> tuple[Tree, Tree]:
    first, second, count = states
    count = count + 1
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradients)
    second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * jnp.square(g), second, gradients)
    near, far = 1 - 0.9**count, 1 - 0.999**count
    params = jax.tree.map(lambda p, m, v: (p - 1e-4 * (m / near) / (jnp.sqrt(v / far) + 1e-8)).astype(p.dtype), params, first, second)
    kept = jax.tree.leaves(params)[0].dtype
    return params, (cast(first, kept), cast(second, kept), count)


def cross_entropy(logits: Any, labels: Any) -> Any:
    chances = jax.nn.log_softmax(logits.astype(jnp.float32))
    return -jnp.take_along_axis(chances, labels[..., None], axis=-1).mean()


def transformer_training(batch: int, compute: Any, kept: Any, s: Sizes) -> Training:
    random = np.random.default_rng(0)
    params = cast(transformer_parameters(s, random), kept)
    zeros = jax.tree.map(np.zeros_like, params)
    ids = random.integers(0, s.vocabulary, (batch, s.tokens + 1), np.int32)

    def step(state: Tree, ids: Any) -> tuple[Tree, Any]:
        params, states = state

        def loss(p: Tree) -> Any:
            logits = transformer(cast(p, compute), ids[:, :-1], s)
            with jax.named_scope("loss"):
                return cross_entropy(logits, ids[:, 1:])

        value, gradients = jax.value_and_grad(loss)(params)
        return adam(params, gradients, states), value

    return Training((params, (zeros, zeros, np.zeros((), np.float32))), ids, step)


# -- ResNet-18


def convolve(x: Any, weight: Any, stride: int) -> Any:
    return lax.conv_general_dilated(x, weight, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def batch_norm(x: Any, p: Tree) -> Any:
    wide = x.astype(jnp.float32)
    mean = wide.mean((0, 1, 2))
    variance = jnp.square(wide).mean((0, 1, 2)) - jnp.square(mean)
    return ((wide - mean) * lax.rsqrt(variance + 1e-5)).astype(x.dtype) * p["scale"] + p["shift"]


def resnet(p: Tree, images: Any) -> Any:
    with jax.named_scope("stem"):
        x = jax.nn.relu(batch_norm(convolve(images, p["stem"]["conv"], 2), p["stem"]))
        x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
    for i, b in enumerate(p["blocks"]):
        with jax.named_scope(f"block{i}"):
            stride = 2 if "short" in b else 1
            out = jax.nn.relu(batch_norm(convolve(x, b["first"]["conv"], stride), b["first"]))
            out = batch_norm(convolve(out, b["second"]["conv"], 1), b["second"])
            if "short" in b:
                x = batch_norm(convolve(x, b["short"]["conv"], stride), b["short"])
            x = jax.nn.relu(x + out)
    with jax.named_scope("head"):
        return x.mean((1, 2)) @ p["head"] + p["head_bias"]


def resnet_parameters(s: Sizes, random: np.random.Generator) -> Tree:
    def conv(size: int, into: int, out: int) -> Tree:
        spread = np.float32((2 / (size * size * into)) ** 0.5)
        return {"conv": random.standard_normal((size, size, into, out), np.float32) * spread, "scale": np.ones(out, np.float32),
                "shift": np.zeros(out, np.float32)}  # fmt: skip

    into, blocks = s.channels, []
    for stage in range(4):
        out = s.channels * 2**stage
        for _ in range(2):
            block = {"first": conv(3, into, out), "second": conv(3, out, out)}
            if into != out:
                block["short"] = conv(1, into, out)
            blocks.append(block)
            into = out
    return {"stem": conv(7, 3, s.channels), "blocks": blocks, "head": random.standard_normal((into, s.classes), np.float32) * np.float32(0.01),
            "head_bias": np.zeros(s.classes, np.float32)}  # fmt: skip


def resnet_training(batch: int, compute: Any, kept: Any, s: Sizes) -> Training:
    random = np.random.default_rng(0)
    params = cast(resnet_parameters(s, random), kept)
    images = random.standard_normal((batch, s.image, s.image, 3), np.float32)
    labels = random.integers(0, s.classes, (batch,), np.int32)

    def step(state: Tree, data: Tree) -> tuple[Tree, Any]:
        params, momentum = state
        images, labels = data

        def loss(p: Tree) -> Any:
            logits = resnet(cast(p, compute), images.astype(compute))
            with jax.named_scope("loss"):
                return cross_entropy(logits, labels)

        value, gradients = jax.value_and_grad(loss)(params)
        momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, gradients)
        return (jax.tree.map(lambda p, m: p - 0.01 * m, params, momentum), momentum), value

    return Training((params, jax.tree.map(np.zeros_like, params)), (images, labels), step)


_TRAININGS = {"transformer": transformer_training, "resnet18": resnet_training}


def training(model: str, batch: int, precision: str, sizes: Sizes) -> Training:
    compute = jnp.float32 if precision in ("fp32", "tf32") else jnp.bfloat16
    kept = jnp.bfloat16 if precision == "purebf16" else jnp.float32
    return _TRAININGS[model](batch, compute, kept, sizes)
