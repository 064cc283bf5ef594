"""The operations whose cost for the CPU is measured, a few of each kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

TIMES = 100
LEAVES = 50  # parameters of an optimizer, nodes of a backward pass


@dataclass(frozen=True)
class Case:
    """`make(device)` gives a function that does the thing `times` times; `before` runs before each, not timed."""

    kind: str
    name: str
    make: Callable[[str], Callable[[], None]]
    times: int = TIMES
    before: Callable[[], None] | None = None


def _loop(call: Callable[[], object], times: int = TIMES) -> Callable[[], None]:
    def run() -> None:
        for _ in range(times):
            call()
    return run


def cases(device: str) -> Iterator[Case]:
    yield from _operations(grad=False)
    yield from _operations(grad=True)
    yield from _backward()
    yield from _modules()
    yield from _optimizers(device)
    yield from _precision()
    if device == "cuda":
        yield from _runtime()


def _operations(grad: bool) -> Iterator[Case]:
    def tensors(device: str) -> dict[str, torch.Tensor]:
        with torch.device(device):
            made = {"x": torch.randn(16), "y": torch.randn(16), "none": torch.randn(0), "m": torch.randn(16, 16), "w": torch.randn(16, 16),
                    "b": torch.randn(16), "image": torch.randn(1, 4, 8, 8), "kernel": torch.randn(4, 4, 3, 3),
                    "heads": torch.randn(1, 2, 16, 8), "table": torch.randn(32, 16)}
        return {k: t.requires_grad_(grad) for k, t in made.items()}

    def case(kind: str, name: str, call: Callable[[dict[str, torch.Tensor]], object]) -> Case:
        def make(device: str) -> Callable[[], None]:
            held = tensors(device)
            return _loop(lambda: call(held))
        return Case(kind + ("_grad" if grad else ""), name, make)

    yield case("view", "view", lambda t: t["x"].view(4, 4))
    yield case("view", "transpose", lambda t: t["m"].transpose(0, 1))
    yield case("view", "slice", lambda t: t["m"][2:4])
    yield case("view", "unsqueeze", lambda t: t["x"].unsqueeze(0))
    yield case("view", "detach", lambda t: t["x"].detach())
    yield case("nothing", "add_no_elements", lambda t: t["none"] + t["none"])
    yield case("nothing", "relu_no_elements", lambda t: torch.relu(t["none"]))
    yield case("pointwise", "add", lambda t: t["x"] + t["y"])
    yield case("pointwise", "add_scalar", lambda t: t["x"] + 1.0)
    yield case("pointwise", "mul", lambda t: t["x"] * t["y"])
    yield case("pointwise", "relu", lambda t: torch.relu(t["x"]))
    yield case("pointwise", "gelu", lambda t: F.gelu(t["x"]))
    yield case("pointwise", "clone", lambda t: t["x"].clone())
    yield case("cast", "to_bf16", lambda t: t["x"].to(torch.bfloat16))
    yield case("reduction", "sum", lambda t: t["x"].sum())
    yield case("reduction", "softmax", lambda t: torch.softmax(t["m"], -1))
    yield case("norm", "layer_norm", lambda t: F.layer_norm(t["m"], (16,), t["b"], t["x"]))
    yield case("norm", "batch_norm", lambda t: F.batch_norm(t["image"], None, None, None, None, True))
    yield case("product", "mm", lambda t: torch.mm(t["m"], t["w"]))
    yield case("product", "linear", lambda t: F.linear(t["m"], t["w"], t["b"]))
    yield case("product", "matmul_4d", lambda t: torch.matmul(t["heads"], t["heads"].transpose(-1, -2)))
    yield case("convolution", "conv2d", lambda t: F.conv2d(t["image"], t["kernel"], None, 1, 1))
    yield case("attention", "sdpa", lambda t: F.scaled_dot_product_attention(t["heads"], t["heads"], t["heads"]))
    yield case("join", "cat2", lambda t: torch.cat([t["x"], t["y"]]))
    yield case("random", "dropout", lambda t: F.dropout(t["x"], 0.1, True))
    if not grad:
        yield case("allocate", "empty", lambda t: torch.empty(16, device=t["x"].device))
        yield case("in_place", "add_", lambda t: t["x"].add_(t["y"]))
        yield case("in_place", "add_scalar_", lambda t: t["x"].add_(1.0))
        yield case("in_place", "zero_", lambda t: t["x"].zero_())
        yield case("in_place", "copy_", lambda t: t["x"].copy_(t["y"]))
        yield case("in_place", "no_elements_", lambda t: t["none"].add_(1.0))
        yield case("random", "rand", lambda t: torch.rand(16, device=t["x"].device))
        yield case("index", "embedding", lambda t: F.embedding(torch.zeros(4, dtype=torch.long, device=t["x"].device), t["table"]))


def _backward() -> Iterator[Case]:
    """A chain of nodes, built before the clock runs: what one node costs the backward pass."""

    def chain(name: str, one: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], weight: bool = False) -> Case:
        state: dict[str, torch.Tensor] = {}

        def build() -> None:
            y = state["x"]
            y.grad = None
            state["w"].grad = None
            for _ in range(LEAVES):
                y = one(y, state["w"])
            state["end"] = y

        def make(device: str) -> Callable[[], None]:
            state["x"] = torch.randn(16, 16, device=device, requires_grad=True)
            state["w"] = torch.randn(16, 16, device=device, requires_grad=weight)
            state["g"] = torch.ones(16, 16, device=device)
            build()

            def run() -> None:
                state["end"].backward(state["g"], retain_graph=True)
            return run

        return Case("backward", name, make, LEAVES, build)

    yield chain("view", lambda y, w: y.view(16, 16))
    yield chain("add_scalar", lambda y, w: y + 1.0)
    yield chain("mul_constant", lambda y, w: y * w)
    yield chain("relu", lambda y, w: torch.relu(y))
    yield chain("gelu", lambda y, w: F.gelu(y))
    yield chain("mm_constant", lambda y, w: torch.mm(y, w))
    yield chain("linear", lambda y, w: F.linear(y, w), weight=True)
    yield chain("layer_norm", lambda y, w: F.layer_norm(y, (16,)))
    yield chain("softmax", lambda y, w: torch.softmax(y, -1))
    yield chain("dropout", lambda y, w: F.dropout(y, 0.1, True))

    def leaves(name: str, hooked: bool, accumulate: bool) -> Case:
        state: dict[str, Any] = {}

        def clear() -> None:
            if not accumulate:
                for p in state["leaves"]:
                    p.grad = None

        def make(device: str) -> Callable[[], None]:
            made = state["leaves"] = [torch.randn(16, device=device, requires_grad=True) for _ in range(LEAVES)]
            if hooked:
                for p in made:
                    p.register_post_accumulate_grad_hook(lambda _: None)
            end = torch.cat([p + 1.0 for p in made])
            gradient = torch.ones_like(end)
            return lambda: end.backward(gradient, retain_graph=True)

        return Case("backward", name, make, LEAVES, clear)

    yield leaves("leaf", False, False)
    yield leaves("leaf_accumulated", False, True)
    yield leaves("leaf_hooked", True, False)


def _nested(depth: int) -> nn.Module:
    """A module in a module in a module …; the innermost does nothing."""
    made: nn.Module = nn.Identity()
    for _ in range(depth):
        made = nn.Sequential(made)
    return made


def _modules() -> Iterator[Case]:
    def called(name: str, module: Callable[[], nn.Module], change: Callable[[nn.Module], None] | None = None) -> Case:
        def make(device: str) -> Callable[[], None]:
            x, made = torch.randn(16, 16, device=device), module().to(device)
            if change:
                change(made)
            return _loop(lambda: made(x))
        return Case("module", name, make)

    def hooks(module: nn.Module) -> None:
        module.register_forward_pre_hook(lambda m, x: None)
        module.register_forward_hook(lambda m, x, y: None)

    def ranges(module: nn.Module) -> None:
        from .rows import _recorder
        _recorder()
        from foretrace._recorder_layers import LayerRanges
        module.held = LayerRanges(torch)
        module.held.install([module])

    yield called("identity", nn.Identity)
    yield called("sequential_of_8", lambda: nn.Sequential(*[nn.Identity() for _ in range(8)]))
    yield called("nested_8_deep", lambda: _nested(8))
    yield called("linear", lambda: nn.Linear(16, 16))
    yield called("layer_norm", lambda: nn.LayerNorm(16))
    yield called("relu", nn.ReLU)
    yield called("dropout", lambda: nn.Dropout(0.1))
    yield called("identity_hooked", nn.Identity, hooks)
    yield called("identity_ranged", nn.Identity, ranges)

    def record_function(_device: str) -> Callable[[], None]:
        def once() -> None:
            with torch.profiler.record_function("range"):
                pass
        return _loop(once)
    yield Case("range", "record_function", record_function)


def _optimizers(device: str) -> Iterator[Case]:
    def stepped(name: str, kind: type[torch.optim.Optimizer], **how: object) -> Case:
        def make(place: str) -> Callable[[], None]:
            leaves = [nn.Parameter(torch.randn(16, device=place)) for _ in range(LEAVES)]
            for p in leaves:
                p.grad = torch.ones_like(p)
            optimizer = kind(leaves, 1e-3, **how)
            optimizer.step()
            return lambda: optimizer.step() and None
        return Case("optimizer", name, make, LEAVES)

    loop, many, one = {"foreach": False, "fused": False}, {"foreach": True}, {"fused": True}
    adam, adamw, sgd = torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD
    yield stepped("adam_loop", adam, **loop)
    yield stepped("adam_foreach", adam, **many)
    yield stepped("adam_fused", adam, **one)
    yield stepped("adamw_loop", adamw, **loop)
    yield stepped("sgd_loop", sgd, momentum=0.9, **loop)
    yield stepped("sgd_foreach", sgd, momentum=0.9, **many)
    if device == "cuda":
        yield stepped("adam_loop_capturable", adam, capturable=True, **loop)
        yield stepped("adam_fused_capturable", adam, capturable=True, **one)

    def zero(place: str) -> Callable[[], None]:
        optimizer = adam([nn.Parameter(torch.randn(16, device=place)) for _ in range(LEAVES)], 1e-3)
        return optimizer.zero_grad
    yield Case("optimizer", "zero_grad", zero, LEAVES)

    def clip(place: str) -> Callable[[], None]:
        leaves = [nn.Parameter(torch.randn(16, device=place)) for _ in range(LEAVES)]
        for p in leaves:
            p.grad = torch.ones_like(p)
        return lambda: torch.nn.utils.clip_grad_norm_(leaves, 1.0) and None
    yield Case("optimizer", "clip_grad_norm", clip, LEAVES)


def _precision() -> Iterator[Case]:
    def autocast(name: str, call: Callable[[torch.Tensor, torch.Tensor], object], whole: bool) -> Case:
        def make(device: str) -> Callable[[], None]:
            x, w = torch.randn(16, 16, device=device), torch.randn(16, 16, device=device, requires_grad=True)

            def inside() -> None:
                with torch.autocast(device, torch.bfloat16):
                    for _ in range(TIMES):
                        call(x, w)

            def each() -> None:
                with torch.autocast(device, torch.bfloat16):
                    call(x, w)
            return inside if whole else _loop(each)
        return Case("autocast", name, make)

    yield autocast("enter", lambda x, w: None, False)
    yield autocast("linear_cached_weight", lambda x, w: F.linear(x, w), True)
    yield autocast("enter_and_linear", lambda x, w: F.linear(x, w), False)
    yield autocast("layer_norm", lambda x, w: F.layer_norm(x, (16,)), True)
    yield autocast("add", lambda x, w: x + x, True)

    def scaler(device: str) -> Callable[[], None]:
        leaves = [nn.Parameter(torch.randn(16, device=device)) for _ in range(LEAVES)]
        optimizer = torch.optim.SGD(leaves, 1e-5, foreach=True)
        made = torch.amp.GradScaler(device)
        loss = torch.ones((), device=device)

        def run() -> None:
            for p in leaves:
                p.grad = torch.zeros_like(p)
            made.scale(loss)
            made.step(optimizer)
            made.update()
        return run
    yield Case("autocast", "grad_scaler_step", scaler, 1)


def _runtime() -> Iterator[Case]:
    def simple(kind: str, name: str, make: Callable[[], Callable[[], object]], times: int = TIMES) -> Case:
        return Case(kind, name, lambda _: _loop(make(), times), times)

    def replayed() -> Callable[[], object]:
        x, graph = torch.ones(16, device="cuda"), torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(10):
                x.add_(1.0)
        return graph.replay

    def copied() -> Callable[[], object]:
        here, there = torch.ones(16).pin_memory(), torch.ones(16, device="cuda")
        return lambda: there.copy_(here, non_blocking=True)

    def event_recorded() -> Callable[[], object]:
        event = torch.cuda.Event()
        return event.record

    def stream_waits() -> Callable[[], object]:
        event, stream = torch.cuda.Event(), torch.cuda.Stream()
        event.record()
        return lambda: stream.wait_event(event)

    yield simple("call", "event_record", event_recorded)
    yield simple("call", "stream_wait_event", stream_waits)
    yield simple("call", "stream_synchronize_idle", lambda: torch.cuda.current_stream().synchronize)
    yield simple("call", "copy_to_device", copied)
    yield simple("call", "graph_replay_10_kernels", replayed, 50)
