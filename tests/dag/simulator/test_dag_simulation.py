"""The simulator of stages: schedules worked out by hand, and the environment on top of it."""

import gymnasium
import numpy as np
import pytest

from mirage.dag.environment import DagEnv
from mirage.dag.schedulers.stage_schedulers import make_scheduler
from mirage.dag.setting import EpisodeSetting
from mirage.dag.simulator.dag_simulation import DagSimulation
from mirage.dag.simulator.dag_world import DagCluster
from mirage.dag.workload.dag_arrivals import DagArrivals, poisson_arrivals
from mirage.dag.workload.generated import generated_templates
from mirage.dag.workload.templates import FIRST, JobTemplate, StageProfile
from mirage.errors import ConfigurationError, ContractBroken, MirageError


def at_five(value_ms):
    return {5: np.array([value_ms] if value_ms else [], np.int32)}


def stage(tasks, fresh_ms=3000, first_ms=2000, rest_ms=1000):
    return StageProfile(tasks, at_five(fresh_ms), at_five(first_ms), at_five(rest_ms))


def job(*stages, edges=()):
    return JobTemplate("made", tuple(edges), tuple(stages))


def played(templates, arrivals_s, executors, policy="fifo", **cluster):
    arrivals = DagArrivals(np.array([1000 * s for s in arrivals_s], np.int64), np.arange(len(arrivals_s)))
    simulation = DagSimulation(templates, arrivals, DagCluster(executors, **cluster), log=True)
    scheduler = make_scheduler(policy)
    return simulation.run(scheduler.decider, scheduler.parameters_for(0)), simulation


def test_one_executor_moves_warms_up_and_continues():
    outcome, simulation = played([job(stage(3))], [0], 1)
    assert outcome.jct_s.tolist() == [2 + 3 + 1 + 1]
    assert simulation.runs.start_ms.tolist() == [2000, 5000, 6000]
    assert (outcome.moves, outcome.makespan_s, outcome.idle_share, outcome.decisions) == (1, 7.0, 0.0, 1)


def test_a_second_executor_stays_idle_when_there_is_no_task_left():
    outcome, _ = played([job(stage(3))], [0], 2)
    assert outcome.jct_s.tolist() == [6.0]
    assert outcome.idle_share == pytest.approx(1 / 12)


def test_without_a_fresh_measurement_the_first_wave_and_a_warm_up_stand_in():
    outcome, _ = played([job(stage(1, fresh_ms=0))], [0], 1, warm_up_s=1.5, moving_s=0)
    assert outcome.jct_s.tolist() == [2 + 1.5]


def test_an_executor_sent_ahead_is_new_to_the_stage_and_one_that_waited_is_fresh():
    chain = job(stage(2), stage(2), edges=[(0, 1)])
    _, simulation = played([chain], [0], 2)
    runs = [(run.stage, run.start_ms, run.end_ms) for run in simulation.runs]
    assert runs == [(0, 2000, 5000), (0, 2000, 5000), (1, 5000, 7000), (1, 5000, 8000)]


def test_an_executor_offered_when_it_finishes_is_fresh_in_one_environment_only():
    three = job(stage(1), stage(1), stage(1), edges=[(0, 2)])
    ends = {
        name: played([three], [0], 1, environment=name)[0].makespan_s for name in ("spark-sched-sim", "decima-2019")
    }
    waited = 2 + 3 + 3  # the end of stage 0 makes stage 2 ready: who finished it waits in the pool, and is fresh
    assert ends == {"spark-sched-sim": waited + 3, "decima-2019": waited + 2}


def test_the_shorter_job_comes_first_where_that_is_the_rule():
    long, short = job(stage(20)), job(stage(1))
    first_come, _ = played([long, short], [0, 1], 1)
    shortest, _ = played([long, short], [0, 1], 1, "sjf")
    assert first_come.jct_s.tolist() == [2 + 3 + 19, 24 + 2 + 3 - 1]
    assert shortest.jct_s.tolist() == first_come.jct_s.tolist()  # nothing is taken from a stage that has tasks
    two_stages = job(stage(20), stage(20))
    retained, _ = played([two_stages, short], [0, 1], 1, "sjf")
    assert retained.jct_s[1] > 40  # and the source keeps its executor
    shared, _ = played([two_stages, short], [0, 1], 1, "critical-path")
    assert shared.jct_s[0] <= retained.jct_s[0]


