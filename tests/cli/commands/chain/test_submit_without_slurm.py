"""``mirage submit`` on a machine that has no Slurm: the first thing that many try."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirage.cli import main


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A script, on a machine without Slurm and a home without chains."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("MIRAGE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("MIRAGE_STORE", raising=False)
    (tmp_path / "train.sh").write_text("#!/bin/sh\n")
    return str(tmp_path / "train.sh")


@pytest.mark.parametrize("further", [[], ["--dry-run"]])
def test_it_names_where_to_go_and_leaves_nothing(
    further: list[str], script: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["submit", *further, "-t", "1:00:00", script]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == (
        "mirage: error: there is no sbatch here; run this on a login node of the cluster, with Slurm's bin folder on "
        "PATH, or try it on a private Slurm: mirage lab up\n"
    )
    assert not (Path(script).parent / "home").exists(), "no chain, and no agent"


def test_through_ssh_it_needs_no_sbatch_here(
    script: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MIRAGE_SSH", "login1")
    assert main(["submit", "--links", "2", "-t", "1:00:00", script]) == 1
    assert "cannot run ssh: No such file or directory; install the OpenSSH client" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "what"),
    [
        (["submit", "--agentless", "train.sh"], "--agentless"),
        (["adopt", "7"], "mirage adopt"),
        (["rehearse", "train.sh"], "mirage rehearse"),
    ],
)
def test_what_uses_files_of_the_jobs_does_not_work_through_ssh(
    command: list[str], what: str, script: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MIRAGE_SSH", "login1")
    assert main(command) == 1
    assert capsys.readouterr().err == (
        f"mirage: error: {what} reads and writes files of the jobs, so it does not work through ssh; unset MIRAGE_SSH, "
        "and run this on a login node of the cluster\n"
    )
