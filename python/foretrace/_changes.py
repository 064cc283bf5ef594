"""The what-ifs of the catalogue as functions: `foretrace.amp(dtype="bf16")` is "amp:dtype=bf16", and is used where that text is.

Written by scripts/update_python_changes; not edited by hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from ._uses import on_off, written

__all__ = ["accumulate", "amp", "bandwidth", "batch", "batchnorm", "blueconnect", "bucket", "channels_last", "checkpoint", "compile",
           "compress_activations", "compress_gradients", "cp", "cpu", "cuda_graph", "dataloader", "ddp", "duration", "ep",
           "flash_attention", "foreach_optimizer", "fp8", "fp32", "fsdp", "fused_optimizer", "gpu", "half", "horovod", "layers", "network",
           "no_straggler", "no_sync", "offload", "p3", "pipeline", "ps", "sequence", "stage_balance", "substitute", "tf32", "tp", "zero1",
           "zero2", "zero3"]


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

    fuse: relu: with the ReLU or hard swish behind it; conv: its sums in the convolution before, the rest in the one behind it (default
        relu)
    """
    return written("batchnorm", locals())


def blueconnect(*, workers: float | None = None, fabric: str | None = None, collectives: str | None = None,
                collectives_tag: str | None = None, gpus_per_node: float | None = None, slow_worker: float | None = None,
                ring_steps: bool | None = None, bucket_mb: float | None = None, slice_mb: float | None = None,
                compress: Literal["none", "fp16", "powersgd", "topk", "dgc", "qsgd", "terngrad"] | None = None) -> str:
    """All-reduce taken apart along the levels of the network, each a channel of its own.

    slice_mb: buckets are cut into parts of this many MiB; 0: sent whole (default 0)
    workers, fabric, collectives, collectives_tag, gpus_per_node, slow_worker, ring_steps, bucket_mb, compress: as for ddp
    """
    return written("blueconnect", {**locals(), "ring_steps": on_off(ring_steps)})


def bucket(mb: float, *, workers: float | None = None, fabric: str | None = None, collectives: str | None = None,
           collectives_tag: str | None = None, gpus_per_node: float | None = None, slow_worker: float | None = None,
           ring_steps: bool | None = None,
           compress: Literal["none", "fp16", "powersgd", "topk", "dgc", "qsgd", "terngrad"] | None = None) -> str:
    """Data parallel with another bucket size.

    mb: gradients reduced at once, MiB
    workers, fabric, collectives, collectives_tag, gpus_per_node, slow_worker, ring_steps, compress: as for ddp
    """
    return written("bucket", {**locals(), "ring_steps": on_off(ring_steps)})


def channels_last() -> str:
    """Images keep their channels innermost (NHWC), the layout that convolutions on tensor cores prefer."""
    return written("channels-last", locals())


