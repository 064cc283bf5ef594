"""The one exception foretrace raises about inputs and requests."""

from __future__ import annotations


class Error(ValueError):
    """What went wrong, where, and what to do about it. `str(error)` is the text the command line prints.

    >>> try: foretrace.load("empty.json")
    ... except foretrace.Error as e: print(e.message, e.file, e.hint)
    """

    message: str
    """One sentence."""
    file: str | None
    """The input it speaks of."""
    offset: int | None
    """Byte offset in the (uncompressed) input."""
    hint: str | None
    """What to do."""
    code: str
    """"usage" (the request is wrong), "unreadable" (the input is), "declined" (the input lacks what the answer needs)."""

    def __init__(self, text: str, *, message: str | None = None, file: str | None = None, offset: int | None = None,
                 hint: str | None = None, code: str = "usage") -> None:
        super().__init__(text)
        self.message = text if message is None else message
        self.file = file
        self.offset = offset
        self.hint = hint
        self.code = code

    def __reduce__(self):
        return _rebuild, (str(self), self.message, self.file, self.offset, self.hint, self.code)


def _rebuild(text: str, message: str, file: str | None, offset: int | None, hint: str | None, code: str) -> Error:
    return Error(text, message=message, file=file, offset=offset, hint=hint, code=code)
