#!/usr/bin/env python3
"""Fits the laws of fused attention, recurrent layers and work that streams: src/hardware/laws/*.csv.

    tools/fit_laws.py [PUBLIC]           writes H200-SXM.csv from data/, and attention.csv from PUBLIC's table of attention on four GPUs where it is given
                                         (else the folder FORETRACE_PUBLIC names)
    tools/fit_laws.py --check [PUBLIC]   writes nothing; fails where a file is not what the data say
    tools/fit_laws.py --each PUBLIC      attention without one GPU each, for tools/gpu_accuracy.py: tools/laws-left-out/<GPU>.csv

Each set comes with its error over all rows, and over rows left out: shapes are split in two halves, each estimated by a fit to the other; of the
public table, each GPU by a fit to the others.
"""

import functools
import pathlib
import sys
import zlib

import fitted
import law_rows
import laws
import numpy as np
from devices import HARDWARE, Device
from laws import figures, lines_of
from truth import ROOT, csv_rows

FOLDER = HARDWARE / "laws"
LEFT_OUT = ROOT / "tools" / "laws-left-out"
DEVICE = "H200-SXM"
ROUNDS = (1.6, 1.6, 1.25, 1.25, 1.1, 1.04, 1.6, 1.25, 1.1, 1.04)
BLOCKS = ((128, 128), (128, 64), (64, 64), (64, 128))
# Of the peak rate that multiplications of fused attention begin their search at: there is no kernel for TF32.
SHARES = {"half": 0.6, "fp32": 0.6, "tf32": 0.1}
SHORT_US = 12.0  # below, it matters more whether operands are still in L2
# Between these shares of L2 a kernel measured alone finds operands there and leaves its results there. In a step it writes back what the kernel before
# it left: a law with L2 in it tells single kernels to 5.5 % (median) instead of 7.8, and mixed precision of whole steps 1.5 to 2.5 % too fast.
IN_L2 = (0.02, 2.0)
# What no table here tells apart, with where it was read from.
READ_ELSEWHERE = {
    "relayout half": ({"start": 1.8, "handled": 2.25}, "12,644 launches of cuDNN's conversions in data/h200-operations: 7 to 12 % median by type and direction"),
    "relayout fp32": ({"start": 1.8, "handled": 2.15}, "the same"),
    "mixed strided half": ({"start": 1.8, "handled": 0.755}, "steps of five models: 9 % of their time"),
    "mixed strided fp32": ({"start": 1.8, "handled": 0.755}, "the same"),
    "fill bytes half": ({"start": 1.1, "handled": 13.7}, "masks of data/h200-kernels"),
    "fill bytes fp32": ({"start": 1.1, "handled": 13.7}, "the same"),
    "plain bytes": ({"start": 1.17}, "nothing of one byte was measured, FP8 of data/h200-lengths apart: memory alone limits"),
    "device copy": ({"start": 1.0}, "copies of the traces of data/"),
    "host copy": ({"start": 1.2}, "data/h200-catalogue/copies.jsonl, pinned"),
}
READ_SPREADS = {"device copy": (0.4, 0.15), "host copy": (0.4, 0.1)}




def search(errors, start, bounds):
    return laws.search(errors, start, bounds, ROUNDS)[0]


def starts(bounds):
    return {name: bound[0] for name, bound in bounds.items()}


def spread(e):
    """Two of three errors are smaller."""
    return float(f"{np.sort(np.abs(e))[int(0.683 * len(e))]:.2g}") if len(e) else 0.0


def halves(shapes):
    return np.array([zlib.crc32(",".join(map(str, s)).encode()) % 2 for s in shapes])


def attention_errors(kind, p, x, us, device=DEVICE):
    return np.log(laws.evaluate_law("attention", "attention", kind, p, device, x.T) / us)


def fitted_attention(kind, x, us, blocks=BLOCKS):
    start = starts(laws.ATTENTION) | {"share": SHARES[kind.split()[1]]}
    found = [laws.search(lambda p: attention_errors(kind, p, x, us), {"rows": rows, "columns": columns} | start, laws.ATTENTION, ROUNDS)
             for rows, columns in blocks]
    return min(found, key=lambda f: f[1])[0]


def attention_here():
    """[line], and {kind: parameters}"""
    lines, sets = [], {}
    for kind, (x, us) in law_rows.attention().items():
        p = fitted_attention(kind, x, us)
        fold, left = halves([tuple(int(v) for v in row[:6]) for row in x]), []
        for half in (0, 1):
            q = fitted_attention(kind, x[fold != half], us[fold != half], [(p["rows"], p["columns"])])
            left.append(attention_errors(kind, q, x[fold == half], us[fold == half]))
        lines.append(f"# attention {kind}: {len(us)} operations; {figures(attention_errors(kind, p, x, us))}; left out {figures(np.concatenate(left))}")
        print(lines[-1], flush=True)
        # Forward in half precision other GPUs were measured, too.
        lines += lines_of("attention", kind, Device(DEVICE).arch if kind == "fwd half" else "any", p)
        sets[kind] = p
    return lines, sets


