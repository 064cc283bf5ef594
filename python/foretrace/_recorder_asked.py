"""Checks the options of a recording; and why there may be no GPU in it."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

from ._recorder_figures import cuda_in_use


def count_of(name: str, value: Any, least: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be a whole number of steps, not {value!r}") from None
    if isinstance(value, bool) or number < least:
        raise ValueError(f"{name} must be {least} or more, not {value!r}")
    return number


def why_no_gpu(torch: Any) -> str:
    if not torch.cuda.is_available():
        return "PyTorch sees no GPU here"
    if not cuda_in_use(torch):
        return "is the model on the GPU? (model.to('cuda'))"
    return "is the model on the GPU? If it is, the profiler could not see it: another one was running, or this process may not"


def models_of(model: Any) -> list[Any]:
    if model is None:
        return []
    models = [model] if hasattr(model, "named_modules") else list(model) if isinstance(model, Iterable) else [model]
    for one in models:
        if not hasattr(one, "named_modules"):
            raise TypeError(f"model must be a torch.nn.Module or several of them, not {type(one).__name__}")
    return models
