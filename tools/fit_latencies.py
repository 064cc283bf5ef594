#!/usr/bin/env python3
"""Fixed latencies, read from traces: src/trace/latencies/<device>.csv.

    tools/fit_latencies.py [--check]

Each figure is the median over the traces of TRACES, of the median within each; `p10` and `p90` span all samples. Times are the profiler's: a launch takes
longer while it records, a gap or a kernel does not. No profile shows what JAX's host does after a step, since it delays that: it is what a step that is
waited for takes longer than one that nothing waits for, less what the host does before the first kernel.
"""

import sys
from collections import defaultdict
from itertools import pairwise
from statistics import median

import fitted
import gates
from truth import ROOT, csv_rows, json_lines, trace_events

TABLE = ROOT / "src" / "trace" / "latencies" / "H200-SXM.csv"
CLEAN = ROOT / "data" / "h200-clean"
TRACES = ("bert_base.base", "gpt2.base", "resnet50.base", "resnet18.base", "mlp.base", "llama_gqa@1.base", "bert_base-today.graph", "gpt2-today.graph",
          "resnet50.graph", "resnet50-image.graph")  # fmt: skip
# Traces whose steps end in a wait, for what that takes alone.
WAITING = ("gpt2-today.base", "gpt2@1-today.base", "llama_gqa-today.base", "lstm_lm@8.base", "nmt_3x3.base", "t5_4x4@2.base")
# Traces of a rank among several, for what collectives add.
RANKS = ROOT / "data" / "h200-ranks"
COLLECTIVE = ("resnet50.mps.ddp@5.w2.r0", "resnet50.mps.ddpfp16.w2.r0", "resnet50.mps.fsdp.w2.r0")
HANDED_US, WAITED_US = 12.0, 50.0  # a kernel that starts so soon behind a collective, so long behind its own launch, waited for it
IDLE_US = 20.0  # a stream that has had nothing to do for this long waits for the launch alone
SMS = 132
FEWEST = {"sync_return": 1, "sync_call": 1}  # of a trace: a step has one
MEANING = {
    "kernel_gap": "end of a kernel to the start of the next on its stream, launched long before",
    "launch_latency": "end of a launch call to the start of its kernel on an idle stream",
    "graph_gap": "end of a kernel to the start of the next of the same CUDA graph",
    "short_kernel": "a kernel of at most one block per SM",
    "empty_kernel": "an element-wise kernel of one block",
    "sync_return": "end of the last kernel to the return of the call that waits for it",
    "sync_call": "a call that waits for a stream and finds nothing to wait for",
    "collective_start": "return of a collective's call to its kernel on an idle stream",
    "stream_hand_over": "end of a collective to the start of the next kernel on the stream that waits for it",
    "result_ready": "JAX: end of a step's last kernel to the host having marked every array of the result as ready",
}


def read(path):
    """A trace's events, its calls by correlation, and the GPU's work by stream."""
    events = [e for e in trace_events(path) if e.get("ph") == "X"]
    calls = {e["args"]["correlation"]: e for e in events if e.get("cat") in ("cuda_runtime", "cuda_driver") and "correlation" in e.get("args", {})}
    streams = defaultdict(list)
    for e in events:
        if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"):
            streams[e["args"].get("stream")].append(e)
    return events, calls, streams


def samples_of(path):
    """{name: [us]} of one trace."""
    events, calls, streams = read(path)
    out = defaultdict(list)
    ends = []
    graphs = sum("GraphLaunch" in call["name"] for call in calls.values())
    for work in streams.values():
        work.sort(key=lambda e: e["ts"])
        before = None
        for e in work:
            call = calls.get(e["args"].get("correlation"))
            ends.append(e["ts"] + e["dur"])
            if e["cat"] == "kernel" and e["args"].get("blocks per SM", SMS) <= 1:
                out["short_kernel"].append(e["dur"])
            if e["cat"] == "kernel" and e["args"].get("grid") == [1, 1, 1] and "elementwise" in e["name"]:
                out["empty_kernel"].append(e["dur"])
            if before is not None and call is not None:
                end = before["ts"] + before["dur"]
                gap, returned = e["ts"] - end, call["ts"] + call["dur"]
                graphed = "GraphLaunch" in call["name"]
                same = graphed and before["args"].get("correlation") == e["args"].get("correlation")
                if same and gap >= 0:
                    out["graph_gap"].append(gap)
                elif graphed:
                    pass
                elif e["cat"] == before["cat"] == "kernel" and gap >= 0 and end - returned > IDLE_US:
                    out["kernel_gap"].append(gap)
                elif e["cat"] == "kernel" and "Launch" in call["name"] and call["ts"] - end > IDLE_US and e["ts"] >= returned:
                    out["launch_latency"].append(e["ts"] - returned)
            before = e
    ends.sort()
    for e in events if graphs == 0 else ():
        if e.get("cat") == "cuda_runtime" and e["name"] in ("cudaDeviceSynchronize", "cudaStreamSynchronize") and e["dur"] > IDLE_US:
            last = max((end for end in ends if e["ts"] < end <= e["ts"] + e["dur"]), default=None)
            if last is not None:
                out["sync_return"].append(e["ts"] + e["dur"] - last)
    return out


