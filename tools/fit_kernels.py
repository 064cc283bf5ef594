#!/usr/bin/env python3
"""The tables of measured operations that the cost models interpolate in: src/hardware/kernels/<device>.*.csv.

    tools/fit_kernels.py                  writes the tables, from data/h200-kernels and data/h200-operations
    tools/fit_kernels.py --scales         also how much each size matters: <device>.scales.csv (minutes; the program must be built with
                                          these tables); --scales softmax "sort ": only pools whose names start so; --further: starts from the scales there are
    tools/fit_kernels.py --correlations   also how much a residual in one precision or layout says of another: <device>.correlations.csv
    tools/fit_kernels.py --check          writes nothing; fails where a table is not what the data say (--scales, --correlations: these too)
    tools/fit_kernels.py --figures [--update-docs]     errors of the compiled tables for shapes that are left out

A table has a line per shape and a column per pass, element type and layout: microseconds of all kernels the operation records as its own. Repeated
measurements enter with their geometric mean; where others ran meanwhile (min_us below 0.9 kernel_us: data/README.md), with the least. A convolution's time
with ? behind it is a bad guess of the library's heuristic: the same filters over as many positions took a quarter of the time elsewhere in the tables.
Autotuning would not have kept it.
"""

import collections
import csv
import gzip
import itertools
import json
import math
import pathlib
import re
import subprocess
import sys

import fitted
import operation_rows
from accuracy_tables import aligned, write_between
from truth import ROOT

KERNELS = ROOT / "src" / "hardware" / "kernels"
SOURCES = (ROOT / "data" / "h200-kernels", ROOT / "data" / "h200-operations")
DEVICE = "H200-SXM"
# Sizes of each table, the batch first.
CONV = ("n", "c", "d", "h", "w", "k", "q", "r", "s", "stride", "pad", "dilation", "groups", "dims", "transposed", "tuned")
SIZES = {
    "conv": CONV, "gemm": ("b", "m", "n", "k"), "attention": ("b", "h", "kv", "q", "s", "d"), "rnn": ("b", "t", "i", "h", "l", "dirs", "gates"),
    "batch_norm": ("n", "c", "h", "w"), "max_pool": ("n", "c", "h", "w", "r", "stride", "pad"), "avg_pool": ("n", "c", "h", "w", "r", "stride", "pad"),
    "adaptive_avg_pool": ("n", "c", "h", "w", "to"), "nearest": ("n", "c", "h", "w", "to"), "bilinear": ("n", "c", "h", "w", "to"),
    "bicubic": ("n", "c", "h", "w", "to"),
    **dict.fromkeys(("layer_norm", "rms_norm", "softmax", "log_softmax", "nll_loss", "mse_loss", "sum_rows", "sum_columns", "sort", "scan"), ("rows", "c")),
    "group_norm": ("n", "c", "p", "g"), "sum_planes": ("rows", "c", "n"), "topk": ("rows", "c", "k"), "transform": ("rows", "c", "in"),
    **dict.fromkeys(("taken", "written", "added", "scattered", "sorted", "table_grad"), ("i", "c", "v", "sets")),
    **dict.fromkeys(("bags", "bags_grad"), ("i", "c", "v", "b")),
}  # fmt: skip
# What an operation by index does with rows, forward and backward.
GATHERS = {
    "embedding": ("taken", "table_grad"), "embedding_bag": ("bags", "bags_grad"), "index_select": ("taken", "added"), "index_add": ("added", "taken"),
    "gather": ("taken", "scattered"), "scatter_add": ("scattered", "taken"), "index": ("taken", "sorted"), "pairs": ("taken", "sorted"),
    "along": ("taken", "scattered"), "index_put": ("written", "taken"),
}  # fmt: skip
OLD_ROWS = {"ln": "layer_norm", "softmax": "softmax", "lsm": "log_softmax", "bn": "batch_norm"}
OLD_GEMM = {"addmm": "nt", "mm_dgrad": "nn", "mm_wgrad": "tn"}
ELSEWHERE = {"softmax_bwd": re.compile("elementwise"), **dict.fromkeys(("maxpool_bwd", "bn_fwd", "bn_bwd"), re.compile("FillFunctor"))}


def conv_sizes(s, tuned, transposed=False):
    full = {"d": 1, "h": 1, "q": 1, "r": 1, "dilation": 1, "groups": 1, "pad": 0, "stride": 1} | s
    return full | {"dims": 3 if "d" in s else 2 if "h" in s else 1, "transposed": int(transposed), "tuned": int(tuned)}


