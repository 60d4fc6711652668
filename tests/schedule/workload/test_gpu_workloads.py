"""Readers of GPU workloads: a small file of every kind, refusals, and published files."""

from __future__ import annotations

import gzip
import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mirage.duration import UNLIMITED_S
from mirage.errors import ConfigurationError, MirageError, TraceError, UnknownName
from mirage.schedule.gpu_cluster import GpuCluster, ServerGroup, gpu_cluster
from mirage.schedule.speeds import speed_law
from mirage.schedule.speeds.profiles import no_profiles
from mirage.schedule.speeds.speed_arrays import LINEAR
from mirage.schedule.workload.gpu_jobs import ANY_POOL, GpuJobs
from mirage.schedule.workload.gpu_workload import GpuWorkload, read_any_profiles, read_workload, unmeasured_types
from tests.support.column_types import wrong_types
from tests.support.toy_profiles import CLUSTER, write_profiles

SIA = "name,time,application,num_replicas,batch_size\nb,20.5,toy,4,40\na,10,toy,1,10\n"
RIGID = "name,time,application,num_replicas,batch_size,category\na,1,toy,4,40,rigid\nb,2,toy,4,40,adaptive\n"
PHILLY = (
    "timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-09 07:01:55,66.0,1,66.0,x\n"
    "2017-10-09 07:00:55,10.0,8,80.0,y\n2017-10-09 07:03:00,0.0,1,0,x\n"
)
KIND = "Toy (batch size 8)"
GAVEL = "".join(
    f"{KIND}\tpython a\tf\t-n\t1\t{steps}\t{gpus}\t1\t-1\t{at_s}\n" for steps, gpus, at_s in ((500, 2, 30), (100, 1, 0))
)
ONE, TWO = f"('{KIND}', 1)", f"('{KIND}', 2)"
THROUGHPUTS = {
    "slow": {ONE: {"null": 2.0, ONE: [1, 1]}, TWO: {"null": 4.0}},
    "slow_unconsolidated": {ONE: {"null": 2.0}, TWO: {"null": 2.5}},
    "fast": {ONE: {"null": 10.0}, TWO: {"null": 0.0}},
}


def _read(path: Path, text: str, profiles: Path | None = None) -> GpuWorkload:
    path.write_text(text)
    return read_workload(path, CLUSTER, read_any_profiles(profiles, CLUSTER))


def test_a_sia_workload_takes_its_work_from_the_model(tmp_path: Path) -> None:
    workload = _read(tmp_path / "w.csv", SIA, write_profiles(tmp_path / "profiles"))
    jobs = workload.jobs
    assert workload.path == f"{tmp_path}/w.csv"
    assert jobs.name == ("a", "b")  # by submission
    assert jobs.submit_s.tolist() == [10.0, 20.5]
    assert (jobs.gpus.tolist(), jobs.batch.tolist()) == ([1, 4], [10, 40])
    assert (jobs.min_gpus.tolist(), jobs.max_gpus.tolist()) == ([1, 1], [4, 4])
    assert jobs.work.tolist() == [300.0, 300.0]
    assert jobs.restart_s.tolist() == [12.0, 12.0]
    assert jobs.run_s[0] == pytest.approx(600.0)  # alone on one slow GPU at the first batch: half a unit a second


