"""Whole models trained on other GPUs, predicted from steps recorded on an H200 (`training-throughput.csv.gz`, part of tools/gpu_accuracy.py):

- an RTX 3090 in AMP: the step itself against the one measured there (pytorch-image-models);
- an A100 against a V100 in one container (NVIDIA/DeepLearningExamples): the ratio of samples per second, so that what both hosts and their data
  loading do cancels. Rows are paired where the precision is the same (AMP), or is each container's default (TF32 on the A100, FP32 on the V100);
- a ResNet-50 step of 32 images in FP32 against a trace from a V100 (`kineto-misc/resnet_v100_ns.json.gz`).

Batch, precision and memory format of a row are stacked on a trace in FP32, or in AMP where that was recorded (IN_AMP). `is` says how near the recorded
network is: `same`; `part`, fewer of the same layers; `like`, the same kind with other sizes. No number was fitted to these rows; the RTX 3090's were looked
at while the rules for convolutions, layouts and half-rate tensor cores were chosen.
"""

import os
import pathlib
import statistics
import sys

import gates
from truth import ROOT

# Name in the table: trace under data/, its batch.
IMAGES = {
    "resnet18": ("h200-clean/resnet18", 64), "resnet34": ("h200-heldout/resnet34", 16), "resnet50": ("h200-clean/resnet50", 64),
    "vgg16": ("h200-more/vgg16", 128), "vit_base_patch16_224": ("h200-more/vit_b_16", 96), "convnext_tiny": ("h200-more/convnext_tiny", 128),
    "densenet121": ("h200-clean/densenet121@8", 8), "efficientnet_b0": ("h200-families/efficientnet_b0", 256),
    "mobilenetv3_large_100": ("h200-clean/mobilenet_v3_large@16", 16), "swin_tiny_patch4_window7_224": ("h200-heldout/swin_t", 48),
}  # fmt: skip
# Name in the table, input: trace, its batch, how near it is, further changes. A name that begins with $ is in that folder of others' data.
PAIRS = {
    ("resnet50_v1.5", "224x224"): ("h200-clean/resnet50", 64, "same", ()),
    ("efficientnet_b0", "224x224"): ("h200-families/efficientnet_b0", 256, "same", ()),
    ("gnmt_v2", "variable"): ("$FORETRACE_TRUTH/h200/gnmt", 64, "same", ()),
    ("resnext101_32x4d", "224x224"): ("h200-throughput/resnext101_32x4d", 64, "same", ()),
    ("efficientnet_b4", "380x380"): ("h200-throughput/efficientnet_b4", 32, "same", ()),
    ("ssd300_resnet50", "300x300"): ("h200-throughput/ssd300", 32, "same", ()),
    ("bert_large", "seq 128"): ("h200-throughput/bert_pre128", 32, "same", ()),
    ("transformer_big", "batch given in tokens"): ("h200-throughput/transformer_big", 2560, "same", ()),
    ("bert_large", "seq 512"): ("h200-heldout/bert_large8", 16, "part", ()),
    ("bert_large", "seq 384"): ("h200-heldout/bert_large8", 16, "part", ("sequence:x=0.75",)),
    ("dlrm_small", "26 cat + 13 num"): ("h200-families/dlrm", 65536, "like", ()),
    ("nnunet_2d", "2D patch (README default)"): ("h200-families/unet", 64, "like", ()),
}  # fmt: skip
# Recorded in AMP too, as it was published: trace, its batch. Rows in AMP start from these, all others from FP32.
IN_AMP = {("resnext101_32x4d", "224x224"): ("h200-throughput/resnext101_32x4d@128", "ampcl", 128)}
DEVICES = {"RTX 3090": "RTX-3090", "A100-SXM4-40GB": "A100-SXM4-40GB", "A100-SXM4-80GB": "A100-SXM4-80GB", "V100-SXM2-16GB": "V100-SXM2-16GB",
           "V100-SXM2-32GB": "V100-SXM2-32GB", "V100-SXM3-32GB": "V100-SXM2-32GB"}  # fmt: skip
