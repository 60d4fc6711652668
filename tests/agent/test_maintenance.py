"""A chain before, during and after a maintenance, in virtual time."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from mirage.agent.agent import Agent
from mirage.agent.chain.history import chain_run
from mirage.agent.model import ChainSpec
from mirage.agent.settings import AgentSettings
from mirage.agent.store.sql_store import open_store
from mirage.duration import HOUR_S, MINUTE_S
from mirage.job_state import MISSING, JobState
from mirage.lab.virtual.program import Program
from mirage.sim.cluster import Cluster, Reservation
from mirage.slurm.records import Submission
from tests.support.agent_store import without_waiting_for_the_disk
from tests.support.ready_shells import TrueShell
from tests.support.small_slurm import BEGIN_S, small_slurm

BEGINS_S, ENDS_S = BEGIN_S + 15 * HOUR_S, BEGIN_S + 18 * HOUR_S


@pytest.mark.slow
@pytest.mark.parametrize(("policy", "known"), [("lead:1", True), ("dependency", True), ("lead:1", False)])
def test_links_end_before_a_maintenance_and_begin_after_it(tmp_path: Path, policy: str, known: bool) -> None:
    pool = Cluster.pool(4)
    announced_s = None if known else BEGIN_S + 12 * HOUR_S + 30 * MINUTE_S
    reservation = Reservation(BEGINS_S, ENDS_S, pool.groups[0].name, 4, announced_s)
    slurm = small_slurm(replace(pool, reservations=(reservation,)), Program(), discipline="easy")
    (tmp_path / "job.sh").write_text("#!/bin/sh\n#SBATCH -N 2\n")
    with closing(open_store(f"sqlite:///{tmp_path}/store.db")) as store:
        without_waiting_for_the_disk(store)
        submission = Submission(str(tmp_path / "job.sh"), {"time": "6:00:00", "nodes": "2"})
        store.add_chain("train", ChainSpec(submission, policy=policy), BEGIN_S)
        settings = AgentSettings(poll_s=2 * MINUTE_S, busy_poll_s=MINUTE_S)
        agent = Agent(
            store, slurm, TrueShell(), clock=slurm.clock, monotonic=slurm.clock, holder="me", settings=settings
        )
        while slurm.clock() < BEGIN_S + 22 * HOUR_S:
            slurm.sleep(agent.pause_s(agent.cycle(), 0.0))
        (chain,) = store.chains()
        links, events = store.links(1), store.events(1)
    ran = [link for link in links if link.started_s != MISSING]
    assert len(ran) <= 5, "no storm of short links before the maintenance"
    assert ran[-1].started_s - ENDS_S < 5 * MINUTE_S, "the next link waits for the end of the maintenance"
    assert (ran[-1].limit_s, ran[-1].shortened_from_s) == (6 * HOUR_S, MISSING)
    (reserved,) = (event.detail for event in events if event.kind == "reserved")
    assert reserved.endswith(": reservation r0 (MAINT)")
    assert (events[-3].kind, chain.reserved) == ("reserved-over", "")
    if not known:  # a link runs into it, as Slurm lets it
        assert ran[-2].ended_s > BEGINS_S
        return
    assert all(link.started_s + link.limit_s <= BEGINS_S for link in ran[:-1])
    assert 0 < BEGINS_S - ran[-2].ended_s < 30 * MINUTE_S, "the time before it is used"
    assert (ran[-2].shortened_from_s, ran[-2].outcome) == (6 * HOUR_S, JobState.COMPLETED)
    assert ran[-2].signalled_s < ran[-2].started_s + ran[-2].limit_s
    now_s = BEGIN_S + 22 * HOUR_S
    assert chain_run(chain, links, (), now_s).interruption_s == ran[-1].started_s - ran[-2].ended_s
