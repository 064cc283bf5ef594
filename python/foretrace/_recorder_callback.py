"""A recorder as a callback of the training loops people use, and around the function that does a step."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .recorder import Recorder

# Trainers accept only callbacks derived from their own base class.
_BASES = (("transformers", "TrainerCallback"), ("lightning.pytorch", "Callback"), ("pytorch_lightning", "Callback"))


class StepCallback:
    """Tells a recorder about steps. Methods a loop does not know are never called by it."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.recorder = recorder
        self._optimizer_steps: int | None = None

    # Hugging Face, and loops of one's own: one call per optimizer step, whatever the accumulation.

    def on_train_begin(self, *args: Any, **kwargs: Any) -> None:
        self.recorder.start(_module(kwargs.get("model")))

    def on_step_end(self, *args: Any, **kwargs: Any) -> None:
        self.recorder.step()

    def on_train_end(self, *args: Any, **kwargs: Any) -> None:
        self.recorder.close()

    # Lightning: one call per batch; a step ends with the batch after which the optimizer has stepped.

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self._optimizer_steps = trainer.global_step
        self.recorder.start(_module(pl_module))

    def on_train_batch_end(self, trainer: Any, *args: Any, **kwargs: Any) -> None:
        if trainer.global_step != self._optimizer_steps:
            self._optimizer_steps = trainer.global_step
            self.recorder.step()

    def on_exception(self, *args: Any, **kwargs: Any) -> None:
        self.recorder.abort()


def _module(model: Any) -> Any:
    return model if hasattr(model, "named_modules") else None


def make_callback(recorder: Recorder) -> StepCallback:
    """A StepCallback that also is a callback of the trainers this process has imported."""
    bases = [getattr(sys.modules[module], name) for module, name in _BASES
             if hasattr(sys.modules.get(module), name)]
    callback: StepCallback = type("StepCallback", (StepCallback, *bases), {})(recorder)
    return callback


def wrap_step(function: Callable[..., Any], recorder: Recorder) -> Any:
    """The function, each call of which is a step. The time between calls (the next batch) belongs to the step after it."""
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise TypeError(f"{function.__name__} does not end when its call returns, so a call of it is no training step")

    @functools.wraps(function)
    def step(*args: Any, **kwargs: Any) -> Any:
        recorder.start()
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            recorder.abort(f"{function.__name__} raised {type(error).__name__}")
            raise
        recorder.step()
        return result

    step.recorder = recorder  # type: ignore[attr-defined]
    return step
