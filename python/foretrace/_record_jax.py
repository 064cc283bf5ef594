"""Inside a JAX program that `foretrace record` runs: calls of its jitted functions are what may end a step."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ._recorder_jax import JaxRecorder

if TYPE_CHECKING:
    from ._record_program import Program


class Watched:
    """A jitted function, and word to the recording after each call of it from outside. Everything else is the function's."""

    def __init__(self, jitted: Any, called: Callable[[object], None]) -> None:
        functools.update_wrapper(self, jitted)
        self._jitted, self._called = jitted, called

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        result = self._jitted(*args, **kwargs)
        self._called(self)
        return result

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        return self if owner is None else types.MethodType(self, owner)

    def __getattr__(self, name: str) -> Any:
        if name == "_jitted":  # while it is being made or copied
            raise AttributeError(name)
        return getattr(self._jitted, name)

    def __repr__(self) -> str:
        return repr(self._jitted)


def watch(jax: Any, program: Program) -> None:
    """From now on what jax.jit and jax.pmap make is watched. Functions JAX jits for itself are not."""
    clean = _trace_state_clean(jax)

    def recorder(options: dict[str, Any]) -> JaxRecorder:
        from ._record_program import injected

        return injected(JaxRecorder, program)(options["output"], steps=options["steps"], measure=options["measure"], warmup=1)

    def called(function: object) -> None:
        if not program.off and clean():
            program.event(id(function), recorder)

    def watched(inner: Any) -> Any:
        @functools.wraps(inner)
        def jit(*args: Any, **kwargs: Any) -> Any:
            made = inner(*args, **kwargs)
            if hasattr(made, "lower"):
                return Watched(made, called)
            if callable(made):  # jit(static_argnames=…), which waits for its function
                return lambda function: Watched(made(function), called)
            return made

        return jit

    for name in ("jit", "pmap"):
        if hasattr(jax, name):
            setattr(jax, name, watched(getattr(jax, name)))


def _trace_state_clean(jax: Any) -> Callable[[], bool]:
    """Whether a call is really made now, not traced into another function; always true where JAX does not tell."""
    for path in ("jax.core", "jax._src.core"):
        try:
            found = getattr(__import__(path, fromlist=["core"]), "trace_state_clean", None)
        except ImportError:
            continue
        if found is not None:
            return found  # type: ignore[no-any-return]
    return lambda: True
