"""Every field of every event of real traces comes back from the columns, tables and tuples: nothing is lost.

The independent side is Python's json with exact decimal times. FORETRACE_TRUTH and FORETRACE_PUBLIC add their traces to
the one that ships with the project.
"""

import importlib.util
import os

import foretrace
import numpy as np
import pytest
from helpers import EXAMPLE, ROOT, more_traces, ns_of, parse_independently

TRACES = [EXAMPLE, *more_traces()]


def load_counter():
    spec = importlib.util.spec_from_file_location("count_events", ROOT / "tools" / "count_events.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def plain(value):
    """An independent value without our float type, so that it compares as Python does."""
    if isinstance(value, float):
        return float(value)
    if isinstance(value, list):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    return value


def canonical(args: dict) -> dict:
    """Old spellings under today's name, as foretrace gives them."""
    return {"External id" if key == "external id" else key: plain(value) for key, value in args.items()}


@pytest.mark.parametrize("path", TRACES, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_every_event_comes_back(path):
    document = parse_independently(path)
    events = document["traceEvents"]
    trace = foretrace.load(path)
    assert len(trace) == len(events)
    assert trace.problems == []

    assert trace.start.tolist() == [ns_of(e.get("ts", 0)) for e in events]
    assert trace.duration.tolist() == [max(0, ns_of(e.get("dur", 0))) for e in events]
    assert trace.names().tolist() == [e.get("name", "") for e in events]
    assert [trace.categories[c].name for c in trace.category_id] == [e.get("cat", "") for e in events]
    assert trace.ph.astype(str).tolist() == [e.get("ph", "") for e in events]
    lanes = [(lane.pid, lane.tid) for lane in trace.lanes]
    assert [lanes[i] for i in trace.lane_id] == [(str(e.get("pid", "")), str(e.get("tid", ""))) for e in events]

    flows = np.isin(trace.kind, [foretrace.KINDS.index(k) for k in ("flow_start", "flow_end")])
    known = {"ph", "cat", "name", "pid", "tid", "ts", "dur", "args"}
    for i, event in enumerate(events):
        assert trace.args(i) == canonical(event.get("args", {})), f"event {i}: {event}"
        extras = {key: value for key, value in event.items() if key not in known}
        if flows[i]:
            assert trace.correlation[i] == extras.pop("id")
        if extras:
            given = trace.event(i)
            assert {key: given[key] for key in extras} == extras, f"event {i}: {event}"

    metadata = {key: plain(value) for key, value in document.items() if key != "traceEvents"}
    assert trace.metadata == metadata
    assert [d.name for d in trace.devices] == [d["name"] for d in document.get("deviceProperties", [])]


@pytest.mark.parametrize("path", TRACES, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_counts_per_category(path):
    counter = load_counter()
    expected = counter.count_events(path)
    program = os.environ.get("FORETRACE_PROGRAM")
    if program:
        found = counter.doctor_counts(program, path)
        assert counter.difference(expected, found) == []
        assert found["lost"] == 0
    report = foretrace.doctor(path)
    assert report["events"] == expected["events"] and report["categories"] == expected["by_category"]
    assert report["lost_records"] == 0
