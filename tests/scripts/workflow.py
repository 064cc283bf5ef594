"""Runs the steps of examples/ci/compare.yml without GitHub: `run` in bash as a runner does, `uses` of the actions it knows as what
they do to files, `gh` and `pip` as small scripts that keep what they were told.

    folder = Workflow(PROGRAM, folder)
    folder.run("push")                     -> 0; artifacts["recordings-main"] is kept
    folder.run("pull_request")             -> what the job ends with; folder.comments() is what the pull request shows

Only what that file uses is known; anything else is an error, so that a step nobody runs here cannot slip in.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "examples" / "ci" / "compare.yml"

# `gh run download` takes what a workflow kept; `gh pr comment --edit-last` fails while there is no comment, as the real one does.
GH = """#!/usr/bin/env bash
set -eu
[ -n "$GH_TOKEN" ] || exit 4
case "$1 $2" in
  "run download")
    [ "$3 $5" = "--name --dir" ] || exit 64
    [ -d "$STORE/artifacts/$4" ] || { echo "no artifact matches any of the names" >&2; exit 1; }
    mkdir -p "$6"; cp -r "$STORE/artifacts/$4/." "$6/" ;;
  "pr comment")
    [ "$4" = --body-file ] || exit 64
    mkdir -p "$STORE/comments"
    if [ "${6:-}" = --edit-last ]; then
      [ -f "$STORE/comments/$3.md" ] || { echo "no comments found for current user" >&2; exit 1; }
    fi
    cp "$5" "$STORE/comments/$3.md" ;;
  *) exit 64 ;;
esac
"""


def steps() -> tuple[dict, list[dict]]:
    import yaml

    workflow = yaml.safe_load(FILE.read_text())
    (job,) = workflow["jobs"].values()
    return job.get("env", {}), job["steps"]


class Workflow:
    def __init__(self, program: Path, folder: Path, python: Path | None = None) -> None:
        """`folder` becomes the checkout, with the caller's train.py in it; what lies outside one run is kept next to it."""
        self.checkout, self.store = folder, folder.parent / (folder.name + "-kept")
        commands = self.store / "bin"
        commands.mkdir(parents=True)
        for name, text in {"gh": GH, "pip": '#!/bin/sh\n[ "$*" = "install wheels/foretrace-*.whl" ]\n', "foretrace": f'#!/bin/sh\nexec "{program}" "$@"\n',
                           "python": f'#!/bin/sh\nexec "{python or shutil.which("python3")}" "$@"\n'}.items():
            (commands / name).write_text(text)
            (commands / name).chmod(0o755)

    def comments(self) -> str:
        file = self.store / "comments" / "7.md"
        return file.read_text() if file.exists() else ""

    def artifact(self, name: str) -> Path:
        return self.store / "artifacts" / name

    def run(self, event: str) -> tuple[int, str]:
        """The exit code of the first step that fails, and everything that was printed."""
        for left in ("recordings", "main", "comment.md", "report.html"):
            path = self.checkout / left
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        job_env, todo = steps()
        known = {"github.token": "t0ken", "github.event.number": "7", "github.event_name": event}
        code, log = 0, ""
        for step in todo:
            wanted, always = self.holds(step.get("if", ""), event)
            if not wanted or (code and not always):
                continue
            if "uses" in step:
                self.use(step)
                continue
            env = os.environ | {"PATH": f"{self.store / 'bin'}:{os.environ['PATH']}", "STORE": str(self.store), "GH_TOKEN": "",
                                "GITHUB_STEP_SUMMARY": str(self.store / "summary.md")}
            for name, value in {**job_env, **step.get("env", {})}.items():
                env[name] = re.sub(r"\$\{\{ ([\w.]+) \}\}", lambda found: known[found.group(1)], str(value))
            assert "${{" not in step["run"], "an expression in a script is code that a pull request can write"
            done = subprocess.run(["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]], cwd=self.checkout, env=env, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
            log += done.stdout
            code = code or done.returncode
        return code, log

    @staticmethod
    def holds(condition: str, event: str) -> tuple[bool, bool]:
        parts = [part.strip() for part in condition.split("&&")] if condition else []
        always = "always()" in parts
        for part in parts:
            if part != "always()" and part.removeprefix("github.event_name == ") not in ("'push'", "'pull_request'"):
                raise AssertionError(f"a condition nobody reads here: {part}")
        return all(part == "always()" or part == f"github.event_name == '{event}'" for part in parts), always

    def use(self, step: dict) -> None:
        action = step["uses"].split("@")[0]
        if action == "actions/checkout":
            return
        assert action == "actions/upload-artifact", f"an action nobody knows here: {action}"
        source = self.checkout / step["with"]["path"]
        if not source.exists():
            assert step["with"].get("if-no-files-found") == "ignore", f"{source} is not there"
            return
        kept = self.artifact(step["with"]["name"])
        shutil.rmtree(kept, ignore_errors=True)
        kept.parent.mkdir(exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, kept)
        else:
            kept.mkdir()
            shutil.copy(source, kept)
