"""Which rows are measured, in parts that each fit into one run, the most telling first. A line is a model and its variants; each
begins with its base and ends with it again, so that the host's drift between the two is known. `+`: recorded as well."""

from __future__ import annotations

import re
from collections.abc import Set

from .collect import Task
from .jobs import JOBS
from .switches import Spec, parse_rows

TEXT: dict[str, str] = {}
# The GPU bounds the FP32 base; the changes uncover the CPU. Then what people start from today, and changes on top of it.
TEXT["first"] = """
gpt2             base+ amp bf16 tf32 bf16sdpafused+ ckpt+ graph+ again
gpt2-today       base+ ckpt+ graph+ accum2 bsh bs2 nosync offload again
resnet50-image   base+ ckpt+ graph+ bs2 bsh accum2 nosync again
bert_base@4      base+ amp bf16sdpafused ckpt graph fused again
bert_base-today  base+ ckpt+ graph+ bs2 bsh accum2 again
resnet50         base+ amp tf32 bf16clfused ckpt+ graph+ again
mlp              base+ amp fused foreach graph nosync again
t5_4x4@2         base+ amp bf16sdpafused ckpt ckptreentrant accum2 again
efficientnet_b0@16 base+ amp bf16clfused ckpt again
bert_base        base+ amp bf16 bf16sdpafused ckpt+ again
"""

# More CPU-bound steps, of other families, and of today's starts at small batches.
TEXT["second"] = """
gpt2@1-today     base+ ckpt graph nosync again
swin_t@4         base+ amp ckpt again
llama_gqa@1      base+ bf16sdpafused ckpt again
convnext_tiny@8-image base+ ckpt graph again
dlrm@2048        base+ amp fused again
vit_b_16@4       base+ bf16fused ckpt again
densenet121@8    base+ amp again
wav2vec@1        base+ bf16fused again
lstm_lm@8        base+ amp fused again
llama_gqa-today  base+ bsh accum2 graph again
nmt_3x3          base+ amp bf16sdpafused ckpt again
unet@4-image     base+ bs2 graph again
mobilenet_v3_large@16 base+ bf16clfused again
"""

# torch.compile, alone and as a start.
TEXT["compiled"] = """
gpt2-compiled    base+ bsh accum2 bs2 ckpt graph+ nosync again
bert_base-today  base compile+ compilegraph again
resnet50-image   compile+
resnet50-compiled base+ bsh accum2 bs2 graph+ again
bert_base@4-today base compile again
bert_base-compiled base+ bsh accum2 graph+ again
llama_gqa-today  compile
vit_b_16-today   base compile again
mlp              compile
gpt2             compile bf16sdpafusedcompile
t5_4x4-today     base compile again
convnext_tiny-image base compile again
swin_t@8-today   base compile again
resnet18         base+ compile again
"""

# Sequence length and FP8 products, from today's starts.
TEXT["lengths"] = """
llama_w4-today   base+ seqh fp8 again
bert_base-today  base+ seq2 seqh fp8
llama_gqa-today  base+ seq2 seqh fp8
t5_4x4-today     base+ seq2 seqh fp8
gpt2-today       base+ seq2 seqh
bert_large8-today base+ seqh fp8
vit_b_16-today   base+ fp8
gpt2             base seq2 seqh
llama_w4-today   seq2
"""

# Half, twice and four times the batch of convolutional networks whose base was recorded (keep.py --bases finds it): `--short`. A base is
# measured again where the CPU bounds it.
TEXT["batches"] = """
resnet18         bs4 bsh bs2
densenet121@8    base bs4 bs2
mobilenet_v3_large@16 base bs4 bs2
resnet50         bs4
swin_t           bs4 bsh
resnet34         base bs4 bs2
wav2vec          base bs4 bs2
efficientnet_b0@16 base bs4 bsh
unet             bs4 bs2
efficientnet_b0  bs2 bsh
resnet50-image   bs4
unet@4-image     base bs4
convnext_tiny    bsh bs2
wav2vec          bsh
unet             base bsh
convnext_tiny@8-image bs4
resnet34         bsh
mobilenet_v3_large@16 bsh
densenet121@8    bsh
vgg16            bsh bs2
convnext_tiny    bs4
efficientnet_b0  bs4
vgg16            bs4
"""

