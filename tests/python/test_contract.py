"""What a what-if of the user's says of itself, and what the API makes of it."""

import time
from typing import Literal

import foretrace as ft
import numpy as np
import pytest


@pytest.fixture(scope="module")
def step(example):
    return example.step()


@pytest.fixture(scope="module")
def now(step):
    return step.predict("no-sync").peak_bytes


def test_a_what_if_says_what_it_is():
    @ft.whatif("told", about="a", assumes="b", source="c", not_modelled="d", needs=["shapes"], changes="kernels",
               parts=ft.Parts(memory="modelled"), code="e", effort="one line", stage="runtime", advise=["told:x=2"],
               parameters={"x": "f"})
    def told(g, x=1.0, mode: Literal["fast", "slow"] = "fast", deep=False):
        pass

    (listed,) = [w for w in ft.whatifs() if w.name == "told"]
    assert listed is told
    assert told.needs == ("shapes",) and told.changes == "kernels" and told.parts == ft.Parts("modelled", "modelled", "modelled")
    assert [p.choices for p in told.parameters] == [(), ("fast", "slow"), ("0", "1")] and told.parameters[0].about == "f"
    assert told.use(x=2, mode="slow", deep=True) == "told:x=2,mode=slow,deep=1"
    assert told.use(mode=["a,b", "c"]) == "told:mode='a,b|c'"
    ft.whatif("told")(lambda g: None)  # no longer advised


def test_those_of_the_catalogue_say_the_same():
    known = {w.name: w for w in ft.whatifs()}
    assert known["amp"].changes == "precision" and known["amp"].parts.memory == "modelled"
    assert known["checkpoint"].needs == ("a backward pass",) and known["batch"].advise == ("batch:x=2", "batch:x=4")
    assert known["batch"].use(x=2) == "batch:x=2" and known["amp"].measured_rows > 0


@pytest.mark.parametrize("given, message", [
    ({"needs": ["shape"]}, "there is no need 'shape'; there are shapes, a backward pass, layer ranges"),
    ({"changes": "everything"}, "there is no kind of change 'everything'; there are costs, batch"),
    ({"parts": ft.Parts(cpu="guessed")}, "there is no answer for a part 'guessed'; there are unchanged, modelled, not modelled"),
    ({"effort": "none"}, "there is no effort 'none'; there are one line"),
    ({"stage": "first"}, "there is no stage 'first'; there are batch"),
    ({"advise": ["amp"]}, "wrong advises 'amp', which is not a use of it"),
    ({"advise": ["wrong:y=1"]}, "wrong has no parameter 'y'"),
])
def test_wrong_contracts(given, message):
    with pytest.raises(ValueError, match=message):
        ft.whatif("wrong", **given)(lambda g, x=1.0: None)
    assert "wrong" not in [w.name for w in ft.whatifs()]


def test_parameters_are_converted_and_checked(step):
    seen = []

    @ft.whatif("typed", parameters={"n": "how many"})
    def typed(g, n=1, mode: Literal["fast", "slow"] = "fast", deep=False, text="a"):
        seen.append((n, mode, deep, text))
        g.scale(g.select(kind="kernel"), 0.9)

    step.predict("typed:n=3,mode=slow,deep=1,text='x,y'")
    step.predict("typed")
    assert seen == [(3, "slow", True, "x,y"), (1, "fast", False, "a")]
    for use, message in (("typed:n=1.5", "a whole number is needed, not '1.5'"), ("typed:mode=other", "cannot be 'other'"),
                         ("typed:deep=2", "cannot be '2'")):
        with pytest.raises(ft.UsageError, match=message):
            step.predict(use)


def test_a_name_made_twice_speaks_of_the_second(step):
    first = ft.whatif("twice")(lambda g: g.scale(g.select(kind="kernel"), 0.5))
    second = ft.whatif("twice")(lambda g: g.scale(g.select(kind="kernel"), 0.9))
    assert step.predict(second).step == step.predict("twice").step
    assert step.predict(first).step < step.predict(second).step, "an object is what it was made of"


# -- memory

def test_memory_alone_is_a_change(step, now):
    seen = {}

    @ft.whatif("leaner", parts=ft.Parts(cpu="unchanged", gpu="unchanged", memory="modelled"))
    def leaner(g, x=0.5):
        m = g.memory
        seen.update(blocks=len(m), peak=m.peak, bytes=m.nbytes.sum(), kinds=set(np.unique(m.kind)))
        m.scale(m.select(kind="activations"), x)
        seen["after"] = m.peak

    p = step.predict("leaner")
    assert seen["peak"] == now and p.peak_bytes == seen["after"] < now
    assert step.predict("leaner:x=1").peak_bytes == now
    # The step itself is as it was.
    assert p.step == step.predict("leaner:x=1").step
    assert seen["blocks"] > 1000 and ft.MEMORY_KINDS.index("activations") in seen["kinds"]


