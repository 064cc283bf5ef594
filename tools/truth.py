"""Measured steps: the rows of a truth folder, the what-ifs their variants stand for, and how far a prediction is from them.

A truth folder holds `truth.jsonl`, one row per model and variant, and the traces the rows name (data/README.md).
"""

import csv
import gzip
import json
import math
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# What a part of a variant's name switches on; longer names first, since names are read from the left ("bf16sdpafused").
SWITCHES = {
    "workers2unpinned": "dataloader:workers=2,pin=0",
    "workers8unpinned": "dataloader:workers=8,pin=0",
    "graphlayers": "cuda-graph:layers={blocks}",
    "compress8": "compress-activations:bits=8",
    "lossless": "compress-activations:code=lossless",
    "ckptreentrant": "checkpoint:reentrant=1",
    "substitute": "substitute",
    "foreach": "foreach-optimizer",
    "batchnorm": "batchnorm",
    "compress": "compress-activations",
    "prefetch": "offload:prefetch=1",
    "offload": "offload",
    "compile": "compile",
    "workers12": "dataloader:workers=12",
    "workers2": "dataloader:workers=2",
    "workers8": "dataloader:workers=8",
    "workers": "dataloader",
    "accum2": "accumulate:n=2",
    "accum4": "accumulate:n=4",
    "nosync": "no-sync",
    "fused": "fused-optimizer",
    "graph": "cuda-graph",
    "seq2": "sequence:x=2",
    "seqh": "sequence:x=0.5",
    "tf32": "tf32",
    "fp32": "fp32",
    "bf16": "amp:dtype=bf16",
    "halffp16": "half:dtype=fp16",
    "layers2": "layers:x=2",
    "layersh": "layers:x=0.5",
    "sdpa": "flash-attention",
    "half": "half",
    "ckpt": "checkpoint",
    "amp": "amp",
    "bs2": "batch:x=2",
    "bs4": "batch:x=4",
    "bs6": "batch:x=6",
    "bs8": "batch:x=8",
    "bsh": "batch:x=0.5",
    "fp8": "fp8",
    "cl": "channels-last",
}
# Recorded variants that a what-if leads back from, and what their base is called as its row.
BACK = {"tf32": "fp32"}
# Variants that change the job or the recording, not the step's implementation: nothing to predict.
NO_WHATIF = {"base", "again", "stack", "plain", "sgd", "unpinned"}

# What the change needs to know of the network: the modules that were played from graphs of their own, and where layers were made alike by force.
BLOCKS = {
    "resnet18": "layer?.?", "resnet50": "layer?.?", "vit_b_16": "encoder.layers.encoder_layer_*",
    "convnext_tiny": "features.1.?|features.3.?|features.5.?|features.7.?", "swin_t": "features.1.?|features.3.?|features.5.?|features.7.?",
}  # fmt: skip
ENLARGED = {"squeezenet1_1"}

# Folders of networks kept for the last look: read when they are named.
NAMED_ONLY = {"h200-unseen", "h200-throughput"}

# Rows that are not the step of their base: while it is captured, transformers makes masks that it leaves out otherwise, and
# attention takes other kernels (data/README.md).
OTHER_STEPS = {("gpt2-today", "graph"), ("bert_base-today", "graph"), ("llama_gqa-today", "graph")}

# Of a step, from which on the GPU decides it.
GPU_BOUND = 0.9

QUIET_SPREAD = 0.05  # p90 - p10 of a quiet row, as a part of its median


def whatifs_of(variant: str) -> list[str] | None:
    """The what-ifs a variant stacks, in order; None when its name holds something unknown."""
    uses = []
    while variant:
        name = next((n for n in SWITCHES if variant.startswith(n)), None)
        if name is None:
            return None
        uses.append(SWITCHES[name])
        variant = variant[len(name):]
    return uses