@pytest.mark.parametrize(
    ("policy", "shares"), [("fifo", [4]), ("fair", [2, 2]), ("capped:0:1", [2, 2]), ("weighted-fair:0", [2, 2])]
)
def test_two_jobs_share_what_a_third_gives_up(policy, shares):
    _, simulation = played([job(stage(4)), job(stage(40)), job(stage(40))], [0, 1, 1], 4, policy)
    next_four = simulation.runs[4:8]
    assert [int((next_four.stage == stage).sum()) for stage in (1, 2) if (next_four.stage == stage).any()] == shares


@pytest.mark.parametrize("policy", ["capped:0:0.25", "capped-by-load:0:0.25:0:0.25", "sjf:0.25", "weighted-fair"])
def test_caps_leave_no_executor_idle_that_some_stage_could_use(policy):
    large, small = job(stage(40), stage(40)), job(stage(1))
    _, simulation = played([large, small], [0, 3], 4, policy)
    assert (simulation.runs.start_ms[:4] == 2000).all()


def test_refused_decisions_name_what_may_be_picked():
    simulation = DagSimulation(
        [job(stage(1), stage(1), edges=[(0, 1)])],
        DagArrivals(np.zeros(1, np.int64), np.zeros(1, np.int64)),
        DagCluster(1),
    )
    assert simulation.advance()
    with pytest.raises(ContractBroken, match="may_pick"):
        simulation.decide(1, 1)  # its parent wants executors still
    with pytest.raises(ContractBroken, match="may_pick"):
        simulation.decide(7, 1)


def test_a_scheduler_that_never_picks_is_refused():
    simulation = DagSimulation(
        [job(stage(1))], DagArrivals(np.zeros(1, np.int64), np.zeros(1, np.int64)), DagCluster(2)
    )
    assert simulation.advance()
    assert simulation.decide_nothing()  # nothing moves any more: it is asked once again
    with pytest.raises(ContractBroken, match=r"1 jobs without executors at 0\.0 s"):
        simulation.decide_nothing()


@pytest.mark.parametrize(
    ("cluster", "message"),
    [({"executors": 0}, "0 executors"), ({"noise": 1.0}, "noise is 1;"), ({"environment": "spark"}, "spark-sched")],
)
def test_clusters_that_cannot_be(cluster, message):
    with pytest.raises(MirageError, match=message):
        DagCluster(**cluster)


@pytest.mark.parametrize("action", ["add", "limit"])
def test_the_environment_pays_for_time_in_system_and_masks_what_may_not_be(action):
    env = gymnasium.make("mirage.dag.environment:mirage/Dag-v1", setting=EpisodeSetting(5, 4), action=action)
    observed, info = env.reset(seed=1, options={"episode": 7})
    assert info["episode"] == 7
    random, paid, ended = np.random.default_rng(0), 0.0, False
    while not ended:
        assert env.observation_space.contains(observed)
        row = random.choice(np.flatnonzero(observed["stage_mask"]))
        observed, reward, ended, _, info = env.step(
            np.array([row, random.choice(np.flatnonzero(observed["executor_mask"][row]))])
        )
        paid += reward
    assert info == {**info, "jobs": 0, "finished": 4}
    assert -paid == pytest.approx(env.unwrapped.simulation.outcome().jct_s.sum())


def test_the_environment_takes_a_single_template():
    env = DagEnv(templates=generated_templates()[:1], setting=EpisodeSetting(3, 4))
    assert env.reset(seed=0)[1]["jobs"] >= 1


def test_the_environment_refuses_what_its_masks_exclude():
    env = DagEnv(setting=EpisodeSetting(5, 4), action="limit")
    with pytest.raises(ConfigurationError, match="reset"):
        env.step(np.array([0, 0]))
    observed, _ = env.reset(seed=0)
    hidden = int(np.flatnonzero(observed["stage_mask"] == 0)[0])
    with pytest.raises(ConfigurationError, match="no row whose stage_mask is 1"):
        env.step(np.array([hidden, 4]))
    with pytest.raises(ConfigurationError, match=r"^an action is two numbers, of a row and of executors; got 3$"):
        env.step(3)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=r"^'both' is not an action mode; there are add and limit$"):
        DagEnv(action="both")
    with pytest.raises(ConfigurationError, match="there is no kind of job to draw"):
        DagEnv(templates=[])
    with pytest.raises(ConfigurationError, match=r"the setting must be an EpisodeSetting\(50, 200\), got '50/200'"):
        DagEnv(setting="50/200")  # type: ignore[arg-type]


