"""`mirage control off`: what is restored, and what is left."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirage.control.plan_executor import PlanExecutor
from mirage.control.restore import restore
from mirage.control.verbs import FENCE, LEASE
from mirage.errors import SlurmRefused, SlurmUnreachable
from tests.support.acting_cluster import OWNED, ActingCluster, of, plan
from tests.support.control_cluster import NOW_S, loan, pending, running


def test_off_restores_loans_nices_fence_and_lease(cluster: ActingCluster, tmp_path: Path) -> None:
    cluster.reservations = [loan("i2")]
    executor = PlanExecutor(cluster.slurm, OWNED, tmp_path, cluster.clock)
    executor.begin()
    executor.run_plan(plan({"name": "lend", "node": "i1", "minutes": 30}, of(8, "nice", nice=-90)))
    executor.run_plan(plan(of(8, "nice", nice=-80)))
    cluster.jobs[3]["Nice"] = "-80"
    cluster.sent.clear()
    assert restore(executor) == []
    assert [" ".join(argv) for argv in cluster.sent] == [
        "scontrol update JobId=6 ReservationName=",
        "scontrol update JobId=8 ReservationName=",
        "scontrol delete ReservationName=mirage-loan-i1",
        "scontrol delete ReservationName=mirage-loan-i2",
        "scontrol update JobId=8 Nice=0",
        f"scontrol delete ReservationName={FENCE}",
        f"scontrol delete ReservationName={LEASE}",
    ]
    assert cluster.reservations == []
    cluster.jobs = [pending(7)]
    cluster.sent.clear()
    assert restore(executor) == []
    assert cluster.sent == [], "nothing is left to do"
    executor.close()


def test_off_restores_the_nice_value_of_a_job_that_runs_since(cluster: ActingCluster, tmp_path: Path) -> None:
    executor = PlanExecutor(cluster.slurm, OWNED, tmp_path, cluster.clock)
    executor.run_plan(plan(of(8, "nice", nice=16)))
    cluster.jobs[3] = running(8, "t2", Nice=16)
    cluster.sent.clear()
    assert restore(executor) == []
    assert ("scontrol", "update", "JobId=8", "Nice=0") in cluster.sent
    executor.close()


def test_off_restores_the_nice_value_of_a_job_with_the_id_of_a_lost_one(cluster: ActingCluster, tmp_path: Path) -> None:
    executor = PlanExecutor(cluster.slurm, OWNED, tmp_path, cluster.clock)
    cluster.jobs[3]["Nice"] = "7"
    executor.run_plan(plan(of(8, "nice", nice=-90)))
    cluster.jobs[3] |= {"Nice": "0", "SubmitTime": str(NOW_S - 5)}  # slurmctld has lost job 8
    executor.run_plan(plan({**of(8, "nice", nice=-80), "submit_s": NOW_S - 5}))
    cluster.jobs[3]["Nice"] = "-80"
    cluster.sent.clear()
    assert restore(executor) == []
    assert ("scontrol", "update", "JobId=8", "Nice=0") in cluster.sent
    executor.close()


def test_off_is_refused_while_a_controller_with_another_folder_acts(
    executor: PlanExecutor, cluster: ActingCluster, tmp_path: Path
) -> None:
    executor.begin()
    cluster.sent.clear()
    elsewhere = PlanExecutor(cluster.slurm, OWNED, tmp_path / "elsewhere", cluster.clock)
    with pytest.raises(SlurmRefused, match=r"another controller acts on this cluster.*--state"):
        restore(elsewhere)
    elsewhere.close()
    assert cluster.sent == []


def test_off_restores_nothing_twice(executor: PlanExecutor, cluster: ActingCluster) -> None:
    def nices(cells: str) -> list[str]:
        cluster.jobs[3]["Nice"] = cells
        cluster.sent.clear()
        assert restore(executor) == []
        return [argv[-1] for argv in cluster.sent if argv[-1].startswith("Nice")]

    executor.run_plan(plan(of(8, "nice", nice=-90)))
    cluster.refusing = "Nice"
    cluster.jobs[3]["Nice"] = "-90"
    assert len(restore(executor)) == 1, "a part was refused, and is restored when the command is repeated"
    cluster.refusing = "no such word"
    assert nices("-90") == ["Nice=0"]
    assert nices("500") == [], "the user has set it since"
    cluster.sent.clear()
    executor.run_plan(plan(of(8, "nice", nice=480)))
    assert nices("480") == ["Nice=500"], "what it was before this run, not before the first one"


def test_off_does_nothing_if_a_reservation_cannot_be_read(cluster: ActingCluster, tmp_path: Path) -> None:
    executor = PlanExecutor(cluster.slurm, OWNED, tmp_path, cluster.clock)
    cluster.reservations = [loan("i2"), loan("i1").replace("EndTime", "End")]
    with pytest.raises(SlurmUnreachable, match="show reservation printed 1 record that cannot be read"):
        restore(executor)
    assert cluster.sent == []
    executor.close()


def test_off_leaves_a_fence_of_the_operator_and_reports_what_slurm_refuses(
    executor: PlanExecutor, cluster: ActingCluster
) -> None:
    cluster.refusing = "delete"
    assert len(restore(executor)) == 1
    assert not [argv for argv in cluster.sent if f"ReservationName={FENCE}" in argv]
