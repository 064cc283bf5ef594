"""Recordings of small trainings on the CPU."""

import gzip
import json
import os
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path

import foretrace
import pytest
import torch
from foretrace.recorder import RecordingWarning, record, recorded, recorded_figures

torch.set_num_threads(1)
SHORT = dict(steps=2, measure=4, warmup=1)
NEEDED = 1 + 4 + 3 + 2


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(32, 32)
        self.act = torch.nn.ReLU()

    def forward(self, x):
        return x + self.act(self.linear(x))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(Block(), Block())
        self.attention = torch.nn.MultiheadAttention(32, 4, batch_first=True)
        self.head = torch.nn.Linear(32, 4)

    def forward(self, x):
        x = self.body(x)
        return self.head(self.attention(x, x, x)[0])


LEAVES = {"body.0.linear|Linear", "body.0.act|ReLU", "body.1.linear|Linear", "body.1.act|ReLU", "head|Linear",
          "attention|MultiheadAttention"}


class Training:
    """A loop whose step is `training.step()`; anything left behind in the model shows in `hooks()`."""

    def __init__(self):
        torch.manual_seed(0)
        self.net = Net()
        self.optimizer = torch.optim.Adam(self.net.parameters())
        self.steps = 0

    def step(self):
        self.optimizer.zero_grad()
        self.net(torch.randn(2, 8, 32)).square().mean().backward()
        self.optimizer.step()
        self.steps += 1

    def run(self, recorder, steps):
        for _ in range(steps):
            self.step()
            recorder.step()

    def hooks(self):
        own = sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in self.net.modules())
        return own + len(torch.nn.modules.module._global_forward_pre_hooks)


@pytest.fixture
def training():
    return Training()


def layer_names(trace):
    return [n.removeprefix("layer:") for n in trace.names(trace.select("annotation")) if n.startswith("layer:")]


def profiler_runs():
    return torch.autograd._profiler_enabled()


# -- a complete recording


def test_a_recording_holds_steps_layers_and_figures(training, tmp_path):
    path = tmp_path / "deep" / "out.json.gz"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with record(path, **SHORT, model=training.net) as r:
            assert r.steps_needed == NEEDED
            phases = []
            for _ in range(NEEDED + 5):
                phases.append(r.phase)
                training.step()
                r.step()
    assert phases == ["warm-up"] + ["measure"] * 4 + ["settle"] * 3 + ["trace"] * 2 + ["done"] * 5
    assert r.done and training.hooks() == 0 and not profiler_runs()
    assert os.listdir(path.parent) == ["out.json.gz"] and r.path == path

    trace = foretrace.load(path, strict=True)
    assert [s.name for s in trace.steps] == ["ProfilerStep#3", "ProfilerStep#4"]
    assert trace.steps.source == "ProfilerStep ranges"
    layers = layer_names(trace)
    assert set(layers) == LEAVES and len(layers) == 2 * len(LEAVES)
    for step in trace.steps:
        assert len(trace.select("cpu_op", name="aten::addmm", step=step)) > 0
        assert len(trace.select(name="Optimizer.step#Adam.step", step=step)) == 1
    assert len(trace.select("memory")) > 0
    assert any(trace.arg("Input Dims", trace.select("cpu_op", name="aten::addmm")))

    found = recorded_figures(trace)
    assert found == r.figures
    assert found["version"] == 1 and found["measured_steps"] == 4 and found["traced_steps"] == 2
    assert len(found["step_ms"]) == 4 and found["measured_by"] == "host" and found["missing"] == []
    assert 0 < found["measured_p10_ms"] <= found["measured_ms"] <= found["measured_p90_ms"]
    assert 0 < found["thread_cpu_ms_per_step"] <= 1.05 * found["period_ms"]
    assert found["thread_cpu_ms_per_step"] <= found["cpu_ms_per_step"] * 1.05
    assert set(found["phase_ms"]) == {"forward", "backward", "update"} == set(found["traced_phase_ms"])
    assert all(v > 0 for v in (*found["phase_ms"].values(), *found["traced_phase_ms"].values()))
    assert sum(found["phase_ms"].values()) <= 1.5 * max(found["step_ms"])
    assert found["phase_behind_ms"] == {"forward": None, "backward": None, "update": None}
    assert 0 < found["probe"]["python_us"] < found["probe"]["view_us"] and found["probe"]["event_us"] >= 0
    assert found["cores_shared"] in (True, False, None)
    assert found["layer_ranges"] == len(LEAVES) and found["device"] == "cpu" and found["peak_bytes"] is None
    assert found["torch"] == torch.__version__ and found["host_cpu_count"] == os.cpu_count()
    assert found["rank"] is None and found["warmup_steps"] == 1
    for step, host_ms in zip(trace.steps, found["traced_host_ms"]):
        assert step.ms == pytest.approx(host_ms, abs=2.0)