def gemm_cell(s, kind):
    """The product of a linear layer's pass: sizes and how the operands lie."""
    m, n, k = s["m"], s["n"], s["k"]
    sizes = {"fwd": (m, n, k), "dgrad": (m, k, n), "wgrad": (n, k, m)}[kind]
    return {"b": s.get("b", 1)} | dict(zip("mnk", sizes)), {"fwd": "nt", "dgrad": "nn", "wgrad": "tn"}[kind]


def place_of_operation(row):
    """Table, sizes and column of a row of data/h200-operations; None where no model asks for it."""
    kind, name, how, s = row["kind"], row["name"], row["pass"], row["sizes"]
    layout = "nhwc" if row["layout"] in ("nhwc", "ndhwc") else "nchw"
    column = f"{how} {row['dtype']} {layout}"
    if kind == "conv":
        return "conv", conv_sizes(s, row["benchmark"] == "1", name == "transposed"), column
    if kind == "gemm":
        sizes, lie = (s, row["layout"]) if name == "batched" else gemm_cell(s, how)
        return "gemm", sizes, f"fwd {row['dtype']} {lie}"
    if kind == "sdpa":
        fused = any(word in row["kernels"] for word in ("sdpa", "flash", "fmha"))
        return ("attention", s, f"{how} {row['dtype']} {row['layout']}") if fused else None
    if kind == "rnn":
        return "rnn", s | {"gates": {"rnn": 1, "gru": 3, "lstm": 4}[name]}, f"{how} {row['dtype']} all"
    every = f"fwd {row['dtype']} all"
    if kind == "gather":
        return place_of_gather(row, every)
    if name == "group_norm":
        # Channels-last: a copy, an operation of its own, and then the same.
        return (name, {"n": s["n"], "c": s["c"], "p": s["h"] * s["w"], "g": s["g"]}, f"{how} {row['dtype']} all") if layout == "nchw" else None
    if name == "sum_planes":
        # Channels innermost: the sum of columns.
        sizes = {"rows": s["c"], "c": s["n"] * s["h"] * s["w"], "n": s["n"]}
        return (name, sizes, every) if layout == "nchw" else ("sum_columns", {"rows": sizes["c"], "c": s["c"]}, every)
    if name == "norm":
        return "sum_rows", {"rows": 1, "c": s["rows"] * s["c"]}, every
    if name == "cumsum":
        return "scan", s, every
    if name in ("sort", "argsort", "topk"):
        if how == "bwd":  # what was taken out is written back
            i = s["rows"] * (min(s.get("k", 8), s["c"]) if name == "topk" else s["c"])
            return "written", {"i": i, "c": 1, "v": s["c"], "sets": s["rows"]}, every
        return ("topk", s | {"k": min(s.get("k", 8), s["c"])}, every) if name == "topk" else ("sort", s, every)
    if name in ("fft", "rfft"):
        return "transform", s | {"in": 4 if (name, how) == ("rfft", "fwd") else 8}, every
    if name == "rfft2":
        return ("transform", {"rows": s["n"], "c": s["h"] * s["w"], "in": 4}, every) if how == "fwd" else None
    if name not in SIZES or (name == "adaptive_avg_pool" and s["to"] == 1):  # the latter is a mean
        return None
    return name, s, column if "n" in s else f"{how} {row['dtype']} all"