class Public:
    """Causal attention forward in BF16 on several GPUs, as tools/gpu_accuracy.py reads it: measured times hold the host."""

    HOST, FLOOR = 0.8, 0.01
    SAME = ("rows", "columns", "wide", "drop", "pad_size")  # one head size, no dropout: what was measured here holds
    MOST = 1500

    def __init__(self, folder):
        import transfer_tables

        rows = csv_rows(folder / "gpu-attention-bf16.csv.gz")
        times = {g: [float(r[c] or "nan") * 1e3 for r in rows] for c in rows[0] if c.endswith("_ms") and (g := transfer_tables.GEMM_COLUMNS.get(c.removesuffix("_ms")))}
        self.times = {g: np.array(t) for g, t in times.items()}
        self.floors = {g: float(np.nanquantile(t, transfer_tables.FLOOR_QUANTILE)) for g, t in self.times.items()}
        names = ("batch_size", "num_heads", "num_key_value_heads", "isl", "isl", "head_dim")
        self.x = np.array([[float(r[n]) for n in names] + [1.0, 0.0, 0.0] for r in rows])
        order = np.argsort([zlib.crc32(row.tobytes()) for row in self.x], kind="stable")[: self.MOST]
        self.sample = np.zeros(len(rows), bool)
        self.sample[order] = True

    def errors(self, p, gpu, every):
        some = np.isfinite(self.times[gpu]) & (every | self.sample)
        us = laws.evaluate_law("attention", "attention", "fwd half", p, gpu, self.x[some].T)
        floor = self.floors[gpu]
        return np.log(np.maximum(floor, self.HOST * floor + us) / self.times[gpu][some])

    def fit(self, start, without=""):
        gpus = [g for g in self.times if g != without]
        bounds = {k: v for k, v in laws.ATTENTION.items() if k not in self.SAME}
        return search(lambda p: np.concatenate([self.errors(p, g, False) for g in gpus]), start, bounds)


def attention_elsewhere(public, here):
    table = Public(public)
    p = table.fit(here)
    left = {g: table.fit(here, g) for g in table.times}
    lines = [laws.HEAD]
    for g in table.times:
        lines.append(f"# attention fwd half, {g}: {int(np.isfinite(table.times[g]).sum())} shapes; {figures(table.errors(p, g, True))}; this GPU left out "
                     f"{figures(table.errors(left[g], g, True))}")
        print(lines[-1], flush=True)
    return "\n".join([*lines, *lines_of("attention", "fwd half", "any", p)]) + "\n", left


def recurrent_columns(kind, bounds, rows):
    """The law is linear in each parameter: what a unit of each takes, with concurrency 0 and 1, says all of it."""
    x = np.array([row for _, row in rows], float)
    us = np.empty((2, len(bounds), len(rows)))
    for i, concurrency in enumerate((0.0, 1.0)):
        for j, name in enumerate(bounds):
            p = dict.fromkeys(set(bounds) | {"product", "recurrent", "move"}, 0.0) | {name: 1.0, "concurrency": concurrency}
            for dtype in {d for d, _ in rows}:
                mine = np.array([d == dtype for d, _ in rows])
                us[i, j, mine] = laws.evaluate(f"recurrent {kind[:4]}{dtype}", "\n".join([laws.HEAD, *lines_of("recurrent", kind, "any", p)]), DEVICE, x[mine].T)
    return us


def recurrent_here():
    lines = []
    for kind, (rows, us) in law_rows.recurrent().items():
        bounds = laws.ON_CHIP if kind.endswith(("kept", "persistent")) else laws.RECURRENT
        alone, concurrent = recurrent_columns(kind, bounds, rows)
        # Rows that no 16-byte access fits take longer; the residuals hold by how much.
        odd = np.array([row[3] for _, row in rows]) % (8 if kind.split()[1] == "half" else 4) != 0

        def errors(p, some, alone=alone, concurrent=concurrent, us=us, odd=odd, bounds=bounds):
            values = np.array([0.0 if name == "concurrency" else p[name] for name in bounds])
            columns = alone[:, some] + p.get("concurrency", 0.0) * (concurrent - alone)[:, some]
            e = np.log(values @ columns / us[some])
            mine = odd[some]
            return np.where(mine, e - np.median(e[mine]), e) if mine.any() else e

        every, fold = np.ones(len(us), bool), halves([row for _, row in rows])
        p = search(functools.partial(lambda p, errors, some: errors(p, some), errors=errors, some=every), starts(bounds), bounds)
        left = []
        for half in (0, 1):
            q = search(functools.partial(lambda p, errors, some: errors(p, some), errors=errors, some=fold != half), starts(bounds), bounds)
            left.append(errors(q, fold == half))
        lines.append(f"# recurrent {kind}: {len(us)} layers; {figures(errors(p, every))}; left out {figures(np.concatenate(left))}")
        print(lines[-1], flush=True)
        lines += lines_of("recurrent", kind, "any", p)
    return lines


