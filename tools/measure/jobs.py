"""All jobs by name."""

from __future__ import annotations

from . import further, models, published, unseen

JOBS: dict[str, models.Job] = models.JOBS | further.JOBS | unseen.JOBS | published.JOBS


def import_what_jobs_need(said_by: str) -> None:
    """Before processes are forked; nothing of it touches the GPU."""
    for name in ("torchvision", "transformers"):
        try:
            __import__(name)
        except ImportError:
            print(f"{said_by}: no {name}", flush=True)
