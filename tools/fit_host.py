#!/usr/bin/env python3
"""What things cost the CPU of a kind of host, with a profiler and without: src/host/hosts/xeon-h200.csv, from data/h200-clean.

    tools/fit_host.py                        writes it, with build/foretrace reading the traces, and prints errors in sample and left out
    tools/fit_host.py --without gpt2 -o F    as if that network had not been measured
    tools/fit_host.py --check                writes nothing; fails where the file is not what the data say

Events and single operations come from micro-benchmarks whose host speed is known (cases.csv.gz). What a step keeps of its traced time, and how far
its speed follows the trace's, come from host times of phases.
"""

import math
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import fitted
import host_changes
import host_hooks
import laws
import numpy as np
from host_changes import checkpoints, compiled, of_models
from host_traces import (
    DATA,
    PHASES,
    ROOT,
    SPEED_CALLS,
    USUAL_SPEED,
    Phase,
    cases,
    read_traces,
    rows,
    speed_references,
    speeds,
)
from truth import csv_rows, json_lines, trace_events

OUTPUT = ROOT / "src" / "host" / "hosts" / "xeon-h200.csv"
LOADING = ROOT / "data" / "h200-loading"
LEAST_LEFT = 0.2  # of a phase; kMinRemaining of src/host/recorded_parts.hpp
# Cases of calls that give the GPU no work.
SHORT_CALLS = [("call", "event_record"), ("call", "stream_wait_event"), ("call", "stream_synchronize_idle")]
# A launch may wait for room behind this many, on a GPU that is busy for this part of the step: then it is no CPU time.
PENDING, BUSY = 900, 0.8


@dataclass
class Sample:
    network: str
    name: str
    phase: str
    traced: Phase
    speed: float
    target_us: float  # without the profiler, the mean of the row's and of its base measured again
    weight: float
    probe: float  # how fast the host was around the row, against the mean

    def short_us(self, each: float) -> float:
        """Of calls that give the GPU no work what recording took: no more than the time until the next event."""
        if self._short is None or self._short[0] != each:
            rooms = (1 - LEAST_LEFT) * np.array(self.traced.rooms) / self.speed
            self._short = each, float(np.minimum(each, rooms).sum())
        return self._short[1]

    _short: tuple[float, float] | None = None


def event_costs(found: dict) -> dict[str, tuple[float, str, float]]:
    """What recording an operation and a call costs: what micro-benchmarks take longer for, by what was recorded in them."""
    recorded = {(r["kind"], r["name"]): r for r in csv_rows(DATA / "host.csv") if r["mode"] == "recorder"}
    counts, longer, whole = [], [], []
    for (kind, name, mode), off in found.items():
        on = found.get((kind, name, "recorder"))
        if mode != "off" or not on or (kind, name) not in recorded or kind in ("python", "call", "checkpoint"):
            continue
        r = recorded[kind, name]
        counts.append((float(r["ops"]), float(r["calls"])))
        longer.append(median(on) - median(off))
        whole.append(max(5.0, median(on)))
    weight = 1 / np.array(whole)
    a, y = np.array(counts) * weight[:, None], np.array(longer) * weight
    fit, *_ = np.linalg.lstsq(a, y, rcond=None)
    spread = np.sqrt(np.diag(np.linalg.inv(a.T @ a)) * np.mean((a @ fit - y) ** 2))
    out = {n: (float(v), f"{len(longer)} cases", float(s)) for n, v, s in zip(("event_op_us", "event_call_us"), fit, spread)}
    short = [(median(found[case[0], case[1], "recorder"]) - median(found[case[0], case[1], "off"])) / float(recorded[case]["calls"]) for case in SHORT_CALLS]
    return out | {"event_short_call_us": (float(np.mean(short)), f"{len(short)} cases", float(np.std(short) / math.sqrt(len(short))))}


def one_case(found: dict, names: list[tuple[str, str]]) -> tuple[float, str, float]:
    values = [v for kind, name in names for v in found[kind, name, "off"]]
    return median(values), f"{len(values)} rounds of {len(names)} cases", float(np.std(values) / math.sqrt(len(values)))


LAUNCHING = [("pointwise", n) for n in ("add", "mul", "relu", "clone")] + [("reduction", "sum"), ("in_place", "add_")]


# -- what a step keeps


