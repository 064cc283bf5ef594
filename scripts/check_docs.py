#!/usr/bin/env python3
"""Executes every command and every Python block of README.md and docs/, and compares what they print with what is shown.

    scripts/check_docs.py [--update] [--program build/foretrace] [--python .venv/bin/python] [--list] [FILE…]
    scripts/check_docs.py --from-clone

A ```console block is a session: lines that start with `$ ` are commands (a trailing backslash continues one). The lines
below a command, up to the next command, are what it prints: all of it, character by character, blanks at the ends of
lines aside. Where something is left out stands `…`: alone on a line for any number of lines, inside a line for any text. A
command with nothing below it only has to succeed. Each command runs with bash in a copy of the repository's examples/ (as
examples/), next to its tools/ and data/, with `foretrace` on PATH, and must exit with 0. Words after ```console change that:

    ```console exit=3       the last command of the block must exit with 3
    ```console no-run       not executed: needs what a test machine lacks (root, a network, hours)
    ```console install      executed by --from-clone only: installs foretrace

A ```python block runs as a script of its own with the same folder as working directory; ```python no-run is not executed.
A comment `#> text` behind one of its lines is a line that the script prints (`…` as above); those of a block must come in
its order. All blocks of one file share one folder, so that a later command finds what an earlier one wrote.

`--update` writes what is printed now into the files, with the same parts left out. Read the diff.

`--from-clone` runs the README as a new user would: its commands and scripts in order, as one session in a fresh clone of the last commit,
with an empty home, and nothing on the PATH but the system's programs. foretrace is what the README's own lines install. The compiler
cache is kept.
"""

