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


def test_one_of_a_file_with_one_of_the_catalogue(plugin):
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
    assert status == 4 and f"{plugin}:8: RuntimeError: slower than before" in declined and "Traceback" in err


@pytest.mark.parametrize("text, code, message", [
    (None, 3, "there is no such file"),
    ("x = (", 3, "wrong.py:1: SyntaxError"),
    ("\n1 / 0", 3, "wrong.py:2: ZeroDivisionError: division by zero"),
    ("import foretrace as ft\n\n@ft.whatif('x', needs=['shape'])\ndef x(g): pass", 3,
     "wrong.py:3: ValueError: there is no need 'shape'; there are shapes, a backward pass"),
    ("import foretrace as ft\nft.whatif('x', advise=['y'])(lambda g: None)", 3, "x advises 'y', which is not a use of it"),
    ("raise SystemExit(1)", 3, "wrong.py:1: SystemExit"),
    ("x = 1", 2, "defines no what-if"),
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


FULL = '''import foretrace as ft

@ft.whatif("half-batchnorm", about="batch-norm kernels read their input once", assumes="they are bound by memory bandwidth",
           source="Jung et al. 2018", not_modelled="their copies", needs=["a backward pass", "memory events"], changes="kernels",
           parts=ft.Parts(cpu="unchanged", gpu="modelled", memory="modelled"), code="model = fuse(model)", effort="one line",
           stage="kernels", advise=["half-batchnorm:x=0.1"], parameters={"x": "factor on their time"})
def half_batchnorm(g, x=0.5):
    g.scale(g.select(kind="kernel", op="*batch_norm*"), x)
    g.memory.scale(g.memory.select(kind="activations", op="*batch_norm*"), 0.5)
'''


class TestEveryVerb:
    """A what-if of a plugin is one like those of the catalogue, wherever what-ifs are asked for."""

    @pytest.fixture
    def full(self, tmp_path) -> Path:
        path = tmp_path / "full.py"
        path.write_text(FULL)
        return path

    def said(self, *args):
        status, out, err = command(*args, "--json")
        assert status == 0, err
        return json.loads(out)

    def test_list(self, full):
        (one,) = [w for w in self.said("list", "whatifs", "--plugin", full)["whatifs"] if w["name"] == "half-batchnorm"]
        assert one["needs"] == "a backward pass; memory events" and one["changes"] == "kernels"
        assert one["parts"] == {"cpu": "unchanged", "gpu": "modelled", "memory": "modelled"}
        assert one["parameters"] == [{"name": "x", "about": "factor on their time", "default": "0.5", "type": "number", "required": False, "choices": []}]
        assert one["effort"] == "one line" and one["advise"] == ["half-batchnorm:x=0.1"] and one["validated"] is False
        status, out, _ = command("list", "whatifs", "half-batchnorm", "--plugin", full)
        assert status == 0 and "factor on their time; default 0.5" in out and "memory modelled" in out
        status, out, _ = command("list", "whatifs", "--markdown", "--plugin", full)
        assert "| `half-batchnorm[:x=]` | batch-norm kernels read their input once | kernels |" in out

    def test_whatif_models_memory(self, full):
        base = self.said("whatif", EXAMPLE, "no-sync")["baseline"]["peak_bytes"]
        (own,) = self.said("whatif", EXAMPLE, "half-batchnorm", "--plugin", full)["predictions"]
        assert own["peak_bytes"] < base and own["speedup"] > 1

    def test_advise_tries_it(self, full):
        advice = self.said("advise", EXAMPLE, "--plugin", full)
        (own,) = [a for a in advice["advice"] if a["whatif"] == "half-batchnorm:x=0.1"]
        assert own["gain"] > 1
        assert "half-batchnorm" in json.dumps(advice["combined"])

    def test_optimize_searches_with_it(self, full):
        found = self.said("optimize", EXAMPLE, "--only", "half-batchnorm,fused-optimizer", "--plugin", full)
        assert [p["part"] for p in found["parts"]] == ["half-batchnorm:x=0.1", "fused-optimizer"]
        status, _, err = command("optimize", EXAMPLE, "--only", "half-batchnorm")
        assert status == 2 and "no what-if named 'half-batchnorm'" in err

    def test_scale_and_gpus_stack_it(self, full):
        for args in (("scale", EXAMPLE, "--workers", 8, "--fabric", "DGX-H100"), ("gpus", EXAMPLE, "--to", "A100-SXM4-80GB")):
            plain = self.said(*args)["predictions"][0]["ms"]
            own = self.said(args[0], args[1], "half-batchnorm", *args[2:], "--plugin", full)["predictions"][0]["ms"]
            assert own < plain, args[0]

    def test_export_writes_it(self, full, tmp_path):
        said = self.said("export", EXAMPLE, "half-batchnorm", "-o", tmp_path / "x.json", "--plugin", full)
        assert said["step"] == "ProfilerStep#4 with half-batchnorm"

    def test_doctor_says_what_it_lacks(self, full, tmp_path):
        (row,) = self.said("doctor", EXAMPLE, "--plugin", full)["traces"][0]["added_whatifs"]
        assert row == {"whatif": "half-batchnorm", "missing": []}
        bare = Path(EXAMPLE).parents[1] / "data/h200-heldout/mlp.base.json.gz"
        other = tmp_path / "other.py"
        other.write_text(FULL.replace('["a backward pass", "memory events"]', '["communication"]'))
        status, out, _ = command("doctor", bare, "--plugin", other)
        assert status == 0 and "half-batchnorm: no communication in this step" in " ".join(out.split())

    def test_two_files(self, full, plugin, tmp_path):
        second = tmp_path / "second.py"
        second.write_text(HALF.replace('"half-batchnorm"', '"second"'))
        both = self.said("whatif", EXAMPLE, "half-batchnorm", "second", "--plugin", full, "--plugin", second)["predictions"]
        assert [p["whatif"] for p in both] == ["half-batchnorm", "second"]

    @pytest.mark.parametrize("verb", ["replay", "summary", "ranks"])
    def test_verbs_without_whatifs_refuse_it(self, full, verb):
        status, _, err = command(verb, EXAMPLE, "--plugin", full)
        assert status == 2 and f"{verb} has no option --plugin" in err

    def test_needs_are_checked_before_its_function_runs(self, tmp_path):
        path = tmp_path / "needs.py"
        path.write_text("import foretrace as ft\n@ft.whatif('c', needs=['communication'])\ndef c(g): raise RuntimeError('ran')\n")
        status, out, _ = command("whatif", EXAMPLE, "c", "--plugin", path, "--json")
        assert status == 4 and json.loads(out)["predictions"][0]["declined"] == "c: no communication in this step"

    def test_a_function_that_fails_in_a_search_is_shown_once(self, tmp_path):
        path = tmp_path / "fails.py"
        path.write_text("import foretrace as ft\n@ft.whatif('bad', advise=['bad'])\ndef bad(g): raise RuntimeError('no')\n")
        status, out, err = command("advise", EXAMPLE, "--plugin", path, "--json")
        (own,) = [a for a in json.loads(out)["advice"] if a["whatif"] == "bad"]
        assert status == 0 and f"{path}:3: RuntimeError: no" in own["declined"] and err.count("Traceback") == 1


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
        assert status == 2 and "pip install ." in json.loads(out)["error"]["hint"]

    def test_shows_the_option(self):
        status, out, _ = command("whatif", "--help", program=(PROGRAM,))
        assert status == 0 and "--plugin" in out
