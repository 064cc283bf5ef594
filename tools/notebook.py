#!/usr/bin/env python3
"""Writes docs/guide/example.ipynb: its cells executed with the installed module, what they show stored with them. Needs no Jupyter.

    .venv/bin/python tools/notebook.py            writes it
    .venv/bin/python tools/notebook.py --check    fails where a cell no longer runs
"""

import ast
import contextlib
import io
import json
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "docs" / "guide" / "example.ipynb"
CELLS = [
    ("markdown", "# foretrace in a notebook\n\nA step of ResNet-50 on an H200: where its time goes, what would make it faster, and whether a change did."),
    ("code", "import foretrace\n\ntrace = foretrace.load(\"examples/resnet50-h200.json.gz\")\nforetrace.summary(trace, top=5)"),
    ("code", "step = trace.step()\nadvised = step.advise()\nadvised"),
    ("code", "advised.plot()"),
    ("code", "step.predict(\"amp:dtype=bf16\", \"fused-optimizer\")"),
    ("markdown", "Two recordings of one program: what changed, and was the prediction right?"),
    ("code", "foretrace.compare(\"data/h200-clean/gpt2.base.json.gz\", \"data/h200-clean/gpt2.bf16sdpafused.json.gz\",\n"
             "                  \"amp:dtype=bf16\", \"flash-attention\", \"fused-optimizer\")"),
    ("markdown", "Everything as one page that needs nothing else:"),
    ("code", "import os\nimport tempfile\n\nstep.report(os.path.join(tempfile.gettempdir(), \"report.html\"))"),
]


def shown(value: object) -> dict[str, list[str]]:
    """What a notebook would keep of a value."""
    out = {"text/plain": repr(value)}
    for kind, name in (("text/html", "_repr_html_"), ("image/svg+xml", "_repr_svg_")):
        if hasattr(value, name):
            out[kind] = getattr(value, name)()
    return {kind: text.splitlines(keepends=True) for kind, text in out.items()}


def execute(source: str, names: dict) -> list[dict]:
    """The cell's outputs: what it prints, then its last expression."""
    tree = ast.parse(source)
    end = tree.body[-1]
    last = ast.Expression(end.value) if isinstance(end, ast.Expr) else None
    if last:
        tree.body.pop()
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "<cell>", "exec"), names)
        value = eval(compile(last, "<cell>", "eval"), names) if last else None
    out: list[dict] = []
    if printed.getvalue():
        out.append({"output_type": "stream", "name": "stdout", "text": printed.getvalue().splitlines(keepends=True)})
    if value is not None:
        out.append({"output_type": "execute_result", "execution_count": None, "metadata": {}, "data": shown(value)})
    return out


def main() -> int:
    os.chdir(ROOT)
    names: dict = {}
    cells = []
    for number, (kind, source) in enumerate(CELLS):
        cell: dict = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}, "source": source.splitlines(keepends=True)}
        if kind == "code":
            cell |= {"execution_count": None, "outputs": execute(source, names)}
        cells.append(cell)
    if "--check" in sys.argv:
        return 0
    book = {"cells": cells, "metadata": {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}, "language_info": {"name": "python"}},
            "nbformat": 4, "nbformat_minor": 5}
    OUT.write_text(json.dumps(book, indent=1, ensure_ascii=False) + "\n")
    print(f"{OUT.relative_to(ROOT)}: {len(cells)} cells, {OUT.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
