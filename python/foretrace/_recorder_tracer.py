"""torch.profiler with the flags foretrace wants, over a few steps, and its output put in place."""

from __future__ import annotations

import json
import mmap
import os
import re
from pathlib import Path
from typing import Any

from ._recorder_figures import cuda_in_use, plain
from ._recorder_output import Scratch, execution_trace_path

SETTLE = 3
"""Steps under the profiler before the first one that is kept: starting it costs them time of their own."""
METADATA_KEY = "foretrace"


class Tracer:
    """Steps 0 … SETTLE-1 settle, the next `steps` are traced. `save` or `discard` ends it.

    execution_trace: one step more is traced, and observed while it is (`observe`): PyTorch's observer doubles what operations cost
    the CPU, so the steps that are looked at go without it. Its range is renamed, so that no one takes it for one of them.
    """

    def __init__(self, torch: Any, steps: int, *, memory: bool, shapes: bool, execution_trace: bool,
                 output: Path) -> None:
        if torch.autograd._profiler_enabled():
            raise RuntimeError("another profiler is already running, and PyTorch runs one at a time")
        self._torch = torch
        self._scratch = Scratch(output)
        self._running = False
        self._observed_whole = False
        self.gpu_worked = False  # known once it is saved
        self._observer: Any = None
        self._observed = self._scratch.folder / "execution.json"
        activity = torch.profiler.ProfilerActivity
        if execution_trace:
            self._observer = _observer(torch, self._observed)
        try:
            self._profile = torch.profiler.profile(
                activities=[activity.CPU, activity.CUDA] if cuda_in_use(torch) else [activity.CPU],
                schedule=torch.profiler.schedule(wait=0, warmup=SETTLE, active=steps + bool(self._observer), repeat=1),
                record_shapes=shapes, profile_memory=memory, with_stack=False, with_flops=False, with_modules=False,
                experimental_config=_config(torch))
            self._profile.__enter__()
        except BaseException:
            self.discard()
            raise
        self._running = True

    @property
    def has_execution_trace(self) -> bool:
        return self._observer is not None

    def step(self) -> None:
        """The end of a step that is not the last."""
        self._profile.step()

    def begin(self) -> None:
        """The end of the last step that settles. Work that was launched before is waited for: its launches would be missing."""
        if cuda_in_use(self._torch):
            self._torch.cuda.synchronize()
        self._profile.step()

    def observe(self) -> None:
        """All steps were traced, the last by `end_last_step`: the next one is for the observer."""
        if cuda_in_use(self._torch):
            self._torch.cuda.synchronize()
        self._profile.step()
        self._observer.start()

    def end_observed_step(self) -> None:
        self._observer.stop()
        self._observed_whole = True
        self.end_last_step()

    def end_last_step(self) -> None:
        """Closes the range of the last step at once, so that ending the trace is no part of it."""
        opened, self._profile.step_rec_fn = self._profile.step_rec_fn, None
        opened.__exit__(None, None, None)

    def save(self, target: Path, figures: dict[str, Any], *, complete: bool) -> None:
        """Ends the trace and writes it with the figures in its metadata.

        complete: all steps have ended, by `end_last_step`. Otherwise one has begun that never will; its range is
        renamed, so that no one takes it for a step.
        """
        self._profile.add_metadata_json(METADATA_KEY, json.dumps(plain(figures)))
        rename = None
        if self._observed_whole or not complete:
            last = b'"observed step"' if self._observed_whole else b'"unfinished step"'
            rename = f'"ProfilerStep#{self._profile.step_num}"'.encode(), last
        if complete:
            self._profile.step()
        self._stop()
        exported = self._scratch.folder / "trace.json"
        self._profile.export_chrome_trace(str(exported))
        self.gpu_worked = holds_gpu_work(exported)
        self._scratch.add(exported, target, rename)
        if self._observed_whole:
            self._scratch.add(self._observed, execution_trace_path(target))
        self._scratch.commit()

    def discard(self) -> None:
        """Ends the trace and leaves nothing of it."""
        try:
            self._stop()
        finally:
            self._scratch.remove()

    def _stop(self) -> None:
        running, self._running = self._running, False
        if running:
            self._profile.__exit__(None, None, None)
        if self._observer is not None and self._observer.is_registered:
            self._observer.unregister_callback()


def holds_gpu_work(trace: Path) -> bool:
    """Whether a trace as Kineto writes it holds a kernel, a copy or a fill of a GPU."""
    with open(trace, "rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return False
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
            return re.search(rb'"cat":\s*"(?:kernel|gpu_memcpy|gpu_memset)"', text) is not None


def _config(torch: Any) -> Any:
    """Waits between streams and for the device as events of their own; no Python objects made of the trace, where the
    version knows that switch."""
    config = torch._C._profiler._ExperimentalConfig
    for flags in ({"enable_cuda_sync_events": True, "trace_only": True}, {"enable_cuda_sync_events": True}):
        try:
            return config(**flags)
        except TypeError:
            continue
    return None


def _observer(torch: Any, path: Path) -> Any:
    """PyTorch's observer of operations and tensors, or None where it cannot be had."""
    observer = torch.profiler.ExecutionTraceObserver()
    observer.register_callback(str(path))
    if observer.is_registered and not path.exists():
        # A process has one observer, and it is someone else's: PyTorch only warns, makes no file, and would take away the
        # other one with ours.
        observer._registered = False
    return observer if observer.is_registered else None
