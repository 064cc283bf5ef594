"""Published steps of parallel training ($FORETRACE_PUBLIC/parallel/training-steps.csv.gz) as questions: which recorded decoder answers a
row, and with which plan, network and changes.

A decoder answers a row of its width, heads, feed-forward size and experts; another sequence length is the what-if `sequence`. What the
source says is followed (its README says how far to trust it): recomputation, optimizer sharding, overlap, precision of gradients, compiled.
"""

import csv
import dataclasses
import gzip
from pathlib import Path

# How the sources name GPUs.
GPUS = (
    ("B200", "B200"),
    ("H100-96GB", "H100-HBM2e"),
    ("H100-94GB", "H100-HBM2e"),
    ("H100", "H100-SXM5"),
    ("A100-SXM4-40GB", "A100-SXM4-40GB"),
    ("A100", "A100-SXM4-80GB"),
    ("H200", "H200-SXM"),
)
# What joins them, by GPU and what the source says of the network; the first that fits. A rate in GB/s per GPU is put in place of the fabric's.
NETWORKS = (
    ("B200", "", "DGX-B200", None),
    ("H100", "EFA", "AWS-p5", None),
    ("H200", "", "DGX-H200", None),
    ("H100", "", "DGX-H100", None),
    ("A100", "800 Gb/s per node", "DGX-A100", 12.5),
    ("A100", "", "DGX-A100", None),
)
# Below that the launches decide (the table's README): vTrain's rows of 20 TFLOP/s and more are judged.
LAUNCH_BOUND_TFLOPS = 20
LEAST_MFU = 10  # of the Playbook's rows
# Programs older than FlashAttention-2 take so many times as long for attention (its paper, arXiv 2307.08691: "around 2x").
FIRST_FLASH = 2.0


@dataclasses.dataclass(frozen=True)
class Question:
    """What the program is asked for all rows that share it; the plans are asked together."""

    trace: str
    gpu: str
    fabric: str
    per_gpu_gbs: float | None
    layers: int
    batch: float
    changes: tuple[str, ...]
    wanted: tuple[str, ...] = ()  # changes that are left away where the step does not allow them


def number(row: dict, key: str, otherwise: int = 1) -> int:
    return int(float(row[key])) if row[key] not in ("", "none") else otherwise


def rows_of(table: Path) -> list[dict]:
    with gzip.open(table, "rt") as lines:
        return [row for row in csv.DictReader(lines) if usable(row)]


def usable(row: dict) -> bool:
    if not row["step_ms"] or "flag:" in row["note"] or not row["global_batch"] or not row["layers"]:
        return False
    if "8" in row["precision"].replace("bf16", "") or "LoRA" in row["model"]:  # FP8; adapters
        return False
    if "vTrain" in row["source"]:
        return model_tflops(row) >= LAUNCH_BOUND_TFLOPS
    return "Playbook" not in row["source"] or (number(row, "tp") <= 8 and (not row["mfu"] or float(row["mfu"]) >= LEAST_MFU))


def model_tflops(row: dict) -> float:
    """TFLOP/s per GPU of a decoder with recomputed blocks, by the formula of Narayanan et al. 2021 (Megatron-LM)."""
    length, width, layers = number(row, "seq"), number(row, "hidden"), number(row, "layers")
    share = 1 + length / (6 * width) + number(row, "vocab", 51200) / (16 * layers * width)
    flop = 96 * number(row, "global_batch") * length * layers * width**2 * share
    return flop / (float(row["step_ms"]) * 1e-3) / number(row, "gpus") / 1e12


def decoder_of(row: dict, decoders: list[dict]) -> dict | None:
    """The recorded decoder of the row's shape; of its length if there is one, else of the nearest."""
    length, fitting = number(row, "seq"), []
    for d in decoders:
        s = d["shape"]
        sizes = all(s[key] == number(row, column, s[key]) for key, column in (("width", "hidden"), ("ffn", "ffn"), ("heads", "heads")))
        if sizes and s["weights"] == "pure" and not s["recompute"] and s["layers"] <= 8 and s["experts"] == number(row, "experts", 0) and "trace" in d:
            fitting.append((max(length, s["length"]) / min(length, s["length"]), d["trace"], d))
    return min(fitting, key=lambda f: f[:2])[2] if fitting else None


