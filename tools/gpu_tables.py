"""The tables of tools/gpu_accuracy.py, for a terminal and for docs/gpus.md and docs/accuracy.md."""

from accuracy_tables import aligned, write_between
from truth import ROOT

TITLES = {"half": "BF16 GEMM", "fp32": "FP32 linear", "fp32-batched": "FP32 bmm", "conv": "FP32 convolution"}


def product_rows(result):
    """(title, figures) of every kind of product and selection of rows."""
    return [(f"{title}, {name}", s) for kind, title in TITLES.items() for name, s in (result[kind] or {}).items()]


def left_out_table(result):
    """Products and convolutions on a GPU that had no part in the fit, and on one that had."""
    rows = [[title, str(s["ours"]["pairs"]), f"{s['ours']['rows']:,}",
             *(f"{s[how][f]:.1f}" for f in ("mean_pct", "median_pct", "worst_pair_pct") for how in ("in sample", "ours"))]
            for title, s in product_rows(result)]
    return aligned(["products", "pairs", "rows each", "mean %, in sample", "GPU left out", "median %, in sample", "GPU left out",
                    "worst pair %, in sample", "GPU left out"], rows)


def three(s):
    return f"{s['mean_pct']:.1f}, {s['median_pct']:.1f}, {s['worst_pair_pct']:.1f}"


def product_table(result):
    """Beside what the ratio of two rooflines gives."""
    rows = [[title, str(s["ours"]["pairs"]), f"{s['ours']['rows']:,}", three(s["ours"]), three(s["roofline ratio"])]
            for title, s in product_rows(result)]
    return aligned(["products", "pairs", "rows each", "ours, GPU left out: mean, median, worst pair %",
                    "ratio of rooflines: mean, median, worst pair %"], rows)


def same_kernel_table(result):
    rows = [[name, f"{s['mean_pct']:.1f}", f"{s['median_pct']:.1f}", f"{s['worst_pair_pct']:.1f} ({s['worst_pair']})"]
            for name, s in result["same_kernel"].items()]
    return aligned(["kernels that stay the same", "mean %", "median %", "worst pair %"], rows)


def update_docs(result):
    docs = ROOT / "docs"
    write_between(docs / "gpus.md", "same-kernels", "\n".join(same_kernel_table(result)))
    write_between(docs / "gpus.md", "products", "\n".join(product_table(result)))
    write_between(docs / "accuracy.md", "fitted-transfer", "\n".join(left_out_table(result)))


def show(result):
    def line(name, s):
        print(f"  {name:44s} mean {s['mean_pct']:7.2f} %   median {s['median_pct']:7.2f} %   worst pair {s['worst_pair_pct']:7.2f} %  {s['worst_pair']}")

    if result["same_kernel"]:
        s = result["same_kernel"]["ours"]
        print(f"Kernels that stay the same, {s['pairs']} ordered pairs, {s['rows']} rows each (gpu-kernels-fp32 without conv, linear, bmm)")
        for name, s in result["same_kernel"].items():
            line(name, s)
        print("  by operation: " + ", ".join(f"{k} {v}" for k, v in result["same_kernel"]["ours"]["by_operation"].items()))
    for kind, title in TITLES.items():
        for rows, s in (result[kind] or {}).items():
            print(f"\n{title}, {rows}: {s['ours']['pairs']} pairs, {s['ours']['rows']} rows each, target left out of the fit")
            for name in ("ours", *(["in sample"] if "in sample" in s else []), "roofline ratio"):
                line(name, s[name])
    if result["models"]:
        m = result["models"]
        print(f"\nWhole models (neusight-e2e), {m['cases']} model x pair, target left out of the fit")
        print(f"  mean {m['mean_pct']} %, median {m['median_pct']} %, largest {m['max_pct']} %; by target {m['by_target']}; by mode {m['by_mode']}")
        print(f"  the same rule with the target's own measured operations: mean {m['with_measured_operations_mean_pct']} %")
        print(f"  NeuSight's published means, on its own GPUs and models: {m['neusight_published_pct']}")
    if result["unknown_gpus"]:
        print("\nleft out, no device file has them: " + ", ".join(result["unknown_gpus"]))
    for part in ("same_kernel", "half", "fp32", "fp32-batched", "conv", "models"):
        if not result[part]:
            print(f"\nleft out, the folder does not hold it: {part}")
    print("\nlimits")
    for j in result["limits"]:
        print(f"  {j['limit']:26s} {j['found_pct']:7.2f} %  aim {j['aim_pct']:.0f} %  {'met' if j['met'] else 'MISSED'}")
