"""Templates of jobs, their durations, arrivals, and the names of schedulers and settings."""

import gzip
import json

import numpy as np
import pytest

from mirage.dag.schedulers.stage_schedulers import SCHEDULERS, StageSchedulerSpec, make_scheduler
from mirage.dag.setting import seeds_of, setting_of
from mirage.dag.simulator.dag_simulation import DagSimulation
from mirage.dag.simulator.dag_world import DagCluster, make_world, pack_templates
from mirage.dag.workload.dag_arrivals import batch_arrivals, decima_arrivals, poisson_arrivals
from mirage.dag.workload.generated import generated_templates
from mirage.dag.workload.templates import FIRST, FRESH, LEVELS, REST, JobTemplate, StageProfile
from mirage.dag.workload.tpch import QUERIES, SIZES, read_tpch
from mirage.errors import ConfigurationError, UnknownName


def ints(*values):
    return np.array(values, np.int32)


def test_tpch_profiles_are_read_as_published(shared_data):
    jobs = read_tpch(shared_data / "tpch" / "tpch_profiles.json.gz")
    tasks = [sum(stage.tasks for stage in job.stages) for job in jobs]
    stages = [len(job.stages) for job in jobs]
    assert (len(jobs), jobs[0].name, jobs[-1].name) == (154, "2g/q1", "100g/q22")
    assert (min(stages), max(stages), min(tasks), max(tasks)) == (2, 18, 13, 3717)
    assert jobs[0].stages[0].fresh_ms[5].tolist() == [4863, 4177, 4483, 4599, 4796]
    assert len(jobs[0].stages[0].first_ms[5]) == 0  # all of its first wave were fresh executors
    assert np.mean([job.work_s for job in jobs]) == pytest.approx(888, abs=1)


@pytest.mark.parametrize("compressed", [True, False])
def test_files_without_profiles_are_refused(tmp_path, compressed):
    path = tmp_path / "profiles.json"
    for content, message in (("{", "cannot be read"), ('{"2g/q1": {}}', "lack 153 of 154 jobs, the first 2g/q2")):
        path.write_bytes(gzip.compress(content.encode()) if compressed else content.encode())
        with pytest.raises(ConfigurationError, match=message):
            read_tpch(path)
    path.write_text(json.dumps({f"{size}/q{query}": {} for size in SIZES for query in range(1, QUERIES + 1)}))
    with pytest.raises(ConfigurationError, match="not in the form"):
        read_tpch(path)


def changed_profiles(**changes):
    """A file of 154 jobs of two stages, one of which is changed."""
    measured = {"fresh_durations": {"5": [9]}, "first_wave": {"5": [9, 8]}, "rest_wave": {"5": [1, 2]}}
    job = {"adjacency": [[0, 1], [0, 0]], "task_duration_ms": {"0": measured, "1": measured}}
    jobs = {f"{size}/q{query}": job for size in SIZES for query in range(1, QUERIES + 1)}
    adjacency = changes.pop("adjacency", job["adjacency"])
    one = {"adjacency": adjacency, "task_duration_ms": {"0": measured, "1": measured | changes}}
    return json.dumps(jobs | {"10g/q3": one})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rest_wave": {"5": [-1]}}, "10g/q3: stage 1: -1 is not the duration"),
        ({"rest_wave": {"5": [0]}}, "0 is not the duration"),
        ({"rest_wave": {"5": [10**12]}}, "1000000000000 is not the duration"),
        ({"rest_wave": {"5": [10**400]}}, "is not the duration of a task; give whole milliseconds, 1 to 1,000,000,000"),
        ({"first_wave": {"5": [float("nan")]}}, "nan is not the duration"),
        ({"fresh_durations": {"5": [float("inf")]}}, "inf is not the duration"),
        ({"rest_wave": {"5": [1.5]}}, "1.5 is not the duration"),
        ({"rest_wave": {"5": ["7"]}}, "'7' is not the duration"),
        ({"rest_wave": {"5": [True]}}, "True is not the duration"),
        ({"rest_wave": {"5": 7}}, "10g/q3: TypeError"),
        ({"first_wave": {}}, "stage 1: nothing was measured in its first wave"),
        ({"first_wave": {"5": []}, "rest_wave": {"5": []}, "fresh_durations": {}}, "stage 1: a stage of 0 tasks"),
        ({"first_wave": []}, "stage 1: nothing was measured"),
        ({"first_wave": [5]}, "10g/q3: IndexError"),
        ({"adjacency": [[0, 1], [1, 0]]}, "wait for each other in a cycle"),
        ({"adjacency": [[1, 0], [0, 0]]}, "wait for each other in a cycle"),
        ({"adjacency": [[0, 1]]}, r"the adjacency has the shape \(1, 2\)"),
        ({"adjacency": [0, 1]}, r"the adjacency has the shape \(2,\)"),
        ({"adjacency": []}, r"the adjacency has the shape \(0,\)"),
        ({"adjacency": [[0, 1], [0]]}, "10g/q3: ValueError"),
        ({"adjacency": [[0] * 3] * 3}, "10g/q3: KeyError"),
    ],
)
def test_profiles_that_cannot_be_name_the_job_and_the_stage(tmp_path, changes, message):
    path = tmp_path / "profiles.json"
    path.write_text(changed_profiles(**changes))
    with pytest.raises(ConfigurationError, match=message) as message:
        read_tpch(path)
    assert str(path) in str(message.value)
    assert len(str(message.value).splitlines()) == 1


