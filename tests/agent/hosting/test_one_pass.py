"""Passes of the agent in virtual time; each has the memory of the last one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from mirage.agent.agent import Agent
from mirage.agent.chain.tag import parse_tag
from mirage.agent.cycle.submit import Submissions
from mirage.agent.hosting.one_pass import MOST_QUERIES, STARTED_S, OnePass, PassReport, pass_settings
from mirage.agent.hosting.pass_memory import DEFAULT_EVERY_S, PassMemory, interval_s, outage_of_passes, too_rare
from mirage.agent.model import Chain, ChainSpec, LinkState
from mirage.agent.settings import AgentSettings
from mirage.agent.store.sql_store import SqlStore, open_store
from mirage.duration import HOUR_S
from mirage.errors import LeaseHeld, WrongCluster
from mirage.job_state import MISSING, JobState
from mirage.sim.cluster import Cluster
from mirage.sim.simulation import Simulation
from mirage.sim.workload import workload
from mirage.slurm.records import Queue, Submission
from mirage.trace.workload.generate_workload import generate_workload
from mirage.trace.workload.workload_json import builtin_model
from tests.support import fickle
from tests.support.agent_store import without_waiting_for_the_disk
from tests.support.faulty_slurm import FaultySlurm
from tests.support.ready_shells import TrueShell

EVERY_S = 300


class Cron:
    """A small cluster, a store, and passes at an interval."""

    def __init__(self, folder: Path, store: SqlStore) -> None:
        cluster = Cluster.pool(24)
        table = generate_workload(builtin_model("lonestar6-like"), days=3, seed=4, load=0.1)
        sim = Simulation(cluster, workload(table, cluster, refuse=False), discipline="easy")
        sim.advance(int(table.submit_s[0]) + HOUR_S)
        self.store, self.slurm, self.file = store, FaultySlurm(sim), folder / "agent.pass"
        (folder / "job.sh").write_text("#!/bin/sh\n")
        self.state_file = folder / "agent.state"
        self.script, self.polls = str(folder / "job.sh"), list[float]()
        observe = self.slurm.observe

        def counted() -> Queue:
            self.polls.append(self.slurm.clock())
            return observe()

        self.slurm.observe = counted  # type: ignore[method-assign]

    def agent(self, holder: str, settings: AgentSettings) -> Agent:
        return Agent(
            self.store, self.slurm, TrueShell(), clock=self.slurm.clock, monotonic=self.slurm.clock, holder=holder,
            settings=settings, submissions=Submissions(), state_file=self.state_file,
        )  # fmt: skip

    def add(self, **spec: object) -> Chain:
        submission = Submission(self.script, {"time": "2:30:00", "nodes": "1"})
        return self.store.add_chain("train", ChainSpec(submission, **{"policy": "lead:1", **spec}), self.now_s)

    @property
    def now_s(self) -> int:
        return int(self.slurm.clock())

    def once(self, stay_s: int = EVERY_S) -> PassReport:
        settings = pass_settings(AgentSettings(wait_for_answers_s=0.0), EVERY_S)
        agent = self.agent(f"pass-{self.now_s}", settings)
        report = OnePass(agent, PassMemory.read(self.file), self.file, stay_s).run(self.slurm.sleep, lambda: False)
        assert self.store.lease() is None
        return report

    def live(self, seconds: int, stay_s: int = EVERY_S) -> list[PassReport]:
        """Passes on a grid, as cron starts them."""
        reports, end_s = [], self.now_s + seconds
        while self.now_s < end_s:
            reports.append(self.once(stay_s))
            self.slurm.sleep(EVERY_S - self.slurm.clock() % EVERY_S)
        return reports


@pytest.fixture
def cron(tmp_path: Path) -> Iterator[Cron]:
    with closing(open_store(f"sqlite:///{tmp_path}/store.db")) as store:
        without_waiting_for_the_disk(store)
        yield Cron(tmp_path, store)


def test_passes_keep_a_chain_alive_without_a_gap_and_every_link_is_one_job(cron: Cron) -> None:
    chain = cron.add()
    reports = cron.live(8 * HOUR_S)
    links = cron.store.links(chain.id)
    ended = [link for link in links if link.state is LinkState.ENDED]
    assert len(ended) >= 3
    for before, after in pairwise(links):
        if before.ended_s != MISSING:
            assert after.started_s <= before.ended_s
            assert before.signalled_s - after.ready_s <= EVERY_S
    tags = [tag.link for job in cron.slurm.own.values() if (tag := parse_tag(job.comment)) is not None]
    assert sorted(tags) == [link.number for link in links]
    assert {report.every_s for report in reports} == {EVERY_S} == {PassMemory.read(cron.file).every_s}


def test_a_link_is_released_at_the_moment_that_its_policy_names_between_two_passes(cron: Cron) -> None:
    chain = cron.add(policy="lead:1.05")  # the lead ends 3 minutes after a pass, or 2 minutes before
    cron.live(3 * HOUR_S)
    first, second = cron.store.links(chain.id)[:2]
    released = [event for event in cron.store.events(chain.id) if (event.kind, event.link) == ("released", 2)]
    decided = [one for one in cron.store.decisions(chain.id) if one.submits]
    notice_s = 2 * EVERY_S
    moment_s = first.started_s + first.limit_s - 120 - notice_s - round(1.05 * HOUR_S)
    assert "it may start from" in released[0].detail
    assert decided[0].reason == "before-next-pass:lead-not-reached"
    assert second.released_s == moment_s
    assert released[0].time_s < moment_s < released[0].time_s + EVERY_S
    assert 0 <= second.started_s - moment_s <= 60
    assert first.signalled_s - moment_s <= STARTED_S, "the pass stays for the start"


def test_a_pass_stays_for_a_link_that_it_releases_at_once(
    cron: Cron, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    word = fickle.install(tmp_path, monkeypatch)
    chain = cron.add(policy=f"fickle:{word}", least_life=0.0)
    word.write_text("leave")
    cron.live(HOUR_S)
    word.write_text("wait")
    released_s = cron.now_s
    cron.once()
    first, second = cron.store.links(chain.id)[:2]
    assert second.released_s == released_s
    assert 0 <= second.started_s - released_s < STARTED_S
    assert first.signalled_s - released_s <= STARTED_S


@pytest.mark.parametrize("early_s", [0, 110])
def test_a_pass_stays_once_for_a_start_in_slurms_plan(
    cron: Cron, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, early_s: int
) -> None:
    word = fickle.install(tmp_path, monkeypatch)
    word.write_text("leave")
    chain = cron.add(policy=f"fickle:{word}", least_life=0.0)
    cron.live(HOUR_S)
    free, observe = int(cron.slurm.sim.view().nodes.free[0, 0]), cron.slurm.observe
    cron.slurm.submit(Submission(cron.script, {"time": "32", "nodes": str(free)}))
    ends_s = cron.now_s + 32 * 60

    def with_plan() -> Queue:
        """Slurm plans too early, and postpones the start again and again."""
        queue = observe()
        start_s = max(ends_s - early_s, cron.now_s + 10)
        jobs = [replace(job, start_s=start_s) if job.state is JobState.PENDING else job for job in queue.jobs]
        return replace(queue, jobs=tuple(jobs))

    cron.slurm.observe = with_plan  # type: ignore[method-assign]
    word.write_text("wait")
    cron.live(1_800, 0)
    assert cron.store.links(chain.id)[1].started_s == MISSING
    report = cron.once()
    assert report.polls == 2
    first, second = cron.store.links(chain.id)[:2]
    assert cron.now_s == ends_s - early_s + STARTED_S
    assert (second.started_s, first.signalled_s) == ((MISSING, MISSING) if early_s else (ends_s, cron.now_s))


def test_a_link_that_waits_for_its_time_is_released_where_the_running_one_fails(cron: Cron) -> None:
    chain = cron.add(policy="lead:1.05")
    while not (links := cron.store.links(chain.id)) or links[-1].begins_s == MISSING:
        cron.live(EVERY_S, stay_s=0)
    first, second = links[-2:]
    cron.slurm.cancel(first.job)
    cron.slurm.sleep(1)
    if cron.now_s < second.begins_s:
        cron.once()
        assert "released-again" in [event.kind for event in cron.store.events(chain.id)]


def test_a_quiet_pass_polls_once_and_remembers_the_rest(cron: Cron) -> None:
    cron.add()
    first = cron.once()
    assert first.polls == MOST_QUERIES
    agent = cron.agent("another", AgentSettings())
    assert not agent.poller.has_whole_history
    agent.poller.recall(PassMemory.read(cron.file).poller or {})
    assert agent.poller.has_whole_history
    cron.slurm.sleep(EVERY_S)
    second = cron.once(stay_s=0)
    assert second.polls == 1
    found = json.loads(cron.file.read_text())
    assert len(found["begun_s"]) == 2
    assert cron.file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(("pause_s", "queried"), [(EVERY_S, 0), (4 * EVERY_S, 1)])
def test_a_pass_after_a_long_pause_queries_which_cluster_this_is(
    pause_s: int, queried: int, cron: Cron, monkeypatch: pytest.MonkeyPatch
) -> None:
    cron.add()
    cron.once()
    queries, configuration = [], cron.slurm.configuration
    monkeypatch.setattr(cron.slurm, "configuration", lambda: queries.append(cron.now_s) or configuration())
    cron.slurm.sleep(pause_s)
    cron.once(stay_s=0)
    assert len(queries) == queried


def test_a_pass_that_sees_no_job_of_the_chains_queries_which_cluster_this_is(
    cron: Cron, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = cron.add()
    cron.live(2 * EVERY_S)
    before, memory = cron.store.links(chain.id), PassMemory.read(cron.file)
    queue = cron.slurm.observe()
    monkeypatch.setattr(cron.slurm, "observe", lambda: replace(queue, time_s=cron.now_s, jobs=()))
    monkeypatch.setattr(cron.slurm, "configuration", lambda: {"clustername": "another"})
    cron.slurm.sleep(EVERY_S)
    with pytest.raises(WrongCluster, match="another"):
        cron.once(stay_s=0)
    assert cron.store.links(chain.id) == before
    assert PassMemory.read(cron.file) == memory, "a pass that is refused is none"


def test_the_memory_is_equal_to_what_the_last_pass_knew(cron: Cron) -> None:
    cron.add()
    cron.live(4 * EVERY_S)
    memory = PassMemory.read(cron.file)
    agent = cron.agent("another", AgentSettings())
    assert memory.poller is not None
    agent.poller.recall(memory.poller)
    assert agent.poller.complete
    assert agent.poller.has_history
    assert agent.poller.machine == cron.slurm.machine()
    assert json.loads(json.dumps(agent.poller.memory())) == memory.poller


@pytest.mark.parametrize("text", ["", "[]", "{", '{"version": "0"}', '{"begun_s": [1, 2], "version": 3}'])
def test_a_damaged_memory_costs_queries_and_nothing_else(cron: Cron, text: str) -> None:
    cron.add()
    cron.file.write_text(text)
    report = cron.once()
    assert not report.trouble
    assert report.polls >= 3


def test_a_pass_changes_nothing_while_an_agent_lives(cron: Cron) -> None:
    chain = cron.add()
    cron.store.take_lease("login7:4242:99", cron.now_s, 240)
    with pytest.raises(LeaseHeld, match=r"an agent on login7 \(process 4242\) manages these chains"):
        OnePass(cron.agent("me", pass_settings(AgentSettings(), EVERY_S)), PassMemory(), cron.file, 0).run(
            cron.slurm.sleep, lambda: False
        )
    assert not cron.polls
    assert not cron.file.exists()
    assert cron.store.links(chain.id)[0].state is LinkState.PLANNED
    cron.slurm.sleep(300)
    assert cron.once().chains == 1, "its lease has expired"


def test_an_agent_and_passes_take_over_from_one_another(cron: Cron) -> None:
    chain = cron.add()
    for hour in range(6):
        if hour % 2:
            cron.live(HOUR_S)
            continue
        agent, end_s = cron.agent(f"agent-{hour}", AgentSettings(poll_s=120, busy_poll_s=60)), cron.now_s + HOUR_S
        agent.run(cron.slurm.sleep, lambda end_s=end_s: cron.now_s >= end_s)  # type: ignore[misc]
    links = cron.store.links(chain.id)
    assert len([link for link in links if link.state is LinkState.ENDED]) >= 2
    assert all(b.started_s <= a.ended_s for a, b in pairwise(links) if a.ended_s != MISSING)
    tags = [tag.link for job in cron.slurm.own.values() if (tag := parse_tag(job.comment)) is not None]
    assert sorted(tags) == [link.number for link in links]


def test_a_job_that_is_missing_in_pass_after_pass_counts_as_ended(cron: Cron) -> None:
    chain = cron.add()
    cron.live(3 * EVERY_S)
    lost, observe, accounting = cron.store.links(chain.id)[0].job, cron.slurm.observe, cron.slurm.accounting

    def without_it() -> Queue:
        queue = observe()
        return replace(queue, jobs=tuple(job for job in queue.jobs if job.id != lost))

    cron.slurm.observe = without_it  # type: ignore[method-assign]
    cron.slurm.accounting = lambda since_s: tuple(  # type: ignore[method-assign]
        job for job in accounting(since_s) if job.id != lost
    )
    cron.once(stay_s=0)
    assert "vanished" not in [event.kind for event in cron.store.events(chain.id)]
    cron.live(4 * EVERY_S, stay_s=0)
    assert "vanished" in [event.kind for event in cron.store.events(chain.id)]


def test_what_was_missing_before_another_agent_worked_is_forgotten(cron: Cron) -> None:
    cron.add()
    cron.once()
    memory = PassMemory.read(cron.file)
    assert memory.is_last(cron.store.identity())
    cron.store.record_poll(cron.now_s + 7)
    assert memory.is_of(cron.store.identity())
    assert not memory.is_last(cron.store.identity())


def test_the_time_in_which_another_agent_worked_is_no_interval(cron: Cron) -> None:
    cron.add()
    cron.live(2 * EVERY_S)
    memory = PassMemory.read(cron.file)
    assert memory.as_of(cron.store.identity()) == memory
    cron.store.record_poll(cron.now_s + 7)
    assert memory.as_of(cron.store.identity()).begun_s == ()
    assert replace(memory, store="").as_of(cron.store.identity()).begun_s == memory.begun_s


def test_commands_show_the_outage_that_the_last_pass_met(cron: Cron) -> None:
    def outage(now_s: int | None = None) -> str:
        polled_s, at_s = cron.store.identity().polled_s, cron.now_s if now_s is None else now_s
        found = outage_of_passes(cron.file, cron.state_file, polled_s, at_s)
        return "" if found is None else f"{found.source} since {found.since_s}"

    cron.add()
    assert outage() == ""
    cron.live(2 * EVERY_S)
    polled_s = cron.store.identity().polled_s
    assert outage() == ""
    cron.slurm.unreachable = True
    cron.live(EVERY_S)
    assert outage() == f"slurm since {polled_s}"
    assert outage(cron.now_s + 9 * EVERY_S) == "", "passes no longer come"
    cron.slurm.unreachable = False
    cron.live(EVERY_S)
    assert outage() == ""


@pytest.mark.parametrize(("every_s", "limits_s", "rare"), [(301, [900, 600], True), (300, [600, MISSING], False)])
def test_passes_are_too_rare_for_the_shortest_job(every_s: int, limits_s: list[int], rare: bool) -> None:
    assert bool(too_rare(every_s, limits_s)) == rare
    assert not too_rare(every_s, [MISSING])


@pytest.mark.parametrize(
    ("begun_s", "declared_s", "expected_s"),
    [
        ((), None, DEFAULT_EVERY_S),
        ((100,), None, DEFAULT_EVERY_S),
        ((0, 600, 1200, 1260), None, 600),
        ((0, 20), None, 60),
        ((0, 86_400), None, 7200),
        ((0, 600), 900, 900),
    ],
)
def test_the_interval_is_declared_or_the_median_of_the_last_passes(
    begun_s: tuple[int, ...], declared_s: int | None, expected_s: int
) -> None:
    assert interval_s(begun_s, declared_s) == expected_s
