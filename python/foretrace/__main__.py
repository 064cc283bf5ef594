"""The command `foretrace`, and `python -m foretrace`: the same program as build/foretrace, and what needs Python."""

from __future__ import annotations

import signal
import sys


def main() -> int:
    from . import _core

    args = sys.argv[1:]
    if args[:1] == ["calibrate"] and not {"-h", "--help"} & set(args):
        from . import _calibrate

        return _calibrate.main(args[1:])
    if {"optimize", "ranks"} & set(args) and not {"-h", "--help"} & set(args):
        from . import _ray

        if address := _ray.take_address(args):
            try:
                cluster = _ray.Cluster(address)
                _core.set_evaluator(cluster)
                _core.set_reader(cluster.read_all)
            except _ray.Error as error:
                print(f"foretrace: {error}", file=sys.stderr)
                return 2
    if any(a == "--plugin" or a.startswith("--plugin=") for a in args) and not {"-h", "--help"} & set(args):
        from . import _plugin
        from ._errors import Error

        try:
            args, files = _plugin.take_plugins(args)
            for file in files:
                _plugin.load(file)
        except Error as error:
            return _plugin.report(error, "--json" in args)
    # The work happens outside the interpreter, which would not see Ctrl-C before it is over.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _core.run(args)


if __name__ == "__main__":
    sys.exit(main())
