"""The command `foretrace`, and `python -m foretrace`: the same program as build/foretrace."""

from __future__ import annotations

import signal
import sys


def main() -> int:
    from . import _core

    if "optimize" in sys.argv and not {"-h", "--help"} & set(sys.argv):
        from . import _ray

        if address := _ray.take_address(sys.argv[1:]):
            try:
                _core.set_evaluator(_ray.Cluster(address))
            except _ray.Error as error:
                print(f"foretrace: {error}", file=sys.stderr)
                return 2
    # The work happens outside the interpreter, which would not see Ctrl-C before it is over.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _core.run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
