"""Sensitivity: cases, paired ratios by hand, and trials that are played once."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mirage.errors import ConfigurationError, UnknownName
from mirage.schedule.compare.assumptions import Assumptions
from mirage.schedule.compare.gpu_comparison import compare
from mirage.schedule.compare.gpu_trial import GpuSetting
from mirage.schedule.compare.scheduler_text import SchedulerText
from mirage.schedule.compare.sensitivity import (
    FILE,
    RANGES,
    PairedRatio,
    Sensitivity,
    cases,
    sensitivity,
    under,
    values_of,
    why_unused,
)
from mirage.schedule.gpu_cluster import GpuCluster, ServerGroup

POOLS = GpuCluster(
    (ServerGroup("training", "v100", 2, 4), ServerGroup("inference", "t4", 10, 2, pool="inference", speed=0.5))
)
SETTING = GpuSetting(POOLS, demand="daily", assumptions=Assumptions(fungible=0.5))
OWN = "aryl:loans=no:elastic=no"
NAMED = [SchedulerText.of(text) for text in ("fifo", OWN, "aryl", "aryl-plus:most_loss_h=2")]


def _workload(folder: Path, seed: int) -> str:
    random = np.random.default_rng(seed)
    rows = [
        f"{k},{at_s:.0f},{run_s:.0f},{gpus}"
        for k, (at_s, run_s, gpus) in enumerate(
            zip(np.sort(random.uniform(0, 9000, 40)), random.exponential(3000, 40) + 9, random.integers(1, 6, 40))
        )
    ]
    path = folder / f"seed-{seed}.csv"
    path.write_text("\n".join(["job_id,submit_s,run_s,gpus", *rows, ""]))
    return str(path)


@pytest.fixture(scope="module")
def workloads(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("workloads")
    return [_workload(folder, seed) for seed in (1, 2, 3)]


@pytest.fixture(scope="module")
def found(workloads: list[str], tmp_path_factory: pytest.TempPathFactory) -> Sensitivity:
    vary = {"fungible": (0.0, 1.0), "headroom": (0.5,), "most_loss_h": (0.0,)}
    folder = tmp_path_factory.mktemp("results")
    played = sensitivity(workloads, ["aryl", "aryl-plus"], ["fifo", OWN], SETTING, vary, resume_folder=folder)
    again = sensitivity(workloads, ["aryl", "aryl-plus"], ["fifo", OWN], SETTING, vary, resume_folder=folder)
    lines = (folder / FILE).read_text().splitlines()
    assert again.rows == played.rows
    # four schedulers in three settings, aryl and its own with another headroom, and aryl-plus with it and its parameter
    assert again.reused == 3 * (4 * 3 + 3 + 1)
    assert len([line for line in lines if "mean_jct_s" in line]) == again.reused
    return played


def test_a_paired_ratio_by_hand() -> None:
    """The ratios are 2, 4 and 8; Student's t for three is 4.303."""
    found = PairedRatio.of(np.array([2.0, 40.0, 24.0]), np.array([1.0, 10.0, 3.0]))
    assert found.ratio == pytest.approx(4)
    assert found.interval is not None
    wide = 2 ** (4.3027 / math.sqrt(3))
    assert found.interval == pytest.approx((4 / wide, 4 * wide), rel=1e-3)
    assert PairedRatio.of(np.array([2.0, 8.0]), np.array([1.0, 1.0])) == PairedRatio(pytest.approx(4), None)
    assert PairedRatio.of(np.array([2.0, 8.0]), np.array([1.0, 0.0])) == PairedRatio(None, None)


def test_every_case_is_what_a_comparison_under_its_assumptions_gives(found: Sensitivity, workloads: list[str]) -> None:
    changed = {
        (): SETTING,
        (("fungible", 1.0),): replace(SETTING, assumptions=Assumptions(fungible=1.0)),
        (("headroom", 0.5),): replace(SETTING, assumptions=Assumptions(fungible=0.5, headroom=0.5)),
    }
    waits = {}
    for assumed, setting in changed.items():
        rows = compare(workloads, ["fifo", OWN, "aryl"], setting).rows
        mean = {row.scheduler: row for row in rows if row.workload == "mean"}
        (row,) = (row for row in found.rows if row.assumed == assumed and row.scheduler == "aryl")
        assert (row.mean_wait_s, row.mean_jct_s) == (mean["aryl"].mean_wait_s, mean["aryl"].mean_jct_s)
        for name in ("fifo", OWN):
            jct_s = {by: np.array([r.mean_jct_s for r in rows[:-3] if r.scheduler == by]) for by in (name, "aryl")}
            assert row.jct[name] == PairedRatio.of(jct_s[name], jct_s["aryl"])
        waits[assumed] = row.mean_wait_s
    assert len(set(waits.values())) == 3, "every assumption of this test has an effect"


def test_a_parameter_changes_the_schedulers_that_have_it(found: Sensitivity) -> None:
    by_case = {(row.assumed, row.scheduler): row for row in found.rows}
    assert [row.assumed for row in found.rows[::2]] == [
        (), (("fungible", 0.0),), (("fungible", 1.0),), (("headroom", 0.5),), (("most_loss_h", 0.0),)
    ]  # fmt: skip
    changed = (("most_loss_h", 0.0),)
    assert by_case[changed, "aryl"].mean_jct_s == by_case[(), "aryl"].mean_jct_s
    assert by_case[changed, "aryl-plus"].mean_jct_s != by_case[(), "aryl-plus"].mean_jct_s