def test_damaged_files_are_refused(tmp_path):
    path, whole = tmp_path / "profiles.json", gzip.compress(changed_profiles().encode())
    path.write_bytes(whole)
    assert len(read_tpch(path)) == 154
    for content in (whole[:-30], whole[:200] + b"\0" * 50 + whole[250:], b"\x1f\x8b", b"[" * 200_000, b"\xff\xfe{"):
        path.write_bytes(content)
        with pytest.raises(ConfigurationError, match="cannot be read"):
            read_tpch(path)
    with pytest.raises(ConfigurationError, match="cannot be read: Is a directory; name"):
        read_tpch(tmp_path)


def test_fresh_executors_are_taken_out_of_the_first_wave_once_each(tmp_path):
    fresh, first, rest = {"2": [7, 7], "5": [9]}, {"5": [9], "2": [7, 7, 7]}, {"5": [1, 2], "2": []}
    measured = {"fresh_durations": fresh, "first_wave": first, "rest_wave": rest}
    job = {"adjacency": [[0]], "task_duration_ms": {"0": measured}}
    path = tmp_path / "profiles.json"
    path.write_text(json.dumps({f"{size}/q{query}": job for size in SIZES for query in range(1, QUERIES + 1)}))
    stage = read_tpch(path)[0].stages[0]
    assert {count: cleaned.tolist() for count, cleaned in stage.first_ms.items()} == {2: [7], 5: [7]}
    assert stage.tasks == 1 + 2  # as the count that is named first has it


def test_a_gap_in_what_was_measured_is_filled_by_the_nearest_wave():
    nothing = {5: ints()}
    stage = StageProfile(3, nothing, {5: ints(40)}, nothing)
    waves = (FRESH, FIRST, REST)
    assert [stage.measured(wave, 20, 1000) for wave in waves] == [(ints(40), 1000), (ints(40), 0), (ints(40), 0)]
    fresh_only = StageProfile(3, {5: ints(70)}, nothing, nothing)
    assert [fresh_only.measured(wave, 5, 1000) for wave in waves] == [(ints(70), 0)] * 3
    with pytest.raises(ConfigurationError, match="nothing was measured"):
        StageProfile(3, nothing, nothing, nothing).measured(REST, 5, 0)


def test_impossible_graphs_are_refused():
    stage = StageProfile(1, {5: ints(1)}, {5: ints(1)}, {5: ints(1)})
    with pytest.raises(ConfigurationError, match="cycle"):
        JobTemplate("odd", ((0, 1), (1, 0)), (stage, stage))
    with pytest.raises(ConfigurationError, match="an edge to one that is not there"):
        JobTemplate("odd", ((0, 2),), (stage, stage))
    diamond = JobTemplate("diamond", ((0, 1), (0, 2), (1, 3), (2, 3)), (stage,) * 4)
    assert diamond.longest_path_ms([1, 5, 2, 1]) == (7, 6, 3, 1)
    assert [sorted(below) for below in diamond.stages_below()] == [[0, 1, 2, 3], [1, 3], [2, 3], [3]]


