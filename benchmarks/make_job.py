#!/usr/bin/env python3
"""A job of many ranks made of the traces of a smaller one, for job_speed: rank r has the trace of rank r mod N, with its own number, and every
process group of all ranks has all of them. Other groups are moved to the ranks of their copy.

    benchmarks/make_job.py -o FOLDER [--ranks 64] [--gzip] TRACE…      (in the order of their ranks)
"""

import argparse
import gzip
import json
import re
from pathlib import Path


def read(path: Path) -> dict:
    with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
        return json.load(file)


def listed(text: str) -> list[int]:
    return [int(n) for n in re.findall(r"\d+", text)]


def moved(trace: dict, first: int, small: int, world: int) -> dict:
    """The trace of a rank of the copy that begins at rank `first`."""

    def members(ranks: list[int]) -> list[int]:
        return list(range(world)) if len(ranks) == small else [r + first for r in ranks]

    def name(group: str, ranks: list[int]) -> str:
        return group if len(ranks) == small else f"{group}.{first}"

    out = dict(trace, distributedInfo=dict(trace["distributedInfo"], rank=trace["distributedInfo"]["rank"] + first, world_size=world))
    groups = [dict(g, pg_name=name(g["pg_name"], g["ranks"]), ranks=members(g["ranks"]), pg_size=len(members(g["ranks"])))
              for g in trace["distributedInfo"].get("pg_config", [])]
    if groups:
        out["distributedInfo"]["pg_config"] = groups
    known = {g["pg_name"]: g["ranks"] for g in trace["distributedInfo"].get("pg_config", [])}
    events = []
    for event in trace["traceEvents"]:
        args = event.get("args")
        if args and "Process Group Name" in args:
            ranks = known.get(args["Process Group Name"], listed(args.get("Process Group Ranks", "")))
            args = dict(args)
            args["Process Group Name"] = name(args["Process Group Name"], ranks)
            args["Process Group Ranks"] = str(members(ranks))
            args["Group size"] = len(members(ranks))
            for end in ("Src Rank", "Dst Rank"):
                if end in args:
                    args[end] += first
            event = dict(event, args=args)
        events.append(event)
    out["traceEvents"] = events
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="+", type=Path)
    parser.add_argument("-o", "--out", required=True, type=Path)
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--gzip", action="store_true")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    small = [read(path) for path in options.traces]
    for r in range(options.ranks):
        text = json.dumps(moved(small[r % len(small)], r - r % len(small), len(small), options.ranks))
        path = options.out / f"rank{r}.json"
        if options.gzip:
            path.with_suffix(".json.gz").write_bytes(gzip.compress(text.encode(), 1))
        else:
            path.write_text(text)


if __name__ == "__main__":
    main()
