"""`foretrace record [OPTIONS] -- COMMAND…`: runs a program and leaves a trace of a few of its training steps behind.

The program runs as it would without: same standard output, same signals, same exit code. What there is to say is said once,
when it has ended, on standard error.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from ._record_status import FOLDER, OPTIONS, Heard, Status, listen
from ._recorder_output import split_suffix
from ._width import tell

_USAGE = "foretrace record [OPTIONS] -- COMMAND..."
_INJECTED = Path(__file__).parent / "_inject"
_KNOWN = {"torch": "PyTorch", "jax": "JAX"}


class _WrongUsageError(Exception):
    pass


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        unknown = message.removeprefix("unrecognized arguments: ")
        raise _WrongUsageError(message if unknown == message else self.no_option(unknown.split()[0]))

    def no_option(self, given: str) -> str:
        name = given.partition("=")[0]
        near = difflib.get_close_matches(name, self._option_string_actions, n=1)
        return f"record has no option {name}" + (f"; did you mean {near[0]}?" if near else "")


def parse(args: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """Options and command. The command begins behind `--`, or with the first word that is no option."""
    parser = _Parser(prog="foretrace record", add_help=False, allow_abbrev=False)
    parser.add_argument("--steps", type=_number(1), default=3)
    parser.add_argument("--after", type=_number(1), default=5)
    parser.add_argument("--measure", type=_number(0), default=20)
    parser.add_argument("--execution-trace", action="store_true")
    parser.add_argument("--cuda", action="store_true")
    parser.add_argument("-o", "--output", default="foretrace.json.gz")
    parser.add_argument("-q", "--quiet", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args(args)
    command: list[str] = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        raise _WrongUsageError("record needs a command to run")
    if command[0].startswith("-"):
        raise _WrongUsageError(parser.no_option(command[0]))
    try:
        split_suffix(options.output)
    except ValueError as error:
        raise _WrongUsageError(str(error)) from None
    return options, command


def _number(least: int) -> Callable[[str], int]:
    """What argparse makes a number of steps of."""

    def number(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise argparse.ArgumentTypeError(f"expects a whole number of steps, at least {least}, not '{text}'")
        return value

    return number


def main(args: list[str]) -> int:
    try:
        options, command = parse(args)
    except _WrongUsageError as error:
        tell(f"{error}\n  usage: {_USAGE}; `foretrace record --help` says more")
        return 2
    status = Path(tempfile.mkdtemp(prefix="foretrace-record-"))
    mark = uuid.uuid4().hex[:12]
    try:
        environment = surroundings(options, status, mark)
        try:
            code = run(command, environment)
        except OSError as error:
            tell(f"{command[0]}: {error.strerror}")
            return 127 if isinstance(error, FileNotFoundError) else 126
        heard = listen(status)
    finally:
        shutil.rmtree(status, ignore_errors=True)
        # What a process that was killed could not take away itself.
        for left in Path(options.output).absolute().parent.glob(f".foretrace-{mark}-*"):
            shutil.rmtree(left, ignore_errors=True)
    if options.json:
        report = {"schema": 1, "verb": "record", "exit_code": code, "files": heard.files, "traced_steps": heard.steps,
                  "notes": notes(heard, command)}
        print(json.dumps(report), file=sys.stderr)
    elif not options.quiet:
        for line in text(heard, command):
            tell(line)
    if code < 0:
        _die_like(-code)
    return code if code >= 0 else 128 - code


def surroundings(options: argparse.Namespace, status: Path, mark: str) -> dict[str, str]:
    """The program's environment: the injected folder first on its path, the library for CUDA, and what is asked of them."""
    output = os.path.abspath(options.output)
    more = {FOLDER: str(status)}
    library = cuda_library()
    if library is not None and "CUDA_INJECTION64_PATH" not in os.environ:
        more |= {"CUDA_INJECTION64_PATH": str(library), "FORETRACE_CUDA_OUTPUT": output}
        if options.cuda:
            more["FORETRACE_CUDA"] = "always"
            Status(str(status)).mark("asked for CUDA")
        Path(output).parent.mkdir(parents=True, exist_ok=True)
    elif options.cuda:
        why = ("another tool is named by CUDA_INJECTION64_PATH" if library is not None else
               "foretrace was built without it (cmake -DFORETRACE_INJECTION=ON builds it, FORETRACE_CUDA_LIBRARY names it)")
        Status(str(status)).say(f"the library that records CUDA programs cannot be used: {why}")
    if not options.cuda:
        given = os.environ.get("PYTHONPATH")
        asked = {"output": output, "steps": int(options.steps), "after": int(options.after), "measure": int(options.measure),
                 "execution_trace": options.execution_trace, "id": mark}
        more |= {"PYTHONPATH": str(_INJECTED) + (os.pathsep + given if given else ""), OPTIONS: json.dumps(asked)}
    return os.environ | more


