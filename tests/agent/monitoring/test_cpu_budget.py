"""The governor: what a budget allows, what it delays, and what counts."""

from __future__ import annotations

import subprocess
import sys

import pytest

from mirage.agent.agent import Agent
from mirage.agent.model import ChainState, Cycle
from mirage.agent.monitoring.cpu_budget import SHARE, WINDOW_S, CpuBudget, processor_time
from mirage.agent.settings import AgentSettings
from tests.support.one_chain import OneChain, held, job, running

BUDGET_S = SHARE * WINDOW_S

BURN = "import time\nwhile time.process_time() < {seconds}: pass\nprint(flush=True)\ninput()"


class Machine:
    """A clock, and the processor time that was used by then."""

    def __init__(self) -> None:
        self.now_s, self.spent_s, self.history = 0.0, 0.0, [(0.0, 0.0)]
        self.budget = CpuBudget(lambda: self.spent_s, lambda: self.now_s)

    def spend(self, seconds: float) -> None:
        self.spent_s += seconds
        self.history.append((self.now_s, self.spent_s))

    def most_in_a_window_s(self) -> float:
        pairs = [(a, b) for a in self.history for b in self.history if 0 <= b[0] - a[0] <= WINDOW_S]
        return max(b[1] - a[1] for a, b in pairs)


@pytest.mark.parametrize("cost_s", [0.05, 0.4, 3.0])
@pytest.mark.parametrize("poll_s", [0.05, 0.4])
def test_any_ten_minutes_stay_within_the_budget_with_a_hundred_chains(cost_s: float, poll_s: float) -> None:
    machine, answered = Machine(), 0
    for minute in range(60):
        machine.now_s = 60.0 * minute
        machine.spend(poll_s)
        allowed = machine.budget.affordable(100)
        machine.budget.begin(allowed)
        machine.spend(allowed * cost_s)
        machine.budget.end()
        answered += allowed
    assert machine.most_in_a_window_s() <= BUDGET_S
    assert answered * cost_s >= 0.6 * 6 * (BUDGET_S - 10 * poll_s) - 6 * cost_s, "the budget is used"
    assert machine.budget.delayed > 0


def test_an_overdrawn_budget_delays_the_next_poll_but_no_signal(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "mirage.agent")
    machine, world = Machine(), OneChain(running(1))
    agent = Agent(
        world.context.store, world.context.backend, None,  # type: ignore[arg-type]
        clock=lambda: 1000.0, monotonic=lambda: 0.0, holder="me", settings=AgentSettings(), budget=machine.budget,
    )  # fmt: skip
    assert agent.pause_s(Cycle(), 0.0) <= 60
    machine.now_s = 100.0
    machine.spend(BUDGET_S + 6)
    assert agent.pause_s(Cycle(), 0.0) == pytest.approx(6 / SHARE)
    assert "the next poll is delayed: 6 s of processor time too much" in caplog.records[-1].detail
    agent.turns.moments_s[1] = [1007]
    assert agent.pause_s(Cycle(), 0.0) == 7
    machine.now_s = 100.0 + WINDOW_S + 1
    assert agent.pause_s(Cycle(), 0.0) <= 60


def test_the_most_urgent_chains_are_decided_first() -> None:
    world = OneChain(running(1, limit_s=7200), held(2), policy="lead:1")
    other = world.other(2, running(1, limit_s=3600), held(2), key="rabbit")
    world.shows(job(101, link=1), job(102, link=2))
    assert other.state is ChainState.ACTIVE
    machine = Machine()
    machine.budget.cost_s = 0.75 * BUDGET_S
    assert machine.budget.affordable(2) == 1
    assert machine.budget.delayed == 1


def test_children_count_while_they_live_and_after_and_exempt_ones_do_not() -> None:
    exempt: list[int] = []
    used_s = processor_time(lambda: exempt)
    before_s = used_s()
    children = [
        subprocess.Popen([sys.executable, "-c", BURN.format(seconds=seconds)], stdin=-1, stdout=-1)
        for seconds in (0.3, 0.5)
    ]
    exempt.append(children[1].pid)
    for child in children:
        assert child.stdout is not None
        child.stdout.readline()
    living_s = used_s() - before_s
    assert 0.25 <= living_s < 0.5
    for child in children:
        child.communicate(b"\n")
    assert 0.25 <= used_s() - before_s < 0.55
