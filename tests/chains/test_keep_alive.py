"""One chain that the agent keeps alive on a simulated Slurm of four nodes, under fcfs.

Of three jobs of others the third needs three nodes: it starts after the first link of two, and delays the next one.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from mirage.agent.policy_runner.question import settings_for
from mirage.chains.demonstration import keep_alive
from mirage.duration import HOUR_S
from mirage.errors import MirageError
from mirage.policy.cost import Cost
from mirage.provision.chain_record import ChainRun, HandOver
from mirage.provision.link_size import LinkSize
from mirage.sim.cluster import Cluster, Limit
from mirage.sim.simulation import Simulation
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from mirage.sim.workload import workload
from mirage.trace.table import JobTable
from tests.support.fickle import install

LINK = LinkSize(2, 2 * HOUR_S)


def lived(policy: str, hours: float) -> ChainRun:
    others = JobTable.build(
        [1, 2, 3], submit_s=[0, 0, 600], elapsed_s=[3600, 1800, 3600], limit_s=[7200] * 3, nodes=[2, 2, 3]
    )
    machine = Cluster.pool(4)
    sim = Simulation(machine, workload(others, machine), "fcfs")
    sim.approach(0)
    return keep_alive(sim, LINK, policy, Cost(3, 1), round(hours * HOUR_S))


def test_a_reactive_chain_submits_when_its_link_has_ended() -> None:
    run = lived("reactive", 5.25)
    assert (run.link, run.begin_s, run.until_s) == (LINK, 0, 18_900)
    assert [(link.number, link.submitted_s, link.started_s, link.ends_s) for link in run.links] == [
        (0, 0, 0, 7_130), (1, 7_130, 10_730, 17_860), (2, 17_860, 17_860, 25_060), (3, 18_900, -1, -1),
    ]  # fmt: skip
    assert [link.job for link in run.links] == [4, 5, 6, 7], "jobs of others come first"
    assert run.hand_overs == (HandOver(0, 7_130, 3_600, following=1), HandOver(1, 17_860, 0, following=2))
    assert (run.interruption_s, run.overlap_s, run.cost(Cost(3, 1))) == (3_600, 0, 3.0)


def test_a_chain_with_a_lead_submits_ahead_and_ends_the_older_link_once_the_next_has_started() -> None:
    run = lived("lead:1", 5.25)
    assert [(link.submitted_s, link.started_s, link.ends_s) for link in run.links[:3]] == [
        (0, 0, 7_130), (2_760, 10_730, 13_610), (13_490, 13_490, 16_370),
    ]  # fmt: skip
    assert run.links[0].ends_s == 7_200 - 120 - 10 + 60, "signalled before its limit, it left within a minute"
    first, again, _ = [decision for decision in run.decisions if decision.submits]
    assert (first.now_s, first.link, first.remaining_s, first.reason) == (2_760, 0, 4_440, "lead-reached")
    assert first.estimate == {"remaining_s": 3_600.0, "lead_s": 3_600.0}, "less grace and what the agent takes"
    assert (again.now_s, again.link) == (13_490, 1)
    assert run.hand_overs == (
        HandOver(0, 7_130, 3_600, following=1),
        HandOver(1, 13_610, 0, 120, following=2),
        HandOver(2, 16_370, 0, 120, following=3),
    )


@pytest.mark.parametrize("hours", [1, 2])
def test_a_run_ends_with_its_time(hours: int) -> None:
    run = lived("reactive", hours)
    assert [decision.now_s for decision in run.decisions] == [120], "the lead is constant"
    assert {decision.submits for decision in run.decisions} == {False}
    assert (run.until_s, len(run.started)) == (3_600 * hours, 1)


def test_waits_beyond_the_limit_interrupt_the_chain_once_if_several_links_wait() -> None:
    """Every job waits for twelve hours; links of four hours are a small part of the load."""
    submit_s = [0] * 240 + [hour * HOUR_S for hour in range(72) for _ in range(20)]
    hour_s, one = [HOUR_S] * len(submit_s), [1] * len(submit_s)
    others = JobTable.build(range(1, len(submit_s) + 1), submit_s=submit_s, elapsed_s=hour_s, limit_s=hour_s, nodes=one)
    machine = Cluster.pool(20)
    sim = Simulation(machine, workload(others, machine), "slurm", SlurmSettings(weight_age=10_000.0))
    sim.approach(HOUR_S)
    runs = {n: keep_alive(sim.fork(), LinkSize(1, 4 * HOUR_S), "hold", Cost(1, 1), 72 * HOUR_S, n) for n in (1, 3)}
    lost_h = {n: [round(over.interruption_s / HOUR_S) for over in run.hand_overs] for n, run in runs.items()}
    assert len(lost_h[1]) == 5
    assert min(lost_h[1][:4]) >= 8
    assert len(lost_h[3]) >= 12
    assert sum(lost_h[3]) <= 10
    for run in runs.values():
        starts = [link.started_s for link in run.started]
        assert starts == sorted(starts)


def test_policies_know_the_limits_of_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    known = []

    def recorded(request: object, options: object, limits: object, choices: object) -> object:
        known.append(limits)
        return settings_for(request, options, limits, choices)  # type: ignore[arg-type]

    monkeypatch.setattr("mirage.agent.policy_runner.in_process.settings_for", recorded)
    limits = (Limit(per="user", jobs=8),)
    machine = replace(Cluster.pool(4), limits=limits)
    sim = Simulation(machine, workload(JobTable.build([1], submit_s=[0], nodes=[1]), machine), "fcfs")
    sim.approach(1)
    keep_alive(sim, LINK, "lead:1", Cost(3, 1), HOUR_S)
    assert set(known) == {limits}


def test_a_chain_leaves_no_file_however_its_process_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> str:
        raise AssertionError("a process that is killed would leave this folder")

    monkeypatch.setattr(tempfile, "mkdtemp", refused)
    assert len(lived("reactive", 5.25).started) == 3


def test_a_link_takes_whole_nodes_where_jobs_share_them() -> None:
    """Each of four nodes has a free GPU of four; a link of a single hand-over needs four."""
    others = JobTable.build(
        [1, 2, 3, 4], submit_s=[0] * 4, elapsed_s=[3600, 7200, 7200, 7200], limit_s=[7200] * 4, nodes=[1] * 4,
        gpus=[3] * 4, user=["ada"] * 4,
    )  # fmt: skip
    machine = Cluster.gpu(4, 4)
    sim = Simulation(machine, workload(others, machine), "fcfs")
    sim.approach(1)
    single = sim.fork()
    run = keep_alive(sim, LinkSize(1, 2 * HOUR_S), "reactive", Cost(3, 1), 90 * 60)
    assert run.links[0].started_s == single.run_until_started(single.inject(nodes=1, limit_s=2 * HOUR_S)) == 3_600


def test_a_policy_that_fails_is_not_judged_by_the_rule_that_decides_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    word = install(tmp_path, monkeypatch)
    word.mkdir()
    with pytest.raises(MirageError, match=r"policy fickle:.*word failed: IsADirectoryError: .*; mend it, or leave"):
        lived(f"fickle:{word}", 5.25)


def test_a_newcomer_is_no_user_of_the_trace() -> None:
    """One user may run one job at a time; one of the trace has the name of the links' owner."""
    others = JobTable.build([1], submit_s=[0], elapsed_s=[3600], limit_s=[7200], nodes=[1], user=["me"])
    machine = replace(Cluster.pool(4), limits=(Limit("user", jobs=1),))
    sim = Simulation(machine, workload(others, machine), "slurm")
    sim.approach(1)
    starts_s = [keep_alive(sim.fork(), LINK, "reactive", Cost(), 5400, user=u).links[0].started_s for u in ("", "me")]
    assert starts_s[0] < 60
    assert starts_s[1] >= 3_600
