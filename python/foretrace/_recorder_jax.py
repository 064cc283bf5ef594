"""Records a few steps of a JAX training: their time without the profiler, then an XSpace file (xplane.pb) with the step's HLO.

The same phases and figures as for PyTorch, in `foretrace.record`; jax.profiler makes the trace. What was measured is put into the
file as one more plane, "/host:foretrace", whose only stat holds it as JSON: readers that do not know it pass over it.
"""

from __future__ import annotations

import atexit
import glob
import importlib
import json
import os
import platform
import sys
import time
import warnings
from pathlib import Path
from typing import Any

from ._recorder_figures import VERSION, choose, host_surroundings, unmeasured
from ._recorder_loop import LoopRecorder
from ._recorder_output import Scratch, check_folder

SUFFIX = ".xplane.pb"
PLANE = "/host:foretrace"
_KEY = "foretrace"
_OTHER_SUFFIXES = (".pt.trace.json.gz", ".pt.trace.json", ".json.gz", ".json", SUFFIX)
# Steps under the profiler before the first one that is marked as a step.
_SETTLE = 1
_PHASES = ("warm-up", "measure", "settle", "trace")


def jax_path(path: str, rank: int | None) -> Path:
    """"run/out.json.gz" -> "run/out.xplane.pb", with the rank where there are several."""
    for suffix in _OTHER_SUFFIXES:
        if path.endswith(suffix):
            path = path[: -len(suffix)]
            break
    return Path(path + ("" if rank is None else f".rank{rank}") + SUFFIX)


