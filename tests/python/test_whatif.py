"""Predictions from Python, and what-ifs that users write as functions."""

import json

import foretrace
import numpy as np
import pytest
from foretrace import DEPENDENCY_KINDS, TASK_KINDS, Draft, _core, _whatifs
from helpers import EXAMPLE, ROOT

KERNEL = TASK_KINDS.index("kernel")
MEASURED = 71.6


@pytest.fixture(scope="module")
def step(example):
    return example.step()


@pytest.fixture(scope="module")
def base(step):
    """The step that predictions start from."""
    return step.unprofiled(measured_ms=MEASURED).graph


@pytest.fixture(autouse=True)
def own_whatifs(monkeypatch):
    monkeypatch.setattr(_whatifs, "_own", {})


def try_out(step, function, **options):
    """The prediction of a function of a draft."""
    return step.predict(foretrace.whatif("own")(function), **options)


def same_as_command(prediction, *arguments, capfd):
    assert _core.run(["whatif", str(EXAMPLE), *arguments, "--stack", "--json"]) == 0
    (said,) = json.loads(capfd.readouterr().out)["predictions"]
    assert prediction.whatif == said["whatif"]
    for key in ("ms", "low_ms", "high_ms", "speedup", "gpu_ms"):
        assert getattr(prediction, key) == pytest.approx(said[key], rel=1e-9), key
    for key in ("peak_bytes", "reserved_bytes", "peak_parts", "origin", "validated"):
        assert getattr(prediction, key) == said[key], key
    assert list(prediction.not_modelled) == said["not_modelled"]
    assert [(a.whatif, a.changed) for a in prediction.applied] == [(a["whatif"], a["changed"]) for a in said["applied"]]


# -- the catalogue


def test_one_change_is_what_the_command_says(step, capfd):
    same_as_command(step.predict("fused-optimizer"), "fused-optimizer", capfd=capfd)


def test_the_peak_says_what_it_consists_of(step):
    doubled = step.predict("batch:x=2")
    parts = doubled.peak_parts
    assert sum(parts.values()) == doubled.reserved_bytes
    assert sum(parts.values()) - parts["fragmentation"] == doubled.peak_bytes
    assert parts["activations"] > 1.9 * step.predict("no-sync").peak_parts["activations"]
    assert parts["parameters"] == pytest.approx(4 * 25557032, rel=0.01)


def test_length_and_fp8_of_a_token_model():
    language = foretrace.load(ROOT / "data" / "h200-lengths" / "llama_w4-today.base.json.gz").step()
    now, twice = language.predict("no-sync"), language.predict("sequence:x=2")
    assert 1.8 < twice.gpu_time / now.gpu_time < 2.1 and twice.samples == 1 and twice.validated
    assert language.predict("fp8").validated and not language.predict("fp8:casts=fused").validated
    assert "FP8" in language.predict("gpu:to=A100-SXM4-80GB", "fp8").declined


def test_a_step_without_tokens_has_no_sequence(step):
    assert "no sequence dimension" in step.predict("sequence:x=2").declined


def test_changes_stack_in_order(step, capfd):
    stacked = step.predict("fused-optimizer", "cpu:x=2", measured_ms=MEASURED)
    assert stacked.whatif == "fused-optimizer + cpu:x=2" and len(stacked.applied) == 2
    same_as_command(stacked, "fused-optimizer", "cpu:x=2", "--measured-ms", str(MEASURED), capfd=capfd)


def test_each_alone(step):
    alone = step.each("fused-optimizer", "cpu:x=2")
    assert [p.whatif for p in alone] == ["fused-optimizer", "cpu:x=2"]
    assert [p.step for p in alone] == [step.predict("fused-optimizer").step, step.predict("cpu:x=2").step]
    assert step.each() == []


