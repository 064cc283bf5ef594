"""Kernels alone and during collectives, from the profiler: grids, channels, times. Started by torchrun (run.py).

usage: -m tools.measure.parallel.contention OUT LABEL [--one-computes] [--short] [--collectives]

For every kernel (products of several grids in BF16, TF32 and FP32, attention, streaming kernels) and every collective: the kernel alone on all
ranks, on the first rank only, and on all ranks while collectives run one after another on another stream. A kernel counts as overlapping when it
lies between the begin of the first collective and the end of the last. Rows go to OUT/contention.r<rank>.jsonl. --collectives: only those, alone.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F

from .ranks import about, begin, keep, settle

MIB = 1 << 20
Run = Callable[[], Any]

# Rows, columns, inner size: from less than a wave of 33 SMs to many waves of 132, with few and many turns of the inner loop.
BF16 = [(1024, 512, 4096), (1024, 1024, 4096), (2048, 1024, 1024), (2048, 1024, 4096), (2176, 1024, 4096), (4096, 1024, 2048), (4224, 1024, 4096),
        (4096, 2048, 1024), (8192, 1024, 1024), (8192, 1024, 2816), (8192, 2816, 1024), (1024, 2816, 8192), (8192, 8192, 1024), (4096, 4096, 4096)]
TF32 = [(1024, 512, 2048), (2048, 1024, 2048), (2176, 1024, 2048), (4096, 1024, 2048), (8192, 1024, 1024), (4096, 2816, 1024)]
FP32 = [(1024, 512, 1024), (2048, 1024, 1024), (4096, 1024, 1024)]


def scaled(mib: float, device: torch.device) -> float:
    return mib if device.type == "cuda" else min(mib, 0.25)


def product(rows: int, columns: int, inner: int, dtype: torch.dtype, device: torch.device) -> Run:
    if device.type == "cpu":
        rows, columns, inner = rows // 32, columns // 32, inner // 32
    a, b = torch.randn(rows, inner, device=device, dtype=dtype), torch.randn(columns, inner, device=device, dtype=dtype)
    out = torch.empty(rows, columns, device=device, dtype=dtype)
    return lambda: torch.mm(a, b.t(), out=out)


def streaming(name: str, mib: float, device: torch.device) -> Run:
    n = int(scaled(mib, device) * MIB / 2)
    x, y = (torch.randn(n // 1024, 1024, device=device, dtype=torch.bfloat16) for _ in range(2))
    out = torch.empty_like(x)
    wide = torch.randn(n // 2, device=device) if name == "cast" else None
    weight = torch.ones(1024, device=device, dtype=torch.bfloat16)
    return {"copy": lambda: out.copy_(x), "add": lambda: torch.add(x, y, out=out), "gelu": lambda: F.gelu(x), "softmax": lambda: torch.softmax(x, -1),
            "layer_norm": lambda: F.layer_norm(x, (1024,), weight), "fill": lambda: out.zero_(), "sum": lambda: x.sum(0),
            "cast": lambda: wide.bfloat16() if wide is not None else None}[name]


def attention(batch: int, heads: int, length: int, device: torch.device) -> Run:
    q, k, v = (torch.randn(batch, heads, length, 64, device=device, dtype=torch.bfloat16) for _ in range(3))
    return lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True)


def kernels(device: torch.device, short: bool) -> dict[str, tuple[dict[str, Any], Callable[[], Run], bool]]:
    """What a kernel is, how it is made, and whether TF32 is on for it."""
    out: dict[str, tuple[dict[str, Any], Callable[[], Run], bool]] = {}
    for kind, shapes, dtype in (("bf16", BF16, torch.bfloat16), ("tf32", TF32, torch.float32), ("fp32", FP32, torch.float32)):
        for m, n, k in shapes[1::3] if short else shapes:
            what = {"kind": "product", "type": kind, "m": m, "n": n, "k": k}
            out[f"{kind}.{m}x{n}x{k}"] = (what, partial(product, m, n, k, dtype, device), kind == "tf32")
    for name, mib in (("copy", 64), ("copy", 8), ("add", 64), ("gelu", 32), ("softmax", 64), ("layer_norm", 16), ("fill", 64), ("sum", 64), ("cast", 32)):
        if short and name not in ("copy", "softmax"):
            continue
        out[f"{name}.{mib}"] = ({"kind": "streaming", "name": name, "mib": mib}, partial(streaming, name, mib, device), False)
    for b, h, t in ((8, 16, 1024), (2, 8, 1024)):
        out[f"attention.{b}x{h}x{t}"] = ({"kind": "attention", "b": b, "h": h, "t": t}, partial(attention, b, h, t, device), False)
    return out


def collective(name: str, mib: float, device: torch.device) -> Run:
    """`mib` is the whole tensor: what all ranks hold together after an all-gather, before a reduce-scatter."""
    rank, world = dist.get_rank(), dist.get_world_size()
    n = int(scaled(mib, device) * MIB / 2) // (world * 8) * world * 8
    x, y = (torch.zeros(n, device=device, dtype=torch.bfloat16) for _ in range(2))
    part = x[: n // world].clone()
    ring = [dist.P2POp(dist.isend, x, (rank + 1) % world), dist.P2POp(dist.irecv, y, (rank - 1) % world)]
    return {"all_reduce": lambda: dist.all_reduce(x, async_op=True), "all_gather": lambda: dist.all_gather_into_tensor(y, part, async_op=True),
            "reduce_scatter": lambda: dist.reduce_scatter_tensor(part, x, async_op=True), "all_to_all": lambda: dist.all_to_all_single(y, x, async_op=True),
            "send_recv": lambda: dist.batch_isend_irecv(ring)}[name]


def works_of(results: list[Any]) -> list[Any]:
    """The handles of collectives; kernels return tensors."""
    flat = [w for r in results for w in (r if isinstance(r, list) else [r])]
    return [w for w in flat if isinstance(w, dist.Work)]


class Session:
    """All launches of one recording, each under a mark that says what it belongs to."""

    def __init__(self, device: torch.device, computes: bool):
        self.device, self.computes = device, computes
        self.alone_ms: dict[str, float] = {}

    def time_of(self, run: Run, count: int) -> float:
        """Milliseconds, the longest of all ranks."""
        settle(self.device)
        began = time.perf_counter()
        started = [run() for _ in range(count)]
        for work in works_of(started):
            work.wait()
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        ms = torch.tensor([(time.perf_counter() - began) * 1e3 / count], device=self.device)
        dist.all_reduce(ms, op=dist.ReduceOp.MAX)
        return float(ms)

    def marked(self, mark: str, compute: Run | None, computes: int, carry: Run | None, carries: int) -> None:
        settle(self.device)
        with torch.profiler.record_function(f"pair|{mark}"):
            started = [carry() for _ in range(carries)] if carry else []
            if compute:
                for _ in range(computes):
                    compute()
            for work in works_of(started):
                work.wait()
            if self.device.type == "cuda":
                torch.cuda.synchronize()


def parts_of(trace: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Kernels by the mark under which they were launched."""
    events = trace["traceEvents"]
    marks = sorted((e["ts"], e["ts"] + e["dur"], e["name"][5:]) for e in events
                   if e.get("cat") == "user_annotation" and str(e.get("name", "")).startswith("pair|"))
    launched: dict[int, str] = {}
    calls = sorted((e["ts"], e["args"]["correlation"]) for e in events if e.get("cat") in ("cuda_runtime", "cuda_driver") and "correlation" in e.get("args", {}))
    at = 0
    for ts, correlation in calls:
        while at < len(marks) and marks[at][1] < ts:
            at += 1
        if at < len(marks) and marks[at][0] <= ts:
            launched.setdefault(correlation, marks[at][2])
    out = defaultdict(list)
    for e in events:
        if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset") and (mark := launched.get(e["args"].get("correlation"))):
            out[mark].append(e)
    return out


