"""Decode steps of a language model at several batches, eager and as a CUDA graph: what `batch` is compared with.

    python -u -m tools.measure.decode --out DIR [--context 1024] [--steps 200]

Two decoders with grouped heads and random weights in bf16: 12 layers of width 1,536 and 8 of width 4,096, batch 1, 4, 16 and 64. A step appends
one token per sequence to a cache of keys and values that exists already. Times come first, without a profiler; then a trace of three steps is
recorded, whose steps are marked `step[DECODE bs=N]`. decode.csv: median, 10th and 90th percentile of the steps, and the bytes of the weights.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from .rows import write_rows

SIZES = {"w1536": (12, 1536, 12, 4), "w4096": (8, 4096, 32, 8)}  # layers, width, heads, heads of keys and values
BATCHES = (1, 4, 16, 64)
VOCABULARY, HEAD = 32_000, 128
COLUMNS = ("model", "batch", "context", "graph", "median_ms", "p10_ms", "p90_ms", "weight_bytes")


class Block(nn.Module):
    def __init__(self, width: int, heads: int, kv_heads: int, batch: int, context: int):
        super().__init__()
        self.heads, self.kv_heads, self.place = heads, kv_heads, context - 1
        self.qkv = nn.Linear(width, (heads + 2 * kv_heads) * HEAD, bias=False)
        self.out = nn.Linear(heads * HEAD, width, bias=False)
        self.gate_up = nn.Linear(width, 8 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)
        self.norms = nn.ModuleList(nn.RMSNorm(width) for _ in range(2))
        self.register_buffer("cache", torch.randn(2, batch, kv_heads, context, HEAD))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norms[0](x)).view(x.shape[0], 1, -1, HEAD).transpose(1, 2).split(
            [self.heads, self.kv_heads, self.kv_heads], dim=1)
        self.cache[0, :, :, self.place : self.place + 1] = k
        self.cache[1, :, :, self.place : self.place + 1] = v
        a = F.scaled_dot_product_attention(q, self.cache[0], self.cache[1], enable_gqa=True)
        x = x + self.out(a.transpose(1, 2).reshape(x.shape[0], 1, -1))
        gate, up = self.gate_up(self.norms[1](x)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up)


class Decoder(nn.Module):
    def __init__(self, size: str, batch: int, context: int):
        super().__init__()
        layers, width, heads, kv_heads = SIZES[size]
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.blocks = nn.ModuleList(Block(width, heads, kv_heads, batch, context) for _ in range(layers))
        self.head = nn.Linear(width, VOCABULARY, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x).argmax(dim=-1)


def captured(model: Decoder, tokens: torch.Tensor) -> Callable[[], None]:
    for _ in range(3):
        model(tokens)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        tokens.copy_(model(tokens))
    return graph.replay


def times(step: Callable[[], None], steps: int) -> list[float]:
    out = []
    for i in range(steps + 10):
        begin = time.perf_counter()
        step()
        torch.cuda.synchronize()
        if i >= 10:
            out.append(1e3 * (time.perf_counter() - begin))
    return out


def record(step: Callable[[], None], batch: int, to: Path) -> None:
    with torch.profiler.profile(record_shapes=True) as profiler:
        for _ in range(3):
            with torch.profiler.record_function(f"step[DECODE bs={batch}]"):
                step()
                torch.cuda.synchronize()
    profiler.export_chrome_trace(str(to))


@torch.inference_mode()
def measure(size: str, batch: int, context: int, graphed: bool, steps: int, out: Path) -> dict[str, object]:
    model = Decoder(size, batch, context).to("cuda", torch.bfloat16).eval()
    tokens = torch.zeros(batch, 1, dtype=torch.long, device="cuda")
    step = captured(model, tokens) if graphed else lambda: tokens.copy_(model(tokens))
    ms = sorted(times(step, steps))
    record(step, batch, out / f"{size}@{batch}-{'graph' if graphed else 'eager'}.json.gz")
    weights = sum(p.numel() * p.element_size() for n, p in model.named_parameters() if not n.startswith("embedding"))
    return dict(zip(COLUMNS, (size, batch, context, int(graphed), statistics.median(ms), ms[len(ms) // 10], ms[9 * len(ms) // 10], weights),
                    strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--context", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=200)
    arguments = parser.parse_args()
    write_rows(arguments.out / "decode.csv", COLUMNS, (
        measure(size, batch, arguments.context, graphed, arguments.steps, arguments.out)
        for size, batch, graphed in itertools.product(SIZES, BATCHES, (True, False))))


if __name__ == "__main__":
    main()
