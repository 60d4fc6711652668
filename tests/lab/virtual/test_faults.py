"""A simulated Slurm that fails on request."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mirage.errors import SlurmRefused, SlurmUnreachable
from mirage.job_state import MISSING, JobState
from tests.support.faulty_slurm import FaultySlurm
from tests.support.small_slurm import BEGIN_S, FOUR_JOBS, job_of, small_slurm, submit

COMMANDS: dict[str, Callable[[FaultySlurm, Path], object]] = {
    "observe": lambda slurm, folder: slurm.observe(),
    "accounting": lambda slurm, folder: slurm.accounting(0),
    "machine": lambda slurm, folder: slurm.machine(),
    "configuration": lambda slurm, folder: slurm.configuration(),
    "submit": lambda slurm, folder: submit(slurm, folder / "job.sh"),
    "cancel": lambda slurm, folder: slurm.cancel(5),
    "signal": lambda slurm, folder: slurm.signal(5, "USR2"),
    "update": lambda slurm, folder: slurm.update(5, {"Comment": "x"}),
    "hold": lambda slurm, folder: slurm.hold(6),
    "release": lambda slurm, folder: slurm.release(6),
    "requeue": lambda slurm, folder: slurm.requeue(5),
    "move_nodes": lambda slurm, folder: slurm.move_nodes("batch", ("n1", "n2", "n3", "n4")),
}


@pytest.fixture
def slurm(folder: Path) -> FaultySlurm:
    """Jobs 1 to 4 of others; 5 of ours runs, 6 is held."""
    slurm = small_slurm(**FOUR_JOBS)
    submit(slurm, folder / "job.sh", time="10")
    submit(slurm, folder / "job.sh", hold=None)
    slurm.sleep(5)
    assert slurm.own[5].start_s != MISSING
    slurm.commands = 0
    return slurm


@pytest.mark.parametrize("name", COMMANDS)
def test_nothing_is_answered_or_done_while_slurm_is_unreachable(slurm: FaultySlurm, folder: Path, name: str) -> None:
    before = slurm.observe()
    slurm.unreachable = True
    with pytest.raises(SlurmUnreachable, match="had no answer") as lost:
        COMMANDS[name](slurm, folder)
    assert lost.value.stderr == "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"
    slurm.unreachable = False
    assert slurm.observe() == before
    COMMANDS[name](slurm, folder)
    assert slurm.commands == 4, "two looks, one in vain, one answered"


def test_outages_begin_and_end_on_time(slurm: FaultySlurm) -> None:
    slurm.outages = ((BEGIN_S + 10, BEGIN_S + 20), (BEGIN_S + 15, BEGIN_S + 22.5), (BEGIN_S + 30, BEGIN_S + 30))
    silent = []
    for _ in range(60):
        slurm.sleep(0.5)
        try:
            slurm.observe()
        except SlurmUnreachable:
            silent.append(slurm.clock() - BEGIN_S)
    assert silent == [10 + k / 2 for k in range(25)]
    assert slurm.commands == 60


def test_a_controller_that_starts_again_forgets_nothing(slurm: FaultySlurm) -> None:
    slurm.restart_controller(silent_s=200)
    slurm.sleep(199.9)
    with pytest.raises(SlurmUnreachable):
        slurm.observe()
    slurm.sleep(0.1)
    assert job_of(slurm, 5).end_s == slurm.own[5].end_s == slurm.own[5].start_s + 100, "jobs went on"
    assert job_of(slurm, 6).reason == "JobHeldUser"
    slurm.restart_controller(silent_s=10)
    slurm.restart_controller(silent_s=5)
    slurm.sleep(7)
    with pytest.raises(SlurmUnreachable):
        slurm.machine()
    slurm.sleep(3)
    assert len(slurm.machine().nodes) == 4


def test_submissions_happen_though_their_answers_are_lost(slurm: FaultySlurm, folder: Path) -> None:
    slurm.lose_answers = 2
    for number in (7, 8):
        with pytest.raises(SlurmUnreachable) as lost:
            submit(slurm, folder / "job.sh")
        assert lost.value.stderr == "Socket timed out on send/recv operation"
        assert job_of(slurm, number).state is JobState.PENDING
    with pytest.raises(SlurmRefused):
        submit(slurm, folder / "job.sh", nodes="99")
    assert submit(slurm, folder / "job.sh") == 9
    assert (slurm.lose_answers, slurm.commands) == (0, 6)


def test_a_refused_submission_does_not_use_up_a_lost_answer(slurm: FaultySlurm, folder: Path) -> None:
    slurm.lose_answers = 1
    with pytest.raises(SlurmRefused):
        submit(slurm, folder / "job.sh", nodes="99")
    assert slurm.lose_answers == 1


@pytest.mark.parametrize(("refusals", "refused", "left"), [(0, 0, 0), (1, 1, 0), (3, 3, 0), (9, 4, 5), (None, 4, None)])
def test_refusals_are_counted(
    slurm: FaultySlurm, folder: Path, refusals: int | None, refused: int, left: int | None
) -> None:
    slurm.refuse, slurm.refusals = "Batch job submission failed: QOSMaxSubmitJobPerUserLimit", refusals
    words = []
    for _ in range(4):
        try:
            submit(slurm, folder / "job.sh")
        except SlurmRefused as error:
            words.append(error.stderr)
    assert words == [f"sbatch: error: {slurm.refuse}"] * refused
    assert (slurm.refusals, slurm.commands, len(slurm.own)) == (left, 4, 6 - refused)


def test_an_outage_uses_up_no_refusal(slurm: FaultySlurm, folder: Path) -> None:
    slurm.refuse, slurm.refusals, slurm.unreachable = "no", 1, True
    with pytest.raises(SlurmUnreachable):
        submit(slurm, folder / "job.sh")
    assert slurm.refusals == 1


def test_a_failed_launch_holds_the_job_until_its_release(slurm: FaultySlurm) -> None:
    slurm.fail_launch(5)
    held = job_of(slurm, 5)
    assert (held.state, held.reason, held.priority) == (JobState.PENDING, "launch failed requeued held", 0.0)
    assert (held.start_s, held.nodelist, slurm.own[5].restarts) == (MISSING, "", 1)
    with pytest.raises(SlurmRefused, match="Job is pending execution"):
        slurm.fail_launch(5)
    slurm.sleep(700)
    assert job_of(slurm, 5).reason == "launch failed requeued held"
    slurm.release(5)
    slurm.hold(5)
    assert job_of(slurm, 5).reason == "JobHeldUser", "it is the user now"


def test_left_alone_it_runs_as_any_other(slurm: FaultySlurm) -> None:
    slurm.sleep(-5)
    assert slurm.clock() == BEGIN_S + 5
    slurm.sleep(0.75)
    slurm.sleep(0.75)
    assert (slurm.clock(), slurm.now_s) == (BEGIN_S + 6.5, BEGIN_S + 6)
