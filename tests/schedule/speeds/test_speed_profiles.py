"""Readers of profiles: what they refuse, and the measured ones of Pollux and Sia."""

from __future__ import annotations

import csv
import gzip
import math
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from mirage.errors import ConfigurationError
from mirage.schedule.gpu_cluster import GpuCluster, ServerGroup, gpu_cluster
from mirage.schedule.speeds import speed_law
from mirage.schedule.speeds.profile_files import (
    PUBLISHED,
    ModelFacts,
    StepTimes,
    gpu_types_of,
    models_in,
    read_facts,
    read_noise,
    read_placements,
    read_scalability,
)
from mirage.schedule.speeds.profiles import (
    NO_LIMIT,
    Profiles,
    _measured_rows,
    no_profiles,
    read_profiles,
    step_table,
    types_in_profiles,
)
from mirage.schedule.speeds.speed_arrays import LINEAR, NO_TABLE, runs_on
from tests.support.column_types import wrong_types
from tests.support.toy_profiles import CLUSTER, write_profiles

FACTS = "restart_s is 0 or more, slowdown above 0, epochs 1 or more, max_local a table of GPU types"
COLUMNS = "placement, local_bsz, step_time, sync_time"


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        (
            "toy/placements-slow.csv",
            "placement,local_bsz\n1,2\n",
            f":1: no column step_time, sync_time; it needs {COLUMNS}",
        ),
        (
            "toy/placements-slow.csv",
            "",
            f":1: no column local_bsz, placement, step_time, sync_time; it needs {COLUMNS}",
        ),
        (
            "toy/placements-slow.csv",
            "placement,local_bsz,step_time,sync_time\n1,2,1,0\n1,2,x,0\n",
            ":3: could not convert string to float: 'x'; fix or remove this line",
        ),
        (
            "toy/placements-slow.csv",
            "placement,local_bsz,step_time,sync_time\n1,2,1,0\n1,4,2,0\n2,4,2,1\n\n1,4.0,3,0\n",
            ":6: placement and local_bsz are as in line 3; remove one of the lines",
        ),
        (
            "toy/placements-slow.csv",
            "placement,local_bsz,step_time,sync_time\n1,2,1\n",
            ":2: float() argument must be a string or a real number, not 'NoneType'; fix or remove this line",
        ),
        (
            "toy/placements-slow.csv",
            "placement,local_bsz,step_time,sync_time\n",
            ": it has no rows; add measurements or remove the file",
        ),
        (
            "toy/scalability-slow.csv",
            "num_nodes\n",
            ":1: no column local_bsz, num_replicas, step_time, sync_time; it needs num_nodes, num_replicas, local_bsz, "
            "step_time, sync_time",
        ),
        (
            "toy/validation-10.csv",
            "epoch\n",
            ":1: no column grad_sqr, grad_var, progress; it needs progress, grad_sqr, grad_var",
        ),
        (
            "models.toml",
            "[toy]\nslow = 3\n",
            ": [toy] is {'slow': 3}; its keys are restart_s, slowdown, epochs, max_local",
        ),
        ("models.toml", "toy = 3\n", ": [toy] is 3; its keys are restart_s, slowdown, epochs, max_local"),
        ("models.toml", "[toy]\nslowdown = 0\n", f": [toy] is {{'slowdown': 0}}; {FACTS}"),
        ("models.toml", "[toy]\nslowdown = 'x'\n", f": [toy] is {{'slowdown': 'x'}}; {FACTS}"),
        ("models.toml", "[toy]\nrestart_s = -1\n", f": [toy] is {{'restart_s': -1}}; {FACTS}"),
        ("models.toml", "[toy]\nrestart_s = '1'\n", f": [toy] is {{'restart_s': '1'}}; {FACTS}"),
        ("models.toml", "[toy]\nepochs = 0\n", f": [toy] is {{'epochs': 0}}; {FACTS}"),
        ("models.toml", "[toy]\nepochs = 1.0\n", f": [toy] is {{'epochs': 1.0}}; {FACTS}"),
        ("models.toml", "[toy]\nmax_local = 3\n", f": [toy] is {{'max_local': 3}}; {FACTS}"),
    ],
)
def test_a_bad_file_is_named(tmp_path: Path, file: str, text: str, message: str) -> None:
    folder = write_profiles(tmp_path)
    (folder / file).write_text(text)
    with pytest.raises(ConfigurationError) as refused:
        read_profiles(folder, CLUSTER)
    assert str(refused.value) == f"{folder / file}{message}"


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    folder = write_profiles(tmp_path)
    for content, why in (
        (b"[toy\n", r"models\.toml is not TOML: Expected .*; correct it there$"),
        (b"\xff", r"models\.toml: it is not text in UTF-8.*; write a table \[MODEL\] for every model$"),
    ):
        (folder / "models.toml").write_bytes(content)
        with pytest.raises(ConfigurationError, match=why):
            read_profiles(folder, CLUSTER)
    (folder / "models.toml").unlink()
    times = folder / "toy" / "placements-slow.csv"
    for content, name in (
        (b"\xff", "placements-slow.csv"),
        (gzip.compress(times.read_bytes())[:-9], "placements-slow.csv.gz"),
        (b"no gzip", "placements-slow.csv.gz"),
    ):
        times.unlink(missing_ok=True)
        (folder / "toy" / name).write_bytes(content)
        with pytest.raises(ConfigurationError, match=rf"/toy/{name}: cannot be read: .*; check the file$"):
            read_profiles(folder, CLUSTER)