def checkpoint(*, layers: str | Sequence[str] | None = None, blocks: float | None = None, mode: Literal["full", "selective"] | None = None,
               reentrant: bool | None = None) -> str:
    """Activations of blocks are recomputed in the backward pass instead of kept.

    layers: globs of block names, separated by |; every repeated block when not given
    blocks: how many of them, the first ones; all when not given
    mode: selective: results of products and attention are kept, all else runs again (default full)
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


def compress_gradients(*, method: Literal["fp16", "powersgd", "topk", "dgc", "qsgd", "terngrad"] | None = None,
                       workers: float | None = None, fabric: str | None = None, collectives: str | None = None,
                       collectives_tag: str | None = None, gpus_per_node: float | None = None, slow_worker: float | None = None,
                       ring_steps: bool | None = None, bucket_mb: float | None = None, ratio: float | None = None,
                       rank: float | None = None) -> str:
    """Gradients compressed before they are reduced, with what compressing costs.

    method: how (default fp16)
    ratio: share of elements top-k and DGC send (default 0.01)
    rank: of PowerSGD (default 1)
    workers, fabric, collectives, collectives_tag, gpus_per_node, slow_worker, ring_steps, bucket_mb: as for ddp
    """
    return written("compress-gradients", {**locals(), "ring_steps": on_off(ring_steps)})


def cp(size: float, *, fabric: str | None = None, collectives: str | None = None, collectives_tag: str | None = None,
       gpus_per_node: float | None = None, kind: Literal["ring", "ulysses", "gather"] | None = None, reduce: bool | None = None) -> str:
    """Context parallel: the positions of every sample divided over several GPUs.

    size: GPUs that share the model
    kind: ring: keys and values go round; gather: everybody gets all of them; ulysses: heads for positions by all-to-all (default ring)
    reduce: 0: gradients are not reduced over these GPUs (default 1)
    fabric, collectives, collectives_tag, gpus_per_node: as for ddp
    """
    return written("cp", locals())


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


def ddp(*, workers: float | None = None, fabric: str | None = None, collectives: str | None = None, collectives_tag: str | None = None,
        gpus_per_node: float | None = None, slow_worker: float | None = None, ring_steps: bool | None = None,
        bucket_mb: float | None = None,
        compress: Literal["none", "fp16", "powersgd", "topk", "dgc", "qsgd", "terngrad"] | None = None) -> str:
    """Data parallel: the same step on N workers, gradients all-reduced in buckets.

    workers: number of workers (default 8)
    fabric: the network: a name of `list fabrics`, or a file; default: this GPU's typical node
    collectives: a file of measured collectives, instead of the fabric's model
    collectives_tag: the rows of that file with this tag
    gpus_per_node: GPUs that share a node; default: the fabric's
    slow_worker: the slowest worker computes so many times as long (default 1)
    ring_steps: every step of a ring as a task of its own (default off)
    bucket_mb: gradients reduced at once, MiB; default: 25, the first 1
    compress: gradient compression (default none)
    """
    return written("ddp", {**locals(), "ring_steps": on_off(ring_steps)})


def duration(select: str, x: float) -> str:
    """Selected tasks take x times as long.

    select: glob over kernel names, else operations, else layers
    x: factor on their time
    """
    return written("duration", locals())


def ep(size: float, *, fabric: str | None = None, collectives: str | None = None, collectives_tag: str | None = None,
       gpus_per_node: float | None = None, imbalance: float | None = None, capacity: float | None = None,
       reduce: bool | None = None) -> str:
    """Expert parallel: the experts of every layer divided over several GPUs, each with a batch of its own.

    size: GPUs that share the model
    imbalance: tokens of the fullest GPU over the mean; the band has it too (default 1)
    capacity: tokens that each expert takes, as a multiple of the trace's (default 1)
    reduce: 0: gradients of what all GPUs have are not reduced (default 1)
    fabric, collectives, collectives_tag, gpus_per_node: as for ddp
    """
    return written("ep", locals())


def flash_attention() -> str:
    """Attention runs as one fused kernel that never writes its scores."""
    return written("flash-attention", locals())


def foreach_optimizer() -> str:
    """The update runs over lists of tensors, one kernel per arithmetic step."""
    return written("foreach-optimizer", locals())


def fp32(*, products: Literal["strict", "tf32"] | None = None) -> str:
    """The way back: products in FP32 instead of TF32, a compiled program in FP32 instead of half precision.

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


def fsdp(*, workers: float | None = None, fabric: str | None = None, collectives: str | None = None, collectives_tag: str | None = None,
         gpus_per_node: float | None = None, slow_worker: float | None = None, ring_steps: bool | None = None,
         version: Literal[2, 1] | None = None, param_dtype: Literal["as_is", "bf16", "fp16", "fp32"] | None = None,
         reduce_dtype: Literal["as_is", "bf16", "fp16", "fp32"] | None = None, reshard: bool | None = None, prefetch: float | None = None,
         shard: float | None = None, cpu_offload: bool | None = None,
         compress: Literal["none", "fp16", "powersgd", "topk", "dgc", "qsgd", "terngrad"] | None = None) -> str:
    """Fully sharded data parallel (ZeRO 3): parameters gathered before use, gradients reduce-scattered.

    version: 2: fully_shard; 1: FullyShardedDataParallel, with flat parameters (default 2)
    param_dtype: the type that parameters are gathered in and computed with, without autocast; default: as they are
    reduce_dtype: the type that gradients are reduced in; default: that of the parameters
    reshard: 0: gathered parameters stay until backward (reshard_after_forward=False) (default 1)
    prefetch: units gathered ahead of their use; default: one, in backward
    shard: GPUs that divide one copy of the model, replicas beside it (HSDP); default: all
    cpu_offload: 1: shards and their update live on the host (default 0)
    workers, fabric, collectives, collectives_tag, gpus_per_node, slow_worker, ring_steps, compress: as for ddp
    """
    return written("fsdp", {**locals(), "ring_steps": on_off(ring_steps)})


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


