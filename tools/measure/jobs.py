"""All jobs by name."""

from __future__ import annotations

from . import models, unseen

JOBS: dict[str, models.Job] = models.JOBS | unseen.JOBS
