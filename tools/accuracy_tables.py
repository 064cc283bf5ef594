"""The tables of tools/accuracy.py, as Markdown that also reads well in a terminal."""

from pathlib import Path
from statistics import mean


def aligned(head: list[str], rows: list[list[str]]) -> list[str]:
    """A Markdown table, first column to the left, with columns of equal width."""
    widths = [max(len(r[i]) for r in [head, *rows]) for i in range(len(head))]

    def line(cells: list[str]) -> str:
        return "| " + " | ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(cells, widths))) + " |"

    rule = "|" + "|".join(("-" * (w + 2)) if i == 0 else ("-" * (w + 1) + ":") for i, w in enumerate(widths)) + "|"
    return [line(head), rule, *(line(r) for r in rows)]


def pair(figures: dict, name: str) -> str:
    return f"{figures[name + '_mean']:.1f} / {figures[name + '_max']:.1f}" if name + "_mean" in figures else "–"


def summary(groups: dict, figures) -> list[str]:
    rows = []
    for whatif, results in [*groups.items(), ("all", [r for rs in groups.values() for r in rs])]:
        f = figures(results)
        shown = [r for r in results if r.covered is not None]
        timed = [r.row.quiet for r in results if r.row.judges_time]
        rows.append([whatif, str(sum(timed)), pair(f, "quiet"), str(len(timed) - sum(timed)), pair(f, "noisy"), str(len(results) - len(timed) or "–"),
                     pair(f, "gpu"), pair(f, "memory"), f"{sum(r.covered for r in shown)} of {len(shown)}",
                     str(sum(r.declined is not None for r in results) or "–")])
    return aligned(["what if", "quiet rows", "to the median % mean / max", "noisy rows", "to the span % mean / max", "timed with CUPTI",
                    "GPU time % mean / max", "peak memory % mean / max", "in band", "declined"], rows)


def band_figures(results: list) -> dict:
    """Coverage and width of the bands, and whether narrow bands are the better ones."""
    shown = [r for r in results if r.covered is not None]
    if not shown:
        return {}
    quiet = [r for r in shown if r.row.quiet]
    ordered = sorted(shown, key=lambda r: r.half_width_pct)
    # To the median here also for noisy rows, because the band speaks of the step, not of the host's bad days.
    off = [abs(r.prediction["ms"] / r.row.median - 1) * 100 for r in ordered]
    half = len(ordered) // 2
    out = {"rows": len(shown), "coverage_pct": 100 * mean(r.covered for r in shown),
           "half_width_mean_pct": mean(r.half_width_pct for r in shown)}
    if quiet:
        out |= {"quiet_rows": len(quiet), "quiet_coverage_pct": 100 * mean(r.covered for r in quiet),
                "quiet_half_width_mean_pct": mean(r.half_width_pct for r in quiet),
                "quiet_half_width_max_pct": max(r.half_width_pct for r in quiet)}
    noisy = [r for r in shown if not r.row.quiet]
    if noisy:
        out |= {"noisy_coverage_pct": 100 * mean(r.covered for r in noisy), "noisy_half_width_mean_pct": mean(r.half_width_pct for r in noisy)}
    if half:
        out |= {"narrow_half_error_pct": mean(off[:half]), "wide_half_error_pct": mean(off[half:])}
    return out


def band_table(results: list, in_sample: list) -> list[str]:
    """`in_sample`: the same rows with bands from all models, the row's own among them; empty where not requested."""
    rows = []
    models = sorted({r.row.model for r in results})
    for title in [*models, "all"]:
        f = band_figures([r for r in results if title in (r.row.model, "all")])
        own = band_figures([r for r in in_sample if title in (r.row.model, "all")])
        if not f:
            continue
        rows.append([title, str(f["rows"]), f"{f['coverage_pct']:.0f}", f"{f.get('quiet_coverage_pct', 0):.0f}" if "quiet_rows" in f else "–",
                     f"{f['half_width_mean_pct']:.1f}",
                     " / ".join(f"{f[k]:.1f}" if k in f else "–" for k in ("quiet_half_width_mean_pct", "noisy_half_width_mean_pct")),
                     f"{f['quiet_half_width_max_pct']:.1f}" if "quiet_rows" in f else "–",
                     f"{f['narrow_half_error_pct']:.1f} / {f['wide_half_error_pct']:.1f}" if "narrow_half_error_pct" in f else "–",
                     *([f"{own['coverage_pct']:.0f}", f"{own['half_width_mean_pct']:.1f}"] if own else [])])
    return aligned(["model", "rows", "median in band %", "of quiet rows %", "half-width % mean", "of quiet rows / of the others", "widest quiet ± %",
                    "error % narrow / wide half", *(["in sample: in band %", "half-width % mean"] if in_sample else [])], rows)


def slow_downs(results: list) -> list[str]:
    """Rows whose measured step got slower by more than the spread, and whether that was predicted."""
    slower = [r for r in results if r.row.judges_time and r.row.data["p10_ms"] > r.base.median * 1.005]
    foreseen = [r for r in slower if not r.declined and r.prediction["ms"] > r.base.median]
    missed = [f"{r.folder} {r.row.model} {r.row.variant}" for r in slower if r not in foreseen]
    text = f"{len(foreseen)} of {len(slower)} slow-downs were predicted as slow-downs"
    return [text + (f"; not: {', '.join(missed)}." if missed else ".")]


