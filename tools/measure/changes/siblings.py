"""MetaFlow's substitution: layers that read the same tensor become one wider layer. Query, key and value of an attention; convolutions of parallel
branches with the same kernel and stride; SqueezeNet's 1x1 parallel to 3x3, enlarged to 3x3."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx, nn
from torch.nn import functional as F

ATTENTIONS = (("query", "key", "value"), ("q_proj", "k_proj", "v_proj"))


class First(nn.Module):
    """Stands for the first of the layers and computes them all; the others take their parts from it. A part has the layout the split gives it."""

    def __init__(self, layers: list[nn.Linear]):
        super().__init__()
        first = layers[0]
        self.widths = [layer.out_features for layer in layers]
        self.all = nn.Linear(first.in_features, sum(self.widths), bias=first.bias is not None, device=first.weight.device, dtype=first.weight.dtype)
        with torch.no_grad():
            self.all.weight.copy_(torch.cat([layer.weight for layer in layers]))
            if first.bias is not None:
                self.all.bias.copy_(torch.cat([layer.bias for layer in layers]))
        self.parts: list[torch.Tensor] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, *self.parts = self.all(x).split(self.widths, -1)
        return first


class Taken(nn.Module):
    def __init__(self, first: First):
        super().__init__()
        self.take = [first]  # in a list: it is no child of this one

    def forward(self, _x: torch.Tensor) -> torch.Tensor:
        return self.take[0].parts.pop(0)


def join_attention(model: nn.Module) -> int:
    count = 0
    for module in list(model.modules()):
        names = next((n for n in ATTENTIONS if all(isinstance(getattr(module, one, None), nn.Linear) for one in n)), None)
        if names is None:
            continue
        first = First([getattr(module, name) for name in names])
        setattr(module, names[0], first)
        for name in names[1:]:
            setattr(module, name, Taken(first))
        count += 1
    return count


class Parts(tuple):
    """What `split` would have made of the joined result."""

    def split(self, *_how: Any, **_more: Any) -> tuple[torch.Tensor, ...]:
        return tuple(self)


class Split(nn.Module):
    """One product's result in three layers' place: what the joined layer is compared with, for networks that already join them."""

    def __init__(self, joined: nn.Module, parts: int):
        super().__init__()
        transposed = type(joined).__name__ == "Conv1D"  # of transformers: inputs by outputs
        weight = joined.weight.t() if transposed else joined.weight
        width = weight.shape[0] // parts
        made = [nn.Linear(weight.shape[1], width, device=weight.device) for _ in range(parts)]
        self.query, self.key, self.value = made
        with torch.no_grad():
            for i, layer in enumerate(made):
                layer.weight.copy_(weight[i * width:(i + 1) * width])
                layer.bias.copy_(joined.bias[i * width:(i + 1) * width])

    def forward(self, x: torch.Tensor) -> Parts:
        return Parts((self.query(x), self.key(x), self.value(x)))


class FireOfOne(nn.Module):
    """SqueezeNet's expand layers as one 3x3 convolution: the 1x1 weights stand in the middle of zeros."""

    def __init__(self, fire: nn.Module):
        super().__init__()
        self.squeeze, self.squeeze_activation = fire.squeeze, fire.squeeze_activation
        self.small, self.large, self.act = fire.expand1x1, fire.expand3x3, nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.squeeze_activation(self.squeeze(x))
        weight = torch.cat([F.pad(self.small.weight, (1, 1, 1, 1)), self.large.weight])
        return self.act(F.conv2d(x, weight, torch.cat([self.small.bias, self.large.bias]), padding=1))


class Wide(nn.Module):
    """Convolution, norm and ReLU of several branches at once."""

    def __init__(self, branches: list[nn.Module]):
        super().__init__()
        convs: list[Any] = [b.conv for b in branches]
        norms: list[Any] = [b.bn for b in branches]
        first, device = convs[0], convs[0].weight.device
        self.widths = [c.out_channels for c in convs]
        self.conv = nn.Conv2d(first.in_channels, sum(self.widths), first.kernel_size, first.stride, first.padding, bias=False, device=device)
        self.bn = nn.BatchNorm2d(sum(self.widths), eps=norms[0].eps, device=device)
        with torch.no_grad():
            self.conv.weight.copy_(torch.cat([c.weight for c in convs]))
            self.bn.weight.copy_(torch.cat([n.weight for n in norms]))
            self.bn.bias.copy_(torch.cat([n.bias for n in norms]))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return F.relu(self.bn(self.conv(x)), inplace=True).split(self.widths, 1)


class BranchTracer(fx.Tracer):
    def is_leaf_module(self, m: nn.Module, name: str) -> bool:
        return type(m).__name__ == "BasicConv2d" or super().is_leaf_module(m, name)


def join_branches(model: nn.Module) -> tuple[nn.Module, int]:
    """Branches of GoogLeNet and Inception whose first convolutions are alike."""
    tracer = BranchTracer()
    graph = tracer.trace(model)
    traced = fx.GraphModule(model, graph)
    modules = dict(traced.named_modules())
    count = 0
    for node in list(graph.nodes):
        alike: dict[Any, list[fx.Node]] = {}
        for user in node.users:
            if user.op == "call_module" and type(modules[str(user.target)]).__name__ == "BasicConv2d":
                conv = modules[str(user.target)].conv
                alike.setdefault((conv.kernel_size, conv.stride, conv.padding), []).append(user)
        for users in alike.values():
            if len(users) < 2:
                continue
            name = f"joined_{count}"
            traced.add_module(name, Wide([modules[str(u.target)] for u in users]))
            with graph.inserting_before(users[0]):
                wide = graph.call_module(name, (node,))
                parts = [graph.call_function(lambda t, i: t[i], (wide, i)) for i in range(len(users))]
            for user, part in zip(users, parts, strict=True):
                user.replace_all_uses_with(part)
                graph.erase_node(user)
            count += 1
    traced.delete_all_unused_submodules()
    traced.recompile()
    return traced.train(), count


def joined(model: nn.Module) -> tuple[nn.Module, int]:
    """The network with its parallel layers joined, and how many joins there were."""
    count = 0
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if type(child).__name__ == "Fire":
                setattr(module, name, FireOfOne(child))
                count += 1
            elif type(child) is Split:
                setattr(module, name, First([child.query, child.key, child.value]).all)
                count += 1
    count += join_attention(model)
    if any(type(m).__name__ == "BasicConv2d" for m in model.modules()):
        model, branches = join_branches(model)
        count += branches
    return model, count
