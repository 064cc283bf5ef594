"""How residuals of products transfer between GPUs: tools/train_transfer.py --carried, from what leaving GPUs out shows.

Every GPU of the tables is a target once with the file fitted without it, and once with the one without its generation. For every kind of product:

- `spread_new`: of log time, so that a band of 80 % holds 80 % of those rows; `spread_known`: the same where the target's architecture was among those
  fitted, or where there is no such pair, of the fit to all.
- `common_known`, `common_new`, `most_common`: products of like size stand for those of a step. The residual they share on the origin against the one on the
  target: the slope of a line through zero, and the range it was seen in. What a step misses beyond that is taken for its own.

- `carry_from O` of a target's architecture: of what a product misses on an origin of architecture O, the share it misses on the target too, as left-out targets
  show it; among the parameters of any architecture, over all targets. `carry_other`: over all origins.

Products in FP32 take the common ones from whole models of `neusight-e2e`: of a few values of each, the one with the least error on GPUs left out. A file that
leaves a GPU out does not see the errors on that GPU.
"""

import itertools
import tempfile
from pathlib import Path

import gpu_accuracy
import gpu_models
import laws
import numpy as np
import train_transfer as training
import transfer_tables as tables
from devices import HARDWARE
from truth import ROOT

KINDS = ("half", "fp32", "fp32-batched", "conv")
NAMES = ("common_known", "common_new", "most_common", "spread_known", "spread_new")
BAND = 1.2816  # standard deviations to either side of a band of 80 %
ROWS = 300  # of a pair
GROUP = 20  # products that stand for a step; with 6 or 50 the slopes are the same to 0.1
SEEN = 0.95  # of the groups lie within the bound
# What FP32's whole models are tried with: the first of each is where the others are left.
TRIED = {"common_known": (0.8, 0.4, 0.6, 1.0), "common_new": (0.3, 0.0, 0.15, 0.5), "most_common": (0.3, 0.15, 0.2, 0.5, 1.0)}
PROGRAM = ROOT / "build" / "tests" / "gpu_figures"


def set_of(sets, device):
    return next(sets[arch] for arch in (device.arch, laws.describe("relative", device.name), "any") if arch in sets)


class Tried(gpu_accuracy.Figures):
    """The library's answers with other values in the files that leave a GPU out."""

    same_kernels: dict = {}

    def __init__(self, values, folder):
        super().__init__(PROGRAM, folder)
        for path in gpu_accuracy.LEFT_OUT.glob("*.csv"):
            sets = training.read_weights(path)
            for by_architecture in sets.values():
                for p in by_architecture.values():
                    p.update(values)
            (folder / path.name).write_text(training.text_of(sets))

    def ask(self, lines, without=None, laws_without=None):
        if not lines[0].startswith("same_kernel"):
            return super().ask(lines, without)
        if (key := tuple(lines)) not in self.same_kernels:  # they do not depend on the values
            self.same_kernels[key] = super().ask(lines)
        return self.same_kernels[key]


class Models:
    """Whole models by every value that is tried."""

    def __init__(self, folder):
        start = {name: values[0] for name, values in TRIED.items()}
        self.rows = {}
        for name, values in TRIED.items():
            for v in values:
                with tempfile.TemporaryDirectory() as scratch:
                    self.rows[name, v] = gpu_models.models(folder, Tried(start | {name: v}, Path(scratch)))["rows"]

    def best(self, without):
        def missed(name, value):
            return np.mean([abs(r["error_pct"]) for r in self.rows[name, value] if r["to"] not in without])

        return {name: min((missed(name, v), i, v) for i, v in enumerate(values))[2] for name, values in TRIED.items()}