def test_between_two_numbers_of_executors_both_are_drawn_from():
    by_level = {level: ints(level) for level in LEVELS}
    job = JobTemplate("levels", (), (StageProfile(20_000, by_level, by_level, by_level),))
    world = make_world([job], batch_arrivals(1, 0, templates=1), DagCluster(14), 0)
    assert (LEVELS[world.levels[14, 0]], LEVELS[world.levels[14, 1]], world.chance[14]) == (10, 20, 0.4)
    assert (world.levels[3] == 0).all()
    assert (world.levels[10] == 1).all()
    simulation = DagSimulation([job], batch_arrivals(1, 0, templates=1), DagCluster(14), log=True)
    fifo = make_scheduler("fifo")
    simulation.run(fifo.decider, fifo.parameters_for(0))
    lasted = simulation.runs.end_ms - simulation.runs.start_ms
    assert set(lasted[:5].tolist()) == {5}  # one after the other is counted as it comes
    assert set(lasted[14:].tolist()) == {10, 20}
    assert (lasted[14:] == 10).mean() == pytest.approx(0.4, abs=0.02)


def test_noise_stretches_durations_both_ways_around_their_mean():
    job = JobTemplate("even", (), (StageProfile(20_000, *[{5: ints(1000)}] * 3),))
    simulation = DagSimulation([job], batch_arrivals(1, 0, templates=1), DagCluster(5, noise=0.2), log=True)
    fifo = make_scheduler("fifo")
    simulation.run(fifo.decider, fifo.parameters_for(0))
    lasted = simulation.runs.end_ms - simulation.runs.start_ms
    assert 800 <= lasted.min() < 810 < 1190 < lasted.max() <= 1200
    assert lasted.mean() == pytest.approx(1000, abs=3)


def test_the_built_in_jobs_have_the_shape_of_the_measured_ones():
    jobs = generated_templates()
    stages = [len(job.stages) for job in jobs[:QUERIES]]
    assert len(jobs) == 154
    assert 2 == min(stages) < max(stages) <= 18
    assert np.mean(stages) == pytest.approx(9.2, abs=0.5)
    assert np.mean([job.work_s for job in jobs]) == pytest.approx(888, rel=0.1)
    assert np.mean([len(job.edges) for job in jobs]) == pytest.approx(8.5, abs=0.5)
    for job in jobs:
        assert {parent for parent, _ in job.edges} == set(range(len(job.stages) - 1))  # one last stage
    assert len(pack_templates(jobs, 1000).durations_ms) < 1_000_000


def test_arrivals_are_drawn_as_in_the_published_simulators():
    stream = decima_arrivals(5001, 10_000_000)
    assert stream.arrival_ms[:4].tolist() == [0, *np.cumsum(_decima_gaps(3)).tolist()]
    assert stream.arrival_ms[-1] / 5000 == pytest.approx(25_000, rel=0.03)
    random = np.random.default_rng(3)
    query, size, gap_ms = random.integers(22), random.choice(list(SIZES)), random.exponential(25_000)
    observed = poisson_arrivals(2, 3)
    assert observed.template[0] == SIZES.index(size) * QUERIES + query
    assert observed.arrival_ms.tolist() == [0, int(gap_ms)]
    cannot_be = ((poisson_arrivals, {"jobs": 0}), (decima_arrivals, {"gap_s": 0}))
    for request, wrong in cannot_be:
        with pytest.raises(ConfigurationError):
            request(**{"jobs": 3, "seed": 1, **wrong})


@pytest.mark.parametrize("templates", [1, 9, 22, 23])
def test_arrivals_are_drawn_from_any_number_of_templates(templates):
    drawn = np.bincount(poisson_arrivals(200 * templates, 5, templates=templates).template, minlength=templates)
    assert len(drawn) == templates
    assert drawn == pytest.approx(200, abs=60)


