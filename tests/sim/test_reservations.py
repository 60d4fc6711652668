"""Known reservations: which jobs start before them, wait, or are not affected."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirage.errors import ClusterError, ConfigurationError
from mirage.job_state import MISSING
from mirage.sim.check_schedule import check_schedule
from mirage.sim.cluster import CapacityChange, Cluster, Limit, NodeGroup, Partition, Reservation
from mirage.sim.simulation import Simulation, simulate
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from mirage.sim.workload import workload
from mirage.trace.table import JobTable

PLANNERS = ["fcfs", "easy", "conservative", "slurm"]
RARELY = 10**6
"""A backfill loop that comes this seldom leaves the main loop alone."""


def jobs(*rows: tuple[int, int, int], **columns: list[object]) -> JobTable:
    """Jobs of (submission, limit, nodes) that run until their limit."""
    submit_s, limit_s, nodes = (list(column) for column in zip(*rows))
    return JobTable.build(
        range(len(rows)), submit_s=submit_s, elapsed_s=limit_s, limit_s=limit_s, nodes=nodes, **columns
    )


def starts(cluster: Cluster, table: JobTable, discipline: str, settings: SlurmSettings | None = None) -> list[int]:
    schedule = simulate(cluster, workload(table, cluster), discipline, settings or SlurmSettings(bf_interval_s=1))
    check_schedule(schedule, cluster)
    return [int(time_s) for time_s in schedule.start_s]


def reserved(nodes: int, *reservations: Reservation) -> Cluster:
    return replace(Cluster.pool(nodes), reservations=reservations)


@pytest.mark.parametrize("discipline", PLANNERS)
def test_a_job_with_a_limit_up_to_maintenance_runs_and_one_a_second_longer_waits(
    discipline: str,
) -> None:
    cluster = reserved(4, Reservation(1000, 2000, "node", 4))
    assert starts(cluster, jobs((400, 600, 4)), discipline) == [400]
    assert starts(cluster, jobs((400, 601, 4)), discipline) == [2000]


@pytest.mark.parametrize("discipline", PLANNERS)
def test_nodes_need_not_be_ready_for_another_job_when_they_are_reserved(discipline: str) -> None:
    """With a turnover of a minute, one job ends at the begin of maintenance and one crosses."""
    turning = SlurmSettings(bf_interval_s=1, turnover_s=60)
    whole = reserved(4, Reservation(1000, 2000, "node", 4))
    assert starts(whole, jobs((0, 300, 4), (1, 640, 4)), discipline, turning) == [0, 360]
    assert starts(whole, jobs((0, 300, 4), (1, 641, 4)), discipline, turning) == [0, 2000]
    half = reserved(4, Reservation(1000, 2000, "node", 2))
    assert starts(half, jobs((0, 1000, 2), (1, 5000, 2), (2, 10, 2)), discipline, turning) == [0, 1, 2000]


@pytest.mark.parametrize("discipline", PLANNERS)
def test_plans_see_a_reservation_that_ends_within_a_turnover_of_another_s_begin(discipline: str) -> None:
    turning = SlurmSettings(bf_interval_s=1, bf_resolution_s=1, turnover_s=60)
    short = reserved(4, Reservation(1000, 1010, "node", 4))
    assert starts(short, jobs((0, 300, 4), (1, 641, 4)), discipline, turning) == [0, 1010]
    following = reserved(4, Reservation(500, 1030, "node", 2), Reservation(1000, 2000, "node", 2))
    assert starts(following, jobs((900, 105, 2)), discipline, turning) == [1030]


@pytest.mark.parametrize("discipline", PLANNERS)
def test_a_job_crosses_a_reservation_that_leaves_enough_nodes(discipline: str) -> None:
    cluster = reserved(4, Reservation(1000, 2000, "node", 3))
    assert starts(cluster, jobs((0, 5000, 1), (500, 600, 1)), discipline) == [0, 2000]


@pytest.mark.parametrize("discipline", ["easy", "conservative", "slurm"])
def test_shorter_jobs_run_before_maintenance_after_one_that_waits_for_its_end(discipline: str) -> None:
    cluster = reserved(4, Reservation(1000, 2000, "node", 4))
    table = jobs((0, 1200, 2), (0, 900, 4), (0, 1000, 1), (0, 100, 1))
    assert starts(cluster, table, discipline) == [2000, 0, 2000, 900]


@pytest.mark.parametrize("discipline", PLANNERS)
def test_no_job_makes_up_for_a_node_failed_in_use_when_a_reservation_begins(discipline: str) -> None:
    """Three of four nodes are in use, one fails and one is reserved: three are used at 1000."""
    cluster = replace(reserved(4, Reservation(1000, 2000, "node", 1)), changes=(CapacityChange(500, "node", -1),))
    assert starts(cluster, jobs((0, 3000, 3), (600, 100, 1)), discipline) == [0, 3000]


@pytest.mark.parametrize("discipline", PLANNERS)
def test_no_plan_includes_a_reservation_before_it_is_announced(discipline: str) -> None:
    cluster = reserved(4, Reservation(1000, 2000, "node", 4, announced_s=500))
    assert starts(cluster, jobs((400, 800, 2), (500, 700, 1)), discipline) == [400, 2000]


@pytest.mark.parametrize("discipline", PLANNERS)
def test_a_job_that_runs_when_its_nodes_are_reserved_holds_them_until_it_ends(discipline: str) -> None:
    """The nodes of a reservation return at its end, whatever ran on them."""
    cluster = reserved(4, Reservation(1000, 2000, "node", 3, announced_s=500))
    table = jobs((0, 1500, 3), (1100, 10, 1), (1600, 10, 2))
    assert starts(cluster, table, discipline) == [0, 1500, 2000]


def test_the_announcement_undoes_what_was_planned() -> None:
    """The second job would have begun at 800, with the end of the first."""
    table = jobs((0, 800, 4), (10, 400, 4), (20, 50, 4))
    late, early = Reservation(1000, 2000, "node", 4, announced_s=700), Reservation(1000, 2000, "node", 4)
    for discipline in ("easy", "conservative", "slurm"):
        assert starts(Cluster.pool(4), table, discipline) == [0, 800, 1200]
        assert starts(reserved(4, late), table, discipline) == starts(reserved(4, early), table, discipline)
        assert starts(reserved(4, early), table, discipline) == [0, 2000, 800]


def test_slurm_s_main_loop_passes_over_whom_reservations_leave_too_few_nodes() -> None:
    """One that waits for busy nodes closes its partition, as everywhere."""
    cluster = reserved(4, Reservation(1000, 2000, "node", 2))
    only_main = SlurmSettings(bf_interval_s=RARELY, weight_age=1000)
    over = jobs((0, 1500, 3), (1, 500, 3))
    assert starts(cluster, over, "slurm", only_main) == [2000, 1]
    busy = jobs((0, 1500, 1), (1, 1500, 2), (2, 500, 2))
    assert starts(cluster, busy, "slurm", only_main) == [0, 1500, 2000]


def test_where_jobs_share_nodes_those_that_cross_take_the_nodes_that_are_not_reserved() -> None:
    cluster = replace(Cluster.gpu(2, 4), reservations=(Reservation(1000, 2000, "gpu", 1),))
    sim = Simulation(cluster, workload(jobs((0, 3000, 1), (0, 500, 1), gpus=[4, 4], cpus=[1, 1]), cluster), "slurm")
    sim.advance(0)
    assert sorted(sim.view().running.id) == [0, 1]
    sim.advance(1500)
    assert sim.view().running.id.tolist() == [0]
    assert sim.view().nodes.capacity[:, 0].tolist() == [4, 0]


@pytest.mark.parametrize("shared", [False, True])
def test_reserved_nodes_are_no_capacity_while_they_are_reserved(shared: bool) -> None:
    cluster = Cluster((NodeGroup("a", 3, 0, 8), NodeGroup("b", 2, 0, 8)), shared_nodes=shared)
    made = (Reservation(100, 200, "a", 2, announced_s=50), Reservation(150, 250, "b", 1))
    cluster = replace(cluster, reservations=made)
    sim = Simulation(cluster, workload(jobs((0, 10, 1)), cluster), "slurm")
    found = []
    for time_s in (60, 120, 170, 220, 260):
        sim.advance(time_s)
        found.append(sim.view().nodes.total)
    assert found == [5, 3, 2, 4, 5]


@pytest.mark.parametrize("shared", [False, True])
def test_nodes_come_back_to_whom_they_left_from_overlapping_reservations(shared: bool) -> None:
    cluster = Cluster((NodeGroup("n", 4, 0, 1),), shared_nodes=shared)
    cluster = replace(
        cluster,
        changes=(CapacityChange(20, "n", -1), CapacityChange(60, "n", 1)),
        reservations=(Reservation(10, 50, "n", 1), Reservation(30, 90, "n", 2), Reservation(50, 70, "n", 1)),
    )
    sim = Simulation(cluster, workload(jobs((0, 1, 1)), cluster), "conservative")
    found = []
    for time_s in (5, 15, 25, 35, 55, 65, 75, 95):
        sim.advance(time_s)
        found.append((sim.view().nodes.total, int(sim.state.free[:, -1 if shared else 0].sum())))
    assert found == [(n, n) for n in (4, 3, 2, 0, 0, 1, 2, 4)]


def test_no_job_is_displaced_for_one_that_a_reservation_blocks_anyway() -> None:
    cluster = replace(
        reserved(2, Reservation(1000, 2000, "node", 2)),
        qos_factors={"low": 1.0, "high": 2.0},
        qos_preempts={"high": ("low",)},
    )
    table = jobs((0, 900, 2), (10, 1500, 2), (20, 300, 2), qos=["low", "high", "high"])
    schedule = simulate(cluster, workload(table, cluster), "slurm", SlurmSettings(weight_qos=1000))
    assert schedule.start_s.tolist()[1:] == [2000, 20]
    first = schedule.segments[schedule.segments.id == 0]
    assert first.end_s[0] == 20, "only the job that fits before the reservation displaces anybody"


def test_no_job_is_displaced_for_one_with_too_few_nodes_next_to_a_reservation() -> None:
    """Two of four nodes are reserved at 1000, one is in use: preempting frees too few."""
    cluster = replace(
        reserved(4, Reservation(1000, 2000, "node", 2)),
        qos_factors={"low": 1.0, "high": 2.0},
        qos_preempts={"high": ("low",)},
    )
    table = jobs((0, 900, 2), (0, 3000, 1), (10, 1500, 2), qos=["low", "high", "high"])
    schedule = simulate(cluster, workload(table, cluster), "slurm")
    assert len(schedule.segments) == 3
    assert schedule.start_s.tolist() == [0, 0, 2000]
    shorter = jobs((0, 900, 2), (0, 3000, 1), (10, 990, 2), qos=["low", "high", "high"])
    assert simulate(cluster, workload(shorter, cluster), "slurm").start_s.tolist()[1:] == [0, 10]


@pytest.mark.parametrize(
    ("reservation", "message"),
    [
        (Reservation(10, 20, "nodes", 1), "no node group 'nodes'"),
        (Reservation(10, 20, "node", 0), "reserves 0 nodes"),
        (Reservation(20, 20, "node", 1), "from 1970-01-01T00:00:20Z to 1970-01-01T00:00:20Z"),
        (
            Reservation(20, 30, "node", 1, announced_s=21),
            "20Z and is announced at 1970-01-01T00:00:21Z",
        ),
        (Reservation(20, 30, "node", 5), "-1 nodes from 1970-01-01T00:00:20Z on; changes and reservations"),
    ],
)
def test_what_cannot_be_a_reservation(reservation: Reservation, message: str) -> None:
    with pytest.raises(ClusterError, match=message):
        reserved(4, reservation)


def test_one_reservation_is_no_tuple() -> None:
    with pytest.raises(
        ClusterError, match=r"the reservations of a cluster are a tuple, even of one; got Reservation\("
    ):
        replace(Cluster.pool(4), reservations=Reservation(10, 20, "node", 1))  # type: ignore[arg-type]


def test_reservations_and_changes_may_not_take_more_nodes_than_there_are() -> None:
    with pytest.raises(ClusterError, match="-2 nodes from 1970-01-01T00:00:15Z"):
        replace(reserved(4, Reservation(10, 20, "node", 3)), changes=(CapacityChange(15, "node", -3),))
    cluster = replace(Cluster.gpu(4, 1), reservations=(Reservation(10, 20, "gpu", 3),))
    with pytest.raises(ClusterError, match="5 nodes from 1970-01-01T00:00:15Z"):
        replace(cluster, changes=(CapacityChange(15, "gpu", 1),))


@pytest.mark.parametrize("discipline", ["srtf", "mirage-2023"])
def test_disciplines_that_do_not_plan_by_limits_refuse_reservations_and_limits(discipline: str) -> None:
    for declared in ({"reservations": (Reservation(10, 20, "node", 1),)}, {"limits": (Limit(ageing=1), Limit(jobs=2))}):
        cluster = replace(Cluster.pool(4), **declared)
        message = f"does not support {next(iter(declared))}, and the cluster has 1; use fcfs, easy, conservative, slurm"
        with pytest.raises(ConfigurationError, match=message):
            Simulation(cluster, workload(jobs((0, 1, 1)), cluster), discipline)
    cluster = replace(Cluster.pool(4), limits=(Limit(ageing=1),))
    assert starts(cluster, jobs((0, 60, 1)), discipline) == [0]


def test_a_job_no_reservation_leaves_time_for_waits_and_time_ends() -> None:
    cluster = reserved(2, *(Reservation(1000 * k, 1000 * k + 500, "node", 2) for k in range(1, 5)))
    schedule = simulate(cluster, workload(jobs((0, 1001, 1), (1, 600, 1)), cluster), "slurm")
    assert schedule.start_s.tolist() == [4500, 1]
    assert MISSING not in schedule.start_s


def test_partitions_that_do_not_use_the_reserved_group_do_not_see_it() -> None:
    groups = (NodeGroup("a", 2), NodeGroup("b", 2))
    cluster = Cluster(
        groups, (Partition("pa", ("a",)), Partition("pb", ("b",))), reservations=(Reservation(100, 200, "a", 2),)
    )
    table = jobs((0, 150, 2), (0, 150, 2), partition=["pa", "pb"])
    for discipline in ("easy", "conservative", "slurm"):
        assert starts(cluster, table, discipline) == [200, 0]
