"""Ranking trees take their teacher's winners, and weigh contests by their margin."""

import numpy as np
import pytest

from mirage.distill.pruning import FitSettings
from mirage.distill.ranking import Contests, agreement, joined, margins, ordered, ranking_tree
from mirage.distill.tree import Leaf, Split, Tree, TreeFeature
from mirage.distill.units import Unit
from mirage.errors import ConfigurationError

FEATURES = (TreeFeature("work", Unit.DURATION), TreeFeature("ready", Unit.FLAG))


def contests_of(m, rng, liking):
    """Contests of 1 to 6 candidates that a function of their rows likes."""
    sizes = rng.integers(1, 7, m)
    first = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    rows = np.column_stack([rng.uniform(0, 3_600, sizes.sum()), rng.integers(0, 2, sizes.sum())]).astype(float)
    liked = liking(rows)
    return Contests(FEATURES, rows, first, liked, margins(liked, first), np.arange(m) // 10)


def test_the_first_of_equal_scores_wins():
    rows = np.zeros((5, 2))
    contests = Contests(FEATURES, rows, np.array([0, 2]), np.arange(5.0), np.ones(2), np.zeros(2, int))
    assert contests.winners(np.array([3.0, 3.0, 1.0, 2.0, 2.0])).tolist() == [0, 3]
    assert contests.winners(contests.liking).tolist() == [1, 4]
    assert contests.part(np.array([False, True])).winners(np.array([1.0, 2.0, 2.0])).tolist() == [1]
    both = joined([contests, contests])
    assert both.first.tolist() == [0, 2, 5, 7]


def test_a_margin_is_the_lead_over_the_second():
    liking = np.array([0.5, 0.2, 0.3, 1.0, 0.4, 0.4])
    assert margins(liking, np.array([0, 3, 4])) == pytest.approx([0.2, 0.02, 0.02])


def test_a_teacher_of_two_rules_is_found_in_three_leaves():
    rng = np.random.default_rng(3)
    contests = contests_of(2_000, rng, lambda rows: rows[:, 1] + (rows[:, 0] < 1_200) * 0.4)
    held_out = contests.group >= 150
    tree = ranking_tree(contests, held_out, rng, FitSettings(max_leaves=4, folds=0, may_move=0.0))
    assert len(tree.leaves) <= 4
    assert agreement(tree, contests.part(held_out)) > 0.99


def test_scores_are_ordered_by_winners_and_not_by_squared_error():
    root = Split("work", 1_800.0, Leaf(1.0), Leaf(2.0))
    tree = Tree(FEATURES, Unit.NUMBER, root)
    contests = contests_of(300, np.random.default_rng(4), lambda rows: np.where(rows[:, 0] < 1_800, 1.0, 0.0))
    mended = ordered(tree, contests)
    assert [leaf.value for leaf in mended.leaves] == [2.0, 1.0]
    assert agreement(tree, contests) < 0.8 < 1.0 == agreement(mended, contests)


def test_weights_decide_where_no_order_serves_all():
    rows = np.array([[0.0, 0.0], [3_000.0, 0.0], [0.0, 0.0], [3_000.0, 0.0]])
    liking = np.array([1.0, 0.0, 0.0, 1.0])
    tree = Tree(FEATURES, Unit.NUMBER, Split("work", 1_800.0, Leaf(1.0), Leaf(2.0)))
    for heavy in ([3.0, 1.0], [1.0, 3.0]):
        contests = Contests(FEATURES, rows, np.array([0, 2]), liking, np.array(heavy), np.zeros(2, int))
        assert agreement(ordered(tree, contests), contests, contests.weight) == 0.75


def test_contests_that_do_not_fit_are_refused():
    with pytest.raises(ConfigurationError, match="do not ascend"):
        Contests(FEATURES, np.zeros((2, 2)), np.array([1]), np.zeros(2), np.ones(1), np.zeros(1, int))
    with pytest.raises(ConfigurationError, match="2 candidates in 1 contests"):
        Contests(FEATURES, np.zeros((2, 2)), np.array([0]), np.zeros(3), np.ones(1), np.zeros(1, int))
    with pytest.raises(ConfigurationError, match="features in common"):
        joined([])