@dataclass
class Row:
    folder: Path
    data: dict

    @property
    def model(self) -> str:
        return self.data["model"]

    @property
    def variant(self) -> str:
        return self.data["variant"]

    @property
    def median(self) -> float:
        return self.data["median_ms"]

    @property
    def clean(self) -> bool:
        """Timed in a process of its own that no profiler had touched; others had CUPTI attached, but for their base."""
        return "took_s" in self.data and not self.data.get("run")

    @property
    def cpu_bound(self) -> bool | None:
        """Whether the GPU has nothing to do for a part of the step; None where its time is unknown."""
        return None if not self.gpu_ms else self.data.get("gpu_busy_ms", self.gpu_ms) < GPU_BOUND * self.median

    @property
    def judges_time(self) -> bool:
        """CUPTI makes steps that the CPU decides 15 to 35 % longer: of those only clean rows and bases tell the time. Where the
        GPU's time is unknown, a step that varies is taken for one of them: what the GPU decides does not."""
        if self.clean or self.variant == "base" or self.variant in BACK.values():
            return True
        return self.quiet if self.cpu_bound is None else not self.cpu_bound

    @property
    def uses(self) -> list[str] | None:
        """The what-ifs of its variant, as they are said of its network."""
        found = whatifs_of(self.variant)
        if found is None:
            return None
        wide = "substitute:enlarge=1" if self.network in ENLARGED else "substitute"
        return [wide if use == "substitute" else use.replace("{blocks}", BLOCKS.get(self.network, "*")) for use in found]

    @property
    def network(self) -> str:
        """What left-out folds go by: `gpt2`, `gpt2-today` and `gpt2@1-today` are one."""
        return self.data.get("network", self.model)

    @property
    def quiet(self) -> bool:
        return self.data["p90_ms"] - self.data["p10_ms"] <= QUIET_SPREAD * self.median

    @property
    def trace(self) -> Path | None:
        name = self.data.get("trace")
        return self.folder / name if name and (self.folder / name).exists() else None

    @cached_property
    def gpu_ms(self) -> float | None:
        """Kernels and copies of one step: as measured, else summed over the row's own trace."""
        if self.data.get("gpu_ms"):
            return self.data["gpu_ms"]
        return gpu_ms_of_trace(self.trace) if self.trace else None

    @property
    def peak_bytes(self) -> int | None:
        # A CUDA graph's private pool is not in the allocator's peak.
        return None if "graph" in self.variant else self.data.get("peak_bytes")

    def error_pct(self, ms: float) -> float:
        """Signed: to the median of a quiet row, to the nearer end of [p10, p90] of a noisy one."""
        if self.quiet:
            return 100 * (ms - self.median) / self.median
        low, high = self.data["p10_ms"], self.data["p90_ms"]
        return 100 * (ms - min(max(ms, low), high)) / self.median


def trace_events(path: Path) -> list[dict]:
    with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
        return json.load(file)["traceEvents"]


def json_lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


def csv_rows(path: Path) -> list[dict]:
    with gzip.open(path, "rt", newline="") if path.suffix == ".gz" else open(path, newline="") as file:
        return list(csv.DictReader(file))


def gpu_ms_of_trace(path: Path) -> float:
    events = trace_events(path)
    steps = {e["name"] for e in events if str(e.get("name", "")).startswith("ProfilerStep#")}
    kinds = ("kernel", "gpu_memcpy", "gpu_memset")
    return sum(e["dur"] for e in events if e.get("cat") in kinds) / 1e3 / max(1, len(steps))


