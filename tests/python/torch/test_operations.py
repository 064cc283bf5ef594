"""tools/measure/operations without a GPU: every family's cases are well-formed, and kernels are told apart by marks."""

import csv
import itertools
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT))
from tools.measure.operations import __main__ as program
from tools.measure.operations import keep
from tools.measure.operations.cases import Pass
from tools.measure.operations.timing import Event, Timed, between_marks, busy_us

FAMILIES = [f.name for f in program.families(None, set())]


@pytest.mark.parametrize("name", [f for f in FAMILIES if not f.startswith("rnn")])
def test_a_family_s_first_cases_can_be_built_and_run(name):
    family = next(f for f in program.families(None, set()) if f.name == name)
    cases = list(itertools.islice(family.cases, 4))
    assert cases and all(f"{c.kind} {c.name}" == name for c in cases)
    for case in cases:
        runs = case.build(case, "meta")
        assert runs
        for run in runs:
            run.call(run.before() if run.before else None)


def test_shares_are_apart_and_together_everything():
    every = {c.key for f in program.families(None, set()) for c in f.cases}
    shares = [{c.key for f in program.families(None, set(), (i, 3)) for c in f.cases} for i in range(3)]
    assert sum(map(len, shares)) == len(every) and set.union(*shares) == every


def test_the_same_cases_in_every_run_and_none_that_are_done():
    first, second = (next(iter(program.families(None, set()))) for _ in range(2))
    a, b = list(itertools.islice(first.cases, 20)), list(itertools.islice(second.cases, 20))
    assert [c.key for c in a] == [c.key for c in b]
    rest = next(iter(program.families(None, {c.key for c in a})))
    assert next(rest.cases).key not in {c.key for c in a}


def test_what_ran_between_marks():
    mark = "at::cuda::spin_kernel(long)"
    events = [Event("flush", 0, 50), Event(mark, 51, 1), Event("a", 60, 1000), Event("b", 500, 1000), Event(mark, 1600, 1),
              Event("flush", 1700, 50), Event(mark, 1800, 1), Event("a", 1900, 2000), Event(mark, 4000, 1)]
    parts = between_marks(events[::-1])
    assert [[e.name for e in p] for p in parts] == [["a", "b"], ["a"]]
    assert busy_us(parts[0]) == 1.44
    row = Timed(None, Pass("fwd", lambda _: None), kernels=parts).row()
    assert float(row["kernel_us"]) == 2.0 and row["reps"] == 2


def test_tables_are_kept_by_kind_and_the_last_of_a_case_counts(tmp_path):
    row = dict.fromkeys(program.COLUMNS, "") | {"kind": "rows", "name": "softmax", "pass": "fwd", "dtype": "fp32", "benchmark": "0", "shape": "rows=8;c=8"}
    for name, us in (("one.csv", "4.0"), ("two.csv", "5.0")):
        with open(tmp_path / name, "w", newline="") as file:
            table = csv.DictWriter(file, program.COLUMNS)
            table.writeheader()
            table.writerow(row | {"kernel_us": us})
    assert keep.keep([tmp_path / "one.csv", tmp_path / "two.csv"], tmp_path / "out") == "1 rows of 1 kinds"
    assert [r["kernel_us"] for r in keep.read(tmp_path / "out" / "rows.csv.gz")] == ["5.0"]
    assert program.keys_of([tmp_path / "out" / "rows.csv.gz"], False) == {"rows,softmax,fp32,,rows=8;c=8"}
    assert program.keys_of([tmp_path / "out" / "rows.csv.gz"], True) == set()
