"""Controllers killed at any moment on a real slurmctld: no job is lost, none runs twice.

The long runs print their figures: ``pytest -s -m soak tests/control/test_control_soak_real.py``.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from mirage.control.adviser import Adviser
from mirage.job_state import JobState
from mirage.slurm.client import SlurmClient
from mirage.slurm.runner import Completed, SystemRunner
from tests.support.control_site import Site, kernels_are_compiled  # noqa: F401  a fixture for every test here
from tests.support.control_soak import DELAY_S, KILLED, PROMISE_S, Soak
from tests.support.started_agents import no_agent_outlives_its_test  # noqa: F401  a fixture for every test here
from tests.support.waiting import until

pytestmark = [pytest.mark.real_slurm, pytest.mark.slow]

LONG = pytest.mark.soak


@pytest.mark.parametrize(("lives", "seconds"), [(3, 1), pytest.param(100, 20, marks=[LONG, pytest.mark.timeout(3600)])])
def test_killed_controllers_lose_no_job_and_off_restores(
    private_cluster: Any, tmp_path: Path, lives: int, seconds: int
) -> None:
    site = Soak(private_cluster, tmp_path, seed=lives, most=8 if lives > 50 else 5)
    for life in range(lives):
        controller = site.controller()
        if life * seconds // lives != (life + 1) * seconds // lives:
            site.until_it_acts()
            site.refuse_a_second("state" if life % 2 else f"other-{life}")
        if life % 10 == 1:
            site.reconfigure()
        if lives > 50 and life % 4 == 2:
            site.kill_between_requeue_and_release(controller)
            continue
        site.wait_with_jobs(site.dice.uniform(0, 8))
        site.kill(controller, KILLED[life % 3])
    controller = site.controller()
    site.until_it_acts()
    site.wait_with_jobs(3)
    until(site.has_recorded, 20, (tmp_path / "state.log").read_text)
    off_s = site.off()
    assert site.state() == site.before
    controller.wait(60)
    site.until_all_have_ended()
    views = site.replay()
    found = site.report(off_s=round(off_s, 2), views=views)
    log = (tmp_path / "state.log").read_text()
    assert "Traceback" not in log
    assert "another controller acts on this cluster" not in log, "the next one with the folder begins at once"
    assert off_s < 60
    assert site.administrators_requests() == 0
    assert found["second refused"] == seconds
    assert (site.lost(), site.twice()) == ([], [])
    assert views >= (100 if lives > 50 else 1)
    assert site.counts["killed after a requeue"] >= 10 or lives <= 50
    assert site.drain_s < DELAY_S, "no job waits for the end of Slurm's delay"
    assert set(found["verbs"]) >= ({"lease", "lend", "nice", "enter"} if lives > 50 else {"lease", "renew"})


@pytest.mark.parametrize("kills", [1, pytest.param(20, marks=[LONG, pytest.mark.timeout(3600)])])
def test_a_killed_slurmctld_loses_only_what_it_has_not_written(
    private_cluster: Any, tmp_path: Path, kills: int
) -> None:
    site = Soak(
        private_cluster, tmp_path, seed=kills, most=8 if kills > 10 else 5, delay_s=5
    )  # of jobs that it forgets
    (tmp_path / "views-0").mkdir()
    site.adviser = Adviser(site.shell.slurm, site.pools(), tmp_path / "views-0")
    controller = site.controller()
    site.until_it_acts()
    for number in range(kills):
        site.wait_with_jobs(site.dice.uniform(2, 7))
        if number % 2:
            site.finite("train", 3, "--gpus=1", "-p", "train", "--comment=mirage-control")  # which Slurm may lose
        site.kill_slurmctld(site.dice.uniform(0, 3))
        site.finite("train", 3, "--gpus=2", "-p", "train", "--comment=mirage-control")  # which may get its id
        if number % 2 or controller.poll() is not None:
            site.counts["ended by itself"] += controller.poll() is not None
            site.kill(controller, KILLED[number // 2 % 3])
            controller = site.controller()
            site.until_it_acts()
    site.wait_with_jobs(3)
    off_s = site.off()
    assert site.state() == site.before
    controller.wait(60)
    site.until_all_have_ended()
    recorded = list(site.recorded_submissions())
    known = [job for _, job in site.reused() if any(row[0] > job.at_s + 1 and row[1] == job.id for row in recorded)]
    site.report(off_s=round(off_s, 2), reused_ids_in_views=len(known))
    assert [job for job in site.lost() if not site.is_slurms_own(job)] == []
    assert [job for job in site.twice() if not site.is_slurms_own(job)] == []
    assert site.counts["ended by itself"] == 0
    assert known or kills < 10
    for job in known:
        wrong = [row for row in recorded if row[0] > job.at_s + 1 and row[1] == job.id and row[2] < job.at_s - 2]
        assert wrong == [], f"job {job.id} is taken for the lost one"


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", [1, 2])
def test_the_loans_of_a_controller_that_never_returns_end_by_themselves(
    private_cluster: Any, tmp_path: Path, seed: int
) -> None:
    site = Soak(private_cluster, tmp_path, seed=seed)
    wide = site.submit("--gpus-per-node=4", "-N2", "-t", "60")
    site.until_running(wide)
    late: list[float] = []
    stranded = lost = 0
    for _ in range(5):
        for seconds in (15, 30, 30, 40):
            site.finite("train", seconds, "--gpus=3", "-p", "train", "--comment=mirage-control")
        for condition in (site.loans, site.borrowers):
            controller = site.controller()  # the first one lends, the second one lets a job enter
            until(condition, 15, (tmp_path / "state.log").read_text)
            site.kill(controller, "both")
        loans = site.loans()
        assert all(end_s <= time.time() + PROMISE_S for end_s in loans.values())
        until(lambda: not site.loans(), PROMISE_S, lambda: site.run("squeue"), pause_s=1)
        late.append(time.time() - max(loans.values()))
        until(lambda: not site.borrowers(), 20, lambda: site.run("squeue"))
        stranded += len(site.state()["held"])
        assert site.off() < 60
        site.run("scancel", str(wide))
        site.until_all_have_ended()
        lost = len(site.lost())
        wide = site.submit("--gpus-per-node=4", "-N2", "-t", "60")
        site.until_running(wide)
    site.run("scancel", str(wide))
    site.report(rounds=5, late_s=[round(one, 1) for one in late], held_until_off=stranded, ended_with_the_loan=lost)
    assert max(late) < 90
    assert (site.lost(), site.twice()) == ([], [])


@dataclass
class FaultyRunner:
    """Commands of a real cluster that fail.

    Attributes:
        fault: Program → what it prints and its exit status, in place of its own; no program for none.
    """

    real: SystemRunner
    fault: tuple[str, Completed] | None = None
    ran: list[Sequence[str]] = field(default_factory=list)

    def run(self, argv: Sequence[str], **options: Any) -> Completed:
        self.ran.append(tuple(argv))
        if self.fault is not None and argv[0] == self.fault[0]:
            return self.fault[1]
        environment: Mapping[str, Any] = options
        return self.real.run(argv, **environment)


def test_failed_and_empty_snapshots_lead_to_no_action(private_cluster: Any, tmp_path: Path) -> None:
    site = Site(private_cluster, tmp_path)
    runner = FaultyRunner(SystemRunner(site.cluster.environment))
    adviser = Adviser(SlurmClient(runner), site.pools())
    wide = site.submit("--gpus-per-node=4", "-N2", "-t", "30")
    site.submit("--gpus=3", "-t", "40")
    site.until_running(wide)
    assert adviser.advise(time.time()).steps, "without a fault it acts"
    answers = (
        Completed(1, "", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"),
        Completed(1, "", "slurm_load_jobs error: Socket timed out on send/recv operation"),
        Completed(1, "", "slurm_load_jobs error: Zero Bytes were transmitted or received"),
        Completed(1, "", "error: Access/permission denied"),
        Completed(-9, "", ""),
        Completed(0, "", ""),
        Completed(0, "n1\x1fidle", ""),
    )
    problems = []
    for runner.fault in product(("squeue", "sinfo", "scontrol"), answers):
        advice = adviser.advise(time.time())
        problems.append(advice.problem)
        assert (advice.steps, advice.plan) == ((), None), runner.fault
    assert all(problems)
    assert len(problems) == 21
    runner.fault = None
    assert adviser.advise(time.time()).steps, "it decides again"
    assert not [argv for argv in runner.ran if argv[0] == "scancel" or argv[1] in ("create", "update", "delete")]
    assert site.job(wide).state is JobState.RUNNING
