"""The simulator's own view equals the one made from Slurm's output, in every field."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mirage.agent.agent import Agent
from mirage.agent.cycle.readiness import SystemShell
from mirage.agent.model import ChainSpec
from mirage.agent.policy_runner.in_process import InProcess
from mirage.agent.policy_runner.question import Answer, Question
from mirage.agent.settings import AgentSettings
from mirage.agent.store.sql_store import open_store
from mirage.duration import HOUR_S
from mirage.lab.commands.server import served_slurm
from mirage.lab.virtual.program import Program
from mirage.lab.virtual.virtual_slurm import VirtualSlurm
from mirage.policy.plan import Plan, Wait
from mirage.policy.view import MOST_ENDED, MOST_PENDING, ChainView, View
from mirage.provision.evaluation.episode import play
from mirage.provision.evaluation.evaluation_protocol import EvaluationProtocol
from mirage.provision.link_size import LinkSize
from mirage.sim.cluster import CapacityChange, Cluster, Limit, NodeGroup, Partition, Reservation
from mirage.sim.disciplines.discipline_registry import DISCIPLINES
from mirage.sim.kernel.arrays import BY_PREEMPTION
from mirage.sim.simulation import Simulation
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from mirage.sim.workload import workload
from mirage.slurm.client import SlurmClient
from mirage.slurm.records import Submission
from mirage.slurm.runner import SystemRunner
from mirage.slurm.slurm_view import Names
from mirage.trace.table import JobTable
from tests.support.two_worlds import CommandLines, NamedView, assert_worlds_equal

BEGIN_S = 1_790_000_000
SETTINGS = SlurmSettings(
    weight_age=1000, weight_fairshare=2000, weight_size=300, weight_partition=500, weight_qos=700, calc_period_s=60
)
GROUPS = (NodeGroup("thin", 3, 0, 16), NodeGroup("fat", 3, 4, 32), NodeGroup("spare", 1, 0, 8))
PARTITIONS = (Partition("all", ("thin", "fat")), Partition("urgent", ("fat",), tier=2), Partition("rest", ("spare",)))
RESERVATIONS = (Reservation(150, 400, "fat", 2), Reservation(300, 500, "thin", 3, announced_s=250))
QOS = {"qos_factors": {"scavenger": 1.0, "high": 10.0}, "qos_preempts": {"high": ("scavenger",)}}

CLUSTERS = {
    "one pool": Cluster.pool(6),
    "groups and partitions": Cluster(GROUPS, PARTITIONS),
    "shared GPU nodes": Cluster(GROUPS, PARTITIONS, shared_nodes=True),
    "user limits": replace(Cluster.pool(6), limits=(Limit(jobs=2, nodes=4),)),
    "limits of all kinds on shared nodes": Cluster(
        GROUPS,
        PARTITIONS,
        True,
        **QOS,
        limits=(
            Limit(jobs=3, nodes=3),
            Limit("account", gpus=6),
            Limit("all", jobs=2, qos=("scavenger",)),
            Limit("all", nodes=3, partitions=("urgent",)),
        ),
    ),
    "QOS that preempt": Cluster(GROUPS, PARTITIONS, **QOS),
    "nodes that come and go": replace(
        Cluster(GROUPS, PARTITIONS),
        changes=(CapacityChange(100, "fat", -2), CapacityChange(400, "fat", 2), CapacityChange(500, "thin", 1)),
    ),
    "shared nodes that come and go": replace(
        Cluster(GROUPS, PARTITIONS, True), changes=(CapacityChange(100, "fat", -2), CapacityChange(400, "fat", 2))
    ),
    "reserved nodes": replace(Cluster(GROUPS, PARTITIONS), reservations=RESERVATIONS),
    "reserved nodes of one pool": replace(Cluster.pool(6), reservations=(Reservation(300, 500, "node", 5, 200),)),
    "shared nodes, some reserved": replace(Cluster(GROUPS, PARTITIONS, True), reservations=RESERVATIONS),
}

JOB_NAMES = (
    "train_v3_{:03d}",
    "",
    "a | b, c = {}",
    "Größe {}",
    "{}",
    "none",
    "x JobId=7 Account=root",
    "two\nlines {}",
)
"""As people name jobs: with numbers, nothing, bars, letters of all kinds, words that mean something to Slurm."""

ACCOUNTS = ("physics", "", "größe-2", "a|b")

NOT_RUN_BY_A_SLURM = {
    "srtf": "knows true run times, and suspends jobs whose work is kept: done_s of what waits is nowhere told",
}
NOT_COMPARED = {"mirage-2023": ("phase_s",)}
"""The ten-minute pass of the published simulator, which has no Slurm behind it; everywhere else nobody tells."""


def runs(discipline: str, cluster: Cluster) -> bool:
    spec = DISCIPLINES[discipline]
    if (cluster.reservations and not spec.reservations) or (cluster.limits and not spec.limits):
        return False
    return not spec.one_pool or (not cluster.shared_nodes and len(cluster.groups) == 1)


CASES = [
    pytest.param(kind, discipline, id=f"{kind}-{discipline}")
    for kind in CLUSTERS
    for discipline in sorted(DISCIPLINES.keys() - NOT_RUN_BY_A_SLURM.keys())
    if runs(discipline, CLUSTERS[kind])
]


def trace(cluster: Cluster, first_s: int = 0, jobs: int = 40, seed: int = 3) -> JobTable:
    """More jobs than fit, from second ``first_s``, of four users, some dependent."""
    rng = np.random.default_rng(seed)
    nodes = rng.integers(1, 4, jobs)
    partition = rng.integers(0, len(cluster.partitions), jobs)
    names = np.array([place.name for place in cluster.partitions])[partition]
    nodes[names == "rest"] = 1
    most = np.where(names == "urgent", 4, 0)
    gpus = rng.integers(0, most + 1) * nodes
    qos = rng.choice(["", "high", "scavenger"], jobs, p=[0.4, 0.2, 0.4])
    return JobTable.build(
        np.arange(jobs),
        submit_s=first_s + np.sort(rng.integers(0, 600, jobs) * (rng.random(jobs) < 0.7)),
        elapsed_s=rng.integers(0, 240, jobs),
        limit_s=60 * rng.integers(1, 6, jobs),
        nodes=nodes,
        gpus=np.where(rng.random(jobs) < 0.2, -1, gpus),
        cpus=nodes * rng.integers(1, 8, jobs),
        state=rng.choice([3, 5], jobs),
        user=[f"u{u}" for u in rng.integers(0, 4, jobs)],
        partition=list(names),
        qos=[name if cluster.qos_factors else "" for name in qos],
        name=[JOB_NAMES[k % len(JOB_NAMES)].format(k) for k in range(jobs)],
        account=[ACCOUNTS[k % len(ACCOUNTS)] for k in range(jobs)],
        dependency=[f"afterany:{k - 3}" if k % 11 == 5 else "" for k in range(jobs)],
    )


def simulated(cluster: Cluster, discipline: str, first_s: int = 0) -> VirtualSlurm:
    jobs = workload(trace(cluster, first_s), cluster, refuse=False)
    sim = Simulation(cluster, jobs, discipline, SETTINGS, begin_s=first_s)
    return VirtualSlurm(sim, lambda _: Program(run_s=150), requeue_hold_s=20)


@pytest.fixture
def script(tmp_path: Path) -> str:
    (tmp_path / "job.sh").write_text("#!/bin/sh\n")
    return str(tmp_path / "job.sh")


class Life:
    """A cluster's first quarter of an hour, with commands; every moment is compared."""

    def __init__(self, slurm: VirtualSlurm, script: str, discipline: str) -> None:
        self.slurm, self.script, self.names = slurm, script, Names()
        self.but = NOT_COMPARED.get(discipline, ())

    def equal(self, moment: str) -> View:
        return assert_worlds_equal(self.slurm, self.names, moment, but=self.but)

    def submit(self, **options: str | None) -> int:
        given = {"time": "3", "nodes": "1", **options}
        return self.slurm.submit(Submission(self.script, {k.replace("_", "-"): v for k, v in given.items()}))

    def pass_time(self, until_s: int, moment: str) -> list[View]:
        """Every second that something may happen in, and those between."""
        observed = []
        while self.slurm.now_s < until_s:
            self.slurm.sleep(min(13, until_s - self.slurm.now_s))
            observed.append(self.equal(moment))
        return observed


