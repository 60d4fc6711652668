"""The generator of gang workloads: shares, load, seed, and the file that reads back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mirage.errors import ConfigurationError
from mirage.schedule.gpu_cluster import gpu_cluster
from mirage.schedule.speeds.profiles import no_profiles
from mirage.schedule.workload.generate_gangs import (
    CAP_S,
    MEDIAN_S,
    RESTART_S,
    WIDTHS,
    generate_gangs,
    mean_run_s,
)
from mirage.schedule.workload.gpu_workload import read_workload


def test_widths_have_the_mean_and_the_share_of_wide_jobs_of_the_hypothesis() -> None:
    mean = sum(width * share for width, share in WIDTHS.items())
    assert sum(WIDTHS.values()) == pytest.approx(1.0)
    assert mean == pytest.approx(5.5, abs=0.05)
    assert sum(width * share for width, share in WIDTHS.items() if width >= 16) / mean == pytest.approx(0.47, abs=0.01)
    assert mean_run_s() == pytest.approx(13_250, rel=0.01)


@pytest.mark.parametrize("seed", [1, 2, 3, 11, 12, 13])
def test_a_thousand_jobs_have_the_load_and_wide_gangs(seed: int) -> None:
    found = generate_gangs(128, seed=seed, jobs=1000, load=0.7)
    assert found.offered_load == pytest.approx(0.7)
    assert found.wide_share >= 0.25
    assert np.median(found.run_s) == pytest.approx(MEDIAN_S, rel=0.25)
    assert found.run_s.max() <= CAP_S
    assert (np.diff(found.submit_s) >= 0).all()


def test_the_seed_and_the_options_determine_the_bytes() -> None:
    text = generate_gangs(128, seed=5, jobs=50, load=1.0, epochs=7).to_csv()
    assert generate_gangs(128, seed=5, jobs=50, load=1.0, epochs=7).to_csv() == text
    assert generate_gangs(128, seed=6, jobs=50, load=1.0, epochs=7).to_csv() != text


def test_the_file_reads_back(tmp_path: Path) -> None:
    found, cluster = generate_gangs(128, seed=5, jobs=50, load=1.2, epochs=7, cap_s=5000.0), gpu_cluster("pool128")
    path = tmp_path / "gangs.csv"
    path.write_text(found.to_csv())
    jobs = read_workload(path, cluster, no_profiles(cluster)).jobs
    assert jobs.submit_s == pytest.approx(found.submit_s, abs=1e-9)
    assert jobs.run_s == pytest.approx(found.run_s, abs=1e-9)
    assert jobs.gpus.tolist() == found.gpus.tolist()
    assert jobs.checkpoint_s * 7 == pytest.approx(found.run_s, abs=1e-5)
    assert jobs.restart_s.tolist() == [RESTART_S[model] for model in found.model]
    assert (jobs.save_s < jobs.restart_s).all()
    assert jobs.run_s.max() == 5000.0


def test_two_of_jobs_days_and_load_determine_the_third() -> None:
    by_days = generate_gangs(128, seed=1, days=40, load=0.9)
    assert by_days.offered_load == pytest.approx(0.9, rel=0.15)
    assert by_days.submit_s[-1] <= 40 * 86400
    both = generate_gangs(64, seed=1, jobs=100, days=2)
    assert both.offered_load == pytest.approx(float(both.gpus @ both.run_s) / (64 * 2 * 86400))
    assert generate_gangs(8, seed=1, jobs=200, load=1.0).gpus.max() == 8


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"jobs": 10}, "of jobs, days and load 1 are given; give two"),
        ({"jobs": 10, "days": 1, "load": 1}, "of jobs, days and load 3 are given"),
        ({"jobs": 0, "load": 1}, "jobs is 0; give a number above 0"),
        ({"jobs": 5, "load": float("nan")}, "load is nan"),
        ({"jobs": 5, "load": 1, "cap_s": 0}, r"the longest run time \(--cap-days\) is 0; give"),
    ],
)
def test_numbers_that_cannot_be_are_refused(arguments: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        generate_gangs(128, seed=1, **arguments)  # type: ignore[arg-type]
