"""Gist's codes for what waits for the backward pass. Lossless: a ReLU keeps a bit per element, a pooling layer behind one a byte per result, and a
convolution that reads either keeps its input without the zeros. Lossy: every large FP32 tensor waits in eight bits (sixteen are what the program
itself writes: compressed_activations)."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx, nn
from torch.nn import functional as F

FEWEST = 1 << 18  # elements worth a code


class _BitReLU(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: torch.Tensor) -> torch.Tensor:
        from . import gist_kernels as k
        y = torch.empty_like(x)
        bits = x.new_empty(k.grid(x.numel())[0] * (k.BLOCK // 32), dtype=torch.int32)
        k.relu_and_bits[k.grid(x.numel())](x, y, bits, x.numel(), k.BLOCK)
        context.save_for_backward(bits)
        return y

    @staticmethod
    def backward(context: Any, dy: torch.Tensor) -> torch.Tensor:
        from . import gist_kernels as k
        dy = dy.contiguous()
        dx = torch.empty_like(dy)
        k.slope_from_bits[k.grid(dy.numel())](dy, context.saved_tensors[0], dx, dy.numel(), k.BLOCK)
        return dx


class BitReLU(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return _BitReLU.apply(x)


class _SmallPool(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: torch.Tensor, window: int, step: int, padding: int, up: bool) -> torch.Tensor:
        from . import gist_kernels as k
        y = torch.empty_like(F.max_pool2d(torch.empty_like(x, device="meta"), window, step, padding, ceil_mode=up), device=x.device)
        where = torch.empty_like(y, dtype=torch.int8)
        sizes = (x.shape[2], x.shape[3], y.shape[2], y.shape[3], step, padding)
        k.pool_forward[k.grid(y.numel())](x, y, where, y.numel(), *sizes, window, k.BLOCK)
        context.save_for_backward(where)
        context.how = (x.shape, sizes, window, step)
        return y

    @staticmethod
    def backward(context: Any, dy: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        from . import gist_kernels as k
        shape, sizes, window, step = context.how
        dy = dy.contiguous()
        dx = dy.new_empty(shape)
        k.pool_backward[k.grid(dx.numel())](dy, context.saved_tensors[0], dx, dx.numel(), *sizes, window, -(-window // step), k.BLOCK)
        return dx, None, None, None, None


class SmallPool(nn.Module):
    """Keeps one byte of every result instead of the input and an index of eight bytes."""

    def __init__(self, pool: nn.MaxPool2d):
        super().__init__()
        self.how: tuple[Any, ...] = (pool.kernel_size, pool.stride, pool.padding, pool.ceil_mode)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return _SmallPool.apply(x, *self.how)


class SparseInput(nn.Module):
    """A convolution whose input waits without its zeros; convolutions that read the same tensor share the code."""

    def __init__(self, conv: nn.Module):
        super().__init__()
        self.conv = conv

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        from . import gist_kernels as k
        place, shared = x.data_ptr(), x.__dict__  # autograd keeps the hook: it may not hold the tensor itself

        def pack(tensor: torch.Tensor) -> Any:
            if tensor.data_ptr() != place or tensor.numel() < FEWEST:
                return tensor
            if "sparse" not in shared:
                shared["sparse"] = k.Sparse(tensor)
            return shared["sparse"]

        with torch.autograd.graph.saved_tensors_hooks(pack, _unpack):
            return self.conv(x)


def _unpack(packed: Any) -> torch.Tensor:
    return packed if isinstance(packed, torch.Tensor) else packed.dense()


def lossless(model: nn.Module) -> tuple[nn.Module, int]:
    """The network with these codes, and how many layers changed."""
    traced = fx.symbolic_trace(model)
    modules = dict(traced.named_modules())

    def kind(node: Any) -> Any:
        if isinstance(node, fx.Node) and node.op == "call_module":
            return type(modules[str(node.target)])
        return nn.ReLU if isinstance(node, fx.Node) and node.target in (F.relu, torch.relu) else None

    nodes = list(traced.graph.nodes)
    relus = {n for n in nodes if kind(n) is nn.ReLU}
    pools = {n for n in nodes if kind(n) is nn.MaxPool2d and n.args[0] in relus and len(n.args[0].users) == 1}
    convs = {n for n in nodes if kind(n) is nn.Conv2d and n.args[0] in relus | pools}
    traced.add_module("bit_relu", BitReLU())
    for node in nodes:
        if node in relus:
            with traced.graph.inserting_before(node):
                new = traced.graph.call_module("bit_relu", (node.args[0],))
            node.replace_all_uses_with(new)
            traced.graph.erase_node(node)
        elif node in pools or node in convs:
            parent, _, leaf = str(node.target).rpartition(".")
            module: Any = modules[str(node.target)]
            setattr(modules[parent] if parent else traced, leaf, SmallPool(module) if node in pools else SparseInput(module))
    traced.delete_all_unused_submodules()
    traced.recompile()
    return traced.train(), len(relus) + len(pools) + len(convs)


class InEightBits(torch.autograd.graph.saved_tensors_hooks):
    """Large FP32 tensors in eight bits, 1024 elements with one scale: one kernel there, one back."""

    def __init__(self, model: nn.Module):
        self.parameters = {p.untyped_storage().data_ptr() for p in model.parameters()}
        super().__init__(self.pack, _unpack)

    def pack(self, tensor: torch.Tensor) -> Any:
        from . import gist_kernels as k
        dense = tensor.is_contiguous() or (tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last))
        worth = tensor.dtype == torch.float32 and tensor.numel() >= FEWEST and dense
        return k.Eight(tensor) if worth and tensor.untyped_storage().data_ptr() not in self.parameters else tensor