@pytest.mark.parametrize(("kind", "discipline"), CASES)
def test_the_two_worlds_are_one(kind: str, discipline: str, script: str) -> None:
    slurm = simulated(CLUSTERS[kind], discipline)
    life = Life(slurm, script, discipline)
    assert not len(life.equal("empty").running)
    slurm.sleep(0)
    first = life.equal("second 0")
    assert first.now_s == 0
    assert set(first.running.start_s) == {0}
    busy = life.pass_time(60, "a queue")[-1]
    assert len(busy.pending) + len(busy.held)
    runs = life.submit(job_name="Ours 7", account="climate")
    life.equal("just submitted")
    held, waits = life.submit(hold=None), life.submit(dependency=f"afterany:{runs}")
    later = life.submit(begin="now+90")
    if slurm.sim.cluster.shared_nodes:
        life.submit(exclusive=None)
    reported = life.equal("held, dependent, of later")
    assert {held, waits, later} <= set(reported.held.id)
    life.pass_time(130, "after a minute or two")
    while slurm.own[runs].start_s < 0 and slurm.now_s < 4000:
        life.pass_time(slurm.now_s + 30, "until ours runs")
    if not slurm.own[runs].over:
        slurm.requeue(runs)
        reported = life.equal("requeued")
        assert runs in reported.held.id
    slurm.update(held, {"JobName": "renamed_1"})
    life.equal("renamed")
    slurm.release(held)
    life.equal("released")
    slurm.cancel(later)
    life.equal("cancelled while it waits")
    life.pass_time(slurm.now_s + 240, "later")
    slurm.sleep(4000)
    last = life.equal("everything has ended")
    assert len(last.ended) > 30
    assert 0 in last.ended.start_s