def test_a_measured_job_is_expected_to_run_as_its_model_does_and_in_any_pool(tmp_path: Path) -> None:
    """The largest batch is 40, and a GPU takes at least 10 samples on one of the types."""
    folder = write_profiles(tmp_path / "profiles")
    slow = folder / "toy" / "placements-slow.csv"
    slow.write_text(slow.read_text().replace(",10,", ",5,"))
    rows = ["d,0,toy,9,40,", "c,0,toy,1,1,adaptive", "e,3,toy,2,40, rigid "]
    text = "name,time,application,num_replicas,batch_size,category\n" + "\n".join([*rows, ""])
    jobs = _read(tmp_path / "w.csv", text, folder).jobs
    assert (jobs.id.tolist(), jobs.name, jobs.submit_s.tolist()) == ([0, 1, 2], ("d", "c", "e"), [0, 0, 3])
    assert (jobs.gpus.tolist(), jobs.min_gpus.tolist(), jobs.max_gpus.tolist()) == ([9, 1, 2], [1, 1, 2], [9, 4, 2])
    assert (jobs.model.tolist(), jobs.models, jobs.batch.tolist()) == ([0, 0, 0], ("toy",), [40, 1, 40])
    assert np.isnan(jobs.estimate_s).all()
    assert jobs.pool.tolist() == [ANY_POOL] * 3
    assert np.isfinite(jobs.run_s).all()
    assert wrong_types(jobs) == {}


def test_no_job_gets_more_gpus_than_the_published_comparison_gives(tmp_path: Path) -> None:
    folder = write_profiles(tmp_path / "profiles")
    (folder / "toy" / "validation-40.csv").rename(folder / "toy" / "validation-4000.csv")
    assert _read(tmp_path / "w.csv", SIA, folder).jobs.max_gpus.tolist() == [64, 64]


def test_run_time_alone_adds_up_epochs(tmp_path: Path) -> None:
    workload = _read(tmp_path / "w.csv", SIA, write_profiles(tmp_path / "profiles"))
    speeds = workload.profiles.speeds
    first, second = (speed_law.speed(speeds, 0, 0, 2, 4, 40, progress) for progress in (0.0, 100.0))
    assert workload.jobs.run_s[1] == pytest.approx(100 / first + 200 / second)


def test_a_rigid_job_runs_on_the_gpus_it_requests(tmp_path: Path) -> None:
    jobs = _read(tmp_path / "w.csv", RIGID, write_profiles(tmp_path / "profiles")).jobs
    assert (jobs.min_gpus.tolist(), jobs.max_gpus.tolist()) == ([4, 1], [4, 4])


def test_a_philly_workload_begins_with_its_first_job(tmp_path: Path) -> None:
    workload = _read(tmp_path / "p.csv", PHILLY)
    assert workload.jobs.submit_s.tolist() == [0.0, 60.0]
    assert workload.jobs.gpus.tolist() == [8, 1]
    assert workload.jobs.work.tolist() == [80.0, 66.0]
    assert workload.left_out == {"no run time or no GPU": 1}
    assert workload.profiles.models == ()
    assert wrong_types(workload.jobs) == {}
    whole = PHILLY.rsplit("\n", 2)[0] + "\n2017-10-09T09:00:55+02:00,0.5,1,80.0,y\n2017-10-09 07:00:56,5,0.5,1,y\n"
    jobs = _read(tmp_path / "p.csv", whole)
    assert (jobs.jobs.submit_s.tolist(), jobs.jobs.run_s.tolist()) == ([0, 0, 60], [10, 0.5, 66])
    assert jobs.left_out == {"no run time or no GPU": 1}
    assert _read(tmp_path / "p.csv", PHILLY.rsplit("\n", 2)[0]).left_out == {}


