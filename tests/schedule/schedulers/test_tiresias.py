"""Levels of Tiresias: thresholds, the order of the levels, and settings that are refused."""

from __future__ import annotations

import numpy as np
import pytest

from mirage.errors import ConfigurationError, UnknownName
from mirage.schedule.engine.compiled_scheduler import CompiledScheduler
from mirage.schedule.engine.gpu_simulation import GpuSimulation
from mirage.schedule.engine.gpu_world import LifeCosts
from mirage.schedule.gpu_cluster import GpuCluster, ServerGroup
from mirage.schedule.schedulers.tiresias import gittins_index, gittins_scheduler, key_of, level_of, scheduler
from mirage.schedule.workload.gpu_jobs import GpuJobs

ONE_GPU = GpuCluster((ServerGroup("only", "gpu", 1, 1),))


def _keys(made: CompiledScheduler, *attained: float) -> list[float]:
    return [key_of(np.array(made.parameters), one) for one in attained]


def _levels(made: CompiledScheduler, *attained: float) -> list[int]:
    return [level_of(np.array(made.parameters), one) for one in attained]


def test_a_level_ends_at_its_threshold_or_nearly() -> None:
    made = scheduler((10.0, 60.0))
    assert _keys(made, 0, 9.99, 9.9995, 10, 59.99, 60, 1e9) == [0, 0, 1, 1, 1, 2, 2]
    assert _levels(made, 0.0, 10.0, 60.0) == [0, 1, 2]
    assert (made.name, scheduler().name) == ("tiresias", "tiresias")
    assert _keys(scheduler(), 3599, 3600) == [0, 1]


def test_levels_of_the_gittins_index_are_in_order_of_the_chance_to_end_soon() -> None:
    """Three of four earlier jobs ended within 10 GPU-s, the other one took 100."""
    made = gittins_scheduler([100, 10, 10, 10], levels=2)
    soon, late = 3 / (4 * 10), 1 / (100 - 10)
    assert _keys(made, 0, 9.99, 10, 99) == pytest.approx([-soon, -soon, -late, -late])
    assert made.name == "gittins"
    finer = gittins_scheduler([100, 10, 10, 10], levels=4)
    assert _levels(finer, 1e9) == [2], "of the quantiles 10, 10 and 32.5 two are equal"
    assert _keys(finer, 32.4, 32.5)[1] == pytest.approx(-1 / 67.5)
    assert _keys(finer, 10.0)[0] == pytest.approx(-1 / 90)
    assert _levels(gittins_scheduler(np.arange(1, 1000)), 1e9) == [15], "16 levels by default"
    without = gittins_scheduler([0, 0, 10, 20], levels=4)
    assert _levels(without, 0, 4.9, 5, 12.4, 12.5) == [0, 0, 1, 1, 2], "a threshold of 0 is no level"


def test_the_gittins_index_by_hand() -> None:
    """Of jobs of 2, 4 and 10 GPU-s, up to 3, up to 5, or to the end."""
    service, quanta = np.array([2.0, 4.0, 10.0]), np.array([3.0, 5.0])
    expected = [
        max(1 / (2 + 3 + 3), 2 / (2 + 4 + 5), 3 / 16),
        max(1 / (1 + 2), 2 / (1 + 7)),
        1 / 5,
        0,
    ]
    assert gittins_index(service, np.array([0.0, 3.0, 5.0, 10.0]), quanta) == pytest.approx(expected)


def test_preemption_is_in_the_given_way() -> None:
    """Job 0 has worked for 50 s when it leaves, of which nothing is safe; a save takes 30 s."""
    jobs = GpuJobs.linear([0, 10], [1, 1], [80, 40])
    costs = LifeCosts.of(jobs, save_s=30.0)
    for preempt, ends in (("save", [150, 120]), ("kill", [170, 90]), ("cheaper", [150, 120]), ("boundary", [80, 120])):
        for made in (scheduler((50.0,), preempt), gittins_scheduler([50.0, 50.0, 500.0], 2, preempt)):
            log = GpuSimulation(ONE_GPU, jobs, made, costs=costs, strict=True).run()
            assert log.rows.due_s.tolist() == ends, (preempt, made.name)


@pytest.mark.parametrize("thresholds", [(), (0.0,), (-1.0, 5.0), (5.0, 5.0), (5.0, 4.0), (1.0, 3.0, 2.0)])
def test_thresholds_that_do_not_ascend_are_refused(thresholds: tuple[float, ...]) -> None:
    with pytest.raises(ConfigurationError) as refused:
        scheduler(thresholds)
    assert str(refused.value) == f"thresholds {list(thresholds)} GPU-s do not ascend from above 0; give e.g. 3600"


@pytest.mark.parametrize(("service", "levels"), [((), 16), ((), 2), ((1.0, 2.0), 1), ((1.0,), 0)])
def test_the_gittins_index_needs_earlier_jobs_and_two_levels(service: tuple[float, ...], levels: int) -> None:
    with pytest.raises(ConfigurationError) as refused:
        gittins_scheduler(service, levels)
    assert str(refused.value) == (
        f"service_gpu_s, the GPU-seconds of earlier jobs, has {len(service)} values and levels is {levels}; the "
        "Gittins index needs at least one value and two levels, e.g. gittins:service_gpu_s=600/3600/86400"
    )


def test_an_unknown_way_to_preempt_is_refused() -> None:
    for make in (lambda: scheduler(preempt="hang"), lambda: gittins_scheduler([1.0], preempt="hang")):
        with pytest.raises(
            UnknownName, match=r"^unknown way to preempt 'hang'\. Known: boundary, cheaper, kill, save\.$"
        ):
            make()


def test_a_job_beyond_its_threshold_leaves_for_one_below_it() -> None:
    """Job 0 reaches 50 GPU-s at 50, when job 1 has waited for 40 s; job 1 reaches it at 100."""
    jobs = GpuJobs.linear([0, 10], [1, 1], [80, 60])
    log = GpuSimulation(ONE_GPU, jobs, scheduler((50.0,)), strict=True).run()
    found = [(int(s.id), float(s.start_s), float(s.end_s)) for s in log.segments]
    assert found == [(0, 0, 50), (1, 50, 100), (0, 100, 130), (1, 130, 140)]
