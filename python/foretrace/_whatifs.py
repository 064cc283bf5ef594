"""What-ifs: those of the catalogue described, your own written as functions of a draft."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from . import _core
from ._contract import USUAL_PARTS, Changes, Effort, Need, Parts, Stage
from ._draft import Draft
from ._errors import DeclinedError, Error
from ._uses import text_of, written


@dataclass(frozen=True)
class Parameter:
    """A parameter of a what-if: "x" of "batch:x=2"."""

    name: str
    about: str
    required: bool
    default: Any = None
    choices: tuple[str, ...] = ()  # the only values allowed, when not empty
    type: str = "text"  # "text" or "number"


@dataclass(frozen=True)
class WhatIf:
    """A named change of a step. Your own is a function of a Draft; calling it calls that function."""

    name: str
    about: str
    parameters: tuple[Parameter, ...] = ()
    assumes: str = ""  # what has to hold
    source: str = ""
    not_modelled: str = ""
    needs: tuple[Need, ...] = ()  # of the trace
    changes: Changes = "costs"
    parts: Parts = USUAL_PARTS
    code: str = ""  # how to switch it on in PyTorch
    effort: Effort = "work"  # what that takes
    stage: Stage = "kernels"  # its place among others
    advise: tuple[str, ...] = ()  # uses worth trying unasked
    validated: bool = False  # agrees with its measured rows, or is right by definition
    measured_rows: int = 0  # behind that
    measured_models: int = 0
    function: Callable[..., None] | None = field(default=None, repr=False, compare=False)  # None: of the catalogue
    id: int | None = field(default=None, repr=False, compare=False)  # of your own: what the library knows it by

    def __call__(self, draft: Draft, **parameters: Any) -> None:
        if self.function is None:
            raise TypeError(f"{self.name} belongs to the catalogue: use it in Graph.predict")
        self.function(draft, **parameters)

    def use(self, **parameters: Any) -> str:
        """A use of it as the command line writes it: `half_batchnorm.use(x=0.4)` is "half-batchnorm:x=0.4"."""
        return written(self.name, parameters)

    def __str__(self) -> str:
        return self.name


_own: dict[str, WhatIf] = {}
"""What-ifs of the user, by name."""
_applied: dict[int, Callable[[_core.Draft, dict[str, str]], None]] = {}
"""What each of the user's does to a draft, by the id the library knows it by. The library holds no reference to them."""

# Set by the command line, where exceptions have no caller: given a failure, it returns the reason to decline with.
on_failure: Callable[[WhatIf, Exception], str] | None = None


def whatifs() -> list[WhatIf]:
    """All what-ifs there are, by name: those of the catalogue and your own."""
    return [_own.get(d["name"]) or _described(d) for d in _core.whatifs()]


def whatif(name: str, *, about: str = "", assumes: str = "", source: str = "", not_modelled: str = "",
           needs: Iterable[Need] = (), changes: Changes = "costs", parts: Parts = USUAL_PARTS, code: str = "",
           effort: Effort = "work", stage: Stage = "kernels", advise: Iterable[str] = (),
           parameters: Mapping[str, str] | None = None) -> Callable[[Callable[..., None]], WhatIf]:
    """Makes a function of a Draft a what-if of its own, known by this name to everything from now on: `predict`, `advise`,
    `optimize`, the lists.

    about: one sentence; default the first line of the function's docstring. needs, changes, parts: what it says of itself,
    typed as foretrace's own (docs/internals/adding-a-whatif.md). advise: uses worth trying unasked, ["half-batchnorm"]; none: it is tried
    only when named. code, effort: how to switch it on in PyTorch, and what that takes. stage: its place among others.

    Further arguments of the function are its parameters: those with a number as default take numbers, those annotated with
    Literal["a", "b"] only these values. `parameters` describes them: {"x": "factor on their time"}.

    >>> @foretrace.whatif("half-batchnorm", about="batch-norm kernels read their input once")
    ... def half_batchnorm(g, x=0.5):
    ...     g.scale(g.select(kind="kernel", op="*batch_norm*"), x)
    >>> step.predict("half-batchnorm:x=0.4", "fused-optimizer")
    """
    abouts = dict(parameters or {})

    def decorate(function: Callable[..., None]) -> WhatIf:
        if isinstance(function, WhatIf):
            raise TypeError("this function is a what-if already")
        text = about or (inspect.getdoc(function) or "").split("\n")[0]
        made = WhatIf(name, text, _parameters_of(name, function, abouts), assumes, source, not_modelled, _texts(needs),
                      changes, parts, code, effort, stage, _texts(advise), function=function)
        made = replace(made, id=_add(made))
        _own[name] = made
        return made

    return decorate


