#!/usr/bin/env python3
"""Whole models trained on a GPU, predicted from steps recorded on an H200.

    tools/gpu_throughput.py [DIR] [--gpu RTX-3090] [--program build/foretrace]

DIR (default: FORETRACE_PUBLIC) holds `training-throughput.csv.gz`. Models that our own traces hold (data/) are predicted in AMP, in the
memory format and batch of the row, and compared with its step. No number was fitted to these rows, but they were looked at while the
rules for convolutions, layouts and half-rate tensor cores were chosen. Needs pandas.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Name in the table: trace, its batch.
TRACES = {
    "resnet18": ("h200-clean/resnet18", 64), "resnet34": ("h200-heldout/resnet34", 16), "resnet50": ("h200-clean/resnet50", 64),
    "vgg16": ("h200-more/vgg16", 128), "vit_base_patch16_224": ("h200-more/vit_b_16", 96), "convnext_tiny": ("h200-more/convnext_tiny", 128),
    "densenet121": ("h200-clean/densenet121@8", 8), "efficientnet_b0": ("h200-families/efficientnet_b0", 256),
    "mobilenetv3_large_100": ("h200-clean/mobilenet_v3_large@16", 16), "swin_tiny_patch4_window7_224": ("h200-heldout/swin_t", 48),
}  # fmt: skip
GPUS = {"RTX 3090": "RTX-3090"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, nargs="?", default=os.environ.get("FORETRACE_PUBLIC"))
    parser.add_argument("--gpu", default="RTX 3090", choices=GPUS)
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build" / "foretrace")
    args = parser.parse_args()
    if args.folder is None:
        print("left out: no folder given, and FORETRACE_PUBLIC is not set", file=sys.stderr)
        sys.exit(77)
    import pandas as pd

    table = pd.read_csv(pathlib.Path(args.folder) / "training-throughput.csv.gz")
    errors, inside = [], 0
    for row in table[(table.gpu == args.gpu) & table.model.isin(TRACES)].itertuples():
        trace, batch = TRACES[row.model]
        uses = ["amp"] + (["channels-last"] if row.memory_format == "NHWC" else [])
        uses += [f"batch:x={row.batch_per_gpu / batch:g}"] if row.batch_per_gpu != batch else []
        command = [str(args.program), "gpus", str(ROOT / "data" / f"{trace}.base.json.gz"), *uses, "--to", GPUS[args.gpu], "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        found = json.loads(done.stdout)["predictions"][0]
        if "ms" not in found:
            print(f"{row.model:32s} {row.memory_format} {found['declined']}")
            continue
        errors.append(found["ms"] / row.step_ms - 1)
        inside += found["low_ms"] <= row.step_ms <= found["high_ms"]
        print(f"{row.model:32s} {row.memory_format} batch {row.batch_per_gpu:4.0f}  measured {row.step_ms:7.1f}  predicted {found['ms']:7.1f} ms  {100 * errors[-1]:+5.0f} %")
    if errors:
        print(f"{len(errors)} rows: median {100 * statistics.median(abs(e) for e in errors):.1f} %, inside the band {inside}")


if __name__ == "__main__":
    main()