def horovod(*, workers: float | None = None, fabric: str | None = None, collectives: str | None = None, collectives_tag: str | None = None,
            gpus_per_node: float | None = None, slow_worker: float | None = None, ring_steps: bool | None = None,
            bucket_mb: float | None = None, cycle_ms: float | None = None,
            compress: Literal["none", "fp16", "powersgd", "topk", "dgc", "qsgd", "terngrad"] | None = None) -> str:
    """Data parallel by Horovod: a fusion buffer of gradients all-reduced every cycle.

    cycle_ms: how often the fusion buffer is looked at (default 1)
    workers, fabric, collectives, collectives_tag, gpus_per_node, slow_worker, ring_steps, bucket_mb, compress: as for ddp
    """
    return written("horovod", {**locals(), "ring_steps": on_off(ring_steps)})


def layers(*, n: float | None = None, x: float | None = None, of: str | Sequence[str] | None = None) -> str:
    """A deeper or shallower model: its repeated block n times.

    n: number of blocks
    x: factor on their number, where n is not given (default 2)
    of: globs of lists of blocks (encoder.layer), separated by |; the only one when not given
    """
    return written("layers", locals())


def network(*, fabric: str | None = None, gpus_per_node: float | None = None, was: str | None = None,
            was_gpus_per_node: float | None = None) -> str:
    """The ranks of a job on another network, or in other nodes.

    fabric: a name of `list fabrics`, or a file; default: this GPU's typical node
    gpus_per_node: ranks that share a node, counted from rank 0; default: the fabric's
    was: the network the job was recorded on, in the same way (default usual)
    was_gpus_per_node: ranks that shared a node in the recording; default: the fabric's
    """
    return written("network", locals())


def no_straggler() -> str:
    """Every rank of a job computes as fast as the median one that does the same work."""
    return written("no-straggler", locals())


def no_sync() -> str:
    """The step no longer waits for the GPU (the loss is not read every step)."""
    return written("no-sync", locals())


def offload(*, prefetch: bool | None = None) -> str:
    """Tensors saved for the backward pass are kept in host memory meanwhile.

    prefetch: 1: copies run beside the computation and come back early (vDNN); 0: in its stream, as save_on_cpu does it (default 0)
    """
    return written("offload", locals())


def p3(*, workers: float | None = None, fabric: str | None = None, collectives: str | None = None, collectives_tag: str | None = None,
       gpus_per_node: float | None = None, slow_worker: float | None = None, ring_steps: bool | None = None, servers: float | None = None,
       slice_mb: float | None = None, send_us: float | None = None, sender: Literal["thread", "training"] | None = None,
       priorities: bool | None = None,
       compress: Literal["none", "fp16", "powersgd", "topk", "dgc", "qsgd", "terngrad"] | None = None) -> str:
    """Parameter servers with slices and priorities: what the next forward pass needs first is sent first.

    servers: parameter servers on machines of their own; 0: one beside each worker (default 0)
    slice_mb: what is sent at once, MiB (default 4)
    send_us: CPU time of sending a slice (default 25)
    sender: who sends slices: a thread of its own, or the one that trains, between its launches (default thread)
    priorities: off: whole gradients, first come, first served (default on)
    workers, fabric, collectives, collectives_tag, gpus_per_node, slow_worker, ring_steps, compress: as for ddp
    """
    return written("p3", {**locals(), "ring_steps": on_off(ring_steps), "priorities": on_off(priorities)})


def pipeline(*, microbatches: float | None = None, schedule: Literal["recorded", "1f1b", "gpipe"] | None = None) -> str:
    """A recorded pipeline with other micro-batches, or in another order.

    microbatches: of a step; 0: as recorded (default 0)
    schedule: which pass a rank runs when (default recorded)
    """
    return written("pipeline", locals())


def ps(*, workers: float | None = None, fabric: str | None = None, collectives: str | None = None, collectives_tag: str | None = None,
       gpus_per_node: float | None = None, slow_worker: float | None = None, ring_steps: bool | None = None, bucket_mb: float | None = None,
       servers: float | None = None, slice_mb: float | None = None,
       compress: Literal["none", "fp16", "powersgd", "topk", "dgc", "qsgd", "terngrad"] | None = None) -> str:
    """Parameter servers: gradients are pushed, added up and pulled back.

    servers: parameter servers on machines of their own; 0: one beside each worker (default 0)
    slice_mb: buckets are cut into parts of this many MiB; 0: sent whole (default 0)
    workers, fabric, collectives, collectives_tag, gpus_per_node, slow_worker, ring_steps, bucket_mb, compress: as for ddp
    """
    return written("ps", {**locals(), "ring_steps": on_off(ring_steps)})


