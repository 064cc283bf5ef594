"""Strategies predicted through the module, and the search on a local Ray cluster."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from foretrace import _core

ROOT = Path(__file__).resolve().parents[2]
TRACE = str(ROOT / "data/h200-more/bert_l8.base.json.gz")
STRATEGY = '{"schema": 1, "whatifs": [{"whatif": "accumulate", "n": 2}, "fused-optimizer"]}'


def run(*args: str) -> dict:
    command = [sys.executable, "-m", "foretrace", "optimize", TRACE, "--json", "--quiet", "--budget-evals", "60", *args]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_step_predicts_strategies() -> None:
    step = _core.StrategyStep(TRACE)
    today, changed, wrong = step.evaluate(['{"whatifs": []}', STRATEGY, '{"whatifs": ["channels-last"]}'])
    assert today[0] == "" and today[1] > 0 and today[2] > 0
    assert changed[1] != today[1] and changed[2] < today[2]
    assert wrong[0] != ""


def test_a_strategy_reads_back(tmp_path: Path) -> None:
    strategy, code = tmp_path / "best.json", tmp_path / "best.py"
    found = run("--strategy-out", str(strategy), "--code-out", str(code))
    command = [sys.executable, "-m", "foretrace", "whatif", TRACE, "--strategy", str(strategy), "--json"]
    again = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert again["predictions"][0]["ms"] == pytest.approx(found["best"]["ms"], rel=1e-9)
    compile(code.read_text(), str(code), "exec")


def test_another_evaluator_gives_the_same_answer() -> None:
    step = _core.StrategyStep(TRACE)
    asked: list[int] = []

    def evaluate(strategies: list[str]) -> list[tuple]:
        asked.append(len(strategies))
        return step.evaluate(strategies)

    out = Path("search-other.json")
    _core.set_evaluator(lambda trace, number, measured: evaluate)
    try:
        arguments = ["optimize", TRACE, "--json", "--quiet", "--budget-evals", "60", "--ray", "here", "-o", str(out)]
        assert _core.run(arguments) == 0
        found = json.loads(out.read_text())
    finally:
        _core.set_evaluator(None)
        out.unlink(missing_ok=True)
    # What `advise` finds comes first and is no evaluation of the search.
    assert sum(asked) > found["evaluations"] == 60
    assert found["best"] == run()["best"]


def test_a_ray_cluster_gives_the_same_answer_and_loses_nothing() -> None:
    pytest.importorskip("ray")
    from foretrace import _ray

    lost: list[int] = []

    def lose(workers: list) -> None:
        if not lost:  # one worker, in the middle of its first batch
            import ray

            lost.append(1)
            ray.kill(workers[0])

    cluster = _ray.Cluster("local", workers=2, lose=lose)
    out = Path("search-ray.json")
    _core.set_evaluator(cluster)
    try:
        arguments = ["optimize", TRACE, "--json", "--quiet", "--budget-evals", "60", "--ray", "local", "-o", str(out)]
        assert _core.run(arguments) == 0
        found = json.loads(out.read_text())
    finally:
        import ray

        _core.set_evaluator(None)
        ray.shutdown()
        out.unlink(missing_ok=True)
    assert lost, "no worker was lost"
    alone = run()
    assert found["best"] == alone["best"]
    assert found["evaluations"] == alone["evaluations"]


def ranks_of_a_job(folder: Path) -> list[str]:
    """Two ranks of one job made of one trace, and a file that is no trace."""
    import gzip

    source = gzip.decompress((ROOT / "data/h200-ranks/resnet50.mps.ddp@5.w2.r0.json.gz").read_bytes())
    start = json.loads(source)
    files = []
    for rank in range(2):
        start["distributedInfo"]["rank"] = rank
        files.append(folder / f"rank{rank}.json.gz")
        files[-1].write_bytes(gzip.compress(json.dumps(start).encode(), 1))
    files.append(folder / "rank2.json")
    files[-1].write_text('{"traceEvents": [')
    return [str(f) for f in files]


def test_a_packed_trace_is_the_trace(tmp_path: Path) -> None:
    packed, error = _core.read_packed(TRACE)
    assert error is None and len(packed) > 1_000_000
    missing, error = _core.read_packed(str(tmp_path / "none.json"))
    assert missing == b"" and error is not None and "none.json" in error[2]


def test_ranks_read_on_a_ray_cluster_give_the_same_answer_and_lose_nothing(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    from foretrace import _ray

    files = ranks_of_a_job(tmp_path)
    here, there, lost = tmp_path / "here.json", tmp_path / "there.json", tmp_path / "lost"
    assert _core.run(["ranks", *files, "--json", "--quiet", "-o", str(here)]) == 0
    cluster = _ray.Cluster("local", workers=2, lose_once=str(lost))
    _core.set_reader(cluster.read_all)
    try:
        assert _core.run(["ranks", *files, "--json", "--quiet", "--ray", "local", "-o", str(there)]) == 0
    finally:
        import ray

        _core.set_reader(None)
        ray.shutdown()
    assert lost.exists(), "no worker was lost"
    assert there.read_text() == here.read_text()
    assert "rank2.json" in here.read_text()


PLAN = ["plan", str(ROOT / "data/h200-lengths/gpt2-today.base.json.gz"), "--gpus", "4", "--fabric", "DGX-H100", "--json", "--quiet"]


def test_plans_on_a_ray_cluster_are_those_of_one_machine(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    from foretrace import _ray

    here, there, lost = tmp_path / "here.json", tmp_path / "there.json", tmp_path / "lost"
    assert _core.run([*PLAN, "-o", str(here)]) == 0
    _core.set_answerer(_ray.Cluster("local", workers=2, lose_once=str(lost)).answer_all)
    try:
        assert _core.run([*PLAN, "--ray", "local", "-o", str(there)]) == 0
    finally:
        _core.set_answerer(None)
    assert lost.exists()
    assert json.loads(there.read_text()) == json.loads(here.read_text())


def test_an_error_of_a_process_is_the_error_of_the_search(capfd: pytest.CaptureFixture[str]) -> None:
    _core.set_answerer(lambda commands: ['{"schema": 1, "error": {"message": "no such fabric here", "hint": "look"}}' for _ in commands])
    try:
        assert _core.run([*PLAN, "--ray", "here"]) == 2
    finally:
        _core.set_answerer(None)
    assert json.loads(capfd.readouterr().out)["error"]["message"] == "no such fabric here"
