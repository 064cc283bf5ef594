"""Records a few steps of a PyTorch training: their real time without the profiler, then a trace with all foretrace needs.

    with foretrace.record("out.json.gz") as r:
        for batch in loader:
            train_step(batch)
            r.step()

After `warmup` steps, `measure` steps are timed as they are; then torch.profiler starts, three steps let it settle, and
`steps` steps are traced, with a range `layer:<name>|<type>` around every leaf module. The file holds the trace and, in its
metadata, what was measured: `foretrace` then predicts the step as it runs without the profiler, with no --measured-ms. From
then on `step()` does nothing. docs/reference/recording.md says more.

Nothing here may harm a training: whatever goes wrong with the recording is said once, as a RecordingWarning, and the loop
goes on without it. PyTorch is imported when a recording is made, not with this module.
"""

from __future__ import annotations

import atexit
import enum
import logging
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ._recorder_asked import count_of, models_of, why_no_gpu
from ._recorder_callback import StepCallback, make_callback, wrap_step
from ._recorder_figures import VERSION, Meter, surroundings, traced_phases, unmeasured
from ._recorder_layers import LayerRanges, ModelFinder, something_is_compiled
from ._recorder_loop import LoopRecorder
from ._recorder_output import check_folder, rank_and_world, rank_path, split_suffix
from ._recorder_phases import PhaseClock
from ._recorder_tracer import METADATA_KEY, SETTLE, Tracer

if TYPE_CHECKING:
    from torch.nn import Module

__all__ = ["Recorder", "RecordingWarning", "record", "recorded", "recorded_figures"]

_log = logging.getLogger("foretrace")
_Function = TypeVar("_Function", bound=Callable[..., Any])


class RecordingWarning(RuntimeWarning):
    """The recording failed or is incomplete; the training is not affected."""


class _Phase(enum.Enum):
    NEW = "not started"
    WARM_UP = "warm-up"
    MEASURE = "measure"
    SETTLE = "settle"
    TRACE = "trace"
    OBSERVE = "observe"
    DONE = "done"


def record(path: str | os.PathLike[str], *, steps: int = 3, measure: int = 20, warmup: int = 5,
           model: Module | Iterable[Module] | None = None, layers: bool = True, memory: bool = True, shapes: bool = True,
           execution_trace: bool = False, framework: str | None = None) -> Recorder:
    """A recorder, to be used as `with record(…) as r:` around a training loop that calls `r.step()` after each step.

    path: .json.gz or .json; under torchrun each rank writes its own, "out.rank3.json.gz".
    steps: traced. measure: timed without the profiler (0: none). warmup: left alone before that, at least 1.
    model: whose leaf modules get a range; by default, the modules seen in the loop.
    layers: put those ranges into the trace. memory: allocations. shapes: of the operands of operations.
    execution_trace: also keep PyTorch's execution trace, "out.et.json.gz".
    framework: "torch" or "jax"; by default JAX where the program has imported it and not PyTorch. A JAX recording is an XSpace,
    "out.xplane.pb", and takes path, steps, measure and warmup.

    >>> with record("out.json.gz", steps=2) as r:
    ...     for batch in loader:
    ...         train_step(batch)
    ...         r.step()
    """
    if framework not in (None, "torch", "jax"):
        raise ValueError(f"framework must be 'torch' or 'jax', not {framework!r}")
    if framework == "jax" or (framework is None and "jax" in sys.modules and "torch" not in sys.modules):
        from ._recorder_jax import JaxRecorder

        # The same doors, so that loops are written alike; the type says what most of them get.
        return JaxRecorder(os.fspath(path), steps=count_of("steps", steps, 1), measure=count_of("measure", measure, 0),
                           warmup=count_of("warmup", warmup, 1))  # type: ignore[return-value]
    return Recorder(os.fspath(path), phase_lengths(steps, measure, warmup), models_of(model), layers=layers, memory=memory,
                    shapes=shapes, execution_trace=execution_trace)


def phase_lengths(steps: int, measure: int, warmup: int) -> dict[_Phase, int]:
    """Steps of each phase; TypeError or ValueError for what is no number of steps."""
    return {
        _Phase.WARM_UP: count_of("warmup", warmup, 1), _Phase.MEASURE: count_of("measure", measure, 0),
        _Phase.SETTLE: SETTLE, _Phase.TRACE: count_of("steps", steps, 1),
    }


def recorded(path: str | os.PathLike[str], **options: Any) -> Callable[[_Function], _Function]:
    """Decorates the function that does one training step; takes what `record` takes. The recorder is `function.recorder`.

    >>> @recorded("out.json.gz", steps=2)
    ... def train_step(batch): ...
    """

    def decorate(function: _Function) -> _Function:
        step: _Function = wrap_step(function, record(path, **options))
        return step

    return decorate


