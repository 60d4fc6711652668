"""Folders of the user, and a user without a home folder."""

from __future__ import annotations

import pwd
from pathlib import Path

import pytest

from mirage.cache_folder import cache_folder
from mirage.cli import main
from mirage.errors import ConfigurationError


@pytest.fixture
def homeless(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user without HOME and without an entry in the password database."""

    def unknown(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    for name in ("HOME", "MIRAGE_HOME", "MIRAGE_STORE", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("homeless")
@pytest.mark.parametrize("words", [["doctor"], ["chain", "list"], ["agent", "status"], ["submit", "job.sh"]])
def test_a_user_without_a_home_folder_must_name_one(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("mirage.slurm.survey.survey", lambda slurm: [])
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    Path("sbatch").touch(0o755)
    Path("job.sh").write_text("#!/bin/sh\n#SBATCH -t 10\npython ~/train.py\n")
    assert main(words) == 1
    assert capsys.readouterr().err == "mirage: error: no home folder is known: set HOME or MIRAGE_HOME\n"
    monkeypatch.setenv("MIRAGE_HOME", str(tmp_path / "home"))
    main(words)
    assert "home folder" not in "".join(capsys.readouterr())


@pytest.mark.usefixtures("homeless")
def test_a_user_without_a_home_folder_has_no_cache() -> None:
    with pytest.raises(ConfigurationError, match=r"^no home folder is known: set HOME or XDG_CACHE_HOME$"):
        cache_folder()
