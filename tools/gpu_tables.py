"""The tables of tools/gpu_accuracy.py, for a terminal and for docs/internals/gpus.md and docs/internals/accuracy.md."""

from accuracy_tables import aligned, write_between
from truth import ROOT

TITLES = {"half": "BF16 GEMM", "fp32": "FP32 linear", "fp32-batched": "FP32 bmm", "conv": "FP32 convolution"}


def product_rows(result):
    """(title, figures) of every kind of product and selection of rows."""
    return [(f"{title}, {name}", s) for kind, title in TITLES.items() for name, s in (result[kind] or {}).items() if isinstance(s, dict)]


def left_out_table(result):
    """Products and convolutions on a GPU that had no part in the fit, and on one that had."""
    rows = [[title, str(s["ours"]["pairs"]), f"{s['ours']['rows']:,}",
             *(f"{s[how][f]:.1f}" for f in ("mean_pct", "median_pct", "worst_pair_pct") for how in ("in sample", "ours"))]
            for title, s in product_rows(result)]
    return aligned(["products", "pairs", "rows each", "mean %, in sample", "GPU left out", "median %, in sample", "GPU left out",
                    "worst pair %, in sample", "GPU left out"], rows)


def two(s):
    return f"{s['mean_pct']:.1f}, {s['median_pct']:.1f}"


def product_table(result):
    """Next to what the ratio of two rooflines gives."""
    rows = [[title, str(s["ours"]["pairs"]), f"{s['ours']['rows']:,}", *(two(s[way]) for way in ("ours", "generation left out", "roofline ratio"))]
            for title, s in product_rows(result)]
    if a := result["attention"]:
        rows.append(["BF16 attention, causal, forward", str(a["pairs"]), f"{a['rows']:,}", two(a), "-", "-"])
    return aligned(["products: mean, median %", "pairs", "rows each", "GPU left out", "generation left out", "ratio of rooflines"], rows)


def gpu_table(result, side, head):
    """Each GPU as an origin or as a target: mean error over all GPUs on the other side, the target left out of the fit."""
    found: dict = {}
    columns = (("half", -1), ("fp32", 0), ("fp32-batched", 0), ("conv", 0))
    for column, (kind, name) in enumerate(columns):
        parts = [s for s in (result[kind] or {}).values() if isinstance(s, dict)]
        for gpu, mean in (parts[name]["ours"][side].items() if parts else ()):
            found.setdefault(gpu, ["-"] * 6)[column] = f"{mean:.1f}"
    for column, part in ((4, (result["same_kernel"] or {}).get("ours")), (5, result["models"])):
        for gpu, mean in ((part or {}).get(side) or {}).items():
            found.setdefault(gpu, ["-"] * 6)[column] = f"{mean:.1f}"
    return aligned([head, "BF16 GEMM from 10 us", "FP32 linear", "FP32 bmm", "FP32 convolution", "same kernels", "whole models"],
                   [[gpu, *cells] for gpu, cells in sorted(found.items())])


def target_table(result):
    return gpu_table(result, "by_target", "target, left out: mean %")


def origin_table(result):
    return gpu_table(result, "by_origin", "origin, targets left out: mean %")


def same_kernel_table(result):
    rows = [[name, f"{s['mean_pct']:.1f}", f"{s['median_pct']:.1f}", f"{s['worst_pair_pct']:.1f} ({s['worst_pair']})"]
            for name, s in result["same_kernel"].items()]
    return aligned(["kernels that stay the same", "mean %", "median %", "worst pair %"], rows)


def amd_table(result):
    """Element-wise kernels to and from AMD's GPUs."""
    rows = [[name, str(f["rows"]), f"{f['mean_pct']:.1f}", f"{f['median_pct']:.1f}", f"{f['bias_pct']:+.1f}", f"{f['inside_pct']:.0f}"]
            for name, f in result["amd_same_kernel"].items()]
    return aligned(["additions and ReLU", "rows", "mean %", "median %", "bias %", "inside the band of 80 %, %"], rows)


def band_table(result):
    """How much of what was left out of the fit is in its 10-90 % band."""
    rows = [[title, f"{result[kind]['inside the band, %']:.0f}"] for kind, title in (*TITLES.items(), ("attention", "BF16 attention")) if result[kind]]
    rows += [["kernels that stay the same", f"{result['same_kernel']['ours']['inside the band, %']:.0f}"]] if result["same_kernel"] else []
    return aligned(["GPU or generation left out", "inside the band of 80 %, %"], rows)


def model_table(result):
    m = result["models"]
    rows = [["ours, GPU left out", m["mean_pct"]], ["ours, generation left out", m["generation_left_out_mean_pct"]],
            ["ratio of rooflines", m["roofline_mean_pct"]], ["Habitat's wave scaling (Eq. 2)", m["habitat_mean_pct"]],
            ["the rule with the target's own measured operations", m["with_measured_operations_mean_pct"]]]
    return aligned(["whole models", "mean %"], [[name, "-" if x is None else f"{x:.1f}"] for name, x in rows])