class Kind:
    """One kind of product over all pairs."""

    def __init__(self, folder, kind):
        self.kind, self.table = kind, tables.product_table(folder, kind)
        self.read: dict = {}
        self.cached_errors: tuple = ()
        self.cached_groups: list = []
        self.cached_shapes: list = []

    def sets(self, without):
        path = gpu_accuracy.LEFT_OUT / f"{without}.csv" if without else HARDWARE / "transfer" / "products.csv"
        if path not in self.read:
            self.read[path] = training.read_weights(path)[self.kind]
        return self.read[path]

    def missed(self, sets, gpu, rows, own=True):
        device = self.table.devices[gpu]
        p = set_of(sets, device) if own else sets["any"]
        return np.log(rows[gpu].values / training.table_times(self.kind, self.table, p, gpu, rows))

    def pairs(self):
        for o, t in itertools.permutations(self.table.devices, 2):
            rows = self.table.rows.dropna(subset=[o, t])
            if self.table.has_host:
                rows = rows[(rows[o] > 1.08 * self.table.floors[o]) & (rows[t] > 1.08 * self.table.floors[t])]
            if len(rows) >= 10 and self.table.devices[o].arch != self.table.devices[t].arch:
                yield o, t, rows.sample(min(len(rows), ROWS), random_state=3)

    def errors(self):
        """[(target, whether its architecture was fitted, errors of log time)], and the same of the fit to all."""
        out: list[tuple] = []
        inside: list[tuple] = []
        for o, t, rows in self.pairs():
            device = self.table.devices[t]
            for without in (t, f"generation-{device.generation}", None):
                sets = self.sets(without)
                carry = sets["any"]["carry_other"]
                e = self.missed(sets, t, rows) - carry * np.clip(self.missed(sets, o, rows), -0.7, 0.7)
                (out if without else inside).append((t, device.arch in sets, e))
        return out, inside

    def groups(self):
        """[(target, what was missed together on the origin known, on the origin new, on the target)]"""
        out = []
        for o, t, rows in self.pairs():
            order = np.argsort(rows.m.values * rows.n.values * rows.k.values * rows.batch.values, kind="stable")
            known, new = self.sets(t), self.sets(o)
            here, there = self.missed(known, o, rows), self.missed(known, t, rows)
            here_new, there_all = self.missed(new, o, rows), self.missed(new, t, rows, own=False)
            for part in np.array_split(order, max(1, len(order) // GROUP)):
                out.append((t, here[part].mean(), here_new[part].mean(), there[part].mean(), there_all[part].mean()))
        return out


    def shapes(self):
        """[(origin, target, what each product missed on both)]"""
        return [(o, t, self.missed(self.sets(t), o, rows), self.missed(self.sets(t), t, rows)) for o, t, rows in self.pairs()]


def carried(pairs, towards):
    """The share with the least error, half drawn to that of a larger group: single pairs of GPUs say little about others of their architectures."""
    if not pairs:
        return towards
    errors = [np.mean([np.abs(np.exp(c * here - there) - 1).mean() for _, _, here, there in pairs]) for c in training.CARRY]
    best = training.CARRY[int(np.argmin(errors))]
    return best if towards is None else round((best + towards) / 2, 3)


def carried_by_pair(kind, without):
    """{target's architecture or "any": {parameter: share}}, from GPUs that are not left out."""
    pairs = [p for p in kind.cached_shapes if p[0] not in without and p[1] not in without]
    arch = {g: d.arch for g, d in kind.table.devices.items()}
    every = carried(pairs, None) or 0.0
    by_origin = {o: carried([p for p in pairs if arch[p[0]] == o], every) for o in sorted(set(arch.values()))}
    found = {"any": {"carry_other": every} | {f"carry_from {o}": share for o, share in by_origin.items()}}
    for target in sorted(set(arch.values())):
        there = [p for p in pairs if arch[p[1]] == target]
        found[target] = {f"carry_from {o}": carried([p for p in there if arch[p[0]] == o], share) for o, share in by_origin.items() if o != target}
    return found


def spread(errors):
    return float(np.quantile(np.abs(np.concatenate(errors)), 0.8)) / BAND


def slope(here, there, most=10.0):
    x = np.clip(here, -most, most)
    return float(np.clip(x @ there / max(1e-9, x @ x), 0, 1))


def figures(kind, without):
    """{name: value} from what was missed on all GPUs but these."""
    out, inside = kind.cached_errors
    new = [e for t, fitted, e in out if not fitted and t not in without]
    known = [e for t, fitted, e in out if fitted and t not in without] or [e for t, _, e in inside if t not in without]
    groups = [g[1:] for g in kind.cached_groups if g[0] not in without]
    here, here_new, there, there_all = (np.array(column) for column in zip(*groups))

    most = float(np.quantile(np.abs(here), SEEN))
    return {"common_known": slope(here, there, most), "common_new": slope(here_new, there_all, most), "most_common": most,
            "spread_known": spread(known), "spread_new": max(spread(new), spread(known))}  # fmt: skip


def write(folder, shipped):
    kinds = {}
    for name in KINDS:
        if tables.product_table(folder, name) is not None:
            kinds[name] = Kind(folder, name)
            kinds[name].cached_errors, kinds[name].cached_groups, kinds[name].cached_shapes = kinds[name].errors(), kinds[name].groups(), kinds[name].shapes()
    models = Models(folder) if PROGRAM.exists() and gpu_models.read_cases(folder) else None
    files = {shipped: set()} | {gpu_accuracy.LEFT_OUT / f"{name}.csv": gpus for name, gpus in training.left_out(folder).items()}
    for path, without in files.items():
        sets = training.read_weights(path)
        for name, kind in kinds.items():
            found = figures(kind, without) | (models.best(without) if models and name.startswith("fp32") else {})
            shares = carried_by_pair(kind, without)
            for arch, p in sets[name].items():
                kept = {key: value for key, value in p.items() if not key.startswith("carry_from")}
                carry = {key: share for key, share in (shares["any"] | shares.get(arch, {})).items() if key != f"carry_from {arch}"}
                p.clear()
                p.update(kept | found | carry)
            if path == shipped:
                print(f"{name}: " + ", ".join(f"{k} {v:.2f}" for k, v in found.items()))
        path.write_text(training.text_of(sets))
