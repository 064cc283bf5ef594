"""Traces of unusual shape, of any size: each shape once made some part of foretrace take time that grows with the square of the
input, or could. `write(NAME, n, path)` writes one with about n events.
"""

import json

STREAM, THREAD = 7, 1


def kernel(i, begin, length, stream=STREAM, name="k", **args):
    return {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": stream, "ts": begin, "dur": length,
            "args": {"stream": stream, "device": 0, "correlation": i, **args}}


def launch(i, begin, length=1, thread=THREAD, name="cudaLaunchKernel"):
    return {"ph": "X", "cat": "cuda_runtime", "name": name, "pid": 1, "tid": thread, "ts": begin, "dur": length,
            "args": {"correlation": i}}


def op(begin, length, name="aten::mul", thread=THREAD, category="cpu_op", **args):
    return {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": thread, "ts": begin, "dur": length, "args": args}


def step(number, begin, length):
    return op(begin, length, f"ProfilerStep#{number}", category="user_annotation")


def arrow(phase, i, at, lane=(1, THREAD)):
    return {"ph": phase, "id": i, "pid": lane[0], "tid": lane[1], "ts": at, "cat": "ac2g", "name": "ac2g", "bp": "e"}


def launched(n, stream=lambda i: STREAM, thread=lambda i: THREAD, length=lambda i: 5, name=lambda i: "k",
             begin=lambda i: i * 10):
    """n operations, each with its call and its kernel."""
    out = [step(1, 0, n * 10 + 1000)]
    for i in range(n):
        at = i * 10 + 1
        out += [op(at, 8, thread=thread(i)), launch(i + 1, at + 1, 3, thread(i)),
                kernel(i + 1, begin(i) + 20, length(i), stream(i), name(i))]
    return out


def overlap(n):
    return [kernel(i, i / 1000, 100000) for i in range(n)]


def overlap_launched(n):
    return launched(n, length=lambda i: n * 10)


def overlap_streams(n):
    return launched(n, stream=lambda i: i, length=lambda i: n * 10)


def overlap_some_streams(n):
    return launched(n, stream=lambda i: i % 64, length=lambda i: n * 10, begin=lambda i: i * 11)


def streams(n):
    return launched(n, stream=lambda i: i)


def held_streams(n):
    """Every kernel starts long after its launch, so that something else is looked for that held it."""
    return launched(n, stream=lambda i: i % 1000, length=lambda i: n * 5, begin=lambda i: n * 10 + i * 3)


def ends_together(n):
    """All kernels end within one microsecond, each on one of a thousand streams."""
    return launched(n, stream=lambda i: i % 1000, length=lambda i: (n - i) * 10 + 5, begin=lambda i: i * 10)


def threads(n):
    return launched(n, thread=lambda i: i)


def deep(n):
    """Ranges nested in one another, a kernel in the innermost."""
    out = [step(1, 0, 4 * n + 100)]
    out += [op(i + 1, 4 * n - 2 * i, f"range {i % 7}") for i in range(n)]
    return out + [launch(1, n + 2, 3), kernel(1, n + 20, 5)]


def deep_launched(n):
    """As `deep`, and every level launches a kernel."""
    out = [step(1, 0, 10 * n + 100)]
    for i in range(n // 2):
        out += [op(i * 4 + 1, 10 * n - 8 * i, "aten::mul"), launch(i + 1, i * 4 + 2, 1),
                kernel(i + 1, i * 4 + 8, 2)]
    return out


def deep_frames(n):
    """Python frames nested in one another as the profiler writes them with with_stack."""
    out = [step(1, 0, 4 * n + 100)]
    for i in range(n):
        frame = op(i + 1, 4 * n - 2 * i, f"a.py({i % 97}): f", category="python_function")
        frame["args"] = {"Python id": i + 1, "Python parent id": i or None, "Python module id": 0}
        out.append(frame)
    return out + [launch(1, n + 2, 3), kernel(1, n + 20, 5)]


def frames(n):
    """Many short frames, one after the other."""
    out = launched(max(1, n // 30))
    for i in range(n):
        out.append(op(i * 10 / 30 + 1, 0.2, f"nn.Module: Linear_{i % 50}", category="python_function",
                      **{"Python id": i + 1, "Python parent id": 0}))
    return out


def same_time(n):
    return [step(1, 0, 1000)] + [e for i in range(n // 3) for e in
                                 (op(1, 0), launch(i + 1, 1, 0), kernel(i + 1, 5, 0))]


def same_time_long(n):
    return [step(1, 0, 1000)] + [e for i in range(n // 3) for e in
                                 (op(1, 9), launch(i + 1, 1, 9), kernel(i + 1, 5, 50))]


def steps(n):
    out = []
    for i in range(n // 4):
        out += [step(i, i * 100, 100), op(i * 100 + 1, 9), launch(i + 1, i * 100 + 2, 3), kernel(i + 1, i * 100 + 8, 50)]
    return out


def unmarked_steps(n):
    """No marks: the names repeat with a period of 50."""
    return [e for e in launched(n, name=lambda i: f"k{i % 50}") if "Profiler" not in e["name"]]


def repeats_a_little(n):
    """No marks, two names in an order that never repeats."""
    return [e for e in launched(n, name=lambda i: f"k{bin(i).count('1') % 2}") if "Profiler" not in e["name"]]


def nested_steps(n):
    """Ranges called like steps, each within the one before."""
    return [step(i, i, 2 * n - 2 * i + 50) for i in range(n)] + [launch(1, n + 2, 3), kernel(1, n + 10, 5)]


def arrows(n):
    out = launched(n // 5)
    for i in range(n // 5):
        out += [arrow("s", i + 1, i * 10 + 2), arrow("f", i + 1, i * 10 + 20, (0, STREAM))]
    return out


def arrows_of_one_id(n):
    out = launched(n // 8)
    for i in range(n // 4):
        out += [arrow("s", 1, i * 5 + 2), arrow("f", 1, i * 5 + 20, (0, STREAM))]
    return out


def arrows_backward(n):
    """Arrows from forward operations to backward operations on another thread."""
    out = launched(n // 4, thread=lambda i: THREAD + (i > n // 8))
    for i in range(n // 8):
        pair = [arrow("s", i + 1, i * 10 + 1), arrow("f", i + 1, (n // 4 - 1 - i) * 10 + 1, (1, THREAD + 1))]
        for one in pair:
            one["cat"] = one["name"] = "fwdbwd"
        out += pair
    return out


def names(n):
    return launched(n, name=lambda i: f"void kernel_{i}<float, {i}>(float*, int)")


def arguments(n):
    """No two events have equal arguments."""
    out = launched(n)
    for i, e in enumerate(out):
        e["args"]["Input Dims"] = [[i, i + 1], [i]]
        e["args"]["grid"] = [i + 1, 1, 1]
    return out


def one_call(n):
    """One call that starts all kernels, as a CUDA graph's."""
    return [step(1, 0, n * 3), launch(1, 1, 5, name="cudaGraphLaunch")] + [kernel(1, 10 + i * 2, 1) for i in range(n)]


def one_call_streams(n):
    return [step(1, 0, n * 3), launch(1, 1, 5, name="cudaGraphLaunch")] + [
        kernel(1, 10 + i * 2, 9, stream=i % 50) for i in range(n)]


def syncs(n):
    out = [step(1, 0, n * 10 + 1000)]
    for i in range(n // 4):
        at = i * 30 + 1
        out += [launch(3 * i + 1, at, 2), kernel(3 * i + 1, at + 5, 9, i % 16),
                launch(3 * i + 2, at + 3, 15, name="cudaDeviceSynchronize"),
                op(at, 25, "aten::item")]
    return out


def late_sync(n):
    """All is launched first, then as many calls wait for the device."""
    out = [step(1, 0, n * 40 + 1000)]
    for i in range(n // 3):
        out += [launch(i + 1, i * 3 + 1, 2), kernel(i + 1, i * 30 + 10, 25, i % 16)]
    for i in range(n // 3):
        out.append(launch(n + i, n + i * 30 + 5, 20, name="cudaStreamSynchronize"))
    return out


def stream_waits(n):
    out = [step(1, 0, n * 10 + 1000)]
    for i in range(n // 5):
        at = i * 20 + 1
        out += [launch(4 * i + 1, at, 2), kernel(4 * i + 1, at + 5, 9, i % 8),
                launch(4 * i + 2, at + 3, 1, name="cudaEventRecord"),
                launch(4 * i + 3, at + 5, 1, name="cudaStreamWaitEvent"),
                {"ph": "X", "cat": "cuda_sync", "name": "Stream Wait Event", "pid": 0, "tid": i % 7, "ts": at + 6, "dur": 1,
                 "args": {"stream": i % 7, "device": 0, "correlation": 4 * i + 3, "wait_on_stream": i % 8,
                          "wait_on_cuda_event_record_corr_id": 4 * i + 2, "wait_on_cuda_event_id": i}}]
    return out


def waits_without_records(n):
    """Calls that record an event and calls that wait for one, without the words that join them."""
    out = [step(1, 0, n * 10 + 1000)]
    for i in range(n // 4):
        at = i * 20 + 1
        out += [launch(4 * i + 1, at, 2), kernel(4 * i + 1, at + 5, 19, i % 4),
                launch(4 * i + 2, at + 3, 1, name="cudaEventRecord"),
                launch(4 * i + 3, at + 5, 1, name="cudaStreamWaitEvent")]
    return out


def memory(n):
    out = launched(n // 6)
    for i in range(n // 2):
        out.append({"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": THREAD, "ts": i * 3 + 2, "s": "t",
                    "args": {"Total Reserved": 1 << 30, "Total Allocated": (i + 1) * 512, "Bytes": 512 if i % 3 else -512,
                             "Addr": 4096 + i // 3 * 512, "Device Id": 0, "Device Type": 1, "Ev Idx": i}})
    return out


def held_memory(n):
    """Every tensor is allocated before any is freed."""
    out = launched(n // 6)
    for i in range(n // 2):
        free = i >= n // 4
        address = 4096 + (n // 2 - 1 - i if free else i) * 512
        out.append({"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": THREAD, "ts": i * 3 + 2, "s": "t",
                    "args": {"Total Allocated": 1 << 30, "Bytes": -512 if free else 512, "Addr": address, "Device Id": 0,
                             "Device Type": 1, "Ev Idx": i}})
    return out


def collectives(n):
    return launched(n, stream=lambda i: i % 2, name=lambda i: "ncclDevKernel_AllReduce_Sum_f32_RING_LL" if i % 2 else "k",
                    length=lambda i: 30 if i % 2 else 5)


def copies(n):
    out = launched(n)
    for e in out:
        if e["cat"] == "kernel":
            e.update(cat="gpu_memcpy", name="Memcpy HtoD (Pageable -> Device)")
            e["args"]["bytes"] = 4096
        elif e["cat"] == "cuda_runtime":
            e["name"] = "cudaMemcpyAsync"
    return out


def begin_only(n):
    """Ranges that begin and never end."""
    return launched(n // 6) + [{"ph": "B", "cat": "cpu_op", "name": "open", "pid": 1, "tid": THREAD, "ts": i} for i in range(n // 2)]


def begin_end_deep(n):
    out = launched(n // 6)
    out += [{"ph": "B", "cat": "cpu_op", "name": f"r{i % 9}", "pid": 1, "tid": 5, "ts": i} for i in range(n // 4)]
    out += [{"ph": "E", "pid": 1, "tid": 5, "ts": n + i} for i in range(n // 4)]
    return out


def lanes(n):
    """The name of a process and of a thread for every event."""
    return launched(n // 6) + [{"ph": "M", "name": "process_name", "pid": i + 10, "tid": 0, "args": {"name": f"p{i}"}}
                               for i in range(n // 2)]


def backwards(n):
    """Events in the reverse order of their times."""
    return launched(n)[::-1]


def layers(n):
    """A module for every operation, and gradients."""
    out = launched(n // 4)
    for i in range(n // 4):
        out.append(op(i * 10 + 1, 9, f"nn.Module: Layer{i}_0", category="python_function",
                      **{"Python id": i + 1, "Python parent id": 0}))
        out[1 + 3 * i].update(name="aten::mm")
        out[1 + 3 * i]["args"] = {"Input Dims": [[64, 64], [64, 64]], "Input type": ["float", "float"], "Sequence number": i,
                                  "External id": i + 1}
    return out


def optimizer(n):
    """Operations of a training step: products forward, their gradients, an update for each parameter."""
    out = [step(1, 0, n * 10 + 1000)]
    third = n // 9
    for i in range(3 * third):
        at = i * 10 + 1
        name = ("aten::mm", "autograd::engine::evaluate_function: MmBackward0", "aten::add_")[i // third]
        out += [op(at, 8, name, **{"Input Dims": [[64, 64], [64, 64]], "Input type": ["float", "float"],
                                   "Sequence number": i % third, "External id": i + 1}),
                launch(i + 1, at + 1, 3),
                kernel(i + 1, at + 10, 5, name="elementwise_kernel" if i // third == 2 else "sgemm_64x64")]
    out.append(op(2 * third * 10 + 1, third * 10, "Optimizer.step#SGD.step", category="user_annotation"))
    return out


def streams_and_syncs(n):
    """Many streams, and as many calls that wait for all of them."""
    out = [step(1, 0, n * 20 + 1000)]
    for i in range(n // 4):
        out += [launch(i + 1, i * 3 + 1, 2), kernel(i + 1, i * 3 + 5, 9, i)]
    for i in range(n // 4):
        out.append(launch(n + i, n + i * 10 + 50, 5, name="cudaDeviceSynchronize"))
    return out


def streams_and_waits(n):
    """Many streams, and calls that make one wait without saying for which."""
    out = [step(1, 0, n * 20 + 1000)]
    for i in range(n // 4):
        at = i * 10
        out += [launch(3 * i + 1, at + 1, 2), kernel(3 * i + 1, at + 5, 3, i), launch(3 * i + 2, at + 4, 1, name="cudaEventRecord"),
                launch(3 * i + 3, at + 6, 1, name="cudaStreamWaitEvent")]
    return out


def steps_and_names(n):
    """Many steps, each with kernels of its own names."""
    out = []
    for i in range(n // 4):
        out += [step(i, i * 100, 100), op(i * 100 + 1, 9, f"aten::op{i}"), launch(i + 1, i * 100 + 2, 3),
                kernel(i + 1, i * 100 + 8, 50, name=f"kernel_{i}")]
    return out


def steps_and_threads(n):
    """Many steps, each with a thread of its own."""
    out = []
    for i in range(n // 4):
        out += [step(i, i * 100, 100), op(i * 100 + 1, 9, thread=i + 10), launch(i + 1, i * 100 + 2, 3, thread=i + 10),
                kernel(i + 1, i * 100 + 8, 50)]
    return out


def overhead(n):
    """Rows of the profiler's own work, each over all steps."""
    return steps(n // 2) + [{"ph": "X", "cat": "overhead", "name": "Resource", "pid": -1, "tid": 0, "ts": i, "dur": n * 20}
                            for i in range(n // 2)]


def full_queue(n):
    """Rows of a full launch queue, one of them as long as the trace."""
    rows = [{"ph": "X", "cat": "overhead", "name": "Command Buffer Full", "pid": -1, "tid": 0, "ts": i * 10 + 2, "dur": 1}
            for i in range(n // 4)]
    return launched(n // 4) + [{**rows[0], "dur": n * 3}] + rows


def unlaunched(n):
    """One launch, and kernels behind it on its stream whose calls are missing, long after one another."""
    return [step(1, 0, n * 100 + 1000), op(1, 50 * n), launch(1, 5, 3)] + [kernel(i + 1, i * 60 + 20, 5) for i in range(n)] + [
        launch(n + 1, 60 * n, 3), kernel(n + 1, 60 * n + 30, 5)]


def same_correlation(n):
    """Calls and kernels that all bear one correlation id."""
    out = launched(n)
    for e in out:
        if e["cat"] != "cpu_op" and "correlation" in e["args"]:
            e["args"]["correlation"] = 1
    return out


def optimizer_ranges(n):
    """Steps marked by ranges of a trainer, each with its update."""
    out = []
    for i in range(n // 12):
        at = i * 200
        out += [op(at, 199, f"step {i}", category="user_annotation"), op(at + 150, 9, "Optimizer.step#SGD.step", category="user_annotation")]
        for k in range(5):
            out += [launch(i * 5 + k + 1, at + k * 9 + 1, 3), kernel(i * 5 + k + 1, at + k * 9 + 20, 5)]
    return out


SHAPES = {f.__name__: f for f in (
    overlap, overlap_launched, overlap_streams, overlap_some_streams, streams, held_streams, ends_together, threads, deep,
    deep_launched, deep_frames, frames, same_time, same_time_long, steps, unmarked_steps, repeats_a_little, nested_steps, arrows,
    arrows_of_one_id, arrows_backward, names, arguments, one_call, one_call_streams, syncs, late_sync, stream_waits,
    waits_without_records, memory, held_memory, collectives, copies, begin_only, begin_end_deep, lanes, backwards, layers, optimizer,
    streams_and_syncs, streams_and_waits, steps_and_names, steps_and_threads, overhead, full_queue, unlaunched, same_correlation,
    optimizer_ranges)}


def write(name, n, path):
    with open(path, "w", encoding="utf-8") as out:
        json.dump({"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H200", "totalGlobalMem": 150754820096,
                                                             "computeMajor": 9, "computeMinor": 0, "numSms": 132}],
                   "traceEvents": SHAPES[name](n)}, out)
