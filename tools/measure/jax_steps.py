"""Measures training steps of JAX on a GPU: the step without the profiler, then a profile of three steps; a process per row.

    python -u -m tools.measure.jax_steps --out DIR [--families] [--seconds 140] [--only REGEX…] [--list] [--tiny]

A row is MODEL.PRECISION.bBATCH and `.eager` where command buffers are off (XLA_FLAGS=--xla_gpu_enable_command_buffer=), `.recorded`
where foretrace.record made the file. `--families` measures the networks of jax_families, else those of jax_models. `truth.jsonl` holds what
was measured; `MODEL.….xplane.pb.gz` and `.trace.json.gz` the profiles (with `--families` only the first).
While one row runs the next two import JAX and make their parameters; they wait with compiling until the one before has left the GPU,
because XLA times kernels to choose among them. What it chose is kept in a folder that all rows share, so that a program that another
row has compiled already gets the same kernels.
"""

from __future__ import annotations

import argparse
import fcntl
import glob
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

WARM_UP, LEAST, MOST, TIMED_S, TRACED = 5, 50, 150, 1.0, 3
ROOT = Path(__file__).resolve().parents[2]
# Model, precision, batch as a factor, how: what most depends on first.
PLAN = [
    *((m, p, 1, "") for p in ("fp32", "bf16", "tf32") for m in ("transformer", "resnet18")),
    *((m, "fp32", x, "") for x in (2, 0.5) for m in ("transformer", "resnet18")),
    *((m, p, 1, "eager") for p in ("fp32", "bf16") for m in ("transformer", "resnet18")),
    *((m, "tf32", 1, "recorded") for m in ("transformer", "resnet18")),
    *((m, p, x, "") for p in ("bf16", "tf32") for x in (2, 0.5) for m in ("transformer", "resnet18")),
    *((m, "purebf16", 1, "") for m in ("transformer", "resnet18")),
    *((m, "tf32", 1, "eager") for m in ("transformer", "resnet18")),
]
FAMILIES = ("decoder", "unet", "mixer", "sound")
FAMILY_PLAN = [
    # FP32 compiles for 35 to 45 seconds where it has matrix products.
    *((m, p, 1, "") for p in ("bf16", "tf32") for m in FAMILIES),
    *((m, p, x, "") for p in ("tf32", "bf16") for x in (2, 0.5) for m in FAMILIES),
    *((m, "fp32", 1, "") for m in FAMILIES),
]
BATCHES = {"transformer": 8, "resnet18": 64, "decoder": 8, "unet": 32, "mixer": 64, "sound": 16}


def batch_of(model: str, factor: float) -> int:
    return int(BATCHES[model] * factor)


def name_of(model: str, precision: str, factor: float, how: str) -> str:
    return f"{model}.{precision}.b{batch_of(model, factor)}" + (f".{how}" if how else "")


@contextmanager
def alone(path: str) -> Iterator[None]:
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def gpu_of(path: Path, steps: int = TRACED) -> dict[str, Any]:
    """Sum of what ran on the streams, and how much, per traced step; and how far the steps differ, kernel by kernel: where somebody else
    used the GPU, much."""
    from jax.profiler import ProfileData

    total, differs, count = 0.0, 0.0, 0
    for plane in ProfileData.from_file(str(path)).planes:
        for line in plane.lines if plane.name.startswith("/device:GPU") else []:
            if line.name.startswith("Stream"):
                durations = [e.duration_ns for e in sorted(line.events, key=lambda e: e.start_ns)]
                total, count = total + sum(durations), count + len(durations)
                each = len(durations) // steps
                differs += sum(max(alike) - min(alike) for alike in (durations[i::each] for i in range(each)) if len(alike) == steps)
    return {
        "gpu_ms": round(total / steps / 1e6, 5),
        "gpu_launched": count / steps,
        "differs_pct": round(100 * differs * steps / max(1, total), 2),
    }


