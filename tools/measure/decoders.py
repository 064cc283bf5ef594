"""Training steps of language models with the widths of published ones and few layers: what plans over many GPUs start from.

    python -u -m tools.measure.decoders --out DIR [--only REGEX] [--seconds 400] [--cpu]

Random weights, random tokens. Weights in bf16 (`pure`) or FP32 under autocast (`autocast`), SDPA, fused AdamW. Every row is measured in a process
of its own, forked from one that never touched the GPU: steps are timed first, then two are recorded. `decoders.jsonl`: the row, with the shape.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import json
import multiprocessing
import re
import statistics
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint


@dataclass(frozen=True)
class Shape:
    layers: int
    width: int
    heads: int
    kv_heads: int
    ffn: int
    vocabulary: int
    length: int
    batch: int = 1
    experts: int = 0  # a token goes to `chosen` of them
    chosen: int = 2
    shared: int = 0  # experts that see every token
    latent: int = 0  # rank of compressed keys and values; 0: none
    gelu: bool = False  # two matrices and LayerNorm instead of three and RMSNorm
    tied: bool = False
    weights: str = "pure"
    recompute: bool = False


JOBS = {
    "llama8b@1x8192": Shape(8, 4096, 32, 8, 14336, 128256, 8192),
    "llama8b@1x4096": Shape(8, 4096, 32, 8, 14336, 128256, 4096),
    "llama70b@1x4096": Shape(3, 8192, 64, 8, 28672, 128256, 4096),
    "llama405b@1x4096": Shape(1, 16384, 128, 8, 53248, 128256, 4096),
    "mixtral@1x4096": Shape(2, 4096, 32, 8, 14336, 32000, 4096, experts=8),
    "latent@1x4096": Shape(2, 5120, 128, 128, 1536, 102400, 4096, experts=160, chosen=6, shared=2, latent=512),
    "llama3b@2x4096": Shape(8, 3072, 32, 32, 8192, 131072, 4096, 2, tied=True),
    "gpt3.6b@4x2048": Shape(6, 3072, 32, 32, 12288, 51200, 2048, 4, gelu=True),
    "gpt2048@4x1024": Shape(8, 2048, 16, 16, 8192, 51200, 1024, 4, gelu=True),
    "mpt7b@2x2048": Shape(6, 4096, 32, 32, 16384, 50432, 2048, 2, gelu=True),
    "llama8b@1x8192-autocast": Shape(8, 4096, 32, 8, 14336, 128256, 8192, weights="autocast"),
    "llama8b@1x8192-recompute": Shape(8, 4096, 32, 8, 14336, 128256, 8192, recompute=True),
    "llama8b@1x8192-16layers": Shape(16, 4096, 32, 8, 14336, 128256, 8192),
}
STEPS, WARM_UP = 14, 5


def norm(shape: Shape, width: int | None = None) -> nn.Module:
    width = width or shape.width
    return nn.LayerNorm(width) if shape.gelu else nn.RMSNorm(width)


class Attention(nn.Module):
    def __init__(self, shape: Shape):
        super().__init__()
        self.head = shape.width // shape.heads
        self.wq = nn.Linear(shape.width, shape.heads * self.head, bias=shape.gelu)
        self.wk = nn.Linear(shape.width, shape.kv_heads * self.head, bias=shape.gelu)
        self.wv = nn.Linear(shape.width, shape.kv_heads * self.head, bias=shape.gelu)
        self.wo = nn.Linear(shape.heads * self.head, shape.width, bias=shape.gelu)
        self.rotary = not shape.gelu

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        q, k, v = (w(x).view(batch, length, -1, self.head) for w in (self.wq, self.wk, self.wv))
        if self.rotary:
            q, k = turn(q), turn(k)
        out = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True,
                                             enable_gqa=q.shape[2] != k.shape[2])
        return self.wo(out.transpose(1, 2).reshape(batch, length, -1))


class LatentAttention(nn.Module):
    """Keys and values from a compressed vector, as DeepSeek-V2 has them: 128 features without and 64 with positions, values of 128."""

    PLAIN, TURNED, QUERY_RANK = 128, 64, 1536

    def __init__(self, shape: Shape):
        super().__init__()
        self.heads, self.rank = shape.heads, shape.latent
        self.q_down, self.q_norm = nn.Linear(shape.width, self.QUERY_RANK, bias=False), norm(shape, self.QUERY_RANK)
        self.q_up = nn.Linear(self.QUERY_RANK, shape.heads * (self.PLAIN + self.TURNED), bias=False)
        self.kv_down, self.kv_norm = nn.Linear(shape.width, shape.latent + self.TURNED, bias=False), norm(shape, shape.latent)
        self.kv_up = nn.Linear(shape.latent, shape.heads * 2 * self.PLAIN, bias=False)
        self.wo = nn.Linear(shape.heads * self.PLAIN, shape.width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        q = self.q_up(self.q_norm(self.q_down(x))).view(batch, length, self.heads, -1)
        compressed, k_turned = self.kv_down(x).split([self.rank, self.TURNED], dim=-1)
        k, v = self.kv_up(self.kv_norm(compressed)).view(batch, length, self.heads, -1).chunk(2, dim=-1)
        q = torch.cat([q[..., : self.PLAIN], turn(q[..., self.PLAIN :])], dim=-1)
        k = torch.cat([k, turn(k_turned.unsqueeze(2)).expand(-1, -1, self.heads, -1)], dim=-1)
        v = F.pad(v, (0, self.TURNED))
        out = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True)
        return self.wo(out[..., : self.PLAIN].transpose(1, 2).reshape(batch, length, -1))


def turn(x: torch.Tensor) -> torch.Tensor:
    """Rotary positions, in real numbers and FP32 as most implementations have them."""
    length, size = x.shape[1], x.shape[-1]
    rates = 10_000.0 ** (-torch.arange(0, size, 2, device=x.device, dtype=torch.float32) / size)
    angles = torch.outer(torch.arange(length, device=x.device, dtype=torch.float32), rates)[None, :, None, :]
    a, b = x.float().chunk(2, dim=-1)
    return torch.cat([a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()], dim=-1).to(x.dtype)


class Dense(nn.Module):
    def __init__(self, shape: Shape, features: int):
        super().__init__()
        self.w1 = nn.Linear(shape.width, features, bias=shape.gelu)
        self.w2 = nn.Linear(features, shape.width, bias=shape.gelu)
        self.w3 = None if shape.gelu else nn.Linear(shape.width, features, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.w2(F.gelu(self.w1(x)) if self.w3 is None else F.silu(self.w1(x)) * self.w3(x))


class Experts(nn.Module):
    """Each expert takes the tokens that score highest with it, a fixed number: shapes do not depend on values."""

    def __init__(self, shape: Shape):
        super().__init__()
        self.shape = shape
        self.gate = nn.Linear(shape.width, shape.experts, bias=False)
        up, down = (shape.experts, shape.width, shape.ffn), (shape.experts, shape.ffn, shape.width)
        self.w1, self.w3, self.w2 = (nn.Parameter(torch.randn(s) * 0.02) for s in (up, up, down))
        self.shared = Dense(shape, shape.ffn * shape.shared) if shape.shared else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.reshape(-1, x.shape[-1])
        scores = self.gate(rows).float().softmax(-1)
        each = rows.shape[0] * self.shape.chosen // self.shape.experts
        weights, chosen = scores.t().topk(each, dim=-1)
        taken = rows[chosen.reshape(-1)].view(self.shape.experts, each, -1)
        made = torch.bmm(F.silu(torch.bmm(taken, self.w1)) * torch.bmm(taken, self.w3), self.w2)
        made = (made * weights.unsqueeze(-1).to(made.dtype)).reshape(-1, rows.shape[-1])
        out = torch.zeros_like(rows, dtype=made.dtype).index_add(0, chosen.reshape(-1), made).view(x.shape)
        return out if self.shared is None else out + self.shared(x)


class Block(nn.Module):
    def __init__(self, shape: Shape):
        super().__init__()
        self.attention_norm, self.ffn_norm = norm(shape), norm(shape)
        self.attention = LatentAttention(shape) if shape.latent else Attention(shape)
        self.feed_forward = Experts(shape) if shape.experts else Dense(shape, shape.ffn)
        self.recompute = shape.recompute

    def body(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.attention_norm(x))
        return x + self.feed_forward(self.ffn_norm(x))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return checkpoint(self.body, x, use_reentrant=False) if self.recompute else self.body(x)


class Decoder(nn.Module):
    def __init__(self, shape: Shape):
        super().__init__()
        self.embedding = nn.Embedding(shape.vocabulary, shape.width)
        self.layers = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = norm(shape)
        self.head = nn.Linear(shape.width, shape.vocabulary, bias=False)
        if shape.tied:
            self.head.weight = self.embedding.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def name_layers(model: nn.Module) -> None:
    """A range around the forward of every module without children, which tells the trace which layer a kernel is of."""
    for name, module in model.named_modules():
        if name and next(module.children(), None) is None:
            label = f"layer:{name}|{type(module).__name__}"
            ranges: list[Any] = []
            module.register_forward_pre_hook(
                lambda _m, _i, label=label, ranges=ranges: ranges.append(torch.autograd.profiler.record_function(label).__enter__()))
            module.register_forward_hook(lambda _m, _i, _o, ranges=ranges: ranges.pop().__exit__(None, None, None))


def measure(name: str, shape: Shape, device: str, out: Path) -> dict[str, Any]:
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16 if shape.weights == "pure" else torch.float32)
    with torch.device(device):
        model = Decoder(shape).train()
    torch.set_default_dtype(torch.float32)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-5, fused=True)
    tokens, wanted = (torch.randint(0, shape.vocabulary, (shape.batch, shape.length)) for _ in range(2))
    cast = torch.autocast(device, dtype=torch.bfloat16) if shape.weights == "autocast" else contextlib.nullcontext()

    def step() -> None:
        x, y = tokens.to(device), wanted.to(device)
        with cast:
            loss = F.cross_entropy(model(x).flatten(0, 1).float(), y.flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        loss.item()

    for _ in range(WARM_UP):
        step()
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    times = []
    for _ in range(STEPS):
        begin = time.perf_counter()
        step()
        times.append(1e3 * (time.perf_counter() - begin))
    times.sort()
    switches = {"opt": "fused", "tf32": 0, "attn": "sdpa", "optimizer": "adamw", "weights" if shape.weights == "pure" else "amp": "bf16"}
    if shape.recompute:
        switches["ckpt"] = "plain"
    row = {"model": name, "variant": "base", "bs": shape.batch, "switches": switches, "median_ms": statistics.median(times), "p10_ms": times[1], "p90_ms": times[-2],
           "n": STEPS, "params": sum(p.numel() for p in model.parameters()), "shape": asdict(shape),
           "peak_bytes": torch.cuda.max_memory_allocated() if device == "cuda" else None}
    return row | {"trace": record(model, step, out / f"{name}.json.gz").name}


def record(model: nn.Module, step: Any, to: Path) -> Path:
    name_layers(model)
    plain = to.with_suffix("")
    options = torch.profiler.schedule(wait=0, warmup=2, active=2, repeat=1)
    with torch.profiler.profile(schedule=options, record_shapes=True, profile_memory=True,
                                on_trace_ready=lambda p: p.export_chrome_trace(str(plain))) as profiler:
        for _ in range(4):
            step()
            profiler.step()
    to.write_bytes(gzip.compress(plain.read_bytes(), 6))
    plain.unlink()
    return to


def run(name: str, shape: Shape, device: str, out: Path) -> None:
    try:
        row = measure(name, shape, device, out)
    except Exception as error:  # a row that failed is a row, the others go on
        row = {"model": name, "error": repr(error)[:300]}
    with (out / "decoders.jsonl").open("a") as file:
        file.write(json.dumps(row) + "\n")
    print(name, row.get("error") or f"{row['median_ms']:.2f} ms [{row['p10_ms']:.2f}, {row['p90_ms']:.2f}], {(row['peak_bytes'] or 0) / 1e9:.2f} GB",
          flush=True)


def tiny(shape: Shape) -> Shape:
    """To try the program itself."""
    return replace(shape, layers=1, width=64, heads=4, kv_heads=min(4, shape.kv_heads), ffn=64, vocabulary=128, length=16,
                   latent=16 if shape.latent else 0, experts=4 if shape.experts else 0, chosen=min(2, shape.chosen))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", default="", help="jobs whose name matches")
    parser.add_argument("--seconds", type=float, default=400, help="no job begins after this")
    parser.add_argument("--cpu", action="store_true", help="tiny networks on the CPU, to try the program")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    begin = time.perf_counter()
    fork = multiprocessing.get_context("fork")
    for name, shape in JOBS.items():
        if not re.search(arguments.only, name):
            continue
        if time.perf_counter() - begin > arguments.seconds:
            print("left out:", name, flush=True)
            continue
        process = fork.Process(target=run, args=(name, tiny(shape) if arguments.cpu else shape, "cpu" if arguments.cpu else "cuda", arguments.out))
        process.start()
        process.join()


if __name__ == "__main__":
    main()