def read_rows(folder: Path) -> list[dict]:
    """Rows of truth.jsonl. Those that moments.jsonl has as well were measured again in other moments of the host: their times are the geometric
    mean of all, since one alone is as far from that as the host's speed happened to be, and their spread is from the lowest to the highest."""
    rows, moments = json_lines(folder / "truth.jsonl"), folder / "moments.jsonl"
    more: dict[tuple[str, str], list[dict]] = {}
    for row in json_lines(moments) if moments.exists() else ():
        if row.get("median_ms"):
            more.setdefault((row["model"], row["variant"]), []).append(row)

    def mean(values: list[float]) -> float:
        return math.exp(sum(math.log(max(v, 1e-6)) for v in values) / len(values))

    for row in rows:
        every = [row, *more.get((row.get("model", ""), row.get("variant", "")), [])]
        if len(every) == 1 or not row.get("median_ms"):
            continue
        merged = {"median_ms": mean([r["median_ms"] for r in every]), "p10_ms": min(r["p10_ms"] for r in every),
                  "p90_ms": max(r["p90_ms"] for r in every), "moments": len(every)}
        if "host_ms" in row:
            merged["host_ms"] = {p: mean([r["host_ms"][p] for r in every]) for p in row["host_ms"]}
        row.update(merged)
    return rows


class Folder:
    """A truth folder: its bases that have a trace, and the rows predicted from each."""

    def __init__(self, path: Path, every: bool = False):
        """`every`: also rows that cannot be predicted from their base (OTHER_STEPS)."""
        self.path = path
        self.name = path.name
        self.rows = [Row(path, row) for row in read_rows(path)]
        # A row whose run failed carries an error instead of figures.
        self.rows = [r for r in self.rows if r.data.get("median_ms") and "variant" in r.data]
        self.rows = [r for r in self.rows if every or (r.model, r.variant) not in OTHER_STEPS]

    def base_ms(self, base: Row) -> float:
        """The base's step; where it was measured again, the mean of both: a host drifts."""
        again = [r.median for r in self.rows if base.variant == "base" and r.model == base.model and r.variant == "again" and r.clean]
        return math.exp(sum(map(math.log, [base.median, *again])) / (1 + len(again)))

    def cases(self) -> list[tuple[Row, list[Row]]]:
        out = []
        for base in self.rows:
            if base.variant != "base" or base.trace is None:
                continue
            mine = [r for r in self.rows if r.model == base.model and r.variant not in NO_WHATIF
                    and r.data.get("run") == base.data.get("run")]
            out.append((base, mine))
        # Rows of other runs than any base's belong to the model's first base.
        seen = {id(r) for _, rows in out for r in rows}
        for base, mine in out:
            for r in self.rows:
                if r.model == base.model and r.variant not in NO_WHATIF and id(r) not in seen:
                    seen.add(id(r))
                    mine.append(r)
        return out


    def back(self) -> list[tuple[Row, list[Row]]]:
        """Recorded variants, and the base that a what-if makes of them again."""
        bases = {(r.model, r.data.get("run")): r for r in self.rows if r.variant == "base"}
        return [(row, [Row(self.path, base.data | {"variant": BACK[row.variant]})]) for row in self.rows
                if row.variant in BACK and row.trace and (base := bases.get((row.model, row.data.get("run"))))]


def default_folders() -> list[Path]:
    """Every truth folder of the project, and those of $FORETRACE_TRUTH that hold one step on one GPU."""
    found = sorted(p.parent for p in (ROOT / "data").glob("*/truth.jsonl") if p.parent.name not in NAMED_ONLY)
    if truth := os.environ.get("FORETRACE_TRUTH"):
        found += [Path(truth, n) for n in ("h200", "h200-large") if Path(truth, n, "truth.jsonl").exists()]
    return found


def with_figures(trace: Path, figures: dict | None, folder: Path) -> Path:
    """The trace with these figures in place of the recorder's; None: as a plain profiler would have written it."""
    with gzip.open(trace, "rt") as file:
        text = file.read()
    key = '"foretrace":'
    at = text.find(key, 0, text.find('"traceEvents"'))
    if at >= 0:
        _, end = json.JSONDecoder().raw_decode(text, at + len(key) + (text[at + len(key)] == " "))
        text = text[:at] + text[end:].lstrip(" ,\n")
    if figures is not None:
        text = "{" + f'{key}{json.dumps(figures)},' + text[text.index("{") + 1:]
    out = folder / trace.name
    with gzip.open(out, "wt", compresslevel=1) as file:
        file.write(text)
    return out
