"""`foretrace … --plugin FILE.py`: what-ifs of a file, known to the command line."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import traceback
from typing import Any

from . import _core, _predictions
from ._draft import Draft
from ._errors import Error

WRONG_USAGE, UNREADABLE_INPUT = 2, 3


def take_plugins(args: list[str]) -> tuple[list[str], list[str]]:
    """Arguments without --plugin, and the files it named."""
    rest: list[str] = []
    files: list[str] = []
    given = iter(args)
    for arg in given:
        if arg == "--":
            return [*rest, arg, *given], files
        name, equals, value = arg.partition("=")
        if name != "--plugin":
            rest.append(arg)
            continue
        file = value if equals else next(given, None)
        if not file:
            raise Error("--plugin needs a value", hint="--plugin FILE.py")
        files.append(file)
    return rest, files


def load(path: str) -> None:
    """Runs a file; the what-ifs it makes with @foretrace.whatif are known to the command line from then on."""
    if not os.path.isfile(path):
        raise Error(f"{path}: there is no such file", file=path, code="unreadable")
    before = dict(_predictions._own)
    spec = importlib.util.spec_from_file_location(f"foretrace_plugin_{os.path.splitext(os.path.basename(path))[0]}", path)
    if spec is None or spec.loader is None:
        raise Error(f"{path} is not a Python file", file=path, hint="a plugin's name ends with .py", code="unreadable")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))  # so that it may import its neighbours
    try:
        spec.loader.exec_module(module)
    except Error:
        raise
    except Exception as error:
        raise Error(f"{path} could not be run: {_where(error, path)}", file=path, code="unreadable") from error
    finally:
        sys.path.pop(0)
    made = [w for name, w in _predictions._own.items() if before.get(name) is not w]
    if not made:
        raise Error(f"{path} makes no what-if", file=path, hint="@foretrace.whatif(\"name\") makes one of a function of a draft")
    for own in made:
        _add(own, path)


def _add(own: _predictions.WhatIf, path: str) -> None:
    def apply(core: _core.Draft, texts: dict[str, str]) -> None:
        known = {p.name: p for p in own.parameters}
        try:
            own(Draft(core, None), **{k: _predictions._converted(own.name, known[k], v) for k, v in texts.items()})
        except Error:
            raise
        except Exception as error:
            traceback.print_exc()
            raise Error(f"its function failed: {_where(error, path)}", code="declined") from error

    parameters = [(p.name, "" if p.default is None else str(p.default), p.required, type(p.default) in (int, float))
                  for p in own.parameters]
    _core.add_whatif(own.name, own.about, parameters, own.assumes, own.source, own.not_modelled, apply)


def _where(error: BaseException, path: str) -> str:
    """"ValueError: wrong (line 7)", the line being the plugin's."""
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if os.path.abspath(f.filename) == os.path.abspath(path)]
    if isinstance(error, SyntaxError):
        lines = [error.lineno]
    return f"{type(error).__name__}: {error}" + (f" (line {lines[-1]})" if lines else "")


def report(error: Error, as_json: bool) -> int:
    """As the command line reports an error; gives the exit code."""
    if as_json:
        said: dict[str, Any] = {"code": error.code, "message": error.message, "file": error.file, "offset": None,
                                "hint": error.hint}
        print(json.dumps({"schema": 1, "error": said}))
    else:
        print(f"foretrace: error: {error.message}" + (f"\n  hint: {error.hint}" if error.hint else ""), file=sys.stderr)
    return UNREADABLE_INPUT if error.code == "unreadable" else WRONG_USAGE
