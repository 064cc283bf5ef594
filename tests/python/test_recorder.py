"""The parts of the recorder that need no PyTorch; tests/python/torch holds the rest."""

import gzip
import json
import os
import subprocess
import sys
from types import SimpleNamespace

import foretrace
import pytest
from foretrace import _recorder_figures as figures
from foretrace import _recorder_output as output
from foretrace import _recorder_tracer, recorder


def run(code, **env):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ | env)


def test_importing_foretrace_does_not_import_torch():
    done = run("import sys, foretrace, foretrace.recorder\n"
               "assert not any(m == 'torch' or m.startswith('torch.') for m in sys.modules)")
    assert done.returncode == 0, done.stderr


def test_without_torch_it_says_so():
    done = run("import sys; sys.modules['torch'] = None\n"
               "import foretrace.recorder as r\n"
               "try: r.record('out.json.gz')\n"
               "except ImportError as e: print(e)")
    assert done.stdout == "foretrace.record needs PyTorch, which is not installed: it records PyTorch trainings\n"


@pytest.mark.parametrize("options, message", [
    (dict(steps=0), "steps must be 1 or more, not 0"),
    (dict(measure=-1), "measure must be 0 or more, not -1"),
    (dict(warmup=0), "warmup must be 1 or more, not 0"),
    (dict(steps=True), "steps must be 1 or more, not True"),
    (dict(steps=2.5), "steps must be a whole number of steps, not 2.5"),
    (dict(model=7), "model must be a torch.nn.Module or several of them, not int"),
    (dict(model=["net"]), "model must be a torch.nn.Module or several of them, not str"),
])
def test_wrong_arguments_are_refused_before_the_training(options, message):
    with pytest.raises((ValueError, TypeError)) as caught:
        recorder.record("out.json.gz", **options)
    assert str(caught.value) == message


@pytest.mark.parametrize("path", ["out.txt", "out", ".json.gz", "folder/.json", "out.gz"])
def test_a_path_that_is_no_trace_is_refused(path):
    with pytest.raises(ValueError, match="must go to a file that ends in .json.gz or .json, not '"):
        recorder.record(path)


# -- figures in a trace


def trace_with(**metadata):
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": 1.0, "dur": 2.0}
    return foretrace.load_bytes(json.dumps(metadata | {"traceEvents": [event]}).encode())


def test_figures_come_back_from_a_trace():
    stored = {"version": 1, "measured_ms": 12.5, "step_ms": [12.0, 13.0], "missing": []}
    assert recorder.recorded_figures(trace_with(foretrace=stored)) == stored


@pytest.mark.parametrize("value", ["text", 3, [], {}, {"version": "1"}, {"measured_ms": 3.0}])
def test_other_metadata_of_that_name_is_none_of_ours(value):
    assert recorder.recorded_figures(trace_with(foretrace=value)) is None


def test_a_trace_of_another_origin_has_no_figures(example):
    assert recorder.recorded_figures(example) is None


@pytest.mark.parametrize("text, worked", [
    ('{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::add"}]}', False),
    ('{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "gemm"}]}', True),
    ('{"traceEvents": [{"ph":"X","cat":"gpu_memcpy","name":"Memcpy HtoD"}]}', True),
    ('{"traceEvents": [{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel"}]}', False),
    ("", False),
])
def test_whether_anything_ran_on_a_gpu(tmp_path, text, worked):
    (tmp_path / "trace.json").write_text(text)
    assert _recorder_tracer.holds_gpu_work(tmp_path / "trace.json") is worked


# -- which clock counts


def test_a_step_that_waits_for_the_device_is_timed_at_its_borders():
    found = figures.choose([10.0, 11.0, 30.0, 10.0, 12.0], [10.0, 11.0, 30.0, 10.0, 12.0], tail=0.01)
    assert found["measured_ms"] == 11.0 and found["measured_by"] == "host" and found["asynchronous"] is False
    assert (found["measured_p10_ms"], found["measured_p90_ms"]) == (10.0, 30.0)
    assert found["step_ms"] == [10.0, 11.0, 30.0, 10.0, 12.0] and found["host_step_ms"] is None
    assert found["period_ms"] == pytest.approx(73.01 / 5)


