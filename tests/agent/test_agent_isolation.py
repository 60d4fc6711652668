"""The agent's cycle over several chains: an error of one does not affect the others."""

from __future__ import annotations

from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest

from mirage.agent.agent import Agent
from mirage.agent.cycle.context import CycleContext
from mirage.agent.cycle.transitions import steer
from mirage.agent.model import Chain, ChainSpec, ChainState, Link, LinkState
from mirage.agent.settings import AgentSettings
from mirage.agent.store.sql_store import SqlStore, open_store
from mirage.errors import LeaseHeld, SlurmRefused, SlurmUnreachable, StoreError, StoreGone, WrongCluster
from mirage.job_state import MISSING
from mirage.lab.virtual.program import Program
from mirage.sim.cluster import Cluster
from mirage.slurm.records import Queue, Submission
from tests.support.faulty_slurm import FaultySlurm
from tests.support.ready_shells import NoShell
from tests.support.small_slurm import BEGIN_S, small_slurm

UNANSWERED = SlurmUnreachable("sbatch had no answer from Slurm", "Socket timed out")
REFUSED = SlurmRefused("sbatch failed with status 1", "sbatch: error: Unable to chdir: No such file or directory")


class Picky:
    """Stands before a cluster; the submissions of some chains go wrong, and are counted."""

    def __init__(self, slurm: FaultySlurm) -> None:
        self.slurm, self.wrong, self.tried = slurm, dict[str, Exception](), []

    def __getattr__(self, name: str) -> object:
        return getattr(self.slurm, name)

    def submit(self, submission: Submission) -> int:
        chain = submission.environment["MIRAGE_CHAIN"]
        self.tried.append(chain)
        if chain in self.wrong:
            raise self.wrong[chain]
        return self.slurm.submit(submission)


class World:
    """Chains ``c1``, ``c2`` … on sixteen idle nodes, and their agent."""

    def __init__(self, store: SqlStore, script: Path, count: int, **settings: float) -> None:
        self.store, self.slurm = store, small_slurm(Cluster.pool(16), Program(), "easy")
        self.backend, self.steady_s = Picky(self.slurm), 0.0
        self.agent = self.new_agent("me", **settings)
        submission = Submission(str(script), {"time": "30:00", "nodes": "1"})
        for k in range(count):
            store.add_chain(f"c{k + 1}", ChainSpec(submission, policy="lead:0.1"), BEGIN_S)

    def new_agent(self, holder: str, **settings: float) -> Agent:
        return Agent(
            self.store, self.backend, NoShell(), clock=self.slurm.clock, monotonic=self.slurm.clock, holder=holder,
            settings=AgentSettings(**settings),
        )  # fmt: skip

    def live(self, seconds: int) -> None:
        end_s = self.slurm.clock() + seconds
        while self.slurm.clock() < end_s:
            self.slurm.sleep(self.agent.pause_s(self.agent.cycle(), 0.0))

    def chain(self, number: int) -> Chain:
        return self.store.chain(f"c{number}")

    def kinds(self, number: int) -> list[str]:
        return [event.kind for event in self.store.events(number)]

    @property
    def running(self) -> list[int]:
        """The chains of which a link runs."""
        return [link.chain for link in self.store.links() if link.state is LinkState.RUNNING]

    def history(self, *numbers: int) -> list[tuple[object, ...]]:
        """All that happened to some chains, to the second, but for the numbers of jobs."""
        links = [link for number in numbers for link in self.store.links(number)]
        return [(link.chain, link.number, link.submitted_s, link.started_s, link.ended_s) for link in links] + [
            (event.chain, event.link, event.time_s, event.kind) for n in numbers for event in self.store.events(n)
        ]


# -- one chain's own trouble --------------------------------------------------------------------------------


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> dict[str, Exception]:
    """What the middle of a chain's turn raises, by the name of the chain."""
    wrong: dict[str, Exception] = {}

    def may_fail(context: CycleContext, chain: Chain, ended: list[Link], *, revises: bool) -> Chain:
        if chain.name in wrong:
            raise wrong[chain.name]
        return steer(context, chain, ended, revises=revises)

    monkeypatch.setattr("mirage.agent.agent.steer", may_fail)
    return wrong


