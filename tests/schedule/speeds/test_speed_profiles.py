"""Readers of profiles: what they refuse, and the measured ones of Pollux and Sia."""

from __future__ import annotations

import csv
import gzip
import math
from pathlib import Path

import pytest

from mirage.errors import ConfigurationError
from mirage.schedule.gpu_cluster import GpuCluster, ServerGroup, gpu_cluster
from mirage.schedule.speeds import speed_law
from mirage.schedule.speeds.profile_files import read_placements
from mirage.schedule.speeds.profiles import Profiles, _measured_rows, read_profiles
from tests.support.toy_profiles import CLUSTER, write_profiles


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("toy/placements-slow.csv", "placement,local_bsz\n1,2\n", "no column step_time, sync_time"),
        ("toy/placements-slow.csv", "placement,local_bsz,step_time,sync_time\n1,2,x,0\n", "csv:2: could not convert"),
        ("toy/placements-slow.csv", "placement,local_bsz,step_time,sync_time\n", "no rows"),
        ("models.toml", "[toy]\nslow = 3\n", r"\[toy\] is .*restart_s"),
        ("models.toml", "[toy]\nslowdown = 0\n", "slowdown above 0"),
        ("models.toml", "[toy]\nepochs = 3\n", "3 epochs requested, 2 measured"),
        ("models.toml", "[toy\n", "models.toml"),
    ],
)
def test_a_bad_file_is_named(tmp_path: Path, file: str, text: str, message: str) -> None:
    folder = write_profiles(tmp_path)
    (folder / file).write_text(text)
    with pytest.raises(ConfigurationError, match=message):
        read_profiles(folder, CLUSTER)


def test_profiles_of_other_gpu_types_are_refused(tmp_path: Path) -> None:
    other = GpuCluster((ServerGroup("x", "h100", 1, 8),))
    with pytest.raises(ConfigurationError, match="measured on fast, slow; the cluster has h100"):
        read_profiles(write_profiles(tmp_path), other)
    with pytest.raises(ConfigurationError, match="no profiles"):
        read_profiles(tmp_path / "toy", CLUSTER)


def test_a_model_cannot_run_on_a_type_it_was_not_measured_on(tmp_path: Path) -> None:
    mixed = GpuCluster((*CLUSTER.groups, ServerGroup("x", "h100", 1, 8)))
    speeds = read_profiles(write_profiles(tmp_path), mixed).speeds
    assert speed_law.speed(speeds, 0, 2, 1, 1, 10, 0.0) == 0.0
    assert speed_law.speed(speeds, 0, 0, 1, 1, 10, 0.0) > 0.0


def test_placements_reach_to_the_most_servers_and_the_most_gpus_of_any_type(tmp_path: Path) -> None:
    cluster = GpuCluster((ServerGroup("small", "slow", 3, 2), ServerGroup("large", "fast", 1, 8)))
    speeds = read_profiles(write_profiles(tmp_path), cluster).speeds
    assert speeds.rows.shape == (1, 2, 3, 8)  # 3 servers of the slow type, 8 GPUs of the fast one
    assert speeds.memory_max_local.shape == (1, 2, 8)


@pytest.fixture(scope="module")
def measured(shared_data: Path) -> Profiles:
    return read_profiles(shared_data / "sia-pollux" / "profiles", gpu_cluster("sia64"))


def _measured_row(folder: Path, gpu_type: str, placement: str, local: int) -> tuple[float, float]:
    """Step and exchange of one measurement, straight from the file."""
    path = folder / f"placements-{gpu_type}.csv"
    lines = path.read_text() if path.exists() else gzip.decompress(Path(f"{path}.gz").read_bytes()).decode()
    rows = csv.DictReader(lines.splitlines())
    (row,) = [r for r in rows if r["placement"] == placement and float(r["local_bsz"]) == local]
    return float(row["step_time"]), float(row["sync_time"])


