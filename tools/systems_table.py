#!/usr/bin/env python3
"""Daydream's ten changes and dPRO's schemes with the errors those papers print beside ours, which come from
src/whatif/validation/errors.csv: the table in docs/internals/scale.md.

    tools/systems_table.py            writes the table
    tools/systems_table.py --check    fails when the page says something else

Published means and worst cases are of the tables and figures of Daydream (USENIX ATC 2020: figures 5, 7, 8 and 10, section 6) and dPRO (MLSys
2022: figure 7), recomputed from printed milliseconds where a figure has them.
"""

import sys
from pathlib import Path

import fitted
from accuracy_tables import with_between
from track_record import ERRORS
from truth import ROOT

PAGE = ROOT / "docs" / "internals" / "scale.md"
# (change, what-if, Daydream, dPRO)
CHANGES = (
    ("mixed precision", "amp", "9.4, worst 15.4 %", "–"),
    ("fused Adam", "fused-optimizer", "6.4, worst 12.6 %", "–"),
    ("restructured batch norm", "batchnorm", "6.1 % (one row)", "–"),
    ("data parallel", "ddp", "4.1, worst 12.8 %", "–"),
    ("data parallel by Horovod", "horovod", "–", "2.6, worst 6.1 %"),
    ("parameter servers", "ps", "–", "4.5, worst 7.4 %"),
    ("P3", "p3", "4.8, worst 17.3 %", "–"),
    ("BlueConnect", "blueconnect", "–", "–"),
    ("MetaFlow's substitution", "substitute", "–", "–"),
    ("vDNN", "offload", "–", "–"),
    ("Gist", "compress-activations", "–", "–"),
    ("DGC and other compressions", "compress-gradients", "–", "–"),
    ("a faster network", "bandwidth", "as data parallel", "–"),
)


def text() -> str:
    found = {cells[0]: cells for cells in (line.split(",") for line in ERRORS.read_text().splitlines()) if not cells[0].startswith("#")}
    lines = ["| change | what-if | Daydream | dPRO | foretrace, rows, mean and worst |", "|---|---|---|---|---|"]
    for change, name, daydream, dpro in CHANGES:
        mine = found.get(name)
        ours = f"{mine[1]}: {mine[2]}, worst {mine[3]} %" if mine and mine[2] else "no row with a time"
        lines.append(f"| {change} | `{name}` | {daydream} | {dpro} | {ours} |")
    return "\n".join(lines)


def files() -> dict[Path, str]:
    return {PAGE: with_between(PAGE, "systems", text())}


if __name__ == "__main__":
    sys.exit(fitted.main(__doc__, lambda _: files()))