@pytest.mark.parametrize("kind", ["one pool", "groups and partitions", "nodes that come and go"])
def test_nodes_between_two_jobs_are_free_in_neither_world(kind: str) -> None:
    cluster = CLUSTERS[kind]
    jobs = workload(trace(cluster), cluster, refuse=False)
    slurm = VirtualSlurm(Simulation(cluster, jobs, "slurm", replace(SETTINGS, turnover_s=40), begin_s=0))
    names, between = Names(), 0
    while slurm.now_s < 900:
        slurm.sleep(13)
        view = assert_worlds_equal(slurm, names, "turnover")
        between += int(view.nodes.capacity[:, 0].sum() - view.nodes.free[:, 0].sum() - view.running.width.sum() > 0)
    assert between > 10


def test_no_discipline_is_left_out_in_silence() -> None:
    tested = {case.values[1] for case in CASES}
    assert tested | NOT_RUN_BY_A_SLURM.keys() == DISCIPLINES.keys()
    assert not tested & NOT_RUN_BY_A_SLURM.keys()


def test_the_moments_show_what_they_are_to_show(script: str) -> None:
    """All features of clusters occur in the compared views."""
    observed: dict[str, list[View]] = {}
    slurms: dict[str, VirtualSlurm] = {}
    for kind in ("shared GPU nodes", "QOS that preempt", "nodes that come and go", "user limits"):
        slurms[kind] = simulated(CLUSTERS[kind], "slurm")
        observed[kind] = Life(slurms[kind], script, "slurm").pass_time(600, kind)
    assert any((view.pending.priority > 1).any() for view in observed["shared GPU nodes"])
    assert any({-1, 0} < set(view.running.gpus) for view in observed["shared GPU nodes"])
    assert BY_PREEMPTION in slurms["QOS that preempt"].sim.segments().why
    assert {view.nodes.total for view in observed["nodes that come and go"]} == {7, 5, 8}
    assert any(len(view.running) and view.nodes.total == 5 for view in observed["nodes that come and go"])
    assert any(len(view.held) > 3 for view in observed["user limits"])
    for views in observed.values():
        jobs = [rows for view in views for rows in (view.pending, view.running, view.ended)]
        assert all(len({code for rows in jobs for code in getattr(rows, name)}) >= 4 for name in ("name", "account"))


def test_groups_that_serve_the_same_partitions_are_one_pool_to_slurm() -> None:
    """Slurm has nodes and partitions, no groups; the simulator's rows add up to Slurm's."""
    slurm, names = simulated(Cluster((NodeGroup("left", 2), NodeGroup("right", 3))), "easy"), Names()
    slurm.sleep(100)
    rows = ("nodes.capacity", "nodes.free", "nodes.allowed.batch")
    view = assert_worlds_equal(slurm, names, "groups", but=rows)
    mine = slurm.sim.view()
    for name in ("capacity", "free"):
        assert getattr(mine.nodes, name).sum(axis=0).tolist() == getattr(view.nodes, name)[0].tolist()
    assert view.nodes.capacity.tolist() == [[5, 0]]


def test_a_provisioner_gets_a_limited_number_of_pending_and_ended_jobs() -> None:
    ended, waiting = MOST_ENDED + 5, MOST_PENDING + 50
    table = JobTable.build(
        range(ended + waiting),
        submit_s=[0] * ended + [1] * waiting,
        elapsed_s=[0] * ended + [600] * waiting,
        limit_s=[600] * (ended + waiting),
        nodes=[1] * (ended + waiting),
        user=["ada"] * (ended + waiting),
    )
    cluster = Cluster.pool(1)
    slurm = VirtualSlurm(Simulation(cluster, workload(table, cluster), "fcfs"))
    slurm.sleep(5)
    view = assert_worlds_equal(slurm, Names(), "many", chain=ChainView(1, 600, 1, 0, 0, 600, 60))
    assert (len(view.pending), len(view.ended)) == (MOST_PENDING, MOST_ENDED)
    assert len(slurm.sim.view().pending) == waiting - 1, "a policy of the whole cluster sees all"