def promises(groups: dict, figures) -> list[str]:
    """The project's targets, and the what-ifs and rows that miss them."""
    out = []
    for whatif, results in groups.items():
        f = figures(results)
        if f.get("quiet_mean", 0) > 5:
            out.append(f"{whatif}: quiet rows are off by {f['quiet_mean']:.1f} % on average, 5 % wanted")
        if f.get("noisy_mean", 0) > 5:
            out.append(f"{whatif}: noisy rows are {f['noisy_mean']:.1f} % away on average, 5 % wanted")
        for r in results:
            name = f"{r.folder} {r.row.model} {r.row.variant}"
            if r.row.quiet and r.time_pct is not None and abs(r.time_pct) > 10:
                out.append(f"{name}: " + (f"declined ({r.declined})" if r.declined else f"step {r.time_pct:+.1f} %, 10 % wanted"))
            judged = {"amp", "tf32", "flash-attention"} & {u.split(":")[0] for u in r.uses}
            if judged and r.gpu_pct is not None and abs(r.gpu_pct) > 10 and not r.declined:
                out.append(f"{name}: GPU time {r.gpu_pct:+.1f} %, 10 % wanted")
            if r.memory_pct is not None and abs(r.memory_pct) > 5 and not r.declined:
                what = "unknown" if r.prediction.get("peak_bytes") is None else f"{r.memory_pct:+.1f} %"
                out.append(f"{name}: peak memory {what}, 5 % wanted")
    memory = [abs(r.memory_pct) for rs in groups.values() for r in rs if r.memory_pct is not None]
    if memory and mean(memory) > 3:
        out.append(f"peak memory is off by {mean(memory):.1f} % on average, 3 % wanted")
    return [f"- {line}" for line in out] or ["Every row meets the project's targets."]


def daydream_table(results: list) -> list[str]:
    rows = []
    groups: dict[str, list] = {}
    for r in results:
        if r.daydream:
            groups.setdefault(r.whatif, []).append(r)
    for whatif, mine in groups.items():
        def off(ms_of, mine=mine) -> str:
            errors = [abs(ms_of(r) / r.row.median - 1) * 100 for r in mine]
            return f"{mean(errors):.1f} / {max(errors):.1f}"
        rows.append([whatif, str(len(mine)), off(lambda r: r.daydream[0]), off(lambda r: r.daydream[1]),
                     off(lambda r: 2 * r.row.median if r.declined else r.prediction["ms"])])
    return aligned(["what if", "rows", "Daydream's rules % mean / max", "with queues and profiler dealt with", "foretrace"], rows) if rows else []


def signed(value: float | None) -> str:
    return "–" if value is None else f"{value:+.1f}"


def row_table(results: list) -> list[str]:
    rows = []
    for r in results:
        p = r.prediction
        cells = ["declined", "–", "–"] if r.declined else [f"{p['ms']:.2f}", f"{p['low_ms']:.2f} … {p['high_ms']:.2f}", f"{p['speedup']:.2f}"]
        rows.append([f"{r.folder} {r.row.model} {r.row.variant}", f"{r.row.median:.2f}" + ("" if r.row.quiet else " noisy"), *cells,
                     f"{r.speedup:.2f}", signed(r.time_pct), signed(r.gpu_pct), signed(r.memory_pct),
                     f"{r.row.data['p10_ms']:.2f} … {r.row.data['p90_ms']:.2f}", "–" if r.covered is None else "yes" if r.covered else "no", r.row.network])
    return aligned(["row", "measured ms", "predicted ms", "band", "speed-up", "measured", "time %", "GPU time %", "memory %", "measured span ms",
                    "in band", "network"], rows)


def worst(results: list, count: int) -> list[str]:
    out = []
    for title, value in (("time", lambda r: r.time_pct), ("GPU time", lambda r: r.gpu_pct), ("memory", lambda r: r.memory_pct)):
        rows = sorted((r for r in results if value(r) is not None), key=lambda r: -abs(value(r)))[:count]
        out += [f"### Worst rows by {title}", "", *row_table(rows), ""]
        reasons = sorted({f"{r.whatif}: {r.declined}" for r in rows if r.declined})
        out += [*(f"- declined: {reason}" for reason in reasons), *([""] if reasons else [])]
    return out


def page(results: list, groups: dict, figures, in_sample: list) -> list[str]:
    folders = sorted({r.folder for r in results})
    out = [f"{len(results)} rows, {len({(r.folder, r.row.model) for r in results})} models and batches of {', '.join(folders)}.", "",
           *summary(groups, figures), "", *slow_downs(results), "", "### Short of what is wanted", "",
           "Quiet rows within 10 % and 5 % on average per what-if, noisy ones 5 % from their span on average, GPU time of mixed precision, TF32"
           " and fused attention within 10 %, peak memory within 5 % and 3 % on average.", "", *promises(groups, figures), "", "### Bands", "",
           "The 10th and 90th percentile should hold four of five medians. Residuals leave out the model that is judged"
           + (", but in the last two columns." if in_sample else "."), "", *band_table(results, in_sample)]
    if printed := daydream_table(results):
        out += ["", "### Daydream's printed rules", "", *printed]
    return out


def with_between(path: Path, name: str, text: str) -> str:
    """The page with this text between its marks."""
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    page_text = path.read_text()
    return page_text.split(begin)[0] + "\n".join([begin, "", text, "", end]) + page_text.split(end)[1]


def write_between(path: Path, name: str, text: str) -> None:
    path.write_text(with_between(path, name, text))