def test_a_prediction(step):
    p = step.predict("fused-optimizer", measured_ms=MEASURED)
    assert p.declined is None and p.low <= p.step <= p.high and p.ms == p.step / 1e6
    assert p.speedup == pytest.approx(MEASURED / p.ms)
    assert p.graph.simulate().step == pytest.approx(p.step, rel=0.02) and len(p.graph) < len(step)
    assert p.gpu_time == p.graph.cost[p.graph.kind >= KERNEL].sum()
    assert str(p).startswith(f"fused-optimizer: {p.ms:.3f} ms [{p.low_ms:.3f}, {p.high_ms:.3f}], {p.speedup:.3f} x, GPU ")
    assert all(f"not modelled: {text}" in str(p) for text in p.not_modelled)


def test_a_change_that_does_not_apply(step):
    p = step.predict("flash-attention")
    assert p.declined and p.graph is None and p.declined.startswith("flash-attention: no attention")
    assert str(p).startswith("flash-attention: declined. no attention")
    with pytest.raises(foretrace.Error, match="nothing was predicted") as caught:
        p.ms
    assert caught.value.code == "declined"


@pytest.mark.parametrize("wrong, message", [
    ("fused-optimiser", "there is no what-if named 'fused-optimiser'"),
    ("cpu:y=2", "cpu has no parameter 'y'"),
    ("cpu", "cpu needs x="),
    ("cpu:x=many", "cpu:x must be a number"),
])
def test_wrong_uses(step, wrong, message):
    for ask in (step.predict, step.each):
        with pytest.raises(foretrace.Error, match=message):
            ask("fused-optimizer", wrong)


def test_wrong_types(step):
    with pytest.raises(TypeError, match="a what-if is a text like 'batch:x=2' or made by foretrace.whatif, not int"):
        step.predict(3)
    with pytest.raises(ValueError, match="predict needs at least one what-if"):
        step.predict()


def test_predictions_start_from_a_step_as_traced(step, base):
    for graph in (base, foretrace.Graph.parse(step.dump()), step.predict("cpu:x=2").graph):
        with pytest.raises(foretrace.Error, match="not a step as traced") as caught:
            graph.predict("cpu:x=2")
        assert "trace.step()" in caught.value.hint


def test_the_list_of_whatifs():
    all_of_them = {w.name: w for w in foretrace.whatifs()}
    assert list(all_of_them) == sorted(all_of_them) and {"amp", "fused-optimizer", "batch", "cpu"} <= set(all_of_them)
    cpu = all_of_them["cpu"]
    assert [(p.name, p.required) for p in cpu.parameters] == [("x", True)] and cpu.about and cpu.function is None
    dtype = [p for p in all_of_them["amp"].parameters if p.name == "dtype"][0]
    assert not dtype.required and dtype.default in dtype.choices
    with pytest.raises(TypeError, match="use it in Graph.predict"):
        cpu(None)


# -- your own


def test_the_example_of_the_design(step):
    @foretrace.whatif("half-batchnorm", about="batch-norm kernels read their input once")
    def half_batchnorm(g):
        g.scale(g.select(kind="kernel", op="*batch_norm*"), 0.5)
        g.remove(g.select(kind="kernel", op="aten::relu*", after="*batch_norm*"))

    p = step.predict("half-batchnorm", "fused-optimizer", measured_ms=MEASURED)
    assert p.declined is None and p.whatif == "half-batchnorm + fused-optimizer" and not p.validated
    assert "half-batchnorm is not validated against measurements" in p.not_modelled
    names = step.op_names()
    kernels = step.kind == KERNEL
    norm = kernels & np.isin(names, ["aten::cudnn_batch_norm", "aten::cudnn_batch_norm_backward"])
    # Of the 49 ReLUs, 33 follow a batch norm; the others follow an addition.
    behind = np.flatnonzero(kernels & (names == "aten::clamp_min_"))
    behind = behind[norm[behind - 1]]
    assert len(behind) == 33
    alone = step.predict(half_batchnorm, measured_ms=MEASURED)
    assert alone.applied[0].changed == norm.sum() + 33 and len(alone.graph) == len(step) - 33
    base = step.unprofiled(measured_ms=MEASURED).graph
    expected = base.cost[step.kind >= KERNEL].sum() - base.cost[norm].sum() / 2 - base.cost[behind].sum()
    assert alone.gpu_time == pytest.approx(expected, abs=len(norm))
    assert p.step < alone.step < MEASURED * 1e6
    assert "half-batchnorm" in [w.name for w in foretrace.whatifs()]


