"""tools/thresholds.py: every threshold it lists is in the sources, and what it makes of them is what it says."""

import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import thresholds
from threshold_list import THRESHOLDS


class Thresholds(unittest.TestCase):
    def test_all_of_them_are_there_and_can_be_changed(self):
        for file, name, _, share in thresholds.every():
            text = (ROOT / file).read_text()
            changed = thresholds.changed(text, name, 2, share)  # ends with the name of one that is gone
            self.assertEqual(len(changed.splitlines()), len(text.splitlines()))
            self.assertNotEqual(changed, text)

    def test_the_page_lists_them_all(self):
        page = (ROOT / "docs" / "internals" / "thresholds.md").read_text()
        listed = [(file.rsplit("/", 1)[-1], name, text) for file, name, text, _ in thresholds.every()]
        for file, name, text in listed:
            rows = [line for line in page.splitlines() if line.startswith(f"| `{file}` `{name}`")]
            self.assertEqual(len(rows), 1, (file, name))
            self.assertIn(text, rows[0])
        self.assertEqual(page.count("\n| `"), len(listed) + page[: page.index("<!-- thresholds -->")].count("\n| `"))

    def test_several_constants_of_one_declaration(self):
        text = "constexpr double kA = 0.1, kB = 0.9;  // of it\n"
        text = thresholds.changed(thresholds.changed(text, "kA", 2, False), "kB", 0.5, True)
        self.assertEqual(text, "constexpr double kA = 2 * 0.1, kB = 1 - 0.5 * (1 - 0.9);  // of it\n")
        with self.assertRaisesRegex(SystemExit, "no constant kC"):
            thresholds.changed(text, "kC", 2, False)

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
