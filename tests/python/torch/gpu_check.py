#!/usr/bin/env python3
"""The recorder on a GPU: records small trainings on CUDA and checks the files and the figures. Needs PyTorch with CUDA and
nothing else, not even the compiled half of foretrace. Prints PASS and exits with 0, or what is wrong and exits with 1.

    python3 tests/python/torch/gpu_check.py [FOLDER]       FOLDER keeps the recordings
"""

import gzip
import json
import statistics
import sys
import tempfile
import time
import types
import warnings
from collections import Counter
from pathlib import Path

import torch

# The recorder without foretrace/__init__.py, which loads the compiled module.
package = types.ModuleType("foretrace")
package.__path__ = [str(Path(__file__).resolve().parents[3] / "python" / "foretrace")]
sys.modules["foretrace"] = package
from foretrace.recorder import record

failures = []


def check(ok, text):
    print(f"  {'ok  ' if ok else 'FAIL'} {text}", flush=True)
    if not ok:
        failures.append(text)


class Block(torch.nn.Module):
    def __init__(self, before, after, stride):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(after)
        self.conv2 = torch.nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.bn2 = torch.nn.BatchNorm2d(after)
        self.relu = torch.nn.ReLU()
        self.shortcut = torch.nn.Conv2d(before, after, 1, stride, bias=False)

    def forward(self, x):
        y = self.relu(self.bn1(self.conv1(x)))
        return self.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


class ResNet(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = torch.nn.Conv2d(3, 32, 3, 1, 1)
        self.blocks = torch.nn.Sequential(Block(32, 64, 2), Block(64, 128, 2), Block(128, 128, 1), Block(128, 256, 2))
        self.head = torch.nn.Linear(256, 10)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


def mlp():
    layers = []
    for _ in range(6):
        layers += [torch.nn.Linear(4096, 4096), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers)


class Case:
    """A training. wait: the step ends by reading the loss; side: it runs on a stream of its own."""

    def __init__(self, net, batch, wait, side=False):
        torch.manual_seed(0)
        self.net = net.cuda()
        self.batch = batch
        self.optimizer = torch.optim.Adam(self.net.parameters(), 1e-4)
        self.wait = wait
        self.stream = torch.cuda.Stream() if side else torch.cuda.default_stream()

    def step(self):
        with torch.cuda.stream(self.stream):
            self.optimizer.zero_grad()
            loss = self.net(self.batch).square().mean()
            loss.backward()
            self.optimizer.step()
        if self.wait:
            loss.item()

    def truth(self, steps=30):
        """ms per step, timed by hand: each where the step waits, else the whole stretch."""
        times = []
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(steps):
            t = time.perf_counter()
            self.step()
            times.append((time.perf_counter() - t) * 1e3)
        torch.cuda.synchronize()
        return statistics.median(times) if self.wait else (time.perf_counter() - begin) * 1e3 / steps

    def hooks(self):
        own = sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in self.net.modules())
        return own + len(torch.nn.modules.module._global_forward_pre_hooks)


def run(name, case, path, **options):
    print(f"{name}:", flush=True)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with record(path, **options) as r:
            for _ in range(r.steps_needed + 2):
                case.step()
                r.step()
    ours = [str(w.message) for w in said if "foretrace" in str(w.message)]
    check(not ours, f"no warning {ours or ''}")
    check(r.done and r.path.exists(), "the file is there")
    check(case.hooks() == 0, "hooks are removed")
    if not r.path.exists():
        return None, None
    document = json.loads(gzip.decompress(path.read_bytes()))
    found = document.get("foretrace")
    check(found == json.loads(json.dumps(r.figures)), "the figures in the file are those of the recorder")
    print("      " + json.dumps({k: v for k, v in found.items() if k not in ("step_ms", "host_step_ms")}))
    return document, found


