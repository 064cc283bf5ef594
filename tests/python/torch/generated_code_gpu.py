#!/usr/bin/env python3
"""What --code-out writes, run on a GPU: every plan is timed, CUDA graphs are compared with the step they record. Needs PyTorch
with CUDA and files written before; several GPUs are used where there are some. Prints PASS and exits with 0, or what is wrong
and exits with 1.

    tests/code/plans.py --program build/foretrace FOLDER
    python3 tests/python/torch/generated_code_gpu.py FOLDER [--only NAME…]
"""

import argparse
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import torch

failures = []


def check(ok, text):
    print(f"  {'ok  ' if ok else 'FAIL'} {text}", flush=True)
    if not ok:
        failures.append(text)


def loaded(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def timed(path):
    done = subprocess.run([sys.executable, str(path), "--time"], capture_output=True, text=True, timeout=400)
    lines = done.stdout.splitlines()
    check(done.returncode == 0 and len(lines) == 2, f"{path.stem}: {' | '.join(lines) or done.stderr[-1500:]}")


def on_all_gpus(path):
    count = torch.cuda.device_count()
    if count < 2 or json.loads(path.with_suffix(".json").read_text()).get("communication") is None:
        return
    command = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={count}", str(path), "--time"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400)
    check(done.returncode == 0, f"{path.stem} on {count} GPUs: {done.stdout.strip()} {done.stderr[-1500:] if done.returncode else ''}")


def compare_graph(path):
    """The recorded step trains as the step itself does, also when the learning rate and the last batch change."""
    plan = loaded(path)
    ends = []
    for recorded in (True, False):
        model, loss_fn, inputs, targets = plan.small_job()
        model = plan.prepare(model.cuda())
        batches = [(inputs.cuda() * (1 + i / 10), targets.cuda()) for i in range(12)] + [(inputs[:4].cuda(), targets[:4].cuda())]
        for cls in (torch.optim.Adam, torch.optim.SGD):
            optimizer = plan.make_optimizer(cls, model.parameters(), lr=1e-3)
            schedule = torch.optim.lr_scheduler.StepLR(optimizer, 6, 0.5)
            step = plan.make_step(model, optimizer, loss_fn)
            losses = []
            for batch in batches:
                if recorded:
                    losses.append(float(step(*batch)))
                else:
                    losses.append(float(plan.train_step(model, optimizer, loss_fn, *batch, step.scaler)))
                schedule.step()
            if recorded:
                check(step.graph is not None, f"{path.stem}: {cls.__name__} was recorded")
            ends.append(losses)
    half = len(ends) // 2
    for name, a, b in zip(("Adam", "SGD"), ends[:half], ends[half:]):
        worst = max(abs(x - y) / max(1e-6, abs(y)) for x, y in zip(a, b))
        check(worst < 0.02, f"{path.stem}: {name}, recorded against the plain step, losses differ by {worst:.1e} at most")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="*", default=[])
    asked = parser.parse_args()
    if not torch.cuda.is_available():
        print("no GPU")
        return 1
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}")
    for path in sorted(asked.folder.glob("*.py")):
        if asked.only and path.stem not in asked.only:
            continue
        timed(path)
        on_all_gpus(path)
        if path.stem.startswith("cuda_graph"):
            compare_graph(path)
    print("PASS" if not failures else f"{len(failures)} failed:\n" + "\n".join(failures))
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
