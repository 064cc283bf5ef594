"""P3: gradients are cut into slices and sent to their servers, one on each rank; of the slices that are there, the one that the next
forward pass needs first goes first. A layer of that pass waits for its own parameters only.

Slices are sent from the hooks of backward and from where the training thread would wait anyway, not from a thread of their own, which
would compete for the interpreter. Collectives need one order on all ranks: the first rank chooses, the others read its choice in shared
memory."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from .exchange import padded
from .place import Place

IN_FLIGHT = 2  # slices: one under way, one behind it


class Tensor:
    """A parameter: its gradient on the way out, and what comes back."""

    def __init__(self, parameter: nn.Parameter, begin: int, slices: list[tuple[int, int]]):
        self.parameter, self.begin, self.slices = parameter, begin, slices  # `begin`: the number of its first slice
        self.gradient: Any = None
        self.result: Any = None
        self.ready: Any = None  # mark behind the gradient
        self.came: Any = None  # mark behind its last slice
        self.left = 0


class P3:
    def __init__(self, model: nn.Module, optimizer: Callable[[Any], torch.optim.Optimizer], place: Place, slice_mb: float):
        self.place, self.stream = place, place.stream()
        self.tensors: list[Tensor] = []
        self.owner: list[tuple[Tensor, int]] = []  # by number of a slice: numbers are priorities, the first layer's lowest
        most = int(slice_mb * (1 << 18))
        by_parameter: dict[int, Tensor] = {}
        for p in model.parameters():
            slices = [(a, min(a + most, p.numel())) for a in range(0, p.numel(), most)]
            tensor = Tensor(p, len(self.owner), slices)
            by_parameter[id(p)] = tensor
            self.tensors.append(tensor)
            self.owner += [(tensor, k) for k in range(len(slices))]
            p.register_post_accumulate_grad_hook(lambda _p, t=tensor: self._hook(t))
        self.optimizers: list[tuple[list[Tensor], torch.optim.Optimizer]] = []
        seen: set[int] = set()
        for module in model.modules():
            own = [by_parameter[id(p)] for p in module.parameters(recurse=False) if id(p) not in seen]
            if not own:
                continue
            seen |= {id(t.parameter) for t in own}
            layer = (own, optimizer([t.parameter for t in own]))
            self.optimizers.append(layer)
            module.register_forward_pre_hook(lambda _m, _a, made=layer: self._before_layer(made))
        self.waiting: deque[Tensor] = deque()  # gradients that the GPU has not computed yet
        self.urgent: list[int] = []  # slices that are there
        self.there: set[int] = set()
        self.flying: deque[Any] = deque()
        self.sent = 0
        self.memory = place.memory  # [0]: how many were chosen; then their numbers, around
        self.memory[0] = 0
        dist.barrier()
        self.send_s: list[float] = []

    def _hook(self, tensor: Tensor) -> None:
        tensor.gradient = tensor.parameter.grad.reshape(-1)
        tensor.parameter.grad = None
        tensor.ready = self.place.mark()
        tensor.left = len(tensor.slices)
        self.waiting.append(tensor)
        self.pump()

    def pump(self) -> None:
        while self.waiting and self.place.reached(self.waiting[0].ready):
            tensor = self.waiting.popleft()
            tensor.result = torch.empty_like(tensor.gradient)
            for number in range(tensor.begin, tensor.begin + len(tensor.slices)):
                if self.place.rank == 0:
                    heapq.heappush(self.urgent, number)
                else:
                    self.there.add(number)
        while self.flying and self.place.reached(self.flying[0]):
            self.flying.popleft()
        ring = len(self.memory) - 1
        if self.place.rank == 0:
            while self.urgent and len(self.flying) < IN_FLIGHT:
                number = heapq.heappop(self.urgent)
                self.memory[1 + self.sent % ring] = number
                self.memory[0] = self.sent + 1
                self._send(number)
        else:
            while self.sent < self.memory[0] and int(self.memory[1 + self.sent % ring]) in self.there:
                number = int(self.memory[1 + self.sent % ring])
                self.there.remove(number)
                self._send(number)

    def _send(self, number: int) -> None:
        began = perf_counter()
        tensor, k = self.owner[number]
        first, last = tensor.slices[k]
        world = self.place.world
        with self.place.on(self.stream):
            self.place.behind(tensor.ready)
            sent = padded(tensor.gradient[first:last], world)
            pushed = torch.empty_like(sent)
            self.place.all_to_all(pushed, list(sent.chunk(world))).wait()
            total = pushed.view(world, -1).sum(0).div_(world)
            whole = (last - first) % world == 0
            out = tensor.result[first:last] if whole else torch.empty_like(sent)
            self.place.all_to_all(out, [total] * world).wait()
            if not whole:
                tensor.result[first:last].copy_(out[:last - first])
            tensor.came = self.place.mark()
        self.flying.append(tensor.came)
        self.sent += 1
        tensor.left -= 1
        self.send_s.append(perf_counter() - began)

    def _before_layer(self, layer: tuple[list[Tensor], torch.optim.Optimizer]) -> None:
        tensors, optimizer = layer
        if tensors[0].gradient is None:
            return
        for tensor in tensors:
            while tensor.left:
                self.pump()
            self.place.behind(tensor.came)
            tensor.parameter.grad = tensor.result.view(tensor.parameter.shape)
        optimizer.step()
        for tensor in tensors:
            tensor.parameter.grad = tensor.gradient = tensor.result = None

    def finish(self) -> None:
        """Sends while backward runs."""
        end = self.place.mark()
        while not self.place.reached(end):
            self.pump()

    def update(self) -> None:
        """Layer by layer, in front of each in the next forward pass."""

    def drain(self) -> None:
        while any(t.left for t in self.tensors):
            self.pump()
        self.place.wait()
