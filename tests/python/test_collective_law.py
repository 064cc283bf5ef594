"""The law of collectives that was fitted (tools/collective_law.py) and the one that predicts (C++) are the same."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PROGRAM = Path(os.environ.get("FORETRACE_PROGRAM", ROOT / "build" / "foretrace")).parent / "tests" / "collective_figures"

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason="collective_figures is not built")

# op, ranks, ranks of a node, us of a small message, GB/s
CURVES = [("all_reduce", 8, 8, 25.0, 300.0), ("all_reduce", 4, 4, 18.0, 280.0), ("all_gather", 8, 8, 20.0, 290.0), ("reduce_scatter", 2, 2, 12.0, 250.0),
          ("alltoall", 8, 8, 15.0, 270.0), ("send_recv", 2, 2, 14.0, 200.0), ("broadcast", 8, 8, 19.0, 260.0),
          ("all_reduce", 2, 1, 40.0, 40.0), ("all_reduce", 16, 8, 60.0, 150.0), ("all_gather", 80, 8, 90.0, 200.0), ("send_recv", 4, 2, 50.0, 30.0)]  # fmt: skip


@pytest.fixture(scope="module")
def law():
    pytest.importorskip("numpy")
    sys.path.insert(0, str(ROOT / "tools"))
    import collective_law
    import collective_systems

    return collective_law, collective_systems


def shipped():
    rows = (line.split(",") for line in (ROOT / "src/hardware/fabrics/protocols.csv").read_text().splitlines() if not line.startswith("#"))
    return {row[0]: float(row[1]) for row in rows}


@pytest.mark.parametrize(("system", "slow"), [("made_a100", 1.0), ("made_h100", 1.0), ("made_h100_waiting", 6.0), ("l40s", 1.0)])
def test_both_predict_the_same(law, tmp_path, system, slow):
    collective_law, systems = law
    lines = ["source,system,op,ranks,ranks_per_node,size,unit,ms"]
    for op, ranks, per_node, us, gbs in CURVES:
        for size in (1024, 65536, 1 << 20, 1 << 25, 1 << 30):
            lines.append(f"made,{system},{op},{ranks},{per_node},{size},bytes,{(slow * us + size / gbs / 1e3) / 1e3:.6f}")
    table = tmp_path / "collectives.csv"
    table.write_text("\n".join(lines) + "\n")
    done = subprocess.run([PROGRAM, table], capture_output=True, text=True, check=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    predicted = {(r["level"], r["coll"], r["ranks"], r["per_node"], r["bytes"]): r["predicted_ms"] for r in rows if r["how"] == "two points"}
    names = {"all_reduce": "all-reduce", "all_gather": "all-gather", "reduce_scatter": "reduce-scatter", "all_to_all": "all-to-all", "send_recv": "send/recv", "broadcast": "broadcast"}

    import gzip

    with gzip.open(tmp_path / "collectives.csv.gz", "wt") as file:
        file.write(table.read_text())
    (made,) = systems.read(tmp_path / "collectives.csv.gz")
    compared = 0
    for level, curve, errors in made.errors(shipped()):
        sizes = curve.bytes[1:-1] if len(errors) < len(curve.bytes) else curve.bytes
        times = curve.us[1:-1] if len(errors) < len(curve.bytes) else curve.us
        for size, us, error in zip(sizes, times, errors):
            ms = predicted[level, names[curve.kind], curve.ranks, curve.per_node, size]
            assert ms == pytest.approx(us * math.exp(error) / 1e3, rel=2e-3, abs=2e-6), (level, curve.kind, curve.ranks, size)
            compared += 1
    assert compared == len(predicted) > 20