import argparse
import difflib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^(`{3,})(\w*)[ \t]*([^\n]*)\n(.*?)^\1[ \t]*$", re.MULTILINE | re.DOTALL)
CLAIM = re.compile(r"#> ?(.*)$")
CUT = "…"
TIMEOUT_S = 300
FIRST_BUILD_S = 1800  # of all sources, without a compiler cache, on a busy machine


@dataclass
class Snippet:
    where: str      # "README.md:12"
    language: str   # console, python
    text: str       # one command, or a whole script
    exit: int = 0
    run: bool = True
    install: bool = False  # one of the lines that install foretrace
    shown: list[str] = field(default_factory=list)  # what it is said to print
    lines: list[int] = field(default_factory=list)  # where those lines are in the file, from 0


def snippets(path: Path):
    """The commands and scripts of one Markdown file, in order."""
    text = path.read_text()
    for match in FENCE.finditer(text):
        language, words, body = match[2], match[3].split(), match[4]
        if language not in ("console", "python"):
            continue
        first_line = text.count("\n", 0, match.start(4)) + 1
        name = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path.name
        run, install, expected = True, False, 0
        for word in words:
            if word == "no-run":
                run = False
            elif word == "install" and language == "console":
                install = True
            elif re.fullmatch(r"exit=\d+", word):
                expected = int(word[5:])
            else:
                raise SystemExit(f"{name}:{first_line - 1}: unknown word after ```{language}: {word}")
        numbered = list(enumerate(body.splitlines(), first_line))
        if language == "python":
            claims = [(number - 1, claim[1].rstrip()) for number, line in numbered if (claim := CLAIM.search(line))]
            yield Snippet(f"{name}:{first_line}", language, body, expected, run, False, [c for _, c in claims], [n for n, _ in claims])
            continue
        commands: list[Snippet] = []
        lines = iter(numbered)
        for number, line in lines:
            if not line.startswith("$ "):
                if commands:
                    commands[-1].shown.append(line.rstrip())
                    commands[-1].lines.append(number - 1)
                continue
            command = line[2:]
            while command.endswith("\\"):
                command = command[:-1] + next(lines, (0, ""))[1].lstrip()
            commands.append(Snippet(f"{name}:{number}", language, command, 0, run, install))
        for snippet in commands:  # blank lines between commands show nothing
            while snippet.shown and not snippet.shown[-1]:
                snippet.shown.pop()
                snippet.lines.pop()
        if commands:
            commands[-1].exit = expected
        yield from commands


# ---- what is shown against what was printed

def line_pattern(shown: str) -> re.Pattern:
    return re.compile(".*".join(map(re.escape, shown.split(CUT))))


def same_line(shown: str, printed: str) -> bool:
    return bool(line_pattern(shown).fullmatch(printed))


def is_cut(line: str) -> bool:
    return line.strip() == CUT


def same(shown: list[str], printed: list[str]) -> bool:
    """Whether all of what was printed is what is shown, up to cuts."""
    reached = {0}  # how many printed lines the shown ones so far may have used up
    for line in shown:
        if is_cut(line):
            reached = set(range(min(reached), len(printed) + 1))
        else:
            reached = {n + 1 for n in reached if n < len(printed) and same_line(line, printed[n])}
        if not reached:
            return False
    return len(printed) in reached


def in_order(claims: list[str], printed: list[str]) -> str:
    """The first claim that no printed line behind the ones before meets; empty when all are met."""
    rest = iter(printed)
    for claim in claims:
        if not any(same_line(claim, line) for line in rest):
            return claim
    return ""


def kind_of(line: str) -> str:
    """A line without its numbers and gaps: what stays when only figures change."""
    return re.sub(r"\s+", " ", re.sub(r"[-+]?\d[\d.,]*", "0", line)).strip()


def pairs(shown: list[str], printed: list[str]) -> list[tuple[int, int]]:
    """Which printed line each shown one became: in order, by likeness, none where nothing is alike."""
    likeness = [[difflib.SequenceMatcher(None, kind_of(s.replace(CUT, " ")), kind_of(p), autojunk=False).ratio() for p in printed]
                for s in shown]
    best = [[0.0] * (len(printed) + 1) for _ in range(len(shown) + 1)]

    def taken(i: int, j: int) -> float:
        return likeness[i][j] + best[i + 1][j + 1] if likeness[i][j] >= 0.6 and not is_cut(shown[i]) else 0.0

    for i in range(len(shown) - 1, -1, -1):
        for j in range(len(printed) - 1, -1, -1):
            best[i][j] = max(taken(i, j), best[i + 1][j], best[i][j + 1])
    found, i, j = [], 0, 0
    while i < len(shown) and j < len(printed):
        if best[i][j] == taken(i, j) > 0:  # of lines equally alike the first
            found.append((i, j))
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            i += 1
        else:
            j += 1
    return found


def recut(shown: str, printed: str) -> str:
    """A printed line with the shown one's cut: at the end where that was, else none."""
    if CUT not in shown or same_line(shown, printed):
        return shown if CUT in shown else printed
    if shown.endswith(CUT) and len(printed) > len(shown):
        return printed[: len(shown) - 1].rstrip() + CUT
    return printed


def updated(shown: list[str], printed: list[str]) -> list[str]:
    """What to show now: the printed lines, less what was left out before."""
    if not any(map(is_cut, shown)):
        return [recut(shown[i], p) if i < len(shown) else p for i, p in enumerate(printed)]
    out: list[str] = []
    last_shown, last_printed = -1, -1
    for i, j in [*pairs(shown, printed), (len(shown), len(printed))]:
        between = printed[last_printed + 1:j]
        if any(map(is_cut, shown[last_shown + 1:i])):
            out += [next(s for s in shown[last_shown + 1:i] if is_cut(s))] if between else []
        else:
            out += between
        if i < len(shown):
            out.append(recut(shown[i], printed[j]))
        last_shown, last_printed = i, j
    return out


# ---- running

def execute(snippet: Snippet, folder: Path, python: str, env: dict, limit_s: int = TIMEOUT_S) -> tuple[str, list[str]]:
    """What went wrong, or an empty string; and what was printed."""
    argv = ["bash", "-euo", "pipefail", "-c", snippet.text] if snippet.language == "console" else [python, "-c", snippet.text]
    try:
        done = subprocess.run(argv, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=limit_s, check=False)
    except subprocess.TimeoutExpired:
        return f"not done after {limit_s} s", []
    except FileNotFoundError:
        return f"there is no {argv[0]}; `make test` installs the module, --python names another interpreter", []
    text = done.stdout.decode(errors="replace")
    if done.returncode != snippet.exit:
        return f"exit {done.returncode}, expected {snippet.exit}\n{text[-3000:]}", []
    return "", [line.rstrip() for line in text.rstrip("\n").split("\n")]


def compare(snippet: Snippet, printed: list[str]) -> str:
    if not snippet.shown:
        return ""
    if snippet.language == "python":
        missing = in_order(snippet.shown, printed)
        return f"it does not print: {missing}\nbut:\n" + "\n".join(printed[-40:]) if missing else ""
    if all(map(is_cut, snippet.shown)):
        return "nothing is shown of what it prints but cuts"
    if same(snippet.shown, printed):
        return ""
    now = updated(snippet.shown, printed)
    return "it prints something else (scripts/check_docs.py --update shows that):\n" + "\n".join(
        difflib.unified_diff(snippet.shown, now, "shown", "printed", lineterm="", n=1))


def prepared(temp: Path, args) -> tuple[Path, dict]:
    """A folder as the documentation assumes it, and the environment to run in."""
    folder = temp / "work"
    folder.mkdir()
    if (ROOT / "examples").is_dir():
        shutil.copytree(ROOT / "examples", folder / "examples")
    for name in ("tools", "data"):
        if (ROOT / name).is_dir():
            (folder / name).symlink_to(ROOT / name)
    bin_folder = temp / "bin"
    bin_folder.mkdir()
    (bin_folder / "foretrace").symlink_to(args.program.resolve())
    # python3 is the one that holds the module: the program hands some commands to it.
    python_folder = Path(args.python).absolute().parent
    env = dict(os.environ, PATH=f"{bin_folder}:{python_folder}:{os.environ['PATH']}", TERM="dumb")
    env.pop("COLUMNS", None)  # tables are as wide as in a pipe
    return folder, env


@dataclass
class Page:
    path: Path
    ran: int = 0
    failed: int = 0
    skipped: int = 0
    compared: int = 0
    said: list[str] = field(default_factory=list)


def rewritten(path: Path, changes: list[tuple[Snippet, list[str]]]) -> None:
    """The file with the shown lines of some commands replaced by others."""
    lines = path.read_text().split("\n")
    for snippet, now in reversed(changes):
        lines[snippet.lines[0]:snippet.lines[-1] + 1] = now
    path.write_text("\n".join(lines))


def check_page(path: Path, args) -> Page:
    page = Page(path)
    changes: list[tuple[Snippet, list[str]]] = []
    with tempfile.TemporaryDirectory() as temp:
        folder, env = prepared(Path(temp), args)
        for snippet in snippets(path.resolve()):
            shown = snippet.text.strip().splitlines()[0] if snippet.language == "console" else "python block"
            if not snippet.run or snippet.install:
                page.skipped += 1
                page.said.append(f"docs: {snippet.where}: not run: {shown}")
                continue
            if args.list:
                page.said.append(f"docs: {snippet.where}: {shown}")
                continue
            begin = time.monotonic()
            problem, printed = execute(snippet, folder, args.python, env)
            page.ran += 1
            if not problem:
                page.compared += bool(snippet.shown)
                problem = compare(snippet, printed)
                now = updated(snippet.shown, printed) if problem and snippet.language == "console" else []
                if args.update and not all(map(is_cut, now)):
                    changes.append((snippet, now))
                    page.said.append(f"docs: {snippet.where}: updated: {shown}")
                    problem = ""
            if problem:
                page.failed += 1
                page.said.append(f"docs: {snippet.where}: FAILED: {shown}\n{problem}")
            elif time.monotonic() - begin > 10:
                page.said.append(f"docs: {snippet.where}: {time.monotonic() - begin:.0f} s: {shown}")
    if changes:
        rewritten(path, changes)
    return page


# ---- the README in a fresh clone

# What stays of the environment: where packages come from, and the compiler cache.
KEPT = re.compile(r"PIP_\w+|CCACHE_\w+|SSL_CERT_\w+|(https?|all|no)_proxy|CMAKE_BUILD_PARALLEL_LEVEL|LANG|LC_ALL", re.IGNORECASE)
# Runs one line, and leaves where the session stands: the next line continues there.
SESSION = """cd "$(cat {state}/folder)"; eval "$(cat {state}/variables)"
{line}
status=$?; [ $status = 0 ] || exit $status
pwd >{state}/folder; export -p >{state}/variables"""


def new_user(temp: Path) -> tuple[Path, dict]:
    """A clone of the last commit, and the environment of someone who has just logged in."""
    clone, home = temp / "foretrace", temp / "home"
    home.mkdir()
    subprocess.run(["git", "clone", "--quiet", "--no-local", "--depth", "1", f"file://{ROOT}", str(clone)], check=True)
    env = {k: v for k, v in os.environ.items() if KEPT.fullmatch(k)}
    if (ccache := shutil.which("ccache")) and "CCACHE_DIR" not in env:
        env["CCACHE_DIR"] = subprocess.run([ccache, "--get-config", "cache_dir"], check=True, capture_output=True, text=True).stdout.strip()
    programs = temp / "bin"
    programs.mkdir()
    # The CMake that configured build/, where there is one: another writes other precompiled headers, and the cache would know nothing.
    cache = ROOT / "build" / "CMakeCache.txt"
    if cache.exists() and (command := re.search(r"^CMAKE_COMMAND:INTERNAL=(.+)$", cache.read_text(), re.MULTILINE)):
        (programs / "cmake").symlink_to(command[1])
    return clone, env | {"HOME": str(home), "PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "TERM": "dumb"}


def check_from_clone(readme: Path) -> int:
    failed = ran = 0
    with tempfile.TemporaryDirectory() as temp:
        clone, env = new_user(Path(temp))
        state = Path(temp) / "state"
        state.mkdir()
        (state / "folder").write_text(str(clone))
        (state / "variables").touch()
        for snippet in snippets(readme):
            if not snippet.run:
                continue
            line = snippet.text
            if snippet.language == "python":
                (state / "script.py").write_text(line)
                line = f"python3 {state}/script.py"
            begin = time.monotonic()
            in_session = Snippet(snippet.where, "console", SESSION.format(state=state, line=line), snippet.exit)
            problem, printed = execute(in_session, clone, "", env, limit_s=FIRST_BUILD_S if snippet.install else TIMEOUT_S)
            problem = problem or compare(snippet, printed)
            ran, failed = ran + 1, failed + bool(problem)
            title = "python block" if snippet.language == "python" else line
            print(f"docs: {snippet.where}: {'FAILED' if problem else 'ok'}, {time.monotonic() - begin:.0f} s: {title}" + (f"\n{problem}" if problem else ""),
                  flush=True)
            if problem and snippet.install:
                break
    print(f"docs: {ran - failed} of {ran} lines of {readme.name} work in a fresh clone")
    return 1 if failed else 0


def main(argv=None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--program", type=Path, default=ROOT / "build/foretrace")
    parser.add_argument("--python", default=str(ROOT / ".venv/bin/python"))
    parser.add_argument("--list", action="store_true", help="show what would run")
    parser.add_argument("--update", action="store_true", help="write what commands print now into the files")
    parser.add_argument("--from-clone", action="store_true", help="run the README in a fresh clone, from its install lines on")
    args = parser.parse_args(argv)
    if args.from_clone:
        return check_from_clone(args.files[0].resolve() if args.files else ROOT / "README.md")
    files = args.files or [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        pages = []
        for page in pool.map(lambda path: check_page(path, args), files):
            pages.append(page)
            print("".join(f"{line}\n" for line in page.said), end="", flush=True)
    ran, failed = sum(p.ran for p in pages), sum(p.failed for p in pages)
    print(f"docs: {ran - failed} of {ran} commands and scripts succeeded, {sum(p.compared for p in pages)} compared with what is"
          f" shown, {sum(p.skipped for p in pages)} not run")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
