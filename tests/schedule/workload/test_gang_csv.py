"""The reader of gang workloads: defaults, epochs, refusals with file and line."""

from __future__ import annotations

import lzma
import math
from pathlib import Path

import pytest

from mirage.errors import TraceError
from mirage.schedule.gpu_cluster import gpu_cluster
from mirage.schedule.speeds.profiles import no_profiles
from mirage.schedule.workload.gang_csv import is_gang_header
from mirage.schedule.workload.gpu_jobs import GpuJobs
from mirage.schedule.workload.gpu_workload import read_workload
from mirage.trace.formats.job_table_csv import COLUMNS

CLUSTER = gpu_cluster("pool128")
ALL = "job_id,submit_s,run_s,gpus,gpus_min,gpus_max,model,epochs,checkpoint_every_s,save_s,restart_s,limit_s"


def _read(path: Path, text: str) -> GpuJobs:
    path.write_text(text)
    return read_workload(path, CLUSTER, no_profiles(CLUSTER)).jobs


def test_every_column_is_read_and_jobs_are_in_order_of_submission(tmp_path: Path) -> None:
    text = f"{ALL}\nb,30.5,900,8,2,16,bert,9,100,24,120,1200\na,7,60,1,,,,,,,,\n"
    jobs = _read(tmp_path / "g.csv", text)
    assert jobs.name == ("a", "b")
    assert jobs.submit_s.tolist() == [7.0, 30.5]
    assert (jobs.gpus.tolist(), jobs.min_gpus.tolist(), jobs.max_gpus.tolist()) == ([1, 8], [1, 2], [1, 16])
    assert (jobs.work.tolist(), jobs.run_s.tolist()) == ([60.0, 7200.0], [60.0, 900.0])
    assert (jobs.save_s.tolist(), jobs.restart_s.tolist()) == ([0.0, 24.0], [0.0, 120.0])
    assert jobs.checkpoint_s.tolist() == [math.inf, 100.0]
    assert math.isnan(jobs.estimate_s[0])
    assert jobs.estimate_s[1] == 1200.0


def test_a_byte_order_mark_is_no_part_of_the_first_column(tmp_path: Path) -> None:
    assert _read(tmp_path / "g.csv", "\ufeffjob_id,submit_s,run_s,gpus\nx,0,900,3\n").name == ("x",)


@pytest.mark.parametrize("name", ["g.csv", "gangs", "g.csv.xz"])
def test_gangs_are_recognised_by_a_quoted_header_under_any_name(tmp_path: Path, name: str) -> None:
    text = '"job_id","submit_s","run_s","gpus"\n"x",0,900,3\n'
    path = tmp_path / name
    path.write_bytes(lzma.compress(text.encode()) if name.endswith("xz") else text.encode())
    assert read_workload(path, CLUSTER, no_profiles(CLUSTER)).jobs.name == ("x",)


