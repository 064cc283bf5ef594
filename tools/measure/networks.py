"""Networks that no library offers, in plain PyTorch: rebuilt from the traces in data/ and truth/, so that their layers carry
the same names and shapes. `attn` is "eager" (products and a softmax) or "sdpa" (one call)."""

from __future__ import annotations

import itertools
import math

import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, bias: bool, attn: str, causal: bool = False):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=bias) for _ in range(4))
        self.heads, self.attn, self.causal = heads, attn, causal

    def forward(self, x, memory, position_bias=None):
        q, k, v = (layer(y).view(y.shape[0], y.shape[1], self.heads, -1).transpose(1, 2)
                   for layer, y in ((self.q, x), (self.k, memory), (self.v, memory)))
        if self.attn == "sdpa":
            mask = position_bias
            if mask is not None and self.causal:
                mask = mask + torch.full(mask.shape[-2:], float("-inf"), device=x.device, dtype=mask.dtype).triu(1)
            if mask is not None:
                mask = mask.to(q.dtype)
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=self.causal and mask is None)
        else:
            scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(q.shape[-1])
            if position_bias is not None:
                scores = scores + position_bias
            if self.causal:
                hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).triu(1)
                scores = scores.masked_fill(hidden, float("-inf"))
            mixed = torch.matmul(torch.softmax(scores, -1), v)
        return self.o(mixed.transpose(1, 2).flatten(2))


class SeqBlock(nn.Module):
    """A block of an encoder (`cross=False`) or decoder; `gated`: T5's feed-forward and RMS norms."""

    def __init__(self, width: int, heads: int, inner: int, attn: str, cross: bool, gated: bool):
        super().__init__()
        norm = (lambda: nn.RMSNorm(width)) if gated else (lambda: nn.LayerNorm(width))
        self.n1, self.n3 = norm(), norm()
        self.self_attn = Attention(width, heads, not gated, attn, causal=cross)
        if cross:
            self.n2 = norm()
            self.cross_attn = Attention(width, heads, not gated, attn)
        if gated:
            self.wi0, self.wi1 = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
            self.wo = nn.Linear(inner, width, bias=False)
        else:
            self.fc1, self.act, self.fc2 = nn.Linear(width, inner), nn.ReLU(), nn.Linear(inner, width)
        self.drop = nn.Dropout(0.1)
        self.gated, self.cross = gated, cross

    def forward(self, x, memory=None, position_bias=None):
        y = self.n1(x)
        x = x + self.drop(self.self_attn(y, y, position_bias))
        if self.cross:
            x = x + self.drop(self.cross_attn(self.n2(x), memory))
        y = self.n3(x)
        y = self.wo(F.gelu(self.wi0(y)) * self.wi1(y)) if self.gated else self.fc2(self.act(self.fc1(y)))
        return x + self.drop(y)


class Seq2Seq(nn.Module):
    """Encoder and decoder; `relative`: T5's bias by distance instead of positions."""

    def __init__(self, vocabulary: int, width: int, heads: int, inner: int, layers: int, attn: str, gated: bool):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        if gated:
            self.relative = nn.Embedding(32, heads)
        self.encoder = nn.ModuleList([SeqBlock(width, heads, inner, attn, False, gated) for _ in range(layers)])
        self.decoder = nn.ModuleList([SeqBlock(width, heads, inner, attn, True, gated) for _ in range(layers)])
        self.norm = nn.RMSNorm(width) if gated else nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.gated = gated

    def bias(self, length: int, device):
        at = torch.arange(length, device=device)
        distance = (at.unsqueeze(0) - at.unsqueeze(1)).abs().clamp(max=31)
        return self.relative(distance).permute(2, 0, 1).unsqueeze(0)

    def forward(self, source, target):
        x, y = self.embed(source), self.embed(target)
        near = self.bias(source.shape[1], source.device) if self.gated else None
        far = self.bias(target.shape[1], target.device) if self.gated else None
        for block in self.encoder:
            x = block(x, None, near)
        for block in self.decoder:
            y = block(y, x, far)
        return self.head(self.norm(y))


class GNMT(nn.Module):
    """Eight LSTM layers with additive attention, of GNMT's size."""

    def __init__(self, vocabulary: int = 32320, width: int = 1024, layers: int = 4):
        super().__init__()
        def lstm(inputs):
            return nn.LSTM(inputs, width, batch_first=True)
        self.embed = nn.Embedding(vocabulary, width)
        self.enc_bi = nn.LSTM(width, width, bidirectional=True, batch_first=True)
        self.enc = nn.ModuleList([lstm(width if i else 2 * width) for i in range(layers - 1)])
        self.dec0 = lstm(width)
        self.q, self.k, self.v = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, 1)
        self.dec = nn.ModuleList([lstm(2 * width) for _ in range(layers - 1)])
        self.drop = nn.Dropout(0.2)
        self.out = nn.Linear(width, vocabulary)

    def forward(self, source, target):
        x = self.enc_bi(self.drop(self.embed(source)))[0]
        for i, layer in enumerate(self.enc):
            y = layer(self.drop(x))[0]
            x = y + x if i else y
        d = self.dec0(self.drop(self.embed(target)))[0]
        scores = self.v(torch.tanh(self.q(d).unsqueeze(2) + self.k(x).unsqueeze(1))).squeeze(-1)
        context = torch.bmm(F.softmax(scores, -1), x)
        for i, layer in enumerate(self.dec):
            y = layer(torch.cat([self.drop(d), context], -1))[0]
            d = y + d if i else y
        return self.out(d)


