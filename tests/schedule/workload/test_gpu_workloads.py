"""Readers of GPU workloads: a small file of every kind, refusals, and published files."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from mirage.errors import ConfigurationError, MirageError, TraceError, UnknownName
from mirage.schedule.gpu_cluster import GpuCluster, ServerGroup, gpu_cluster
from mirage.schedule.speeds import speed_law
from mirage.schedule.speeds.profiles import no_profiles
from mirage.schedule.workload.gpu_jobs import GpuJobs
from mirage.schedule.workload.gpu_workload import GpuWorkload, read_any_profiles, read_workload, unmeasured_types
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
    assert workload.name == f"{tmp_path.name}/w"
    assert jobs.name == ("a", "b")  # by submission
    assert jobs.submit_s.tolist() == [10.0, 20.5]
    assert (jobs.gpus.tolist(), jobs.batch.tolist()) == ([1, 4], [10, 40])
    assert (jobs.min_gpus.tolist(), jobs.max_gpus.tolist()) == ([1, 1], [4, 4])
    assert jobs.work.tolist() == [300.0, 300.0]
    assert jobs.restart_s.tolist() == [12.0, 12.0]
    assert jobs.run_s[0] == pytest.approx(600.0)  # alone on one slow GPU at the first batch: half a unit a second


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


def test_types_that_a_table_or_a_folder_lacks_are_named(tmp_path: Path) -> None:
    table, folder = tmp_path / "rates.json", write_profiles(tmp_path / "profiles")
    table.write_text(json.dumps(THROUGHPUTS))
    other = ServerGroup("x", "h100", 3, 8)
    for path in (table, folder):
        assert unmeasured_types(path, CLUSTER) == ()
        assert unmeasured_types(path, GpuCluster((other, *CLUSTER.groups))) == ("h100",)
    message = (
        r"rates\.json: it has slow, fast; the cluster has h100: "
        "name the GPU types of the cluster as in the table$"
    )
    with pytest.raises(ConfigurationError, match=message):
        read_any_profiles(table, GpuCluster((other,)))


@pytest.mark.parametrize("name", ["w.csv.gz", "w.txt.gz"])
def test_a_compressed_workload_is_recognised_by_its_content(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(gzip.compress(PHILLY.encode()))
    workload = read_workload(tmp_path / name, CLUSTER, no_profiles(CLUSTER))
    assert (workload.name, workload.jobs.gpus.tolist()) == (f"{tmp_path.name}/w", [8, 1])


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


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (SIA.replace("toy,4", "tony,4"), UnknownName, r"w.csv:2, which has no profile: 'tony'. Did you mean 'toy'"),
        (SIA.replace(",4,40", ",0,40"), TraceError, r"w.csv:2: num_replicas is '0'; give a whole number of 1 or more"),
        (SIA.replace("20.5", "soon"), TraceError, r"w.csv:2: time is 'soon'; give a number"),
        (SIA.replace("20.5", ""), TraceError, r"w.csv:2: no time"),
        (RIGID.replace("rigid", "Rigid"), UnknownName, r"category in .*w.csv:2: 'Rigid'. Did you mean 'rigid'"),
        (RIGID.replace("rigid", "scale-gpus"), ConfigurationError, r"w.csv:2: category is scale-gpus, .*; give rigid"),
        (SIA.replace("20.5", "-20.5"), TraceError, r"w.csv:2: time is '-20.5'; give 0 or more"),
        (SIA.split("\n")[0] + "\n", TraceError, "no jobs"),
        (PHILLY.replace("07:01:55", "7 o'clock"), TraceError, r"w.csv:2: timestamp is"),
        (PHILLY.replace("66.0,x", "66.0,x,y"), TraceError, r"w.csv:2: more cells than the 5 columns; fix or remove"),
        ("a,b\n1,2\n", TraceError, r"w.csv:1: this is not a workload: a CSV begins with name,time,application"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, text: str, error: type[MirageError], message: str) -> None:
    with pytest.raises(error, match=message):
        _read(tmp_path / "w.csv", text, write_profiles(tmp_path / "profiles"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GAVEL.replace("500", "0"), r"g.trace:1: steps is '0'; give a number above 0"),
        (GAVEL.replace("\t30", "\t-30"), r"g.trace:1: time is '-30'; give 0 or more"),
    ],
)
def test_a_bad_line_of_gavels_is_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "rates.json").write_text(json.dumps(THROUGHPUTS))
    with pytest.raises(TraceError, match=message):
        _read(tmp_path / "g.trace", text, tmp_path / "rates.json")


def test_errors_of_unreadable_files_name_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"gone: no profiles: .*give the folder"):
        read_any_profiles(tmp_path / "gone", CLUSTER)
    with pytest.raises(ConfigurationError, match=r"gone\.csv: cannot be read: No such file or directory; check"):
        read_workload(tmp_path / "gone.csv", CLUSTER, no_profiles(CLUSTER))
    (tmp_path / "b.csv").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigurationError, match=r"b\.csv: it is not UTF-8 text"):
        read_workload(tmp_path / "b.csv", CLUSTER, no_profiles(CLUSTER))
    (tmp_path / "cut.csv.gz").write_bytes(gzip.compress(b"job_id,submit_s\n" * 99)[:-9])
    with pytest.raises(ConfigurationError, match=r"cut\.csv\.gz: cannot be read: Compressed file ended.*; check"):
        read_workload(tmp_path / "cut.csv.gz", CLUSTER, no_profiles(CLUSTER))


def test_models_need_profiles(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="--profiles DIR"):
        _read(tmp_path / "w.csv", SIA)
    with pytest.raises(ConfigurationError, match=r"--profiles FILE\.json"):
        _read(tmp_path / "g.trace", GAVEL)


def test_linear_jobs_are_put_in_order_and_checked() -> None:
    jobs = GpuJobs.linear([5, 1], [2, 3], [10, 20], name=("late", "early"))
    assert (jobs.name, jobs.work.tolist()) == (("early", "late"), [60.0, 20.0])
    assert jobs[1:].name == ("late",)
    for columns, message in (
        (([1], [0], [10]), "job '0': it requests no GPU; fix or remove its row"),
        (([1], [1], [0]), "no work"),
        (([0], [1], [np.inf]), "its work is infinite"),
        (([np.nan], [1], [1]), "submission"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            GpuJobs.linear(*columns)
    with pytest.raises(ConfigurationError, match="max_gpus is less than"):
        GpuJobs.linear([1], [4], [10], max_gpus=[2])
    with pytest.raises(ConfigurationError, match="its restart cost is not a finite number"):
        GpuJobs.linear([1], [4], [10], restart_s=np.inf)


def test_the_published_workloads_are_read(shared_data: Path) -> None:
    sia = gpu_cluster("sia64")
    profiles = read_any_profiles(shared_data / "sia-pollux" / "profiles", sia)
    workload = read_workload(shared_data / "sia-pollux" / "sia_philly" / "workload-1.csv", sia, profiles)
    assert (workload.name, len(workload.jobs)) == ("sia_philly/workload-1", 160)
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