def test_scale_by_one_and_set_to_the_same_change_nothing(step, base):
    def same(g):
        everything = np.arange(len(g.graph))
        g.scale(everything, 1)
        g.set(everything, g.cost(everything))

    p = try_out(step, same, measured_ms=MEASURED)
    assert (p.graph.cost == base.cost).all() and p.speedup == pytest.approx(1, rel=1e-6)


def test_costs_one_by_one(step):
    seen = {}

    def change(g):
        tasks = g.select(kind="kernel", phase="forward")[:3]
        before = g.cost(tasks)
        g.scale(tasks[:2], [2, 3])
        g.set(tasks[2], 12_345)
        seen["ids"], seen["after"] = tasks, g.cost(tasks)
        assert seen["after"].tolist() == [2 * before[0], 3 * before[1], 12_345]

    p = try_out(step, change)
    assert p.graph.cost[seen["ids"]].tolist() == seen["after"].tolist()
    assert p.origin == "scaled" and p.applied[0].changed == 3


def test_selections(step):
    found = {}

    def look(g):
        names = g.graph.op_names()
        kernels = g.select(kind="kernel")
        assert kernels.tolist() == np.flatnonzero(g.graph.kind == KERNEL).tolist() and kernels.dtype == np.int64
        assert g.select(gpu=True).tolist() == np.flatnonzero(g.graph.kind >= KERNEL).tolist()
        forward = g.select(kind="kernel", op="aten::conv2d")  # the kernels work for aten::cudnn_convolution inside it
        assert set(names[forward]) == {"aten::cudnn_convolution"}
        assert len(g.select(op="aten::no_such_thing")) == 0
        assert set(g.graph.layer_names(g.select(layer="layer1.?.conv1"))) == {f"layer1.{i}.conv1" for i in range(3)}
        assert set(g.graph.names(g.select(name="*bn_fw_tr*")).tolist()) == {n for n in g.graph.names() if "bn_fw_tr" in n}
        optimizer = g.select(kind="kernel", phase="optimizer")
        assert (g.graph.phase[optimizer] == foretrace.PHASES.index("optimizer")).all() and len(optimizer)
        lane = int(g.graph.lane[kernels[0]])
        assert (g.graph.lane[g.select(lane=lane)] == lane).all()
        g.remove(forward[:1])
        assert g.select(kind="kernel").tolist() == [k for k in kernels if k != forward[0]]
        found["all"] = True

    assert try_out(step, look).declined is None and found


def test_remove_with_its_launch(step):
    def take(g, launch):
        g.remove(g.select(kind="kernel", op="aten::lerp_"), launch=launch)

    kernels, both = (try_out(step, lambda g, l=launch: take(g, l)) for launch in (False, True))
    assert len(step) - len(kernels.graph) == 161
    assert len(step) - len(both.graph) >= 322 and both.gpu_time == kernels.gpu_time
    calls = [(p.graph.kind == TASK_KINDS.index("call")).sum() for p in (kernels, both)]
    assert calls[0] - calls[1] == 161


def test_insert(step):
    made = {}

    def cast(g):
        after = g.select(kind="kernel", op="aten::cudnn_convolution", phase="forward")[:5]
        made["ids"] = g.insert("cast", 50_000, after=after)
        again = g.insert("cast of the cast", [7_000], after=made["ids"][:1], cpu_cost=1_000)
        g.scale(again, 2)
        assert g.cost(again).tolist() == [14_000]

    p = try_out(step, cast)
    names = p.graph.names()
    new = np.flatnonzero(names == "cast")
    assert len(new) == len(made["ids"]) == 5 and (p.graph.cost[new] == 50_000).all()
    assert set(p.graph.op_names(new - 1)) <= {"aten::cudnn_convolution", "aten::convolution"}
    calls = p.graph.launch[new]
    assert set(p.graph.names(calls)) == {"launch of cast"} and (p.graph.cost[calls] > 5_000).all()
    assert names[new[0] + 1] == "cast of the cast" and p.graph.cost[new[0] + 1] == 14_000
    assert len(p.graph) == len(step) + 12
    assert p.gpu_time == step.predict("cpu:x=1.5").gpu_time + 5 * 50_000 + 14_000


