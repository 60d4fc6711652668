"""Jobs submitted to the simulated Slurm: waits, changes, signals, ends, requeues."""

from __future__ import annotations

import math
import signal
from pathlib import Path

import pytest

from mirage.duration import UNLIMITED_S
from mirage.errors import ConfigurationError, SlurmRefused
from mirage.job_state import MISSING, JobState
from mirage.lab.virtual.batch_request import StartCondition
from mirage.lab.virtual.program import DEADLY, Program
from mirage.lab.virtual.virtual_job import VirtualJob
from mirage.lab.virtual.virtual_slurm import VirtualSlurm
from mirage.sim.cluster import Cluster
from mirage.slurm.records import Submission
from tests.support.faulty_slurm import FaultySlurm
from tests.support.small_slurm import BEGIN_S, FOUR_JOBS, job_of, small_slurm, submit


def running(folder: Path, program: Program | None = None, **options: str | None) -> tuple[FaultySlurm, VirtualJob]:
    """A job alone on four nodes, after ten seconds of its run."""
    slurm = small_slurm(program=program, at_s=5)
    number = submit(slurm, folder / "job.sh", **{"time": "10", **options})
    slurm.sleep(10)
    assert slurm.own[number].start_s == BEGIN_S + 5
    return slurm, slurm.own[number]


@pytest.mark.parametrize(
    ("program", "warning", "outcome", "exits", "after_s"),
    [
        (Program(run_s=90), "", JobState.COMPLETED, (0, 0), 90),
        (Program(run_s=90, exit_code=3), "", JobState.FAILED, (3, 0), 90),
        (Program(run_s=600), "", JobState.COMPLETED, (0, 0), 600),
        (Program(run_s=601), "", JobState.TIMEOUT, (0, 0), 600),
        (Program(), "", JobState.TIMEOUT, (0, 0), 600),
        (Program(exit_code=3), "", JobState.TIMEOUT, (0, 0), 600),
        (Program(leave_s=30), "B:USR2@100", JobState.COMPLETED, (0, 0), 530),
        (Program(leave_s=0), "USR2@100", JobState.COMPLETED, (0, 0), 501),
        (Program(leave_s=100), "USR2@100", JobState.COMPLETED, (0, 0), 600),
        (Program(leave_s=101), "USR2@100", JobState.TIMEOUT, (0, 0), 600),
        (Program(leave_s=MISSING), "USR2@100", JobState.TIMEOUT, (0, 0), 600),
        (Program(leave_s=30, on="USR1"), "USR2@100", JobState.TIMEOUT, (0, 0), 600),
        (Program(run_s=20, leave_s=30), "USR2@100", JobState.COMPLETED, (0, 0), 20),
    ],
)
def test_how_a_job_ends_when_it_is_left_alone(
    folder: Path, program: Program, warning: str, outcome: JobState, exits: tuple[int, int], after_s: int
) -> None:
    slurm, job = running(folder, program, **({"signal": warning} if warning else {}))
    slurm.sleep(after_s - 11)
    assert not job.over
    slurm.sleep(2)
    assert (job.outcome, job.exits, job.end_s - job.start_s) == (outcome, exits, after_s)


@pytest.mark.parametrize(
    ("program", "name", "outcome", "exits", "later_s"),
    [
        (Program(leave_s=30), "USR2", JobState.COMPLETED, (0, 0), 30),
        (Program(leave_s=0), "SIGUSR2", JobState.COMPLETED, (0, 0), 1),
        (Program(leave_s=30, exit_code=4), "USR2", JobState.COMPLETED, (0, 0), 30),
        (Program(leave_s=30), "TERM", JobState.FAILED, (0, 15), 0),
        (Program(leave_s=30, on="TERM"), "TERM", JobState.COMPLETED, (0, 0), 30),
        (Program(leave_s=30, on="KILL"), "KILL", JobState.FAILED, (0, 9), 0),
        (Program(leave_s=MISSING), "USR2", JobState.TIMEOUT, (0, 0), 590),
        (Program(), "WINCH", JobState.TIMEOUT, (0, 0), 590),
    ],
)
def test_signals(
    folder: Path, program: Program, name: str, outcome: JobState, exits: tuple[int, int], later_s: int
) -> None:
    slurm, job = running(folder, program)
    slurm.signal(job.number, name)
    slurm.sleep(601)
    assert (job.outcome, job.exits, job.end_s) == (outcome, exits, BEGIN_S + 15 + later_s)
    assert job.signals == [(BEGIN_S + 15, name.removeprefix("SIG"))]
    slurm.signal(job.number, "TERM")
    assert len(job.signals) == 1, "one that has ended is sent nothing"


