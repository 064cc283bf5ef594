"""`foretrace optimize … --ray ADDRESS`: candidates are predicted on a Ray cluster.

The search itself runs here and asks for strategies in batches. A batch is dealt out to the workers; answers are used in the
order of the strategies, so the result depends on the trace, the options and the seed alone, not on who computed what or how many
workers there are. A worker that is lost is started again by Ray and its part of the batch predicted once more.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from typing import Any

from ._errors import Error

Outcome = tuple[str, int, "int | None", float]
Evaluate = Callable[[list[str]], list[Outcome]]


def take_address(args: list[str]) -> str | None:
    """What `--ray` names; None without it."""
    for i, arg in enumerate(args):
        if arg == "--ray":
            return args[i + 1] if i + 1 < len(args) else None
        if arg.startswith("--ray="):
            return arg.removeprefix("--ray=")
    return None


class Worker:
    """Lives on the cluster: holds one step and predicts strategies of it."""

    def __init__(self, path: str, content: bytes, step: int | None, measured_ms: float | None) -> None:
        from foretrace import _core

        if not os.path.exists(path):  # another machine
            suffix = "".join("." + part for part in os.path.basename(path).split(".")[1:])
            with tempfile.NamedTemporaryFile(suffix=suffix, delete=False) as file:
                file.write(content)
            path = file.name
        self._step = _core.StrategyStep(path, step, measured_ms)

    def evaluate(self, strategies: list[str]) -> list[Outcome]:
        return self._step.evaluate(strategies)


class Cluster:
    """Workers for one trace. `lose` is for tests: called after each batch is dealt out."""

    def __init__(self, address: str, workers: int | None = None, lose: Callable[[list[Any]], None] | None = None) -> None:
        try:
            import ray
        except ImportError as error:
            raise Error("--ray needs Ray\n  hint: pip install 'foretrace[ray]'", message="--ray needs Ray",
                        hint="pip install 'foretrace[ray]'", code="usage") from error
        self._ray = ray
        self._lose = lose
        if not ray.is_initialized():
            try:
                ray.init(address=None if address == "local" else address, log_to_driver=False, logging_level="ERROR")
            except Exception as error:  # Ray raises what its parts raise
                message = f"no Ray cluster answers at {address}: {error}"
                hint = "`ray status` says whether it runs; --ray local starts one here"
                raise Error(f"{message}\n  hint: {hint}", message=message, hint=hint, code="usage") from error
        self._count = workers or max(1, int(ray.cluster_resources().get("CPU", 1)))

    def __call__(self, path: str, step: int | None, measured_ms: float | None) -> Evaluate:
        ray = self._ray
        with open(path, "rb") as file:
            content = ray.put(file.read())
        # Restarted and asked again for ever: a lost worker loses nothing.
        remote = ray.remote(num_cpus=1, max_restarts=-1, max_task_retries=-1)(Worker)
        workers = [remote.remote(path, content, step, measured_ms) for _ in range(self._count)]

        def evaluate(strategies: list[str]) -> list[Outcome]:
            parts = [strategies[i :: len(workers)] for i in range(len(workers))]
            asked = [worker.evaluate.remote(part) for worker, part in zip(workers, parts) if part]
            if self._lose:
                self._lose(workers)
            answers = ray.get(asked)
            outcomes: list[Outcome] = [("", 0, None, 1.0)] * len(strategies)
            for i, answer in enumerate(answers):
                outcomes[i :: len(workers)] = answer
            return outcomes

        return evaluate
