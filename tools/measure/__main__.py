"""Measures the rows of a part of the plan.

    python -u -m tools.measure PART… --out DIR [--seconds 510] [--done FILE…] [--only REGEX] [--list]

DIR gets truth.jsonl, recordings.jsonl (each line as soon as it is there) and PART.N.tar with the traces. `--done` names such
files of earlier runs: what they hold is not measured again. README.md in this folder says more.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

# Before PyTorch is imported: asking whether there is a GPU must not start CUDA in the process that forks; a compiler's worker
# processes would outlive the row; nothing is looked for on the network.
os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(Path(tempfile.gettempdir()) / "foretrace-inductor"))
os.environ.setdefault("HF_HUB_OFFLINE", "1")


def import_all(jobs: list[str]) -> None:
    """Everything the rows will import, once, before anything is forked. Built without memory, networks import their libraries."""
    import torch
    import torch._dynamo  # an optimizer's first step would
    import torch.profiler

    from .jobs import JOBS
    try:
        from .changes import batchnorm_kernels, gist_kernels  # noqa: F401
    except ImportError as error:  # without Triton
        print(f"rows with kernels of their own cannot be measured here: {error}", flush=True)
    for name in jobs:
        try:
            with torch.device("meta"):
                JOBS[name].build("eager", True)
        except Exception as error:  # its rows will say so
            print(f"{name} cannot be built here: {type(error).__name__}: {error}", flush=True)
    import importlib.metadata
    versions = []
    for library in ("torchvision", "transformers", "triton"):
        try:
            versions.append(f"{library} {importlib.metadata.version(library)}")
        except importlib.metadata.PackageNotFoundError:
            versions.append(f"no {library}")
    print(f"torch {torch.__version__}, {', '.join(versions)}, {os.cpu_count()} cores", flush=True)
    if torch.cuda.is_initialized():
        sys.exit("CUDA was started while importing: no process can be forked from here")


def main() -> int:
    from . import collect, plan, rows
    begun = time.time()
    parser = argparse.ArgumentParser(prog="tools.measure", description=__doc__.split("\n")[0])
    parser.add_argument("parts", nargs="+", metavar="PART", help=", ".join(plan.PARTS))
    parser.add_argument("--out", type=Path, default=Path("measured"))
    parser.add_argument("--seconds", type=float, default=510, help="the run ends by itself after these")
    parser.add_argument("--done", type=Path, nargs="*", default=[], help="truth.jsonl and recordings.jsonl of earlier runs")
    parser.add_argument("--only", type=re.compile, help="only tasks in whose name this is found")
    parser.add_argument("--few", action="store_true", help="five steps to warm up, five timed and five before the recorded ones: for traces, not times")
    parser.add_argument("--short", action="store_true", help="a second for each row: for GPU time and memory of many")
    parser.add_argument("--row-seconds", type=float, default=collect.ROW_S, help="a row that takes longer is given up")
    parser.add_argument("--list", action="store_true", help="print the tasks and measure nothing")
    parser.add_argument("--cpu", action="store_true", help="tiny networks on the CPU, to try the program itself")
    args = parser.parse_args()
    done = collect.already([p for p in args.done if p.exists()])
    tasks = plan.tasks(args.parts, done, args.only)
    if args.list:
        for task in tasks:
            print(task.kind, task.key, "+" if task.spec.trace else "")
        print(plan.counts(tasks))
        return 0
    import_all(sorted({t.spec.job for t in tasks}))
    print(f"{len(tasks)} tasks, ready to begin after {time.time() - begun:.0f} s", flush=True)
    with tempfile.TemporaryDirectory(prefix="measure-") as scratch:
        how: dict[str, Any] = {"device": "cpu", "tiny": True, "pace": rows.TINY} if args.cpu else {
            "pace": rows.FEW if args.few else rows.SHORT if args.short else rows.FULL}
        runner = collect.Runner("-".join(args.parts), args.out, Path(scratch), begun + args.seconds, row_s=args.row_seconds, **how)
        left_out = runner.run(tasks)
    print(f"{left_out} left out; {time.time() - begun:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
