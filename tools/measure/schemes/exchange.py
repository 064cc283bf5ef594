"""Communication hooks of DistributedDataParallel that replace the all-reduce: parameter servers on the workers, servers of their
own, and BlueConnect's three steps along the levels of the network."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch.nn import functional as F

from .place import Place


def padded(x: torch.Tensor, parts: int) -> torch.Tensor:
    over = -x.numel() % parts
    return F.pad(x, (0, over)) if over else x


class ServersOnWorkers:
    """Every rank is the server of its part of each bucket: parts are pushed to their servers, added up and pulled back."""

    def __init__(self, place: Place):
        self.place, self.stream = place, place.stream()
        self.alive: list[Any] = []

    def hook(self, _state: Any, bucket: Any) -> Any:
        if bucket.index() == 0:
            self.alive.clear()
        world, gradient = self.place.world, bucket.buffer()
        sent = padded(gradient, world)
        pushed = torch.empty_like(sent)
        push = self.place.all_to_all(pushed, list(sent.chunk(world)))
        with self.place.on(self.stream):
            push.wait()
            total = pushed.view(world, -1).sum(0).div_(world)
            pull = self.place.all_to_all(sent, [total] * world)
            pull.wait()
            if sent is not gradient:
                gradient.copy_(sent[:gradient.numel()])
            self.alive += [sent, pushed, total]
            return self.place.future(gradient)


class ServersApart:
    """The last ranks are servers and do not train. Each owns an equal part of every bucket. Pushes and pulls have a communicator
    each, so that the next bucket is pushed while this one is added up."""

    def __init__(self, place: Place, servers: int):
        self.place, self.servers, self.workers = place, servers, place.world - servers
        self.training = dist.new_group(list(range(self.workers)))
        self.push, self.pull = dist.new_group(), dist.new_group()
        self.stream = place.stream()
        self.sizes: list[int] = []  # of buckets; empty: servers do not take part yet
        self.seen: dict[int, int] = {}
        self.alive: list[Any] = []

    @property
    def is_server(self) -> bool:
        return self.place.rank >= self.workers

    def _all(self, way: Any, tensors: list[torch.Tensor], ranks: range, group: Any) -> None:
        for work in dist.batch_isend_irecv([dist.P2POp(way, t, r, group) for t, r in zip(tensors, ranks)]):
            work.wait()

    def hook(self, _state: Any, bucket: Any) -> Any:
        gradient = bucket.buffer()
        if bucket.index() == 0:
            self.seen.clear()
            self.alive.clear()
        self.seen[bucket.index()] = gradient.numel()
        if not self.sizes:
            dist.all_reduce(gradient, group=self.training)
            return self.place.future(gradient.div_(self.workers))
        sent = padded(gradient, self.servers)
        at = range(self.workers, self.place.world)
        pushes = dist.batch_isend_irecv([dist.P2POp(dist.isend, t, r, self.push) for t, r in zip(sent.chunk(self.servers), at)])
        self.place.follow(self.stream)
        with self.place.on(self.stream):
            for push in pushes:
                push.wait()
            out = torch.empty_like(sent)
            self._all(dist.irecv, list(out.chunk(self.servers)), at, self.pull)
            gradient.copy_(out[:gradient.numel()]).div_(self.workers)
            self.alive += [sent, out]
            return self.place.future(gradient)

    def agree(self) -> None:
        """Buckets stay as they are now: servers learn their sizes."""
        told: list[Any] = [[self.seen[k] for k in sorted(self.seen)] if self.place.rank == 0 else None]
        dist.broadcast_object_list(told, 0, device=self.place.device)
        self.sizes = told[0]

    def serve(self) -> None:
        """One step."""
        workers = range(self.workers)
        for size in self.sizes:
            part = (size + self.servers - 1) // self.servers
            came = [torch.empty(part, device=self.place.device) for _ in workers]
            self._all(dist.irecv, came, workers, self.push)
            for more in came[1:]:
                came[0].add_(more)
            self._all(dist.isend, [came[0]] * self.workers, workers, self.pull)
        self.place.wait()


class BlueConnect:
    """Reduce-scatter in the pair, all-reduce of each half between the pairs, all-gather in the pair."""

    def __init__(self, place: Place):
        self.place = place
        self.inside, self.across, self.back = place.pairs
        self.second, self.third = place.stream(), place.stream()
        self.alive: list[Any] = []

    def hook(self, _state: Any, bucket: Any) -> Any:
        if bucket.index() == 0:
            self.alive.clear()
        gradient = bucket.buffer()
        whole = padded(gradient, 2)
        part = torch.empty(whole.numel() // 2, device=whole.device)
        scatter = dist.reduce_scatter_tensor(part, whole, group=self.inside, async_op=True)
        with self.place.on(self.second):
            scatter.wait()
            part.div_(self.place.world)
            across = dist.all_reduce(part, group=self.across, async_op=True)
        with self.place.on(self.third):
            across.wait()
            dist.all_gather_into_tensor(whole, part, group=self.back, async_op=True).wait()
            if whole is not gradient:
                gradient.copy_(whole[:gradient.numel()])
            self.alive += [whole, part]
            return self.place.future(gradient)
