"""Outcomes of promises that the agent sees come true, and that its chains do not notice."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from mirage.agent.agent import Agent
from mirage.agent.background.promised_starts import PromisedStarts
from mirage.agent.model import ChainSpec, LinkState
from mirage.agent.settings import AgentSettings
from mirage.agent.store.sql_store import SqlStore
from mirage.job_state import MISSING
from mirage.lab.virtual.program import Program
from mirage.predict.start.promise import OPEN, SETTLED, Promise
from mirage.predict.start.promise_file import Promises
from mirage.sim.cluster import Cluster
from mirage.slurm.backend import cluster_of
from mirage.slurm.records import Submission
from tests.support.ready_shells import NoShell
from tests.support.small_slurm import BEGIN_S, small_slurm


class World:
    """Two chains of one-node links on sixteen idle nodes, and their agent with promises."""

    def __init__(self, store: SqlStore, script: Path, path: Path | None) -> None:
        self.store, self.slurm = store, small_slurm(Cluster.pool(16), Program(), "easy")
        self.here = cluster_of(self.slurm.configuration())
        self.agent = Agent(
            store, self.slurm, NoShell(), clock=self.slurm.clock, monotonic=self.slurm.clock, holder="me",
            settings=AgentSettings(), promised=PromisedStarts(path) if path else None,
        )  # fmt: skip
        submission = Submission(str(script), {"time": "10:00", "nodes": "1"})
        for name in ("c1", "c2"):
            store.add_chain(name, ChainSpec(submission, policy="lead:0.1"), BEGIN_S)

    def live(self, seconds: int) -> None:
        end_s = self.slurm.clock() + seconds
        while self.slurm.clock() < end_s:
            self.slurm.sleep(self.agent.pause_s(self.agent.cycle(), 0.0))

    @property
    def history(self) -> list[tuple[int, ...]]:
        """All links of the chains, to the second."""
        return [(one.chain, one.number, one.submitted_s, one.started_s, one.ended_s) for one in self.store.links()]

    def promise(self, **of: object) -> Promise:
        """A promise about a job of this user."""
        output: dict[str, object] = {
            "made_s": BEGIN_S, "job": MISSING, "submit_s": MISSING, "name": "never", "partition": "main", "nodes": 1,
            "limit_s": 1800,
        }  # fmt: skip
        waits = {"waits_s": (60,) * 64, "reported_s": (60.0,) * 7}
        return Promise(self.here, user=self.slurm.user, **{**output, **of}, **waits)  # type: ignore[arg-type]


def test_the_start_of_a_promised_job_is_filled_in(store: SqlStore, script: Path, tmp_path: Path) -> None:
    world = World(store, script, tmp_path / "promises.db")
    world.live(300)
    link = next(link for link in store.links() if link.state is LinkState.HELD)
    observed = next(job for job in world.slurm.observe().jobs if job.id == link.job)
    promises = Promises(tmp_path / "promises.db")
    promises.add(world.promise(made_s=int(world.slurm.clock()), job=observed.id, submit_s=observed.submit_s))
    made_s = int(world.slurm.clock())
    world.live(1500)
    ((_, stored),) = promises.of(world.here, SETTLED)
    started_s = next(one.started_s for one in store.links(link.chain) if one.number == link.number)
    assert stored.wait_s == pytest.approx(started_s - made_s, abs=1)
    assert promises.of(world.here, OPEN) == []


def test_without_promises_no_file_is_made(store: SqlStore, script: Path, tmp_path: Path) -> None:
    World(store, script, tmp_path / "promises.db").live(300)
    assert not (tmp_path / "promises.db").exists()


def test_chains_do_not_notice_promises_that_cannot_be_read(
    store: SqlStore, script: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "promises.db").write_text("this is no data base " * 100)
    world = World(store, script, tmp_path / "promises.db")
    with caplog.at_level(logging.WARNING, logger="mirage.agent"):
        world.live(1500)
    reported = [record.detail for record in caplog.records if record.msg == "trouble"]  # type: ignore[attr-defined]
    assert len(reported) == 1, "once, though it is tried every ten minutes"
    assert "cannot use the promises in" in reported[0]
    assert [chain.trouble for chain in store.chains()] == ["", ""]
    assert len(world.history) > 4, "link after link"


def test_a_fault_in_it_ends_no_cycle(
    store: SqlStore, script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: object) -> int:
        raise ZeroDivisionError("of ours")

    world = World(store, script, tmp_path / "promises.db")
    Promises(tmp_path / "promises.db").add(world.promise())
    monkeypatch.setattr(Promises, "fill_in", fails)
    assert world.agent.cycle().trouble == ""
    assert "a fault of Mirage in the promises: ZeroDivisionError: of ours" in caplog.records[-1].detail  # type: ignore[attr-defined]
