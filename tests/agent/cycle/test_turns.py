"""Turns of chains: on a common grid, to the second where that matters, and each its own."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from mirage.agent.cycle.handover import Progress
from mirage.agent.cycle.turns import Turns, grid
from mirage.agent.model import Chain, ChainSpec, ChainState
from mirage.agent.settings import AgentSettings
from mirage.job_state import MISSING
from mirage.slurm.records import Submission

SETTINGS = AgentSettings(poll_s=60, busy_poll_s=15, longest_poll_s=600)
CALM, BUSY = Progress(), Progress(True)
NOW_S = 1_005


def chain(number: int, **known: object) -> Chain:
    return Chain(number, f"c{number}", ChainSpec(Submission("job.sh")), 0, **known)


def chains(count: int = 1) -> dict[int, Chain]:
    return {number: chain(number) for number in range(1, count + 1)}


def turn(turns: Turns, now_s: int, one: Chain, progress: Progress | None = CALM, settled: bool = True) -> float:
    """The next turn of a chain after one at which it got so far; None where it stumbled."""
    assert turns.begin({one.id: one}, now_s) == [one.id]
    if progress is None:
        turns.stumbled(one.id)
    else:
        turns.progress(one.id, progress)
    turns.end(one, now_s, settled)
    return turns.due_s[one.id]


@pytest.mark.parametrize(("now_s", "step_s", "next_s"), [(0, 60, 60), (59, 60, 60), (60, 60, 120), (61, 15, 75)])
def test_the_grid_is_the_clock_s(now_s: int, step_s: float, next_s: float) -> None:
    assert grid(now_s, step_s) == next_s


@pytest.mark.parametrize(
    ("progress", "settled", "next_s", "busy"),
    [
        (CALM, True, 1_020, False),
        (BUSY, True, 1_020, True),
        (CALM, False, 1_020, True),
        (None, True, 1_020, False),
    ],
)
def test_a_chain_has_its_turn_on_the_grid(progress: Progress | None, settled: bool, next_s: int, busy: bool) -> None:
    turns = Turns(SETTINGS)
    assert turn(turns, 1_005, chain(1), progress, settled) == next_s
    assert turns.busy is busy


def test_a_busy_chain_is_polled_more_often() -> None:
    turns = Turns(SETTINGS)
    assert turn(turns, 1_021, chain(1), BUSY) == 1_035
    assert turn(turns, 1_035, chain(1), CALM) == 1_080
    assert not turns.busy
    assert turn(turns, 1_080, chain(1), settled=False) == 1_095
    paused = chain(1, state=ChainState.PAUSED)
    assert turn(turns, 1_095, paused, settled=False) == 1_140, "nothing is decided about it"


@pytest.mark.parametrize(
    ("named_s", "every_s", "moment_s"),
    [(NOW_S + 10, 300, NOW_S + 10), (NOW_S + 61, 300, math.inf), (NOW_S, 300, math.inf), (NOW_S + 10, 0, math.inf)],
)
def test_a_pass_stays_for_a_decision_that_a_policy_wants_soon(named_s: int, every_s: int, moment_s: float) -> None:
    turns = Turns(replace(SETTINGS, pass_every_s=every_s))
    turn(turns, NOW_S, chain(1, next_decision_s=named_s), settled=False)
    assert turns.next_moment_s() == moment_s


def test_new_chains_have_their_turn_at_once_and_the_others_in_time() -> None:
    turns = Turns(SETTINGS)
    turn(turns, NOW_S, chain(1))
    assert turns.begin(chains(3), NOW_S + 1) == [2, 3]
    for number in (2, 3):
        turns.progress(number, CALM)
        turns.end(chain(number), NOW_S + 1, True)
    assert set(turns.due_s.values()) == {1_020}, "one look at the queue serves all of them"
    assert turns.begin(chains(3), 1_019) == []
    assert turns.begin(chains(3), 1_020) == [1, 2, 3]


@pytest.mark.parametrize(
    ("known", "progress", "next_s"),
    [
        ({}, Progress(True, 1_007), 1_007),
        ({}, Progress(False, 1_007), 1_007),
        ({}, Progress(False, 1_999), 1_020),
        ({}, Progress(False, MISSING), 1_020),
        ({"next_decision_s": 1_011}, CALM, 1_011),
        ({"next_try_s": 1_013}, CALM, 1_013),
        ({"next_try_s": 1_013, "next_decision_s": 1_011}, Progress(False, 1_009), 1_009),
        ({"next_decision_s": 1_005}, CALM, 1_020),
        ({"next_decision_s": 1_011, "state": ChainState.PAUSED}, CALM, 1_020),
    ],
)
def test_a_moment_that_matters_is_met_to_the_second(known: dict[str, object], progress: Progress, next_s: int) -> None:
    assert turn(Turns(SETTINGS), NOW_S, chain(1, **known), progress) == next_s


def test_a_moment_already_past_comes_no_sooner_than_a_second_later() -> None:
    assert turn(Turns(SETTINGS), NOW_S, chain(1), Progress(True, NOW_S - 3)) == NOW_S + 1


def test_a_chain_that_stumbles_waits_longer_and_longer_until_it_no_longer_does() -> None:
    turns, now_s, waits = Turns(SETTINGS), 12_000, []
    for _ in range(7):
        next_s = turn(turns, now_s, chain(1, next_decision_s=now_s + 1), None)
        waits.append(next_s - now_s)
        assert not turns.busy
        now_s = int(next_s)
    assert waits == [60, 60, 120, 240, 120, 600, 600], "on ever coarser grids"
    assert turn(turns, now_s, chain(1), CALM) == now_s + 60
    assert turn(turns, now_s + 60, chain(1), None) == now_s + 120, "as the first time"


def test_a_chain_that_was_busy_and_stumbles_makes_none_busy() -> None:
    turns = Turns(SETTINGS)
    turn(turns, NOW_S, chain(1), BUSY)
    turn(turns, 1_020, chain(1), None)
    assert not turns.busy


def lived(stumbling: bool) -> list[tuple[int, int]]:
    """The turns of three of four chains in an hour; the fourth may do nothing but stumble."""
    turns, now_s, had = Turns(SETTINGS), 10_000, []
    while now_s < 13_600:
        for number in turns.begin(chains(4), now_s):
            if number == 4 and stumbling:
                turns.stumbled(number)
            else:
                had.append((now_s, number))
                turns.progress(number, Progress(now_s % 7 == 0, now_s + 11 * number))
            turns.end(chain(number), now_s, True)
        now_s = max(int(turns.next_s(now_s)), now_s + 1)
    return [(at_s, number) for at_s, number in had if number != 4]


def test_a_chain_that_stumbles_changes_no_turn_of_the_others() -> None:
    healthy = lived(False)
    assert lived(True) == healthy
    assert len(healthy) > 300


def test_a_clock_that_was_set_back_gives_everybody_a_turn() -> None:
    turns = Turns(SETTINGS)
    turn(turns, 100_000, chain(1))
    assert turns.begin(chains(), 100_020 - 600) == [], "a turn in the time that a chain waits at most is believed"
    assert turns.begin(chains(), 90_000) == [1]


def test_the_next_turn_of_any_chain_is_when_the_agent_wakes() -> None:
    turns = Turns(SETTINGS)
    assert turns.next_s(1_005.5) == 1_020
    turn(turns, NOW_S, chain(1))
    assert turns.begin(chains(2), NOW_S) == [2]
    turns.progress(2, Progress(True, 1_009))
    turns.end(chain(2), NOW_S, True)
    assert turns.next_s(1_005.5) == 1_009


def test_a_chain_that_is_gone_is_forgotten() -> None:
    turns = Turns(SETTINGS)
    turn(turns, NOW_S, chain(1), BUSY)
    assert turns.busy
    assert turns.begin({}, NOW_S + 1) == []
    assert not turns.busy
    assert turns.due_s == {}
    turn(turns, 2_000, chain(1), None)
    assert turns.stumbles[1] == 1


def test_a_moment_that_matters_is_known_however_slow_the_controller_is() -> None:
    turns, (one, two) = Turns(AgentSettings()), (Chain(k, f"c{k}", ChainSpec(Submission("job.sh")), 0) for k in (1, 2))
    turns.begin({1: one, 2: two}, 1_000)
    assert turns.next_moment_s() == math.inf
    turns.progress(1, Progress(True, 1_250))
    turns.end(one, 1_000, True)
    turns.end(two, 1_000, True)
    assert turns.next_moment_s() == 1_250
    turns.stumbled(1)
    turns.end(one, 1_000, True)
    assert turns.next_moment_s() == math.inf, "who stumbles has its own pace"


def test_turns_that_an_outage_cut_short_are_due_again_and_leave_no_moment() -> None:
    turns = Turns(SETTINGS)
    turn(turns, NOW_S, chain(1), Progress(True, 1_009))
    turns.interrupted([1, 2])
    assert turns.next_moment_s() == math.inf
    assert turns.begin(chains(), NOW_S + 1) == [1]


def test_only_back_offs_of_silence_are_forgotten() -> None:
    turns = Turns(SETTINGS)
    for number in turns.begin(chains(4), NOW_S):
        for _ in range(3):
            turns.stumbled(number, unanswered=True)
    turns.stumbled(2)  # refused
    turns.progress(3, CALM)
    for number in (1, 2, 3, 4):
        turns.end(chain(number), NOW_S, True)
    three = {number: chain(number) for number in (1, 2, 3)}
    assert turns.begin(three, NOW_S + 1) == []
    turns.forget_silence()
    assert turns.begin(three, NOW_S + 1) == [1]
    assert dict(turns.stumbles) == {2: 4}


def test_every_chain_has_a_turn_where_a_change_ends_the_sleep() -> None:
    turns = Turns(AgentSettings(poll_s=60, notice_s=60))
    assert turn(turns, NOW_S, chain(1)) == 1_020
    assert turns.begin(chains(), NOW_S + 1) == [1]
    sleeping = Turns(SETTINGS)
    turn(sleeping, NOW_S, chain(1))
    assert sleeping.begin(chains(), NOW_S + 1) == []