def test_a_step_that_waits_for_nothing_is_timed_by_the_device():
    # The host queues four steps in 1 ms each and then waits 36 ms for the device, which takes 9.9 ms for each.
    found = figures.choose([1.0] * 4, [10.3, 9.9, 9.9, 9.9], tail=36.0)
    assert found["measured_ms"] == 9.9 and found["measured_by"] == "cuda_events" and found["asynchronous"] is True
    assert found["host_step_ms"] == [1.0] * 4 and found["period_ms"] == 10.0


def test_work_on_streams_the_events_do_not_see_leaves_the_period():
    found = figures.choose([1.0] * 4, [1.0] * 4, tail=36.0)
    assert found["measured_ms"] == found["period_ms"] == 10.0 and found["measured_by"] == "period"
    assert found["measured_p10_ms"] is None and found["measured_p90_ms"] is None and found["step_ms"] == []


def test_without_a_device_a_wait_after_the_last_step_means_nothing():
    assert figures.choose([1.0, 1.0], None, tail=5.0)["measured_by"] == "host"


class FakeCuda:
    """A GPU that takes 8 ms for a step the host queues at once; its clock is told, not read."""

    def __init__(self):
        self.waits, self.resets, self.recorded = 0, 0, 0

    def is_available(self):
        return True

    is_initialized = is_available

    def synchronize(self):
        self.waits += 1

    def reset_peak_memory_stats(self):
        self.resets += 1

    def max_memory_allocated(self):
        return 1000

    def max_memory_reserved(self):
        return 4000

    def Event(self, enable_timing):
        assert enable_timing
        cuda = self

        class Event:
            def record(self):
                self.at = 8.0 * cuda.recorded
                cuda.recorded += 1

            def elapsed_time(self, later):
                return later.at - self.at

        return Event()


@pytest.fixture
def fake_torch(monkeypatch):
    """What the meter needs of PyTorch: events, the function behind `loss.backward()`, a module without optimizers' hooks. The
    probe needs the real one (tests/python/torch)."""
    monkeypatch.setattr(figures, "probe", lambda *_: {})
    monkeypatch.setitem(sys.modules, "torch.optim.optimizer", SimpleNamespace())
    return lambda cuda: SimpleNamespace(cuda=cuda, autograd=SimpleNamespace(backward=lambda: None))


@pytest.mark.parametrize("memory", [True, False])
def test_the_meter_waits_for_the_device_twice_and_no_more(memory, fake_torch):
    cuda = FakeCuda()
    meter = figures.Meter(fake_torch(cuda), 3, memory)
    meter.begin()
    for now in (0, 0, 0):
        meter.border(meter._borders[0] + now)
    assert cuda.waits == 1
    meter.finish()
    assert cuda.waits == 2 and cuda.recorded == 5 and cuda.resets == memory
    found = meter.figures()
    assert found["measured_steps"] == 3 and found["measured_ms"] == 8.0 and found["measured_by"] == "cuda_events"
    assert (found["peak_bytes"], found["peak_reserved_bytes"]) == ((1000, 4000) if memory else (None, None))


def test_keys_are_the_same_with_and_without_measuring(fake_torch):
    meter = figures.Meter(fake_torch(FakeCuda()), 1, True)
    meter.begin()
    meter.border(meter._borders[0])
    meter.finish()
    assert meter.figures().keys() == figures.unmeasured().keys()


def test_texts_in_metadata_need_no_escape():
    awkward = figures.plain({"device": 'a "b" \\ c\n\té', "list": ["\\"], "n": 1.5, "none": None})
    assert "\\" not in json.dumps(awkward)
    assert awkward == {"device": "a 'b' ' c'''", "list": ["'"], "n": 1.5, "none": None}


