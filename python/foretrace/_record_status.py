"""What a recorded program reports to the waiting `foretrace record`: a folder of small files, because the program may be
many processes and may die at any moment."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ._width import tell

OPTIONS = "FORETRACE_RECORD"
FOLDER = "FORETRACE_RECORD_STATUS"
_PROGRAM = os.urandom(8).hex()  # tells this program from one that ran in the same process before it (exec keeps the number)


class Status:
    """The side of the program: one file per process, a line per message, and marks that are there or not."""

    def __init__(self, folder: str | None) -> None:
        self._folder = Path(folder) if folder else None

    def mark(self, what: str) -> None:
        """Something was reached ("torch", "steps"), by whichever process."""
        if self._folder is not None:
            with contextlib.suppress(OSError):
                (self._folder / what).touch()

    def say(self, text: str) -> None:
        """A message for the user, reported only once."""
        if not self._write({"say": text}):
            with contextlib.suppress(OSError, ValueError):
                tell(text)

    def wrote(self, file: str, steps: int, rank: int | None) -> None:
        self._write({"file": os.path.abspath(file), "steps": steps, "rank": rank})

    def claim(self, path: str) -> bool:
        """Whether this process may write to a path: the first that asks may, until it gives it back."""
        if self._folder is None:
            return True
        try:
            with open(self._claim(path), "x", encoding="ascii") as file:
                file.write(f"{os.getpid()} {_PROGRAM}")
        except FileExistsError:
            return self._became_another(path)
        except OSError:
            pass
        return True

    def _became_another(self, path: str) -> bool:
        """Whether the one that asked first was this process, before exec put another program in its place."""
        try:
            process, program = Path(self._claim(path)).read_text("ascii").split()
        except (OSError, ValueError):
            return False
        return process == str(os.getpid()) and program != _PROGRAM

    def give_back(self, path: str) -> None:
        if self._folder is not None:
            with contextlib.suppress(OSError):
                os.unlink(self._claim(path))

    def _claim(self, path: str) -> str:
        assert self._folder is not None
        return str(self._folder / ("claim-" + hashlib.sha256(os.path.abspath(path).encode()).hexdigest()[:16]))

    def _write(self, line: dict[str, Any]) -> bool:
        if self._folder is None:
            return False
        try:
            with open(self._folder / f"{os.getpid()}.jsonl", "a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        except OSError:
            return False
        return True


@dataclass
class Heard:
    """The side of the command: everything that the processes reported."""

    files: list[str] = field(default_factory=list)
    steps: int = 0  # of the longest recording
    said: list[str] = field(default_factory=list)
    marks: set[str] = field(default_factory=set)
    hints: list[str] = field(default_factory=list)  # what is worth a word only where nothing was recorded
    hindered: list[str] = field(default_factory=list)  # why a Python could not be recorded at all


def listen(folder: Path) -> Heard:
    """Reads what there is; a line that a dying process left unfinished is none."""
    heard = Heard()
    for path in sorted(folder.iterdir()):
        if path.suffix != ".jsonl":
            heard.marks.add(path.name)
            continue
        for text in path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                line = json.loads(text)
            except ValueError:
                continue
            if "file" in line:
                heard.files.append(line["file"])
                heard.steps = max(heard.steps, line["steps"])
            elif "hint" in line:
                heard.hints.append(line["hint"])
            elif line["say"] not in heard.said:
                heard.said.append(line["say"])
    with contextlib.suppress(OSError):
        heard.hindered += dict.fromkeys((folder / "python").read_text(encoding="utf-8", errors="replace").splitlines())
    heard.files = sorted(dict.fromkeys(heard.files))
    heard.hints = list(dict.fromkeys(heard.hints))
    return heard
