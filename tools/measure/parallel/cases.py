"""A case is a kind of job and changes of it: `ddp/ckpt`. `build` makes this rank's step of it.

Kinds: solo | ddp | fsdp | tp (by hand) | tpd (DTensor, sequence parallel) | ppN, ilN (interleaved), gpN (GPipe), zbN (zero-bubble) of N
micro-batches | ep | cp | tp2dp | pp2dpN | tp2fsdp.
Changes: bs2 bsh ckpt fp32 pure (weights in bf16) compile eager (attention) accum2 bucketN (MB) cutA-B-… (layers of each stage).
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from .networks import SIZES, Decoder, Parts, loss_of

TWO_LEVELS = re.compile(r"(tp2dp|tp2fsdp|pp2dp)\d*$")
PIPELINE = re.compile(r"(pp2dp|pp|il|gp|zb)(\d+)$")


@dataclass
class Built:
    step: Callable[[], None]
    batch: int
    length: int
    parameters: int


class Case:
    def __init__(self, model: str, name: str, device: torch.device):
        self.name, self.device = name, device
        self.kind, *self.changes = name.split("/")
        self.size = dict(SIZES[model])
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        if "bs2" in self.changes:
            self.size["batch"] *= 2
        if "bsh" in self.changes:
            self.size["batch"] //= 2
        self.inner = self.outer = None
        if TWO_LEVELS.match(self.kind):
            self.inner = [dist.new_group([i, i + 1]) for i in range(0, self.world, 2)][self.rank // 2]
            self.outer = [dist.new_group(list(range(i, self.world, 2))) for i in range(2)][self.rank % 2]

    def value(self, change: str, default: str = "") -> str:
        return next((c.removeprefix(change) for c in self.changes if c.startswith(change)), default)

    @property
    def pipeline(self):
        return PIPELINE.match(self.kind)

    @property
    def stages(self) -> int:
        return 2 if self.inner else self.world

    def parts(self, **more) -> Parts:
        return Parts(recompute="ckpt" in self.changes, eager="eager" in self.changes, **more)

    def cuts(self, count: int) -> list[int]:
        """First layer of each stage, and the number of layers."""
        layers = self.size["layers"]
        if own := self.value("cut"):
            at = [0]
            for n in own.split("-"):
                at.append(at[-1] + int(n))
            return at
        return [layers * i // count for i in range(count + 1)]

    def network(self) -> nn.Module:
        world = dist.group.WORLD
        if self.kind == "tp":
            return Decoder(self.size, self.parts(tensor=self.world, group=world))
        if self.kind.startswith("tp2"):
            return Decoder(self.size, self.parts(tensor=2, group=self.inner))
        if self.kind == "ep":
            return Decoder(self.size, self.parts(experts=self.world, group=world))
        if self.kind == "cp":
            return Decoder(self.size, self.parts(group=world, by_sequence=True))
        if not self.pipeline:
            return Decoder(self.size, self.parts())
        me, chunks = self.rank % self.stages, 2 if self.kind.startswith("il") or self.kind.startswith("zb") else 1
        cuts = self.cuts(self.stages * chunks)
        own = [chunk * self.stages + me for chunk in range(chunks)]
        return nn.ModuleList([Decoder(self.size, self.parts(first=cuts[i], last=cuts[i + 1])) for i in own])


def replicate(model: nn.Module, case: Case, group=None) -> nn.Module:
    more: dict[str, Any] = {"device_ids": [0]} if case.device.type == "cuda" else {}
    if mb := case.value("bucket"):
        more["bucket_cap_mb"] = float(mb)
    return DistributedDataParallel(model, process_group=group, gradient_as_bucket_view=True, **more)


def shard(model: nn.Module, case: Case) -> None:
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    kind = case.device.type
    more = {} if "fp32" in case.changes else {"mp_policy": MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)}
    more["mesh"] = DeviceMesh.from_group(case.outer, kind) if case.outer else dist.init_device_mesh(kind, (case.world,))
    for layer in model.layers:
        fully_shard(layer, **more)
    fully_shard(model, **more)


def divide_by_dtensor(model: nn.Module, case: Case) -> None:
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel, parallelize_module

    mesh = dist.init_device_mesh(case.device.type, (case.world,))
    to_all = PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),))
    parallelize_module(model, mesh, {
        "embed": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)), "norm": SequenceParallel(),
        "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate())})
    for layer in model.layers:
        plan = {"n1": SequenceParallel(), "n2": SequenceParallel(), "attention": to_all, "feed_forward": to_all,
                "attention.wo": RowwiseParallel(output_layouts=Shard(1)), "feed_forward.w2": RowwiseParallel(output_layouts=Shard(1))}
        by_columns = ["attention.wq", "attention.wk", "attention.wv", "feed_forward.w1"]
        by_columns += [] if layer.feed_forward.w3 is None else ["feed_forward.w3"]
        parallelize_module(layer, mesh, plan | {name: ColwiseParallel() for name in by_columns})


def schedule_of(case: Case, model: nn.ModuleList):
    from torch.distributed import pipelining as pp

    me = case.rank % case.stages
    micro_batches = int(case.pipeline[2])
    stages = []
    for chunk, part in enumerate(model):
        net = replicate(part, case, case.outer) if case.outer else part
        at = chunk * case.stages + me
        stages.append(pp.PipelineStage(net, at, case.stages * len(model), case.device, group=case.inner))
    if case.kind.startswith("zb"):
        return pp.ScheduleInterleavedZeroBubble(stages, micro_batches, loss_fn=loss_of)
    if case.kind.startswith("il"):
        return pp.ScheduleInterleaved1F1B(stages, micro_batches, loss_fn=loss_of)
    return (pp.ScheduleGPipe if case.kind.startswith("gp") else pp.Schedule1F1B)(stages[0], micro_batches, loss_fn=loss_of)


def autocast_of(case: Case):
    if {"fp32", "pure"} & set(case.changes) or case.kind in ("fsdp", "tp2fsdp"):
        return contextlib.nullcontext
    return lambda: torch.autocast(case.device.type, dtype=torch.bfloat16)


def wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def wrapped(case: Case, model: nn.Module) -> nn.Module:
    net = model
    if case.kind == "ddp":
        net = replicate(model, case)
    elif case.kind == "tp2dp":
        net = replicate(model, case, case.outer)
    elif case.kind in ("fsdp", "tp2fsdp"):
        shard(model, case)
    elif case.kind == "tpd":
        divide_by_dtensor(model, case)
    if "compile" in case.changes:
        if case.kind in ("tpd", "fsdp"):
            for layer in model.layers:
                layer.compile()
        else:
            net = torch.compile(net)
    return net


def build(model_name: str, name: str, device: torch.device) -> Built:
    case = Case(model_name, name, device)
    torch.manual_seed(case.rank)
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    batch, length, words = case.size["batch"], case.size["length"], case.size["words"]
    x, y = torch.randint(0, words, (batch, length)), torch.randint(0, words, (batch, length))
    if case.kind == "cp":
        x, y = x[:, : length // case.world].contiguous(), y[:, : length // case.world].contiguous()
    if device.type == "cuda":
        x, y = x.pin_memory(), y.pin_memory()
    with device:
        model = case.network()
    if "pure" in case.changes:
        model.bfloat16()
    model.train()
    parameters = sum(p.numel() for p in model.parameters())
    net: Any = None if case.pipeline else wrapped(case, model)
    schedule: Any = schedule_of(case, model) if case.pipeline else None
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
    cast = autocast_of(case)

    def pipeline_step():
        optimizer.zero_grad(set_to_none=True)
        me = case.rank % case.stages
        with cast():
            inputs = (x.to(device, non_blocking=True),) if me == 0 else ()
            last = {"target": y.to(device, non_blocking=True), "losses": []} if me == case.stages - 1 else {}
            schedule.step(*inputs, **last)
        optimizer.step()
        wait_for(device)

    passes = int(case.value("accum", "1"))

    def backward_of(a, b, last):
        apart = net.no_sync() if not last and isinstance(net, DistributedDataParallel) else contextlib.nullcontext()
        with apart:
            with cast():
                loss = loss_of(net(a), b)
            (loss if passes == 1 else loss / passes).backward()
        return loss

    def step():
        optimizer.zero_grad(set_to_none=True)
        a, b = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        for i, (u, v) in enumerate(zip(a.chunk(passes), b.chunk(passes), strict=True)):
            loss = backward_of(u, v, i == passes - 1)
        optimizer.step()
        loss.item()

    return Built(pipeline_step if schedule else step, batch, length, parameters)
