"""Where a chain goes from here: one decision at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mirage.agent.cycle.transitions import steer, withdraw
from mirage.agent.model import ChainState, Link, LinkState, next_link
from mirage.agent.settings import AgentSettings
from mirage.agent.site_file import SiteFile
from mirage.duration import HOUR_S, UNLIMITED_S
from mirage.job_state import MISSING, JobState
from mirage.slurm.records import Submission
from tests.support.one_chain import NOW_S, OneChain, Slurm, ended, held, job, planned, queued, running, shown, tagged

WAITING = [planned(2), planned(2, attempted_s=90), held(2), queued(2)]


def steered(world: OneChain, *newly_ended: Link) -> OneChain:
    assert steer(world.context, world.context.chains[1], list(newly_ended)) == world.chain
    return world


def failed(number: int, ran_s: int, outcome: JobState = JobState.FAILED, **known: object) -> Link:
    return ended(number, outcome, started_s=5_000, ended_s=5_000 + ran_s, **known)


# -- the next link ------------------------------------------------------------------------------------------


def test_a_chain_begins_with_its_first_link() -> None:
    assert steered(OneChain()).links == [Link(1, 1)]


@pytest.mark.parametrize("last", [running(4), ended(4)])
def test_the_next_link_is_planned_once_the_last_runs_or_has_ended(last: Link) -> None:
    world = steered(OneChain(last))
    assert world.links == [last, Link(1, 5)]
    assert (world.events, world.slurm.calls, world.chain.state) == ([], [], ChainState.ACTIVE)


@pytest.mark.parametrize("waiting", WAITING)
def test_no_link_is_planned_while_one_waits(waiting: Link) -> None:
    world = steered(OneChain(running(1), waiting))
    assert world.links == [running(1), waiting]


@pytest.mark.parametrize(("requested", "links"), [(0, 3), (2, 2), (3, 3), (4, 3)])
def test_no_more_links_than_requested(requested: int, links: int) -> None:
    assert len(steered(OneChain(ended(1), running(2), links=requested)).links) == links


# -- further links while one waits -------------------------------------------------------------------------


def waits(number: int, for_s: int, **known: Any) -> Link:
    """A link with a limit of an hour that has competed for some time."""
    return queued(number, **{"released_s": NOW_S - for_s, "limit_s": 3_600, **known})


def further(*links: Link, revises: bool = True, settings: AgentSettings | None = None, **spec: Any) -> list[int]:
    """The numbers of the links that are planned."""
    world = OneChain(*links, settings=settings, **spec)
    steer(world.context, world.chain, [], revises=revises)
    return [link.number for link in world.links if link not in links]


LONG_ENDED = ended(1, started_s=100, ended_s=3_700)


@pytest.mark.parametrize("before", [(), (LONG_ENDED,), (running(1),)])
def test_a_further_link_competes_once_one_has_waited_for_its_limit(before: tuple[Link, ...]) -> None:
    assert further(*before, waits(2, 3_599)) == []
    assert further(*before, waits(2, 3_600)) == [3]


def test_each_further_link_follows_a_limit_after_the_one_before_and_they_are_three_at_most() -> None:
    assert further(LONG_ENDED, waits(2, 9_000), waits(3, 3_599)) == []
    assert further(LONG_ENDED, waits(2, 9_000), waits(3, 3_600)) == [4]
    assert further(LONG_ENDED, waits(2, 9_000), waits(3, 9_000), waits(4, 9_000)) == []


@pytest.mark.parametrize(
    ("of_chain", "of_site", "planned_ones"), [(3, None, [4]), (2, None, []), (3, 2, []), (3, 0, []), (2, 3, [])]
)
def test_the_user_and_the_site_bound_the_links_that_wait(
    of_chain: int, of_site: int | None, planned_ones: list[int]
) -> None:
    settings = AgentSettings(site=SiteFile(most_waiting_links=of_site))
    links = (LONG_ENDED, waits(2, 9_000), waits(3, 9_000))
    assert further(*links, settings=settings, waiting_links=of_chain) == planned_ones


@pytest.mark.parametrize(
    "known",
    [
        {"chain": {"failures": 1}}, {"chain": {"quick_ends": 1}}, {"chain": {"reserved": "1 99999 service"}},
        {"never_two": True}, {"budget_node_h": 1e6}, {"revises": False}, {"links": 2},
    ],
)  # fmt: skip
def test_no_further_link_where_it_could_do_harm(known: dict[str, Any]) -> None:
    assert further(LONG_ENDED, waits(2, 9_000)) == [3]
    assert further(LONG_ENDED, waits(2, 9_000), **known) == []


def test_no_further_link_while_the_one_before_has_a_hold() -> None:
    assert further(LONG_ENDED, waits(2, 9_000, reason="QOSMaxJobsPerUserLimit")) == [3]
    assert further(LONG_ENDED, waits(2, 9_000, reason="JobHeldUser")) == []


@pytest.mark.parametrize(
    "last",
    [held(2, released_s=60, limit_s=3_600), waits(2, 9_000, begins_s=NOW_S + 9), waits(2, 9_000, limit_s=UNLIMITED_S)],
)
def test_no_further_link_after_one_that_does_not_compete(last: Link) -> None:
    assert further(running(1), last) == []


def test_a_link_that_was_postponed_competes_once_its_time_has_come() -> None:
    assert further(LONG_ENDED, waits(2, 3_600, begins_s=NOW_S - 3_600)) == [3]


@pytest.mark.parametrize(("later_s", "due_s"), [(899, 7_200), (900, 3_600)])
def test_after_two_links_that_started_almost_together_a_further_one_is_due_later(later_s: int, due_s: int) -> None:
    pair = ended(1, started_s=1_000, ended_s=1_900), ended(2, started_s=1_000 + later_s, ended_s=5_000)
    assert further(*pair, waits(3, due_s - 1)) == []
    assert further(*pair, waits(3, due_s)) == [4]


@pytest.mark.parametrize(("ago_s", "planned_ones"), [(3_599, []), (3_600, [4])])
def test_after_a_refusal_the_next_further_link_follows_a_limit_later(ago_s: int, planned_ones: list[int]) -> None:
    refused = ended(3, JobState.CANCELLED, started_s=MISSING, ended_s=NOW_S - ago_s, withdrawn_s=NOW_S - ago_s)
    assert further(LONG_ENDED, waits(2, 9_000), refused) == planned_ones


def test_of_several_withdrawn_links_none_counts() -> None:
    gone = {"started_s": MISSING, "ended_s": 9_000, "withdrawn_s": 9_000}
    world = steered(
        OneChain(running(1), ended(2, JobState.CANCELLED, **gone), ended(3, JobState.CANCELLED, **gone), links=3)
    )
    assert world.links[-1] == Link(1, 4, given_up=2)


def test_a_link_that_a_later_one_has_overtaken_is_cancelled() -> None:
    world = steered(shown(LONG_ENDED, waits(2, 9_000), running(3)))
    assert world.slurm.calls == [("cancel", 102, "only pending")]
    assert world.events[0] == (2, "withdrawn", "job 102: link 3 has started before it")
    assert world.links[1].withdrawn_s == NOW_S


def test_a_requeued_link_is_not_overtaken() -> None:
    world = steered(shown(waits(2, 9_000, earlier=((100, 200, 300),)), running(3)))
    assert world.slurm.calls == []


# -- the end ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("until_s", "state"), [(NOW_S + 1, "active"), (NOW_S, "ending"), (NOW_S - 1, "ending")])
def test_a_chain_ends_at_its_time(until_s: int, state: str) -> None:
    world = steered(shown(running(1), queued(2), until_s=until_s))
    assert world.chain.state == state
    assert world.chain.stopped_s == (until_s if state == "ending" else MISSING)
    if state == "ending":
        assert world.chain.why == "its time is over"
        assert world.events == [(0, "ending", "its time is over"), (2, "withdrawn", "job 102: its time is over")]


def test_a_job_that_reports_it_is_done_ends_the_chain_and_every_other_job_of_it() -> None:
    world = steered(shown(running(1), running(2, finished=True), running(3), held(4)))
    why = "link 2 reported that the work is done"
    assert (world.chain.state, world.chain.why, world.chain.stopped_s) == (ChainState.STOPPING, why, NOW_S)
    assert world.events[0] == (0, "ending", why)
    assert world.slurm.calls == [("cancel", 104), ("cancel", 101), ("cancel", 103)], "it ends by itself"
    assert [link.cancelled_s for link in world.links] == [NOW_S, MISSING, NOW_S, NOW_S]


def test_a_job_that_reported_it_is_done_and_has_ended_ends_the_chain_with_itself() -> None:
    assert steered(OneChain(ended(1), ended(2, finished=True))).chain.stopped_s == 8_600


def test_an_end_by_a_clock_that_is_ahead_is_not_in_the_future() -> None:
    assert steered(OneChain(ended(1, ended_s=NOW_S + 9), links=1)).chain.stopped_s == NOW_S


def test_the_last_link_ends_the_chain_and_nothing_is_left() -> None:
    world = steered(OneChain(ended(1), ended(2), links=2))
    assert (world.chain.state, world.chain.why) == (ChainState.DONE, "all 2 links have run")
    assert world.chain.stopped_s == 8_600, "its end, not the poll that found it"
    assert world.events == [(0, "ending", "all 2 links have run"), (0, "done", "all 2 links have run")]


def test_a_link_before_the_last_is_not_the_last() -> None:
    world = steered(OneChain(ended(1), links=2))
    assert (world.chain.state, len(world.links)) == (ChainState.ACTIVE, 2)


@pytest.mark.parametrize("open_link", [running(2), planned(2, attempted_s=90), held(2, cancelled_s=99)])
def test_a_chain_is_done_only_when_nothing_of_it_is_left(open_link: Link) -> None:
    world = steered(OneChain(ended(1), open_link, chain={"state": ChainState.ENDING, "why": "enough"}))
    assert (world.chain.state, world.links, world.events) == (ChainState.ENDING, [ended(1), open_link], [])


def test_a_paused_chain_is_not_done_and_gets_no_link() -> None:
    world = steered(OneChain(ended(1), chain={"state": ChainState.PAUSED, "why": "wait"}))
    assert (world.chain.state, world.links, world.events) == (ChainState.PAUSED, [ended(1)], [])


def completed(ended_s: int, **known: object) -> Link:
    return ended(1, JobState.COMPLETED, **{"started_s": 5_000, "limit_s": 3_600, "ended_s": ended_s, **known})


@pytest.mark.parametrize(
    ("link", "until_done", "state"),
    [
        (completed(8_419), True, "done"),  # 181 s before its limit
        (completed(8_420), True, "active"),  # 180 s before it: a drain
        (completed(8_419), False, "active"),
        (completed(8_419, signalled_s=8_000), True, "active"),
        (completed(8_600, limit_s=MISSING), True, "done"),
        (completed(8_600, started_s=MISSING), True, "done"),
        (failed(1, 100, JobState.TIMEOUT), True, "active"),
    ],
)
def test_an_exit_with_0_well_before_the_limit_ends_a_chain_that_requested_it(
    link: Link, until_done: bool, state: str
) -> None:
    world = steered(OneChain(link, until_done=until_done))
    assert world.chain.state == state
    if state == "done":
        assert world.chain.why == "link 1 ended by itself with exit code 0"
        assert world.chain.stopped_s == link.ended_s


def test_the_work_is_done_though_the_last_link_runs_on() -> None:
    world = steered(shown(completed(6_000), running(2), until_done=True, links=2))
    assert (world.chain.state, world.chain.why) == (ChainState.STOPPING, "link 1 ended by itself with exit code 0")
    assert world.slurm.calls == [("cancel", 102)]


# -- failures -----------------------------------------------------------------------------------------------


def test_a_chain_paused_by_failures_takes_its_next_link_out_of_the_queue() -> None:
    link = failed(3, 42, exit_code=7)
    world = steered(shown(ended(2), link, held(4), chain={"failures": 2}), link)
    assert world.chain.state is ChainState.PAUSED
    assert world.events == [(0, "paused", world.chain.why), (4, "withdrawn", f"job 104: {world.chain.why}")]
    assert world.slurm.calls == [("cancel", 104, "only pending")]


def test_failures_are_counted_link_by_link() -> None:
    links = failed(1, 42), failed(2, 42)
    world = steered(OneChain(*links, settings=AgentSettings(failures=2)), *links)
    assert (world.chain.failures, world.chain.state) == (2, ChainState.PAUSED)
    assert len(world.links) == 2


def test_the_next_link_is_planned_though_it_is_not_to_be_submitted_yet() -> None:
    link = failed(1, 42)
    world = steered(OneChain(link), link)
    assert (world.links, world.chain.next_try_s) == ([link, Link(1, 2)], NOW_S + 60)


@pytest.mark.parametrize("state", [ChainState.PAUSED, ChainState.ENDING])
def test_failures_of_a_chain_that_is_not_active_count_for_nothing(state: ChainState) -> None:
    link = failed(1, 42)
    assert steered(OneChain(link, running(2), chain={"state": state}), link).chain.failures == 0


# -- out of the queue ---------------------------------------------------------------------------------------


def test_what_waits_is_withdrawn_and_what_runs_stays() -> None:
    world = shown(running(1), held(2), queued(3), chain={"state": ChainState.PAUSED, "why": "enough"})
    withdraw(world.context, world.context.chains[1])
    assert world.slurm.calls == [("cancel", 102, "only pending"), ("cancel", 103, "only pending")]
    assert world.events == [(2, "withdrawn", "job 102: enough"), (3, "withdrawn", "job 103: enough")]
    gone = {"cancelled_s": NOW_S, "withdrawn_s": NOW_S}
    assert world.links == [running(1), held(2, **gone), queued(3, **gone)]


def test_a_link_that_was_never_submitted_is_over_at_once() -> None:
    world = shown(running(1), planned(2))
    withdraw(world.context, world.context.chains[1])
    assert world.links[1] == replace(
        planned(2), state=LinkState.ENDED, outcome=JobState.CANCELLED, ended_s=NOW_S, withdrawn_s=NOW_S
    )
    assert next_link(1, world.links[1]).place == 2, "a link that never ran does not count"
    assert (world.events, world.slurm.calls) == ([(2, "withdrawn", "never submitted")], [])


@pytest.mark.parametrize("link", [planned(2, attempted_s=90), held(2, cancelled_s=9_990), queued(2, cancelled_s=0)])
def test_nothing_is_withdrawn_twice_nor_before_its_job_is_known(link: Link) -> None:
    world = shown(link)
    withdraw(world.context, world.context.chains[1])
    assert (world.links, world.events, world.slurm.calls) == ([link], [], [])


def test_a_planned_link_with_a_known_job_is_cancelled() -> None:
    world = shown(planned(2, job=102, attempted_s=90))
    withdraw(world.context, world.context.chains[1])
    assert world.slurm.calls == [("cancel", 102, "only pending")]


@pytest.mark.parametrize("other", [{"user": "eve"}, {"comment": tagged(3)}, {"comment": tagged(2, key="geese")}])
def test_a_number_of_another_job_is_left_alone(other: dict[str, str]) -> None:
    world = OneChain(held(2)).shows(replace(job(102, link=2), **other))
    withdraw(world.context, world.chain)
    assert (world.links, world.events, world.slurm.calls) == ([held(2)], [], [])


def test_a_link_that_may_not_be_cancelled_stops_no_other_from_it() -> None:
    world = shown(held(2), queued(3), chain={"state": ChainState.PAUSED, "why": "enough"})
    world.slurm.refuses["cancel", 102] = "Access/permission denied"
    withdraw(world.context, world.chain)
    assert world.slurm.calls == [("cancel", 103, "only pending")]
    assert world.links == [held(2), queued(3, cancelled_s=NOW_S, withdrawn_s=NOW_S)]
    assert world.trouble == "job 102 cannot be cancelled (enough): Access/permission denied"
    world.context.backend = Slurm()
    withdraw(world.context, world.chain)
    assert world.links[0].cancelled_s == NOW_S


def test_a_chain_that_is_stopped_is_done_when_the_last_of_it_is_gone() -> None:
    stopping = {"state": ChainState.STOPPING, "why": "stopped by hand"}
    world = steered(shown(running(1), running(2), chain=stopping))
    assert world.slurm.calls == [("cancel", 101), ("cancel", 102)]
    assert world.events == [(n, "cancelled", f"job 10{n}: stopped by hand") for n in (1, 2)]
    assert steered(OneChain(ended(1), ended(2), chain=stopping)).chain.state is ChainState.DONE


DAY_LONG = {"limit_s": 24 * HOUR_S}


def budgeted(*links: Link, hours: float, **spec: Any) -> OneChain:
    """A chain of four nodes with a budget, and a limit of a day."""
    submission = Submission("job.sh", {"nodes": "4", "time": "1-0"})
    return OneChain(*links, submission=submission, budget_node_h=hours, **spec)


@pytest.mark.parametrize(
    ("hours", "planned_links", "detail"),
    [
        (4 * 72, 1, ""),  # room for the running link, the next and one more
        (4 * 71, 1, "after this link 92.0 node-hours of 284.0 node-hours are left: less than one link"),
        (4 * 25, 1, "after this link 0.0 node-hours of 100.0 node-hours are left: less than one link"),
        (4 * 24.9, 0, ""),  # less than the shortest link, an hour
        (10, 0, ""),
    ],
)
def test_a_link_is_planned_while_the_budget_has_room_for_it(hours: float, planned_links: int, detail: str) -> None:
    world = budgeted(running(1, started_s=NOW_S - HOUR_S, **DAY_LONG), hours=hours)
    chain = steer(world.context, world.chain, [])
    assert chain.state is ChainState.ACTIVE, "the running link runs on"
    assert len(world.links) == 1 + planned_links
    assert world.events == ([(2, "budget-low", detail)] if detail else [])


def test_a_chain_with_a_used_budget_is_done() -> None:
    last = ended(1, started_s=NOW_S - 25 * HOUR_S, ended_s=NOW_S - HOUR_S, **DAY_LONG)
    world = budgeted(last, hours=97)
    chain = steer(world.context, world.chain, [])
    assert (chain.state, chain.why) == (ChainState.DONE, "its budget is used up: 96.0 of 97.0 node-hours")
    small = budgeted(last, hours=0.001)
    assert steer(small.context, small.chain, []).why == "its budget is used up: 96.0 of 0.001 node-hours"
    assert chain.stopped_s == NOW_S - HOUR_S
    short = budgeted(ended(1, started_s=NOW_S - 600, ended_s=NOW_S - 480, **DAY_LONG), hours=0.15)
    assert steer(short.context, short.chain, []).why == "its budget is used up: 0.133 of 0.15 node-hours"
    world = budgeted(last, hours=100)
    assert steer(world.context, world.chain, []).state is ChainState.ACTIVE


def test_a_lowered_budget_withdraws_the_waiting_link() -> None:
    links = (running(1, started_s=NOW_S - HOUR_S, **DAY_LONG), held(2, **DAY_LONG))
    world = budgeted(*links, hours=97).shows(job(101), job(102, JobState.PENDING, 2))
    steer(world.context, world.chain, [])
    assert world.slurm.calls == [("cancel", 102, "only pending")]
    world = budgeted(*links, hours=98.1).shows(job(101), job(102, JobState.PENDING, 2))
    steer(world.context, world.chain, [])
    assert world.slurm.calls == [], "half of the shortest link is left"
