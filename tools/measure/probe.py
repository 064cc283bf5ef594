"""How fast the host is right now, in a few milliseconds: what a Python call, a view and a small operation cost."""

from __future__ import annotations

from time import perf_counter

import torch

TIMES, ROUNDS = 100, 9


def _nothing() -> None:
    pass


def probe(device: str = "cuda") -> dict[str, float]:
    """Median µs of one: `python` an empty call, `view` an operation without a kernel, `add` one with a launch."""
    x = torch.ones(16, device=device)
    out = {}
    for name, call in (("python_us", _nothing), ("view_us", lambda: x.view(4, 4)), ("add_us", lambda: x + x)):
        times = []
        for _ in range(ROUNDS):
            if device == "cuda":
                torch.cuda.synchronize()
            start = perf_counter()
            for _ in range(TIMES):
                call()
            times.append((perf_counter() - start) / TIMES * 1e6)
        out[name] = round(sorted(times)[ROUNDS // 2], 3)
    return out
