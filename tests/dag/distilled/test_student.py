"""Students of a teacher: their fidelity, and tuning that makes jobs end sooner."""

from dataclasses import replace

import numpy as np
import pytest

from mirage.dag.decima.decima_schedulers import OWN
from mirage.dag.decima.decima_schedulers import scheduler_of as network_of
from mirage.dag.decima.networks.graph_network import SHAPES
from mirage.dag.decima.networks.layers import perceptrons
from mirage.dag.distilled.candidate_columns import FEATURES
from mirage.dag.distilled.decisions import Decisions, Teacher, decisions_of, fidelity
from mirage.dag.distilled.executor_rule import Cap, ExecutorRule
from mirage.dag.distilled.small_changes import changed
from mirage.dag.distilled.student import students
from mirage.dag.distilled.teachers import teacher_of
from mirage.dag.distilled.tree_decider import decide_by_tree
from mirage.dag.distilled.tree_policy import parameters_of, scheduler_of
from mirage.dag.distilled.tuning import Episodes, shortened, tuned
from mirage.dag.schedulers.stage_schedulers import make_scheduler
from mirage.dag.simulator.dag_world import DagCluster
from mirage.dag.workload.dag_arrivals import poisson_arrivals
from mirage.dag.workload.generated import generated_templates
from mirage.distill.ranking import Contests, agreement
from mirage.distill.tree import Leaf, Split, Tree
from mirage.distill.tree_reading import tree_of
from mirage.distill.tree_text import text_of
from mirage.distill.units import FLAG_THRESHOLD, Unit
from mirage.errors import ConfigurationError, UnknownName


def episodes(seeds, executors=10, jobs=10):
    templates = generated_templates()
    arrivals = [poisson_arrivals(jobs, seed, templates=len(templates)) for seed in seeds]
    return Episodes(templates, arrivals, DagCluster(executors), seeds)


def tree_with(root, rule=ExecutorRule()):  # noqa: B008
    return Tree(FEATURES, Unit.NUMBER, root, rule.settings())


OWN_FIRST = Split("own", FLAG_THRESHOLD, Leaf(1.0), Leaf(2.0))


def test_a_tree_is_faithful_to_itself_and_less_so_to_others():
    tree = scheduler_of(tree_with(OWN_FIRST), "own first")
    worlds = episodes([1, 2]).worlds
    same = fidelity(decisions_of(Teacher(tree), worlds, states_of=tree, tree=tree))
    assert (same.stage, same.job, same.executors, same.probability, same.most) == (1, 1, 1, 1, 1)
    other = scheduler_of(tree_with(Leaf(1.0), ExecutorRule(Cap(most=0.5))), "least work first, half each")
    apart = fidelity(decisions_of(Teacher(other), worlds, states_of=other, tree=tree))
    assert 0 < apart.stage <= apart.job < 1
    assert apart.executors < 1
    assert 0 < apart.choices <= apart.decisions


@pytest.mark.parametrize("usual", [False, True])
def test_rows_measure_work_as_the_tree_does(usual):
    tree = tree_with(Split("drains_in", 30.0, Leaf(0.0), Leaf(1.0)), ExecutorRule(Cap(usual=usual)))
    plays = scheduler_of(tree, "drains last")
    reported = decisions_of(Teacher(plays), episodes([1, 2]).worlds, states_of=plays, tree=plays)
    assert agreement(tree, reported.contests) == 1


def test_labels_are_the_teachers_in_whichever_states():
    teacher, tree = make_scheduler("fifo"), scheduler_of(tree_with(Leaf(1.0)), "least work first")
    worlds = episodes([3]).worlds
    theirs, mine = (decisions_of(teacher_of(teacher), worlds, states_of=plays, tree=tree) for plays in (teacher, tree))
    age = [feature.name for feature in FEATURES].index("age")
    own = [feature.name for feature in FEATURES].index("own")
    for reported in (theirs, mine):
        contests = reported.contests
        winner = contests.winners(contests.liking)
        oldest = np.maximum.reduceat(contests.rows[:, age], contests.first)
        of_source = np.maximum.reduceat(contests.rows[:, own], contests.first)
        assert (contests.rows[winner, own] == of_source).all()
        assert (contests.rows[winner, age] == oldest)[of_source == 0].all()
    assert len(theirs.contests.rows) != len(mine.contests.rows)


def test_episodes_are_numbered_and_seed_the_draws():
    random = np.random.default_rng(4)
    net = perceptrons([(random.normal(0, 0.3, shape), np.zeros(shape[1])) for shape in SHAPES])
    drawn, worlds = network_of("drawn", OWN, net, argmax=False), episodes([4, 4], jobs=3).worlds
    found = decisions_of(teacher_of(drawn), worlds, states_of=drawn, tree=drawn)
    assert np.unique(found.contests.group).tolist() == [0, 1]
    first, second = (found.picked[found.contests.group == group].tolist() for group in (0, 1))
    assert first != second  # two equal episodes, drawn with other seeds


