"""tools/measure/schemes without a GPU: every scheme trains as DistributedDataParallel does, the lossless ones to rounding."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("schemes_against_ddp.py")


def distances(world, *cases):
    answer = subprocess.run([sys.executable, str(PROGRAM), str(world), *cases], capture_output=True, text=True, timeout=240)
    assert answer.returncode == 0, answer.stderr[-2000:]
    return json.loads(answer.stdout.splitlines()[-1])


def test_two_ranks_train_as_under_ddp():
    found = distances(2, "zero1", "zero2", "ps", "horovod@1", "p3@0.05", "fsdp")
    assert all(far < 1e-4 for far in found.values()), found


def test_pairs_of_ranks_train_as_under_ddp():
    found = distances(4, "blueconnect")
    assert found["blueconnect"] < 1e-4


@pytest.mark.parametrize(("case", "most"), [("ddpfp16", 0.01), ("topk", 0.3), ("qsgd", 0.3)])
def test_compressed_gradients_move_parameters_the_same_way(case, most):
    assert distances(2, case)[case] < most
