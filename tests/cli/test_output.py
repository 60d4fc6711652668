"""Files that commands write."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mirage.cli.output import as_policy, check_output, check_page
from mirage.errors import ConfigurationError


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("folder", "cannot write folder: it is a folder; name a file"),
        ("absent/x.html", "cannot write absent/x.html: there is no folder absent; make it, or name another"),
        ("file/x.html", "cannot write file/x.html: there is no folder file; make it, or name another"),
    ],
)
def test_a_place_that_cannot_be_written_is_refused_before_the_work(
    name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError) as refused:
        check_output(name)
    assert str(refused.value) == message


def test_a_closed_folder_is_refused_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "old.html").touch()
    requested = []

    def closed(path: Path, mode: int) -> bool:
        requested.append((path, mode))
        return False

    monkeypatch.setattr(os, "access", closed)
    for name in ("new.html", "old.html"):
        with pytest.raises(ConfigurationError) as refused:
            check_output(tmp_path / name)
        assert str(refused.value) == f"cannot write {tmp_path}/{name}: permission denied; name another place"
    assert requested == [(tmp_path.resolve(), os.W_OK)] * 2, "a file is replaced, so its folder must be open"


def test_a_place_that_can_be_written_is_left_as_it_is(tmp_path: Path) -> None:
    check_output(tmp_path / "new.html")
    check_output("/dev/null")
    assert list(tmp_path.iterdir()) == []


def test_a_page_has_the_name_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for allowed in ("a.HTML", "/dev/null"):
        check_page(allowed)
    for name, message in (("a.svg", "must end in .html"), ("gone/a.html", "there is no folder gone")):
        with pytest.raises(ConfigurationError, match=message):
            check_page(name)


@pytest.mark.parametrize(
    ("written", "named"), [("model", "./model"), ("models/m", "models/m"), ("../m", "../m"), ("/tmp/m", "/tmp/m")]
)
def test_a_policy_s_file_is_named_so_that_it_is_found(written: str, named: str) -> None:
    assert as_policy(written) == named
