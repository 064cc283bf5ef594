"""The formula that was fitted (tools/transfer_model.py) and the one that predicts (C++) are the same."""

import csv
import importlib.util
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent.parent
PROGRAM = Path(os.environ.get("FORETRACE_PROGRAM", ROOT / "build" / "foretrace")).parent / "tests" / "gpu_figures"

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason="gpu_figures is not built")


@pytest.fixture(scope="module")
def model():
    pytest.importorskip("tomllib")
    spec = importlib.util.spec_from_file_location("transfer_model", ROOT / "tools" / "transfer_model.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def weights():
    sets = {}
    for name in ("products", "H200-SXM"):  # what was measured here replaces what others' tables say of its architecture
        with open(ROOT / "src" / "hardware" / "transfer" / f"{name}.csv", newline="") as f:
            fresh = {}
            for row in csv.DictReader(line for line in f if not line.startswith("#")):
                fresh.setdefault((row["kind"], row["architecture"]), {})[row["parameter"]] = row["value"]
            sets |= fresh
    return sets


def parameters(weights, kind, device):
    own = next(weights[(kind, arch)] for arch in (device.arch, device.relative, "any") if (kind, arch) in weights)
    tiles = [tuple(int(x) for x in t.split("x")) for t in own["tiles"].split()]
    return {name: float(v) for name, v in own.items() if name != "tiles"}, tiles


def asked(lines):
    done = subprocess.run([str(PROGRAM)], input="\n".join(lines) + "\n", capture_output=True, text=True, check=True)
    return np.array([float(line.split()[1]) for line in done.stdout.splitlines()])


@pytest.mark.parametrize("kind", ["half", "fp32", "fp32-batched"])
@pytest.mark.parametrize("name", ["A100-SXM4-80GB", "T4", "L40S", "P100-PCIe-16GB", "H200-SXM", "B200", "MI210", "RTX-3090"])
def test_training_and_prediction_agree(kind, name, model, weights):
    device = model.Device(name)
    if kind == "half" and device.vendor == "nvidia" and device.major < 8:
        pytest.skip("no bf16 there")
    rng = np.random.default_rng(3)
    batch = rng.integers(2, 64, 40) if kind == "fp32-batched" else np.ones(40, int)
    m, n, k = (np.exp2(rng.uniform(3, 13, 40)).astype(int) for _ in range(3))
    size = 2 if kind == "half" else 4
    ours = asked([f"product {kind} H100-SXM5 {name} {b} {x} {y} {z} {size} 0" for b, x, y, z in zip(batch, m, n, k)])
    expected = model.product_us(*parameters(weights, kind, device), batch, m, n, k, size, device, kind)
    if kind == "half":  # where tensor cores gain nothing, the kernel without them runs
        expected = np.minimum(expected, model.product_us(*parameters(weights, "fp32", device), batch, m, n, k, 4, device, "fp32"))
    np.testing.assert_allclose(ours, expected, rtol=1e-4)


@pytest.mark.parametrize("name", ["A100-PCIe-80GB", "T4", "P4", "H200-SXM", "MI210"])
def test_convolutions_agree(name, model, weights):
    device = model.Device(name)
    rng = np.random.default_rng(4)
    images, channels, out_channels = (rng.integers(1, 512, 40) for _ in range(3))
    size, kernel, stride = rng.integers(7, 60, 40), rng.choice([1, 3, 5], 40), rng.choice([1, 2], 40)
    padding = kernel // 2
    rows = list(zip(images, channels, size, out_channels, kernel, stride, padding))
    ours = asked([f"conv H100-SXM5 {name} {' '.join(map(str, r))} 0" for r in rows])
    out = (size + 2 * padding - kernel) // stride + 1
    fitted = model.conv_us(*parameters(weights, "conv", device), images, channels, size, out_channels, kernel, stride, out, device)
    plain = model.product_us(*parameters(weights, "fp32", device), np.ones(40), images * out**2, out_channels, channels * kernel**2, 4, device, "fp32")
    np.testing.assert_allclose(ours, np.where((kernel == 3) & (stride == 1), fitted, plain), rtol=1e-4)


@pytest.mark.skipif("FORETRACE_PUBLIC" not in os.environ, reason="FORETRACE_PUBLIC is not set")
@pytest.mark.parametrize("name", ["linear", "bmm"])
def test_tables_are_read_as_their_grids_say(name, monkeypatch):
    """Kernels named by their tile were launched over the result: columns by rows, and never over what is summed."""
    pd = pytest.importorskip("pandas")
    path = Path(os.environ["FORETRACE_PUBLIC"]) / "gpu-kernels-fp32" / f"{name}.csv.gz"
    if not path.exists():
        pytest.skip("the table is not there")
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import transfer_tables

    rows = transfer_tables.product_table(path.parent.parent, "fp32" if name == "linear" else "fp32-batched").rows
    d = pd.read_csv(path).drop_duplicates(list("BMNK"))
    tile = d["Kernel Name"].str.extract(r"sgemm_(\d+)x(\d+)").astype(float)
    # The columns the reader takes for m, n and k are those of the file that hold the same numbers.
    column = {ours: next(c for c in "MNK" if set(rows[ours]) >= set(d[c]) and not set(rows[other]) >= set(d[c]))
              for ours, other in (("n", "k"), ("k", "n"))}  # fmt: skip
    named = tile.notna().all(axis=1)
    grid = (np.ceil(d[column["n"]] / tile[0]) == d["Grid x"]) & (np.ceil(d.M / tile[1]) == d["Grid y"])
    assert grid[named].mean() > 0.99
    assert (np.ceil(d[column["k"]] / tile[0]) == d["Grid x"])[named].mean() < 0.5
