#!/usr/bin/env python3
"""`optimize` with 200 evaluations against `advise`: 12 traces at 3 memory limits. No answer may gain less than advise's.

    tools/advise_optimize.py --program build/foretrace [--gate]

The limits are 60, 80 and 100 % of what the step reserves today.
"""
from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SHARES = (0.6, 0.8, 1.0)
TRACES = ["examples/resnet50-h200", *(f"data/h200-clean/{name}" for name in (
    "bert_base.base", "bert_base-today.base", "gpt2.bf16sdpafused", "gpt2@1-today.base", "llama_gqa@1.base", "lstm_lm@8.base",
    "mobilenet_v3_large@16.base", "convnext_tiny@8-image.base", "unet@4-image.base", "resnet18.base", "resnet50.base"))]


def answer(program: str, *args: str) -> dict:
    out = subprocess.run([program, *args, "--json"], capture_output=True, text=True, check=False)
    return json.loads(out.stdout)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default=str(ROOT / "build" / "foretrace"))
    parser.add_argument("--gate", action="store_true")
    args = parser.parse_args()
    worse = 0
    for name in TRACES:
        trace = str(ROOT / f"{name}.json.gz")
        today = answer(args.program, "advise", trace)
        reserved = today["baseline"]["reserved_bytes"]
        for share in SHARES:
            limit = f"{share * reserved / 1e9:.3f}"
            advised = answer(args.program, "advise", trace, "--memory-gb", limit).get("combined")
            found = answer(args.program, "optimize", trace, "--memory-gb", limit, "--budget-evals", "200")
            known = advised["gain"] if advised and advised["fits"] else 1.0
            got = found["best"]["speedup"] if "best" in found else 0.0
            mark = "" if got >= known * (1 - 1e-6) or ("error" in found and known == 1.0) else "  worse"
            worse += bool(mark)
            print(f"{name:<46} {limit:>8} GB  advise {known:6.3f} x  optimize {got:6.3f} x{mark}", flush=True)
    print(f"{worse} of {len(TRACES) * len(SHARES)} worse than advise")
    return 1 if args.gate and worse else 0


if __name__ == "__main__":
    sys.exit(main())
