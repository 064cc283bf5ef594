"""What-ifs: those of the catalogue described, your own written as functions, and what predictions say."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from . import _core
from ._draft import Draft
from ._errors import Error

if TYPE_CHECKING:
    from ._graph import Graph
    from ._trace import Trace


@dataclass(frozen=True)
class Parameter:
    """A parameter of a what-if: "x" of "batch:x=2"."""

    name: str
    about: str
    required: bool
    default: Any = None
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class WhatIf:
    """A named change of a step. Your own is a function of a Draft; calling it calls that function."""

    name: str
    about: str
    parameters: tuple[Parameter, ...]
    assumes: str = ""  # what has to hold
    source: str = ""
    not_modelled: str = ""
    needs: str = ""  # what the trace must hold
    code: str = ""  # how to switch it on in PyTorch
    effort: str = ""  # what that takes: "one line", "a few lines", "work"
    validated: bool = False  # against measurements
    function: Callable[..., None] | None = field(default=None, repr=False, compare=False)  # None: of the catalogue

    def __call__(self, draft: Draft, **parameters: Any) -> None:
        if self.function is None:
            raise TypeError(f"{self.name} is of the catalogue: use it in Graph.predict")
        self.function(draft, **parameters)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Applied:
    """One what-if of a prediction, as it was carried out."""

    whatif: str
    changed: int  # tasks changed, added or removed
    seconds: float  # spent on it


@dataclass(frozen=True)
class Prediction:
    """A step with changes. Times in ns, low and high are the 10th and 90th percentile; `declined` says why there are none."""

    whatif: str  # "amp + fused-optimizer"
    declined: str | None
    step: int
    low: int
    high: int
    speedup: float  # against the measured step, else the step without the profiler
    gpu_time: int  # sum of kernels and copies
    peak_bytes: int | None  # of the allocator; None where the trace has no memory events
    fits: bool | None  # the peak and what the driver keeps into the GPU's memory; None where one of them is unknown
    samples: float  # in a step, as a multiple of the traced step's
    largest_batch: float | None  # that fits the GPU, as a multiple of the traced one; where the batch changes
    origin: str  # where the costs come from: "measured", "scaled", "modelled", "analytic"
    validated: bool  # all its what-ifs are checked against measurements
    not_modelled: tuple[str, ...]
    applied: tuple[Applied, ...]
    graph: Graph | None = field(repr=False, compare=False)  # the step with the changes

    def __post_init__(self) -> None:
        object.__setattr__(self, "applied", tuple(Applied(*a) if isinstance(a, tuple) else a for a in self.applied))

    @property
    def ms(self) -> float:
        return self._known(self.step) / 1e6

    @property
    def low_ms(self) -> float:
        return self._known(self.low) / 1e6

    @property
    def high_ms(self) -> float:
        return self._known(self.high) / 1e6

    @property
    def gpu_ms(self) -> float:
        return self._known(self.gpu_time) / 1e6

    @property
    def gain(self) -> float:
        """Samples per second, as a multiple of now: what to compare where the batch changes."""
        return self.speedup * self.samples

    @property
    def _reason(self) -> str:
        """`declined` to stand behind `whatif`: without the name where that is of one change only."""
        name = self.whatif.partition(":")[0]
        return (self.declined or "").removeprefix("" if " + " in self.whatif else f"{name}: ")

    def _known(self, value: int) -> int:
        if self.declined is not None:
            raise Error(f"nothing was predicted. {self.whatif}: {self._reason}", code="declined")
        return value

    def __str__(self) -> str:
        if self.declined is not None:
            return f"{self.whatif}: declined. {self._reason}"
        memory = "" if self.peak_bytes is None else f", peak {self.peak_bytes / 1e9:.2f} GB"
        memory += ", more than the GPU's memory" if self.fits is False else ""
        rate = "" if self.samples == 1 else f" ({self.gain:.3f} x samples per second)"
        text = (f"{self.whatif}: {self.ms:.3f} ms [{self.low_ms:.3f}, {self.high_ms:.3f}], {self.speedup:.3f} x{rate}, "
                f"GPU {self.gpu_ms:.3f} ms{memory}; costs {self.origin}")
        return text + "".join(f"\n  not modelled: {what}" for what in self.not_modelled)


_own: dict[str, WhatIf] = {}
"""What-ifs of the user, by name."""


def whatifs() -> list[WhatIf]:
    """All what-ifs there are, by name: those of the catalogue and your own."""
    known = [_described(d) for d in _core.whatifs()]
    return sorted([*known, *_own.values()], key=lambda w: w.name)


def whatif(name: str, *, about: str = "", assumes: str = "", source: str = "", not_modelled: str = "",
           ) -> Callable[[Callable[..., None]], WhatIf]:
    """Makes a function of a Draft a what-if of its own, known by this name from now on.

    Further arguments of the function are its parameters; those with a number as default take numbers.

    >>> @foretrace.whatif("half-batchnorm", about="batch-norm kernels read their input once")
    ... def half_batchnorm(g, x=0.5):
    ...     g.scale(g.select(kind="kernel", op="*batch_norm*"), x)
    >>> step.predict("half-batchnorm:x=0.4", "fused-optimizer")
    """
    if not name or any(c in name for c in ":,=|'\" \t\n"):
        raise ValueError(f"{name!r} cannot name a what-if: it holds a space, a quote, or one of : , = |")
    if any(d["name"] == name for d in _core.whatifs()):
        raise ValueError(f"the catalogue has a what-if named {name!r}; choose another name")

    def decorate(function: Callable[..., None]) -> WhatIf:
        if isinstance(function, WhatIf):
            raise TypeError("this function is a what-if already")
        text = about or (inspect.getdoc(function) or "").split("\n")[0]
        made = WhatIf(name, text, _parameters_of(name, function), assumes, source, not_modelled, function=function)
        _own[name] = made
        return made

    return decorate


def given_uses(uses: Iterable[str | WhatIf], trace: Trace) -> list[tuple[str, str, str, Any]]:
    """As the compiled half wants them: text, and for a user's own its name, what it leaves out, and a function of a draft."""
    given: list[tuple[str, str, str, Any]] = []
    for use in uses:
        if isinstance(use, WhatIf):
            text, own = use.name, use if use.function is not None else None
        elif isinstance(use, str):
            text, own = use, _own.get(use.partition(":")[0])
        else:
            raise TypeError(f"a what-if is a text like 'batch:x=2' or made by foretrace.whatif, not {type(use).__name__}")
        if own is None:
            _check_name(text)
            _core.check_use(text)
            given.append((text, "", "", None))
        else:
            given.append((text, own.name, own.not_modelled, _function_of(own, _values(own, text), trace)))
    return given