def test_facts_at_the_ends_of_their_ranges_are_taken(tmp_path: Path) -> None:
    (tmp_path / "models.toml").write_text(
        "[free]\nrestart_s = 0\nslowdown = 0.001\nepochs = 1\n[bert]\nmax_local = {t4 = 7}\n"
    )
    facts = read_facts(tmp_path)
    assert facts["free"] == ModelFacts(0, 0.001, 1, {})
    assert facts["bert"] == ModelFacts(30.0, 1.0, None, {"t4": 7}), "instead of the published ones"
    assert facts["ncf"] == PUBLISHED["ncf"]
    (tmp_path / "models.toml").unlink()
    assert read_facts(tmp_path) == PUBLISHED


def test_epochs_are_those_of_all_batches_or_as_many_as_requested(tmp_path: Path) -> None:
    """The file of 20 comes after that of 9, and has an epoch less."""
    rows = ["progress,grad_sqr,grad_var", "1,2,3", "4,5,6", "7,8,9"]
    (tmp_path / "validation-9.csv").write_text("\n".join(rows))
    (tmp_path / "validation-20.csv").write_text("\n".join(rows[:3]).replace("5", "50"))
    noise = read_noise(tmp_path, None)
    assert noise.batch.tolist() == [9, 20]
    assert noise.progress.tolist() == [[1, 4], [1, 4]]
    assert (noise.grad_sqr.tolist(), noise.grad_var.tolist()) == ([[2, 5], [2, 50]], [[3, 6], [3, 6]])
    assert read_noise(tmp_path, 2).progress.tolist() == [[1, 4], [1, 4]]
    assert read_noise(tmp_path, 1).progress.tolist() == [[1], [1]]
    assert wrong_types(noise) == {}
    for epochs in (0, 3):
        with pytest.raises(ConfigurationError) as refused:
            read_noise(tmp_path, epochs)
        assert str(refused.value) == (f"{tmp_path}: {epochs} epochs requested, 2 measured for all batches; give fewer")