def waits():
    return [{"sync_return": samples_of(CLEAN / f"{name}.json.gz")["sync_return"]} for name in WAITING]


def idle_sync():
    """Of the micro-benchmarks, with the recorder's profiler on: p10, median and p90 of 500 calls."""
    row = next(r for r in csv_rows(CLEAN / "host.csv") if (r["name"], r["mode"]) == ("stream_synchronize_idle", "recorder"))
    return {"sync_call": [float(row[c]) for c in ("p10", "us", "p90")]}


def collectives_of(path):
    """{name: [us]} of a rank's trace: when collectives start, and when what waits for them does."""
    _, calls, streams = read(path)
    done = [(e["ts"] + e["dur"], stream) for stream, work in streams.items() for e in work if "nccl" in e["name"].lower()]
    out = defaultdict(list)
    for stream, work in streams.items():
        work.sort(key=lambda e: e["ts"])
        for before, e in pairwise(work):
            call = calls.get(e["args"].get("correlation"))
            if call is None:
                continue
            end, returned = before["ts"] + before["dur"], call["ts"] + call["dur"]
            if "nccl" in e["name"].lower() and returned - end > IDLE_US:
                out["collective_start"].append(e["ts"] - returned)
            elif e["cat"] == "kernel" and e["ts"] - returned > WAITED_US and e["ts"] - end > IDLE_US:
                last = max((t for t, where in done if t <= e["ts"] and where != stream), default=None)
                if last is not None and e["ts"] - last < HANDED_US:
                    out["stream_hand_over"].append(e["ts"] - last)
    return out


def jax_tails(program):
    """{name: [us]} of each model of JAX. Of the host's time before the first kernel the part that is left without the profiler, as of any phase."""
    folder = ROOT / "data" / "h200-jax"
    hosts = (ROOT / "src" / "host" / "hosts" / "xeon-h200.csv").read_text().splitlines()
    left = next(float(line.split(",")[1]) for line in hosts if line.startswith("left,"))
    models = defaultdict(list)
    for row in json_lines(folder / "truth.jsonl"):
        if not row.get("unblocked_ms"):
            continue
        before = gates.ask(program, "summary", str(folder / row["trace"]))["gpu_idle_by_cause_ms"].get("launch", 0.0)
        models[row["model"]].append(1e3 * (row["median_ms"] - row["unblocked_ms"] - left * before))
    return [{"result_ready": tails} for tails in models.values()]


def text_of(found):
    lines = ["# name,ns,p10,p90,samples,traces: made by tools/fit_latencies.py"]
    for name, meaning in MEANING.items():
        per = [v[name] for v in found if len(v.get(name, ())) >= FEWEST.get(name, 3)]
        pooled = sorted(x for v in per for x in v)
        if not pooled:
            continue
        figures = [median(median(v) for v in per), pooled[len(pooled) // 10], pooled[len(pooled) * 9 // 10]]
        # Two digits: traces differ by more than the third.
        lines += [f"# {meaning}", ",".join([name, *(f"{float(f'{1e3 * x:.2g}'):.0f}" for x in figures), str(len(pooled)), str(len(per))])]
    return "\n".join(lines) + "\n"


def files(options):
    text = text_of([*(samples_of(CLEAN / f"{name}.json.gz") for name in TRACES), *waits(), idle_sync(),
                    *(collectives_of(RANKS / f"{name}.json.gz") for name in COLLECTIVE), *jax_tails(options.program)])
    print(text, end="")
    return {TABLE: text}


if __name__ == "__main__":
    sys.exit(fitted.main(__doc__, files, ROOT / "build" / "foretrace"))
