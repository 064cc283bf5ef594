"""Records the same steps in several ways, unmodified scripts, and measures what recording costs. Needs a GPU.

    python -u -m tools.measure.records --library build/inject/libforetrace_cuda.so --out DIR [--parts ways,scripts,overhead] [--cpu]

DIR gets `MODEL.WAY.json.gz` for each way of recording (and `MODEL.execution.et.json.gz`), `scripts/SCRIPT.json.gz` or `.xplane.pb` for
each script under `foretrace record`, `overhead.jsonl`, and `said.txt` with what every command said.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import overhead, train

ROOT = Path(__file__).resolve().parents[3]
SCRIPTS = ("plain_loop", "hugging_face", "lightning_loop", "jax_loop")
GPU_BOUND, CPU_BOUND = ("resnet50", "vgg16"), ("mlp", "gpt2@1-today")


class Commands:
    """Runs commands with the package on their path; what they say goes to said.txt."""

    def __init__(self, library: Path, out: Path) -> None:
        self.library, self.out = library, out
        self.environment = os.environ | {"PYTHONPATH": f"{ROOT / 'python'}{os.pathsep}{ROOT}", "FORETRACE_CUDA_LIBRARY": str(library),
                                         "HF_HUB_OFFLINE": "1", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}

    def run(self, name: str, command: list[str], timeout: float = 120) -> None:
        try:
            done = subprocess.run(command, check=False, env=self.environment, cwd=ROOT, capture_output=True, text=True, timeout=timeout)
            code, text = done.returncode, done.stdout + done.stderr
        except subprocess.TimeoutExpired as late:
            code, text = -1, f"longer than {timeout} s\n{late.stdout!r}\n{late.stderr!r}"
        with open(self.out / "said.txt", "a", encoding="utf-8") as said:
            said.write(f"== {name}: exit {code}\n{text}\n")
        ours = [line for line in text.splitlines() if line.startswith("foretrace: ")]
        print(f"{name}: exit {code}", *ours[-2:], flush=True)

    def record(self, name: str, program: list[str], *options: str) -> None:
        self.run(name, [sys.executable, "-m", "foretrace", "record", *options, "-o", str(self.out / f"{name}.json.gz"), "--",
                        sys.executable, *program])


def ways(commands: Commands, model: str, cpu: bool) -> None:
    """Each way in a process of its own, one after another: none disturbs the times of another."""
    more = ["--cpu"] if cpu else []
    for way in ("kineto", "execution", "nvtx"):
        path = str(commands.out / f"{model}.{way}.json.gz")
        # What `foretrace record --cuda` does, in a process that has imported everything: seconds instead of a quarter of a minute.
        watched = {"CUDA_INJECTION64_PATH": str(commands.library), "FORETRACE_CUDA": "always", "FORETRACE_CUDA_OUTPUT": path}
        code = in_a_copy(functools.partial(train.main, [way, model, path, *more]), watched if way == "nvtx" else {})
        print(f"{model}.{way}: exit {code}", flush=True)


def in_a_copy(run: Callable[[], int], environment: dict[str, str]) -> int:
    """Runs something in a copy of this process that ends as programs do, exit handlers included; its exit code."""
    sys.stdout.flush()
    copy = os.fork()
    if copy:
        return os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1])
    os.environ.update(environment)  # before CUDA is initialised, which reads it
    sys.exit(run())


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--parts", default="ways,scripts,overhead")
    parser.add_argument("--models", nargs="*", default=[*GPU_BOUND, *CPU_BOUND])
    parser.add_argument("--rounds", type=int, default=overhead.ROUNDS)
    parser.add_argument("--cpu", action="store_true", help="tiny networks on the CPU, to try the program itself")
    options: Any = parser.parse_args(argv)
    sys.path.insert(0, str(ROOT / "python"))  # the recorder as it is here; the compiled half is not needed
    (options.out / "scripts").mkdir(parents=True, exist_ok=True)
    commands = Commands(options.library.absolute(), options.out.absolute())
    parts = options.parts.split(",")
    if "scripts" in parts:
        scripts = ROOT / "tools" / "measure" / "records" / "scripts"
        for script in SCRIPTS:  # one after another: work of several processes on one GPU takes turns, and shows as waits
            commands.record(f"scripts/{script}", [str(scripts / f"{script}.py")])
    if "ways" in parts:
        overhead.import_all()
        for model in options.models:
            ways(commands, model, options.cpu)
    if "overhead" in parts:
        how = {"device": "cpu" if options.cpu else "cuda", "tiny": options.cpu}
        overhead.import_all()
        with open(options.out / "overhead.jsonl", "a", encoding="utf-8") as file:
            for model in [m for m in options.models if m in CPU_BOUND]:
                rows = overhead.of_listeners(model, overhead.listeners(options.library.absolute(), options.out), rounds=options.rounds, **how)
                rows.append(overhead.in_a_process(overhead.of_measuring, model, rounds=3 * options.rounds, **how))
                for row in rows:
                    print({k: row.get(k) for k in ("model", "what", "longer", "error")}, flush=True)
                    file.write(json.dumps(row) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