def test_a_gavel_trace_goes_by_its_throughputs(tmp_path: Path) -> None:
    table = tmp_path / "rates.json"
    table.write_text(json.dumps(THROUGHPUTS))
    workload = _read(tmp_path / "g.trace", GAVEL, table)
    jobs, speeds = workload.jobs, workload.profiles.speeds
    assert jobs.submit_s.tolist() == [0.0, 30.0]
    assert jobs.work.tolist() == [100.0, 500.0]
    assert jobs.run_s.tolist() == [100 / 2, 500 / 4]  # on the type with the most GPUs, the first of equal ones
    one, two = jobs.model.tolist()
    assert speed_law.speed(speeds, one, 0, 1, 1, 1, 0.0) == pytest.approx(2.0)
    assert speed_law.speed(speeds, one, 1, 1, 1, 1, 50.0) == pytest.approx(10.0)
    assert speed_law.speed(speeds, two, 0, 1, 2, 2, 0.0) == pytest.approx(4.0)
    assert speed_law.speed(speeds, two, 0, 2, 2, 2, 0.0) == pytest.approx(2.5)
    assert speed_law.speed(speeds, two, 1, 1, 2, 2, 0.0) == 0.0  # does not fit into memory there
    assert speed_law.speed(speeds, two, 0, 1, 1, 2, 0.0) == 0.0  # not measured on one GPU
    assert speed_law.next_phase(speeds, two, 3.0) == np.inf
    assert (jobs.id.tolist(), jobs.name) == ([0, 1], ("0", "1"))
    assert jobs.models == workload.profiles.models == (f"{KIND} x1", f"{KIND} x2")
    assert jobs.gpus.tolist() == jobs.min_gpus.tolist() == jobs.max_gpus.tolist() == jobs.batch.tolist() == [1, 2]
    assert (jobs.restart_s.tolist(), jobs.pool.tolist()) == ([20, 20], [ANY_POOL] * 2)
    assert np.isnan(jobs.estimate_s).all()
    assert wrong_types(jobs) == {}


def test_a_table_of_throughputs_in_arrays(tmp_path: Path) -> None:
    """By kind, GPU type, one server or two, and GPUs; a single worker is on one server."""
    table = tmp_path / "rates.json"
    table.write_text(json.dumps(THROUGHPUTS))
    cluster = GpuCluster((ServerGroup("a", "fast", 1, 4, speed=3.0), ServerGroup("b", "slow", 1, 4)))
    speeds = read_any_profiles(table, cluster).speeds
    fast, slow = [[0, -1], [-1, -1]], [[1, -1], [-1, -1]]
    assert speeds.rows.tolist() == [[fast, slow], [[[-1, -1], [-1, -1]], [[-1, 2], [-1, 3]]]]
    assert speeds.step_s.tolist() == [[0.1], [0.5], [0.25], [0.4]]
    assert speeds.type_speed.tolist() == [3, 1]
    assert speeds.restart_s.tolist() == [20, 20]
    for name, shape in {
        "knots": (4,), "local_batch": (4, 1), "row_max_local": (4,), "memory_max_local": (2, 2, 2),
        "min_local": (2, 2), "max_local": (2, 2), "one_gpu_rate": (2, 2), "init_batch": (2,), "slowdown": (2,),
        "epochs": (2,), "noise_knots": (2,), "noise_batch": (2, 1), "grad_sqr": (2, 1, 1),
    }.items():  # fmt: skip
        np.testing.assert_array_equal(getattr(speeds, name), np.ones(shape), name)
    assert (speeds.sync_s.tolist(), speeds.grad_var.tolist()) == ([[0]] * 4, [[[0]]] * 2)
    assert (speeds.max_batch.tolist(), speeds.epoch_end.tolist()) == ([2, 2], [[np.inf]] * 2)
    assert wrong_types(speeds) == {}


def test_the_usual_type_of_a_job_is_the_largest_on_which_its_model_runs(tmp_path: Path) -> None:
    """Two workers were measured on the slow type only, on one server and on two."""
    table = tmp_path / "rates.json"
    table.write_text(json.dumps(THROUGHPUTS))
    for groups, run_s in (
        ((ServerGroup("a", "fast", 2, 4), ServerGroup("b", "slow", 3, 2)), [100 / 10, 500 / 4]),
        ((ServerGroup("a", "fast", 2, 2), ServerGroup("b", "slow", 5, 1)), [100 / 2, 500 / 2.5]),
        ((ServerGroup("a", "slow", 1, 1), ServerGroup("b", "slow", 1, 2)), [100 / 2, 500 / 4]),
        ((ServerGroup("a", "fast", 2, 4),), [100 / 10, np.inf]),
    ):
        cluster = GpuCluster(groups)
        (tmp_path / "g.trace").write_text(GAVEL)
        rates = read_any_profiles(table, cluster)
        assert read_workload(tmp_path / "g.trace", cluster, rates).jobs.run_s.tolist() == run_s


