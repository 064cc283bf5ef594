"""What a step can be asked: changes, another GPU, more workers, the best strategy."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Literal

from ._advice import Advised, advised
from ._core import page, recorded_ms, step_model
from ._errors import DeclinedError, Error, UsageError, told
from ._export import Exported, export_step
from ._optimize import Optimized, optimized
from ._predictions import Prediction, Predictions
from ._scale import Scaled
from ._whatifs import WhatIf, given_uses
from ._width import report_width

if TYPE_CHECKING:
    from ._core import Graph as CoreGraph
    from ._core import Model as CoreModel
    from ._gpus import Gpus
    from ._graph import Graph
    from ._plans import Plans
    from ._trace import Trace


def quoted(text: str) -> str:
    """A value of a parameter, where it holds what separates them."""
    return f"'{text}'" if any(c in text for c in ",:=|") else text


class StepQuestions:
    """The questions of a Graph that is a step as traced."""

    _core: CoreGraph
    _trace: Trace | None
    _step_index: int | None
    _models: dict[int | None, CoreModel]

    def predict(self, *whatifs: str | WhatIf, measured_ms: float | None = None) -> Prediction:
        """The step with all of these changes, one after another. None of them has to be implemented.

        A change is written as on the command line, "batch:x=2", or by its function, foretrace.batch(2), or is one of your own
        (foretrace.whatif). Predictions speak
        of the step without the profiler; measured_ms as in `unprofiled`.

        >>> graph.predict("fused-optimizer", "cuda-graph", measured_ms=71.6)
        """
        if not whatifs:
            raise ValueError("predict needs at least one what-if; foretrace.whatifs() lists them")
        self._traced()
        values = self._model(measured_ms).predict(given_uses(whatifs))
        core = values.pop("graph")
        return Prediction(**values, graph=None if core is None else self._changed(core))

    def each(self, *whatifs: str | WhatIf, measured_ms: float | None = None) -> Predictions:
        """The step with each of these changes alone: a list, which is also a table and a picture."""
        self._traced()
        given_uses(whatifs)  # a wrong one is found before the first is predicted
        return Predictions(self.predict(one, measured_ms=measured_ms) for one in whatifs)

    def advise(self, *, measured_ms: float | None = None, memory_gb: float | None = None) -> Advised:
        """Everything that is worth trying, your own what-ifs that say so among it, alone and combined, ranked by gain.

        memory_gb: the most the allocator may hold, in 10^9 bytes; default the GPU's memory less what the driver keeps.

        >>> print(step.advise(measured_ms=71.6).combined)
        """
        self._traced()
        limit = None if memory_gb is None else int(memory_gb * 1e9)
        return advised(self._model(measured_ms).advise(limit))

    def report(self, path: str | os.PathLike[str], *whatifs: str, measured_ms: float | None = None) -> str:
        """Writes everything about the step as one HTML page that needs nothing else, and returns its first sentence.

        whatifs: shown together as the predicted timeline; without any, the best combination found is.

        >>> step.report("report.html")
        """
        trace = self._traced()
        number = None if self._step_index is None else trace.steps[self._step_index].number
        html, answer = page(trace._core, number, measured_ms, list(whatifs), f"foretrace.report({os.fspath(path)!r})")
        with open(path, "wb") as file:
            file.write(html)
        return answer

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
        self._traced()
        most = evaluations if evaluations is not None else 1000 if seconds is None else 0
        return optimized(self._model(measured_ms).optimize(
            workers, os.fspath(fabric or ""), os.fspath(collectives or ""), collectives_tag or "", gpus_per_node or 0,
            [only] if isinstance(only, str) else list(only), None if memory_gb is None else int(memory_gb * 1e9),
            [float(mb) for mb in bucket_mb], most, seconds or 0.0, seed, report_width()))

    def export(self, path: str | os.PathLike[str], *whatifs: str | WhatIf, format: str = "perfetto") -> Exported:
        """Writes the step for another program, as measured and as simulated; with changes as they are predicted to make it.

        A path that ends with .gz is compressed. The file also holds the graph: `foretrace.load` reads it back.

        >>> step.export("timeline.json.gz")                    # then open it in ui.perfetto.dev
        >>> step.export("predicted.json.gz", "fused-optimizer")
        """
        trace, index = self._traced(), self._step_index
        assert index is not None
        given_uses(whatifs)
        return export_step(trace, trace._graphs.number(index), path, [str(w) for w in whatifs], format)

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
            raise told(UsageError, f"sort is 'time', 'cost' or 'value', not {sort!r}")
        self._traced()
        given_uses(whatifs)
        return Gpus(*self._model(measured_ms).gpus(
            [to] if isinstance(to, str) else list(to), [str(w) for w in whatifs], cpu, os.fspath(host or ""), dict(prices or {}),
            sort, report_width()))

    def scale(self, workers: int, *whatifs: str | WhatIf, fabric: str | os.PathLike[str] | None = None,
              collectives: str | os.PathLike[str] | None = None, collectives_tag: str | None = None,
              gpus_per_node: int | None = None, parallel: str = "ddp", compress: str = "none",
              bucket_mb: float | None = None, servers: int | None = None, slice_mb: float | None = None,
              slow_worker: float | None = None, cycle_ms: float | None = None, send_us: float | None = None,
              ring_steps: bool = False, measured_ms: float | None = None) -> Scaled:
        """The same step on several workers, each on its own data and with these changes: what `foretrace scale` says.

        fabric: a name of `foretrace list fabrics` or a file; or collectives: a file of measured ones. parallel: "ddp", "fsdp",
        "zero1", "zero2", "zero3", "ps", "p3", "blueconnect", "horovod". compress: "fp16", "powersgd", "topk", "dgc", "qsgd", "terngrad".
        servers: of "ps" and "p3", on machines of their own. A scheme that does not apply raises DeclinedError.

        >>> step.scale(16, fabric="25GbE", bucket_mb=100).ms
        """
        self._traced()
        values = self._model(measured_ms).scale(
            workers, given_uses(whatifs), os.fspath(fabric or ""), os.fspath(collectives or ""), collectives_tag or "",
            gpus_per_node or 0, parallel, compress, bucket_mb, servers, slice_mb, slow_worker, cycle_ms, send_us, ring_steps)
        return Scaled(**{**values, "graph": self._changed(values["graph"])})

    def plan(self, *plans: str, gpus: int | None = None, fabric: str | os.PathLike[str] | None = None,
             collectives: str | os.PathLike[str] | None = None, gpus_per_node: int | None = None, layers: int | None = None,
             global_batch: float | None = None, memory_gb: float | None = None, gpu: str | None = None, usd_per_hour: float | None = None,
             tokens: float | None = None, measured_ms: float | None = None) -> Plans:
        """How to train on many GPUs: what `foretrace plan` finds, or these plans as `foretrace scale --plan` predicts them.

        The step is read from its file again. layers: of the real model. global_batch: samples in a step of the job. tokens: when
        training ends. fabric and collectives as for `scale`.

        >>> step.plan(gpus=512, fabric="DGX-H100", layers=80, global_batch=1024).best
        >>> step.plan("tp=2,pp=4,dp=8", "tp=8,dp=8", fabric="DGX-H100").to_pandas()
        """
        from ._plans import ask

        if plans and (gpus is not None or tokens is not None):
            raise told(UsageError, "gpus and tokens are for the search: a plan says itself how many GPUs it has")
        step = self._traced().steps[self._step_index or 0].number
        given = {"gpus": gpus, "fabric": fabric, "collectives": collectives, "gpus-per-node": gpus_per_node, "layers": layers,
                 "global-batch": global_batch, "memory-gb": memory_gb, "gpu": gpu, "usd-per-hour": usd_per_hour, "tokens": tokens,
                 "measured-ms": measured_ms, "step": step}
        options = [text for name, value in given.items() if value is not None for text in (f"--{name}", f"{value}")]
        asked = [text for plan in plans for text in ("--plan", plan)]
        return ask(["scale" if plans else "plan", self._traced().path, *asked, *options])

    def _traced(self) -> Trace:
        if self._trace is None or self._step_index is None:
            raise told(DeclinedError, "this graph is not a step as traced, so there is nothing to predict from",
                       hint="use the graph that trace.step() gives: predict takes the profiler's cost off by itself")
        return self._trace

    def _model(self, measured_ms: float | None) -> CoreModel:
        trace, measured = self._traced(), self._measured(measured_ms)
        if measured not in self._models:
            assert self._step_index is not None
            self._models[measured] = step_model(trace._core, trace._graphs, self._step_index, self._core, measured)
        return self._models[measured]

    def _measured(self, measured_ms: float | None) -> int | None:
        """ns of the real step: as given, else as the recorder stored it. What cannot be true raises when given, and is left
        alone with a warning when stored."""
        if measured_ms is not None:
            return self._core.plausible_step(float(measured_ms))
        stored = None if self._trace is None else recorded_ms(self._trace._core)
        if stored is None:
            return None
        try:
            return self._core.plausible_step(stored)
        except Error as refused:
            warnings.warn(f"the measured step the recorder stored is not used: {refused.message} ({refused.hint})",
                          stacklevel=4)
            return None

    def _changed(self, core: CoreGraph) -> Graph:
        from ._graph import Graph

        return Graph(core, self._trace)
