"""All ranks of a job from Python: the same answers as the command."""

import json
import os
import subprocess

import foretrace
import pytest
from helpers import ROOT


@pytest.fixture(scope="module")
def job():
    return foretrace.load_ranks(ROOT / "examples" / "resnet50-ddp")


def test_report_is_the_command_s(job):
    program = os.environ.get("FORETRACE_PROGRAM")
    if not program:
        pytest.skip("FORETRACE_PROGRAM is not set")
    out = subprocess.run([program, "ranks", ROOT / "examples" / "resnet50-ddp", "--json"], check=True, capture_output=True)
    ours, theirs = job.report().json(), json.loads(out.stdout)
    for report in (ours, theirs):
        for rank in report["ranks"]:
            rank.pop("file")
    assert ours == theirs


def test_what_it_knows(job):
    assert job.ranks == [0, 1] and job.world_size == 2 and job.missing == [] and not job.is_pipeline
    assert abs(job.report(step=3)["error_pct"]) < 1
    assert "2 of 2" in repr(job)


def test_export(job, tmp_path):
    job.export(tmp_path / "job.json.gz")
    trace = foretrace.load(tmp_path / "job.json.gz")
    assert len(trace) > 1000


def test_pipeline():
    job = foretrace.load_ranks(ROOT / "examples" / "pipeline" / "job.csv")
    assert job.is_pipeline and job.report()["mean"]["slowdown"] > 1


def test_unreadable(tmp_path):
    (tmp_path / "a.json").write_text("nothing")
    with pytest.raises(foretrace.Error):
        foretrace.load_ranks(tmp_path / "a.json")
