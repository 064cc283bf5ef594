"""`foretrace calibrate`: what the CPU of this machine costs, as a file for `--host`."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from typing import Any

from ._recorder_figures import cuda_in_use
from ._recorder_probe import probe
from ._width import tell

FIGURES = {
    "view_us": "an operation that launches nothing, without a profiler",
    "event_us": "what recording an operation adds to it",
}
"""What goes into the file, and what each is; src/host/host_costs.cpp reads them."""


def measure(torch: Any, seconds: float) -> dict[str, list[float]]:
    """Rounds of the recorder's probe, spread over the time: hosts change their speed."""
    if torch.cuda.is_available():
        torch.cuda.init()
    cuda = torch.cuda if cuda_in_use(torch) else None
    found: dict[str, list[float]] = {}
    end = time.perf_counter() + seconds
    probe(torch, cuda)  # caches, lazy initialisation
    while not found or time.perf_counter() < end:
        for name, value in probe(torch, cuda).items():
            if value is not None:
                found.setdefault(name, []).append(value)
        time.sleep(min(0.05, seconds / 20))
    return found


def csv_of(found: dict[str, list[float]], torch: Any) -> str:
    """Lines "figure,value,sample,spread": the median, how many rounds, and half of p10 to p90."""
    lines = [f"# {platform.node() or 'this host'}: {os.cpu_count()} cores, PyTorch {torch.__version__}, "
             f"Python {platform.python_version()}; written by foretrace calibrate", "# figure,value,sample,spread"]
    for name, about in FIGURES.items():
        values = sorted(found.get(name, []))
        if not values or statistics.median(values) <= 0:
            continue
        spread = (values[len(values) * 9 // 10] - values[len(values) // 10]) / 2
        lines += [f"# {about}", f"{name},{statistics.median(values):.4f},{len(values)} rounds,{spread:.4f}"]
    return "\n".join(lines) + "\n"


def said(found: dict[str, list[float]], torch: Any, seconds: float, output: str | None) -> list[str]:
    """What was done, and what comes next."""
    where = "the CPU and its launches to the GPU" if cuda_in_use(torch) else "the CPU alone (PyTorch sees no GPU)"
    lines = [f"timed {where} for {seconds:g} s, {max(map(len, found.values()), default=0)} rounds"]
    lines += [f"{about}: {statistics.median(found[name]):.2f} us" for name, about in FIGURES.items() if found.get(name)]
    if output:
        lines.append(f"wrote {output}; next: foretrace whatif TRACE amp --host {output}")
    return lines


def main(args: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="foretrace calibrate", add_help=False)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("-o", "--output")
    parser.add_argument("--json", action="store_true")
    options, unknown = parser.parse_known_args(args)
    if unknown or not options.seconds >= 0.1:
        wrong = f"unknown argument '{unknown[0]}'" if unknown else f"--seconds must be 0.1 or more, not {options.seconds}"
        tell(f"{wrong}\n  foretrace calibrate --help shows what there is")
        return 2
    try:
        import torch
    except ImportError:
        tell("calibrate times PyTorch, which this Python does not have\n  pip install torch")
        return 2
    found = measure(torch, options.seconds)
    text = csv_of(found, torch)
    if options.json:
        text_json = json.dumps({"schema": 1, "verb": "calibrate", "output": options.output,
                                "figures": {n: statistics.median(v) for n, v in found.items()}})
    try:
        if options.output:
            with open(options.output, "w", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        tell(f"{options.output} cannot be written: {error.strerror}")
        return 74
    for line in said(found, torch, options.seconds, options.output):
        tell(line)
    if options.json:
        print(text_json)
    elif not options.output:
        print(text, end="")
    return 0
