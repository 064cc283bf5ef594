"""What is measured: a case is an operation with its shape, element type and layout; its passes are what is timed."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

DTYPES = {"fp32": torch.float32, "tf32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
PRECISIONS = tuple(DTYPES)
Shape = dict[str, int]


@dataclass
class Pass:
    """`call(state)` is timed; `state` is what `before()` gave. `newest` are the tensors the operation before would have just
    written: they are in L2 as far as they fit, everything else is not."""

    name: str
    call: Callable[[Any], Any]
    newest: Sequence[torch.Tensor] = ()
    before: Callable[[], Any] | None = None


@dataclass(frozen=True)
class Case:
    kind: str
    name: str
    dtype: str
    layout: str
    shape: tuple[tuple[str, int], ...]
    build: Callable[[Case, str], list[Pass]] = field(compare=False)

    @property
    def sizes(self) -> Shape:
        return dict(self.shape)

    @property
    def text(self) -> str:
        return ";".join(f"{k}={v}" for k, v in self.shape)

    @property
    def key(self) -> str:
        return ",".join((self.kind, self.name, self.dtype, self.layout, self.text))

    @property
    def torch_dtype(self) -> torch.dtype:
        return DTYPES[self.dtype]


Build = Callable[[Case, str], list[Pass]]


def set_precision(dtype: str) -> None:
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = dtype == "tf32"


def crossed(kind: str, name: str, shape: Shape, build: Build, layouts: Sequence[str] = ("",),
            dtypes: Sequence[str] = PRECISIONS) -> Iterator[Case]:
    """A shape in every element type and layout."""
    for dtype in dtypes:
        for layout in layouts:
            yield Case(kind, name, dtype, layout, tuple(shape.items()), build)


def differentiated(function: Callable[..., torch.Tensor], inputs: Sequence[torch.Tensor], newest: int = 0,
                   backward: bool = True) -> list[Pass]:
    """`function(*inputs)` and its gradient for every input that asks for one. `newest`: which input was just written."""
    forward = Pass("fwd", lambda _: function(*inputs), (inputs[newest],) if inputs[newest].is_floating_point() else ())
    wanted = [t for t in inputs if t.requires_grad]
    if not backward or not wanted:
        return [forward]
    out = function(*inputs)
    gradient = torch.randn_like(out)

    def back(_: Any) -> Any:
        return torch.autograd.grad(out, wanted, gradient, retain_graph=True)

    return [forward, Pass("bwd", back, (gradient,))]


class Draw:
    """Random choices that are the same in every run."""

    def __init__(self, seed: str):
        self._random = random.Random(seed)

    def one(self, values: Sequence[Any]) -> Any:
        return self._random.choice(values)

    def near(self, low: float, high: float) -> float:
        """Evenly over the logarithm."""
        return low * (high / low) ** self._random.random()


def unique(shapes: Iterator[Shape | None], count: int) -> list[Shape]:
    """The first `count` different shapes; None stands for one that was refused."""
    found: dict[tuple, Shape] = {}
    for tries, shape in enumerate(shapes):
        if shape is not None:
            found.setdefault(tuple(shape.items()), shape)
        if len(found) >= count or tries > 200 * count:
            break
    return list(found.values())


def drawn(kind: str, name: str, draw: Callable[[Draw], Shape | None], count: int, build: Build, layouts: Sequence[str] = ("",),
          dtypes: Sequence[str] = PRECISIONS, more: str = "") -> Iterator[Case]:
    """`count` different shapes that `draw` makes, each in every element type and layout; `more` says which of several draws."""
    source = Draw(f"{kind} {name}{more}")
    for shape in unique(iter(lambda: draw(source), 0), count):
        yield from crossed(kind, name, shape, build, layouts, dtypes)
