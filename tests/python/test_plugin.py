"""What-ifs of a file, through the command: `foretrace … --plugin FILE.py`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import EXAMPLE

PROGRAM = os.environ.get("FORETRACE_PROGRAM")

HALF = '''
import foretrace as ft

@ft.whatif("half-batchnorm", about="batch-norm kernels read their input once", not_modelled="their copies")
def half_batchnorm(g, x=0.5):
    norms = g.select(kind="kernel", op="*batch_norm*")
    if x > 1:
        raise RuntimeError("slower than before")
    if x == 1:
        g.decline("nothing to halve")
    g.scale(norms, x)
'''


@pytest.fixture
def plugin(tmp_path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(HALF)
    return path


def command(*args, program=(sys.executable, "-m", "foretrace"), **options):
    done = subprocess.run([*program, *map(str, args)], capture_output=True, text=True, **options)
    return done.returncode, done.stdout, done.stderr


def test_one_of_a_file_beside_one_of_the_catalogue(plugin):
    status, out, _ = command("whatif", EXAMPLE, "half-batchnorm:x=0.4", "fused-optimizer", "--plugin", plugin, "--json")
    assert status == 0
    own, fused = json.loads(out)["predictions"]
    assert own["whatif"] == "half-batchnorm:x=0.4" and own["speedup"] > 1 and fused["speedup"] > 1
    assert "their copies" in own["not_modelled"] and any("not validated" in n for n in own["not_modelled"])


def test_it_stacks(plugin):
    status, out, _ = command("whatif", EXAMPLE, "half-batchnorm", "fused-optimizer", "--stack", f"--plugin={plugin}", "--json")
    (both,) = json.loads(out)["predictions"]
    assert status == 0 and both["whatif"] == "half-batchnorm + fused-optimizer"


def test_it_is_listed_and_suggested(plugin):
    status, out, _ = command("list", "whatifs", "--plugin", plugin)
    assert status == 0 and "half-batchnorm" in out
    status, _, err = command("whatif", EXAMPLE, "half-batchnrm", "--plugin", plugin)
    assert status == 2 and "did you mean 'half-batchnorm'" in err


def test_it_declines_and_fails_with_a_reason(plugin):
    status, out, _ = command("whatif", EXAMPLE, "half-batchnorm:x=1", "--plugin", plugin, "--json")
    assert status == 4 and json.loads(out)["predictions"][0]["declined"] == "half-batchnorm: nothing to halve"
    status, out, err = command("whatif", EXAMPLE, "half-batchnorm:x=2", "--plugin", plugin, "--json")
    declined = json.loads(out)["predictions"][0]["declined"]
    assert status == 4 and "RuntimeError: slower than before (line 8)" in declined and "Traceback" in err


@pytest.mark.parametrize("text, code, message", [
    (None, 3, "there is no such file"),
    ("x = (", 3, "SyntaxError"),
    ("1 / 0", 3, "ZeroDivisionError: division by zero (line 1)"),
    ("x = 1", 2, "makes no what-if"),
    ("import foretrace as ft\nft.whatif('amp')(lambda g: None)", 3, "the catalogue has a what-if named 'amp'"),
])
def test_files_that_do_not_work(tmp_path, text, code, message):
    path = tmp_path / "wrong.py"
    if text is not None:
        path.write_text(text)
    status, _, err = command("whatif", EXAMPLE, "x", "--plugin", path)
    assert status == code and message in err
    status, out, _ = command("whatif", EXAMPLE, "x", "--plugin", path, "--json")
    assert status == code and message in json.loads(out)["error"]["message"]


@pytest.mark.skipif(not PROGRAM, reason="FORETRACE_PROGRAM does not name build/foretrace")
class TestTheProgramWithoutPython:
    def test_hands_over(self, plugin):
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        args = ["whatif", EXAMPLE, "half-batchnorm", "--plugin", plugin, "--json"]
        status, out, err = command(*args, program=(PROGRAM,), env=dict(os.environ, PATH=path))
        assert status == 0, err
        assert out == command(*args)[1] or json.loads(out)["predictions"][0]["ms"] == json.loads(command(*args)[1])["predictions"][0]["ms"]

    def test_says_how_to_install_it(self, plugin, tmp_path):
        args = ["whatif", EXAMPLE, "half-batchnorm", "--plugin", plugin]
        status, _, err = command(*args, program=(PROGRAM,), env=dict(os.environ, PATH=str(tmp_path)))
        assert status == 2 and "no python3 on the PATH" in err
        (tmp_path / "python3").write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / "python3").chmod(0o755)
        status, out, _ = command(*args, "--json", program=(PROGRAM,), env=dict(os.environ, PATH=str(tmp_path)))
        assert status == 2 and "pip install foretrace" in json.loads(out)["error"]["hint"]

    def test_shows_the_option(self):
        status, out, _ = command("whatif", "--help", program=(PROGRAM,))
        assert status == 0 and "--plugin" in out
