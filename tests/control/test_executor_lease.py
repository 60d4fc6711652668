"""One executor: its lock, its lease in Slurm, and the fence."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mirage.control import executor_process
from mirage.control.controller_lease import RENEW_S
from mirage.control.executor_folder import lock_holder
from mirage.control.plan_executor import PlanExecutor
from mirage.control.verbs import FENCE, LEASE
from mirage.errors import ConfigurationError, SlurmRefused
from mirage.slurm.runner import Completed
from tests.support.acting_cluster import OWNED, ActingCluster, of, plan, snapshot_of
from tests.support.control_cluster import NOW_S, POOLS


def test_one_controller_by_folder_and_one_by_lease(cluster: ActingCluster, tmp_path: Path) -> None:
    first = PlanExecutor(cluster.slurm, OWNED, tmp_path / "a", cluster.clock)
    first.begin()
    assert lock_holder(tmp_path / "a") == os.getpid()
    with pytest.raises(ConfigurationError, match=f"process {os.getpid()}.*mirage control off"):
        PlanExecutor(cluster.slurm, OWNED, tmp_path / "a", cluster.clock)
    second = PlanExecutor(cluster.slurm, OWNED, tmp_path / "b", cluster.clock)
    for _ in range(20):
        with pytest.raises(SlurmRefused, match="another controller"):
            second.begin()
    second.close()
    first.close()
    assert lock_holder(tmp_path / "a") is None
    again = PlanExecutor(cluster.slurm, OWNED, tmp_path / "a", cluster.clock)
    again.begin()
    assert cluster.sent[-1] == ("scontrol", "update", f"ReservationName={LEASE}", "EndTime=now+5minutes")
    again.close()


def test_a_process_that_died_as_it_took_the_lease_is_followed_at_once(
    cluster: ActingCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = PlanExecutor(cluster.slurm, OWNED, tmp_path, cluster.clock)
    original = cluster.run

    def run(argv: Sequence[str], **options: Any) -> Completed:
        done = original(argv, **options)
        if f"ReservationName={LEASE}" in argv:
            raise KeyboardInterrupt
        return done

    with monkeypatch.context() as patch:
        patch.setattr(cluster, "run", run)
        with pytest.raises(KeyboardInterrupt):
            cut.begin()
    cut.close()
    (lease,) = [line for line in cluster.reservations if LEASE in line]
    again = PlanExecutor(cluster.slurm, OWNED, tmp_path, cluster.clock)
    again.begin()
    assert cluster.sent[-1] == ("scontrol", "update", f"ReservationName={LEASE}", "EndTime=now+5minutes")
    cluster.reservations.append(re.sub("StartTime=.......", "StartTime=1234567", lease))
    cluster.reservations.remove(lease)
    with pytest.raises(SlurmRefused, match="another controller"):
        again.begin()
    again.close()


def test_a_lease_that_slurmctld_has_lost_is_taken_before_the_next_verb(
    executor: PlanExecutor, cluster: ActingCluster
) -> None:
    executor.begin()
    lease = cluster.reservations.pop()
    assert executor.run_plan(plan(of(5, "evict", warns=False))) == 0
    assert [argv[3] for argv in cluster.sent if argv[1] == "create"] == [f"ReservationName={LEASE}"] * 2
    assert cluster.sent[2][1] == "requeue"
    cluster.reservations[-1:] = [re.sub("StartTime=.......", "StartTime=1234567", lease)]
    before = len(cluster.sent)
    with pytest.raises(SlurmRefused, match="another controller acts on this cluster"):
        executor.run_plan(plan({"name": "return", "node": "i2"}))
    for renew, later_s in ((executor.tick, 150), (lambda: executor.observe(snapshot_of(cluster)), 0)):
        cluster.now_s += later_s
        with pytest.raises(SlurmRefused, match="another controller acts on this cluster"):
            renew()
    assert len(cluster.sent) == before


def test_queries_of_the_holder_do_not_disturb_the_lock(cluster: ActingCluster, tmp_path: Path) -> None:
    PlanExecutor(cluster.slurm, OWNED, tmp_path, cluster.clock).close()
    with (tmp_path / "lock").open() as query:
        fcntl.flock(query, fcntl.LOCK_SH)
        assert lock_holder(tmp_path) is None, "a query is no controller"
        timer = threading.Timer(0.2, fcntl.flock, (query, fcntl.LOCK_UN))
        timer.start()
        PlanExecutor(cluster.slurm, OWNED, tmp_path, cluster.clock).close()
        timer.join()


def test_the_lock_ends_before_a_thread_that_hangs(executor: PlanExecutor, tmp_path: Path) -> None:
    lock = tmp_path / "state" / "lock"
    descriptors = [int(link.name) for link in Path("/proc/self/fd").iterdir() if link.exists() and link.samefile(lock)]
    copies = [os.dup(descriptor) for descriptor in descriptors]
    assert len(copies) == 1
    executor.close()
    assert lock_holder(tmp_path / "state") is None
    executor._lock = copies[0]  # which the fixture closes


def test_a_controller_that_has_just_ended_needs_no_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    holders = iter([process.pid, None])
    monkeypatch.setattr(executor_process, "lock_holder", lambda _: next(holders))
    executor_process.end_controller(tmp_path)
    assert list(holders) == [], "the lock is checked until it is free"


def test_an_executor_that_cannot_begin_shows_why(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "state").write_text("no folder")
    (tmp_path / "pools.toml").write_text(
        '[owner]\nnodes = ["i1"]\npartitions = ["inference"]\n[borrower]\nnodes = ["t1"]\npartition = "train"\n'
        '[jobs]\ncomment = "mirage-control"\n'
    )
    assert executor_process.start_executor(tmp_path / "pools.toml", tmp_path / "state") is None
    assert f"mirage: error: cannot write {tmp_path}/state: File exists; name another" in capfd.readouterr().err

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(executor_process, "run_executor", full)
    assert executor_process.start_executor(tmp_path / "pools.toml", tmp_path / "free") is None
    assert "OSError: [Errno 28] No space left on device" in capfd.readouterr().err


def test_an_executor_ends_quietly_if_its_planner_was_killed_before_it_acts(
    cluster: ActingCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pools.toml").write_text(
        '[owner]\nnodes = ["i1"]\npartitions = ["inference"]\n[borrower]\nnodes = ["t1"]\npartition = "train"\n'
        '[jobs]\ncomment = "mirage-control"\n'
    )
    monkeypatch.setattr(executor_process, "SlurmClient", lambda: cluster.slurm)
    monkeypatch.setattr(executor_process.signal, "signal", lambda *_: None)
    monkeypatch.setattr(time, "clock_gettime", lambda _: float(NOW_S))
    reads, writes = os.pipe()
    os.close(reads)
    planner = os.getpid()  # which is not the parent of this process
    begun = lambda: executor_process._write_and_close(writes)  # noqa: E731
    assert executor_process.run_executor(tmp_path / "pools.toml", tmp_path / "state", planner, begun) == 0


@pytest.mark.parametrize(("by", "after_s"), [("a snapshot", RENEW_S), ("itself", 150)])
def test_the_lease_is_renewed_in_time(executor: PlanExecutor, cluster: ActingCluster, by: str, after_s: int) -> None:
    executor.begin()
    before, queries = len(cluster.sent), len(cluster.ran)
    renew = executor.tick if by == "itself" else lambda: executor.observe(snapshot_of(cluster))
    cluster.now_s += after_s - 1
    renew()
    assert len(cluster.sent) == before
    cluster.now_s += 1
    renew()
    assert "EndTime" in cluster.sent[-1][-1]
    taken = 2 * 3 if by == "a snapshot" else 1
    assert len(cluster.ran) - queries == taken, "a snapshot has the reservations already"
    assert after_s * 2 <= 5 * 60


def test_nothing_is_sent_after_the_lease_has_ended(executor: PlanExecutor, cluster: ActingCluster) -> None:
    executor.begin()
    before = len(cluster.sent)
    cluster.now_s += 270
    assert executor.run_plan(None) == 1
    cluster.now_s += 1
    for act in (executor.tick, lambda: executor.run_plan(plan(of(5, "evict"), time_s=int(cluster.now_s)))):
        with pytest.raises(SlurmRefused, match="the lease has ended"):
            act()
    assert len(cluster.sent) == before


def test_the_fence_is_made_if_its_users_are_known(cluster: ActingCluster, tmp_path: Path) -> None:
    cluster.reservations = []
    without = PlanExecutor(cluster.slurm, POOLS, tmp_path / "a", cluster.clock)
    with pytest.raises(ConfigurationError, match=r"give .owner. users or accounts"):
        without.begin()
    without.close()
    assert cluster.sent == []
    executor = PlanExecutor(cluster.slurm, OWNED, tmp_path / "b", cluster.clock)
    executor.begin()
    assert " ".join(cluster.sent[-1]) == (
        f"scontrol create reservation ReservationName={FENCE} Nodes=i1,i2,i3 StartTime=now Duration=infinite Users=bob "
        "Flags=IGNORE_JOBS,OVERLAP"
    )
    executor.close()
