"""``mirage calibrate --site``, then doctor and predict, on commands of a simulated Slurm."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mirage.calibration import fit_mechanisms
from mirage.calibration.site.calibration_files import CalibrationFiles
from mirage.cli import cli_context as cluster
from mirage.cli import main
from mirage.duration import DAY_S
from mirage.lab.commands.server import Served, served_slurm
from mirage.lab.virtual.virtual_slurm import VirtualSlurm
from mirage.sim.slurm_conf.cluster_file import read_cluster_file
from mirage.slurm.backend import cluster_of
from tests.support.site_slurm import USER, site_slurm

HERE = "simulated@localhost:6817"


@pytest.fixture(scope="module")
def slurm() -> VirtualSlurm:
    return site_slurm()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def served(slurm: VirtualSlurm, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """Its commands are on PATH, its clock is ours, and few mechanisms are tried."""
    with served_slurm(slurm) as served:
        monkeypatch.setenv("PATH", served.environment["PATH"])
        monkeypatch.setenv("MIRAGE_HOME", str(home))
        monkeypatch.delenv("MIRAGE_QUEUE", raising=False)
        monkeypatch.setattr(cluster, "clock", slurm.clock)
        monkeypatch.setattr(fit_mechanisms, "choices", lambda *_: {"age": (0.0, 1000.0)})
        yield served


@pytest.mark.slow
@pytest.mark.usefixtures("served")
def test_it_calibrates_and_doctor_and_predict_report_how_good_it_is(
    slurm: VirtualSlurm, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def typed(*words: str) -> tuple[str, str]:
        assert main(list(words)) == 0
        report = capsys.readouterr()
        return report.out, report.err

    assert "note  calibration    none" in typed("doctor")[0]
    assert not home.exists(), "doctor changes nothing"

    out, _ = typed("calibrate", "--site")
    assert out.startswith(f"the cluster of the accounts of {HERE}\n")
    (path,) = (home / "calibration").glob("*.toml")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    stored = read_cluster_file(path)
    assert stored.calibration["cluster"] == HERE
    assert stored.settings.weight_age == stored.calibration["mechanisms"]["age"]
    figures = stored.calibration["fidelity"]["all"]["judged"]
    attempt = CalibrationFiles(path.parent, HERE).attempt()
    assert attempt is not None
    assert attempt.outcome == "done"

    (line,) = (line for line in typed("doctor")[0].splitlines() if " calibration " in line)
    assert f"rank correlation of single waits {figures['rank_correlation']:.2f}" in line
    off = f"error of two-week mean waits {figures['moving_average_mape']:.0%}"
    assert f"the simulator, fitted to this cluster less than an hour ago: {off}" in typed("predict", "-t", "60")[1]
    report = json.loads(typed("predict", "--json", "--compare", "--time", "30,60", "-p", "main")[0])["simulator"]
    assert report["rank_correlation"] == figures["rank_correlation"]
    assert report["stale"] is False

    cluster.clock = lambda: slurm.clock() + 29 * DAY_S
    lines = typed("doctor")[0].splitlines()
    (place,) = (k for k, line in enumerate(lines) if " calibration " in line)
    assert lines[place].startswith("note  calibration    4 weeks old")
    assert lines[place + 1].strip().startswith("stale: ")


@pytest.mark.usefixtures("served")
def test_a_file_that_cannot_be_read_is_a_warning_to_predict(
    slurm: VirtualSlurm, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = CalibrationFiles(home / "calibration", cluster_of(slurm.configuration()))
    place.folder.mkdir(parents=True)
    place.file.write_text("no toml [")
    assert main(["predict", "-t", "60"]) == 0
    assert "mirage: warning: " in (printed := capsys.readouterr().err)
    assert "make it again: mirage calibrate --site" in printed


def test_a_refusal_is_noted_for_doctor_and_retains_the_last_file(
    served: Served, slurm: VirtualSlurm, home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = CalibrationFiles(home / "calibration", HERE)
    place.folder.mkdir(parents=True)
    place.file.write_text("the last one")
    monkeypatch.setattr(slurm, "accounting", lambda since_s: tuple(
        job for job in VirtualSlurm.accounting(slurm, since_s) if job.user == USER
    ))  # fmt: skip
    monkeypatch.setattr(slurm.showing, "user", USER)
    monkeypatch.setattr("mirage.slurm.client.user_of_process", lambda: USER)
    assert main(["calibrate", "--site"]) == 1
    assert "accounting shows only jobs of ada" in capsys.readouterr().err
    assert place.file.read_text() == "the last one"
    attempt = place.attempt()
    assert attempt is not None
    assert attempt.outcome == "refused"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "name a TRACE, or --site, and not both"),
        (["--site", "jobs.csv"], "name a TRACE, or --site, and not both"),
        (["--site", "--settings", "lonestar6"], "--site queries this cluster"),
        (["--site", "--slurm-conf", "slurm.conf"], "--site queries this cluster"),
        (
            ["--site", "--format", "csv", "--timezone", "Asia/Tokyo"],
            "--format, --timezone: --site reads no TRACE, but ",
        ),
        (["--site", "--weeks", "5"], "5 is not in the range"),
        (["jobs.csv", "--weeks", "8"], "--weeks needs --site"),
    ],
)
def test_words_that_do_not_go_together(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate", *words]) == 2
    assert message in capsys.readouterr().err


def test_the_absence_of_slurm_is_reported(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "mirage", "calibrate", "--site"]
    environment = {**os.environ, "PATH": str(tmp_path), "MIRAGE_HOME": str(tmp_path / "home")}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "cannot run scontrol" in done.stderr
