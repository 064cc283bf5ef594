"""What a graph and its simulation say about a step, as frozen dataclasses. Times are in ns where no name says ms."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from . import _core
from ._band import Band
from ._result import Bar, Result, bar

if TYPE_CHECKING:
    from ._graph import Graph


@dataclass(frozen=True)
class GraphLane:
    """Where tasks run one after another: a CPU thread, a GPU stream, a network channel."""

    index: int
    kind: str  # "cpu", "gpu", "network"
    name: str
    begin: int  # its tasks are those from begin to end
    end: int
    trace_lane: int | None  # index into Trace.lanes
    device: int | None
    stream: int | None
    queue_depth: int | None  # launches that fit in this stream's queue; None: no limit
    queue_lag: int  # ns from the start that made room to the release of the call that waited

    @property
    def tasks(self) -> range:
        return range(self.begin, self.end)


@dataclass(frozen=True)
class Layer:
    """A module of the model, or a group of operations where nothing in the trace names modules."""

    index: int
    name: str  # qualified module name, or the operation and its shape
    type: str  # module type; "" when synthetic
    synthetic: bool


@dataclass(frozen=True)
class GraphNotes:
    """What the builder could not explain or had to leave out; all 0 on a clean trace."""

    refuted_waits: int  # inferred stream waits that the measured times contradict
    unexplained_lags: int  # GPU tasks that started over 20 us late without a known cause
    unexplained_time: int  # ns
    orphans: int  # GPU work whose launch is not in the trace
    early_kernels: int  # GPU work that starts before its launch call does
    dropped_shares: int  # inferences on who made room on the GPU that contradict the program's order
    border_tasks: int  # GPU work from before the step
    foreign_events: int  # of other processes
    queue_depth_measured: bool  # the trace shows how many launches fit in a queue
    waited: int  # ns for GPU work that is not in the file: left out of the step
    startup: int  # ns of start-up work that was taken out of a cold step
    allocator: int  # ns in calls that take memory from the driver and give it back, step after step
    sentences: tuple[str, ...] = field(repr=False)

    def __str__(self) -> str:
        return "\n".join(self.sentences) or "nothing was left out"


@dataclass(frozen=True)
class LowerBounds(Result):
    """How long the step would be if one resource cost nothing, in ns."""

    no_gpu: int
    no_network: int
    no_cpu: int

    @property
    def no_gpu_ms(self) -> float:
        return self.no_gpu / 1e6

    @property
    def no_network_ms(self) -> float:
        return self.no_network / 1e6

    @property
    def no_cpu_ms(self) -> float:
        return self.no_cpu / 1e6

    def _rows(self) -> list[dict[str, Any]]:
        return [{"without": "GPU", "ms": self.no_gpu_ms}, {"without": "network", "ms": self.no_network_ms},
                {"without": "CPU", "ms": self.no_cpu_ms}]

    def _bars(self) -> tuple[list[Bar], float | None]:
        return [bar(f"no {row['without']} time", row["ms"]) for row in self._rows()], None

    def _title(self) -> str:
        return "the step if one resource cost nothing"

    def __str__(self) -> str:
        return _table([("no GPU time", self.no_gpu), ("no communication", self.no_network), ("no CPU time", self.no_cpu)])


@dataclass(frozen=True)
class Breakdown(Result):
    """Where the time of a step goes, in ns. cpu_only, gpu_only, both, exposed_communication and idle add up to step."""

    step: int
    cpu_only: int  # the CPU works, the GPU does not
    gpu_only: int
    both: int
    exposed_communication: int  # communication runs and no computation does
    exposed_loading: int  # of cpu_only: the main thread loads data; of idle: it waits for workers that do
    idle: int
    gpu_busy: int
    cpu_busy: int
    communication: int
    gpu_idle_by_cause: dict[str, int]  # time the GPU computes nothing, by what its next task waited for
    path_cpu: int  # the critical path's time, by where it runs
    path_gpu: int
    path_communication: int
    path_waits: int
    bottleneck: str  # "CPU-bound: …"
    bound_by: str  # "cpu", "gpu", "communication", "loading", "mixed", "waits", "nothing"

    @property
    def ms(self) -> float:
        return self.step / 1e6

    def _rows(self) -> list[dict[str, Any]]:
        parts = ("cpu_only", "gpu_only", "both", "exposed_communication", "idle")
        return [{"part": part, "ms": getattr(self, part) / 1e6, "share": getattr(self, part) / self.step if self.step else 0.0}
                for part in parts]

    def _bars(self) -> tuple[list[Bar], float | None]:
        return [bar(row["part"].replace("_", " "), row["ms"]) for row in self._rows()], None

    def _title(self) -> str:
        return f"where the {self.ms:.1f} ms go"

    def __str__(self) -> str:
        parts = [("CPU only", self.cpu_only), ("GPU only", self.gpu_only), ("both", self.both),
                 ("exposed communication", self.exposed_communication), ("idle", self.idle), ("step", self.step)]
        return f"{_table(parts, self.step)}\n{self.bottleneck}"


@dataclass(frozen=True)
class Unprofiled(Result, Band):
    """The step as it runs without the profiler, in ns; low and high are the 10th and 90th percentile."""

    step: int
    low: int
    high: int
    calibrated: bool  # on a measured step
    origin: str  # "prior", "measured step", "recorder"
    factors: dict[str, float]  # of CPU time by phase, of GPU time and of loading data
    profiler: tuple[float, float, float]  # how slow the trace's CPU was by phase: recorded events come off at that speed
    sigma: dict[str, float]  # what stays free of the logarithm of each
    _of: Graph = field(repr=False, compare=False)

    @property
    def step_ms(self) -> float:
        return self.step / 1e6

    ms = step_ms

    def _rows(self) -> list[dict[str, Any]]:
        return [{"ms": self.ms, "low_ms": self.low_ms, "high_ms": self.high_ms, "traced_ms": self._of.traced_ms,
                 "origin": self.origin}]

    def _bars(self) -> tuple[list[Bar], float | None]:
        return [bar("as traced", self._of.traced_ms), ("without the profiler", self.low_ms, self.ms, self.high_ms)], None

    def _title(self) -> str:
        return self._of.step_name

    @cached_property
    def graph(self) -> Graph:
        """The graph with the profiler's cost taken off."""
        return self._of._with_factors(self.factors, self.profiler)

    def __str__(self) -> str:
        source = {"prior": "what recording usually costs", "measured step": "the measured step",
                  "recorder": "what the recorder measured"}.get(self.origin, self.origin)
        return f"{self.step_ms:.3f} ms [{self.low_ms:.3f}, {self.high_ms:.3f}] without the profiler, from {source}"