def shape_of(e: dict[str, Any]) -> dict[str, Any]:
    a = e.get("args", {})
    return {"kernel": e["name"][:160], "grid": a.get("grid"), "block": a.get("block"), "registers": a.get("registers per thread"),
            "shared": a.get("shared memory"), "occupancy": a.get("est. achieved occupancy %")}


def spread(values: list[float]) -> dict[str, Any]:
    v = sorted(values)
    return {"us": round(statistics.median(v), 2), "p10_us": round(v[len(v) // 10], 2), "p90_us": round(v[-1 - len(v) // 10], 2), "n": len(v)} if v else {"n": 0}


def is_nccl(e: dict[str, Any]) -> bool:
    return "nccl" in e["name"].lower()


def summary(kernels_of_mark: list[dict[str, Any]]) -> dict[str, Any]:
    """Per kind of kernel of a mark: those during the collectives, if there are any; and the collectives."""
    carried = sorted((e["ts"], e["ts"] + e["dur"]) for e in kernels_of_mark if is_nccl(e))
    computed: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for e in kernels_of_mark:
        if not is_nccl(e):
            computed[e["name"], str(e.get("args", {}).get("grid"))].append(e)

    def overlaps(e: dict[str, Any]) -> bool:
        return not carried or (e["ts"] >= carried[0][0] and e["ts"] + e["dur"] <= carried[-1][1])

    row: dict[str, Any] = {"parts": [shape_of(es[0]) | spread([e["dur"] for e in es if overlaps(e)]) for es in computed.values()]}
    if carried:
        first = next(e for e in kernels_of_mark if is_nccl(e))
        last = max((e["ts"] + e["dur"] for e in kernels_of_mark if not is_nccl(e)), default=0)
        row["collective"] = shape_of(first) | spread([b - a for a, b in carried if not computed or b <= last])
    return row


COLLECTIVES = [("all_gather", 64), ("reduce_scatter", 64), ("all_reduce", 64), ("all_to_all", 64), ("send_recv", 64), ("all_reduce", 8)]
TABLE = [0.0625, 0.5, 2, 8, 32, 128]  # MiB of collectives alone


def record_pairs(session: Session, short: bool) -> dict[str, dict[str, Any]]:
    """What each mark is. The first collectives meet every kernel, the others every third."""
    device = session.device
    what: dict[str, dict[str, Any]] = {}
    carriers = {(name, mib): collective(name, mib, device) for name, mib in COLLECTIVES}
    carry_ms = {}
    for key, run in carriers.items():
        session.time_of(run, 2)
        carry_ms[key] = session.time_of(run, 3)
        what[f"{key[0]}.{key[1]}|alone"] = {"collective_of": key[0], "mib": key[1], "mode": "alone"}
        session.marked(f"{key[0]}.{key[1]}|alone", None, 0, run, 6)
    for at, (name, (about_it, make, tf32)) in enumerate(kernels(device, short).items()):
        torch.backends.cuda.matmul.allow_tf32 = tf32
        run = make()
        session.time_of(run, 3)
        ms = session.time_of(run, 5)
        here = run if session.computes else None
        count = max(4, min(40, int(4 / max(ms, 0.02)))) if device.type == "cuda" else 2
        what[f"{name}|alone"] = about_it | {"mode": "alone"}
        session.marked(f"{name}|alone", here, count, None, 0)
        what[f"{name}|first"] = about_it | {"mode": "first"}
        session.marked(f"{name}|first", run if dist.get_rank() == 0 else None, count, None, 0)
        for k, (key, carry) in enumerate(carriers.items()):
            if k >= 2 and (at + k) % 3 != 0:
                continue
            carries = max(2, min(40, int(2.0 * count * ms / carry_ms[key]) + 1)) if device.type == "cuda" else 2
            mark = f"{name}|{key[0]}.{key[1]}"
            what[mark] = about_it | {"mode": "beside", "collective_of": key[0], "collective_mib": key[1]}
            session.marked(mark, here, count, carry, carries)
        if dist.get_rank() == 0:
            print(f"{name}: {ms:.3f} ms", flush=True)
    return what


def table(session: Session, out: Path, label: str) -> None:
    for name in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv"):
        for mib in TABLE:
            run = collective(name, mib, session.device)
            session.time_of(run, 2)
            ms = statistics.median(session.time_of(run, 8 if mib <= 2 else 3) for _ in range(3))
            if dist.get_rank() == 0:
                each = mib / dist.get_world_size() if name == "all_gather" else mib  # as foretrace reads it: a rank's input
                row = {"tag": label, "coll": name, "mb": each, "mib": mib, "ms": ms}
                if ctas := os.environ.get("NCCL_MAX_CTAS"):
                    row["channels"] = int(ctas)
                keep(out / "collectives.jsonl", row | about(session.device))


def pairs(session: Session, out: Path, label: str, short: bool) -> None:
    began = time.perf_counter()
    from torch.profiler import ProfilerActivity, profile

    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if session.device.type == "cuda" else [])
    with profile(activities=activities) as p:
        what = record_pairs(session, short)
    file = out / f"contention.{label}.r{dist.get_rank()}.json"
    p.export_chrome_trace(str(file))
    parts = parts_of(json.loads(file.read_bytes()))
    file.unlink()
    for mark, row in what.items():
        keep(out / f"contention.r{dist.get_rank()}.jsonl", {"label": label, "mark": mark} | row | about(session.device) | summary(parts.get(mark, [])))
    if dist.get_rank() == 0:
        print(f"ROW contention {label}: {len(what)} marks, {sum(map(len, parts.values()))} kernels, {time.perf_counter() - began:.1f} s", flush=True)


def main() -> None:
    out, label = Path(sys.argv[1]), sys.argv[2]
    short, one = "--short" in sys.argv, "--one-computes" in sys.argv
    out.mkdir(parents=True, exist_ok=True)
    device = begin()
    session = Session(device, not one or dist.get_rank() == 0)
    if "--collectives" not in sys.argv:
        pairs(session, out, label, short)
    table(session, out, label)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