def place_of_gather(row, column):
    """Of indices drawn evenly: what alike ones cost depends on the values, and a prediction starts from what they cost."""
    name, s = row["name"], row["sizes"]
    table = GATHERS[name][row["pass"] == "bwd"]
    if row["layout"] != "even" and table != "taken":
        return None
    if name == "pairs":
        count = s["c"] * (s["c"] - 1) // 2
        sizes = {"i": s["n"] * count, "c": 1, "v": s["n"] * s["c"] ** 2, "sets": 1}
        return table, sizes if table == "taken" else sizes | {"v": s["c"] ** 2, "sets": s["n"]}, column
    if name == "along":
        return table, {"i": s["i"] * s["k"], "c": 1, "v": s["c"], "sets": s["i"]}, column
    if name == "embedding_bag":
        return table, {"i": s["i"], "c": s["c"], "v": s["v"], "b": -(-s["i"] // s.get("b", 8))}, column
    return table, {"i": s["i"], "c": s["c"], "v": s["v"], "sets": 1}, column


def place_of_kernel(row):
    """The same for data/h200-kernels."""
    name, s = row["name"], row["sizes"]
    if row["kind"] == "conv":
        return "conv", conv_sizes(s, True), f"{name} {row['dtype']} {row['layout']}"
    if row["kind"] == "gemm" and name in OLD_GEMM:
        return "gemm", {"b": 1} | s, f"fwd {row['dtype']} {OLD_GEMM[name]}"
    if row["kind"] == "sdpa":
        return "attention", {"b": s["b"], "h": s["h"], "kv": s["h"], "q": s["s"], "s": s["s"], "d": s["d"]}, f"{name} {row['dtype']} {row['layout']}"
    if row["kind"] == "rnn" and "_" in name:
        return "rnn", {"dirs": 1, "gates": 4} | s, f"{name.split('_')[1]} {row['dtype']} all"
    if match := re.fullmatch(r"(max|avg)pool(_bwd)?", name):
        sizes = {k: s[k] for k in "nchw"} | {"r": s["k"], "stride": s["s"], "pad": 0}
        return f"{match[1]}_pool", sizes, f"{'bwd' if match[2] else 'fwd'} {row['dtype']} {row['layout']}"
    match = re.fullmatch(r"(ln|softmax|lsm|bn)_(fwd_up|fwd|bwd)", name)
    if not match:
        return None
    table, how = OLD_ROWS[match[1]], match[2].replace("fwd_up", "up")
    return table, s, f"{how} {row['dtype']} {row['layout'] if table == 'batch_norm' else 'all'}"


def own_us(row, others):
    """The time of the kernels that the operation records as its own."""
    us, least = float(row["kernel_us"]), float(row["min_us"] or row["kernel_us"])
    if least < 0.9 * us and row.get("pass"):
        us = least
    if others is None:
        return us
    kernels = operation_rows.kernels_of(row["kernels"])
    total = sum(t for _, t in kernels)
    return us * sum(t for name, t in kernels if not others.search(name)) / total if total else us


# A guess is bad when another took less than a quarter of it. A choice: what trying gains by less is in the pools' own figure ("tuned" of the scales).
BAD = 4
HALF = {"bf16": "half", "fp16": "half"}  # the same kernels


def bad_guesses(rows):
    """Of (sizes, column, elapsed us) of convolutions: those that trying algorithms would not keep. What is over first is kept, whatever its kernels add up to."""
    positions = {sizes: math.prod([sizes[0], *(max(1, size // sizes[9]) for size in sizes[2:5])]) for sizes, _, _ in rows}
    alike: dict[tuple, list[tuple]] = {}
    for sizes, column, us in rows:
        how, dtype, layout = column.split()
        key = (how, HALF.get(dtype, dtype), layout, sizes[1], *sizes[5:15])
        alike.setdefault(key, []).append((positions[sizes], us, sizes, column))
    out = set()
    for some in alike.values():
        for many, us, sizes, column in some:
            least = min(other * max(1, many / few) for few, other, _, _ in some)
            if us > BAD * least and not sizes[-1]:
                out.add((sizes, column))
    return out


def measured(bad=None):
    """{table: {sizes: {column: [us]}}}; to `bad` come the cells of convolutions that were guessed badly."""
    bad = set() if bad is None else bad
    elapsed = []
    out: dict[str, dict[tuple[int, ...], dict[str, list[float]]]] = {name: {} for name in SIZES}
    for folder in SOURCES:
        for path in sorted(folder.glob("*.csv.gz")):
            with gzip.open(path, "rt", newline="") as file:
                for row in csv.DictReader(file):
                    if "kernel_us" not in row:
                        continue
                    row["sizes"] = {k: int(v) for k, v in (item.split("=") for item in row["shape"].split(";") if "=" in item) if v.lstrip("-").isdigit()}
                    place = place_of_operation(row) if "pass" in row else place_of_kernel(row)
                    if place is None:
                        continue
                    name = "fused" if row["kind"] == "sdpa" else row["name"]
                    others = operation_rows.elsewhere(name, row.get("pass") or row["name"]) if "pass" in row or row["kind"] == "sdpa" else ELSEWHERE.get(name)
                    us = own_us(row, others)
                    if us > 0:
                        sizes = tuple(place[1][name] for name in SIZES[place[0]])
                        out[place[0]].setdefault(sizes, {}).setdefault(place[2], []).append(us)
                        if place[0] == "conv":
                            elapsed.append((sizes, place[2], min(us, float(row.get("busy_us") or us))))
    # Convolutions run the same kernels in both half types; the older tables hold one of them.
    bad |= bad_guesses(elapsed)
    for sizes, cells in out["conv"].items():
        for column in [c for c in cells if " fp16 " in c]:
            other = column.replace("fp16", "bf16")
            if other not in cells and (sizes, column) in bad:
                bad.add((sizes, other))
            cells.setdefault(other, cells[column])
    return out


def text_of(table, shapes, bad=frozenset()):
    """One table, as its file has it: four digits are more than two measurements agree in."""
    columns = sorted({column for cells in shapes.values() for column in cells})
    lines = [f"# {table}: us of an operation by shape. Made by tools/fit_kernels.py", ",".join([*SIZES[table], *columns])]
    for sizes, cells in sorted(shapes.items()):
        marks = {c: "?" if table == "conv" and (sizes, c) in bad else "" for c in cells}
        means = [f"{math.exp(sum(map(math.log, cells[c])) / len(cells[c])):.4g}{marks[c]}" if c in cells else "" for c in columns]
        lines.append(",".join([*map(str, sizes), *means]).rstrip(","))
    return "\n".join(lines) + "\n"


def scales(program, only, further):
    """All lines, fitted anew; `only`: those of pools whose names start so, the others as they are; `further`: from the scales they have."""
    fit = "--further" if further else "--fit"
    fitted = [line for name in only or [""] for line in subprocess.run([program, fit, name], capture_output=True, text=True, check=True).stdout.splitlines()]
    path = KERNELS / f"{DEVICE}.scales.csv"
    kept = [line for line in path.read_text().splitlines() if line[0] != "#" and not line.startswith(tuple(only))] if only else []
    lines = sorted({line.split(",")[0]: line for line in [*kept, *fitted]}.items())
    return "\n".join(["# category,samples,spread,autotuning,noise,kernel,middle,scale of each feature: made by tools/fit_kernels.py --scales",
                      *(line for _, line in lines)]) + "\n"


# Words of a category that a change of precision or layout replaces, by what they say. Kinds that share a pass and a form have correlations of their own.
VARYING = ({"fp32", "tf32", "fp16", "bf16", "half"}, {"nchw", "nhwc", "nn", "nt", "tn"})
FEW = 20  # shapes that two categories have in common; fewer say nothing: a choice


def left_out_errors(program):
    """{category: {shape: (layer, error of its residual where the layer was not measured)}}; beyond a factor of e an error is an error."""
    out: dict[str, dict[int, tuple[int, float]]] = collections.defaultdict(dict)
    for line in subprocess.run([program, "--samples"], capture_output=True, text=True, check=True).stdout.splitlines():
        category, shape, layer, _, error, _ = line.split(",", 5)
        out[category].setdefault(int(shape), (int(layer), max(-1.0, min(1.0, float(error)))))
    return out


def correlation(pairs):
    """Of pairs of errors around 0, which they are with the layer left out."""
    both, first, second = (sum(a[i] * a[j] for a in pairs) for i, j in ((1, 2), (1, 1), (2, 2)))
    return max(0.0, both / math.sqrt(first * second)) if first * second > 0 else 0.0


def correlations(program):
    """Of two categories that differ in one word: the correlation of their errors over the shapes both have."""
    errors = left_out_errors(program)
    found: dict[tuple[str, str, str], list[tuple[int, float, float]]] = collections.defaultdict(list)
    for one, other in itertools.combinations(sorted(errors), 2):
        a, b = one.split(), other.split()
        different = [tuple(sorted(pair)) for pair in zip(a, b) if pair[0] != pair[1]] if len(a) == len(b) else []
        if len(different) != 1 or not any(words.issuperset(different[0]) for words in VARYING):
            continue
        common = sorted(errors[one].keys() & errors[other].keys())
        form = " ".join(word for word in a if word not in {*VARYING[0], *VARYING[1]})
        if len(common) >= FEW:
            found[(form, *different[0])] += [(errors[one][s][0], errors[one][s][1], errors[other][s][1]) for s in common]
    head = "# form,word,other,shapes,correlation of the errors where a layer is left out: made by tools/fit_kernels.py --correlations"
    rows = [f"{','.join(key)},{len(pairs)},{correlation(pairs):.2g}" for key, pairs in sorted(found.items())]
    return "\n".join([head, *rows]) + "\n"


def figures(program, update_docs):
    """Each shape predicted from the others: median and 90th percentile of the error. The layer left out: a convolution's without its other batch
    sizes; the shape left out: with them. Elsewhere both are the same, but for attention's masks."""
    done = subprocess.run([program], capture_output=True, text=True, check=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    without, changes = [x for x in lines if "without" in x], [x for x in lines if "change" in x]
    pools = [x for x in lines if "without" not in x and "change" not in x]

    def cells(errors):
        off = sorted(abs(math.expm1(e)) for e in errors)
        return [f"{100 * off[len(off) // 2]:.1f}", f"{100 * off[int(0.9 * len(off))]:.1f}"]

    def row(title, mine):
        errors = [e for p in mine for e in p["errors"]]
        return [title, str(len(errors)), *cells(errors)]

    def both(title, mine):
        return [*row(title, mine), *cells(e for p in mine for e in p["shape_alone"])]

    families: dict[str, list] = {}
    for p in pools:
        words = p["pool"].split()
        families.setdefault(" ".join(words[:3]) if words[0] == "conv" else words[0], []).append(p)
    head = ["operations", "measured", "off by, layer left out, median %", "90th percentile %"]
    heads = [*head, "shape left out, median %", "90th percentile %"]
    short = aligned(heads, [*(both(family, mine) for family, mine in families.items()), both("all", pools)])
    types = {t: [p for p in pools if t in p["pool"].split() or (t in ("fp16", "bf16") and "half" in p["pool"].split())] for t in ("fp32", "tf32", "fp16", "bf16")}
    short += ["", *aligned(["element type", *heads[1:]], [both(t, mine) for t, mine in types.items()])]
    whole = sorted({x["without"] for x in without})
    short += ["", *aligned(["convolutions without one whole", *head[1:]], [row(w, [x for x in without if x["without"] == w]) for w in whole])]
    for change in sorted({x["change"] for x in changes}):
        mine: dict[str, list] = {}
        for x in changes:
            if x["change"] == change:
                mine.setdefault(" ".join(x["pool"].split()[:3]) if x["pool"].startswith("conv") else x["pool"].split()[0], []).append(x)
        short += ["", *aligned([change, *head[1:]], [*(row(family, some) for family, some in mine.items()), row("all", [x for x in changes if x["change"] == change])])]
    table = aligned(heads, [both(p["pool"], [p]) for p in pools])
    print("\n".join([*table, "", *short]))
    if update_docs:
        write_between(ROOT / "docs" / "internals" / "accuracy.md", "fitted-kernels", "\n".join(short))
        write_between(ROOT / "docs" / "internals" / "appendix-accuracy.md", "kernels", "\n".join(table))
    return 0


def main():
    parser = fitted.parser(__doc__)
    parser.add_argument("--scales", nargs="*", metavar="POOL")
    parser.add_argument("--further", action="store_true", help="with --scales: start from the scales there are")
    parser.add_argument("--correlations", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--figures", action="store_true")
    parser.add_argument("--update-docs", action="store_true", help="write the figures into docs/internals/accuracy.md")
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build" / "tools" / "kernel_figures")
    args = parser.parse_args()
    if args.figures:
        return figures(args.program, args.update_docs)
    bad: set[tuple] = set()
    files = {KERNELS / f"{DEVICE}.{table}.csv": text_of(table, shapes, bad) for table, shapes in measured(bad).items()}
    if args.scales is not None:
        files[KERNELS / f"{DEVICE}.scales.csv"] = scales(args.program, args.scales, args.further)
    if args.correlations:
        files[KERNELS / f"{DEVICE}.correlations.csv"] = correlations(args.program)
    kept = {*files, KERNELS / f"{DEVICE}.scales.csv", KERNELS / f"{DEVICE}.correlations.csv"}
    unknown = [path.name for path in sorted(KERNELS.glob("*.csv")) if path not in kept]
    for name in unknown if args.check else ():
        print(f"{name}: nothing makes it", file=sys.stderr)
    for path, text in files.items() if not args.check else ():
        print(f"{path.name}: {text.count(chr(10)) - 2} shapes, {len(text) / 1e3:.0f} kB")
    return fitted.keep(files, args.check) or int(args.check and bool(unknown))


if __name__ == "__main__":
    sys.exit(main())