def test_types_that_a_table_or_a_folder_lacks_are_named(tmp_path: Path) -> None:
    table, folder = tmp_path / "rates.json", write_profiles(tmp_path / "profiles")
    table.write_text(json.dumps(THROUGHPUTS))
    other = ServerGroup("x", "h100", 3, 8)
    for path in (table, folder):
        assert unmeasured_types(path, CLUSTER) == ()
        assert unmeasured_types(path, GpuCluster((other, *CLUSTER.groups))) == ("h100",)
    assert unmeasured_types(tmp_path, CLUSTER) == (), "that it has none is the error, not the types"
    message = (
        r"rates\.json: it has slow, fast; the cluster has h100: "
        "name the GPU types of the cluster as in the table$"
    )
    with pytest.raises(ConfigurationError, match=message):
        read_any_profiles(table, GpuCluster((other,)))
    with pytest.raises(ConfigurationError, match="the cluster has h100, a100: name"):
        read_any_profiles(table, GpuCluster((other, ServerGroup("y", "a100", 1, 8))))


@pytest.mark.parametrize("name", ["w.csv.gz", "w.txt.gz"])
def test_a_compressed_workload_is_recognised_by_its_content(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(gzip.compress(PHILLY.encode()))
    workload = read_workload(tmp_path / name, CLUSTER, no_profiles(CLUSTER))
    assert workload.jobs.gpus.tolist() == [8, 1]


def test_a_job_table_will_do(tmp_path: Path) -> None:
    text = "id,submit,start,end\n7,100,110,160\n8,90,120,120\n9,50,60,70\n"
    with pytest.raises(TraceError, match="none of its 3 jobs can be run"):  # a schedule tells no widths
        _read(tmp_path / "s.csv", text)
    with pytest.raises(TraceError, match=r"s\.csv: it has no jobs; check"):
        _read(tmp_path / "s.csv", text.partition("\n")[0] + "\n")
    rows = [f"{k} {submit} 5 {run} 4 -1 -1 4 100 -1 1 1 1 1 1 -1 -1 -1" for k, submit, run in ((1, 10, 60), (2, 5, 0))]
    workload = _read(tmp_path / "s.swf", "\n".join(["; UnixStartTime: 0", *rows, ""]))
    assert workload.jobs.submit_s.tolist() == [0.0]
    assert (workload.jobs.gpus.tolist(), workload.jobs.run_s.tolist()) == ([4], [60.0])
    assert workload.jobs.estimate_s.tolist() == [100.0]
    assert workload.left_out == {"no run time": 1}


TABLE = "job_id,submit_s,start_s,end_s,gpus,nodes,cpus,limit_s\n"


def test_jobs_of_a_table_by_column(tmp_path: Path) -> None:
    rows = [
        "a,30,40,50,2,1,8,60",
        "b,20,30,90,1,1,8,",
        "c,,30,90,1,1,8,60",
        "d,40,50,50,1,1,8,60",
        "e,40,50,60,,1,8,60",
    ]
    workload = _read(tmp_path / "t.csv", TABLE + "\n".join([*rows, f"f,20,40,41,3,1,8,{UNLIMITED_S}", ""]))
    jobs = workload.jobs
    assert (jobs.name, jobs.submit_s.tolist()) == (("b", "f", "a"), [0, 0, 10])
    assert (jobs.gpus.tolist(), jobs.run_s.tolist()) == ([1, 3, 2], [60, 1, 10])
    np.testing.assert_array_equal(jobs.estimate_s, [np.nan, np.nan, 60])
    assert workload.left_out == {"no time of submission": 1, "no run time": 1, "no GPU": 1}
    assert workload.notes == ()


def test_a_job_that_cannot_be_played_for_two_reasons_is_left_out_once(tmp_path: Path) -> None:
    text = "job_id,submit_s,start_s,end_s,gpus,nodes\na,0,0,100,2,1\nb,5,-1,-1,0,1\n"
    assert _read(tmp_path / "t.csv", text).left_out == {"no run time": 1}


def test_a_table_of_which_no_job_can_run_is_refused_with_all_reasons(tmp_path: Path) -> None:
    with pytest.raises(TraceError) as refused:
        _read(tmp_path / "t.csv", TABLE + "a,30,40,40,2,1,8,60\nb,20,30,30,,1,8,\nc,20,30,90,,1,8,60\n")
    reasons = "none of its 3 jobs can be run: 2 no run time, 2 no GPU; give a trace with run times and GPUs or nodes"
    assert str(refused.value) == f"{tmp_path}/t.csv: {reasons}"


@pytest.mark.parametrize(
    ("sizes", "gpus_per_node", "gpus", "note"),
    [
        ("2,3,8", None, [2], ""),
        (",3,8", None, [3], "no job has GPUs in the trace: a node counts as one GPU (--gpus-per-node declares more)"),
        (",3,8", 1, [3], ""),
        (",3,8", 4, [12], ""),
        (",,8", None, [8], "no job has GPUs or nodes in the trace: a CPU counts as one GPU"),
    ],
)
def test_what_counts_as_a_gpu_of_a_table(
    tmp_path: Path, sizes: str, gpus_per_node: int | None, gpus: list[int], note: str
) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"{TABLE}a,30,40,50,{sizes},60\n")
    workload = read_workload(path, CLUSTER, no_profiles(CLUSTER), gpus_per_node)
    assert workload.jobs.gpus.tolist() == gpus
    assert workload.notes == ((f"{path}: {note}",) if note else ())


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (TABLE + "a,30,40,50,1,3,8,60\n", "jobs have GPUs in the trace"),
        (TABLE + "a,30,40,50,,,8,60\n", "no job of the trace has nodes"),
        (PHILLY, "its jobs have GPUs"),
    ],
)
def test_gpus_of_a_node_are_refused_where_they_do_not_count(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as refused:
        read_workload(path, CLUSTER, no_profiles(CLUSTER), gpus_per_node=1)
    assert str(refused.value) == f"{path}: {why}; leave --gpus-per-node out"


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (SIA.replace("toy,4", "tony,4"), UnknownName, r"w.csv:2, which has no profile: 'tony'. Did you mean 'toy'"),
        (SIA.replace(",4,40", ",0,40"), TraceError, r"w.csv:2: num_replicas is '0'; give a whole number of 1 or more$"),
        (SIA.replace(",4,40", ",1.5,40"), TraceError, r"w.csv:2: num_replicas is '1.5'; give a whole number of 1 or"),
        (SIA.replace(",4,40", ",4,0"), TraceError, r"w.csv:2: batch_size is '0'; give a whole number of 1 or more$"),
        (SIA.replace("20.5", "soon"), TraceError, r"w.csv:2: time is 'soon'; give a number$"),
        (SIA.replace("20.5", "inf"), TraceError, r"w.csv:2: time is 'inf'; give a number$"),
        (SIA.replace("20.5", " "), TraceError, r"w.csv:2: no time; fix or remove the line$"),
        (SIA.replace(",4,40", ""), TraceError, r"w.csv:2: no num_replicas; fix or remove the line$"),
        (RIGID.replace("rigid", "Rigid"), UnknownName, r"unknown category in .*w.csv:2: 'Rigid'. Did you mean 'rigid'"),
        (
            RIGID.replace("rigid", "scale-gpus"),
            ConfigurationError,
            r"w.csv:2: category is scale-gpus, but a job that changes its GPUs and not its batch cannot be played; "
            r"give rigid or adaptive, or remove the line$",
        ),
        (SIA.replace("20.5", "-20.5"), TraceError, r"w.csv:2: time is '-20.5'; give 0 or more$"),
        (SIA.split("\n")[0] + "\n", TraceError, "w.csv: it has no rows; check the command that wrote it$"),
        (
            PHILLY.replace("2017-10-09 07:01:55", "7 o'clock"),
            TraceError,
            'w.csv:2: timestamp is "7 o\'clock"; give 2017-10-09 07:01:55$',
        ),
        (PHILLY.replace("66.0,1", "66.0,1.5"), TraceError, r"w.csv:2: num_gpus is '1.5'; give a whole number of 1 or"),
        (
            PHILLY.replace("66.0,x", "66.0,x,y"),
            TraceError,
            r"w.csv:2: more cells than the 5 columns; fix or remove the",
        ),
        (
            "timestamp,duration,num_gpus,duration\n2017-10-09,5,4,6\n",
            TraceError,
            r"w.csv:1: column 'duration' occurs twice; remove one of them$",
        ),
        (
            "timestamp,duration,num_gpus\n2017-10-09,0,4\n2017-10-09,5,0\n",
            TraceError,
            r"w.csv: none of its 2 jobs has a run time and a GPU; check the file$",
        ),
        (
            "a,b\n1,2\n",
            TraceError,
            r"w.csv:1: this is not a workload: a CSV begins with name,time,application,num_replicas,batch_size, "
            "with timestamp,duration,num_gpus, or with job_id,submit_s,run_s,gpus; 'mirage trace convert --columns' "
            "makes a job table from any other file$",
        ),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, text: str, error: type[MirageError], message: str) -> None:
    with pytest.raises(error, match=message):
        _read(tmp_path / "w.csv", text, write_profiles(tmp_path / "profiles"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GAVEL.replace("500", "0"), r"g.trace:1: steps is '0'; give a number above 0$"),
        (GAVEL.replace("\t30", "\t-30"), r"g.trace:1: time is '-30'; give 0 or more$"),
        (GAVEL.replace("500\t2", "500\t0"), r"g.trace:1: scale is '0'; give a whole number of 1 or more$"),
        (
            GAVEL.replace("500\t2", "500\t3"),
            r"^unknown kind of job in .*g.trace:1, which has no throughput: 'Toy \(batch size 8\) x3'\. Did you mean",
        ),
    ],
)
def test_a_bad_line_of_gavels_is_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "rates.json").write_text(json.dumps(THROUGHPUTS))
    with pytest.raises(MirageError, match=message):
        _read(tmp_path / "g.trace", text, tmp_path / "rates.json")


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ("{", "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        ("[]", None),
        ('{"slow": {"Toy": {"null": 1}}}', "'Toy' is not ('KIND', WORKERS)"),
        (json.dumps({"slow": {ONE: {}}}), None),
        (json.dumps({"slow": {ONE: {"null": None}}}), None),
    ],
)
def test_what_is_no_table_of_throughputs_is_refused(tmp_path: Path, table: str, why: str | None) -> None:
    path = tmp_path / "rates.json"
    path.write_text(table)
    with pytest.raises(ConfigurationError) as refused:
        read_any_profiles(path, CLUSTER)
    words = f" ({why})" if why else ", which has for each GPU type the models and their speeds"
    assert str(refused.value) == f"{path}: not a table of throughputs{words}; give Gavel's JSON"


