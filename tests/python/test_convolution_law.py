"""The law of convolutions that was fitted (tools/fit_convolutions.py) and the one that predicts (C++) are the same."""

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
def fitted():
    pytest.importorskip("tomllib")
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        import fit_convolutions
    finally:
        sys.path.remove(str(ROOT / "tools"))
    return fit_convolutions


@pytest.fixture(scope="module")
def sets(fitted):
    with open(fitted.TABLE, newline="") as f:
        rows = csv.DictReader(line for line in f if not line.startswith("#"))
        return {row["set"]: {name: float(row[name]) for name in fitted.NAMES} for row in rows}


def shapes(kind, rng, count=12):
    for _ in range(count):
        c = int(rng.choice([3, 16, 30, 64, 256]))
        groups = {"depthwise": c, "grouped": 2 if c % 2 == 0 else 3}.get(kind, 1)
        if kind == "grouped" and c == 3:
            c, groups = 96, 8
        k = c if kind == "depthwise" else groups * int(rng.choice([4, 7, 32]))
        kernel, stride = (1, 1) if kind == "pointwise" else (int(rng.choice([3, 5])), int(rng.choice([1, 2])))
        yield int(rng.choice([1, 8, 64])), c, int(rng.choice([14, 28, 57])), k, kernel, stride, kernel // 2, 1, groups


@pytest.mark.parametrize("kind", ["pointwise", "dense", "grouped", "depthwise"])
@pytest.mark.parametrize("how", ["fwd", "dgrad", "wgrad"])
@pytest.mark.parametrize("dtype", ["fp32", "tf32", "half"])
@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_training_and_prediction_agree(kind, how, dtype, layout, fitted, sets):
    rows = list(shapes(kind, np.random.default_rng(5)))
    lines = [f"convolution {how} {dtype} {layout} {fitted.DEVICE} {' '.join(map(str, row))}" for row in rows]
    done = subprocess.run([str(PROGRAM)], input="\n".join(lines) + "\n", capture_output=True, text=True, check=True)
    n, c, size, k, kernel, stride, pad, _, groups = (np.array(column, float) for column in zip(*rows))
    out = (size + 2 * pad - kernel) // stride + 1
    x = {"n": n, "c": c, "k": k, "g": groups, "taps": kernel**2, "image": size**2, "result": out**2, "skipped": stride**2,
         "winograd": (groups == 1) & (kernel == 3) & (stride == 1)}  # fmt: skip
    key = (kind, how, dtype, layout)
    expected = fitted.law_us(sets[" ".join(key)], key, x, fitted.fit_products.device_for(dtype))
    # The device file rounds TF32's peak; the fit takes half of that of half precision.
    np.testing.assert_allclose([float(line) for line in done.stdout.split()], expected, rtol=1e-3 if dtype == "tf32" else 1e-4)
