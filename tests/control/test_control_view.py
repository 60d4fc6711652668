"""The view of the pools: servers, jobs, loans, and what is left out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirage.control.adviser import Adviser
from mirage.control.control_view import (
    INFERENCE,
    TRAINING,
    ControlView,
    FirstSubmissions,
    control_view,
)
from mirage.control.progress_files import JobProgress
from mirage.errors import SlurmUnreachable
from mirage.schedule.scheduler_contract import JobStatus
from mirage.slurm.gpu_snapshot import take_gpu_snapshot
from tests.support.control_cluster import NOW_S, POOLS, ControlCluster, loan, pending, running


def view_of(cluster: ControlCluster, first: FirstSubmissions | None = None, **changes: object) -> ControlView:
    snapshot = take_gpu_snapshot(cluster.slurm, NOW_S)
    return control_view(snapshot, replace(POOLS, **changes), first or FirstSubmissions())  # type: ignore[arg-type]


def begins_in(seconds: int) -> str:
    """A reservation of t1 in the future."""
    line = loan("t1", 9000, name="course", state="INACTIVE")
    return line.replace(f"StartTime={NOW_S - 60}", f"StartTime={NOW_S + seconds}")


def test_idle_and_lent_nodes_of_the_owner_are_servers_and_busy_or_broken_ones_are_not() -> None:
    cluster = ControlCluster(jobs=[pending(5), running(6, "i3", Partition="inference", UserName="bob")])
    cluster.reservations = [loan("i2", 1200), loan("i1", name="other")]
    cluster.nodes["t2"] = ("drained", "gpu:a100:8", "gpu:a100:0", "train")
    view = view_of(cluster)
    servers = view.view.servers
    assert view.nodes == ("t1", "t2", "i1", "i2")
    assert servers.gpus.tolist() == [8, 8, 4, 4]
    assert servers.free.tolist() == [8, 0, 4, 4]
    assert servers.home.tolist() == [TRAINING, TRAINING, INFERENCE, INFERENCE]
    assert servers.pool.tolist() == [TRAINING, TRAINING, INFERENCE, TRAINING]
    assert servers.lent_until_s.tolist()[3] == NOW_S + 1200
    assert view.loans == {"i2": NOW_S + 1200}
    assert view.surroundings.gpu_types == ("a100", "t4")
    cluster.nodes["i1"] = ("mixed", "gpu:t4:4", "gpu:t4:1", "inference")
    assert view_of(cluster).nodes == ("t1", "t2", "i2"), "a job that squeue hides is there"
    cluster.nodes["i1"] = ("down", "gpu:t4:4", "gpu:t4:0", "inference")
    assert view_of(cluster).nodes == ("t1", "t2", "i2")


def test_a_node_with_all_cpus_in_use_has_no_free_gpu() -> None:
    cluster = ControlCluster(jobs=[pending(5)])
    cluster.nodes["t1"] = ("allocated", "gpu:a100:8", "gpu:a100:2", "train")
    assert view_of(cluster).view.servers.free.tolist()[:2] == [0, 8]


@pytest.mark.parametrize(
    ("line", "free"),
    [
        (loan("t1", name="course"), 0),
        (begins_in(3599), 0),
        (begins_in(3600), 5),
        (loan("t2", name="course"), 5),
        (f"{loan('t1', name='course')} NodeName=t1 CoreIDs=0-1", 5),
        (loan("t1", name="mirage-fence"), 5),
    ],
)
def test_gpus_of_a_node_that_is_reserved_for_others_are_not_free(line: str, free: int) -> None:
    cells = {"tres_per_job": "gres:gpu:3", "tres_per_node": "N/A", "Comment": "mirage-control gpus=3-12"}
    cluster = ControlCluster(jobs=[running(5, "t1", **cells), pending(6, TimeLimit="9:00:00")], reservations=[line])
    assert view_of(cluster, scheduler="aryl", most_gpus=12).view.servers.free.tolist()[0] == free
    cluster.jobs.pop(0)
    cluster.reservations = [begins_in(3599)]
    assert view_of(cluster, scheduler="aryl").view.servers.free.tolist()[0] == 8, "no job can grow"


def test_a_lent_node_with_a_job_of_the_owner_is_taken_back() -> None:
    cluster = ControlCluster(jobs=[pending(5), running(6, "i2", Partition="inference"), running(7, "i1")])
    cluster.reservations = [loan("i1"), loan("i2")]
    cluster.nodes["i1"] = ("mixed", "gpu:t4:4", "gpu:t4:4", "inference train")
    view = view_of(cluster)
    assert (view.nodes, view.taken_back) == (("t1", "t2", "i1", "i3"), ("i2",))
    cluster.jobs.append(running(8, "i1", Partition="inference"))
    assert view_of(cluster).taken_back == ("i2",)


def test_a_loan_of_another_node_or_a_stranger_or_of_the_past_is_no_loan() -> None:
    cluster = ControlCluster(jobs=[pending(5)])
    cluster.reservations = [loan("i1", name="mirage-loan-i2"), loan("t1"), loan("i3", -1), loan("i1", state="INACTIVE")]
    assert view_of(cluster).loans == {}


def test_a_job_on_a_node_of_the_owner_without_a_loan_is_overdue() -> None:
    cluster = ControlCluster(jobs=[running(6, "i1")])
    cluster.nodes["i1"] = ("mixed", "gpu:t4:4", "gpu:t4:4", "inference train")
    view = view_of(cluster)
    server = view.nodes.index("i1")
    assert view.view.servers.pool[server] == TRAINING
    assert view.view.servers.lent_until_s[server] == NOW_S
    assert view.view.held.of(0) == {server: 4}


def test_jobs_are_numbered_by_first_submission_and_hold_their_gpus() -> None:
    late, early = pending(3, SubmitTime=NOW_S - 10), pending(9, SubmitTime=NOW_S - 500)
    wide = running(4, "t[1-2]", tres_per_job="gres:gpu:9", tres_per_node="N/A", SubmitTime=NOW_S - 1300, RestartCnt=1)
    cluster = ControlCluster(jobs=[late, early, wide])
    for name, used in (("t1", 5), ("t2", 4)):
        cluster.nodes[name] = ("mixed", "gpu:a100:8", f"gpu:a100:{used}", "train")
    view = view_of(cluster)
    jobs = view.view.jobs
    assert [job.id for job in view.jobs] == [4, 9, 3]
    assert jobs.status.tolist() == [JobStatus.RUNNING, JobStatus.PENDING, JobStatus.PENDING]
    assert jobs.gpus.tolist() == [9, 4, 4]
    assert (jobs.held.tolist(), jobs.servers.tolist()) == ([9, 0, 0], [2, 0, 0])
    assert view.view.held.of(0) == {0: 5, 1: 4}
    assert view.view.servers.free.tolist()[:2] == [3, 4]
    assert (jobs.run_s[0], round(jobs.done[0] * 3), jobs.attained_gpu_s[0]) == (3600, 1, 9 * 1200)
    assert (jobs.safe_progress.tolist(), jobs.restarts.tolist()) == ([0, 0, 0], [1, 0, 0])


def test_what_is_left_out_is_counted_by_reason() -> None:
    jobs = [
        pending(1, Comment=""),
        pending(2, Comment="", Account="vision"),
        pending(3, PriorityLong=0, Reason="JobHeldUser"),
        pending(4, tres_per_node="N/A"),
        pending(5, tres_per_node="gres:gpu:h100:1"),
        pending(6, NumNodes=9),
        pending(7, ReqNodes="t1"),
        pending(8, Partition="debug"),
        pending(14, Reservation="weekly"),
        pending(15, Reservation="mirage-loan-i1", Reason="Reservation"),
        pending(16, Reason="Reservation"),
        running(9, "t1", State="COMPLETING"),
        running(10, "x1"),
        pending(11, Comment="not-mirage-control"),
        pending(12, Comment="a, mirage-control"),
        pending(13, State="COMPLETED"),
        pending(17, tres_per_node="N/A", tres_per_socket="gres:gpu:2"),
        pending(18, tres_per_node="N/A", tres_per_task="gres:gpu:2", NumTasks=9),
    ]
    view = view_of(ControlCluster(jobs=jobs))
    assert [job.id for job in view.jobs] == [2, 12, 15, 16]
    assert view.left_out == {
        "has not opted in": 2,
        "does not compete: held, or waits for a time, a job or a limit": 1,
        "has no GPU": 1,
        "needs a GPU type that the pools do not have": 1,
        "needs more GPUs than the view has of one type": 2,
        "requests GPUs per socket: their number is not known": 1,
        "requires nodes by name": 1,
        "names a reservation of its own": 1,
        "is completing": 1,
        "runs outside of the pools": 1,
    }


def test_the_owner_wants_the_nodes_of_its_pending_jobs() -> None:
    of_owner = {"Partition": "inference", "Comment": "", "NumNodes": 2}
    jobs = [pending(1), pending(2, **of_owner), pending(3, **{**of_owner, "PriorityLong": 0, "Reason": "JobHeldUser"})]
    servers = view_of(ControlCluster(jobs=jobs)).view.servers
    assert servers.wanted.tolist() == [0, 2]
    assert servers.wanted_soon.tolist() == [0, 2]
    cluster = ControlCluster(jobs=[pending(1), pending(2, Partition="inference", ArrayTaskID="0-2")])
    assert view_of(cluster).view.servers.wanted.tolist() == [0, 3], "each task of an array wants a node"


@pytest.mark.parametrize("scheduler", ["fifo", "sjf"])
def test_a_job_that_needs_more_gpus_of_its_type_than_there_are_blocks_no_other(scheduler: str) -> None:
    never = pending(4, tres_per_node="gres:gpu:t4:7", NumNodes=2, SubmitTime=NOW_S - 900, PriorityLong=900)
    cluster = ControlCluster(jobs=[never, pending(7)])
    advice = Adviser(cluster.slurm, replace(POOLS, scheduler=scheduler)).advise(NOW_S)
    assert [(step.kind, step.subject) for step in advice.steps] == [("start", "7")]
    assert advice.view is not None
    assert advice.view.left_out == {"needs more GPUs than the view has of one type": 1}


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ({"t1": None}, "does not report t1 of pools.toml"),
        ({"t1": ("unknown", "gpu:8", "gpu:0", "train")}, "does not know the state of t1 yet"),
        ({name: ("idle", "(null)", "(null)", "train") for name in ("t1", "t2", "i1", "i2", "i3")}, "no node .* a GPU"),
    ],
)
def test_no_view_of_a_cluster_that_is_not_known_completely(nodes: dict, message: str) -> None:
    cluster = ControlCluster(jobs=[pending(1)])
    cluster.nodes = {name: cells for name, cells in {**cluster.nodes, **nodes}.items() if cells}
    with pytest.raises(SlurmUnreachable, match=message):
        view_of(cluster)


def test_a_requeued_job_retains_its_first_submission_and_a_reused_id_is_another_job() -> None:
    first, cluster = FirstSubmissions(), ControlCluster(jobs=[running(7, "t1", SubmitTime=NOW_S - 900)])
    assert view_of(cluster, first).jobs[0].submit_s == NOW_S - 900
    cluster.jobs = [pending(7, SubmitTime=NOW_S - 5, RestartCnt=1)]
    assert view_of(cluster, first).jobs[0].submit_s == NOW_S - 900
    cluster.jobs = [pending(7, SubmitTime=NOW_S - 2, RestartCnt=0)]
    assert view_of(cluster, first).jobs[0].submit_s == NOW_S - 2
    cluster.jobs = [pending(8)]
    view_of(cluster, first)
    cluster.jobs = [pending(7, SubmitTime=NOW_S - 2, RestartCnt=3)]
    assert view_of(cluster, first).jobs[0].submit_s == NOW_S - 2


def test_a_requeued_job_that_still_completes_retains_its_first_submission() -> None:
    """Slurm counts the restart at once, and sets the submit time when the job has left."""
    first, cluster = FirstSubmissions(), ControlCluster(jobs=[running(7, "t1", SubmitTime=NOW_S - 900)])
    view_of(cluster, first)
    cluster.jobs = [running(7, "t1", State="COMPLETING", SubmitTime=NOW_S - 900, RestartCnt=1), pending(8)]
    view_of(cluster, first)
    cluster.jobs = [pending(7, SubmitTime=NOW_S - 5, RestartCnt=1)]
    assert view_of(cluster, first).jobs[0].submit_s == NOW_S - 900


def test_a_job_without_a_limit_is_expected_to_run_for_a_year() -> None:
    view = view_of(ControlCluster(jobs=[pending(1, TimeLimit="UNLIMITED")]))
    assert view.view.jobs.run_s.tolist() == [365 * 86400]


def test_progress_comes_from_the_file_of_the_job() -> None:
    snapshot = take_gpu_snapshot(ControlCluster(jobs=[running(7, "t1")]).slurm, NOW_S)
    jobs = control_view(snapshot, POOLS, FirstSubmissions(), lambda job: JobProgress(0.5, 0.25)).view.jobs
    assert (jobs.done[0], jobs.progress[0], jobs.safe_progress[0]) == (0.5, 0.5 * 4 * 3600, 0.25 * 4 * 3600)


def test_an_elastic_job_has_the_base_of_its_range_and_works_with_all_it_holds() -> None:
    cells = {"tres_per_job": "gres:gpu:6", "tres_per_node": "N/A", "Comment": "mirage-control gpus=3-12"}
    cluster = ControlCluster(jobs=[running(5, "t1", **cells), running(6, "t2")])
    jobs = view_of(cluster, scheduler="aryl", most_gpus=9).view.jobs
    assert [column.tolist() for column in (jobs.gpus, jobs.min_gpus, jobs.max_gpus, jobs.held)] == [
        [3, 4], [3, 4], [9, 4], [6, 4],
    ]  # fmt: skip
    assert jobs.done.tolist() == pytest.approx([2 / 3, 1 / 3]), "20 of 60 minutes on twice its base"
    assert jobs.attained_gpu_s.tolist() == [6 * 1200, 4 * 1200]
    rigid = view_of(cluster, scheduler="fifo", most_gpus=9).view.jobs
    assert [column.tolist() for column in (rigid.gpus, rigid.max_gpus)] == [[6, 4], [6, 4]]