def given_uses(uses: Iterable[str | WhatIf]) -> list[str | int]:
    """As the compiled half wants them, checked: texts, and what-ifs of the user's that were given as objects."""
    given: list[str | int] = []
    for use in uses:
        if isinstance(use, WhatIf):
            given.append(use.name if use.id is None else use.id)
        elif isinstance(use, str):
            given.append(use)
        else:
            if getattr(use, "__module__", "") in ("foretrace._changes", "foretrace._network_changes"):
                raise TypeError(f"foretrace.{use.__name__} is a function: write foretrace.{use.__name__}(…)")
            raise TypeError(f"a what-if is a text like 'batch:x=2' or made by foretrace.whatif, not {type(use).__name__}")
    _core.check_uses(given)
    return given


def _add(own: WhatIf) -> int:
    """Makes it known to the library, and so to every verb, list and search."""
    kinds = {p.name: _kind_of(p) for p in own.parameters}

    def apply(core: _core.Draft, texts: dict[str, str]) -> None:
        values = {key: kinds[key](text) for key, text in texts.items()}
        try:
            own(Draft(core, own.parts, own.changes), **values)
        except Exception as error:
            if on_failure is None or isinstance(error, Error):
                raise
            raise DeclinedError(on_failure(own, error)) from error

    made = _core.add_whatif(
        name=own.name, about=own.about, assumes=own.assumes, source=own.source, not_modelled=own.not_modelled,
        needs=list(own.needs), changes=own.changes, parts=(own.parts.cpu, own.parts.gpu, own.parts.memory), code=own.code,
        effort=own.effort, stage=own.stage, advise=list(own.advise),
        parameters=[(p.name, p.about, "" if p.default is None else text_of(p.default), p.required, list(p.choices),
                     _NUMBERS.get(kinds[p.name], "text")) for p in own.parameters])
    _applied[made] = apply
    return made


def apply_own(made: int, draft: _core.Draft, texts: dict[str, str]) -> None:
    """Called by the library: makes the change of one of the user's what-ifs."""
    _applied[made](draft, texts)


def _texts(given: Iterable[Any]) -> tuple[Any, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _described(d: dict[str, Any]) -> WhatIf:
    return WhatIf(**{**d, "parameters": tuple(Parameter(**p) for p in d["parameters"]), "parts": Parts(*d["parts"])})


def _switch(text: str) -> bool:
    return text == "1"


_NUMBERS: dict[Callable[[str], Any], str] = {int: "whole", float: "number"}


def _kind_of(p: Parameter) -> Callable[[str], Any]:
    if isinstance(p.default, bool):
        return _switch
    return type(p.default) if type(p.default) in (int, float) else str


def _parameters_of(name: str, function: Callable[..., None], abouts: dict[str, str]) -> tuple[Parameter, ...]:
    declared = list(inspect.signature(function).parameters.values())
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if not declared or declared[0].kind not in positional:
        raise TypeError(f"the function of what-if {name!r} must take a draft as its first argument")
    for p in declared[1:]:
        if p.kind not in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY):
            raise TypeError(f"the parameters of what-if {name!r} must have names: not {p}")
    unknown = set(abouts) - {p.name for p in declared[1:]}
    if unknown:
        raise TypeError(f"what-if {name!r} describes '{sorted(unknown)[0]}', which its function does not take")
    choices = _choices_of(function)
    return tuple(
        Parameter(p.name, abouts.get(p.name, ""), p.default is p.empty, None if p.default is p.empty else p.default,
                  ("0", "1") if isinstance(p.default, bool) else choices.get(p.name, ()),
                  "number" if type(p.default) in (int, float) else "text")
        for p in declared[1:])


def _choices_of(function: Callable[..., None]) -> dict[str, tuple[str, ...]]:
    try:
        hints = typing.get_type_hints(function)
    except Exception:  # an annotation that names what only a type checker sees
        return {}
    return {name: tuple(str(v) for v in typing.get_args(hint)) for name, hint in hints.items()
            if typing.get_origin(hint) is typing.Literal}
