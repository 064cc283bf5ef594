"""The page of `foretrace plan -o FILE.html` and `foretrace scale --plan … -o FILE.html` in a real browser: stages, memory, the map of sizes.

    python3 tests/page/test_plan.py             FORETRACE_PROGRAM names the program

Without a Chromium it says so and exits with 77.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from browser import Browser, Page, chromium
from pages import PROGRAM, ROOT

DECODER = ROOT / "data" / "h200-decoders" / "gpt2048@4x1024.json.gz"


class PlanTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory()
        cls.browser = Browser()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.browser.__exit__()
        cls.folder.cleanup()

    def open(self, *arguments: str, width: int | None = None) -> Page:
        out = Path(self.folder.name) / "plan.html"
        verb, *options = arguments
        subprocess.run([PROGRAM, verb, DECODER, "--fabric", "DGX-H100", *options, "-o", out, "--quiet"], check=True, stdout=subprocess.DEVNULL)
        page = self.browser.open(out, width=width)
        page.wait("document.documentElement.dataset.answer")
        page.frame()
        return page

    def test_plans_asked_for(self):
        page = self.open("scale", "--plan", "pp=4,microbatches=4", "--plan", "pp=4,microbatches=4,schedule=zb1p")
        self.assertEqual(page.problems, [])
        self.assertEqual(page.run("document.querySelectorAll('#timeline svg').length"), 2)
        self.assertEqual(page.run("document.querySelectorAll('#timeline svg:first-of-type .idle').length"), 8)
        self.assertEqual(page.run("document.querySelectorAll('#memory svg .limit').length"), 2)
        self.assertEqual(page.run("document.querySelector('#search')"), None)
        # The pointer says what a GPU does, here when the step begins, behind the names of the lanes.
        for lane, said in ((0, "forward of micro-batch 0"), (3, "bubble")):
            x, y, *_ = page.place("#timeline svg")
            page.mouse("mouseMoved", x + 56, y + 6 + 24 * lane + 12)
            page.frame()
            self.assertIn(said, page.run("document.getElementById('tip').textContent"))
        page.close()

    def test_search(self):
        page = self.open("plan", "--gpus", "4")
        self.assertEqual(page.problems, [])
        cells = page.run("[...document.querySelectorAll('.heat tbody tr')].map(row => row.cells.length)")
        self.assertEqual(cells, [4, 4, 4])  # TP of 1, 2 and 4; PP of 1, 2 and 4 behind the head
        self.assertEqual(page.run("document.querySelectorAll('.heat .first').length"), 1)
        self.assertEqual(page.run("document.querySelectorAll('#timeline svg').length"), 1)
        page.close()

    def test_a_phone_needs_no_scrolling_sideways(self):
        page = self.open("plan", "--gpus", "4", width=390)
        self.assertLessEqual(page.run("document.documentElement.scrollWidth"), 390)
        page.close()


if __name__ == "__main__":
    if chromium() is None:
        print("no chromium: the page is not looked at; on Debian: apt-get install chromium (scripts/setup page)")
        sys.exit(77)
    unittest.main()