def test_fidelity_by_hand():
    """Four decisions of 2, 1, 3 and 2 candidates; the tree picks none in the last."""
    first, job = np.array([0, 2, 3, 6]), np.array([7, 8, 7, 8, 9, 9, 7, 8])
    liking = np.array([0.25, 0.75, 1.0, 0.5, 0.3, 0.2, 0.9, 0.1])
    contests = Contests(FEATURES, np.zeros((8, len(FEATURES))), first, liking, np.ones(4), np.zeros(4, int))
    recorded = Decisions(
        contests, job, meant=np.array([1, 0, 1, 0]), executors=np.array([3, 2, 4, 1]),
        picked=np.array([0, 0, 1, -1]), given=np.array([3, 5, 4, 1]),
    )  # fmt: skip
    found = fidelity(recorded)
    assert (found.decisions, found.choices, found.stage, found.job) == (4, 3, 0.25, 0.25)
    assert found.stage_of_choices == 0.0
    assert found.executors == 0.5  # of the decisions in which both mean the same candidate: the second and the third
    assert found.probability == pytest.approx((0.25 + 1.0 + 0.3 + 0.0) / 4)
    assert found.most == pytest.approx((0.75 + 1.0 + 0.5 + 0.9) / 4)
    same_job = replace(recorded, picked=np.array([1, 0, 2, 0]), job=np.array([7, 8, 7, 9, 8, 9, 7, 8]))
    found = fidelity(same_job)
    assert (found.stage, found.job, found.stage_of_choices) == (0.75, 1.0, pytest.approx(2 / 3))
    never = fidelity(replace(recorded, picked=np.full(4, -1)))
    assert (never.executors, never.stage, never.probability) == (1.0, 0.0, 0.0)


def test_students_need_an_episode_to_learn_from_and_one_to_judge_on():
    teacher = Teacher(scheduler_of(tree_with(OWN_FIRST), "own first"))
    message = r"^a tree needs two episodes of each setting, .*; give two seeds or more \(--seeds\)$"
    for settings in ([], [episodes([1, 2]), episodes([1])]):
        with pytest.raises(ConfigurationError, match=message):
            students(teacher, settings, np.random.default_rng(0))


def test_an_episode_has_one_number_in_the_states_of_the_teacher_and_of_trees():
    """Methods hold back whole episodes: one with two numbers would be learnt from as well."""
    teacher, groups = Teacher(scheduler_of(tree_with(OWN_FIRST), "own first")), []

    def learn(contests, most, rng):
        groups.append(contests.group)
        return tree_with(Leaf(1.0))

    settings = [episodes([1, 2, 3], jobs=3), episodes([4, 5, 6], executors=4, jobs=3)]
    students(teacher, settings, np.random.default_rng(0), rounds=1, learn=learn)
    assert [np.unique(each).tolist() for each in groups] == [[0, 1, 2, 3]] * 2
    assert len(groups[1]) > len(groups[0])


@pytest.mark.slow
def test_a_student_learns_a_teacher_that_a_tree_can_express():
    teacher = scheduler_of(tree_with(Split("smaller", 1.0, Leaf(2.0), Leaf(1.0))), "least stage first")
    (small, one) = students(
        Teacher(teacher), [episodes([1, 2, 3], jobs=6)], np.random.default_rng(0), leaves=(1, 6), rounds=0
    )
    assert len(small.tree.leaves) == 1
    assert len(one.tree.leaves) <= 6
    assert small.on_teacher.stage < one.on_teacher.stage
    assert one.on_teacher.stage > 0.95
    assert one.on_own.job > 0.95
    with pytest.raises(ConfigurationError, match="two episodes"):
        students(Teacher(teacher), [episodes([1])], np.random.default_rng(0))


def test_the_faithful_tree_of_all_rounds_is_selected_on_request():
    like_the_teacher, better = (tree_with(Split("work", 200.0, Leaf(a), Leaf(b))) for a, b in ((1.0, 2.0), (2.0, 1.0)))
    teacher = Teacher(scheduler_of(like_the_teacher, "long jobs first"))
    fitted = {(2, 0): like_the_teacher, (2, 1): better}

    def accepted(how):
        played = [episodes([1, 2], jobs=6)]
        return students(
            teacher, played, np.random.default_rng(0), leaves=(2,), rounds=1, select_by=how, fitted=dict(fitted)
        )[0]

    assert accepted("faithful").tree.root == like_the_teacher.root
    assert accepted("soonest").tree.root == better.root
    with pytest.raises(UnknownName, match="faithful, soonest"):
        accepted("first")


def test_tuning_only_accepts_what_helps():
    tree, settings = tree_with(Split("work", 100.0, Leaf(1.0), Leaf(2.0))), [episodes(range(4), jobs=6)]
    values = decisions_of(
        Teacher(scheduler_of(tree, "t")), settings[0].worlds[:1], states_of=scheduler_of(tree, "t"),
        tree=scheduler_of(tree, "t"),
    ).contests.rows  # fmt: skip
    reported = []
    found, again = (
        tuned(
            tree,
            settings,
            values,
            np.random.default_rng(2),
            may_continue=lambda k: k < 25,
            most_leaves=5,
            report=reported.append,
        )
        for _ in range(2)
    )
    before, after = (settings[0].mean_jct_s(decide_by_tree, parameters_of(one)).mean() for one in (tree, found.tree))
    assert found == again
    assert found.cost == pytest.approx(after / before)
    assert found.cost < 0.995
    assert len(found.tree.leaves) <= 5
    assert [one.cost for one in reported[: found.accepted]] == sorted(
        (one.cost for one in reported[: found.accepted]), reverse=True
    )
    numbers = tuned(tree, settings, values, np.random.default_rng(2), may_continue=lambda k: k < 10, may_grow=False)
    assert set(numbers.tree.tested) <= {"work"}


