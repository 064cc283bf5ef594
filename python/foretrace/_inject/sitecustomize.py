# Runs at the start of every Python that a recorded command starts: `foretrace record` puts this folder first on PYTHONPATH.
# It waits for PyTorch or JAX to be imported, gives the sitecustomize it hides its turn, and leaves no trace in sys.path.
# Written for any Python, however old: one that cannot be recorded must still run its program.
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
_WATCHED = {"torch.optim.optimizer": "torch_optim_imported", "torch.cuda.graphs": "torch_graphs_imported",
            "jax": "jax_imported"}
# Frameworks with a profiler of their own, which listens to CUPTI as the library for CUDA programs does, and only one can: the
# library stands aside in a process that imports one of them.
_PROFILED = ("torch", "jax", "tensorflow")
_OLDEST = (3, 10)


class _Loader(object):
    """The loader of a watched module, and word to the recording once the module is there."""

    def __init__(self, inner, name):
        self._inner, self._name = inner, name

    def __getattr__(self, attribute):
        return getattr(self._inner, attribute)

    def create_module(self, spec):
        return self._inner.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self._inner  # leaves no trace of this hook
        self._inner.exec_module(module)
        try:
            getattr(_recording(), _WATCHED[self._name])(module)
        except Exception as error:
            _note("%s: %s" % (type(error).__name__, error))


class _Finder(object):
    """Finds nothing itself: it asks the finders behind it and puts a _Loader around what they found."""

    def find_spec(self, name, path=None, target=None):
        if name in _PROFILED:
            os.environ["FORETRACE_CUDA"] = "never"
        if name not in _WATCHED:
            return None
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec = find(name, path, target)
            if spec is not None:
                if spec.loader is not None and hasattr(spec.loader, "exec_module"):
                    spec.loader = _Loader(spec.loader, name)
                return spec
        return None


def _recording():
    """foretrace._record_program, under a name of its own: this Python need not have foretrace, and may have another one."""
    import importlib
    import importlib.util

    package = "_foretrace_recording"
    if package not in sys.modules:
        home = os.path.dirname(_HERE)
        spec = importlib.util.spec_from_file_location(package, os.path.join(home, "__init__.py"),
                                                      submodule_search_locations=[home])
        module = importlib.util.module_from_spec(spec)
        sys.modules[package] = module
        spec.loader.exec_module(module)
    return importlib.import_module(package + "._record_program")


def _note(text=None):
    """Tells the command that waits for this program that Python was reached, and what kept it from recording."""
    folder = os.environ.get("FORETRACE_RECORD_STATUS", "")
    try:
        with open(os.path.join(folder, "python"), "a") as file:
            if text:
                file.write("nothing was recorded: %s\n" % text.splitlines()[0])
    except (IOError, OSError):
        pass


def _begin():
    if "FORETRACE_RECORD" not in os.environ:
        return
    if sys.version_info < _OLDEST:
        _note("Python %d.%d is older than %d.%d" % (tuple(sys.version_info[:2]) + _OLDEST))
        return
    _note()
    sys.meta_path.insert(0, _Finder())


def _give_way():
    """Imports the sitecustomize that this one hides, as Python would have done."""
    ours = sys.modules.pop("sitecustomize", None)
    sys.path[:] = [p for p in sys.path if os.path.abspath(p or os.curdir) != _HERE]
    sys.path_importer_cache.pop(_HERE, None)
    try:
        import sitecustomize  # noqa: F401
    except ImportError as error:
        if getattr(error, "name", "sitecustomize") != "sitecustomize":
            raise
    finally:
        sys.modules.setdefault("sitecustomize", ours)


_begin()
_give_way()
