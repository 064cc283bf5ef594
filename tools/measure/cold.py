"""First iterations of training steps, recorded without any warm-up, and the steady step of the same process.

    python -u -m tools.measure.cold --out DIR [--seconds 300] [--models 'mlp resnet50']

A process per model: the profiler starts before anything ran on the GPU and records one step, context creation, loading of kernels, autotuning
and the first allocations included. Then the profiler is off and the same step is timed until it is steady. DIR gets MODEL.cold.json.gz and
truth.jsonl with a line per model: the median of the steady steps and every timed step. `foretrace doctor` must call each trace cold;
`foretrace summary` must give the steady step within a quarter, or `whatif` must decline.
"""

from __future__ import annotations

import gzip
import json
import shutil
import statistics
import sys
import time
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from .host_rounds import each_model

MODELS = "mlp resnet18@8 resnet50 vgg16 bert_base@4 gpt2@1-today vit_b_16@4 llama_gqa@1 unet@4-image lstm_lm@8"
WARM, TIMED = 10, 30


def one_model(model: str, out: Path, cpu: bool) -> None:
    from .jobs import JOBS
    from .steps import Step
    from .switches import Spec
    spec = Spec(model, "base")
    job = JOBS[spec.job]
    device = "cpu" if cpu else "cuda"
    activities = [ProfilerActivity.CPU] + ([] if cpu else [ProfilerActivity.CUDA])
    with profile(activities=activities, record_shapes=True, profile_memory=True) as prof:
        step = Step(job, 2 if cpu else spec.batch, spec.switches(job.update), device, cpu)
        with torch.profiler.record_function("ProfilerStep#0"):
            step()
            step.finish()
    plain = out / f"{model}.cold.json"
    prof.export_chrome_trace(str(plain))
    with open(plain, "rb") as read, gzip.open(f"{plain}.gz", "wb") as write:
        shutil.copyfileobj(read, write)
    plain.unlink()
    times = []
    for i in range(WARM + TIMED):
        start = time.perf_counter()
        step()
        step.finish()
        if i >= WARM:
            times.append(1e3 * (time.perf_counter() - start))
    row = {"model": model, "variant": "cold", "median_ms": statistics.median(times), "step_ms": times}
    with open(out / "truth.jsonl", "a") as file:
        file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    sys.exit(each_model(__doc__, MODELS, 300, 20, one_model))