def made(model: str, batch: int, precision: str, tiny: bool) -> Any:
    if model in FAMILIES:
        from .jax_families import FAMILY_TINY, FamilySizes, family

        return family(model, batch, precision, FAMILY_TINY if tiny else FamilySizes())
    from .jax_models import TINY, Sizes, training

    return training(model, batch, precision, TINY if tiny else Sizes())


def pack(source: Path, target: Path) -> None:
    target.write_bytes(gzip.compress(source.read_bytes(), 6, mtime=0))


def one_row(args: argparse.Namespace) -> dict[str, Any]:
    model, precision, factor, how = plan(args)[args.row]
    import jax

    if precision == "fp32":
        jax.config.update("jax_default_matmul_precision", "highest")
    name, batch, device = name_of(model, precision, factor, how), batch_of(model, factor), jax.devices()[0]
    job = made(model, 4 if args.tiny else batch, precision, args.tiny)
    row: dict[str, Any] = {
        "model": model, "precision": precision, "bs": batch, "how": how or "default", "framework": f"jax {jax.__version__}",
        "device": device.device_kind, "matmul_precision": str(jax.config.jax_default_matmul_precision), "xla_flags": os.environ.get("XLA_FLAGS", ""),
        "params": sum(a.size for a in jax.tree.leaves(job.state[0])),
    }  # fmt: skip
    lowered = jax.jit(job.step, donate_argnums=0).lower(job.state, job.batch)
    with alone(args.lock):
        begun = time.perf_counter()
        state, batch_on_gpu = jax.device_put((job.state, job.batch))
        compiled = lowered.compile()
        row["compile_s"] = round(time.perf_counter() - begun, 1)
        try:
            sizes = compiled.memory_analysis()
            row |= {f"{k}_bytes": int(getattr(sizes, f"{k}_size_in_bytes")) for k in ("argument", "output", "temp", "alias")}
        except Exception:  # not every backend says
            pass
        if how == "recorded":
            row |= recorded(jax, compiled, state, batch_on_gpu, args.out / name)
            print_row(name, row)
            return row
        for _ in range(WARM_UP):
            state, loss = compiled(state, batch_on_gpu)
            jax.block_until_ready((state, loss))
        times: list[float] = []
        end = time.perf_counter() + TIMED_S
        while len(times) < LEAST or (time.perf_counter() < end and len(times) < MOST):
            before = time.perf_counter()
            state, loss = compiled(state, batch_on_gpu)
            jax.block_until_ready((state, loss))
            times.append((time.perf_counter() - before) * 1e3)
        before = time.perf_counter()
        for _ in range(20):
            state, loss = compiled(state, batch_on_gpu)
        jax.block_until_ready((state, loss))
        row |= {
            "median_ms": round(percentile(times, 0.5), 5), "p10_ms": round(percentile(times, 0.1), 5), "p90_ms": round(percentile(times, 0.9), 5),
            "n": len(times), "unblocked_ms": round((time.perf_counter() - before) * 50, 5), "loss": float(loss),
            "peak_bytes": int((device.memory_stats() or {}).get("peak_bytes_in_use", 0)),
        }  # fmt: skip
        folder = Path(tempfile.mkdtemp())
        traced = []
        with jax.profiler.trace(str(folder)):
            for i in range(TRACED):
                before = time.perf_counter()
                with jax.profiler.StepTraceAnnotation("train", step_num=i):
                    state, loss = compiled(state, batch_on_gpu)
                    jax.block_until_ready((state, loss))
                traced.append((time.perf_counter() - before) * 1e3)
        row["profiled_ms"] = round(percentile(traced, 0.5), 5)
    for suffix in (".xplane.pb", ".trace.json.gz"):
        for found in glob.glob(str(folder / "**" / f"*{suffix}"), recursive=True):
            if suffix == ".xplane.pb":
                row |= gpu_of(Path(found)) | {"trace": f"{name}.xplane.pb.gz"}
                pack(Path(found), args.out / row["trace"])
            elif not args.families:
                (args.out / f"{name}{suffix}").write_bytes(Path(found).read_bytes())
    print_row(name, row)
    return row


