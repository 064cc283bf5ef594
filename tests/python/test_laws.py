"""The formulas that were fitted (tools/laws.py) and those that predict (C++) are the same."""

import csv
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent.parent
PROGRAM = Path(os.environ.get("FORETRACE_PROGRAM", ROOT / "build" / "foretrace")).parent / "tests" / "gpu_figures"
pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason="gpu_figures is not built")


@pytest.fixture(scope="module")
def tools():
    pytest.importorskip("tomllib")
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        import laws
        import transfer_model
    finally:
        sys.path.remove(str(ROOT / "tools"))
    return laws, transfer_model


def parameters(law, kind, architecture):
    found = {}
    for path in sorted((ROOT / "src" / "hardware" / "laws").glob("*.csv")):
        with open(path, newline="") as file:
            for row in csv.DictReader(line for line in file if not line.startswith("#")):
                if (row["law"], row["kind"], row["architecture"]) == (law, kind, architecture):
                    found[row["parameter"]] = float(row["value"])
    return found


def asked(lines):
    done = subprocess.run([str(PROGRAM)], input="\n".join(lines) + "\n", capture_output=True, text=True, check=True)
    return np.array([float(line.split()[0]) for line in done.stdout.splitlines()])


@pytest.mark.parametrize("pair", [("A100-SXM4-80GB", "L40S", "any"), ("H200-SXM", "A100-SXM4-80GB", "any"), ("H200-SXM", "H100-SXM5", "9.0")])
def test_attention(pair, tools):
    laws, model = tools
    origin, target, architecture = pair
    rng = np.random.default_rng(5)
    b, h, q = rng.integers(1, 64, 50), rng.choice([8, 16, 32], 50), rng.integers(16, 4096, 50)
    shared, d = rng.choice([1, 4], 50), rng.choice([40, 64, 128, 160], 50)
    x = np.column_stack([b, h, h // shared, q, q, d, np.ones(50), np.zeros(50), np.zeros(50)]).astype(float)
    p = parameters("attention", "fwd half", architecture)
    here, there = (laws.attention_us(p, x, dev, dev.flops_per_clock("half"), 2, False) for dev in map(model.Device, (origin, target)))
    # From what the law says of the origin to what it says of the target; slow enough for no roofline to decide.
    us = 10 * here
    found = asked([f"attention {origin} {target} {x[0]} {x[1]} {x[2]} {x[3]} {x[4]} {t}" for x, t in zip(zip(b, h, h // shared, q, d), us)])
    np.testing.assert_allclose(found, us * there / here, rtol=1e-6)


@pytest.mark.parametrize("pair", [("A100-SXM4-80GB", "V100-PCIe-32GB"), ("H200-SXM", "T4"), ("P100-PCIe-16GB", "H100-SXM5")])
def test_a_kernel_that_stays(pair, tools):
    laws, model = tools
    origin, target = map(model.Device, pair)
    rng = np.random.default_rng(7)
    moved, blocks = np.exp(rng.uniform(8, 20, 60)), rng.integers(1, 5000, 60).astype(float)
    us = moved / (origin.streaming * 1e3) * np.exp(rng.uniform(-1, 3, 60)) + 1
    empty = float(next(line.split(",")[1] for line in (ROOT / "src" / "graph" / "latencies" / "H200-SXM.csv").read_text().splitlines() if line.startswith("empty_kernel"))) / 1e3
    expected = laws.same_kernel_us(parameters("streaming", "same kernel", "any"), us, moved, blocks, origin, target, empty)
    found = asked([f"same_kernel {pair[0]} {pair[1]} {m} {int(n)} 256 {t}" for m, n, t in zip(moved, blocks, us)])
    np.testing.assert_allclose(found, expected, rtol=1e-6)