def samples(traces: list, ref: dict[str, float]) -> list[Sample]:
    out = []
    mean_probe = math.exp(np.mean([math.log(r[k]["python_us"]) for r in rows() for k in ("probe", "probe_after")]))
    for row, again, phases in traces:
        speed = speeds(phases, ref)
        measured = [row] + ([again] if again else [])
        probe = math.exp(np.mean([math.log(r[k]["python_us"]) for r in measured for k in ("probe", "probe_after")])) / mean_probe
        pending = 0
        for name in PHASES:
            pending += phases[name].launches
            if name not in speed or (pending > PENDING and row["gpu_busy_ms"] > BUSY * row["median_ms"]):
                continue
            host = [r["host_ms"][name] + (r["host_ms"]["data"] if name == "forward" else 0) for r in measured]
            out.append(Sample(row["network"], f"{row['model']}.{row['variant']}", name, phases[name], speed[name],
                              1e3 * math.exp(np.mean(np.log(host))), math.sqrt(len(host)), probe))
    return out


def own_us(s: Sample, c: dict[str, float]) -> float:
    """The phase at speed 1, without what recording it took."""
    us = s.traced.us / s.speed
    t = s.traced
    recorded = c["event_op_us"] * t.ops + c["event_call_us"] * t.working + s.short_us(c["event_short_call_us"]) + c["event_layer_us"] * t.layers
    return max(LEAST_LEFT * us, us - recorded)


def module_us(s: Sample, c: dict[str, float]) -> float:
    """Of own_us the calls of modules, in which a profiler writes nothing down."""
    return min(c.get("module_us", 0.0) * host_changes.modules(s), own_us(s, c))


def fit_kept(some: list[Sample], costs: dict[str, float]) -> dict[str, float]:
    """event_layer_us by search; left and follows by least squares of logarithms, the host's speed around a row with them."""
    best: tuple[float, dict[str, float]] = (math.inf, {})
    weight = np.array([s.weight for s in some])
    usual = USUAL_SPEED
    for layer in np.arange(0, 30.5, 0.5):
        tried = costs | {"event_layer_us": float(layer)}
        # Modules' calls keep their time; a hundredth of a phase, so that the mean speed will do.
        y = np.array([math.log(max(0.2 * s.target_us, s.target_us - usual * module_us(s, tried)) / (own_us(s, tried) - module_us(s, tried) + 1e-3))
                      for s in some])
        a = np.array([[1, math.log(s.speed / usual), math.log(s.probe)] for s in some])
        fit: np.ndarray = np.zeros(3)
        robust = np.ones(len(some))
        for _ in range(8):  # rows far away count less
            w = weight * robust
            fit, *_ = np.linalg.lstsq(a * w[:, None], y * w, rcond=None)
            robust = 1 / np.sqrt(1 + ((a @ fit - y) / 0.2) ** 2)
        error = float(np.sum(weight**2 * (np.sqrt(1 + ((a @ fit - y) / 0.2) ** 2) - 1)))
        if error < best[0]:
            best = error, tried | {"left": math.exp(fit[0]) / usual, "follows": float(fit[1]), "usual_speed": usual, "_probe": float(fit[2])}
    return best[1]


# What no figure of a host may be: a weight that is not there.
NOTHING = 1e-9


def law_us(kind: str, some: list[Sample], c: dict[str, float]) -> np.ndarray:
    """The law itself (src/host/phase_counts.cpp). Counts are not believed where `c` has no weights for them, or where launches are few
    or not alike (host_changes.kind): no weight was fitted to those."""
    none = dict.fromkeys(("counted_backward", "counted_update", "counted_compiled"), NOTHING)
    figures = none | {n: max(v, NOTHING) for n, v in c.items() if not n.startswith("_")}
    text = "".join(f"{n},{float(v)!r}\n" for n, v in figures.items())
    rows = []
    for s in some:
        own = own_us(s, c) * s.speed if kind == "time" else 0.0
        launches = s.traced.launches if host_changes.kind(s) else 0
        generated = s.traced.generated if host_changes.is_compiled(s) else 0
        rows.append((PHASES.index(s.phase), own, 0, host_changes.modules(s), launches, generated, s.speed))
    return laws.evaluate(f"host {kind}", text, "", np.array(rows, float).T)


def off_pct(some: list[Sample], c: dict[str, float], with_probe: bool = True) -> list[float]:
    probe = np.array([s.probe ** c["_probe"] if with_probe else 1.0 for s in some])
    return list(100 * (law_us("time", some, c) * probe / np.array([s.target_us for s in some]) - 1))


