"""Measures jobs and contention inside one GPU within a given time, the most needed first.

    python3 -u -m tools.measure.parallel.run --out DIR --nccl LIBNCCL.xz [--seconds 320] [--only LABEL…] [--list]

Several ranks share one GPU under MPS, each with 1/W of its SMs. They need NCCL 2.30 or newer, packed by `lzma`: collectives then run inside
the GPU. Programs of the plan run one after another; the next one imports its libraries meanwhile, on cores of its own. A program that makes no
progress is ended, MPS is started again, and its other cases go on in a new one. `--cpu` tries all of it with tiny networks and gloo.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import lzma
import os
import random
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

from .ranks import APART

TAR_BYTES = 13_500_000


@dataclass(frozen=True)
class Program:
    label: str
    world: int
    ctas: int
    cases: tuple[str, ...] = ()  # none: contention
    options: tuple[str, ...] = ()
    share: int = 0  # percent of the SMs of a rank; 0: 1/W
    quiet_s: float = 45  # without progress it hangs
    sockets: bool = False  # every rank is a host of its own
    slow: int = 0  # percent of the SMs of the last rank, where it has fewer than the others


def jobs(label: str, world: int, ctas: int, cases: str, **more) -> Program:
    return Program(label, world, ctas, tuple(cases.split()), **more)


def contention(label: str, world: int, ctas: int, *options: str, **more) -> Program:
    return Program(label, world, ctas, (), options, **more)


PLAN = [
    jobs("today", 2, 4, "lmA:ddp lmA:pp4 lmA:ddp/accum2 lmA:ddp/eager+ lmA:pp2 lmA:pp4/cut5-3+ lmA:ddp/bucket5 lmA:ddp/bucket100 lmA:tp/eager+ "
         "lmA:fsdp/bs2 lmA:cp/ckpt lmA:tp/accum2 lmA:gp8 lmA:pp4/bs2 lmA:fsdp/accum2 lmA:cp/bs2 lmA:ddp/fp32+"),
    contention("w2c4", 2, 4),
    jobs("gpt", 2, 4, "gptB:solo+ gptB:ddp+ gptB:ddp/bs2 gptB:ddp/ckpt gptB:ddp/accum2 gptB:fsdp+ gptB:fsdp/ckpt gptB:tp+ gptB:tp/bs2 gptB:tp/ckpt "
         "gptB:pp4+ gptB:pp8 gptB:gp4 gptB:fsdp/bs2"),
    jobs("experts", 2, 4, "moeA:ep/bs2 moeA:ep/ckpt moeA:ep/accum2 moeA:ddp+ moeA:ddp/ckpt moeA:ep/eager"),
    contention("w2c2", 2, 2),
    contention("w2c1", 2, 1),
    jobs("slower", 2, 1, "lmA:ddp lmA:fsdp lmA:tp moeA:ep lmA:pp4 lmA:cp gptB:ddp"),
    jobs("four", 4, 4, "lmA:pp8 lmA:pp4/bs2 lmA:tp/ckpt lmA:fsdp/ckpt lmA:tp2dp/ckpt lmA:gp4 lmA:fsdp/bs2"),
    contention("one100", 2, 4, "--one-computes", share=100),
    contention("w4c2", 4, 2, "--short"),
    jobs("compiled", 2, 4, "lmA:ddp/compile lmA:tp/compile", quiet_s=100),
    contention("w2c8", 2, 8, "--short", quiet_s=25),
    jobs("stages", 2, 4, "gptB:pp4 gptB:pp4/cut4-2+ lmB:pp4+ lmB:pp8 lmB:gp4 lmB:pp4/cut5-3+ moeB:pp4+ moeB:gp4 moeB:pp8 moeB:pp4/cut3-1+ lmB:pp4/bs2"),
    jobs("sequence", 2, 4, "gptB:cp+ gptB:cp/ckpt gptB:cp/bs2 lmB:cp+ lmB:cp/bs2 lmB:cp/ckpt"),
    jobs("more-experts", 2, 4, "moeC:solo+ moeC:ep+ moeC:ep/bs2 moeC:ep/ckpt moeC:ddp moeB:ep+ moeB:ep/bs2 moeB:ep/ckpt"),
    jobs("unslowed", 2, 4, "lmA:ddp gptB:ddp gptB:tp moeA:ddp lmB:ddp"),
    jobs("straggler", 2, 4, "lmA:ddp+ gptB:ddp+ gptB:tp+ moeA:ddp+ lmB:ddp+", slow=25),
    jobs("sockets", 2, 4, "gptB:tp gptB:pp4+ gptB:gp4 gptB:cp moeA:ep gptB:ddp lmA:tp lmA:pp4+ lmA:pp8 lmA:cp moeB:ep moeC:ep lmB:tp lmB:pp4 lmB:cp gptB:fsdp",
         sockets=True, quiet_s=60),
    contention("net", 2, 4, "--collectives", sockets=True),
]

ON_CPU = [
    jobs("today", 2, 4, "tiny:ddp+ tiny:ddp/accum2 tiny:ddp/eager tiny:pp2 tiny:pp4/cut3-1 tiny:ddp/bucket5 tiny:tp/eager+ tiny:fsdp/bs2 tiny:cp/ckpt "
         "tiny:tp/accum2 tiny:gp8 tiny:il4", quiet_s=60),
    jobs("more", 2, 4, "tinygpt:solo tinygpt:tp tinygpt:pp4 tinymoe:ep/bs2 tinymoe:ep/accum2 tiny:ddp/fp32 tiny:zb4", quiet_s=60),
    jobs("four", 4, 4, "tiny:pp4 tiny:tp2dp tiny:pp2dp4 tiny:tp2fsdp", quiet_s=60),
    contention("w2c4", 2, 4, "--short", quiet_s=60),
]


class Mps:
    """The service that lets several processes use one GPU at once."""

    def __init__(self, on: bool):
        self.on = on
        self.env = {"CUDA_MPS_PIPE_DIRECTORY": "/tmp/mps", "CUDA_MPS_LOG_DIRECTORY": "/tmp/mpslog"} if on else {}

    def start(self) -> None:
        if not self.on:
            return
        for folder in self.env.values():
            os.makedirs(folder, exist_ok=True)
        subprocess.run(["nvidia-cuda-mps-control", "-d"], env=os.environ | self.env, check=False)
        time.sleep(1)

    def stop(self) -> None:
        if self.on:
            with contextlib.suppress(subprocess.TimeoutExpired):
                subprocess.run(["nvidia-cuda-mps-control"], input="quit\n", text=True, env=os.environ | self.env, check=False, timeout=10)


class Run:
    """A program that was started, and waits for its turn."""

    def __init__(self, program: Program, out: Path, env: dict[str, str], work: Path):
        self.program, self.gate = program, work / f"gate.{program.label}.{random.randrange(1 << 30)}"
        self.log = out / "log"
        own = {"GATE": str(self.gate), "NCCL_MAX_CTAS": str(program.ctas), "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(program.share or 100 // program.world)}
        own |= {"TAG": "net"} if program.sockets else {}
        own |= {"SLOW": str(program.slow)} if program.slow else {}
        command = [sys.executable, "-u", "-m", "torch.distributed.run", "--nproc-per-node", str(program.world), "--master-port",
                   str(random.randrange(20000, 29000)), "--module"]
        if program.cases:
            command += ["tools.measure.parallel.jobs", str(out), ",".join(program.cases)]
        else:
            command += ["tools.measure.parallel.contention", str(out), program.label, *program.options]
        cores = os.cpu_count() or 1
        if cores > 2 * APART and shutil.which("taskset"):
            command = ["taskset", "-c", f"{cores - APART}-{cores - 1}", *command]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, env=os.environ | env | own, stdout=log, stderr=log, start_new_session=True)

    def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(3)
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def progress(out: Path) -> int:
    return sum(f.stat().st_size for f in out.glob("*") if f.is_file())


def case_name(program: Program, case: str) -> str:
    """As rows call it."""
    return case.rstrip("+") + (f"/slow{program.slow}" if program.slow else "")


def done_cases(out: Path) -> list[tuple[str, str]]:
    done = []
    for file in out.glob("rows.r*.jsonl"):
        done += [(r["max_ctas"], f"w{r['world']} {r['model']}:{r['case']}") for r in map(json.loads, file.read_text().splitlines())]
    return done


def left_of(program: Program, out: Path) -> Program | None:
    """What remains after a failure: the case at which it failed is not tried again."""
    done = set(done_cases(out))
    left = [c for c in program.cases if (str(program.ctas), f"w{program.world} {case_name(program, c)}") not in done]
    failed_first = left and progress_of_failed(program, out) == 0
    left = left[1:] if failed_first else left
    return replace(program, cases=tuple(left)) if left else None


def progress_of_failed(program: Program, out: Path) -> int:
    """Cases that a rank recorded as failed: then the first of those left was not begun."""
    rows = [json.loads(line) for f in out.glob("rows.r*.jsonl") for line in f.read_text().splitlines()]
    ran = [r for r in rows if r["max_ctas"] == str(program.ctas) and r["world"] == program.world]
    return int(bool(ran) and "error" in ran[-1])


def supervise(run: Run, out: Path, ends: float) -> bool:
    """Waits for a program; false if it failed or hung."""
    run.gate.touch()
    seen, since = -1, time.monotonic()
    while run.process.poll() is None:
        now = time.monotonic()
        if (size := progress(out)) != seen:
            seen, since = size, now
        if now > ends or now - since > run.program.quiet_s:
            print(f"{run.program.label}: ended, {'out of time' if now > ends else 'no progress'}", flush=True)
            run.end()
            return False
        time.sleep(0.05)
    return run.process.returncode == 0


def measure(plan: list[Program], out: Path, env: dict[str, str], ends: float, mps: Mps) -> None:
    waiting = list(plan)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        next_run: Run | None = Run(waiting.pop(0), out, env, work)
        while next_run:
            run, next_run = next_run, Run(waiting.pop(0), out, env, work) if waiting else None
            began = time.monotonic()
            fine = supervise(run, out, ends)
            print(f"{run.program.label}: {'done' if fine else 'failed'} after {time.monotonic() - began:.1f} s", flush=True)
            if time.monotonic() > ends:
                break
            if not fine:
                run.end()
                mps.stop()
                mps.start()
                if run.program.cases and (left := left_of(run.program, out)):
                    waiting.insert(0, left)
                    if next_run is None:
                        next_run = Run(waiting.pop(0), out, env, work)
        if next_run:
            next_run.end()


def pack(raw: Path, out: Path) -> None:
    """Rows of all ranks in one file each; traces in archives small enough to travel."""
    for name in ("rows", "contention"):
        lines = [line for f in sorted(raw.glob(f"{name}.r*.jsonl")) for line in f.read_text().splitlines()]
        (out / f"{name}.jsonl").write_text("\n".join(lines) + "\n" if lines else "")
    for name in ("collectives.jsonl", "log"):
        if (raw / name).exists():
            shutil.copy(raw / name, out / name)
    size = TAR_BYTES
    archives: list[tarfile.TarFile] = []
    for trace in sorted(raw.glob("*.json.gz")):
        if size + trace.stat().st_size > TAR_BYTES:
            archives.append(tarfile.open(str(out / f"traces.{len(archives)}.tar"), "w"))
            size = 0
        archives[-1].add(trace, trace.name)
        size += trace.stat().st_size + 1024
    for archive in archives:
        archive.close()


def environment(options: argparse.Namespace) -> dict[str, str]:
    env = {"OMP_NUM_THREADS": "2", "PYTHONUNBUFFERED": "1", "PYTHONWARNINGS": "ignore", "NCCL_SOCKET_IFNAME": "lo", "NCCL_IB_DISABLE": "1",
           "NCCL_NVLS_ENABLE": "0"}
    if options.cpu:
        return env | {"ON_CPU": "1"}
    library = Path(tempfile.gettempdir()) / "libnccl.so.2"
    if not library.exists():
        with lzma.open(options.nccl) as packed, library.open("wb") as to:
            shutil.copyfileobj(packed, to)
    return env | {"LD_PRELOAD": str(library)}


def main() -> None:
    began = time.monotonic()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--nccl", type=Path, help="the packed library")
    parser.add_argument("--seconds", type=float, default=320)
    parser.add_argument("--only", nargs="*", default=[], help="labels of the plan")
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    plan = [p for p in (ON_CPU if options.cpu else PLAN) if not options.only or p.label in options.only]
    if options.list:
        for p in plan:
            print(f"{p.label}: {p.world} ranks, {p.ctas} CTAs: {' '.join(p.cases) or 'contention ' + ' '.join(p.options)}")
        return
    options.out.mkdir(parents=True, exist_ok=True)
    raw = Path(tempfile.mkdtemp(prefix="parallel."))
    mps = Mps(not options.cpu)
    mps.start()
    try:
        measure(plan, raw, environment(options) | mps.env, began + options.seconds - 6, mps)
    finally:
        mps.stop()
        pack(raw, options.out)
    log = (raw / "log").read_text(errors="replace").splitlines() if (raw / "log").exists() else []
    print("\n".join(line[:220] for line in log if line.startswith("ROW") or "Error" in line or "NCCL WARN" in line))
    print(f"{time.monotonic() - began:.0f} s in all")


if __name__ == "__main__":
    main()
