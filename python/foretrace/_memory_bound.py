"""A bound on the memory that reading a trace may take, so that a huge or hostile file ends in an error."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ._errors import UnreadableError, UsageError, make_error

_GB = 1e9


def _data_bytes() -> int:
    """Private memory that this process holds already."""
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith("VmData:"):
                return int(line.split()[1]) * 1024
    return 0


@contextlib.contextmanager
def memory_bound(gb: float | None, file: str) -> Iterator[None]:
    """While it lasts, the process gets at most this many 10^9 bytes more; without a number, there is no bound.

    The bound is the process's: other threads that need memory meanwhile may get a MemoryError.
    """
    if gb is None:
        yield
        return
    if not 0 < gb <= 1e9:
        raise make_error(UsageError, f"max_memory is a number of GB greater than 0, not {gb}")
    import resource

    before = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = _data_bytes() + int(gb * _GB)
    limits = [limit for limit in (wanted, *before) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min(limits), before[1]))
    try:
        yield
    except MemoryError:
        resource.setrlimit(resource.RLIMIT_DATA, before)
        raise make_error(UnreadableError, f"{file}: this input needs more memory than the bound of {gb:g} GB",
                         hint="max_memory sets the bound; a trace needs about 100 bytes per event", file=file) from None
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)
