"""Jobs, accounts, nodes and options as the simulated Slurm reports them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mirage.duration import UNLIMITED_S
from mirage.job_state import MISSING, JobState
from mirage.lab.virtual.program import Program
from mirage.lab.virtual.virtual_slurm import VirtualSlurm
from mirage.sim.cluster import Cluster, Limit, NodeGroup, Partition
from mirage.sim.simulation import Simulation
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from mirage.sim.workload import workload
from mirage.slurm.records import AccountedJob, Machine, Node, QueuedJob
from mirage.slurm.records import SlurmPartition as ShownPartition
from mirage.slurm.slurm_view import is_blocked
from mirage.slurm_words.reasons import in_words
from tests.support.faulty_slurm import FaultySlurm
from tests.support.small_slurm import BEGIN_S, FOUR_JOBS, job_of, small_slurm, submit, trace

SHARED = Cluster(
    (NodeGroup("big", 2, 8, 64), NodeGroup("small", 1, 0, 16)),
    (Partition("gpu", ("big",), tier=3, max_limit_s=1800), Partition("all")),
    True,
    {"high": 2.0, "low": 1.0},
)


def test_a_job_from_its_submission_to_its_end(folder: Path) -> None:
    slurm = small_slurm(SHARED, Program(run_s=100, exit_code=3))
    options = {"gpus_per_node": "2", "cpus_per_task": "4", "qos": "high", "account": "phys", "comment": "mirage:x:1"}
    number = submit(slurm, folder / "job.sh", **options, hold=None, time="10", nodes="2")
    waiting = QueuedJob(
        1, JobState.PENDING, name="job.sh", user="me", account="phys", partition="gpu", qos="high",
        reason="JobHeldUser", priority=0.0, nodes=2, cpus=8, gpus=4, limit_s=600, submit_s=BEGIN_S,
        comment="mirage:x:1",
    )  # fmt: skip
    assert slurm.observe().jobs == (waiting,)
    slurm.sleep(20)
    slurm.release(number)
    slurm.sleep(5)
    runs = replace(
        waiting, state=JobState.RUNNING, reason="", priority=1.0, eligible_s=BEGIN_S + 20, accrues_s=BEGIN_S + 20,
        start_s=BEGIN_S + 20, end_s=BEGIN_S + 620, nodelist="n[1-2]",
    )  # fmt: skip
    assert slurm.observe().jobs == (runs,)
    line = "sbatch --parsable --time=10 --nodes=2 --gpus-per-node=2 --cpus-per-task=4 --qos=high --account=phys"
    account = AccountedJob(
        1, JobState.RUNNING, "job.sh", "me", "phys", "gpu", "high", 2, 600, BEGIN_S, BEGIN_S, BEGIN_S + 20,
        submit_line=f"{line} --comment=mirage:x:1 --hold {folder}/job.sh", cpus=8,
    )  # fmt: skip
    assert slurm.accounting(BEGIN_S + 1000) == (account,)
    slurm.sleep(100)
    end_s = BEGIN_S + 120
    over = replace(
        runs, state=JobState.FAILED, reason="NonZeroExitCode", priority=0.0, eligible_s=BEGIN_S, accrues_s=MISSING,
        end_s=end_s, exit_code=3,
    )  # fmt: skip
    assert slurm.observe().jobs == (over,)
    ended = replace(account, state=JobState.FAILED, end_s=end_s, exit_code=3, comment="mirage:x:1")
    assert slurm.accounting(end_s) == (ended,)
    assert slurm.accounting(end_s + 1) == ()


def test_jobs_of_the_trace(folder: Path) -> None:
    slurm = small_slurm(at_s=400, account=["x", "y", "x", "y"], qos=["", "", "", ""], **FOUR_JOBS)
    ended = QueuedJob(
        1, JobState.FAILED, name="a", user="ada", account="x", partition="batch", qos="normal", nodes=1, cpus=1,
        limit_s=600, submit_s=BEGIN_S, eligible_s=BEGIN_S, start_s=BEGIN_S, end_s=BEGIN_S + 300, exit_code=1,
        whole_nodes=True,
    )  # fmt: skip
    runs = QueuedJob(
        2, JobState.RUNNING, name="b", user="bob", account="y", partition="batch", qos="normal", priority=1.0, nodes=2,
        cpus=2, limit_s=600, submit_s=BEGIN_S, eligible_s=BEGIN_S, accrues_s=BEGIN_S, start_s=BEGIN_S,
        end_s=BEGIN_S + 600,
        nodelist="n[1-2]", whole_nodes=True,
    )  # fmt: skip
    waits = QueuedJob(
        3, JobState.PENDING, name="c", user="ada", account="x", partition="batch", qos="normal", reason="Resources",
        priority=1.0, nodes=3, cpus=3, limit_s=1200, submit_s=BEGIN_S + 10, eligible_s=BEGIN_S + 10,
        accrues_s=BEGIN_S + 10, whole_nodes=True,
    )  # fmt: skip
    follower = replace(
        waits, id=4, name="d", user="bob", account="y", reason="Priority", nodes=1, cpus=1, submit_s=BEGIN_S + 20,
        eligible_s=BEGIN_S + 20, accrues_s=BEGIN_S + 20,
    )  # fmt: skip
    queue = slurm.observe()
    assert queue.time_s == BEGIN_S + 400
    assert {job.id: job for job in queue.jobs} == {1: ended, 2: runs, 3: waits, 4: follower}
    found = {job.id: (job.state, job.start_s, job.end_s, job.exit_code) for job in slurm.accounting(0)}
    assert found == {
        1: (JobState.FAILED, BEGIN_S, BEGIN_S + 300, 1),
        2: (JobState.RUNNING, BEGIN_S, MISSING, 0),
        3: (JobState.PENDING, MISSING, MISSING, 0),
        4: (JobState.PENDING, MISSING, MISSING, 0),
    }


def test_how_jobs_of_the_trace_end() -> None:
    columns = {"submit_s": [0, 0], "elapsed_s": [60, 90], "limit_s": [60, 60], "nodes": [1, 1], "state": [3, 6]}
    slurm = small_slurm(at_s=100, **columns)
    found = {job.id: (job.state, job.end_s - BEGIN_S, job.exit_code, job.name) for job in slurm.observe().jobs}
    assert found == {1: (JobState.COMPLETED, 60, 0, "job"), 2: (JobState.TIMEOUT, 60, 0, "job")}


def test_a_job_that_would_take_its_user_over_a_limit_shows_it(folder: Path) -> None:
    ada = {"submit_s": [0, 0, 0], "elapsed_s": [60] * 3, "limit_s": [60] * 3, "nodes": [1, 1, 2], "user": ["ada"] * 3}
    for limit, reasons in (
        (Limit(jobs=1), {2: "QOSMaxJobsPerUserLimit", 3: "QOSMaxJobsPerUserLimit"}),
        (Limit(nodes=2), {3: "QOSMaxNodePerUserLimit"}),
        (Limit(gpus=23), {3: "QOSMaxGRESPerUser"}),
        (Limit("account", jobs=2), {3: "MaxJobsPerAccount"}),
        (Limit("account", nodes=3), {3: "MaxNodePerAccount"}),
        (Limit("account", gpus=16), {3: "MaxGRESPerAccount"}),
        (Limit("all", jobs=2), {3: "QOSGrpJobsLimit"}),
        (Limit("all", nodes=3), {3: "QOSGrpNodeLimit"}),
        (Limit("all", gpus=16), {3: "QOSGrpGRES"}),
    ):
        cluster = Cluster((NodeGroup("node", 4, gpus=8),), limits=(limit,))
        slurm = small_slurm(cluster, discipline="slurm", at_s=5, **ada)
        queue = slurm.observe()
        waiting = [job for job in queue.jobs if job.state is JobState.PENDING]
        assert {job.id: job.reason for job in waiting} == reasons
        assert all(is_blocked(job, queue.time_s) for job in waiting)
        assert all(in_words(job.reason) != job.reason for job in waiting), "it is said in words"


@pytest.mark.parametrize(("shared", "relative"), [(False, False), (True, False), (False, True), (True, True)])
def test_a_job_that_waits_for_another_shows_the_priority_of_a_free_one_without_age(
    folder: Path, *, shared: bool, relative: bool
) -> None:
    """Priority as squeue of Slurm 22.05.8 shows it: nice, QOS, partition, size, share."""
    cluster = Cluster(
        (NodeGroup("node", 4, 8, 64),), (Partition("low"), Partition("high", job_factor=5.0)), shared, {"a": 2, "b": 1}
    )
    weights = {"weight_fairshare": 1000.0, "weight_size": 700.0, "weight_partition": 500.0, "weight_qos": 300.0}
    settings = SlurmSettings(
        weight_age=9000.0,
        max_age_s=36_000,
        weight_gpus=90.0,
        weight_cpus=40.0,
        calc_period_s=60,
        size_over_time=relative,
        **weights,
    )
    table = trace(
        submit_s=[0, 10, 210], elapsed_s=[200, 60, 9000], limit_s=[200, 60, 9000], nodes=[3, 1, 3],
        user=["ada", "me", "bob"], state=[3, 3, 3],
    )  # fmt: skip
    simulation = Simulation(cluster, workload(table, cluster), "slurm", settings, begin_s=BEGIN_S)
    slurm = FaultySlurm(simulation, lambda _: Program())
    slurm.sleep(300)
    options = {"nodes": "2", "partition": "high", "qos": "b", "nice": "30", "gpus_per_node": "3", "cpus_per_task": "5"}
    submit(slurm, folder / "job.sh", nodes="1", time="100")
    slurm.sleep(1)
    waits = ({}, {"dependency": "afterany:4"}, {"begin": "now+9000"}, {"hold": None})
    jobs = [submit(slurm, folder / "job.sh", **options, **wait) for wait in waits]
    slurm.sleep(1)
    free, after, begins, held = [job_of(slurm, number).priority for number in jobs]
    assert after == free == begins > 500 + 150 + (0 if relative else 350) - 30
    assert held == 0.0
    slurm.sleep(600)
    free_later, after_later, begins_later, held_later = [job_of(slurm, number).priority for number in jobs]
    assert 9000 * 500 / 36_000 <= free_later - after_later <= 9000 * 602 / 36_000, "the free one has age"
    overtaken = 0 if shared else 250  # one of four users, whose node-seconds the user's 600 exceed, but not CPU-seconds
    assert begins_later == after_later == after - overtaken
    assert held_later == 0.0
    slurm.update(jobs[0], {"Dependency": "afterany:4"})
    assert job_of(slurm, jobs[0]).priority == free_later, "held again it has the age that it had"


def test_a_whole_node_job_has_all_that_its_nodes_have(folder: Path) -> None:
    slurm = small_slurm(SHARED, Program(run_s=50), discipline="slurm")
    number = submit(slurm, folder / "job.sh", exclusive=None, nodes="3", partition="all", gpus="1")
    slurm.sleep(5)
    found = job_of(slurm, number)
    assert (found.nodelist, found.cpus, found.gpus, found.whole_nodes) == ("n[1-3]", 144, 16, True)
    one = submit(slurm, folder / "job.sh", exclusive=None, hold=None)
    assert (job_of(slurm, one).cpus, job_of(slurm, one).gpus) == (64, 8)
    slurm.cancel(one)
    assert (job_of(slurm, one).cpus, job_of(slurm, one).gpus, job_of(slurm, one).whole_nodes) == (64, 8, True)


def test_ours_are_those_of_a_user_of_the_trace_where_it_has_one(folder: Path) -> None:
    cluster = Cluster((NodeGroup("node", 4),), limits=(Limit(jobs=1),))
    table = trace(submit_s=[0], elapsed_s=[100], limit_s=[100], nodes=[1], user=["ada"])
    for user, state in (("ada", JobState.PENDING), ("eve", JobState.RUNNING)):
        simulation = Simulation(cluster, workload(table, cluster), "slurm", begin_s=BEGIN_S)
        slurm = VirtualSlurm(simulation, user=user)
        slurm.sleep(5)
        number = submit(slurm, folder / "job.sh", time="10")
        slurm.sleep(60)
        assert (job_of(slurm, number).user, job_of(slurm, number).state) == (user, state)


def test_the_machine(folder: Path) -> None:
    slurm = small_slurm(SHARED, discipline="slurm")
    submit(slurm, folder / "job.sh", gpus="1")
    slurm.sleep(2)
    nodes = (
        Node("n1", "mixed", True, 64, 8, ("gpu", "all")),
        Node("n2", "idle", True, 64, 8, ("gpu", "all")),
        Node("n3", "idle", True, 16, 0, ("all",)),
    )
    gpu = ShownPartition("gpu", True, 1800, 1800, ("n1", "n2"), 3, False)
    everything = ShownPartition("all", False, UNLIMITED_S, 3600, ("n1", "n2", "n3"), 1, False)
    assert slurm.machine() == Machine(nodes, (gpu, everything))
    slurm.move_nodes("gpu", ("n3",))
    slurm.sleep(1)
    assert [node.partitions for node in slurm.machine().nodes] == [("all",), ("all",), ("gpu", "all")]
    flat = small_slurm(SHARED, discipline="fcfs").machine().partitions
    assert [partition.priority_tier for partition in flat] == [1, 1], "a discipline that knows no tiers"


@pytest.mark.parametrize("limits", [(), (Limit(per="user", jobs=8),)])
@pytest.mark.parametrize("survives", [None, True, False])
def test_an_agent_knows_whether_a_held_job_retains_its_age(limits: tuple[Limit, ...], survives: bool | None) -> None:
    cluster, settings = replace(Cluster.pool(4), limits=limits), SlurmSettings(age_survives_hold=survives)
    simulation = Simulation(cluster, workload(trace(submit_s=[]), cluster), "slurm", settings, begin_s=BEGIN_S)
    known = SlurmSettings.from_options(VirtualSlurm(simulation).configuration(), "scontrol show config")
    assert known.retains_age(()) == settings.retains_age(limits)


def test_the_options_of_the_scheduler() -> None:
    settings = SlurmSettings(
        bf_interval_s=7, bf_resolution_s=11, bf_window_s=7200, max_job_test=13, default_queue_depth=17,
        calc_period_s=60, half_life_s=86_400.0, max_age_s=float("inf"), favor_small=True, weight_age=1000.4,
        weight_size=2.0, weight_fairshare=3.0, weight_partition=4.0, weight_qos=5.6, weight_gpus=7.5,
    )  # fmt: skip
    cluster = Cluster.pool(4)
    simulation = Simulation(cluster, workload(trace(submit_s=[]), cluster), "slurm", settings, begin_s=BEGIN_S)
    assert VirtualSlurm(simulation, min_job_age_s=77).configuration() == {
        "schedulertype": "sched/backfill",
        "schedulerparameters": (
            "bf_interval=7,bf_resolution=11,bf_window=120,bf_max_job_test=13,default_queue_depth=17"
        ),
        "prioritytype": "priority/multifactor",
        "prioritycalcperiod": "00:01:00",
        "prioritydecayhalflife": "1-00:00:00",
        "prioritymaxage": "UNLIMITED",
        "priorityfavorsmall": "Yes",
        "priorityweightage": "1000",
        "priorityweightjobsize": "2",
        "priorityweightfairshare": "3",
        "priorityweightpartition": "4",
        "priorityweightqos": "6",
        "priorityweighttres": "GRES/gpu=7.5",
        "selecttype": "select/linear",
        "minjobage": "77 sec",
        "enforcepartlimits": "ALL",
        "preempttype": "preempt/none",
        "accountingstoragetype": "accounting_storage/slurmdbd",
        "accountingstorageenforce": "none",
        "clustername": "simulated",
        "slurmctldhost[0]": "localhost",
        "slurmctldport": "6817",
    }