def print_row(name: str, row: dict[str, Any]) -> None:
    print(f"{name}: {row.get('median_ms')} ms, GPU {row.get('gpu_ms')}, compiled in {row.get('compile_s')} s", flush=True)


def recorded(jax: Any, compiled: Any, state: Any, batch: Any, path: Path) -> dict[str, Any]:
    """A loop as people write it, inside foretrace.record: nobody waits for a step."""
    sys.path.insert(0, str(ROOT / "python"))
    import foretrace

    with foretrace.record(f"{path}.xplane.pb", steps=TRACED, measure=50, warmup=5, framework="jax") as r:
        while not r.done:
            state, _ = compiled(state, batch)
            r.step()
    found = Path(f"{path}.xplane.pb")
    figures = r.figures or {}
    row: dict[str, Any] = {"median_ms": figures.get("measured_ms"), "figures": figures, "trace": found.name + ".gz"}
    if found.exists():
        row |= gpu_of(found, TRACED + 1)  # the recorder lets one step pass before it marks them
        pack(found, path.parent / row["trace"])
        found.unlink()
    return row


def plan(args: argparse.Namespace) -> list[tuple[str, str, float, str]]:
    return FAMILY_PLAN if args.families else PLAN


def start(row: int, args: argparse.Namespace, shared: str) -> subprocess.Popen[bytes]:
    _, _, _, how = plan(args)[row]
    environment = os.environ | {
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false", "JAX_COMPILATION_CACHE_DIR": shared + "/cache", "JAX_ENABLE_COMPILATION_CACHE": "true",
        "JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES": "xla_gpu_per_fusion_autotune_cache_dir", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "3600",
        "TF_CPP_MIN_LOG_LEVEL": "2",
    }  # fmt: skip
    if how == "eager":
        environment["XLA_FLAGS"] = "--xla_gpu_enable_command_buffer="
    command = [sys.executable, "-u", "-m", "tools.measure.jax_steps", "--out", str(args.out), "--row", str(row), "--lock", shared + "/lock"]
    command += (["--tiny"] if args.tiny else []) + (["--families"] if args.families else [])
    return subprocess.Popen(command, cwd=ROOT, env=environment)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--families", action="store_true", help="the networks of jax_families")
    parser.add_argument("--seconds", type=float, default=140)
    parser.add_argument("--only", nargs="*", default=[""], help="patterns of rows, in the order to measure them")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try the program on a CPU")
    parser.add_argument("--cache", help="folder for what XLA chose, kept for a later run (default: one that is not kept)")
    parser.add_argument("--row", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--lock", help=argparse.SUPPRESS)
    args = parser.parse_args()
    rows = plan(args)
    wanted = list(dict.fromkeys(i for pattern in args.only for i, r in enumerate(rows) if re.search(pattern, name_of(*r))))
    if args.list:
        print("\n".join(name_of(*rows[i]) for i in wanted))
        return
    args.out = args.out.resolve()
    args.out.mkdir(parents=True, exist_ok=True)
    if args.row is not None:
        row = one_row(args)
        with alone(args.lock + ".rows"), open(args.out / "truth.jsonl", "a") as file:
            file.write(json.dumps(row) + "\n")
        return
    end = time.monotonic() + args.seconds
    shared = args.cache or tempfile.mkdtemp()
    Path(shared).mkdir(parents=True, exist_ok=True)
    running: list[tuple[int, subprocess.Popen[bytes]]] = []

    def finish() -> None:
        row, process = running.pop(0)
        try:
            code = process.wait(max(1, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        if code:
            print(f"{name_of(*rows[row])}: failed ({code})", flush=True)

    for i in wanted:
        if len(running) == 3:
            finish()
        if time.monotonic() > end:
            print(f"left out: {name_of(*rows[i])} and what follows", flush=True)
            break
        running.append((i, start(i, args, shared)))
    while running:
        finish()


if __name__ == "__main__":
    main()
