"""Questions only about one rank's step: more workers, plans, its page and its export."""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING

from ._core import page, recorded_ms, step_model
from ._errors import DeclinedError, Error, UsageError, make_error
from ._export import Exported, export_step
from ._questions import Questions
from ._scale import Scaled
from ._whatifs import WhatIf, given_uses

if TYPE_CHECKING:
    from ._core import Graph as CoreGraph
    from ._core import Model as CoreModel
    from ._graph import Graph
    from ._plans import Plans
    from ._trace import Trace


class StepQuestions(Questions):
    """The questions of a Graph that is a step as traced."""

    _core: CoreGraph
    _trace: Trace | None
    _step_index: int | None
    _models: dict[int | None, CoreModel]

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
             tokens: float | None = None, measured_ms: float | None = None, batch: float | None = None) -> Plans:
        """How to train on many GPUs: what `foretrace plan` finds, or these plans as `foretrace scale --plan` predicts them.

        The step is read from its file again. layers: of the real model. global_batch: samples in a step of the job. batch: samples in
        the traced step, where the trace does not show them. tokens: when training ends. fabric and collectives as for `scale`.

        >>> step.plan(gpus=512, fabric="DGX-H100", layers=80, global_batch=1024).best
        >>> step.plan("tp=2,pp=4,dp=8", "tp=8,dp=8", fabric="DGX-H100").to_pandas()
        """
        from ._plans import ask

        if plans and (gpus is not None or tokens is not None):
            raise make_error(UsageError, "gpus and tokens are for the search: a plan has its own number of GPUs")
        step = self._traced().steps[self._step_index or 0].number
        given = {"gpus": gpus, "fabric": fabric, "collectives": collectives, "gpus-per-node": gpus_per_node, "layers": layers,
                 "global-batch": global_batch, "memory-gb": memory_gb, "gpu": gpu, "usd-per-hour": usd_per_hour, "tokens": tokens,
                 "measured-ms": measured_ms, "batch": batch, "step": step}
        options = [text for name, value in given.items() if value is not None for text in (f"--{name}", f"{value}")]
        asked = [text for plan in plans for text in ("--plan", plan)]
        return ask(["scale" if plans else "plan", self._traced().path, *asked, *options])

    def _traced(self) -> Trace:
        if self._trace is None or self._step_index is None:
            raise make_error(DeclinedError, "this graph is not a step as traced, so there is nothing to predict from",
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
