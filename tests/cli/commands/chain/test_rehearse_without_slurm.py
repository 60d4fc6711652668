"""What ``mirage rehearse`` refuses before it submits anything."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from mirage.cli import main
from mirage.cli.commands.chain.rehearse_command import _print
from mirage.rehearsal.rehearse import RehearsalResult
from mirage.slurm.text.batch_script import directives


@pytest.mark.parametrize(
    ("text", "words", "message"),
    [
        ("#!/usr/bin/python3\n", (), "job.sh is no shell script; a rehearsal needs #!/bin/bash"),
        ("#!/bin/bash\ntrue\n", ("--framework", "auto"), "show a framework; name one of hf"),
        (
            "#!/bin/bash\ntrue\n",
            ("--array", "1-2"),
            "submit one chain for each task; a rehearsal runs one of them",
        ),
    ],
)
def test_a_script_that_cannot_be_rehearsed_is_refused(
    text: str, words: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    (tmp_path / "job.sh").write_text(text)
    (tmp_path / "sbatch").write_text("#!/bin/sh\ntouch called\n")
    (tmp_path / "sbatch").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("MIRAGE_HOME", str(tmp_path / "home"))
    assert main(["rehearse", *words, "job.sh"]) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "called").exists()
    assert not (tmp_path / "home").exists()


def test_without_slurm_it_names_where_to_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["rehearse", "job.sh"]) == 1
    assert "there is no sbatch here; run this on a login node" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("--after", "9h", "-t", "10"),
            "--after 09:00:00 and the lead of 00:02:00 are longer than the time limit 00:10:00: a link is",
        ),
        (("--after", "9m", "--grace", "61s", "-t", "10"), "--after 00:09:00 and the lead of 00:01:01 are longer than"),
        (("--grace", "10m", "-t", "5"), "--grace 00:10:00 is not shorter than the time limit 00:05:00"),
        (("--after", "5"), "'--after': '5' has no unit; write 5s or 5m"),
        (("--grace", "10m", "-t", "5", "job.sh", "--after"), "--after after job.sh goes to the script"),
        (("--after", "UNLIMITED"), "'--after': 'UNLIMITED' never ends"),
        (("--grace", "UNLIMITED"), "'--grace': 'UNLIMITED' never ends"),
        (("--patience", "infinite"), "'--patience': 'infinite' never ends"),
    ],
)
def test_a_warning_that_no_link_would_get_is_refused(
    words: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    (tmp_path / "job.sh").write_text("#!/bin/bash\ntrue\n")
    (tmp_path / "sbatch").write_text("#!/bin/sh\ntouch called\nexit 1\n")
    (tmp_path / "sbatch").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("MIRAGE_HOME", str(tmp_path / "home"))
    assert main(["rehearse", *words, "job.sh"]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "called").exists()
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize(
    ("words", "minutes", "limit"),
    [
        (
            (),
            "14",
            "00:14:00: 00:10:00 for its first step (--patience), 00:00:20 until the warning (--after), the lead of "
            "00:02:00, and",
        ),
        (("--patience", "20m", "--grace", "1m", "-t", "3"), "23", "00:23:00 (in place of 00:03:00): 00:20:00 for its"),
    ],
)
def test_the_jobs_end_and_are_warned_by_the_rehearsal_alone(
    words: tuple[str, ...], minutes: str, limit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Options of the script that would do so at another time are left out."""
    script = "#!/bin/bash\n#SBATCH --signal=B:USR1@120 -J own\n#SBATCH --time-min=5:00 --dependency=singleton\ntrue\n"
    (tmp_path / "job.sh").write_text(script)
    for name, body in {
        "sbatch": 'for last; do :; done; echo "$SBATCH_SIGNAL $*" > called; cp "$last" copy; exit 1',
        "scontrol": "echo ClusterName = tundra; echo KillWait = 30 sec",
    }.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("MIRAGE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SBATCH_SIGNAL", "USR1@120")
    assert main(["rehearse", *words, "job.sh"]) == 1
    called = (tmp_path / "called").read_text()
    assert f"--time={minutes} " in called
    assert f"mirage: the time limit of each job is {limit} " in capsys.readouterr().err
    assert called.startswith(" "), "no SBATCH_SIGNAL"
    assert directives((tmp_path / "copy").read_bytes()) == {"job-name": "own"}
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "home").rglob("*") if path.is_dir()} == {0o700}


@pytest.mark.parametrize(
    ("saved", "lost", "line"),
    [
        (40, 2, "checkpoint of step 40; the second job began at step 43; 2 lost\n"),
        (-1, -1, "no checkpoint; the second job began at step 43\n"),
    ],
)
def test_what_is_unknown_is_not_a_number(saved: int, lost: int, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    _print(RehearsalResult((), math.nan, math.nan, math.nan, saved, 43, lost, False, False, (), ()), "")
    assert capsys.readouterr().out.startswith(line)
