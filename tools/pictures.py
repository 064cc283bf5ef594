#!/usr/bin/env python3
"""The pictures of README.md and docs/, from what the program itself computed: SVG, readable on light and dark paper.

    tools/pictures.py [--program build/foretrace]      writes docs/images/{waterfall,timeline,accuracy,scale}.svg
    tools/pictures.py --check                          fails where one of them is not what the program says now

waterfall  ResNet-50 on an H200 (examples/): from today to the best combination
timeline   the same step, measured and predicted
accuracy   every measured row that tells the time: predicted against measured (from docs/internals/appendix-accuracy.md)
scale      the shapes of Daydream's Figures 8 and 10. Left: the step on 1 to 16 workers with one GPU each over 10, 20 and 40 Gb/s (linear in
           2(n-1)/n where the network is the bottleneck). Right: parameter servers against P3 on four workers over networks of rising
           bandwidth (the gain is largest where communication takes as long as computation)
"""

import base64
import gzip
import json
import math
import re
import struct
import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path

import fitted
import gates
from truth import ROOT

IMAGES = ROOT / "docs" / "images"
INK, SOFT, BLUE, GREEN, RED = "#57606a", "#8b949e", "#3b7dd8", "#2a9d6f", "#b3261e"
PHASES = ["#3b7dd8", "#d9822b", "#2a9d6f", "#b0413e", "#8e63c7", "#7a8691"]


def picture(width: int, height: int, label: str, parts: list[str]) -> str:
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
            f'aria-label="{escape(label)}" font-family="system-ui, sans-serif" font-size="13" fill="{INK}">\n' + "\n".join(parts) + "\n</svg>\n")


def text(x: float, y: float, what: str, anchor: str = "start", colour: str = INK, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}" {more}>{escape(what)}</text>'


def rect(x: float, y: float, width: float, height: float, colour: str) -> str:
    return f'<rect x="{x:.2f}" y="{y:.1f}" width="{max(0.3, width):.2f}" height="{height:.1f}" fill="{colour}"/>'