@pytest.mark.parametrize(
    ("model", "gpu_type", "placement", "local"),
    [
        ("bert", "aws", "1", 6),
        ("bert", "aws", "444", 12),
        ("cifar10", "dgx-ext", "8", 182),
        ("deepspeech2", "rtx", "88", 40),
        ("imagenet", "rtx", "4", 81),
        ("yolov3", "dgx-ext", "88", 8),
    ],
)
def test_a_measured_placement_takes_its_measured_time(
    measured: Profiles, shared_data: Path, model: str, gpu_type: str, placement: str, local: int
) -> None:
    step_s, sync_s = _measured_row(shared_data / "sia-pollux" / "profiles" / model, gpu_type, placement, local)
    servers, gpus = len(placement), sum(map(int, placement))
    m, t = measured.models.index(model), gpu_cluster("sia64").gpu_types.index(gpu_type)
    batch = local * gpus
    if gpus == 1 and batch > measured.speeds.init_batch[m]:
        batch = 0
    found = speed_law.measure(measured.speeds, m, t, servers, gpus, batch, 0.0)
    local_found, steps = speed_law.local_batch(measured.speeds, m, t, servers, gpus, batch)
    assert (local_found, steps) == (local, 1) or batch == 0
    assert found[:2] == pytest.approx((step_s, sync_s))


def test_the_work_of_a_model_is_its_last_epoch(measured: Profiles) -> None:
    work = {name: speed_law.work(measured.speeds, m) for m, name in enumerate(measured.models)}
    assert work["bert"] == pytest.approx(14774.0)
    assert work["deepspeech2"] == pytest.approx(28536.0)
    assert measured.speeds.epochs.tolist() == [2, 100, 80, 90, 10, 50]


def test_every_placement_of_sia64_has_a_finite_speed(measured: Profiles) -> None:
    cluster = gpu_cluster("sia64")
    for m in range(len(measured.models)):
        for t in range(len(cluster.gpu_types)):
            per_server = int(cluster.gpus_of[cluster.gpu_type_of == t].max())
            for servers in range(1, int((cluster.gpu_type_of == t).sum()) + 1):
                for gpus in range(servers, servers * per_server + 1):
                    rate = speed_law.speed(measured.speeds, m, t, servers, gpus, 0, 0.0)
                    assert 0 < rate < math.inf, (measured.models[m], cluster.gpu_types[t], servers, gpus)


def test_deepspeech2_holds_57_samples_on_an_rtx(measured: Profiles) -> None:
    m, rtx = measured.models.index("deepspeech2"), gpu_cluster("sia64").gpu_types.index("rtx")
    assert measured.speeds.max_local[m, rtx] == 57
    assert measured.speeds.restart_s.tolist() == [120.0, 50.0, 25.0, 250.0, 15.0, 80.0]


def test_a_file_that_is_missing_is_named_with_what_needs_it(tmp_path: Path) -> None:
    folder = write_profiles(tmp_path)
    (folder / "toy" / "scalability-fast.csv").unlink()
    with pytest.raises(ConfigurationError, match=r"toy: it has no scalability-fast\.csv; profiles need one for every"):
        read_profiles(folder, CLUSTER)


def test_a_model_may_have_a_single_epoch(tmp_path: Path) -> None:
    folder = write_profiles(tmp_path)
    (folder / "models.toml").write_text("[toy]\nepochs = 1\n")
    assert read_profiles(folder, CLUSTER).speeds.epochs.tolist() == [1]
    (folder / "models.toml").write_text("[toy]\nepochs = 0\n")
    with pytest.raises(ConfigurationError, match="epochs 1 or more"):
        read_profiles(folder, CLUSTER)


def test_a_size_is_known_at_the_local_batches_that_all_its_placements_share(tmp_path: Path) -> None:
    folder = write_profiles(tmp_path)
    measured = {"112": (2, 4, 8), "13": (4, 8, 16), "22": (1, 4, 6, 8)}
    rows = [f"{placement},{local},{local / 10},0" for placement, locals_ in measured.items() for local in locals_]
    (folder / "placements-any.csv").write_text("\n".join(["placement,local_bsz,step_time,sync_time", *rows, ""]))
    found = _measured_rows(read_placements(folder, "any"))[2, 4]
    assert found.local_batch.tolist() == [4, 6, 8]
    assert found.max_local == 8
    assert found.times_s[:, 0] == pytest.approx([0.4, 0.6, 0.8])
