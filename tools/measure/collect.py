"""Runs the tasks of a part, each in a process of its own that is forked from one that has imported PyTorch but never touched the
GPU. One process at a time has the GPU; while one writes its trace the next may build its network, but nothing is timed until
the other is gone."""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import sys
import tarfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .rows import FULL, Pace
from .switches import Spec

TAR_BYTES = 14 << 20
ROW_S, COMPILED_S, WRITE_S = 100.0, 200.0, 60.0
"""After these a process is taken for hung."""
NEEDED_S = {"row": 9.0, "compiled": 22.0, "recording": 9.0, "compile": 60.0}
"""What must be left of the time for a task to begin."""
AT_ONCE = 10  # compilations side by side


@dataclass(frozen=True)
class Task:
    """kind: `row` (of truth.jsonl), `recording` (a trace alone), `compile` (fills the compiler's
    caches for a row that comes later)."""

    kind: str
    spec: Spec
    number: int = 0

    @property
    def compiled(self) -> bool:
        from .jobs import JOBS
        return self.kind == "row" and bool(self.spec.switches(JOBS[self.spec.job].update).get("compile"))

    @property
    def key(self) -> str:
        return {"row": self.spec.key, "recording": f"{self.spec.key}.{self.number:02}",
                "compile": f"compile {self.spec.key}"}[self.kind]


class Packer:
    """Files of a run as a few tars, each complete after every file, so that a run cut short loses at most one."""

    def __init__(self, folder: Path, name: str):
        self.folder, self.name, self.number = folder, name, 0

    def add(self, path: Path) -> None:
        target = self.folder / f"{self.name}.{self.number}.tar"
        if target.exists() and target.stat().st_size + path.stat().st_size > TAR_BYTES:
            self.number += 1
            target = self.folder / f"{self.name}.{self.number}.tar"
        with tarfile.open(target, "a") as tar:
            tar.add(path, path.name)
        path.unlink()


class Child:
    def __init__(self, task: Task, work: Callable[[Task, Callable[[], None]], dict[str, Any]], results: Path):
        """`work(task, gpu_free)` runs in the child; what it returns becomes a line of `results`."""
        self.task, self.begun = task, time.time()
        read, write = os.pipe()
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(read)
            os.setpgid(0, 0)
            _child(task, work, results, write, self.begun)
        os.close(write)
        self.pipe, self.free, self.gone = read, False, False

    def wait(self, until: float, for_exit: bool = False) -> bool:
        """Until the child leaves the GPU alone, or is gone. False: it did not in time and was ended."""
        while not self.gone and (for_exit or not self.free):
            ready, _, _ = select.select([self.pipe], [], [], max(0.0, until - time.time()))
            if not ready:
                self._end()
                return False
            if os.read(self.pipe, 1):
                self.free = True
            else:
                self._reap()
        return True

    def _end(self) -> None:
        for what in (lambda: os.killpg(self.pid, signal.SIGKILL), lambda: os.kill(self.pid, signal.SIGKILL)):
            try:
                what()
            except ProcessLookupError:
                pass
        self._reap()

    def _reap(self) -> None:
        os.close(self.pipe)
        os.waitpid(self.pid, 0)
        self.gone = True


def _child(task: Task, work: Callable, results: Path, pipe: int, begun: float) -> None:
    status = 1
    try:
        row: dict[str, Any] = {"model": task.spec.model, "variant": task.spec.variant}
        try:
            row = work(task, lambda: os.write(pipe, b"g") and None)
            status = 0
        except BaseException as error:
            traceback.print_exc(limit=-3)
            row["error"] = f"{type(error).__name__}: {error}"[:400]
        row["took_s"] = round(time.time() - begun, 1)
        if task.kind != "compile" or "error" in row:
            append(results, row)
        print(line(task, row), flush=True)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def append(results: Path, row: dict[str, Any]) -> None:
    with open(results, "a") as file:
        file.write(json.dumps(row) + "\n")


def line(task: Task, row: dict[str, Any]) -> str:
    if "error" in row:
        return f"FAILED {task.key}: {row['error'][:160]} ({row['took_s']} s)"
    if "median_ms" not in row:
        return f"{task.key} ({row['took_s']} s)"
    host = " ".join(f"{row['host_ms'][p]:.1f}" for p in ("forward", "backward", "update"))
    return (f"{task.key} {row['median_ms']:.2f} ms [{row['p10_ms']:.2f} {row['p90_ms']:.2f}] n={row['n']} gpu={row.get('gpu_ms') or 0:.2f} "
            f"host={host} peak={(row['peak_bytes'] or 0) / 1e9:.2f} GB add={row['probe']['add_us']:.1f} us "
            f"gz={row.get('gz_bytes', 0) / 1e6:.2f} ready={row['ready_s']} took={row['took_s']}")


