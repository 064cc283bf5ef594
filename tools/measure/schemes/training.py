"""A network as a rank of a case trains it. The case says the scheme; a number behind its @ is MiB of buckets (ddp, ps) or slices (p3),
ms of a cycle (horovod) or how many ranks are servers (servers)."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from . import networks
from .compression import COMPRESSORS
from .exchange import BlueConnect, ServersApart, ServersOnWorkers
from .horovod import Horovod
from .p3 import P3
from .place import Place
from .zero2 import Zero2


class Training:
    def __init__(self, name: str, model: nn.Module, place: Place):
        self.name, self.model, self.called, self.place = name, model, model, place
        self.scheme: Any = None  # has finish() and update() where the step is not the usual one
        self.optimizer: Any = None
        self.serves = False

    def begin(self) -> None:
        """Once, behind the first steps."""

    def backward_done(self) -> None:
        if self.scheme is not None:
            self.scheme.finish()

    def update(self) -> None:
        if self.optimizer is not None:
            self.optimizer.step()
        else:
            self.scheme.update()

    def settle(self) -> None:
        """Nothing is under way any more: other collectives may follow."""
        if hasattr(self.scheme, "drain"):
            self.scheme.drain()

    def close(self) -> None:
        self.settle()
        if hasattr(self.scheme, "close"):
            self.scheme.close()

    def facts(self) -> dict[str, float]:
        """What a prediction takes as given."""
        found: dict[str, float] = {}
        for name in ("send_s", "rounds_s"):
            times = sorted(getattr(self.scheme, name, []))
            if times:
                found[name.replace("_s", "_us")] = times[len(times) // 2] * 1e6
        return found


def _wrapped(training: Training, hook: Any = None, state: Any = None, group: Any = None, bucket_mb: float | None = None) -> None:
    options: dict[str, Any] = {"device_ids": [0]} if training.place.cuda else {}
    if bucket_mb is not None:
        options["bucket_cap_mb"] = bucket_mb
    called = DistributedDataParallel(training.model, process_group=group, **options)
    if hook is not None:
        called.register_comm_hook(state, lambda state, bucket: hook(state, bucket))  # PyTorch looks at annotations
    training.called = called


def _shard(training: Training, version: int) -> None:
    place, units = training.place, networks.NETWORKS[training.name].units
    blocks = [m for m in training.model.modules() if type(m).__name__ in units]
    if version == 2:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard
        mesh = init_device_mesh(place.device.type, (place.world,))
        for block in blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(training.model, mesh=mesh)
        return
    from torch.distributed.fsdp import FullyShardedDataParallel
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy
    where = {"device_id": 0} if place.cuda else {"device_id": torch.device("cpu")}
    training.called = training.model = FullyShardedDataParallel(
        training.model, auto_wrap_policy=ModuleWrapPolicy({type(b) for b in blocks}), use_orig_params=True, **where)


class _WithServers(Training):
    def begin(self) -> None:
        self.servers.agree()

    servers: ServersApart


def training_of(case: str, name: str, model: nn.Module, place: Place) -> Training:
    kind, _, text = case.partition("@")
    number = float(text) if text else None
    training = (_WithServers if kind == "servers" else Training)(name, model, place)
    kind_of, options = networks.optimizer_of(name)
    made = lambda parameters: networks.optimizer(name, parameters)
    if kind == "ddp" or kind == "zero1":
        _wrapped(training, bucket_mb=number)
    elif kind == "ddpfp16":
        from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
        _wrapped(training, fp16_compress_hook)
    elif kind == "powersgd":
        from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as powersgd
        state = powersgd.PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=2)
        _wrapped(training, powersgd.powerSGD_hook, state)
    elif kind in COMPRESSORS:
        _wrapped(training, COMPRESSORS[kind](place).hook)
    elif kind == "ps":
        _wrapped(training, ServersOnWorkers(place).hook, bucket_mb=number)
    elif kind == "blueconnect":
        _wrapped(training, BlueConnect(place).hook)
    elif kind == "servers":
        servers = ServersApart(place, int(number or 1))
        training.servers, training.serves = servers, servers.is_server  # type: ignore[attr-defined]
        if not servers.is_server:
            _wrapped(training, servers.hook, group=servers.training)
    elif kind == "horovod":
        training.scheme = Horovod(model, place, number or 1)
    elif kind == "p3":
        training.scheme = P3(model, made, place, number or 4)
        return training
    elif kind == "zero2":
        training.scheme = Zero2(model, made, place)
        return training
    elif kind in ("fsdp", "fsdp1"):
        _shard(training, 1 if kind == "fsdp1" else 2)
    elif kind != "solo":
        raise ValueError(f"{case} is no case")
    if kind == "zero1":
        from torch.distributed.optim import ZeroRedundancyOptimizer
        training.optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=kind_of, **options)
    else:
        training.optimizer = made(training.model.parameters())
    return training


def step(training: Training, batch: Any, loss_of: Any) -> None:
    """The network is given what it needs, trained on it, and its loss is read."""
    if training.serves:
        training.servers.serve()  # type: ignore[attr-defined]
        return
    here = tuple(t.to(training.place.device, non_blocking=True) for t in batch)
    if training.optimizer is not None:
        training.optimizer.zero_grad(set_to_none=True)
    loss = loss_of(training.called, here)
    loss.backward()
    training.backward_done()
    training.update()
    loss.item()
