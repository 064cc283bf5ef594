"""Puts what runs of tools.measure.jax_steps brought back into a truth folder.

    python -m tools.measure.keep_jax OUT… --to data/h200-jax

Rows stay in the order measured; of those measured again the last counts, and one whose traced steps differ by more than a tenth was not
alone on the GPU and is left out. Of the profiles, those in protobuf are kept; the folder the measuring program lay in, which XLA writes into
every program, is replaced by one of the same length that says nothing.
"""

from __future__ import annotations

import argparse
import gzip
import json
from pathlib import Path

MOST_PCT = 10
ROOT = str(Path(__file__).resolve().parents[2]).encode()


def anonymous(profile: bytes, root: bytes) -> bytes:
    neutral = b"/" + b"x" * (len(root) - 1)
    return profile.replace(root + b"/tools/measure", neutral + b"/tools/measure")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measured", nargs="+", type=Path)
    parser.add_argument("--to", type=Path, required=True)
    parser.add_argument("--root", default=ROOT.decode(), help="where the program lay when it measured")
    args = parser.parse_args()
    args.to.mkdir(parents=True, exist_ok=True)
    all_rows = [json.loads(line) for folder in args.measured for line in (folder / "truth.jsonl").read_text().splitlines()]
    rows = list({row["trace"]: row for row in all_rows if row.get("differs_pct", 0) <= MOST_PCT}.values())
    kept = {row["trace"] for row in rows}
    for folder in args.measured:
        for path in sorted(folder.glob("*.xplane.pb.gz")):
            if path.name not in kept:
                continue
            profile = anonymous(gzip.decompress(path.read_bytes()), args.root.encode())
            (args.to / path.name).write_bytes(gzip.compress(profile, 9, mtime=0))
    (args.to / "truth.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    missing = [row["trace"] for row in rows if not (args.to / row["trace"]).exists()]
    print(f"{len(rows)} rows, {len(rows) - len(missing)} profiles" + (f"; without: {', '.join(missing)}" if missing else ""))


if __name__ == "__main__":
    main()
