"""The law of speed on tables made by hand; every figure was calculated on paper."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mirage.schedule.speeds import speed_law
from mirage.schedule.speeds.profiles import read_profiles
from mirage.schedule.speeds.speed_arrays import LINEAR, Speeds, linear_speeds
from tests.support.column_types import wrong_types
from tests.support.toy_profiles import CLUSTER, write_profiles

SLOW, FAST, TOY = 0, 1, 0


@pytest.fixture(scope="module")
def speeds(tmp_path_factory: pytest.TempPathFactory) -> Speeds:
    return read_profiles(write_profiles(tmp_path_factory.mktemp("profiles")), CLUSTER).speeds


def test_linear_work_goes_by_gpus_and_their_type() -> None:
    speeds = linear_speeds(np.array([1.0, 0.25]))
    assert speed_law.speed(speeds, LINEAR, 0, 1, 3, 0, 0.0) == 3.0
    assert speed_law.speed(speeds, LINEAR, 1, 2, 8, 0, 5.0) == 2.0
    assert speed_law.next_phase(speeds, LINEAR, 7.0) == np.inf
    assert np.isnan(speed_law.work(speeds, LINEAR))


def test_without_measured_models_every_column_but_the_speeds_of_types_is_empty() -> None:
    speeds = linear_speeds(np.array([2, 3]))
    assert speeds.type_speed.tolist() == [2, 3]
    assert {name: column.shape for name, column in speeds._asdict().items()} == {
        "type_speed": (2,), "rows": (0, 2, 1, 1), "knots": (0,), "local_batch": (0, 1), "step_s": (0, 1),
        "sync_s": (0, 1), "row_max_local": (0,), "memory_max_local": (0, 2, 1), "min_local": (0, 2),
        "max_local": (0, 2), "one_gpu_rate": (0, 2), "init_batch": (0,), "max_batch": (0,), "slowdown": (0,),
        "restart_s": (0,), "epochs": (0,), "epoch_end": (0, 1), "noise_knots": (0,), "noise_batch": (0, 1),
        "grad_sqr": (0, 1, 1), "grad_var": (0, 1, 1),
    }  # fmt: skip
    assert wrong_types(speeds) == {}


def test_one_gpu_at_the_first_batch(speeds: Speeds) -> None:
    # a step of 1 s, as much learnt from it as any: 1 unit in 2 s, as real runs are twice as slow
    assert speed_law.speed(speeds, TOY, SLOW, 1, 1, 10, 0.0) == pytest.approx(0.5)
    assert speed_law.speed(speeds, TOY, FAST, 1, 1, 10, 0.0) == pytest.approx(1.0)


def test_a_batch_of_zero_is_the_first(speeds: Speeds) -> None:
    assert speed_law.speed(speeds, TOY, SLOW, 1, 1, 0, 0.0) == speed_law.speed(speeds, TOY, SLOW, 1, 1, 10, 0.0)
    assert speed_law.local_batch(speeds, TOY, SLOW, 1, 2, 0) == (10, 1)  # two GPUs need the least of each


def test_two_gpus_gain_what_the_noise_allows(speeds: Speeds) -> None:
    # batch 20 lies a third of the way from 10 to 40: sqr 4/3, var 4; gain (4 + 4/3) / (4/2 + 4/3) = 1.6
    assert speed_law.gradient(speeds, TOY, 20, 0.0) == pytest.approx((4 / 3, 4.0))
    assert speed_law.speed(speeds, TOY, SLOW, 1, 2, 20, 0.0) == pytest.approx(1.6 / 1.2 / 2)
    assert speed_law.speed(speeds, TOY, SLOW, 2, 2, 20, 0.0) == pytest.approx(1.6 / 1.5 / 2)


def test_a_step_between_two_measured_batches(speeds: Speeds) -> None:
    # 30 samples on two GPUs: 15 each, a step of 1.5 + 0.2
    step_s, sync_s, sqr, var = speed_law.measure(speeds, TOY, SLOW, 1, 2, 30, 0.0)
    assert (step_s, sync_s) == pytest.approx((1.7, 0.2))
    assert (sqr, var) == pytest.approx((1 + 2 / 3, 5.0))


def test_one_gpu_adds_up_steps_beyond_the_first_batch(speeds: Speeds) -> None:
    # 20 samples on one GPU would fit at once, but noise needs two steps: 2 steps of 10 samples, 1 s each
    assert speed_law.local_batch(speeds, TOY, SLOW, 1, 1, 20) == (10, 2)
    assert speed_law.speed(speeds, TOY, SLOW, 1, 1, 20, 0.0) == pytest.approx(1.6 / 2 / 2)
    # 40 samples: 20 each time, 2 s each; sqr 2, var 6: gain 8 / (6/4 + 2)
    assert speed_law.local_batch(speeds, TOY, SLOW, 1, 1, 40) == (20, 2)
    assert speed_law.speed(speeds, TOY, SLOW, 1, 1, 40, 0.0) == pytest.approx(8 / 3.5 / 4 / 2)


def test_gradients_are_exchanged_once_for_all_steps(speeds: Speeds) -> None:
    # 70 samples a GPU do not fit at 30 at once: 3 steps of 24; the largest batch allows 40 // (2 * 3) = 6 each
    assert speed_law.local_batch(speeds, TOY, SLOW, 1, 2, 140) == (6, 3)
    # a step of fewer samples than were ever measured takes as long as the smallest: 1.2 + 2 * (1.2 - 0.2)
    gain = (speed_law.gradient(speeds, TOY, 36, 0.0)[1] + speed_law.gradient(speeds, TOY, 36, 0.0)[0]) / (
        speed_law.gradient(speeds, TOY, 36, 0.0)[1] / 3.6 + speed_law.gradient(speeds, TOY, 36, 0.0)[0]
    )
    assert speed_law.speed(speeds, TOY, SLOW, 1, 2, 140, 0.0) == pytest.approx(gain / 3.2 / 2)


def test_speed_changes_with_the_epoch(speeds: Speeds) -> None:
    # the second epoch at batch 20: sqr 1, var 9 + (3 - 9) / 3 = 7; gain 8 / (3.5 + 1)
    assert speed_law.next_phase(speeds, TOY, 0.0) == 100.0  # the batch that was quickest through the epoch ends it
    assert speed_law.speed(speeds, TOY, SLOW, 1, 2, 20, 99.9) == pytest.approx(1.6 / 1.2 / 2)
    assert speed_law.speed(speeds, TOY, SLOW, 1, 2, 20, 100.0) == pytest.approx(8 / 4.5 / 1.2 / 2)
    assert speed_law.next_phase(speeds, TOY, 100.0) == np.inf
    assert speed_law.work(speeds, TOY) == 300.0


def test_rounding_does_not_stop_before_the_end_of_an_epoch(speeds: Speeds) -> None:
    assert speed_law.epoch_of(speeds, TOY, 100.0 * (1 - 1e-12)) == 1
    assert speed_law.next_phase(speeds, TOY, 100.0 * (1 - 1e-12)) == np.inf


def test_of_placements_of_one_size_full_servers_count_or_their_mean(speeds: Speeds) -> None:
    # two servers of two are full with 2 + 2; four GPUs on two servers of four are 1 + 3 or 2 + 2
    assert speed_law.measure(speeds, TOY, SLOW, 2, 4, 40, 0.0)[:2] == pytest.approx((1.7, 0.7))
    assert speed_law.measure(speeds, TOY, FAST, 2, 4, 40, 0.0)[:2] == pytest.approx((1.3, 0.8))


def test_placements_that_were_not_measured_count_by_what_lies_between(speeds: Speeds) -> None:
    assert speed_law.measure(speeds, TOY, SLOW, 2, 3, 30, 0.0)[:2] == pytest.approx((1.6, 0.6))
    # four GPUs on one server are known by size only, and hold 20 samples at once
    assert speed_law.measure(speeds, TOY, FAST, 1, 4, 40, 0.0)[:2] == pytest.approx((0.9, 0.4))
    assert speed_law.max_local(speeds, TOY, FAST, 1, 4) == 20
    # three on one server lie between two and four
    assert speed_law.measure(speeds, TOY, FAST, 1, 3, 30, 0.0)[:2] == pytest.approx((0.8, 0.3))


def test_impossible_placements_have_no_speed(speeds: Speeds) -> None:
    assert speed_law.speed(speeds, TOY, SLOW, 3, 2, 20, 0.0) == 0.0  # fewer GPUs than servers
    assert speed_law.speed(speeds, TOY, SLOW, 0, 0, 20, 0.0) == 0.0
    assert speed_law.max_local(speeds, TOY, SLOW, 3, 2) == 0


def test_placements_beyond_all_measured_count_as_the_nearest(speeds: Speeds) -> None:
    assert speed_law.speed(speeds, TOY, SLOW, 9, 90, 40, 0.0) > 0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_profiles(tmp_path)


def test_facts_in_addition_to_the_tables(folder: Path) -> None:
    speeds = read_profiles(folder, CLUSTER).speeds
    assert (speeds.restart_s[TOY], speeds.slowdown[TOY]) == (12.0, 2.0)
    assert (speeds.init_batch[TOY], speeds.max_batch[TOY]) == (10, 40)
    assert speeds.one_gpu_rate[TOY].tolist() == pytest.approx([10.0, 20.0])
    assert (speeds.min_local[TOY].tolist(), speeds.max_local[TOY].tolist()) == ([10, 10], [30, 30])
    (folder / "models.toml").unlink()
    speeds = read_profiles(folder, CLUSTER).speeds
    assert (speeds.restart_s[TOY], speeds.slowdown[TOY]) == (30.0, 1.0)