def test_pruning_leaves_out_questions_under_which_jobs_end_no_sooner():
    settings = [episodes(range(3), jobs=6)]
    useless = Split("children", 1_000.0, Split("work", 100.0, Leaf(2.0), Leaf(1.0)), Leaf(1.0))
    reported = []
    found = shortened(tree_with(useless), settings, lambda cost, tree: reported.append((cost, len(tree.leaves))))
    assert found.root == Leaf(1.0)  # least work first is what ties do
    assert [leaves for _, leaves in reported] == [1]
    assert reported[0][0] == pytest.approx(1.0)
    harmful = tree_with(Split("work", 100.0, Leaf(1.0), Leaf(2.0)))
    assert shortened(harmful, settings).root in (Leaf(1.0), Leaf(2.0))
    helps = tree_with(OWN_FIRST)
    before, after = (settings[0].mean_jct_s(decide_by_tree, parameters_of(one)).mean() for one in (helps, found))
    assert (shortened(helps, settings).root == OWN_FIRST) == (before < 0.9995 * after)


def test_tuning_of_numbers_leaves_the_conditions():
    numbers = Split("work", 100.0, Leaf(1.0), Split("holds", 2.0, Leaf(1.0), Leaf(2.0)))
    tree = tree_with(Split("own", FLAG_THRESHOLD, numbers, Leaf(2.0)))
    rng, other = np.random.default_rng(0), tree
    for _ in range(300):
        other = changed(other, np.zeros((0, len(FEATURES))), 4, rng, may_grow=False)
        own = other.root
        assert (own.feature, own.threshold, own.below.feature, own.below.above.feature) == (
            "own", FLAG_THRESHOLD, "work", "holds",
        )  # fmt: skip
        assert isinstance(own.above, Leaf)
    assert tree_of(text_of(other)).root == other.root


def test_tuning_may_test_what_a_tree_does_not_list():
    features = tuple(feature for feature in FEATURES if feature.name == "own")
    tree, settings = Tree(features, Unit.NUMBER, OWN_FIRST), [episodes(range(2), jobs=5)]
    plays = scheduler_of(tree, "t")
    values = decisions_of(Teacher(plays), settings[0].worlds[:1], states_of=plays, tree=plays).contests.rows
    rng = np.random.default_rng(3)
    tested, other = set(), tree
    for _ in range(60):
        other = changed(tree, values, 5, rng, may_grow=True)
        assert {feature.name for feature in other.features} == {"own", *other.tested}
        tested |= set(other.tested)
    assert len(tested) > 10
    found = tuned(tree, settings, values, np.random.default_rng(1), may_continue=lambda k: k < 10)
    parameters_of(found.tree)


def test_executors_of_a_teacher_that_draws_are_those_of_the_stage_that_it_likes_most():
    random = np.random.default_rng(4)
    net = perceptrons([(random.normal(0, 0.3, shape), np.zeros(shape[1])) for shape in SHAPES])
    drawn, likeliest = (network_of(name, OWN, net, argmax=name == "likeliest") for name in ("drawn", "likeliest"))
    worlds = episodes([4], jobs=4).worlds
    reported, again = (decisions_of(teacher_of(one), worlds, states_of=drawn, tree=drawn) for one in (drawn, likeliest))
    assert (reported.picked != reported.meant).any()  # it draws other stages and numbers,
    assert (reported.given != reported.executors).any()
    assert (reported.executors == again.executors).all()  # which are not what a tree is compared with
    same_stage = reported.picked == reported.meant
    assert fidelity(reported).executors == (reported.given == reported.executors)[same_stage].mean()
    faithful = fidelity(decisions_of(teacher_of(drawn), worlds, states_of=drawn, tree=likeliest))
    assert (faithful.stage, faithful.executors) == (1, 1)


@pytest.mark.slow
def test_each_size_learns_of_its_own_states(monkeypatch):
    """Students fitted together equal those fitted alone; own states are collected once."""
    teacher = Teacher(scheduler_of(tree_with(Split("smaller", 1.0, Leaf(2.0), Leaf(1.0))), "least stage first"))
    settings = [episodes([1, 2, 3], jobs=5)]

    def fit(*leaves):
        messages = []
        found = students(teacher, settings, np.random.default_rng(0), leaves=leaves, rounds=1, report=messages.append)
        return found, messages

    (one, two), messages = fit(2, 6)
    assert (one,) == fit(2)[0]
    assert (two,) == fit(6)[0]
    assert messages.count("the teacher's decisions") == 1
    assert sum("states of a tree" in line for line in messages) == 2
    assert one.tree != two.tree
