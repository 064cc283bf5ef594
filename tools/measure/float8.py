"""Linear layers that compute in FP8, each tensor scaled by its own largest element just before it is cast: forward in e4m3, the
gradient of the output in e5m2, products by torch._scaled_mm, accumulated fast in the forward product only. Plain PyTorch operations, so
that a trace shows what the scaling costs."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

FORWARD, BACKWARD = torch.float8_e4m3fn, torch.float8_e5m2
MULTIPLE = 16  # what torch._scaled_mm asks of both dimensions of an operand


def cast(x: torch.Tensor, to: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """x in FP8 and the factor that brings it back."""
    most = torch.finfo(to).max
    scale = most / x.abs().amax().float().clamp(min=1e-12)
    return (x.float() * scale).clamp(-most, most).to(to), scale.reciprocal()


def product(a: torch.Tensor, b: torch.Tensor, a_back: torch.Tensor, b_back: torch.Tensor, out: torch.dtype, fast: bool) -> torch.Tensor:
    """a b^T of two matrices that lie row by row: the only layout FP8 products have."""
    return torch._scaled_mm(a, b.t(), scale_a=a_back, scale_b=b_back, out_dtype=out, use_fast_accum=fast)


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        (x8, x_back), (w8, w_back) = cast(x, FORWARD), cast(weight, FORWARD)
        context.save_for_backward(x8, x_back, w8, w_back)
        context.weight_dtype = weight.dtype
        return product(x8, w8, x_back, w_back, x.dtype, fast=True)

    @staticmethod
    def backward(context: Any, dy: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x8, x_back, w8, w_back = context.saved_tensors
        dy8, dy_back = cast(dy.contiguous(), BACKWARD)
        dx = product(dy8, w8.t().contiguous(), dy_back, w_back, dy.dtype, fast=False)
        dw = product(dy8.t().contiguous(), x8.t().contiguous(), dy_back, x_back, dy.dtype, fast=False)
        return dx, dw.to(context.weight_dtype)


class Float8Linear(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kind = x.device.type
        if torch.is_autocast_enabled(kind):
            x = x.to(torch.get_autocast_dtype(kind))
        rows = x.reshape(-1, x.shape[-1])
        with torch.autocast(kind, enabled=False):
            out = _Linear.apply(rows, self.weight)
            out = out + self.bias.to(out.dtype) if self.bias is not None else out
        return out.view(*x.shape[:-1], -1)


def to_float8(model: nn.Module) -> int:
    """Turns every linear layer whose sizes allow it into one of FP8; how many."""
    found = [m for m in model.modules() if type(m) is nn.Linear and m.in_features % MULTIPLE == 0 and m.out_features % MULTIPLE == 0]
    for layer in found:
        layer.__class__ = Float8Linear
    return len(found)
