"""Batch norm taken apart, in Triton: sums over a feature map in one pass, and the normalisation together with the activation behind it. Backward the
same: one pass sums what the gradients of weight and bias need, one makes the gradient of the input; both know the activation from the input again."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

NONE, RELU, HARDSWISH = 0, 1, 2
SUMMED, APPLIED = 2048, 1024  # elements of a tile at most
PROGRAMS = 1056  # eight for each of an H200's 132 multiprocessors


@triton.jit
def _slope(z, ACT: tl.constexpr):
    """Of the activation at z."""
    if ACT == 1:
        slope = tl.where(z > 0, 1.0, 0.0)
    elif ACT == 2:
        slope = tl.where(z <= -3.0, 0.0, tl.where(z < 3.0, z / 3.0 + 0.5, 1.0))
    else:
        slope = z * 0.0 + 1.0
    return slope


@triton.jit
def _activate(z, ACT: tl.constexpr):
    if ACT == 1:
        z = tl.maximum(z, 0.0)
    elif ACT == 2:
        z = z * tl.minimum(tl.maximum(z + 3.0, 0.0), 6.0) / 6.0
    return z


# Sums go over tiles of A by B: images by places of one channel's planes, or, with channels innermost (LAST), places by channels. No element's place is
# divided to find its channel: that would take longer than its memory access.


@triton.jit
def forward_sums(x, sums, squares, outer, channels, plane, span, share, LAST: tl.constexpr, A: tl.constexpr, B: tl.constexpr):
    """Of x and of its squares by channel, over this program's share of the images or places."""
    part = tl.program_id(1)
    total = tl.zeros([A, B], tl.float32)
    square = tl.zeros([A, B], tl.float32)
    for begin in range(0, share, A):
        i = part * share + begin + tl.arange(0, A)[:, None]
        mine = (i < outer) & (i < (part + 1) * share)
        for across in range(0, span, B):
            if LAST:
                channel = tl.program_id(0) * B + tl.arange(0, B)[None, :]
                place = i * channels + channel
                inside = mine & (channel < channels)
            else:
                j = across + tl.arange(0, B)[None, :]
                place = (i * channels + tl.program_id(0)) * plane + j
                inside = mine & (j < plane)
            value = tl.load(x + place, mask=inside, other=0.0).to(tl.float32)
            total += value
            square += value * value
    if LAST:
        column = tl.program_id(0) * B + tl.arange(0, B)
        tl.store(sums + part * channels + column, tl.sum(total, 0), mask=column < channels)
        tl.store(squares + part * channels + column, tl.sum(square, 0), mask=column < channels)
    else:
        tl.store(sums + part * channels + tl.program_id(0), tl.sum(tl.sum(total, 1), 0))
        tl.store(squares + part * channels + tl.program_id(0), tl.sum(tl.sum(square, 1), 0))


@triton.jit
def forward_finish(sums, squares, weight, bias, mean, inverse, scale, shift, running_mean, running_var, parts, channels, count, eps, momentum,
                   C: tl.constexpr, P: tl.constexpr):
    """Mean and deviation of each channel, what they make of weight and bias, and the running ones."""
    channel = tl.program_id(0) * C + tl.arange(0, C)
    exists = channel < channels
    total = tl.zeros([C], tl.float32)
    square = tl.zeros([C], tl.float32)
    for begin in range(0, parts, P):
        part = begin + tl.arange(0, P)[:, None]
        inside = (part < parts) & exists[None, :]
        total += tl.sum(tl.load(sums + part * channels + channel[None, :], mask=inside, other=0.0), 0)
        square += tl.sum(tl.load(squares + part * channels + channel[None, :], mask=inside, other=0.0), 0)
    m = total / count
    variance = tl.maximum(square / count - m * m, 0.0)
    i = 1.0 / tl.sqrt(variance + eps)
    w = tl.load(weight + channel, mask=exists, other=0.0)
    tl.store(mean + channel, m, mask=exists)
    tl.store(inverse + channel, i, mask=exists)
    tl.store(scale + channel, w * i, mask=exists)
    tl.store(shift + channel, tl.load(bias + channel, mask=exists, other=0.0) - m * w * i, mask=exists)
    old = tl.load(running_mean + channel, mask=exists, other=0.0)
    tl.store(running_mean + channel, old + momentum * (m - old), mask=exists)
    old = tl.load(running_var + channel, mask=exists, other=0.0)
    tl.store(running_var + channel, old + momentum * (variance * count / (count - 1) - old), mask=exists)


