#!/usr/bin/env python3
"""What thresholds separate, and what happens to predictions when one is half or twice as large: docs/thresholds.md.

    tools/thresholds.py --patch TREE          makes them changeable in a scratch copy of the sources; build that
    tools/thresholds.py --program TREE/build/foretrace [--only REGEX]      measures, and writes the page with --update-docs

A threshold decides between two explanations; it is no figure that was measured, and a good one can be moved without harm. For each: of the rows of
FOLDERS how many predicted steps move by more than half a percent, and what becomes of the mean error of the steps, at half of it and at
twice of it. Of shares close to 1 (marked ·) the distance from 1 is what is halved and doubled.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from pathlib import Path
from statistics import mean

import accuracy
from accuracy_tables import aligned, write_between
from truth import ROOT, Folder

DOCS = ROOT / "docs" / "thresholds.md"
MOVED = 0.005  # of a predicted step
# What the CPU bounds and what the GPU does, 41 recorded bases of most families.
FOLDERS = ("h200-clean", "h200-heldout")
VARIABLE = "FORETRACE_THRESHOLD"
# By file: name, what it separates. `·` in front of a name: a share close to 1.
THRESHOLDS: dict[str, dict[str, str]] = {
    "src/graph/rules/device_lags.cpp": {
        "kLongestGap": "a device's own gap between two kernels from a wait",
        "kLongestGraphGap": "the same inside a CUDA graph",
        "kLongWait": "a wake-up by another stream from being held by something",
        "kOutlier": "distances that count for a median from those that are waits",
        "kShareSlack": "a kernel that still holds the device in a changed step from one that no longer meets it",
    },
    "src/graph/rules/held_back.cpp": {
        "kLongestGap": "what had just ended from what had ended before",
        "kLongestWake": "the same for a stream that waited long",
        "·kOneWave": "a kernel that fills the device from one that leaves room",
        "kEarly": "the last wave of blocks from the ones before it",
        "kNeverBefore": "the same, for kernels of two waves",
        "·kLoneWave": "the end of a kernel of one wave from its middle",
        "·kNearEnd": "a kernel that is about to end from one that runs",
    },
    "src/graph/rules/stream_waits.cpp": {"kLongestWake": "the collective a stream waited for from earlier ones"},
    "src/graph/rules/unrecorded.cpp": {"kShortest": "a gap between nodes of a graph from work that was not recorded"},
    "src/graph/trace_index.cpp": {
        "kPlausibleLag": "a queue's lag from a depth that was misread",
        "kLongCall": "a launch call from one that waited for room",
        "kMany": "a full queue from one that is not",
        "·kFewEventCalls": "launches that show a queue's depth from rows of other calls",
    },
    "src/graph/layers.cpp": {"·kWhole": "a range around a layer from one around the step"},
    "src/simulate/limits.cpp": {"kLongestGap": "a gap between two GPU tasks from a wait for something else"},
    "src/whatif/recorded_parts.cpp": {"kLongestDebt": "recording that a task pays for from recording too far away"},
    "src/whatif/recorded_parts.hpp": {"kLeastLeft": "what a profiler can have added to a task from the task"},
    "src/whatif/phase_counts.cpp": {
        "kEnoughAlike": "phases whose launches tell their time from those whose Python does",
        "kMostlyGenerated": "a compiled pass from an eager one",
        "kFarApart": "a phase like those measured from another kind of work",
        "kFastest": "a fast host from another call of the same name",
        "kSlowest": "a slow host from another call of the same name",
        "kEnough": "calls that tell a speed from too few",
    },
    "src/whatif/unprofiled.cpp": {"kMeasuredSpread": "a measured step from one that the prior may contradict"},
    "src/whatif/bands.cpp": {"kMuchFrozen": "gaps and latencies from waits nobody explains"},
    "src/whatif/predict.cpp": {"kMostFrozen": "steps that are predicted from those that are declined"},
    "src/whatif/catalogue/compile.cpp": {"kSlowest": "a slow generated kernel from operations that were misunderstood"},
    "src/whatif/catalogue/optimizer.cpp": {"·kFewer": "another update from the same, counted a little differently"},
    "src/whatif/catalogue/saved_tensors.cpp": {"kStatistic": "statistics of a norm from activations"},
    "src/memory/reserved.cpp": {"kSame": "gradients as large as the parameters from shards and other types"},
    "src/analysis/cpu_prior.cpp": {
        "kLeastKept": "a phase timed with and without the profiler from two different ones",
        "kMostKept": "the same, longer without it",
        "kFarBehindMs": "a GPU that keeps up from one whose queue may be full",
        "kPendingLaunches": "a queue with room from a full one",
    },
    "include/foretrace/whatif/unprofiled.hpp": {
        "longest_hand_over": "another thread's wake-up from one the profiler delayed",
        "longest_join": "the same behind backward",
        "longest_sync_return": "the same behind a wait for the GPU",
        "longest_stall": "what a profiler does at once from the program's own waiting",
        "longest_stretch": "a stretch between two events from work of the program",
        "long_stretches": "first operations of a phase from work of the program",
        "longest_between_launches": "a handful of events from work of the program",
        "smallest_share": "what a profiler was ever seen to cost from the program's own",
        "fewest_launches": "phases that tell what a launch costs from those that do not",
    },
    "src/trace/importers/device_clock.cpp": {
        "kWaited": "a call that waited from one that found nothing to wait for",
        "kImprecise": "a clock that is read imprecisely from one of another domain",
        "kOneIn": "rows that went wrong from a clock that is off",
    },
    "src/trace/step_repetition.cpp": {"kSame": "steps that differ a little from other work", "kLonger": "a rest between steps from one between layers"},
    "src/trace/step_ranges.cpp": {"kIdle": "a period from a pause", "kClose": "ranges that follow each other from ranges with work between them"},
}
CPU_PRIOR = "src/analysis/cpu_prior.cpp"
HEADER = f"""#include <cstdlib>
#include <string_view>
namespace foretrace {{
// Times `factor` where the environment says so, or 1 less that times the distance from 1.
template <class T>
inline T threshold(std::string_view name, T value, bool share) {{
  const char* set = std::getenv("{VARIABLE}");
  if (set == nullptr) return value;
  const std::string_view text = set;
  const std::size_t at = text.find('=');
  if (text.substr(0, at) != name) return value;
  const double factor = std::atof(text.substr(at + 1).data());
  const double v = static_cast<double>(value);
  return static_cast<T>(share ? 1 - factor * (1 - v) : factor * v);
}}
}}  // namespace foretrace
"""


def every() -> list[tuple[str, str, str, bool]]:
    """File, name, what it separates, whether it is a share close to 1."""
    return [(file, name.lstrip("·"), text, name.startswith("·")) for file, names in THRESHOLDS.items() for name, text in names.items()]


def patched(text: str, file: str, name: str, share: bool) -> str:
    """The source with `constexpr T name = value` asking the environment; an error where there is none."""
    found = re.search(rf"^(.*?)\b(?:constexpr|const)\b(.*\b{name} =\s+)([^,;{{}}(]+)([,;].*)$", text, re.MULTILINE)
    if not found:
        raise SystemExit(f"{file}: no constant {name}")
    type_of = found[2].split()[0]
    call = f'::foretrace::threshold<{type_of}>("{file}:{name}", {found[3]}, {str(share).lower()})'
    return text[:found.start()] + f"{found[1]}const{found[2]}{call}{found[4]}" + text[found.end():]


def patch(tree: Path) -> None:
    (tree / "src" / "base" / "threshold.hpp").write_text("#pragma once\n" + HEADER)
    fields = ""
    for file, names in THRESHOLDS.items():
        if file.startswith("include/"):
            for name in names:
                fields += f'  prior.{name} = ::foretrace::threshold("{file}:{name}", prior.{name}, false);\n'
            continue
        path = tree / file
        text = path.read_text()
        for name in names:
            text = patched(text, file, name.lstrip("·"), name.startswith("·"))
        include = '#include "base/threshold.hpp"\n'
        path.write_text(include + text if path.suffix == ".cpp" else text.replace("#pragma once\n", "#pragma once\n" + include, 1))
    path = tree / CPU_PRIOR
    path.write_text(path.read_text().replace("  whatif::CpuPrior prior;\n", "  whatif::CpuPrior prior;\n" + fields, 1))


def steps(program: Path, setting: str | None) -> dict[tuple[str, str, str], tuple[float | None, float | None]]:
    """Predicted step and its error, by row."""
    os.environ.pop(VARIABLE, None)
    if setting:
        os.environ[VARIABLE] = setting
    results, _ = accuracy.measure(accuracy.Program(program), [Folder(ROOT / "data" / f) for f in FOLDERS])
    return {(r.folder, r.row.model, r.row.variant): (r.prediction.get("ms"), r.time_pct) for r in results}


def effect(now: dict, then: dict) -> tuple[int, float]:
    """Rows that moved, and by how many points the mean error changed."""
    moved = sum((then[k][0] is None) != (ms is None) or (ms is not None and abs(then[k][0] / ms - 1) > MOVED) for k, (ms, _) in now.items())
    errors = [(abs(then[k][1]), abs(pct)) for k, (_, pct) in now.items() if pct is not None and then[k][1] is not None]
    return moved, mean(a for a, _ in errors) - mean(b for _, b in errors)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--patch", type=Path, metavar="TREE")
    parser.add_argument("--program", type=Path)
    parser.add_argument("--only", type=re.compile, default=re.compile(""))
    parser.add_argument("--json", type=Path, help="what was measured, kept here as it comes; what it holds is not measured again")
    parser.add_argument("--update-docs", action="store_true")
    options = parser.parse_args()
    if options.patch:
        patch(options.patch)
        return 0
    if not options.program:
        parser.error("--patch or --program")
    found: dict[str, list] = json.loads(options.json.read_text()) if options.json and options.json.exists() else {}
    now = steps(options.program, None)
    for file, name, _, _ in every():
        key = f"{file}:{name}"
        if key in found or not options.only.search(key):
            continue
        found[key] = [effect(now, steps(options.program, f"{key}={factor}")) for factor in (0.5, 2)]
        print(key, *(f"{moved} rows, {points:+.3f} points" for moved, points in found[key]), sep="; ", flush=True)
        if options.json:
            options.json.write_text(json.dumps(found, indent=1))
    if options.update_docs:
        rows = [[f"`{Path(file).name}` {'· ' if share else ''}`{name}`", text,
                 *(f"{moved} ({points:+.2f})" for moved, points in found[f"{file}:{name}"])]
                for file, name, text, share in every() if f"{file}:{name}" in found]
        head = ["threshold", "separates", "at half: rows that move (points of the mean error)", "at twice"]
        write_between(DOCS, "thresholds", "\n".join([f"{len(now)} rows of {' and '.join(FOLDERS)}.", "", *aligned(head, rows)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