def left_out(some: list[Sample], costs: dict[str, float], weights: dict[str, float] | None = None) -> list[tuple[Sample, float, float]]:
    """Each phase predicted by a fit without its network: with the host's speed around the row known, and without. `weights`: of
    counts next to times; none are taken into account without."""
    out = []
    for network in sorted({s.network for s in some}):
        others = [s for s in some if s.network != network]
        c = fit_kept(others, costs)
        if weights:
            c |= weights | values(launches(others) | compiled(c["usual_speed"], network))
        mine = [s for s in some if s.network == network]
        out += list(zip(mine, off_pct(mine, c), off_pct(mine, c, False)))
    return out


def values(figures: dict[str, tuple[float, str, float]]) -> dict[str, float]:
    return {n: v for n, (v, *_) in figures.items()}


def launches(some: list[Sample]) -> dict[str, tuple[float, str, float]]:
    """A launch and all around it, by phase, at the speeds steps have."""
    eager = [s for s in some if "compile" not in s.name and "ckpt" not in s.name]
    out = {}
    for name in PHASES:
        each = [s.target_us / s.traced.launches for s in eager if s.phase == name and s.traced.launches > host_changes.ENOUGH]
        out[f"launch_{name}_us"] = (median(each), f"{len(each)} phases", float(np.std(each) / math.sqrt(len(each))))
    return out


def counted(some: list[Sample], costs: dict[str, float]) -> dict[str, tuple[float, str, float]]:
    """How much weight counts get next to times, each by what it is off for networks left out."""
    pairs = []
    for s, _, off in left_out(some, costs):
        which = host_changes.kind(s)
        if not which:
            continue
        others = [o for o in some if o.network != s.network]
        c = costs | {"usual_speed": USUAL_SPEED} | values(launches(others) | (compiled(USUAL_SPEED, s.network) if which == "compiled" else {}))
        pairs.append((which, math.log1p(off / 100), math.log(law_us("launches", [s], c)[0] / s.target_us)))
    return host_changes.weights(pairs)


def spreads(found: list[tuple[Sample, float, float]]) -> dict[str, tuple[float, str, float]]:
    """Of log time: what the phases of a row share, and what each has on top of that."""
    logs = {(s.name, s.phase): math.log1p(max(-90.0, e) / 100) for s, _, e in found}
    pairs = [(v, logs[n, q]) for (n, p), v in logs.items() for q in PHASES if p < q and (n, q) in logs]
    common = math.sqrt(max(0.0, float(np.mean([a * b for a, b in pairs]))))
    out = {"sigma": (common, f"{len(pairs)} pairs of phases", common / math.sqrt(2 * len(pairs)))}
    for p in PHASES:
        own = [v for (_, q), v in logs.items() if q == p]
        out[f"sigma_{p}"] = (math.sqrt(max(0.0025, float(np.mean(np.square(own))) - common**2)), f"{len(own)} phases",
                             float(np.std(own) / math.sqrt(2 * len(own))))
    return out


def loading(folder: Path, without: str | None) -> tuple[float, str, float]:
    """Of log time of loading in the main thread: timed steps against the trace's, which no profiler lengthens but storage and the host do."""
    apart = []
    for row in json_lines(folder / "truth.jsonl"):
        if row["variant"] != "base" or row["network"] == without:
            continue
        traced_us = sum(e["dur"] for e in trace_events(folder / row["trace"]) if e.get("name", "").startswith("enumerate(DataLoader)"))
        apart.append(math.log(1e3 * row["host_ms"]["data"] / traced_us))
    spread = math.sqrt(np.mean(np.square(apart)))
    return spread, f"{len(apart)} networks and kinds of loading", spread / math.sqrt(2 * len(apart))


def slower_with_workers(folder: Path, without: str | None) -> tuple[float, str, float]:
    """CPU time of the process that trains, with worker processes that load its batches over without: they share its cores' caches, and a thread that
    pins batches takes turns with the main one. Of steps that the GPU does not bound: there, phases hold waits for it."""
    found = [r for r in json_lines(folder / "truth.jsonl") if r["network"] != without and r["gpu_busy_ms"] < BUSY * r["median_ms"]]
    alone = {r["model"]: r for r in found if r["variant"] == "base"}
    ratios = [sum(r["host_ms"][p] for p in PHASES) / sum(alone[r["model"]]["host_ms"][p] for p in PHASES) for r in found
              if r["switches"].get("workers") and r["model"] in alone]
    return median(ratios), f"{len(ratios)} steps of {len(alone)} networks and kinds of loading", float(np.std(ratios) / math.sqrt(len(ratios)))


