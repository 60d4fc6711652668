"""Policies judged by whole chains on a simulated Slurm of four nodes.

Every day at noon a job of two hours needs all nodes, and waits for the link of that time. The next link is behind it,
whenever it is submitted: two hours of interruption a day.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from mirage.chains.chain_evaluation import ChainStudy, PlayedChain, begin_chains, evaluate_chains
from mirage.chains.simulated_chain import keep_alive
from mirage.duration import DAY_S, HOUR_S
from mirage.errors import MirageError
from mirage.policy.cost import Cost
from mirage.provision.evaluation.candidate import Candidate
from mirage.provision.evaluation.episode import Scenario
from mirage.provision.evaluation.paired import Difference
from mirage.provision.link_size import LinkSize
from mirage.report.terminal.chain_evaluation_text import print_chain_evaluation
from mirage.sim.cluster import Cluster
from mirage.sim.workload import workload
from mirage.study.executors.work_codec import decode, encode
from mirage.trace.table import JobTable

DAYS = 12
COST = Cost(3, 1)


def study(**changes: object) -> ChainStudy:
    noon_s = [day * DAY_S + 12 * HOUR_S for day in range(DAYS)]
    jobs = JobTable.build(
        range(1, DAYS + 1), submit_s=noon_s, elapsed_s=[2 * HOUR_S] * DAYS, limit_s=[2 * HOUR_S] * DAYS,
        nodes=[4] * DAYS, user=["ada"] * DAYS,
    )  # fmt: skip
    machine = Cluster.pool(4)
    scenario = Scenario(machine, workload(jobs, machine), "fcfs")
    base = ChainStudy(scenario, DAY_S, 2, 4 * DAY_S, 3 * DAY_S, (LinkSize(1, 4 * HOUR_S),), ())
    return replace(base, **changes)  # type: ignore[arg-type]


def test_each_window_has_a_chain_of_the_agent_with_each_policy() -> None:
    found = evaluate_chains(study(), ["reactive", "lead:1"], [COST], against="reactive")
    assert list(found.chains) == [("reactive", 1, COST), ("lead:1", 1, COST)]
    for first, second in found.chains.values():
        assert (first.begin_s, second.begin_s) == (DAY_S, 5 * DAY_S)
        assert second.alive_s == 3 * DAY_S, "the first link starts at once"
    other = study()
    sim = other.scenario.simulation()
    sim.approach(5 * DAY_S)
    run = keep_alive(sim, other.links[0], "lead:1", COST, 8 * DAY_S, step_s=other.step_s)
    assert (second.interruption_s, second.overlap_s, second.started) == (
        run.interruption_s, run.overlap_s, len(run.started),
    )  # fmt: skip
    reactive, ahead = found.rows
    assert (reactive.interruption_h, reactive.overlap_h, reactive.cost) == (6, 0, 18)
    assert ahead.interruption_h == 6
    assert ahead.overlap_h > 0
    (difference,) = found.differences
    assert (difference.policy, difference.against, difference.windows) == ("lead:1", "reactive", 2)
    assert difference.cost == pytest.approx(ahead.cost - reactive.cost)


def test_rows_follow_from_the_chains() -> None:
    found = evaluate_chains(study(windows=1), ["reactive", "average"], [COST, Cost(1, 1)], against="reactive")
    assert [(row.policy, row.cost_ratio) for row in found.rows] == [
        ("reactive", 3.0), ("average", 3.0), ("reactive", 1.0), ("average", 1.0),
    ]  # fmt: skip
    row, (chain,) = found.rows[0], found.chains["reactive", 1, COST]
    assert row.cost == pytest.approx((3 * chain.interruption_s + chain.overlap_s) / HOUR_S)
    assert row.availability == pytest.approx(1 - chain.interruption_s / chain.alive_s)
    assert row.held_node_h == pytest.approx(chain.held_s / HOUR_S)
    assert (row.cost_95, found.differences[0].cost_95, found.differences[0].verdict) == (None, None, "")
    assert found.chains["reactive", 1, COST] == found.chains["reactive", 1, Cost(1, 1)], "it weighs no cost"


def test_chains_that_never_start_are_counted_and_named(capsys: pytest.CaptureFixture[str]) -> None:
    """A job of five days on all nodes is submitted before the second of three windows."""
    jobs = JobTable.build(
        [1, 2, 3], submit_s=[0, 3 * DAY_S, 12 * DAY_S], elapsed_s=[60, 5 * DAY_S, 60], limit_s=[60, 5 * DAY_S, 60],
        nodes=[4, 4, 1],
    )  # fmt: skip
    machine = Cluster.pool(4)
    full = study(scenario=Scenario(machine, workload(jobs, machine), "fcfs"), windows=3, every_s=3 * DAY_S)
    found = evaluate_chains(full, ["reactive"], [COST])
    first, never, _ = found.chains["reactive", 1, COST]
    assert first.interruption_s > 0
    assert (never.started, never.alive_s, never.interruption_s, never.overlap_s) == (0, 0, 0, 0)
    assert found.rows[0].unstarted == 1
    where = {"trace": "x", "windows": 3, "nodes": 4, "chain_s": 3 * DAY_S, "start": "", "discipline": "fcfs"}
    print_chain_evaluation(
        found, where | {"settings": "", "waiting_links": 3, "link_limit_s": HOUR_S, "link_user": "newcomer"}
    )
    assert "no link started in 1 window: such a chain has no interruption and no cost" in capsys.readouterr().out


def test_played_chains_are_reused_also_by_a_study_with_more_policies(tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    progress = lambda done, all_of_them: calls.append((done, all_of_them))  # noqa: E731
    played = study(windows=1)
    once = evaluate_chains(played, ["reactive"], [COST], resume_dir=tmp_path)
    again = evaluate_chains(played, ["lead:1", "reactive"], [COST], resume_dir=tmp_path, progress=progress)
    assert (once.reused, again.reused) == (0, 1)
    assert again.chains["reactive", 1, COST] == once.chains["reactive", 1, COST]
    assert calls[0] == (1, 2)
    other = evaluate_chains(study(windows=1, waiting_links=1), ["reactive"], [COST], resume_dir=tmp_path)
    assert other.reused == 0


def test_links_belong_to_a_user_of_the_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    users = []

    def played(*_: object, user: str, **__: object) -> object:
        users.append(user)
        raise KeyboardInterrupt

    monkeypatch.setattr("mirage.chains.chain_evaluation.keep_alive", played)
    for owner in ("newcomer", "user:ada", "median"):
        with pytest.raises(KeyboardInterrupt):
            evaluate_chains(study(windows=1, begin_s=2 * DAY_S, link_user=owner), ["reactive"], [COST])
    assert users == ["", "ada", "ada"]


@pytest.mark.parametrize(
    ("changes", "policies", "message"),
    [
        (
            {},
            ["reactive", "oracle", "oracle-holds", "exact-wait"],
            "^oracle-holds, exact-wait judge a single hand-o",
        ),
        ({"chain_s": 4 * HOUR_S}, ["reactive"], "a chain of 04:00:00 has no hand-over of links of 04:00:00; give a lo"),
        (
            {"step_s": 4 * HOUR_S},
            ["reactive"],
            "no policy decides in a link of 04:00:00, .* is 04:00:00; give a shorter",
        ),
        ({"every_s": 2 * DAY_S}, ["reactive"], "chains of 3-00:00:00 that overlap, so the intervals would be too narr"),
        ({"chain_s": 12 * DAY_S}, ["reactive"], "a chain of 12-00:00:00 is longer than the trace, in which jobs are s"),
        ({"begin_s": 0}, ["reactive"], "begins before the trace: 1970-01-01T00:00:00Z, jobs are submitted 1970-01-01T"),
        ({"windows": 3}, ["reactive"], "the last job of the trace: 1970-01-13T00:00:00Z, jobs are .*; 2 windows fit:"),
        ({}, ["no-such-rule"], "unknown policy 'no-such-rule'"),
        ({}, ["lead:x"], "lead"),
        ({"link_user": "user:bob"}, ["reactive"], "links of 'user:bob' need jobs of that user"),
    ],
)
def test_what_cannot_be_played_is_refused(changes: dict[str, int], policies: list[str], message: str) -> None:
    with pytest.raises(MirageError, match=message):
        evaluate_chains(study(**changes), policies, [COST])


def judged(monkeypatch: pytest.MonkeyPatch, saved: dict[str, list[float]]) -> tuple[Difference, ...]:
    """Differences from ``reactive`` of policies that save these hours in each window."""

    def begin(played: ChainStudy):  # type: ignore[no-untyped-def]
        def play(place):  # type: ignore[no-untyped-def]
            hours = 40 - saved[played.candidates[place[2]].policy][place[0]]
            return place, PlayedChain(0, round(hours * HOUR_S) + place[0], 0, 0, DAY_S, 3, 0)

        return play

    monkeypatch.setattr("mirage.chains.chain_evaluation.begin_chains", begin)
    shown = study(windows=6, every_s=DAY_S, chain_s=DAY_S)
    return evaluate_chains(shown, ["reactive", *saved], [Cost(1, 1)], against="reactive").differences


def test_a_wide_difference_is_no_verdict_and_a_constant_one_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six windows in which one policy saves 5 h in each, and another one 30 h in one of them."""
    saved = {"reactive": [0.0] * 6, "lead:1": [5.0] * 6, "average": [30.0, 0, 0, 0, 0, 0]}
    found = judged(monkeypatch, saved)
    assert {d.policy: (round(d.cost, 6), d.verdict) for d in found} == {"lead:1": (-5, "better"), "average": (-5, "")}
    (steady, rare) = (d.cost_95 for d in found)
    assert steady == pytest.approx((-5, -5))
    assert rare is not None
    assert rare == pytest.approx((-5 - 2.5706 * 5, -5 + 2.5706 * 5), abs=1e-3)


