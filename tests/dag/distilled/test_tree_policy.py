"""Trees as schedulers: the compiled walk equals plain Python; caps and scores."""

import math

import numpy as np
import pytest

from mirage.dag.distilled.candidate_columns import FEATURES, READY, WORK, candidate_rows
from mirage.dag.distilled.executor_rule import Cap, ExecutorRule, rule_of
from mirage.dag.distilled.tree_decider import decide_by_tree
from mirage.dag.distilled.tree_policy import parameters_of, read_tree, scheduler_of, shipped_tree
from mirage.dag.schedulers.stage_schedulers import make_scheduler
from mirage.dag.simulator.dag_simulation import DagSimulation
from mirage.dag.simulator.dag_world import DagCluster
from mirage.dag.simulator.stage_decision import NOTHING, executors_of, held, is_ready, stage_of
from mirage.dag.workload.dag_arrivals import poisson_arrivals
from mirage.dag.workload.generated import generated_templates
from mirage.distill.tree import Leaf, Split, Tree
from mirage.distill.tree_reading import tree_of
from mirage.distill.tree_text import rules_of, text_of
from mirage.distill.units import FLAG_THRESHOLD, Unit
from mirage.errors import ConfigurationError, MirageError, UnknownName

EVEN = {"spare": False, "even": True, "usual": True}
QUIET, CROWDED = Cap(0.9, 1.1, 0.8, 1.2, 0.7, 2.0, 0.5, **EVEN), Cap(-0.2, 2.0, **EVEN)
RULE = ExecutorRule(QUIET, ((0.5, CROWDED),))
LOADS = ExecutorRule(QUIET, ((0.15, CROWDED), (0.3, Cap(0.2, 3.0, even=True)), (0.4, Cap(0.0, 1.5, spare=False))))


def simulation(seed=1, executors=10, jobs=8):
    templates = generated_templates()
    arrivals = poisson_arrivals(jobs, seed, templates=len(templates))
    return DagSimulation(templates, arrivals, DagCluster(executors), seed=seed)


def tree_with(root, rule=ExecutorRule()):  # noqa: B008
    return Tree(FEATURES, Unit.NUMBER, root, rule.settings())


def random_tree(rng, values, depth=4):
    if depth == 0:
        return Leaf(float(rng.integers(-1, 4)))
    column = int(rng.integers(len(FEATURES)))
    feature = FEATURES[column]
    threshold = FLAG_THRESHOLD if feature.unit is Unit.FLAG else float(rng.choice(values[:, column]))
    return Split(feature.name, threshold, *(random_tree(rng, values, depth - 1) for _ in range(2)))


def rows_at(now, usual=False):
    rows, stages = np.zeros((400, len(FEATURES))), np.zeros(400, np.int64)
    count = candidate_rows(now.world, now.state, rows, stages, usual)
    return rows[:count], stages[:count]


