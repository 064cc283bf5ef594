"""Fixtures; and helpers.py made importable, as pytest is told to leave sys.path alone."""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import foretrace
from helpers import EXAMPLE, parse_independently


def pytest_report_header(config):
    unset = [v for v in ("FORETRACE_TRUTH", "FORETRACE_PUBLIC") if not os.environ.get(v)]
    return [f"{v} is not set: tests over its traces are left out" for v in unset]


@pytest.fixture(scope="session")
def example():
    return foretrace.load(EXAMPLE)


@pytest.fixture(scope="session")
def example_events():
    return parse_independently(EXAMPLE)["traceEvents"]
