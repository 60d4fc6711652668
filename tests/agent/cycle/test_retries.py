"""Brakes on chains: links that end at once are slowed down, and a day has a budget."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirage.agent.cycle.retries import BROKEN, clock_of, count_end, links_a_day, pause, pause_if_spent
from mirage.agent.cycle.transitions import steer
from mirage.agent.model import ChainState, Link, LinkState
from mirage.agent.settings import AgentSettings
from mirage.duration import DAY_S, UNLIMITED_S
from mirage.job_state import MISSING, JobState
from tests.support.one_chain import NOW_S, OneChain, ended, held, planned, queued, running


def counted(world: OneChain, link: Link) -> OneChain:
    assert count_end(world.context, world.context.chains[1], link) == world.chain
    return world


def ran(seconds: int, outcome: JobState = JobState.FAILED, number: int = 1, **known: int) -> Link:
    return ended(number, outcome, started_s=5_000, ended_s=5_000 + seconds, **known)


def quick(number: int = 1) -> Link:
    return ran(2, JobState.COMPLETED, number)


@pytest.mark.parametrize("outcome", sorted(BROKEN))
def test_an_early_failure_is_counted_and_the_next_link_waits(outcome: JobState) -> None:
    world = counted(OneChain(), ran(600, outcome))
    assert (world.chain.failures, world.chain.state, world.events) == (1, ChainState.ACTIVE, [])
    assert world.chain.next_try_s == NOW_S + 60
    assert world.trouble == (
        f"failed soon after the start: job 101 after 600 s with {outcome.name}; "
        f"the next is submitted after {clock_of(NOW_S + 60)}"
    )


@pytest.mark.parametrize(
    ("link", "failures"),
    [
        (ran(600), 3),
        (ran(601), 0),  # not early
        (ran(500, limit_s=2_000), 3),  # a fourth of its limit
        (ran(501, limit_s=2_000), 0),
        (ran(600, limit_s=MISSING), 3),
        (ran(600, limit_s=UNLIMITED_S), 3),
        (ran(601, limit_s=UNLIMITED_S), 0),
        (ran(100, JobState.TIMEOUT, limit_s=100), 0),
        (ran(1, JobState.COMPLETED), 0),
        (ran(0, JobState.COMPLETED), 0),
        (ran(1, JobState.PREEMPTED), 2),  # nobody's fault
        (ran(1, JobState.CANCELLED), 2),
        (ran(1, signalled_s=5_000), 0),  # it left when it was told
        (ran(1, cancelled_s=5_000), 2),
        (ran(3_600, JobState.CANCELLED, signalled_s=8_000, cancelled_s=8_600), 0),
        (ended(1, JobState.UNKNOWN, started_s=MISSING), 3),  # vanished before it was seen to run
        (ended(1, JobState.FAILED, started_s=MISSING), 3),
        (ended(1, JobState.FAILED, ended_s=MISSING), 3),
        (ended(1, JobState.CANCELLED, started_s=MISSING, cancelled_s=8_000), 2),
    ],
)
def test_failures_in_a_row(link: Link, failures: int) -> None:
    world = OneChain(chain={"failures": 2}, settings=AgentSettings(failures=9, early_s=600))
    assert counted(world, link).chain.failures == failures
    assert world.chain.state is ChainState.ACTIVE


def test_a_chain_without_failures_is_not_written_to() -> None:
    world = OneChain()
    before = world.context.chains[1]
    assert count_end(world.context, before, ran(3_000, JobState.TIMEOUT)) is before


def test_three_early_failures_pause_the_chain_and_report_what_to_do() -> None:
    world = counted(OneChain(chain={"failures": 2}), ran(42, number=3, exit_code=7))
    assert (world.chain.state, world.chain.failures) == (ChainState.PAUSED, 3)
    assert world.chain.why == (
        "3 links in a row failed soon after their start, the last: job 103 after 42 s with FAILED 7; "
        "mend the cause (links run a copy of the script: `mirage chain edit train SCRIPT` replaces it), then "
        "`mirage chain resume train`"
    )
    assert world.events == [(0, "paused", world.chain.why)]


def test_one_failure_is_enough_where_the_settings_report_so() -> None:
    world = OneChain(settings=AgentSettings(failures=1))
    assert counted(world, ran(42)).chain.state is ChainState.PAUSED


def test_links_that_vanish_unseen_pause_the_chain() -> None:
    world = OneChain()
    for number in (1, 2, 3):
        assert world.chain.state is ChainState.ACTIVE
        counted(world, ended(number, JobState.UNKNOWN, started_s=MISSING))
    assert world.chain.state is ChainState.PAUSED
    assert "the last: job 103 was gone before it was observed running (UNKNOWN)" in world.chain.why


def test_links_with_nothing_to_do_are_submitted_more_and_more_slowly_then_no_more() -> None:
    world = OneChain(chain={"failures": 2})
    waits = []
    for number in range(1, 8):
        counted(world, quick(number))
        waits.append(world.chain.next_try_s - NOW_S)
        assert (world.chain.state, world.chain.failures, world.events) == (ChainState.ACTIVE, 0, [])
    assert waits == [60, 120, 240, 480, 960, 1_920, 3_600]
    assert world.trouble.startswith(
        "links end at once, the last (job 101) after 2 s with exit 0; the next is submitted"
    )
    counted(world, quick(8))
    assert (world.chain.state, world.chain.quick_ends) == (ChainState.PAUSED, 8)
    assert world.chain.why == (
        "8 times in a row links end at once, the last (job 108) after 2 s with exit 0; give them something to do, "
        "then `mirage chain resume train`"
    )
    assert world.events == [(0, "paused", world.chain.why)]


@pytest.mark.parametrize("calm", [ran(901, JobState.COMPLETED), ran(5, JobState.COMPLETED, signalled_s=5_000)])
def test_a_link_that_ran_makes_the_chain_quick_again(calm: Link) -> None:
    world = counted(OneChain(chain={"quick_ends": 5, "next_try_s": NOW_S + 960}), calm)
    assert (world.chain.quick_ends, world.chain.next_try_s) == (0, 0)


def test_a_waiting_link_cancelled_from_outside_pauses_the_chain() -> None:
    world = counted(OneChain(), ended(2, JobState.CANCELLED, started_s=MISSING))
    assert (world.chain.state, world.chain.failures) == (ChainState.PAUSED, 0)
    assert world.chain.why == (
        "job 102 (link 2) was cancelled from outside while it waited; `mirage chain resume train` continues it"
    )
    assert world.events == [(0, "paused", world.chain.why)]


@pytest.mark.parametrize(
    ("number", "age_s", "state", "places"),
    [
        (3, 0, ChainState.ACTIVE, [1, 2, 3, 3]),
        (2, 0, ChainState.PAUSED, [1, 2, 3]),
        (3, 3_600, ChainState.PAUSED, [1, 2, 3]),
    ],
)
def test_a_waiting_link_that_a_command_cancels_is_replaced(
    number: int, age_s: int, state: ChainState, places: list[int]
) -> None:
    """The agent observes the end before the command has marked the last of three links."""
    world = OneChain(ran(5_000, number=1), ran(5_000, number=2), held(3), links=3)
    context = world.context
    link = context.change_link(world.links[2], state=LinkState.ENDED, ended_s=NOW_S, outcome=JobState.CANCELLED)
    event = context.event(1, number, "withdrawn", "job 103, replaced by hand")
    world.store.reported.append(replace(event, time_s=NOW_S - age_s))
    assert steer(context, world.chain, [link]).state is state
    assert [one.place for one in world.links] == places


def test_a_link_that_a_command_cancels_in_a_paused_chain_does_not_count() -> None:
    world = OneChain(held(2), chain={"state": ChainState.PAUSED})
    context = world.context
    world.store.reported.append(context.event(1, 2, "withdrawn", "job 102, by hand"))
    link = context.change_link(world.links[0], state=LinkState.ENDED, ended_s=NOW_S, outcome=JobState.CANCELLED)
    steer(context, world.chain, [link])
    assert world.links[0].was_withdrawn


def test_a_pause_does_not_undo_a_stop_that_a_command_has_stored_in_the_meantime() -> None:
    world = OneChain()
    stale = world.chain
    world.store.change_chain(1, state=ChainState.STOPPING, why="stopped by hand")
    assert pause(world.context, stale, "it broke") == world.chain
    assert (world.chain.state, world.chain.why, world.events) == (ChainState.STOPPING, "stopped by hand", [])
    assert world.context.chains[1].state is ChainState.STOPPING


def test_a_pause_reports_why() -> None:
    world = OneChain()
    assert pause(world.context, world.context.chains[1], "the user's wish") == world.chain
    assert (world.chain.state, world.chain.why) == (ChainState.PAUSED, "the user's wish")
    assert world.events == [(0, "paused", "the user's wish")]


@pytest.mark.parametrize(
    ("requested", "limit_s", "most"),
    [(0, 48 * 3_600, 8), (0, 1_500, 3 * 58 + 5), (0, MISSING, 8), (0, UNLIMITED_S, 8), (7, 1_500, 7)],
)
def test_a_day_s_budget_of_links_follows_from_their_limit(requested: int, limit_s: int, most: int) -> None:
    assert links_a_day(OneChain(links_a_day=requested).chain, limit_s) == most


def started(*ages_s: int, outcome: JobState = JobState.TIMEOUT, links_a_day: int = 3, **known: object) -> OneChain:
    """A chain with links of known starts, and a next one to be submitted at a late hour."""
    now_s = 10 * DAY_S
    links = [ended(k, outcome, started_s=now_s - age_s, limit_s=1_500) for k, age_s in enumerate(ages_s, 1)]
    world = OneChain(*links, planned(len(links) + 1), links_a_day=links_a_day, chain=known)
    world.context.now_s = now_s
    world.store.links = lambda chain: world.links  # type: ignore[attr-defined]
    return world


@pytest.mark.parametrize(
    ("world", "paused"),
    [
        (started(9_000, 6_000), False),
        (started(9_000, 6_000, 3_000), True),
        (started(DAY_S + 1, 9_000, 6_000), False),
        (started(DAY_S + 1, 9_000, 6_000, 3_000), True),
        (started(12_000, 9_000, 6_000, 3_000, resumed_s=10 * DAY_S - 8_000), False),
        (started(12_000, 9_000, 6_000, 3_000, outcome=JobState.PREEMPTED), False),  # each replaces one that was lost
    ],
)
def test_a_chain_that_has_spent_its_links_is_paused(world: OneChain, paused: bool) -> None:
    pause_if_spent(world.context, world.chain)
    assert world.chain.state is (ChainState.PAUSED if paused else ChainState.ACTIVE)
    assert ("3 links have started within 24 hours" in world.chain.why) == paused
    one = started(9_000, links_a_day=1)
    assert pause_if_spent(one.context, one.chain).why.startswith("1 link has started within 24 hours")


def test_a_further_link_does_not_pause_a_spent_chain_that_has_one_waiting() -> None:
    world = started(9_000, 6_000, 3_000)
    waiting, further = queued(4), planned(5)
    world.context.links[1][3:] = [waiting, further]
    world.store.rows |= {(1, 4): waiting, (1, 5): further}
    pause_if_spent(world.context, world.chain)
    assert (world.chain.state, world.chain.next_try_s) == (ChainState.ACTIVE, 11 * DAY_S - 9_000)


def test_while_a_link_runs_a_spent_chain_waits_until_one_may_start_again() -> None:
    world = started(20_000, 6_000)
    last = running(3, started_s=10 * DAY_S - 600, limit_s=1_500)
    world.context.links[1].insert(2, last)
    world.store.rows[1, 3] = last
    world.context.links[1][3] = planned(4)
    world.store.rows[1, 4] = planned(4)
    pause_if_spent(world.context, world.chain)
    assert world.chain.state is ChainState.ACTIVE
    assert world.chain.next_try_s == 11 * DAY_S - 20_000, "when the first of the three is a day ago"
    assert "3 links have started within 24 hours" in world.trouble
