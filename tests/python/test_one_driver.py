"""One question, one answer: whoever asks, from Python or with a plugin, gets the same numbers to the nanosecond. (The doors of
C++ and the command line: tests/unit/one_driver_test.cpp.)"""

import json
import re
import subprocess
import sys

import foretrace
import pytest
from foretrace import _core, _whatifs
from helpers import EXAMPLE, ROOT

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


# Each stack tells something else apart: tf32 has no effect on a V100, and has one on an A100.
STACKS = (("tf32", "gpu:to=V100-SXM2-16GB"), ("tf32", "gpu:to=A100-SXM4-80GB"), ("amp:dtype=bf16", "ddp:workers=8,fabric=100GbE"))


def answered(capfd, *words, trace=EXAMPLE):
    status = _core.run([words[0], str(trace), *words[1:], "--json"])
    return status, json.loads(capfd.readouterr().out)


def in_ns(shown):
    return tuple(round(shown[key] * 1e6) for key in ("ms", "low_ms", "high_ms"))


@pytest.fixture(scope="module")
def catalogue():
    """Each what-if with the parameters it needs."""
    required = {"to": "A100-SXM4-80GB", "select": "'*'"}
    # What other tests added to this process is not of the catalogue.
    listed = subprocess.run([sys.executable, "-c", "import foretrace; print(*(w.name for w in foretrace.whatifs()))"],
                            capture_output=True, text=True, check=True).stdout.split()
    changes = []
    for info in (w for w in foretrace.whatifs() if w.name in listed):
        given = [f"{p.name}={required.get(p.name, p.choices[0] if p.choices else 2)}" for p in info.parameters if p.required]
        changes.append(info.name + (":" + ",".join(given) if given else ""))
    assert len(changes) > 30
    return changes


def expect_shown(shown, asked, what):
    """The command line's answer is Python's."""
    assert shown.get("declined") == asked.declined, what
    if asked.declined is None:
        assert in_ns(shown) == (asked.step, asked.low, asked.high), what


def test_the_catalogue_on_the_command_line_and_from_python(step, catalogue, capfd):
    _, said = answered(capfd, "whatif", *catalogue)
    for change, shown in zip(catalogue, said["predictions"], strict=True):
        expect_shown(shown, step.predict(change), change)


@pytest.mark.parametrize("context", ("gpu:to=V100-SXM2-16GB", "ddp:workers=8,fabric=100GbE"))
def test_the_catalogue_before_another_gpu_and_before_workers(catalogue, context, tmp_path, capfd):
    # A small step: changes that are stacked are asked one stack at a time.
    trace = ROOT / "data" / "h200-clean" / "mlp.base.json.gz"
    small = foretrace.load(trace).step()
    file = tmp_path / "strategy.json"
    answers = 0
    for change in catalogue:
        file.write_text(json.dumps({"schema": 1, "whatifs": [change, context]}))
        _, said = answered(capfd, "whatif", change, context, "--stack", "--strategy", str(file), trace=trace)
        strategy, stack = said["predictions"]
        asked = small.predict(change, context)
        expect_shown(strategy, asked, ("strategy", change))
        expect_shown(stack, asked, ("stack", change))
        answers += asked.declined is None
    assert answers > len(catalogue) / 2


@pytest.mark.parametrize("stack", STACKS, ids=" + ".join)
def test_a_stack_at_every_door(step, stack, tmp_path, capfd):
    asked = step.predict(*stack)
    expected = (asked.step, asked.low, asked.high)
    assert asked.declined is None
    _, stacked = answered(capfd, "whatif", *stack, "--stack")
    assert in_ns(stacked["predictions"][0]) == expected
    strategy = tmp_path / "strategy.json"
    strategy.write_text(json.dumps({"schema": 1, "whatifs": stack}))
    _, planned = answered(capfd, "whatif", "--strategy", str(strategy))
    assert in_ns(planned["predictions"][0]) == expected
    page = tmp_path / "page.html"
    step.report(page, *stack)
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text(), re.S)[1])
    assert in_ns(data["best"]) == expected


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