def moment(some: list[dict]) -> tuple[float, str, float]:
    """How much of a phase's time is the host's moment: bases and the same measured again, another process minutes later. The spread of one of
    them, of log time (src/host/cpu_prior.cpp weighs the recorder's times by it)."""
    by: dict[str, dict[str, dict]] = defaultdict(dict)
    for r in some:
        by[r["model"]][r["variant"]] = r
    apart: list[float] = []
    for models in by.values():
        if not {"base", "again"} <= set(models):
            continue
        base, again = models["base"], models["again"]
        # Behind a thousand launches a phase that follows a busy GPU waits for room.
        waits = base["gpu_launched"] > PENDING and base["gpu_busy_ms"] > BUSY * base["median_ms"]
        apart += [math.log(again["host_ms"][p] / base["host_ms"][p]) for p in (PHASES[:2] if waits else PHASES)]
    spread = math.sqrt(np.mean(np.square(apart)) / 2)
    return spread, f"{len(apart)} phases of {len(by)} models; twice", spread / math.sqrt(2 * len(apart))


LEAVES = 50  # parameters of the scaler's case (tools/measure/host_cases.py)


def scaler(found: dict) -> tuple[float, str, float]:
    """scale, step and update of a GradScaler in addition to the launches that unscale: the case, less the gradients it makes (memory and zeros) and the
    update over lists inside it."""
    whole = found["autocast", "grad_scaler_step", "off"]
    inside = [median(found[kind, name, "off"]) for kind, name in (("allocate", "empty"), ("in_place", "zero_"), ("optimizer", "sgd_foreach"))]
    return median(whole) - LEAVES * sum(inside), f"{len(whole)} rounds of 1 cases", float(np.std(whole) / math.sqrt(len(whole)))


def fit(program: Path, every: list, without: str | None) -> tuple[dict[str, tuple[float, str, float]], list[Sample], dict[str, float]]:
    traces = [t for t in every if t[0]["network"] != without]
    ref = speed_references(traces)
    found = cases()
    events = event_costs(found)
    some = samples(traces, ref)
    modules = host_changes.module_figures(found, some)
    micro = values(events | modules)
    kept = fit_kept(some, micro)
    figures: dict[str, tuple[float, str, float]] = {
        n: (ref[n], f"{ref['speed_samples']} phases", 0.0) for n in ("launch_call_us", "launch_follows", "empty_us")}
    figures["probe_view_us"] = one_case(found, [("view", "view")])
    spread = float(np.std([math.log(s.speed) for s in some]))
    figures["usual_speed"] = (kept["usual_speed"], f"{len(some)} phases", spread)
    figures["speed_spread"] = (float(f"{spread:.2g}"), f"{len(some)} phases", 0)
    figures |= events
    of_fit = f"{len(some)} phases of {len({s.network for s in some})} networks"
    figures |= {n: (kept[n], of_fit, 0.0) for n in ("event_layer_us", "left", "follows")}
    figures |= modules | counted(some, micro) | launches(some)
    figures["op_us"] = one_case(found, LAUNCHING)
    figures["cast_us"] = one_case(found, [("cast_grad", "to_bf16")])
    figures["node_us"] = one_case(found, [("backward", "add_scalar")])
    figures["scaler_us"] = scaler(found)
    figures["sigma_loading"] = loading(LOADING, without)
    figures["slower_with_workers"] = slower_with_workers(LOADING, without)
    figures["moment"] = moment([r for r in rows() if r["network"] != without])
    figures |= checkpoints(kept["usual_speed"], without)
    figures["fused_tensor_us"] = one_case(found, [("optimizer", "adam_fused")])
    figures["foreach_tensor_us"] = one_case(found, [("optimizer", "adam_foreach")])
    figures["list_tensor_us"] = one_case(found, [("optimizer", "sgd_foreach")])
    figures |= compiled(kept["usual_speed"], without)
    def speed(shown: dict[str, list[float]]) -> float:
        return speeds({"forward": Phase(shown=defaultdict(list, {SPEED_CALLS[n]: v for n, v in shown.items()}))}, ref)["forward"]

    figures |= host_hooks.recurrent(speed)
    figures |= hooks(found, figures, [r for r in rows() if r["network"] != without], without)
    figures |= host_changes.triton_launch([p for p in launched_from_python(program, values(figures)) if p[0] != without])
    return figures, some, micro