def expected(tree, rule, now):
    """What a tree decides, in plain Python."""
    state, world, clock = now.state, now.world, now.state.clock[0]
    executors = int(world.settings[0].executors)
    cap = ([rule.quiet] + [one for load, one in rule.crowded if clock.n_active / executors >= load])[-1]
    rows, stages = rows_at(now, cap.usual)
    score = tree.values(rows)
    wanting = [job for job in state.active[: clock.n_active] if state.jobs[job].unsaturated > 0]
    rough, last = state.stages.remaining * world.stages.rough_ms, state.stages.remaining * state.stages.last_ms
    work_ms = np.bincount(world.stages.job, rough if cap.usual else last).astype(int)
    total = sum(max(int(work_ms[job]), 1) ** cap.power for job in wanting)

    def room_of(stage, lifted):
        job = int(world.stages[stage].job)
        share = cap.factor * executors * max(int(work_ms[job]), 1) ** cap.power / total
        own = job == clock.source_job
        favour = cap.source_share if own else cap.new if held(state, job) == 0 else 1.0
        most = max(1, math.ceil(share * favour - 1e-9))
        most = executors if lifted else min(most, max(1, math.ceil(cap.most * executors)))
        return min(int(clock.free), most - int(held(state, job)) + (int(clock.free) if own else 0))

    lowest = 0 if clock.n_heap > 0 else -math.inf
    for lifted in (False, True)[: 2 if cap.spare else 1]:
        order = [k for k in range(len(stages)) if score[k] >= lowest and room_of(stages[k], lifted) >= 1]
        if order:
            k = min(order, key=lambda k: (-score[k], rows[k, WORK], -rows[k, READY], k))
            stage, room = int(stages[k]), room_of(stages[k], lifted)
            number = min(room, max(1, int(int(state.stages[stage].demand) / cap.tasks_each)))
            if not is_ready(state, stage):
                number = min(number, max(1, math.ceil(cap.early * room)))
            if cap.even:
                row = state.stages[stage]
                number = min(number, int(row.demand))
                here, left = int(row.executors + row.moving + row.committed), int(row.remaining)
                rounds = math.ceil(left / (here + number))
                fewer = range(1, number + 1)
                number = min(few for few in fewer if math.ceil(left / (here + few)) == rounds)
            return stage, number
    return None


@pytest.mark.parametrize("rule", [ExecutorRule(), RULE, LOADS])
def test_the_compiled_walk_equals_plain_python(rule):
    rng, compared = np.random.default_rng(5), 0
    first = simulation()
    first.advance()
    values = rows_at(first)[0]
    for seed in (1, 2):
        now = simulation(seed, jobs=5)
        has_next = now.advance()
        while has_next:
            tree = tree_with(random_tree(rng, values), rule)
            decided = int(decide_by_tree(now.world, now.state, parameters_of(tree)))
            found = None if decided == NOTHING else (int(stage_of(decided)), int(executors_of(decided)))
            assert found == expected(tree, rule, now)
            compared += 1
            values = rows_at(now)[0]
            plain = int(decide_by_tree(now.world, now.state, parameters_of(tree_with(Leaf(0.0)))))
            has_next = now.decide(int(stage_of(plain)), int(executors_of(plain)))
    assert compared > 80


def test_rows_describe_the_state():
    now = simulation(3)
    has_next = now.advance()
    name = {feature.name: k for k, feature in enumerate(FEATURES)}
    for _ in range(60):
        rows, stages = rows_at(now)
        state, world, clock = now.state, now.world, now.state.clock[0]
        active = state.active[: clock.n_active]
        usual_s = np.bincount(world.stages.job, state.stages.remaining * world.stages.rough_ms) / 1000
        assert rows_at(now, usual=True)[0][:, WORK] == pytest.approx(usual_s[world.stages.job[stages]])
        work_s = sum(int(state.jobs[job].remaining_work_ms) for job in active) / 1000
        for row, stage in zip(rows, stages, strict=True):
            job = int(world.stages[stage].job)
            everything = world.stages.job == job
            assert row[name["tasks_left"]] == state.stages.remaining[everything].sum()
            siblings = stages[world.stages.job[stages] == job]
            stage_work = state.stages.remaining * state.stages.last_ms
            assert row[name["work_share"]] == pytest.approx(state.jobs[job].remaining_work_ms / 1000 / work_s)
            assert row[name["backlog"]] == pytest.approx(work_s / 10)
            assert row[name["own"]] == (job == clock.source_job)
            assert row[name["holds"]] == held(state, job)
            assert row[name["new"]] == (held(state, job) == 0)
            assert row[name["choices"]] == len(siblings)
            assert row[name["before"]] == list(siblings).index(stage)
            assert row[name["smaller"]] == sum(stage_work[other] < stage_work[stage] for other in siblings)
            assert row[name["slack"]] == row[name["job_path"]] - row[name["stage_path"]] >= 0
            assert (row[name["starts_in"]] == 0) or not row[READY]
        decided = int(decide_by_tree(world, state, parameters_of(tree_with(Leaf(0.0)))))
        has_next = now.decide(int(stage_of(decided)), int(executors_of(decided)))
    assert has_next