def page_of(program: Path) -> tuple[dict, dict, bytes]:
    """What the page of the example holds: its data, the head of its pack, and the columns behind it."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "page.html"
        subprocess.run([program, "report", "examples/resnet50-h200.json.gz", "-o", out, "--quiet"], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
        html = out.read_text()
    data, raw = (re.findall(rf'id="{part}">(.*?)</script>', html, re.S)[0] for part in ("data", "pack"))
    data, raw = json.loads(data), gzip.decompress(base64.b64decode(raw))
    size = struct.unpack("<I", raw[:4])[0]
    return data, json.loads(raw[4:4 + size]), raw[4 + size:]


def waterfall(data: dict) -> str:
    steps = [("today", None, data["today_ms"])]
    for fall in data["waterfall"]:
        steps.append((fall["whatif"], steps[-1][2], fall["ms"]))
    steps.append(("together", None, steps[-1][2]))
    left, scale, out = 190, 480 / data["today_ms"], []
    for i, (name, before, ms) in enumerate(steps):
        y = 8 + 28 * i
        low, high = (0, ms) if before is None else sorted((before, ms))
        colour = SOFT if before is None else GREEN if ms <= before else RED
        figure = f"{ms:.1f} ms" if before is None else f"{ms - before:+.1f}"
        out += [text(left - 10, y + 15, name, "end"), rect(left + scale * low, y, scale * (high - low), 20, colour), text(left + scale * high + 8, y + 15, figure, colour=SOFT)]
    return picture(760, 28 * len(steps) + 16, f"from {data['today_ms']:.1f} ms today to {steps[-1][2]:.1f} ms, one change after the other", out)


def numbers(raw: bytes, signed: bool) -> list[int]:
    out, value, shift = [], 0, 0
    for byte in raw:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            out.append(-(value + 1) // 2 if signed and value & 1 else value // 2 if signed else value)
            value = shift = 0
    return out


def timeline(head: dict, body: bytes) -> str:
    width, left, row, y, at, out = 900, 150, 18, 4, 0, []
    longest = max(line["step_ns"] for line in head["timelines"])
    scale = (width - left - 8) / longest
    for line in head["timelines"]:
        columns = {}
        for name, size in line["columns"].items():
            columns[name] = body[at:at + size]
            at += size
        gaps, lengths, kinds = numbers(columns["start"], True), numbers(columns["length"], False), numbers(columns["kind"], False)
        out.append(text(4, y + 14, f"{line['title']}: {line['step_ns'] / 1e6:.1f} ms", more='font-weight="600"'))
        y += 22
        for lane in line["lanes"]:
            out.append(text(4, y + 13, lane["name"][:22], colour=SOFT, more='font-size="11"'))
            # Neighbours of one phase with less than a third of a pixel between them are one bar.
            end, run = 0, None
            for t in range(lane["begin"], lane["end"]):
                start = end + gaps[t]
                end = start + lengths[t]
                if lengths[t] == 0:
                    continue
                phase, x0, x1 = kinds[t] >> 4 & 7, left + scale * start, left + scale * end
                if run and run[0] == phase and x0 - run[2] < 0.34:
                    run[2] = max(run[2], x1)
                    continue
                if run:
                    out.append(rect(run[1], y + 2, run[2] - run[1], row - 5, PHASES[run[0]]))
                run = [phase, x0, x1]
            if run:
                out.append(rect(run[1], y + 2, run[2] - run[1], row - 5, PHASES[run[0]]))
            y += row
        y += 8
    return picture(width, y + 4, "the step as measured, and as predicted with the best combination", out)


def accuracy() -> str:
    """Rows of docs/internals/appendix-accuracy.md: folder, model, …, measured ms, predicted ms."""
    rows = []
    heads: list[str] = []
    for line in (ROOT / "docs" / "internals" / "appendix-accuracy.md").read_text().splitlines():
        cells = [c.strip() for c in line.strip().strip("|").split("|")] if line.startswith("|") else []
        if "measured ms" in cells and any("predicted" in c for c in cells):
            heads = cells
        elif heads and len(cells) == len(heads):
            measured, predicted = (re.match(r"[\d.]+", cells[i]) for i in (heads.index("measured ms"), next(i for i, c in enumerate(heads) if "predicted" in c)))
            if measured and predicted:
                rows.append((float(measured[0]), float(predicted[0])))
    if not rows:
        sys.exit("docs/internals/appendix-accuracy.md holds no rows with measured and predicted ms")
    low, high = math.log10(min(min(r) for r in rows) * 0.8), math.log10(max(max(r) for r in rows) * 1.25)
    size, left = 460, 56
    out = []

    def x(v: float) -> float:
        return left + (size - left - 10) * (math.log10(v) - low) / (high - low)

    def y(v: float) -> float:
        return 10 + (size - 50) * (1 - (math.log10(v) - low) / (high - low))

    for v in (1, 3, 10, 30, 100, 300, 1000):
        if low < math.log10(v) < high:
            out += [f'<line x1="{x(v):.1f}" x2="{x(v):.1f}" y1="10" y2="{size - 40}" stroke="{SOFT}" opacity=".25"/>',
                    f'<line x1="{left}" x2="{size - 10}" y1="{y(v):.1f}" y2="{y(v):.1f}" stroke="{SOFT}" opacity=".25"/>',
                    text(x(v), size - 24, str(v), "middle", SOFT), text(left - 6, y(v) + 4, str(v), "end", SOFT)]
    out += [f'<line x1="{x(10 ** low):.1f}" y1="{y(10 ** low):.1f}" x2="{x(10 ** high):.1f}" y2="{y(10 ** high):.1f}" stroke="{INK}" stroke-dasharray="4 3"/>']
    out += [f'<circle cx="{x(m):.1f}" cy="{y(p):.1f}" r="3" fill="{BLUE}" opacity=".55"/>' for m, p in rows]
    out += [text(size - 12, size - 6, "measured ms", "end"), text(left + 6, 24, "predicted ms", more='font-size="12"')]
    return picture(size, size, f"predicted against measured, {len(rows)} rows", out)


FABRIC = 'source = "picture"\n[[level]]\nname = "{0} Gb/s"\nlink = "network"\ngbs = {1}\nper_node = true\n'
WORKERS, RATES = (1, 2, 3, 4, 6, 8, 12, 16), (1, 2, 4, 6, 10, 16, 25, 40, 100)


def chart(left: int, title: str, xs: tuple, series: list[tuple[str, list[float]]], below: str, place=float) -> list[str]:
    """One chart over `xs`, which `place` spreads out."""
    width, height, top = 330, 230, 40
    highest = max(max(ys) for _, ys in series) * 1.05

    def x(v: float) -> float:
        return left + (place(v) - place(xs[0])) / (place(xs[-1]) - place(xs[0])) * width

    def y(v: float) -> float:
        return top + height * (1 - v / highest)

    out = [text(left + width / 2, 18, title, "middle", more='font-weight="600"'), text(left - 42, top - 10, "ms"),
           text(left + width / 2, top + height + 36, below, "middle")]
    for v in (highest * i / 5 for i in range(6)):
        out += [f'<line x1="{left}" x2="{left + width}" y1="{y(v):.1f}" y2="{y(v):.1f}" stroke="{SOFT}" opacity=".25"/>', text(left - 6, y(v) + 4, f"{v:.0f}", "end", SOFT)]
    out += [text(x(v), top + height + 16, f"{v:g}", "middle", SOFT) for v in xs]
    for k, (name, ys) in enumerate(series):
        points = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in zip(xs, ys))
        out += [f'<polyline points="{points}" fill="none" stroke="{PHASES[k]}" stroke-width="2"/>', text(left + width - 8, top + 16 + 16 * k, name, "end", PHASES[k])]
    return out


def scale(program: Path) -> str:
    trace = str(ROOT / "examples" / "resnet50-h200.json.gz")
    with tempfile.TemporaryDirectory() as folder:
        def answer(rate: int, *arguments: str) -> list[float]:
            fabric = Path(folder, f"{rate}.toml")
            fabric.write_text(FABRIC.format(rate, rate / 8))
            return [p["ms"] for p in gates.ask(program, *(a.format(fabric=fabric) for a in arguments))["predictions"]]

        lines = [(f"{rate} Gb/s", answer(rate, "scale", trace, "--workers", ",".join(map(str, WORKERS)), "--fabric", "{fabric}")) for rate in (10, 20, 40)]
        both = [answer(rate, "whatif", trace, *(f"p3:workers=4,fabric={{fabric}},priorities={p}" for p in ("off", "on"))) for rate in RATES]
    body = chart(60, "data parallel", WORKERS, lines, "workers, one GPU each")
    servers = [("servers", [b[0] for b in both]), ("P3", [b[1] for b in both])]
    return picture(840, 320, "steps on several workers", body + chart(480, "four workers, parameter servers", RATES, servers, "Gb/s", math.log))


def pictures(program: Path) -> dict[Path, str]:
    data, head, body = page_of(program)
    made = {"waterfall": waterfall(data), "timeline": timeline(head, body), "accuracy": accuracy(), "scale": scale(program)}
    return {IMAGES / f"{name}.svg": svg for name, svg in made.items()}


if __name__ == "__main__":
    sys.exit(fitted.main(__doc__, lambda options: pictures(options.program.resolve()), gates.FORETRACE))