def test_errors_of_unreadable_files_name_the_remedy(tmp_path: Path) -> None:
    remedy = "give the folder with one sub-folder per model, or the JSON file of Gavel's throughputs"
    for read in (read_any_profiles, unmeasured_types):
        with pytest.raises(ConfigurationError, match=rf"gone: no profiles: the path does not exist; {remedy}$"):
            read(tmp_path / "gone", CLUSTER)
    with pytest.raises(TraceError, match=r"gone\.csv: cannot be read: No such file or directory; check the path$"):
        read_workload(tmp_path / "gone.csv", CLUSTER, no_profiles(CLUSTER))
    (tmp_path / "b.csv").write_bytes(b"job_id,submit_s,run_s,gpus\n\xff")
    with pytest.raises(
        ConfigurationError, match=r"b\.csv: cannot be read: it is not text in UTF-8: byte 28 is 0xff; check the file$"
    ):
        read_workload(tmp_path / "b.csv", CLUSTER, no_profiles(CLUSTER))
    (tmp_path / "cut.csv.gz").write_bytes(gzip.compress(b"job_id,submit_s\n" * 99)[:-9])
    with pytest.raises(TraceError, match=r"cut\.csv\.gz:100: the compressed file is damaged or cut short"):
        read_workload(tmp_path / "cut.csv.gz", CLUSTER, no_profiles(CLUSTER))


