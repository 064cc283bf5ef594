"""The names of foretrace for type checkers; __init__.py imports each when it is first used."""

from ._advice import (
    Advice as Advice,
    Advised as Advised,
)
from ._contract import (
    Changes as Changes,
    Effort as Effort,
    Need as Need,
    Part as Part,
    Parts as Parts,
    Stage as Stage,
)
from ._draft import (
    Draft as Draft,
)
from ._draft_memory import (
    MEMORY_KINDS as MEMORY_KINDS,
    DraftMemory as DraftMemory,
)
from ._errors import (
    DeclinedError as DeclinedError,
    Error as Error,
    ForbiddenFileError as ForbiddenFileError,
    MissingFileError as MissingFileError,
    UnreadableError as UnreadableError,
    UsageError as UsageError,
)
from ._export import (
    Exported as Exported,
)
from ._graph import (
    DEPENDENCY_KINDS as DEPENDENCY_KINDS,
    NO_ID as NO_ID,
    ORIGINS as ORIGINS,
    PHASES as PHASES,
    TASK_KINDS as TASK_KINDS,
    WHOLE as WHOLE,
    Graph as Graph,
)
from ._graph_tables import (
    Breakdown as Breakdown,
    CriticalPath as CriticalPath,
    GraphLane as GraphLane,
    GraphNotes as GraphNotes,
    Layer as Layer,
    LowerBounds as LowerBounds,
    Unprofiled as Unprofiled,
)
from ._hardware import (
    DeviceModel as DeviceModel,
    Fabric as Fabric,
    FabricLevel as FabricLevel,
    devices as devices,
    fabrics as fabrics,
)
from ._inputs import (
    export as export,
    find_traces as find_traces,
    formats as formats,
    optimize as optimize,
)
from ._optimize import (
    Optimized as Optimized,
    OptimizedPart as OptimizedPart,
)
from ._plugin import (
    load_plugin as load_plugin,
)
from ._predictions import (
    Applied as Applied,
    Prediction as Prediction,
)
from ._ranks import (
    Job as Job,
    RanksReport as RanksReport,
    load_ranks as load_ranks,
)
from ._report_rows import (
    Finding as Finding,
    KernelTime as KernelTime,
    LayerTime as LayerTime,
    OperationTime as OperationTime,
    PhaseTime as PhaseTime,
    RankTime as RankTime,
    ReplayedStep as ReplayedStep,
)
from ._reports import (
    Doctor as Doctor,
    Replay as Replay,
    Report as Report,
    Summary as Summary,
    doctor as doctor,
    replay as replay,
    summary as summary,
)
from ._scale import (
    Scaled as Scaled,
)
from ._tables import (
    Category as Category,
    Device as Device,
    Distributed as Distributed,
    Lane as Lane,
    Problem as Problem,
    Step as Step,
    StepCandidate as StepCandidate,
    Steps as Steps,
    Strings as Strings,
)
from ._timeline import (
    Timeline as Timeline,
)
from ._trace import (
    ABSENT as ABSENT,
    KINDS as KINDS,
    NO_ARGS as NO_ARGS,
    Trace as Trace,
    load as load,
    load_bytes as load_bytes,
)
from ._whatifs import (
    Parameter as Parameter,
    WhatIf as WhatIf,
    whatif as whatif,
    whatifs as whatifs,
)
from .recorder import (
    Recorder as Recorder,
    RecordingWarning as RecordingWarning,
    record as record,
    recorded as recorded,
    recorded_figures as recorded_figures,
)

__version__: str

__all__ = [
    "ABSENT",
    "Advice",
    "Advised",
    "Applied",
    "Breakdown",
    "Category",
    "Changes",
    "CriticalPath",
    "DEPENDENCY_KINDS",
    "DeclinedError",
    "Device",
    "DeviceModel",
    "Distributed",
    "Doctor",
    "Draft",
    "DraftMemory",
    "Effort",
    "Error",
    "Exported",
    "Fabric",
    "FabricLevel",
    "Finding",
    "ForbiddenFileError",
    "Graph",
    "GraphLane",
    "GraphNotes",
    "Job",
    "KINDS",
    "KernelTime",
    "Lane",
    "Layer",
    "LayerTime",
    "LowerBounds",
    "MEMORY_KINDS",
    "MissingFileError",
    "NO_ARGS",
    "NO_ID",
    "Need",
    "ORIGINS",
    "OperationTime",
    "Optimized",
    "OptimizedPart",
    "PHASES",
    "Parameter",
    "Part",
    "Parts",
    "PhaseTime",
    "Prediction",
    "Problem",
    "RankTime",
    "RanksReport",
    "Recorder",
    "RecordingWarning",
    "Replay",
    "ReplayedStep",
    "Report",
    "Scaled",
    "Stage",
    "Step",
    "StepCandidate",
    "Steps",
    "Strings",
    "Summary",
    "TASK_KINDS",
    "Timeline",
    "Trace",
    "Unprofiled",
    "UnreadableError",
    "UsageError",
    "WHOLE",
    "WhatIf",
    "__version__",
    "devices",
    "doctor",
    "export",
    "fabrics",
    "find_traces",
    "formats",
    "load",
    "load_bytes",
    "load_plugin",
    "load_ranks",
    "optimize",
    "record",
    "recorded",
    "recorded_figures",
    "replay",
    "summary",
    "whatif",
    "whatifs",
]
