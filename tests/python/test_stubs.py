"""_core.pyi says what the compiled module has, and __init__.pyi what the package has: held against both by mypy's stubtest,
and the names of arguments and their defaults by what the compiled functions say of themselves."""

import ast
import subprocess
import sys
import typing
from pathlib import Path

import foretrace
import pytest
from foretrace import _contract, _core

STUB = Path(foretrace.__file__).with_name("_core.pyi")


def test_stubtest(tmp_path):
    pytest.importorskip("mypy")
    settings = tmp_path / "mypy.ini"
    settings.write_text("[mypy]\nignore_missing_imports = True\n")
    allowed = tmp_path / "allowed"
    # What a compiled class has beside its own: no part of the stub.
    allowed.write_text("foretrace\\._ray\nforetrace\\.recorder\nforetrace\\._recorder.*\nforetrace\\._frames\n"
                       "foretrace\\._graph_frames\n")
    done = subprocess.run([sys.executable, "-m", "mypy.stubtest", "foretrace", "foretrace._core", "--mypy-config-file", settings,
                           "--allowlist", allowed, "--ignore-unused-allowlist", "--ignore-disjoint-bases"],
                          capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def functions(body: list[ast.stmt], prefix: str = ""):
    for node in body:
        if isinstance(node, ast.FunctionDef):
            arguments = [a.arg for a in node.args.args]
            yield prefix + node.name, arguments, len(node.args.defaults)
        elif isinstance(node, ast.ClassDef):
            yield from functions(node.body, node.name + ".")


@pytest.mark.parametrize("name, arguments, defaults", functions(ast.parse(STUB.read_text()).body))
def test_arguments_are_those_of_the_module(name, arguments, defaults):
    thing: object = _core
    for part in name.split("."):
        thing = getattr(thing, part)
    signatures = getattr(thing, "__nb_signature__", None)
    if signatures is None or name.endswith("__"):
        pytest.skip("a method every class has")
    (said, *_), = signatures
    real = ast.parse(said + ": ..." if said.startswith("def") else said).body[0].args  # type: ignore[attr-defined]
    named = [a.arg for a in real.args] + [a.arg for a in real.posonlyargs if a.arg == "self"]
    # nanobind calls arguments without a name arg, arg0, …: then they can only be given by their place.
    if any(n.startswith("arg") for n in named):
        assert len(real.args) + len(real.posonlyargs) == len(arguments)
    else:
        assert named == arguments
    assert len(real.defaults) == defaults


def test_the_contract_has_the_words_of_the_library():
    for words, known in ((_contract.Need, _core.NEEDS), (_contract.Changes, _core.CHANGES), (_contract.Part, _core.PARTS),
                         (_contract.Effort, _core.EFFORTS), (_contract.Stage, _core.STAGES)):
        assert typing.get_args(words) == known
