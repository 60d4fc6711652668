"""Followed links: a policy's revisions change a simulated job, and are charged."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from mirage.duration import DAY_S, HOUR_S, MINUTE_S
from mirage.errors import ConfigurationError, PlanInfeasible
from mirage.policy.contract import PolicySpec
from mirage.policy.cost import Cost
from mirage.policy.plan import Action, Hold, Plan, Postpone, Release, Shorten, Submit, Wait, Withdraw
from mirage.policy.policy_registry import POLICIES
from mirage.policy.view import View
from mirage.provision.evaluation.candidate import candidates
from mirage.provision.evaluation.episode import Scenario
from mirage.provision.evaluation.evaluate import evaluate
from mirage.provision.evaluation.evaluation_protocol import EvaluationProtocol
from mirage.provision.evaluation.evaluation_study import Player, Study, WindowTrial
from mirage.provision.evaluation.oracle import oracle_holds
from mirage.provision.evaluation.policy_score import outcome
from mirage.provision.link_size import LinkSize
from mirage.sim.cluster import Cluster
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from mirage.sim.workload import workload
from mirage.trace.table import JobTable
from tests.support.made_up_windows import four_windows

LINK = LinkSize(1, 12 * HOUR_S)
BEGIN_S = 10 * HOUR_S
PLAN = EvaluationProtocol.warm(BEGIN_S, windows=1, lead_in_s=0, step_s=HOUR_S)


@pytest.fixture
def two_nodes() -> Scenario:
    """Two nodes: one is the link's, the other is busy until 8 h after its start."""
    table = JobTable.build(
        range(4),
        submit_s=[0, BEGIN_S + 2 * HOUR_S, BEGIN_S + 2 * HOUR_S, BEGIN_S + 40 * HOUR_S],
        elapsed_s=[18 * HOUR_S, 5 * HOUR_S, HOUR_S, HOUR_S],
        limit_s=[18 * HOUR_S, 30 * HOUR_S, 30 * HOUR_S, HOUR_S],
        nodes=[1, 1, 1, 1],
        user=["a", "b", "b", "b"],
    )
    cluster = Cluster.pool(2)
    return Scenario(cluster, workload(table, cluster), "slurm", SlurmSettings(weight_age=100_000.0))


class Script:
    """A policy by script: minutes since the start of the link → actions."""

    lines: dict[int, tuple[Action, ...]]
    observations: list[tuple[int, tuple[int, bool, int, int] | None, int, int]]

    def decide(self, view: View) -> Plan:
        chain = view.chain
        assert chain is not None
        minute = (view.now_s - chain.started_s) // MINUTE_S
        link = chain.queued
        observed = None if link is None else (link.accrues_s - chain.started_s, link.held, link.begins_s, link.limit_s)
        ids = [] if link is None else [link.job]
        waits, held = (int(np.isin(ids, jobs.id).sum()) for jobs in (view.pending, view.held))
        Script.observations.append((minute, observed, waits, held))
        return Plan(Script.lines.get(minute, (Wait(reason="next"),)))


@pytest.fixture
def follow(two_nodes: Scenario, monkeypatch: pytest.MonkeyPatch) -> Callable[..., WindowTrial]:
    """Plays the window with a script."""
    spec = PolicySpec(f"{__name__}:Script", "for tests", revises_queued_link=True)
    monkeypatch.setitem(POLICIES, "test-script", spec)

    def played(lines: dict[int, tuple[Action, ...]]) -> WindowTrial:
        Script.lines, Script.observations = lines, []
        study = Study(two_nodes, PLAN, (LINK,), tuple(candidates(["test-script"], [Cost()])), holds=True)
        return Player(study).play(0)[0]

    return played


def soon(minute: int) -> Wait:
    """Request a call at a minute of the link."""
    return Wait(until_s=BEGIN_S + minute * MINUTE_S, reason="soon")


AHEAD = (Submit(reason="ahead"), soon(61))


def test_a_link_left_alone_has_the_outcome_of_the_table(follow: Callable[..., WindowTrial]) -> None:
    trial = follow({60: (Submit(reason="now"),)})
    followed = trial.followed["test-script"]
    # submitted before the other job, it gets the node that falls free four hours before the end
    assert followed.outcome_s == trial.episode.outcome_s[0] == -4 * HOUR_S
    assert (followed.submitted_s, followed.revisions, followed.lost_s) == (BEGIN_S + HOUR_S, 0, 0)
    assert followed.calls == 7  # at 2, 3 … 8 h; it starts in the second of the last
    assert trial.episode.reactive_s == HOUR_S