def check_trace(document, found, layers, waits):
    events = [e for e in document["traceEvents"] if e.get("ph") == "X"]
    kinds = Counter(e.get("cat") for e in events)
    print("      " + ", ".join(f"{n} {k}" for k, n in kinds.most_common()))
    check(kinds["kernel"] > 100, "kernels are present")
    check(kinds["cuda_runtime"] + kinds["cuda_driver"] > 100, "runtime calls are present")
    if waits:
        check(kinds["cuda_sync"] > 0, "cuda_sync events are present")
    check(any(e.get("cat") == "cpu_op" and "Input Dims" in e.get("args", {}) for e in events), "shapes are present")
    check(any(e.get("name") == "[memory]" for e in document["traceEvents"]), "memory events are present")
    steps = [e for e in events if e["name"].startswith("ProfilerStep#") and e["cat"] == "user_annotation"]
    check(len(steps) == 3, f"3 steps: {[(e['name'], round(e['dur'] / 1e3, 3)) for e in steps]}")
    names = Counter(e["name"] for e in events if e["name"].startswith("layer:") and e["cat"] == "user_annotation")
    check(len(names) == layers and not any(n % 3 for n in names.values()), f"{layers} layers, each in 3 steps: {len(names)}")
    check(found["layer_ranges"] == layers and found["missing"] == [], "nothing is missing")
    check(document["deviceProperties"][0]["name"] == found["device"], f"device {found['device']}")
    begin, end = min(e["ts"] for e in steps), max(e["ts"] + e["dur"] for e in steps)
    launches = {e["args"].get("correlation") for e in events if e.get("cat") in ("cuda_runtime", "cuda_driver")
                and begin <= e["ts"] < end and "Launch" in e["name"]}
    kernels = {e["args"].get("correlation") for e in events if e.get("cat") == "kernel"}
    lacking = len(launches - kernels)
    check(launches and lacking <= 0.02 * len(launches), f"launches have their kernels: {lacking} of {len(launches)} do not")


def near(value, truth, share):
    return value is not None and abs(value - truth) <= share * truth


def main():
    if not torch.cuda.is_available():
        print("this check needs a GPU, and PyTorch sees none")
        return 1
    print(f"torch {torch.__version__}, CUDA {torch.version.cuda}, {torch.cuda.get_device_name()}")
    temporary = tempfile.TemporaryDirectory()
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else temporary.name)

    case = Case(ResNet(), torch.randn(64, 3, 64, 64, device="cuda"), wait=True)
    document, found = run("a step that waits for its loss, model given, execution trace", case, folder / "resnet.json.gz",
                          model=case.net, execution_trace=True)
    if found:
        check_trace(document, found, layers=sum(not list(m.children()) for m in case.net.modules()), waits=True)
        truth = case.truth()
        traced = statistics.median(found["traced_host_ms"])
        check(found["measured_by"] == "host" and not found["asynchronous"], "timed at its borders")
        check(near(found["measured_ms"], truth, 0.25), f"measured {found['measured_ms']:.3f} ms, by hand {truth:.3f} ms")
        check(found["measured_ms"] <= traced * 1.05, f"measured {found['measured_ms']:.3f} ms <= traced {traced:.3f} ms")
        check(found["peak_bytes"] and found["peak_bytes"] <= found["peak_reserved_bytes"], "the allocator's peak is known")
        check(0 < found["thread_cpu_ms_per_step"] <= found["cpu_ms_per_step"] * 1.05, "CPU time is known")
        nodes = json.loads(gzip.decompress((folder / "resnet.et.json.gz").read_bytes()))["nodes"]
        check(any(n["name"] == "aten::convolution" for n in nodes), f"execution trace of {len(nodes)} nodes")

    for name, side in (("a step that waits for nothing, model found", False), ("the same on a stream of its own", True)):
        case = Case(mlp(), torch.randn(8192, 4096, device="cuda"), wait=False, side=side)
        document, found = run(name, case, folder / f"mlp{'-side' if side else ''}.json.gz")
        if found:
            check_trace(document, found, layers=12, waits=False)
            truth = case.truth()
            check(found["asynchronous"], "seen to run ahead of the device")
            check(found["measured_by"] == ("period" if side else "cuda_events"), f"timed by {found['measured_by']}")
            check(near(found["measured_ms"], truth, 0.1), f"measured {found['measured_ms']:.3f} ms, by hand {truth:.3f} ms")
        del case
        torch.cuda.empty_cache()

    print("FAIL: " + "; ".join(failures) if failures else "PASS")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
