"""Decoders whose parts can be divided: by tensor parallelism, experts, sequence, stages."""

from __future__ import annotations

import math

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

SIZES = {
    "lmA": {"width": 1024, "layers": 8, "heads": 16, "kv": 4, "hidden": 2816, "words": 32000, "length": 1024, "batch": 8},
    "moeA": {"width": 768, "layers": 6, "heads": 12, "kv": 12, "hidden": 2048, "words": 32000, "length": 1024, "batch": 8, "experts": 8},
    "gptB": {"width": 1280, "layers": 6, "heads": 20, "kv": 20, "hidden": 5120, "words": 50304, "length": 512, "batch": 8, "gpt": 1},
    "lmB": {"width": 1536, "layers": 8, "heads": 12, "kv": 12, "hidden": 6144, "words": 50304, "length": 512, "batch": 8, "gelu": 1},
    "moeB": {"width": 1024, "layers": 4, "heads": 16, "kv": 4, "hidden": 1792, "words": 32000, "length": 1024, "batch": 8, "experts": 16},
    "moeC": {"width": 1280, "layers": 5, "heads": 10, "kv": 5, "hidden": 1536, "words": 50304, "length": 512, "batch": 8, "experts": 8},
    "tiny": {"width": 64, "layers": 4, "heads": 4, "kv": 2, "hidden": 96, "words": 128, "length": 32, "batch": 8},
    "tinymoe": {"width": 64, "layers": 4, "heads": 4, "kv": 4, "hidden": 96, "words": 128, "length": 32, "batch": 8, "experts": 4},
    "tinygpt": {"width": 64, "layers": 4, "heads": 4, "kv": 4, "hidden": 96, "words": 128, "length": 32, "batch": 8, "gpt": 1},
}


class CopyToGroup(torch.autograd.Function):
    """Identity forward, all-reduce backward."""

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return x

    @staticmethod
    def backward(ctx, grad):
        grad = grad.contiguous()
        dist.all_reduce(grad, group=ctx.group)
        return grad, None


class SumOverGroup(torch.autograd.Function):
    """All-reduce forward, identity backward."""

    @staticmethod
    def forward(ctx, x, group):
        x = x.contiguous()
        dist.all_reduce(x, group=group)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad, None


