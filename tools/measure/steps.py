"""A job with its switches on, ready to train: `Step()` runs one step and notes where the host's time went."""

from __future__ import annotations

import contextlib
import copy
import functools
from time import perf_counter
from typing import Any

import torch

from .changes.written import written
from .float8 import to_float8
from .loading import batches
from .models import Batch, Job

PHASES = ("data", "forward", "backward", "update", "wait")
"""Where the host is in a step: copies and zero_grad, network and loss, backward, optimizer (and scaler), reading the loss."""
HALF = {"fp16": torch.float16, "bf16": torch.bfloat16}


class Step:
    """`host` holds the seconds of the last step by phase. A graphed step has no forward or backward: `update` is its replay."""

    def __init__(self, job: Job, batch: int, switches: dict[str, Any], device: str = "cuda", tiny: bool = False):
        self.job, self.switches, self.device = job, switches, device
        self.host = dict.fromkeys(PHASES, 0.0)
        torch.manual_seed(0)
        torch.backends.cudnn.benchmark = True
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = bool(switches["tf32"])
        with torch.device(device):  # parameters are made where they stay: on the CPU that takes seconds
            self.model = job.build(switches["attn"], tiny)
        self.model.train()
        self.changed = self._change(job)
        if switches.get("ckpt"):
            checkpoint_blocks(self.model, job.blocks, reentrant=switches["ckpt"] == "reentrant")
        if switches.get("fp8"):
            if not to_float8(self.model):
                raise ValueError("no linear layer of this network can compute in FP8")
        self.channels_last = bool(switches.get("cl"))
        if self.channels_last:
            self.model.to(memory_format=torch.channels_last)
        self.optimizer = make_optimizer(self.model, job.optimizer, switches["opt"], capturable=bool(switches.get("graph")))
        self.scaler = torch.amp.GradScaler(device, enabled=switches["amp"] == "fp16")
        backend = "inductor" if device == "cuda" else "aot_eager"  # the CPU only tries the program
        self.called = torch.compile(self.model, backend=backend) if switches.get("compile") else self.model
        torch.manual_seed(0)  # whatever the network drew: a change is given the same data
        data = with_sequence(job.data(batch, tiny), switches.get("seqx", 1))
        if switches.get("half"):
            data = tuple(t.to(HALF[switches["half"]]) if t.is_floating_point() else t for t in data)
        self.inputs = tuple(t.pin_memory() for t in data) if device == "cuda" else data
        pinned = device == "cuda" and bool(switches.get("pin", 1))
        self.batches = batches(job.dataset, batch, switches.get("workers", 0), pinned, tiny) if job.dataset else None
        self.parts = switches.get("accum", 1)
        self.graph: Any = None

    def __call__(self) -> None:
        if self.switches.get("graph"):
            self._graphed()
            return
        start = perf_counter()
        moved = self._move()
        self.host["data"] = perf_counter() - start
        loss = self._train(moved)
        start = perf_counter()
        if not self.switches.get("nosync"):
            loss.item()
        self.host["wait"] = perf_counter() - start

    def finish(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()

    def close(self) -> None:
        """Ends a loader's processes."""
        self.batches = None

    def first(self) -> dict[str, float]:
        """Loss and norm of all gradients with the first weights, without an update: a change that computes the same has the same."""
        self.optimizer.zero_grad(set_to_none=True)
        torch.manual_seed(1)
        with self._cast(), self._saved():
            loss = self.job.loss(self.called, self._move())
        loss.backward()
        norms = torch.stack([p.grad.float().norm() for p in self.model.parameters() if p.grad is not None])
        found = {"first_loss": loss.item(), "first_gradient": norms.norm().item()}
        self.optimizer.zero_grad(set_to_none=True)
        return found

    def _change(self, job: Job) -> int:
        """Rebuilds the network where a switch asks for it; how many places changed."""
        switches, count = self.switches, 0
        if switches.get("layers"):
            count += repeat_blocks(self.model, job.blocks, switches["layers"])
        if switches.get("batchnorm"):
            from .changes.batchnorm import restructured
            self.model, count = restructured(self.model)
        if switches.get("substitute"):
            from .changes.siblings import joined
            self.model, count = joined(self.model)
        if switches.get("compress") == "lossless":
            from .changes.gist import lossless
            self.model, count = lossless(self.model)
        if switches.get("half"):
            self.model.to(HALF[switches["half"]])
            count = 1
        if switches.get("graphlayers"):
            play = written("played_from_graphs", "batches", "tensors_of")
            for block in [m for m in self.model.modules() if type(m).__name__ in job.blocks]:
                play(block)
                count += 1
        if not count and any(switches.get(s) for s in ("layers", "batchnorm", "substitute", "half", "graphlayers")):
            raise ValueError("nothing in this network changes")
        return count

    def _move(self) -> tuple[torch.Tensor, ...]:
        given = self.inputs if self.batches is None else next(self.batches)
        moved = tuple(t.to(self.device, non_blocking=True) for t in given)
        if self.channels_last and moved[0].dim() == 4:
            moved = (moved[0].to(memory_format=torch.channels_last), *moved[1:])
        return moved

    def _cast(self) -> Any:
        if not self.switches["amp"]:
            return contextlib.nullcontext()
        dtype = torch.float16 if self.switches["amp"] == "fp16" else torch.bfloat16
        # A graph's casts are its own: the cache would hand them to others.
        return torch.autocast(self.device, dtype=dtype, cache_enabled=not self.switches.get("graphlayers"))

    def _saved(self) -> Any:
        compress = self.switches.get("compress")
        if compress == "16":
            return written("compressed_activations")(self.model, 16)
        if compress == "8":
            from .changes.gist import InEightBits
            return InEightBits(self.model)
        if not self.switches.get("offload"):
            return contextlib.nullcontext()
        if self.switches["offload"] == "prefetch":
            return written("offloaded_on_side_streams")(self.model)
        return torch.autograd.graph.save_on_cpu(pin_memory=self.device == "cuda")

    def _train(self, moved: tuple[torch.Tensor, ...]) -> torch.Tensor:
        host, total = self.host, None
        start = perf_counter()
        # A graph replays into the gradients it was captured with: they may not go away.
        self.optimizer.zero_grad(set_to_none=not self.switches.get("graph"))
        now = perf_counter()
        host["data"] += now - start
        host["forward"] = host["backward"] = 0.0
        for i in range(self.parts):
            part = tuple(t.chunk(self.parts)[i] for t in moved) if self.parts > 1 else moved
            with self._cast(), self._saved():
                loss = self.job.loss(self.called, part) / self.parts
            between = perf_counter()
            self.scaler.scale(loss).backward()
            host["forward"] += between - now
            now = perf_counter()
            host["backward"] += now - between
            total = loss.detach() if total is None else total + loss.detach()
        now = perf_counter()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        host["update"] = perf_counter() - now
        return total

    # -- the whole step in a CUDA graph

    def _capture(self) -> None:
        self.fixed = tuple(t.to(self.device) for t in self.inputs)
        if self.channels_last and self.fixed[0].dim() == 4:
            self.fixed = (self.fixed[0].to(memory_format=torch.channels_last), *self.fixed[1:])
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(4):
                self._train(self.fixed)
        torch.cuda.current_stream().wait_stream(side)
        self.optimizer.zero_grad(set_to_none=True)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.graph_loss = self._train(self.fixed)
        self.graph = graph
        self.host = dict.fromkeys(PHASES, 0.0)

    def _graphed(self) -> None:
        if self.graph is None:
            self._capture()
        start = perf_counter()
        for to, t in zip(self.fixed, self.inputs):
            to.copy_(t, non_blocking=True)
        now = perf_counter()
        self.graph.replay()
        after = perf_counter()
        if not self.switches.get("nosync"):
            self.graph_loss.item()
        self.host |= {"data": now - start, "update": after - now, "wait": perf_counter() - after}


def repeat_blocks(model: torch.nn.Module, classes: tuple[str, ...], x: float) -> int:
    """Lists of these blocks get `x` times as many; how many lists."""
    count = 0
    for module in list(model.modules()):
        blocks = [m for m in module.children() if type(m).__name__ in classes]
        if not isinstance(module, (torch.nn.ModuleList, torch.nn.Sequential)) or len(blocks) < 2 or len(blocks) != len(list(module.children())):
            continue
        names = list(module._modules)
        wanted = max(1, int(len(blocks) * x))
        made = [copy.deepcopy(blocks[i % len(blocks)]) for i in range(wanted)]
        for name in names:
            del module._modules[name]
        for i, block in enumerate(made):
            module.add_module(names[i] if i < len(names) else f"{names[-1]}_{i}" if not names[-1].isdigit() else str(i), block)
        count += 1
    return count


def with_sequence(data: Batch, x: float) -> Batch:
    """Sequences of `x` times the length: repeated, or cut. Those of tokens and what is wanted at each."""
    if x == 1:
        return data
    if any(t.dim() != 2 or t.is_floating_point() for t in data):
        raise ValueError("this network's input is no sequence of tokens")
    return tuple(t[:, :int(t.shape[1] * x)].contiguous() if x < 1 else t.repeat(1, int(x)) for t in data)


def checkpoint_blocks(model: torch.nn.Module, classes: tuple[str, ...], reentrant: bool) -> int:
    """Checkpoints every block of these classes; the library's own way where it has one."""
    from torch.utils.checkpoint import checkpoint
    if not classes:
        raise ValueError("this network repeats no block to checkpoint")
    if getattr(model, "supports_gradient_checkpointing", False):
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": reentrant})
        if reentrant:  # whose inputs must need a gradient
            model.enable_input_require_grads()
        return sum(type(m).__name__ in classes for m in model.modules())
    blocks = [m for m in model.modules() if type(m).__name__ in classes]
    for block in blocks:
        block.forward = functools.partial(checkpoint, block.forward, use_reentrant=reentrant)
    return len(blocks)


def make_optimizer(model: torch.nn.Module, kind: str, update: str, capturable: bool) -> torch.optim.Optimizer:
    how = {"loop": {"foreach": False, "fused": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}[update]
    if kind == "sgd":
        return torch.optim.SGD(model.parameters(), 1e-5, momentum=0.9, **how)
    made = torch.optim.AdamW if kind == "adamw" else torch.optim.Adam
    return made(model.parameters(), 1e-5, **how, **({"capturable": True} if capturable else {}))
