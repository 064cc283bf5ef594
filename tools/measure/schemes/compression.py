"""Compressed gradients as communication hooks of DistributedDataParallel. Each compresses on the stream of backward, gathers, and
decompresses on a stream of its own. What is lost stays in the rank and is added to the next gradient (top-k, DGC)."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from .place import Place

RATIO = 0.01  # of the elements, for top-k and DGC
SAMPLE = 0.01  # of the elements, from which DGC takes its threshold
LEVELS = 127


class Compressor:
    """Compressed to one tensor, which is gathered from all ranks; `added` adds what one rank sent."""

    def __init__(self, place: Place):
        self.place = place
        self.stream = place.stream()
        self.kept: dict[int, Any] = {}  # by bucket
        self.alive: list[Any] = []  # what streams still read

    def compress(self, index: int, gradient: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError

    def add(self, sent: torch.Tensor, to: torch.Tensor) -> None:
        raise NotImplementedError

    def hook(self, _state: Any, bucket: Any) -> Any:
        gradient = bucket.buffer()
        if bucket.index() == 0:
            self.alive.clear()
        packed = self.compress(bucket.index(), gradient)
        all_packed = torch.empty(self.place.world * packed.numel(), dtype=packed.dtype, device=packed.device)
        work = dist.all_gather_into_tensor(all_packed, packed, async_op=True)
        self.alive += [packed, all_packed]
        with self.place.on(self.stream):
            work.wait()
            gradient.zero_()
            for sent in all_packed.chunk(self.place.world):
                self.add(sent, gradient)
            gradient.div_(self.place.world)
            return self.place.future(gradient)


def _pairs(values: torch.Tensor, where: torch.Tensor) -> torch.Tensor:
    return torch.cat([values, where.to(torch.int32).view(torch.float32)])


def _add_pairs(sent: torch.Tensor, to: torch.Tensor) -> None:
    values, where = sent.chunk(2)
    to.index_add_(0, where.view(torch.int32), values)


class TopK(Compressor):
    def compress(self, index: int, gradient: torch.Tensor) -> torch.Tensor:
        residue = self.kept.get(index)
        if residue is None or residue.numel() != gradient.numel():
            residue = self.kept[index] = torch.zeros_like(gradient)
        residue.add_(gradient)
        _, where = residue.abs().topk(max(1, int(RATIO * gradient.numel())), sorted=False)
        values = residue[where]
        residue.index_fill_(0, where, 0)
        return _pairs(values, where)

    def add(self, sent: torch.Tensor, to: torch.Tensor) -> None:
        _add_pairs(sent, to)


class Dgc(Compressor):
    """Momentum before compression, and a threshold from a sample instead of a selection over all elements."""

    def compress(self, index: int, gradient: torch.Tensor) -> torch.Tensor:
        state = self.kept.get(index)
        if state is None or state[0].numel() != gradient.numel():
            state = self.kept[index] = (torch.zeros_like(gradient), torch.zeros_like(gradient))
        momentum, residue = state
        momentum.mul_(0.9).add_(gradient)
        residue.add_(momentum)
        count = gradient.numel()
        most = max(1, int(RATIO * count))
        sample = residue[torch.randint(count, (max(1, int(SAMPLE * count)),), device=gradient.device)].abs()
        threshold = sample.topk(max(1, int(RATIO * sample.numel())), sorted=False)[0].min()
        where = (residue.abs() >= threshold).nonzero().view(-1)[:most]  # the number of them comes back to the host
        values = residue[where]
        momentum.index_fill_(0, where, 0)
        residue.index_fill_(0, where, 0)
        missing = most - where.numel()
        if missing:
            values, where = torch.cat([values, values.new_zeros(missing)]), torch.cat([where, where.new_zeros(missing)])
        return _pairs(values, where)

    def add(self, sent: torch.Tensor, to: torch.Tensor) -> None:
        _add_pairs(sent, to)


class Qsgd(Compressor):
    """A sign and 7 bits of each element's share of the norm, rounded at random."""

    def compress(self, index: int, gradient: torch.Tensor) -> torch.Tensor:
        norm = gradient.norm()
        scaled = gradient.abs().div_(norm).mul_(LEVELS)
        level = scaled.floor()
        level.add_(torch.rand_like(gradient) < scaled.sub_(level))
        signed = level.mul_(gradient.sign()).to(torch.int8)
        return torch.cat([norm.view(1).view(torch.int8), signed])

    def add(self, sent: torch.Tensor, to: torch.Tensor) -> None:
        norm = sent[:4].clone().view(torch.float32)
        to.add_(sent[4:].float().mul_(norm / LEVELS))


class TernGrad(Compressor):
    """-1, 0 or 1 times the largest element, at random; four elements to a byte."""

    def __init__(self, place: Place):
        super().__init__(place)
        self.weights = torch.tensor([1, 4, 16, 64], dtype=torch.uint8, device=place.device)
        self.shifts = torch.tensor([0, 2, 4, 6], dtype=torch.uint8, device=place.device)

    def compress(self, index: int, gradient: torch.Tensor) -> torch.Tensor:
        most = gradient.abs().max()
        chosen = torch.rand_like(gradient) < gradient.abs().div_(most)
        digits = gradient.sign().mul_(chosen).add_(1).to(torch.uint8)
        over = -digits.numel() % 4
        if over:
            digits = torch.cat([digits, digits.new_ones(over)])
        packed = digits.view(-1, 4).mul_(self.weights).sum(1, dtype=torch.uint8)
        return torch.cat([most.view(1).view(torch.uint8), packed])

    def add(self, sent: torch.Tensor, to: torch.Tensor) -> None:
        most = sent[:4].clone().view(torch.float32)
        digits = (sent[4:].view(-1, 1) >> self.shifts).bitwise_and_(3)
        to.add_(digits.view(-1)[:to.numel()].float().sub_(1).mul_(most))


COMPRESSORS: dict[str, type[Compressor]] = {"topk": TopK, "dgc": Dgc, "qsgd": Qsgd, "terngrad": TernGrad}
