"""Examples of the documentation that are Python: executed as they stand; and the plugin of docs/internals/adding-a-whatif.md, saved under
the name the page gives it and used as the page says."""

import json
import re
import shutil
import subprocess
import sys

import pytest
from helpers import ROOT

BLOCK = re.compile(r"```python\n(.*?)```", re.S)


def blocks(name: str):
    page = (ROOT / "docs" / name).read_text()
    return [pytest.param(m[1], id=f"{name}:{page.count(chr(10), 0, m.start(1)) + 1}") for m in BLOCK.finditer(page)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("docs")
    shutil.copytree(ROOT / "examples", path / "examples")
    (path / "data").symlink_to(ROOT / "data")
    return path


@pytest.mark.parametrize("code", [*blocks("reference/python.md"), *blocks("internals/adding-a-whatif.md")])
def test_examples_run(code, folder):
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_plugin_of_the_page(folder):
    page = (ROOT / "docs/internals/adding-a-whatif.md").read_text()
    file, code = re.search(r"```python\n# (\w+\.py)\n(.*?)```", page, re.S).groups()
    (folder / file).write_text(code)
    assert len(code.splitlines()) <= 30
    # The copy the page's commands use says the same.
    assert (ROOT / "examples" / file).read_text().endswith(code)

    def said(*args):
        done = subprocess.run([sys.executable, "-m", "foretrace", *args, "--plugin", file], cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    (listed,) = json.loads(said("list", "whatifs", "half-norms", "--json"))["whatifs"]
    assert listed["needs"] == "a backward pass; memory events" and listed["parts"]["memory"] == "modelled"
    assert listed["parameters"][0]["about"] == "factor on their time"
    assert "half-norms[:x=]" in said("list", "whatifs") and "| `half-norms[:x=]` |" in said("list", "whatifs", "--markdown")
    assert "factor on their time; default 0.5" in said("list", "whatifs", "half-norms")
    trace = "examples/resnet50-h200.json.gz"
    (own,) = json.loads(said("whatif", trace, "half-norms:x=0.4", "--json"))["predictions"]
    assert own["speedup"] > 1
    for command in re.findall(r"^\$ foretrace (.*half_norms.py)$", page, re.M):
        assert said(*command.replace(" --plugin examples/half_norms.py", "").split())


def test_the_table_of_all_what_ifs_is_todays():
    done = subprocess.run([sys.executable, "-m", "foretrace", "list", "whatifs", "--markdown"], capture_output=True, text=True)
    page = (ROOT / "docs/reference/whatif-table.md").read_text()
    assert done.returncode == 0 and page[page.index("| what-if |"):] == done.stdout, "scripts/update_whatif_table writes it again"
