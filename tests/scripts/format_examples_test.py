"""The examples of docs/internals/adding-a-format.md are the files the unit tests compile and run."""
import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class Examples(unittest.TestCase):
    def test_the_page_shows_what_is_tested(self):
        page = (ROOT / "docs/internals/adding-a-format.md").read_text()
        shown = re.findall(r"```cpp\n(.*?)```", page, re.S)
        for name in ("myprof", "boxprof"):
            tested = (ROOT / f"tests/unit/{name}.cpp").read_text().split("\n", 1)[1]
            self.assertIn(tested, shown, name)

    def test_the_fuzz_target_is_one(self):
        page = (ROOT / "docs/internals/adding-a-format.md").read_text()
        shown = next(block for block in re.findall(r"```cpp\n(.*?)```", page, re.S) if "LLVMFuzzer" in block)
        self.assertEqual(shown, (ROOT / "tests/fuzz/xplane_fuzz.cpp").read_text().split("\n\n", 1)[1])


if __name__ == "__main__":
    unittest.main()