def test_cpu_work_and_waits(step, base):
    def slow(g):
        g.insert_cpu("logging", 5e6, after=[g.graph.last])
        g.insert_wait("read the loss", after=g.graph.last, until=g.select(gpu=True)[-1:])

    p = try_out(step, slow, measured_ms=MEASURED)
    names = p.graph.names()
    assert p.graph.cost[names == "logging"].tolist() == [5_000_000] and (names == "read the loss").sum() == 1
    assert p.graph.simulate().step >= base.simulate().step + 4_900_000


def test_a_lane_of_its_own(step):
    """Copies on a stream of their own, each behind a kernel, and the step waits for them."""

    def offload(g):
        kernels = g.select(kind="kernel", phase="forward")[:3]
        lane = g.add_lane("offload")
        copies = [g.append(lane, "copy out", 30e6, kind="memcpy", phase="forward") for _ in kernels]
        g.depend(kernels, copies, lag=1_000, kind="stream-wait")
        g.insert_wait("copied", after=g.graph.last, until=copies)

    p = try_out(step, offload)
    lane = p.graph.lanes[-1]
    assert (lane.name, lane.kind, lane.end - lane.begin) == ("offload", "gpu", 3)
    timeline = p.graph.simulate()
    (wait,) = np.flatnonzero(p.graph.names() == "copied")
    assert timeline.start[wait] == timeline.end[lane.end - 1] >= 90_000_000
    assert DEPENDENCY_KINDS[timeline.cause_kind[wait]] == "sync"


def test_schedule_by_priority(step):
    """Transfers of 100, 200 and 400 ms that could start at once; the step waits for the longest, then works on."""

    def network(g, first):
        lane = g.add_lane("network", kind="network")
        ids = [g.append(lane, f"{ms} ms", ms * 1e6, kind="collective") for ms in (100, 200, 400)]
        g.depend(g.select(gpu=True)[:1], ids, kind="collective")
        g.insert_wait("needed", after=g.graph.last, until=ids[-1])
        g.insert_cpu("work with it", 60e6, after=g.graph.last)
        if first:
            g.schedule(ids, [0, 1, 2])

    in_order, longest_first = (try_out(step, lambda g, f=first: network(g, f)) for first in (False, True))
    assert in_order.ms == pytest.approx(760, rel=0.02) and longest_first.ms == pytest.approx(460, rel=0.02)
    assert in_order.step - longest_first.step == pytest.approx(300e6, rel=1e-3)


def test_another_order_alone_is_a_change(step):
    def shuffle(g):
        g.schedule(g.select(gpu=True, phase="optimizer"), 1)

    assert try_out(step, shuffle).declined is None


def test_declines_and_remarks(step):
    def never(g):
        g.decline("there is no recurrent layer here")

    def partly(g):
        g.scale(g.select(kind="kernel"), 0.9)
        g.not_modelled("the clock of the GPU")

    assert try_out(step, never).declined == "own: there is no recurrent layer here"
    assert "the clock of the GPU" in try_out(step, partly).not_modelled
    assert try_out(step, lambda g: None).declined == "own: nothing in this step would change"


def test_a_cycle_is_declined(step):
    def knot(g):
        kernel = g.select(kind="kernel")[:1]
        g.depend(kernel, g.graph.launch[kernel])

    assert "cycle" in try_out(step, knot).declined


def test_a_dependency_alone_is_a_change(step):
    """Every forward kernel waits for the whole forward pass on the CPU."""

    def late(g):
        kernels = g.select(kind="kernel", phase="forward")
        g.depend(g.graph.launch[kernels[-1:]], kernels, kind="launch")

    base = step.predict("cpu:x=1.000001", measured_ms=MEASURED)
    p = try_out(step, late, measured_ms=MEASURED)
    assert p.declined is None and p.step > base.step and p.gpu_time == base.gpu_time


