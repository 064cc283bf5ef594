#!/usr/bin/env python3
"""The pictures of README.md and docs/, from what the program itself computed: SVG, readable on light and dark paper.

    tools/pictures.py [--program build/foretrace]      writes docs/images/{waterfall,timeline,accuracy}.svg
    tools/pictures.py --check                          fails where one of them is not what the program says now

waterfall  ResNet-50 on an H200 (examples/): from today to the best combination
timeline   the same step, measured and predicted
accuracy   every measured row that tells the time: predicted against measured (from docs/internals/appendix-accuracy.md)
"""

import argparse
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

ROOT = Path(__file__).resolve().parent.parent
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, default=ROOT / "build" / "foretrace")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    data, head, body = page_of(options.program.resolve())
    stale = False
    for name, svg in (("waterfall", waterfall(data)), ("timeline", timeline(head, body)), ("accuracy", accuracy())):
        file = IMAGES / f"{name}.svg"
        if options.check:
            if not file.exists() or file.read_text() != svg:
                stale = True
                print(f"{file.relative_to(ROOT)} is not what the program says now: tools/pictures.py")
        else:
            file.write_text(svg)
            print(f"{file.relative_to(ROOT)}: {len(svg):,} bytes")
    return int(stale)


if __name__ == "__main__":
    sys.exit(main())