PRECISIONS = {"AMP-FP16": ("amp",), "TF32": ("tf32",), "FP32": ()}
# NVIDIA's programs in which AMP is apex's level O2: weights in FP16 (run_pretraining.py and run_squad.py of BERT, ddp_trainer.py of the Transformer).
WEIGHTS_IN_HALF = ("bert_large", "bert_base_squad", "bert_large_squad", "transformer_big")
# torchvision drops whole blocks of these while it trains, timm only on request.
DROPS_BLOCKS = ("convnext_tiny", "efficientnet_b0")
# Layouts that the table does not state. NVIDIA's SSD: `--data-layout` of PyTorch/Detection/SSD/main.py is channels_last since January 2022, in every
# precision, and neither the benchmark of its README (October 2022) nor its example scripts pass another one.
LAYOUTS = {"ssd300_resnet50": "NHWC"}
# Batches that wait on the GPU: timm's and Lambda's synthetic images are made there, NVIDIA's loaders (PrefetchedWrapper, DALI) copy the next batch on a stream
# of their own. The recorded steps copy theirs first, which is up to 7 % of a large batch; so does the script of csc.
BATCHES_THERE = "duration:select=*HtoD*,x=0"
COPIES_BATCHES = ("csc-2023", "csc-2023-rocm", "csc-2024")


class Program:
    """Answers of `foretrace gpus`, each asked once."""

    def __init__(self, path):
        self.path, self.known = path, {}

    def on(self, trace, uses, device):
        """The prediction there, or None with the reason printed."""
        key = (trace, tuple(uses), device)
        if key not in self.known:
            answer = gates.ask(self.path, "gpus", str(trace), *uses, "--to", device)
            found = answer.get("predictions", [{}])[0]
            if "ms" not in found:
                print(f"left out, {trace} {' '.join(uses)} on {device}: {found.get('declined') or answer.get('error')}", file=sys.stderr)
                found = None
            self.known[key] = found
        return self.known[key]


def trace_of(name, variant="base"):
    """None where the folder is not there."""
    path = pathlib.Path(os.path.expandvars(name)) if name.startswith("$") else ROOT / "data" / name
    path = path.with_name(f"{path.name}.{variant}.json.gz")
    return path if path.exists() else None


def layout_of(model, memory_format):
    return LAYOUTS.get(model, memory_format) if memory_format == "not stated" else memory_format


def stacked(source, model, precision, batch, own, layout="", recorded=False):
    """What makes a trace of `own` samples the published step; `recorded`: precision and layout are the trace's own."""
    in_half = precision == "AMP-FP16" and model in WEIGHTS_IN_HALF
    uses = [] if recorded else ["half:dtype=fp16"] if in_half else [*PRECISIONS[precision]]
    uses += ["channels-last"] if layout == "NHWC" and not recorded else []
    uses += [f"batch:x={batch / own:g}"] if batch != own else []
    uses += ["duration:select=*stochastic_depth*,x=0"] if source == "huggingface" and model in DROPS_BLOCKS else []
    return uses if source in COPIES_BATCHES else [*uses, BATCHES_THERE]


def steps(table, program, gpu="RTX 3090"):
    """Steps in AMP against those measured."""
    rows = []
    for row in table[(table.gpu == gpu) & table.model.isin(IMAGES)].itertuples():
        name, batch = IMAGES[row.model]
        found = program.on(trace_of(name), stacked("huggingface", row.model, row.precision, row.batch_per_gpu, batch, row.memory_format), DEVICES[gpu])
        if found:
            rows.append({"model": row.model, "format": row.memory_format, "batch": int(row.batch_per_gpu), "measured_ms": row.step_ms,
                         "predicted_ms": round(found["ms"], 1), "error_pct": round(100 * (found["ms"] / row.step_ms - 1), 1),
                         "inside": found["low_ms"] <= row.step_ms <= found["high_ms"]})  # fmt: skip
    return rows


