#!/usr/bin/env python3
"""Every command in terminals of 60 and 80 columns: no line is longer than the terminal, and the figures that matter are there.

    FORETRACE_PROGRAM=build/foretrace python3 -m unittest discover -s tests/terminal -p "*_test.py"

The commands run in a pseudo terminal over the examples and the traces of the golden cases. A line may be longer only where one
of its words is: a path, a name, a number format. Such words cannot be broken.
"""

import fcntl
import json
import os
import pty
import re
import shutil
import struct
import subprocess
import tempfile
import termios
import unicodedata
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = str(Path(os.environ.get("FORETRACE_PROGRAM", ROOT / "build" / "foretrace")).resolve())
EXAMPLE = "examples/resnet50-h200.json.gz"
RANKS = "examples/resnet50-ddp"
WIDTHS = (60, 80)
OUTPUT = tempfile.mkdtemp(prefix="terminal-")

COMMANDS = [
    f"doctor {EXAMPLE}",
    f"doctor {RANKS}",
    f"summary {EXAMPLE}",
    f"summary {EXAMPLE} --batch 64",
    f"whatif {EXAMPLE} amp batch:x=2 fused-optimizer flash-attention",
    f"whatif {EXAMPLE} batch:x=64",
    f"advise {EXAMPLE}",
    f"advise {EXAMPLE} --memory-gb 4",
    f"optimize {EXAMPLE} --budget-evals 20",
    f"optimize {EXAMPLE} --budget-evals 20 --workers 8 --fabric DGX-H100",
    f"gpus {EXAMPLE}",
    f"gpus {EXAMPLE} --watts",
    f"scale {EXAMPLE} --workers 2,64 --fabric DGX-H100",
    f"scale {EXAMPLE} --workers 8 --fabric 10GbE --parallel ps",
    f"ranks {RANKS}",
    "ranks examples/pipeline/job.csv",
    f"replay {EXAMPLE}",
    f"compare {EXAMPLE} {RANKS} --gate 3",
    f"compare {EXAMPLE} {EXAMPLE} --whatif amp",
    f"export {EXAMPLE} --format csv -o {OUTPUT}/step.csv",
    f"report {EXAMPLE} -o {OUTPUT}/page.html",
    f"graph {EXAMPLE} --check",
    "list whatifs",
    "list whatifs amp ddp",
    "list gpus",
    "list fabrics",
    "list formats",
]
# Wrong calls: what the program says then fits too.
WRONG = [
    "summary examples/nothing.json.gz",
    f"whatif {EXAMPLE} ampp",
    f"gpus {EXAMPLE} --to H300",
    f"scale {EXAMPLE} --workers 4",
    "list whatsits",
    f"summary {EXAMPLE} --step 99",
    f"compare {EXAMPLE} {RANKS} --before-ms 3",
]
# The figures of the JSON answer that a narrow table must keep: command, path in the answer, how the text writes them.
ESSENTIAL = [
    (f"whatif {EXAMPLE} amp batch:x=2", ("predictions",), ("ms", "low_ms", "high_ms"), "{:.2f}"),
    (f"advise {EXAMPLE}", ("combined",), ("ms", "low_ms", "high_ms", "gain"), "{:.2f}"),
    (f"gpus {EXAMPLE}", ("predictions",), ("ms", "low_ms", "high_ms", "speedup"), "{:.2f}"),
    (f"scale {EXAMPLE} --workers 2,64 --fabric DGX-H100", ("predictions",), ("ms", "low_ms", "high_ms"), "{:.2f}"),
    (f"ranks {RANKS}", ("ranks",), ("step_ms", "wait_ms", "transfer_ms", "critical_ms"), "{:.3f}"),
    (f"summary {EXAMPLE}", ("phases",), ("gpu_ms", "cpu_ms"), "{:.3f}"),
    (f"replay {EXAMPLE}", ("steps",), ("traced_ms", "replayed_ms"), "{:.3f}"),
    (f"optimize {EXAMPLE} --budget-evals 20", ("best",), ("ms", "low_ms", "high_ms"), "{:.2f}"),
]


