"""Daydream's printed method on a Kineto trace, for comparison: its tasks, its dependencies, its Algorithm 1 and its rules for mixed precision
and fused Adam (Zhu, Phanishayee, Pekhimenko, USENIX ATC 2020, sections 4 and 5).

CPU tasks are CUDA calls, each with the gap to the next call of its thread; GPU tasks are kernels and copies. Where the paper leaves something open we
take what favours it: a call that waited costs only what it took after the GPU was done, and a thread's first call keeps its measured start.

`plain` is that method on the trace as it is. In `clean`, launches that found the queue full cost what launches usually cost, and CPU time shrinks
until the unchanged replay matches the step measured without the profiler.
"""

from collections import defaultdict
from itertools import pairwise
from pathlib import Path

from truth import trace_events

LAUNCHES = ("cudaLaunch", "cuLaunch", "cudaMemcpy", "cudaMemset", "cudaGraphLaunch")
BLOCKED = 5  # a launch call this many times as long as the usual one waited for room in the queue


class Step:
    def __init__(self, path: Path, step: str):
        events = [e for e in trace_events(path) if e.get("ph") == "X"]
        window = next(e for e in events if e["name"] == step and e.get("cat") == "user_annotation")
        begin, end = window["ts"], window["ts"] + window["dur"]
        self.calls = sorted((e for e in events if e.get("cat") in ("cuda_runtime", "cuda_driver") and begin <= e["ts"] < end),
                            key=lambda e: e["ts"])
        launched = {e["args"]["correlation"]: i for i, e in enumerate(self.calls) if "correlation" in e["args"]}
        gpu = [e for e in events if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
        self.gpu = sorted((e for e in gpu if e["args"].get("correlation") in launched), key=lambda e: e["ts"])
        self.launch = [launched[e["args"]["correlation"]] for e in self.gpu]
        optimizer = [(e["ts"], e["ts"] + e["dur"]) for e in events
                     if e["name"].startswith("Optimizer.step") and e.get("cat") == "user_annotation"]
        self.in_update = [any(a <= c["ts"] < b for a, b in optimizer) for c in self.calls]
        self._lay_out(begin, end)

    def _lay_out(self, begin: float, end: float) -> None:
        threads = defaultdict(list)
        for i, c in enumerate(self.calls):
            threads[c["tid"]].append(i)
        self.next_call: list[int | None] = [None] * len(self.calls)
        self.gap = [0.0] * len(self.calls)
        self.cost = [c["dur"] for c in self.calls]
        self.start = [0.0] * len(self.calls)
        for mine in threads.values():
            self.start[mine[0]] = self.calls[mine[0]]["ts"] - begin
            for a, b in pairwise(mine):
                self.next_call[a] = b
                self.gap[a] = max(0.0, self.calls[b]["ts"] - self.calls[a]["ts"] - self.calls[a]["dur"])
        last = max(range(len(self.calls)), key=lambda i: self.calls[i]["ts"])
        self.gap[last] = max(0.0, end - self.calls[last]["ts"] - self.calls[last]["dur"])
        self.gpu_cost = [g["dur"] for g in self.gpu]
        self.waits_for: list[list[int]] = [[] for _ in self.calls]  # a synchronising call -> GPU tasks
        to_host = {at for k, at in enumerate(self.launch) if "DtoH" in self.gpu[k]["name"]}
        for i, c in enumerate(self.calls):
            if i not in to_host and c["name"] not in ("cudaDeviceSynchronize", "cudaStreamSynchronize"):
                continue
            before = [k for k, at in enumerate(self.launch) if at <= i]
            self.waits_for[i] = before
            if before:
                done = max(self.gpu[k]["ts"] + self.gpu[k]["dur"] for k in before)
                self.cost[i] = max(0.0, min(c["dur"], c["ts"] + c["dur"] - done))

    def without_full_queues(self) -> None:
        # The lower quartile: where the GPU is the bottleneck, more than half of the launches may have waited.
        lengths = sorted(c["dur"] for c in self.calls if c["name"].startswith(LAUNCHES))
        usual = lengths[len(lengths) // 4] if lengths else 0
        for i, c in enumerate(self.calls):
            if c["name"].startswith(LAUNCHES) and not self.waits_for[i] and self.cost[i] > BLOCKED * usual:
                self.cost[i] = usual

    def simulate(self, cpu: float = 1, gpu_cost=None, removed=frozenset(), removed_gpu=frozenset()) -> float:
        """Algorithm 1 in ms. Calls in order of time are a topological order: a call's kernels were launched before later waits."""
        gpu_cost = self.gpu_cost if gpu_cost is None else gpu_cost
        kernels = defaultdict(list)
        for k, at in enumerate(self.launch):
            kernels[at].append(k)
        ready = [s * cpu for s in self.start]
        stream_free: dict = defaultdict(float)
        gpu_end: dict = {}
        end = 0.0
        for i in range(len(self.calls)):
            gone = i in removed
            wait = max((gpu_end.get(k, 0.0) for k in self.waits_for[i]), default=0.0) if not gone else 0.0
            own = [k for k in kernels[i] if k not in removed_gpu]
            launch_end = max(ready[i], 0.0 if own and self.waits_for[i] else wait) + (0 if gone else self.cost[i] * cpu)
            for k in own:
                stream = self.gpu[k]["args"].get("stream")
                begin = max(stream_free[stream], launch_end + (0 if gone else self.gap[i] * cpu))
                stream_free[stream] = gpu_end[k] = begin + gpu_cost[k]
                end = max(end, gpu_end[k])
            done = max(launch_end, max((gpu_end.get(k, 0.0) for k in self.waits_for[i]), default=0.0) if not gone else 0.0)
            done += 0 if gone else self.gap[i] * cpu
            end = max(end, done)
            if (after := self.next_call[i]) is not None:
                ready[after] = max(ready[after], done)
        return end / 1e3

    def cpu_factor(self, measured_ms: float) -> float:
        """At most 1: a profiler only adds."""
        low, high = 0.05, 1.0
        for _ in range(24):
            middle = (low + high) / 2
            low, high = (low, middle) if self.simulate(middle) > measured_ms else (middle, high)
        return (low + high) / 2

    def predict(self, whatifs: list[str], cpu: float = 1) -> float | None:
        """ms under Daydream's rules, or None for a change the paper has no rule for."""
        cost = list(self.gpu_cost)
        removed, removed_gpu = set(), set()
        for use in whatifs:
            if use == "amp":
                cost = [c / (3 if "sgemm" in g["name"] or "scudnn" in g["name"] else 2) for c, g in zip(cost, self.gpu)]
            elif use == "fused-optimizer":
                calls = [i for i, inside in enumerate(self.in_update) if inside]
                mine = [k for k, at in enumerate(self.launch) if self.in_update[at]]
                if not mine:
                    return None
                # One kernel with the time of all compute-intensive ones, which is all of an update's kernels but its copies.
                keep = mine[0]
                cost[keep] = sum(cost[k] for k in mine if self.gpu[k]["cat"] == "kernel")
                removed |= set(calls) - {self.launch[keep]}
                removed_gpu |= set(mine) - {keep}
            else:
                return None
        return self.simulate(cpu, cost, removed, removed_gpu)


def predictions(trace: Path, step: str, measured_ms: float, stacks: list[list[str]]) -> list[tuple[float, float] | None]:
    """(plain, clean) ms for each stack of what-ifs; None where the paper has no rule."""
    plain = Step(trace, step)
    rules = [plain.predict(uses) for uses in stacks]
    if all(r is None for r in rules):
        return [None] * len(stacks)
    clean = Step(trace, step)
    clean.without_full_queues()
    factor = clean.cpu_factor(measured_ms)
    cleaned = [clean.predict(uses, factor) for uses in stacks]
    return [None if r is None or c is None else (r, c) for r, c in zip(rules, cleaned)]
