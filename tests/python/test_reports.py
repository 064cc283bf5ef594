"""doctor and summary as objects, and the command line behind `python -m foretrace`."""

import json
import os
import subprocess
import sys

import foretrace
import pytest
from helpers import EXAMPLE


def test_doctor(example):
    report = foretrace.doctor(example)
    assert report["schema"] == 1 and report["events"] == len(example)
    assert repr(report) == report.text.rstrip("\n") and "NVIDIA H200" in repr(report)
    assert set(report) == set(report.json()) and len(report) == len(report.json())
    assert foretrace.doctor(EXAMPLE).json()["kinds"] == report["kinds"]


def test_summary(example):
    report = foretrace.summary(example)
    assert report["schema"] == 1
    assert "ProfilerStep#4" in repr(report)
    other = foretrace.summary(EXAMPLE, step=3)
    assert other.json() != report.json()
    few = foretrace.summary(example, top=2)
    assert len(repr(few).splitlines()) < len(repr(report).splitlines())
    with pytest.raises(foretrace.Error) as caught:
        foretrace.summary(example, step=99)
    assert caught.value.code == "usage" and "99" in str(caught.value)


def test_summary_declines_an_empty_trace():
    with pytest.raises(foretrace.Error) as caught:
        foretrace.summary(foretrace.load_bytes(b'{"traceEvents": []}'))
    assert caught.value.code == "declined"


def run(*arguments, **options):
    return subprocess.run([sys.executable, "-m", "foretrace", *map(str, arguments)], capture_output=True, text=True, **options)


def test_command_line_is_the_program():
    program = os.environ.get("FORETRACE_PROGRAM")
    if not program:
        pytest.skip("FORETRACE_PROGRAM is not set")
    for arguments in (["--version"], ["doctor", EXAMPLE], ["summary", "--json", EXAMPLE], ["doctor", "/no/such/file"], ["dcotor"]):
        ours = run(*arguments)
        theirs = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)
        assert (ours.returncode, ours.stdout, ours.stderr) == (theirs.returncode, theirs.stdout, theirs.stderr), arguments


def test_exit_codes_and_json():
    done = run("doctor", "--json", EXAMPLE)
    assert done.returncode == 0 and json.loads(done.stdout)["schema"] == 1
    assert run("doctor", "/no/such/file.json").returncode == 3
    assert run("dcotor").returncode == 2


def test_a_closed_pipe_is_no_error():
    done = subprocess.run(f'"{sys.executable}" -m foretrace summary --json "{EXAMPLE}" | head -n 1', shell=True,
                          capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == ""


def test_version():
    assert run("--version").stdout.strip().endswith(foretrace.__version__)


def test_reports_do_not_leak():
    """Reports in a loop must not grow the process."""
    import resource

    trace = foretrace.load(EXAMPLE)
    for _ in range(5):
        foretrace.doctor(trace)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(50):
        foretrace.doctor(trace)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000
