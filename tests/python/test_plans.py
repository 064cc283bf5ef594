"""Plans from Python: what the command line says, as rows."""

import foretrace
import pytest
from helpers import ROOT

DECODER = ROOT / "data" / "h200-decoders" / "gpt2048@4x1024.json.gz"


@pytest.fixture(scope="module")
def step():
    return foretrace.load(DECODER).step()


def test_a_plan_of_ones_is_the_step(step):
    (one,) = step.plan("dp=1", fabric="DGX-H100").plans
    assert one.workers == 1
    assert one.ms == pytest.approx(step.unprofiled().ms, rel=0.01)


def test_what_the_trace_does_not_show_can_be_said(step):
    (plan,) = step.plan("dp=2,microbatch=2", fabric="DGX-H100", batch=8, memory_gb=1).plans
    assert (plan.global_batch, plan.microbatches, plan.fits) == (16, 4, False)


def test_given_plans_keep_their_order(step):
    plans = step.plan("tp=2,dp=4", "pp=2,dp=4,microbatches=4", fabric="DGX-H100")
    assert [p.workers for p in plans.plans] == [8, 8]
    assert plans.plans[0].bubble_ms == 0 < plans.plans[1].bubble_ms
    assert all(p.low_ms <= p.ms <= p.high_ms for p in plans.plans)


def test_the_search_finds_plans_for_a_node_unless_told(step):
    found = step.plan(fabric="DGX-H100")
    assert {p.workers for p in found.plans} == {8}
    assert found.best.tokens_per_s == max(p.tokens_per_s for p in found.plans if p.global_batch == found.best.global_batch)
    assert "plan" in str(found)


def test_plans_are_a_table(step):
    pandas = pytest.importorskip("pandas")
    table = step.plan("dp=2", "tp=2", fabric="DGX-H100").to_pandas()
    assert isinstance(table, pandas.DataFrame)
    assert list(table["plan"]) == ["dp=2", "tp=2"]
    parts = table[["exposed_groups_ms", "exposed_stages_ms", "exposed_gradients_ms"]].sum(axis=1)
    assert list(parts) == pytest.approx(list(table["exposed_comm_ms"]), abs=1e-5)
    assert parts.min() > 0


def test_a_plan_has_its_stages_and_passes(step):
    (plan,) = step.plan("pp=4,microbatches=4", fabric="DGX-H100").plans
    assert [rank.stages for rank in plan.ranks] == [(0,), (1,), (2,), (3,)]
    assert plan.bubble_ms == pytest.approx(min(rank.bubble_ms for rank in plan.ranks), abs=1e-5)
    for i, rank in enumerate(plan.ranks):
        passes = [a for a in plan.actions if a.rank == i]
        assert sorted((a.kind, a.microbatch) for a in passes) == [(kind, m) for kind in "BF" for m in range(4)]
        assert {a.stage for a in passes} == {i}
        assert sum(a.end_ms - a.begin_ms for a in passes) == pytest.approx(rank.busy_ms, abs=1e-4)
    drained = max(a.end_ms for a in plan.actions)
    assert all(rank.busy_ms + rank.bubble_ms == pytest.approx(drained, abs=1e-4) for rank in plan.ranks)


def test_a_plan_is_a_picture(step):
    two = step.plan("pp=2,microbatches=3", "tp=2", fabric="DGX-H100").plans
    svg = two[0].plot().svg
    assert svg.count(">GPU ") == 2
    assert "backward" in svg
    assert "tp=2" in two[1].plot().svg  # no pipeline: its band
    first, second, *_ = (p for p in step.plan(gpus=4, fabric="DGX-H100").plans if len(p.ranks) > 1)
    assert ">GPU 1<" in first.plot().svg
    with pytest.raises(foretrace.DeclinedError, match="only the fastest"):
        second.plot()


def test_plans_are_a_page(step, tmp_path):
    step.plan("pp=2,microbatches=2", fabric="DGX-H100").report(tmp_path / "plan.html")
    assert "Stages over time" in (tmp_path / "plan.html").read_text()
    with pytest.raises(OSError):
        step.plan("tp=2", fabric="DGX-H100").report(tmp_path / "nowhere" / "plan.html")


def test_what_is_wrong_raises_as_elsewhere(step):
    with pytest.raises(foretrace.UsageError, match="which network"):
        step.plan(gpus=8)
    with pytest.raises(foretrace.UsageError, match="has no 'qp'"):
        step.plan("qp=2", fabric="DGX-H100")
    with pytest.raises(foretrace.UsageError, match="for the search"):
        step.plan("tp=2", gpus=4, fabric="DGX-H100")


def test_shardings_in_a_stack_are_a_plan(step):
    stack = ("pp:stages=2,microbatches=4,fabric=DGX-H100", "checkpoint", "tp:size=2")
    (plan,) = step.plan("tp=2,pp=2,microbatches=4,recompute=full", fabric="DGX-H100").plans
    found = step.predict(*stack)
    assert found.ms == pytest.approx(plan.ms)
    assert (found.low_ms, found.high_ms) == (pytest.approx(plan.low_ms), pytest.approx(plan.high_ms))
    assert found.peak_bytes == plan.peak_bytes
    assert found.pipeline.gpus == 2
    assert found.pipeline.bubble_ms == pytest.approx(plan.bubble_ms)
    assert found.graph is None
    assert step.predict("tp:size=2").pipeline is None
    assert "ps" in step.predict("ps", "pp:stages=2,microbatches=2").declined
