"""foretrace: what would my training step cost if …

>>> import foretrace
>>> trace = foretrace.load("examples/resnet50-h200.json.gz")
>>> trace.steps
>>> foretrace.doctor(trace)
>>> foretrace.summary(trace)
>>> step = trace.step()
>>> step.simulate().breakdown()
>>> step.predict("fused-optimizer", "cuda-graph")
>>> step.scale(16, fabric="25GbE")
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from . import _core
from ._advice import Advice, Advised
from ._draft import Draft
from ._errors import Error
from ._graph import DEPENDENCY_KINDS, NO_ID, ORIGINS, PHASES, TASK_KINDS, WHOLE, Graph
from ._graph_tables import Breakdown, CriticalPath, GraphLane, GraphNotes, Layer, LowerBounds, Unprofiled
from ._predictions import Applied, Parameter, Prediction, WhatIf, whatif, whatifs
from ._ranks import Job, RanksReport, load_ranks
from ._reports import Doctor, Report, Summary, doctor, summary
from ._scale import Scaled
from ._tables import Category, Device, Distributed, Lane, Problem, Step, StepCandidate, Steps, Strings
from ._timeline import Timeline
from ._trace import ABSENT, KINDS, NO_ARGS, Trace, load, load_bytes
from .recorder import Recorder, RecordingWarning, record, recorded, recorded_figures

__version__: str = _core.version

__all__ = [
    "ABSENT", "DEPENDENCY_KINDS", "KINDS", "NO_ARGS", "NO_ID", "ORIGINS", "PHASES", "TASK_KINDS", "WHOLE", "Advice",
    "Advised", "Applied",
    "Breakdown", "Category", "CriticalPath", "Device", "Distributed", "Doctor", "Draft", "Error", "Graph", "GraphLane",
    "GraphNotes", "Job", "Lane", "Layer", "LowerBounds", "Parameter", "Prediction", "Problem", "RanksReport", "Recorder",
    "RecordingWarning", "Report", "Scaled", "Step", "StepCandidate", "Steps", "Strings", "Summary", "Timeline",
    "Trace", "Unprofiled", "WhatIf", "doctor", "find_traces", "formats", "load", "load_bytes", "load_ranks", "record", "recorded", "recorded_figures", "summary", "whatif",
    "whatifs",
]


def formats() -> list[tuple[str, str, str]]:
    """What this build reads: (name, about, extensions)."""
    return _core.formats()


def find_traces(paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[str]:
    """The trace files behind paths that may be files or folders, sorted by rank where it is known."""
    many = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    return _core.find_trace_files([os.fspath(p) for p in many])
