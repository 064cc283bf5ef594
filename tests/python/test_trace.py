"""Columns, tables and single events of foretrace.Trace."""

import gc
import os
import pickle
import subprocess
import sys

import foretrace
import numpy as np
import pytest
from helpers import EXAMPLE


def small(*events: str, **options) -> foretrace.Trace:
    return foretrace.load_bytes(b'{"traceEvents": [' + ", ".join(events).encode() + b"]}", "small.json", **options)


OP = '{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 2, "ts": 1.5, "dur": 2.25, "args": {"Ev Idx": 4, "Sequence number": 9}}'
KERNEL = ('{"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 4.125, "dur": 1.001, "args": {"External id": 3,'
          ' "stream": 7, "device": 0, "correlation": 11, "grid": [5, 1, 1], "block": [128, 1, 1]}}')


def test_length_and_repr(example):
    assert len(example) == 37181
    assert "37,181 events" in repr(example) and "2 step(s)" in repr(example)
    assert example.format == "kineto" and example.path.endswith("resnet50-h200.json.gz")
    assert example.input_bytes == 11753760 and not example.partial


def test_columns_are_views_of_one_length(example):
    columns = {"start": "int64", "duration": "int64", "name_id": "uint32", "lane_id": "uint32", "args_id": "uint32",
               "correlation": "int64", "external_id": "int64", "side": "uint32", "category_id": "uint16", "ph": "S1"}
    for name, dtype in columns.items():
        column = getattr(example, name)
        assert column.shape == (len(example),), name
        assert column.dtype == np.dtype(dtype), name
        assert not column.flags.writeable, name
        assert not column.flags.owndata, name
        assert getattr(example, name) is column, f"{name} is made once"
        with pytest.raises(ValueError):
            column[0] = column[0]


def test_columns_outlive_the_trace(example):
    start = foretrace.load(EXAMPLE).start
    gc.collect()
    assert (start == example.start).all()
    part = foretrace.load(EXAMPLE).memory_ids["bytes"][5:10]
    gc.collect()
    assert part.shape == (5,)


def test_no_copy_of_the_columns():
    """Loading and touching every column costs what the columns hold, not twice that."""
    code = ("import foretrace, resource, sys\n"
            "t = foretrace.load(sys.argv[1])\n"
            "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
            "for c in ('start', 'duration', 'correlation', 'external_id', 'name_id', 'args_id', 'side', 'op_ids'):\n"
            "    getattr(t, c)\n"
            "print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)\n")
    grown = int(subprocess.run([sys.executable, "-c", code, EXAMPLE], check=True, stdout=subprocess.PIPE).stdout)
    assert grown < 500_000


def test_kinds_and_categories(example):
    assert foretrace.KINDS[example.kind[example.select("kernel")[0]]] == "kernel"
    counts = {kind: len(example.select(kind)) for kind in foretrace.KINDS}
    assert sum(counts.values()) == len(example)
    assert counts["kernel"] == 3586 and counts["cpu_op"] == 9548
    assert {c.name for c in example.categories} >= {"kernel", "cpu_op", "ac2g", "cuda_runtime"}


def test_select(example):
    step = example.steps[0]
    kernels = example.select("kernel", step=step)
    assert 0 < len(kernels) < len(example.select("kernel"))
    assert (example.start[kernels] >= step.start).all()
    name = example.names(kernels[:1])[0]
    assert kernels[0] in example.select(name=name)
    assert len(example.select(name="no such name")) == 0
    with pytest.raises(ValueError, match="unknown kind 'kernels'; there are cpu_op"):
        example.select("kernels")


def test_names(example):
    names = example.names()
    assert names.shape == (len(example),)
    kernels = example.select("kernel")
    assert all(isinstance(n, str) for n in names[kernels[:10]])
    assert (example.names(kernels) == names[kernels]).all()
    assert example.strings[example.name_id[0]] == names[0]