def test_ranges_lie_around_the_operations_of_their_layer(training, tmp_path):
    with record(tmp_path / "out.json.gz", **SHORT, model=training.net) as r:
        training.run(r, NEEDED)
    trace = foretrace.load(r.path)
    ranges = trace.select("annotation", name="layer:head|Linear")
    ops = trace.select("cpu_op", name="aten::linear")
    for one in ranges:
        begin, end = trace.start[one], trace.start[one] + trace.duration[one]
        assert sum(begin <= trace.start[op] and trace.start[op] + trace.duration[op] <= end for op in ops) == 1


def test_the_model_is_found_when_none_is_given(training, tmp_path):
    loss = torch.nn.MSELoss()
    with record(tmp_path / "out.json.gz", **SHORT) as r:
        for _ in range(NEEDED):
            training.optimizer.zero_grad()
            loss(training.net(torch.randn(2, 8, 32)), torch.zeros(2, 8, 4)).backward()
            training.optimizer.step()
            r.step()
    assert set(layer_names(foretrace.load(r.path))) == LEAVES | {"MSELoss|MSELoss"}
    assert training.hooks() == 0 and r.figures["missing"] == []


def test_several_models_keep_apart(tmp_path):
    nets = [torch.nn.Sequential(torch.nn.Linear(8, 8)) for _ in range(3)]
    with record(tmp_path / "out.json.gz", **SHORT, model=nets) as r:
        for _ in range(NEEDED):
            x = torch.randn(2, 8)
            for net in nets:
                x = net(x)
            r.step()
    assert set(layer_names(foretrace.load(r.path))) == {"0|Linear", "Sequential.0|Linear", "Sequential2.0|Linear"}


def test_flags_leave_out_what_they_name(training, tmp_path):
    with record(tmp_path / "out.json", **SHORT | dict(measure=0), layers=False, memory=False, shapes=False) as r:
        training.run(r, 1 + 3 + 2)
    assert r.done
    trace = foretrace.load(tmp_path / "out.json")
    assert layer_names(trace) == [] and len(trace.select("memory")) == 0
    assert not any(trace.arg("Input Dims", trace.select("cpu_op")))
    found = recorded_figures(trace)
    assert found["measured_ms"] is None and found["measured_steps"] == 0 and found["layer_ranges"] == 0
    assert len(trace.steps) == 2


