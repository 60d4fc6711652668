"""Ranges of waits: their correction by promises kept, and how those held."""

from __future__ import annotations

import numpy as np
import pytest

from mirage.duration import HOUR_S
from mirage.predict.start.predictor import LEVELS, SHARES
from mirage.predict.start.ranges import LEAST_KEPT, MEDIAN, Kept, calibration, corrected, ends, relevant, size_class


def promises(count: int, *, spread: float, seed: int = 0) -> list[Kept]:
    """Promises of log-normal waits around two hours, whose ranges are ``spread`` times as wide as they should be."""
    rng = np.random.default_rng(seed)
    normal = np.array([-1.96, -1.2816, -0.6745, 0.0, 0.6745, 1.2816, 1.96])
    made = []
    for _ in range(count):
        centre = rng.normal(np.log(2 * HOUR_S), 0.5)
        raw_s = tuple(np.exp(centre + spread * 0.6 * normal).tolist())
        made.append(Kept("main", "1 node", raw_s, raw_s, float(np.exp(rng.normal(centre, 0.6)))))
    return made


def inside(share: float, past: list[Kept], new: list[Kept]) -> float:
    low, high = ends(share)
    told = [corrected(np.array(one.raw_s), past) for one in new]
    return float(np.mean([told[k][low] <= one.wait_s <= told[k][high] for k, one in enumerate(new)]))


@pytest.mark.parametrize("spread", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("share", SHARES)
def test_corrected_ranges_hold_what_they_promise(spread: float, share: float) -> None:
    past, new = promises(400, spread=spread), promises(1500, spread=spread, seed=1)
    assert inside(share, past, new) == pytest.approx(share, abs=0.06)


def test_raw_ranges_that_are_too_narrow_do_not() -> None:
    assert inside(0.8, [], promises(1500, spread=0.3, seed=1)) < 0.4


def test_too_few_promises_change_nothing() -> None:
    (new,) = promises(1, spread=1.0, seed=2)
    assert corrected(np.array(new.raw_s), promises(LEAST_KEPT - 1, spread=0.3)).tolist() == list(new.raw_s)
    assert corrected(np.array(new.raw_s), promises(LEAST_KEPT, spread=0.3)).tolist() != list(new.raw_s)


@pytest.mark.parametrize("spread", [0.3, 2.5, 20.0])
def test_ranges_stay_one_inside_the_other_around_the_median(spread: float) -> None:
    for new in promises(20, spread=spread, seed=3):
        told = corrected(np.array(new.raw_s), promises(LEAST_KEPT, spread=spread))
        assert (np.diff(told) >= -1e-9).all()
        assert told[0] >= 0
        assert told[MEDIAN] == pytest.approx(new.raw_s[MEDIAN])


def test_promises_of_the_same_partition_and_size_speak_where_they_suffice() -> None:
    of_main = promises(LEAST_KEPT, spread=1.0)
    others = [Kept("gpu", "1 node", one.raw_s, one.told_s, one.wait_s) for one in promises(5, spread=1.0)]
    assert relevant([*of_main, *others], "main", "1 node") == of_main
    assert relevant([*of_main, *others], "gpu", "1 node") == [*of_main, *others]


def test_how_promises_held_is_told_by_group_and_beside_slurm() -> None:
    told_s = tuple(100.0 * k for k in range(len(LEVELS)))
    made = [
        Kept("main", "1 node", told_s, told_s, 300.0, slurm_s=1300.0),
        Kept("main", "1 node", told_s, told_s, 565.0),
        Kept("gpu", "2-7 nodes", told_s, told_s, 900.0, slurm_s=900.0),
    ]
    of_all, gpu, main = calibration(made)
    assert (of_all.group, gpu.group, main.group) == ("all", "gpu, 2-7 nodes", "main, 1 node")
    assert of_all.inside == pytest.approx((1 / 3, 1 / 3, 2 / 3))
    assert (of_all.kept, of_all.error_s) == (3, 265.0)
    assert (of_all.slurm_kept, of_all.slurm_error_s, of_all.same_error_s) == (2, 500.0, 300.0)
    assert (gpu.inside, main.slurm_kept) == ((0.0, 0.0, 0.0), 1)
    assert calibration([]) == []


def test_a_second_until_the_scheduler_looks_is_no_miss() -> None:
    at_once = (0.0,) * len(LEVELS)
    assert calibration([Kept("main", "1 node", at_once, at_once, 1.0)])[0].inside == (1.0, 1.0, 1.0)
    assert calibration([Kept("main", "1 node", at_once, at_once, 60.0)])[0].inside == (0.0, 0.0, 0.0)


def test_sizes_are_classed() -> None:
    assert [size_class(nodes) for nodes in (1, 2, 7, 8, 63, 64)] == [
        "1 node", "2-7 nodes", "2-7 nodes", "8-63 nodes", "8-63 nodes", "64+ nodes",
    ]  # fmt: skip
