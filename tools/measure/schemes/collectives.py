"""What collectives cost between the ranks, on an otherwise idle GPU: the mean of calls one behind the other, of the rank that takes
longest. `mb` is MiB of the tensor (all_gather: each rank's input; reduce_scatter and all_to_all: the whole input; gather, scatter: each
worker's part)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from .place import Place

LARGE = 16  # MiB


def operation(kind: str, mb: float, place: Place, dtype: torch.dtype, group: Any, ranks: int) -> Callable[[], Any]:
    count = max(int(mb * (1 << 20)) // dtype.itemsize // ranks * ranks, ranks)
    x = torch.ones(count, dtype=dtype, device=place.device)
    many = kind in ("all_gather", "gather", "scatter")
    y = torch.empty(count * ranks if many else count, dtype=dtype, device=place.device)
    parts, first = list(y.chunk(ranks)), place.rank == 0
    others = [r for r in range(ranks) if r]
    calls: dict[str, Callable[[], Any]] = {
        "all_reduce": lambda: dist.all_reduce(x, group=group),
        "all_gather": lambda: dist.all_gather_into_tensor(y, x, group=group),
        "reduce_scatter": lambda: dist.reduce_scatter_tensor(y[:count // ranks], x, group=group),
        "broadcast": lambda: dist.broadcast(x, 0, group=group),
        "all_to_all": lambda: place.all_to_all(y, list(x.chunk(ranks)), group).wait(),
        # One server: what comes in from all others, and what goes out to them.
        "gather": lambda: _sends([dist.P2POp(dist.irecv, parts[r], r) for r in others] if first else [dist.P2POp(dist.isend, x, 0)]),
        "scatter": lambda: _sends([dist.P2POp(dist.isend, parts[r], r) for r in others] if first else [dist.P2POp(dist.irecv, x, 0)]),
    }
    return calls[kind] if place.rank < ranks or group is not None else lambda: None


def _sends(operations: list[Any]) -> None:
    for work in dist.batch_isend_irecv(operations):
        work.wait()


def measured(kind: str, mb: float, place: Place, dtype: torch.dtype = torch.float32, group: Any = None, ranks: int = 0) -> float:
    call = operation(kind, mb, place, dtype, group, ranks or place.world)
    for _ in range(2):
        call()
    calls = 8 if mb <= 4 else 2
    found = []
    for _ in range(4 if mb < LARGE else 2):
        place.wait()
        dist.barrier()
        place.wait()
        began = time.perf_counter()
        for _ in range(calls):
            call()
        place.wait()
        found.append((time.perf_counter() - began) / calls)
    took = torch.tensor([sorted(found)[(len(found) - 1) // 2] * 1e3], device=place.device)
    dist.all_reduce(took, op=dist.ReduceOp.MAX)
    return float(took.item())
