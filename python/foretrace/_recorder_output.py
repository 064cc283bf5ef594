"""Where a recording goes: one file per rank, complete or not at all."""

from __future__ import annotations

import gzip
import os
import shutil
import tempfile
from pathlib import Path
from typing import IO

SCRATCH_PREFIX = ".foretrace-"
"""Of the hidden folders next to the output; `foretrace record` gives them a name by which it finds what a dead process left."""
_SUFFIXES = (".pt.trace.json.gz", ".pt.trace.json", ".json.gz", ".json")


def split_suffix(path: str) -> tuple[str, str]:
    """"run/out.json.gz" -> ("run/out", ".json.gz"). ValueError for a name that is no trace's."""
    for suffix in _SUFFIXES:
        stem = path.removesuffix(suffix)
        if stem != path and os.path.basename(stem):
            return stem, suffix
    raise ValueError(f"the recording must go to a file that ends in .json.gz or .json, not {path!r}")


def rank_path(path: str, rank: int | None) -> Path:
    """The file of one rank: "out.json.gz" -> "out.rank3.json.gz"; the path itself where there are no ranks."""
    stem, suffix = split_suffix(path)
    return Path(stem + ("" if rank is None else f".rank{rank}") + suffix)


def execution_trace_path(trace: Path) -> Path:
    """Next to the trace: "out.json.gz" -> "out.et.json.gz"."""
    stem, suffix = split_suffix(str(trace))
    return Path(stem + ".et" + (".json.gz" if suffix.endswith(".gz") else ".json"))


def rank_and_world(dist: object | None) -> tuple[int | None, int | None]:
    """Rank and number of ranks: from torch.distributed where it is initialised, else as launchers set them."""
    if dist is not None and dist.is_available() and dist.is_initialized():  # type: ignore[attr-defined]
        return dist.get_rank(), dist.get_world_size()  # type: ignore[attr-defined]
    return _integer("RANK"), _integer("WORLD_SIZE")


def _integer(variable: str) -> int | None:
    text = os.environ.get(variable, "").strip()
    return int(text) if text.isascii() and text.isdigit() else None


def check_folder(path: str) -> None:
    """Makes the folder of a path. OSError now rather than after an hour of training."""
    folder = Path(path).parent
    folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(f"the folder {folder} cannot be written to")
    if Path(path).is_dir():
        raise IsADirectoryError(f"{path} is a folder")


class Scratch:
    """A hidden folder next to the output in which everything unfinished lives: `add` what is to appear, then `commit`."""

    def __init__(self, output: Path) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=SCRATCH_PREFIX, dir=output.parent))
        self._ready: list[tuple[Path, Path]] = []

    def add(self, source: Path, target: Path, rename: tuple[bytes, bytes] | None = None) -> None:
        """Makes a file ready to become `target`, compressed where that name says so.

        rename: text replaced on the way.
        """
        ready = self.folder / f"ready{len(self._ready)}"
        with open(source, "rb") as plain, open(ready, "wb") as raw:
            if target.suffix == ".gz":
                # mtime 0: the same trace gives the same bytes.
                with gzip.GzipFile(filename="", mode="wb", fileobj=raw, compresslevel=6, mtime=0) as packed:
                    _copy(plain, packed, rename)
            else:
                _copy(plain, raw, rename)
        source.unlink()
        self._ready.append((ready, target))

    def commit(self) -> None:
        """Puts every file in its place, each in one stroke, and leaves nothing else."""
        for ready, target in self._ready:
            os.replace(ready, target)
        self.remove()

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def _copy(source: IO[bytes], target: IO[bytes] | gzip.GzipFile, rename: tuple[bytes, bytes] | None) -> None:
    if rename is None:
        shutil.copyfileobj(source, target, 1 << 20)
        return
    for line in source:  # the profiler writes one key per line, so no text spans two
        target.write(line.replace(*rename))
