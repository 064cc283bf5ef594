"""`--ray ADDRESS`: `optimize` and `plan` predict their candidates on a Ray cluster, `ranks` reads the traces of many ranks there.

The search itself runs here and asks for strategies in batches. A batch is dealt out to the workers; answers are used in the
order of the strategies, so the result depends on the trace, the options and the seed alone, not on who computed what or how many
workers there are. In the place of a worker that is lost another is started, which predicts its part of the batch once more. That is
done here: Ray's own restarts can leave what was asked of an actor killed while it starts unanswered for ever. Traces are read
one task per file; what a task gives back is the trace as columns, equal to what reading it here would give. Plans are predicted
by commands, one task each.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Callable
from typing import Any

from ._errors import Error

Outcome = tuple[str, int, "int | None", float, "int | None"]
Evaluate = Callable[[list[str]], list[Outcome]]
# Of one worker during one batch: more is no accident.
MOST_LOSSES = 5
LONGEST_START_S = 120.0
Packed = tuple[bytes, "tuple[int, str, str, int, str] | None"]


def take_address(args: list[str]) -> str | None:
    """What `--ray` names; None without it."""
    for i, arg in enumerate(args):
        if arg == "--ray":
            return args[i + 1] if i + 1 < len(args) else None
        if arg.startswith("--ray="):
            return arg.removeprefix("--ray=")
    return None


def take_plugins(args: list[str]) -> list[str]:
    """The files `--plugin` names."""
    files = [arg.removeprefix("--plugin=") for arg in args if arg.startswith("--plugin=")]
    return files + [args[i + 1] for i, arg in enumerate(args[:-1]) if arg == "--plugin"]


class Worker:
    """Lives on the cluster: holds one step, and the what-ifs of plugins, and predicts strategies of it."""

    def __init__(self, path: str, content: bytes, step: int | None, measured_ms: float | None,
                 plugins: list[tuple[str, bytes]]) -> None:
        from foretrace import _core, _plugin

        for name, source in plugins:
            _plugin.load_for_command_line(local_copy(name, source))
        self._step = _core.StrategyStep(local_copy(path, content), step, measured_ms)

    def ready(self) -> None:
        """Answers once the step is there."""

    def evaluate(self, strategies: list[str]) -> list[Outcome]:
        return self._step.evaluate(strategies)


def local_copy(path: str, content: bytes) -> str:
    """The file itself where this machine has it, else a copy."""
    if os.path.exists(path):
        return path
    suffix = "".join("." + part for part in os.path.basename(path).split(".")[1:])
    with tempfile.NamedTemporaryFile(suffix=suffix, delete=False) as file:
        file.write(content)
    return file.name


def die_once(mark: str | None) -> None:
    """For tests: the first worker that sees no such file writes it and dies."""
    if mark is None:
        return
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os._exit(1)


def read_packed(path: str, content: bytes, strict: bool, partial: bool, lose_once: str | None) -> Packed:
    """On the cluster: one trace."""
    from foretrace import _core

    die_once(lose_once)
    here = local_copy(path, content)
    try:
        return _core.read_packed(here, strict, partial)
    finally:
        if here != path:
            os.unlink(here)


def answer(path: str, content: bytes, words: list[str], plugins: list[tuple[str, bytes]], lose_once: str | None) -> str:
    """On the cluster: one command about a trace, its answer as JSON. `lose_once`: see read_packed."""
    from foretrace import _core, _plugin

    die_once(lose_once)
    for name, source in plugins:
        _plugin.load_for_command_line(local_copy(name, source))
    verb, _, *options = words
    with tempfile.TemporaryDirectory() as folder:
        output = os.path.join(folder, "answer.json")
        _core.run([verb, local_copy(path, content), *options, f"--output={output}"])
        with open(output, encoding="utf-8") as file:
            return file.read()


class Cluster:
    """A cluster that predicts and reads. `lose` and `lose_once` are for tests: the first is called after each batch is dealt
    out, the second names a file whose writer dies."""

    def __init__(self, address: str, workers: int | None = None, lose: Callable[[list[Any]], None] | None = None,
                 lose_once: str | None = None, plugins: list[str] | None = None) -> None:
        try:
            import ray
        except ImportError as error:
            raise Error("--ray needs Ray\n  hint: pip install ray", message="--ray needs Ray",
                        hint="pip install ray", code="usage") from error
        self._ray: Any = ray
        self._lose = lose
        self._lose_once = lose_once
        self._plugins = plugins or []
        if not ray.is_initialized():
            try:
                ray.init(address=None if address == "local" else address, log_to_driver=False, logging_level=logging.ERROR)
            except Exception as error:  # Ray raises what its parts raise
                message = f"no Ray cluster answers at {address}: {error}"
                hint = "`ray status` says whether it runs; --ray local starts one here"
                raise Error(f"{message}\n  hint: {hint}", message=message, hint=hint, code="usage") from error
        self._count = workers or max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def __call__(self, path: str, step: int | None, measured_ms: float | None) -> Evaluate:
        ray = self._ray
        with open(path, "rb") as file:
            content = ray.put(file.read())
        plugins = self._read_plugins()
        remote = ray.remote(num_cpus=1)(Worker)

        def start(count: int) -> list[Any]:
            # What is asked of an actor that dies as it starts may stay unanswered: nothing is asked before it has started.
            started = [remote.remote(path, content, step, measured_ms, plugins) for _ in range(count)]
            ray.wait([worker.ready.remote() for worker in started], num_returns=count, timeout=LONGEST_START_S)
            return started

        workers = start(self._count)

        def evaluate(strategies: list[str]) -> list[Outcome]:
            parts = [strategies[i :: len(workers)] for i in range(len(workers))]
            asked = {i: workers[i].evaluate.remote(part) for i, part in enumerate(parts) if part}
            if self._lose:
                self._lose(workers)
            outcomes: list[Outcome] = [("", 0, None, 1.0, None)] * len(strategies)
            losses = 0
            while asked:
                i, answer = next(iter(asked.items()))
                try:
                    outcomes[i :: len(workers)] = ray.get(answer)
                    del asked[i]
                except ray.exceptions.RayActorError as error:
                    losses += 1
                    if losses > len(workers) * MOST_LOSSES:
                        raise Error(f"workers of the Ray cluster die as they start: {error}",
                                    message="workers of the Ray cluster die as they start", code="declined") from error
                    [workers[i]] = start(1)
                    asked[i] = workers[i].evaluate.remote(parts[i])
            return outcomes

        return evaluate

    def _read_plugins(self) -> list[tuple[str, bytes]]:
        plugins = []
        for name in self._plugins:
            with open(name, "rb") as file:
                plugins.append((os.path.abspath(name), file.read()))
        return plugins

    def answer_all(self, commands: list[list[str]]) -> list[str]:
        """What commands about one trace answer, as JSON, in their order."""
        if not commands:
            return []
        ray = self._ray
        path = commands[0][1]
        with open(path, "rb") as file:
            content = ray.put(file.read())
        remote = ray.remote(num_cpus=1, max_retries=-1)(answer)
        plugins = self._read_plugins()
        answers: list[str] = ray.get([remote.remote(path, content, words, plugins, self._lose_once) for words in commands])
        return answers

    def read_all(self, files: list[str], strict: bool, partial: bool) -> list[Packed]:
        """Every file's trace, or why it cannot be read, in the order of the files."""
        ray = self._ray
        # A task that is lost is tried again for as long as it takes.
        remote = ray.remote(num_cpus=1, max_retries=-1)(read_packed)
        asked = []
        for path in files:
            try:
                with open(path, "rb") as file:
                    content = ray.put(file.read())
            except OSError:  # the worker says why in the words reading has for it
                content = b""
            asked.append(remote.remote(path, content, strict, partial, self._lose_once))
        answers: list[tuple[bytes, tuple[int, str, str, int, str] | None]] = ray.get(asked)
        return answers