def test_the_usual_environment_has_ten_executors_and_fifty_jobs():
    env = DagEnv()
    assert (env.setting, env.cluster, env.action) == (EpisodeSetting(10, 50), DagCluster(10), "add")
    assert env.templates == generated_templates()
    assert env.action_space.nvec.tolist() == [50 * max(len(job.stages) for job in env.templates), 10]
    other = DagEnv(setting=EpisodeSetting(4, 3), cluster=DagCluster(50, moving_s=7.0))
    assert other.cluster == DagCluster(4, moving_s=7.0)
    one, same, _ = (other.reset(seed=seed)[1]["episode"] for seed in (5, 5, None))
    assert one == same
    assert other.reset()[1]["episode"] != other.reset()[1]["episode"]


@pytest.mark.parametrize("action", ["add", "limit"])
def test_a_number_of_executors_that_the_mask_excludes_is_refused_and_not_replaced(action):
    env, refused = DagEnv(setting=EpisodeSetting(5, 8), action=action), 0
    observed, _ = env.reset(seed=0)
    ended = False
    while not ended:
        row = int(np.flatnonzero(observed["stage_mask"])[0])
        mask = observed["executor_mask"][row]
        decisions = env.simulation.state.clock[0].decisions
        for number in (-1, 5, *np.flatnonzero(mask == 0)):
            with pytest.raises(ConfigurationError, match=f"executor_mask of row {row} allows"):
                env.step(np.array([row, number]))
            refused += 0 <= number < 5
        assert env.simulation.state.clock[0].decisions == decisions
        observed, _, ended, _, _ = env.step(np.array([row, np.flatnonzero(mask)[-1]]))
    assert refused > 20


def test_equal_finish_gives_shares_with_which_jobs_end_together():
    for policy, first in (
        ("equal-finish", 2),
        ("equal-finish:1", 1),
    ):  # by least work, or by most
        outcome, simulation = played([job(stage(4)), job(stage(90)), job(stage(30))], [0, 1, 1], 4, policy)
        begun = simulation.runs.stage[4:8].tolist()
        assert (sorted(begun), begun[0]) == (
            [1, 1, 1, 2],
            first,
        )
        assert outcome.jct_s[1] == pytest.approx(outcome.jct_s[2], abs=2)


def test_what_no_share_takes_fills_the_holes():
    single = job(stage(1, fresh_ms=100_000, first_ms=100_000, rest_ms=100_000))  # its share is more than its one task
    _, simulation = played([job(stage(4)), single, job(stage(40))], [0, 1, 1], 4, "equal-finish")
    begun = simulation.runs[4:8]
    assert (sorted(begun.stage.tolist()), len(set(begun.executor))) == ([1, 2, 2, 2], 4)


def test_list_scheduling_that_stays_at_its_job_moves_less():
    chain = job(stage(4), stage(4), stage(4), edges=[(0, 1), (1, 2)])
    moves = {
        policy: played([chain] * 6, range(6), 4, policy)[0].moves for policy in ("critical-path", "critical-path-local")
    }
    assert moves["critical-path-local"] <= 24 < moves["critical-path"]
    fork = job(stage(3), stage(9), stage(3), edges=[(0, 1)])
    _, simulation = played([fork], [0], 4, "critical-path-local")
    assert set(simulation.runs[:4].stage) == {0, 2}  # stage 1 is next on the longest path, and cannot start


def test_the_most_jobs_at_once_are_counted():
    assert played([job(stage(1))] * 4, [0, 6, 7, 20], 1)[0].peak_jobs == 2
    assert played([job(stage(1))] * 4, [0, 0, 0, 5], 1)[0].peak_jobs == 4 - 1 + 1
    assert played([job(stage(1))] * 2, [0, 6], 1)[0].peak_jobs == 1


@pytest.mark.parametrize(("environment", "stay_warm"), [("spark-sched-sim", True), ("decima-2019", False)])
def test_executors_that_were_promised_nothing_stay_warm_at_their_job(environment, stay_warm):
    templates = generated_templates()
    cluster = DagCluster(10, environment=environment)
    simulation = DagSimulation(templates, poisson_arrivals(20, 3, templates=len(templates)), cluster, log=True)
    fair = make_scheduler("fair")
    simulation.run(fair.decider, fair.parameters_for(0))
    runs, job_of = simulation.runs, simulation.world.stages.job
    waited_and_warm = 0
    for executor in range(10):
        own = runs[runs.executor == executor]
        same_job = job_of[own.stage[1:]] == job_of[own.stage[:-1]]
        waited_and_warm += np.sum(same_job & (own.start_ms[1:] > own.end_ms[:-1]) & (own.wave[1:] == FIRST))
    assert (waited_and_warm > 0) == stay_warm