def test_step_times_are_read_by_placement_or_by_size(tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "placements-t4.csv").write_text("placement,local_bsz,step_time,sync_time\n24,8,0.5,0.1\n111,9,0.6,0.2\n")
    sizes = "num_nodes,num_replicas,local_bsz,step_time,sync_time\n2,6,8,0.7,0.3\n"
    (model / "scalability-t4.csv.gz").write_bytes(gzip.compress(sizes.encode()))
    by_placement, by_size = read_placements(model, "t4"), read_scalability(model, "t4")
    for times, columns in (
        (by_placement, [("24", "111"), [2, 3], [6, 3], [8, 9], [0.5, 0.6], [0.1, 0.2]]),
        (by_size, [("",), [2], [6], [8], [0.7], [0.3]]),
    ):
        found = [times.placement, *(getattr(times, f.name).tolist() for f in fields(times)[1:])]
        assert found == columns
        assert wrong_types(times) == {}
    assert gpu_types_of(model) == ("t4",)
    for name in ("placements-a-b.csv.gz", "placements-c.txt", "placements-.csv", "more-placements-d.csv"):
        (model / name).touch()
    assert gpu_types_of(model) == ("a-b", "t4")
    assert types_in_profiles(tmp_path) == set(), "without validation files it is no model"
    (model / "validation-8.csv.gz").touch()
    assert models_in(tmp_path) == ("model",)
    assert types_in_profiles(tmp_path) == {"a-b", "t4"}


def test_profiles_of_other_gpu_types_are_refused(tmp_path: Path) -> None:
    other = GpuCluster((ServerGroup("x", "h100", 1, 8), ServerGroup("y", "a100", 1, 8)))
    folder = write_profiles(tmp_path)
    remedy = "name the GPU types of the cluster as in the profiles"
    with pytest.raises(ConfigurationError) as refused:
        read_profiles(folder, other)
    assert str(refused.value) == f"{folder}/toy: measured on fast, slow; the cluster has h100, a100: {remedy}"
    for gpu_type in ("slow", "fast"):
        (folder / "toy" / f"placements-{gpu_type}.csv").unlink()
    with pytest.raises(ConfigurationError) as refused:
        read_profiles(folder, CLUSTER)
    assert str(refused.value) == f"{folder}/toy: measured on nothing; the cluster has slow, fast: {remedy}"
    with pytest.raises(ConfigurationError) as refused:
        read_profiles(folder / "toy", CLUSTER)
    assert str(refused.value) == (
        f"{folder}/toy: no profiles (MODEL/validation-BATCH.csv) in it; give a folder that has some"
    )


def test_without_profiles_all_jobs_follow_the_speed_of_the_type() -> None:
    cluster = GpuCluster((ServerGroup("a", "t4", 1, 1, speed=0.5), ServerGroup("b", "v100", 1, 1)))
    profiles = no_profiles(cluster)
    assert (profiles.models, profiles.speeds.type_speed.tolist()) == ((), [0.5, 1])


def test_a_model_cannot_run_on_a_type_it_was_not_measured_on(tmp_path: Path) -> None:
    mixed = GpuCluster((*CLUSTER.groups, ServerGroup("x", "h100", 1, 8)))
    speeds = read_profiles(write_profiles(tmp_path), mixed).speeds
    assert speed_law.speed(speeds, 0, 2, 1, 1, 10, 0.0) == 0.0
    assert speed_law.speed(speeds, 0, 0, 1, 1, 10, 0.0) > 0.0
    assert runs_on(speeds, np.array([0, LINEAR])).tolist() == [[True, True, False], [True, True, True]]
    assert (speeds.min_local.tolist(), speeds.max_local.tolist()) == ([[10, 10, 1]], [[30, 30, 0]])
    assert speeds.one_gpu_rate.tolist() == [[pytest.approx(10), pytest.approx(20), 0]]
    assert speeds.type_speed.tolist() == [1, 1, 1]