def test_stages_below_zero_are_left_alone_until_nothing_runs():
    usual = simulation().run(decide_by_tree, parameters_of(tree_with(Leaf(0.0))))
    shy = Split("own", FLAG_THRESHOLD, Split("new", FLAG_THRESHOLD, Leaf(-1.0), Leaf(1.0)), Leaf(2.0))
    left = simulation().run(decide_by_tree, parameters_of(tree_with(shy)))
    assert left.moves < usual.moves
    never = simulation().run(decide_by_tree, parameters_of(tree_with(Leaf(-1.0))))
    assert np.isfinite(never.jct_s).all()
    assert never.jct_s.mean() > usual.jct_s.mean()


def test_a_job_with_stranded_executors_goes_first():
    """A tree that strands executors at a stage that cannot start, with none for its parents."""
    templates = generated_templates()
    arrivals = poisson_arrivals(20, 20, templates=len(templates))
    now = DagSimulation(templates, arrivals, DagCluster(50, moving_s=10.0), seed=20)
    tree = tree_with(Split("own", FLAG_THRESHOLD, Leaf(1.0), Leaf(0.0)), ExecutorRule(Cap(0.5, 2.0)))
    parameters, state, found = parameters_of(tree), now.state, 0
    has_next = now.advance()
    while has_next:
        decided = int(decide_by_tree(now.world, state, parameters))
        jobs, source = state.jobs, int(state.clock[0].source_job)
        waits = (
            (jobs.active > 0) & (jobs.in_pool > 0) & (jobs.in_pool == jobs.local) & (jobs.moving + jobs.committed == 0)
        )
        rows, stages = rows_at(now)
        owner = now.world.stages.job[stages]
        stranded = [job for job in np.unique(owner[rows[:, READY] > 0]) if waits[job] and job != source]
        if stranded:
            found += 1
            assert now.world.stages[stage_of(decided)].job in stranded
            assert is_ready(state, int(stage_of(decided)))
        has_next = now.decide(int(stage_of(decided)), int(executors_of(decided)))
    assert found


def test_a_cap_binds():
    few = parameters_of(tree_with(Leaf(0.0), ExecutorRule(Cap(most=0.2, spare=False))))
    now = simulation()
    has_next = now.advance()
    while has_next:
        decided = int(decide_by_tree(now.world, now.state, few))
        if decided == NOTHING:
            has_next = now.decide_nothing()
            continue
        has_next = now.decide(int(stage_of(decided)), int(executors_of(decided)))
        assert max(held(now.state, job) for job in range(8)) <= 2


def test_a_rule_is_read_as_it_is_written():
    for rule in (RULE, LOADS, ExecutorRule(), ExecutorRule(Cap(spare=False))):
        text = text_of(Tree(FEATURES, Unit.NUMBER, Leaf(1.0), rule.settings()))
        assert rule_of(dict(tree_of(text).settings)) == rule


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"caps": "1 2"}, "caps"),
        ({"cap": "1"}, "a power and a factor"),
        ({"cap": "9 1"}, "from -4 to 4"),
        ({"most": "0 %"}, "above 0 %"),
        ({"early": "0.5"}, "setting early.*per cent"),
        ({"crowded_cap": "0 2"}, "no effect without crowded_from"),
        ({"crowded_from": "-20 %"}, "crowded_from is -20 %; give a share from 0 %"),
        ({"crowded_from": "0.2 %", "crowded3_cap": "0 2"}, "crowded3_cap has no effect without crowded2_from"),
        (
            {"crowded_from": "50 %", "crowded2_from": "20 %"},
            "crowded2_from is 20 %; give a share above crowded_from, 50 %",
        ),
        ({"crowded1_cap": "0 2"}, "crowded1_cap"),
        ({"spare": "maybe"}, "write yes or no"),
        ({"even": "maybe"}, "write yes or no"),
        ({"work": "known"}, "write usual or last"),
        ({"new": "0 %"}, "new is 0"),
        ({"tasks_each": "0"}, "up to 1000 tasks"),
    ],
)
def test_a_rule_that_is_none_is_refused(settings, message):
    with pytest.raises(MirageError, match=message):
        rule_of(settings)


