"""Where the host's time goes in a step: until backward begins, in backward, in the optimizer's step. Two looks at the clock at
each border, nothing else; on a GPU also an event at the end of each phase, which says how far the device was behind.

The CPU's own time is the phase's wherever no launch had to wait for room in the queue, and a launch waits only for a device
that is many launches behind.
"""

from __future__ import annotations

import importlib
import statistics
import time
from collections.abc import Callable
from typing import Any

PHASES = ("forward", "backward", "update")
# An event at the end of each phase costs a step some 20 us, so only every so many steps have them.
_MARKED_EVERY = 4


class PhaseClock:
    """Watches the steps between `begin` and `end` of each; `close` leaves PyTorch as it was.

    cuda: torch.cuda, to note how far the device is behind; None: only the host's clock.
    """

    def __init__(self, torch: Any, cuda: Any = None) -> None:
        self._torch, self._cuda = torch, cuda
        self._steps: list[dict[str, float]] = []
        self._ends: list[dict[str, tuple[float, Any]]] = []
        self._now: dict[str, float] = {}
        self._last = 0.0  # when the phase before ended
        self._update = 0.0
        self._depth = 0
        self._behind: dict[str, tuple[float, Any]] = {}
        self._zero: tuple[float, Any] | None = None
        self._undo: list[Callable[[], None]] = []
        try:
            self._watch_backward()
            self._watch_update()
        except BaseException:
            self.close()
            raise

    # -- steps

    def begin(self, now: float) -> None:
        """A step begins; the device is idle or working on the step before."""
        self._now, self._behind = {}, {}
        self._last, self._depth = now, 0

    def settle(self) -> None:
        """Waits until the device is idle: from here on its events can be held against the host's clock."""
        if self._cuda:
            event = self._cuda.Event(enable_timing=True)
            event.record()
            self._cuda.synchronize()
            self._zero = (time.perf_counter(), event)

    def end(self) -> None:
        self._steps.append(self._now)
        self._ends.append(self._behind)

    def close(self) -> None:
        undo, self._undo = self._undo, []
        for one in reversed(undo):
            one()

    # -- figures

    def medians(self) -> dict[str, float | None]:
        """ms of each phase, None where no step had it."""
        found = {p: [s[p] for s in self._steps if p in s] for p in PHASES}
        return {p: round(statistics.median(v) * 1e3, 4) if v else None for p, v in found.items()}

    def behind(self) -> dict[str, float | None]:
        """ms the device still worked when a phase ended; to be asked when it is idle. None where nothing tells."""
        if self._zero is None:
            return dict.fromkeys(PHASES)
        begun, zero = self._zero
        out: dict[str, float | None] = {}
        for phase in PHASES:
            late = [zero.elapsed_time(e) - (at - begun) * 1e3 for step in self._ends for p, (at, e) in step.items() if p == phase]
            out[phase] = round(max(0.0, statistics.median(late)), 4) if late else None
        return out

    # -- what is watched

    def _enter(self) -> None:
        self._depth += 1
        if self._depth == 1:
            now = time.perf_counter()
            self._now["forward"] = self._now.get("forward", 0.0) + now - self._last
            self._mark("forward", now)
            self._last = now

    def _leave(self) -> None:
        self._depth -= 1
        if self._depth == 0:
            now = time.perf_counter()
            self._now["backward"] = self._now.get("backward", 0.0) + now - self._last
            self._mark("backward", now)
            self._last = self._update = now  # backward inside the optimizer's step (a closure) is no part of the update

    def _watch_backward(self) -> None:
        autograd = self._torch.autograd
        inner = autograd.backward

        def backward(*args: Any, **kwargs: Any) -> Any:
            self._enter()
            try:
                return inner(*args, **kwargs)
            finally:
                self._leave()

        autograd.backward = backward

        def undo() -> None:
            if autograd.backward is backward:  # another wrapper may be around ours: then ours stays and only forwards
                autograd.backward = inner

        self._undo.append(undo)

    def _watch_update(self) -> None:
        optimizer = importlib.import_module("torch.optim.optimizer")  # torch.optim hides its name

        # Neither is there for a compiler: it would compile them in. Versions without that module compile no optimizers.
        compiling = getattr(getattr(self._torch, "compiler", None), "is_compiling", bool)

        def before(*_: Any) -> None:
            if compiling():
                return
            self._update = time.perf_counter()

        def after(*_: Any) -> None:
            if compiling():
                return
            now = time.perf_counter()
            self._now["update"] = self._now.get("update", 0.0) + now - self._update
            self._mark("update", now)

        for register, hook in (("register_optimizer_step_pre_hook", before), ("register_optimizer_step_post_hook", after)):
            if hasattr(optimizer, register):
                self._undo.append(getattr(optimizer, register)(hook).remove)

    def _mark(self, phase: str, now: float) -> None:
        if self._cuda and self._zero is not None and len(self._steps) % _MARKED_EVERY == 0 and not self._capturing():
            event = self._cuda.Event(enable_timing=True)
            event.record()
            self._behind[phase] = (now, event)

    def _capturing(self) -> bool:
        return bool(self._cuda.is_current_stream_capturing())