def question_of(row: dict, decoders: list[dict]) -> Question | str:
    """The question, or why there is none."""
    decoder = decoder_of(row, decoders)
    gpu = next((name for part, name in GPUS if part in row["gpu"]), None)
    if decoder is None:
        return "no decoder of this shape was recorded"
    if gpu is None:
        return "no such GPU"
    fabric, gbs = next((fabric, gbs) for part, words, fabric, gbs in NETWORKS if part in row["gpu"] and words in row["fabric"])
    changes = []
    if (length := number(row, "seq")) != decoder["shape"]["length"]:
        changes.append(f"sequence:x={length / decoder['shape']['length']:g}")
    if "compile" in row["note"]:
        changes.append("compile")
    if "torch 1.13/2.0" in row["framework"]:
        changes.append(f"duration:select=*flash*,x={FIRST_FLASH:g}")
    # Transformer Engine runs rotary positions, SwiGLU and the loss as one kernel each: what a compiler makes of them.
    wanted = ("compile",) if any(name in row["framework"] for name in ("NeMo", "TE ")) else ()
    return Question(decoder["trace"], gpu, fabric, gbs, number(row, "layers"), float(row["global_batch"]), tuple(changes), wanted)


def plan_of(row: dict) -> str:
    parts = [f"{key}={number(row, key)}" for key in ("tp", "pp", "cp", "ep", "dp") if number(row, key) > 1]
    if number(row, "zero", 0) > 0 and number(row, "dp") * number(row, "cp") > 1:
        parts.append(f"zero={number(row, 'zero', 0)}")
    if number(row, "tp") > 1 and row["sequence_parallel"] == "1":
        parts.append("sequence=1")
    if "async TP" in row["note"]:
        parts.append("async=1")
    if number(row, "vp") > 1:
        parts.append(f"schedule=interleaved,chunks={number(row, 'vp')}")
    if row["micro_batch"]:
        parts.append(f"microbatch={float(row['micro_batch']):g}")
    parts += recompute_of(row)
    if "nanotron" in row["framework"]:
        parts += nanotron(row)
    # FP32 weights, gradients and moments: of Megatron and its kin in addition to half-precision weights, of FSDP in place of them.
    parts.append("master=fp32")
    if "fused cross entropy" in row["note"]:
        parts.append("loss=fused")
    if "gradient reduction off" in row["note"]:  # their overlap
        parts.append("overlap=0")
    if "MP DEFAULT" in row["precision"]:  # Composer's name for FP32 parameters that autocast casts
        parts.append("param-dtype=fp32")
    if "bf16 gradient reduction" in row["note"]:
        parts.append("reduce-dtype=bf16")
    return ",".join(parts)


def nanotron(row: dict) -> list[str]:
    """DDP's buckets in half precision in addition to FP32 gradients. Stages: the next one begins behind the block whose products pass the next
    equal part of those of the model, in which the head counts and the embedding does not.
    """
    parts, stages, layers, width = ["buckets=kept"], number(row, "pp"), number(row, "layers"), number(row, "hidden")
    if number(row, "tp") > 1:
        parts.append("async=1")
    if stages > 1:
        block, head = 4 * width * width + 3 * number(row, "ffn") * width, number(row, "vocab") * width
        each = (layers * block + head) / stages
        blocks = [0] * stages
        stage = 0
        for done in range(1, layers + 1):
            blocks[stage] += 1
            if done * block > each * (stage + 1):
                stage += 1
        parts.append("stages=" + "|".join(str(n) for n in blocks))
    return parts


def recompute_of(row: dict) -> list[str]:
    how = row["recompute"]
    if "full" in how:
        return ["recompute=full"]
    if "selective" in how and "layer" in how:  # torchtitan: every second block
        return [f"recompute={number(row, 'layers') // 2}"]
    if "selective" in how:  # torchtitan's policy for single operations
        return ["recompute=alternate" if "torchtitan" in row["framework"] else "recompute=selective"]
    return []