def _check_name(text: str) -> None:
    """A misspelt name of the user's own is told from one of the catalogue, which has its own advice."""
    name = text.partition(":")[0]
    near = difflib.get_close_matches(name, _own, 1)
    if near and not any(d["name"] == name for d in _core.whatifs()):
        raise Error(f"there is no what-if named '{name}'\n  hint: did you mean '{near[0]}'?",
                    message=f"there is no what-if named '{name}'", hint=f"did you mean '{near[0]}'?")


def _function_of(own: WhatIf, values: dict[str, Any], trace: Trace) -> Callable[[_core.Draft], None]:
    function = own.function
    assert function is not None

    def apply(core: _core.Draft) -> None:
        function(Draft(core, trace), **values)

    return apply


def _described(d: dict[str, Any]) -> WhatIf:
    parameters = tuple(Parameter(**p) for p in d.pop("parameters"))
    return WhatIf(**d, parameters=parameters)


def _parameters_of(name: str, function: Callable[..., None]) -> tuple[Parameter, ...]:
    declared = list(inspect.signature(function).parameters.values())
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if not declared or declared[0].kind not in positional:
        raise TypeError(f"the function of what-if {name!r} must take a draft as its first argument")
    for p in declared[1:]:
        if p.kind not in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY):
            raise TypeError(f"the parameters of what-if {name!r} must have names: not {p}")
    return tuple(Parameter(p.name, "", True) if p.default is p.empty else Parameter(p.name, "", False, p.default)
                 for p in declared[1:])


def _values(own: WhatIf, text: str) -> dict[str, Any]:
    """The parameters of "name:key=value,key='a,b'", as the type of their defaults."""
    known = {p.name: p for p in own.parameters}
    values: dict[str, Any] = {}
    for key, value in _pairs(text):
        if key not in known:
            takes = f"it takes: {', '.join(known)}" if known else "it takes none"
            raise Error(f"{own.name} has no parameter '{key}'; {takes}")
        values[key] = _converted(own.name, known[key], value)
    missing = [p.name for p in own.parameters if p.required and p.name not in values]
    if missing:
        raise Error(f"{own.name} needs {missing[0]}=…")
    return values


def _converted(name: str, parameter: Parameter, value: str) -> Any:
    kind = type(parameter.default)
    if kind not in (int, float):
        return value
    try:
        return kind(value)
    except ValueError:
        expected = "a whole number" if kind is int else "a number"
        raise Error(f"{name}:{parameter.name} must be {expected}, not '{value}'") from None


def _pairs(text: str) -> Iterable[tuple[str, str]]:
    rest = text.partition(":")[2]
    while rest:
        key, equals, rest = rest.partition("=")
        if not equals:
            raise Error(f"'{key}' in '{text}' is not key=value")
        if rest[:1] in ("'", '"'):
            value, closed, rest = rest[1:].partition(rest[0])
            if not closed or rest[:1] not in ("", ","):
                raise Error(f"a quote is not closed, or no comma follows it, in '{text}'")
            rest = rest[1:]
        else:
            value, _, rest = rest.partition(",")
        yield key, value