def test_the_execution_trace_names_the_same_operations(training, tmp_path, capfd):
    """It observes a step of its own behind the traced ones, which are no longer for it."""
    with record(tmp_path / "out.json.gz", **SHORT, execution_trace=True) as r:
        assert r.steps_needed == NEEDED + 1
        training.run(r, NEEDED + 1)
    assert r.done and sorted(os.listdir(tmp_path)) == ["out.et.json.gz", "out.json.gz"] and r.figures["missing"] == []
    assert "compressing" not in capfd.readouterr().out
    nodes = json.loads(gzip.decompress((tmp_path / "out.et.json.gz").read_bytes()))["nodes"]
    seen = {a["value"]: n["name"] for n in nodes for a in n["attrs"] if a["name"] == "rf_id"}
    trace = foretrace.load(r.path)
    assert len(trace.steps) == 2 and r.figures["traced_steps"] == 2
    ops = trace.select("cpu_op", name="aten::addmm")
    told = [seen.get(trace.op_ids[trace.side[op]]["record_function_id"]) == "aten::addmm" for op in ops]
    assert len(ops) % 3 == 0 and told == [False] * (len(ops) * 2 // 3) + [True] * (len(ops) // 3)


def test_a_loop_that_ends_before_the_observed_step_leaves_its_trace(training, tmp_path):
    with pytest.warns(RecordingWarning, match="no execution trace next to it"):
        with record(tmp_path / "out.json.gz", **SHORT, execution_trace=True) as r:
            training.run(r, NEEDED)
    assert os.listdir(tmp_path) == ["out.json.gz"] and len(foretrace.load(r.path).steps) == 2
    assert r.figures["missing"] == ["execution trace: the loop ended before the step that was to be observed"]


def test_an_observer_of_the_users_own_is_left_alone(training, tmp_path):
    own = torch.profiler.ExecutionTraceObserver()
    own.register_callback(str(tmp_path / "own.json"))
    try:
        with record(tmp_path / "out.json.gz", **SHORT, execution_trace=True) as r:
            training.run(r, NEEDED)
        assert r.done
        own.start()
        training.step()
    finally:
        own.unregister_callback()
    assert any(n["name"] == "aten::addmm" for n in json.loads((tmp_path / "own.json").read_text())["nodes"])
    assert sorted(os.listdir(tmp_path)) == ["out.json.gz", "own.json"]
    assert r.figures["missing"] == ["execution trace: this process already has an observer, or PyTorch none to offer"]


# -- the model's own ways


def test_layers_that_raise_or_run_twice_close_their_ranges(training, tmp_path):
    """Checkpointing runs a forward again on the autograd thread and ends it by an exception."""
    from torch.utils.checkpoint import checkpoint

    with record(tmp_path / "out.json.gz", **SHORT, model=training.net) as r:
        for _ in range(NEEDED):
            checkpoint(training.net, torch.randn(2, 8, 32), use_reentrant=False).sum().backward()
            r.step()
    trace = foretrace.load(r.path, strict=True)
    events = trace.select("annotation")
    layers = [e for e in events if trace.strings[trace.name_id[e]].startswith("layer:")]
    assert len(layers) >= 2 * (2 * len(LEAVES) - 1)
    limit = max(s.end for s in trace.steps)
    assert all(trace.start[e] + trace.duration[e] <= limit for e in layers)
    assert training.hooks() == 0


def test_outputs_and_inputs_pass_through_unchanged(training, tmp_path):
    x = torch.randn(2, 8, 32)
    training.net.eval()
    expected = training.net(x)
    with record(tmp_path / "out.json.gz", **SHORT, model=training.net) as r:
        for _ in range(NEEDED):
            assert torch.equal(training.net(x), expected)
            r.step()
    assert len(layer_names(foretrace.load(r.path))) == 2 * len(LEAVES)


def test_a_compiled_model_is_not_compiled_again(training, tmp_path):
    from torch._dynamo.utils import counters

    compiled = torch.compile(training.net, backend="eager")
    x = torch.randn(2, 8, 32)
    try:
        for model in (None, compiled):
            with warnings.catch_warnings():
                warnings.simplefilter("error", UserWarning)
                with record(tmp_path / "out.json.gz", **SHORT, model=model) as r:
                    for i in range(NEEDED + 1):
                        compiled(x).sum().backward()
                        r.step()
                        if i == 0:
                            graphs = counters["stats"]["unique_graphs"]
            assert counters["stats"]["unique_graphs"] == graphs and r.done
            assert len(foretrace.load(r.path).steps) == 2
            assert training.hooks() == 0
            if model is None:
                assert r.figures["missing"] == [
                    "layer ranges: part of the program is compiled; pass model= for those of the rest"]
    finally:
        torch._dynamo.reset()
        counters.clear()


@pytest.mark.skipif(torch.cuda.is_available() and torch.cuda.is_initialized(), reason="a GPU is in use")
def test_a_recording_without_gpu_work_says_so(training, tmp_path):
    with pytest.warns(RecordingWarning, match=r"nothing ran on a GPU in the traced steps.*out\.json\.gz"):
        with record(tmp_path / "out.json.gz", **SHORT) as r:
            training.run(r, NEEDED)
    assert r.path.exists()


# -- loops that end otherwise


def test_a_loop_that_ends_while_tracing_leaves_the_steps_it_had(training, tmp_path):
    with pytest.warns(RecordingWarning, match=r"ended early: .*out\.json\.gz holds 1 of 3 steps"):
        with record(tmp_path / "out.json.gz", steps=3, measure=4, warmup=1) as r:
            training.run(r, 1 + 4 + 3 + 1)
    trace = foretrace.load(r.path, strict=True)
    assert [s.name for s in trace.steps] == ["ProfilerStep#3"]
    assert len(trace.select("annotation", name="unfinished step")) == 1
    assert recorded_figures(trace)["missing"] == ["2 of 3 traced steps: the loop ended early"]
    assert recorded_figures(trace)["traced_steps"] == 1
    assert training.hooks() == 0 and not profiler_runs()


@pytest.mark.parametrize("steps, phase, timed", [
    (0, "warm-up", "nothing was timed"), (1, "measure", "0 of 4 steps were timed"), (3, "measure", "2 of 4 steps were timed"),
    (5, "settle", r"a step takes \d+\.\d+ ms"), (8, "trace", r"a step takes \d+\.\d+ ms"),
])
def test_a_loop_that_ends_before_says_what_is_missing(training, tmp_path, steps, phase, timed):
    expected = rf"ended in phase '{phase}' before a step was traced.*; {timed}\. This recording needs {NEEDED} steps"
    with pytest.warns(RecordingWarning, match=expected):
        with record(tmp_path / "out.json.gz", **SHORT) as r:
            training.run(r, steps)
    assert r.done and r.figures is None and os.listdir(tmp_path) == []
    assert training.hooks() == 0 and not profiler_runs()


@pytest.mark.parametrize("steps", [0, 3, 6, 9])
@pytest.mark.parametrize("error", [ValueError("mine"), KeyboardInterrupt()])
def test_exceptions_pass_and_leave_no_file(training, tmp_path, steps, error):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(type(error)) as caught:
            with record(tmp_path / "out.json.gz", **SHORT, execution_trace=True) as r:
                training.run(r, steps)
                raise error
    assert caught.value is error
    assert r.done and os.listdir(tmp_path) == [] and training.hooks() == 0 and not profiler_runs()


def test_an_exception_after_the_recording_leaves_the_file(training, tmp_path):
    with pytest.raises(ValueError):
        with record(tmp_path / "out.json.gz", **SHORT) as r:
            training.run(r, NEEDED)
            raise ValueError
    assert len(foretrace.load(r.path).steps) == 2


def test_an_exception_leaves_an_older_file(training, tmp_path):
    (tmp_path / "out.json.gz").write_text("old")
    with pytest.raises(ValueError):
        with record(tmp_path / "out.json.gz", **SHORT) as r:
            training.run(r, NEEDED - 1)
            raise ValueError
    assert (tmp_path / "out.json.gz").read_text() == "old"


# -- recordings that fail


def expect_training_goes_on(training, tmp_path, message, path=None, **options):
    with pytest.warns(RecordingWarning) as caught:
        with record(path or tmp_path / "out.json.gz", **SHORT | options) as r:
            training.run(r, NEEDED + 3)
    ours = [str(w.message) for w in caught if issubclass(w.category, RecordingWarning)]
    assert len(ours) == 1 and message in ours[0] and "the training goes on" in ours[0]
    assert training.steps == NEEDED + 3 and r.done and training.hooks() == 0
    assert not any(p.name.startswith(".foretrace") for p in tmp_path.iterdir())


def test_a_folder_that_cannot_be_made(training, tmp_path):
    (tmp_path / "file").write_text("")
    expect_training_goes_on(training, tmp_path, "failed in phase 'warm-up'", path=tmp_path / "file" / "out.json.gz")


def test_a_disk_that_is_full(training, tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("foretrace._recorder_output._copy", full)
    expect_training_goes_on(training, tmp_path, "failed in phase 'trace' and wrote no file; the training goes on: OSError")
    assert os.listdir(tmp_path) == [] and not profiler_runs()


def test_a_profiler_that_will_not_start(training, tmp_path, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("no CUPTI\nmore")

    monkeypatch.setattr(torch.profiler, "profile", broken)
    expect_training_goes_on(training, tmp_path, "RuntimeError: no CUPTI", execution_trace=True)


def test_another_profiler_is_left_running(training, tmp_path):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as own:
        expect_training_goes_on(training, tmp_path, "another profiler is already running")
        assert profiler_runs()
    assert sum(e.name == "Optimizer.step#Adam.step" for e in own.events()) == NEEDED + 3


def test_warnings_made_fatal_do_not_stop_a_training(training, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with record(tmp_path / "file" / "out.json.gz") as r:
            training.run(r, 2)
    assert "foretrace: the recording failed" in capsys.readouterr().err


def test_nothing_happens_after_the_last_step(training, tmp_path):
    with record(tmp_path / "out.json.gz", **SHORT) as r:
        training.run(r, NEEDED)
        written = r.path.stat().st_mtime_ns
        before = dict(vars(r))
        training.run(r, 3)
        r.start()
    r.close()
    r.abort()
    assert vars(r) == before and r.path.stat().st_mtime_ns == written


# -- other forms


def test_a_decorated_step(training, tmp_path):
    @recorded(tmp_path / "out.json.gz", **SHORT)
    def train_step(a, *, b):
        """one step"""
        training.step()
        return a + b

    assert train_step.__name__ == "train_step" and train_step.__doc__ == "one step"
    for i in range(NEEDED + 2):
        assert not train_step.recorder.done or i >= NEEDED
        assert train_step(i, b=1) == i + 1
    assert train_step.recorder.done and len(foretrace.load(tmp_path / "out.json.gz").steps) == 2
    assert training.hooks() == 0


def test_a_decorated_step_that_raises(training, tmp_path):
    @recorded(tmp_path / "out.json.gz", **SHORT)
    def train_step(fail):
        if fail:
            raise ValueError("mine")
        training.step()

    for _ in range(NEEDED - 1):
        train_step(False)
    with pytest.warns(RecordingWarning, match="stopped in phase 'trace' and wrote no file: train_step raised ValueError"):
        with pytest.raises(ValueError, match="mine"):
            train_step(True)
    train_step(False)
    assert os.listdir(tmp_path) == [] and training.hooks() == 0 and not profiler_runs()


def test_only_functions_that_do_a_whole_step_are_decorated(tmp_path):
    async def later():
        pass

    def several():
        yield

    for function in (later, several):
        with pytest.raises(TypeError, match="does not end when its call returns"):
            recorded(tmp_path / "out.json.gz")(function)


def test_a_callback_of_a_loop_of_ones_own(training, tmp_path):
    r = record(tmp_path / "out.json.gz", **SHORT)
    callback = r.callback()
    callback.on_train_begin(model=training.net)
    for _ in range(NEEDED):
        training.step()
        callback.on_step_end()
    callback.on_train_end()
    assert set(layer_names(foretrace.load(r.path))) == LEAVES


def test_steps_without_a_beginning(training, tmp_path):
    """`step` alone starts the recording; the first call marks a border only."""
    r = record(tmp_path / "out.json.gz", **SHORT)
    training.run(r, NEEDED)
    assert r.phase == "trace"
    training.run(r, 1)
    assert r.done and len(foretrace.load(r.path).steps) == 2


# -- processes


SCRIPT = """
    import sys, torch
    sys.path.insert(0, {here!r})
    from test_recording import Training, SHORT, NEEDED
    from foretrace.recorder import record, recorded
    training = Training()
"""


def spawn(code, **env):
    text = textwrap.dedent(SCRIPT).format(here=str(Path(__file__).parent)) + textwrap.dedent(code)
    return subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env=os.environ | env)


def test_each_rank_writes_its_file(tmp_path):
    code = f"""
        with record({str(tmp_path / 'out.json.gz')!r}, **SHORT) as r:
            training.run(r, NEEDED)
        print(r.path)
    """
    ranks = [spawn(code, RANK=str(rank), WORLD_SIZE="2") for rank in range(2)]
    for rank, process in enumerate(ranks):
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        assert out.strip().endswith(f"out.rank{rank}.json.gz")
    assert sorted(os.listdir(tmp_path)) == ["out.rank0.json.gz", "out.rank1.json.gz"]
    for rank in range(2):
        found = recorded_figures(foretrace.load(tmp_path / f"out.rank{rank}.json.gz"))
        assert (found["rank"], found["world_size"]) == (rank, 2)


def test_ranks_of_a_group_without_launcher_variables(tmp_path):
    code = f"""
        import torch.distributed as dist
        dist.init_process_group("gloo", init_method={'file://' + str(tmp_path / 'meet')!r}, rank={{rank}},
                                world_size=2)
        net = torch.nn.parallel.DistributedDataParallel(training.net)
        with record({str(tmp_path / 'out.json.gz')!r}, **SHORT, model=net) as r:
            for _ in range(NEEDED):
                net(torch.randn(2, 8, 32)).sum().backward()
                r.step()
        dist.destroy_process_group()
    """
    ranks = [spawn(code.replace("{rank}", str(rank))) for rank in range(2)]
    for process in ranks:
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
    for rank in range(2):
        trace = foretrace.load(tmp_path / f"out.rank{rank}.json.gz")
        assert trace.distributed.rank == rank and trace.distributed.world_size == 2
        assert set(layer_names(trace)) == LEAVES  # without DistributedDataParallel's "module."


def test_a_decorated_training_that_ends_early_writes_at_exit(tmp_path):
    code = f"""
        step = recorded({str(tmp_path / 'out.json.gz')!r}, **SHORT)(training.step)
        for _ in range(NEEDED - 1): step()
    """
    process = spawn(code)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0 and "holds 1 of 2 steps" in err, err
    assert [s.name for s in foretrace.load(tmp_path / "out.json.gz").steps] == ["ProfilerStep#3"]


def test_phases_leave_pytorch_as_it_was(tmp_path):
    from torch.optim import optimizer
    backward = torch.autograd.backward
    before = len(optimizer._global_optimizer_pre_hooks), len(optimizer._global_optimizer_post_hooks)
    training = Training()
    for ends_early in (False, True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with record(tmp_path / "out.json", **SHORT) as r:
                for _ in range(3 if ends_early else r.steps_needed):
                    training.step()
                    r.step()
        assert torch.autograd.backward is backward
        assert (len(optimizer._global_optimizer_pre_hooks), len(optimizer._global_optimizer_post_hooks)) == before


def test_phases_of_accumulated_steps_add_up(tmp_path):
    training = Training()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with record(tmp_path / "out.json", steps=1, measure=6, warmup=1) as r:
            for _ in range(r.steps_needed):
                for _ in range(3):
                    training.net(torch.randn(2, 8, 32)).square().mean().backward()
                training.optimizer.step()
                r.step()
    found = r.figures["phase_ms"]
    assert all(v > 0 for v in found.values())
    assert sum(found.values()) <= 1.5 * max(r.figures["step_ms"])


def test_calibrate_writes_what_host_reads(tmp_path):
    from foretrace import _calibrate
    file = tmp_path / "host.csv"
    assert _calibrate.main(["--seconds", "0.2", "-o", str(file)]) == 0
    lines = [line.split(",") for line in file.read_text().splitlines() if not line.startswith("#")]
    assert [name for name, *_ in lines] == ["view_us", "event_us"] and all(float(v) > 0 for _, v, *_ in lines)
    assert _calibrate.main(["--secnods", "1"]) == 2 and _calibrate.main(["--seconds", "0"]) == 2