@triton.jit
def _tile(outer, inner, channels, LAST: tl.constexpr, A: tl.constexpr, B: tl.constexpr):
    """Places, whether they exist, and their channels: planes by places, or places by channels."""
    i = tl.program_id(0) * A + tl.arange(0, A)[:, None]
    j = tl.program_id(1) * B + tl.arange(0, B)[None, :]
    if LAST:
        channel = j
    else:
        channel = i % channels
    return i * inner + j, (i < outer) & (j < inner), channel


@triton.jit
def forward_apply(x, y, scale, shift, outer, inner, channels, LAST: tl.constexpr, ACT: tl.constexpr, A: tl.constexpr, B: tl.constexpr):
    at, inside, channel = _tile(outer, inner, channels, LAST, A, B)
    there = channel < channels
    value = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    z = value * tl.load(scale + channel, mask=there, other=0.0) + tl.load(shift + channel, mask=there, other=0.0)
    tl.store(y + at, _activate(z, ACT).to(y.dtype.element_ty), mask=inside)


@triton.jit
def backward_sums(x, dy, mean, inverse, scale, shift, sums, products, outer, channels, plane, span, share, LAST: tl.constexpr, ACT: tl.constexpr,
                  A: tl.constexpr, B: tl.constexpr):
    """Of the gradient in front of the activation, and of its product with the normalised input."""
    part = tl.program_id(1)
    if LAST:
        own = tl.program_id(0) * B + tl.arange(0, B)[None, :]
    else:
        own = tl.program_id(0) + tl.zeros([1, B], tl.int32)
    there = own < channels
    m = tl.load(mean + own, mask=there, other=0.0)
    inv = tl.load(inverse + own, mask=there, other=0.0)
    w = tl.load(scale + own, mask=there, other=0.0)
    b = tl.load(shift + own, mask=there, other=0.0)
    total = tl.zeros([A, B], tl.float32)
    product = tl.zeros([A, B], tl.float32)
    for begin in range(0, share, A):
        i = part * share + begin + tl.arange(0, A)[:, None]
        mine = (i < outer) & (i < (part + 1) * share)
        for across in range(0, span, B):
            if LAST:
                place = i * channels + own
                inside = mine & there
            else:
                j = across + tl.arange(0, B)[None, :]
                place = (i * channels + own) * plane + j
                inside = mine & (j < plane)
            value = tl.load(x + place, mask=inside, other=0.0).to(tl.float32)
            gradient = tl.load(dy + place, mask=inside, other=0.0).to(tl.float32) * _slope(value * w + b, ACT)
            total += gradient
            product += gradient * (value - m) * inv
    if LAST:
        column = tl.program_id(0) * B + tl.arange(0, B)
        tl.store(sums + part * channels + column, tl.sum(total, 0), mask=column < channels)
        tl.store(products + part * channels + column, tl.sum(product, 0), mask=column < channels)
    else:
        tl.store(sums + part * channels + tl.program_id(0), tl.sum(tl.sum(total, 1), 0))
        tl.store(products + part * channels + tl.program_id(0), tl.sum(tl.sum(product, 1), 0))


@triton.jit
def backward_finish(sums, products, d_weight, d_bias, parts, channels, C: tl.constexpr, P: tl.constexpr):
    channel = tl.program_id(0) * C + tl.arange(0, C)
    exists = channel < channels
    total = tl.zeros([C], tl.float32)
    product = tl.zeros([C], tl.float32)
    for begin in range(0, parts, P):
        part = begin + tl.arange(0, P)[:, None]
        inside = (part < parts) & exists[None, :]
        total += tl.sum(tl.load(sums + part * channels + channel[None, :], mask=inside, other=0.0), 0)
        product += tl.sum(tl.load(products + part * channels + channel[None, :], mask=inside, other=0.0), 0)
    tl.store(d_bias + channel, total, mask=exists)
    tl.store(d_weight + channel, product, mask=exists)


