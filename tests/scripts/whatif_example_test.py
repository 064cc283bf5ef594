"""The example of docs/internals/adding-a-whatif.md is the file the unit tests compile and run."""
import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class Example(unittest.TestCase):
    def test_the_page_shows_what_is_tested(self):
        page = (ROOT / "docs/internals/adding-a-whatif.md").read_text()
        shown = re.search(r"```cpp\n(.*?)```", page, re.S)[1].split("\n", 1)
        tested = (ROOT / "tests/unit/half_batchnorm.cpp").read_text().split("\n", 1)
        self.assertTrue(shown[0].startswith("// src/whatif/catalogue/"))
        self.assertEqual(shown[1], tested[1])


if __name__ == "__main__":
    unittest.main()