def sequence(x: float) -> str:
    """Sequences x times as long in every sample of a token model.

    x: factor on the sequence length
    """
    return written("sequence", locals())


def stage_balance() -> str:
    """Every stage of a pipeline computes as long as the others."""
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


def tp(size: float, *, fabric: str | None = None, collectives: str | None = None, collectives_tag: str | None = None,
       gpus_per_node: float | None = None, sequence: bool | None = None, vocab: Literal["parallel", "replicated"] | None = None,
       kv: Literal["replicated", "refused"] | None = None, reduce: bool | None = None, async_: bool | None = None) -> str:
    """Tensor parallel: heads and features of every layer divided over several GPUs.

    size: GPUs that share the model
    sequence: 1: what is outside the products works on 1/size of the positions (default 0)
    vocab: whether embedding, head and loss are divided too (default parallel)
    kv: heads of keys and values below size: repeated, or the division refused (default replicated)
    reduce: 0: with sequence=1, gradients of norms are not summed over the GPUs (default 1)
    async_: 1: sums of the input's gradient run beside the weight's gradient (default 0)
    fabric, collectives, collectives_tag, gpus_per_node: as for ddp
    """
    return written("tp", locals())


def zero1(*, workers: float | None = None, fabric: str | None = None, collectives: str | None = None, collectives_tag: str | None = None,
          gpus_per_node: float | None = None, slow_worker: float | None = None, ring_steps: bool | None = None,
          bucket_mb: float | None = None,
          compress: Literal["none", "fp16", "powersgd", "topk", "dgc", "qsgd", "terngrad"] | None = None) -> str:
    """Optimizer states divided among N workers: gradients all-reduced, updated parameters gathered.

    workers, fabric, collectives, collectives_tag, gpus_per_node, slow_worker, ring_steps, bucket_mb, compress: as for ddp
    """
    return written("zero1", {**locals(), "ring_steps": on_off(ring_steps)})


def zero2(*, workers: float | None = None, fabric: str | None = None, collectives: str | None = None, collectives_tag: str | None = None,
          gpus_per_node: float | None = None, slow_worker: float | None = None, ring_steps: bool | None = None,
          bucket_mb: float | None = None,
          compress: Literal["none", "fp16", "powersgd", "topk", "dgc", "qsgd", "terngrad"] | None = None) -> str:
    """Optimizer states and gradients divided among N workers: gradients reduce-scattered, parameters gathered.

    workers, fabric, collectives, collectives_tag, gpus_per_node, slow_worker, ring_steps, bucket_mb, compress: as for ddp
    """
    return written("zero2", {**locals(), "ring_steps": on_off(ring_steps)})


def zero3(*, workers: float | None = None, fabric: str | None = None, collectives: str | None = None, collectives_tag: str | None = None,
          gpus_per_node: float | None = None, slow_worker: float | None = None, ring_steps: bool | None = None,
          version: Literal[2, 1] | None = None, param_dtype: Literal["as_is", "bf16", "fp16", "fp32"] | None = None,
          reduce_dtype: Literal["as_is", "bf16", "fp16", "fp32"] | None = None, reshard: bool | None = None, prefetch: float | None = None,
          shard: float | None = None, cpu_offload: bool | None = None,
          compress: Literal["none", "fp16", "powersgd", "topk", "dgc", "qsgd", "terngrad"] | None = None) -> str:
    """ZeRO stage 3, which is fsdp: parameters, gradients and optimizer states divided among N workers.

    version: 2: fully_shard; 1: FullyShardedDataParallel, with flat parameters (default 2)
    param_dtype: the type that parameters are gathered in and computed with, without autocast; default: as they are
    reduce_dtype: the type that gradients are reduced in; default: that of the parameters
    reshard: 0: gathered parameters stay until backward (reshard_after_forward=False) (default 1)
    prefetch: units gathered ahead of their use; default: one, in backward
    shard: GPUs that divide one copy of the model, replicas beside it (HSDP); default: all
    cpu_offload: 1: shards and their update live on the host (default 0)
    workers, fabric, collectives, collectives_tag, gpus_per_node, slow_worker, ring_steps, compress: as for ddp
    """
    return written("zero3", {**locals(), "ring_steps": on_off(ring_steps)})
