"""Horovod's way: a thread looks every cycle at which gradients all ranks have, copies them into a fusion buffer of at most 64 MiB,
all-reduces the buffer and copies them back. Ranks agree through shared memory; gradients come in the same order everywhere."""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from .place import Place

FUSION = 64 << 18  # elements of HOROVOD_FUSION_THRESHOLD's default
SWITCH_S = 1e-4  # in which a thread gets the interpreter


class Horovod:
    def __init__(self, model: nn.Module, place: Place, cycle_ms: float):
        self.place, self.cycle = place, cycle_ms / 1e3
        self.count = sum(1 for _ in model.parameters())
        self.ready: list[tuple[nn.Parameter, Any]] = []  # since the beginning, in the order they came
        self.buffer = torch.empty(max(FUSION, *(p.numel() for p in model.parameters())), device=place.device)
        self.stream = place.stream()
        self.memory = place.memory  # [r]: gradients rank r has had so far; [world]: rounds; then how many after each, around
        self.memory[:] = 0
        dist.barrier()
        self.reduced = 0
        self.rounds_s: list[float] = []
        self.mark: Any = None
        self.all_done = threading.Event()
        self.ends = False
        self.before = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_S)
        for p in model.parameters():
            p.register_post_accumulate_grad_hook(self._hook)
        self.failed: BaseException | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _hook(self, p: nn.Parameter) -> None:
        self.ready.append((p, self.place.mark()))
        self.memory[self.place.rank] += 1

    def _run(self) -> None:
        try:
            if self.place.cuda:
                torch.cuda.set_device(0)
            began = mine = 0
            world, ring = self.place.world, len(self.memory) - self.place.world - 1
            due = time.perf_counter()
            while not self.ends:
                due = max(due + self.cycle, time.perf_counter())
                time.sleep(max(0.0, due - time.perf_counter()))
                if self.place.rank == 0:
                    have = int(self.memory[:world].min())
                    if have > began:
                        self.memory[world + 1 + mine % ring] = began = have
                        self.memory[world] = mine + 1
                while mine < self.memory[world]:
                    begin = time.perf_counter()
                    self._reduce(int(self.memory[world + 1 + mine % ring]))
                    mine += 1
                    self.rounds_s.append(time.perf_counter() - begin)
        except BaseException as error:
            self.failed = error
            self.all_done.set()

    def _reduce(self, upto: int) -> None:
        while self.reduced < upto:
            group: list[tuple[nn.Parameter, Any]] = []
            size = 0
            while self.reduced + len(group) < upto:
                p, mark = self.ready[self.reduced + len(group)]
                if group and size + p.numel() > FUSION:
                    break
                group.append((p, mark))
                size += p.numel()
            gradients = [p.grad for p, _ in group if p.grad is not None]
            views, at = [], 0
            for g in gradients:
                views.append(self.buffer[at:at + g.numel()].view(g.shape))
                at += g.numel()
            with torch.no_grad(), self.place.on(self.stream):
                self.place.behind(group[-1][1])
                torch._foreach_copy_(views, gradients)
                dist.all_reduce(self.buffer[:at])
                self.buffer[:at].div_(self.place.world)
                torch._foreach_copy_(gradients, views)
                self.mark = self.place.mark()
            self.reduced += len(group)
        if self.reduced % self.count == 0:
            self.all_done.set()

    def finish(self) -> None:
        self.all_done.wait()
        if self.failed:
            raise self.failed
        self.place.behind(self.mark)
        self.all_done.clear()

    def close(self) -> None:
        self.ends = True
        self.thread.join()
        sys.setswitchinterval(self.before)