def recorded_figures(trace: Any) -> dict[str, Any] | None:
    """What `record` measured and stored in a loaded trace, or None when it did not make that trace.

    measured_ms is the step's time without the profiler; docs/reference/recording.md lists all keys.
    """
    found = trace.metadata.get(METADATA_KEY)
    return dict(found) if isinstance(found, dict) and isinstance(found.get("version"), int) else None


class Recorder(LoopRecorder):
    """A recording in progress, as `record` makes it: a context manager, or `start`, `step` and `close`, or a `callback`."""

    def __init__(self, path: str, counts: dict[_Phase, int], models: list[Any], *, layers: bool, memory: bool,
                 shapes: bool, execution_trace: bool) -> None:
        try:
            import torch
        except ImportError as error:
            raise ImportError("foretrace.record needs PyTorch, which is not installed: it records PyTorch trainings"
                              ) from error
        split_suffix(path)
        self._torch = torch
        self._given_path, self._models = path, models
        self._counts = counts | {_Phase.OBSERVE: int(execution_trace)}
        self._layers, self._memory, self._shapes = layers, memory, shapes
        self._execution_trace = execution_trace
        self._phase = _Phase.NEW
        self._left = 0
        self._meter: Meter | None = None
        self._measured: dict[str, Any] = unmeasured()
        self._finder: ModelFinder | None = None
        self._ranges: LayerRanges | None = None
        self._tracer: Tracer | None = None
        self._traced: list[float] = []
        self._clock: PhaseClock | None = None
        self._missing: list[str] = []
        self._figures: dict[str, Any] | None = None
        self._pid = os.getpid()

    # -- what it knows

    @property
    def path(self) -> Path:
        """The file this process writes."""
        return rank_path(self._given_path, self._rank()[0])

    def __repr__(self) -> str:
        return f"<foretrace.Recorder {str(self.path)!r}: {self.phase}>"

    # -- the loop

    def start(self, model: Module | None = None) -> None:
        """The loop begins. `model` counts where none was given before. Does nothing when already started."""
        if self._phase is not _Phase.NEW:
            return
        try:
            if model is not None and not self._models:
                self._models = models_of(model)
            self._phase, self._left = _Phase.WARM_UP, self._counts[_Phase.WARM_UP]
            check_folder(str(self.path))
            atexit.register(self._at_exit)
        except Exception as error:
            self._fail(error)

    def close(self) -> None:
        """The loop has ended. Writes the steps traced so far when it ended early, and says what is missing."""
        if self._phase in (_Phase.NEW, _Phase.DONE):
            self._phase = _Phase.DONE
            return
        try:
            self._end_early()
        except Exception as error:
            self._fail(error)

    def callback(self) -> StepCallback:
        """The recorder as a callback, for a Hugging Face Trainer, a Lightning Trainer, or any loop that calls
        `on_step_end` after each step (and `on_train_begin` and `on_train_end` around them)."""
        return make_callback(self)

    # -- phases

    def _end_step(self, now: float) -> None:
        phase = self._phase
        self._left -= 1
        if phase is _Phase.MEASURE:
            assert self._meter is not None
            self._meter.border(now)
        elif phase is _Phase.SETTLE:
            assert self._tracer is not None
            if self._left:
                self._tracer.step()
            else:
                self._tracer.begin()
            if self._finder is not None:
                self._install_ranges(self._stop_finder())
        elif phase is _Phase.TRACE:
            assert self._tracer is not None
            self._traced.append(now)
            assert self._clock is not None
            self._clock.end()
            self._clock.begin(now)
            if self._left:
                self._tracer.step()
            else:
                self._tracer.end_last_step()
        elif phase is _Phase.OBSERVE:
            assert self._tracer is not None
            self._tracer.end_observed_step()
        if self._left == 0:
            self._leave(phase)

    def _leave(self, phase: _Phase) -> None:
        if phase is _Phase.WARM_UP:
            if self._counts[_Phase.MEASURE]:
                self._meter = Meter(self._torch, self._counts[_Phase.MEASURE], self._memory)
                self._enter(_Phase.MEASURE)
                self._meter.begin()
            else:
                self._begin_trace()
        elif phase is _Phase.MEASURE:
            assert self._meter is not None
            self._meter.finish()
            self._measured = self._meter.figures()
            self._meter = None
            self._begin_trace()
        elif phase is _Phase.SETTLE:
            self._enter(_Phase.TRACE)
            self._clock = PhaseClock(self._torch)
            self._traced = [time.perf_counter()]
            self._clock.begin(self._traced[0])
        elif phase is _Phase.TRACE and self._tracer is not None and self._tracer.has_execution_trace:
            assert self._clock is not None
            self._clock.close()
            self._enter(_Phase.OBSERVE)
            self._tracer.observe()
        else:
            self._write(complete=True)

    def _enter(self, phase: _Phase) -> None:
        self._phase, self._left = phase, self._counts[phase]

    def _begin_trace(self) -> None:
        self._enter(_Phase.SETTLE)
        self._tracer = Tracer(self._torch, self._counts[_Phase.TRACE], memory=self._memory, shapes=self._shapes,
                              execution_trace=self._execution_trace, output=self.path)
        if self._execution_trace and not self._tracer.has_execution_trace:
            self._missing.append("execution trace: this process already has an observer, or PyTorch none to offer")
        if not self._layers:
            return
        if self._models:
            self._install_ranges(self._models)
        elif something_is_compiled():
            self._missing.append("layer ranges: part of the program is compiled; pass model= for those of the rest")
        else:
            self._finder = ModelFinder(self._torch)

    def _install_ranges(self, models: list[Any]) -> None:
        self._ranges = LayerRanges(self._torch)
        self._ranges.install(models)
        if not self._ranges.count:
            self._missing.append("layer ranges: no module was called; pass model=")

    def _stop_finder(self) -> list[Any]:
        finder, self._finder = self._finder, None
        return [] if finder is None else finder.stop()

    def _end_early(self) -> None:
        phase = self._phase
        if phase is _Phase.OBSERVE:
            self._missing.append("execution trace: the loop ended before the step that was to be observed")
            self._write(complete=False)
            self._say(f"the loop ended early: {self.path} has no execution trace next to it")
            return
        if len(self._traced) > 1:
            self._missing.append(f"{self._left} of {self._counts[_Phase.TRACE]} traced steps: the loop ended early")
            self._write(complete=False)
            self._say(f"the loop ended early: {self.path} holds {len(self._traced) - 1} of {self._counts[_Phase.TRACE]} steps")
            return
        if phase is _Phase.MEASURE and self._left:
            what = f"{self._counts[phase] - self._left} of {self._counts[phase]} steps were timed"
        else:
            measured = self._measured["measured_ms"]
            what = "nothing was timed" if measured is None else f"a step takes {measured:.3f} ms"
        self._clean_up()
        self._say(f"the loop ended in phase '{phase.value}' before a step was traced, so there is no trace to write; {what}. "
              f"{self._too_short}")

    def _write(self, complete: bool) -> None:
        traced = [(b - a) * 1e3 for a, b in zip(self._traced, self._traced[1:])]
        layer_ranges = self._ranges.count if self._ranges else 0
        self._remove_hooks()
        rank, world = self._rank()
        figures = {"version": VERSION} | self._measured | {
            "warmup_steps": self._counts[_Phase.WARM_UP],
            "traced_steps": len(traced),
            "traced_host_ms": [round(t, 4) for t in traced],
            "traced_phase_ms": traced_phases(self._clock),
            "layer_ranges": layer_ranges,
        } | surroundings(self._torch, rank, world) | {"missing": self._missing}
        tracer, path = self._tracer, self.path
        assert tracer is not None
        tracer.save(path, figures, complete=complete)
        if not tracer.gpu_worked:
            self._say(f"nothing ran on a GPU in the traced steps, so nothing can be predicted from {path}; "
                  f"{why_no_gpu(self._torch)}")
        self._tracer = None
        self._figures = figures
        self._clean_up()
        _log.info("recorded %d steps in %s", len(traced), path)

    # -- the end

    def _remove_hooks(self) -> None:
        self._stop_finder()
        for watching in (self._clock, self._meter):
            if watching is not None:
                watching.close()
        if self._ranges is not None:
            self._ranges.remove()
            self._ranges = None

    def _clean_up(self) -> None:
        """Leaves the process as it was before. Safe to repeat, whatever has happened."""
        self._phase = _Phase.DONE
        self._models = []
        atexit.unregister(self._at_exit)
        try:
            self._remove_hooks()
        finally:
            self._meter = self._clock = None
            tracer, self._tracer = self._tracer, None
            if tracer is not None:
                try:
                    tracer.discard()
                except Exception as error:
                    _log.debug("the profiler did not stop cleanly: %s", error)

    def _say(self, text: str) -> None:
        """Tells people, without harm to the program."""
        _warn(text)

    def _rank(self) -> tuple[int | None, int | None]:
        return rank_and_world(getattr(self._torch, "distributed", None))


def _warn(text: str) -> None:
    try:
        warnings.warn(f"foretrace: {text}", RecordingWarning, stacklevel=5)
    except RecordingWarning as warning:  # a program that makes warnings fatal still trains
        print(warning, file=sys.stderr)
