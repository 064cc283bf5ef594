"""Measures training by every scheme, on 2 and 4 ranks that share one GPU.

    python -u -m tools.measure.schemes --nccl libnccl.so.2.xz --out DIR [--seconds 410] [--done truth.jsonl] [--only REGEX] [--cpu]

Ranks have 1/N of the SMs each (MPS) and NCCL 2.30 or newer between them, preloaded: `inside` the GPU, over sockets on loopback (`net`),
or two nodes of two (`pairs`). Ranks that hang or fail are ended, and the next case begins in new ones. What is in --done is left out.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import json
import lzma
import os
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from mmap import mmap
from pathlib import Path
from typing import Any

import numpy as np

from .plan import SET_UPS, SetUp

LIBRARY = Path(tempfile.gettempdir()) / "libnccl.so.2"
MPS = {"CUDA_MPS_PIPE_DIRECTORY": "/tmp/mps", "CUDA_MPS_LOG_DIRECTORY": "/tmp/mpslog"}
START_S, CASE_S, COLLECTIVE_S = 30.0, 20.0, 12.0  # the longest that each may take
TAR_BYTES = 13 << 20


def preload(packed: Path) -> None:
    """The library must be there before the interpreter starts: starts it again."""
    if os.environ.get("LD_PRELOAD") == str(LIBRARY):
        return
    with lzma.open(packed) as source, open(LIBRARY, "wb") as out:
        out.write(source.read())
    os.environ["LD_PRELOAD"] = str(LIBRARY)
    os.execv(sys.executable, [sys.executable, "-u", "-m", "tools.measure.schemes", *sys.argv[1:]])


def mps(on: bool) -> None:
    plain = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"} | MPS
    if on:
        for folder in MPS.values():
            os.makedirs(folder, exist_ok=True)
        subprocess.run(["nvidia-cuda-mps-control", "-d"], env=plain, check=False)
        time.sleep(1)
    else:
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(["nvidia-cuda-mps-control"], input=b"quit -t 2\n", env=plain, check=False, timeout=20)
        time.sleep(2)


def import_all() -> None:
    """Before ranks are forked, so that each start is short; nothing of it touches the GPU."""
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"  # to ask whether there is a GPU must not start CUDA either
    for name in ("torchvision.models", "transformers.models.bert.modeling_bert", "transformers.models.gpt2.modeling_gpt2",
                 "torch.distributed.fsdp", "torch.distributed.fsdp.wrap", "torch.distributed.device_mesh", "torch.distributed.optim",
                 "torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook", "torch._dynamo", "torch.profiler", "tools.measure.schemes.rank"):
        try:
            importlib.import_module(name)
        except ImportError as error:
            print(f"schemes: no {name}: {error}", flush=True)


class Launcher:
    def __init__(self, options: argparse.Namespace):
        self.cuda, self.out = not options.cpu, options.out
        self.work = Path(tempfile.mkdtemp())
        self.end = time.time() + options.seconds
        self.seconds = options.seconds
        self.only = re.compile(options.only)
        self.done = {(r["tag"], r["world"], r["case"], r["model"]) for f in options.done for r in map(json.loads, open(f)) if "error" not in r}
        self.watch = np.frombuffer(mmap(-1, 4096), dtype=np.float64)
        self.shared = np.frombuffer(mmap(-1, 1 << 16), dtype=np.int64)

    def environment(self, setup: SetUp, rank: int) -> dict[str, str]:
        node = 0 if setup.node == 0 else rank // setup.node
        base = {"RANK": str(rank), "WORLD_SIZE": str(setup.world), "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1",
                "OMP_NUM_THREADS": "2", "PYTHONWARNINGS": "ignore", "TOKENIZERS_PARALLELISM": "false",
                "NCCL_MULTI_RANK_GPU_ENABLE": "0" if setup.node == 1 else "1", "NCCL_HOSTID": f"host{node}", "NCCL_SOCKET_IFNAME": "lo", "NCCL_IB_DISABLE": "1",
                "NCCL_NVLS_ENABLE": "0", "NCCL_MAX_CTAS": "4", "NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,GRAPH",
                "NCCL_DEBUG_FILE": str(self.work / f"nccl.{setup.name}.r{rank}"),
                "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(100 // setup.world)}
        return base | MPS | setup.environment

    def start(self, setup: SetUp, todo: list[Any], end: float, collectives: bool) -> list[int]:
        self.watch[:2] = time.time(), -1
        self.shared[:] = 0
        port = str(20000 + int(time.time() * 10) % 20000)
        children = []
        sys.stdout.flush()
        for rank in range(setup.world):
            pid = os.fork()
            if pid:
                children.append(pid)
                continue
            code = 1
            try:
                os.environ.update(self.environment(setup, rank) | {"MASTER_PORT": port})
                cores = sorted(os.sched_getaffinity(0))
                each = max(1, len(cores) // setup.world)
                os.sched_setaffinity(0, set(cores[rank * each:(rank + 1) * each] or cores))
                from .rank import Rank, Watch
                watch = Watch(self.watch if rank == 0 else np.zeros(2))
                here = Rank(rank, setup, self.work, self.cuda, self.shared, watch, end)
                if collectives:
                    here.collectives()
                here.run(todo)
                here.meet()
                code = 0
            except BaseException as error:
                print(f"{setup.name} rank {rank}: {type(error).__name__}: {str(error)[:300]}", flush=True)
            sys.stdout.flush()
            os._exit(code)
        return children

    def wait(self, children: list[int], names: dict[int, str]) -> str:
        """Empty when all ended well; else what went wrong."""
        alive = list(children)
        problem = ""
        while alive and not problem:
            time.sleep(0.1)
            for pid in list(alive):
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    alive.remove(pid)
                    if status:
                        problem = f"a rank ended with {os.waitstatus_to_exitcode(status)}"
            began, at = float(self.watch[0]), int(self.watch[1])
            limit = START_S if at == -1 else COLLECTIVE_S if at == -2 else CASE_S
            if alive and time.time() - began > limit:
                problem = f"took more than {limit:.0f} s"
        time.sleep(0.5 if problem else 0)
        for pid in alive:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        at = int(self.watch[1])
        return f"{names.get(at, 'collectives' if at == -2 else 'start')}: {problem}" if problem else ""

    def set_up(self, setup: SetUp, end: float) -> None:
        todo = [(case, name, False) for case, name in setup.cases if (setup.tag, setup.world, case, name) not in self.done]
        todo += [(case, name, True) for case, name in setup.traces]
        numbered = [(i, c, n, t) for i, (c, n, t) in enumerate(todo) if self.only.search(f"{setup.name}.{n}.{c}{'+' if t else ''}")]
        names = {i: f"{n} {c}{' traced' if t else ''}" for i, c, n, t in numbered}
        collectives = not self.done
        began, in_vain = time.time(), 0
        while numbered and in_vain < 2 and time.time() < end - 8:
            rows = self.rows()
            problem = self.wait(self.start(setup, numbered, end, collectives), names)
            if not problem:
                break
            in_vain = 0 if self.rows() > rows else in_vain + 1
            at = int(self.watch[1])
            print(f"{setup.name} {problem}", flush=True)
            with open(self.work / "failed.jsonl", "a") as file:
                file.write(json.dumps({"tag": setup.tag, "world": setup.world, "what": problem}) + "\n")
            collectives = collectives and at == -1
            numbered = [x for x in numbered if x[0] > at]
            if self.cuda:
                mps(False)
                mps(True)
        print(f"{setup.name} {time.time() - began:.0f} s", flush=True)
        self.collect()

    def rows(self) -> int:
        return sum(p.read_text().count("took_s") for p in self.work.glob("truth.*.jsonl"))

    def collect(self) -> None:
        """Everything so far, into few files."""
        with open(self.out / "truth.jsonl", "w") as file:
            for part in sorted(self.work.glob("truth.*.jsonl")):
                file.write(part.read_text())
        for name in ("collectives.jsonl", "failed.jsonl"):
            if (self.work / name).exists():
                (self.out / name).write_text((self.work / name).read_text())
        with open(self.out / "transports.txt", "w") as file:
            for log in sorted(self.work.glob("nccl.*")):
                seen = dict.fromkeys(re.sub(r"^.*NCCL INFO ", "", line) for line in log.read_text(errors="replace").splitlines()
                                     if re.search(r" via |NCCL version|Channel .* :|comm .* nNodes|Warn|WARN", line))
                file.write(f"{log.name}\n" + "".join(f"  {line}\n" for line in list(seen)[:40]))

    def pack(self) -> None:
        number, size, tar = 0, TAR_BYTES, None
        for trace in sorted(self.work.glob("*.json.gz")):
            data = trace.read_bytes()
            if size + len(data) > TAR_BYTES:
                number, size = number + 1, 0
                if tar:
                    tar.close()
                tar = tarfile.open(self.out / f"traces.{number}.tar", "w")
            info = tarfile.TarInfo(trace.name)
            info.size = len(data)
            assert tar is not None
            tar.addfile(info, io.BytesIO(data))
            size += len(data) + 1024
        if tar:
            tar.close()

    def run(self) -> None:
        unspent, last = 0.0, time.time()
        for setup in SET_UPS:
            share = setup.share * self.seconds + unspent
            self.set_up(setup, min(last + share, self.end))
            unspent = max(0.0, share - (time.time() - last))
            last = time.time()
            self.pack()
            if last > self.end - 10:
                print(f"the time is up behind {setup.name}", flush=True)
                return


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", ".")))
    parser.add_argument("--nccl", type=Path, help="the packed library to preload")
    parser.add_argument("--seconds", type=float, default=410)
    parser.add_argument("--done", type=Path, nargs="*", default=[], help="truth.jsonl of earlier runs")
    parser.add_argument("--only", default="", help="cases whose SETUP.NETWORK.CASE (a trace: with a + behind it) matches")
    parser.add_argument("--cpu", action="store_true", help="gloo and tiny networks, to try the program")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.nccl:
        preload(options.nccl)
    import_all()
    launcher = Launcher(options)
    if launcher.cuda:
        mps(True)
    try:
        launcher.run()
    finally:
        if launcher.cuda:
            mps(False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
