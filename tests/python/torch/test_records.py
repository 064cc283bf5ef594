"""tools/measure/records on the CPU: ways of recording, and what watching costs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT))
from tools.measure.records import overhead, train


def test_processes_that_differ_in_who_listens_train_in_turns():
    rows = overhead.of_listeners("mlp", {"plain": {}, "other": {"FORETRACE_CUDA": "never"}}, device="cpu", tiny=True, rounds=2,
                                 seconds=0.01)
    assert [(r["what"], len(r["ms"]), len(r["view_us"])) for r in rows] == [("plain", 2, 2), ("other", 2, 2)]
    assert rows[0]["longer"] == 0


def test_a_process_that_fails_is_left_out(capsys):
    rows = overhead.of_listeners("no_such_model", {"plain": {}}, device="cpu", tiny=True, rounds=1)
    assert rows == [] and "no_such_model plain: Traceback" in capsys.readouterr().out


def test_the_clean_measurement_is_compared_within_one_process():
    row = overhead.in_a_process(overhead.of_measuring, "mlp", device="cpu", tiny=True, rounds=2, steps=4)
    assert row["what"] == "clean measurement" and row["ms"] > 0 and row["plain_ms"] > 0
    json.dumps(row)


@pytest.mark.parametrize(("way", "files"), [("kineto", ["mlp.json.gz"]), ("execution", ["mlp.et.json.gz", "mlp.json.gz"])])
@pytest.mark.filterwarnings("ignore:.*nothing ran on a GPU")
def test_a_way_leaves_its_files(tmp_path, way, files):
    train.main([way, "mlp", str(tmp_path / "mlp.json.gz"), "--cpu"])
    assert sorted(p.name for p in tmp_path.iterdir()) == files


def test_a_copy_ends_as_programs_do(tmp_path):
    program = """
import atexit, os, pathlib, sys
from tools.measure.records.__main__ import in_a_copy
def run():
    atexit.register(lambda: pathlib.Path(sys.argv[1], os.environ["NAME"]).touch())
    return 3
print(in_a_copy(run, {"NAME": "ended"}), "NAME" in os.environ)
"""
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["3", "False"] and (tmp_path / "ended").exists(), done.stderr
