"""How fast the host is, in a few milliseconds: what Python, an operation, a launch and a recorded event cost here and now."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable
from time import perf_counter
from typing import Any

TIMES, ROUNDS = 60, 7


def _nothing() -> None:
    pass


def probe(torch: Any, cuda: Any = None, rounds: int = ROUNDS) -> dict[str, float | None]:
    """Median µs, without a profiler and with one on the CPU.

    python: an empty call; view: an operation that launches nothing; add: one that launches (None without a GPU); event: what
    recording an operation adds to it.
    """
    device = "cuda" if cuda else "cpu"
    with torch.no_grad():
        x = torch.ones(16, device=device)
        cases: dict[str, Callable[[], Any]] = {"python_us": _nothing, "view_us": lambda: x.view(4, 4)}
        if cuda:
            cases["add_us"] = lambda: x + x
        out: dict[str, float | None] = {name: _median(call, cuda, rounds) for name, call in cases.items()}
        out.setdefault("add_us", None)
        out["event_us"] = _event(torch, cases["view_us"], rounds)
    return out


def _event(torch: Any, call: Callable[[], Any], rounds: int) -> float | None:
    """What a profiler's record of one operation costs. None where a profiler is at work already."""
    if torch.autograd._profiler_enabled():
        return None
    before = _median(call, None, rounds)
    with contextlib.ExitStack() as stack:
        stack.enter_context(_quiet())
        stack.enter_context(torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True,
                                                   profile_memory=True))
        during = _median(call, None, rounds)
    after = _median(call, None, rounds)
    return round(max(0.0, during - (before + after) / 2), 4)


@contextlib.contextmanager
def _quiet() -> Any:
    import warnings
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _median(call: Callable[[], Any], cuda: Any, rounds: int) -> float:
    times = []
    for _ in range(rounds):
        if cuda:
            cuda.synchronize()
        start = perf_counter()
        for _ in range(TIMES):
            call()
        times.append((perf_counter() - start) / TIMES * 1e6)
    return round(statistics.median(times), 4)


def waited_ns() -> int | None:
    """How long this thread was ready to run and had no core, since it began. None where the system does not tell."""
    try:
        with open("/proc/thread-self/schedstat", encoding="ascii") as file:
            return int(file.read().split()[1])
    except (OSError, ValueError, IndexError):
        return None
