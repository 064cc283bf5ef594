"""The laws as the fitting tools ask them (tools/laws.py) are those that predict: the same rows, asked of the program and of the library."""

import csv
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent.parent
BUILD = Path(os.environ.get("FORETRACE_PROGRAM", ROOT / "build" / "foretrace")).parent
PROGRAM, LIBRARY = BUILD / "tests" / "gpu_figures", BUILD / "tools" / "foretrace_laws.so"
pytestmark = pytest.mark.skipif(not (PROGRAM.exists() and LIBRARY.exists()), reason="gpu_figures or foretrace_laws is not built")


@pytest.fixture
def laws(monkeypatch):
    pytest.importorskip("tomllib")
    monkeypatch.setenv("FORETRACE_LAWS", str(LIBRARY))
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import laws

    return laws


def parameters(table, **wanted):
    with open(ROOT / "src" / "hardware" / table, newline="") as file:
        rows = csv.DictReader(line for line in file if not line.startswith("#"))
        return {row["parameter"]: row["value"] for row in rows if all(row[k] == v for k, v in wanted.items())}


def asked(lines, column):
    done = subprocess.run([str(PROGRAM)], input="\n".join(lines) + "\n", capture_output=True, text=True, check=True)
    return np.array([float(line.split()[column]) for line in done.stdout.splitlines()])


def test_products(laws):
    p = parameters("transfer/H200-SXM.csv", kind="fp32", architecture="9.0")
    m, n, k = (np.exp2(np.random.default_rng(3).uniform(3, 13, (3, 40)))).astype(int)
    found = laws.product_us({name: float(v) for name, v in p.items() if name != "tiles"}, p["tiles"], "fp32", "H200-SXM", [1, m, n, k, 4, 0, 1])
    np.testing.assert_allclose(found, asked([f"product fp32 H200-SXM H200-SXM 1 {a} {b} {c} 4 0" for a, b, c in zip(m, n, k)], 0))


def test_attention(laws):
    p = {name: float(v) for name, v in parameters("laws/attention.csv", kind="fwd half", architecture="any").items()}
    rng = np.random.default_rng(5)
    b, h, q, d = rng.integers(1, 64, 50), rng.choice([8, 16, 32], 50), rng.integers(16, 4096, 50), rng.choice([40, 64, 128, 160], 50)
    here, there = (laws.evaluate_law("attention", "attention", "fwd half", p, device, [b, h, h // 4, q, q, d, 1, 0, 0]) for device in ("A100-SXM4-80GB", "L40S"))
    us = 10 * here  # slow enough for no roofline to decide
    lines = [f"attention A100-SXM4-80GB L40S {' '.join(map(str, row))}" for row in zip(b, h, h // 4, q, d, us)]
    np.testing.assert_allclose(asked(lines, 0), us * there / here, rtol=1e-6)


def test_a_kernel_that_stays_the_same(laws):
    p = parameters("laws/same_kernel.csv", kind="same kernel", architecture="any")
    rng = np.random.default_rng(7)
    moved, blocks = np.exp(rng.uniform(8, 20, 60)), rng.integers(1, 5000, 60)
    us = moved / 4e6 * np.exp(rng.uniform(-1, 3, 60)) + 1
    text = "\n".join([laws.HEAD, *(f"streaming,same kernel,any,{name},{value}" for name, value in p.items())])
    found = laws.evaluate("same_kernel H200-SXM", text, "T4", [us, moved, blocks])
    np.testing.assert_allclose(found, asked([f"same_kernel H200-SXM T4 {b} {n} 256 {t}" for b, n, t in zip(moved, blocks, us)], 0))


def test_what_is_wrong_is_said(laws):
    for law, text, what in (("gravity half", "", "no law is called gravity"), ("elementwise plain", laws.HEAD, "no parameters")):
        with pytest.raises(SystemExit, match=what):
            laws.evaluate(law, text, "H200-SXM", [1.0, 1.0])
