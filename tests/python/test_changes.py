"""The what-ifs of the catalogue as functions: generated, typed, and usable wherever a text is."""

import importlib.machinery
import importlib.util
import inspect
import json
import typing

import foretrace
import pytest
from foretrace import _changes, _core, _network_changes
from helpers import ROOT

SCRIPT = ROOT / "scripts/update_python_changes"


@pytest.fixture(scope="module")
def generator():
    loader = importlib.machinery.SourceFileLoader("update_python_changes", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


@pytest.fixture
def listed(capfd):
    assert _core.run(["list", "whatifs", "--json"]) == 0
    own = {w.name for w in foretrace.whatifs() if w.function is not None}  # of other tests
    return [w for w in json.loads(capfd.readouterr().out)["whatifs"] if w["name"] not in own]


def test_the_module_is_what_the_catalogue_gives(generator, listed):
    names = {*_changes.__all__, *_network_changes.__all__}
    catalogue = [w for w in listed if w["source"] or w["validated"] or generator.identifier(w["name"]) in names]
    for of in generator.MODULES:
        assert generator.module(catalogue, of) == (ROOT / f"python/foretrace/{of.name}.py").read_text(encoding="utf-8"), \
            "run scripts/update_python_changes"
    for name, rewritten in (("__init__.py", generator.package), ("__init__.pyi", generator.stub)):
        text = (ROOT / "python/foretrace" / name).read_text(encoding="utf-8")
        assert rewritten(text, catalogue) == text


def test_every_parameter_is_one_of_the_function(listed):
    for whatif in listed:
        function = getattr(foretrace, whatif["name"].replace("-", "_"), None)
        if function is None:
            continue  # of a plugin another test loaded
        given = {name.rstrip("_"): p for name, p in inspect.signature(function).parameters.items()}
        assert set(given) == {p["name"] for p in whatif["parameters"]}
        for p in whatif["parameters"]:
            assert (given[p["name"]].default is inspect.Parameter.empty) == p["required"], (whatif["name"], p["name"])


def test_uses_are_written_as_on_the_command_line():
    assert foretrace.amp(dtype="bf16") == "amp:dtype=bf16"
    assert foretrace.fused_optimizer() == "fused-optimizer"
    assert foretrace.batch(2) == "batch:x=2"
    assert foretrace.checkpoint(layers=["encoder.0", "encoder.1"], reentrant=True) == "checkpoint:layers=encoder.0|encoder.1,reentrant=1"
    assert foretrace.ddp(workers=16, ring_steps=False) == "ddp:workers=16,ring_steps=off"


def test_what_is_written_is_understood():
    _core.check_uses([foretrace.compress_activations(bits=8), foretrace.p3(priorities=True), foretrace.gpu("H100-SXM5")])
    hints = typing.get_type_hints(foretrace.amp)
    assert typing.get_args(hints["dtype"])[0] == typing.Literal["fp16", "bf16"]


def test_a_function_predicts_what_its_text_does(example):
    step = example.step()
    called, text = step.predict(foretrace.fused_optimizer(), foretrace.batch(2)), step.predict("fused-optimizer", "batch:x=2")
    assert (called.whatif, called.step, called.high) == (text.whatif, text.step, text.high)


def test_a_function_that_was_not_called_is_named(example):
    with pytest.raises(TypeError, match=r"write foretrace\.amp\("):
        example.step().predict(foretrace.amp)
