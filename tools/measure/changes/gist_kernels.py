"""Gist's codes for saved activations, in Triton: a bit per element, non-zero values packed behind such bits, and eight bits with a scale per block."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

BLOCK = 1024  # elements of a program: 32 words of bits


@triton.jit
def _bits_of(flags, BLOCK: tl.constexpr):
    """32 of them to a word."""
    word = tl.reshape(flags.to(tl.int32), (BLOCK // 32, 32)) << tl.arange(0, 32)[None, :]
    return tl.sum(word, 1)


@triton.jit
def _flags_of(words, BLOCK: tl.constexpr):
    bits = (words[:, None] >> tl.arange(0, 32)[None, :]) & 1
    return tl.reshape(bits, (BLOCK,))


@triton.jit
def write_bits(x, bits, counts, elements, BLOCK: tl.constexpr):
    """Which elements are not zero, and how many in each block."""
    block = tl.program_id(0)
    at = block.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    flags = (tl.load(x + at, mask=at < elements, other=0.0) != 0.0).to(tl.int32)
    tl.store(bits + block * (BLOCK // 32) + tl.arange(0, BLOCK // 32), _bits_of(flags, BLOCK))
    tl.store(counts + block, tl.sum(flags, 0).to(tl.int64))


@triton.jit
def write_values(x, bits, ends, values, elements, BLOCK: tl.constexpr):
    block = tl.program_id(0)
    at = block.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    flags = _flags_of(tl.load(bits + block * (BLOCK // 32) + tl.arange(0, BLOCK // 32)), BLOCK)
    begin = tl.load(ends + block) - tl.sum(flags, 0).to(tl.int64)
    to = begin + tl.cumsum(flags, 0).to(tl.int64) - 1
    tl.store(values + to, tl.load(x + at, mask=at < elements, other=0.0), mask=flags != 0)


@triton.jit
def read_values(bits, ends, values, x, elements, BLOCK: tl.constexpr):
    block = tl.program_id(0)
    at = block.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    flags = _flags_of(tl.load(bits + block * (BLOCK // 32) + tl.arange(0, BLOCK // 32)), BLOCK)
    begin = tl.load(ends + block) - tl.sum(flags, 0).to(tl.int64)
    of = begin + tl.cumsum(flags, 0).to(tl.int64) - 1
    tl.store(x + at, tl.load(values + of, mask=flags != 0, other=0.0), mask=at < elements)


@triton.jit
def relu_and_bits(x, y, bits, elements, BLOCK: tl.constexpr):
    block = tl.program_id(0)
    at = block.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < elements, other=0.0)
    tl.store(y + at, tl.maximum(value, 0.0), mask=at < elements)
    tl.store(bits + block * (BLOCK // 32) + tl.arange(0, BLOCK // 32), _bits_of((value > 0.0).to(tl.int32), BLOCK))


@triton.jit
def slope_from_bits(dy, bits, dx, elements, BLOCK: tl.constexpr):
    """ReLU's gradient."""
    block = tl.program_id(0)
    at = block.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    flags = _flags_of(tl.load(bits + block * (BLOCK // 32) + tl.arange(0, BLOCK // 32)), BLOCK)
    tl.store(dx + at, tl.where(flags != 0, tl.load(dy + at, mask=at < elements, other=0.0), 0.0), mask=at < elements)


@triton.jit
def to_eight(x, codes, scales, elements, BLOCK: tl.constexpr):
    block = tl.program_id(0)
    at = block.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < elements, other=0.0)
    scale = tl.max(tl.abs(value), 0) / 127.0 + 1e-30
    scaled = value / scale
    tl.store(codes + at, (scaled + tl.where(scaled >= 0, 0.5, -0.5)).to(tl.int8), mask=at < elements)
    tl.store(scales + block, scale)


@triton.jit
def from_eight(codes, scales, x, elements, BLOCK: tl.constexpr):
    block = tl.program_id(0)
    at = block.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(codes + at, mask=at < elements, other=0).to(tl.float32)
    tl.store(x + at, value * tl.load(scales + block), mask=at < elements)


@triton.jit
def pool_forward(x, y, where, outputs, height, width, out_height, out_width, step, padding, WINDOW: tl.constexpr, BLOCK: tl.constexpr):
    """The largest of each window, and its number in the window."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column, row = at % out_width, (at // out_width) % out_height
    plane = at // (out_width * out_height)
    best = tl.full([BLOCK], float("-inf"), tl.float32)
    number = tl.zeros([BLOCK], tl.int32)
    for i in range(WINDOW):
        for j in range(WINDOW):
            r, c = row * step - padding + i, column * step - padding + j
            inside = (at < outputs) & (r >= 0) & (r < height) & (c >= 0) & (c < width)
            value = tl.load(x + (plane * height + r) * width + c, mask=inside, other=float("-inf"))
            number = tl.where(value > best, i * WINDOW + j, number)
            best = tl.maximum(best, value)
    tl.store(y + at, best, mask=at < outputs)
    tl.store(where + at, number.to(tl.int8), mask=at < outputs)


@triton.jit
def pool_backward(dy, where, dx, inputs, height, width, out_height, out_width, step, padding, WINDOW: tl.constexpr, REACH: tl.constexpr,
                  BLOCK: tl.constexpr):
    """Each input collects from the windows (REACH a side) that chose it."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column, row = at % width, (at // width) % height
    plane = at // (width * height)
    total = tl.zeros([BLOCK], tl.float32)
    for i in range(REACH):
        for j in range(REACH):
            r, c = (row + padding) // step - i, (column + padding) // step - j
            dr, dc = row + padding - r * step, column + padding - c * step
            inside = (at < inputs) & (r >= 0) & (r < out_height) & (c >= 0) & (c < out_width) & (dr < WINDOW) & (dc < WINDOW)
            of = (plane * out_height + r) * out_width + c
            chosen = tl.load(where + of, mask=inside, other=-1).to(tl.int32) == dr * WINDOW + dc
            total += tl.load(dy + of, mask=inside & chosen, other=0.0)
    tl.store(dx + at, total, mask=at < inputs)


def grid(elements: int) -> tuple[int]:
    return (triton.cdiv(elements, BLOCK),)


class Sparse:
    """A dense tensor without its zeros. How many values stay is asked of the GPU: the memory for them must be known."""

    def __init__(self, x: torch.Tensor):
        blocks = grid(x.numel())
        self.like, self.bits = torch.empty_like(x, device="meta"), x.new_empty(blocks[0] * (BLOCK // 32), dtype=torch.int32)
        counts = x.new_empty(blocks[0], dtype=torch.int64)
        write_bits[blocks](x, self.bits, counts, x.numel(), BLOCK)
        self.ends = counts.cumsum(0)
        self.values = x.new_empty(int(self.ends[-1]))
        write_values[blocks](x, self.bits, self.ends, self.values, x.numel(), BLOCK)

    def dense(self) -> torch.Tensor:
        x = torch.empty_like(self.like, device=self.values.device)
        read_values[grid(x.numel())](self.bits, self.ends, self.values, x, x.numel(), BLOCK)
        return x


class Eight:
    def __init__(self, x: torch.Tensor):
        self.codes = torch.empty_like(x, dtype=torch.int8)
        self.scales = x.new_empty(grid(x.numel()))
        to_eight[grid(x.numel())](x, self.codes, self.scales, x.numel(), BLOCK)

    def dense(self) -> torch.Tensor:
        x = torch.empty_like(self.codes, dtype=torch.float32)
        from_eight[grid(x.numel())](self.codes, self.scales, x, x.numel(), BLOCK)
        return x
