"""DraftMemory: how a what-if of your own changes what the allocator holds."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _core

MEMORY_KINDS: tuple[str, ...] = _core.MEMORY_KINDS
"""What a block of memory holds: DraftMemory.kind indexes into it."""


class DraftMemory:
    """Blocks of GPU memory during the step, in the order they are allocated. Columns show the step before the change.

    The allocator follows the program's order, so a block lives from one position in that order to another, whatever the times
    are: positions count the memory events of the step, 0 is before it.

    >>> saved = g.memory.select(kind="activations", op="*batch_norm*")
    >>> g.memory.scale(saved, 0.5)
    """

    def __init__(self, core: _core.Draft) -> None:
        self._core = core

    def __len__(self) -> int:
        return len(self.nbytes)

    @cached_property
    def nbytes(self) -> NDArray[np.int64]:
        """Size of each block."""
        return self._core.memory_column("bytes")

    @cached_property
    def allocated(self) -> NDArray[np.int64]:
        """Position at which it is allocated; 0 before the step."""
        return self._core.memory_column("allocated")

    @cached_property
    def freed(self) -> NDArray[np.int64]:
        """Position at which it is freed; -1 where it outlives the step."""
        return self._core.memory_column("freed")

    @cached_property
    def kind(self) -> NDArray[np.int64]:
        """Index into foretrace.MEMORY_KINDS."""
        return self._core.memory_column("kind")

    @property
    def peak(self) -> int:
        """Bytes at the peak, with what was changed by now."""
        return self._core.memory_peak()

    def select(self, *, kind: str | None = None, phase: str | None = None, op: str = "", layer: str = "") -> NDArray[np.int64]:
        """Blocks for which everything given holds, ascending.

        kind: one of foretrace.MEMORY_KINDS. phase: "forward", "backward" or "optimizer", in which it is allocated. op, layer:
        globs (* and ?) over the operation that allocated it or any around that, and over its layer's range.
        """
        return self._core.memory_select(kind, phase, op, layer)

    def scale(self, blocks: ArrayLike, factor: ArrayLike) -> None:
        """Sizes times a factor, or one factor for each block."""
        self._core.memory_scale(ids_of(blocks), numbers_of(factor))

    def remove(self, blocks: ArrayLike) -> None:
        """They are not allocated any more."""
        self._core.memory_scale(ids_of(blocks), numbers_of(0))

    def free(self, blocks: ArrayLike, at: ArrayLike) -> None:
        """Blocks are freed at positions: one for all, or one for each."""
        self._core.memory_free(ids_of(blocks), ids_of(at))

    def add(self, nbytes: int, *, kind: str = "temporaries", allocated: int = 0, freed: int | None = None) -> None:
        """One more block. By default it is there during the whole step."""
        self._core.memory_add(int(nbytes), kind, int(allocated), None if freed is None else int(freed))

    def scale_batch(self, factor: float) -> None:
        """What holds the batch's data (activations, inputs, temporaries of forward and backward) becomes as many times as large."""
        self._core.memory_scale_batch(float(factor))

    def __repr__(self) -> str:
        return f"<foretrace.DraftMemory: {len(self):,} blocks>"


def ids_of(tasks: ArrayLike) -> NDArray[np.int64]:
    given = np.atleast_1d(np.asarray(tasks))
    if given.dtype == bool:
        raise TypeError("tasks are named by their ids; np.flatnonzero(mask) turns a mask into ids")
    if given.size == 0:
        return np.empty(0, dtype=np.int64)
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise TypeError(f"tasks are named by whole numbers in a row, not {given.dtype} of shape {given.shape}")
    return np.ascontiguousarray(given, dtype=np.int64)


def numbers_of(values: Any) -> NDArray[np.float64]:
    given = np.atleast_1d(np.asarray(values))
    if given.ndim != 1 or given.dtype.kind not in "iuf":
        raise TypeError(f"a number, or one for each task, is needed, not {given.dtype} of shape {given.shape}")
    return np.ascontiguousarray(given, dtype=np.float64)
