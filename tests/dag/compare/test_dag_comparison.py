"""Comparisons of schedulers: what is counted, and that differences are paired."""

import itertools
import pickle
from dataclasses import replace

import numpy as np
import pytest

from mirage.dag.compare import dag_trial
from mirage.dag.compare.dag_comparison import compare
from mirage.dag.compare.dag_comparison_rows import paired_difference
from mirage.dag.compare.dag_trial import DagTrial, DagTrialResult, Scene, trial_keys
from mirage.dag.compare.makespan_bound import makespan_bound_s
from mirage.dag.decima.networks.workspace import arrays_of
from mirage.dag.schedulers.stage_schedulers import make_scheduler
from mirage.dag.setting import EpisodeSetting
from mirage.dag.simulator.dag_simulation import DagSimulation
from mirage.dag.simulator.dag_world import DagCluster, make_world
from mirage.dag.simulator.stage_decision import NOTHING
from mirage.dag.workload.dag_arrivals import DagArrivals, batch_arrivals, poisson_arrivals
from mirage.dag.workload.generated import generated_templates
from mirage.dag.workload.templates import JobTemplate, StageProfile
from mirage.errors import ConfigurationError

SETTING = EpisodeSetting(5, 6)


def made_up(jct_s):
    return DagTrialResult((jct_s,), 2 * jct_s, 0.0, moves=0, idle_share=0.0, decisions=1, peak_jobs=1)


def compared(*names, seeds=(1, 2), **options):
    ticks, schedulers = itertools.count(), [make_scheduler(name) for name in names]
    clock = options.pop("clock", lambda: next(ticks))
    return compare(generated_templates(), [SETTING], seeds, schedulers, clock=clock, **options)


def test_rows_hold_what_single_episodes_do():
    reported = []
    comparison = compared("fair", "capped:0:2", progress=lambda done, of: reported.append((done, of)))
    fair = make_scheduler("fair")
    outcomes = [
        DagSimulation(generated_templates(), poisson_arrivals(6, seed), DagCluster(5), seed=seed).run(
            fair.decider, fair.parameters_for(seed)
        )
        for seed in (1, 2)
    ]
    row = comparison.rows[0]
    assert (row.policy, row.setting, row.seeds) == ("fair", "5/6", 2)
    assert row.mean_jct_s == pytest.approx(np.mean([outcome.jct_s for outcome in outcomes]))
    assert row.p95_jct_s == pytest.approx(np.percentile([outcome.jct_s for outcome in outcomes], 95))
    assert row.makespan_s == np.mean([outcome.makespan_s for outcome in outcomes])
    assert row.moves == np.mean([outcome.moves for outcome in outcomes])
    assert reported[-1] == (4, 4)
    (difference,) = comparison.differences
    assert (difference.policy, difference.against) == ("capped:0:2", "fair")
    assert difference.mean_jct_s == pytest.approx(comparison.rows[1].mean_jct_s - row.mean_jct_s)


def test_the_cost_of_a_decision_is_what_more_of_them_cost():
    # by this clock every episode lasts a second: many decisions take as long as one, and cost nothing
    assert compared("fair").rows[0].decision_us == 0.0
    seconds = iter([0.0, 1e-6, 0.0, 51.0])
    comparison = compare(generated_templates(), [SETTING], [1], [make_scheduler("fair")], clock=lambda: next(seconds))
    (row,) = comparison.rows
    assert row.decision_us == pytest.approx(1e6 * (51.0 - 1e-6) / row.decisions / 50)


def test_intervals_are_of_paired_differences():
    random = np.random.default_rng(0)
    other = random.normal(1000, 300, 20)
    one, against = ([made_up(each) for each in part] for part in (other - random.normal(10, 1, 20), other))
    difference = paired_difference("a", "b", SETTING, one, against)
    assert difference.mean_jct_s == pytest.approx(-10, abs=1)
    assert difference.low_s < difference.mean_jct_s < difference.high_s
    assert difference.high_s - difference.low_s < 2  # though episodes differ by hundreds of seconds
    assert difference.better_seeds == 20
    assert difference.percent == pytest.approx(100 * difference.mean_jct_s / other.mean())
    assert difference.makespan_s == pytest.approx(2 * difference.mean_jct_s)
    assert difference.makespan_low_s < difference.makespan_s < difference.makespan_high_s < 2 * difference.high_s + 1e-9
    assert difference.makespan_percent == pytest.approx(difference.percent)


