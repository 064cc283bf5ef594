"""One rank of a set-up: measures its collectives, then case by case. All ranks run this with the same list."""

from __future__ import annotations

import gc
import gzip
import json
import os
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from . import networks
from .collectives import measured
from .place import Place
from .plan import SERVED, TINY_SIZES, SetUp
from .training import Training, step, training_of

WARM, LEAST, MOST = 3, 8, 24  # steps
TIMED_S = 1.0
TRACE_S = 3.0  # what a recording takes


@dataclass
class Watch:
    """Shared with the process that started the ranks: when the first rank began what it does, and the place of a case in the list
    (-1: the beginning, -2: collectives)."""

    memory: np.ndarray

    def at(self, place: int) -> None:
        self.memory[1] = place
        self.memory[0] = time.time()


class Rank:
    def __init__(self, rank: int, setup: SetUp, out: Path, cuda: bool, shared: np.ndarray, watch: Watch, end: float):
        self.rank, self.setup, self.out, self.cuda, self.watch, self.end = rank, setup, out, cuda, watch, end
        self.tiny = not cuda
        torch.set_num_threads(1)
        torch.manual_seed(rank)
        if cuda:
            torch.cuda.set_device(0)
            torch.backends.cudnn.benchmark = True
            torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
        dist.init_process_group("nccl" if cuda else "gloo", **({"device_id": torch.device("cuda:0")} if cuda else {}))
        self.place = Place(rank, setup.world, cuda, shared, self._pairs())
        self.models: dict[str, Any] = {}

    def _pairs(self) -> Any:
        """Both ranks of a pair, there and back, and the ranks at the same place of every pair."""
        world = self.setup.world
        if world < 4:
            return None
        pairs = [[r, r + 1] for r in range(0, world, 2)]
        inside = [dist.new_group(p) for p in pairs]
        back = [dist.new_group(p) for p in pairs]
        across = [dist.new_group(list(range(k, world, 2))) for k in range(2)]
        return inside[self.rank // 2], across[self.rank % 2], back[self.rank // 2]

    def left(self) -> float:
        seconds = torch.tensor([self.end - time.time()], device=self.place.device)
        dist.broadcast(seconds, 0)
        return float(seconds.item())

    def write(self, name: str, row: dict[str, Any]) -> None:
        with open(self.out / name, "a") as file:
            file.write(json.dumps(row) + "\n")

    def say(self, text: str) -> None:
        if self.rank == 0:
            print(f"{self.setup.name} {text}", flush=True)

    # Collectives

    def collectives(self) -> None:
        began = time.time()
        sizes = self.setup.sizes if self.cuda else TINY_SIZES | dict.fromkeys(self.setup.sizes, (0.25,))
        for kind, all_mb in sizes.items():
            for mb in all_mb:
                for ranks in (self.setup.world, 3) if kind in SERVED else (self.setup.world,):
                    self._collective(kind, mb, ranks=ranks)
        if self.cuda:
            for mb in (0.25, 1, 4, 12.5, 32):
                self._collective("all_reduce", mb, dtype=torch.float16)
        if self.place.pairs:
            inside, across, _ = self.place.pairs
            for mb in (0.0625, 0.25, 1, 4, 16, 64) if self.cuda else (0.25,):
                for kind, group in (("reduce_scatter", inside), ("all_gather", inside), ("all_reduce", across)):
                    self._collective(kind, mb, group=group, ranks=2)
        self.say(f"collectives {time.time() - began:.1f} s")

    def _collective(self, kind: str, mb: float, dtype: torch.dtype = torch.float32, group: Any = None, ranks: int = 0) -> None:
        self.watch.at(-2)
        ms = measured(kind, mb, self.place, dtype, group, ranks)
        if self.rank == 0:
            tag = self.setup.tag + ("-levels" if group is not None else "")
            row = {"tag": tag, "world": ranks or self.setup.world, "coll": kind, "mb": mb, "ms": round(ms, 5)}
            self.write("collectives.jsonl", row | ({"dtype": "float16"} if dtype == torch.float16 else {}))

    # Steps

    def model(self, name: str) -> Any:
        """The same for every case: made once, copied for each."""
        import copy
        if name not in self.models:
            torch.manual_seed(0)
            with self.place.device:
                self.models[name] = networks.build(name, self.tiny).train()
        return copy.deepcopy(self.models[name])

    def prepared(self, case: str, name: str) -> tuple[Training, Any, Any, int]:
        network = networks.NETWORKS[name]
        batch_size = 2 if self.tiny else max(1, network.batch * 2 // self.setup.world)
        torch.manual_seed(self.rank)
        batch = network.job.data(batch_size, self.tiny)
        if self.cuda:
            batch = tuple(t.pin_memory() for t in batch)
        training = training_of(case, name, self.model(name), self.place)
        for _ in range(WARM):
            self.one(training, batch, name)
        training.settle()
        training.begin()
        self.one(training, batch, name)
        training.settle()
        return training, batch, network.job.loss, batch_size

    def one(self, training: Training, batch: Any, name: str) -> float:
        began = time.perf_counter()
        if training.serves and not training.servers.sizes:  # type: ignore[attr-defined]
            return 0.0
        step(training, batch, networks.NETWORKS[name].job.loss)
        return time.perf_counter() - began

    def case(self, case: str, name: str) -> dict[str, Any]:
        began = time.time()
        training, batch, _loss, batch_size = self.prepared(case, name)
        self.meet()
        first = self.one(training, batch, name)
        training.settle()
        count = torch.tensor([min(MOST, max(LEAST, int(TIMED_S / max(first, 1e-3))))], device=self.place.device)
        dist.broadcast(count, 0)
        self.meet()
        if self.cuda:
            torch.cuda.reset_peak_memory_stats()
        times = sorted(self.one(training, batch, name) for _ in range(int(count.item())))
        peak = torch.cuda.max_memory_allocated() if self.cuda else 0
        n = len(times)
        row = {"tag": self.setup.tag, "rank": self.rank, "world": self.setup.world, "model": name, "bs": batch_size, "case": case,
               "median_ms": 1e3 * (times[(n - 1) // 2] + times[n // 2]) / 2, "p10_ms": 1e3 * times[int(0.1 * n)],
               "p90_ms": 1e3 * times[min(n - 1, int(0.9 * n))], "n": n, "peak_bytes": peak - self.kept_bytes(name),
               "params": sum(p.numel() for p in self.models[name].parameters()), **training.facts()}
        if training.serves:
            row["server"] = True
        training.close()
        self.meet()
        row["took_s"] = round(time.time() - began, 2)
        return row

    def kept_bytes(self, name: str) -> int:
        """Of the networks that cases are copied from."""
        return sum(t.numel() * t.element_size() for m in self.models.values()
                   for t in {id(t): t for t in (*m.parameters(), *m.buffers())}.values()) if self.cuda else 0

    def meet(self) -> None:
        self.place.wait()
        dist.barrier()
        self.place.wait()

    def clean(self) -> None:
        gc.collect()
        if self.cuda:
            torch.cuda.empty_cache()

    def run(self, todo: list[tuple[int, str, str, bool]]) -> None:
        """(place in the list, case, network, traced)."""
        longest = 0.0
        for place, case, name, traced in todo:
            self.watch.at(place)
            later = sum(TRACE_S for p, _c, _n, t in todo if t and p > place)
            if self.left() - later < (TRACE_S if traced else max(2.5, longest)):
                self.say(f"{name} {case}{' traced' if traced else ''} left out")
                continue
            began = time.time()
            row: dict[str, Any] = {}
            try:
                if traced:
                    self.trace(case, name)
                else:
                    row = self.case(case, name)
            except Exception as error:
                traceback.print_exc(limit=-4)
                self.write(f"truth.{self.setup.name}.r{self.rank}.jsonl",
                           {"tag": self.setup.tag, "rank": self.rank, "world": self.setup.world, "model": name, "case": case,
                            "error": f"{type(error).__name__}: {error}"[:300]})
                os._exit(3)  # the others may wait for it in a collective
            if row:
                self.write(f"truth.{self.setup.name}.r{self.rank}.jsonl", row)
                self.say(f"{name} {case} {row['median_ms']:.1f} ms [{row['p10_ms']:.1f} {row['p90_ms']:.1f}] "
                         f"{row['peak_bytes'] / 1e9:.2f} GB, {row['took_s']} s")
            self.clean()
            longest = max(longest, time.time() - began)

    def trace(self, case: str, name: str) -> None:
        from torch.profiler import ProfilerActivity, profile, schedule
        training, batch, _loss, _size = self.prepared(case, name)
        if case == "solo":
            _annotate(training.model)
        kinds = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if self.cuda else [])
        path = self.out / f"{name}.{self.setup.tag}.{case}.w{self.setup.world}.r{self.rank}.json"
        options: Any = torch._C._profiler._ExperimentalConfig(enable_cuda_sync_events=True)
        with profile(activities=kinds, schedule=schedule(wait=0, warmup=2, active=1), record_shapes=True, profile_memory=True,
                     experimental_config=options, on_trace_ready=lambda p: p.export_chrome_trace(str(path)) if self.rank == 0 else None) as p:
            for _ in range(3):
                self.one(training, batch, name)
                p.step()
        if self.rank == 0:
            with open(path, "rb") as plain, gzip.open(f"{path}.gz", "wb", 6) as packed:
                packed.write(plain.read())
            path.unlink()
            self.say(f"{name} {case} traced")
        training.close()
        self.meet()


def _annotate(model: Any) -> None:
    """A range around each leaf's forward, as foretrace's recorder makes."""
    for name, module in model.named_modules():
        if name and not any(True for _ in module.children()):
            opened: list[Any] = []
            label = f"layer:{name}|{type(module).__name__}"
            module.register_forward_pre_hook(
                lambda _m, _a, o=opened, t=label: o.append(torch.profiler.record_function(t).__enter__()))
            module.register_forward_hook(lambda _m, _a, _y, o=opened: o.pop().__exit__(None, None, None))
