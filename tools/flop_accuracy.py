#!/usr/bin/env python3
"""Model FLOPs of `foretrace summary` against torch.utils.flop_counter, of the same models at the same batch.

    tools/flop_accuracy.py --program build/foretrace [--gate]

Needs torch, torchvision and transformers (CPU builds do: tensors are on the meta device, nothing is computed). --gate exits with 1 when
a model is more than 2 % off.
"""
from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMIT_PCT = 2.0
# No networks with depthwise convolutions: for their backward pass flop_counter counts several times what groups leave to compute
# (MobileNetV3 9 times, ConvNeXt 3 times the multiplications of the published networks).
# trace under data/, model of tools/measure/models.py, batch, attention
CASES = [
    ("h200-clean/resnet50.base", "resnet50", 64, "eager"),
    ("h200-clean/resnet18.base", "resnet18", 64, "eager"),
    ("h200-clean/bert_base.base", "bert_base", 32, "eager"),
    ("h200-clean/bert_base.ckpt", "bert_base", 32, "eager"),  # recomputation does not count
    ("h200-clean/gpt2@1-today.base", "gpt2", 1, "sdpa"),
    ("h200-clean/unet@4-image.base", "unet", 4, "eager"),
    ("h200-clean/lstm_lm@8.base", "lstm_lm", 8, "eager"),
    ("h200-clean/llama_gqa@1.base", "llama_gqa", 1, "eager"),
]


def counted(model: str, batch: int, attention: str) -> int:
    import torch
    from measure.models import JOBS
    from torch.utils.flop_counter import FlopCounterMode
    job = JOBS[model]
    # Masks are made from values, which the meta device has not: such models run on the CPU, one sample.
    device = "cpu" if job.library == "transformers" else "meta"
    samples = 1 if device == "cpu" else batch
    with torch.device(device):
        network, data = job.build(attention, False), job.data(samples, False)
        with FlopCounterMode(display=False) as counter:
            job.loss(network, data).backward()
    return counter.get_total_flops() * batch // samples


def shown(program: str, trace: str) -> float | None:
    out = subprocess.run([program, "summary", "--json", str(ROOT / "data" / f"{trace}.json.gz")], check=True, capture_output=True)
    return json.loads(out.stdout)["model_flops"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default=str(ROOT / "build" / "foretrace"))
    parser.add_argument("--gate", action="store_true")
    args = parser.parse_args()
    import torch
    torch.library.register_fake = lambda *_, **__: lambda function: function  # torchvision's own kernels are not needed
    worst = 0.0
    for trace, model, batch, attention in CASES:
        want, got = counted(model, batch, attention), shown(args.program, trace)
        off = 100 * (got / want - 1) if got is not None else float("inf")
        worst = max(worst, abs(off))
        print(f"{trace:<40} {want:>16,} {got or 0:>16,.0f} {off:+7.2f} %", flush=True)
    print(f"worst {worst:.2f} %, limit {LIMIT_PCT:g} %")
    return 1 if args.gate and worst > LIMIT_PCT else 0


if __name__ == "__main__":
    sys.exit(main())