def test_one_seed_has_no_interval():
    (difference,) = compared("fair", "capped:0:2", seeds=(1,)).differences
    assert (difference.low_s, difference.high_s, difference.no_interval) == (None, None, "one seed")
    assert (difference.makespan_low_s, difference.makespan_high_s) == (None, None)
    (difference,) = compared("fair", "capped:0:2").differences
    assert difference.low_s <= difference.mean_jct_s <= difference.high_s
    assert difference.makespan_low_s <= difference.makespan_s <= difference.makespan_high_s
    assert difference.no_interval is None


def refuse(begin, scene, pieces):
    assert not pieces, "played again"
    return iter(())


def test_journaled_results_are_reused_to_the_last_digit(tmp_path):
    seconds = itertools.accumulate(itertools.count())
    first = compared("fair", "capped:0:2", resume_folder=tmp_path, clock=lambda: next(seconds))
    assert first.rows[0].decision_us > 0
    reported = []
    again = compared(
        "fair", "capped:0:2", resume_folder=tmp_path, executor=refuse, progress=lambda *done: reported.append(done)
    )
    assert (first.reused, again.reused, reported) == (0, 4, [(4, 4)])
    assert (again.rows, again.differences) == (first.rows, first.differences)
    unlike_names = compared("capped:0:2", "fair", seeds=(2,), resume_folder=tmp_path, executor=refuse, against="fair")
    assert unlike_names.rows[0].policy == "capped:0:2"
    more = compared("fair", seeds=(1, 2, 3), resume_folder=tmp_path)
    assert (more.reused, more.rows[0].seeds) == (2, 3)


def test_nothing_is_taken_over_from_other_jobs_settings_or_schedulers(tmp_path):
    small, larger = generated_templates()[:22], generated_templates()[22:44]

    def reused(policy="capped:0:2", templates=small, setting=SETTING, seed=1, cluster=None):
        schedulers, options = [make_scheduler(policy)], {"cluster": cluster, "resume_folder": tmp_path}
        return compare(templates, [setting], [seed], schedulers, clock=itertools.count().__next__, **options).reused

    assert (reused(), reused()) == (0, 1)
    assert reused(templates=larger) == 0
    assert reused(policy="sjf") == reused(policy="sjf-critical-path") == 0  # two functions of one module
    assert reused(policy="capped:0:3") == reused(policy="fair") == reused(policy="fair:1") == reused(seed=7) == 0
    assert reused(cluster=DagCluster(moving_s=3.0)) == reused(setting=EpisodeSetting(5, 6, gap_s=24.0)) == 0
    assert reused(setting=EpisodeSetting(6, 6)) == reused(setting=EpisodeSetting(5, 6, batch=True)) == 0


def test_a_key_covers_code_parameters_and_seeding(monkeypatch):
    fair, trial, modules = make_scheduler("fair"), DagTrial(0, SETTING, 1), []

    def key(scheduler, code="a"):
        monkeypatch.setattr(dag_trial, "code_key", lambda named, *packages: modules.append((named, packages)) or code)
        return trial_keys(Scene(generated_templates()[:5], (scheduler,), DagCluster()))(trial)

    others = [
        key(fair, "b"),
        key(replace(fair, seeded=True)),
        key(make_scheduler("fair:1")),
        key(make_scheduler("sjf")),
    ]
    assert len({key(fair), *others}) == 5
    assert key(replace(fair, name="other")) == key(fair)
    expected = ["mirage.dag.compare.dag_trial", "mirage.dag.schedulers.fair"], ("numpy", "numba")
    assert modules[0] == expected


def test_a_scheduler_without_a_file_has_no_stored_results():
    fair = make_scheduler("fair")

    def decide(world, state, parameters):
        return NOTHING

    decide.__module__ = "gone"
    reason = "there is no source file of the module 'gone'; write its function into a file"
    message = rf"^results of fair cannot be stored: {reason}$"
    with pytest.raises(ConfigurationError, match=message):
        trial_keys(Scene(generated_templates(), (replace(fair, decider=decide),), DagCluster()))


def test_an_episode_is_recorded_on_request():
    scene = Scene(generated_templates(), (make_scheduler("fair"),), DagCluster(50, moving_s=3.0))
    logged, plain = (scene.episode(SETTING, 4, log=log) for log in (True, False))
    for simulation in (logged, plain):
        simulation.run(scene.schedulers[0].decider, scene.schedulers[0].parameters_for(4))
    assert (len(logged.runs), len(plain.runs)) == (logged.world.stages.tasks.sum(), 0)
    assert set(logged.runs.executor) == set(range(5))
    assert logged.runs.start_ms[0] == 3000