def test_the_numbers_of_signals_are_those_of_this_machine() -> None:
    assert {name: signal.Signals[f"SIG{name}"].value for name in DEADLY} == DEADLY


def test_a_second_signal_does_not_prolong_a_checkpoint(folder: Path) -> None:
    slurm, job = running(folder, Program(leave_s=30))
    slurm.signal(job.number, "USR2")
    slurm.sleep(20)
    slurm.signal(job.number, "USR2")
    slurm.sleep(11)
    assert (job.outcome, job.end_s) == (JobState.COMPLETED, BEGIN_S + 45)


def test_a_waiting_job_takes_no_signal(folder: Path) -> None:
    slurm = small_slurm()
    held = submit(slurm, folder / "job.sh", hold=None)
    slurm.signal(held, "KILL")
    slurm.signal(999, "KILL")
    assert (slurm.own[held].signals, slurm.own[held].over) == ([], False)


@pytest.mark.parametrize(
    ("kind", "program", "cancelled", "outcome"),
    [
        ("after", Program(run_s=50), False, JobState.RUNNING),
        ("afterany", Program(run_s=50), False, JobState.PENDING),
        ("afterok", Program(run_s=5), False, JobState.RUNNING),
        ("afterok", Program(run_s=5, exit_code=1), False, JobState.PENDING),
        ("afterany", Program(run_s=5, exit_code=1), False, JobState.RUNNING),
        ("afterok", Program(run_s=50), True, JobState.PENDING),
        ("afterany", Program(run_s=50), True, JobState.RUNNING),
    ],
)
def test_dependencies(folder: Path, kind: str, program: Program, cancelled: bool, outcome: JobState) -> None:
    slurm = small_slurm(program=program)
    first = submit(slurm, folder / "job.sh")
    second = submit(slurm, folder / "job.sh", dependency=f"{kind}:{first}")
    slurm.sleep(2)
    if cancelled:
        slurm.cancel(first)
    slurm.sleep(7)
    found = job_of(slurm, second)
    assert found.state is outcome
    if outcome is JobState.PENDING:
        never = slurm.own[first].over
        assert (found.reason, found.dependency) == (
            ("DependencyNeverSatisfied", f"{kind}:1(failed)") if never else ("Dependency", f"{kind}:1(unfulfilled)")
        )
    else:
        assert (found.reason, found.dependency) == ("", "")


@pytest.mark.parametrize(
    ("program", "later_s", "reason"),
    [
        (Program(run_s=5), 60, "Priority"),
        (Program(run_s=5, exit_code=1), 60, "DependencyNeverSatisfied"),
        (Program(run_s=5, exit_code=1), 400, "Priority"),
    ],
)
def test_waiting_for_a_job_that_has_ended(folder: Path, program: Program, later_s: int, reason: str) -> None:
    """A failure is remembered for ``MinJobAge``; after that it is no condition."""
    slurm = small_slurm(Cluster.pool(4), lambda s: program if s.options.get("job-name") else Program())
    first = submit(slurm, folder / "job.sh", job_name="first")
    slurm.sleep(later_s)
    submit(slurm, folder / "job.sh", nodes="4")
    slurm.sleep(1)
    submit(slurm, folder / "job.sh")
    second = submit(slurm, folder / "job.sh", dependency=f"afterok:{first}")
    slurm.sleep(1)
    assert job_of(slurm, second).reason == reason