class JaxRecorder(LoopRecorder):
    """A recording of a JAX program in progress: a context manager, or `start`, `step` and `close`."""

    def __init__(self, path: str, *, steps: int, measure: int, warmup: int) -> None:
        self._jax: Any = importlib.import_module("jax")
        self._given_path = path
        self._counts = dict(zip(_PHASES, (warmup, measure, _SETTLE, steps)))
        self._phase, self._left = "not started", 0
        self._borders: list[float] = []
        self._cpu = (0.0, 0.0)
        self._measured = unmeasured()
        self._traced: list[float] = []
        self._scratch: Scratch | None = None
        self._annotation: Any = None
        self._figures: dict[str, Any] | None = None
        self._pid = os.getpid()

    @property
    def path(self) -> Path:
        """The file this process writes."""
        return jax_path(self._given_path, self._rank()[0])

    def start(self, model: Any = None) -> None:
        """The loop begins. Does nothing when already started. `model` is not needed: name scopes are in the trace."""
        if self._phase != "not started":
            return
        try:
            check_folder(str(self.path))
            atexit.register(self._at_exit)
            self._enter("warm-up")
        except Exception as error:
            self._fail(error)

    def close(self) -> None:
        """The loop has ended. A trace with at least one whole step is written, and what is missing is said."""
        if self.done:
            return
        phase = self._phase
        try:
            if len(self._traced) > 1:
                self._write([f"{self._left} of {self._counts['trace']} traced steps: the loop ended early"])
                self._say(f"the loop ended early: {self.path} holds {len(self._traced) - 1} of {self._counts['trace']} steps")
                return
        except Exception as error:
            self._fail(error)
            return
        self._clean_up()
        if phase != "not started":
            self._say(f"the loop ended in phase '{phase}' before a step was traced, so there is no trace to write. "
                      f"{self._too_short}")

    # -- phases

    def _enter(self, phase: str) -> None:
        self._phase, self._left = phase, self._counts[phase]
        if phase == "measure" and not self._left:
            self._enter("settle")
        elif phase == "measure":
            self._wait()
            self._cpu = time.thread_time(), time.process_time()
            self._borders = [time.perf_counter()]
        elif phase == "settle":
            self._begin_trace()
        elif phase == "trace":
            self._wait()
            self._traced = [time.perf_counter()]
            self._mark()

    def _end_step(self, now: float) -> None:
        phase = self._phase
        self._left -= 1
        if phase == "measure":
            self._borders.append(now)
        elif phase == "trace":
            # A range that ends when the work was queued says nothing about the step; the next would begin behind it.
            self._wait()
            self._traced.append(time.perf_counter())
            self._unmark()
        if self._left:
            if phase == "trace":
                self._mark()
            return
        if phase == "measure":
            self._measured = self._measure()
        if phase == "trace":
            self._write([])
        else:
            self._enter(_PHASES[_PHASES.index(phase) + 1])

    def _measure(self) -> dict[str, Any]:
        thread, process = time.thread_time() - self._cpu[0], time.process_time() - self._cpu[1]
        self._wait()
        tail = (time.perf_counter() - self._borders[-1]) * 1e3
        host = [(b - a) * 1e3 for a, b in zip(self._borders, self._borders[1:])]
        n = len(host)
        # No events tell when a device was done with a step: where it lags behind, the whole stretch counts.
        return unmeasured() | choose(host, [], tail) | {
            "measured_steps": n, "thread_cpu_ms_per_step": round(thread * 1e3 / n, 4),
            "cpu_ms_per_step": round(process * 1e3 / n, 4), "peak_bytes": self._peak()}

    def _wait(self) -> None:
        """Until the devices have done all that was asked of them."""
        self._jax.block_until_ready([a for a in self._jax.live_arrays() if not a.is_deleted()])

    def _peak(self) -> int | None:
        try:
            found = (self._jax.local_devices()[0].memory_stats() or {}).get("peak_bytes_in_use")
            return None if found is None else int(found)
        except Exception:  # not every device counts
            return None

    def _begin_trace(self) -> None:
        self._scratch = Scratch(self.path)
        profiler = self._jax.profiler
        options: dict[str, Any] = {}
        if hasattr(profiler, "ProfileOptions"):
            wanted = profiler.ProfileOptions()
            wanted.python_tracer_level = 0  # an event for every Python call costs the step more than it tells
            options = {"profiler_options": wanted}
        profiler.start_trace(str(self._scratch.folder / "profile"), **options)

    def _mark(self) -> None:
        number = self._counts["trace"] - self._left
        self._annotation = self._jax.profiler.StepTraceAnnotation("train", step_num=number)
        self._annotation.__enter__()

    def _unmark(self) -> None:
        opened, self._annotation = self._annotation, None
        if opened is not None:
            opened.__exit__(None, None, None)

    # -- the end

    def _write(self, missing: list[str]) -> None:
        assert self._scratch is not None
        self._unmark()
        self._jax.profiler.stop_trace()
        found = glob.glob(str(self._scratch.folder / "profile" / "**" / "*.xplane.pb"), recursive=True)
        if not found:
            raise RuntimeError("jax.profiler left no xplane.pb")
        rank, world = self._rank()
        device = self._jax.local_devices()[0]
        traced = [(b - a) * 1e3 for a, b in zip(self._traced, self._traced[1:])]
        figures = {"version": VERSION} | self._measured | {
            "warmup_steps": self._counts["warm-up"], "traced_steps": len(traced),
            "traced_host_ms": [round(t, 4) for t in traced], "jax": str(self._jax.__version__),
            "python": platform.python_version(), "device": str(device.device_kind), "rank": rank, "world_size": world,
        } | host_surroundings() | {"missing": missing}
        with open(found[0], "ab") as file:
            file.write(figures_plane(figures))
        path = self.path
        self._scratch.add(Path(found[0]), path)
        self._scratch.commit()
        self._scratch = None
        self._figures = figures
        self._clean_up()
        if device.platform == "cpu":
            self._say(f"nothing ran on a GPU in the traced steps, so nothing can be predicted from {path}; JAX sees no GPU here")

    def _clean_up(self) -> None:
        tracing = self._phase in ("settle", "trace") and self._figures is None
        self._phase = "done"
        atexit.unregister(self._at_exit)
        scratch, self._scratch = self._scratch, None
        try:
            self._unmark()
            if tracing:
                self._jax.profiler.stop_trace()
        except Exception:  # it was never begun, or is not ours
            pass
        if scratch is not None:
            scratch.remove()

    def _say(self, text: str) -> None:
        from .recorder import RecordingWarning

        try:
            warnings.warn(f"foretrace: {text}", RecordingWarning, stacklevel=4)
        except RecordingWarning as warning:
            print(warning, file=sys.stderr)

    def _rank(self) -> tuple[int | None, int | None]:
        count = int(self._jax.process_count())
        return (int(self._jax.process_index()), count) if count > 1 else (None, None)


def figures_plane(figures: dict[str, Any]) -> bytes:
    """The figures as a plane that is appended to an XSpace: messages of protobuf that follow each other are one message.

    XSpace.planes = 1; XPlane: name = 2, stat_metadata = 5 (a map), stats = 6; XStatMetadata: id = 1, name = 2;
    XStat: metadata_id = 1, str_value = 5.
    """
    text = json.dumps(figures).encode()
    metadata = _field(1, 1) + _field(2, _KEY.encode())
    entry = _field(1, 1) + _field(2, metadata)
    stat = _field(1, 1) + _field(5, text)
    return _field(1, _field(2, PLANE.encode()) + _field(5, entry) + _field(6, stat))


def _field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