# What-ifs that few rows speak for, the rarest first: `--short`.
TEXT["changes"] = """
densenet121      base+ batchnorm
resnet50         base batchnorm compress lossless
mobilenet_v3_large base+ batchnorm
googlenet        base+ substitute batchnorm
bert_base        base substitute compress compress8
gpt2_split-today base+ substitute
vit_hf-today     base+ substitute
squeezenet1_1    base+ substitute lossless
vgg16            base+ compress compress8 lossless prefetch
alexnet          base+ compress compress8 lossless prefetch
resnet18_decoded base+ workers2 workers8 workers2unpinned unpinned bs2
mobilenet_cropped base+ workers2 workers8 workers8unpinned
bert_base_tokenised base+ workers2 workers8
resnet18_disk    base+ workers2 workers8
resnet50-image   base+ batchnorm graphlayers prefetch
vit_b_16@4       base+ graphlayers
convnext_tiny@8-image base+ graphlayers
swin_t@4         base+ graphlayers
gpt2-today       base+ layers2 layersh prefetch
bert_base-today  base+ layers2 substitute
vit_b_16-today   base+ layersh prefetch
llama_gqa        base half substitute
gpt2             base half
resnet50         half prefetch compress8
vit_b_16         base half
inception_v3     base+ substitute batchnorm
mobilenet_disk   base+ workers2
mobilenet_decoded base+ workers8
resnet18@8       base+ graphlayers
vit_hf           base+ substitute
squeezenet1_1    nosync foreach
alexnet          foreach nosync half
densenet121      again nosync
googlenet        foreach
gpt2_split-today fp8
vit_hf-today     fp8
"""

# Networks kept apart (unseen.py), measured last.
TEXT["unseen"] = """
electra@4        base+ amp bf16sdpafused graph again
gemma-today      base+ ckpt graph bsh again
resnet152-image  base+ ckpt accum2 again
phi-today        base+ compile again
albert           base+ amp bf16sdpafused ckpt again
googlenet@16     base+ amp bf16clfused again
tcn              base+ tf32 bf16 ckpt again
pointnet@32      base+ graph fused again
vae-image        base+ bs2 graph again
squeezenet1_1    base+ amp again
"""

# Networks that others timed on other GPUs (published.py), in the precisions they ran, at batches that keep the GPU busy: to be
# recorded, so that `--few` is enough.
TEXT["published"] = """
resnext101_32x4d      base+
bert_pre128           base+
efficientnet_b4       base+
ssd300                base+
transformer_big       base+
resnext101_32x4d@128  ampcl+
bert_pre128@64        amp+
efficientnet_b4       ampcl+
ssd300@64             amp+
bert_squad            base+
bert_squad@16         amp+
transformer_big@320   amp+
resnet50@256          ampcl+
efficientnet_b0       ampcl+
bert_pre512           base+ amp+
se_resnext101_32x4d   base+
se_resnext101_32x4d@128 ampcl+
"""

# The same step recorded again and again, a process each: what differs between two recordings of nothing changed.
RECORDED = ("mlp", "resnet18-image", "gpt2@1-today", "lstm_lm", "dlrm@2048")
RECORDINGS = 10

# Rows that the CPU bounds, measured once more in another moment of the host: one alone is some 10 % from its own mean.
TEXT["moments"] = """
lstm_lm@8 amp base
gpt2-today nosync base
resnet50-image nosync bsh accum2 base
vit_b_16@4 ckpt
gpt2@1-today ckpt
efficientnet_b0@16 ckpt
t5_4x4@2 ckpt
swin_t@4 ckpt
bert_base@4 ckpt
resnet50-image ckpt
convnext_tiny@8-image ckpt
dlrm@2048 fused
bert_base@4 fused
"""
PARTS = ("first", "second", "compiled", "lengths", "batches", "moments", "recordings", "changes", "unseen", "published")


def rows(part: str) -> list[Spec]:
    return parse_rows(TEXT[part])


def tasks(parts: list[str], done: Set[str] = frozenset(), only: re.Pattern[str] | None = None) -> list[Task]:
    out: list[Task] = []
    for part in parts:
        if part == "recordings":
            out += [Task("recording", Spec(model, "base"), n) for n in range(RECORDINGS) for model in RECORDED]
        elif part in TEXT:
            out += [Task("row", spec) for spec in rows(part)]
        else:
            raise SystemExit(f"no part {part!r}; there are {', '.join(PARTS)}")
    out = [t for t in out if t.key not in done and (only is None or only.search(t.key))]
    return compilations(out) + out


def compilations(wanted: list[Task]) -> list[Task]:
    """One task for each different graph that the compiled rows need: batch, precision and checkpoints make one."""
    seen, out = set(), []
    for task in wanted:
        if not task.compiled:
            continue
        switches = task.spec.switches(JOBS[task.spec.job].update)
        batch = int(task.spec.batch * switches.get("bsx", 1)) // switches.get("accum", 1)
        graph = (task.spec.job, batch, *(switches.get(k) for k in ("amp", "tf32", "attn", "cl", "ckpt")))
        if graph not in seen:
            seen.add(graph)
            out.append(Task("compile", task.spec))
    return out


def counts(wanted: list[Task]) -> str:
    measured = [t for t in wanted if t.kind == "row"]
    of = [t.spec.switches(JOBS[t.spec.job].update) for t in measured]
    return (f"{len(measured)} rows of {len({t.spec.job for t in measured})} jobs: {sum(bool(s.get('compile')) for s in of)} compiled, "
            f"{sum(bool(s.get('ckpt')) for s in of)} checkpointed, {sum(bool(s.get('graph')) for s in of)} graphed, "
            f"{sum(t.spec.trace for t in measured)} traced; {sum(t.kind == 'compile' for t in wanted)} compilations, "
            f"{sum(t.kind == 'recording' for t in wanted)} recordings")
