"""holds: what-if with revisions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mirage.duration import DAY_S, HOUR_S
from mirage.errors import ConfigurationError
from mirage.policy.plan import Hold, Plan, Release, Submit, Wait
from mirage.policy.policy_registry import make_policy
from mirage.policy.policy_settings import PolicySettings
from mirage.policy.view import QueuedLink, View
from mirage.sim.cluster import Limit
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from tests.support.made_up_views import chain, jobs, view

NOW = 40 * DAY_S
SETTINGS = PolicySettings(scheduler=SlurmSettings(weight_age=100_000.0))


def full(
    *, ends_h: float, free_h: float = 2, queued: QueuedLink | None = None, crowd: int = 3, each_h: int = 4
) -> View:
    """Two nodes busy for ``free_h``, and fresh jobs of about 4 h on both nodes."""
    runs = {"nodes": 2, "limit_s": DAY_S, "submit_s": 0, "start_s": NOW - DAY_S + int(free_h * HOUR_S), "width": 2}
    came = {"nodes": 2, "limit_s": each_h * HOUR_S, "submit_s": NOW - 60, "eligible_s": NOW - 60}
    waits = [{"id": k, **came} for k in range(crowd)]
    observed = view(NOW, 2, 0, running=jobs({"id": 50, **runs}), pending=jobs(*waits))
    link = replace(chain(NOW + int(ends_h * HOUR_S), nodes=2), queued=queued)
    if queued is not None and not queued.held:
        competes = {"id": 7, "nodes": 2, "submit_s": queued.submitted_s, "eligible_s": queued.accrues_s}
        observed = replace(observed, pending=jobs(competes, *waits))
    return replace(observed, chain=link)


def queued(*, held: bool, accrues_s: int = NOW - 10 * HOUR_S) -> QueuedLink:
    return QueuedLink(job=7, submitted_s=NOW - 10 * HOUR_S, accrues_s=accrues_s, limit_s=HOUR_S, held=held)


def decide(observed: View, name: str = "holds:futures=4", **settings: Any) -> Plan:
    return make_policy(name, replace(SETTINGS, **settings)).decide(observed)


def test_it_holds_a_link_that_would_start_too_early() -> None:
    plan = decide(full(ends_h=9, queued=queued(held=False)))
    assert [type(action) for action in plan.actions] == [Hold, Wait]
    held = decide(full(ends_h=9, queued=queued(held=True)))
    assert [type(action) for action in held.actions] == [Wait]


@pytest.mark.parametrize("held", [True, False])
def test_it_lets_a_link_go_that_holding_would_bring_too_late(held: bool) -> None:
    # free in 2 h, when the present link ends; let go later, the link is late by what the others run
    plan = decide(full(ends_h=2, queued=queued(held=held)))
    assert [type(action) for action in plan.actions] == [Release if held else Wait]


def test_a_link_without_age_is_released_earlier_than_one_with() -> None:
    # behind three jobs of 4 h it would start in 14 h; with ten hours of age it comes first, in 2 h
    assert type(decide(full(ends_h=13, queued=queued(held=True, accrues_s=-1))).actions[0]) is Release
    assert type(decide(full(ends_h=13, queued=queued(held=True))).actions[0]) is Wait


def test_it_holds_a_link_once_slurm_counts_its_age() -> None:
    ageless = replace(queued(held=False, accrues_s=-1), submitted_s=NOW - 10)
    assert decide(full(ends_h=40, queued=ageless)).actions == (Wait(reason="look-soon", until_s=NOW + 10),)
    for ready in (replace(ageless, submitted_s=NOW - 60), replace(ageless, accrues_s=NOW - 9)):
        assert type(decide(full(ends_h=40, queued=ready)).actions[0]) is Hold


def test_a_held_link_is_released_when_the_present_one_has_ended() -> None:
    assert decide(full(ends_h=0, queued=queued(held=True))).actions == (Release(reason="ended"),)
    assert decide(full(ends_h=0, queued=queued(held=False))).actions == ()


@pytest.mark.parametrize(("name", "allowed"), [("holds:bank=yes", False), ("holds", True)])
def test_with_banked_age_it_submits_as_early_as_nothing_can_start(name: str, allowed: bool) -> None:
    submits = decide(full(ends_h=40), name, bank_age=allowed)
    assert submits.actions[0] == Submit(reason="gathers-age")
    assert submits.actions[1] == Wait(reason="look-soon", until_s=NOW + 10)
    free = view(NOW, 2, 2, chain=chain(NOW + 40 * HOUR_S, nodes=2))
    assert not decide(free, name, bank_age=allowed).submits
    assert not decide(full(ends_h=40, free_h=0.1, crowd=0), name, bank_age=allowed).submits


def test_without_it_submits_where_the_link_may_be_needed() -> None:
    assert not decide(full(ends_h=40)).submits
    assert not decide(full(ends_h=40), "holds:bank=no", bank_age=True).submits
    assert decide(full(ends_h=14)).submits


@pytest.mark.parametrize(
    "changed",
    [
        {"scheduler": SlurmSettings(weight_age=100_000.0, age_survives_hold=False)},
        {"scheduler": SlurmSettings(weight_age=100_000.0), "limits": (Limit("user", jobs=99),)},
    ],
    ids=["told", "limits"],
)
def test_where_holding_costs_age_it_submits_nothing_ahead_of_time(changed: dict[str, Any]) -> None:
    loses = replace(SETTINGS, **changed)
    for name in ("holds:futures=4", "holds:futures=4:bank=yes"):
        assert not make_policy(name, loses).decide(full(ends_h=15)).submits
    # let go without its age, behind three jobs of an hour, it would come 2 h late: it stays, an hour early
    early = full(ends_h=3, queued=queued(held=False), each_h=1)
    assert type(decide(early).actions[0]) is Hold
    assert [type(action) for action in make_policy("holds:futures=4", loses).decide(early).actions] == [Wait]
    # four hours early is dearer
    early = full(ends_h=6, queued=queued(held=False), each_h=1)
    assert type(make_policy("holds:futures=4", loses).decide(early).actions[0]) is Hold


@pytest.mark.parametrize("name", ["holds:insure=0.5", "holds:insure=inf", "holds:bank=maybe", "holds:early=x"])
def test_a_wrong_parameter_is_reported(name: str) -> None:
    with pytest.raises(ConfigurationError, match=r"holds takes bank=yes\|no, insure=TIMES, early=NUMBER"):
        make_policy(name)
