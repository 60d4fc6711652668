"""``mirage submit``: its remarks and refusals before a job is submitted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mirage.cli import main


@pytest.fixture
def submit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    """Submits with options, and returns exit status and messages; sbatch refuses."""
    (tmp_path / "sbatch").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "sbatch").chmod(0o755)
    (tmp_path / "train.sh").write_text("#!/bin/sh\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("MIRAGE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    def submitted(*words: str) -> tuple[int, str]:
        status = main(["submit", "-t", "1:00:00", *words, "train.sh"])
        return status, " ".join(capsys.readouterr().err.split())

    return submitted


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--never-two", "--least-life", "0.5"), "--least-life has no effect with --never-two: Slurm alone starts the"),
        (("--never-two", "--waiting-links", "2"), "--waiting-links has no effect with --never-two"),
        (("--never-two", "--interruption-cost", "2"), "--interruption-cost has no effect with --never-two"),
        (("--never-two", "--overlap-cost", "2"), "--overlap-cost has no effect with --never-two"),
        (("--notify", "none", "--notify-gap", "5m"), "--notify-gap is for the messages of --notify; give a target"),
        (("--signal-previous", "none", "--grace", "5m"), "--grace is the time after the signal, and --signal-previous"),
    ],
)
def test_an_option_without_effect_is_a_wrong_usage(
    submit: Callable[..., tuple[int, str]], words: tuple[str, ...], message: str
) -> None:
    status, printed = submit(*words)
    assert status == 2
    assert message in printed


def test_more_waiting_links_than_the_site_allows_are_a_remark(
    submit: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    (tmp_path / "mirage").mkdir()
    (tmp_path / "mirage" / "site.toml").write_text("most_waiting_links = 2\n")
    remark = f"--waiting-links 3 counts as 2, the most that this site allows (site file {tmp_path}/mirage/site.toml)"
    assert remark in submit("--waiting-links", "3")[1]
    assert "--waiting-links" not in submit("--waiting-links", "2")[1]


def test_a_grace_above_half_of_the_limit_is_a_remark(submit: Callable[..., tuple[int, str]]) -> None:
    assert "--grace 00:40:00 is longer than half of the time limit 01:00:00: " in submit("--grace", "40m")[1]
    assert "--grace" not in submit("--grace", "30m")[1]


def test_a_chain_of_jobs_without_a_limit_is_a_remark(submit: Callable[..., tuple[int, str]]) -> None:
    assert "the time limit 0 never ends, so no job hands over: " in submit("-t", "0", "--links", "2")[1]
    assert "never ends" not in submit("-t", "0", "--links", "1")[1]
