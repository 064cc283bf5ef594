"""The graph of a step and its simulation, on the trace that ships with the project and on small ones."""

import gc
import json
import sys
import threading
import weakref

import foretrace
import numpy as np
import pytest
from foretrace import DEPENDENCY_KINDS, NO_ID, PHASES, TASK_KINDS, _core
from helpers import EXAMPLE

KERNEL = TASK_KINDS.index("kernel")
CALL = TASK_KINDS.index("call")


@pytest.fixture(scope="module")
def graph(example):
    return example.step()


@pytest.fixture(scope="module")
def timeline(graph):
    return graph.simulate()


def small(*events, **metadata):
    text = json.dumps(metadata | {"traceEvents": list(events)})
    return foretrace.load_bytes(text.encode())


def event(cat, name, start, duration, tid=1, pid=1, **args):
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": start, "dur": duration, "args": args}


def one_kernel(**metadata):
    """A step of 100 us: an operation that launches a kernel of 30 us and a wait for the device."""
    return small(
        event("user_annotation", "ProfilerStep#7", 0, 100),
        event("cpu_op", "aten::mm", 10, 20, **{"External id": 1}),
        event("cuda_runtime", "cudaLaunchKernel", 20, 5, correlation=9, **{"External id": 1}),
        event("kernel", "gemm", 40, 30, tid=7, pid=0, device=0, stream=7, correlation=9, **{"External id": 1}),
        event("cuda_runtime", "cudaDeviceSynchronize", 50, 22, correlation=10),
        **metadata)


# -- which step


def test_the_default_is_the_median_step(example, graph):
    assert graph.step_name == example.steps.median.name == "ProfilerStep#4"
    assert graph.traced == example.steps.median.duration and graph.traced_ms == graph.traced / 1e6
    assert example.step(3).step_name == example.step(example.steps[0]).step_name == "ProfilerStep#3"


