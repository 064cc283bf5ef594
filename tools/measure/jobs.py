"""All jobs by name."""

from __future__ import annotations

from . import models, published, unseen

JOBS: dict[str, models.Job] = models.JOBS | unseen.JOBS | published.JOBS