@triton.jit
def backward_apply(x, dy, dx, mean, inverse, scale, shift, d_weight, d_bias, outer, inner, channels, count, LAST: tl.constexpr, ACT: tl.constexpr,
                   A: tl.constexpr, B: tl.constexpr):
    at, inside, channel = _tile(outer, inner, channels, LAST, A, B)
    there = channel < channels
    value = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    w = tl.load(scale + channel, mask=there, other=0.0)
    normal = (value - tl.load(mean + channel, mask=there, other=0.0)) * tl.load(inverse + channel, mask=there, other=0.0)
    gradient = tl.load(dy + at, mask=inside, other=0.0).to(tl.float32)
    gradient *= _slope(value * w + tl.load(shift + channel, mask=there, other=0.0), ACT)
    of_bias = tl.load(d_bias + channel, mask=there, other=0.0) / count
    of_weight = tl.load(d_weight + channel, mask=there, other=0.0) / count
    tl.store(dx + at, (w * (gradient - of_bias - normal * of_weight)).to(dx.dtype.element_ty), mask=inside)


class Shape:
    """How a feature map is cut into tiles and shares."""

    def __init__(self, x: torch.Tensor):
        channels, plane = x.shape[1], x[0, 0].numel()
        if x.numel() >= 1 << 31:
            raise ValueError("places in this feature map need more than 32 bits")
        self.count = x.numel() // channels
        self.last = x.dim() == 4 and not x.is_contiguous() and x.is_contiguous(memory_format=torch.channels_last)
        # Of the sums.
        outer = self.count if self.last else x.shape[0]
        wide = min(64 if self.last else SUMMED, triton.next_power_of_2(channels if self.last else plane))
        tall = max(1, min(SUMMED // wide, triton.next_power_of_2(outer)))
        columns = triton.cdiv(channels, wide) if self.last else channels
        parts = max(1, min(triton.cdiv(PROGRAMS, columns), triton.cdiv(outer, tall)))
        share = triton.cdiv(triton.cdiv(outer, parts), tall) * tall
        self.parts = triton.cdiv(outer, share)
        self.sums_grid, self.sums = (columns, self.parts), (outer, channels, plane, wide if self.last else plane, share, self.last)
        self.sums_tile = (tall, wide)
        # Of what is applied.
        outer, inner = (self.count, channels) if self.last else (x.shape[0] * channels, plane)
        wide = min(APPLIED, triton.next_power_of_2(inner))
        tall = max(1, APPLIED // wide)
        self.apply_grid, self.apply, self.apply_tile = (triton.cdiv(outer, tall), triton.cdiv(inner, wide)), (outer, inner, channels), (tall, wide)
        self.few = (triton.cdiv(channels, 32),)


class BatchNormActivation(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x, weight, bias, running_mean, running_var, momentum: float, eps: float, act: int):
        if not (x.is_contiguous() or x.is_contiguous(memory_format=torch.channels_last)):
            x = x.contiguous()
        s, channels = Shape(x), x.shape[1]
        by_part = x.new_empty((2, s.parts, channels), dtype=torch.float32)
        mean, inverse, scale, shift = x.new_empty((4, channels), dtype=torch.float32)
        forward_sums[s.sums_grid](x, by_part[0], by_part[1], *s.sums, *s.sums_tile)
        forward_finish[s.few](by_part[0], by_part[1], weight, bias, mean, inverse, scale, shift, running_mean, running_var, s.parts, channels, s.count,
                              eps, momentum, 32, 32)
        y = torch.empty_like(x)
        forward_apply[s.apply_grid](x, y, scale, shift, *s.apply, s.last, act, *s.apply_tile)
        context.save_for_backward(x, mean, inverse, scale, shift)
        context.act = act
        return y

    @staticmethod
    def backward(context: Any, dy):
        x, mean, inverse, scale, shift = context.saved_tensors
        s, channels = Shape(x), x.shape[1]
        dy = dy.contiguous(memory_format=torch.channels_last if s.last else torch.contiguous_format)
        by_part = x.new_empty((2, s.parts, channels), dtype=torch.float32)
        d_weight, d_bias = x.new_empty((2, channels), dtype=torch.float32)
        backward_sums[s.sums_grid](x, dy, mean, inverse, scale, shift, by_part[0], by_part[1], *s.sums, context.act, *s.sums_tile)
        backward_finish[s.few](by_part[0], by_part[1], d_weight, d_bias, s.parts, channels, 32, 32)
        dx = torch.empty_like(x)
        backward_apply[s.apply_grid](x, dy, dx, mean, inverse, scale, shift, d_weight, d_bias, *s.apply, s.count, s.last, context.act, *s.apply_tile)
        return dx, d_weight, d_bias, None, None, None, None, None
