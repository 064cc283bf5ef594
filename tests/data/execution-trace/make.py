"""Makes tiny.json.gz and tiny.et.json.gz: a training step of a small network, recorded on a CPU with its execution trace.

    python tests/data/execution-trace/make.py        (needs PyTorch and foretrace)

Operations, shapes and tensors are PyTorch's. There is no GPU in it, so each operation that computes gets a launch and a kernel of a
made-up length: what the tests ask is which tensor goes where, not how long anything takes.
"""

import gzip
import json
import warnings
from pathlib import Path

import foretrace
import torch

HERE = Path(__file__).parent
VIEWS = ("aten::view", "aten::t", "aten::transpose", "aten::as_strided", "aten::expand", "aten::empty", "aten::resize_", "aten::detach",
         "detach", "aten::select", "aten::slice", "aten::unbind", "aten::_unsafe_view", "aten::_reshape_alias", "aten::permute",
         "aten::squeeze", "aten::unsqueeze", "aten::split", "aten::narrow", "aten::alias", "aten::result_type", "aten::item",
         "aten::_local_scalar_dense", "aten::is_nonzero", "aten::set_", "aten::lift_fresh", "aten::is_pinned", "aten::numpy_T")


class Block(torch.nn.Module):
    """Many tensors of one shape at once: three projections of one input, two branches, a residual around both."""

    def __init__(self, width):
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.query, self.key, self.value, self.gate, self.out = (torch.nn.Linear(width, width) for _ in range(5))

    def forward(self, x):
        h = self.norm(x)
        q, k, v, g = self.query(h), self.key(h), self.value(h), self.gate(x)
        mixed = torch.softmax(q @ k.transpose(-1, -2), -1) @ v
        return x + self.out(mixed * torch.sigmoid(g)) + g


def main():
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(Block(32), Block(32), torch.nn.Linear(32, 8))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    with foretrace.record(HERE / "tiny.json.gz", steps=1, measure=0, warmup=1, layers=False, execution_trace=True) as recorder:
        while not recorder.done:
            optimizer.zero_grad()
            model(torch.randn(4, 8, 32)).square().mean().backward()
            optimizer.step()
            recorder.step()
    with gzip.open(HERE / "tiny.json.gz") as file:
        trace = json.load(file)
    operations = [e for e in trace["traceEvents"] if e.get("cat") == "cpu_op"]
    free, number = 0.0, 10**6
    for op in sorted(operations, key=lambda e: e["ts"]):
        inside = any(o is not op and o["tid"] == op["tid"] and op["ts"] <= o["ts"] and o["ts"] + o["dur"] <= op["ts"] + op["dur"]
                     for o in operations)
        if inside or op["name"].startswith(VIEWS) or not op["name"].startswith("aten::"):
            continue
        number += 1
        at = op["ts"] + 0.5 * op["dur"]
        free = max(free, at + 2.0)
        trace["traceEvents"] += [
            {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": op["pid"], "tid": op["tid"], "ts": at,
             "dur": 0.25 * op["dur"], "args": {"External id": op["args"]["External id"], "correlation": number}},
            {"ph": "X", "cat": "kernel", "name": op["name"].removeprefix("aten::") + "_kernel", "pid": 0, "tid": 7, "ts": free, "dur": 1.0,
             "args": {"External id": op["args"]["External id"], "correlation": number, "device": 0, "context": 1, "stream": 7,
                      "grid": [1, 1, 1], "block": [128, 1, 1], "registers per thread": 32, "shared memory": 0}}]
        free += 1.5
    trace["deviceProperties"] = [{"id": 0, "name": "NVIDIA H200", "totalGlobalMem": 150109880320, "computeMajor": 9, "computeMinor": 0,
                                  "numSms": 132, "warpSize": 32}]
    trace["foretrace"].update(host_cpu=None)
    with open(HERE / "tiny.json.gz", "wb") as raw, gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as file:
        file.write(json.dumps(trace).encode())


if __name__ == "__main__":
    main()
