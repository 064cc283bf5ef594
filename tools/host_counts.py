"""What a phase takes by what it is made of: calls of modules, and launches where one is like the other (tools/fit_host.py writes it
into a host's file). Numbers do not change with the host's speed, as traced times do; how far they are believed beside those
is what left-one-network-out says of both."""

from statistics import median
from typing import Any

import numpy as np

FAR = 0.69  # log 2; kFarApart of src/host/phase_counts.cpp
ENOUGH = 30  # launches of a phase that enters the fit: fewer say more about the Python around them
Figure = tuple[float, str, float]


def compiled(s: Any) -> bool:
    return s.phase != "update" and s.traced.generated > 0


def modules(s: Any) -> int:
    """Calls of modules in a phase: compiled passes, backward and updates have none."""
    return 0 if s.phase != "forward" or compiled(s) else s.traced.layers


def module_figures(found: dict, some: list) -> dict[str, Figure]:
    """A call alone, nested and in a row, at speed 1; and modules for each operation of a forward pass, for traces that do not show them."""
    calls = [v / n for name, n in (("identity", 1), ("sequential_of_8", 9), ("nested_8_deep", 9)) for v in found.get(("module", name, "off"), [])]
    each = [s.traced.layers / s.traced.ops for s in some if modules(s) and "ckpt" not in s.name]
    return {"module_us": (median(calls), f"{len(calls)} rounds of modules alone; nested and in a row", float(np.std(calls) / np.sqrt(len(calls)))),
            "modules_of_op": (median(each), f"{len(each)} forward passes", float(np.std(each) / np.sqrt(len(each))))}


def kind(s: Any) -> str | None:
    """Which launches of a phase are alike; None: they are not, or there are few."""
    if compiled(s):
        return "compiled"
    return s.phase if s.phase != "forward" and s.traced.launches > ENOUGH else None


def counted_us(s: Any, c: dict[str, float]) -> float:
    """At the usual speed."""
    if compiled(s):
        return c["usual_speed"] * (c["compiled_call_us"] + c["compiled_launch_us"] * s.traced.launches)
    return c[f"launch_{s.phase}_us"] * s.traced.launches


def weights(pairs: list[tuple[str, float, float]]) -> dict[str, Figure]:
    """`pairs`: kind, log error by the trace's times and by the count, each left out. The mix of least square error of each kind, no
    more than three quarters: a handful of networks decide."""
    out = {}
    for k in ("backward", "update", "compiled"):
        mine = np.array([(t, n) for name, t, n in pairs if name == k])
        (vt, vc), both = np.mean(mine**2, axis=0), float(np.mean(mine[:, 0] * mine[:, 1]))
        w = float(np.clip((vt - both) / max(1e-9, vt + vc - 2 * both), 0.01, 0.75))
        out[f"counted_{k}"] = (w, f"{len(mine)} phases: by time {100 * np.sqrt(vt):.0f} %; by count {100 * np.sqrt(vc):.0f} %", 0.0)
    return out


def mixed(by_time: float, by_count: float, weight: float) -> float:
    """Logarithms."""
    apart = by_count - by_time
    return by_time + weight * apart / (1 + (apart / FAR) ** 4)
