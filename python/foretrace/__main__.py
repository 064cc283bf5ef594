"""The command `foretrace`, and `python -m foretrace`: the same program as build/foretrace, and what needs Python.

Nothing is imported before it is needed: most commands need the compiled half alone.
"""

import signal
import sys


def _load_plugin(path: str) -> tuple[str, str, str, str] | None:
    from . import _plugin

    return _plugin.load_for_command_line(path)


def _pack_table(csv: bytes) -> bytes | str:
    from . import _parquet

    return _parquet.pack(csv)


def _asks_help(args: list[str]) -> bool:
    """Whether help on the verb is asked for; what follows the first word or `--` is a command of its own."""
    for arg in args:
        if arg in ("-h", "--help"):
            return True
        if arg == "--":
            return False
    return False


def main() -> int:
    args = sys.argv[1:]
    if args[:1] == ["record"] and not _asks_help(args[1:]):
        from . import _record_command

        return _record_command.main(args[1:])
    from . import _core

    if args[:1] == ["calibrate"] and not {"-h", "--help"} & set(args):
        from . import _calibrate

        return _calibrate.main(args[1:])
    if {"optimize", "plan", "ranks"} & set(args) and not {"-h", "--help"} & set(args):
        if any(a == "--ray" or a.startswith("--ray=") for a in args):
            from . import _ray
            from ._errors import Error
            from ._width import tell

            if address := _ray.take_address(args):
                try:
                    cluster = _ray.Cluster(address, plugins=_ray.take_plugins(args))
                    _core.set_evaluator(cluster)
                    _core.set_reader(cluster.read_all)
                    _core.set_answerer(cluster.answer_all)
                except Error as error:
                    tell(str(error))
                    return 2
    _core.set_plugin_loader(_load_plugin)
    _core.set_table_packer(_pack_table)
    # The work happens outside the interpreter, which would not see Ctrl-C before it is over.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _core.run(args)


if __name__ == "__main__":
    sys.exit(main())
