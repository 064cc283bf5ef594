"""Advice from Python says what the command says."""

import json

import pytest
from foretrace import _core
from helpers import EXAMPLE


@pytest.fixture(scope="module")
def advised(example):
    return example.step().advise(measured_ms=71.6)


def test_the_same_as_the_command(advised, capfd):
    assert _core.run(["advise", str(EXAMPLE), "--measured-ms", "71.6", "--json"]) == 0
    said = json.loads(capfd.readouterr().out)
    assert [a.whatif for a in advised.advice] == [a["whatif"] for a in said["advice"]]
    for mine, theirs in zip(advised.advice, said["advice"], strict=True):
        assert "\n".join(mine.code) == theirs["code"] and mine.effort == theirs["effort"]
        assert mine.declined == theirs.get("declined")
        if mine.declined is None:
            assert mine.gain == pytest.approx(theirs["gain"]) and mine.prediction.ms == pytest.approx(theirs["ms"])
    assert advised.combined.whatif == said["combined"]["whatif"]
    assert advised.memory_limit == said["baseline"]["memory_limit_bytes"]


def test_it_prints(advised):
    text = str(advised)
    assert f"together: {advised.combined.whatif}" in text and "declined" in text


def test_memory_is_a_limit(example):
    tight = example.step().advise(measured_ms=71.6, memory_gb=0.001)
    assert not any(a.fits for a in tight.advice if a.declined is None and a.prediction.peak_bytes is not None)
