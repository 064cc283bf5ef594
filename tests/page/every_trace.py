"""The page of every trace there is, opened and touched everywhere: `test_page.py --all` runs it."""

from __future__ import annotations

import contextlib
import importlib.machinery
import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from browser import Browser
from geometry import PROBLEMS
from pages import PROGRAM, ROOT

ALL = "--all" in sys.argv

# What can be pressed, typed and moved on any page, whatever it shows.
TOUCH_EVERYTHING = """(async () => {
  const shown = () => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
  for (const tab of document.querySelectorAll('[role=tab]')) tab.click();
  for (const head of document.querySelectorAll('th button')) head.click();
  for (const range of document.querySelectorAll('input[type=range]')) for (const value of [range.min, range.max, (Number(range.min) + Number(range.max)) / 2]) { range.value = value; range.dispatchEvent(new Event('input')); }
  for (const box of document.querySelectorAll('input[type=search]')) for (const text of ['a', '']) { box.value = text; box.dispatchEvent(new Event('input')); }
  for (const button of document.querySelectorAll('#timeline button[aria-pressed], #ranks button[aria-pressed]')) { button.click(); await shown(); }
  const row = document.querySelector('#time tbody tr.linked');
  if (row) row.click();
  for (const view of [window.foretrace, window.foretrace?.job].filter(Boolean)) { view.zoom(50); await shown(); view.whole(); await shown(); }
  return document.querySelector('h1').textContent.length;
})()"""


@contextlib.contextmanager
def said_at_once(trace: str):
    """The run takes long: what fails is said when it does."""
    try:
        yield
    except Exception as what:
        print(f"{trace}: {what}", flush=True)
        raise


def jobs_under(folder: Path) -> dict[str, list[str]]:
    """scripts/sweep knows which files are ranks of one job."""
    loader = importlib.machinery.SourceFileLoader("sweep", str(ROOT / "scripts" / "sweep"))
    sweep = importlib.util.module_from_spec(importlib.util.spec_from_loader("sweep", loader))
    loader.exec_module(sweep)
    return sweep.jobs_under(folder)


def every_trace() -> list[tuple[str, list[str]]]:
    """(name, files): the ranks of every job together, and single traces of every format."""
    if only := os.environ.get("FORETRACE_PAGES"):
        folders = [Path(only)]
    else:
        folders = [ROOT / "examples", *(Path(os.environ[n]) for n in ("FORETRACE_TRUTH", "FORETRACE_PUBLIC") if n in os.environ), ROOT / "data"]
    kinds = (".json", ".json.gz", ".json.zst", ".sqlite", ".sqlite.gz", ".nsys-rep", ".csv", ".csv.gz", ".xplane.pb", ".pt.trace.json.gz")
    files = [p for f in folders for p in sorted(f.rglob("*")) if p.is_file() and p.name.endswith(kinds)]
    return [job for f in folders for job in jobs_under(f).items()] + [(str(p), [str(p)]) for p in files]


@unittest.skipUnless(ALL, "every trace: --all")
class EveryTrace(unittest.TestCase):
    def test_opens(self):
        opened, refused, tables = 0, 0, 0
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as browsers:
            for number, (trace, files) in enumerate(every_trace()):
                if number % 10 == 0:
                    # One that has held hundreds of large pages grows slow, and is nobody's browser.
                    browsers.close()
                    browser = browsers.enter_context(Browser())
                with self.subTest(trace), said_at_once(trace):
                    out = Path(folder) / "page.html"
                    done = subprocess.run([PROGRAM, "report", *files, "-o", str(out), "--quiet"], capture_output=True, text=True, check=False, timeout=300)
                    self.assertIn(done.returncode, (0, 3, 4), done.stderr)
                    if done.returncode:
                        self.assertTrue(done.stderr.strip(), "a refusal without a reason")
                        # Tables and results are next to the traces: those are no traces at all.
                        if any(said in done.stderr for said in ("of no format", 'no "traceEvents"')):
                            tables += 1
                        else:
                            refused += 1
                            print(f"{trace}: exit {done.returncode}: {done.stderr.strip().splitlines()[0]}", flush=True)
                        continue
                    opened += 1
                    for how in ({}, {"dark": True, "width": 400, "height": 800}):
                        page = browser.open(out, **how)
                        self.assertEqual(page.problems, [])
                        self.assertGreater(page.run(TOUCH_EVERYTHING), 20)
                        self.assertEqual(page.problems, [], "after touching everything")
                        self.assertEqual(page.run(PROBLEMS), [])
                        page.close()
        print(f"{opened} pages opened, {refused} traces refused with a reason, {tables} files that are no traces")
        self.assertGreater(opened, 0)
