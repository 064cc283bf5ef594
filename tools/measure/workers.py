"""What training on several workers costs the CPU, on a GPU and without a profiler: CUPTI never is in these processes.

    python -u -m tools.measure.workers --out DIR [--world 2] [--seconds 100] [--cpu]

Ranks share one GPU under MPS and believe to be hosts of their own, so that NCCL enqueues real transfers; `--world 1` needs no MPS, and
NCCL then transfers nothing. Networks are many small layers: the GPU never holds the host up. Every kind of one network runs in the same process, in
turns, with a plain Python loop timed with each step, so that the host's speed is known and the same for all.

ddp.csv: host µs of forward, backward until the last gradient, the rest of backward (waits and copies back) and update,
plain and under DistributedDataParallel in several ways, by parameters and buckets.
sharded.csv: the same under fully_shard, by units and tensors of a unit; shards.csv: the time in each of its hooks, each less the hooks inside it.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from .host_rounds import loop_us

WIDTH, ROWS = 16, 8
TENSORS: tuple[int, ...] = (50, 200, 800)
NORMS: tuple[int, ...] = (5, 20, 80)
BUCKETS = (0, 16, 4)  # tensors in a bucket; 0: PyTorch's own size
UNITS = 12
UNIT_LAYERS: tuple[int, ...] = (1, 3, 6, 12)
TURNS, TURN_S, WARM, LEAST = 4, 0.14, 4, 3
STEP_COLUMNS = ("network", "kind", "tensors", "buckets", "turn", "forward_us", "until_last_us", "tail_us", "update_us", "loop_us")


class Blocks(nn.Module):
    """Layers of two tensors in blocks; with norms, one behind each layer."""

    def __init__(self, blocks: int, layers: int, norms: bool = False):
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(*[m for _ in range(layers) for m in ([nn.Linear(WIDTH, WIDTH)] + ([nn.BatchNorm1d(WIDTH)] if norms else []))])
            for _ in range(blocks))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x


class Worker:
    """A network as a rank trains it; `step` gives µs of its parts."""

    def __init__(self, model: nn.Module, called: nn.Module, device: str, without: Any = None):
        self.model, self.called, self.device, self.without = model, called, device, without
        self.optimizer = torch.optim.SGD(model.parameters(), 1e-6, momentum=0.9, foreach=True)
        self.x = torch.randn(ROWS, WIDTH, device=device)
        self.last = 0
        for p in list(model.parameters())[:2]:
            p.register_post_accumulate_grad_hook(self._mark)

    def _mark(self, _p: torch.Tensor) -> None:
        self.last = perf_counter_ns()

    def step(self) -> tuple[float, ...]:
        self.optimizer.zero_grad(set_to_none=True)
        with self.without() if self.without else contextlib.nullcontext():
            begin = perf_counter_ns()
            loss = self.called(self.x).sum()
            forward = perf_counter_ns()
            loss.backward()
            backward = perf_counter_ns()
        self.optimizer.step()
        update = perf_counter_ns()
        return tuple(ns / 1e3 for ns in (forward - begin, self.last - forward, backward - self.last, update - backward))


def wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def in_turns(workers: dict[str, Worker], device: str, turn_s: float) -> Iterator[tuple[str, int, list[float]]]:
    """Medians of each part over a turn's steps, the loop's with them. The number of steps is the first rank's, since all must make as many."""
    counts: dict[str, int] = {}
    for kind, worker in workers.items():
        for _ in range(WARM):
            worker.step()
        wait(device)
        begin = time.perf_counter()
        worker.step()
        wait(device)
        count = torch.tensor([max(LEAST, min(40, int(turn_s / (time.perf_counter() - begin))))], device=device)
        dist.broadcast(count, 0)
        counts[kind] = int(count.item())
    for turn in range(TURNS):
        for kind, worker in workers.items():
            found = []
            for _ in range(counts[kind]):
                wait(device)
                before = loop_us()
                parts = worker.step()
                found.append((*parts, (before + loop_us()) / 2))
                wait(device)
            yield kind, turn, [sorted(v)[len(v) // 2] for v in zip(*found)]


def ddp_kinds(make: Any, device: str, bucket_tensors: int) -> dict[str, Worker]:
    """Wrapped in several ways; without a size of buckets, plain as well."""
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook, fp16_compress_hook
    from torch.nn.parallel import DistributedDataParallel
    place = {"device_ids": [0]} if device == "cuda" else {}
    bytes_of = (WIDTH * WIDTH + WIDTH) * 4 / 2  # of a tensor, on average
    size = {} if bucket_tensors == 0 else {"bucket_cap_mb": bucket_tensors * bytes_of / (1 << 20)}
    kinds: dict[str, dict[str, Any]] = {"ddp": {}, "view": {"gradient_as_bucket_view": True}}
    if bucket_tensors == 0:
        kinds |= {"static": {"static_graph": True}, "nosync": {}}
    kinds |= {"fp16": {}, "hooked": {}}
    out: dict[str, Worker] = {}
    if bucket_tensors == 0:
        model = make().to(device)
        out["plain"] = Worker(model, model, device)
    for kind, how in kinds.items():
        model = make().to(device)
        called = DistributedDataParallel(model, **place, **size, **how)
        hook = {"fp16": fp16_compress_hook, "hooked": allreduce_hook}.get(kind)
        if hook:
            called.register_comm_hook(None, hook)
        out[kind] = Worker(model, called, device, called.no_sync if kind == "nosync" else None)
    return out


def buckets_of(called: nn.Module) -> int:
    """After the first steps, in which they are built again in the order gradients come."""
    data: dict[str, Any] = getattr(called, "_get_ddp_logging_data", dict)()
    sizes = str(data.get("rebuilt_bucket_sizes") or data.get("bucket_sizes") or "")
    return len([s for s in sizes.split(",") if s.strip()])


def write_ddp(out: Any, device: str, left: Any, tensors: tuple[int, ...], norms: tuple[int, ...], needs_s: float) -> None:
    networks: list[tuple[str, Any]] = [(f"layers{n}", lambda n=n: Blocks(1, n // 2)) for n in tensors]
    networks += [(f"norms{n}", lambda n=n: Blocks(1, n, norms=True)) for n in norms]
    for name, make in networks:
        if left() < needs_s:
            print(f"workers: {name} left out", flush=True)
            continue
        began = time.perf_counter()
        workers: dict[str, Worker] = {}
        for each in BUCKETS if name.startswith("layers") else BUCKETS[:1]:
            for kind, worker in ddp_kinds(make, device, each).items():
                if name.startswith("layers") or kind in ("plain", "ddp", "nosync"):
                    workers[f"{kind}@{each}" if each else kind] = worker
        if name.startswith("norms"):
            from torch.nn.parallel import DistributedDataParallel
            model = make().to(device)
            place = {"device_ids": [0]} if device == "cuda" else {}
            workers["still"] = Worker(model, DistributedDataParallel(model, **place, broadcast_buffers=False), device)
        count = sum(1 for _ in next(iter(workers.values())).model.parameters())
        rows = []
        for kind, turn, parts in in_turns(workers, device, TURN_S):
            rows.append((name, kind, count, buckets_of(workers[kind].called), turn, *(f"{p:.2f}" for p in parts)))
        out.writerows(rows)
        print(f"workers: {name} {time.perf_counter() - began:.1f} s", flush=True)


class Ranges:
    """In place of PyTorch's ranges around its hooks: the same range, and its time less that of ranges inside it."""

    found: defaultdict[str, list[float]] = defaultdict(list)
    open_: list[int] = []
    real = torch.profiler.record_function

    def __init__(self, name: str):
        self.name, self.range = name.split("::")[-1].split(" ")[0], Ranges.real(name)

    def __enter__(self) -> Ranges:
        self.begin = perf_counter_ns()
        Ranges.open_.append(0)
        self.range.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self.range.__exit__(*error)
        took = perf_counter_ns() - self.begin
        inside = Ranges.open_.pop()
        Ranges.found[self.name].append((took - inside) / 1e3)
        if Ranges.open_:
            Ranges.open_[-1] += took


def write_sharded(out: Any, hooks: Any, device: str, left: Any) -> None:
    import torch.distributed.fsdp._fully_shard._fsdp_param_group as group
    import torch.distributed.fsdp._fully_shard._fsdp_state as state
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    mesh = init_device_mesh(device, (dist.get_world_size(),))
    for layers in UNIT_LAYERS:
        if left() < 8:
            print(f"workers: units of {layers} layers left out", flush=True)
            continue
        plain = Blocks(UNITS, layers).to(device)
        shared = Blocks(UNITS, layers).to(device)
        for block in shared.blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(shared, mesh=mesh)
        workers = {"plain": Worker(plain, plain, device), "fully_shard": Worker(shared, shared, device)}
        rows = [(f"units{UNITS}", kind, 2 * layers, UNITS, turn, *(f"{p:.2f}" for p in parts))
                for kind, turn, parts in in_turns(workers, device, TURN_S)]
        out.writerows(rows)
        # The same steps with a clock in every range: what it takes itself is a microsecond of some fifty.
        group.record_function = Ranges
        state.torch.profiler.record_function = Ranges
        Ranges.found.clear()
        loops = []
        for _ in range(12):
            wait(device)
            loops.append(loop_us())
            workers["fully_shard"].step()
            loops.append(loop_us())
        wait(device)
        group.record_function = state.torch.profiler.record_function = Ranges.real
        for name, times in sorted(Ranges.found.items()):
            ordered = sorted(times)
            hooks.writerow((2 * layers, name, len(times), f"{ordered[len(ordered) // 2]:.2f}", f"{sum(times) / len(times):.2f}",
                            f"{sorted(loops)[len(loops) // 2]:.2f}"))
    print("workers: fully_shard done", flush=True)


def rank_main(rank: int, options: argparse.Namespace, end: float) -> None:
    device = "cpu" if options.cpu else "cuda"
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(options.world), "NCCL_HOSTID": f"host{rank}", "LOCAL_RANK": "0"}
    cores = sorted(os.sched_getaffinity(0))
    each = max(1, len(cores) // options.world)
    os.sched_setaffinity(0, set(cores[rank * each:(rank + 1) * each] or cores))
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if device == "cuda":
        torch.cuda.set_device(0)
    dist.init_process_group("gloo" if options.cpu else "nccl", **({} if options.cpu else {"device_id": torch.device("cuda:0")}))

    def left() -> float:
        """As the first rank sees it: all go on or none."""
        seconds = torch.tensor([end - time.perf_counter()], device=device)
        dist.broadcast(seconds, 0)
        return float(seconds.item())

    place = options.out if rank == 0 else Path(os.devnull)
    def opened(name: str) -> Any:
        return open(place / name if rank == 0 else os.devnull, "w", newline="", buffering=1)

    quiet = contextlib.redirect_stdout(open(os.devnull, "w")) if rank else contextlib.nullcontext()
    with opened(f"ddp.w{options.world}.csv") as steps, opened(f"sharded.w{options.world}.csv") as sharded, \
            opened(f"shards.w{options.world}.csv") as hooks, quiet:
        for file in (steps, sharded):
            csv.writer(file).writerow(STEP_COLUMNS)
        csv.writer(hooks).writerow(("tensors", "hook", "times", "median_us", "mean_us", "loop_us"))
        write_ddp(csv.writer(steps), device, left, TENSORS[:2], NORMS, 8)
        write_sharded(csv.writer(sharded), csv.writer(hooks), device, left)
        write_ddp(csv.writer(steps), device, left, TENSORS[2:], (), 25)
    dist.barrier()
    dist.destroy_process_group()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", ".")))
    parser.add_argument("--world", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=100)
    parser.add_argument("--cpu", action="store_true", help="gloo and fewer tensors, to try the program")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    end = time.perf_counter() + options.seconds
    if options.cpu:
        global TENSORS, NORMS, UNIT_LAYERS, TURN_S, TURNS
        TENSORS, NORMS, UNIT_LAYERS, TURN_S, TURNS = (8,), (2,), (1,), 0.02, 2
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ["MASTER_PORT"] = str(20000 + os.getpid() % 20000)
    children = []
    for rank in range(options.world):
        pid = os.fork()
        if pid == 0:
            code = 0
            try:
                rank_main(rank, options, end)
            except BaseException as error:  # said, and seen in the exit status
                print(f"workers: rank {rank}: {type(error).__name__}: {str(error)[:300]}", file=sys.stderr, flush=True)
                code = 1
            sys.stdout.flush()
            os._exit(code)
        children.append(pid)
    return max(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 0 for pid in children)


if __name__ == "__main__":
    sys.exit(main())
