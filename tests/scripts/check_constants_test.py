import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class CheckConstants(unittest.TestCase):
    def check(self, text):
        with tempfile.TemporaryDirectory() as temp:
            path = Path(temp) / "a.cpp"
            path.write_text(text)
            done = subprocess.run([ROOT / "scripts/check_constants", path], capture_output=True, text=True)
        return done.returncode, done.stdout

    def refused(self, text, why):
        status, out = self.check(text)
        self.assertEqual(status, 1, text)
        self.assertIn(why, out)

    def fine(self, text):
        self.assertEqual(self.check(text)[0], 0, text)

    def test_a_number_without_a_word(self):
        self.refused("constexpr double kShare = 0.73;\n", "a.cpp:1: 0.73 without a word")
        self.refused("// Reached by 3 kernels.\n\nconstexpr double kShare = 0.73;\n", "without a word")
        self.refused("  return 1.2e3 * us;\n", "1.2e3")
        self.refused("  const float share = 0.95F;\n", "0.95")

    def test_a_comment_that_names_no_source(self):
        self.refused("// How much of it.\nconstexpr double kShare = 0.73;\n", "its comment names no source")
        self.refused("constexpr double kShare = 0.73;  // reached\n", "its comment names no source")

    def test_sources(self):
        for comment in ("3.5 of 4.8 TB/s on an H200", "tools/fit_figures.py", "as NCCL's tables have it", "by definition", "a choice of ours"):
            self.fine(f"// The share: {comment}.\nconstexpr double kShare = 0.73;\n")
            self.fine(f"constexpr double kShare = 0.73;  // {comment}\n")
        self.fine("// Of 12 curves.\nconstexpr double a[] = {\n    0.73,\n    0.82,\n};\n")

    def test_what_needs_none(self):
        self.fine('  if (x > 0.5 && y < 0.01) say("0.73 of it");\n  double z = 1.0, w = 0.25;\n  return 2.5e3;  // 0.3\n')


if __name__ == "__main__":
    unittest.main()
