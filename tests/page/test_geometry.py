"""How the page of `foretrace report` is laid out, in a real browser: at three widths, light and dark, for one step, for a step before and
after a change, and for the ranks of a job. Nothing is cut off, covered, hard to read or wider than the window, and tips stay inside it.

    python3 tests/page/test_geometry.py        FORETRACE_PROGRAM names the program

Without a Chromium (Debian: chromium; `scripts/setup page`) it says so and exits with 77.
"""

from __future__ import annotations

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from browser import Browser, Page, chromium
from geometry import PROBLEMS
from pages import EXAMPLE, ROOT, report

DATA = ROOT / "data"
PAGES: dict[str, list[str | Path]] = {
    "step": [EXAMPLE],
    "compare": [DATA / "h200-clean" / "gpt2.bf16sdpafused.json.gz", "--before", DATA / "h200-clean" / "gpt2.base.json.gz"],
    "job": [DATA / "h200-ranks" / "slowed" / f"resnet18.launch.r{rank}.json.zst" for rank in (0, 1)],
}
WINDOWS = [(390, 844), (900, 800), (1440, 900)]


class GeometryTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory()
        cls.pages = {}
        for name, arguments in PAGES.items():
            folder = Path(cls.folder.name) / name
            folder.mkdir()
            cls.pages[name] = report(folder, *arguments)
        cls.browser = Browser()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.browser.__exit__()
        cls.folder.cleanup()

    def each(self, check):
        for name in PAGES:
            for width, height in WINDOWS:
                for dark in (False, True):
                    with self.subTest(f"{name}, {width} wide, {'dark' if dark else 'light'}"):
                        page = self.browser.open(self.pages[name], width=width, height=height, dark=dark)
                        try:
                            check(page)
                        finally:
                            page.close()

    def test_nothing_is_cut_off_or_covered(self):
        def check(page):
            self.assertEqual(page.run(PROBLEMS), [])
            # The same with rows, tabs and details open, and between two answers of a slider.
            page.run("""(() => {
              for (const row of document.querySelectorAll('section > div .scroll tbody tr.linked:first-child')) row.click();
              for (const more of document.querySelectorAll('details')) more.open = true;
              for (const range of document.querySelectorAll('input[type=range]')) { range.value = 0.4; range.dispatchEvent(new Event('input')); }
              window.foretrace.search('conv'); window.foretrace.zoom(8);
            })()""")
            page.frame()
            self.assertEqual(page.run(PROBLEMS), [])
            self.assertEqual(page.problems, [])

        self.each(check)

    def test_on_paper(self):
        for name in PAGES:
            with self.subTest(name):
                page = self.browser.open(self.pages[name], width=718, height=1040, dark=True)  # A4 within Chromium's margins
                page.call("Emulation.setEmulatedMedia", media="print")
                page.run("dispatchEvent(new Event('beforeprint'))")
                page.frame()
                page.frame()
                self.assertEqual(page.run("getComputedStyle(document.body).backgroundColor"), "rgb(255, 255, 255)", "paper is light")
                self.assertEqual(page.run(PROBLEMS), [])
                page.close()

    def assert_tip_is_inside(self, page: Page) -> bool:
        box = page.run("(() => { const t = document.getElementById('tip'); if (t.hidden) return null; const r = t.getBoundingClientRect(); return [r.left, r.top, innerWidth - r.right, innerHeight - r.bottom, t.scrollHeight - t.clientHeight]; })()")
        if box is None:
            return False
        self.assertGreaterEqual(min(box[:4]), 0, "the tip leaves the window")
        self.assertLessEqual(box[4], 1, "the tip is cut off")
        return True

    def test_tips_stay_inside(self):
        def check(page):
            tips = 0
            for stage in page.run("[...document.querySelectorAll('.stage')].map(s => '#' + s.id)"):
                # The stage at the lower edge of the window: that is where tips left it.
                page.run(f"document.querySelector('{stage}').scrollIntoView({{block: 'end'}})")
                left, top, width, height = page.run(f"(() => {{ const r = document.querySelector('{stage}').getBoundingClientRect(); return [r.left, r.top, r.width, r.height]; }})()")
                for across in (0.01, 0.3, 0.7, 0.97):
                    for down in range(50, int(height), 40):
                        if 0 < top + down < page.run("innerHeight"):
                            page.mouse("mouseMoved", left + width * across, top + down)
                            tips += self.assert_tip_is_inside(page)
            for x, y in page.run("[...document.querySelectorAll('#roofline circle')].slice(0, 12).map(c => { c.scrollIntoView({block: 'end'}); const r = c.getBoundingClientRect(); return [r.left + r.width / 2, r.top + r.height / 2]; }).slice(-1)"):
                page.mouse("mouseMoved", x, y)
                tips += self.assert_tip_is_inside(page)
            self.assertGreater(tips, 3, "no tip was looked at")

        self.each(check)

    def test_a_row_opens_where_it_was_clicked(self):
        def check(page):
            for place in ("#changes", "#time"):
                x, y, width, height = page.place(f"{place} tbody tr:nth-child(3)")
                page.click(x + width / 4, y + height / 2)
                row, opened = page.run(f"(() => {{ const r = document.querySelector('{place} tr[aria-expanded=true]').getBoundingClientRect(), o = document.querySelector('{place} tr.opened').getBoundingClientRect(); return [[r.top, r.bottom], [o.top, o.bottom]]; }})()")
                self.assertAlmostEqual(row[0], y, delta=2, msg="the row moved away from the pointer")
                self.assertAlmostEqual(opened[0], row[1], delta=2, msg="what it shows is elsewhere")
                page.click(x + width / 4, y + height / 2)
                self.assertIsNone(page.run(f"document.querySelector('{place} tr.opened')"))

        self.each(check)

    def test_bands_are_never_cut(self):
        def check(page):
            cut = page.run("""[...document.querySelectorAll('.band')].filter(b => { const r = b.getBoundingClientRect();
              return [...b.querySelectorAll('.span, .dot')].some(i => { const s = i.getBoundingClientRect(); return s.left < r.left - 5 || s.right > r.right + 5; }); }).length""")
            self.assertEqual(cut, 0)
            self.assertGreater(page.run("document.querySelectorAll('.band').length"), 0)

        self.each(check)

    def test_sliders_have_ticks_and_values(self):
        def check(page):
            for slider in page.run("[...document.querySelectorAll('.slider')].map(s => s.dataset.slider)"):
                names, values, marks, thumb, tick = page.run(f"""(() => {{
                  const s = document.querySelector('[data-slider="{slider}"]'), seen = list => [...list].filter(x => x.style.visibility !== 'hidden').length, input = s.querySelector('input');
                  input.value = input.max; input.dispatchEvent(new Event('input'));  // the thumb is 18 wide
                  return [seen(s.querySelectorAll('.ticks i')), seen(s.querySelectorAll('.value')), s.querySelectorAll('.ticks b').length, input.getBoundingClientRect().right - 9, [...s.querySelectorAll('.ticks b')].pop().getBoundingClientRect().left];
                }})()""")
                self.assertGreaterEqual(names, 2)
                self.assertGreaterEqual(values, 2)
                self.assertEqual(marks, page.run(f"Number(document.querySelector('[data-slider=\"{slider}\"] input').max) + 1"))
                self.assertAlmostEqual(thumb, tick, delta=2, msg="the mark is not under the thumb")

        self.each(check)

    def test_all_of_the_width_is_used(self):
        def check(page):
            used = page.run("Math.max(...[...document.querySelectorAll('main section')].map(s => s.getBoundingClientRect().right))")
            self.assertGreater(used, 0.94 * page.run("innerWidth"))

        self.each(check)

    def test_the_order_of_sections(self):
        first = {"step": ["answer", "use", "roofline", "changes"], "compare": ["compare", "answer", "use", "roofline"], "job": ["answer", "ranks", "use"]}
        for name, expected in first.items():
            page = self.browser.open(self.pages[name])
            self.assertEqual(page.run("[...document.querySelectorAll('main section')].map(s => s.id)")[:len(expected)], expected)
            page.close()


if __name__ == "__main__":
    if chromium() is None:
        print("no chromium: the page is not looked at; on Debian: apt-get install chromium (scripts/setup page)")
        sys.exit(77)
    unittest.main()
