#!/usr/bin/env python3
"""How much the steps of one recording differ: src/host/step_spread.csv, for traces that hold one step alone.

    tools/fit_step_spread.py      writes it from data/, $FORETRACE_TRUTH and $FORETRACE_PUBLIC

One figure for every device: steps of a recording differ with the program and its host, and the recordings are of several GPUs. Of every recording of
three steps or more, the logarithm of each step over the median of the others. Steps in which the CPU still runs away from its GPU do not count, nor
do traces that a script made (`made-…`), nor a second file of the same recording. The standard deviation is the one whose 10th and 90th percentile
hold four of five of them, each recording one vote, as for the other families of errors (tools/fit_bands.py).
"""

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from statistics import median

from fit_bands import sigma
from truth import ROOT

TABLE = ROOT / "src" / "host" / "step_spread.csv"
SUFFIXES = (".json", ".json.gz", ".json.zst", ".xplane.pb", ".xplane.pb.gz")


def recordings() -> list[Path]:
    folders = [ROOT / "data", ROOT / "examples", *(Path(os.environ[n]) for n in ("FORETRACE_TRUTH", "FORETRACE_PUBLIC") if n in os.environ)]
    return sorted(p for folder in folders for p in folder.rglob("*") if p.name.endswith(SUFFIXES) and "made-" not in str(p))


def steps_of(path: Path) -> tuple[float, ...]:
    done = subprocess.run([ROOT / "build" / "foretrace", "replay", path, "--json", "-q"], capture_output=True, text=True, check=False)
    try:
        steps = json.loads(done.stdout).get("steps", [])
    except ValueError:
        return ()
    return tuple(s["traced_ms"] for s in steps if not s.get("ramp_up"))


def main() -> int:
    if not {"FORETRACE_TRUTH", "FORETRACE_PUBLIC"} <= os.environ.keys():
        sys.exit("set FORETRACE_TRUTH and FORETRACE_PUBLIC: the project's own recordings are too few")
    seen = set()
    rows = []
    for path in recordings():
        steps = steps_of(path)
        shape = tuple(round(s, 2) for s in steps)
        if len(steps) < 3 or shape in seen:
            continue
        seen.add(shape)
        rows += [("steps", path.name, math.log(s / median(steps[:i] + steps[i + 1:]))) for i, s in enumerate(steps)]
    found = sigma(rows)
    TABLE.write_text("# name,value,of: written by tools/fit_step_spread.py, which says what it is\n"
                     f"one_step,{found:.3f},{len(seen)} recordings of {len(rows)} steps\n")
    print(f"{found:.3f} from {len(seen)} recordings of {len(rows)} steps")
    return 0


if __name__ == "__main__":
    sys.exit(main())