def test_four_columns_suffice_and_epochs_give_the_checkpoints(tmp_path: Path) -> None:
    jobs = _read(tmp_path / "g.csv", "job_id,submit_s,run_s,gpus,epochs\nx,0,900,3,4\ny,1,50,2,\n")
    assert jobs.checkpoint_s.tolist() == [225.0, math.inf]
    assert jobs.epochs.tolist() == [4, 0]
    assert (jobs.min_gpus.tolist(), jobs.max_gpus.tolist()) == ([3, 2], [3, 2])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("job_id,submit_s,run_s,gpus\nx,0,1,1e30\n", r"g\.csv:2: gpus is '1e30'; give a whole number of 1 or more"),
        (f"job_id,submit_s,run_s,gpus\n{'x' * 140_000},0,1,1\n", r"g\.csv:2: field larger than field limit"),
        ("job_id,submit_s,run_s,gpus,save_ms\nx,0,1,1,5\n", r"g\.csv:1: unknown column 'save_ms'; .* in seconds"),
        ("job_id,submit_s,run_s,gpus\nx,0,12h,1\n", r"g\.csv:2: run_s is '12h'; give a number"),
        ("job_id,submit_s,run_s,gpus\nx,0,0,1\n", r"g\.csv:2: run_s is '0'; give a number above 0"),
        ("job_id,submit_s,run_s,gpus\nx,0,5,1\ny,-1,5,1\n", r"g\.csv:3: submit_s is '-1'; give 0 or more"),
        ("job_id,submit_s,run_s,gpus\nx,0,5,1.5\n", r"g\.csv:2: gpus is '1\.5'; give a whole number of 1 or more"),
        ("job_id,submit_s,run_s,gpus\nx,0,5,1\nx,3,5,1\n", r"g\.csv:3: job_id is 'x', as in line 2"),
        ("job_id,submit_s,run_s,gpus\nx,0,5\n", r"g\.csv:2: no gpus; fix or remove the line"),
        ("job_id,submit_s,run_s,gpus\nx,0,5,1,9\n", r"g\.csv:2: more cells than the 4 columns"),
        ("job_id,submit_s,run_s,gpus,gpus_min\nx,0,5,2,3\n", r"g\.csv:2: gpus_min is 3, but the job requests 2"),
        ("job_id,submit_s,run_s,gpus,gpus_max\nx,0,5,2,1\n", r"g\.csv:2: gpus_max is '1'; .* of 2 or more"),
        ("job_id,submit_s,run_s,gpus,save_s\nx,0,5,2,-1\n", r"g\.csv:2: save_s is '-1'; give 0 or more"),
        ("job_id,submit_s,run_s,gpus,limit_s\nx,0,3600,2,60\n", r"g\.csv:2: limit_s is 60, .* runs for 3600 s"),
        (
            "job_id,submit_s,run_s,gpus,epochs,checkpoint_every_s\nx,0,900,2,9,100000\n",
            r"g\.csv:2: 9 epochs of checkpoint_every_s 100000 are not run_s 900; give both in seconds",
        ),
        ("job_id,submit_s,run_s,gpus\n", r"g\.csv: it has no rows"),
    ],
)
def test_a_malformed_line_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        _read(tmp_path / "g.csv", text)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("job_id,submit_s,run_s,num_gpus,model", "no column gpus, .*; rename 'num_gpus' if it is that column$"),
        ("job_id,submit_s,duration,gpus,model", "no column run_s, .*; rename 'duration' if it is that column$"),
        ("job_id,submit_s,run_s", "no column gpus, which GPU jobs need; add it$"),
        ("job_id,submit_s,run_s,g,save_s,save", "no column gpus, which GPU jobs need; add it$"),
        ("job_id,gpus,epochs,r", "no column submit_s and no column run_s, which GPU jobs need; add it$"),
    ],
)
def test_a_column_that_is_missing_is_named_and_no_other(tmp_path: Path, header: str, message: str) -> None:
    with pytest.raises(TraceError, match=rf"g\.csv:1: {message}"):
        _read(tmp_path / "g.csv", f"{header}\n{','.join('7' * (header.count(',') + 1))}\n")


def test_no_job_table_is_mistaken_for_gangs() -> None:
    assert not is_gang_header(COLUMNS)
    assert not is_gang_header(["job_id", "submit_s", "start_s", "end_s", "gpus", "model"])


def test_a_job_runs_on_the_gpu_types_that_its_row_names(tmp_path: Path) -> None:
    path, cluster = tmp_path / "g.csv", gpu_cluster("aryl7704")
    path.write_text("job_id,submit_s,run_s,gpus,gpu_types\na,0,60,1,t4\nb,1,60,1,v100/t4\nc,2,60,1,\n")
    assert read_workload(path, cluster, no_profiles(cluster)).jobs.types.tolist() == [2, 3, -1]
    path.write_text("job_id,submit_s,run_s,gpus,gpu_types\na,0,60,1,h100\n")
    with pytest.raises(TraceError, match=r"g.csv:2: .*'h100'"):
        read_workload(path, cluster, no_profiles(cluster))
