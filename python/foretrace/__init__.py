"""foretrace: what would my training step cost if …

>>> import foretrace
>>> trace = foretrace.load("examples/resnet50-h200.json.gz")
>>> trace.steps
>>> foretrace.doctor(trace)
>>> foretrace.summary(trace)
>>> step = trace.step()
>>> step.simulate().breakdown()
>>> step.predict("fused-optimizer", "cuda-graph")
>>> step.predict(foretrace.amp(dtype="bf16"), foretrace.fused_optimizer())
>>> step.scale(16, fabric="25GbE")
>>> step.optimize(memory_gb=12)
"""

# Nothing is imported before it is used: the command line needs the compiled half alone, and the recorder must not make a
# training job pay for the rest. __init__.pyi shows type checkers the same names.

_HOMES = {
    "_advice": "Advice Advised",
    "_changes": ("accumulate amp bandwidth batch batchnorm channels_last checkpoint compile "
                 "compress_activations cpu cuda_graph dataloader duration flash_attention foreach_optimizer "
                 "fp32 fp8 fused_optimizer gpu half layers no_straggler no_sync offload overlap pipeline "
                 "sequence stage_balance substitute tf32"),
    "_compare": "Cause ComparedPart Comparison JobComparison compare",
    "_contract": "Changes Effort Need Part Parts Stage",
    "_draft": "Draft",
    "_draft_memory": "MEMORY_KINDS DraftMemory",
    "_errors": "DeclinedError Error ForbiddenFileError MissingFileError UnreadableError UsageError",
    "_export": "Exported",
    "_gpus": "GpuTime Gpus",
    "_graph": "DEPENDENCY_KINDS NO_ID ORIGINS PHASES TASK_KINDS WHOLE Graph",
    "_graph_tables": "Breakdown CriticalPath GraphLane GraphNotes Layer LowerBounds Unprofiled",
    "_hardware": "DeviceModel Fabric FabricLevel devices fabrics",
    "_inputs": "export find_traces formats optimize",
    "_job_step": "JobStep",
    "_network_changes": ("blueconnect bucket compress_gradients cp ddp ep fsdp horovod network p3 pp ps tp zero1 "
                         "zero2 zero3"),
    "_optimize": "Optimized OptimizedPart",
    "_pictures": "Picture",
    "_plans": "Plan PlanAction PlanRank Plans",
    "_plugin": "load_plugin",
    "_predictions": "Applied PredictedRank Prediction Predictions",
    "_ranks": "Job RanksReport load_ranks",
    "_report_rows": "Finding KernelTime LayerTime OperationTime PhaseTime RankTime ReplayedStep",
    "_reports": "Doctor Replay Report Summary doctor replay summary",
    "_scale": "Scaled",
    "_step": "Step",
    "_tables": "Category Device Distributed Lane Problem StepCandidate StepRow Steps Strings",
    "_timeline": "Timeline",
    "_trace": "ABSENT KINDS NO_ARGS Trace load load_bytes",
    "_whatifs": "Parameter WhatIf whatif whatifs",
    "recorder": "Recorder RecordingWarning record recorded recorded_figures",
}
_MODULES = {name: module for module, names in _HOMES.items() for name in names.split()}

__all__ = ["__version__"]
__all__.extend(_MODULES)


def __getattr__(name: str) -> object:
    import importlib

    if name == "__version__":
        value: object = importlib.import_module("._core", __name__).version
    elif name in _MODULES:
        value = getattr(importlib.import_module("." + _MODULES[name], __name__), name)
    elif name == "recorder":
        return importlib.import_module(".recorder", __name__)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
