"""XLA's profiles through Python: what no verb prints."""

import sys

import foretrace
from helpers import ROOT

sys.path.insert(0, str(ROOT / "tests" / "formats"))
import xplane_file

START = 1_794_731_711_499_059_995


def test_the_time_of_day(tmp_path):
    """Newer profilers count from the profile's start, older ones write the time of day; hosts meet on the same one."""
    path = xplane_file.profile(tmp_path / "new.xplane.pb")
    trace = foretrace.load(path)
    assert trace.base_time_ns == START
    old = xplane_file.profile(tmp_path / "old.xplane.pb", lines_begin=START)
    absolute = foretrace.load(old)
    assert absolute.base_time_ns == 0
    assert int(absolute.start[0]) == START + int(trace.start[0])
