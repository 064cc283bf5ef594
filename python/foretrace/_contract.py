"""What a what-if declares about itself, typed: what it needs of a trace, what it changes, which parts of the answer it models.

The same words as in the library (include/foretrace/whatif/whatif.hpp); a test holds the two lists together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Need = Literal["shapes", "a backward pass", "layer ranges", "memory events", "communication", "DataLoader ranges"]
"""What the trace must hold; where it does not, the what-if is declined before its function is called."""

Changes = Literal["costs", "batch", "accumulation", "precision", "layout", "kernels", "recomputation", "placement",
                  "optimizer", "compilation", "launches", "waits", "input", "host", "device", "workers", "network", "sequence", "depth"]
"""What a change is a change of: what others, a search among them, recognise it by. "costs": of tasks, and nothing else."""

Part = Literal["unchanged", "modelled", "not modelled"]
"""What a what-if says about one part of the answer: it is unchanged, it is predicted, or it changes by an unknown amount."""

Effort = Literal["one line", "a few lines", "work"]
"""What it takes to switch a change on in a training script."""

Stage = Literal["batch", "precision", "kernels", "memory", "optimizer", "runtime"]
"""Where a change stands among others: what changes the work comes before what changes how it runs."""


@dataclass(frozen=True)
class Parts:
    """Which parts of the answer a what-if models."""

    cpu: Part = "modelled"
    gpu: Part = "modelled"
    memory: Part = "unchanged"


USUAL_PARTS = Parts()
"""The step's times are modelled, and its memory stays as it is."""