def test_a_held_link_is_released_at_the_end_with_its_age(follow: Callable[..., WindowTrial]) -> None:
    trial = follow({60: AHEAD, 61: (Hold(reason="too-early"),)})
    assert trial.followed["test-script"].outcome_s == 0
    assert trial.followed["test-script"].revisions == 1
    # what it sees: its age counts from the submission, held or not
    assert Script.observations[1] == (61, (HOUR_S, False, -1, LINK.limit_s), 1, 0)
    assert Script.observations[2] == (120, (HOUR_S, True, -1, LINK.limit_s), 0, 1)
    assert Script.observations[-1][0] == 11 * 60


def test_a_link_can_be_released_moved_and_withdrawn(follow: Callable[..., WindowTrial]) -> None:
    hold = (Hold(reason="too-early"),)
    at_seven = follow({60: AHEAD, 61: hold, 420: (Release(reason="now"),)})
    assert at_seven.followed["test-script"].outcome_s == -4 * HOUR_S
    moved = follow({60: AHEAD, 61: (Postpone(start_s=BEGIN_S + 9 * HOUR_S, reason="later"),)})
    # at nine hours another job has the node that fell free; there is none until the present link ends
    assert moved.followed["test-script"].outcome_s == 0
    assert Script.observations[2] == (120, (HOUR_S, False, BEGIN_S + 9 * HOUR_S, LINK.limit_s), 0, 1)
    gone = follow({60: AHEAD, 61: (Withdraw(reason="no"),)})
    assert gone.followed["test-script"].outcome_s == gone.episode.reactive_s == HOUR_S
    assert Script.observations[-1] == (660, None, 0, 0)
    anew = follow({60: AHEAD, 61: (Withdraw(reason="no"),), 180: (Submit(reason="yes"),)})
    assert anew.followed["test-script"].submitted_s == BEGIN_S + HOUR_S
    # it comes behind the two jobs then, as a reactive one does
    assert anew.followed["test-script"].outcome_s == HOUR_S


def test_time_cut_off_a_link_is_charged_as_overlap(follow: Callable[..., WindowTrial]) -> None:
    trial = follow({60: AHEAD, 61: (Hold(reason="a"), Shorten(limit_s=9 * HOUR_S, reason="gap"))})
    assert trial.followed["test-script"].lost_s == 3 * HOUR_S
    observed = outcome("test-script", [trial], Cost(5, 2))
    assert (observed.interruption_s[0], observed.overlap_s[0]) == (0, 3 * HOUR_S)
    assert observed.costs(Cost(5, 2)).tolist() == [6]


def test_two_links_are_never_queued(follow: Callable[..., WindowTrial]) -> None:
    with pytest.raises(PlanInfeasible, match="withdraw that one first"):
        follow({60: AHEAD, 61: (Submit(reason="again"),)})


def test_the_bound_in_hindsight_holds_from_the_first_decision_on(follow: Callable[..., WindowTrial]) -> None:
    trial = follow({})
    assert trial.followed == {}
    # let go at 1 … 8 h it gets the node that falls free then; later the present link's own, at its end
    assert trial.held_outcome_s == (*[-4 * HOUR_S] * 8, *[0] * 4)
    best = oracle_holds([trial], Cost())
    assert (best.interruption_s.tolist(), best.overlap_s.tolist()) == ([0], [0])
    with pytest.raises(ConfigurationError, match="oracle-holds"):
        oracle_holds(four_windows(), Cost())


def test_a_journal_holds_what_was_followed(follow: Callable[..., WindowTrial]) -> None:
    trial = follow({60: AHEAD, 61: (Hold(reason="too-early"),)})
    again = WindowTrial.from_json(trial.to_json())
    assert (again.followed, again.held_outcome_s) == (trial.followed, trial.held_outcome_s)


def test_no_policy_beats_the_bound_on_a_busy_cluster(busy_setting: Scenario, tmp_path: object) -> None:
    plan = EvaluationProtocol.warm(10 * DAY_S, windows=2, every_s=36 * HOUR_S, step_s=2 * HOUR_S)
    judged = ["reactive", "holds:bank=yes:futures=4", "oracle", "oracle-holds"]
    found = evaluate(busy_setting, plan, [LINK], judged, resume_dir=tmp_path)
    again = evaluate(busy_setting, plan, [LINK], judged, resume_dir=tmp_path)
    assert (again.reused, again.rows) == (2, found.rows)
    costs = {row.policy: row.cost for row in found.rows if row.load == "all"}
    assert costs["oracle-holds"] <= costs["oracle"] <= costs["reactive"]