def test_all_combinations() -> None:
    crossed, left_out = cases(SETTING, NAMED, {"headroom": (0.0, 0.1), "announce_error": (0.0, 0.2)}, True)
    assert [case.name for case in crossed] == [
        "as given", "headroom=0,announce_error=0", "headroom=0,announce_error=0.2", "headroom=0.1,announce_error=0",
        "headroom=0.1,announce_error=0.2",
    ]  # fmt: skip
    assert left_out == {}
    assert [case.setting.assumptions.headroom for case in crossed] == [None, 0, 0, 0.1, 0.1]
    with pytest.raises(ConfigurationError, match="give the assumptions to combine"):
        cases(SETTING, NAMED, {}, True)


def test_ranges_that_do_not_apply_are_left_out_with_the_reason() -> None:
    found, left_out = cases(SETTING, NAMED, {}, False)
    varied = {key for case in found for key, _ in case.assumed}
    assert varied | left_out.keys() == RANGES.keys()
    assert not varied & left_out.keys()
    assert left_out["elastic_max"] == "no share of elastic jobs is assumed"
    assert (
        left_out["near_end"] == left_out["most_loss_h"] == "no scheduler has this parameter, or each has its own value"
    )
    one_type = replace(SETTING, cluster=GpuCluster((ServerGroup("only", "gpu", 1, 1),)), demand=None)
    _, left_out = cases(one_type, NAMED[:1], {}, False)
    assert left_out["t4_per_v100"] == "the cluster has no T4"
    assert left_out["fungible"] == "the cluster has one GPU type"
    given = {"headroom": (0.0, 0.1), "notice_s": (0.0,), "server_slots": (8.0,), "restart_s": (9.0,)}
    assert cases(one_type, NAMED[:1], given, False)[1] == {
        "headroom": "there is no inference demand",
        "notice_s": "there is no daily demand, and there are no requests",
        "server_slots": "there are no requests",
    }
    assert left_out["demand_low"] == "there is no daily demand"
    assert left_out["notice_s"] == "there is no daily demand, and there are no requests"
    assert left_out["headroom"] == "there is no inference demand"
    assert left_out["elastic_jobs"] == "no scheduler has elastic jobs"
    assert why_unused("elastic_jobs", one_type, [SchedulerText.of("sia")]) is None, "it adapts the GPUs of jobs"


def test_an_assumption_takes_the_place_of_its_opposite_and_of_the_cluster() -> None:
    setting = replace(SETTING, assumptions=Assumptions(elastic_jobs=0.1, elastic_max=4))
    case = under(setting, NAMED, (("elastic_gpu_time", 0.3), ("t4_per_v100", 3.0), ("save_s", 5.0)))
    assert case.setting.assumptions == Assumptions(elastic_gpu_time=0.3, elastic_max=4, t4_per_v100=3)
    assert case.setting.cluster.gpus_for_one().tolist() == [1, 3]
    assert case.setting.preemption_costs.save_s == 5
    texts = dict(under(setting, NAMED, (("most_loss_h", 1.0),)).schedulers)
    assert texts["aryl-plus:most_loss_h=2"].parameters == (("most_loss_h", 2),), "its own value stays"


def test_what_cannot_be_varied_is_refused(workloads: list[str]) -> None:
    with pytest.raises(UnknownName, match=r"assumption 'hedroom'.*headroom"):
        cases(SETTING, NAMED, {"hedroom": (0.0,)}, False)
    for text in ("headroom", "headroom=a", "=1", "headroom=1,nan"):
        with pytest.raises(ConfigurationError, match=r"is no range; give each assumption once, as KEY=NUMBER"):
            values_of([text])
    assert values_of(["most-loss-h=1,2,1", "margin=0"]) == {"most_loss_h": (1, 2), "margin": (0,)}
    with pytest.raises(ConfigurationError, match="name at least one scheduler, and one to compare it with"):
        sensitivity(workloads, ["aryl"], [], SETTING, {})
    with pytest.raises(ConfigurationError, match="aryl is given twice"):
        sensitivity(workloads, ["aryl"], ["aryl"], SETTING, {})


def test_a_case_that_fails_does_not_affect_the_others(workloads: list[str]) -> None:
    narrow = replace(SETTING, cluster=replace(POOLS, groups=POOLS.groups[:1]), demand=None, assumptions=Assumptions())
    found = sensitivity(workloads[:1], ["sjf"], ["fifo"], narrow, {"prediction_error": (0.5,), "restart_s": (9.0,)})
    assert [row.assumed for row in found.rows] == [(), (("prediction_error", 0.5),), (("restart_s", 9.0),)]
    costly = Path(workloads[0]).with_name("costly.csv")
    costly.write_text("job_id,submit_s,run_s,gpus,restart_s\n0,0,10,1,5\n1,0,20,1,5\n")
    found = sensitivity([str(costly)], ["sjf"], ["fifo"], narrow, {"prediction_error": (0.5,), "restart_s": (9.0,)})
    assert [row.assumed for row in found.rows] == [(), (("prediction_error", 0.5),)]
    assert {(trial.workload.partition("/")[2] or trial.workload, trial.scheduler) for trial in found.failed} == {
        ("costly with restart_s=9", "fifo"), ("costly with restart_s=9", "sjf")
    }  # fmt: skip
    assert "its jobs have their own restart_s" in found.failed[0].error


def test_a_parameter_has_all_digits_of_its_value() -> None:
    case = under(SETTING, [SchedulerText.of("aryl-plus")], (("least_gain_s", 1234567.25),))
    assert dict(case.schedulers[0][1].parameters) == {"least_gain_s": 1234567.25}
