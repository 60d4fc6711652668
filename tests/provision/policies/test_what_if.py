"""what-if: its rule."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mirage.array_types import Ints
from mirage.duration import DAY_S, HOUR_S
from mirage.errors import ConfigurationError
from mirage.forecast.forecaster import Forecaster, QueueFutures
from mirage.forecast.shared_futures import shared_futures
from mirage.job_state import MISSING
from mirage.policy.cost import Cost
from mirage.policy.plan import Wait
from mirage.policy.policy_registry import make_policy
from mirage.policy.policy_settings import PolicySettings
from mirage.policy.start_forecast import StartForecast
from mirage.policy.view import ChainView
from mirage.provision.policies.slurm_estimate import SlurmEstimate
from mirage.provision.policies.what_if import WhatIf, delays_s
from mirage.sim.cluster import Cluster
from mirage.sim.simulation import Simulation
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from mirage.sim.workload import workload
from mirage.trace.table import JobTable
from tests.support.made_up_views import chain, ended, jobs, view

NOW = 40 * DAY_S
DISCIPLINES = ["fcfs", "easy", "conservative", "slurm", "mirage-2023"]


def full_machine(*, left_s: int, limit_s: int = 4 * HOUR_S, history: object = None, ends_s: int = 0) -> object:
    """Two nodes, both taken by a job that has ``left_s`` of its limit left."""
    job = {"nodes": 2, "limit_s": limit_s, "submit_s": NOW - limit_s, "start_s": NOW - limit_s + left_s, "width": 2}
    return view(NOW, 2, 0, running=jobs(job), history=history, chain=chain(ends_s or NOW + 2 * DAY_S))


@pytest.mark.parametrize(
    ("remaining_s", "delays"),
    [
        (10 * HOUR_S, [0, 1800, 3600, 7200, 14400, 28800, 36000]),
        (3600, [0, 1800, 3600]),
        (3000, [0, 1800, 2100, 2700, 3000]),
        (1800, [0, 900, 1500, 1800]),
        (600, [0, 300, 600]),
        (200, [0, 200]),
    ],
)
def test_delays_double_and_come_close_to_the_end(remaining_s: int, delays: list[int]) -> None:
    assert delays_s(remaining_s, 1800).tolist() == delays


def test_the_same_view_gets_the_same_plan_and_another_seed_other_futures() -> None:
    rows = [(1, 2, 4 * HOUR_S, NOW - DAY_S, NOW - DAY_S, NOW - DAY_S + 60 * k) for k in range(1, 200)]
    observed = full_machine(left_s=3 * HOUR_S, history=ended(*rows))
    plans = [WhatIf(seed=seed).decide(observed) for seed in (1, 1, 2)]
    assert plans[0] == plans[1]
    assert plans[0].estimate != plans[2].estimate


def test_on_an_idle_machine_it_waits_and_names_its_next_call() -> None:
    plan = WhatIf(discipline="easy", futures=4).decide(full_machine(left_s=3 * HOUR_S, ends_s=NOW + 33 * HOUR_S))
    assert not plan.submits
    assert plan.actions[0].until_s == NOW + 7 * HOUR_S + 1800  # a quarter of the spare 30 hours, in whole steps


def rival_at_quarter_past() -> object:
    """Every day a job of the whole machine comes 15 minutes from now."""
    rng = np.random.default_rng(0)
    limit_s = 4 * HOUR_S
    old = [(1, 2, limit_s, 0, DAY_S, DAY_S + int(e)) for e in rng.integers(60, limit_s, 300)]
    daily = [NOW - day * DAY_S + 900 for day in range(1, 15)]
    runs = rng.permutation(np.linspace(600, limit_s - 600, len(daily)).astype(np.int64))
    rivals = [(1, 2, limit_s, at, at, at + int(run)) for at, run in zip(daily, runs)]
    return full_machine(left_s=limit_s - 60, history=ended(*old, *rivals), ends_s=NOW + 3 * HOUR_S)


def test_what_interruption_and_overlap_cost_decides() -> None:
    # Now: the start is up to 3 h early or 1 h late. After the rival: 1.3 h late on average, hardly ever early.
    observed = rival_at_quarter_past()
    assert WhatIf(discipline="easy", cost=Cost(20, 1), futures=128).decide(observed).submits
    assert not WhatIf(discipline="easy", cost=Cost(1, 5), futures=128).decide(observed).submits


def test_slurms_estimate_takes_everybody_to_use_up_the_limit() -> None:
    rows = [(1, 2, 4 * HOUR_S, NOW - DAY_S, NOW - DAY_S, NOW - DAY_S + 1)] * 50
    observed = full_machine(left_s=3 * HOUR_S, history=ended(*rows), ends_s=NOW + 3 * HOUR_S)
    plan = SlurmEstimate(discipline="easy").decide(observed)
    assert plan.estimate["lead_s"] == 3 * HOUR_S
    assert plan.submits


def test_slurms_estimate_assumes_no_arrivals() -> None:
    # A job of the whole machine was submitted at this hour of every day that we see, and large jobs go first.
    job = {"nodes": 2, "limit_s": 2 * DAY_S, "submit_s": NOW - DAY_S + 60, "start_s": NOW - HOUR_S, "width": 2}
    rivals = [{"nodes": 2, "limit_s": HOUR_S, "submit_s": NOW - day * DAY_S + 60} for day in (3, 2)]
    observed = view(NOW, 2, 0, running=jobs(job), pending=jobs(*rivals), chain=chain(NOW + DAY_S))
    large_first = SlurmSettings(weight_size=1000)
    lead_s = SlurmEstimate(scheduler=large_first).decide(observed).estimate["lead_s"]
    assert lead_s == 2 * DAY_S - HOUR_S + 2 * HOUR_S
    with_arrivals = Forecaster(1, scheduler=large_first).forecast(observed, np.zeros(1, np.int64)).starts_s
    assert with_arrivals[0, 0] - NOW > lead_s


def test_both_are_known_by_name() -> None:
    free = view(NOW, 4, 4, chain=chain(NOW + DAY_S))
    for name in ("what-if", "slurm-estimate"):
        plan = make_policy(name, PolicySettings(seed=1, discipline="easy")).decide(free)
        assert not plan.submits
        assert plan.actions[0].reason


# -- at a glance --------------------------------------------------------------------------------------------------


def test_a_link_that_comes_too_late_even_now_is_submitted_at_a_glance() -> None:
    crowded = full_machine(left_s=2 * HOUR_S, ends_s=NOW + HOUR_S)
    plan = WhatIf(futures=4, quick=True).decide(crowded)
    assert plan.submits
    assert plan.actions[0].reason == "too-late-even-now"
    assert plan.estimate["wait_p50_s"] == 2 * HOUR_S


def test_where_there_is_plenty_of_time_nothing_is_weighed() -> None:
    policy = WhatIf(futures=4, quick=True)
    plan = policy.decide(full_machine(left_s=2 * HOUR_S, ends_s=NOW + DAY_S))
    assert [action.reason for action in plan.actions] == ["plenty-of-time"]
    assert "cost_now" not in plan.estimate
    between = policy.decide(full_machine(left_s=2 * HOUR_S, ends_s=NOW + 3 * HOUR_S))
    assert "cost_now" in between.estimate


def simulated(monkeypatch: pytest.MonkeyPatch) -> list[tuple[ChainView, int]]:
    """The chain and the number of delays of all simulations from now on; nothing is cached."""
    found: list[tuple[ChainView, int]] = []
    play = QueueFutures.play

    def counted(queue: QueueFutures, link: ChainView, delays_s: Ints, until_s: int) -> StartForecast:
        found.append((link, len(delays_s)))
        return play(queue, link, delays_s, until_s)

    shared_futures.cache_clear()
    monkeypatch.setattr(QueueFutures, "play", counted)
    return found


def test_a_quick_check_is_shared_and_gives_each_chain_its_own_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    observed = full_machine(left_s=2 * HOUR_S)
    chains = [replace(observed, chain=chain(NOW + hours * HOUR_S)) for hours in (1, 3, 30)]
    alone = []
    for one in chains:
        shared_futures.cache_clear()
        alone.append(WhatIf(futures=8, quick=True).decide(one))
    played, shared = simulated(monkeypatch), WhatIf(futures=8, quick=True)
    assert [shared.decide(one) for one in chains] == alone
    assert sum(link.predecessor == MISSING for link, _ in played) == 1


def test_policies_with_equal_forecasts_simulate_them_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """One policy at two costs, and one with another seed."""
    observed = full_machine(left_s=2 * HOUR_S, ends_s=NOW + 3 * HOUR_S)
    played = simulated(monkeypatch)
    WhatIf(futures=8).decide(observed)
    once = len(played)
    dear = WhatIf(futures=8, cost=Cost(9, 1))
    plan = dear.decide(observed)
    assert once <= len(played) <= once + 1, "another cost may look at more delays, and at no other twice"
    WhatIf(futures=8, seed=1).decide(observed)
    assert len(played) >= 2 * once
    shared_futures.cache_clear()
    assert plan == WhatIf(futures=8, cost=Cost(9, 1)).decide(observed)


def test_a_later_moment_of_an_empty_queue_is_another_one() -> None:
    sim = Simulation(Cluster.pool(4), workload(JobTable.build([]), Cluster.pool(4)), begin_s=NOW)
    policy, ends_s = WhatIf(futures=4), NOW + 12 * HOUR_S
    first = sim.inject(nodes=1, limit_s=12 * HOUR_S)
    sim.run_until_started(first, NOW + HOUR_S)
    for now_s in (NOW + HOUR_S, ends_s - HOUR_S, ends_s - 600):
        sim.approach(now_s)
        observed = sim.view(ChainView(1, 12 * HOUR_S, first, NOW, NOW, ends_s, 1800))
        assert policy.decide(observed) == WhatIf(futures=4).decide(observed)
        assert policy.decide(observed).estimate["remaining_s"] == ends_s - now_s


def test_in_the_last_step_the_best_moment_is_named() -> None:
    # Every day a job of the whole machine comes 27 minutes from now: five minutes of overlap are the cheapest.
    rivals = [(1, 2, HOUR_S, at, at, at + HOUR_S) for at in (NOW - day * DAY_S + 27 * 60 for day in range(1, 15))]
    observed = view(NOW, 2, 2, history=ended(*rivals), chain=chain(NOW + 1800))
    plan = WhatIf(discipline="easy", futures=4, quick=False).decide(observed)
    assert plan.actions == (Wait(reason="waiting-costs-less", until_s=NOW + 1500),)


def test_the_number_of_futures_comes_with_the_name() -> None:
    assert make_policy("what-if:7").forecaster.futures == 7
    with pytest.raises(ConfigurationError, match=r"what-if takes futures=NUMBER .* got 'many'"):
        make_policy("what-if:many")


def test_what_decides_comes_with_the_name_too() -> None:
    made = make_policy("what-if:7:tie=0:quick=no:information=0.6")
    assert (made.forecaster.futures, made.tie, made.quick, made.information) == (7, 0.0, False, 0.6)
    usual = make_policy("what-if")
    assert (usual.forecaster.futures, usual.tie, usual.quick, usual.information) == (64, 0.05, True, 0.3)


def test_with_something_to_lose_either_way_a_tie_goes_to_submitting() -> None:
    # In every future the machine is free half an hour after the link has ended, whenever the next one is submitted.
    observed = full_machine(left_s=2 * HOUR_S, ends_s=NOW + 3 * HOUR_S // 2)
    plans = {tie: WhatIf(discipline="easy", futures=4, tie=tie, quick=False).decide(observed) for tie in (0.0, 0.05)}
    assert plans[0.0].estimate == plans[0.05].estimate
    assert plans[0.0].estimate["cost_now"] == plans[0.0].estimate["cost_later"] > 0
    assert [action.reason for action in plans[0.0].actions] == ["waiting-costs-less"]
    assert [action.reason for action in plans[0.05].actions] == ["waiting-gains-nothing"]


def test_a_forecast_is_played_once_and_weighed_at_several_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    # two nodes free in 2 h, then three jobs of 4 h: submitted now the link starts an hour late at the earliest
    waits = [
        {"id": k, "nodes": 2, "limit_s": 4 * HOUR_S, "submit_s": NOW - 60, "eligible_s": NOW - 60} for k in range(3)
    ]
    runs = {"id": 50, "nodes": 2, "limit_s": DAY_S, "submit_s": 0, "start_s": NOW - 22 * HOUR_S, "width": 2}
    left_s = 13 * HOUR_S
    observed = view(NOW, 2, 0, running=jobs(runs), pending=jobs(*waits), chain=chain(NOW + left_s, nodes=2))
    played = simulated(monkeypatch)
    policy, every = make_policy("what-if:8:quick=no"), len(delays_s(left_s, observed.chain.step_s))
    plans = [policy.weighed_at(observed, observed.chain, cost) for cost in (Cost(1, 1), Cost(3, 1), Cost(1, 1))]
    assert [delays for _, delays in played] == [2, every]  # a few delays, as waiting may do, and then all of them
    assert [len(plan.forecast.delays_s) for plan in plans] == [every] * 3
    assert plans[0] == plans[2] != plans[1]
