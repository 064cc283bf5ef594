#!/usr/bin/env python3
"""Executes every command and every Python block of README.md and docs/*.md.

    scripts/check_docs.py [--program build/foretrace] [--python .venv/bin/python] [--list] [FILE…]

A ```console block is a session: lines that start with `$ ` are commands (a trailing backslash continues one), all others
are their output and not compared. Each command runs with bash in a copy of the repository's examples/ (as examples/), with
`foretrace` on PATH, and must exit with 0. The words after ```console change that:

    ```console exit=3       the last command of the block must exit with 3
    ```console no-run       not executed: needs what a test machine lacks (root, a network, hours)

A ```python block runs as a script of its own with the same folder as working directory; ```python no-run is not executed.
All blocks of one file share one folder, so that a later command finds what an earlier one wrote.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^(`{3,})(\w*)[ \t]*([^\n]*)\n(.*?)^\1[ \t]*$", re.M | re.S)
TIMEOUT_S = 300


@dataclass
class Snippet:
    where: str      # "README.md:12"
    language: str   # console, python
    text: str       # one command, or a whole script
    exit: int = 0
    run: bool = True


def snippets(path: Path):
    """The commands and scripts of one Markdown file, in order."""
    text = path.read_text()
    for match in FENCE.finditer(text):
        language, words, body = match[2], match[3].split(), match[4]
        if language not in ("console", "python"):
            continue
        first_line = text.count("\n", 0, match.start(4)) + 1
        name = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path.name
        run, expected = True, 0
        for word in words:
            if word == "no-run":
                run = False
            elif re.fullmatch(r"exit=\d+", word):
                expected = int(word[5:])
            else:
                raise SystemExit(f"{name}:{first_line - 1}: unknown word after ```{language}: {word}")
        if language == "python":
            yield Snippet(f"{name}:{first_line}", language, body, expected, run)
            continue
        commands = []
        lines = iter(enumerate(body.splitlines(), first_line))
        for number, line in lines:
            if not line.startswith("$ "):
                continue
            command = line[2:]
            while command.endswith("\\"):
                command = command[:-1] + next(lines, (0, ""))[1].lstrip()
            commands.append(Snippet(f"{name}:{number}", language, command, 0, run))
        if commands:
            commands[-1].exit = expected
        yield from commands


def execute(snippet: Snippet, folder: Path, python: str, env: dict) -> str:
    """An empty string, or what went wrong."""
    argv = ["bash", "-euo", "pipefail", "-c", snippet.text] if snippet.language == "console" else [python, "-c", snippet.text]
    try:
        done = subprocess.run(argv, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return f"not done after {TIMEOUT_S} s"
    except FileNotFoundError:
        return f"there is no {argv[0]}; `make test` installs the module, --python names another interpreter"
    if done.returncode == snippet.exit:
        return ""
    return f"exit {done.returncode}, expected {snippet.exit}\n{done.stdout.decode(errors='replace')[-3000:]}"


def main(argv=None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--program", type=Path, default=ROOT / "build/foretrace")
    parser.add_argument("--python", default=str(ROOT / ".venv/bin/python"))
    parser.add_argument("--list", action="store_true", help="show what would run")
    args = parser.parse_args(argv)
    files = args.files or [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

    failed = ran = skipped = 0
    for path in files:
        with tempfile.TemporaryDirectory() as temp:
            folder = Path(temp) / "work"
            folder.mkdir()
            if (ROOT / "examples").is_dir():
                shutil.copytree(ROOT / "examples", folder / "examples")
            bin_folder = Path(temp) / "bin"
            bin_folder.mkdir()
            (bin_folder / "foretrace").symlink_to(args.program.resolve())
            # python3 is the one that holds the module: the program hands some commands to it.
            python_folder = Path(args.python).absolute().parent
            env = dict(os.environ, PATH=f"{bin_folder}:{python_folder}:{os.environ['PATH']}", TERM="dumb")
            for snippet in snippets(path.resolve()):
                shown = snippet.text.strip().splitlines()[0] if snippet.language == "console" else "python block"
                if not snippet.run:
                    skipped += 1
                    print(f"docs: {snippet.where}: not run: {shown}")
                    continue
                if args.list:
                    print(f"docs: {snippet.where}: {shown}")
                    continue
                begin = time.monotonic()
                problem = execute(snippet, folder, args.python, env)
                ran += 1
                if problem:
                    failed += 1
                    print(f"docs: {snippet.where}: FAILED: {shown}\n{problem}")
                elif time.monotonic() - begin > 10:
                    print(f"docs: {snippet.where}: {time.monotonic() - begin:.0f} s: {shown}")
    print(f"docs: {ran - failed} of {ran} commands and scripts succeeded, {skipped} not run")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