def test_models_need_profiles(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigurationError, match=r"w\.csv: its jobs name models and need their profiles; give --profiles DIR$"
    ):
        _read(tmp_path / "w.csv", SIA)
    with pytest.raises(ConfigurationError, match=r"g.trace: its jobs need throughputs; give --profiles FILE\.json$"):
        _read(tmp_path / "g.trace", GAVEL)


def test_linear_jobs_are_put_in_order() -> None:
    jobs = GpuJobs.linear([5, 1], [2, 3], [10, 20], name=("late", "early"))
    assert (jobs.name, jobs.work.tolist()) == (("early", "late"), [60.0, 20.0])
    assert jobs[1:].name == ("late",)
    jobs = GpuJobs.linear(
        [9, 3, 3], [4, 2, 1], [10, 20, 30], min_gpus=[3, 2, 1], max_gpus=[8, 2, 6], estimate_s=[1, 2, 3],
        restart_s=[7, 8, 9], pool=[0, 1, 2],
    )  # fmt: skip
    assert (jobs.id.tolist(), jobs.name, jobs.submit_s.tolist()) == ([0, 1, 2], ("0", "1", "2"), [3, 3, 9])
    assert (jobs.gpus.tolist(), jobs.min_gpus.tolist(), jobs.max_gpus.tolist()) == ([2, 1, 4], [2, 1, 3], [2, 6, 8])
    assert (jobs.run_s.tolist(), jobs.work.tolist()) == ([20, 30, 10], [40, 30, 40])
    assert (jobs.estimate_s.tolist(), jobs.restart_s.tolist(), jobs.pool.tolist()) == ([2, 3, 1], [8, 9, 7], [1, 2, 0])


