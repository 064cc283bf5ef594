"""The ranks of a job on the page of `foretrace report`, in a real browser: their lanes and colours, waits and bubbles.

    python3 tests/page/test_job.py             FORETRACE_PROGRAM names the program

Without a Chromium it says so and exits with 77.
"""

from __future__ import annotations

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from browser import Browser, chromium
from pages import ROOT, report


class JobTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory()
        cls.browser = Browser()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.browser.__exit__()
        cls.folder.cleanup()

    def test_ranks_of_a_job(self):
        folder = Path(self.folder.name) / "job"
        folder.mkdir(exist_ok=True)
        page = self.browser.open(report(folder, ROOT / "examples" / "resnet50-ddp"))
        self.assertEqual(page.problems, [])
        titles = page.run("[...document.querySelectorAll('#ranks h2, #ranks h3')].map(h => h.textContent)")
        self.assertIn("Groups that communicate", titles)
        self.assertIn("What changes of all ranks give", titles)
        # ranks, changes of the job, ranks without the profiler, groups, collectives
        self.assertEqual(page.run("document.querySelectorAll('#ranks table').length"), 5)
        groups = page.run("window.foretrace.job.v.panels[0].rows.filter(r => r.group).map(r => r.group.split(':')[0])")
        self.assertEqual(groups, ["rank 0", "rank 1", "between the ranks"])
        page.close()

    def test_who_waits_for_whom(self):
        folder = Path(self.folder.name) / "slowed"
        folder.mkdir(exist_ok=True)
        slowed = ROOT / "data" / "h200-ranks" / "slowed"
        page = self.browser.open(report(folder, *(slowed / f"resnet18.launch.r{rank}.json.zst" for rank in (0, 1))))
        self.assertIn("Rank 1, late launch: costs the step", page.run("document.querySelector('#ranks').textContent"))
        lanes = "window.foretrace.job.v.panels[0].rows.filter(r => r.lane).length"
        before = page.run(lanes)
        page.run("[...document.querySelectorAll('#ranks button')].find(b => b.textContent === 'CPU threads').click()")
        self.assertGreater(page.run(lanes), before)
        # The longest wait of rank 0 is for rank 1.
        page.run("window.foretrace.job.search('waits for other ranks')")
        page.run("""(() => { const { v, pick } = window.foretrace.job, line = v.lines[0];
          const longest = line.length.reduce((best, ns, t) => (line.kind[t] & 15) === 3 && ns > (line.length[best] || 0) ? t : best, -1);
          pick({ l: 0, t: longest }); })()""")
        picked = page.run("document.getElementById('job-picked').textContent")
        self.assertIn("rank0", picked.replace(" ", ""))
        self.assertIn("rank 1, which came last", picked)
        self.assertEqual(page.problems, [])
        page.close()

    def test_colours_of_groups_and_the_bubble(self):
        folder = Path(self.folder.name) / "pipeline"
        folder.mkdir(exist_ok=True)
        html = report(folder, *(ROOT / "data" / "h200-jobs" / f"gptB.inside.pp4.w2.r{rank}.json.gz" for rank in (0, 1)))
        for dark in (False, True):
            page = self.browser.open(html, dark=dark)
            self.assertEqual(page.run("window.foretrace.job.v.purposes"), ["pp"])
            self.assertIn("pp communication", page.run("document.querySelector('#ranks .legend').textContent"))
            # The mean of the bubbles that are drawn is what the text says.
            spans = page.run("window.foretrace.job.v.panels[0].rows.filter(r => r.spans).map(r => r.spans.reduce((sum, at, i) => i % 2 ? sum + at : sum - at, 0) / 1e6)")
            said = float(page.run("document.querySelector('#ranks').textContent.match(/Pipeline bubble: ([0-9.]+) ms/)[1]"))
            self.assertEqual(len(spans), 2)
            self.assertAlmostEqual(sum(spans) / 2, said, delta=0.01 * said)
            # In the middle of a bubble the colour of waits, of the longest collective that of its group.
            colours = page.run("""(() => { const { v } = window.foretrace.job, panel = v.panels[0], { line } = panel, ratio = devicePixelRatio, c = v.canvas.getContext("2d");
              const at = (row, time) => { const x = v.gutter + (time - panel.from) * v.inner() / (panel.to - panel.from), y = row.y - v.top + row.height - 10;
                return `#${[...c.getImageData(Math.floor(x) * ratio, y * ratio, 1, 1).data].slice(0, 3).map(n => n.toString(16).padStart(2, "0")).join("")}`; };
              const bubble = panel.rows.find(r => r.spans);
              let longest = -1;
              for (let t = 0; t < line.tasks; ++t) if ((line.kind[t] & 15) === 7 && !(line.length[t] <= (line.length[longest] || 0))) longest = t;
              const row = panel.rows.find(r => r.lane && r.lane.begin <= longest && longest < r.lane.end), middle = line.start[longest] + line.length[longest] / 2;
              panel.from = line.start[longest] - line.length[longest]; panel.to = line.start[longest] + 2 * line.length[longest];
              v.purposes.unshift("another");  // the second colour: the first is that of communication of one trace
              window.foretrace.job.paint();
              const collective = at(row, middle - line.length[longest] / 3);
              panel.from = 0; panel.to = line.step_ns;
              window.foretrace.job.paint();
              return { bubble: at(bubble, (bubble.spans[0] + bubble.spans[1]) / 2), wait: v.colour.wait, collective, group: v.colour.groups[1], phases: v.colour.phases }; })()""")
            self.assertEqual(colours["bubble"], colours["wait"])
            self.assertEqual(colours["collective"], colours["group"])
            self.assertNotIn(colours["group"], colours["phases"])
            self.assertEqual(page.problems, [])
            page.close()

    def test_the_timeline_of_the_changed_job(self):
        folder = Path(self.folder.name) / "changed"
        folder.mkdir(exist_ok=True)
        traces = [ROOT / "data" / "h200-jobs" / f"gptB.inside.pp4.w2.r{rank}.json.gz" for rank in (0, 1)]
        page = self.browser.open(report(folder, *traces, "cpu:x=2"))
        self.assertEqual(page.problems, [])
        titles = page.run("window.foretrace.job.v.panels.map(p => p.title)")
        self.assertEqual(len(titles), 2)
        self.assertIn("predicted with cpu:x=2 on all ranks", titles[1])
        lines = page.run("""window.foretrace.job.v.panels.map(p => ({ groups: p.rows.filter(r => r.group).map(r => r.group), bubbles: p.rows.filter(r => r.spans).length,
          first: Math.min(...p.rows.flatMap(r => r.lane ? [p.line.start[r.lane.begin]] : r.spans || [])), last: Math.max(...p.rows.filter(r => r.lane && r.lane.rank !== undefined).map(r => { const t = r.lane.end - 1; return (p.line.start[t] + p.line.length[t]) / 1e6; })) }))""")
        waits = page.run("window.foretrace.job.v.lines[1].waits.map(w => [w.rank, w.ms])")
        for rank, waited in waits:
            self.assertIn(f"rank {rank}: waits {waited:.2f} ms", lines[1]["groups"])
        self.assertEqual([line["bubbles"] for line in lines], [2, 2])
        self.assertGreaterEqual(lines[1]["first"], 0)
        step = float(titles[1].split(" ms")[0])
        self.assertLess(step, float(titles[0].split(" ms")[0]))
        self.assertAlmostEqual(lines[1]["last"], step, delta=0.25 * step)  # ranks begin and end apart
        # What one panel shows, the other does: they zoom together.
        page.run("window.foretrace.job.zoom(2)")
        self.assertEqual(*page.run("window.foretrace.job.v.panels.map(p => p.to - p.from)"))
        page.close()


if __name__ == "__main__":
    if chromium() is None:
        print("no chromium: the page is not looked at; on Debian: apt-get install chromium (scripts/setup page)")
        sys.exit(77)
    unittest.main()