def neusight_table(result):
    """Means over the (model, target) that NeuSight published and these tables hold."""
    parts = result["models"]["next_to_neusight"]
    ways = [way for way in next(iter(parts.values())) if way != "rows"]
    head = [f"{name} ({part['rows']} rows)" for name, part in parts.items()]
    return aligned(["whole models, the same rows: mean %", *head], [[way, *(f"{part[way]:.1f}" for part in parts.values())] for way in ways])


def ratio_table(result):
    """Whole training steps, an A100 over a V100, from traces of an H200."""
    rows = [[r["model"] + (", " + r["input"] if r["model"].startswith("bert") else ""), r["is"], r["precision"], " / ".join(map(str, r["batches"])), r["gpus"][1],
             f"{r['measured']:.2f}", f"{r['predicted']:.2f}", f"{r['error_pct']:+.0f}"] for r in result["training"]["ratio_rows"]]  # fmt: skip
    return aligned(["samples per second, A100 / V100", "recorded", "precision", "batches", "V100", "measured", "predicted", "error %"], rows)


def ratio_figures(result):
    rows = [[name, str(f["models"]), str(f["rows"]), f"{f['median_pct']:.1f}", f"{f['p90_pct']:.1f}", f"{f['max_pct']:.1f}"]
            for name, f in result["training"]["ratios"].items() if f]  # fmt: skip
    return aligned(["A100 / V100", "models", "rows", "median %", "p90 %", "largest %"], rows)


def largest_table(result):
    """The best rate of large products: published, and by the model."""
    by_device: dict = {}
    for r in result["largest"]["rows_of"]:
        cells = by_device.setdefault(r["device"], {})
        cells[r["kind"]] = [f"{r['measured']:.1f}", f"{r['model']:.1f}", f"{r['error_pct']:+.0f}" + ("" if r["fitted"] else " *")]
    rows = [[device, *(cells.get("fp32") or ["-"] * 3), *(cells.get("half") or ["-"] * 3)] for device, cells in sorted(by_device.items())]
    return aligned(["largest products, TFLOP/s", "FP32 published", "model", "error %", "half published", "model", "error %"], rows)


def update_docs(result):
    docs = ROOT / "docs" / "internals"
    write_between(docs / "gpus.md", "same-kernels", "\n".join(same_kernel_table(result)))
    write_between(docs / "gpus.md", "products", "\n".join(product_table(result)))
    write_between(docs / "gpus.md", "targets", "\n".join(target_table(result)))
    write_between(docs / "gpus.md", "origins", "\n".join(origin_table(result)))
    write_between(docs / "gpus.md", "amd-same-kernels", "\n".join(amd_table(result)))
    write_between(docs / "gpus.md", "bands", "\n".join(band_table(result)))
    write_between(docs / "gpus.md", "models", "\n".join(model_table(result)))
    write_between(docs / "gpus.md", "largest", "\n".join(largest_table(result)))
    if result["training"]:
        write_between(docs / "gpus.md", "trained", "\n".join(ratio_table(result)))
        write_between(docs / "gpus.md", "trained-figures", "\n".join(ratio_figures(result)))
    write_between(docs / "gpus.md", "neusight", "\n".join(neusight_table(result)))
    write_between(docs / "accuracy.md", "fitted-transfer", "\n".join(left_out_table(result)))


def show(result):
    for title, part, table in (("Kernels that stay the same", "same_kernel", same_kernel_table), ("Products", "half", product_table),
                               ("By target", "half", target_table), ("By origin", "half", origin_table), ("Whole models (neusight-e2e)", "models", model_table)):
        if result[part]:
            print(f"{title}\n" + "\n".join(table(result)) + "\n")
    if (m := result["models"]) and m["next_to_neusight"]:
        print("Next to NeuSight\n" + "\n".join(neusight_table(result)) + "\n")
    if m := result["models"]:
        print(f"whole models: {m['cases']} model x pair, median {m['median_pct']} %, largest {m['max_pct']} %; by mode {m['by_mode']}")
    print("Largest products (* a GPU the parameters never saw)\n" + "\n".join(largest_table(result)) + "\n")
    if result["training"]:
        print("Whole training steps\n" + "\n".join(ratio_table(result)) + "\n\n" + "\n".join(ratio_figures(result)) + "\n")
        print(f"RTX 3090 in AMP: {result['training']['steps']}; ResNet-50 on a V100: {result['training']['resnet_on_v100']}")
    print("\n".join(band_table(result)) + "\n")
    if result["amd_same_kernel"]:
        print("\n".join(amd_table(result)) + "\n")
    if result["unknown_gpus"]:
        print("left out, no device file has them: " + ", ".join(result["unknown_gpus"]))
    for part in ("same_kernel", *TITLES, "attention", "models", "training"):
        if not result[part]:
            print(f"left out, the folder does not hold it: {part}")
    print("\nlimits")
    for j in result["limits"]:
        print(f"  {j['limit']:40s} {j['found_pct']:7.2f} %  aim {j['aim_pct']:.0f} %  {'met' if j['met'] else 'MISSED'}{'  FELL BEHIND' if j['fell_behind'] else ''}")
