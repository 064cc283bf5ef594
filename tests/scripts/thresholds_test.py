"""tools/thresholds.py: every threshold it lists is in the sources, and what it makes of them is what it says."""

import shutil
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import thresholds
from threshold_list import THRESHOLDS


class Thresholds(unittest.TestCase):
    def test_all_of_them_are_there_and_can_be_changed(self):
        with tempfile.TemporaryDirectory() as temp:
            tree = Path(temp)
            for folder in ("src", "include"):
                shutil.copytree(ROOT / folder, tree / folder)
            thresholds.patch(tree)  # ends with the name of one that is gone
            for file, name, _, share in thresholds.every():
                text = (tree / file).read_text()
                self.assertEqual(text.count(f'"{file}:{name}"'), 1, name)
                if file.startswith("include/"):
                    self.assertIn(f"{name} = ", (ROOT / file).read_text())
                else:
                    self.assertIn("true" if share else "false", next(line for line in text.splitlines() if f'"{file}:{name}"' in line))

    def test_several_constants_of_one_declaration(self):
        text = "constexpr double kA = 0.1, kB = 0.9;  // of it\n"
        text = thresholds.patched(text, "f.cpp", "kA", False)
        text = thresholds.patched(text, "f.cpp", "kB", True)
        self.assertEqual(text, 'const double kA = ::foretrace::threshold<double>("f.cpp:kA", 0.1, false), '
                               'kB = ::foretrace::threshold<double>("f.cpp:kB", 0.9, true);  // of it\n')
        with self.assertRaisesRegex(SystemExit, "no constant kC"):
            thresholds.patched(text, "f.cpp", "kC", False)

    def test_effects(self):
        now = {"a": (10.0, 1.0), "b": (20.0, -3.0), "c": (5.0, None)}
        self.assertEqual(thresholds.effect(now, now), (0, 0.0))
        then = {"a": (10.1, 2.0), "b": (20.05, -3.0), "c": (None, None)}
        moved, points = thresholds.effect(now, then)
        self.assertEqual(moved, 2)  # one by a percent, one is declined now
        self.assertAlmostEqual(points, 0.5)

    def test_each_says_what_it_separates(self):
        for names in THRESHOLDS.values():
            for name, text in names.items():
                self.assertTrue(" from " in text or text.startswith("the same"), name)


if __name__ == "__main__":
    unittest.main()
