"""The result of a calibration as a cluster file."""

from __future__ import annotations

from pathlib import Path

from mirage.calibration.calibration_result import Calibration
from mirage.calibration.declared_settings import DeclaredSettings
from mirage.calibration.fit_mechanisms import TraceSlice
from mirage.calibration.inferred.think_times import ThinkTimes
from mirage.calibration.mechanism_shares import WaitCauseShares
from mirage.calibration.mechanisms import Mechanisms, Site
from mirage.duration import DAY_S
from mirage.sim.slurm_conf.cluster_file import read_cluster_file, write_cluster_file
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from tests.support.made_up_site import table


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
