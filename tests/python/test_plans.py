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


def test_what_is_wrong_raises_as_elsewhere(step):
    with pytest.raises(foretrace.UsageError, match="which network"):
        step.plan(gpus=8)
    with pytest.raises(foretrace.UsageError, match="has no 'qp'"):
        step.plan("qp=2", fabric="DGX-H100")
    with pytest.raises(foretrace.UsageError, match="for the search"):
        step.plan("tp=2", gpus=4, fabric="DGX-H100")
