"""The page of `foretrace report` in a real browser: nothing on the console, what is shown can be sorted, searched, zoomed, picked and
reached with the keyboard, and names from a trace stay text.

    python3 tests/page/test_page.py            all; FORETRACE_PROGRAM names the program
    python3 tests/page/test_page.py --all      also every trace of examples/, data/, and of $FORETRACE_TRUTH and $FORETRACE_PUBLIC;
                                               --all EveryTrace: only those; FORETRACE_PAGES=FOLDER: only what lies under it
    python3 tests/page/test_page.py --regold   rewrites what screenshots look like

Without a Chromium (Debian: chromium; `scripts/setup page`) it says so and exits with 77.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from browser import Browser, chromium, grey_blocks
from every_trace import EveryTrace as EveryTrace
from pages import EXAMPLE, ROOT, report

GOLDENS = Path(__file__).parent / "goldens"
REGOLD = "--regold" in sys.argv
# Fonts and rounding differ from machine to machine: the mean difference of brightness that is still the same picture.
TOLERANCE = 9.0


class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory()
        cls.browser = Browser()
        cls.html = report(Path(cls.folder.name), EXAMPLE)

    @classmethod
    def tearDownClass(cls) -> None:
        cls.browser.__exit__()
        cls.folder.cleanup()

    def open(self, **how):
        page = self.browser.open(self.html, **how)
        self.addCleanup(page.close)
        return page

    def test_opens_without_a_complaint(self):
        page = self.open()
        self.assertEqual(page.problems, [])
        self.assertRegex(page.run("document.querySelector('h1').textContent"), r"^Today a step takes [\d.]+ ms")
        order = page.run("[...document.querySelectorAll('main section')].map(s => s.id)")
        self.assertEqual(order, ["answer", "use", "roofline", "changes", "waterfall", "time", "timeline", "memory", "sliders", "gpus", "scale", "fineprint"])
        self.assertEqual(page.run("window.foretrace.tasks.length"), 2)

    def test_asks_nothing_of_the_network(self):
        text = self.html.read_text()
        self.assertIn("default-src 'none'", text)
        page = self.open()
        self.assertEqual(page.run("performance.getEntriesByType('resource').length"), 0)

    def test_tables_sort_and_search(self):
        page = self.open()
        page.run("document.querySelector('#gpus .note button').click()")
        first = "document.querySelector('#gpus tbody td').textContent"
        self.assertEqual(page.run("document.querySelector('#gpus th[aria-sort]').textContent"), "ms")
        page.run("document.querySelectorAll('#gpus th button')[0].click()")
        self.assertEqual(page.run("document.querySelectorAll('#gpus th')[0].getAttribute('aria-sort')"), "ascending")
        names = page.run("[...document.querySelectorAll('#gpus tbody tr td:first-child')].map(t => t.textContent)")
        self.assertEqual(names, sorted(names))
        page.run("document.querySelectorAll('#gpus th button')[0].click()")
        self.assertEqual(page.run(first), names[-1])
        page.run("document.querySelector('#time input[type=search]').focus()")
        page.type("layer2.0")
        shown = page.run("[...document.querySelectorAll('#time tbody tr td:first-child')].map(t => t.textContent)")
        self.assertTrue(shown and all("layer2.0" in name for name in shown), shown[:3])

    def test_timeline_zooms_moves_and_picks(self):
        page = self.open()
        x, y, width, _ = page.place("#step-stage canvas")
        span = "window.foretrace.view.to - window.foretrace.view.from"
        whole = page.run(span)
        page.mouse("mouseWheel", x + width / 2, y + 60, deltaX=0, deltaY=-400)
        page.frame()
        self.assertLess(page.run(span), 0.6 * whole)
        begin = page.run("window.foretrace.view.from")
        page.mouse("mouseMoved", x + 400, y + 60)
        page.mouse("mousePressed", x + 400, y + 60, button="left", clickCount=1)
        page.mouse("mouseMoved", x + 300, y + 60, button="left", buttons=1)
        page.mouse("mouseReleased", x + 300, y + 60, button="left", clickCount=1)
        page.frame()
        self.assertGreater(page.run("window.foretrace.view.from"), begin)
        page.click(x + width / 2, y + 92)
        self.assertIn("takes", page.run("document.getElementById('step-picked').textContent"))
        self.assertIn("waited for", page.run("document.getElementById('step-picked').textContent"))

    def test_timeline_by_keyboard(self):
        page = self.open()
        page.run("document.querySelector('#step-stage canvas').focus()")
        span = "window.foretrace.view.to - window.foretrace.view.from"
        whole = page.run(span)
        page.key("+")
        self.assertLess(page.run(span), whole)
        begin = page.run("window.foretrace.view.from")
        page.key("ArrowRight")
        self.assertGreater(page.run("window.foretrace.view.from"), begin)
        page.key("Enter")
        self.assertNotEqual(page.run("document.getElementById('step-picked').textContent"), "Nothing selected.")
        page.key("Escape")
        self.assertEqual(page.run("document.getElementById('step-picked').textContent"), "Nothing selected.")
        page.key("Home")
        self.assertAlmostEqual(page.run(span), whole, delta=1)

    def test_search_in_the_timeline(self):
        page = self.open()
        page.run("document.querySelector('#timeline input[type=search]').focus()")
        page.type("batch_norm")
        self.assertRegex(page.run("document.querySelector('#timeline [role=status]').textContent"), r"^[1-9]\d* tasks")
        page.key("Enter")
        self.assertIn("atch_norm", page.run("document.getElementById('step-picked').textContent"))

    def test_a_row_leads_to_its_tasks(self):
        page = self.open()
        page.run("document.querySelector('#time tbody tr').click()")
        layer = page.run("document.querySelector('#time tbody td').textContent")
        opened = page.run("document.querySelector('#time tr.opened').textContent")
        for said in ("forward", "backward", "MFU", "longest tasks", "show in the timeline"):
            self.assertIn(said, opened)
        for button in ("longest", "show in the timeline"):
            page.run("document.querySelector('#step-picked').textContent = ''")
            page.run(f"[...document.querySelectorAll('#time tr.opened button')].filter(b => {json.dumps(button)} === 'longest' || b.textContent === {json.dumps(button)})[0].click()")
            self.assertIn(layer, page.run("document.getElementById('step-picked').textContent"))

    def test_leads_with_the_step_without_the_profiler(self):
        page = self.open()
        said = page.run("document.getElementById('answer').textContent")
        for part in ("71.40", "without the profiler", "GPU-bound", "MFU", "32.5 %", "21.8 of 67 TFLOP/s", "Peak memory", "5.96 GB", "The profiler added 9.16 ms to the recorded step (80.56 ms)."):
            self.assertIn(part, said)
        self.assertNotIn("CPU-bound", page.run("document.body.innerText"), "the verdict on the recorded step")
        self.assertNotRegex(page.run("document.body.innerText"), r"\d (GiB|MiB|MB)\b", "one unit for memory")

    def test_names_the_file_without_its_folder(self):
        page = self.open()
        self.assertEqual(page.run("document.querySelector('header b').textContent"), EXAMPLE.name)
        self.assertNotIn("/", page.run("document.querySelector('header .file').textContent"))

    def test_timelines_zoom_together_or_apart(self):
        page = self.open()
        x, y, width, _ = page.place("#step-stage canvas")
        spans = "window.foretrace.panels.map(p => p.to - p.from)"
        whole = page.run(spans)
        self.assertEqual(whole[0], whole[1])
        page.mouse("mouseWheel", x + width / 2, y + 60, deltaX=0, deltaY=-400)
        page.frame()
        both = page.run(spans)
        self.assertLess(both[0], 0.6 * whole[0])
        self.assertEqual(both[0], both[1])
        page.run("window.foretrace.whole(); [...document.querySelectorAll('#timeline button')].find(b => b.textContent === 'zoom together').click()")
        apart = page.run(spans)
        self.assertLess(apart[1], 0.5 * apart[0], "each fills the width with its own step")
        x, y, width, _ = page.place("#step-stage canvas")
        below = page.run("window.foretrace.panels[1].rows[0].y + 5")
        page.mouse("mouseWheel", x + width / 2, y + below, deltaX=0, deltaY=-400)
        page.frame()
        self.assertEqual(page.run(spans)[0], apart[0])
        self.assertLess(page.run(spans)[1], 0.6 * apart[1])
        page.run("[...document.querySelectorAll('#timeline button')].find(b => b.textContent === 'zoom together').click()")
        self.assertEqual(*page.run(spans))

    def test_what_changed_and_critical_path(self):
        page = self.open()
        before = grey_blocks(page.screenshot())
        for button in ("critical path", "what changed"):
            find = f"[...document.querySelectorAll('#timeline button[aria-pressed]')].find(b => b.textContent === '{button}')"
            page.run(f"{find}.click()")
            self.assertEqual(page.run(f"{find}.getAttribute('aria-pressed')"), "true")
        self.assertEqual(page.problems, [])
        self.assertTrue(before)

    def test_a_change_opens(self):
        page = self.open()
        page.run("[...document.querySelectorAll('#changes tbody tr')].find(r => r.cells[0].textContent === JSON.parse(document.getElementById('data').textContent).advise.combined.whatif).focus()")
        page.key("Enter")
        opened = page.run("document.getElementById('change').textContent")
        for said in ("switched on by", "torch.", "assumes", "on average", "without it"):
            self.assertIn(said, opened)
        data = page.run("JSON.parse(document.getElementById('data').textContent)")
        for name in (use.split(":")[0] for use in data["advise"]["combined"]["whatif"].split(" + ")):
            past = data["track_record"][name]
            self.assertIn(f"{past['worst_step_pct']:g} % at worst ({past['worst_row']})", opened)
            self.assertIn(f"measured on {past['models']} models", opened)
            if past["blind_pct"] is not None:
                self.assertRegex(opened, f"{past['blind_rows']} rows? predicted before their measurements were used: {past['blind_pct']:g} %")
        self.assertRegex(page.run("document.querySelector('#changes tbody td:last-child').textContent"), r"^[\d.]+ % off in \d+$")

    def move(self, page, name: str, value: object) -> str:
        page.run(f"(() => {{ const r = document.querySelector('[data-slider={name}] input'); r.value = {value}; r.dispatchEvent(new Event('input')); }})()")
        return page.run(f"document.querySelector('[data-slider={name}] output').textContent")

    def test_sliders_say_what_was_computed(self):
        page = self.open()
        self.assertEqual(page.run("[...document.querySelectorAll('[data-slider]')].map(s => s.dataset.slider)"), ["batch", "CPU", "workers", "bandwidth", "GPU"])
        self.assertRegex(self.move(page, "batch", "r.max"), r"^8 times the batch: [\d.]+ ms \[")
        self.assertRegex(self.move(page, "GPU", 0), r"^[\w-]+: [\d.]+ ms \[")

    def test_between_two_answers_nothing_is_claimed(self):
        page = self.open()
        said = self.move(page, "batch", 4.4)
        self.assertRegex(said, r"^about 1\.\d times the batch: not computed; 1\.5 times the batch gives [\d.]+ ms and 2 times the batch [\d.]+ ms, a straight line between them [\d.]+ ms$")
        low, high, guess = (float(x) for x in re.findall(r"([\d.]+) ms", said))
        self.assertTrue(low < guess < high, said)
        self.assertEqual(page.run("document.querySelector('[data-slider=batch] input').getAttribute('aria-valuetext')"), said)
        self.assertEqual(page.run("document.querySelector('[data-slider=GPU] input').step"), "1", "between two GPUs there is none")

    def test_bandwidth_follows_the_workers(self):
        page = self.open()
        told = []
        for stop in (1, "r.max"):
            workers = self.move(page, "workers", stop)
            self.assertRegex(workers, r"^\d+ workers over DGX-H100: ")
            self.assertIn(f"between {workers.split()[0]} workers", page.run("document.querySelector('#sliders').textContent"))
            told.append(self.move(page, "bandwidth", 0))
            self.assertRegex(told[-1], r"^1/64 times the bandwidth: [\d.]+ ms, .*[\d.]+ ms of communication exposed")
        self.assertNotEqual(*told)

    def test_sliders_by_keyboard(self):
        page = self.open()
        page.run("document.querySelector('[data-slider=CPU] input').focus()")
        page.key("ArrowRight")
        self.assertRegex(page.run("document.querySelector('[data-slider=CPU] output').textContent"), r"^1\.25 times the CPU's speed: ")
        page.key("ArrowLeft")
        page.key("ArrowLeft")
        self.assertRegex(page.run("document.querySelector('[data-slider=CPU] output').textContent"), r"^0\.75 times the CPU's speed: ")

    def test_a_task_says_shapes_and_dependencies(self):
        page = self.open()
        page.run("document.querySelector('#timeline input[type=search]').focus()")
        page.type("cudnn_convolution")
        page.key("Enter")
        picked = page.run("document.getElementById('step-picked').textContent")
        for said in ("float [64, 3, 224, 224], float [64, 3, 7, 7]", "grid ", "its launch", "depends on", "needed by", "with the change"):
            self.assertIn(said, picked)
        page.run("[...document.querySelectorAll('#step-picked dd.tools button')].find(b => b.textContent.includes('its launch')).click()")
        launch = page.run("document.getElementById('step-picked').textContent")
        self.assertRegex(launch, "needed by.*implicit_convolve_sgemm.*its launch")

    def test_hovering_says_shapes_and_why(self):
        page = self.open()
        x, y, width, _ = page.place("#step-stage canvas")
        page.mouse("mouseMoved", x + 150 + (width - 150) * 0.3, y + 92)
        page.frame()
        tip = page.run("document.getElementById('tip').textContent")
        for said in ("shapes:", "waited for:"):
            self.assertIn(said, tip)

    def test_the_peak_and_the_roofline_as_tables(self):
        page = self.open()
        held = page.run("JSON.parse(document.getElementById('data').textContent).memory")
        self.assertEqual(sum(h["bytes"] for h in held["held"]) + held["held_rest_bytes"] + held["start_bytes"], held["peak_bytes"])
        self.assertIn("layer1.0.conv3", page.run("document.querySelector('#memory table').textContent"))
        page.run("document.querySelector('#roofline summary').click()")
        self.assertIn("aten::convolution_backward", page.run("document.querySelector('#roofline table').textContent"))

    def test_looks_as_it_did(self):
        for name, how in (("light", {}), ("dark", {"dark": True}), ("narrow", {"width": 400, "height": 800})):
            page = self.browser.open(self.html, **how)
            for place in ("answer", "timeline", "sliders"):
                with self.subTest(f"{name}, {place}"):
                    page.run(f"document.getElementById('{place}').scrollIntoView()")
                    mine = grey_blocks(page.screenshot())
                    self.assertLessEqual(page.run("document.documentElement.scrollWidth - innerWidth"), 1, "the page is wider than the window")
                    file = GOLDENS / f"{name}-{place}.json"
                    if REGOLD:
                        file.write_text(json.dumps(mine) + "\n")
                    kept = json.loads(file.read_text())
                    off = sum(abs(a - b) for row, other in zip(mine, kept) for a, b in zip(row, other)) / sum(map(len, kept))
                    self.assertLess(off, TOLERANCE)
            page.close()

    def test_says_what_made_it_and_what_was_assumed(self):
        page = self.open()
        said = page.run("document.getElementById('fineprint').textContent")
        for part in ("foretrace report ", "foretrace 0.", "--stack", "foretrace scale TRACE --fabric DGX-H100", "amp: torch.autocast", "Not modelled", "found by ProfilerStep ranges"):
            self.assertIn(part, said)

    def test_prints_on_paper(self):
        page = self.open(width=794, height=1123)  # A4 at 96 dots an inch
        page.call("Emulation.setEmulatedMedia", media="print")
        page.frame()
        self.assertEqual(page.run("getComputedStyle(document.querySelector('header')).position"), "static")
        self.assertEqual(page.run("[...document.querySelectorAll('.scroll')].filter(s => s.scrollHeight > s.clientHeight + 2).length"), 0, "rows that paper cannot scroll to")
        self.assertEqual(page.run("getComputedStyle(document.querySelector('.tools')).display"), "none")
        self.assertLessEqual(page.run("document.documentElement.scrollWidth - innerWidth"), 1, "columns that paper cuts off")
        pdf = page.call("Page.printToPDF", printBackground=True)["data"]
        self.assertGreater(len(pdf), 50_000)

    def test_names_are_text(self):
        evil = ["<script>window.hit=1</script>", "</script><script>window.hit=2</script>", "<img src=x onerror='window.hit=3'>", '"\'`${window.hit=4}',
                "\u202egnp.exe <b>", "<!--", "k" * 100_000]
        folder = Path(self.folder.name)
        trace = json.loads(gzip.decompress((ROOT / "data" / "h200-heldout" / "mlp.base.json.gz").read_bytes()))
        kernels = 0
        for event in trace["traceEvents"]:
            if event.get("cat") == "kernel":
                event["name"] = evil[kernels % len(evil)]
                kernels += 1
            elif str(event.get("name", "")).startswith("layer:"):
                event["name"] = f"layer:{evil[kernels % (len(evil) - 1)]}|<i>Linear</i>"
        file = folder / "<b>evil.json"
        file.write_text(json.dumps(trace))
        page = self.browser.open(report(folder, file))
        page.run("document.querySelectorAll('#time [role=tab]').forEach(b => b.click())")
        page.run("window.foretrace.search('script'); window.foretrace.zoom(8)")
        x, y, width, _ = page.place("#step-stage canvas")
        page.mouse("mouseMoved", x + width / 2, y + 80)
        page.click(x + width / 2, y + 80)
        page.frame()
        self.assertIsNone(page.run("window.hit"))
        self.assertEqual(page.run("document.querySelectorAll('main img, main script').length + [...document.querySelectorAll('main i, main b:not(.picked b):not(dd b)')].filter(e => /Linear|exe/.test(e.textContent)).length"), 0)
        self.assertIn("<script>window.hit=1</script>", page.run("document.querySelector('#time').textContent"))
        self.assertEqual(page.problems, [])
        page.close()
        report(folder, EXAMPLE)

    def test_more_lanes_than_room(self):
        folder = Path(self.folder.name) / "lanes"
        folder.mkdir(exist_ok=True)
        trace = json.loads(gzip.decompress((ROOT / "data" / "h200-heldout" / "mlp.base.json.gz").read_bytes()))
        kernels = [event for event in trace["traceEvents"] if event.get("cat") == "kernel"]
        for i, event in enumerate(kernels):
            event["tid"] = event["args"]["stream"] = 7 + i % 60
        file = folder / "many.json"
        file.write_text(json.dumps(trace))
        page = self.browser.open(report(folder, file))
        self.assertGreater(page.run("window.foretrace.rows()"), 60)
        page.run("document.querySelector('#step-stage canvas').focus()")
        page.key("PageDown")
        self.assertGreater(page.run("window.foretrace.view.top"), 100)
        # What is selected from a table is brought into view, wherever its lane lies.
        page.run("window.foretrace.search('Backward'); document.querySelector('#timeline input[type=search]').value = 'Backward'")
        page.run("document.querySelector('#timeline input[type=search]').focus()")
        page.key("Enter")
        self.assertNotEqual(page.run("document.getElementById('step-picked').textContent"), "Nothing selected.")
        self.assertEqual(page.problems, [])
        page.close()

    def test_what_changed_since_an_older_recording(self):
        folder = Path(self.folder.name) / "since"
        folder.mkdir(exist_ok=True)
        data = ROOT / "data" / "h200-clean"
        page = self.browser.open(report(folder, data / "gpt2.bf16sdpafused.json.gz", "--before", data / "gpt2.base.json.gz"))
        self.assertEqual(page.problems, [])
        self.assertRegex(page.run("document.querySelector('#compare h1').textContent"), "^Mixed precision")
        self.assertEqual(page.run("document.querySelector('main').firstElementChild.id"), "compare")
        tabs = page.run("[...document.querySelectorAll('#compare [role=tab]')].map(t => t.dataset.name)")
        self.assertEqual(tabs, ["phases", "CPU phases", "families", "layers", "operations", "CPU operations", "kernels"])
        page.close()

    def test_several_older_recordings(self):
        folder = Path(self.folder.name) / "several"
        folder.mkdir(exist_ok=True)
        old = sorted((ROOT / "data" / "h200-clean" / "recordings").glob("lstm_lm.base.0[0-3].json.gz"))
        page = self.browser.open(report(folder, old[0], "--before", old[1], "--before", old[2], "--before", old[3]))
        self.assertEqual(page.problems, [])
        self.assertRegex(page.run("document.querySelector('#compare h1').textContent"), "^No difference")
        page.close()


if __name__ == "__main__":
    if chromium() is None:
        print("no chromium: the page is not looked at; on Debian: apt-get install chromium (scripts/setup page)")
        sys.exit(77)
    unittest.main(argv=[a for a in sys.argv if a not in ("--regold", "--all")])