def test_blocks_are_selected_freed_removed_and_added(step, now):
    @ft.whatif("blocks", parts=ft.Parts(memory="modelled"))
    def blocks(g, how="remove"):
        m = g.memory
        saved = m.select(kind="activations", phase="forward", op="*batch_norm*")
        assert 0 < len(saved) < len(m.select(kind="activations")) and np.all(m.allocated[saved] > 0)
        if how == "remove":
            m.remove(saved)
        elif how == "free":
            m.free(saved, m.allocated[saved] + 1)
        else:
            m.add(10**9)
            m.add(10**9, kind="activations", allocated=int(m.allocated[saved][0]), freed=int(m.freed[saved].max()))

    gone, freed, added = (step.predict(f"blocks:how={how}").peak_bytes for how in ("remove", "free", "add"))
    assert gone < now and gone <= freed < now and now + 10**9 <= added <= now + 2 * 10**9


def test_what_was_not_said_is_refused(step):
    silent = ft.whatif("silent")(lambda g: g.memory.remove([0]))
    with pytest.raises(ValueError, match="does not say that it changes memory"):
        step.predict(silent)
    alike = ft.whatif("alike")(lambda g: g.scale_batch(2))
    with pytest.raises(ValueError, match="does not say that it changes the batch"):
        step.predict(alike)


@pytest.mark.parametrize("wrong, error, message", [
    (lambda m: m.remove([10**9]), IndexError, "there is no block 1000000000"),
    (lambda m: m.scale([0], -1), ValueError, "a factor must be 0 or more"),
    (lambda m: m.scale([0, 1], [1, 2, 3]), ValueError, "one for each of the 2 blocks: not 3"),
    (lambda m: m.free(m.select(kind="activations")[:1], 0), ValueError, "cannot be freed at 0"),
    (lambda m: m.free([0], 10**9), IndexError, "there is no position"),
    (lambda m: m.select(kind="weights"), ValueError, "no kind of memory 'weights'; there are parameters and states, gradients"),
    (lambda m: m.select(phase="update"), ValueError, "no phase of memory 'update'; there are forward, backward, optimizer"),
    (lambda m: m.add(-1), ValueError, "a size in bytes must be 0 or more"),
])
def test_wrong_changes_of_memory(step, wrong, error, message):
    own = ft.whatif("wrong-memory", parts=ft.Parts(memory="modelled"))(lambda g: wrong(g.memory))
    with pytest.raises(error, match=message):
        step.predict(own)


def test_another_batch(step, now):
    @ft.whatif("twice-the-batch", changes="batch", parts=ft.Parts(memory="modelled"), stage="batch")
    def twice(g):
        g.scale(g.select(kind="kernel"), 2)
        g.memory.scale_batch(2)
        g.scale_batch(2)

    p = step.predict("twice-the-batch")
    assert p.samples == 2 and p.gain == pytest.approx(2 * p.speedup) and p.peak_bytes > 1.3 * now


def test_parts_nobody_models_are_said(step):
    ft.whatif("half-told", parts=ft.Parts(cpu="not modelled", memory="not modelled"))(
        lambda g: g.scale(g.select(kind="kernel"), 0.9))
    missing = step.predict("half-told").not_modelled
    assert "what half-told changes of the CPU's time" in missing and "what half-told changes of memory" in missing


# -- everywhere

def test_advice_and_search_know_it(step):
    @ft.whatif("worth-trying", advise=["worth-trying:x=0.3"], changes="recomputation", effort="one line", code="do()")
    def worth_trying(g, x=0.5):
        g.scale(g.select(kind="kernel", op="*batch_norm*"), x)

    try:
        advice = step.advise()
        (own,) = [a for a in advice.advice if a.whatif == "worth-trying:x=0.3"]
        assert own.gain > 1 and own.code == ("do()",) and "worth-trying" in advice.combined.whatif
        assert step.optimize(only=["worth-trying", "fused-optimizer"]).whatifs == ("worth-trying:x=0.3", "fused-optimizer")
    finally:
        ft.whatif("worth-trying")(lambda g: None)  # no longer advised


def test_a_failure_in_a_search_comes_through(step):
    class Mine(Exception):
        pass

    @ft.whatif("failing", advise=["failing"])
    def failing(g):
        raise Mine("at home")

    try:
        begin = time.monotonic()
        with pytest.raises(Mine, match="at home"):
            step.advise()
        assert time.monotonic() - begin < 60
    finally:
        ft.whatif("failing")(lambda g: None)


def test_a_draft_names_operations_without_a_trace(step):
    seen = []
    ft.whatif("names")(lambda g: (seen.extend(g.graph.op_names(g.select(kind="kernel", op="*batch_norm*"))),
                                  g.scale(g.select(kind="kernel"), 0.9)))
    step.predict("names")
    assert seen and any("batch_norm" in name for name in seen)


def test_a_file_of_what_ifs(step, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("import foretrace as ft\n@ft.whatif('of-a-file')\ndef f(g): g.scale(g.select(kind='kernel'), 0.5)\n")
    (made,) = ft.load_plugin(path)
    assert made.name == "of-a-file" and step.predict(made).speedup > 1
    with pytest.raises(FileNotFoundError):
        ft.load_plugin(tmp_path / "none.py")
    path.write_text("\n1 / 0\n")
    with pytest.raises(ft.UnreadableError, match=r"mine.py:2: ZeroDivisionError") as caught:
        ft.load_plugin(path)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
