"""The names of foretrace for type checkers; __init__.py imports each when it is first used."""
# ruff: noqa: F405  the functions of what-ifs come with a star

from ._advice import (
    Advice as Advice,
)
from ._advice import (
    Advised as Advised,
)
from ._changes import *  # noqa: F403  a function for each what-if
from ._compare import (
    Cause as Cause,
)
from ._compare import (
    ComparedPart as ComparedPart,
)
from ._compare import (
    Comparison as Comparison,
)
from ._compare import (
    JobComparison as JobComparison,
)
from ._compare import (
    compare as compare,
)
from ._contract import (
    Changes as Changes,
)
from ._contract import (
    Effort as Effort,
)
from ._contract import (
    Need as Need,
)
from ._contract import (
    Part as Part,
)
from ._contract import (
    Parts as Parts,
)
from ._contract import (
    Stage as Stage,
)
from ._draft import (
    Draft as Draft,
)
from ._draft_memory import (
    MEMORY_KINDS as MEMORY_KINDS,
)
from ._draft_memory import (
    DraftMemory as DraftMemory,
)
from ._errors import (
    DeclinedError as DeclinedError,
)
from ._errors import (
    Error as Error,
)
from ._errors import (
    ForbiddenFileError as ForbiddenFileError,
)
from ._errors import (
    MissingFileError as MissingFileError,
)
from ._errors import (
    UnreadableError as UnreadableError,
)
from ._errors import (
    UsageError as UsageError,
)
from ._export import (
    Exported as Exported,
)
from ._gpus import (
    Gpus as Gpus,
)
from ._gpus import (
    GpuTime as GpuTime,
)
from ._graph import (
    DEPENDENCY_KINDS as DEPENDENCY_KINDS,
)
from ._graph import (
    NO_ID as NO_ID,
)
from ._graph import (
    ORIGINS as ORIGINS,
)
from ._graph import (
    PHASES as PHASES,
)
from ._graph import (
    TASK_KINDS as TASK_KINDS,
)
from ._graph import (
    WHOLE as WHOLE,
)
from ._graph import (
    Graph as Graph,
)
from ._graph_tables import (
    Breakdown as Breakdown,
)
from ._graph_tables import (
    CriticalPath as CriticalPath,
)
from ._graph_tables import (
    GraphLane as GraphLane,
)
from ._graph_tables import (
    GraphNotes as GraphNotes,
)
from ._graph_tables import (
    Layer as Layer,
)
from ._graph_tables import (
    LowerBounds as LowerBounds,
)
from ._graph_tables import (
    Unprofiled as Unprofiled,
)
from ._hardware import (
    DeviceModel as DeviceModel,
)
from ._hardware import (
    Fabric as Fabric,
)
from ._hardware import (
    FabricLevel as FabricLevel,
)
from ._hardware import (
    devices as devices,
)
from ._hardware import (
    fabrics as fabrics,
)
from ._inputs import (
    export as export,
)
from ._inputs import (
    find_traces as find_traces,
)
from ._inputs import (
    formats as formats,
)
from ._inputs import (
    optimize as optimize,
)
from ._job_step import (
    JobStep as JobStep,
)
from ._network_changes import *  # noqa: F403
from ._optimize import (
    Optimized as Optimized,
)
from ._optimize import (
    OptimizedPart as OptimizedPart,
)
from ._pictures import (
    Picture as Picture,
)
from ._plans import (
    Plan as Plan,
)
from ._plans import (
    PlanAction as PlanAction,
)
from ._plans import (
    PlanRank as PlanRank,
)
from ._plans import (
    Plans as Plans,
)
from ._plugin import (
    load_plugin as load_plugin,
)
from ._predictions import (
    Applied as Applied,
)
from ._predictions import (
    PredictedRank as PredictedRank,
)
from ._predictions import (
    Prediction as Prediction,
)
from ._predictions import (
    Predictions as Predictions,
)
from ._ranks import (
    Job as Job,
)
from ._ranks import (
    RanksReport as RanksReport,
)
from ._ranks import (
    load_ranks as load_ranks,
)
from ._report_rows import (
    Finding as Finding,
)
from ._report_rows import (
    KernelTime as KernelTime,
)
from ._report_rows import (
    LayerTime as LayerTime,
)
from ._report_rows import (
    OperationTime as OperationTime,
)
from ._report_rows import (
    PhaseTime as PhaseTime,
)
from ._report_rows import (
    RankTime as RankTime,
)
from ._report_rows import (
    ReplayedStep as ReplayedStep,
)
from ._reports import (
    Doctor as Doctor,
)
from ._reports import (
    Replay as Replay,
)
from ._reports import (
    Report as Report,
)
from ._reports import (
    Summary as Summary,
)
from ._reports import (
    doctor as doctor,
)
from ._reports import (
    replay as replay,
)
from ._reports import (
    summary as summary,
)
from ._scale import (
    Scaled as Scaled,
)
from ._step import (
    Step as Step,
)
from ._tables import (
    Category as Category,
)
from ._tables import (
    Device as Device,
)
from ._tables import (
    Distributed as Distributed,
)
from ._tables import (
    Lane as Lane,
)
from ._tables import (
    Problem as Problem,
)
from ._tables import (
    StepCandidate as StepCandidate,
)
from ._tables import (
    StepRow as StepRow,
)
from ._tables import (
    Steps as Steps,
)
from ._tables import (
    Strings as Strings,
)
from ._timeline import (
    Timeline as Timeline,
)
from ._trace import (
    ABSENT as ABSENT,
)
from ._trace import (
    KINDS as KINDS,
)
from ._trace import (
    NO_ARGS as NO_ARGS,
)
from ._trace import (
    Trace as Trace,
)
from ._trace import (
    load as load,
)
from ._trace import (
    load_bytes as load_bytes,
)
from ._whatifs import (
    Parameter as Parameter,
)
from ._whatifs import (
    WhatIf as WhatIf,
)
from ._whatifs import (
    whatif as whatif,
)
from ._whatifs import (
    whatifs as whatifs,
)
from .recorder import (
    Recorder as Recorder,
)
from .recorder import (
    RecordingWarning as RecordingWarning,
)
from .recorder import (
    record as record,
)
from .recorder import (
    recorded as recorded,
)
from .recorder import (
    recorded_figures as recorded_figures,
)

