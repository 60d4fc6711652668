"""Costs of preemption given by the user, under compiled schedulers and in rounds."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from pathlib import Path

import pytest

from mirage.errors import ConfigurationError, UnknownName
from mirage.schedule.compare.gpu_comparison import compare
from mirage.schedule.compare.gpu_comparison_row import GpuComparisonRow
from mirage.schedule.compare.gpu_trial import GpuSetting
from mirage.schedule.compare.preemption_costs import PreemptionCosts
from mirage.schedule.gpu_cluster import GpuCluster, ServerGroup
from mirage.schedule.schedulers.gpu_scheduler_registry import SCHEDULERS, make_scheduler
from mirage.schedule.workload.gpu_jobs import GpuJobs
from tests.support.column_types import wrong_types
from tests.support.toy_profiles import CLUSTER, write_profiles

TWO_GPUS = GpuCluster((ServerGroup("only", "gpu", 1, 2),))


def _played(folder: Path, second_at_s: int, scheduler: str = "srtf", **costs: float) -> GpuComparisonRow:
    """A job of 1000 s on two GPUs, and one of 100 s that comes later."""
    path = folder / "jobs.csv"
    at = f"{second_at_s // 60:02d}:{second_at_s % 60:02d}"
    path.write_text(f"timestamp,duration,num_gpus\n2017-01-01 00:00:00,1000,2\n2017-01-01 00:{at},100,2\n")
    return compare([str(path)], [scheduler], GpuSetting(TWO_GPUS, preemption_costs=PreemptionCosts(**costs))).rows[0]


@pytest.mark.parametrize(
    ("second_at_s", "costs", "ends_s", "lost_s", "overhead_s"),
    [
        (250, {}, (1100, 350), 0, 0),
        (250, {"restart_s": 60}, (1160, 350), 0, 60),
        (250, {"save_s": 30}, (1130, 380), 0, 30),  # the second waits until the first has saved
        (250, {"checkpoint_s": 100}, (1150, 350), 50, 0),  # 200 s of 250 are saved
        (250, {"checkpoint_s": 100, "restart_s": 60}, (1210, 350), 50, 60),
        (250, {"checkpoint_s": 100, "save_s": 30}, (1130, 380), 0, 30),  # saving takes less than 50 s of work
        (220, {"checkpoint_s": 100, "save_s": 30}, (1120, 320), 20, 0),
        (50, {"checkpoint_s": 100}, (1150, 150), 50, 0),  # nothing was saved yet
    ],
)
def test_a_preempted_job_by_hand(
    tmp_path: Path,
    second_at_s: int,
    costs: dict[str, float],
    ends_s: tuple[float, float],
    lost_s: float,
    overhead_s: float,
) -> None:
    row = _played(tmp_path, second_at_s, **costs)
    assert row.mean_jct_s == pytest.approx((ends_s[0] + ends_s[1] - second_at_s) / 2)
    assert (row.preemptions, row.restarts) == (1, 1)
    assert (row.lost_gpu_h * 3600, row.overhead_gpu_h * 3600) == pytest.approx((2 * lost_s, 2 * overhead_s))


def test_a_job_that_is_never_preempted_pays_nothing(tmp_path: Path) -> None:
    plain, dear = (_played(tmp_path, 250, "fifo", **costs) for costs in ({}, {"restart_s": 60, "checkpoint_s": 100}))
    assert plain == dear


def test_a_scheduler_in_rounds_lets_a_job_run_on_to_its_checkpoint(tmp_path: Path) -> None:
    """Gavel gives the second job its turn at 360; the first leaves at its checkpoint at 500."""
    pytest.importorskip("scipy", reason="pip install mirage-hpc[schedule]")
    saved, stopped = (
        _played(tmp_path, 10, "gavel", **costs) for costs in ({"restart_s": 0}, {"restart_s": 0, "checkpoint_s": 500})
    )
    assert (saved.preemptions, stopped.preemptions, stopped.lost_gpu_h) == (1, 1, 0)
    assert stopped.mean_jct_s > saved.mean_jct_s


@pytest.mark.parametrize("costs", [{}, {"save_s": 30}, {"checkpoint_s": 100}, {"save_s": 30, "checkpoint_s": 100}])
@pytest.mark.parametrize("name", [name for name, spec in SCHEDULERS.items() if not spec.needs and name != "gittins"])
def test_every_scheduler_plays_jobs_of_all_costs_with_its_defaults(
    tmp_path: Path, name: str, costs: dict[str, float]
) -> None:
    assert _played(tmp_path, 250, name, **costs).jobs == 2


def test_pickyman_waits_for_the_end_of_an_epoch_also_if_jobs_can_save(tmp_path: Path) -> None:
    by_default = _played(tmp_path, 150, "pickyman", checkpoint_s=100, save_s=1)
    assert (
        by_default.mean_jct_s
        == _played(tmp_path, 150, "pickyman:preempt=boundary", checkpoint_s=100, save_s=1).mean_jct_s
    )
    assert (by_default.preemptions, by_default.lost_gpu_h, by_default.overhead_gpu_h) == (1, 0, 0)


def test_a_way_to_preempt_can_be_given_for_one_scheduler(tmp_path: Path) -> None:
    row = _played(tmp_path, 250, "srtf:preempt=boundary", checkpoint_s=100)
    assert (row.lost_gpu_h, row.mean_jct_s) == (0, pytest.approx((1100 + 150) / 2))
    with pytest.raises(UnknownName, match="unknown way to preempt 'hang'"):
        make_scheduler("tiresias", preempt="hang")
    with pytest.raises(UnknownName, match="unknown way to preempt 'cheaper'"):
        make_scheduler("gavel", preempt="cheaper")


def test_models_have_costs_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "w.csv").write_text("name,time,application,num_replicas,batch_size\na,0,toy,1,10\n")
    setting = GpuSetting(
        CLUSTER, str(write_profiles(tmp_path / "profiles")), preemption_costs=PreemptionCosts(restart_s=5, save_s=1)
    )
    with pytest.raises(ConfigurationError) as refused:
        compare([str(tmp_path / "w.csv")], ["fifo"], setting)
    assert str(refused.value) == (
        f"{tmp_path}/w.csv: the measured speeds of its jobs include the cost of restarts; leave out --restart-s, "
        "--save-s, or change models.toml if the speeds are a folder of profiles"
    )
    compare([str(tmp_path / "w.csv")], ["fifo"], replace(setting, preemption_costs=PreemptionCosts()))
    with pytest.raises(ConfigurationError, match="leave out --checkpoint-s, or"):
        compare(
            [str(tmp_path / "w.csv")], ["fifo"], replace(setting, preemption_costs=PreemptionCosts(checkpoint_s=1.0))
        )


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        ({"restart_s": -1.0}, "restart_s is -1.0; give a number of seconds of 0 or more$"),
        ({"save_s": float("nan")}, "save_s is nan; give a number of seconds of 0 or more$"),
        ({"restart_s": float("inf")}, "restart_s is inf; give a number of seconds of 0 or more$"),
        ({"checkpoint_s": 0.0}, "checkpoint_s is 0.0; give a number of seconds above 0$"),
        ({"checkpoint_s": float("inf")}, "checkpoint_s is inf; give a number of seconds above 0$"),
        ({"restart_s": 0.0, "save_s": 0.0, "checkpoint_s": -1.0}, "^checkpoint_s is -1.0"),
    ],
)
def test_costs_that_cannot_be_are_refused(costs: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        PreemptionCosts(**costs)


@pytest.mark.parametrize(
    ("save_s", "checkpoint_s", "in_rounds", "way"),
    [
        (None, None, False, "save"),
        (None, None, True, "save"),
        (3.0, None, False, "save"),
        (3.0, None, True, "save"),
        (3.0, 9.0, True, "save"),
        (0.0, 9.0, True, "save"),
        (None, 9.0, True, "boundary"),
        (None, 9.0, False, "kill"),
        (3.0, 9.0, False, "cheaper"),
        (0.0, 9.0, False, "cheaper"),
    ],
)
def test_the_way_to_preempt_follows_from_the_costs(
    save_s: float | None, checkpoint_s: float | None, in_rounds: bool, way: str
) -> None:
    jobs = GpuJobs.linear([0], [1], [1])
    assert PreemptionCosts(save_s=save_s, checkpoint_s=checkpoint_s).preempt(jobs, in_rounds) == way


def test_costs_that_are_not_given_are_those_of_the_jobs() -> None:
    jobs = GpuJobs.linear([0, 1], [1, 4], [10, 10], restart_s=[5, 6])
    plain = PreemptionCosts().life_costs(jobs)
    assert plain.first_start_s.tolist() == [0, 0], "the first start is part of the run time"
    assert plain.restart_s.tolist() == plain.rescale_s.tolist() == [5, 6]
    assert (plain.save_s.tolist(), plain.checkpoint_work.tolist()) == ([0, 0], [inf, inf])
    given = PreemptionCosts(restart_s=7, save_s=2, checkpoint_s=100).life_costs(jobs)
    assert (given.first_start_s.tolist(), given.restart_s.tolist(), given.rescale_s.tolist()) == (
        [0, 0],
        [7, 7],
        [7, 7],
    )
    assert (given.save_s.tolist(), given.checkpoint_work.tolist()) == ([2, 2], [100, 400])
    assert PreemptionCosts(restart_s=0).life_costs(jobs).first_start_s.tolist() == [0, 0]
    assert wrong_types(plain) == wrong_types(given) == {}


def _gangs(folder: Path) -> str:
    """A job of 1000 s in epochs of 100 s, and one of 100 s that comes at 250."""
    path = folder / "gangs.csv"
    path.write_text(
        "job_id,submit_s,run_s,gpus,epochs,save_s,restart_s\na,0,1000,2,10,30,60\nb,250,100,2,1,40,70\n",
    )
    return str(path)


@pytest.mark.parametrize(
    ("scheduler", "ends_s", "lost_s"),
    [
        ("srtf", (1190, 380), 0),  # saving takes less than 50 s of work; a first start costs nothing
        ("srtf:preempt=boundary", (1160, 400), 0),
        ("srtf:preempt=kill", (1210, 350), 50),
    ],
)
def test_the_costs_of_a_workload_of_gangs_are_those_of_its_columns(
    tmp_path: Path, scheduler: str, ends_s: tuple[float, float], lost_s: float
) -> None:
    row = compare([_gangs(tmp_path)], [scheduler], GpuSetting(TWO_GPUS)).rows[0]
    assert row.mean_jct_s == pytest.approx((ends_s[0] + ends_s[1] - 250) / 2)
    assert row.lost_gpu_h * 3600 == pytest.approx(2 * lost_s)


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        ({"restart_s": 5.0}, "gangs.csv: its jobs have their own restart_s; leave out --restart-s"),
        ({"save_s": 5.0}, "own save_s; leave out --save-s"),
        ({"checkpoint_s": 5.0}, "own checkpoint_every_s; leave out --checkpoint-s"),
    ],
)
def test_an_option_contradicts_the_column_of_a_file(tmp_path: Path, costs: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        compare([_gangs(tmp_path)], ["fifo"], GpuSetting(TWO_GPUS, preemption_costs=PreemptionCosts(**costs)))
