"""Jung et al.'s restructured batch normalisation: each norm and the activation that alone reads it become one module."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx, nn
from torch.nn import functional as F

ACTIVATIONS: dict[Any, int] = {nn.ReLU: 1, F.relu: 1, torch.relu: 1, nn.Hardswish: 2, F.hardswish: 2}


class BatchNormActivation(nn.Module):
    """Parameters and running figures are those of the norm it is made of."""

    def __init__(self, norm: nn.BatchNorm2d, act: int):
        super().__init__()
        self.weight, self.bias = norm.weight, norm.bias
        self.register_buffer("running_mean", norm.running_mean)
        self.register_buffer("running_var", norm.running_var)
        self.momentum, self.eps, self.act = norm.momentum, norm.eps, act

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        from .batchnorm_kernels import BatchNormActivation as Together
        return Together.apply(x, self.weight, self.bias, self.running_mean, self.running_var, self.momentum, self.eps, self.act)


def activation_of(node: fx.Node, modules: dict[str, nn.Module]) -> int:
    """0: it is none."""
    if node.op == "call_module":
        return ACTIVATIONS.get(type(modules[str(node.target)]), 0)
    return ACTIVATIONS.get(node.target, 0) if node.op == "call_function" else 0


def restructured(model: nn.Module) -> tuple[nn.Module, int]:
    """The network with its batch norms fused with the activations behind them, and how many there were."""
    traced = fx.symbolic_trace(model)
    modules = dict(traced.named_modules())
    count = 0
    for node in list(traced.graph.nodes):
        if node.op != "call_module" or type(modules[str(node.target)]) is not nn.BatchNorm2d or len(node.users) != 1:
            continue
        user = next(iter(node.users))
        act = activation_of(user, modules)
        if not act:
            continue
        parent, _, leaf = str(node.target).rpartition(".")
        setattr(modules[parent] if parent else traced, leaf, BatchNormActivation(modules[str(node.target)], act))
        user.replace_all_uses_with(node)
        traced.graph.erase_node(user)
        count += 1
    traced.delete_all_unused_submodules()
    traced.recompile()
    return traced.train(), count
