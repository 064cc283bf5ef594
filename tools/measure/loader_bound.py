"""Training steps that wait for their data: ResNet-50 behind a loader of fixed cost per sample. What `batch` and `dataloader` are compared with.

    python -u -m tools.measure.loader_bound --out DIR [--sample-ms 4] [--steps 40]

The dataset keeps the CPU busy for `--sample-ms` per sample, whoever asks. Batch 32, 64 and 128, with 0, 2 and 8 workers. Steps are timed without a
profiler (loaders deliver in bursts: the mean counts), then three steps are recorded. loader.csv: mean, median and number of the steps.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import torch
import torchvision

from .rows import write_rows

BATCHES, WORKERS = (32, 64, 128), (0, 2, 8)
COLUMNS = ("batch", "workers", "sample_ms", "mean_ms", "median_ms", "steps")


class Busy(torch.utils.data.Dataset):
    """Samples that take the CPU a fixed time."""

    def __init__(self, sample_ms: float):
        self.sample_s, self.image = sample_ms / 1e3, torch.randn(3, 224, 224)

    def __len__(self) -> int:
        return 1 << 20

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        end = time.perf_counter() + self.sample_s
        while time.perf_counter() < end:
            pass
        return self.image, index % 1000


class Training:
    def __init__(self) -> None:
        self.model = torchvision.models.resnet50().cuda()
        self.optimizer = torch.optim.SGD(self.model.parameters(), 1e-3, momentum=0.9)

    def step(self, batches: Iterator[list[torch.Tensor]]) -> None:
        images, labels = next(batches)
        loss = torch.nn.functional.cross_entropy(self.model(images.cuda(non_blocking=True)), labels.cuda(non_blocking=True))
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        torch.cuda.synchronize()


def measure(batch: int, workers: int, sample_ms: float, steps: int, out: Path) -> dict[str, object]:
    loader = torch.utils.data.DataLoader(Busy(sample_ms), batch, num_workers=workers, pin_memory=True)
    batches, training, took = iter(loader), Training(), []
    for i in range(steps + 8):
        begin = time.perf_counter()
        training.step(batches)
        if i >= 8:
            took.append(1e3 * (time.perf_counter() - begin))
    schedule = torch.profiler.schedule(wait=0, warmup=2, active=3)
    with torch.profiler.profile(schedule=schedule, record_shapes=True, profile_memory=True) as profiler:
        for _ in range(5):
            training.step(batches)
            profiler.step()
    profiler.export_chrome_trace(str(out / f"resnet50@{batch}-workers{workers}.json.gz"))
    return dict(zip(COLUMNS, (batch, workers, sample_ms, statistics.mean(took), statistics.median(took), steps), strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sample-ms", type=float, default=4)
    parser.add_argument("--steps", type=int, default=40)
    arguments = parser.parse_args()
    write_rows(arguments.out / "loader.csv", COLUMNS, (
        measure(batch, workers, arguments.sample_ms, arguments.steps, arguments.out)
        for batch, workers in itertools.product(BATCHES, WORKERS)))


if __name__ == "__main__":
    main()
