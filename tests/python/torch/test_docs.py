"""The examples of docs/reference/recording.md, which scripts/check_docs.py leaves out for want of PyTorch."""

import os
import re
import subprocess
import sys
from pathlib import Path

import foretrace
import pytest

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "recording.md"
BLOCKS = [b for b in re.findall(r"^```python[^\n]*\n(.*?)^```$", PAGE.read_text(), re.M | re.S) if "…" not in b]


def test_the_page_has_examples():
    assert len(BLOCKS) >= 3


@pytest.mark.parametrize("block", BLOCKS)
def test_an_example_runs_and_leaves_a_trace(block, tmp_path):
    done = subprocess.run([sys.executable, "-c", block], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (made,) = os.listdir(tmp_path)
    assert len(foretrace.load(tmp_path / made).steps) >= 2
