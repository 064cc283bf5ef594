#!/usr/bin/env python3
"""How fast the page of `foretrace report` is made and moves, in a headless Chromium (tests/page/browser.py).

    benchmarks/page_speed.py [--events 1400k] [--program build/foretrace] [--make build/benchmarks/make_trace] [--page FILE]

Makes a trace with one step of so many events (1400k: more than a million tasks; 100k: the other size docs/internals/performance.md speaks of),
writes its page, opens it at 1280 x 800, and says when
the answer and the timeline were there and how long frames take while a script zooms and pans.
"""

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "page"))
from browser import Browser

FRAMES = """(async () => {
  const { view, clamp, zoom, whole, paint } = window.foretrace, out = [];
  const shown = () => new Promise(done => requestAnimationFrame(done));
  whole();
  for (let i = 0; i < 240; ++i) {
    if (i % 60 < 30) zoom(i < 120 ? 1.2 : 1 / 1.1); else { const by = (view.to - view.from) / 20; clamp(view.from + by, view.to + by); }
    const begin = performance.now();
    paint();
    out.push(performance.now() - begin);
    await shown();
  }
  return out;
})()"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", default="1400k")
    parser.add_argument("--program", type=Path, default=ROOT / "build" / "foretrace")
    parser.add_argument("--make", type=Path, default=ROOT / "build" / "benchmarks" / "make_trace")
    parser.add_argument("--page", type=Path, help="a page that is there already")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        page_file = options.page
        if page_file is None:
            trace, page_file = Path(folder) / "trace.json", Path(folder) / "report.html"
            subprocess.run([options.make, "--events", options.events, "--one-step", "-o", trace, ROOT / "examples" / "resnet50-h200.json.gz"],
                           check=True, stdout=subprocess.DEVNULL)
            before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
            subprocess.run([options.program, "report", trace, "-o", page_file, "--quiet"], check=True, stdout=subprocess.DEVNULL)
            took, used = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
            # On a machine that others use too, the CPU's time says more than the clock's.
            print(f"{options.events} events: made in {took:.1f} s, with {used.ru_utime - before.ru_utime + used.ru_stime - before.ru_stime:.1f} s of CPU time")
        with Browser(1280, 800) as browser:
            page = browser.open(page_file)
            print(f"{sum(page.run('window.foretrace.tasks')):,} tasks in {page_file.stat().st_size / 1e6:.1f} MB")
            print(f"answer after {page.run('document.documentElement.dataset.answer')} ms, timeline after {page.run('document.documentElement.dataset.timeline')} ms")
            page.run("document.getElementById('timeline').scrollIntoView()")
            frames = sorted(page.run(FRAMES))
            print(f"frames: median {statistics.median(frames):.1f} ms, 95th percentile {frames[int(0.95 * len(frames))]:.1f} ms, longest {frames[-1]:.1f} ms")


if __name__ == "__main__":
    main()
