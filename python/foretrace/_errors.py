"""The exceptions foretrace raises about inputs and requests: one class for each way in which a program may handle them."""

from __future__ import annotations

import errno
import os
from typing import Any


class Error(ValueError):
    """What went wrong, where, and what to do about it. `str(error)` is the text the command line prints.

    >>> try: foretrace.load("empty.json")
    ... except foretrace.UnreadableError as e: print(e.message, e.file, e.offset, e.hint)
    """

    message: str
    """One sentence."""
    file: str | None
    """The input it speaks of."""
    offset: int | None
    """Byte offset in the (uncompressed) input."""
    hint: str | None
    """What to do."""
    code: str = "usage"
    """"usage" (the request is wrong), "unreadable" (the input is), "declined" (the input lacks what the answer needs),
    "output" (the answer could not be written), "internal" (a bug of ours)."""

    def __init__(self, text: str, *, message: str | None = None, file: str | None = None, offset: int | None = None,
                 hint: str | None = None, code: str | None = None) -> None:
        super().__init__(text)
        self._text = text
        self.message = text if message is None else message
        self.file = file
        self.offset = offset
        self.hint = hint
        if code is not None:
            self.code = code

    def __str__(self) -> str:
        return self._text

    def __reduce__(self) -> Any:
        return _rebuild, (type(self), str(self), self.message, self.file, self.offset, self.hint, self.code)


class UsageError(Error):
    """The request is wrong: a name that does not exist, a value out of its range."""

    code = "usage"


class UnreadableError(Error):
    """The input cannot be read, or is not what it claims to be: `file`, `offset` and `hint` say where and what to do."""

    code = "unreadable"


class MissingFileError(UnreadableError, FileNotFoundError):
    """There is no such file. A FileNotFoundError (and so an OSError) too, as `open` would raise."""

    def __init__(self, text: str, **fields: Any) -> None:
        super().__init__(text, **fields)
        self.errno = errno.ENOENT
        self.strerror = os.strerror(errno.ENOENT)
        self.filename = self.file


class ForbiddenFileError(UnreadableError, PermissionError):
    """The file may not be read. A PermissionError (and so an OSError) too, as `open` would raise."""

    def __init__(self, text: str, **fields: Any) -> None:
        super().__init__(text, **fields)
        self.errno = errno.EACCES
        self.strerror = os.strerror(errno.EACCES)
        self.filename = self.file


class DeclinedError(Error):
    """The input lacks what the answer needs, or the change does not apply to this step; the message says which."""

    code = "declined"


_CLASSES: dict[str, type[Error]] = {"usage": UsageError, "unreadable": UnreadableError, "declined": DeclinedError}


def make(text: str, *, message: str, file: str | None, offset: int | None, hint: str | None, code: str) -> Error:
    """The exception for an error of the library."""
    kind = _CLASSES.get(code, Error)
    if kind is UnreadableError and file is not None and file != "-" and offset is None:
        if not os.path.lexists(file):
            kind = MissingFileError
        elif not os.access(file, os.R_OK):
            kind = ForbiddenFileError
    return kind(text, message=message, file=file, offset=offset, hint=hint, code=code)


def make_error(kind: type[Error], message: str, *, hint: str | None = None, file: str | None = None) -> Error:
    """An error with its text composed as the library does."""
    text = message + (f"\n  hint: {hint}" if hint else "")
    return kind(text, message=message, file=file, hint=hint)


def _rebuild(kind: type[Error], text: str, message: str, file: str | None, offset: int | None, hint: str | None,
             code: str) -> Error:
    return kind(text, message=message, file=file, offset=offset, hint=hint, code=code)