def streaming_set(law, kind, bounds, columns, us, shapes, all_rows=None, overlap=laws.OVERLAP):
    """Lines of one set: fitted to all, its spread by length, its error with halves of the shapes left out."""
    def errors(p, some=slice(None), columns=columns, us=us):
        return np.log(laws.evaluate_law(law, "streaming", kind, p | {"overlap": overlap}, DEVICE, [c[some] for c in columns]) / us[some])

    fold = halves(shapes)
    p = search(errors, starts(bounds), bounds)
    both = [half for half in (0, 1) if (fold == half).any() and (fold != half).any()]
    left = [errors(search(lambda p, half=half: errors(p, fold != half), starts(bounds), bounds), fold == half) for half in both]
    e, brief = np.concatenate(left), np.concatenate([us[fold == half] for half in both]) < SHORT_US
    p |= {"overlap": overlap, "short_us": SHORT_US, "short_spread": max(0.06, spread(e[brief])), "spread": max(0.04, spread(e[~brief]))}
    text = f"# streaming {kind}: {len(us)} kernels; {figures(errors(p))}; left out {figures(e)}"
    if all_rows:
        text += f"; with those in L2 {figures(errors(p, columns=all_rows[0], us=all_rows[1]))}"
    print(text, flush=True)
    return [text, *lines_of("streaming", kind, "any", p)], p


def streaming_here():
    lines = []
    for kind, (moved, elements, us, shapes) in law_rows.streaming().items():
        share = moved / (Device(DEVICE).l2_mb * 1e6)
        kept = (share < IN_L2[0]) | (share > IN_L2[1])
        lines += streaming_set("elementwise", kind, laws.STREAMING, [moved[kept], elements[kept]], us[kept], [s for s, k in zip(shapes, kept) if k],
                               ([moved, elements], us))[0]
    for kind, rows in law_rows.lists().items():
        elements, moved, tensors, read, us = (np.array([r[i] for r in rows], float) for i in range(5))
        lines += streaming_set("lists", kind, laws.LISTS, [moved, elements, tensors, read], us, [r[5:] for r in rows], overlap=laws.LIST_OVERLAP)[0]
    lines += direct_here()
    for kind, (p, source) in READ_ELSEWHERE.items():
        short, long = READ_SPREADS.get(kind, (0.25, 0.15))
        lines.append(f"# streaming {kind}: {source}")
        lines += lines_of("streaming", kind, "any", p | {"overlap": laws.OVERLAP, "short_us": SHORT_US, "short_spread": short, "spread": long})
    return lines


def direct_here():
    lines, sums, late = [], [], []
    for how, rows in law_rows.direct().items():
        multiplied, depth, us, added, took = (np.array([r[i] for r in rows], float) for i in range(5))
        ran, kind = np.isfinite(us), f"direct {how}"
        some, p = streaming_set("direct", kind, laws.DIRECT, [multiplied[ran], depth[ran]], us[ran], [r[5:] for r, one in zip(rows, ran) if one])
        direct = laws.evaluate_law("direct", "streaming", kind, p, DEVICE, [multiplied, depth])
        sums.append(added / direct)
        late.append(np.log(took / direct))
        lines += some
    # Kernels of a loop over groups run at the same time: by how many times the direct kernel's time they add up to one tells best which is over first, by what is
    # lost where that is wrong.
    added, later = np.concatenate(sums), np.concatenate(late)
    lost = {q: float(np.abs(later[(added > q) != (later > 0)]).sum()) for q in np.arange(1, 8.1, 0.25)}
    best = min(lost, key=lambda q: lost[q])
    wrong = int(((added > best) != (later > 0)).sum())
    lines.append(f"# streaming direct: {len(added)} grouped convolutions, {int((later > 0).sum())} of which took longer than the direct kernel would; told wrongly {wrong}")
    return lines + lines_of("streaming", "direct", "any", {"loop_factor": best})


def main():
    parser = fitted.parser(__doc__)
    parser.add_argument("public", type=pathlib.Path, nargs="?", default=fitted.public_folder())
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--each", action="store_true", help="also the files without one GPU each")
    args = parser.parse_args()
    lines, sets = attention_here()
    files = {FOLDER / f"{DEVICE}.csv": "\n".join([laws.HEAD, *lines, *recurrent_here(), *streaming_here()]) + "\n"}
    if args.public and (args.public / "gpu-attention-bf16.csv.gz").is_file():
        files[FOLDER / "attention.csv"], left = attention_elsewhere(args.public, sets["fwd half"])
        for gpu, p in left.items() if args.each else ():
            # What was measured here is of the H200 itself: without it the GPUs of its architecture know the others' only.
            own = [] if gpu == DEVICE else lines_of("attention", "fwd half", Device(DEVICE).arch, sets["fwd half"])
            files[LEFT_OUT / f"{gpu}.csv"] = "\n".join([laws.HEAD, *lines_of("attention", "fwd half", "any", p), *own]) + "\n"
    return fitted.keep(files, args.check)


if __name__ == "__main__":
    sys.exit(main())
