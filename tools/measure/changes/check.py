"""Whether the kernels of the changes compute what PyTorch's do: largest differences, relative to the largest value, to the same in FP64.

    python -u -m tools.measure.changes.check [--cpu]

With `--cpu` the kernels run in Triton's interpreter (TRITON_INTERPRET=1).
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

LIMITS = {torch.float32: 2e-5, torch.bfloat16: 2e-2}
Check = tuple[str, float, float]


def difference(a: torch.Tensor, b: torch.Tensor) -> float:
    return float((a.double() - b.double()).abs().max() / b.double().abs().max().clamp(min=1e-30))


def through(module: Callable[[torch.Tensor], Any], x: torch.Tensor, dy: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    x = x.detach().clone(memory_format=torch.preserve_format).requires_grad_()
    y = module(x * 1)
    y.backward(dy.to(y.dtype))
    assert x.grad is not None
    return y.detach(), x.grad


def norms(device: str) -> Iterator[Check]:
    from .batchnorm import BatchNormActivation
    layouts = (torch.contiguous_format, torch.channels_last)
    cases = itertools.product(((6, 80, 7, 7), (2, 24, 112, 112)), LIMITS, layouts)
    for (shape, dtype, layout), act in zip(cases, itertools.cycle((1, 2, 2, 1, 1))):
        torch.manual_seed(0)
        x = (torch.randn(shape, device=device) * 2 + 0.5).to(dtype).to(memory_format=layout)
        dy = torch.randn(shape, device=device).to(dtype).to(memory_format=layout)
        plain = nn.BatchNorm2d(shape[1], device=device)
        with torch.no_grad():
            plain.weight.uniform_(0.5, 1.5)
            plain.bias.uniform_(-0.5, 0.5)
        right = nn.BatchNorm2d(shape[1], device=device, dtype=torch.float64)
        right.load_state_dict(plain.state_dict())
        mine = BatchNormActivation(plain, act)
        plainly = nn.Sequential(right, nn.ReLU() if act == 1 else nn.Hardswish())
        y, dx = through(mine, x, dy)
        y0, dx0 = through(plainly, x.double(), dy.double())
        assert mine.weight.grad is not None and mine.bias.grad is not None and right.weight.grad is not None and right.bias.grad is not None
        pairs = ((y, y0), (dx, dx0), (mine.weight.grad, right.weight.grad), (mine.bias.grad, right.bias.grad), (mine.running_mean, right.running_mean),
                 (mine.running_var, right.running_var))
        name = f"batchnorm {shape} {dtype} {'last' if layout is torch.channels_last else 'planes'} act {act}"
        yield name, max(difference(a, b) for a, b in pairs), LIMITS[dtype]


def codes(device: str) -> Iterator[Check]:
    from . import gist_kernels as k
    from .gist import BitReLU, SmallPool
    for count in (5, 1024, 70000):
        torch.manual_seed(0)
        x = torch.randn(count, device=device).clamp_min(0)
        yield f"sparse {count}", difference(k.Sparse(x).dense(), x), 0
        yield f"eight bits {count}", difference(k.Eight(x).dense(), x), 1 / 250
        y, dx = through(BitReLU(), x - 0.3, x)
        y0, dx0 = through(F.relu, x - 0.3, x)
        yield f"relu {count}", max(difference(y, y0), difference(dx, dx0)), 0
    for window, step, padding, up in ((2, 2, 0, False), (3, 2, 0, False), (3, 2, 1, False), (3, 2, 0, True)):
        x = torch.randn(2, 5, 19, 23, device=device)
        pool = nn.MaxPool2d(window, step, padding, ceil_mode=up)
        dy = torch.randn_like(pool(x))
        y, dx = through(SmallPool(pool), x, dy)
        y0, dx0 = through(pool, x, dy)
        yield f"pool {window} {step} {padding} {up}", max(difference(y, y0), difference(dx, dx0)), 1e-6


def main() -> int:
    parser = argparse.ArgumentParser(prog="tools.measure.changes.check", description=__doc__.split("\n")[0])
    parser.add_argument("--cpu", action="store_true")
    device = "cpu" if parser.parse_args().cpu else "cuda"
    wrong = 0
    for name, found, limit in itertools.chain(norms(device), codes(device)):
        wrong += found > limit
        print(f"{'ok' if found <= limit else 'WRONG'} {name}: {found:.2e}, allowed {limit:g}", flush=True)
    print(f"{wrong} of the kernels are wrong", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
