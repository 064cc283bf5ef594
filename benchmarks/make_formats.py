#!/usr/bin/env python3
"""Large files for format_speed.

    benchmarks/make_formats.py nsight OUT [--steps 100000]
    benchmarks/make_formats.py xplane OUT [--steps 60000] [--like HOST.xplane.pb]

A step of `nsight` has 12 rows in the mix of a training run (ranges, calls, kernels, synchronisation); one of `xplane` seven kernels of a
compiled program and its host rows. `--like` repeats the GPU's rows of a real profile instead, each repetition moved in time.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "formats"))
import nsight_database
import xplane_file
from protobuf import fields, write

APART_PS = 90_000_000_000


def repeated_line(line: bytes, times: int) -> bytes:
    """An XLine (events = 4) whose events (offset = 2) come `times` times."""
    head = [(f, v) for f, v in fields(line) if f != 4]
    events = []
    for event in (list(fields(v)) for f, v in fields(line) if f == 4):
        offset = next((v for f, v in event if f == 2), 0)
        events.append((offset, write(*(p for p in event if p[0] < 2)), write(*(p for p in event if p[0] > 2))))
    moved = ((4, before + write((2, offset + n * APART_PS)) + behind) for n in range(times) for offset, before, behind in events)
    return write(*head, *moved)


def repeated(profile: bytes, times: int) -> bytes:
    out = []
    for field, value in fields(profile):
        if field == 1 and b"/device:" in value[:64]:
            value = write(*((f, repeated_line(v, times) if f == 3 else v) for f, v in fields(value)))
        out.append((field, value))
    return write(*out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("format", choices=["nsight", "xplane"])
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=60_000)
    parser.add_argument("--like", type=Path)
    options = parser.parse_args()
    options.out.unlink(missing_ok=True)
    if options.format == "nsight":
        nsight_database.training(options.out, steps=options.steps, journal_mode="off", synchronous="off")
    elif options.like:
        options.out.write_bytes(repeated(options.like.read_bytes(), options.steps))
    else:
        xplane_file.profile(options.out, steps=options.steps)
    print(f"{options.out}: {options.out.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
