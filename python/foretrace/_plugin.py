"""What-ifs of a file: `foretrace … --plugin FILE.py` and foretrace.load_plugin."""

from __future__ import annotations

import importlib.util
import os
import sys
import traceback

from . import _whatifs
from ._errors import Error, MissingFileError, UnreadableError, UsageError, make_error
from ._whatifs import WhatIf


def load_plugin(path: str | os.PathLike[str]) -> list[WhatIf]:
    """Runs a file of Python; gives the what-ifs it makes with @foretrace.whatif, known by name from now on.

    A file that cannot be run raises UnreadableError with its name and the line; one that defines no what-if, UsageError.
    """
    file = os.fspath(path)
    if not os.path.exists(file):
        raise make_error(MissingFileError, f"{file}: there is no such file", file=file)
    before = dict(_whatifs._own)
    spec = importlib.util.spec_from_file_location(f"foretrace_plugin_{os.path.splitext(os.path.basename(file))[0]}", file)
    if spec is None or spec.loader is None or os.path.isdir(file):
        raise make_error(UnreadableError, f"{file} is not a Python file", file=file, hint="a plugin's name ends with .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.insert(0, os.path.dirname(os.path.abspath(file)))  # so that it may import its neighbours
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        sys.modules.pop(spec.name, None)
        raise make_error(UnreadableError, f"{_place(error, file)}: {_what(error)}", file=file,
                         hint=error.hint if isinstance(error, Error) else None) from error
    finally:
        sys.path.pop(0)
    made = [w for name, w in _whatifs._own.items() if before.get(name) is not w]
    if not made:
        raise make_error(UsageError, f"{file} defines no what-if", file=file,
                         hint='@foretrace.whatif("name") makes one of a function of a draft')
    return made


def load_for_command_line(path: str) -> tuple[str, str, str, str] | None:
    """Loads a plugin; gives what is wrong with it as (code, message, file, hint), or None."""
    _whatifs.on_failure = _failed
    try:
        load_plugin(path)
    except Error as error:
        # The place is in the message; the file is named once.
        return error.code, error.message, "", error.hint or ""
    return None


_shown: set[str] = set()


def _failed(own: WhatIf, error: Exception) -> str:
    """A what-if's function failed while a command runs: shown once, then a reason to decline."""
    code = getattr(own.function, "__code__", None)
    reason = f"its function failed: {_place(error, code.co_filename if code else '')}: {_what(error)}"
    if reason not in _shown:
        _shown.add(reason)
        traceback.print_exception(error)
        sys.stderr.flush()
    return reason


def _what(error: BaseException) -> str:
    text = error.message if isinstance(error, Error) else error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _place(error: BaseException, path: str) -> str:
    """"mine.py:7", the line being the plugin's, or of the file that failed where that is another."""
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        return f"{error.filename}:{error.lineno}"
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if os.path.abspath(f.filename) == os.path.abspath(path)]
    return f"{path}:{lines[-1]}" if lines else path
