"""Views of a simulation: every column, job by job, against the state it comes from."""

from __future__ import annotations

import numpy as np
import pytest

from mirage.errors import PlanInfeasible
from mirage.job_state import MISSING
from mirage.policy.view import QueueJobs
from mirage.sim.cluster import Cluster, NodeGroup, Partition
from mirage.sim.job_updates import relabel
from mirage.sim.kernel.arrays import NEVER_S, RUNNING, SUSPENDING, WHOLE_NODE
from mirage.sim.simulation import Simulation
from mirage.sim.workload import workload
from mirage.trace.table import JobTable

SHARED = Cluster((NodeGroup("fat", 3, 4, 32),), (Partition("all", ("fat",)),), shared_nodes=True)


def simulation(cluster: Cluster, discipline: str = "slurm") -> Simulation:
    jobs, rng = 40, np.random.default_rng(5)
    nodes = rng.integers(1, 3, jobs)
    table = JobTable.build(
        range(jobs),
        submit_s=20 * np.arange(jobs),
        elapsed_s=rng.integers(50, 400, jobs),
        limit_s=[600] * jobs,
        nodes=nodes,
        gpus=np.where(rng.random(jobs) < 0.5, -1, 2 * nodes),
        cpus=4 * nodes,
        user=[f"u{k % 4}" for k in range(jobs)],
        name=[("train_{}", "eval_{}", "")[k % 3].format(k) for k in range(jobs)],
        account=[("physics", "")[k % 2] for k in range(jobs)],
    )
    return Simulation(cluster, workload(table, cluster), discipline)


def expected(sim: Simulation, held: bool, job_id: int) -> dict[str, float]:
    """A row of a view, read off the state."""
    (job,) = [row for row in sim.state.live[: sim.state.clock[0].slots_used] if row.id == job_id and 0 < row.status < 5]
    runs, moves = job.status in (RUNNING, SUSPENDING), job.status == RUNNING
    whole = not sim.cluster.shared_nodes or job.gpus == WHOLE_NODE
    request = {name: int(job[name]) for name in ("id", "user", "partition", "qos", "nodes", "limit_s", "submit_s")}
    table, book = sim.workload.table, sim.labels.book
    name = table.name.values()[job_id] if job_id < len(table) else ""
    account = table.account.values()[job_id] if job_id < len(table) else ""
    return request | {
        "gpus": -1 if whole else int(job.gpus),
        "cpus": -1 if whole else int(job.cpus),
        "eligible_s": MISSING if held else int(job.eligible_s),
        "start_s": int(job.start_s) if runs else MISSING,
        "width": int(job.width) if runs else 0,
        "done_s": job.done_s + max(sim.now_s - job.start_s - job.resume_s, 0) * job.speed * moves,
        "priority": job.priority if job.priority > 1 and not held else 0.0,
        "name": book.names[name.partition("_")[0]] if name else MISSING,
        "account": book.accounts[account] if account else MISSING,
        "nice": 0,
    }


@pytest.mark.parametrize("cluster", [Cluster.pool(3), SHARED], ids=["pool", "shared nodes"])
def test_every_column_is_read_off_the_state(cluster: Cluster) -> None:
    sim = simulation(cluster)
    waits = [sim.inject(nodes=1, limit_s=100, watched=False, begin_s=NEVER_S)]
    kinds = set()
    for time_s in range(0, 900, 110):
        sim.advance(time_s)
        view = sim.view()
        assert waits == view.held.id.tolist()
        for kind, jobs in (("pending", view.pending), ("running", view.running), ("held", view.held)):
            kinds |= {kind} if len(jobs) else set()
            for k, job_id in enumerate(jobs.id.tolist()):
                shown = {name: getattr(jobs, name)[k].item() for name in QueueJobs.__dataclass_fields__}
                assert shown == expected(sim, kind == "held", job_id)
    assert kinds == {"pending", "running", "held"}


def test_jobs_of_a_view_stay_what_they_were_and_cannot_be_written() -> None:
    sim = simulation(Cluster.pool(3))
    sim.advance(400)
    view = sim.view()
    before = [getattr(view.pending, name).copy() for name in QueueJobs.__dataclass_fields__]
    assert len(view.pending) > 3
    sim.advance(5000)
    for name, column in zip(QueueJobs.__dataclass_fields__, before):
        assert np.array_equal(getattr(view.pending, name), column)
        with pytest.raises(ValueError, match="read-only"):
            getattr(view.pending, name)[:] = 0


def test_codes_of_names_are_the_same_in_every_view_of_a_simulation() -> None:
    sim = simulation(Cluster.pool(3))
    book = sim.fork().labels.book
    observed: dict[int, set[tuple[int, int]]] = {}
    for time_s in range(0, 1500, 50):
        sim.advance(time_s)
        view = sim.fork().view()
        for jobs in (view.pending, view.running):
            for row in zip(jobs.id.tolist(), jobs.name.tolist(), jobs.account.tolist()):
                observed.setdefault(row[0], set()).add(row[1:])
    assert len(observed) == 40
    assert all(len(codes) == 1 for codes in observed.values())
    assert sim.labels.book is book
    assert list(book.names) == ["train", "eval"]


def test_a_job_may_be_given_another_name_while_it_lives() -> None:
    sim = simulation(Cluster.pool(3))
    job = sim.inject(nodes=1, limit_s=100, watched=False, begin_s=NEVER_S, name="first")
    before = sim.view().held
    relabel(sim, job, "Second_2", "physics")
    after = sim.view().held
    book = sim.labels.book
    assert (before.name.tolist(), before.account.tolist()) == ([book.names["first"]], [MISSING])
    assert (after.name.tolist(), after.account.tolist()) == ([book.names["second"]], [book.accounts["physics"]])
    with pytest.raises(ValueError, match="of the trace"):
        sim.labels.labelled(0, "mine", "")
    with pytest.raises(PlanInfeasible):
        relabel(sim, job + 1, "mine", "")
