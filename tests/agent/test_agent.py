"""Whole lives of chains, in virtual time, on the simulated Slurm."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from mirage.agent.agent import Agent
from mirage.agent.chain.history import chain_run
from mirage.agent.chain.tag import Tag, parse_tag
from mirage.agent.model import Chain, ChainSpec, ChainState, Link, LinkState
from mirage.agent.monitoring.metrics import Metrics
from mirage.agent.settings import AgentSettings
from mirage.agent.store.sql_store import SqlStore, open_store
from mirage.duration import DAY_S, HOUR_S
from mirage.errors import SlurmUnreachable
from mirage.job_state import MISSING, JobState
from mirage.lab.virtual.program import Program
from mirage.sim.cluster import Cluster
from mirage.sim.simulation import Simulation
from mirage.sim.workload import workload
from mirage.slurm.records import Submission
from mirage.slurm_words.states import ALIVE
from mirage.trace.workload.generate_workload import generate_workload
from mirage.trace.workload.workload_json import builtin_model
from tests.support.agent_store import without_waiting_for_the_disk
from tests.support.faulty_slurm import FaultySlurm
from tests.support.ready_shells import TrueShell
from tests.support.scripted_policies import Scripted

NODES = 76


class World:
    """A small busy cluster, a store, and an agent that can be replaced."""

    def __init__(self, folder: Path, store: SqlStore, program: Program, load: float) -> None:
        cluster = Cluster.pool(NODES)
        table = generate_workload(builtin_model("lonestar6-like"), days=12, seed=4, load=load)
        sim = Simulation(cluster, workload(table, cluster, refuse=False), discipline="easy")
        sim.advance(int(table.submit_s[0]) + 2 * DAY_S)
        self.store, self.slurm = store, FaultySlurm(sim, lambda _: program)
        (folder / "job.sh").write_text("#!/bin/sh\n#SBATCH -N 1\n")
        self.script = str(folder / "job.sh")
        self.agent = self.new_agent()

    def new_agent(self, holder: str = "me", **settings: int) -> Agent:
        return Agent(
            self.store, self.slurm, TrueShell(), clock=self.slurm.clock, monotonic=self.slurm.clock, holder=holder,
            settings=AgentSettings(**{"poll_s": 240, "busy_poll_s": 60, **settings}),
        )  # fmt: skip

    def add(self, name: str = "train", limit: str = "2:30:00", **spec: object) -> Chain:
        submission = Submission(self.script, {"time": limit, "nodes": "1"})
        spec = {"policy": "lead:1", **spec}
        return self.store.add_chain(name, ChainSpec(submission, **spec), int(self.slurm.clock()))

    def live(self, seconds: int) -> None:
        end = self.slurm.clock() + seconds
        while self.slurm.clock() < end:
            self.slurm.sleep(self.agent.pause_s(self.agent.cycle(), 0.0))

    def links(self, chain: Chain) -> list[Link]:
        return self.store.links(chain.id)

    def kinds(self, chain: Chain) -> list[str]:
        return [event.kind for event in self.store.events(chain.id)]

    def jobs_of(self, chain: Chain) -> dict[int, int]:
        """Number of jobs that have carried the tag of each link."""
        tags: dict[int, int] = {}
        for own in self.slurm.own.values():
            tag = parse_tag(own.comment)
            if tag is not None and tag.key == chain.key:
                tags[tag.link] = tags.get(tag.link, 0) + 1
        return tags


@pytest.fixture
def make(tmp_path: Path) -> Iterator[object]:
    with closing(open_store(f"sqlite:///{tmp_path}/store.db")) as store:
        without_waiting_for_the_disk(store)
        yield lambda program=None, load=0.3: World(tmp_path, store, program or Program(), load)


@pytest.mark.slow
def test_a_chain_lives_for_days_without_a_gap_and_its_jobs_leave_when_signalled(make) -> None:
    world = make()
    chain = world.add(policy="lead:1")
    world.live(DAY_S)
    links = world.links(chain)
    run = chain_run(chain, links, (), int(world.slurm.clock()))
    ended = [link for link in links if link.state is LinkState.ENDED]
    assert len(ended) >= 10
    assert run.interruption_s == 0
    assert all(link.outcome is JobState.COMPLETED for link in ended), "each left on the signal, before its limit"
    for before, after in pairwise(links):
        if before.ended_s != MISSING:
            assert after.ready_s != MISSING
            assert before.signalled_s >= after.ready_s
            assert before.ended_s > before.signalled_s
    assert set(world.jobs_of(chain).values()) == {1}


def running(world: World, chain: Chain) -> Link:
    while not (found := [link for link in world.links(chain) if link.state is LinkState.RUNNING]):
        world.live(30)
    return found[-1]


def test_a_link_that_decides_itself_is_the_last_one_and_is_not_signalled(make, tmp_path: Path) -> None:
    world = make()
    chain = world.add(
        agentless_after=1, folder=str(tmp_path), ready_by_job=True, until_s=int(world.slurm.clock()) + DAY_S
    )
    world.store.change_link(chain.id, running(world, chain).number, ready_s=int(world.slurm.clock()))
    while running(world, chain).number == 1:
        world.live(60)
    folder = tmp_path / "agentless" / "train"
    folder.mkdir(parents=True)
    second = running(world, chain)
    (folder / "link.1").write_text(f"job={second.job} next= freed=0\n")
    world.live(600)
    now = world.store.chain("train")
    assert (now.state, now.why) == (
        ChainState.ENDING, f"link 2 continues it without an agent; log: {folder}/log",
    )  # fmt: skip
    assert world.links(chain)[0].signalled_s == MISSING, "its script has not reported that it is ready"
    (folder / "ready.1").touch()
    world.live(600)
    assert world.links(chain)[0].state is LinkState.ENDED
    assert world.links(chain)[0].signalled_s != MISSING
    while world.store.chain("train").state is not ChainState.DONE:
        world.live(600)
    assert world.store.chain("train").why == now.why
    _, second, *others = world.links(chain)
    assert (second.outcome, second.signalled_s) == (JobState.TIMEOUT, MISSING), "Slurm or its successor signals it"
    assert all(link.never_ran for link in others)


def test_the_link_before_one_that_decides_itself_leaves_even_if_that_one_has_ended(make, tmp_path: Path) -> None:
    world = make()
    chain = world.add(agentless_after=1, folder=str(tmp_path), limit="20:00:00", policy="lead:19", ready_by_job=True)
    world.store.change_link(chain.id, running(world, chain).number, ready_s=int(world.slurm.clock()))
    folder = tmp_path / "agentless" / "train"
    folder.mkdir(parents=True)
    while running(world, chain).number == 1:
        world.live(60)
    first, second = world.links(chain)[:2]
    ends_s = first.started_s + 20 * HOUR_S
    assert (folder / "link.0").read_text() == f"job={first.job} next= freed=0 quick=-1 end={ends_s}\n"
    (folder / "link.1").write_text(f"job={second.job} next= freed=0\n")
    world.slurm.cancel(second.job)
    world.live(1200)
    first, second = world.links(chain)[:2]
    assert second.state is LinkState.ENDED
    assert first.signalled_s != MISSING
    assert first.state is LinkState.ENDED, "its successor has a successor of its own, which no agent knows"
    assert world.store.chain("train").state is ChainState.DONE


def test_an_edit_during_a_cycle_is_decided_by_at_once(make) -> None:
    world = make()
    chain = world.add(limit="20:00:00", policy="reactive")
    running(world, chain)
    change = world.store.change_chain

    def edited(number: int, *events: object, **columns: object) -> bool:
        """A command edits the chain between a decision and the time of the next one."""
        if "next_decision_s" in columns:
            world.store.change_chain = change
            now = world.store.chain("train")
            world.store.change_spec(now, replace(now.spec, policy="lead:19.95"))
        return change(number, *events, **columns)

    world.store.change_chain(chain.id, next_decision_s=0)
    world.store.change_chain = edited
    world.live(900)
    assert world.store.change_chain is change, "it was edited"
    assert LinkState.HELD not in [link.state for link in world.links(chain)], "the new policy has released the link"


def test_a_link_that_decides_itself_does_not_end_its_chain_by_its_exit(make, tmp_path: Path) -> None:
    world = make()
    chain = world.add(agentless_after=0, folder=str(tmp_path), until_done=True)
    first = running(world, chain)
    (tmp_path / "agentless" / "train").mkdir(parents=True)
    (tmp_path / "agentless" / "train" / "link.1").write_text(f"job={first.job} next= freed=0\n")
    world.store.change_link(
        chain.id, 1, state=LinkState.ENDED, outcome=JobState.COMPLETED, ended_s=int(world.slurm.clock())
    )
    world.live(600)
    assert world.store.chain("train").why.startswith("link 1 continues it without an agent; log: ")


def test_a_job_that_slurm_holds_for_its_own_failure_is_released(make) -> None:
    world = make()
    chain = world.add()
    link = running(world, chain)
    world.slurm.fail_launch(link.job)
    world.live(120)
    again = running(world, chain)
    assert (again.number, again.job) == (link.number, link.job)
    assert world.kinds(chain).count("released-again") == 1
    world.slurm.requeue(again.job, hold=True)
    world.slurm.own[again.job].why_held = "JobHeldUser"
    world.live(HOUR_S)
    assert world.links(chain)[again.number - 1].state is LinkState.QUEUED, "what a person holds stays held"


def test_a_job_that_can_never_be_launched_is_replaced(make) -> None:
    world = make()
    chain = world.add()
    first = running(world, chain)
    for _ in range(4):
        link = running(world, chain)
        assert link.number == first.number
        world.slurm.fail_launch(link.job)
        world.live(300)
    second = running(world, chain)
    assert second.number == first.number + 1
    assert world.kinds(chain).count("released-again") == 3
    assert world.kinds(chain).count("replaced") == 1
    assert world.store.chain(chain.name).state is ChainState.ACTIVE


@pytest.mark.parametrize("silent", ["accounting", "machine", "configuration"])
def test_a_chain_continues_where_only_the_queue_answers(make, monkeypatch, silent: str) -> None:
    world = make()
    chain = world.add()
    running(world, chain)
    world.live(HOUR_S)

    def refused(*_: object) -> None:
        raise SlurmUnreachable(f"{silent} had no answer", "Connection refused")

    monkeypatch.setattr(world.slurm, silent, refused)
    world.live(10 * HOUR_S)
    links = world.links(chain)
    ended = [link for link in links if link.state is LinkState.ENDED]
    assert len(ended) >= 3
    assert all(link.signalled_s != MISSING for link in ended)
    assert any(link.state is LinkState.RUNNING for link in links)


def test_a_reactive_chain_waits_in_the_queue_held_by_its_predecessor(make) -> None:
    world = make()
    chain = world.add(limit="1:00:00", policy="reactive", signal="", warmup_s=600)
    world.live(5 * HOUR_S)
    links = world.links(chain)
    assert len([link for link in links if link.state is LinkState.ENDED]) >= 4
    assert all(link.outcome is JobState.TIMEOUT for link in links if link.state is LinkState.ENDED)


@pytest.mark.slow
def test_what_if_decides_on_the_same_views(make) -> None:
    world = make(load=1.1)
    chain = world.add(policy="what-if", limit="12:00:00")
    world.live(DAY_S)
    decisions = world.store.decisions(chain.id)
    assert any(decision.submits for decision in decisions)
    reported = [decision for decision in decisions if decision.estimate.get("wait_p50_s") is not None]
    assert reported
    assert all(decision.observed["nodes"] == NODES for decision in reported)
    assert not [d for d in decisions if "failed" in d.reason]


def test_a_lost_answer_makes_no_second_job(make) -> None:
    world = make()
    world.slurm.lose_answers = 1
    chain = world.add()
    world.live(HOUR_S)
    assert "found" in world.kinds(chain)
    assert set(world.jobs_of(chain).values()) == {1}
    assert world.links(chain)[0].state is LinkState.RUNNING


def test_a_submission_that_never_happened_is_made_again_once_that_is_certain(make) -> None:
    world = make()
    chain = world.add(limit="4:00:00")
    assert world.store.attempt(chain.id, 1, int(world.slurm.clock()), 0)  # somebody died right before sbatch
    world.live(60)
    assert world.links(chain)[0].job == MISSING
    world.live(HOUR_S)
    assert "unsubmitted" in world.kinds(chain)
    assert world.links(chain)[0].state is LinkState.RUNNING
    assert set(world.jobs_of(chain).values()) == {1}


def test_a_double_is_cancelled(make) -> None:
    world = make()
    chain = world.add(limit="4:00:00")
    world.live(HOUR_S)
    first = world.links(chain)[0]
    tag = Tag("train", 1, world.store.identity().identity, chain.key)
    world.slurm.submit(Submission(world.script, {"comment": str(tag), "time": "4:00:00"}))
    other = world.slurm.submit(Submission(world.script, {"comment": str(tag), "time": "4:00:00", "job-name": "eval"}))
    world.live(HOUR_S)
    assert world.kinds(chain).count("double-cancelled") == 1
    assert other in [job.id for job in world.slurm.observe().jobs if job.state in ALIVE], "not one of ours"
    assert world.links(chain)[0].job == first.job
    assert world.links(chain)[0].state is LinkState.RUNNING


def test_the_dead_man_s_link_takes_over_while_no_agent_lives(make) -> None:
    world = make()
    chain = world.add(limit="2:30:00")
    world.live(HOUR_S)
    world.slurm.sleep(2 * HOUR_S)  # nobody watches: the first link runs out, the second follows by itself
    running = [job for job in world.slurm.observe().jobs if job.comment.startswith("mirage:train:2:")]
    assert [job.state for job in running] == [JobState.RUNNING]
    world.agent = world.new_agent()
    world.live(HOUR_S)
    first, second, third = world.links(chain)[:3]
    assert (first.state, second.state) == (LinkState.ENDED, LinkState.RUNNING) or second.state is LinkState.ENDED
    assert third.job != MISSING
    assert second.started_s - first.ended_s < HOUR_S


def test_refusals_are_waited_out_and_then_the_chain_pauses_and_resumes(make) -> None:
    world = make()
    world.slurm.refuse = "Job violates accounting/QOS policy"
    chain = world.add()
    world.live(8 * HOUR_S)
    paused = world.store.chain("train")
    assert paused.state is ChainState.PAUSED
    assert "QOS policy" in paused.why
    assert world.kinds(chain).count("refused") == AgentSettings().refusals
    world.slurm.refuse = ""
    world.store.change_chain(chain.id, state=ChainState.ACTIVE, refusals=0, next_try_s=0)
    world.live(HOUR_S)
    assert any(link.state is LinkState.RUNNING for link in world.links(chain))


def test_links_that_fail_at_once_pause_the_chain(make) -> None:
    world = make(Program(run_s=20, exit_code=2))
    chain = world.add()
    world.live(6 * HOUR_S)
    paused = world.store.chain("train")
    assert paused.state is ChainState.PAUSED
    assert "FAILED 2" in paused.why
    assert len(world.jobs_of(chain)) <= AgentSettings().failures + 1
    assert not [job for job in world.slurm.observe().jobs if job.comment and job.state is JobState.PENDING]


def test_a_waiting_link_cancelled_from_outside_pauses_the_chain(make) -> None:
    world = make()
    chain = world.add()
    world.live(HOUR_S)
    world.slurm.cancel(world.links(chain)[1].job)
    world.live(HOUR_S)
    assert "cancelled from outside" in world.store.chain("train").why
    assert world.links(chain)[0].state is LinkState.RUNNING


def test_a_link_that_never_ran_is_none_of_the_links_of_a_chain(make) -> None:
    """Otherwise the cancelled last link would end the chain."""
    world = make()
    chain = world.add(links=2)
    world.live(HOUR_S)
    world.slurm.cancel(world.links(chain)[1].job)
    world.live(HOUR_S)
    paused = world.store.chain("train")
    assert paused.state is ChainState.PAUSED
    world.store.change_chain(chain.id, state=ChainState.ACTIVE, why="")
    world.live(2 * DAY_S)
    assert world.store.chain("train").state is ChainState.DONE
    assert [link.place for link in world.links(chain) if link.started_s != MISSING] == [1, 2]


@pytest.mark.parametrize("spec", [{"links": 3}, {"until_done": True}, {"until_s": 3 * HOUR_S}])
def test_a_chain_ends_and_leaves_nothing(make, spec: dict[str, object]) -> None:
    world = make(Program(run_s=HOUR_S) if "until_done" in spec else None)
    if "until_s" in spec:
        spec = {"until_s": int(world.slurm.clock()) + 3 * HOUR_S}
    chain = world.add(**spec)
    world.live(8 * HOUR_S)
    assert world.store.chain("train").state is ChainState.DONE
    assert all(link.state is LinkState.ENDED for link in world.links(chain))
    assert not [job for job in world.slurm.observe().jobs if job.comment and job.end_s == MISSING]
    if "links" in spec:
        assert len(world.links(chain)) == 3


def test_a_job_that_reports_it_is_done_ends_the_chain_and_its_successor_never_starts(make) -> None:
    world = make()
    chain = world.add()
    world.live(HOUR_S)
    world.slurm.add_words(world.links(chain)[0].job, "done")
    world.live(6 * HOUR_S)
    assert world.store.chain("train").state is ChainState.DONE
    assert world.links(chain)[1].started_s == MISSING


def test_a_silent_controller_is_waited_for(make) -> None:
    world = make()
    chain = world.add()
    world.live(HOUR_S)
    world.slurm.unreachable, world.slurm.commands = True, 0
    world.live(2 * HOUR_S)
    assert world.slurm.commands <= 2 * HOUR_S / 15
    world.slurm.unreachable = False
    world.live(5 * HOUR_S)
    assert [link.state for link in world.links(chain)][:2] == [LinkState.ENDED, LinkState.ENDED] or len(
        world.links(chain)
    ) > 2
    assert set(world.jobs_of(chain).values()) == {1}


def test_a_link_is_followed_after_the_queue_has_forgotten_it(make) -> None:
    world = make()
    world.slurm.min_job_age_s = 1
    chain = world.add()
    world.live(5 * HOUR_S)
    ended = [link for link in world.links(chain) if link.state is LinkState.ENDED]
    assert len(ended) >= 2
    assert all(link.outcome is JobState.COMPLETED for link in ended)


def test_a_poll_costs_at_most_two_commands(make) -> None:
    world = make()
    for k in range(10):
        world.add(f"c{k}", limit="6:00:00")
    world.live(2 * HOUR_S)
    before = world.slurm.commands
    world.agent.cycle()
    assert world.slurm.commands - before <= 2


def test_jobs_that_ended_after_the_nodes_were_read_are_not_hidden(make, monkeypatch) -> None:
    world = make()
    world.add()
    world.live(HOUR_S)
    observe, agent = world.slurm.observe, world.agent
    assert any(job.user != world.slurm.user for job in observe().jobs)
    assert agent.poller.machine is not None
    read_s = agent.poller._machine_s
    monkeypatch.setattr(
        world.slurm, "observe",
        lambda: replace(found := observe(), jobs=tuple(job for job in found.jobs if job.user == world.slurm.user)),
    )  # fmt: skip
    agent.cycle()
    assert (agent.poller._machine_s, agent.decider.hidden) == (read_s, "")
    world.live(2 * agent.settings.sight_s)
    assert "nodes in use have no visible job" in agent.decider.hidden, "they are missing next to nodes of the same poll"


def test_clocks_that_jump_are_survived(make) -> None:
    world = make()
    chain = world.add()
    world.live(HOUR_S)
    world.agent.clock = lambda: world.slurm.clock() - 7 * HOUR_S
    world.live(HOUR_S)
    world.agent.clock = world.slurm.clock
    world.live(3 * HOUR_S)
    assert set(world.jobs_of(chain).values()) == {1}
    assert len([link for link in world.links(chain) if link.state is LinkState.ENDED]) >= 1


def test_a_decision_that_takes_several_cycles_counts_as_postponed_once(make) -> None:
    world = make()
    world.add()
    runner = Scripted()
    world.agent.decider.runner = runner
    metrics = Metrics(world.store, None, world.slurm.clock)
    for _ in range(20):
        metrics.record_cycle(world.agent.cycle(), 0.0)
        world.slurm.sleep(60)
    assert (len(runner.requested), len(world.agent.decider.open)) == (1, 1), "the same question is open all the time"
    assert "mirage_decisions_put_off_total 1.0" in metrics.text()


@pytest.mark.slow
def test_a_chain_with_a_budget_uses_it_and_is_done(make) -> None:
    world = make(Program(leave_s=MISSING), load=0.1)
    chain = world.add(policy="dependency", budget_node_h=6.0, shortest_link_s=1_800)
    world.live(14 * HOUR_S)
    links = [link for link in world.links(chain) if link.started_s != MISSING]
    assert [link.limit_s for link in links] == [9_000, 9_000, 3_600]
    done = world.store.chain("train")
    assert (done.state, done.reserved) == (ChainState.DONE, "")
    assert done.why.startswith("its budget is used up: 6.0 of 6.0 node-hours")
    assert [event.link for event in world.store.events(chain.id) if event.kind == "budget-low"] == [2, 3]
    assert set(world.jobs_of(chain).values()) == {1}
