#!/usr/bin/env python3
"""How many clocks things take that follow each other: src/hardware/clocks/<device>.csv, from the tables of measured operations.

    tools/fit_clocks.py             writes the table
    tools/fit_clocks.py --check     nothing is written; fails where the table is not what the measurements say

The search is in fit_clocks.cpp (build/tools/kernel_figures): the clocks, to two digits, under which the bounds of rows,
gathers, sums, prefix sums and pooling come nearest to what was measured, by the mean of the absolute logarithm. Next to each are the operations that
it bounds and how far these are from their bounds (the median of the absolute logarithm): what the nearest measured operations tell on top. Scales of the pools whose
bounds moved are to be fitted again (tools/fit_kernels.py --scales).
"""

import subprocess
import sys

import fitted
from truth import ROOT

TABLE = ROOT / "src" / "hardware" / "clocks" / "H200-SXM.csv"
HEAD = "# name,clocks,operations it bounds,median of |log(measured / bound)|: made by tools/fit_clocks.py; src/hardware/clocks.hpp says what each is"


def files(options):
    done = subprocess.run([options.program, "--clocks"], capture_output=True, text=True, check=True)
    rows = []
    for line in done.stdout.splitlines():
        name, clocks, *rest = line.split(",")
        rows.append(",".join([name, f"{float(clocks):g}", *rest]))
    return {TABLE: "\n".join([HEAD, *rows]) + "\n"}


if __name__ == "__main__":
    sys.exit(fitted.main(__doc__, files, ROOT / "build" / "tools" / "kernel_figures"))
