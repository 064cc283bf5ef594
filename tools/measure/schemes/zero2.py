"""ZeRO stage 2: gradients are collected in buckets and reduce-scattered, each rank keeps and updates its part, and the updated parts are
gathered. No rank ever holds all gradients, or the optimizer's states of more than its part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from .place import Place

FIRST, OTHERS = 1 << 20, 25 << 20  # bytes, as DistributedDataParallel has them


class Bucket:
    """Parameters as views of one tensor, of which this rank owns a part."""

    def __init__(self, parameters: list[nn.Parameter], place: Place):
        self.place, self.parameters = place, parameters
        count = sum(p.numel() for p in parameters)
        self.part = (count + place.world - 1) // place.world
        self.flat = torch.zeros(self.part * place.world, device=place.device)
        self.at: list[int] = []
        begin = 0
        for p in parameters:
            self.flat[begin:begin + p.numel()].copy_(p.data.reshape(-1))
            p.data = self.flat[begin:begin + p.numel()].view(p.shape)
            self.at.append(begin)
            begin += p.numel()
        self.shard = nn.Parameter(self.flat[place.rank * self.part:(place.rank + 1) * self.part])
        self.gradients: torch.Tensor | None = None
        self.left = len(parameters)
        self.work: Any = None

    def take(self, k: int) -> None:
        p = self.parameters[k]
        if self.gradients is None:
            self.gradients = torch.empty_like(self.flat)
        assert p.grad is not None
        self.gradients[self.at[k]:self.at[k] + p.numel()].copy_(p.grad.reshape(-1))
        p.grad = None
        self.left -= 1

    def reduce(self) -> None:
        assert self.gradients is not None
        mine = torch.empty_like(self.shard)
        self.gradients.div_(self.place.world)
        self.work = dist.reduce_scatter_tensor(mine, self.gradients, async_op=True)
        self.shard.grad = mine

    def done(self) -> None:
        self.work.wait()
        self.gradients, self.left = None, len(self.parameters)


class Zero2:
    def __init__(self, model: nn.Module, optimizer: Callable[[Any], torch.optim.Optimizer], place: Place):
        self.buckets: list[Bucket] = []
        group: list[nn.Parameter] = []
        size = 0
        order = list(model.parameters())[::-1]
        for i, p in enumerate(order):
            group.append(p)
            size += p.numel() * 4
            if size >= (OTHERS if self.buckets else FIRST) or i + 1 == len(order):
                self.buckets.append(Bucket(group, place))
                group, size = [], 0
        self.next = 0
        for bucket in self.buckets:
            for k, p in enumerate(bucket.parameters):
                p.register_post_accumulate_grad_hook(lambda _p, b=bucket, k=k: self._ready(b, k))
        self.optimizer = optimizer([b.shard for b in self.buckets])

    def _ready(self, bucket: Bucket, k: int) -> None:
        bucket.take(k)
        while self.next < len(self.buckets) and self.buckets[self.next].left == 0:  # in the same order everywhere
            self.buckets[self.next].reduce()
            self.next += 1

    def finish(self) -> None:
        for bucket in self.buckets:
            bucket.done()
        self.next = 0

    def update(self) -> None:
        self.optimizer.step()
        for work in [dist.all_gather_into_tensor(b.flat, b.shard.data, async_op=True) for b in self.buckets]:
            work.wait()
        for b in self.buckets:
            b.shard.grad = None