def test_models_of_different_sizes_share_the_arrays(tmp_path: Path) -> None:
    """The second model was measured in one epoch, with one local batch, and never on one GPU."""
    folder = write_profiles(tmp_path)
    tiny = folder / "a-tiny"
    tiny.mkdir()
    (tiny / "placements-fast.csv").write_text("placement,local_bsz,step_time,sync_time\n2,5,0.5,0.1\n")
    (tiny / "scalability-fast.csv").write_text("num_nodes,num_replicas,local_bsz,step_time,sync_time\n1,2,5,0.5,0.1\n")
    for batch, progress in ((5, 60), (6, 50), (7, 70)):
        (tiny / f"validation-{batch}.csv").write_text(f"progress,grad_sqr,grad_var\n{progress},2,{batch}\n")
    profiles = read_profiles(folder, CLUSTER)
    speeds = profiles.speeds
    assert (profiles.models, speeds.epochs.tolist()) == (("a-tiny", "toy"), [1, 2])
    assert speeds.epoch_end.tolist() == [[50, np.inf], [100, 300]]
    assert speeds.noise_knots.tolist() == [3, 2]
    assert speeds.noise_batch.tolist() == [[5, 6, 7], [10, 40, np.inf]]
    assert speeds.grad_sqr.tolist() == [[[2, 1], [2, 1], [2, 1]], [[1, 1], [2, 1], [1, 1]]]
    assert speeds.grad_var.tolist() == [[[5, 0], [6, 0], [7, 0]], [[3, 9], [6, 3], [0, 0]]]
    assert (speeds.init_batch.tolist(), speeds.max_batch.tolist()) == ([5, 10], [7, 40])
    assert (speeds.slowdown.tolist(), speeds.restart_s.tolist()) == ([1, 2], [30, 12])
    assert speeds.one_gpu_rate.tolist() == [[0, 0], [pytest.approx(10), pytest.approx(20)]]
    assert speeds.memory_max_local.tolist() == [[[NO_LIMIT] * 4, [NO_LIMIT, 5, NO_LIMIT, NO_LIMIT]], [[30] * 4] * 2]
    assert speeds.rows[0, 0].tolist() == [[NO_TABLE] * 4] * 2
    one_row = speeds.rows[0, 1, 0, 1]
    assert speeds.knots[one_row] == 1
    assert speeds.local_batch[one_row].tolist() == [5, np.inf]
    assert (speeds.step_s[one_row].tolist(), speeds.sync_s[one_row].tolist()) == ([0.5, np.inf], [0.1, np.inf])
    assert speeds.row_max_local[one_row] == 5
    assert sorted(speeds.rows[speeds.rows != NO_TABLE].tolist()) == list(range(len(speeds.knots)))
    assert wrong_types(speeds) == {}


def test_a_fact_limits_the_local_batch_of_its_type(tmp_path: Path) -> None:
    folder = write_profiles(tmp_path)
    (folder / "models.toml").write_text("[toy]\nmax_local = {fast = 17}\n")
    assert read_profiles(folder, CLUSTER).speeds.max_local.tolist() == [[30, 17]]


def test_larger_placements_than_were_measured_have_no_row_of_their_own(tmp_path: Path) -> None:
    cluster = GpuCluster((ServerGroup("a", "slow", 17, 4), ServerGroup("b", "fast", 1, 1)))
    assert read_profiles(write_profiles(tmp_path), cluster).speeds.rows.shape == (1, 2, 16, 64)
    cluster = GpuCluster((ServerGroup("a", "slow", 16, 4), ServerGroup("b", "fast", 1, 1)))
    assert read_profiles(tmp_path, cluster).speeds.rows.shape == (1, 2, 16, 64)
    cluster = GpuCluster((ServerGroup("a", "slow", 15, 4), ServerGroup("b", "fast", 1, 1)))
    assert read_profiles(tmp_path, cluster).speeds.rows.shape == (1, 2, 15, 60)


def step_times(*rows: tuple[str, int, int, float, float]) -> StepTimes:
    """Rows of (placement, servers, GPUs, local batch, seconds of a step), without exchange."""
    placement, servers, gpus, local, step_s = (list(column) for column in zip(*rows))
    return StepTimes(
        tuple(placement), np.array(servers), np.array(gpus), np.array(local, np.float64), np.array(step_s),
        np.zeros(len(rows)),
    )  # fmt: skip


def test_a_size_that_was_not_measured_has_the_times_of_the_nearest() -> None:
    """Sizes are compared by ratios: two servers for one are as far as four GPUs for two."""
    measured = step_times(("1", 1, 1, 10, 1.0), ("2", 1, 2, 10, 2.0), ("12", 2, 3, 10, 3.0))
    table = step_table(measured, step_times(("", 1, 1, 10, 1.0)), servers=2, gpus=5, gpus_per_server=2)
    found = {size: row.times_s[0, 0] for size, row in table.items()}
    assert found == {
        (1, 1): 1, (1, 2): 2, (1, 3): 2, (1, 4): 2, (1, 5): 2, (2, 2): 3, (2, 3): 3, (2, 4): 3, (2, 5): 3,
    }  # fmt: skip
    assert list(table) == sorted(table), "in order of servers, then of GPUs"