def test_a_job_waits_for_its_time_and_for_its_release(folder: Path) -> None:
    slurm = small_slurm(at_s=5)
    later = submit(slurm, folder / "job.sh", begin="now+30", hold=None)
    slurm.sleep(60)
    assert (job_of(slurm, later).reason, job_of(slurm, later).priority) == ("JobHeldUser", 0.0)
    slurm.release(later)
    slurm.sleep(1)
    assert slurm.own[later].start_s == BEGIN_S + 65
    soon = submit(slurm, folder / "job.sh", begin="now+30")
    assert (job_of(slurm, soon).reason, job_of(slurm, soon).start_s) == ("BeginTime", BEGIN_S + 96)
    slurm.update(soon, {"StartTime": "now+5"})
    slurm.sleep(6)
    assert slurm.own[soon].start_s == BEGIN_S + 71


def test_a_limit_may_be_lowered_in_the_run_and_raised_before_it(folder: Path) -> None:
    slurm, job = running(folder, Program())
    slurm.update(job.number, {"TimeLimit": "1"})
    with pytest.raises(SlurmRefused, match="Access/permission denied"):
        slurm.update(job.number, {"timelimit": "2"})
    slurm.sleep(60)
    assert (job.outcome, job.end_s, job.limit_s) == (JobState.TIMEOUT, BEGIN_S + 65, 60)
    with pytest.raises(SlurmRefused) as refused:
        slurm.update(job.number, {"Comment": "x"})
    assert refused.value.stderr == f"Job has already finished for job {job.number}"
    slurm.sleep(301)
    with pytest.raises(SlurmRefused, match="Invalid job id specified"):
        slurm.update(job.number, {"Comment": "x"})
    held = submit(slurm, folder / "job.sh", hold=None)
    slurm.update(held, {"TimeLimit": "UNLIMITED"})
    assert job_of(slurm, held).limit_s == UNLIMITED_S


def test_several_are_changed_though_one_is_refused(folder: Path) -> None:
    slurm = small_slurm(at_s=1, **FOUR_JOBS)
    ours = [submit(slurm, folder / "job.sh") for _ in range(2)]
    with pytest.raises(SlurmRefused) as refused:
        slurm.update([ours[0], 999, 1, ours[1]], {"Name": "new", "TimeLimit": "3"})
    assert refused.value.stderr == "Invalid job id specified for job 999", "the first of two"
    assert [(slurm.own[k].name, slurm.own[k].limit_s) for k in ours] == [("new", 180)] * 2


def test_a_requeued_job_begins_anew_after_a_while(folder: Path) -> None:
    program = Program(run_s=100, words=((5, "up"), (500, "never")))
    slurm, job = running(folder, program, comment="mirage:x:1 | of mine")
    assert job.comment == "mirage:x:1 up | of mine"
    slurm.requeue(job.number)
    assert (job.start_s, job.nodelist, job.restarts, job.submit_s) == (MISSING, "", 1, BEGIN_S + 15)
    assert job.wait == StartCondition(BEGIN_S + 35)
    slurm.sleep(30)
    assert (job.start_s, job.nodelist, job.wait) == (BEGIN_S + 35, "n1", StartCondition())
    slurm.sleep(91)
    assert (job.outcome, job.end_s, job.comment) == (JobState.COMPLETED, BEGIN_S + 135, "mirage:x:1 up up | of mine")
    with pytest.raises(SlurmRefused) as refused:
        slurm.requeue(job.number)
    assert refused.value.stderr == "Requested operation is presently disabled for job 1"


def test_a_job_that_leaves_is_not_requeued(folder: Path) -> None:
    slurm, job = running(folder, Program(leave_s=30))
    slurm.signal(job.number, "USR2")
    with pytest.raises(SlurmRefused, match="presently disabled"):
        slurm.requeue(job.number)


def test_a_held_job_is_requeued_and_waits_for_its_release(folder: Path) -> None:
    slurm, job = running(folder)
    slurm.requeue(job.number, hold=True)
    slurm.sleep(100)
    assert job_of(slurm, job.number).reason == "JobHeldUser"
    slurm.release(job.number)
    slurm.sleep(1)
    assert (job.start_s, job.held) == (BEGIN_S + 115, False)


