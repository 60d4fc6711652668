"""How promises held: shares inside, and errors compared with Slurm's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirage.job_state import MISSING
from mirage.predict.start.promise import SETTLED, Promise
from mirage.predict.start.promise_calibration import calibration
from mirage.predict.start.quantile_levels import LEVELS

REPORTED_S = tuple(100.0 * k for k in range(len(LEVELS)))
OF_MAIN = Promise(
    "c1", 0, MISSING, MISSING, "ada", "train", "main", 1, 3600, REPORTED_S, REPORTED_S, 1300.0, SETTLED, 300.0
)


def test_promises_are_judged_by_group_and_next_to_slurm() -> None:
    of_gpu = replace(OF_MAIN, partition="gpu", nodes=2, slurm_s=900.0, wait_s=900.0)
    of_all, gpu, main = calibration([OF_MAIN, replace(OF_MAIN, slurm_s=None, wait_s=565.0), of_gpu])
    assert (of_all.group, gpu.group, main.group) == ("all", "gpu 2-7 nodes", "main 1 node")
    assert of_all.inside == pytest.approx((1 / 3, 1 / 3, 2 / 3))
    assert (of_all.settled, of_all.error_s) == (3, 265.0)
    assert (of_all.slurm_settled, of_all.slurm_error_s, of_all.same_error_s) == (2, 500.0, 300.0)
    assert (gpu.inside, main.slurm_settled) == ((0.0, 0.0, 0.0), 1)
    assert calibration([]) == []


@pytest.mark.parametrize(("wait_s", "held"), [(1.0, 1.0), (60.0, 0.0)])
def test_a_second_until_the_scheduler_runs_is_no_miss(wait_s: float, held: float) -> None:
    at_once = replace(OF_MAIN, reported_s=(0.0,) * len(LEVELS), wait_s=wait_s)
    assert calibration([at_once])[0].inside == (held, held, held)
