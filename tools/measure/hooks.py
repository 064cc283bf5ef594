"""What hooks of Python cost the CPU; all but batches on a machine without a GPU. The thread's own time, so that a busy machine does no
harm; the time of a view measured with it says how fast the machine is.

units.csv: what fully sharded training adds for each unit: a step of small blocks plain, under `fully_shard` and under
FullyShardedDataParallel, with a process group that transfers nothing. Only ratios between the kinds are of use: no stream, event or
launch of a GPU is in them.
batches.csv: taking a batch that is ready from a data loader's worker processes, or (`pinned`, which needs a GPU) from the thread that pins
what they hand over; `next_us` is the thread's own time, `wall_us` the clock's.
functions.csv: a call of an autograd function that is given so many parameters and hands on a tensor made before, as a module
that is played from a CUDA graph is one (torch.cuda.make_graphed_callables).

    python -m tools.measure.hooks -o data/cpu-hooks
    python -m tools.measure.hooks -o data/h200-hooks --batches    only those, on a machine with a GPU
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter, sleep, thread_time

import torch
import torch.distributed as dist
from torch import nn

BLOCKS = 12
LAYERS = (1, 3, 6, 12)  # of a block, two tensors each
STEPS, WARM, ROUNDS = 30, 4, 4
WIDTH, ROWS, WORLD = 16, 8, 8
BATCHES = 30


class Block(nn.Module):
    def __init__(self, layers: int):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def made(kind: str, layers: int) -> nn.Module:
    blocks = nn.Sequential(*[Block(layers) for _ in range(BLOCKS)])
    if kind == "fully_shard":
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard
        mesh = init_device_mesh("cpu", (WORLD,))
        for block in blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(blocks, mesh=mesh)
    elif kind == "flat":
        from torch.distributed.fsdp import FullyShardedDataParallel
        here = torch.device("cpu")
        for i in range(BLOCKS):
            blocks[i] = FullyShardedDataParallel(blocks[i], use_orig_params=True, device_id=here)
        return FullyShardedDataParallel(blocks, use_orig_params=True, device_id=here)
    return blocks


def timed(model: nn.Module) -> tuple[float, float]:
    """µs of forward and backward: the lower quartile of a few steps."""
    x = torch.randn(ROWS, WIDTH)
    passes: list[tuple[float, float]] = []
    for _ in range(STEPS):
        model.zero_grad(set_to_none=True)
        begin = thread_time()
        y = model(x).sum()
        middle = thread_time()
        y.backward()
        passes.append((middle - begin, thread_time() - middle))
    forward, backward = (sorted(p)[(STEPS - WARM) // 4] * 1e6 for p in zip(*passes[WARM:]))
    return forward, backward


class Played(torch.autograd.Function):
    kept = torch.zeros(4)

    @staticmethod
    def forward(_ctx: object, *_inputs: torch.Tensor) -> torch.Tensor:
        return Played.kept.detach()

    @staticmethod
    def backward(_ctx: object, *_gradients: torch.Tensor) -> tuple[torch.Tensor, ...]:
        raise NotImplementedError


def repeated(call: Callable[[], object], times: int = 100, rounds: int = 16) -> float:
    """µs of one: the lower quartile of a few rounds."""
    found = []
    for _ in range(rounds):
        begin = thread_time()
        for _ in range(times):
            call()
        found.append((thread_time() - begin) / times * 1e6)
    return sorted(found)[rounds // 4]


def write_functions(path: Path) -> None:
    x = torch.randn(16)
    with open(path, "w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(("tensors", "round", "view_us", "forward_us"))
        for tensors in (1, 4, 12, 24, 48):
            inputs = [torch.randn(4, requires_grad=True) for _ in range(tensors + 1)]
            for number in range(ROUNDS):
                view = repeated(lambda: x.view(4, 4))
                out.writerow((tensors, number, f"{view:.3f}", f"{repeated(lambda: Played.apply(*inputs)):.2f}"))  # noqa: B023


class Samples(torch.utils.data.Dataset):
    def __init__(self, tensors: int):
        self.tensors = tensors

    def __len__(self) -> int:
        return 400

    def __getitem__(self, index: int) -> tuple[torch.Tensor, ...]:
        return tuple(torch.zeros(16) for _ in range(self.tensors))


def write_batches(path: Path, tensors: tuple[int, ...] = (1, 2, 4), workers: tuple[int, ...] = (1, 4), rounds: int = 3) -> None:
    x = torch.randn(16)
    with open(path, "w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(("round", "view_us", "next_us", "wall_us", "pinned", "tensors", "workers"))
        for pinned in (False, True) if torch.cuda.is_available() else (False,):
            for count, processes in ((t, w) for t in tensors for w in workers):
                for number in range(rounds):
                    batches = iter(torch.utils.data.DataLoader(Samples(count), batch_size=4, num_workers=processes, prefetch_factor=8,
                                                               pin_memory=pinned))
                    took, wall = [], []
                    for _ in range(BATCHES):
                        sleep(0.012)  # the batch is there
                        begin, clock = thread_time(), perf_counter()
                        next(batches)
                        wall.append((perf_counter() - clock) * 1e6)
                        took.append((thread_time() - begin) * 1e6)
                    out.writerow((number, f"{repeated(lambda: x.view(4, 4)):.3f}", f"{median(took[5:]):.1f}", f"{median(wall[5:]):.1f}",
                                  int(pinned), count, processes))
                    file.flush()


def write_units(path: Path) -> None:
    from torch.testing._internal.distributed.fake_pg import FakeStore
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=WORLD)
    with open(path, "w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(("kind", "tensors", "round", "forward_us", "backward_us"))  # of a unit, above the plain step
        for layers in LAYERS:
            for number in range(ROUNDS):
                plain = timed(made("plain", layers))
                for kind in ("fully_shard", "flat"):
                    got = timed(made(kind, layers))
                    out.writerow((kind, 2 * layers, number, *(f"{(g - p) / BLOCKS:.1f}" for g, p in zip(got, plain))))
            file.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--batches", action="store_true", help="only batches, of one to four tensors")
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.output.mkdir(parents=True, exist_ok=True)
    if options.batches:
        write_batches(options.output / "batches.csv")
        return
    write_functions(options.output / "functions.csv")
    write_units(options.output / "units.csv")


if __name__ == "__main__":
    main()
