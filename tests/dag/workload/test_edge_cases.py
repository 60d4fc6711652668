"""Edge cases: each differs from the usual episodes in its point and in nothing else."""

from dataclasses import replace

import numpy as np
import pytest

from mirage.dag.compare.dag_trial import DagTrial, Scene, trial_keys
from mirage.dag.distilled.tuning import Episodes
from mirage.dag.environment import DagEnv
from mirage.dag.schedulers.stage_schedulers import make_scheduler
from mirage.dag.setting import EpisodeSetting, setting_of
from mirage.dag.simulator.dag_world import DagCluster
from mirage.dag.workload.edge_cases import EDGE_CASES, EdgeCase, Mix, edge_case_of, split
from mirage.dag.workload.generated import generated_templates
from mirage.dag.workload.templates import JobTemplate, StageProfile
from mirage.dag.workload.tpch import QUERIES
from mirage.errors import UnknownName

USUAL = EpisodeSetting(4, 40)


def stage(tasks):
    measured = {5: np.full(3, 100, np.int32)}
    return StageProfile(tasks, measured, measured, measured)


def test_the_largest_first_stage_is_split_in_one_task_and_the_rest():
    template = JobTemplate("job", ((0, 2), (1, 2)), (stage(3), stage(7), stage(50)))
    other = split(template)
    assert [one.tasks for one in other.stages] == [3, 6, 50, 1]
    assert set(other.edges) == {(0, 2), (1, 2), (3, 1)}  # the rest waits for the one task
    single = JobTemplate("small", ((0, 1),), (stage(1), stage(9)))
    assert split(single) is single


def test_half_of_the_jobs_are_split_and_all_are_the_usual_ones():
    setting, templates = replace(USUAL, jobs=400, mix=Mix.SPLIT_STAGE), generated_templates()
    usual, other = (one.arrivals(3, len(templates)) for one in (replace(USUAL, jobs=400), setting))
    assert (other.arrival_ms == usual.arrival_ms).all()
    assert (other.template % len(templates) == usual.template).all()
    assert 0.4 < (other.template >= len(templates)).mean() < 0.6
    kinds = setting.templates(templates)
    assert kinds[: len(templates)] == templates
    assert [sum(one.tasks for one in kind.stages) for kind in kinds[len(templates) :]] == [
        sum(one.tasks for one in kind.stages) for kind in templates
    ]
    assert setting.templates(templates) is kinds  # arrays made of them are kept by what they are


@pytest.mark.parametrize("batch", [False, True])
def test_one_job_of_the_largest_size_comes_before_small_ones(batch):
    setting = replace(USUAL, mix=Mix.LARGE_JOB, batch=batch)
    usual, other = (one.arrivals(3, 154) for one in (replace(USUAL, batch=batch), setting))
    assert (other.template % QUERIES == usual.template % QUERIES).all()
    assert (other.template // QUERIES).tolist() == [6, *[0] * 39]
    assert (other.arrival_ms == usual.arrival_ms).all()
    assert (setting.arrivals(3, 23).template == replace(USUAL, batch=batch).arrivals(3, 23).template).all()  # one size


def test_each_case_states_its_point_and_nothing_else():
    usual = EdgeCase("as usual")
    for name, case in EDGE_CASES.items():
        stated = {key for key in EdgeCase.__slots__ if getattr(case, key) != getattr(usual, key)} - {"about", "jobs"}
        assert stated == {
            "gap": {"gap_s"}, "executors": {"executors"}, "moving": {"moving_s"}, "noise": {"noise"},
            "large": {"mix", "gap_s"}, "split": {"mix"},
        }[name.partition("-")[0]]  # fmt: skip
        assert setting_of(case.setting).executors == (case.executors or 50)
    with pytest.raises(UnknownName, match=r"'gap-15'.*split-stage"):
        edge_case_of("gap15")


def test_results_of_a_mix_are_not_taken_for_those_of_another():
    scene = Scene(generated_templates(), (make_scheduler("fair"),), DagCluster())
    key_of = trial_keys(scene)
    assert len({key_of(DagTrial(0, replace(USUAL, mix=mix), 1)) for mix in Mix}) == len(Mix)


def test_a_comparison_a_tuning_and_the_environment_meet_the_same_jobs():
    setting, templates = replace(USUAL, jobs=12, mix=Mix.SPLIT_STAGE), generated_templates()
    scene = Scene(templates, (make_scheduler("tree"),), DagCluster())
    (tree,) = scene.schedulers
    outcome = scene.episode(setting, 5).run(tree.decider, tree.parameters_for(5))
    times = Episodes.drawn(templates, setting, DagCluster(), [5]).times(tree.decider, tree.parameters)
    assert times.mean_jct_s[0] == pytest.approx(outcome.jct_s.mean())
    assert times.makespan_s[0] == outcome.makespan_s
    env = DagEnv(setting=setting)
    env.reset(options={"episode": 5})
    assert (env.simulation.world.stages == scene.episode(setting, 5).world.stages).all()