# -- files


@pytest.mark.parametrize("path, rank, expected", [
    ("out.json.gz", None, "out.json.gz"), ("out.json.gz", 3, "out.rank3.json.gz"), ("a.b/out.json", 0, "a.b/out.rank0.json"),
    ("w.pt.trace.json.gz", 11, "w.rank11.pt.trace.json.gz"),
])
def test_one_file_per_rank(path, rank, expected):
    assert str(output.rank_path(path, rank)) == expected


@pytest.mark.parametrize("trace, expected", [
    ("out.json.gz", "out.et.json.gz"), ("out.rank3.json.gz", "out.rank3.et.json.gz"), ("out.json", "out.et.json"),
    ("w.pt.trace.json.gz", "w.et.json.gz"),
])
def test_the_execution_trace_is_next_to_the_trace(trace, expected):
    assert str(output.execution_trace_path(output.Path(trace))) == expected


@pytest.mark.parametrize("env, expected", [
    ({}, (None, None)), ({"RANK": "3", "WORLD_SIZE": "8"}, (3, 8)), ({"RANK": " 0 "}, (0, None)), ({"RANK": "x"}, (None, None)),
    ({"RANK": "-1"}, (None, None)), ({"RANK": ""}, (None, None)),
])
def test_the_rank_as_launchers_set_it(monkeypatch, env, expected):
    for variable in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(variable, raising=False)
    for variable, value in env.items():
        monkeypatch.setenv(variable, value)
    dist = SimpleNamespace(is_available=lambda: True, is_initialized=lambda: False)
    assert output.rank_and_world(None) == output.rank_and_world(dist) == expected


def test_the_rank_of_an_initialised_group_comes_first(monkeypatch):
    monkeypatch.setenv("RANK", "3")
    dist = SimpleNamespace(is_available=lambda: True, is_initialized=lambda: True, get_rank=lambda: 5, get_world_size=lambda: 6)
    assert output.rank_and_world(dist) == (5, 6)


@pytest.mark.parametrize("name", ["out.json", "out.json.gz"])
def test_a_file_appears_complete_or_not_at_all(tmp_path, name):
    target = tmp_path / name
    target.write_text("old")
    scratch = output.Scratch(target)
    assert scratch.folder.parent == tmp_path
    made = scratch.folder / "made"
    made.write_bytes(b'{\n"name": "ProfilerStep#4",\n"name": "ProfilerStep#40"\n}')
    assert target.read_text() == "old"
    scratch.add(made, target, (b'"ProfilerStep#4"', b'"unfinished step"'))
    assert target.read_text() == "old"
    scratch.commit()
    assert os.listdir(tmp_path) == [name]
    text = gzip.decompress(target.read_bytes()) if name.endswith(".gz") else target.read_bytes()
    assert text == b'{\n"name": "unfinished step",\n"name": "ProfilerStep#40"\n}'


def test_a_disk_that_fills_up_leaves_the_old_file(tmp_path, monkeypatch):
    target = tmp_path / "out.json"
    target.write_text("old")
    scratch = output.Scratch(target)
    made = scratch.folder / "made"
    made.write_text("new")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(output.shutil, "copyfileobj", full)
    with pytest.raises(OSError, match="No space left"):
        scratch.add(made, target)
    scratch.remove()
    assert os.listdir(tmp_path) == ["out.json"] and target.read_text() == "old"


def test_folders_are_made_and_checked_before_the_training(tmp_path):
    output.check_folder(str(tmp_path / "a" / "b" / "out.json.gz"))
    assert (tmp_path / "a" / "b").is_dir()
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError):
        output.check_folder(str(tmp_path / "file" / "out.json.gz"))
    (tmp_path / "x.json.gz").mkdir()
    with pytest.raises(IsADirectoryError):
        output.check_folder(str(tmp_path / "x.json.gz"))