def test_linear_jobs_of_one_time_stay_in_the_order_in_which_they_come() -> None:
    sizes = [1 + k % 7 for k in range(200)]
    jobs = GpuJobs.linear([k % 2 for k in range(200)], sizes, 1.0)
    assert jobs.gpus.tolist() == sizes[::2] + sizes[1::2]


def test_what_a_linear_job_does_not_give_is_unknown_or_what_it_requests() -> None:
    jobs = GpuJobs.linear([0, 1], 3, 10.0)
    assert (jobs.gpus.tolist(), jobs.min_gpus.tolist(), jobs.max_gpus.tolist()) == ([3, 3],) * 3
    assert np.isnan(jobs.estimate_s).all()
    assert (jobs.restart_s.tolist(), jobs.pool.tolist(), jobs.batch.tolist()) == ([0, 0], [ANY_POOL] * 2, [0, 0])
    assert (jobs.model.tolist(), jobs.models) == ([LINEAR] * 2, ())
    assert wrong_types(jobs) == {}
    jobs.gpus[0] = 5  # every column has memory of its own
    assert (jobs.gpus.tolist(), jobs.min_gpus.tolist()) == ([5, 3], [3, 3])


def test_a_part_of_the_jobs_has_all_their_columns() -> None:
    jobs = replace(GpuJobs.linear([0, 1, 2], [1, 2, 3], [4, 5, 6], estimate_s=[7, 8, 9]), models=("a", "b"))
    for rows in (slice(1, None), np.array([1, 2]), np.array([False, True, True])):
        part = jobs[rows]
        assert (len(part), part.name, part.models) == (2, ("1", "2"), ("a", "b"))
        for name in (f.name for f in fields(GpuJobs) if f.name not in ("name", "models")):
            np.testing.assert_array_equal(getattr(part, name), getattr(jobs, name)[1:])


