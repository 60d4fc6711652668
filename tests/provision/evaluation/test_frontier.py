"""Frontiers of hand-made windows."""

from __future__ import annotations

import pytest

from mirage.policy.cost import Cost
from mirage.provision.evaluation.evaluate import Evaluation
from mirage.provision.evaluation.evaluation_study import WindowTrial
from mirage.provision.evaluation.frontier import LEADS_H, Frontier, Point, PolicySeries, frontiers
from mirage.provision.evaluation.policy_score import score
from tests.support.made_up_windows import four_windows, trial

COSTS = (Cost(1, 1), Cost(3, 1))


def evaluation(
    *sizes: list[WindowTrial], policies: tuple[str, ...] = ("early",), costs: tuple[Cost, ...] = COSTS
) -> Evaluation:
    by_nodes = {trials[0].episode.link.nodes: tuple(trials) for trials in sizes}
    rows = [row for trials in sizes for row in score(trials, policies, costs)]
    return Evaluation(trials=by_nodes, rows=tuple(rows), policies=policies, costs=costs, reused=0, intervals="of weeks")


def bare(point: Point) -> tuple[str, float, float]:
    return point.label, point.overlap_h, point.interruption_h


def only(found: tuple[Frontier, ...]) -> Frontier:
    (frontier,) = found
    return frontier


def test_every_constant_lead_by_pencil() -> None:
    frontier = only(frontiers(evaluation(four_windows())))
    assert (frontier.link_nodes, frontier.load, frontier.windows) == (2, "all", 4)
    at_0, at_4, at_8 = (0, 4.75), (1.5, 1.5), (4.25, 0.25)
    expected = {0: at_0, 1: at_0, 2: at_0, 4: at_4, 6: at_4, 8: at_8, 12: at_8, 18: at_8, 24: at_8}
    assert [bare(point) for point in frontier.leads] == [(f"{h} h", *expected[h]) for h in expected]
    assert list(expected) == list(LEADS_H)
    assert all(point.overlap_95 is point.interruption_95 is None for point in frontier.leads)


def test_a_policy_is_a_series_of_points_one_for_each_cost_that_moved_it() -> None:
    """One policy ignores costs: one point; the other submits late at 1:1, early at 3:1."""
    frontier = only(frontiers(evaluation(four_windows(), policies=("early", "told"))))
    early, heeding = frontier.series
    assert (early.policy, [bare(point) for point in early.points]) == ("early", [("1:1, 3:1", 2.5, 0.75)])
    assert (heeding.policy, [bare(point) for point in heeding.points]) == (
        "told",
        [("1:1", 0, 4.75), ("3:1", 3.25, 0.25)],
    )


def test_points_carry_the_intervals_of_their_rows() -> None:
    judged = evaluation(four_windows())
    ((point,),) = [series.points for series in only(frontiers(judged)).series]
    row = next(row for row in judged.rows if row.load == "all")
    assert point.overlap_95 == row.overlap_95 != point.interruption_95 == row.interruption_95
    assert point.overlap_95 is not None


def test_bounds_and_constant_leads_are_no_series() -> None:
    judged = evaluation(four_windows()[:1], policies=("reactive", "early", "oracle"), costs=(Cost(3, 1),))
    with_lead = Evaluation(judged.trials, judged.rows, ("lead:4", *judged.policies), judged.costs, 0, "")
    frontier = only(frontiers(with_lead))
    assert [series.policy for series in frontier.series] == ["early"]
    assert frontier.oracle == PolicySeries("oracle", (Point("3:1", 2.0, 0.0),))


def test_no_oracle_where_none_was_requested() -> None:
    assert only(frontiers(evaluation(four_windows()))).oracle is None


def test_overlap_for_nothing_is_named_free() -> None:
    frontier = only(frontiers(evaluation(four_windows(), costs=(Cost(2, 0),))))
    assert [point.label for point in frontier.series[0].points] == ["free"]
    frontier = only(frontiers(evaluation(four_windows(), costs=(Cost(1, 2),))))
    assert [point.label for point in frontier.series[0].points] == ["0.5:1"]


@pytest.mark.parametrize(
    ("load", "windows", "first", "point"),
    [
        ("light", 2, ("0 h", 0, 0.5), ("1:1, 3:1", 5, 0)),
        ("medium", 1, ("0 h", 0, 5), ("1:1, 3:1", 0, 2)),
        ("heavy", 1, ("0 h", 0, 13), ("1:1, 3:1", 0, 1)),
    ],
)
def test_a_load_class_has_a_frontier_of_its_own(
    load: str, windows: int, first: tuple[str, float, float], point: tuple[str, float, float]
) -> None:
    frontier = only(frontiers(evaluation(four_windows()), load))
    assert (frontier.load, frontier.windows, bare(frontier.leads[0])) == (load, windows, first)
    assert [bare(p) for p in frontier.series[0].points] == [point]


def test_sizes_of_link_do_not_mix_and_one_without_windows_is_left_out() -> None:
    quiet = [trial(k, [-3, -1, 0], {"early": 0}, nodes=8) for k in range(3)]
    judged = evaluation(quiet, four_windows())
    assert [(f.link_nodes, f.windows) for f in frontiers(judged)] == [(8, 3), (2, 4)]
    assert [bare(f.series[0].points[0])[1:] for f in frontiers(judged)] == [(3, 0), (2.5, 0.75)]
    assert [f.link_nodes for f in frontiers(judged, "heavy")] == [2]
