"""When a link is not submitted yet, although nothing prevents it."""

from __future__ import annotations

from typing import cast

import pytest

from mirage.agent.chain.submission import PREVIOUS_JOB
from mirage.agent.cycle.reconcile import Reconciler
from mirage.agent.cycle.retries import clock_of
from mirage.agent.cycle.submit import Submissions, proof_s
from mirage.agent.model import Link, LinkState
from mirage.agent.settings import AgentSettings
from mirage.errors import SlurmRefused
from mirage.job_state import MISSING, JobState
from mirage.slurm.backend import Backend
from mirage.slurm.records import AccountedJob, Submission
from tests.support.one_chain import NOW_S, USER, OneChain, Slurm, ended, held, job, planned, queued, running, tagged


@pytest.mark.parametrize(
    ("failures", "most", "expected_s"),
    [(0, 3, 0), (1, 3, 0), (2, 3, 9_601), (3, 3, 9_601), (0, 1, 0), (1, 2, 9_601)],
)
def test_the_last_link_before_the_brake_must_run_on_before_another_waits_for_its_end(
    failures: int, most: int, expected_s: int
) -> None:
    world = OneChain(running(1), chain={"failures": failures}, settings=AgentSettings(failures=most))
    assert proof_s(world.context, world.chain, world.links[0]) == expected_s


def test_a_fourth_of_a_short_limit_is_enough_and_an_ended_link_needs_no_proof() -> None:
    world = OneChain(running(1, limit_s=1_000), chain={"failures": 2})
    assert proof_s(world.context, world.chain, world.links[0]) == 9_251
    assert proof_s(world.context, world.chain, None) == 0
    assert proof_s(world.context, world.chain, ended(1, JobState.FAILED)) == 0


class Sbatch(Slurm):
    """Records the dependency and the predecessor of each submission, or refuses it."""

    def __init__(self, refusal: str = "") -> None:
        super().__init__()
        self.refusal = refusal

    def submit(self, submission: Submission) -> int:
        if self.refusal:
            raise SlurmRefused(self.refusal)
        self.calls.append((submission.options.get("dependency"), submission.environment[PREVIOUS_JOB]))
        return 103


@pytest.mark.parametrize(
    ("waiting", "dependency"),
    [
        (queued(2), None),
        (held(2, released_s=60), "afterany:102"),
        (queued(2, begins_s=NOW_S + 9), "afterany:102"),
        (running(2), "afterany:102"),
    ],
)
def test_a_further_link_competes_unless_the_one_before_does_not(waiting: Link, dependency: str | None) -> None:
    world, slurm = further_link(waiting, Sbatch())
    assert slurm.calls == [(dependency, "102")]
    assert world.links[2].state is (LinkState.QUEUED if dependency is None else LinkState.HELD)


def test_a_refused_further_link_is_given_up_and_the_chain_continues() -> None:
    world, _ = further_link(queued(2), Sbatch("Job violates accounting/QOS policy"))
    assert world.events == [(3, "refused", "no further link waits: Job violates accounting/QOS policy")]
    assert (world.links[2].state, world.links[2].was_withdrawn) == (LinkState.ENDED, True)
    assert (world.chain.state, world.chain.refusals, world.chain.next_try_s, world.trouble) == ("active", 0, 0, "")


def further_link(waiting: Link, slurm: Sbatch) -> tuple[OneChain, Sbatch]:
    """The submission of link 3 after link 2."""
    world = OneChain(ended(1), waiting, planned(3))
    world.slurm, world.context.backend = slurm, cast(Backend, slurm)
    Submissions().submit_planned(world.context, world.chain)
    return world, slurm


def test_until_then_the_chain_waits_and_reports_why() -> None:
    world = OneChain(running(1, started_s=NOW_S - 5), planned(2), chain={"failures": 2})
    Submissions().submit_planned(world.context, world.chain)
    due_s = NOW_S - 5 + 601
    assert world.chain.next_try_s == due_s
    assert world.links[1].attempted_s == MISSING
    assert world.trouble == (
        f"2 links in a row failed soon after their start; the next is submitted after {clock_of(due_s)}, if this one "
        "runs on"
    )


@pytest.mark.parametrize(
    ("number", "attempted_s", "trouble"),
    [
        (1, NOW_S, ""),
        (2, 9_990, ""),
        (
            3,
            MISSING,
            "job 108 is link 3 of this chain, and the store ends with link 1: another agent uses a newer copy",
        ),
    ],
)
def test_a_link_that_another_agent_has_submitted_with_a_copy_of_the_store_is_not_submitted_again(
    number: int, attempted_s: int, trouble: str
) -> None:
    world, slurm = OneChain(ended(1), planned(2)), Sbatch()
    world.slurm, world.context.backend = slurm, cast(Backend, slurm)
    world.shows(job(108, JobState.PENDING, number, submit_s=9_990))
    Submissions().submit_planned(world.context, world.chain)
    assert len(slurm.calls) == (number == 1)
    assert world.links[1].attempted_s == attempted_s
    assert world.context.troubles.get(1, "").startswith(trouble)
    if number == 2:
        Reconciler().follow(world.context, world.chain)
        assert (world.links[1].job, world.links[1].state) == (108, LinkState.QUEUED)
        assert [kind for _, kind, _ in world.events] == ["submitted-elsewhere", "found"]


def test_a_link_that_accounting_has_is_not_submitted_again() -> None:
    world, slurm = OneChain(ended(1), planned(2)), Sbatch()
    world.slurm, world.context.backend = slurm, cast(Backend, slurm)
    over = AccountedJob(
        108, JobState.COMPLETED, user=USER, comment=tagged(2), submit_s=9_000, start_s=9_100, end_s=9_200
    )
    world.shows(ended=(over,))
    Submissions().submit_planned(world.context, world.chain)
    assert slurm.calls == []
    Reconciler().follow(world.context, world.chain)
    assert (world.links[1].job, world.links[1].state) == (108, LinkState.ENDED)
