"""What recordings of PyTorch and of JAX have in common: a loop that is started, stepped and closed, and never harmed."""

from __future__ import annotations

import os
import time
from typing import Any, TypeVar

_Self = TypeVar("_Self", bound="LoopRecorder")


class LoopRecorder:
    """Phases by name: "not started" at first, "done" at the end. What a framework does in them is for the classes below."""

    _phase: Any  # the name, or something whose `value` it is
    _counts: dict[Any, int]
    _figures: dict[str, Any] | None
    _pid: int

    @property
    def done(self) -> bool:
        """Nothing more will be recorded: everything is written, or the recording has failed."""
        return self.phase == "done"

    @property
    def phase(self) -> str:
        """"not started", "warm-up", "measure", "settle", "trace", "observe" or "done"."""
        return str(getattr(self._phase, "value", self._phase))

    @property
    def _too_short(self) -> str:
        """What a loop that ended too early has to know."""
        return f"This recording needs {self.steps_needed} steps; smaller warmup= and measure= need fewer"

    @property
    def steps_needed(self) -> int:
        """Steps a loop must run for a complete recording."""
        return sum(self._counts.values())

    @property
    def figures(self) -> dict[str, Any] | None:
        """What was written into the file; None until it is written."""
        return None if self._figures is None else dict(self._figures)

    def __enter__(self: _Self) -> _Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace_back: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def start(self, model: Any = None) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    def step(self) -> None:
        """A step has ended, as far as the host is concerned."""
        if self.done:
            return
        if self.phase == "not started":  # this step's beginning was not seen
            self.start()
            return
        try:
            self._end_step(time.perf_counter())
        except Exception as error:
            self._fail(error)

    def abort(self, reason: str | None = None) -> None:
        """Ends the recording and leaves no file. Does nothing when it is done. `reason`: said as a warning."""
        if self.done:
            return
        phase = self.phase
        self._clean_up()
        if reason and phase != "not started":
            self._say(f"the recording stopped in phase '{phase}' and wrote no file: {reason}")

    def _end_step(self, now: float) -> None:
        raise NotImplementedError

    def _clean_up(self) -> None:
        raise NotImplementedError

    def _say(self, text: str) -> None:
        raise NotImplementedError

    def _fail(self, error: Exception) -> None:
        phase = self.phase
        self._clean_up()
        said = str(error).strip().splitlines()
        self._say(f"the recording failed in phase '{phase}' and wrote no file; the training goes on: "
                  f"{type(error).__name__}{': ' + said[0] if said else ''}")

    def _at_exit(self) -> None:
        if os.getpid() == self._pid:  # not in a child that inherited this
            self.close()