def test_a_step_that_is_not_there(example):
    with pytest.raises(foretrace.Error, match="the trace has no step 99") as caught:
        example.step(99)
    assert caught.value.hint == "it has: 3, 4" and caught.value.code == "usage"
    with pytest.raises(foretrace.Error, match="no event with a duration"):
        small({"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}}).step()


def test_families_to_leave_out_are_checked(example):
    for wrong in ("lane", "none", "lunch"):
        with pytest.raises(ValueError, match=f"cannot leave out '{wrong}'; there are launch, queue, sync"):
            example.step(without=[wrong])


def test_without_launches_kernels_no_longer_wait_for_the_cpu(example, graph):
    kind = DEPENDENCY_KINDS.index("launch")
    assert (graph.dep_kind == kind).sum() >= (graph.kind == KERNEL).sum()
    without = example.step(without="launch")
    assert not (without.dep_kind == kind).any()
    assert without.simulate().step < graph.simulate().step or len(without.dep_to) < len(graph.dep_to)


# -- columns


def test_columns_are_read_only_views(graph):
    types = {"kind": "u1", "cost": "i8", "lane": "u4", "lane_lag": "i8", "name_id": "u4", "phase": "u1", "layer": "u4",
             "launch": "u4", "event": "u4", "op": "u4", "measured": "i8", "share": "u4", "origin": "u1"}
    for name, dtype in types.items():
        column = getattr(graph, name)
        assert column.shape == (len(graph),) and column.dtype == dtype, name
        assert not column.flags.writeable and not column.flags.owndata, name
        assert getattr(graph, name) is column
    for name, dtype in {"dep_to": "u4", "dep_lag": "i8", "dep_point": "u4", "dep_kind": "u1"}.items():
        column = getattr(graph, name)
        assert column.shape == (int(graph.dep_begin[-1]),) and column.dtype == dtype and not column.flags.writeable
    assert graph.dep_begin.shape == (len(graph) + 1,)
    with pytest.raises(ValueError, match="read-only"):
        graph.cost[0] = 1


def test_two_views_are_the_same_memory(graph):
    assert graph._core.column("cost").ctypes.data == graph.cost.ctypes.data


def test_columns_outlive_graph_and_trace():
    trace = one_kernel()
    graph = trace.step()
    cost, start = graph.cost, graph.simulate().start
    alive = weakref.ref(trace), weakref.ref(graph)
    assert graph.trace is trace
    del trace
    gc.collect()
    assert alive[0]() is not None and graph.op_names().tolist().count("aten::mm") > 0
    del graph
    gc.collect()
    assert alive[0]() is None and alive[1]() is None
    assert cost.sum() > 0 and (start >= 0).all()


def test_tasks_are_the_events_of_the_step(example, graph):
    step = example.steps.median
    kernels = graph.kind == KERNEL
    traced = example.select("kernel", step=step)
    assert sorted(graph.event[kernels]) == traced.tolist()
    assert graph.cost[kernels].sum() == example.duration[traced].sum()
    assert (graph.measured[kernels] == example.start[graph.event[kernels]] - step.start).all()
    assert graph.names(kernels).tolist() == example.names(graph.event[kernels]).tolist()
    assert set(graph.op_names(kernels)) > {"aten::cudnn_convolution", "aten::cudnn_batch_norm"}


def test_launches_point_at_calls_of_the_same_correlation(example, graph):
    kernels = np.flatnonzero(graph.kind == KERNEL)
    calls = graph.launch[kernels]
    assert (calls != NO_ID).all() and (graph.kind[calls] == CALL).all()
    assert (example.correlation[graph.event[calls]] == example.correlation[graph.event[kernels]]).all()


def test_lanes_partition_the_tasks(example, graph):
    assert [t for lane in graph.lanes for t in lane.tasks] == list(range(len(graph)))
    for lane in graph.lanes:
        assert (graph.lane[lane.begin:lane.end] == lane.index).all()
        assert lane.kind in ("cpu", "gpu")
    (stream,) = [lane for lane in graph.lanes if lane.kind == "gpu" and lane.end - lane.begin > 1000]
    assert (stream.device, stream.stream) == (0, 7) and example.lanes[stream.trace_lane].kind == "gpu_stream"
    main = graph.lanes[graph.main_lane]
    assert TASK_KINDS[graph.kind[main.begin]] == "begin" and graph.last == main.end - 1


def test_cpu_time_of_the_main_thread_fills_the_step(graph, timeline):
    """The lane is tiled: what is not work is waiting for something."""
    main = graph.lanes[graph.main_lane]
    tasks = np.arange(main.begin, main.end)
    gaps = timeline.start[tasks[1:]] - timeline.end[tasks[:-1]]
    waits = np.isin(timeline.cause_kind[tasks[1:]], [DEPENDENCY_KINDS.index(k) for k in ("sync", "queue", "thread")])
    assert (gaps[~waits] == graph.lane_lag[tasks[1:]][~waits]).all() and (gaps >= 0).all()
    assert graph.cost[tasks].sum() + gaps.sum() == graph.traced


def test_dependencies(graph):
    assert (np.diff(graph.dep_begin.astype(np.int64)) >= 0).all() and graph.dep_begin[0] == 0
    assert len(graph.dep_from) == len(graph.dep_to)
    some = int(np.flatnonzero(np.diff(graph.dep_begin))[5])
    assert (graph.dep_from[graph.dep_begin[some]:graph.dep_begin[some + 1]] == some).all()
    launches = graph.dep_kind == DEPENDENCY_KINDS.index("launch")
    assert (graph.launch[graph.dep_to[launches]] == graph.dep_from[launches]).all()


def test_shares():
    text = one_kernel().step().dump()
    assert foretrace.Graph.parse(text).shares.dtype.names == ("from", "point", "lag", "slack")


def test_layers_and_phases_cover_the_gpu(graph):
    gpu = graph.kind >= KERNEL
    named = graph.cost[gpu & (graph.layer != NO_ID)].sum()
    assert named >= 0.99 * graph.cost[gpu].sum()
    assert {"forward", "backward", "optimizer"} <= {PHASES[p] for p in np.unique(graph.phase[gpu])}
    conv1 = [layer for layer in graph.layers if layer.name == "conv1"][0]
    assert conv1.type == "Conv2d" and not conv1.synthetic
    assert set(graph.layer_names(graph.layer == conv1.index)) == {"conv1"}
    assert (graph.layer_names(graph.layer == NO_ID) == "").all()


def test_notes(graph):
    assert graph.notes.orphans == 0 and graph.notes.foreign_events == 0
    assert str(graph.notes) == ("\n".join(graph.notes.sentences) or "nothing was left out")
    orphan = event("kernel", "alone", 60, 5, tid=7, pid=0, device=0, stream=7, correlation=77)
    trace = small(*[e for e in json.loads(json.dumps([
        event("user_annotation", "ProfilerStep#1", 0, 100), event("cpu_op", "aten::mm", 10, 20), orphan]))])
    notes = trace.step().notes
    assert notes.orphans == 1 and any("without a recorded launch" in s for s in notes.sentences)


def test_repr(graph, timeline):
    assert repr(graph).startswith("<foretrace.Step 'ProfilerStep#4': 15,008 tasks on ")
    assert repr(graph).endswith("80.562 ms traced>")
    assert repr(timeline) == "<foretrace.Timeline 'ProfilerStep#4': 80.562 ms simulated, 80.562 ms traced>"


# -- simulation


@pytest.mark.parametrize("number", [3, 4])
def test_replay_is_exact(example, number):
    graph = example.step(number)
    timeline = graph.simulate()
    step = [s for s in example.steps if s.number == number][0]
    assert timeline.step == graph.traced == step.duration
    assert timeline.step_ms == graph.traced_ms
    gpu = graph.kind >= KERNEL
    assert np.abs(timeline.start[gpu] - graph.measured[gpu]).max() == 0
    assert (timeline.end - timeline.start == graph.cost).all()
    assert timeline.copies == 1 and timeline.settled


def test_a_step_computed_by_hand():
    """The kernel starts 20 us after its call began; the wait ends with it, 2 us later."""
    graph = one_kernel().step()
    timeline = graph.simulate()
    (kernel,) = np.flatnonzero(graph.kind == KERNEL)
    assert timeline.step == 100_000 and (timeline.start[kernel], timeline.end[kernel]) == (40_000, 70_000)
    assert timeline.cause[kernel] == graph.launch[kernel]
    assert DEPENDENCY_KINDS[timeline.cause_kind[kernel]] == "launch"
    cost = graph.cost.copy()
    cost[kernel] += 10_000
    assert graph.simulate(cost).step == 110_000
    cost[kernel] = 0  # the CPU reaches its wait at 50 us: no more than that can be gained
    assert 100_000 - 22_000 <= graph.simulate(cost).step < 100_000 - 15_000


def test_timeline_columns(graph, timeline):
    for name, dtype in {"start": "i8", "end": "i8", "cause": "u4", "cause_kind": "u1"}.items():
        column = getattr(timeline, name)
        assert column.shape == (len(graph),) and column.dtype == dtype and not column.flags.writeable
    held = np.flatnonzero(timeline.cause != NO_ID)
    assert (timeline.start[timeline.cause[held]] <= timeline.start[held]).all()
    assert timeline.graph is graph and len(timeline) == len(graph)


def test_other_costs(graph, timeline):
    assert graph.simulate(graph.cost).step == timeline.step
    assert graph.simulate(graph.cost.astype(float).tolist()).step == timeline.step
    gpu = graph.kind >= KERNEL
    faster = graph.simulate(np.where(gpu, graph.cost, graph.cost / 2))
    assert 0.5 * timeline.step < faster.step < timeline.step
    assert (faster.end - faster.start)[~gpu].sum() == np.rint(graph.cost[~gpu] / 2).sum()
    assert graph.simulate(np.where(gpu, graph.cost * 3, graph.cost)).step > 2 * timeline.step
    assert graph.simulate(np.zeros(len(graph))).step >= 0


@pytest.mark.parametrize("change, message", [
    (lambda c: c[:-1], r"cost needs one value for each of the 15008 tasks, not shape \(15007,\)"),
    (lambda c: np.stack([c, c]), r"not shape \(2, 15008\)"),
    (lambda c: np.where(np.arange(len(c)) == 17, -1, c), "a cost cannot be negative, infinite or nan: that of task 17 is -1"),
    (lambda c: np.where(np.arange(len(c)) == 3, np.nan, c), "that of task 3 is nan"),
    (lambda c: np.where(np.arange(len(c)) == 3, np.inf, c), "that of task 3 is inf"),
    (lambda c: c * 10 ** 12, "these costs add up to more than 18 years"),
    (lambda c: np.full(len(c), 2 ** 63 - 1), "these costs add up to more than 18 years"),
])
def test_wrong_costs_are_refused(graph, change, message):
    with pytest.raises(ValueError, match=message):
        graph.simulate(change(graph.cost))


def test_costs_that_are_no_numbers(graph):
    with pytest.raises(TypeError, match="cost must hold numbers"):
        graph.simulate(["1"] * len(graph))


def test_critical_path(graph, timeline):
    path = timeline.critical_path()
    assert path.length == timeline.step == int(path.wait.sum() + path.work.sum())
    assert (path.wait >= 0).all() and (path.work >= 0).all() and not path.before.any()
    assert timeline.start[path.task[0]] == 0 and path.task[-1] == graph.last
    assert (timeline.cause[path.task[1:]] == path.task[:-1]).all()
    assert (timeline.cause_kind[path.task] == path.why).all()
    assert (path.start + path.work == timeline.end[path.task]).all()
    assert f"{len(path):,} tasks, 80.562 ms" in repr(path) and "work, call" in repr(path)


def test_breakdown(graph, timeline):
    b = timeline.breakdown()
    assert b.step == timeline.step == b.cpu_only + b.gpu_only + b.both + b.exposed_communication + b.idle
    assert b.step == b.path_cpu + b.path_gpu + b.path_communication + b.path_waits
    assert sum(b.gpu_idle_by_cause.values()) == b.step - b.gpu_busy
    assert set(b.gpu_idle_by_cause) <= set(DEPENDENCY_KINDS)
    assert b.gpu_busy <= graph.cost[graph.kind >= KERNEL].sum()
    assert b.bottleneck.startswith("CPU-bound") and str(b).endswith(b.bottleneck)
    path = timeline.critical_path()
    on_gpu = graph.kind[path.task] >= KERNEL
    assert path.work[on_gpu].sum() == b.path_gpu and path.work[~on_gpu].sum() == b.path_cpu


def test_breakdown_follows_the_costs_given(graph):
    gpu = graph.kind >= KERNEL
    slow = graph.simulate(np.where(gpu, graph.cost * 5, graph.cost)).breakdown()
    assert slow.bottleneck.startswith("GPU-bound") and slow.path_gpu > 0.8 * slow.step


def test_lower_bounds(graph, timeline):
    bounds = graph.lower_bounds()
    gpu = graph.kind >= KERNEL
    assert bounds.no_gpu == graph.simulate(np.where(gpu, 0, graph.cost)).step <= timeline.step
    assert bounds.no_cpu == graph.simulate(np.where(gpu, graph.cost, 0)).step <= timeline.step
    assert bounds.no_network == timeline.step
    assert "no CPU time" in str(bounds)


# -- without the profiler


def test_unprofiled_from_what_launches_cost(graph):
    u = graph.unprofiled()
    assert not u.calibrated and u.origin == "prior"
    assert u.low < u.step < u.high and u.step < graph.traced
    assert set(u.factors) == set(u.sigma) == {"forward", "backward", "optimizer", "gpu", "loading"}
    assert all(0 < f <= 1 for f in u.factors.values())
    assert u.graph.simulate().step == u.step and u.graph.trace is graph.trace
    assert u.graph is u.graph and u.graph.cost.sum() < graph.cost.sum()
    assert str(u).startswith(f"{u.step_ms:.3f} ms [{u.low_ms:.3f}, {u.high_ms:.3f}] without the profiler")


def test_unprofiled_meets_the_measured_step(graph):
    prior, u = graph.unprofiled(), graph.unprofiled(measured_ms=72.0)
    assert u.calibrated and u.origin == "measured step"
    assert prior.step_ms < u.step_ms < 72.0 and u.step_ms == pytest.approx(72.0, rel=0.01)
    assert u.high - u.low < prior.high - prior.low


def test_what_the_recorder_measured_is_used():
    trace = one_kernel(foretrace={"version": 1, "measured_ms": 0.095})
    assert trace.step().unprofiled().origin == "recorder" and trace.step().unprofiled().calibrated
    assert trace.step().unprofiled(measured_ms=0.09).origin == "measured step"


@pytest.mark.parametrize("wrong", [0, -3, float("nan"), float("inf"), 1e12])
def test_a_measured_step_that_is_none(graph, wrong):
    with pytest.raises(foretrace.Error, match="a step of .* ms is impossible"):
        graph.unprofiled(measured_ms=wrong)


@pytest.mark.parametrize("stored", [1e300, 0.000095, 95.0])
def test_an_impossible_figure_of_the_recorder_is_left_alone_and_said(stored):
    trace = one_kernel(foretrace={"version": 1, "measured_ms": stored})
    with pytest.warns(UserWarning, match="the measured step the recorder stored is not used: .*impossible"):
        assert trace.step().unprofiled().origin == "prior"


# -- work that outlives the step


@pytest.fixture(scope="module")
def periodic():
    """Steps of 100 us that launch a kernel of 90 us each and wait for nothing: the GPU runs behind."""
    events = []
    for i in range(4):
        at = 100 * i
        events += [
            event("user_annotation", f"ProfilerStep#{i}", at, 100),
            event("cpu_op", "aten::mm", at + 10, 30, **{"External id": i + 1}),
            event("cuda_runtime", "cudaLaunchKernel", at + 20, 10, correlation=i + 1, **{"External id": i + 1}),
            event("kernel", "gemm", at + 60, 90, tid=7, pid=0, device=0, stream=7, correlation=i + 1),
        ]
    return small(*events).step(2)


def test_steps_in_a_row(periodic):
    assert periodic.periodic
    timeline = periodic.simulate()
    assert timeline.copies > 1 and timeline.settled and "steps in a row" in repr(timeline)
    assert timeline.step == periodic.traced == 100_000
    assert timeline.start.shape == (len(periodic),) and (timeline.end - timeline.start == periodic.cost).all()
    main = periodic.lanes[periodic.main_lane]
    assert timeline.start[main.begin] == 0
    slower = periodic.simulate(np.where(periodic.kind == KERNEL, periodic.cost * 2, periodic.cost))
    assert slower.step >= 180_000
    path = slower.critical_path()
    assert path.length == slower.step and len(path.task) == len(path.before)
    assert (path.task < len(periodic)).all()
    b = slower.breakdown()
    assert b.step == slower.step == b.cpu_only + b.gpu_only + b.both + b.exposed_communication + b.idle
    held = timeline.cause != NO_ID
    assert (timeline.cause[held] < len(periodic)).all()


# -- text, frames, threads


def test_text_form_comes_back(graph):
    text = graph.dump()
    again = foretrace.Graph.parse(text)
    assert again.dump() == text and again.trace is None
    for column in ("kind", "cost", "lane", "launch", "measured", "dep_begin", "dep_to", "dep_lag", "dep_kind"):
        assert (getattr(again, column) == getattr(graph, column)).all(), column
    assert again.simulate().step == graph.traced
    with pytest.raises(ValueError, match="has no trace to name operations"):
        again.op_names()


def test_a_text_that_is_no_graph():
    with pytest.raises(foretrace.Error):
        foretrace.Graph.parse("hello")


def test_an_exported_file_gives_its_graph_back(graph, tmp_path):
    path = tmp_path / "step.json"
    assert _core.run(["export", str(EXAMPLE), "--format", "perfetto", "-o", str(path)]) == 0
    again = foretrace.load(path).step()
    assert again.trace is None and again.dump() == graph.dump()


def test_frames(graph, timeline):
    frame = graph.to_pandas()
    assert list(frame.columns) == ["kind", "name", "lane", "phase", "layer", "cost", "measured", "launch", "event", "op",
                                   "origin", "op_name"]
    kernels = frame[frame.kind == "kernel"]
    assert kernels.cost.sum() == graph.cost[graph.kind == KERNEL].sum() and kernels.launch.notna().all()
    assert frame[frame.kind == "cpu"].launch.isna().all()
    assert (graph.to_pandas(graph.kind == KERNEL).index == kernels.index).all()
    timed = timeline.to_pandas([5, 2])
    assert list(timed.index) == [5, 2] and timed.end.tolist() == timeline.end[[5, 2]].tolist()
    assert set(timed.cause_kind) <= set(DEPENDENCY_KINDS)


def test_frames_without_pandas(graph, timeline, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"Graph.to_pandas needs pandas: pip install pandas"):
        graph.to_pandas()
    with pytest.raises(ImportError, match="Timeline.to_pandas needs pandas"):
        timeline.to_pandas()


def test_threads_may_share_a_graph(example):
    found = []

    def work():
        graph = example.step()
        found.append((graph.simulate().step, graph.lower_bounds(), graph.dump()))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(found) == 4 and len(set(found)) == 1


def test_the_interpreter_runs_on_while_simulating(graph):
    """Many simulations in one thread leave another its turns: each releases the interpreter's lock."""
    ticks, stop = [0], threading.Event()

    def count():
        while not stop.is_set():
            ticks[0] += 1
            stop.wait(0.0002)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(60)  # only calls that give the lock away let the other thread run
    thread = threading.Thread(target=count)
    try:
        thread.start()
        before = ticks[0]
        # A simulation takes under a millisecond: how many it takes until the other thread was woken is the machine's
        # matter. Held locks would never let it count.
        for _ in range(5000):
            _core.simulate(graph._core, None)
            during = ticks[0] - before
            if during >= 3:
                break
    finally:
        stop.set()
        sys.setswitchinterval(interval)
        thread.join()
    assert during >= 3