def test_between_measured_sizes_times_are_linear_where_a_larger_size_was_measured() -> None:
    """Of scalability the largest size has 4 GPUs, and a local batch of 20 on 4 GPUs only."""
    measured = step_times(
        ("1", 1, 1, 10, 1.0), ("1", 1, 1, 20, 2.0), ("11", 2, 2, 10, 3.0), ("11", 2, 2, 20, 4.0),
    )  # fmt: skip
    sizes = step_times(("", 1, 4, 10, 4.0), ("", 1, 4, 20, 5.0), ("", 2, 4, 10, 5.0))
    table = step_table(measured, sizes, servers=2, gpus=5, gpus_per_server=8)
    assert table[1, 2].local_batch.tolist() == [10, 20]
    assert table[1, 2].times_s[:, 0] == pytest.approx([2, 3])
    assert (table[1, 2].max_local, table[1, 4].max_local) == (20, 20)
    assert table[2, 3].local_batch.tolist() == [10], "with 20 no two servers were measured with 3 GPUs or more"
    assert table[2, 3].max_local == 10
    assert table[1, 5] is table[1, 4], "beyond all measurements"
    assert table[2, 4].times_s[:, 0] == pytest.approx([5])


def test_a_measured_size_is_known_by_its_local_batches_in_order() -> None:
    measured = step_times(("1", 1, 1, 30, 3.0), ("1", 1, 1, 10, 1.0), ("1", 1, 1, 20, 2.5))
    (row,) = step_table(measured, measured, servers=1, gpus=1, gpus_per_server=4).values()
    assert (row.local_batch.tolist(), row.times_s[:, 0].tolist(), row.max_local) == ([10, 20, 30], [1, 2.5, 3], 30)


def test_full_servers_count_before_the_mean_of_all_placements() -> None:
    measured = step_times(
        ("13", 2, 4, 10, 8.0), ("22", 2, 4, 10, 2.0), ("12", 2, 3, 10, 4.0), ("111", 3, 3, 10, 5.0),
        ("1", 1, 1, 10, 1.0), ("3", 1, 3, 10, 7.0),
    )  # fmt: skip
    one = step_times(("", 1, 1, 10, 1.0))
    for per_server, expected in ((2, (2, 4, 5)), (3, (8, 4, 5)), (4, (5, 4, 5))):
        table = step_table(measured, one, servers=3, gpus=4, gpus_per_server=per_server)
        assert tuple(table[size].times_s[0, 0] for size in ((2, 4), (2, 3), (3, 3))) == expected


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
    with pytest.raises(ConfigurationError) as refused:
        read_profiles(folder, CLUSTER)
    assert str(refused.value) == (
        f"{folder}/toy: it has no scalability-fast.csv; profiles need one for every measured GPU type"
    )


def test_a_model_may_have_a_single_epoch(tmp_path: Path) -> None:
    folder = write_profiles(tmp_path)
    (folder / "models.toml").write_text("[toy]\nepochs = 1\n")
    assert read_profiles(folder, CLUSTER).speeds.epochs.tolist() == [1]


def test_a_size_is_known_at_the_local_batches_that_all_its_placements_share(tmp_path: Path) -> None:
    folder = write_profiles(tmp_path)
    measured = {"112": (2, 4, 8), "13": (4, 8, 16), "22": (1, 4, 6, 8)}
    rows = [f"{placement},{local},{local / 10},0" for placement, locals_ in measured.items() for local in locals_]
    (folder / "placements-any.csv").write_text("\n".join(["placement,local_bsz,step_time,sync_time", *rows, ""]))
    found = _measured_rows(read_placements(folder, "any"))[2, 4]
    assert found.local_batch.tolist() == [4, 6, 8]
    assert found.max_local == 8
    assert found.times_s[:, 0] == pytest.approx([0.4, 0.6, 0.8])