@dataclass(frozen=True, eq=False)
class CriticalPath(Result):
    """The chain of tasks that makes a step as long as it is, from its begin to its end, as columns.

    Each task waited (a latency, a gap: nothing on the path ran), then it worked: wait and work add up to the step.
    """

    graph: Graph = field(repr=False)
    task: NDArray[np.uint32]
    why: NDArray[np.uint8]  # index into DEPENDENCY_KINDS: what it waited for
    start: NDArray[np.int64]  # of its work, since the step's begin
    wait: NDArray[np.int64]
    work: NDArray[np.int64]
    before: NDArray[np.bool_]  # it belongs to the step before, where work outlives the step

    def __len__(self) -> int:
        return len(self.task)

    @property
    def length(self) -> int:
        """ns"""
        return int(self.wait.sum() + self.work.sum())

    @property
    def ms(self) -> float:
        return self.length / 1e6

    def _parts(self) -> list[tuple[str, int]]:
        """Work and waits by kind, in ns, the longest first."""
        kinds = self.graph.kind[self.task]
        rows = [(f"work, {name}", int(self.work[kinds == k].sum())) for k, name in enumerate(_core.TASK_KINDS)]
        rows += [(f"wait, {name}", int(self.wait[self.why == k].sum())) for k, name in enumerate(_core.DEPENDENCY_KINDS)]
        return sorted((r for r in rows if r[1]), key=lambda r: -r[1])

    def _rows(self) -> list[dict[str, Any]]:
        names = self.graph.names(self.task)
        return [{"task": int(task), "name": name, "kind": _core.TASK_KINDS[self.graph.kind[task]],
                 "why": _core.DEPENDENCY_KINDS[why], "start_ms": start / 1e6, "wait_ms": wait / 1e6, "work_ms": work / 1e6}
                for task, name, why, start, wait, work in zip(self.task, names, self.why, self.start, self.wait, self.work)]

    def _bars(self) -> tuple[list[Bar], float | None]:
        return [bar(name, ns / 1e6) for name, ns in self._parts()], None

    def _title(self) -> str:
        return f"critical path of {self.graph.step_name}"

    def __repr__(self) -> str:
        rows = self._parts()
        return (f"<foretrace.CriticalPath of {self.graph.step_name!r}: {len(self):,} tasks, {self.length / 1e6:.3f} ms>\n"
                + _table(rows, self.length))


def _table(rows: list[tuple[str, int]], whole: int = 0) -> str:
    width = max((len(name) for name, _ in rows), default=0)

    def share(ns: int) -> str:
        return f"  {100 * ns / whole:5.1f} %" if whole else ""

    return "\n".join(f"  {name:<{width}}  {ns / 1e6:10.3f} ms{share(ns)}" for name, ns in rows)