class AllToAll(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        x = x.contiguous()
        out = torch.empty_like(x)
        dist.all_to_all_single(out, x, group=group)
        return out

    @staticmethod
    def backward(ctx, grad):
        grad = grad.contiguous()
        out = torch.empty_like(grad)
        dist.all_to_all_single(out, grad, group=ctx.group)
        return out, None


class Parts:
    """How a network is divided, and what of it this rank has."""

    def __init__(self, *, tensor=1, experts=1, group=None, by_sequence=False, recompute=False, eager=False, first=0, last=None):
        self.tensor, self.experts, self.group, self.by_sequence = tensor, experts, group, by_sequence
        self.recompute, self.eager, self.first, self.last = recompute, eager, first, last


class Attention(nn.Module):
    def __init__(self, size, parts):
        super().__init__()
        self.parts = parts
        self.head = size["width"] // size["heads"]
        heads, kv = size["heads"] // parts.tensor, size["kv"] // parts.tensor
        bias = "gpt" in size
        self.wq = nn.Linear(size["width"], heads * self.head, bias=bias)
        self.wk = nn.Linear(size["width"], kv * self.head, bias=bias)
        self.wv = nn.Linear(size["width"], kv * self.head, bias=bias)
        self.wo = nn.Linear(heads * self.head, size["width"], bias=bias and parts.tensor == 1)

    def spread_heads(self, x):
        """A part of the sequence and all heads to all of the sequence and a part of the heads."""
        ranks = dist.get_world_size(self.parts.group)
        b, t, h, d = x.shape
        x = AllToAll.apply(x.view(b, t, ranks, h // ranks, d).permute(2, 0, 1, 3, 4), self.parts.group)
        return x.permute(1, 0, 2, 3, 4).reshape(b, ranks * t, h // ranks, d)

    def gather_heads(self, x):
        ranks = dist.get_world_size(self.parts.group)
        b, t, h, d = x.shape
        x = AllToAll.apply(x.view(b, ranks, t // ranks, h, d).permute(1, 0, 2, 3, 4), self.parts.group)
        return x.permute(1, 2, 0, 3, 4).reshape(b, t // ranks, ranks * h, d)

    def attend(self, q, k, v):
        """Over batch, heads, length, width of a head."""
        if not self.parts.eager:
            return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=q.shape[1] != k.shape[1])
        if q.shape[1] != k.shape[1]:
            k, v = (y.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for y in (k, v))
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.head)
        length = q.shape[2]
        mask = torch.ones(length, length, dtype=torch.bool, device=q.device).tril()
        return scores.masked_fill(~mask, float("-inf")).softmax(-1).to(v.dtype) @ v

    def forward(self, x):
        if self.parts.tensor > 1:
            x = CopyToGroup.apply(x, self.parts.group)
        b, t, _ = x.shape
        q, k, v = (w(x).view(b, t, -1, self.head) for w in (self.wq, self.wk, self.wv))
        if self.parts.by_sequence:
            q, k, v = self.spread_heads(q), self.spread_heads(k), self.spread_heads(v)
        out = self.attend(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)).transpose(1, 2)
        if self.parts.by_sequence:
            out = self.gather_heads(out)
        out = self.wo(out.reshape(b, t, -1))
        return SumOverGroup.apply(out, self.parts.group) if self.parts.tensor > 1 else out


class FeedForward(nn.Module):
    def __init__(self, size, parts):
        super().__init__()
        self.parts, hidden, bias = parts, size["hidden"] // parts.tensor, "gpt" in size
        self.w1 = nn.Linear(size["width"], hidden, bias=bias)
        self.w2 = nn.Linear(hidden, size["width"], bias=bias and parts.tensor == 1)
        self.w3 = None if bias or "gelu" in size else nn.Linear(size["width"], hidden, bias=False)

    def forward(self, x):
        if self.parts.tensor > 1:
            x = CopyToGroup.apply(x, self.parts.group)
        x = self.w2(F.gelu(self.w1(x)) if self.w3 is None else F.silu(self.w1(x)) * self.w3(x))
        return SumOverGroup.apply(x, self.parts.group) if self.parts.tensor > 1 else x


class Experts(nn.Module):
    """Every expert takes as many tokens as the others, so shapes do not depend on values."""

    def __init__(self, size, parts):
        super().__init__()
        self.parts, self.experts = parts, size["experts"]
        here = self.experts // parts.experts
        self.gate = nn.Linear(size["width"], self.experts, bias=False)
        self.w1 = nn.Parameter(torch.randn(here, size["width"], size["hidden"]) * 0.02)
        self.w3 = nn.Parameter(torch.randn(here, size["width"], size["hidden"]) * 0.02)
        self.w2 = nn.Parameter(torch.randn(here, size["hidden"], size["width"]) * 0.02)

    def forward(self, x):
        b, t, d = x.shape
        tokens, ranks, each = x.reshape(-1, d), self.parts.experts, self.experts // self.parts.experts
        taken = tokens.shape[0] * 2 // self.experts
        weight, chosen = self.gate(tokens).float().softmax(-1).t().topk(taken, dim=-1)
        z = tokens[chosen.reshape(-1)].view(self.experts, taken, d)
        if ranks > 1:
            z = AllToAll.apply(z, self.parts.group).view(ranks, each, taken, d).transpose(0, 1).reshape(each, ranks * taken, d)
        z = torch.bmm(F.silu(torch.bmm(z, self.w1)) * torch.bmm(z, self.w3), self.w2)
        if ranks > 1:
            z = AllToAll.apply(z.view(each, ranks, taken, d).transpose(0, 1).reshape(self.experts, taken, d), self.parts.group)
        z = (z * weight.unsqueeze(-1).to(z.dtype)).reshape(-1, d)
        return torch.zeros_like(tokens, dtype=z.dtype).index_add(0, chosen.reshape(-1), z).view(b, t, d)


class Block(nn.Module):
    def __init__(self, size, parts):
        super().__init__()
        norm = nn.LayerNorm if "gpt" in size else nn.RMSNorm
        self.n1, self.n2 = norm(size["width"]), norm(size["width"])
        self.attention = Attention(size, parts)
        self.feed_forward = (Experts if "experts" in size else FeedForward)(size, parts)
        self.recompute = parts.recompute

    def body(self, x):
        x = x + self.attention(self.n1(x))
        return x + self.feed_forward(self.n2(x))

    def forward(self, x):
        return checkpoint(self.body, x, use_reentrant=False) if self.recompute else self.body(x)


class Decoder(nn.Module):
    def __init__(self, size, parts):
        super().__init__()
        last = size["layers"] if parts.last is None else parts.last
        norm = nn.LayerNorm if "gpt" in size else nn.RMSNorm
        begins, ends = parts.first == 0, last == size["layers"]
        self.embed = nn.Embedding(size["words"], size["width"]) if begins else None
        self.places = nn.Embedding(size["length"], size["width"]) if begins and "gpt" in size else None
        self.layers = nn.ModuleList([Block(size, parts) for _ in range(parts.first, last)])
        self.norm = norm(size["width"]) if ends else None
        self.head = nn.Linear(size["width"], size["words"], bias=False) if ends else None

    def forward(self, x):
        if self.embed is not None:
            length = x.shape[1]
            x = self.embed(x)
            if self.places is not None:
                x = x + self.places(torch.arange(length, device=x.device))
        for layer in self.layers:
            x = layer(x)
        return x if self.head is None or self.norm is None else self.head(self.norm(x))


def loss_of(out, target):
    return F.cross_entropy(out.reshape(-1, out.shape[-1]).float(), target.reshape(-1))
