"""A file that does not fit into memory is an error that names it, from the command and from Python, on every thread."""

import gzip
import os
import resource
import subprocess
import sys

import pytest
from helpers import EXAMPLE

PROGRAM = os.environ.get("FORETRACE_PROGRAM")
LIMIT = 2 << 30


@pytest.fixture(scope="module")
def blanks(tmp_path_factory):
    """Six gigabytes of spaces where an event should be, as six megabytes of gzip."""
    path = tmp_path_factory.mktemp("memory") / "blanks.json.gz"
    part = gzip.compress(b" " * (64 << 20))
    with open(path, "wb") as file:
        file.write(gzip.compress(b'{"traceEvents": ['))
        for _ in range(96):
            file.write(part)
    return str(path)


@pytest.fixture(scope="module")
def events(tmp_path_factory):
    """Valid, and with more events than the memory allowed can hold."""
    path = tmp_path_factory.mktemp("memory") / "events.json.gz"
    event = b'{"ph": "X", "name": "aten::mm", "cat": "cpu_op", "pid": 1, "tid": 1, "ts": 1.5, "dur": 2},'
    part = gzip.compress(event * 400_000)
    with open(path, "wb") as file:
        file.write(gzip.compress(b'{"traceEvents": ['))
        for _ in range(100):
            file.write(part)
        file.write(gzip.compress(event[:-1] + b"]}"))
    return str(path)


def limited():
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))


def run(command):
    return subprocess.run(command, capture_output=True, text=True, timeout=240, preexec_fn=limited, check=False)


@pytest.mark.skipif(not PROGRAM, reason="FORETRACE_PROGRAM does not name build/foretrace")
@pytest.mark.parametrize("which", ["blanks", "events"])
@pytest.mark.parametrize("threads", ["1", "4"])
def test_the_command_says_so(which, threads, request):
    path = request.getfixturevalue(which)
    done = run([PROGRAM, "doctor", path, "--threads", threads])
    assert done.returncode == 3, done.stderr
    assert path in done.stderr
    assert "memory" in done.stderr or "longer than" in done.stderr
    assert "terminate" not in done.stderr


def test_python_raises_its_own_error(blanks):
    code = f"import foretrace\ntry:\n    foretrace.load({blanks!r}, threads=2)\nexcept foretrace.Error as e:\n    print(e.code)"
    done = run([sys.executable, "-c", code])
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "unreadable"


def test_a_bound_in_python_is_an_error_and_ends(tmp_path):
    # In a process of its own: the bound is the process's.
    script = """
import resource, foretrace
before = resource.getrlimit(resource.RLIMIT_DATA)
try:
    foretrace.load(PATH, max_memory=0.001)
except foretrace.UnreadableError as error:
    print(error.message, "|", error.hint)
assert resource.getrlimit(resource.RLIMIT_DATA) == before
print(len(foretrace.load(PATH, max_memory=4).steps))
try:
    foretrace.load(PATH, max_memory=0)
except foretrace.UsageError as error:
    print(error.message)
"""
    done = subprocess.run([sys.executable, "-c", script.replace("PATH", repr(str(EXAMPLE)))], capture_output=True, text=True, check=True)
    bound, steps, wrong = done.stdout.splitlines()
    assert "not enough memory" in bound or "more memory than the bound" in bound
    assert int(steps) == 2
    assert "greater than 0" in wrong
