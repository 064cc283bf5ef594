"""Small pictures and tables for notebooks, as SVG and HTML, without other libraries. Every text is escaped."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from html import escape

from ._errors import UsageError, make_error


class Picture:
    """An SVG: shown by notebooks, written by `save`."""

    def __init__(self, svg: str) -> None:
        self.svg = svg

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the SVG. A path that names another format is refused: nothing here draws pixels."""
        name = os.fspath(path)
        base, suffix = os.path.splitext(name)
        if suffix.lower() not in ("", ".svg"):
            raise make_error(UsageError, f"{name}: a picture is written as SVG, not as {suffix[1:].upper()}", hint=f"save it as {base}.svg")
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.svg)

    def __repr__(self) -> str:
        return f"<foretrace.Picture, {len(self.svg)} bytes of SVG>"


def paragraphs(sentences: Iterable[str]) -> str:
    return "".join(f"<p>{escape(s)}</p>" for s in sentences)


def html_table(heads: Sequence[str], rows: Iterable[Sequence[object]], most: int = 12) -> str:
    """Numbers to the right, with three digits; the first rows."""
    out = ["<table><thead><tr>", *(f"<th>{escape(h)}</th>" for h in heads), "</tr></thead><tbody>"]
    for row in list(rows)[:most]:
        cells = (f"<td style='text-align:right'>{cell:.3f}</td>" if isinstance(cell, float) else
                 f"<td style='text-align:left'>{cell if isinstance(cell, Markup) else escape(str(cell))}</td>" for cell in row)
        out += ["<tr>", *cells, "</tr>"]
    return "".join([*out, "</tbody></table>"])


class Markup(str):
    """A text that is HTML already."""


def band_svg(low: float, value: float, high: float, most: float, today: float | None = None, width: int = 160) -> Markup:
    """A band as a bar, its value as a dot, today as a dashed line."""
    def x(v: float) -> float:
        return width * v / most if most > 0 else 0

    line = "" if today is None else (f"<line x1='{x(today):.1f}' x2='{x(today):.1f}' y1='0' y2='14' stroke='currentColor' "
                                     "stroke-dasharray='2 2'/>")
    return Markup(f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='14' viewBox='0 0 {width} 14'>{line}"
                  f"<rect x='{x(low):.1f}' y='4' width='{max(1.0, x(high) - x(low)):.1f}' height='6' rx='3' fill='#3b7dd8' "
                  f"opacity='.45'/><circle cx='{x(value):.1f}' cy='7' r='3.5' fill='#3b7dd8'/></svg>")


def bars(rows: Sequence[tuple[str, float, float, float]], today: float | None = None, title: str = "") -> Picture:
    """Rows of (name, low, value, high) in ms, one bar each."""
    most = 1.05 * max([high for *_, high in rows] + ([today] if today else []) + [1e-9])
    left, width, row = 260, 760, 24
    height = row * len(rows) + 40

    def x(v: float) -> float:
        return left + (width - left - 90) * v / most

    out = [f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' width='{width}' height='{height}' role='img' "
           f"aria-label='{escape(title, quote=True)}' font-family='system-ui, sans-serif' font-size='12' fill='currentColor'>"]
    if title:
        out.append(f"<text x='8' y='16' font-weight='600'>{escape(title)}</text>")
    if today:
        out.append(f"<line x1='{x(today):.1f}' x2='{x(today):.1f}' y1='24' y2='{height - 8}' stroke='currentColor' "
                   f"stroke-dasharray='3 3' opacity='.6'/><text x='{x(today) + 4:.1f}' y='20' opacity='.7'>today {today:.1f} ms</text>")
    for i, (name, low, value, high) in enumerate(rows):
        y = 28 + row * i
        shown = name if len(name) <= 40 else name[:39] + "…"
        out.append(f"<text x='{left - 8}' y='{y + 13}' text-anchor='end'>{escape(shown)}</text>"
                   f"<rect x='{x(low):.1f}' y='{y + 4}' width='{max(1.0, x(high) - x(low)):.1f}' height='12' rx='3' fill='#3b7dd8' opacity='.35'/>"
                   f"<circle cx='{x(value):.1f}' cy='{y + 10}' r='4.5' fill='#3b7dd8'/>"
                   f"<text x='{x(max(high, value)) + 6:.1f}' y='{y + 14}' opacity='.8'>{value:.1f} ms</text>")
    return Picture("".join(out) + "</svg>")


PASSES = {"F": ("forward", "#3b7dd8"), "B": ("backward", "#c87a2e"), "I": ("backward of inputs", "#c87a2e"), "W": ("backward of weights", "#8a62c4"),
          "gradients": ("gradients and parameters", "#c04a6c"), "update": ("update", "#2a9169")}


def lanes(rows: Sequence[Sequence[tuple[float, float, str, str]]], title: str = "") -> Picture:
    """GPUs over time: for each its (begin, end, kind, label) in ms. What is empty before the last pass is the bubble."""
    most = max((end for row in rows for _, end, _, _ in row), default=0) or 1e-9
    left, width, high = 60, 900, 22
    height = high * len(rows) + 64

    def x(t: float) -> float:
        return left + (width - left - 12) * t / most

    drained = max((end for row in rows for _, end, kind, _ in row if len(kind) == 1), default=0)
    out = [f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' width='{width}' height='{height}' role='img' "
           f"aria-label='{escape(title, quote=True)}' font-family='system-ui, sans-serif' font-size='12' fill='currentColor'>"
           f"<text x='8' y='16' font-weight='600'>{escape(title)}</text>"]
    for i, row in enumerate(rows):
        y = 26 + high * i
        out.append(f"<text x='{left - 6}' y='{y + 14}' text-anchor='end'>GPU {i}</text>"
                   f"<rect x='{left}' y='{y}' width='{x(drained) - left:.1f}' height='{high - 4}' fill='#e8877f' opacity='.3'/>")
        times = [(begin, end) for begin, end, _, _ in row]
        for j, (begin, end, kind, label) in enumerate(row):
            wide = x(end) - x(begin)
            second, first = times[j - 1:j] == [times[j]], times[j + 1:j + 2] == [times[j]]  # two at once, as DualPipe has
            half = (high - 4) / 2 if first or second else 0
            out.append(f"<rect x='{x(begin):.2f}' y='{y + half if second else y:g}' width='{max(0.0, wide - (1 if wide > 3 else 0)):.2f}' "
                       f"height='{half or high - 4:g}' fill='{PASSES[kind][1]}'/>")
            if label and not half and wide > 7 * len(label) + 6:
                out.append(f"<text x='{x(begin) + wide / 2:.1f}' y='{y + 13}' text-anchor='middle' font-size='11' fill='#fff'>{escape(label)}</text>")
    shown, at = {PASSES[kind] for row in rows for *_, kind, _ in row}, left
    y = height - 26
    out.append(f"<text x='{width - 12}' y='{y + 20}' text-anchor='end' opacity='.7'>{most:.1f} ms</text>")
    for name, colour in [*dict.fromkeys(p for p in PASSES.values() if p in shown), ("bubble", "#e8877f")]:
        faint = " opacity='.3'" if name == "bubble" else ""
        out.append(f"<rect x='{at}' y='{y + 10}' width='11' height='11' fill='{colour}'{faint}/><text x='{at + 16}' y='{y + 20}'>{name}</text>")
        at += 34 + 7 * len(name)
    return Picture("".join(out) + "</svg>")
