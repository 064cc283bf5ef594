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
        why = "its comment does not say whether"
        self.refused("// How much of it.\nconstexpr double kShare = 0.73;\n", why)
        self.refused("constexpr double kShare = 0.73;  // reached\n", why)

    def test_a_choice_or_a_digit_says_nothing(self):
        why = "its comment does not say whether"
        for comment in ("a choice of ours", "a choice: about half", "of 12 curves", "3.5 of 4.8 TB/s", "measured on some rows", "half of it"):
            self.refused(f"// The share: {comment}.\nconstexpr double kShare = 0.73;\n", why)

    def test_what_was_measured_has_source_sample_and_error(self):
        why = "its comment does not say whether"
        self.refused("// data/h200-kernels.\nconstexpr double kShare = 0.73;\n", why)
        self.refused("// data/h200-kernels, 34 rows.\nconstexpr double kShare = 0.73;\n", why)
        self.refused("// 34 rows, 4 % off.\nconstexpr double kShare = 0.73;\n", why)
        self.refused("// data/h200-kernels: off.\nconstexpr double kShare = 0.73;\n", why)
        self.fine("// data/h200-kernels, 34 rows: 4 % off.\nconstexpr double kShare = 0.73;\n")

    def test_what_was_fitted_lies_in_a_data_file(self):
        self.refused("// Fitted to data/h200-kernels, 34 rows: 4 % off.\nconstexpr double kShare = 0.73;\n", "a fitted number lies in a data file")

    def test_kinds(self):
        for comment in ("as NCCL's src/graph/tuning.cc has it", "PCI-SIG's specification", "by definition of the band", "a tolerance of the search",
                        "from here on it is listed", "nobody measured this"):
            self.fine(f"// The share: {comment}.\nconstexpr double kShare = 0.73;\n")
            self.fine(f"constexpr double kShare = 0.73;  // {comment}\n")
        self.fine("// NCCL's tables.\nconstexpr double a[] = {\n    0.73,\n    0.82,\n};\n")

    def test_whole_numbers_with_a_name(self):
        for line in ("constexpr double kBaseUs = 34.0;", "constexpr double kBaseUs = 38;", "inline constexpr double kBaseUs = 1.8e3;",
                     "static constexpr Ns kGap = 10 * kNsPerUs;", "constexpr std::array<double, 3> kBaseUs = {6.0, 30.0, 38.0};",
                     "constexpr std::array<std::array<double, 2>, 1> kBaseUs = {{{6, 30}}};", "constexpr double kFew = 0.5;", "constexpr float kFew = 0.5F;",
                     "constexpr double kOne = 1, kFew = 24;"):
            self.refused(line + "\n", "without a word")
            self.fine(f"{line}  // as NCCL has it\n")
        for line in ("constexpr double kOne = 1.0;", "constexpr std::size_t kMost = 64;", "constexpr Ns kNone = 0;"):
            self.fine(line + "\n")

    def test_spreads(self):
        for line in ("  double sigma = 0.5;", "  cost.sigma = 0.25;", "  known(ns, spread = 0.1);"):
            self.refused(line + "\n", "without a word")
        self.fine("  cost.sigma = 0;\n  double spread = other;\n")

    def test_what_needs_none(self):
        self.fine('  if (x > 0.5 && y < 0.01) say("0.73 of it");\n  double z = 1.0, w = 0.25;\n  return 2.5e3;  // 0.3\n')


if __name__ == "__main__":
    unittest.main()