def cuda_library() -> Path | None:
    """The injection library: named by the environment, or installed with this package."""
    named = os.environ.get("FORETRACE_CUDA_LIBRARY")
    path = Path(named) if named else Path(__file__).parent / "libforetrace_cuda.so"
    return path.absolute() if path.is_file() else None


def run(command: list[str], environment: dict[str, str]) -> int:
    """Runs the program to its end; negative: the signal that ended it. Signals sent to us are passed on."""
    passed = {signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, passed | {signal.SIGCHLD})
    # An ignored SIGCHLD would take the exit code away; it is inherited from shells that ignore it.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)

    def unblock() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

    try:
        # close_fds: a shell may hand over files by number. The mask is the child's alone, so the thread-safety that
        # preexec_fn lacks is not needed: this process has one thread.
        child = subprocess.Popen(command, env=environment, close_fds=False, preexec_fn=unblock)  # noqa: PLW1509
        while (code := child.poll()) is None:
            got = signal.sigtimedwait(passed | {signal.SIGCHLD}, 1.0)
            # What the terminal sends (not a process) the program gets itself.
            if got is not None and got.si_signo in passed and got.si_code <= 0:
                child.send_signal(got.si_signo)
        return int(code)
    finally:
        unblock()


def _die_like(number: int) -> None:
    """Ends as the program ended, so that a parent process sees the same status."""
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the core is the program's
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
    sys.stderr.flush()
    os.kill(os.getpid(), number)


def notes(heard: Heard, command: list[str]) -> list[str]:
    """What is missing, and why."""
    said = list(heard.said)
    if heard.files or said:
        return said
    if heard.hints:
        return heard.hints
    if "asked for CUDA" in heard.marks:
        return [f"nothing was recorded: {command[0]} ended without a word from CUDA: it used none, or it crashed"]
    if "python" not in heard.marks:
        return [f"nothing was recorded: {command[0]} started no Python that looks for modules (python -I and -E do not)"
                + ("" if cuda_library() else "; for other programs, foretrace must be built with FORETRACE_INJECTION")]
    if heard.hindered:
        return heard.hindered
    framework = next((name for mark, name in _KNOWN.items() if mark in heard.marks), None)
    if framework is None:
        return ["nothing was recorded: the program imported neither PyTorch nor JAX"]
    if "steps" in heard.marks:
        return ["nothing was recorded: the program ended while its steps were still being recognised; a smaller --after "
                "needs fewer steps"]
    what = "no optimizer of torch.optim stepped" if framework == "PyTorch" else "no jitted function was called"
    return [f"nothing was recorded: {what}; where the step is compiled whole, put foretrace.record around the loop"]


def text(heard: Heard, command: list[str]) -> list[str]:
    lines = notes(heard, command)
    if heard.files:
        steps = f"{heard.steps} step{'' if heard.steps == 1 else 's'}" if heard.steps else "the program's CUDA work"
        shown = [os.path.relpath(f) for f in heard.files]
        if len(shown) == 1:
            lines.append(f"recorded {steps} in {shown[0]}; next: foretrace doctor {shown[0]}")
        else:
            folder = os.path.dirname(shown[0]) or "."
            lines.append(f"recorded {steps} of {len(shown)} ranks in {shown[0]} … {os.path.basename(shown[-1])}; "
                         f"next: foretrace ranks {folder}")
    return lines