def test_a_line_that_was_cut_off_is_played_again(tmp_path):
    first = compared("fair", resume_folder=tmp_path)
    (file,) = tmp_path.iterdir()
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("[]\n" + lines[0] + '{"key": "a"}\n' + lines[1][:50])
    again = compared("fair", resume_folder=tmp_path)
    assert again.reused == 1
    assert again.rows[0] == replace(first.rows[0], decision_us=again.rows[0].decision_us)
    assert compared("fair", resume_folder=tmp_path, executor=refuse).rows == again.rows
    with pytest.raises(ConfigurationError, match="cannot store results"):
        compared("fair", resume_folder=file)


def test_a_row_warns_of_a_scheduler_that_considers_fewer_jobs():
    fair = make_scheduler("fair")
    options = {"clock": itertools.count().__next__}
    (row,) = compare(generated_templates(), [EpisodeSetting(2, 6, batch=True)], [1], [fair], **options).rows
    assert (row.peak_jobs, row.unseen_jobs, row.warning) == (6, 0, None)
    (row,) = compare(
        generated_templates(), [EpisodeSetting(2, 6, batch=True)], [1], [replace(fair, most_jobs=4)], **options
    ).rows
    assert (row.peak_jobs, row.unseen_jobs) == (6, 2)
    assert row.warning.startswith("fair considers only the first 4 jobs; in 2/6 up to 6 were in the system")


def test_a_network_considers_the_declared_number_of_jobs():
    pytest.importorskip("safetensors", reason="pip install mirage-hpc[predict]")
    scheduler = make_scheduler("decima-argmax:own")
    stage = StageProfile(2, *[{5: np.array([1000], np.int32)}] * 3)
    largest = JobTemplate("large", tuple((k, k + 1) for k in range(17)), (stage,) * 18)  # as many as TPC-H has at most
    simulation = DagSimulation([largest], batch_arrivals(300, 0, templates=1), DagCluster(1))
    while simulation.state.clock[0].n_active < 300:
        simulation.advance()
        simulation.state.clock[0].free = 0  # nobody is asked before all are there
    simulation.state.clock[0].free = 1
    parameters = scheduler.parameters_for(0)
    assert scheduler.decider(simulation.world, simulation.state, parameters) != NOTHING
    assert arrays_of(parameters)[1].size[0] == scheduler.most_jobs == 256


def test_schedulers_travel_by_the_name_of_their_function():
    there = pickle.loads(pickle.dumps(replace(make_scheduler("capped:0:2"), most_jobs=9)))
    assert (there.name, there.parameters.tolist(), there.most_jobs) == ("capped:0:2", [0, 2], 9)
    assert there.decider is make_scheduler("capped").decider
    with pytest.raises(ConfigurationError, match="another process cannot import"):
        pickle.dumps(replace(there, decider=lambda world, state, parameters: -1))


def test_the_bound_of_one_job_is_its_longest_path_or_its_work():
    def bound_s(tasks, executors):
        stages = [StageProfile(n, *[{5: np.array([ms], np.int32)} for ms in (3000, 2000, 1000)]) for n in tasks]
        jobs = [JobTemplate("chain", ((1, 0), (0, 2)), tuple(stages))]
        arrivals = DagArrivals(np.array([0, 5000]), np.zeros(2, np.int64))
        return makespan_bound_s(make_world(jobs, arrivals, DagCluster(executors), 0))

    # the first task of a stage is of the first wave (2 s), further ones are of the rest (1 s)
    assert bound_s((1, 1, 1), 9) == 5 + 2 + 3 * 2  # the second job's three stages, one after the other
    assert bound_s((4, 4, 1), 1) == 2 + 2 * (5 + 5 + 2)  # all work on one executor
    assert bound_s((8, 8, 2), 2) == 2 + 9 + 9 + 3


def test_what_cannot_be_compared():
    for names, seeds, message in (
        (("fair", "fair"), (1,), "the scheduler 'fair' is named twice; name each once"),
        (("fair",), (1, 2, 1), "the seed 1 is named twice"),
        ((), (1,), "a comparison needs schedulers"),
        (("fair",), (), "a comparison needs seeds"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            compared(*names, seeds=seeds)
    for settings, message in (
        ((), "a comparison needs settings"),
        ((EpisodeSetting(3, 4), EpisodeSetting(3, 4, gap_s=5.0)), "the setting .* is named twice"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            compare(generated_templates(), settings, (1,), [make_scheduler("fair")])
    with pytest.raises(ConfigurationError, match="'fifo' is not compared; differences are to one of fair"):
        compared("fair", against="fifo")


def test_a_mean_has_an_interval_over_seeds():
    row = compared("fair", seeds=(1, 2, 3)).rows[0]
    assert row.mean_jct_low_s < row.mean_jct_s < row.mean_jct_high_s
    alone = compared("fair", seeds=(1,)).rows[0]
    assert (alone.mean_jct_low_s, alone.mean_jct_high_s) == (None, None)