def test_strings(example):
    strings = example.strings
    assert strings[0] == "" and strings[-1] == strings[len(strings) - 1]
    assert len(strings.to_list()) == len(strings)
    assert strings[1:3] == strings.to_list()[1:3]
    with pytest.raises(IndexError):
        strings[len(strings)]


def test_argument_column(example):
    kernels = example.select("kernel")
    grids = example.arg("grid", kernels)
    assert grids.shape == kernels.shape and grids[0] == [25088, 2, 1]
    assert example.arg("no such key", kernels)[0] is None
    assert example.arg("cbid").shape == (len(example),)


def test_args_and_event():
    trace = small(OP, KERNEL, '{"ph": "s", "id": 11, "pid": 1, "tid": 2, "ts": 2, "cat": "ac2g", "name": "ac2g", "bp": "e"}')
    assert trace.args(0) == {"Ev Idx": 4, "Sequence number": 9}
    assert trace.args(1) == {"External id": 3, "stream": 7, "device": 0, "correlation": 11, "grid": [5, 1, 1],
                             "block": [128, 1, 1]}
    assert trace.args(-1) == {}
    flow = trace.event(2)
    assert flow["id"] == 11 and flow["bp"] == "e" and flow["ph"] == "s" and flow["kind"] == "flow_start"
    kernel = trace.event(1)
    assert (kernel["start"], kernel["duration"], kernel["pid"], kernel["tid"]) == (4125, 1001, "0", "7")
    with pytest.raises(IndexError, match="event 3 of 3"):
        trace.event(3)


def test_arguments_that_are_no_json_are_still_there():
    trace = small(KERNEL.replace('"device": 0', '"est. achieved occupancy %": nan, "odd": bare'))
    args = trace.args(0)
    assert args["est. achieved occupancy %"] != args["est. achieved occupancy %"]
    assert args["odd"] == "bare" and args["grid"] == [5, 1, 1]


def ranges(name: str, count: int) -> list[str]:
    """Ranges of 100 us, each with ten operations."""
    events = []
    for i in range(count):
        events.append(f'{{"ph": "X", "cat": "user_annotation", "name": "{name} {i}", "pid": 1, "tid": 2,'
                      f' "ts": {100 * i}, "dur": 98}}')
        events += [f'{{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 2, "ts": {100 * i + k}, "dur": 1}}'
                   for k in range(10)]
    return events


def test_steps_by(example):
    events = ranges("micro", 3)
    trace = small(*events, steps_by="micro")
    assert trace.steps.source == "ranges picked by name" and [s.number for s in trace.steps] == [0, 1, 2]
    assert [s.duration for s in trace.steps] == [100_000, 100_000, 98_000]
    assert len(small(*events).steps_by("micro *")) == 3
    assert small(*events).step_candidates[0] == foretrace.StepCandidate("micro %d", 3, 98_000, 1.0)
    with pytest.raises(foretrace.Error, match="no range is named 'mikro'"):
        small(*events, steps_by="mikro")
    assert example.steps.marked_by == "" and all(s.waited == 0 for s in example.steps)


def test_steps(example):
    steps = example.steps
    assert [s.name for s in steps] == ["ProfilerStep#3", "ProfilerStep#4"]
    assert steps.source == "ProfilerStep ranges"
    assert steps.median.number == 4
    assert steps[0].duration == 81_890_525 and steps[0].ms == 81.890525
    assert "ProfilerStep#4: 80.562 ms" in repr(steps)


def test_tables(example):
    lane = example.lanes[example.lane_id[example.select("kernel")[0]]]
    assert lane.kind == "gpu_stream" and lane.label == "GPU 0 stream 7" and lane.tid_number == 7
    assert example.devices[0].name == "NVIDIA H200" and example.devices[0].sm_count == 132
    assert example.metadata["cupti_version"] == 130001
    assert example.metadata["deviceProperties"][0]["warpSize"] == 32
    assert example.distributed is None and example.problems == []
    assert example.base_time_ns == 1790857026000000000


