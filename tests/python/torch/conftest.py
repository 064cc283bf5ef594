"""These tests need PyTorch and are left out where it is missing; scripts/test_recorder runs them."""

import importlib.util

# This folder is itself called torch: without PyTorch, Python takes it for an (empty) package of that name.
_found = importlib.util.find_spec("torch")
collect_ignore_glob = ["test_*.py"] if _found is None or _found.origin is None else []
