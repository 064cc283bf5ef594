"""Inside a program that `foretrace record` runs: finds its steps and drives a Recorder, without a line of the program's own.

PyTorch: optimizers tell when they have stepped (the global hooks of torch.optim), whole steps in a CUDA graph when they are
replayed. JAX: calls of jitted functions (_record_jax). Nothing here may harm the program or write to its output: what there is to say goes to the command.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import sys
import threading
from collections.abc import Callable, Hashable
from typing import Any, Protocol, TypeVar

from . import _recorder_output
from ._record_status import FOLDER, OPTIONS, Status
from ._record_steps import StepBorders

Kind = TypeVar("Kind")


class _Recording(Protocol):
    """What a Recorder is to the program: of PyTorch's or of JAX's."""

    @property
    def done(self) -> bool: ...
    @property
    def path(self) -> Any: ...
    @property
    def figures(self) -> dict[str, Any] | None: ...
    @property
    def phase(self) -> str: ...
    def start(self) -> None: ...
    def step(self) -> None: ...
    def abort(self, reason: str | None = None) -> None: ...


class Program:
    """This process: at most one recording, of its first loop that is long enough."""

    def __init__(self, options: dict[str, Any], status: Status) -> None:
        self.options, self.status = options, status
        # The recorder's own warm-up step is the last of those that are skipped.
        self._skipped = max(2, options["after"] - 1)
        self._borders = StepBorders(self._skipped)
        self._recording: _Recording | None = None
        self._claimed: str | None = None
        self._seen = False
        self.off = False  # nothing more to do here
        self._pid = os.getpid()
        _recorder_output.SCRATCH_PREFIX = f".foretrace-{options['id']}-"

    def too_short(self, recorder_needs: int) -> str:
        """What a program that ended too early has to know, in the options of the command."""
        return f"This recording needs {recorder_needs + self._skipped} steps; smaller --after and --measure need fewer"

    def event(self, key: Hashable, make: Callable[[dict[str, Any]], _Recording]) -> None:
        """Something that may end a step has happened. `make`: the recorder for it."""
        if self.off:
            return
        try:
            if os.getpid() != self._pid and not self._moved():
                return
            if not self._seen:
                self._seen = True
                self.status.mark("steps")
            if not self._borders.seen(key):
                return
            if self._recording is None:
                self._begin(make)
                return
            self._recording.step()
            if self._recording.done:
                self._finish()
        except Exception as error:
            self.off = True
            self.status.say(f"the recording failed; the program goes on: {type(error).__name__}: {error}")

    def _moved(self) -> bool:
        """A child made by fork: it may record when its parent has not begun to."""
        if self._recording is not None:
            self.off = True
            return False
        self._pid = os.getpid()
        return True

    def _begin(self, make: Callable[[dict[str, Any]], _Recording]) -> None:
        recording = make(self.options)
        path = str(recording.path)
        if not self.status.claim(path):
            self.off = True
            self.status.say(f"another process of this program already records into {os.path.basename(path)}; only the first is "
                            "recorded")
            return
        self._claimed, self._recording = path, recording
        atexit.register(self._at_exit)  # before the recorder's own, so that it runs after that
        recording.start()

    def _finish(self) -> None:
        self.off = True
        assert self._recording is not None
        figures = self._recording.figures
        if figures is not None:
            self.status.wrote(str(self._recording.path), figures["traced_steps"], figures.get("rank"))
        elif self._claimed is not None:
            self.status.give_back(self._claimed)

    def _at_exit(self) -> None:
        if os.getpid() == self._pid and not self.off:
            self._finish()


_program: Program | None = None


def program() -> Program:
    global _program
    if _program is None:
        _program = Program(json.loads(os.environ[OPTIONS]), Status(os.environ.get(FOLDER)))
    return _program


def injected(kind: type[Kind], program: Program) -> type[Kind]:
    """A kind of recorder that says things to the command instead of warning, and leaves no file behind a program that failed."""

    class Injected(kind):  # type: ignore[valid-type,misc]
        def _say(self, text: str) -> None:
            program.status.say(text)

        @property
        def _too_short(self) -> str:
            return program.too_short(self.steps_needed)

        def _at_exit(self) -> None:
            failed = getattr(sys, "last_type", None)
            if failed is not None:
                self.abort(f"the program ended with {failed.__name__}")
            else:
                super()._at_exit()

    return Injected


def torch_recorder(options: dict[str, Any]) -> _Recording:
    from .recorder import Recorder, phase_lengths

    return injected(Recorder, program())(options["output"], phase_lengths(options["steps"], options["measure"], 1), [], layers=True,
                                         memory=True, shapes=True, execution_trace=options["execution_trace"])


def torch_optim_imported(module: Any) -> None:
    """torch.optim.optimizer is there: from now on every step of every optimizer is seen."""
    here = program()
    here.status.mark("torch")
    import torch  # not finished yet: only what is asked of it later may be

    register = getattr(module, "register_optimizer_step_post_hook", None)
    if register is None:
        here.status.say("this version of PyTorch has no hooks for all optimizers, so no step can be found; "
                        "put foretrace.record around the loop")
        return
    around = getattr(module.Optimizer, "profile_hook_step", None)
    steps = threading.local()  # of this thread: .depth, how many lie in each other, and .ended

    def border(optimizer: Any) -> None:
        if not capturing(torch):
            here.event(id(optimizer), torch_recorder)

    def after(optimizer: Any, *_: Any) -> None:
        if torch.compiler.is_compiling():  # not for a compiler: it would compile it in
            return
        if getattr(steps, "depth", 0):
            steps.ended = True
        else:
            border(optimizer)

    # The hook runs inside the range an optimizer puts around its step, and a step of the trace must not end in the middle of
    # that range: the border is set when the step has returned, the outermost where one optimizer steps another.
    def hooked(function: Callable[..., Any]) -> Callable[..., Any]:
        assert around is not None
        step = around(function)

        @functools.wraps(step)
        def stepping(*args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling():
                return step(*args, **kwargs)
            steps.depth = getattr(steps, "depth", 0) + 1
            try:
                result = step(*args, **kwargs)
            finally:
                steps.depth -= 1
            if not steps.depth and getattr(steps, "ended", False):
                steps.ended = False
                border(args[0])
            return result

        return stepping

    register(after)
    if around is not None:
        module.Optimizer.profile_hook_step = staticmethod(hooked)


def torch_graphs_imported(module: Any) -> None:
    """A step captured whole runs no optimizer of Python's: replays of its graph are its steps."""
    here = program()
    import torch

    inner = module.CUDAGraph.replay

    @functools.wraps(inner)
    def replay(self: Any) -> None:
        inner(self)
        if not torch.compiler.is_compiling() and not capturing(torch):
            here.event(id(self), torch_recorder)

    module.CUDAGraph.replay = replay


def capturing(torch: Any) -> bool:
    """Whether work is being captured into a graph: nothing else may be done to the GPU then."""
    return bool(torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing())


def jax_imported(module: Any) -> None:
    here = program()
    here.status.mark("jax")
    from . import _record_jax

    _record_jax.watch(module, here)
