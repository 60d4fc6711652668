"""The fall-back: a lead from recent waits and the costs of an hour of each kind."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirage.agent.decision.fallback import decide_by_recent_waits
from mirage.agent.decision.open_decision import chain_view
from mirage.policy.plan import Plan
from mirage.policy.view import View
from mirage.provision.policies.lead_rules import QuantileWait
from tests.support.one_chain import NOW_S
from tests.support.scripted_policies import Deciding


def decided(costs: tuple[float, float], left_s: int = 2_000) -> tuple[Plan, View]:
    deciding = Deciding(waits_s=range(10, 1_210, 10))
    context = deciding.world.context
    view = deciding.view(context)
    form = chain_view(context, deciding.world.chain, *deciding.world.links[:2], view)
    form = replace(form, ends_s=NOW_S + left_s)
    plan = decide_by_recent_waits(view, form, *costs)
    assert view.chain is None
    return plan, replace(view, chain=form)


@pytest.mark.parametrize(
    ("costs", "quantile"),
    [((1.0, 1.0), 0.5), ((9.0, 1.0), 0.9), ((1.0, 0.0), 0.95), ((0.0, 1.0), 0.05), ((0.0, 0.0), 0.5)],
)
def test_its_lead_is_the_quantile_of_equal_costs(costs: tuple[float, float], quantile: float) -> None:
    plan, observed = decided(costs)
    assert plan == QuantileWait(str(quantile)).decide(observed)


def test_dear_interruptions_make_long_leads() -> None:
    leads_s = [decided((cost, 1.0))[0].estimate["lead_s"] for cost in (0.0, 0.5, 1.0, 4.0, 20.0)]
    assert leads_s == sorted(leads_s)
    assert 0 < leads_s[0] < leads_s[2] < leads_s[-1]


def test_it_submits_when_no_more_is_left() -> None:
    lead_s = int(decided((9.0, 1.0))[0].estimate["lead_s"])
    assert not decided((9.0, 1.0), lead_s + 1)[0].submits
    assert decided((9.0, 1.0), lead_s)[0].submits
    assert decided((0.0, 1.0), 0)[0].submits


def test_without_any_waits_it_submits_at_the_end() -> None:
    deciding = Deciding()
    deciding.world.shows()
    view = deciding.view(deciding.world.context)
    form = replace(decided((1.0, 1.0))[1].chain, ends_s=NOW_S + 1)  # type: ignore[type-var]
    assert not decide_by_recent_waits(view, form, 1.0, 1.0).submits
    assert decide_by_recent_waits(view, replace(form, ends_s=NOW_S), 1.0, 1.0).submits
