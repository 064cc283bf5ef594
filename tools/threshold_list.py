"""Thresholds in the sources: numbers that decide between two explanations (tools/thresholds.py)."""

# By file: name, what it separates. `·` in front of a name: a share close to 1.
THRESHOLDS: dict[str, dict[str, str]] = {
    "src/base/notable.hpp": {
        "kNotable": "a part that counts (start-up work, odd steps, idle GPU time, rows on another clock, other all-reduces) from exceptions",
        "kDecisive": "a part on which the answer rests (a stream that ran dry, unsure start-up work, a full queue) from a smaller one",
    },
    "src/trace/device_times.hpp": {
        "kLongestGap": "a device's own gap between two tasks from a wait",
        "kLongestLatency": "latencies that count for a median from those that are waits",
        "kLongestWake": "a wake-up by another stream from being held by something",
    },
    "src/graph/rules/device_lags.cpp": {"kShareSlack": "a kernel that still holds the device in a changed step from one that no longer meets it"},
    "src/graph/rules/held_back.cpp": {"kEarly": "the last wave of blocks from the ones before it, and the end of a kernel from its middle"},
    "src/graph/startup.hpp": {"kLongestWarmCall": "a call as it is in every step from one that loads, creates or compiles something"},
    "src/host/recorded_parts.hpp": {
        "kMinRemaining": "what a profiler can have added to a task from the task",
        "kLongestStretch": "a stretch between two events from work of the program",
    },
    "src/host/recorded_parts.cpp": {
        "kLongShare": "first operations of a phase from work of the program",
        "kPythonStretch": "what recording slows behind an event from Python that no event interrupts, in a job",
    },
    "src/host/phase_counts.cpp": {
        "kFewestCalls": "calls that reveal a speed from too few",
        "kFarApart": "a phase like those measured from another kind of work",
    },
    "src/host/unprofiled.cpp": {
        "kLongestHandOver": "another thread's wake-up from one the profiler delayed",
    },
    "src/host/calibration.cpp": {"kMeasuredSpread": "a measured step from one that the prior may contradict"},
    "include/foretrace/host/measured_step.hpp": {"kVariation": "a measured step from a slip of its unit"},
    "src/whatif/predict/predictor.hpp": {
        "kMostFrozenShare": "steps that are predicted from those that are declined",
    },
    "src/analysis/summary/flops.cpp": {"kUnknownShare": "GPU work without a description that is worth a note from a remainder"},
    "src/memory/reserved.cpp": {"kSame": "gradients as large as the parameters from shards and other types"},
    "src/trace/step_ranges.hpp": {"kSame": "steps that differ a little from other work"},
    "src/trace/step_repetition.cpp": {"kLonger": "a rest between steps from one between layers"},
    "src/trace/steps.cpp": {"kLargestLayer": "a step of a solver from a layer of a network"},
    "src/trace/step_ranges.cpp": {"kIdle": "a period from a pause", "kClose": "ranges that follow each other from ranges with work between them"},
}