def test_cancelling(folder: Path) -> None:
    slurm, job = running(folder)
    waits = submit(slurm, folder / "job.sh", begin="now+30", dependency="afterany:1")
    for number in (job.number, waits, waits, 999):
        slurm.cancel(number)
    for own, start_s in ((job, BEGIN_S + 5), (slurm.own[waits], MISSING)):
        assert (own.outcome, own.start_s, own.end_s, own.wait, own.held) == (
            JobState.CANCELLED, start_s, BEGIN_S + 15, StartCondition(), False
        )  # fmt: skip


def test_a_program_is_made_for_every_submission(folder: Path) -> None:
    requests: list[Submission] = []
    slurm = small_slurm(program=lambda submission: requests.append(submission) or Program(run_s=7 * len(requests)))
    for name in ("a", "b"):
        submit(slurm, folder / "job.sh", job_name=name)
    slurm.sleep(30)
    assert [one.options["job-name"] for one in requests] == ["a", "b"]
    assert [job.end_s - job.start_s for job in slurm.own.values()] == [7, 14]


def test_a_job_adds_words_before_the_bar_of_its_comment(folder: Path) -> None:
    slurm, job = running(folder)
    for comment, words_added in (("", " hi"), ("a", "a hi"), ("a | b | c", "a hi | b | c")):
        slurm.update(job.number, {"Comment": comment})
        slurm.add_words(job.number, "hi")
        assert job_of(slurm, job.number).comment == words_added


def test_a_signal_and_a_job_that_do_not_exist_are_named(folder: Path) -> None:
    slurm, job = running(folder, Program())
    for act, message in (
        (lambda: slurm.signal(job.number, "SIGFOO"), "Unknown job signal: SIGFOO"),
        (lambda: slurm.add_words(10**7, "hi"), "Invalid job id specified for job 10000000"),
    ):
        with pytest.raises(SlurmRefused, match=message):
            act()


def test_a_simulated_slurm_takes_a_simulation() -> None:
    with pytest.raises(ConfigurationError, match=r"must be a Simulation\(cluster, jobs\), got Cluster\("):
        VirtualSlurm(Cluster.pool(4))  # type: ignore[arg-type]


@pytest.mark.parametrize("seconds", [math.nan, math.inf])
def test_a_sleep_is_finite(folder: Path, seconds: float) -> None:
    slurm, _ = running(folder, Program())
    with pytest.raises(ConfigurationError, match="a sleep takes a finite number of seconds"):
        slurm.sleep(seconds)
    assert slurm.clock() == BEGIN_S + 15


def test_words_due_after_the_end_are_never_added(folder: Path) -> None:
    slurm, job = running(folder, Program(run_s=50, words=((49, "a"), (50, "b"), (51, "c"))), comment="x")
    slurm.sleep(300)
    assert (job.comment, job.words_added) == ("x a b", 2)


def test_a_sleep_ends_in_the_minute_of_a_change_of_one_s_own_jobs(folder: Path) -> None:
    slurm, job = running(folder, Program(run_s=150))
    slurm.observe()
    slurm.sleep_until_change(100)
    assert slurm.now_s == BEGIN_S + 115, "nothing changed, and no more than was asked for"
    slurm.sleep_until_change(1_000)
    assert (job.end_s, slurm.now_s) == (BEGIN_S + 155, BEGIN_S + 175)
    slurm.sleep_until_change(1_000)
    assert slurm.now_s == BEGIN_S + 175, "it has not been observed"
    slurm.observe()
    slurm.sleep_until_change(1_000)
    assert slurm.now_s == BEGIN_S + 1_175
    number = submit(slurm, folder / "job.sh", time="10")
    slurm.sleep_until_change(1_000)
    assert (slurm.own[number].start_s, slurm.now_s) == (BEGIN_S + 1_175, BEGIN_S + 1_235)
