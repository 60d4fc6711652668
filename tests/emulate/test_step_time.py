"""Step times of emulated trainings are those of the simulator, with their origin."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirage.emulate.step_time import CARDS, WorkerShape, training_step
from mirage.errors import ConfigurationError, OutOfDeviceMemory, UnknownName
from mirage.schedule.gpu_cluster import GpuCluster, ServerGroup
from mirage.schedule.speeds import speed_law
from mirage.schedule.speeds.profiles import Origin, read_profiles
from tests.support.toy_profiles import write_profiles


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_profiles(tmp_path_factory.mktemp("profiles"))


def test_a_step_is_computation_and_exchange_times_the_slowdown(toy: Path) -> None:
    step = training_step(toy, "toy", "slow", WorkerShape(2, batch=20))
    assert (step.nodes, step.local_batch, step.passes, step.batch) == (1, 10, 1, 20)
    assert step.compute_s == pytest.approx(2 * 1.0)
    assert step.exchange_s == pytest.approx(2 * 0.2)
    assert step.load_s == 12.0
    assert step.origin is Origin.MEASURED


def test_between_measured_local_batches_the_time_is_marked_as_interpolated(toy: Path) -> None:
    step = training_step(toy, "toy", "fast", WorkerShape(2, batch=40))
    assert step.step_s == pytest.approx(2 * (20 / 10 * 0.5 + 0.2))
    assert step.origin is Origin.INTERPOLATED


def test_a_batch_that_does_not_fit_takes_several_passes_and_one_exchange(toy: Path) -> None:
    step = training_step(toy, "toy", "slow", WorkerShape(2, batch=100))
    assert (step.local_batch, step.passes) == (25, 2)
    assert step.compute_s == pytest.approx(2 * 2 * 2.5)
    assert step.exchange_s == pytest.approx(2 * 0.2)


def test_all_workers_wait_for_the_slowest(toy: Path) -> None:
    even = training_step(toy, "toy", "slow", WorkerShape(2, batch=30))
    uneven = training_step(toy, "toy", "slow", WorkerShape(2, batch=30, slowest=1.5))
    assert uneven.compute_s == pytest.approx(1.5 * even.compute_s)
    assert uneven.exchange_s == even.exchange_s


def test_outside_of_the_measurements_a_time_is_refused_or_marked(toy: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"local batch of 5 is outside .* 10 to 30.*--extrapolate"):
        training_step(toy, "toy", "slow", WorkerShape(1, local_batch=5))
    step = training_step(toy, "toy", "slow", WorkerShape(1, local_batch=5), extrapolate=True)
    assert step.origin is Origin.EXTRAPOLATED
    assert step.step_s == pytest.approx(2 * 1.0)
    with pytest.raises(ConfigurationError, match="6 GPUs of type slow on 2 nodes"):
        training_step(toy, "toy", "slow", WorkerShape(6, batch=60))


@pytest.mark.parametrize(
    ("model", "gpu_type", "message"),
    [("gpt", "slow", r"model 'gpt'.*Known: toy"), ("toy", "a100", r"GPU type of toy 'a100'.*Known: fast, slow")],
)
def test_what_was_not_measured_is_refused_with_the_list(toy: Path, model: str, gpu_type: str, message: str) -> None:
    with pytest.raises(UnknownName, match=message):
        training_step(toy, model, gpu_type, WorkerShape(1))


def test_workers_that_fit_on_no_nodes_are_refused(toy: Path) -> None:
    with pytest.raises(ConfigurationError, match="at most 2 nodes"):
        training_step(toy, "toy", "slow", WorkerShape(2, nodes=3))
    with pytest.raises(ConfigurationError, match="request 2 nodes or more"):
        training_step(toy, "toy", "slow", WorkerShape(4, nodes=1))


def test_a_local_batch_above_the_largest_measured_one_is_out_of_memory(toy: Path) -> None:
    assert training_step(toy, "toy", "slow", WorkerShape(1, local_batch=30)).memory_mib == 16_384
    with pytest.raises(
        OutOfDeviceMemory, match=r"CUDA out of memory. Tried to allocate 16.27 GiB.*capacity of 16.00 GiB"
    ):
        training_step(toy, "toy", "slow", WorkerShape(1, local_batch=31))


def test_the_times_are_those_of_the_simulator(shared_data: Path) -> None:
    folder = shared_data / "sia-pollux" / "profiles"
    groups = [ServerGroup("a100", "dgx-ext", 1, 8), ServerGroup("t4", "aws", 4, 4)]
    profiles = read_profiles(folder, GpuCluster(tuple(groups)))
    cases = [
        ("bert", "a100", 8, 192),
        ("cifar10", "t4", 13, 999),
        ("ncf", "t4", 1, 512),
        ("imagenet", "t4", 15, 12_800),
    ]
    for model, gpu_type, gpus, batch in cases:
        step = training_step(folder, model, gpu_type, WorkerShape(gpus, batch=batch))
        number, kind = profiles.models.index(model), ["dgx-ext", "aws"].index(CARDS[gpu_type].profile)
        speeds = profiles.speeds
        row = speed_law.table_row(speeds, number, kind, step.nodes, gpus)
        local, passes = speed_law.local_batch(speeds, number, kind, step.nodes, gpus, batch)
        step_s, sync_s = speed_law.step_times(speeds, row, local)
        expected_s = (step_s + (step_s - sync_s) * (passes - 1)) * speeds.slowdown[number]
        assert (step.local_batch, step.passes) == (local, passes), model
        assert step.step_s == pytest.approx(expected_s), model


def test_every_card_is_one_of_the_profiles(shared_data: Path) -> None:
    folder = shared_data / "sia-pollux" / "profiles"
    for name in CARDS:
        step = training_step(folder, "bert", name, WorkerShape(1))
        assert 0.1 < step.step_s < 2.5
        assert step.memory_mib <= step.card.memory_mib
        assert step.epoch_samples == 7387 * 12


def test_an_incomplete_profile_is_no_unknown_model(tmp_path: Path) -> None:
    (tmp_path / "bert").mkdir()
    (tmp_path / "bert" / "placements-a100.csv").touch()
    with pytest.raises(ConfigurationError, match=r"bert has no validation-BATCH\.csv, so it is no complete profile"):
        training_step(tmp_path, "bert", "a100", WorkerShape(1, batch=8))


def test_a_folder_without_profiles_is_no_unknown_model(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"no profiles \(MODEL/validation-BATCH\.csv\) in it"):
        training_step(tmp_path, "bert", "a100", WorkerShape(1, batch=8))
