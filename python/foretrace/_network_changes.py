"""The what-ifs of several GPUs and the network between them as functions: `foretrace.ddp(workers=8)` is "ddp:workers=8", and is used where that text is.

Written by scripts/update_python_changes; not edited by hand.
"""

from __future__ import annotations

from typing import Literal

from ._uses import on_off, written

__all__ = ["blueconnect", "bucket", "compress_gradients", "cp", "ddp", "ep", "fsdp", "horovod", "network", "p3", "pp", "ps", "tp", "zero1",
           "zero2", "zero3"]


def blueconnect(*, workers: float | None = None, fabric: str | None = None, collectives: str | None = None,
                collectives_tag: str | None = None, gpus_per_node: float | None = None, slow_worker: float | None = None,
                ring_steps: bool | None = None, bucket_mb: float | None = None, slice_mb: float | None = None,
                compress: Literal["none", "fp16", "powersgd", "topk", "dgc", "qsgd", "terngrad"] | None = None) -> str:
    """All-reduce split along the levels of the network, each with a channel of its own.

    slice_mb: buckets are cut into parts of this many MiB; 0: sent whole (default 0)
    workers, fabric, collectives, collectives_tag, gpus_per_node, slow_worker, ring_steps, bucket_mb, compress: as for ddp
    """
    return written("blueconnect", {**locals(), "ring_steps": on_off(ring_steps)})