def test_absent_values():
    trace = small(OP)
    assert trace.correlation[0] == foretrace.ABSENT
    assert trace.op_ids[trace.side[0]]["record_function_id"] == foretrace.ABSENT
    assert trace.devices == [] and len(trace.problems) == 0


def test_empty_trace():
    trace = small()
    assert len(trace) == 0 and len(trace.steps) == 0 and trace.names().shape == (0,)
    assert trace.select("kernel").shape == (0,) and trace.op_ids.shape == (0,)
    with pytest.raises(IndexError, match="no timed event"):
        trace.steps.median


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_change_nothing(example, threads):
    again = foretrace.load(EXAMPLE, threads=threads)
    for column in ("start", "duration", "name_id", "lane_id", "args_id", "correlation", "external_id", "side"):
        assert (getattr(again, column) == getattr(example, column)).all(), column
    assert again.strings.to_list() == example.strings.to_list()


def test_problems_are_listed_and_strict_raises(tmp_path):
    bad = OP.replace('"ts": 1.5', '"ts": NaN')
    trace = small(OP, bad, OP)
    (problem,) = trace.problems
    assert (problem.name, problem.severity, problem.count) == ("unreadable_timestamp", "data_loss", 1)
    assert "NaN" in problem.example and problem.offset == len('{"traceEvents": [' + OP + ", ")
    with pytest.raises(foretrace.Error):
        small(OP, bad, strict=True)


def test_errors_carry_their_parts(tmp_path):
    cut = tmp_path / "cut.json"
    cut.write_bytes(b'{"traceEvents": [' + OP.encode() + b', {"ph": "X"')
    with pytest.raises(foretrace.Error) as caught:
        foretrace.load(cut)
    error = caught.value
    assert isinstance(error, ValueError)
    assert error.file == str(cut) and error.offset == len('{"traceEvents": [' + OP + ", ")
    assert "truncated" in error.message and "--partial" in error.hint and error.code == "unreadable"
    assert str(error).startswith(f"{cut}: byte {error.offset}: {error.message}")
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error) and again.offset == error.offset
    trace = foretrace.load(cut, partial=True)
    assert len(trace) == 1 and trace.partial


def test_wrong_use():
    with pytest.raises(foretrace.Error, match="no such file"):
        foretrace.load("/no/such/file.json")
    with pytest.raises(ValueError, match="threads must be 0"):
        foretrace.load(EXAMPLE, threads=-1)
    with pytest.raises(TypeError):
        foretrace.load(42)


def test_find_traces(tmp_path):
    for rank in (10, 9, 0):
        (tmp_path / f"rank{rank}.json").write_text('{"distributedInfo": {"rank": %d}, "traceEvents": [%s]}' % (rank, OP))
    (tmp_path / "notes.txt").write_text("hello")
    found = foretrace.find_traces(tmp_path)
    assert [os.path.basename(p) for p in found] == ["rank0.json", "rank9.json", "rank10.json"]
    assert foretrace.find_traces([EXAMPLE]) == [str(EXAMPLE)]
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(foretrace.Error, match="holds no files"):
        foretrace.find_traces(empty)


def test_formats():
    assert [name for name, _, _ in foretrace.formats()] == sorted(name for name, _, _ in foretrace.formats())
    assert "kineto" in [name for name, _, _ in foretrace.formats()]


def test_the_interpreter_runs_on_while_loading():
    import threading

    ticks, stop = [], threading.Event()
    data = b'{"traceEvents": [' + b", ".join([OP.encode()] * 100_000) + b"]}"
    thread = threading.Thread(target=lambda: [ticks.append(1) or stop.wait(0.0005) for _ in range(10_000) if not stop.is_set()])
    thread.start()
    before = len(ticks)
    foretrace.load_bytes(data, threads=1)
    during = len(ticks) - before
    stop.set()
    thread.join()
    assert during >= 3
