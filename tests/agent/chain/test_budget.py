"""Budgets of chains: used, promised to running links, left, and the day they run out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirage.agent.chain.budget import budget_of, next_size
from mirage.agent.model import Chain, ChainSpec, Link, LinkState
from mirage.duration import DAY_S, HOUR_S, UNLIMITED_S
from mirage.job_state import MISSING
from mirage.slurm.records import Submission

NOW_S = 100 * DAY_S

SPEC = ChainSpec(Submission("job.sh", {"nodes": "2-4", "time": "6:00:00"}), budget_node_h=100.0)


def chain(**spec: object) -> Chain:
    return Chain(1, "train", replace(SPEC, **spec), 0)


def ran(number: int, ago_h: float, hours: float, nodelist: str = "", **known: object) -> Link:
    """A link that started some hours ago and ran for some hours."""
    started_s = NOW_S - round(ago_h * HOUR_S)
    times = {"started_s": started_s, "ended_s": started_s + round(hours * HOUR_S), "limit_s": 6 * HOUR_S}
    return replace(Link(1, number, LinkState.ENDED, nodelist=nodelist, **times), **known)


def test_a_chain_without_a_budget_has_none() -> None:
    assert budget_of(chain(budget_node_h=0.0), [ran(1, 5, 2)], NOW_S) is None


def test_node_hours_of_all_runs_count() -> None:
    before = ((NOW_S - 20 * HOUR_S, MISSING, NOW_S - 19 * HOUR_S),)  # before a requeue
    links = [
        ran(1, 18, 2, "n[1-3]", earlier=before),
        ran(2, 10, 4),
        Link(1, 3, LinkState.ENDED),  # withdrawn
        replace(ran(4, 1, 0, "n[1-4]"), state=LinkState.RUNNING, ended_s=MISSING),
        Link(1, 5, LinkState.HELD, limit_s=6 * HOUR_S),
    ]
    budget = budget_of(chain(), links, NOW_S)
    assert budget is not None
    assert budget.used_h == pytest.approx(3 * (1 + 2) + 2 * 4 + 4 * 1)
    assert budget.promised_h == pytest.approx(4 * 5)
    assert (budget.left_h, budget.free_h) == (pytest.approx(79), pytest.approx(59))
    assert budget.longest_limit_s(4) == (59 * 60 // 4) * 60, "whole minutes"
    assert budget.runs_out_s == NOW_S + round(79 * 20 / 21 * HOUR_S), "21 node-hours in 20 hours"


def test_the_rate_is_that_of_the_last_week() -> None:
    budget = budget_of(chain(), [ran(1, 24 * 30, 20), ran(2, 24 * 7 + 1, 3), ran(3, 10, 5)], NOW_S)
    assert budget is not None
    assert budget.used_h == 2 * 28
    assert budget.runs_out_s == NOW_S + round(44 * 7 * DAY_S / (2 * (2 + 5)))
    assert budget_of(chain(), [], NOW_S).runs_out_s == MISSING  # type: ignore[union-attr]


def test_more_than_the_budget_leaves_nothing() -> None:
    endless = replace(ran(1, 60, 0), state=LinkState.RUNNING, ended_s=MISSING, limit_s=UNLIMITED_S)
    budget = budget_of(chain(), [endless], NOW_S)
    assert budget is not None
    assert (budget.left_h, budget.free_h, budget.longest_limit_s(1), budget.promised_h) == (0, 0, 0, 0)
    assert budget.runs_out_s == NOW_S


def test_the_size_of_the_next_link() -> None:
    links = [ran(1, 5, 2, "n[1-3]", limit_s=HOUR_S, shortened_from_s=6 * HOUR_S)]
    assert next_size(SPEC, links) == (4, 6 * HOUR_S), "a range by its largest number"
    in_script = replace(SPEC, submission=Submission("job.sh"))
    assert next_size(in_script, links) == (3, 6 * HOUR_S)
    assert next_size(in_script, []) == (1, MISSING)
