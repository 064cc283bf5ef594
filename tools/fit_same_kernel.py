#!/usr/bin/env python3
"""Fits how a kernel that stays the same goes to another GPU (same_kernel_us): src/hardware/laws/same_kernel.csv.

    tools/fit_same_kernel.py [PUBLIC] [--check]

Over pairs of GPUs and the element-wise and row-wise operations of PUBLIC's tables (FORETRACE_PUBLIC; docs/gpus.md), as tools/gpu_accuracy.py judges them:
measured times hold the host. The parameters come with the error over all pairs, and with each GPU's pairs estimated by a fit to the others.
"""

import pathlib
import sys

import fit_laws
import fitted
import laws
import numpy as np
import same_kernels
from laws import figures

TABLE = fit_laws.FOLDER / "same_kernel.csv"
MOST = 60  # rows of a pair and operation
# What lanes beyond 64 help: no table of element-wise work holds GPUs on both sides. Over 990 operations of whole models that are no products (adds, norms,
# softmax, copies, embeddings; docs/gpus.md) on an H100 and one of A100, V100, T4, P100, both ways, a third leaves 9.0 % on average and 4.8 in the
# median, all of them 15.6 and 9.6, none 11.4 and 6.4; pairs with an A100 and with a V100 alone choose the same third.
# `sharp`: how quickly arithmetic takes over; no more, so that 10 % of time is at most half of the answer.
# `intensity`, operations for each byte of a kernel that takes what memory needs: streaming kernels reach 0.89 of the bandwidth of a GB300 (its device file), which
# has the fewest operations for a byte of all. With 2 they take 4 % longer there than memory needs; the tables of older GPUs alone would have 3 to 4.
# L2, from an H200 (50 MB). `l2_rate`, bytes in a clock of an SM: additions that were repeated on 25 MB reach 8.8 to 9.0 TB/s (data/h200-kernels, warm). `reach`:
# kernels of steps whose one operand the kernel before them wrote (ReLU in place, residual additions, 140 of ResNet-50 and BERT in FP32 and mixed
# precision) move 5.9 and 5.1 TB/s up to 50 MB, 4.7 at 75 MB, and no more than cold ones (4.3) from 100 MB on. That operand at L2's rate and the rest at memory's
# give 5.8 and 5.2. So half of it is found at 72 MB, 1.44 times its size. Other architectures' L2: caches.csv. `step`: how sharply that ends.
FIXED = {"overlap": 2.0, "beyond_narrow": 0.333, "sharp": 3.0, "intensity": 2.0, "l2_rate": 34.0, "reach": 1.44, "step": 5.0}
# Rows that are fitted are element-wise, and last so many times the host's floor: in shorter ones what the host adds decides, and it is known to a tenth of
# the floor only. Norms and softmax compute more for each byte, which their time shows by itself.
LONG = 6.0
ALONG_ROWS = ("softmax", "ln")


def pairs(folder):
    """{(origin, target): array of kernel us, bytes, blocks, host us, floor us, truth us, whether it is fitted}"""
    out: dict[tuple[str, str], list] = {}

    def sample(time):
        return time.iloc[np.linspace(0, len(time) - 1, min(MOST, len(time))).astype(int)]

    for op, (tensors, _) in same_kernels.ALIKE.items():
        for o, t, time, kernel, moved, blocks, _, floors in same_kernels.alike_pairs(folder, op, tensors, sample):
            fixed = np.full(len(time), same_kernels.HOST_SHARE * floors[t]), np.full(len(time), floors[t])
            fitted_to = (time[t].values > LONG * floors[t]) & (op not in ALONG_ROWS)
            out.setdefault((o, t), []).append(np.column_stack([kernel, moved, blocks, *fixed, time[t].values, fitted_to]))
    return {pair: np.concatenate(parts) for pair, parts in out.items()}


def errors_of(p, rows):
    found = []
    text = "\n".join([laws.HEAD, *(f"streaming,same kernel,any,{name},{value!r}" for name, value in (FIXED | p).items())])
    for (o, t), r in rows.items():
        us = laws.evaluate(f"same_kernel {o}", text, t, r.T[:3])
        found.append(np.log(np.maximum(r[:, 4], r[:, 3] + us) / r[:, 5]))
    return np.concatenate(found)


def text(folder):
    rows = pairs(folder)

    def fit(some):
        some = {pair: long for pair, r in some.items() if len(long := r[r[:, 6] > 0])}
        return fit_laws.search(lambda p: errors_of(p, some), fit_laws.starts(laws.SAME_KERNEL), laws.SAME_KERNEL)

    p = fit(rows)
    left = []
    for gpu in sorted({g for pair in rows for g in pair}):
        others = {pair: r for pair, r in rows.items() if gpu not in pair}
        left.append(errors_of(fit(others), {pair: r for pair, r in rows.items() if pair[1] == gpu}))
    e, l = errors_of(p, rows), np.concatenate(left)
    comment = (f"# same kernel: {len(e)} rows of {len(rows)} pairs of GPUs; {figures(e)}, {100 * np.mean(np.abs(np.expm1(e))):.1f} % mean; "
               f"target left out {figures(l)}, {100 * np.mean(np.abs(np.expm1(l))):.1f} % mean")  # fmt: skip
    print(comment, flush=True)
    return "\n".join([laws.HEAD, comment, *laws.lines_of("streaming", "same kernel", "any", FIXED | p)]) + "\n"


def main():
    parser = fitted.parser(__doc__)
    parser.add_argument("public", type=pathlib.Path, nargs="?", default=fitted.public_folder())
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    if not args.public:
        print("left out: no folder given, and FORETRACE_PUBLIC is not set", file=sys.stderr)
        return 77
    return fitted.keep({TABLE: text(args.public)}, args.check)


if __name__ == "__main__":
    sys.exit(main())