def columns_of(text: str) -> int:
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def in_terminal(command: list[str], width: int, folder: Path) -> str:
    """What a terminal of this width shows of standard output and error, without colours."""
    reader, writer = pty.openpty()
    fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    environment = {**os.environ, "TERM": "xterm", "LC_ALL": "C.UTF-8", "NO_COLOR": "1"}
    environment.pop("COLUMNS", None)
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=writer, stderr=writer, cwd=folder, env=environment)
    os.close(writer)
    parts = []
    while True:
        try:
            part = os.read(reader, 1 << 16)
        except OSError:  # the last writer has closed it
            break
        if not part:
            break
        parts.append(part)
    os.close(reader)
    process.wait()
    text = b"".join(parts).decode("utf-8", "replace").replace("\r\n", "\n")
    # The progress bar rewrites its line and erases it.
    return re.sub(r"\r[^\n\r]*\x1b\[K", "", text)


def too_long(text: str, width: int) -> list[str]:
    """Lines beyond the width in which every word would have fitted."""
    found = []
    for line in text.split("\n"):
        indent = len(line) - len(line.lstrip(" "))
        longest = max((columns_of(word) for word in line.split()), default=0)
        if columns_of(line) > width and indent + longest <= width:
            found.append(line)
    return found


def golden_traces() -> list[Path]:
    return sorted(p for p in (ROOT / "tests" / "golden").rglob("*.json*") if p.is_file() and p.stat().st_size < 1 << 20)


class Width(unittest.TestCase):
    @classmethod
    def tearDownClass(cls) -> None:
        shutil.rmtree(OUTPUT)

    def check(self, command: list[str], folder: Path = ROOT, widths: tuple[int, ...] = WIDTHS) -> None:
        for width in widths:
            with self.subTest(command=" ".join(command), width=width):
                lines = too_long(in_terminal([PROGRAM, *command], width, folder), width)
                self.assertFalse(lines, "\n" + "\n".join(lines))

    def test_every_command_fits(self) -> None:
        for command in COMMANDS:
            self.check(command.split())

    def test_errors_fit(self) -> None:
        for command in WRONG:
            self.check(command.split())

    def test_help_fits(self) -> None:
        verbs = re.findall(r"^  ([a-z]+)", in_terminal([PROGRAM, "--help"], 100, ROOT).split("examples")[0], re.M)
        self.assertIn("summary", verbs)
        for verb in ["", *verbs]:
            for width in WIDTHS:
                # Commands that can be copied are never broken.
                text = in_terminal([PROGRAM, *verb.split(), "--help"], width, ROOT)
                shown = [line for line in text.split("\n") if not line.startswith("  foretrace ")]
                with self.subTest(verb=verb, width=width):
                    lines = too_long("\n".join(shown), width)
                    self.assertFalse(lines, "\n" + "\n".join(lines))

    def test_golden_traces_fit(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            for i, trace in enumerate(golden_traces()):
                copy = Path(name) / f"{i}{''.join(trace.suffixes)}"
                shutil.copy(trace, copy)
                for verb in ("doctor", "summary"):
                    self.check([verb, copy.name], Path(name), (60,))

    def test_essential_figures_stay(self) -> None:
        for command, path, keys, written in ESSENTIAL:
            answer = json.loads(subprocess.run([PROGRAM, *command.split(), "--json"], cwd=ROOT, capture_output=True, check=True).stdout)
            for key in path:
                answer = answer[key]
            text = in_terminal([PROGRAM, *command.split()], 60, ROOT)
            for row in answer if isinstance(answer, list) else [answer]:
                for key in keys:
                    if row.get(key) and row[key] >= 1:
                        with self.subTest(command=command, key=key):
                            self.assertIn(written.format(row[key]), text)

    def test_a_pipe_keeps_its_width(self) -> None:
        environment = {k: v for k, v in os.environ.items() if k != "COLUMNS"}
        said = subprocess.run([PROGRAM, "advise", EXAMPLE], cwd=ROOT, capture_output=True, text=True, check=True, env=environment).stdout
        self.assertNotIn("no room here", said)
        self.assertTrue(any(columns_of(line) > 80 for line in said.split("\n")))


if __name__ == "__main__":
    unittest.main()