def test_exceptions_of_the_function_come_through(step):
    class Mine(Exception):
        pass

    def broken(g):
        raise Mine("at home")

    with pytest.raises(Mine, match="at home"):
        try_out(step, broken)
    with pytest.raises(foretrace.Error, match="no what-if named 'ampp'"):
        try_out(step, lambda g: step.predict("ampp"))
    assert try_out(step, lambda g: g.scale(step.predict("cpu:x=2") and [5], 2)).declined is None  # one inside another


@pytest.mark.parametrize("wrong, error, message", [
    (lambda g: g.scale([99_999_999], 2), IndexError, "there is no task 99999999; there are 15008"),
    (lambda g: g.scale([-1], 2), IndexError, "there is no task -1"),
    (lambda g: g.scale([1], -2), ValueError, "a factor must be 0 or more, and finite: not -2"),
    (lambda g: g.scale([1, 2], [1, 2, 3]), ValueError, "scale needs one value, or one for each of the 2 tasks: not 3"),
    (lambda g: g.scale([1], float("nan")), ValueError, "a factor must be"),
    (lambda g: g.set([1], -5), ValueError, "a cost in ns must be 0 or more, and finite: not -5"),
    (lambda g: g.set([1], 1e30), ValueError, "a cost in ns must be"),
    (lambda g: g.set([1], "much"), TypeError, "a number, or one for each task, is needed"),
    (lambda g: g.scale(g.graph.kind == KERNEL, 2), TypeError, "np.flatnonzero"),
    (lambda g: g.scale([0.5], 2), TypeError, "tasks are named by whole numbers in a row, not float64"),
    (lambda g: g.remove([0]), ValueError, "task 0 is the begin of the step and stays"),
    (lambda g: g.remove(g.insert("k", 1, after=g.select(gpu=True)[:1])), ValueError, "cannot be removed"),
    (lambda g: g.select(kind="kernal"), ValueError, "there is no kind of task 'kernal'; there are begin, cpu, call"),
    (lambda g: g.select(phase="backwards"), ValueError, "there is no phase 'backwards'; there are forward, backward"),
    (lambda g: g.insert("k", 1, after=[1]), ValueError, "task 1 is not on the GPU"),
    (lambda g: g.insert("k", 1, after=g.select(gpu=True)[:1], kind="cpu"), ValueError, "insert makes GPU tasks, not 'cpu'"),
    (lambda g: g.insert_cpu("c", 1, after=g.select(gpu=True)[:1]), ValueError, "CPU work follows CPU work"),
    (lambda g: g.append(0, "x", 1), IndexError, "lane 0 was not added by this what-if"),
    (lambda g: g.append(g.add_lane("x", "cpu"), "x", 1), ValueError, "'kernel' does not run on a CPU lane"),
    (lambda g: g.add_lane("x", "tpu"), ValueError, "there is no kind of lane 'tpu'; there are cpu, gpu, network"),
    (lambda g: g.depend([1, 2], [3, 4, 5]), ValueError, "as many tasks on both sides, or one: not 2 and 3"),
    (lambda g: g.depend(1, 2, kind="queue"), ValueError, "'queue' comes from the order of a lane or from the device"),
    (lambda g: g.depend(1, 2, lag=-1), ValueError, "a lag in ns must be 0 or more"),
    (lambda g: g.schedule([1], float("nan")), ValueError, "a priority must be a number"),
])
def test_wrong_use_of_a_draft(step, wrong, error, message):
    with pytest.raises(error, match=message):
        try_out(step, wrong)


def test_a_draft_ends_with_its_function(step):
    kept = []
    try_out(step, lambda g: (kept.append(g), g.scale([5], 2)))
    with pytest.raises(ValueError, match="this draft is finished"):
        kept[0].scale([5], 2)
    with pytest.raises(ValueError, match="this draft is finished"):
        kept[0].select(kind="kernel")
    assert isinstance(kept[0], Draft)


# -- names and parameters