@pytest.mark.parametrize(
    ("error", "trouble"),
    [
        (REFUSED, "Unable to chdir"),
        (ValueError("what now"), "a fault of Mirage: ValueError: what now"),
        (KeyError("job"), "a fault of Mirage: KeyError: 'job'"),
        (RecursionError(), "a fault of Mirage: RecursionError: "),
        (UNANSWERED, "sbatch had no answer from Slurm"),
    ],
)
def test_what_one_chain_runs_into_the_others_do_not_notice(
    store: SqlStore, script: Path, faults: dict[str, Exception], error: Exception, trouble: str
) -> None:
    world = World(store, script, 4)
    faults["c2"] = error
    cycle = world.agent.cycle()
    assert cycle.trouble == ""
    assert world.backend.tried == ["c1", "c3", "c4"]
    assert trouble in world.chain(2).trouble
    assert [world.chain(number).trouble for number in (1, 3, 4)] == ["", "", ""]
    assert [world.kinds(number).count("trouble") for number in (1, 2, 3, 4)] == [0, 1, 0, 0]
    world.live(300)
    assert world.running == [1, 3, 4]
    assert world.kinds(2) == ["trouble"], "told once"
    faults.clear()
    world.live(600)
    assert world.running == [1, 2, 3, 4]
    assert world.chain(2).trouble == ""
    assert [kind for kind in world.kinds(2) if kind.startswith("trouble")] == ["trouble", "trouble-over"]


@pytest.mark.parametrize("error", [REFUSED, UNANSWERED, OSError("no more processes")])
def test_a_submission_that_goes_wrong_is_the_trouble_of_its_chain(
    store: SqlStore, script: Path, error: Exception
) -> None:
    world = World(store, script, 3)
    world.backend.wrong["c2"] = error
    assert world.agent.cycle().trouble == ""
    assert world.backend.tried == ["c1", "c2", "c3"]
    assert str(error) in world.chain(2).trouble
    world.backend.wrong.clear()
    world.live(900)
    assert world.running == [1, 2, 3]
    assert world.chain(2).trouble == ""
    assert [link.number for link in store.links(2)] == [1, 2]


def test_the_healthy_live_to_the_second_as_without_the_one_in_trouble(
    tmp_path: Path, script: Path, faults: dict[str, Exception]
) -> None:
    histories = []
    for wrong in (False, True):
        with closing(open_store(f"sqlite:///{tmp_path}/{wrong}.db")) as store:
            world = World(store, script, 4)
            if wrong:
                faults["c2"] = RuntimeError("for ever")
            world.live(4_000)
            histories.append(world.history(1, 3, 4))
    assert histories[0] == histories[1]
    assert len(histories[0]) > 40