class LstmLm(nn.Module):
    def __init__(self, vocabulary: int = 20000, width: int = 1024, layers: int = 2):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, width, layers, batch_first=True, dropout=0.2 if layers > 1 else 0)
        self.head, self.drop = nn.Linear(width, vocabulary), nn.Dropout(0.2)

    def forward(self, tokens):
        return self.head(self.drop(self.lstm(self.drop(self.embed(tokens)))[0]))


class UNetBlock(nn.Module):
    def __init__(self, before: int, after: int):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(before, after, 3, padding=1), nn.GroupNorm(8, after)
        self.conv2, self.norm2 = nn.Conv2d(after, after, 3, padding=1), nn.GroupNorm(8, after)
        self.skip = nn.Identity() if before == after else nn.Conv2d(before, after, 1)

    def forward(self, x):
        y = F.silu(self.norm1(self.conv1(x)))
        return F.silu(self.norm2(self.conv2(y))) + self.skip(x)


class UNet(nn.Module):
    def __init__(self, widths: tuple[int, ...] = (64, 128, 256, 512)):
        super().__init__()
        self.stem = nn.Conv2d(3, widths[0], 3, padding=1)
        self.down = nn.ModuleList([UNetBlock(a, b) for a, b in zip((widths[0], *widths), widths)])
        pairs = [(widths[i], widths[i - 1]) for i in range(len(widths) - 1, 0, -1)]
        self.up = nn.ModuleList([nn.ConvTranspose2d(a, b, 2, 2) for a, b in pairs])
        self.merge = nn.ModuleList([UNetBlock(2 * b, b) for _, b in pairs])
        self.out = nn.Conv2d(widths[0], 3, 1)

    def forward(self, x):
        x, kept = self.stem(x), []
        for i, block in enumerate(self.down):
            x = block(x if i == 0 else F.max_pool2d(x, 2))
            kept.append(x)
        for up, merge, other in zip(self.up, self.merge, kept[-2::-1]):
            x = merge(torch.cat([up(x), other], 1))
        return self.out(x)


def mlp_of(*widths: int, last: bool) -> nn.Sequential:
    """Linear and ReLU in turn; `last`: a ReLU at the end too."""
    layers: list[nn.Module] = []
    for a, b in itertools.pairwise(widths):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*(layers if last else layers[:-1]))


class DLRM(nn.Module):
    def __init__(self, tables: int = 26, rows: int = 20000, width: int = 128,
                 bottom: tuple[int, ...] = (1024, 512), top: tuple[int, ...] = (2048, 2048, 1024, 512)):
        super().__init__()
        self.bottom = mlp_of(13, *bottom, width, last=True)
        self.tables = nn.ModuleList([nn.EmbeddingBag(rows, width, mode="sum") for _ in range(tables)])
        self.top = mlp_of(width + (tables + 1) * tables // 2, *top, 1, last=False)
        self.register_buffer("pairs", torch.tril_indices(tables + 1, tables + 1, -1), persistent=False)

    def forward(self, dense, sparse):
        x = self.bottom(dense)
        rows = [table(sparse[:, i]).to(x.dtype) for i, table in enumerate(self.tables)]
        all_rows = torch.stack([x, *rows], 1)
        products = torch.bmm(all_rows, all_rows.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
        return self.top(torch.cat([x, products], 1)).squeeze(1)


class Wav2Vec(nn.Module):
    def __init__(self, channels: int = 512, width: int = 768, heads: int = 12, inner: int = 3072, layers: int = 6,
                 groups: int = 16, classes: int = 320):
        super().__init__()
        features: list[nn.Module] = [nn.Conv1d(1, channels, 10, 5, bias=False), nn.GroupNorm(channels, channels), nn.GELU()]
        for kernel in (3, 3, 3, 3, 2, 2):
            features += [nn.Conv1d(channels, channels, kernel, 2, bias=False), nn.GELU()]
        self.features = nn.Sequential(*features)
        self.norm, self.proj = nn.LayerNorm(channels), nn.Linear(channels, width)
        self.pos = nn.Conv1d(width, width, 128, padding=64, groups=groups)
        self.layers = nn.ModuleList([nn.TransformerEncoderLayer(width, heads, inner, 0.1, F.gelu, batch_first=True)
                                     for _ in range(layers)])
        self.head = nn.Linear(width, classes)

    def forward(self, wave):
        x = self.proj(self.norm(self.features(wave.unsqueeze(1)).transpose(1, 2)))
        x = x + F.gelu(self.pos(x.transpose(1, 2))[:, :, :-1]).transpose(1, 2)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def mlp(width: int = 512, blocks: int = 8, classes: int = 10) -> nn.Sequential:
    layers: list[nn.Module] = []
    for _ in range(blocks):
        layers += [nn.Linear(width, width), nn.LayerNorm(width), nn.GELU(), nn.Dropout(0.1)]
    return nn.Sequential(*layers, nn.Linear(width, classes))