def ratios(table, program):
    """Samples per second on an A100 over those on a V100."""
    rows = []
    known = table[table.precision.isin(PRECISIONS) & table.gpu.isin(DEVICES) & (table.doubtful != "mild")]
    for (model, size), (name, batch, nearness, changes) in PAIRS.items():
        trace = trace_of(name)
        if trace is None:
            print(f"left out, {model}: no {name}", file=sys.stderr)
            continue
        mine = known[(known.model == model) & (known.input_size == size)]
        for a in mine[mine.gpu.str.startswith("A100")].itertuples():
            for v in mine[mine.gpu.str.startswith("V100")].itertuples():
                same = a.precision == v.precision
                if not same and (a.precision, v.precision) != ("TF32", "FP32"):
                    continue
                # Of several batches on the A100, the one nearest to the V100's: memory decides which are there.
                rivals = mine[(mine.gpu == a.gpu) & (mine.precision == a.precision)].batch_per_gpu
                if abs(a.batch_per_gpu - v.batch_per_gpu) > (rivals - v.batch_per_gpu).abs().min():
                    continue
                amp = IN_AMP.get((model, size)) if a.precision == v.precision == "AMP-FP16" else None
                start, own = (trace_of(*amp[:2]), amp[2]) if amp else (trace, batch)
                stacks = [[*changes, *stacked("NVIDIA", r.model, r.precision, r.batch_per_gpu, own, layout_of(r.model, r.memory_format), bool(amp))] for r in (a, v)]
                there = [program.on(start, stack, DEVICES[r.gpu]) for stack, r in zip(stacks, (a, v))]
                if not all(there):
                    continue
                measured = a.throughput / v.throughput
                predicted = (a.batch_per_gpu / there[0]["ms"]) / (v.batch_per_gpu / there[1]["ms"])
                rows.append({"model": model, "input": size, "is": nearness, "precision": a.precision if same else f"{a.precision} / {v.precision}",
                             "batches": [int(a.batch_per_gpu), int(v.batch_per_gpu)], "gpus": [a.gpu, v.gpu], "measured": round(measured, 3),
                             "predicted": round(predicted, 3), "error_pct": round(100 * (predicted / measured - 1), 1),
                             "stacked": stacks[0], "recorded": "AMP" if amp else "FP32"})  # fmt: skip
    return rows


def resnet_on_v100(folder, program):
    """A step of 32 images against a trace from there; None where it is missing."""
    recorded = pathlib.Path(folder) / "kineto-misc" / "resnet_v100_ns.json.gz"
    if not recorded.exists():
        return None
    measured = gates.ask(program.path, "summary", str(recorded))["traced_ms"]
    found = program.on(trace_of("h200-clean/resnet50"), ["batch:x=0.5"], "V100-SXM2-32GB")
    return {"measured_ms": round(measured, 1), "predicted_ms": round(found["ms"], 1), "error_pct": round(100 * (found["ms"] / measured - 1), 1)}


def figures(rows):
    errors = sorted(abs(r["error_pct"]) for r in rows)
    if not errors:
        return None
    # The nearest rank: with few rows nothing is interpolated.
    return {"rows": len(errors), "models": len({r["model"] for r in rows}), "median_pct": round(statistics.median(errors), 1),
            "p90_pct": errors[min(len(errors) - 1, -(-9 * len(errors) // 10) - 1)], "max_pct": errors[-1]}  # fmt: skip


def throughput(folder, program):
    """What tools/gpu_accuracy.py shows; None where the table is missing."""
    path = pathlib.Path(folder) / "training-throughput.csv.gz"
    if not path.exists():
        return None
    import pandas as pd

    table, asked = pd.read_csv(path), Program(program)
    rtx, pairs = steps(table, asked), ratios(table, asked)

    def equal(r):
        return r["batches"][0] == r["batches"][1] and "/" not in r["precision"]

    return {"steps": {**(figures(rtx) or {}), "inside": sum(r["inside"] for r in rtx)},
            "ratios": {"equal batch and precision": figures([r for r in pairs if equal(r)]),
                       "equal precision, each its own batch": figures([r for r in pairs if "/" not in r["precision"]]),
                       "TF32 over FP32, each its own batch": figures([r for r in pairs if "/" in r["precision"]]),
                       "all": figures(pairs), "all, the same network": figures([r for r in pairs if r["is"] == "same"])},
            "resnet_on_v100": resnet_on_v100(folder, asked), "step_rows": rtx, "ratio_rows": pairs}  # fmt: skip