def test_a_chain_that_cannot_be_decided_about_stops_no_other_from_it(
    store: SqlStore, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(store, script, 3)
    spec = world.chain(2).spec
    monkeypatch.setitem(store._specs, 2, (0, ChainSpec(spec.submission, policy="nonsense")))
    world.live(2_700)
    assert {record.policy for record in store.decisions(2)} == {"fall-back for nonsense"}
    assert world.chain(2).trouble.startswith("policy nonsense failed: UnknownName: unknown policy 'nonsense'")
    for healthy in (1, 3):
        assert {record.policy for record in store.decisions(healthy)} == {"lead:0.1"}
        assert world.chain(healthy).trouble == ""
    assert {link.chain for link in store.links() if link.number == 3} == {1, 2, 3}, "all of them go on"


def test_a_release_that_is_refused_is_reported_once_and_when_it_is_over(
    store: SqlStore, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, update = World(store, script, 1), FaultySlurm.update

    def no(*_: object) -> None:
        raise SlurmRefused("scontrol failed with status 1", "Access/permission denied")

    monkeypatch.setattr(FaultySlurm, "update", no)
    while "release-refused" not in world.kinds(1):
        world.live(60)
    world.live(120)
    assert "cannot be released" in world.chain(1).trouble
    monkeypatch.setattr(FaultySlurm, "update", update)
    world.live(120)
    assert world.chain(1).trouble == ""
    kinds = [kind for kind in world.kinds(1) if kind.startswith("trouble") or kind == "released"]
    assert kinds == ["trouble", "released", "trouble-over"]


# -- everybody's trouble ------------------------------------------------------------------------------------


def test_two_chains_unanswered_and_squeue_too_are_a_controller_that_is_away(
    store: SqlStore, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, observe, requested = World(store, script, 4), FaultySlurm.observe, []

    def once(slurm: FaultySlurm) -> Queue:
        requested.append(slurm)
        if len(requested) > 1:
            raise UNANSWERED
        return observe(slurm)

    monkeypatch.setattr(FaultySlurm, "observe", once)
    world.backend.wrong = {"c2": UNANSWERED, "c3": UNANSWERED}
    cycle = world.agent.cycle()
    assert "no answer from Slurm" in cycle.trouble
    assert world.backend.tried == ["c1", "c2", "c3"], "the fourth is not tried: it would wait as long"
    assert 15 <= world.agent.pause_s(cycle, 0.0) <= 20
    assert world.chain(4).trouble == ""
    alive = {chain.id: chain for chain in store.chains(alive=True)}
    assert world.agent.turns.begin(alive, BEGIN_S + 1) == [1, 2, 3, 4], "at the next poll, not on the grid"


def test_two_chains_unanswered_while_squeue_answers_are_their_own_trouble(store: SqlStore, script: Path) -> None:
    world = World(store, script, 4)
    world.backend.wrong = {"c2": UNANSWERED, "c3": UNANSWERED}
    assert world.agent.cycle().trouble == ""
    assert world.backend.tried == ["c1", "c2", "c3", "c4"]
    assert [bool(world.chain(number).trouble) for number in (1, 2, 3, 4)] == [False, True, True, False]


def test_unanswered_chains_with_another_between_them_are_their_own_trouble(store: SqlStore, script: Path) -> None:
    world = World(store, script, 4)
    world.backend.wrong = {"c1": UNANSWERED, "c3": UNANSWERED}
    assert world.agent.cycle().trouble == ""
    assert world.backend.tried == ["c1", "c2", "c3", "c4"]
    assert [bool(world.chain(number).trouble) for number in (1, 2, 3, 4)] == [True, False, True, False]


def test_a_store_that_cannot_be_written_is_everybody_s(
    store: SqlStore, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(store, script, 2)

    def full(*_: object) -> None:
        raise StoreError("the disk is full")

    monkeypatch.setattr(store, "attempt", full)
    assert world.agent.cycle().trouble == "the disk is full"
    assert world.backend.tried == []


def test_slurm_of_another_cluster_ends_the_agent(store: SqlStore, script: Path) -> None:
    world = World(store, script, 1)
    store.bind("lab@head:6817")
    with pytest.raises(WrongCluster, match=r"lab@head:6817.*simulated@localhost:6817"):
        world.agent.run(world.slurm.sleep, lambda: False)
    assert world.backend.tried == []
    assert store.lease() is None, "given back"


def test_a_controller_that_returns_as_another_cluster_ends_the_agent(
    store: SqlStore, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its jobs may have the numbers of ours."""
    world = World(store, script, 1)
    world.live(600)
    monkeypatch.setattr(FaultySlurm, "configuration", lambda slurm: {"clustername": "another"})
    world.live(120)
    world.slurm.restart_controller(120)
    before = world.slurm.commands
    with pytest.raises(WrongCluster, match="another"):
        world.live(600)
    assert world.slurm.commands - before < 20, "before any other chain is served"


# -- outages ------------------------------------------------------------------------------------------------


def polls(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The times of the polls of the queue from now on."""
    at_s: list[float] = []
    observe = FaultySlurm.observe

    def noted(slurm: FaultySlurm) -> Queue:
        at_s.append(slurm.clock())
        return observe(slurm)

    monkeypatch.setattr(FaultySlurm, "observe", noted)
    return at_s


@pytest.mark.parametrize("silent_s", [60, 180, 601, 7_213])
def test_after_a_silence_of_slurm_the_agent_works_again_within_twenty_seconds(
    store: SqlStore, script: Path, monkeypatch: pytest.MonkeyPatch, silent_s: int
) -> None:
    world = World(store, script, 3)
    world.live(600)
    polled, before = polls(monkeypatch), world.slurm.commands
    world.slurm.restart_controller(silent_s)
    back_s = world.slurm.clock() + silent_s
    world.live(silent_s)
    tries = world.slurm.commands - before
    assert tries <= silent_s / 15 + 2, "a command every fifteen seconds at most"
    assert len([at_s for at_s in polled if at_s < back_s]) <= silent_s / 600 + 2, "and nearly all of them small ones"
    if world.slurm.clock() < back_s + 20:
        world.live(20)
    assert min(at_s for at_s in polled if at_s >= back_s) <= back_s + 20
    assert store.identity().polled_s >= back_s
    assert world.agent.outages.current is None


def test_agents_do_not_return_in_the_same_second(store: SqlStore, script: Path) -> None:
    world, pauses = World(store, script, 1), set()
    world.slurm.unreachable = True
    for k in range(20):
        agent = world.new_agent("me")
        agent.outages.spread = world.new_agent(f"login1:{k}:7").outages.spread
        pauses.add(agent.pause_s(agent.cycle(), 0.0))
    assert len(pauses) == 20
    assert 15 <= min(pauses) < 16.5 < 18.5 < max(pauses) <= 20


def test_a_controller_that_answers_probes_but_no_poll_is_polled_more_and_more_rarely(
    store: SqlStore, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, at_s = World(store, script, 3), []
    world.live(600)

    def busy(slurm: FaultySlurm) -> Queue:
        at_s.append(slurm.clock())
        raise SlurmUnreachable("squeue did not answer within 60 s")

    with monkeypatch.context() as overloaded:
        overloaded.setattr(FaultySlurm, "observe", busy)
        world.live(7_200)
    gaps = [after - before for before, after in pairwise(at_s)]
    assert gaps[0] <= 20
    assert gaps[-1] >= 450
    assert len(at_s) < 20
    assert world.agent.outages.current is not None
    world.live(600)
    assert world.agent.outages.current is None


def test_a_site_without_the_small_command_is_polled_every_ten_minutes(
    store: SqlStore, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(store, script, 3)
    world.live(600)

    def wrapped(slurm: FaultySlurm) -> None:
        raise UNANSWERED

    monkeypatch.setattr(FaultySlurm, "probe", wrapped)
    world.slurm.restart_controller(300)
    world.live(300)
    assert world.agent.outages.current is not None
    world.live(620)
    assert world.agent.outages.current is None


@pytest.mark.parametrize("method", ["take_lease", "record_poll"])
def test_after_a_full_disk_the_agent_works_again_within_twenty_seconds(
    store: SqlStore, script: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    world = World(store, script, 3)
    world.live(600)
    since_s, tried, before = store.identity().polled_s, [], world.slurm.commands

    def full(*_: object) -> None:
        tried.append(world.slurm.clock())
        raise StoreError("the disk is full")

    with monkeypatch.context() as disk:
        disk.setattr(store, method, full)
        world.live(1_800)
        assert max(after - before for before, after in pairwise(tried)) <= 20
        assert world.slurm.commands - before <= (0 if method == "take_lease" else 1_800 / 15 + 20)
        outage = world.agent.outages.current
        assert outage is not None
        assert (outage.source, outage.detail) == ("store", "the disk is full")
        assert since_s <= outage.since_s <= since_s + 60
    freed_s = int(world.slurm.clock())
    world.live(1)
    assert store.identity().polled_s >= freed_s
    assert world.agent.outages.current is None


def test_a_chain_that_had_no_answer_has_a_turn_at_the_first_poll_after_the_outage(
    store: SqlStore, script: Path, faults: dict[str, Exception]
) -> None:
    world = World(store, script, 3)
    faults |= {"c1": UNANSWERED, "c2": REFUSED}
    world.live(1_300)
    turns, now_s = world.agent.turns, world.slurm.clock()
    assert min(turns.stumbles[1], turns.stumbles[2]) > 4
    assert min(turns.due_s[1], turns.due_s[2]) - now_s > 200
    due_s = turns.due_s[2]
    world.agent.poller._not_before["accounting"] = int(world.slurm.clock()) + 600
    world.slurm.unreachable = True
    world.agent.cycle()
    world.slurm.unreachable = False
    faults.clear()
    world.agent.cycle()
    assert turns.stumbles[1] == 0
    assert (turns.stumbles[2] > 4, turns.due_s[2]) == (True, due_s), "a refusal is no silence"
    assert world.agent.poller._not_before == {}
    assert world.chain(1).trouble == ""


def test_an_outage_is_logged_when_it_begins_and_when_it_is_over(
    store: SqlStore, script: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "mirage.agent")
    world = World(store, script, 1)
    world.live(600)
    caplog.clear()
    world.slurm.restart_controller(900)
    world.live(960)
    lines = [(record.msg, record.detail) for record in caplog.records if record.msg.startswith("outage")]
    assert [event for event, _ in lines] == ["outage", "outage-over"]
    assert all(detail.startswith("no contact with slurmctld since ") for _, detail in lines)


# -- turns and the lease ------------------------------------------------------------------------------------


def test_a_link_is_searched_soon_after_it_was_released(store: SqlStore, script: Path) -> None:
    world = World(store, script, 1)
    while not (released := [link for link in store.links(1) if link.number == 2 and link.released_s != MISSING]):
        world.live(1)
    began_s = released[0].released_s
    assert world.agent.turns.busy
    assert world.agent.turns.due_s[1] - began_s <= AgentSettings().busy_poll_s


def test_the_lease_is_renewed_while_the_agent_sleeps(store: SqlStore, script: Path) -> None:
    world = World(store, script, 0, lease_s=240)
    naps, other = [], world.new_agent("other")

    def sleep(seconds: float) -> None:
        naps.append(seconds)
        world.slurm.sleep(seconds)
        until_s = store.lease()[1]  # type: ignore[index]
        assert until_s >= world.slurm.clock() + 240 - 60 - 1, "four times in its validity"
        with pytest.raises(LeaseHeld):
            other.cycle()

    world.agent.cycle()
    world.agent.pause(600, sleep, lambda: False)
    assert sum(naps) == 600
    assert max(naps) == 60


def test_a_lease_lost_while_asleep_ends_the_agent(store: SqlStore, script: Path) -> None:
    world, naps = World(store, script, 0, lease_s=240), []

    def sleep(seconds: float) -> None:
        naps.append(seconds)
        store.drop_lease("me")
        store.take_lease("other", world.slurm.clock(), 240)

    with pytest.raises(LeaseHeld, match=r"an agent on other \(process \?\) manages"):
        world.agent.pause(600, sleep, lambda: False)
    assert naps == [60], "at once, not after the whole sleep"
    assert store.lease()[0] == "other"  # type: ignore[index]


@pytest.mark.parametrize("busy", ["lease", "take_lease", "drop_lease"])
def test_a_store_that_others_lock_at_the_begin_or_the_end_does_not_end_the_agent(
    store: SqlStore, script: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, busy: str
) -> None:
    world, real, calls = World(store, script, 0), getattr(store, busy), []

    def locked(*arguments: object) -> object:
        calls.append(arguments)
        if len(calls) == 1:
            raise StoreError("another process has locked it for long")
        return real(*arguments)

    monkeypatch.setattr(store, busy, locked)
    until_s = world.slurm.clock() + 600
    world.agent.run(world.slurm.sleep, lambda: world.slurm.clock() > until_s)
    reported = [
        (record.msg, getattr(record, "detail", "")) for record in caplog.records if record.levelname == "WARNING"
    ]
    assert [msg for msg, detail in reported if "locked it for long" in detail] == [
        "outage" if busy == "take_lease" else "trouble"
    ]
    assert (store.lease() is None) == (busy != "drop_lease")


def test_a_store_away_while_asleep_is_waited_for(
    store: SqlStore, script: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(store, script, 0)

    def away(*_: object) -> None:
        raise StoreError("the disk is full")

    world.agent.cycle()
    since_s = int(world.slurm.clock())
    with monkeypatch.context() as full:
        full.setattr(store, "take_lease", away)
        world.agent.pause(600, world.slurm.sleep, lambda: False)
        assert world.slurm.clock() == since_s + 60, "the first renewal that fails ends the sleep"
        assert world.agent.cycle().outage_since_s == since_s
    assert world.agent.cycle().trouble == ""
    assert [record.msg for record in caplog.records if record.levelname == "WARNING"] == ["outage"]


def test_the_lease_is_renewed_between_chains_that_take_long(
    store: SqlStore, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(store, script, 5, lease_s=240)
    taken, take = [], store.take_lease

    def noted(*words: object) -> None:
        taken.append(world.slurm.clock())
        take(*words)  # type: ignore[arg-type]

    def slow(submission: Submission, submit: object = world.slurm.submit) -> int:
        world.slurm.sleep(70)
        return submit(submission)  # type: ignore[operator]

    monkeypatch.setattr(store, "take_lease", noted)
    monkeypatch.setattr(world.slurm, "submit", slow)
    world.agent.cycle()
    gaps = [after - before for before, after in pairwise(taken)]
    assert len(taken) == 5
    assert max(gaps) <= 70


def test_a_done_chain_has_no_trouble(store: SqlStore, script: Path) -> None:
    world = World(store, script, 1)
    world.backend.wrong["c1"] = REFUSED
    world.agent.cycle()
    assert world.chain(1).trouble
    store.change_chain(1, state=ChainState.PAUSED, why="enough")
    world.live(120)
    assert world.chain(1).trouble == ""


def test_waiting_for_a_store_that_is_gone_ends(store: SqlStore, script: Path) -> None:
    world, slept = World(store, script, 1), []
    store.take_lease("another", world.backend.clock(), 3_600)

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        Path(str(store.engine.url.database)).unlink(missing_ok=True)

    with pytest.raises(StoreGone):
        world.agent.stand_by(sleep, lambda: len(slept) > 3)
    assert len(slept) == 1, "it waited while the other lived, and ended when there was nothing to wait for"
