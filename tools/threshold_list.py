"""Thresholds in the sources: numbers that decide between two explanations (tools/thresholds.py, scripts/check_constants)."""

# By file: name, what it separates. `·` in front of a name: a share close to 1.
THRESHOLDS: dict[str, dict[str, str]] = {
    "src/graph/rules/device_lags.cpp": {
        "kLongestGap": "a device's own gap between two kernels from a wait",
        "kLongestGraphGap": "the same inside a CUDA graph",
        "kLongWait": "a wake-up by another stream from being held by something",
        "kOutlier": "distances that count for a median from those that are waits",
        "kShareSlack": "a kernel that still holds the device in a changed step from one that no longer meets it",
    },
    "src/graph/rules/held_back.cpp": {
        "kLongestGap": "what had just ended from what had ended before",
        "kLongestWake": "the same for a stream that waited long",
        "·kOneWave": "a kernel that fills the device from one that leaves room",
        "kMoreThanOne": "a kernel of one wave of blocks from one of two",
        "kEarly": "the last wave of blocks from the ones before it",
        "kNeverBefore": "the same, for kernels of two waves",
        "·kLoneWave": "the end of a kernel of one wave from its middle",
        "·kNearEnd": "a kernel that is about to end from one that runs",
    },
    "src/graph/rules/stream_waits.cpp": {"kLongestWake": "the collective a stream waited for from earlier ones"},
    "src/graph/rules/unrecorded.cpp": {"kShortest": "a gap between nodes of a graph from work that was not recorded"},
    "src/graph/trace_index.cpp": {
        "kPlausibleLag": "a queue's lag from a depth that was misread",
        "kLongCall": "a launch call from one that waited for room",
        "kMany": "a full queue from one that is not",
        "·kFewEventCalls": "launches that show a queue's depth from rows of other calls",
    },
    "src/graph/pace.cpp": {
        "kMuch": "a stream that was served all the time from one that ran dry",
        "kShort": "a step of an even pace from one in which the queue filled",
    },
    "src/graph/layers.cpp": {"·kWhole": "a range around a layer from one around the step"},
    "src/simulate/limits.cpp": {
        "kLongestGap": "a gap between two GPU tasks from a wait for something else",
        "kLong": "distances of devices and threads from those that are listed as waits",
    },
    "src/host/recorded_parts.hpp": {
        "kMinRemaining": "what a profiler can have added to a task from the task",
        "kLongestStretch": "a stretch between two events from work of the program",
        "kLongestStall": "what a profiler does at once from the program's own waiting",
    },
    "src/host/recorded_parts.cpp": {"kLongShare": "first operations of a phase from work of the program"},
    "src/host/phase_counts.cpp": {
        "kFewestCalls": "calls that reveal a speed from too few",
        "kFarApart": "a phase like those measured from another kind of work",
    },
    "src/host/unprofiled.cpp": {
        "kLongestHandOver": "another thread's wake-up from one the profiler delayed",
        "kMeasuredSpread": "a measured step from one that the prior may contradict",
    },
    "src/host/cpu_prior.cpp": {"kFarBehindMs": "a GPU that keeps up from one whose queue may be full"},
    "include/foretrace/host/measured_step.hpp": {"kVariation": "a measured step from a slip of its unit"},
    "src/whatif/predict/bands.cpp": {"kMuchFrozen": "gaps and latencies from waits nobody explains"},
    "src/whatif/model/bound.hpp": {"·kBusyGpu": "a step that the GPU bounds from one that waits for the CPU"},
    "src/whatif/predict/predictor.hpp": {"kMostFrozenShare": "steps that are predicted from those that are declined"},
    "src/memory/reserved.cpp": {"kSame": "gradients as large as the parameters from shards and other types"},
    "src/trace/importers/device_clock.cpp": {
        "kWaited": "a call that waited from one that found nothing to wait for",
        "kImprecise": "a clock that is read imprecisely from one of another domain",
        "kOneIn": "rows that went wrong from a clock that is off",
    },
    "src/trace/step_lone.cpp": {"kLate": "work that a launch started from work that waited for other work"},
    "src/trace/steps.cpp": {"·kWhole": "ranges that hold all the work from ranges that hold a part"},
    "src/trace/step_repetition.cpp": {"kSame": "steps that differ a little from other work", "kLonger": "a rest between steps from one between layers"},
    "src/trace/step_ranges.cpp": {"kIdle": "a period from a pause", "kClose": "ranges that follow each other from ranges with work between them"},
}
