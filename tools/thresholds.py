#!/usr/bin/env python3
"""What thresholds separate, and what happens to predictions when one is half or twice as large: docs/internals/thresholds.md.

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
from threshold_list import THRESHOLDS
from truth import ROOT, Folder

DOCS = ROOT / "docs" / "internals" / "thresholds.md"
MOVED = 0.005  # of a predicted step
# What the CPU bounds and what the GPU does, 41 recorded bases of most families.
FOLDERS = ("h200-clean", "h200-heldout")
VARIABLE = "FORETRACE_THRESHOLD"
CPU_PRIOR = "src/host/cpu_prior.cpp"
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
    path.write_text(path.read_text().replace("  CpuPrior prior;\n", "  CpuPrior prior;\n" + fields, 1))


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
