"""_core.pyi says what the compiled module has, and __init__.pyi what the package has: held against both by mypy's stubtest,
and the names of arguments and their defaults by what the compiled functions say of themselves."""

import ast
import re
import subprocess
import sys
import typing
from pathlib import Path

import foretrace
import pytest
from foretrace import _contract, _core

STUB = Path(foretrace.__file__).with_name("_core.pyi")


# What stubtest says and no stub can help: of compiled classes and functions, of aliases of Literal, of names that are
# imported for type checkers only, and of classes made inside functions.
BEYOND_STUBS = re.compile(r"foretrace\._core\.\w+ is (not a function|inconsistent, metaclass differs|a disjoint base at runtime)"
                          r"|foretrace\._core\.\w+\.__init__ is inconsistent, stub does not have \*args"
                          r"|foretrace(\._contract)?\.\w+ is not a Union"
                          r"|foretrace\.[\w.]+\.(pandas|pyarrow|Module|\w+@\d+) is not present at runtime")


def test_stubtest(tmp_path):
    settings = tmp_path / "mypy.ini"
    settings.write_text("[mypy]\nignore_missing_imports = True\n")
    done = subprocess.run([sys.executable, "-m", "mypy.stubtest", "foretrace", "--concise", "--mypy-config-file", settings],
                          capture_output=True, text=True, cwd=tmp_path)
    assert "foretrace._core.run is not a function" in done.stdout, done.stdout + done.stderr  # it looked at the module
    assert [line for line in done.stdout.splitlines() if not BEYOND_STUBS.match(line)] == []


def functions(body: list[ast.stmt], prefix: str = ""):
    for node in body:
        if isinstance(node, ast.FunctionDef):
            arguments = [a.arg for a in node.args.args]
            yield prefix + node.name, arguments, len(node.args.defaults)
        elif isinstance(node, ast.ClassDef):
            yield from functions(node.body, node.name + ".")


@pytest.mark.parametrize("name, arguments, defaults", list(functions(ast.parse(STUB.read_text()).body)))
def test_arguments_are_those_of_the_module(name, arguments, defaults):
    thing: object = _core
    for part in name.split("."):
        thing = getattr(thing, part)
    signatures = getattr(thing, "__nb_signature__", None)
    if signatures is None or name.endswith("__"):
        pytest.skip("a method every class has")
    (said, *_), = signatures
    # Defaults are places in a table, and arrays say more of themselves than an annotation can.
    said = re.sub(r"ndarray\[[^]]*\]", "object", re.sub(r"\\\d+", "None", said))
    real = ast.parse(said + ": ...").body[0].args  # type: ignore[attr-defined]
    named = [a.arg for a in (*real.posonlyargs, *real.args)]
    # nanobind calls arguments without a name arg, arg0, …: then they can only be given by their place.
    if any(re.fullmatch(r"arg\d*", n) for n in named):
        assert len(named) == len(arguments)
    else:
        assert named == arguments
    assert len(real.defaults) == defaults


def test_the_contract_has_the_words_of_the_library():
    for words, known in ((_contract.Need, _core.NEEDS), (_contract.Changes, _core.CHANGES), (_contract.Part, _core.PARTS),
                         (_contract.Effort, _core.EFFORTS), (_contract.Stage, _core.STAGES)):
        assert typing.get_args(words) == known