@pytest.mark.parametrize("kind", CLUSTERS)
def test_the_view_read_from_command_lines_is_equal(kind: str, script: str, tmp_path: Path) -> None:
    """As text; in Slurm's, second 0 means that there is no time, so this life begins later."""
    slurm, names = simulated(CLUSTERS[kind], "slurm", BEGIN_S), Names()
    client = SlurmClient(CommandLines(slurm, tmp_path), clock=slurm.clock)
    life = Life(slurm, script, "slurm")
    for moment_s in (0, 40, 110, 240, 420, 4000):
        slurm.sleep(BEGIN_S + moment_s - slurm.now_s)
        assert_worlds_equal(slurm, names, f"after {moment_s} s", backend=client)
        if moment_s == 40:
            life.submit(hold=None)
            life.submit(begin="now+500", dependency=f"afterany:{life.submit()}")
            assert_worlds_equal(slurm, names, "submitted", backend=client)


def test_the_view_that_processes_on_path_print_is_equal(script: str) -> None:
    slurm = simulated(CLUSTERS["shared GPU nodes"], "slurm", BEGIN_S)
    slurm.sleep(200)
    with served_slurm(slurm) as served:
        client = SlurmClient(SystemRunner(served.environment), clock=slurm.clock)
        view = assert_worlds_equal(slurm, Names(), "by processes", backend=client)
    assert min(len(view.pending), len(view.running), len(view.ended)) > 0


class Witness(InProcess):
    """Notes the chain of each call, and waits."""

    def __init__(self) -> None:
        super().__init__()
        self.chains: list[ChainView] = []
        self.views: list[View] = []

    def answer(self, question: Question, options: Mapping[str, str], view: View) -> Answer:
        return Answer(question.chain, self.decide(replace(view, chain=question.form)))

    def decide(self, view: View) -> Plan:
        assert view.chain is not None
        self.chains.append(view.chain)
        self.views.append(view)
        return Plan((Wait(reason="only-looking"),))


@pytest.mark.parametrize("kind", ["one pool", "shared GPU nodes"])
def test_the_chain_is_the_same_to_a_policy_of_the_agent_and_of_the_simulator(
    kind: str, script: str, tmp_path: Path
) -> None:
    cluster, limit_s = CLUSTERS[kind], 4 * HOUR_S
    quiet = workload(JobTable.build([1], submit_s=[0], elapsed_s=[60], limit_s=[60], nodes=[1], user=["ada"]), cluster)
    slurm = VirtualSlurm(Simulation(cluster, quiet, "slurm", SETTINGS, begin_s=0))
    slurm.sleep(BEGIN_S)
    sim, there, here = slurm.sim.fork(), Witness(), Witness()
    with closing(open_store(f"sqlite:///{tmp_path}/store.db")) as store:
        agent = Agent(
            store, slurm, SystemShell(), clock=slurm.clock, monotonic=slurm.clock, holder="me", runner=there,
            settings=AgentSettings(decide_s=300, decisions_per_link=1),
        )  # fmt: skip
        while not agent.poller.complete:
            agent.cycle()
        submission = Submission(script, {"time": "4:00:00", "nodes": "1", "exclusive": None})
        store.add_chain("train", ChainSpec(submission, policy="reactive"), slurm.now_s)
        while not there.chains and slurm.now_s < BEGIN_S + HOUR_S:
            agent.cycle()
            slurm.sleep(60)

    def on_view(view: View) -> None:
        here.decide(view)

    play(sim, EvaluationProtocol.warm(BEGIN_S, lead_in_s=0, step_s=300), LinkSize(1, limit_s), 0, on_view)
    known = {kind: list(agent.names.codes[kind]).__getitem__ for kind in ("user", "name", "account")}
    reported = NamedView(there.views[0], **known).plain(there.chains[0])
    names = {"predecessor": lambda row: row + 1, "user": ["me", "ada"].__getitem__}
    names |= {"name": {-1: "job.sh"}.__getitem__, "account": {-1: "lab"}.__getitem__}  # an evaluation's links have none
    assert reported == NamedView(here.views[0], **names).plain(here.chains[0])
    assert reported.keys() == ChainView.__dataclass_fields__.keys()
    assert reported["user"] == "me"
