#!/usr/bin/env python3
"""Strategies that use every piece of generated code, and the files written for them.

    tests/code/plans.py --program build/foretrace FOLDER

Needs nothing but Python and the program; tests/code/structure_test.py, tests/python/torch/test_generated_code.py and
tests/python/torch/generated_code_gpu.py read the files.
"""

import argparse
import json
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RESNET = ROOT / "examples" / "resnet50-h200.json.gz"
ATTENTION = "h200/bert_base.base.json.gz"  # of FORETRACE_TRUTH


def workers(**more) -> dict:
    return {"workers": 16, "fabric": "DGX-H100", "scheme": "ddp", **more}


BUCKETS = [{"gradients": [0, 41], "partitions": 2}, {"gradients": [42, 160]}]

# name -> what-ifs, communication
PLANS: dict[str, tuple[list[str], dict | None]] = {
    "nothing": ([], None),
    "accumulate": (["accumulate:n=4"], None),
    "amp_bf16": (["amp:dtype=bf16"], None),
    "amp_fp16": (["amp"], None),
    "amp_layers": (["amp:dtype=bf16,layers=layer1.0|layer1.1|layer3"], None),
    "amp_layers_fp16": (["accumulate:n=2", "amp:layers=layer2.*"], None),
    "tf32": (["tf32"], None),
    "channels_last": (["amp:dtype=bf16", "channels-last"], None),
    "checkpoint": (["checkpoint"], None),
    "checkpoint_layers": (["checkpoint:layers=layer1.0|layer1.1"], None),
    "compile": (["compile"], None),
    "compile_layers": (["compile:layers=layer3|layer4"], None),
    "compile_mode": (["compile:mode=reduce-overhead"], None),
    "compress_activations_16": (["compress-activations"], None),
    "compress_activations_8": (["compress-activations:bits=8"], None),
    "offload": (["offload"], None),
    "offload_prefetch": (["offload:prefetch=1"], None),
    "foreach": (["foreach-optimizer"], None),
    "fused": (["fused-optimizer"], None),
    "cuda_graph": (["cuda-graph"], None),
    "cuda_graph_layers": (["cuda-graph:layers=layer3|layer4"], None),
    "cuda_graph_fp16": (["amp", "cuda-graph"], None),
    "cuda_graph_fp16_fused": (["amp", "fused-optimizer", "cuda-graph"], None),
    "cuda_graph_all": (["amp:dtype=bf16", "channels-last", "foreach-optimizer", "cuda-graph"], None),
    "no_sync": (["no-sync"], None),
    "together": (["accumulate:n=2", "amp:dtype=bf16", "channels-last", "fused-optimizer", "compile"], None),
    "ddp": ([], workers(first_bucket_mb=1)),
    "ddp_compile": (["compile"], workers(bucket_mb=50)),
    "ddp_fp16_gradients": (["accumulate:n=2"], workers(compression="fp16")),
    "ddp_powersgd": ([], workers(compression="powersgd")),
    "plan": (["compile"], workers(buckets=BUCKETS)),
    "plan_accumulate": (["accumulate:n=2", "amp"], workers(buckets=BUCKETS)),
    "zero1": (["fused-optimizer"], workers(scheme="zero1")),
    "zero2": ([], workers(scheme="zero2")),
    "fsdp": (["accumulate:n=2", "compile"], workers(scheme="fsdp")),
    "fsdp_fp16_gradients": ([], workers(scheme="fsdp", compression="fp16")),
    "blueconnect": ([], workers(scheme="blueconnect", gpus_per_node=2)),
    "by_hand": ([], workers(scheme="ps")),
}
ATTENTION_PLANS: dict[str, tuple[list[str], dict | None]] = {"flash_attention": (["flash-attention"], None)}


def write_plans(folder: Path, program: list[str]) -> dict[str, Path]:
    """The script of each plan; `program` is the command that runs foretrace."""
    folder.mkdir(parents=True, exist_ok=True)
    truth = Path(os.environ.get("FORETRACE_TRUTH") or "/nowhere") / ATTENTION
    asked = [(RESNET, PLANS)] + ([(truth, ATTENTION_PLANS)] if truth.exists() else [])
    written = {}
    for trace, plans in asked:
        for name, (whatifs, communication) in plans.items():
            strategy, code = folder / f"{name}.json", folder / f"{name}.py"
            value = {"schema": 1, "whatifs": whatifs}
            strategy.write_text(json.dumps(value | ({"communication": communication} if communication else {})))
            command = [*program, "whatif", str(trace), "--strategy", str(strategy), "--code-out", str(code), "--quiet"]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode != 0:
                raise RuntimeError(f"{name}: {done.stdout}{done.stderr}")
            written[name] = code
    return written


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/foretrace")
    parser.add_argument("folder", type=Path)
    asked = parser.parse_args()
    print(len(write_plans(asked.folder, [asked.program])), "files in", asked.folder)
