"""Ranges named `layer:<qualified name>|<type>` around the forward of a model's leaf modules, for a few steps."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Iterator
from typing import Any

# Modules with children that compute by themselves instead of calling them.
_WHOLE = ("MultiheadAttention",)
# Wrappers around a model, and the attribute that holds it.
_WRAPPERS = {"DistributedDataParallel": "module", "DataParallel": "module", "FullyShardedDataParallel": "module",
             "OptimizedModule": "_orig_mod"}
# Wrappers inside a model, which no one wrote into its names.
_WRAPPED_PARTS = {"_fsdp_wrapped_module", "_checkpoint_wrapped_module", "_orig_mod"}
# From this version on, PyTorch's quick range can be a user's range: 3 us a range under the profiler instead of 17.
_QUICK_SINCE = (2, 11)
_USER_SCOPE = {"scope": "user_scope"}


class LayerRanges:
    """Hooks that open and close the ranges. `install`, run steps, `remove`."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._handles: list[Any] = []
        self._open = threading.local()  # replicas of one module may run on several threads at once
        self.count = 0

    def install(self, models: Iterable[Any]) -> None:
        for label, module in labelled(models):
            self._hook(module, label)

    def remove(self) -> None:
        handles, self._handles = self._handles, []
        for handle in handles:
            handle.remove()

    def _hook(self, module: Any, label: str) -> None:
        make, compiling, stacks = range_maker(self._torch), self._torch.compiler.is_compiling, self._open

        # Neither may raise: they run inside the model. Neither is there for a compiler: it would compile them in.
        def enter(_module: Any, _inputs: Any) -> None:
            if compiling():
                return
            try:
                opened = make(label)
                opened.__enter__()
                if not hasattr(stacks, "ranges"):
                    stacks.ranges = []
                stacks.ranges.append(opened)
            except Exception:  # a layer without its range is no reason to stop a training
                pass

        def leave(_module: Any, _inputs: Any, _output: Any) -> None:
            if compiling():
                return
            try:
                stacks.ranges.pop().__exit__(None, None, None)
            except Exception:
                pass

        try:
            # always_call: a forward that raises (checkpointing ends its second forward so) still closes its range.
            handles = [module.register_forward_pre_hook(enter), module.register_forward_hook(leave, always_call=True)]
        except Exception:  # scripted modules take no hooks
            return
        self._handles += handles
        self.count += 1


class ModelFinder:
    """Finds the models of a loop by watching which modules are called during one step."""

    def __init__(self, torch: Any) -> None:
        self._seen: dict[int, Any] = {}
        self._handle = torch.nn.modules.module.register_module_forward_pre_hook(self._see)

    def _see(self, module: Any, _inputs: Any) -> None:
        self._seen.setdefault(id(module), module)

    def stop(self) -> list[Any]:
        """The outermost modules called, the largest first."""
        self._handle.remove()
        seen, self._seen = self._seen, {}
        inner = {id(m) for top in seen.values() for m in top.modules() if m is not top}
        outer = [m for key, m in seen.items() if key not in inner]
        return sorted(outer, key=lambda m: -sum(1 for _ in m.modules()))


def something_is_compiled() -> bool:
    """Whether torch.compile has compiled anything: its modules warn when every module is being watched."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    return bool(dynamo and dynamo.counters["stats"].get("unique_graphs"))


def labelled(models: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """Leaf modules with their labels. The first model's names are bare, those of others start with their class."""
    done: set[int] = set()
    prefixes: set[str] = set()
    for model in models:
        model = unwrap(model)
        prefix = ""
        if prefixes:
            kind = prefix = type(model).__name__
            number = 1
            while prefix in prefixes:
                number += 1
                prefix = f"{kind}{number}"
        prefixes.add(prefix)
        for name, module in model.named_modules():
            whole = type(module).__name__ in _WHOLE
            if id(module) in done or (any(True for _ in module.children()) and not whole):
                continue
            done.update(id(m) for m in module.modules())
            parts = [p for p in ([prefix] if prefix else []) + name.split(".") if p and p not in _WRAPPED_PARTS]
            yield f"layer:{'.'.join(parts) or type_name(module)}|{type_name(module)}", module


def unwrap(model: Any) -> Any:
    while (attribute := _WRAPPERS.get(type(model).__name__)) and hasattr(model, attribute):
        model = getattr(model, attribute)
    return model


def type_name(module: Any) -> str:
    """The class as its author named it: fully_shard derives FSDPLinear from Linear."""
    name = type(module).__name__
    sharded = any(c.__name__ == "FSDPModule" for c in type(module).__mro__)
    return (name.removeprefix("FSDP") or name) if sharded else name


def range_maker(torch: Any) -> Any:
    """label -> a context manager that is a user's range in the trace."""
    version = tuple(int(p) for p in str(torch.__version__).split("+")[0].split(".")[:2])
    quick = getattr(torch._C._profiler, "_RecordFunctionFast", None)
    if quick is None or version < _QUICK_SINCE:
        return torch.profiler.record_function
    return lambda label: quick(label, keyword_values=_USER_SCOPE)