def test_parameters_come_from_the_signature(step):
    got = []

    @foretrace.whatif("mine")
    def mine(g, x=0.5, n=3, layers="all", *, which=None):
        """Kernels get faster.

        And more."""
        got.append((x, n, layers, which))
        g.scale(g.select(kind="kernel"), x)

    assert mine.about == "Kernels get faster." and [p.name for p in mine.parameters] == ["x", "n", "layers", "which"]
    step.predict("mine")
    step.predict("mine:x=2,n=7,layers='a,b=c'")
    step.predict('mine:layers="x:y",which=conv*')
    assert got == [(0.5, 3, "all", None), (2.0, 7, "a,b=c", None), (0.5, 3, "x:y", "conv*")]
    assert step.predict("mine:x=2").whatif == "mine:x=2"


@pytest.mark.parametrize("text, message", [
    ("mine:y=1", "mine has no parameter 'y'\n  hint: mine takes: x, need"), ("mine:need=1,x=soon", "mine:x must be a number, not"),
    ("mine:need=1,x=1.5", "a whole number is needed, not '1.5'"),
    ("mine", "mine needs need=…"), ("mine:need", "'need' in 'mine:need' is not key=value"),
    ("mine:need='a", "a quote is not closed"), ("mien:need=1", "there is no what-if named 'mien'"),
])
def test_wrong_parameters(step, text, message):
    @foretrace.whatif("mine")
    def mine(g, x=1, *, need):
        raise AssertionError("not reached")

    with pytest.raises(foretrace.Error, match=message):
        step.predict(text)


def test_names(step):
    for wrong in ("", "a b", "a:b", "a,b", "it's"):
        with pytest.raises(ValueError, match="cannot name a what-if"):
            foretrace.whatif(wrong)(lambda g: None)
    with pytest.raises(ValueError, match="the catalogue has a what-if named 'amp'"):
        foretrace.whatif("amp")(lambda g: None)
    with pytest.raises(TypeError, match="must take a draft as its first argument"):
        foretrace.whatif("own")(lambda: None)
    with pytest.raises(TypeError, match="must have names"):
        foretrace.whatif("own")(lambda g, *rest: None)
    first = foretrace.whatif("own")(lambda g: g.scale([5], 2))
    second = foretrace.whatif("own")(lambda g: g.scale([5, 6], 2))  # a cell of a notebook that runs again
    assert step.predict("own").applied[0].changed == 2 and step.predict(first).applied[0].changed == 1
    with pytest.raises(TypeError, match="already"):
        foretrace.whatif("other")(second)


def test_what_it_leaves_out_is_said(step):
    own = foretrace.whatif("own", not_modelled="the weather")(lambda g: g.scale([5], 2))
    assert "the weather" in step.predict(own).not_modelled


def test_another_gpu(step, tmp_path):
    same = step.on("H200-SXM", measured_ms=MEASURED)
    assert same.ms == MEASURED and same.origin == "measured"
    slower = step.on("A100-SXM4-80GB", measured_ms=MEASURED)
    assert slower.ms > MEASURED and slower.low_ms <= slower.ms <= slower.high_ms
    both = step.on("A100-SXM4-80GB", "amp", measured_ms=MEASURED)
    assert both.whatif == "amp + gpu:to=A100-SXM4-80GB"
    assert both.gpu_ms < slower.gpu_ms
    assert step.on("B200", cpu=0.2, measured_ms=MEASURED).ms > step.on("B200", measured_ms=MEASURED).ms
    slow = tmp_path / "a host, slow.csv"
    slow.write_text("# figure,value,sample,spread\nspeed,8,a test,0\n")
    there = step.on("B200", host=slow, measured_ms=MEASURED)
    assert there.ms > step.on("B200", measured_ms=MEASURED).ms
    with pytest.raises(foretrace.Error):
        step.on("B200", host=tmp_path / "no-such-host.csv")
    amd = step.on("MI300X")
    assert amd.declined is None and amd.low_ms < amd.ms < amd.high_ms and amd.origin == "modelled"
    with pytest.raises(foretrace.Error):
        step.on("H999")
