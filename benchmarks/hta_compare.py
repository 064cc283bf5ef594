"""Times HolisticTraceAnalysis on one trace file, as its users call it, and prints a JSON line.

Run with a Python that has the package (pip install HolisticTraceAnalysis); benchmarks/run.py does so in a separate
process, so that nothing of it stays in ours. What is timed is parse_trace_file: the file into a data frame with its
symbols, correlations and iterations; no analysis.

    python hta_compare.py build/bench/medium.json
"""

import json
import logging
import resource
import sys
import time


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        from importlib.metadata import version

        from hta.common.trace import parse_trace_file
    except ImportError as error:
        print(f"HolisticTraceAnalysis is not installed for {sys.executable}: {error}", file=sys.stderr)
        return 1
    logging.disable(logging.WARNING)
    begin = time.perf_counter()
    _, frame, _ = parse_trace_file(sys.argv[1])
    seconds = time.perf_counter() - begin
    print(json.dumps({
        "version": version("HolisticTraceAnalysis"),
        "seconds": seconds,
        "rows": len(frame),
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }))
    return 0


if __name__ == "__main__":
    sys.exit(main())
