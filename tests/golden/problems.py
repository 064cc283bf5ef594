"""From `foretrace doctor --json` on standard input: the events per kind, what was lost, and the bad records, a line each.

For cases about reading, which should not change with every word of doctor's advice.
"""

import json
import sys

report = json.load(sys.stdin)
for trace in report["traces"]:
    kinds = ", ".join(f"{name} {count}" for name, count in sorted(trace["kinds"].items()))
    print(f"{trace['events']} events{': ' + kinds if kinds else ''}")
    lanes = trace["lanes"]
    print(f"{lanes['cpu_threads']} CPU threads, {lanes['gpu_streams']} GPU streams, {lanes['other']} other lanes")
    if trace["partial"]:
        print("read in part")
    print(f"{trace['lost_records']} lost")
    for problem in trace["problems"]:
        example = problem["example"]
        if len(example) > 110:
            example = example[:107] + "..."
        place = "" if problem["offset"] is None or problem["offset"] < 0 else f" at byte {problem['offset']}"
        print(f"{problem['name']} ({problem['severity']}) x {problem['count']}{place}: {problem['meaning']}")
        if example:
            print(f"  e.g. {json.dumps(example, ensure_ascii=False)}")