def bucket(mb: float, *, workers: float | None = None, fabric: str | None = None, collectives: str | None = None,
           collectives_tag: str | None = None, gpus_per_node: float | None = None, slow_worker: float | None = None,
           ring_steps: bool | None = None, order: Literal["ready", "reverse", "forward"] | None = None,
           compress: Literal["none", "fp16", "powersgd", "topk", "dgc", "qsgd", "terngrad"] | None = None) -> str:
    """Data parallel with another bucket size or order of buckets.

    mb: gradients reduced at once, MiB
    order: of gradients in them: as they become ready (DDP behind its first step), parameters from the last one (DDP's first step), or
        from the first (default ready)
    workers, fabric, collectives, collectives_tag, gpus_per_node, slow_worker, ring_steps, compress: as for ddp
    """
    return written("bucket", {**locals(), "ring_steps": on_off(ring_steps)})


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
    kind: ring: keys and values circulate; gather: every GPU gets all of them; ulysses: heads for positions by all-to-all (default ring)
    reduce: 0: gradients are not reduced over these GPUs (default 1)
    fabric, collectives, collectives_tag, gpus_per_node: as for ddp
    """
    return written("cp", locals())


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
    slow_worker: the computation of the slowest worker takes this many times as long (default 1)
    ring_steps: every step of a ring as a task of its own (default off)
    bucket_mb: gradients reduced at once, MiB; default: 25, the first 1
    compress: gradient compression (default none)
    """
    return written("ddp", {**locals(), "ring_steps": on_off(ring_steps)})


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
    shard: GPUs that divide one copy of the model; the others hold replicas (HSDP); default: all
    cpu_offload: 1: shards and their update live on the host (default 0)
    workers, fabric, collectives, collectives_tag, gpus_per_node, slow_worker, ring_steps, compress: as for ddp
    """
    return written("fsdp", {**locals(), "ring_steps": on_off(ring_steps)})


def horovod(*, workers: float | None = None, fabric: str | None = None, collectives: str | None = None, collectives_tag: str | None = None,
            gpus_per_node: float | None = None, slow_worker: float | None = None, ring_steps: bool | None = None,
            bucket_mb: float | None = None, cycle_ms: float | None = None,
            compress: Literal["none", "fp16", "powersgd", "topk", "dgc", "qsgd", "terngrad"] | None = None) -> str:
    """Data parallel by Horovod: a fusion buffer of gradients all-reduced every cycle.

    cycle_ms: how often the fusion buffer is flushed (default 1)
    workers, fabric, collectives, collectives_tag, gpus_per_node, slow_worker, ring_steps, bucket_mb, compress: as for ddp
    """
    return written("horovod", {**locals(), "ring_steps": on_off(ring_steps)})


def network(*, fabric: str | None = None, collectives: str | None = None, collectives_tag: str | None = None,
            gpus_per_node: float | None = None, was: str | None = None, was_collectives: str | None = None,
            was_collectives_tag: str | None = None, was_gpus_per_node: float | None = None) -> str:
    """The ranks of a job on another network, or in other nodes.

    was: the network the job was recorded on, in the same way; default: the one whose times are nearest to the recorded ones
    was_collectives: a file of collectives measured on the network of the recording
    was_collectives_tag: the rows of that file with this tag
    was_gpus_per_node: GPUs that shared a node in the recording; default: the fabric's
    fabric, collectives, collectives_tag, gpus_per_node: as for ddp
    """
    return written("network", locals())


def p3(*, workers: float | None = None, fabric: str | None = None, collectives: str | None = None, collectives_tag: str | None = None,
       gpus_per_node: float | None = None, slow_worker: float | None = None, ring_steps: bool | None = None, servers: float | None = None,
       slice_mb: float | None = None, send_us: float | None = None, sender: Literal["thread", "training"] | None = None,
       priorities: bool | None = None,
       compress: Literal["none", "fp16", "powersgd", "topk", "dgc", "qsgd", "terngrad"] | None = None) -> str:
    """Parameter servers with slices and priorities: what the next forward pass needs first is sent first.

    servers: parameter servers on machines of their own; 0: one next to each worker (default 0)
    slice_mb: what is sent at once, MiB (default 4)
    send_us: CPU time of sending a slice (default 25)
    sender: which thread sends slices: one of its own, or the training thread between its launches (default thread)
    priorities: off: whole gradients, first come, first served (default on)
    workers, fabric, collectives, collectives_tag, gpus_per_node, slow_worker, ring_steps, compress: as for ddp
    """
    return written("p3", {**locals(), "ring_steps": on_off(ring_steps), "priorities": on_off(priorities)})


def pp(stages: float, *, fabric: str | None = None, collectives: str | None = None, collectives_tag: str | None = None,
       gpus_per_node: float | None = None, microbatches: float | None = None, microbatch: float | None = None,
       schedule: Literal["1f1b", "gpipe", "interleaved", "zb1p", "dualpipe"] | None = None, chunks: float | None = None,
       balance: Literal["layers", "time"] | None = None, blocks: str | None = None,
       outputs: Literal["dropped", "kept"] | None = None) -> str:
    """Pipeline parallel: the layers divided over several GPUs, the batch into micro-batches.

    stages: GPUs that share the layers, one behind the other
    microbatches: of a step; default: twice as many as stages, where the batch divides like that
    microbatch: samples in each of them, where their number is not given (default 0)
    schedule: which pass a GPU runs when (default 1f1b)
    chunks: stages on each GPU, with schedule=interleaved; default: 2
    balance: stages of equally many blocks, or such that the longest takes the least time (default layers)
    blocks: blocks of each stage (9|8|8|7), in place of balance
    outputs: whether the last stage keeps the output of every micro-batch, as torch's pipelining does (default dropped)
    fabric, collectives, collectives_tag, gpus_per_node: as for ddp
    """
    return written("pp", locals())


def ps(*, workers: float | None = None, fabric: str | None = None, collectives: str | None = None, collectives_tag: str | None = None,
       gpus_per_node: float | None = None, slow_worker: float | None = None, ring_steps: bool | None = None, bucket_mb: float | None = None,
       servers: float | None = None, slice_mb: float | None = None,
       compress: Literal["none", "fp16", "powersgd", "topk", "dgc", "qsgd", "terngrad"] | None = None) -> str:
    """Parameter servers: gradients are pushed, added up and pulled back.

    servers: parameter servers on machines of their own; 0: one next to each worker (default 0)
    slice_mb: buckets are cut into parts of this many MiB; 0: sent whole (default 0)
    workers, fabric, collectives, collectives_tag, gpus_per_node, slow_worker, ring_steps, bucket_mb, compress: as for ddp
    """
    return written("ps", {**locals(), "ring_steps": on_off(ring_steps)})


def tp(size: float, *, fabric: str | None = None, collectives: str | None = None, collectives_tag: str | None = None,
       gpus_per_node: float | None = None, sequence: bool | None = None, vocab: Literal["parallel", "replicated"] | None = None,
       kv: Literal["replicated", "refused"] | None = None, reduce: bool | None = None, async_: bool | None = None) -> str:
    """Tensor parallel: heads and features of every layer divided over several GPUs.

    size: GPUs that share the model
    sequence: 1: what is outside the products works on 1/size of the positions (default 0)
    vocab: whether embedding, head and loss are divided too (default parallel)
    kv: heads of keys and values below size: repeated, or the division refused (default replicated)
    reduce: 0: with sequence=1, gradients of norms are not summed over the GPUs (default 1)
    async_: 1: the input's gradient is computed first; its sum overlaps the weight's gradient, with sequence=1 a gather it (default 0)
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
    shard: GPUs that divide one copy of the model; the others hold replicas (HSDP); default: all
    cpu_offload: 1: shards and their update live on the host (default 0)
    workers, fabric, collectives, collectives_tag, gpus_per_node, slow_worker, ring_steps, compress: as for ddp
    """
    return written("zero3", {**locals(), "ring_steps": on_off(ring_steps)})
