"""The shape of the package: what a user sees, what is imported when, and which exception says what."""

import errno
import os
import pickle
import subprocess
import sys

import foretrace
import pytest
from helpers import EXAMPLE


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# -- names

def test_dir_is_what_users_should_see():
    assert dir(foretrace) == sorted(foretrace.__all__)
    for name in foretrace.__all__:
        assert name == "__version__" or not name.startswith("_")
        assert getattr(foretrace, name) is not None


def test_nothing_leaks_into_the_namespace():
    public = python("import foretrace\nfor n in foretrace.__all__: getattr(foretrace, n)\n"
                    "print(*(n for n in vars(foretrace) if not n.startswith('_') and n not in foretrace.__all__))")
    # Submodules become attributes when they are imported; `recorder` is the only one with a public name.
    assert public in ("", "recorder")


def test_every_public_name_says_what_it_is():
    for name in foretrace.__all__:
        thing = getattr(foretrace, name)
        if callable(thing) and getattr(thing, "__module__", "").startswith("foretrace"):
            assert thing.__doc__, name


def test_a_name_that_does_not_exist():
    with pytest.raises(AttributeError, match="module 'foretrace' has no attribute 'lode'"):
        foretrace.lode


# -- imports

def test_importing_loads_nothing_heavy():
    loaded = python("import foretrace, sys; print(*(m for m in ('numpy', 'pandas', 'torch', 'pyarrow', 'ray', 'foretrace._core')"
                    " if m in sys.modules))")
    assert loaded == ""


def test_the_command_line_needs_the_compiled_half_alone():
    code = ("import sys; sys.argv = ['foretrace', 'list', 'devices', '-o', '/dev/null']\n"
            "from foretrace.__main__ import main; main()\n"
            "print(*sorted(m for m in sys.modules if m.partition('.')[0] in ('numpy', 'pandas', 'torch', 'foretrace')))")
    assert python(code) == "foretrace foretrace.__main__ foretrace._core"


# -- exceptions

def test_a_missing_file_is_a_file_not_found_error(tmp_path):
    missing = tmp_path / "none.json.gz"
    for ask in (foretrace.load, foretrace.doctor, foretrace.replay, foretrace.load_ranks):
        with pytest.raises(FileNotFoundError) as caught:
            ask(missing)
        error = caught.value
        assert isinstance(error, foretrace.UnreadableError) and isinstance(error, OSError)
        assert error.errno == errno.ENOENT and error.filename == str(missing) == error.file
        assert "no such file" in str(error) and error.code == "unreadable"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_forbidden_file_is_a_permission_error(tmp_path):
    file = tmp_path / "mine.json"
    file.write_text("{}")
    file.chmod(0)
    with pytest.raises(PermissionError) as caught:
        foretrace.load(file)
    assert isinstance(caught.value, foretrace.UnreadableError)


def test_unreadable_input_says_where_and_what_to_do(tmp_path):
    cut = tmp_path / "cut.json"
    cut.write_text('{"traceEvents": [{"ph": "X", "ts": 1, "dur": 2, "name": "a"}, {"ph": "X"')
    with pytest.raises(foretrace.UnreadableError) as caught:
        foretrace.load(cut)
    error = caught.value
    assert error.file == str(cut) and error.offset and "partial" in error.hint
    assert not isinstance(error, OSError)


def test_declined_and_wrong_requests_have_their_own(example):
    step = example.step()
    with pytest.raises(foretrace.DeclinedError):
        step.predict("flash-attention").ms
    with pytest.raises(foretrace.UsageError, match="no what-if named 'ampp'"):
        step.predict("ampp")
    for kind in (foretrace.DeclinedError, foretrace.UsageError, foretrace.UnreadableError):
        assert issubclass(kind, foretrace.Error) and issubclass(kind, ValueError)


def test_exceptions_survive_pickling(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        foretrace.load(tmp_path / "none.json")
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is type(caught.value) and str(again) == str(caught.value)
    assert (again.file, again.hint, again.code, again.errno) == (caught.value.file, caught.value.hint, "unreadable", errno.ENOENT)


# -- lists

def test_devices_are_those_of_the_command_line(tmp_path):
    devices = {d.name: d for d in foretrace.devices()}
    h200 = devices["H200-SXM"]
    assert h200.full_name == "NVIDIA H200" and h200.sm_count == 132 and 140 < h200.memory_gb < 142
    assert h200.tflops_tf32 > h200.tflops_fp32 and "H200-SXM" in str(h200)
    assert list(devices) == sorted(devices)
    assert any(d.tflops_tf32 is None for d in devices.values()), "older GPUs have no tensor cores"


def test_fabrics_are_those_of_the_command_line():
    fabrics = {f.name: f for f in foretrace.fabrics()}
    node = fabrics["DGX-H100"]
    assert node.gpus_per_node == 8 and [level.link for level in node.levels] == ["nvlink", "network"]
    assert fabrics["25GbE"].gpus_per_node == 1 and "25GbE" in str(fabrics["25GbE"])


def test_the_version_is_that_of_the_header():
    header = (EXAMPLE.parents[1] / "include/foretrace/version.hpp").read_text()
    assert f'"{foretrace.__version__}"' in header
