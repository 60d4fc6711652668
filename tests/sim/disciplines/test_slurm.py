"""Reservations of the backfill loop, as a real Slurm 22.05.8 rounds them."""

from __future__ import annotations

from mirage.sim.cluster import Cluster
from mirage.sim.simulation import simulate
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from mirage.trace.table import JobTable


def starts(nodes: int, *jobs: tuple[int, int], resolution_s: int = 600) -> list[int]:
    """Starts of jobs of these nodes and limits, submitted a second after one another."""
    sizes, limits_s = zip(*jobs)
    table = JobTable.build(
        range(len(jobs)), submit_s=range(len(jobs)), elapsed_s=limits_s, limit_s=limits_s, nodes=sizes
    )
    settings = SlurmSettings(bf_interval_s=1, bf_resolution_s=resolution_s)
    return simulate(Cluster.pool(nodes), table, "slurm", settings).start_s.tolist()


def test_a_reservation_takes_no_idle_node_before_its_job_begins() -> None:
    """The second job begins on two nodes in three minutes; the third may have the last node."""
    assert starts(3, (2, 180), (2, 780), (1, 3600)) == [0, 180, 2]


def test_a_reservation_ends_at_the_resolution_before_the_limit() -> None:
    """The third job is planned for 600 s, before the second ends: the fourth waits."""
    jobs = (3, 180), (3, 780), (4, 1500), (1, 700)
    assert starts(4, *jobs) == [0, 180, 960, 180], "once the second job runs, its end is exact"
    assert starts(4, *jobs, resolution_s=1) == [0, 180, 960, 3]


def test_a_reservation_lasts_for_one_resolution_at_least() -> None:
    """The third job is planned for 600 s, after the second ends: the fourth fits."""
    assert starts(4, (3, 180), (3, 60), (4, 1500), (1, 500)) == [0, 180, 503, 3]
