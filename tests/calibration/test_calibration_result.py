"""The result of a calibration: its figures as plain values, and its cluster file."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mirage.calibration.calibration_result import Calibration
from mirage.calibration.declared_settings import DeclaredSettings
from mirage.calibration.fidelity.judge_fidelity import judge
from mirage.calibration.fit_mechanisms import TraceSlice
from mirage.calibration.inferred.capacity import queued
from mirage.calibration.inferred.think_times import ThinkTimes
from mirage.calibration.mechanism_shares import ALL, HELD, PLAIN, MechanismFidelity, WaitCauseShares
from mirage.calibration.mechanisms import Mechanisms, Site
from mirage.calibration.wait_causes import CAUSES
from mirage.duration import DAY_S, HOUR_S
from mirage.sim.cluster import Limit
from mirage.sim.slurm_conf.associations import Association
from mirage.sim.slurm_conf.cluster_file import read_cluster_file, write_cluster_file
from mirage.sim.slurm_conf.qos import QosTable
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from tests.support.made_up_histories import history
from tests.support.made_up_site import Row, table
from tests.support.report_samples import calibration


def test_a_fitted_think_time_is_in_the_file(tmp_path: Path) -> None:
    jobs = table(*[("ada", 24.0 * k, 24.0 * k, 1.0, 1) for k in range(60)])
    declared = DeclaredSettings(SlurmSettings(), "Slurm's defaults")
    slices = TraceSlice(14 * DAY_S, 28 * DAY_S), TraceSlice(28 * DAY_S, 42 * DAY_S)
    found = Calibration(
        "jobs.csv", declared, Site.of(jobs, declared.settings, 0, 42 * DAY_S), Mechanisms(think_time_s=1200),
        *slices, (), (WaitCauseShares({}, {}, None), WaitCauseShares({}, {}, None)), ThinkTimes.of(jobs),
    )  # fmt: skip
    write_cluster_file(tmp_path / "cluster.toml", found.cluster_file(found.to_json()))
    read = read_cluster_file(tmp_path / "cluster.toml")
    assert read.users.think_time_s == 1200
    assert read.calibration["answers"]["by_chance"] == 0


def test_a_site_is_fitted_to_the_first_slice_and_judged_on_the_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every day ada runs one of two jobs after the other on a machine with room for both."""
    monkeypatch.setattr("mirage.calibration.fit_mechanisms.choices", lambda *_: {"user_jobs": (None, 1)})
    rows: list[Row] = []
    for day in range(42):
        rows += [("ada", 24.0 * day, 24.0 * day, 3.0, 1), ("ada", 24.0 * day, 24.0 * day + 3, 2.0, 2)]
        rows += [("bob", 24.0 * day + 9, 24.0 * day + 9, 1.0, 7)]
        rows += [("eve", 24.0 * day + 12, 24.0 * day + 12.1, 1.0, 1)] if day >= 28 else []
    settings = SlurmSettings()
    site = Site.of(queued(table(*rows)), settings, 14 * DAY_S, 28 * DAY_S)
    slices = TraceSlice(14 * DAY_S, 28 * DAY_S), TraceSlice(28 * DAY_S, 42 * DAY_S)
    tries: list[int] = []
    found = Calibration.of(
        "jobs.csv", DeclaredSettings(settings, "conf"), site, slices, lambda done, most, least: tries.append(done)
    )
    assert found.best == Mechanisms(user_jobs=1)
    assert tries == [1, 2]
    assert (found.trace, found.declared.by, found.fitted, found.after) == ("jobs.csv", "conf", *slices)
    assert [row.name for row in found.rows] == [PLAIN, ALL, "user_jobs", HELD]
    assert found.whole is found.row(ALL)
    assert (found.whole.fitted.counts.compared, found.whole.judged.counts.compared) == (42, 56)
    assert found.whole.fitted.rank_correlation.value == pytest.approx(1)
    assert [waited.recorded["limit"] > 0.9 for waited in found.waited] == [True, True]
    assert found.users.jobs == 42, "of the slice that was fitted to"