def launched_from_python(program: Path, c: dict[str, float]) -> list[tuple[str, str, float, int]]:
    return host_changes.python_launches(program, (c["function_us"], c["function_tensor_us"]), c["usual_speed"], c["follows"])


def off_launches(program: Path, c: dict[str, float]) -> list[float]:
    """Each pass with kernels launched from Python against what the other networks say of one, in percent of all that was added."""
    found = launched_from_python(program, c)
    out = []
    for network, _, us, kernels in found:
        each = host_changes.triton_launch([p for p in found if p[0] != network])["triton_launch_us"][0]
        out.append(100 * (each * kernels / us - 1))
    return out


def hooks(found: dict, figures: dict[str, tuple[float, str, float]], rows: list[dict], without: str | None) -> dict[str, tuple[float, str, float]]:
    """What hooks cost (tools/host_hooks.py, tools/host_hooks.py)."""
    value = values(figures)
    usual, view = value["usual_speed"], value["probe_view_us"]

    out = host_hooks.graphs(rows, median(found["call", "graph_replay_10_kernels", "off"]), 10, usual)
    copies = [us for _, us in host_hooks.hooked_copies(rows, usual) + host_hooks.offloaded(without)]
    out["hooked_copy_us"] = of_models(copies)
    out["copy_call_us"] = one_case(found, [("call", "copy_to_device")])
    return out | host_hooks.functions(view) | host_hooks.batches(view) | host_hooks.ddp() | host_hooks.compressions(usual) \
        | host_hooks.sharded() | host_hooks.flat() | host_changes.recording_costs(view, value["left"])


def csv_of(figures: dict[str, tuple[float, str, float]]) -> str:
    head = "# figure,value,sample,spread: CPU costs on the host of an H200 (16 virtual cores of an Intel Xeon, PyTorch 2.11);\n" \
           "# include/foretrace/host/unprofiled.hpp says what each is. Written by tools/fit_host.py.\n"
    return head + "".join(f"{n},{v:.4g},{sample},{spread:.2g}\n" for n, (v, sample, spread) in figures.items())


def without_each(program: Path, folder: Path) -> dict[str, Path]:
    """For each network the host's file as it would be without measurements of that network."""
    every = read_traces(program)
    out = {}
    for network in sorted({r["network"] for r in rows()}):
        out[network] = folder / f"host-{network}.csv"
        out[network].write_text(csv_of(fit(program, every, network)[0]))
    return out


def described(title: str, errors: list[float]) -> str:
    return f"{title}: {np.mean(np.abs(errors)):.1f} % mean, {np.max(np.abs(errors)):.0f} % max, {len(errors)} phases"


def main() -> int:
    parser = fitted.parser(__doc__)
    parser.add_argument("--program", type=Path, default=ROOT / "build" / "foretrace")
    parser.add_argument("-o", "--output", type=Path, default=OUTPUT)
    parser.add_argument("--without", metavar="NETWORK", help="leave this network's rows out")
    parser.add_argument("--check", action="store_true", help="write nothing; fail where the file is not what the data say")
    options = parser.parse_args()
    every = read_traces(options.program)
    figures, some, micro = fit(options.program, every, options.without)
    if options.check or not options.without:
        kept = values(figures) | {"_probe": 0.0}
        again = fit_kept(some, micro)
        weights = {n: v for n, v in kept.items() if n.startswith("counted_")}
        found = left_out(some, micro, weights)
        figures |= spreads(found)
        print(described("left out, times alone", [b for *_, b in left_out(some, micro)]))
        print(described("left out, times alone, modules' calls not told from the rest", [b for *_, b in left_out(some, micro | {"module_us": 0.0})]))
        print(described("in sample", off_pct(some, kept)))
        print(described("left out, the host's speed around the row known", [a for _, a, _ in found]))
        print(described("left out", [b for *_, b in found]))
        for phase in PHASES:
            print(described(f"  {phase}", [b for s, _, b in found if s.phase == phase]))
        print(described("left out, kernels launched from Python", off_launches(options.program, kept)))
        print(f"event_layer_us {again['event_layer_us']:.1f}, left {again['left']:.3f}, follows {again['follows']:.2f}")
    return fitted.keep({options.output: csv_of(figures)}, options.check)


if __name__ == "__main__":
    sys.exit(main())