def _decima_gaps(n):
    random = np.random.RandomState(10_000_000)
    random.randint(22)
    random.randint(7)
    gaps = []
    for _ in range(n):
        gaps.append(int(random.exponential(25_000)))
        random.randint(7)
        random.randint(22)
    return gaps


def test_schedulers_are_named_with_their_parameters():
    assert make_scheduler("capped").parameters.tolist() == [0.25, 1.5]
    assert make_scheduler("capped:0:2").parameters.tolist() == [0, 2]
    with pytest.raises(UnknownName, match="Did you mean 'capped'"):
        make_scheduler("caped")
    for file in ("./nope", "nope.txt"):
        with pytest.raises(ConfigurationError, match=rf"there is no file {file}; .* one of fifo, fair, "):
            make_scheduler(file)
    with pytest.raises(ConfigurationError, match="takes A:B"):
        make_scheduler("capped:1:2:3")
    with pytest.raises(ConfigurationError, match="takes none"):
        make_scheduler("critical-path:1")
    for word in ("nan", "x", "0", "inf"):
        with pytest.raises(ConfigurationError, match="parameter 'b'"):
            make_scheduler(f"capped:1:{word}")
    for word in ("fifo:0.5", "fair:0.5", "equal-finish:0.1", "fair:2"):
        with pytest.raises(ConfigurationError, match="give 0 or 1"):
            make_scheduler(word)
    assert make_scheduler("fair:1").parameters.tolist() == [1]
    assert all(spec.summary for spec in SCHEDULERS.values())


def test_an_entry_that_makes_no_scheduler_is_named():
    spec = StageSchedulerSpec(f"{__name__}:made_nothing", "", makes=True)
    with pytest.raises(
        ConfigurationError, match=r":made_nothing makes \{\} of 'mine', not a StageScheduler; fix or uni"
    ):
        spec.make("mine", ["1"])


def made_nothing(text, given):
    """Makes no scheduler."""
    assert (text, given) == ("mine", ["1"])
    return {}


def test_settings_and_seeds_are_read():
    assert setting_of("50/200").name == "50/200"
    assert seeds_of("3,300-302") == (3, 300, 301, 302)
    for text in ("50", "a/b", "5/", "-5/3", "0/10", "50/0", "5/5/5", f"5/{'9' * 5000}"):
        with pytest.raises(ConfigurationError, match="50/200"):
            setting_of(text)
    with pytest.raises(ConfigurationError, match="there are 1 to 65535"):
        setting_of("70000/5")
    with pytest.raises(ConfigurationError, match="give 1 to 100,000"):
        setting_of("5/1000000000")
    for gap_s in (float("inf"), float("nan"), 0.0, -1.0, 1e300):
        with pytest.raises(ConfigurationError, match="give a positive one, up to 1,000,000 s"):
            setting_of("5/5", gap_s)
    for text in ("5-3", "x", "1,,2", "-4"):
        with pytest.raises(ConfigurationError, match="300-319"):
            seeds_of(text)
    with pytest.raises(ConfigurationError, match="twice"):
        seeds_of("1-3,2")
    for text in ("0-999999999", "0-99999,100000", "0-99999999999999999"):
        with pytest.raises(ConfigurationError, match=r"more than 100,000 seeds|exceeds the largest seed"):
            seeds_of(text)
    with pytest.raises(ConfigurationError, match="0 to 9007199254740992"):
        seeds_of("10000000000000000")
    with pytest.raises(ConfigurationError, match="neither a seed"):
        seeds_of("1" * 5000)


@pytest.mark.parametrize("seconds", [-1.0, float("inf"), float("nan"), 1e9])
def test_times_of_a_cluster_that_cannot_be(seconds):
    for option in ("moving_s", "warm_up_s"):
        with pytest.raises(ConfigurationError, match="give 0 to 1,000,000 s"):
            DagCluster(**{option: seconds})
    with pytest.raises(ConfigurationError, match="from 0 to below 1"):
        DagCluster(noise=seconds)
