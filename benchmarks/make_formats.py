#!/usr/bin/env python3
"""Large files for format_speed: benchmarks/make_formats.py nsight|xplane OUT [--steps N]

A step of `nsight` has 14 rows in the mix of a real training run (ranges, calls, kernels, synchronisation), one of `xplane` seven
kernels of a compiled program and its host rows.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "formats"))
import nsight_database
import xplane_file


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("format", choices=["nsight", "xplane"])
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=100_000)
    options = parser.parse_args()
    options.out.unlink(missing_ok=True)
    if options.format == "nsight":
        nsight_database.training(options.out, steps=options.steps, journal_mode="off", synchronous="off")
    else:
        xplane_file.profile(options.out, steps=options.steps)
    print(f"{options.out}: {options.out.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
