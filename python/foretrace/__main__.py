"""The command `foretrace`, and `python -m foretrace`: the same program as build/foretrace."""

from __future__ import annotations

import signal
import sys


def main() -> int:
    from . import _core

    # The work happens outside the interpreter, which would not see Ctrl-C before it is over.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _core.run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
