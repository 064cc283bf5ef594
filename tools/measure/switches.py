"""What a row's name says: `gpt2@2-today` is a job, its batch and its start; `bf16sdpafused` the switches of a variant."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

# What is on before a variant's own switches. "" is strict FP32, eager attention, the job's own optimizer.
STARTS: dict[str, dict[str, Any]] = {
    "": {},
    "today": {"amp": "bf16", "attn": "sdpa", "opt": "fused"},
    "image": {"amp": "bf16", "cl": 1, "opt": "fused"},
    "compiled": {"amp": "bf16", "attn": "sdpa", "opt": "fused", "compile": 1},
}
# The names tools/truth.py reads, and a few that change the job: longer ones first, since names are read from the left.
SWITCHES: dict[str, dict[str, Any]] = {
    "graphlayers": {"graphlayers": 1},
    "substitute": {"substitute": 1},
    "batchnorm": {"batchnorm": 1},
    "compress8": {"compress": "8"},
    "compress": {"compress": "16"},
    "lossless": {"compress": "lossless"},
    "prefetch": {"offload": "prefetch"},
    "unpinned": {"pin": 0},
    "workers2": {"workers": 2},
    "workers8": {"workers": 8},
    "halffp16": {"half": "fp16"},
    "half": {"half": "bf16"},
    "layers2": {"layers": 2.0},
    "layersh": {"layers": 0.5},
    "ckptreentrant": {"ckpt": "reentrant"},
    "foreach": {"opt": "foreach"},
    "offload": {"offload": 1},
    "compile": {"compile": 1},
    "accum2": {"accum": 2},
    "accum4": {"accum": 4},
    "nosync": {"nosync": 1},
    "fused": {"opt": "fused"},
    "graph": {"graph": 1},
    "again": {},
    "tf32": {"tf32": 1},
    "bf16": {"amp": "bf16"},
    "sdpa": {"attn": "sdpa"},
    "ckpt": {"ckpt": "plain"},
    "base": {},
    "amp": {"amp": "fp16"},
    "seq2": {"seqx": 2.0},
    "seqh": {"seqx": 0.5},
    "fp8": {"fp8": 1},
    "bs2": {"bsx": 2.0},
    "bs4": {"bsx": 4.0},
    "bs6": {"bsx": 6.0},
    "bs8": {"bsx": 8.0},
    "bsh": {"bsx": 0.5},
    "cl": {"cl": 1},
}


@dataclass(frozen=True)
class Spec:
    """One row to measure. `trace`: also record it."""

    model: str
    variant: str
    trace: bool = False

    @property
    def key(self) -> str:
        return f"{self.model}.{self.variant}"

    @property
    def job(self) -> str:
        return parse_model(self.model)[0]

    @property
    def start(self) -> str:
        return parse_model(self.model)[2]

    @property
    def batch(self) -> int:
        """Before a variant's own factor."""
        from .jobs import JOBS
        return parse_model(self.model)[1] or JOBS[self.job].batch

    def switches(self, update: str) -> dict[str, Any]:
        """`update`: the job's own optimizer, as in "loop"."""
        found = {"opt": update, "amp": None, "tf32": 0, "attn": "eager"} | STARTS[self.start]
        rest = self.variant
        while rest:
            name = next((n for n in SWITCHES if rest.startswith(n)), None)
            if name is None:
                raise ValueError(f"nothing is called {rest!r} in the variant {self.variant!r}")
            found |= SWITCHES[name]
            rest = rest[len(name):]
        return found


def parse_model(model: str) -> tuple[str, int | None, str]:
    """"gpt2@2-today" -> ("gpt2", 2, "today"); no batch: the job's own."""
    match = re.fullmatch(r"([a-z0-9_]+)(?:@(\d+))?(?:-([a-z]+))?", model)
    if not match or (match[3] or "") not in STARTS:
        raise ValueError(f"{model!r} is not JOB[@BATCH][-START] with START one of {', '.join(filter(None, STARTS))}")
    return match[1], int(match[2]) if match[2] else None, match[3] or ""


def parse_rows(text: str) -> list[Spec]:
    """Lines "MODEL VARIANT VARIANT+ …": one Spec a variant, `+` for a trace; `#` begins a comment."""
    out = []
    for line in text.splitlines():
        words = line.split("#")[0].split()
        out += [Spec(words[0], v.removesuffix("+"), v.endswith("+")) for v in words[1:]]
    return out