def test_trees_of_something_else_are_refused(tmp_path):
    file = tmp_path / "mine.txt"
    file.write_text("tree: 1\nfeatures:\n    moon: number\nvalues: number\n1\n")
    with pytest.raises(ConfigurationError, match=r"mine\.txt: .*moon"):
        read_tree(file)
    with pytest.raises(UnknownName, match="moon"):
        parameters_of(tree_of(file.read_text()))
    with pytest.raises(ConfigurationError, match="declared as number; it is duration"):
        parameters_of(tree_of("tree: 1\nfeatures:\n    work: number\nvalues: number\n1\n"))
    message = "^the tree does not answer plain numbers; its leaves are scores: 'values: number'"
    with pytest.raises(ConfigurationError, match=message):
        parameters_of(tree_of("tree: 1\nfeatures:\n    work: duration\nanswers: wait, submit\nwait\n"))
    with pytest.raises(ConfigurationError, match=r"^the tree .*none\.txt cannot be read: .*; name a text file$"):
        read_tree(tmp_path / "none.txt")
    (tmp_path / "long.txt").write_text("tree: 1\nfeatures:\nvalues: number\n\n1 #".ljust(1_000_000) + "\n")
    with pytest.raises(ConfigurationError, match=r"long\.txt is longer than 1000000 characters; make it smaller$"):
        read_tree(tmp_path / "long.txt")
    (tmp_path / "long.txt").write_text("tree: 1\nfeatures:\nvalues: number\n\n1 #".ljust(999_999) + "\n")
    assert read_tree(tmp_path / "long.txt")[1].root == Leaf(1.0)


def test_the_shipped_tree_and_a_file_are_schedulers(tmp_path):
    shipped = make_scheduler("tree")
    assert len(shipped_tree().leaves) <= 32
    file = tmp_path / "mine.txt"
    file.write_text(text_of(shipped_tree()))
    mine = make_scheduler(str(file))
    assert (mine.decider, mine.name) == (shipped.decider, str(file))
    assert (mine.parameters == shipped.parameters).all()
    file.write_text(text_of(shipped_tree()), encoding="utf-8-sig")  # as some editors save
    assert read_tree(file) == (text_of(shipped_tree()), tree_of(text_of(shipped_tree())))
    ours, other = (simulation().run(one.decider, one.parameters_for(0)) for one in (shipped, mine))
    assert (ours.jct_s == other.jct_s).all()
    assert scheduler_of(shipped_tree(), "x").name == "x"


def test_rules_are_listed_by_score():
    root = Split(
        "own", FLAG_THRESHOLD, Split("work", 60.0, Leaf(2.0), Split("work", 90.0, Leaf(-1.0), Leaf(3.0))), Leaf(4.0)
    )
    assert rules_of(tree_with(root)) == (
        "4: own",
        "3: not own and work >= 1min 30s",
        "2: not own and work < 1min",
        "-1: not own and work >= 1min and work < 1min 30s",
    )


def test_rules_have_the_tighter_bound_and_leave_out_what_cannot_be_reached():
    root = Split(
        "work",
        60.0,
        Split("work", 90.0, Leaf(2.0), Leaf(9.0)),
        Split("work", 30.0, Leaf(8.0), Split("work", 40.0, Leaf(7.0), Leaf(1.0))),
    )
    assert rules_of(tree_with(root)) == ("2: work < 1min", "1: work >= 1min")