def test_policies_with_the_same_hand_overs_count_once_in_the_correction(monkeypatch: pytest.MonkeyPatch) -> None:
    """A p-value of 0.033 is no proof among two policies, also if one of them has two names."""
    nothing, some = [0.0] * 6, [1.0, 2, 3, 4, 12, 8]
    found = judged(monkeypatch, {"reactive": nothing, "lead:1": some, "lead:01": some, "average": nothing})
    once, again, other = (d.p_corrected for d in found)
    assert once == again == pytest.approx(2 * 0.0330, abs=1e-3)
    assert other == 1
    alone, ceiling = judged(monkeypatch, {"reactive": nothing, "lead:1": some, "oracle": nothing})
    assert (alone.p_corrected, ceiling.p_corrected) == (pytest.approx(0.0330, abs=1e-3), None)


def test_the_oracle_is_a_ceiling_and_no_policy(capsys: pytest.CaptureFixture[str]) -> None:
    """It counts in no correction, and is never the best policy."""
    found = evaluate_chains(study(), ["reactive", "lead:1", "oracle"], [COST], against="reactive")
    _, ahead, oracle = found.rows
    assert ahead.interruption_h == oracle.interruption_h == 6, "the job of noon runs once a day, whatever is known"
    two, ceiling = found.differences
    alone = evaluate_chains(study(), ["reactive", "lead:1"], [COST], against="reactive").differences[0]
    assert (two, ceiling.p_corrected, ceiling.verdict) == (alone, None, "")
    provenance = {
        "windows": 2, "nodes": 4, "chain_s": 3 * DAY_S, "start": "1970", "discipline": "fcfs", "trace": "t",
        "settings": "s", "waiting_links": 3, "link_limit_s": 4 * HOUR_S, "link_user": "newcomer",
    }  # fmt: skip
    console = Console(force_terminal=True, width=200)
    print_chain_evaluation(found, provenance, console)
    shown = capsys.readouterr().out
    assert "\x1b[2moracle" in shown, "dim"
    assert "\x1b[1;32mreactive" in shown, "bold and green: the least cost of a policy"


def test_chains_can_be_played_by_jobs_of_an_array() -> None:
    """The study reaches another process as bytes without code."""
    played = study(candidates=(Candidate("reactive"),))
    there = decode(encode((begin_chains, played)), Path("work"))
    place, chain = there[0](there[1])((1, 0, 0))
    assert place == (1, 0, 0)
    assert decode(encode(chain), Path("result")) == begin_chains(played)(place)[1]
