#!/usr/bin/env python3
"""Runs the golden cases: each folder here is a command and the output it must give, to the byte.

    tests/golden/run.py [--program build/foretrace] [--update] [CASE…]

A case is a folder with
    cmd        a bash script (usually one line) that calls $FORETRACE
    expected   what it must print on standard output (add 2>&1 to also hold errors)
    exit       the exit code it must end with; 0 without this file
    slow       when present, the case runs only with FORETRACE_SLOW=1
and the inputs of the command. It runs in a fresh copy of the folder, so that it may write and clean nothing up.
In addition to $FORETRACE it finds $GENERATE (generate.py: inputs too large to keep), $PROBLEMS (problems.py: the events and bad
records of `doctor --json`, without the rest of the report) and $EXAMPLES.

scripts/regold rewrites `expected` and `exit` after an intended change; read the difference before committing it.
"""

import argparse
import concurrent.futures
import difflib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TIMEOUT_S = 120
OWN_FILES = ("cmd", "expected", "exit", "slow")


def cases() -> list[Path]:
    return sorted(cmd.parent for cmd in HERE.rglob("cmd"))


def name_of(case: Path) -> str:
    return str(case.relative_to(HERE))


def execute(case: Path, program: Path) -> tuple[str, int]:
    """Standard output and exit code of the case's command."""
    with tempfile.TemporaryDirectory(prefix="golden-") as folder:
        place = Path(folder) / case.name
        shutil.copytree(case, place, ignore=shutil.ignore_patterns(*OWN_FILES))
        environment = {
            **os.environ,
            "FORETRACE": str(program),
            "GENERATE": f"{sys.executable} {HERE / 'generate.py'}",
            "PROBLEMS": f"{sys.executable} {HERE / 'problems.py'}",
            "EXAMPLES": str(ROOT / "examples"),
            "COLUMNS": "100",
            "LC_ALL": "C.UTF-8",
            "TERM": "dumb",
        }
        for name in ("FORETRACE_TRUTH", "FORETRACE_PUBLIC"):
            environment.pop(name, None)
        script = subprocess.Popen(["bash", "-euo", "pipefail", "-c", (case / "cmd").read_text()], cwd=place, env=environment,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True)
        try:
            output, _ = script.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(script.pid, signal.SIGKILL)  # with everything it started
            script.communicate()
            raise
        return output.decode("utf-8", "replace"), script.returncode


def expected_exit(case: Path) -> int:
    file = case / "exit"
    return int(file.read_text()) if file.exists() else 0


def check(case: Path, program: Path) -> tuple[bool, str, float]:
    """(passed, what differs, seconds)"""
    begin = time.monotonic()
    try:
        output, code = execute(case, program)
    except subprocess.TimeoutExpired:
        return False, f"  took longer than {TIMEOUT_S} s\n", time.monotonic() - begin
    said = ""
    if code != expected_exit(case):
        said += f"  exit code {code}, expected {expected_exit(case)}\n"
    file = case / "expected"
    wanted = file.read_text() if file.exists() else ""
    if output != wanted:
        lines = difflib.unified_diff(wanted.splitlines(True), output.splitlines(True), "expected", "got")
        said += "".join("  " + line if line.endswith("\n") else "  " + line + "\n" for line in lines)
    return not said, said, time.monotonic() - begin


def update(case: Path, program: Path) -> bool:
    """Rewrites what the case expects; true when it changed."""
    output, code = execute(case, program)
    changed = not (case / "expected").exists() or (case / "expected").read_text() != output or code != expected_exit(case)
    (case / "expected").write_text(output)
    if code == 0:
        (case / "exit").unlink(missing_ok=True)
    else:
        (case / "exit").write_text(f"{code}\n")
    return changed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, default=ROOT / "build" / "foretrace")
    parser.add_argument("--update", action="store_true", help="rewrite what the cases expect")
    parser.add_argument("cases", nargs="*", metavar="CASE", help="only cases whose name contains one of these")
    options = parser.parse_args()
    program = options.program.resolve()
    if not program.exists():
        print(f"golden: {program} is not there; `make build` builds it", file=sys.stderr)
        return 1

    chosen = [c for c in cases() if not options.cases or any(part in name_of(c) for part in options.cases)]
    slow = [c for c in chosen if (c / "slow").exists() and os.environ.get("FORETRACE_SLOW") != "1"]
    chosen = [c for c in chosen if c not in slow]
    if not chosen:
        print("golden: no case of that name", file=sys.stderr)
        return 1
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        if options.update:
            for case, changed in zip(chosen, pool.map(lambda c: update(c, program), chosen)):
                if changed:
                    print(f"rewritten: {name_of(case)}")
            return 0
        for case, (passed, said, seconds) in zip(chosen, pool.map(lambda c: check(c, program), chosen)):
            failed += not passed
            if not passed:
                print(f"FAILED {name_of(case)} ({seconds:.1f} s)\n{said}", end="", flush=True)
    left = f"; {len(slow)} slow left out (FORETRACE_SLOW=1 runs them)" if slow else ""
    print(f"golden: {len(chosen) - failed} of {len(chosen)} cases passed{left}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
