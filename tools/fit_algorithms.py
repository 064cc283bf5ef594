#!/usr/bin/env python3
"""Which convolutions cuDNN computes by transforms (Winograd, Fourier) where it may: src/hardware/algorithms/<device>.csv.

    tools/fit_algorithms.py [--check]
    tools/fit_algorithms.py --figures   how often the algorithm stays when the batch changes, and how often the scratch memory is as measured

A line is a layer (all sizes but the batch), a pass, element type and layout; its series has each measured batch and a letter: `w` Winograd with transforms in
memory, `f16` Fourier transforms of 16 x 16, `t32` the same in tiles, `x` another one, `-` none. Layers that no batch transforms are left out.
Transposed convolutions are listed as the data gradients they are. cuDNN's heuristic chose, without autotuning.
"""

import csv
import gzip
import re
import sys
from collections import Counter, defaultdict

import fitted
from truth import ROOT

SOURCE = ROOT / "data" / "h200-operations" / "conv.csv.gz"
TABLE = ROOT / "src" / "hardware" / "algorithms" / "H200-SXM.csv"
TYPES = ("fp32", "tf32")  # half precision hardly ever transforms: 31 of 15,900 operations
LAYER = ("c", "h", "w", "k", "r", "s", "out_h", "out_w", "groups")
GRAIN, UNSPLIT = 512, 1 << 20  # PyTorch's allocator: sizes in multiples of the one, rests below the other stay in a block
AS_GRADIENT = {"fwd": "dgrad", "dgrad": "fwd", "wgrad": "wgrad"}


def algorithm(kernels):
    if edge := re.search(r"fft2d_r2c_(\d+)x", kernels):
        return ("f" if "flip_filter" in kernels else "t") + edge[1]
    if "winograd_nonfused" in kernels:
        return "w" if "4x4" in kernels else "x"
    return "x" if "fft" in kernels else "-"


def out_edge(size, edge, s):
    return (size + 2 * s["pad"] - s["dilation"] * (edge - 1) - 1) // s["stride"] + 1


def convolutions():
    """(pass, type, layout, batch, layer, algorithm, scratch bytes) of every convolution of two dimensions that cuDNN's heuristic chose for."""
    with gzip.open(SOURCE, "rt", newline="") as file:
        for row in csv.DictReader(file):
            s = {k: int(v) for k, v in (item.split("=") for item in row["shape"].split(";"))}
            if row["benchmark"] == "1" or "h" not in s or "d" in s or row["dtype"] not in TYPES:
                continue
            layer = s | {"out_h": out_edge(s["h"], s["r"], s), "out_w": out_edge(s["w"], s["s"], s)}
            how = row["pass"]
            if row["name"] == "transposed":
                large = [(s[edge] - 1) * s["stride"] - 2 * s["pad"] + s[tap] for edge, tap in (("h", "r"), ("w", "s"))]
                layer |= {"c": s["k"], "k": s["c"], "h": large[0], "w": large[1], "out_h": s["h"], "out_w": s["w"]}
                how = AS_GRADIENT[how]
            found = algorithm(row["kernels"])
            if s["stride"] == 1 and s["dilation"] == 1:
                yield how, row["dtype"], row["layout"], s["n"], {k: layer[k] for k in LAYER}, found, int(row["workspace_bytes"])


def scratch(how, dtype, layout, n, layer, by):
    """Bytes by the law of src/hardware/choice/conv_algorithm.cpp; None where there is none."""
    import laws

    kernels = ("w", "f16", "f32", "f64", "t16", "t32", "t64")
    if by not in kernels:
        return None
    row = [n, *(layer[k] for k in LAYER[:-1]), 1, 2, 1, layer["groups"], kernels.index(by)]
    return laws.evaluate(f"scratch {how} {dtype} {layout}", "", "H200-SXM", [[x] for x in row])[0]


def text_of(rows):
    series: dict[tuple, dict[int, str]] = defaultdict(dict)
    for how, dtype, layout, n, layer, by, _ in rows:
        series[(how, dtype, layout, *layer.values())][n] = by
    lines = ["# algorithms of convolutions by batch: made by tools/fit_algorithms.py, which says what the letters are", ",".join(("pass", "type", "layout", *LAYER, "series"))]
    for key, by_batch in sorted(series.items()):
        if any(by != "-" for by in by_batch.values()):
            lines.append(",".join(map(str, key)) + "," + " ".join(f"{n}{by}" for n, by in sorted(by_batch.items())))
    return "\n".join(lines) + "\n"


def figures(rows):
    met: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    kept: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    batches: dict[tuple, dict[int, str]] = defaultdict(dict)
    for how, dtype, layout, n, layer, by, measured in rows:
        batches[(how, dtype, layout, *layer.values())][n] = by
        bytes_ = scratch(how, dtype, layout, n, layer, by)
        if bytes_ is not None:
            name = f"{by} {how} {layout}{' grouped' if layer['groups'] > 1 else ''}"
            met[name][0] += 1
            met[name][1] += -GRAIN * 8 <= measured - bytes_ <= UNSPLIT + 8 * GRAIN + bytes_ // 50
    for key, by_batch in batches.items():
        for n, by in by_batch.items():
            for factor in (0.5, 2, 4):
                if (n * factor) in by_batch and Counter(by_batch.values())["-"] < len(by_batch):
                    kept[key[0]][0] += 1
                    kept[key[0]][1] += by_batch[int(n * factor)] == by
    for name, (n, right) in sorted(met.items()):
        print(f"scratch memory, {name}: {right} of {n}")
    print(f"scratch memory, all: {sum(r for _, r in met.values())} of {sum(n for n, _ in met.values())}")
    for how, (n, right) in kept.items():
        print(f"{how}, layers that some batch transforms: the algorithm stays at half, twice or four times the batch in {right} of {n}")
    return 0


def main():
    parser = fitted.parser(__doc__)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--figures", action="store_true")
    args = parser.parse_args()
    rows = list(convolutions())
    return figures(rows) if args.figures else fitted.keep({TABLE: text_of(rows)}, args.check)


if __name__ == "__main__":
    sys.exit(main())