def test_columns_that_contradict_each_other_are_refused() -> None:
    jobs = GpuJobs.linear([0, 1], [1, 1], [1, 1])
    with pytest.raises(ValueError, match=r"^columns of different length: \{'id': 2, .*'gpus': 1,"):
        replace(jobs, gpus=np.ones(1, np.int64))
    with pytest.raises(ValueError, match=r"^jobs are not in order of submission$"):
        replace(jobs, submit_s=np.array([1.0, 0.0]))
    assert replace(jobs, submit_s=np.ones(2), models=("a", "b", "c")).submit_s.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"submit_s": np.nan}, "its time of submission is not a number"),
        ({"submit_s": np.inf}, "its time of submission is not a number"),
        ({"gpus": 0, "min_gpus": 1}, "it requests no GPU"),
        ({"run_s": 0}, "it has no work"),
        ({"run_s": -1}, "it has no work"),
        ({"run_s": np.nan}, "it has no work"),
        ({"run_s": np.inf}, "its work is infinite"),
        ({"restart_s": np.inf}, "its restart cost is not a finite number"),
        ({"min_gpus": 0}, "min_gpus is less than one or more than the GPUs it requests"),
        ({"min_gpus": 5}, "min_gpus is less than one or more than the GPUs it requests"),
        ({"max_gpus": 3}, "max_gpus is less than the GPUs it requests"),
    ],
)
def test_the_first_linear_job_that_cannot_run_is_named(columns: dict[str, Any], reason: str) -> None:
    given = {"submit_s": 1, "gpus": 4, "run_s": 10, "min_gpus": 1, "max_gpus": 9, "restart_s": 0}
    wrong = {name: [of, columns.get(name, of), columns.get(name, of)] for name, of in given.items()}
    with pytest.raises(ConfigurationError) as refused:
        GpuJobs.linear(**wrong, name=("right", "wrong", "too"))
    assert str(refused.value) == f"job 'wrong': {reason}; fix or remove its row"


def test_a_linear_job_may_have_one_gpu_and_no_other_number() -> None:
    jobs = GpuJobs.linear([0], [1], [0.001], min_gpus=1, max_gpus=1)
    assert (jobs.min_gpus.tolist(), jobs.max_gpus.tolist()) == ([1], [1])


def test_the_published_workloads_are_read(shared_data: Path) -> None:
    sia = gpu_cluster("sia64")
    profiles = read_any_profiles(shared_data / "sia-pollux" / "profiles", sia)
    workload = read_workload(shared_data / "sia-pollux" / "sia_philly" / "workload-1.csv", sia, profiles)
    assert len(workload.jobs) == 160
    assert np.isfinite(workload.jobs.run_s).all()


def test_the_philly_trace_is_read(shared_data: Path, tmp_path: Path) -> None:
    cluster = gpu_cluster("philly7704")
    lines = gzip.decompress((shared_data / "philly" / "philly_sia.csv.gz").read_bytes()).decode().split("\n")[:2001]
    (tmp_path / "head.csv").write_text("\n".join(lines) + "\n")
    jobs = read_workload(tmp_path / "head.csv", cluster, no_profiles(cluster)).jobs
    assert len(jobs) == 2000
    assert (np.diff(jobs.submit_s) >= 0).all()


def test_gavels_physical_trace_is_read(shared_data: Path) -> None:
    cluster = GpuCluster(tuple(ServerGroup(name, name, 9, 4) for name in ("v100", "p100", "k80")))
    rates = read_any_profiles(shared_data / "gavel" / "simulation_throughputs.json.gz", cluster)
    trace = shared_data / "gavel" / "physical_cluster" / "max_min_fairness.trace"
    assert len(read_workload(trace, cluster, rates).jobs) == 96


def test_a_negative_run_time_of_philly_is_an_error_in_its_line(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"p.csv:2: duration is '-66.0'; give 0 or more"):
        _read(tmp_path / "p.csv", PHILLY.replace(",66.0,", ",-66.0,"))
