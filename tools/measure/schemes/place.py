"""Streams, events and memory of the device a rank computes on; on the CPU, where the programs are tried, there is nothing to order."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
import torch.distributed as dist


class Place:
    """`memory` is an array that all ranks of a job share."""

    def __init__(self, rank: int, world: int, cuda: bool, memory: Any, pairs: Any = None):
        self.rank, self.world, self.cuda, self.memory, self.pairs = rank, world, cuda, memory, pairs
        self.device = torch.device("cuda:0" if cuda else "cpu")

    def stream(self) -> Any:
        return torch.cuda.Stream() if self.cuda else None

    def on(self, stream: Any) -> Any:
        return torch.cuda.stream(stream) if self.cuda else contextlib.nullcontext()

    def mark(self) -> Any:
        """What the current stream has been given so far."""
        if not self.cuda:
            return None
        event = torch.cuda.Event()
        event.record()
        return event

    def behind(self, mark: Any) -> None:
        """The current stream goes on behind it."""
        if mark is not None:
            torch.cuda.current_stream().wait_event(mark)

    def reached(self, mark: Any) -> bool:
        return mark is None or bool(mark.query())

    def follow(self, stream: Any) -> None:
        """`stream` goes on behind the current one."""
        if self.cuda:
            stream.wait_stream(torch.cuda.current_stream())

    def wait(self) -> None:
        if self.cuda:
            torch.cuda.synchronize()

    def future(self, value: torch.Tensor) -> Any:
        """There once the current stream is."""
        made: Any = torch.futures.Future(devices=[self.device]) if self.cuda else torch.futures.Future()
        made.set_result(value)
        return made

    def all_to_all(self, out: torch.Tensor, sent: list[torch.Tensor], group: Any = None) -> Any:
        """The k-th of `sent` goes to rank k; `out` takes what came, in the order of the ranks."""
        if self.cuda:
            return dist.all_to_all(list(out.chunk(self.world)), sent, group=group, async_op=True)
        return dist.all_to_all_single(out, torch.cat(sent), group=group, async_op=True)
