"""The chain as its policy sees it: its end is when the next link must have started."""

from __future__ import annotations

import pytest

from mirage.agent.decision.open_decision import chain_view, load_time_s, notice_s, summary
from mirage.agent.hosting.one_pass import pass_settings
from mirage.agent.settings import AgentSettings
from mirage.policy.view import ChainView
from tests.support.one_chain import OneChain, ended, held, running
from tests.support.scripted_policies import Deciding, deciding_chain


def observed(world: OneChain) -> ChainView:
    deciding = Deciding(world)
    return chain_view(world.context, world.chain, world.links[-2], world.links[-1], deciding.view(world.context))


def test_a_link_ends_for_its_policy_when_the_next_must_have_started() -> None:
    world = deciding_chain(warmup_s=500)
    assert notice_s(world.context, world.links[0]) == 2 * 15 + 36
    chain = observed(world)
    assert chain.ends_s == 9_000 + 3_600 - 120 - 500 - 66
    assert (chain.predecessor, chain.submitted_s, chain.started_s, chain.limit_s) == (101, 50, 9_000, 3_600)
    assert (chain.nodes, chain.step_s, chain.user, chain.partition) == (1, 36, 0, 0)


@pytest.mark.parametrize("policy", ["reactive", "dependency", "singleton:2"])
def test_a_policy_that_lets_the_next_compete_at_the_end_gets_the_end(policy: str) -> None:
    assert observed(deciding_chain(policy=policy, warmup_s=500)).ends_s == 12_600


def test_a_load_time_beyond_the_limit_is_an_end_at_the_start() -> None:
    assert observed(deciding_chain(warmup_s=5_000)).ends_s == 9_000


@pytest.mark.parametrize(
    ("spec", "ready_after_s", "load_s"),
    [
        ({"warmup_s": 300}, [40], 300),
        ({"warmup_s": 300, "ready_by_job": True}, [], 300),
        ({"warmup_s": 300, "ready_by_job": True}, [40, 60, 500], 60),
        ({"warmup_s": 300, "ready_command": "true"}, [40, 60], 50),
        ({"ready_command": "true"}, [], 0),
    ],
)
def test_the_load_time_is_the_user_s_word_or_what_earlier_links_took(
    spec: dict[str, object], ready_after_s: list[int], load_s: int
) -> None:
    before = [ended(n + 1, ready_s=5_000 + took_s) for n, took_s in enumerate(ready_after_s)]
    world = OneChain(*before, running(8), held(9), **spec)
    assert load_time_s(world.context, world.chain) == load_s


def test_intervals_are_those_of_the_settings() -> None:
    world = deciding_chain(settings=AgentSettings(busy_poll_s=5, decisions_per_link=10, decide_s=200))
    assert (observed(world).step_s, notice_s(world.context, world.links[0])) == (200, 210)


@pytest.mark.parametrize(("every_s", "expected_s"), [(60, 2 * 60), (300, 2 * 300), (7_200, 3_600 // 4)])
def test_rare_passes_leave_most_of_its_limit_to_a_link(every_s: int, expected_s: int) -> None:
    world = deciding_chain(settings=pass_settings(AgentSettings(), every_s))
    assert notice_s(world.context, world.links[0]) == expected_s
    assert observed(world).ends_s == 9_000 + 3_600 - 120 - expected_s


def test_what_a_decision_observed_can_be_checked_against_squeue() -> None:
    deciding = Deciding()
    assert summary(deciding.view(deciding.world.context)) == {
        "pending_jobs": 0.0, "pending_nodes": 0.0, "running_jobs": 1.0, "running_nodes": 1.0, "free_nodes": 7.0,
        "nodes": 8.0,
    }  # fmt: skip
