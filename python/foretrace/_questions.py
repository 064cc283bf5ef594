"""Questions about a step, of one trace or of all ranks of a job: changes, another GPU, the best strategy."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Literal

from ._advice import Advised, advised
from ._errors import UsageError, make_error
from ._optimize import Optimized, optimized
from ._predictions import Prediction, Predictions
from ._whatifs import WhatIf, given_uses
from ._width import report_width

if TYPE_CHECKING:
    from ._core import Graph as CoreGraph
    from ._core import Model as CoreModel
    from ._gpus import Gpus
    from ._graph import Graph


def quoted(text: str) -> str:
    """A value of a parameter, where it holds what separates them."""
    return f"'{text}'" if any(c in text for c in ",:=|") else text


class Questions:
    """The questions that a model of a step answers; who holds the step makes the model."""

    def _model(self, measured_ms: float | None) -> CoreModel:
        """The step without the profiler; raises where nothing can be predicted."""
        raise NotImplementedError

    def _changed(self, core: CoreGraph) -> Graph:
        """The graph of a prediction."""
        raise NotImplementedError

    def predict(self, *whatifs: str | WhatIf, measured_ms: float | None = None) -> Prediction:
        """The step with all of these changes, one after another. None of them has to be implemented.

        A change is written as on the command line, "batch:x=2", or by its function, foretrace.batch(2), or is one of your own
        (foretrace.whatif). Predictions speak
        of the step without the profiler; measured_ms as in `unprofiled`.

        >>> graph.predict("fused-optimizer", "cuda-graph", measured_ms=71.6)
        """
        if not whatifs:
            raise ValueError("predict needs at least one what-if; foretrace.whatifs() lists them")
        values = self._model(measured_ms).predict(given_uses(whatifs))
        core = values.pop("graph")
        return Prediction(**values, graph=None if core is None else self._changed(core))

    def each(self, *whatifs: str | WhatIf, measured_ms: float | None = None) -> Predictions:
        """The step with each of these changes alone: a list, which is also a table and a picture."""
        given_uses(whatifs)  # a wrong one is found before the first is predicted
        return Predictions(self.predict(one, measured_ms=measured_ms) for one in whatifs)

    def advise(self, *, measured_ms: float | None = None, memory_gb: float | None = None) -> Advised:
        """Everything that is worth trying, your own what-ifs that say so among it, alone and combined, ranked by gain.

        memory_gb: the most the allocator may hold, in 10^9 bytes; default the GPU's memory less what the driver keeps.

        >>> print(step.advise(measured_ms=71.6).combined)
        """
        limit = None if memory_gb is None else int(memory_gb * 1e9)
        return advised(self._model(measured_ms).advise(limit))

    def optimize(self, *, workers: int = 1, fabric: str | os.PathLike[str] | None = None,
                 collectives: str | os.PathLike[str] | None = None, collectives_tag: str | None = None,
                 gpus_per_node: int | None = None, only: Iterable[str] = (), memory_gb: float | None = None,
                 bucket_mb: Iterable[float] = (), evaluations: int | None = None, seconds: float | None = None, seed: int = 1,
                 measured_ms: float | None = None) -> Optimized:
        """Searches for the best strategy: what `foretrace optimize` says.

        workers, with a fabric or measured collectives: data parallel on so many GPUs. only: names of the what-ifs that may be
        used; default all. bucket_mb: the only sizes of buckets to choose from. evaluations: strategies predicted at most (1000
        unless seconds are given); the same trace, options and seed give the same answer, a budget in seconds does not.

        >>> best = step.optimize(memory_gb=12)
        >>> print(best); best.save_code("best.py")
        """
        most = evaluations if evaluations is not None else 1000 if seconds is None else 0
        return optimized(self._model(measured_ms).optimize(
            workers, os.fspath(fabric or ""), os.fspath(collectives or ""), collectives_tag or "", gpus_per_node or 0,
            [only] if isinstance(only, str) else list(only), None if memory_gb is None else int(memory_gb * 1e9),
            [float(mb) for mb in bucket_mb], most, seconds or 0.0, seed, report_width()))

    def on(self, device: str, *whatifs: str | WhatIf, cpu: float | None = None,
           host: str | os.PathLike[str] | None = None, measured_ms: float | None = None) -> Prediction:
        """The same step on another GPU, with these changes; `device` is a name of `foretrace list devices` or a device file.

        cpu: how many times as fast the host there is. host: the host there, a file of `foretrace calibrate`. A note says when
        the CPU bounds the step there. Where the GPU of the trace cannot do a change (bf16 on a V100), it is made after the move.

        >>> graph.on("A100-SXM4-80GB", "amp")
        """
        move = f"gpu:to={quoted(device)}" + (f",host={quoted(os.fspath(host))}" if host is not None else "")
        faster = () if cpu is None else (f"cpu:x={cpu:g}",)
        first = self.predict(*whatifs, move, *faster, measured_ms=measured_ms)
        if first.declined is None or not whatifs:
            return first
        after = self.predict(move, *whatifs, *faster, measured_ms=measured_ms)
        return first if after.declined is not None else after

    def gpus(self, *whatifs: str | WhatIf, to: Iterable[str] = (), cpu: float | None = None,
             host: str | os.PathLike[str] | None = None, prices: Mapping[str, float] | None = None,
             sort: Literal["time", "cost", "value"] = "time", measured_ms: float | None = None) -> Gpus:
        """The same step on several GPUs, with these changes: what `foretrace gpus` says.

        to: names of `foretrace list devices` or device files; default all known ones. prices: USD per hour by name. cpu and
        host as for `on`.

        >>> print(step.gpus(to=["A100-SXM4-80GB", "H100-SXM5"], prices={"H100-SXM5": 2.49}))
        """
        from ._gpus import Gpus

        if sort not in ("time", "cost", "value"):
            raise make_error(UsageError, f"sort is 'time', 'cost' or 'value', not {sort!r}")
        given_uses(whatifs)
        return Gpus(*self._model(measured_ms).gpus(
            [to] if isinstance(to, str) else list(to), [str(w) for w in whatifs], cpu, os.fspath(host or ""), dict(prices or {}),
            sort, report_width()))
