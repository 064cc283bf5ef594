"""The what-ifs of one GPU as functions: `foretrace.amp(dtype="bf16")` is "amp:dtype=bf16", and is used where that text is.

Written by scripts/update_python_changes; not edited by hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from ._uses import written

__all__ = ["accumulate", "amp", "bandwidth", "batch", "batchnorm", "channels_last", "checkpoint", "compile", "compress_activations", "cpu",
           "cuda_graph", "dataloader", "duration", "flash_attention", "foreach_optimizer", "fp8", "fp32", "fused_optimizer", "gpu", "half",
           "layers", "no_straggler", "no_sync", "offload", "overlap", "pipeline", "sequence", "stage_balance", "substitute", "tf32"]


def accumulate(*, n: float | None = None) -> str:
    """The same batch in n parts, gradients added up before the update.

    n: number of parts (default 2)
    """
    return written("accumulate", locals())


def amp(*, dtype: Literal["fp16", "bf16"] | None = None, layers: str | Sequence[str] | None = None) -> str:
    """Mixed precision: autocast, and a gradient scaler for fp16.

    dtype: the half type (default fp16)
    layers: globs of modules that run under autocast, separated by |; all when not given
    """
    return written("amp", locals())


def bandwidth(x: float) -> str:
    """A network x times as fast.

    x: factor
    """
    return written("bandwidth", locals())


def batch(x: float) -> str:
    """A batch x times as large.

    x: factor on the batch size
    """
    return written("batch", locals())


def batchnorm(*, fuse: Literal["relu", "conv"] | None = None) -> str:
    """Batch norm is split, and its parts run together with their neighbours.

    fuse: relu: with the ReLU or hard swish after it; conv: its sums in the convolution before it, the rest in the one after it (default
        relu)
    """
    return written("batchnorm", locals())


def channels_last() -> str:
    """Images keep their channels innermost (NHWC), the layout that convolutions on tensor cores prefer."""
    return written("channels-last", locals())


def checkpoint(*, layers: str | Sequence[str] | None = None, blocks: float | None = None,
               mode: Literal["full", "selective", "alternate"] | None = None, reentrant: bool | None = None) -> str:
    """Activations of blocks are recomputed in the backward pass instead of kept.

    layers: globs of block names, separated by |; every repeated block when not given
    blocks: how many of them, the first ones; all when not given
    mode: selective: results of products and attention are kept, all else runs again; alternate: every second product runs again, too
        (default full)
    reentrant: 1: use_reentrant=True (default 0)
    """
    return written("checkpoint", locals())


def compile(*, mode: Literal["default", "reduce-overhead", "max-autotune"] | None = None, layers: str | Sequence[str] | None = None) -> str:
    """Torch.compile: operations between matrix products are fused into few kernels, launched from generated code.

    mode: of torch.compile (default default)
    layers: globs of modules, each compiled by itself, separated by |; the whole model when not given
    """
    return written("compile", locals())


def compress_activations(*, bits: Literal[16, 8] | None = None, code: Literal["fewer", "lossless"] | None = None,
                         zeros: float | None = None) -> str:
    """Activations wait for the backward pass in fewer bits.

    bits: of a kept element (default 16)
    code: lossless: a bit for a ReLU, a byte for a pooling layer behind one, no zeros in what convolutions keep of them (default fewer)
    zeros: with code=lossless: share of what a ReLU writes that is zero (default 0.5)
    """
    return written("compress-activations", locals())


def cpu(x: float) -> str:
    """A host whose CPU is x times as fast.

    x: how many times as fast
    """
    return written("cpu", locals())


def cuda_graph(*, layers: str | Sequence[str] | None = None) -> str:
    """The whole step is captured once and launched as one CUDA graph, or some modules as graphs of their own.

    layers: globs of modules, each replayed from its own graphs, separated by |; the whole step when not given
    """
    return written("cuda-graph", locals())


def dataloader(*, workers: float | None = None, pin: bool | None = None, now: float | None = None) -> str:
    """Worker processes load the batches while the step before runs.

    workers: how many (default 4)
    pin: pin_memory: a thread of the main process pins what workers load (default 1)
    now: how many the trace was recorded with, where it waits for them; by default those it shows
    """
    return written("dataloader", locals())


def duration(select: str, x: float) -> str:
    """Selected tasks take x times as long.

    select: glob over kernel names, else operations, else layers
    x: factor on their time
    """
    return written("duration", locals())


def flash_attention() -> str:
    """Attention runs as one fused kernel that never writes its scores."""
    return written("flash-attention", locals())


def foreach_optimizer() -> str:
    """The update runs over lists of tensors, one kernel per arithmetic step."""
    return written("foreach-optimizer", locals())


def fp32(*, products: Literal["strict", "tf32"] | None = None) -> str:
    """The reverse of tf32 and amp: products in FP32 instead of TF32, a compiled program in FP32 instead of half precision.

    products: what products and convolutions compute in: strict FP32, or TF32 (default strict)
    """
    return written("fp32", locals())


def fp8(*, casts: Literal["separate", "fused"] | None = None, which: Literal["all", "paying"] | None = None,
        layers: str | Sequence[str] | None = None) -> str:
    """Linear layers multiply in FP8, every operand scaled by its largest element right before it is cast.

    casts: scaling and casting as separate operations, or fused by a compiler (fused is not measured) (default separate)
    which: all linear layers that can, or those that gain by it (default all)
    layers: globs of modules that are converted, separated by |; all when not given
    """
    return written("fp8", locals())


def fused_optimizer() -> str:
    """One kernel per group of tensors updates parameters and states in a single pass."""
    return written("fused-optimizer", locals())


def gpu(to: str, *, host: str | None = None) -> str:
    """The same step on another GPU.

    to: a name of `foretrace list devices`, or a device file (.toml)
    host: the host there: a file of `foretrace calibrate`
    """
    return written("gpu", locals())


def half(*, dtype: Literal["bf16", "fp16"] | None = None) -> str:
    """Weights in half precision: model.half(), or a pure bf16 step.

    dtype: the half type (default bf16)
    """
    return written("half", locals())


def layers(*, n: float | None = None, x: float | None = None, of: str | Sequence[str] | None = None) -> str:
    """A deeper or shallower model: its repeated block n times.

    n: number of blocks
    x: factor on their number, where n is not given (default 2)
    of: globs of lists of blocks (encoder.layer), separated by |; the only one when not given
    """
    return written("layers", locals())


def no_straggler() -> str:
    """Every rank of a job computes as fast as the median one that does the same work."""
    return written("no-straggler", locals())


def no_sync() -> str:
    """The step no longer waits for the GPU (the loss is not read every step)."""
    return written("no-sync", locals())


def offload(*, prefetch: bool | None = None) -> str:
    """Tensors saved for the backward pass are kept in host memory meanwhile.

    prefetch: 1: copies overlap the computation and come back early (vDNN); 0: in its stream, as save_on_cpu does it (default 0)
    """
    return written("offload", locals())


def overlap(collective: Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all"], *, group: str | None = None,
            chunks: float | None = None) -> str:
    """A collective between products overlaps them: both are cut into chunks.

    collective: the kind of collective
    group: only those of this process group: its name, its description, or the dimension of a device mesh
    chunks: parts of each collective and its product; 1: it is only started as early and waited for as late as the data allows (default
        2)
    """
    return written("overlap", locals())


def pipeline(*, microbatches: float | None = None, schedule: Literal["recorded", "1f1b", "gpipe"] | None = None) -> str:
    """A recorded pipeline with other micro-batches, or in another order.

    microbatches: of a step; 0: as recorded (default 0)
    schedule: which pass a rank runs when (default recorded)
    """
    return written("pipeline", locals())


def sequence(x: float) -> str:
    """Sequences x times as long in every sample of a token model.

    x: factor on the sequence length
    """
    return written("sequence", locals())


def stage_balance(*, layers: str | None = None) -> str:
    """Layers move between the stages of a pipeline.

    layers: of each stage, as in 4|4; without it the split whose slowest stage is fastest
    """
    return written("stage-balance", locals())


def substitute(*, enlarge: bool | None = None) -> str:
    """Layers that read the same input become one wider layer (query, key and value; convolutions).

    enlarge: 1: also convolutions whose kernels differ in size; the smaller ones get zeros around them (default 0)
    """
    return written("substitute", locals())


def tf32(*, only: Literal["both", "products", "convolutions"] | None = None) -> str:
    """FP32 matrix products and convolutions run on tensor cores in TF32.

    only: what changes: both, as in NVIDIA's containers; convolutions alone, as PyTorch has it by default; or products alone
    """
    return written("tf32", locals())
