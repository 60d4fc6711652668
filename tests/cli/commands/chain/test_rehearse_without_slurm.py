"""What ``mirage rehearse`` refuses before it submits anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirage.cli import main


@pytest.mark.parametrize(
    ("text", "words", "message"),
    [
        ("#!/usr/bin/python3\n", (), "job.sh is no shell script; a rehearsal needs #!/bin/bash"),
        ("#!/bin/bash\ntrue\n", ("--framework", "auto"), "show a framework; name one of hf"),
        ("#!/bin/bash\ntrue\n", ("--array", "1-2"), "--array cannot be used with a chain"),
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