__version__: str

__all__ = [
    "ABSENT",
    "DEPENDENCY_KINDS",
    "KINDS",
    "MEMORY_KINDS",
    "NO_ARGS",
    "NO_ID",
    "ORIGINS",
    "PHASES",
    "TASK_KINDS",
    "WHOLE",
    "Advice",
    "Advised",
    "Applied",
    "Breakdown",
    "Category",
    "Cause",
    "Changes",
    "ComparedPart",
    "Comparison",
    "CriticalPath",
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
    "GpuTime",
    "Gpus",
    "Graph",
    "GraphLane",
    "GraphNotes",
    "Job",
    "JobComparison",
    "JobStep",
    "KernelTime",
    "Lane",
    "Layer",
    "LayerTime",
    "LowerBounds",
    "MissingFileError",
    "Need",
    "OperationTime",
    "Optimized",
    "OptimizedPart",
    "Parameter",
    "Part",
    "Parts",
    "PhaseTime",
    "Picture",
    "Plan",
    "PlanAction",
    "PlanRank",
    "Plans",
    "PredictedRank",
    "Prediction",
    "Predictions",
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
    "StepRow",
    "Steps",
    "Strings",
    "Summary",
    "Timeline",
    "Trace",
    "Unprofiled",
    "UnreadableError",
    "UsageError",
    "WhatIf",
    "__version__",
    "compare",
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
__all__ += [
    "accumulate", "amp", "bandwidth", "batch", "batchnorm", "blueconnect", "bucket", "channels_last",
    "checkpoint", "compile", "compress_activations", "compress_gradients", "cp", "cpu", "cuda_graph",
    "dataloader", "ddp", "duration", "ep", "flash_attention", "foreach_optimizer", "fp8", "fp32", "fsdp",
    "fused_optimizer", "gpu", "half", "horovod", "layers", "network", "no_straggler", "no_sync", "offload",
    "overlap", "p3", "pipeline", "pp", "ps", "sequence", "stage_balance", "substitute", "tf32", "tp", "zero1",
    "zero2", "zero3"
]