def test_the_plain_values_of_a_calibration() -> None:
    shown = calibration()
    found = shown.to_json()
    assert {name: found[name] for name in ("trace", "declared_by", "mechanisms", "answers")} == {
        "trace": "data/jobs.csv",
        "declared_by": {"scheduler": "slurm.conf"},
        "mechanisms": {
            "dip_s": 12 * HOUR_S, "recorded": False, "age": 500.0, "fairshare": 0.0, "size": 0.0, "shutdowns": False,
            "turnover_s": 15, "think_time_s": 0,
        },
        "answers": {"jobs": 120, "answer": 30, "share": 0.25, "by_chance": 0.05, "longest_s": 1200},
    }  # fmt: skip
    instants = [found[name] for name in ("fitted_from", "fitted_until", "judged_until")]
    assert instants == [datetime(*day, tzinfo=UTC) for day in ((2024, 10, 4), (2024, 11, 1), (2024, 12, 13))]
    assert list(found["fidelity"]) == [row.name for row in shown.rows]
    for which in ("fitted", "judged"):
        figures = found["fidelity"]["age"][which]
        fidelity = getattr(shown.row("age"), which)
        assert figures == {
            "jobs": fidelity.counts.compared,
            "moving_average_mape": fidelity.moving_average.mape,
            "rank_correlation": fidelity.rank_correlation.value,
            "pearson": fidelity.pearson.value,
            "recorded_mean_wait_s": fidelity.recorded_wait_s.mean,
            "simulated_mean_wait_s": fidelity.simulated_wait_s.mean,
        }
    assert found["waits"]["fitted"]["recorded"] == {"nodes": 0.5, "limit": 0.0, "order": 0.3, "unexplained": 0.2}
    assert found["waits"]["judged"]["replayed"] == dict(zip(CAUSES, (0.7, 0.0, 0.24, 0.06)))
    assert [found["waits"][which]["unexplained_moving_average"] for which in ("fitted", "judged")] == [0.25, 0.375]
    assert set(found) == {
        "trace", "declared_by", "fitted_from", "fitted_until", "judged_until", "mechanisms", "answers", "fidelity",
        "waits", "held_back",
    }  # fmt: skip


def test_figures_that_are_not_defined_are_left_out() -> None:
    alike = judge(history(range(4), [1] * 4), history(range(4), [2] * 4))
    empty = WaitCauseShares({}, {}, None)
    found = replace(calibration(), rows=(MechanismFidelity(ALL, alike, alike),), waited=(empty, empty)).to_json()
    assert found["fidelity"][ALL]["judged"] == {
        "jobs": 4, "recorded_mean_wait_s": HOUR_S, "simulated_mean_wait_s": 2 * HOUR_S
    }  # fmt: skip
    assert found["waits"]["judged"] == {"recorded": {}, "replayed": {}}


def test_every_declared_part_has_its_source() -> None:
    qos = QosTable({"normal": 0.0}, {}, (Limit("user", jobs=2, qos=("normal",)),))
    ages = (Association("x", group=4),)
    declared = DeclaredSettings(SlurmSettings(), "slurm.conf", qos, "qos.txt", ages, "assoc.txt")
    whole = calibration(declared=declared)
    whole = replace(whole, site=replace(whole.site, qos=qos, age_limits=(Limit("all", ageing=4, accounts=("x",)),)))
    assert whole.to_json()["declared_by"] == {
        "scheduler": "slurm.conf", "qos": "qos.txt", "associations": "assoc.txt"
    }  # fmt: skip
    basis = {
        "group": "nodes in use over time",
        "scheduler": "slurm.conf; weights fitted",
        "calibration": "mirage calibrate",
    }
    file = whole.cluster_file({"jobs": 3})
    assert dict(file.sources) == basis | {"qos": "qos.txt", "limit": "qos.txt and assoc.txt"}
    assert (file.calibration, file.users.think_time_s) == ({"jobs": 3}, 0)
    assert (file.cluster, file.settings) == (whole.site.cluster(whole.best), whole.site.scheduler(whole.best))
    aged = replace(whole, declared=replace(declared, qos=None), best=replace(whole.best, think_time_s=1200))
    assert dict(aged.cluster_file({}).sources) == basis | {
        "limit": "assoc.txt", "users": "mirage calibrate, as replays came closer with it"
    }  # fmt: skip
    assert dict(calibration().cluster_file({}).sources) == basis
