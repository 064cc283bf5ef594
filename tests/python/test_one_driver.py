"""One question, one answer: whoever asks, from Python or with a plugin, gets the same numbers to the nanosecond. (The doors of
C++ and the command line: tests/unit/one_driver_test.cpp.)"""

import json

import foretrace
import pytest
from foretrace import _core, _whatifs
from helpers import EXAMPLE

SCHEMES = ("ddp", "fsdp", "zero1", "zero2", "zero3", "ps", "p3", "blueconnect", "horovod")
FABRICS = ("DGX-H100", "10GbE", "NDR")
STACK = ("amp:dtype=bf16", "fused-optimizer")


@pytest.fixture(scope="module")
def step(example):
    return example.step()


@pytest.fixture
def own(monkeypatch):
    """A what-if of one's own, as a plugin has it."""
    monkeypatch.setattr(_whatifs, "_own", {})

    @foretrace.whatif("half-norms", about="batch-norm kernels take half their time", advise=["half-norms"])
    def half_norms(g, x=0.5):
        g.scale(g.select(kind="kernel", op="*batch_norm*"), x)

    yield half_norms
    # It stays known until the program ends: searches of the tests behind these must not try it.
    foretrace.whatif("half-norms", about="batch-norm kernels take half their time")(lambda g, x=0.5: None)


def numbers(answer):
    return answer.step, answer.low, answer.high, answer.peak_bytes, answer.origin


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_scheme_as_a_question_and_as_a_change(step, scheme):
    for fabric in FABRICS:
        for workers in (2, 8, 64):
            change = step.predict(f"{scheme}:workers={workers},fabric={fabric}")
            if change.declined is not None:
                with pytest.raises(foretrace.DeclinedError):
                    step.scale(workers, fabric=fabric, parallel=scheme)
                continue
            assert numbers(step.scale(workers, fabric=fabric, parallel=scheme)) == numbers(change), (fabric, workers)


def test_every_scheme_is_asked_here(capfd):
    assert _core.run(["scale", str(EXAMPLE), "--workers", "2", "--fabric", "10GbE", "--parallel", "nothing"]) == 2
    assert f"expects one of {', '.join(SCHEMES)}, not 'nothing'" in capfd.readouterr().err


def test_a_stack_on_workers_and_on_another_gpu(step):
    on_workers = step.predict(*STACK, "ddp:workers=8,fabric=100GbE")
    assert numbers(step.scale(8, *STACK, fabric="100GbE")) == numbers(on_workers)
    assert numbers(step.on("A100-SXM4-80GB", *STACK)) == numbers(step.predict(*STACK, "gpu:to=A100-SXM4-80GB"))


def test_advice_is_what_each_change_gives(step):
    for advice in step.advise().advice:
        if advice.prediction.declined is None:
            assert numbers(advice.prediction) == numbers(step.predict(advice.whatif)), advice.whatif


def test_a_change_of_ones_own_at_every_door(step, own, capfd):
    alone = step.predict(own)
    assert numbers(step.predict("half-norms")) == numbers(alone)
    (advised,) = [a for a in step.advise().advice if a.whatif == "half-norms"]
    assert numbers(advised.prediction) == numbers(alone)
    both = step.predict(own, "ddp:workers=8,fabric=100GbE")
    assert numbers(step.scale(8, own, fabric="100GbE")) == numbers(both)
    assert _core.run(["whatif", str(EXAMPLE), "half-norms", "--json"]) == 0
    (said,) = json.loads(capfd.readouterr().out)["predictions"]
    assert (round(said["ms"] * 1e6), round(said["low_ms"] * 1e6)) == (alone.step, alone.low)
    assert _core.run(["gpus", str(EXAMPLE), "half-norms", "--to", "L40S", "--json"]) == 0
    (moved,) = json.loads(capfd.readouterr().out)["predictions"]
    assert round(moved["ms"] * 1e6) == step.on("L40S", own).step