def halves() -> tuple[set[int], set[int]]:
    """Cores for what is timed, and for what runs at the same time."""
    cores = sorted(os.sched_getaffinity(0))
    return (set(cores[:len(cores) // 2]), set(cores[len(cores) // 2:])) if len(cores) > 3 else (set(cores), set(cores))


class Runner:
    def __init__(self, part: str, out: Path, scratch: Path, end: float, device: str = "cuda", tiny: bool = False,
                 pace: Pace = FULL, row_s: float = ROW_S):
        self.part, self.out, self.scratch, self.end = part, out, scratch, end
        self.device, self.tiny, self.pace, self.row_s = device, tiny, pace, row_s
        self.results = out / "truth.jsonl"
        self.recordings = out / "recordings.jsonl"
        self.packer = Packer(out, part)
        self.children: list[Child] = []
        self.timed_cores, self.other_cores = halves()
        for folder in (out, scratch):
            folder.mkdir(parents=True, exist_ok=True)
        (scratch / "lock").touch()

    def run(self, tasks: list[Task]) -> int:
        """All tasks for which there is time; how many were left out."""
        left_out = 0
        compile_first = [t for t in tasks if t.kind == "compile"]
        if compile_first and self._left() > NEEDED_S["compile"]:
            self._compile(compile_first)
        for task in tasks:
            if task.kind == "compile":
                continue
            if self._left() < NEEDED_S["compiled" if task.compiled else task.kind]:
                print("left out", task.key, flush=True)
                left_out += 1
                continue
            self._one(task)
        for child in self.children:
            self._end_of(child, max(time.time() + 5, self.end))
        self._pack()
        return left_out

    def _left(self) -> float:
        return self.end - time.time()

    def _one(self, task: Task) -> None:
        child = Child(task, self._work, self.recordings if task.kind == "recording" else self.results)
        limit = COMPILED_S if task.compiled else self.row_s
        if not child.wait(min(child.begun + limit, self.end + 10)):
            self._failed(child, "took too long and was ended")
        self.children.append(child)
        # Whoever was writing before this one was timed is gone by now.
        for other in self.children[:-1]:
            self._end_of(other, time.time() + WRITE_S)
        self.children = [c for c in self.children if not c.gone]
        self._pack(but=None if child.gone else child)

    def _end_of(self, child: Child, until: float) -> None:
        if not child.gone and not child.wait(until, for_exit=True):
            self._failed(child, "did not finish writing and was ended")

    def _failed(self, child: Child, why: str) -> None:
        row = {"model": child.task.spec.model, "variant": child.task.spec.variant, "error": why,
               "took_s": round(time.time() - child.begun, 1)}
        append(self.results, row)
        print(line(child.task, row), flush=True)

    def _pack(self, but: Child | None = None) -> None:
        writing = self._path(but.task).name if but else None
        for path in sorted(self.scratch.glob("*.gz")):
            if path.name != writing:
                self.packer.add(path)

    def _path(self, task: Task) -> Path:
        return self.scratch / f"{task.key}.json.gz"

    def _compile(self, tasks: list[Task]) -> None:
        """Fills the compiler's caches, several networks side by side and nothing else meanwhile."""
        start, until = time.time(), min(time.time() + COMPILED_S, self.end - 30)
        waiting = list(tasks)
        running: list = []
        while (waiting or running) and time.time() < until:
            while waiting and len(running) < AT_ONCE:
                running.append(Child(waiting.pop(0), self._work, self.results))
            select.select([c.pipe for c in running], [], [], 5)
            for child in running:
                if select.select([child.pipe], [], [], 0)[0] and not os.read(child.pipe, 1):
                    child._reap()
            running = [c for c in running if not c.gone]
        for child in running:
            child._end()
            print(f"{child.task.key} was not done in time", flush=True)
        print(f"compiled {len(tasks) - len(running) - len(waiting)} in {time.time() - start:.0f} s", flush=True)

    # -- in the child

    def _work(self, task: Task, gpu_free: Callable[[], None]) -> dict[str, Any]:
        import torch

        from . import rows
        from .jobs import JOBS
        from .steps import Step
        if task.kind != "compile":
            os.sched_setaffinity(0, self.timed_cores)
            # As many as there are cores: PyTorch counted those of the whole machine, and threads that wait for each other in turns on fewer cores
            # made loading in the main thread up to ten times slower.
            torch.set_num_threads(len(self.timed_cores))
        name = task.spec.job
        job = JOBS[name]
        batch = 4 if self.tiny else task.spec.batch
        switches = task.spec.switches(job.update)
        self._context(torch)
        if task.kind == "compile":
            # Tuned by measuring kernels, which others disturb here: each row tunes its own again.
            import torch._inductor.config
            torch._inductor.config.autotune_local_cache = False
            batch = max(1, int(batch * switches.get("bsx", 1)))
            step = Step(job, batch, switches, self.device, self.tiny)
            for _ in range(2):
                step()
            step.finish()
            return {}

        def free() -> None:
            os.sched_setaffinity(0, self.other_cores)
            gpu_free()

        if task.kind == "recording":
            step = Step(job, max(1, int(batch * switches.get("bsx", 1))), switches, self.device, self.tiny)
            rows.warm_up(step)
            self._quiet()
            path = self._path(task)
            figures = rows.record(step, path, before_writing=free)
            return {"model": task.spec.model, "variant": task.spec.variant, "number": task.number, "trace": path.name,
                    "figures": figures, **rows.gpu_of_trace(path)}
        return {**rows.measure(job, task.spec.model, task.spec.variant, batch, switches, quiet=self._quiet, gpu_free=free,
                               trace=self._path(task) if task.spec.trace else None, device=self.device, tiny=self.tiny,
                               pace=self.pace),
                "network": name, "start": task.spec.start}

    def _context(self, torch: Any) -> None:
        if self.device == "cuda":
            torch.cuda.init()
            torch.zeros(1, device="cuda")

    def _quiet(self) -> None:
        """Returns when no process before this one is left. Opened after the GPU's own files: closed after them, too."""
        self._lock = open(self.scratch / "lock")
        fcntl.flock(self._lock, fcntl.LOCK_EX)


def already(files: list[Path]) -> set[str]:
    """Keys of the rows and recordings that earlier runs have measured."""
    found = set()
    for path in files:
        for text in path.read_text().splitlines():
            row = json.loads(text)
            if "error" in row:
                continue
            number = f".{row['number']:02}" if "number" in row else ""
            found.add(f"{row['model']}.{row['variant']}{number}")
    return found
