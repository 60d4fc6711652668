"""what-if: its futures, its rollouts, its rule."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from views import chain, ended, jobs, view

from mirage.duration import DAY_S, HOUR_S
from mirage.errors import ConfigurationError
from mirage.policy.cost import Cost
from mirage.policy.registry import make_policy
from mirage.policy.settings import PolicySettings
from mirage.provision.policies.futures import LEVELS, UseHistory, evenly, past_arrivals, with_own_history
from mirage.provision.policies.slurm_estimate import SlurmEstimate
from mirage.provision.policies.start_forecast import StartForecast
from mirage.provision.policies.what_if import WhatIf, delays_s
from mirage.sim.slurm_conf.settings import SlurmSettings

NOW = 40 * DAY_S
DISCIPLINES = ["fcfs", "easy", "conservative", "slurm", "mirage-2023"]


def full_machine(*, left_s: int, limit_s: int = 4 * HOUR_S, history: object = None, ends_s: int = 0) -> object:
    """Two nodes, both taken by a job that has ``left_s`` of its limit left."""
    job = {"nodes": 2, "limit_s": limit_s, "submit_s": NOW - limit_s, "start_s": NOW - limit_s + left_s, "width": 2}
    return view(NOW, 2, 0, running=jobs(job), history=history, chain=chain(ends_s or NOW + 2 * DAY_S))


@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_without_history_every_job_runs_to_its_limit(discipline: str) -> None:
    left_s = 2 * HOUR_S
    starts_s = StartForecast(3, discipline=discipline).starts_s(full_machine(left_s=left_s), np.zeros(1, np.int64))
    assert (starts_s == NOW + left_s).all()


@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_a_link_that_fits_starts_now(discipline: str) -> None:
    free = view(NOW, 4, 4, chain=chain(NOW + DAY_S))
    starts_s = StartForecast(3, discipline=discipline).starts_s(free, np.array([0, 1800]))
    assert starts_s.tolist() == [[NOW, NOW + 1800]] * 3


@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_it_waits_behind_the_queue(discipline: str) -> None:
    running = jobs({"nodes": 2, "limit_s": HOUR_S, "submit_s": NOW - 9, "start_s": NOW, "width": 2})
    queue = jobs(*({"nodes": 2, "limit_s": HOUR_S, "submit_s": NOW - 5, "eligible_s": NOW - 5} for _ in range(3)))
    crowded = view(NOW, 2, 0, running=running, pending=queue, chain=chain(NOW + DAY_S))
    start_s = StartForecast(1, discipline=discipline).starts_s(crowded, np.zeros(1, np.int64))[0, 0]
    assert start_s == NOW + 4 * HOUR_S


def test_uses_are_conditioned_on_elapsed_time() -> None:
    # Half of the jobs of this kind end after a tenth of their limit, half after nine tenths; this one has run for half.
    rows = [(1, 1, 10_000, 0, 0, used) for used in (1000, 9000) * 20]
    history = view(NOW, 2, 0, history=ended(*rows), chain=chain(NOW + DAY_S))
    uses = UseHistory(history).draw_from(np.array([1, 1]), np.array([10_000, 10_000]), np.array([0.0, 5000.0]))
    fresh, half_way = (set(uses.samples[a:b].tolist()) for a, b in uses.stretch)
    assert fresh == {0.1, 0.9}
    assert half_way == {0.9}


def test_a_job_longer_than_any_before_it_runs_to_its_limit() -> None:
    history = view(NOW, 2, 0, history=ended((1, 1, 10_000, 0, 0, 1000)), chain=chain(NOW + DAY_S))
    uses = UseHistory(history).draw_from(np.array([1]), np.array([10_000]), np.array([5000.0]))
    (first, last) = uses.stretch[0]
    assert uses.samples[first:last].tolist() == [1.0]


def test_running_jobs_count_as_longer_than_so_far() -> None:
    everybody = np.full(LEVELS, 0.05)
    everybody[LEVELS // 2 :] = 0.95
    alone = with_own_history(everybody, np.zeros(0), np.zeros(0))
    with_running = with_own_history(everybody, np.zeros(0), np.full(60, 0.5))
    assert (alone > 0.5).mean() == pytest.approx(0.5, abs=0.02)
    assert (with_running > 0.5).mean() > 0.8


@given(st.lists(st.floats(0, 1), min_size=1, max_size=200))
def test_levels_stand_for_the_distribution(uses: list[float]) -> None:
    levels = evenly(np.array(uses))
    assert len(levels) == LEVELS
    assert (np.diff(levels) >= 0).all()
    assert set(levels.tolist()) <= set(uses)
    for threshold in (0.25, 0.5, 0.75):
        assert (levels <= threshold).mean() == pytest.approx((np.array(uses) <= threshold).mean(), abs=1 / LEVELS)


def test_arrivals_of_the_past_come_in_order_of_submission() -> None:
    running = jobs({"submit_s": NOW - 50, "start_s": NOW - 10, "width": 1, "nodes": 3})
    history = ended((1, 2, 60, NOW - 100, NOW - 90, NOW - 40), (1, 1, 60, NOW - 90 * DAY_S, 0, 0))
    past = past_arrivals(view(NOW, 9, 9, running=running, history=history), 7)
    assert past.submit_s.tolist() == [NOW - 100, NOW - 50]
    assert past.nodes.tolist() == [2, 3]
    assert past.id.tolist() == [7, 8]


def test_delays_double_until_the_end() -> None:
    assert delays_s(10 * HOUR_S, 1800).tolist() == [0, 1800, 3600, 7200, 14400, 28800, 36000]
    assert delays_s(600, 1800).tolist() == [0, 600]


def test_the_same_view_gets_the_same_plan_and_another_seed_other_futures() -> None:
    rows = [(1, 2, 4 * HOUR_S, NOW - DAY_S, NOW - DAY_S, NOW - DAY_S + 60 * k) for k in range(1, 200)]
    seen = full_machine(left_s=3 * HOUR_S, history=ended(*rows))
    plans = [WhatIf(seed=seed).decide(seen) for seed in (1, 1, 2)]
    assert plans[0] == plans[1]
    assert plans[0].estimate != plans[2].estimate


def test_on_an_idle_machine_it_waits_and_says_when_to_look_again() -> None:
    plan = WhatIf(discipline="easy", futures=4).decide(full_machine(left_s=3 * HOUR_S, ends_s=NOW + 33 * HOUR_S))
    assert not plan.submits
    assert plan.actions[0].until_s == NOW + 7 * HOUR_S + 1800  # a quarter of the spare 30 hours, in whole steps


def rival_at_quarter_past() -> object:
    """Every day a job of the whole machine comes 15 minutes from now; it and those before it run up to four hours."""
    rng = np.random.default_rng(0)
    limit_s = 4 * HOUR_S
    old = [(1, 2, limit_s, 0, DAY_S, DAY_S + int(e)) for e in rng.integers(60, limit_s, 300)]
    daily = [NOW - day * DAY_S + 900 for day in range(1, 15)]
    runs = rng.permutation(np.linspace(600, limit_s - 600, len(daily)).astype(np.int64))
    rivals = [(1, 2, limit_s, at, at, at + int(run)) for at, run in zip(daily, runs)]
    return full_machine(left_s=limit_s - 60, history=ended(*old, *rivals), ends_s=NOW + 3 * HOUR_S)


def test_what_interruption_and_overlap_cost_decides() -> None:
    # Now: the start is up to 3 h early or 1 h late. After the rival: 1.3 h late on average, hardly ever early.
    seen = rival_at_quarter_past()
    assert WhatIf(discipline="easy", cost=Cost(20, 1), futures=128).decide(seen).submits
    assert not WhatIf(discipline="easy", cost=Cost(1, 5), futures=128).decide(seen).submits


def test_the_present_link_is_known_to_run_to_its_end() -> None:
    # The predecessor holds both nodes; others of its kind end at once, it does not: the next link starts at its end.
    rows = [(1, 2, DAY_S, NOW - DAY_S, NOW - DAY_S, NOW - DAY_S + 1)] * 50
    link = chain(NOW + 5 * HOUR_S, nodes=2, limit_s=DAY_S)
    mine = jobs({"id": 99, "nodes": 2, "limit_s": DAY_S, "start_s": link.started_s, "width": 2})
    starts_s = StartForecast(8, discipline="easy").starts_s(
        view(NOW, 2, 0, running=mine, history=ended(*rows), chain=link), np.zeros(1, np.int64)
    )
    assert (starts_s == link.ends_s).all()


def test_slurms_estimate_takes_everybody_to_use_up_the_limit() -> None:
    rows = [(1, 2, 4 * HOUR_S, NOW - DAY_S, NOW - DAY_S, NOW - DAY_S + 1)] * 50
    seen = full_machine(left_s=3 * HOUR_S, history=ended(*rows), ends_s=NOW + 3 * HOUR_S)
    plan = SlurmEstimate(discipline="easy").decide(seen)
    assert plan.estimate["lead_s"] == 3 * HOUR_S
    assert plan.submits


def test_slurms_estimate_reckons_with_nobody_new() -> None:
    # A job of the whole machine was submitted at this hour of every day that we see, and large jobs go first.
    job = {"nodes": 2, "limit_s": 2 * DAY_S, "submit_s": NOW - DAY_S + 60, "start_s": NOW - HOUR_S, "width": 2}
    rivals = [{"nodes": 2, "limit_s": HOUR_S, "submit_s": NOW - day * DAY_S + 60} for day in (3, 2)]
    seen = view(NOW, 2, 0, running=jobs(job), pending=jobs(*rivals), chain=chain(NOW + DAY_S))
    large_first = SlurmSettings(weight_size=1000)
    lead_s = SlurmEstimate(scheduler=large_first).decide(seen).estimate["lead_s"]
    assert lead_s == 2 * DAY_S - HOUR_S + 2 * HOUR_S
    with_arrivals = StartForecast(1, scheduler=large_first).starts_s(seen, np.zeros(1, np.int64))
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


def test_a_glance_is_shared_and_tells_each_chain_what_it_would_hear_alone() -> None:
    seen = full_machine(left_s=2 * HOUR_S)
    chains = [replace(seen, chain=chain(NOW + hours * HOUR_S)) for hours in (1, 3, 30)]
    shared = WhatIf(futures=8, quick=True)
    for one in chains:
        assert shared.decide(one) == WhatIf(futures=8, quick=True).decide(one)
    assert len(shared._waits) == 1


def test_the_number_of_futures_comes_with_the_name() -> None:
    assert make_policy("what-if:7").forecast.futures == 7
    with pytest.raises(ConfigurationError, match=r"what-if takes futures=NUMBER, .* got 'many'"):
        make_policy("what-if:many")


def test_what_decides_comes_with_the_name_too() -> None:
    made = make_policy("what-if:7:tie=0:quick=no:information=0.3")
    assert (made.forecast.futures, made.tie, made.quick, made.information) == (7, 0.0, False, 0.3)
    usual = make_policy("what-if")
    assert (usual.forecast.futures, usual.tie, usual.quick, usual.information) == (64, 0.05, True, 0.5)


def test_with_something_to_lose_either_way_a_tie_goes_to_submitting() -> None:
    # In every future the machine is free half an hour after the link has ended, whenever the next one is submitted.
    seen = full_machine(left_s=2 * HOUR_S, ends_s=NOW + 3 * HOUR_S // 2)
    plans = {tie: WhatIf(discipline="easy", futures=4, tie=tie, quick=False).decide(seen) for tie in (0.0, 0.05)}
    assert plans[0.0].estimate == plans[0.05].estimate
    assert plans[0.0].estimate["cost_now"] == plans[0.0].estimate["cost_later"] > 0
    assert [action.reason for action in plans[0.0].actions] == ["waiting-costs-less"]
    assert [action.reason for action in plans[0.05].actions] == ["waiting-gains-nothing"]
