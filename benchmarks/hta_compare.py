"""Times HolisticTraceAnalysis on one trace file, as its users call it, and prints a JSON line.

Run with a Python that has the package (pip install HolisticTraceAnalysis); benchmarks/run.py does so in a separate
process, so that nothing of it stays in ours. What is timed is parse_trace_file: the file into a data frame with its
symbols, correlations and iterations; no analysis. With --critical-path it is the critical path of the first whole step
of the loaded trace (critical_path_analysis: its graph, then the longest path), loading not counted.

    python hta_compare.py build/bench/small.json
    python hta_compare.py --critical-path examples/resnet50-h200.json.gz
"""

import json
import logging
import resource
import sys
import time


def parse(path: str) -> dict:
    from hta.common.trace import parse_trace_file

    begin = time.perf_counter()
    _, frame, _ = parse_trace_file(path)
    return {"seconds": time.perf_counter() - begin, "rows": len(frame)}


def critical_path(path: str) -> dict:
    from hta.trace_analysis import TraceAnalysis

    analysis = TraceAnalysis(trace_files={0: path})
    begin = time.perf_counter()
    graph, fine = analysis.critical_path_analysis(rank=0, annotation="ProfilerStep", instance_id=0)
    seconds = time.perf_counter() - begin
    if not fine:
        raise RuntimeError("critical_path_analysis reports that it failed")
    return {"seconds": seconds, "nodes": graph.number_of_nodes(), "edges": graph.number_of_edges()}


def main() -> int:
    arguments = sys.argv[1:]
    work = critical_path if arguments[:1] == ["--critical-path"] else parse
    if len(arguments) != (2 if work is critical_path else 1):
        print(__doc__, file=sys.stderr)
        return 2
    try:
        from importlib.metadata import version

        import hta  # noqa: F401
    except ImportError as error:
        print(f"HolisticTraceAnalysis is not installed for {sys.executable}: {error}", file=sys.stderr)
        return 1
    logging.disable(logging.WARNING)
    result = work(arguments[-1])
    print(json.dumps({
        "version": version("HolisticTraceAnalysis"),
        **result,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }))
    return 0


if __name__ == "__main__":
    sys.exit(main())
