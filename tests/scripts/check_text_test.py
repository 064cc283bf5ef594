"""scripts/check_text: a README in src/ names only files and folders that exist."""

import tempfile
import unittest
from importlib.machinery import SourceFileLoader
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
check_text = SourceFileLoader("check_text", str(ROOT / "scripts/check_text")).load_module()


class NamesInReadmes(unittest.TestCase):
    def test_names_that_exist_and_names_that_do_not(self):
        with tempfile.TemporaryDirectory() as temp:
            root = Path(temp)
            (root / "src/graph/rules").mkdir(parents=True)
            (root / "src/graph/cost_a.cpp").touch()
            (root / "tools").mkdir()
            (root / "tools/fit.py").touch()
            readme = root / "src/graph/README.md"
            readme.write_text("`rules/` and `cost_*.cpp` and `graph/cost_a.cpp` and `tools/fit.py`; `aten::add` is no file\n"
                              "`gone/`, `cost_b.cpp`\n")
            said = list(check_text.gone(readme, root))
        self.assertEqual(said, ["src/graph/README.md:2: names what is not there: gone/",
                                "src/graph/README.md:2: names what is not there: cost_b.cpp"])

    def test_those_of_this_repository(self):
        for readme in (ROOT / "src").rglob("README.md"):
            self.assertEqual(list(check_text.gone(readme)), [])

    def test_pages_name_files_from_the_root(self):
        with tempfile.TemporaryDirectory() as temp:
            root = Path(temp)
            (root / "tools").mkdir()
            (root / "tools/fit.py").touch()
            page = root / "page.md"
            page.write_text("`tools/fit.py`, `plan.py`, `tools/gone.py --check`, `tools/gone.py`\n")
            self.assertEqual(list(check_text.gone(page, root, check_text.ROOTED)), ["page.md:1: names what is not there: tools/gone.py"])

    def test_every_folder_of_sources_has_one(self):
        for folder in {path.parent for path in (ROOT / "src").rglob("*.hpp")}:
            readmes = [place for place in (folder, folder.parent) if (place / "README.md").exists()]
            self.assertTrue(readmes, folder)


class InstallCommands(unittest.TestCase):
    def test_foretrace_is_on_no_package_index(self):
        rule = next(pattern for pattern, meaning in check_text.RULES if "package index" in meaning)
        verb = "pip" + " install "
        for wrong in ("foretrace", "'foretrace[ray]'", '"foretrace[arrow]"', "`foretrace`"):
            self.assertTrue(rule.search(verb + wrong), wrong)
        for right in (".", "foretrace-0.3.0-cp312-abi3-manylinux_2_28_x86_64.whl", "wheels/foretrace-*.whl", "pyarrow"):
            self.assertFalse(rule.search(verb + right), right)


if __name__ == "__main__":
    unittest.main()
