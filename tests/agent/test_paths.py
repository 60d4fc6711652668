"""The agent's folder: private, whatever the umask and its previous contents."""

from __future__ import annotations

import os
import pwd
import re
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from mirage.agent.paths import Home
from mirage.agent.store.engine import place_of
from mirage.errors import ConfigurationError, StoreError


@pytest.fixture(autouse=True)
def careless() -> Iterator[None]:
    """A umask that takes nothing away."""
    before = os.umask(0)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    found = (folder, *folder.rglob("*"))
    return {str(path.relative_to(folder.parent)): stat.S_IMODE(path.stat().st_mode) for path in found}


def made(folder: Path) -> Home:
    home = Home.of({"MIRAGE_HOME": str(folder)})
    with home.open_log() as log:
        log.write(b"one\n")
    home.spool("train", "script/job.sh", b"#!/bin/sh\n")
    return home


CLOSED = {
    "home": 0o700, "home/agent.log": 0o600, "home/chains": 0o700, "home/chains/train": 0o700,
    "home/chains/train/script": 0o700, "home/chains/train/script/job.sh": 0o700,
}  # fmt: skip


def test_what_we_make_is_closed_to_others_and_so_are_folders_above_that_were_missing(tmp_path: Path) -> None:
    made(tmp_path / "a" / "b" / "home")
    assert modes(tmp_path / "a" / "b" / "home") == CLOSED
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o700


@pytest.mark.parametrize("name", ["p%41", "q?b", "r b%20#é+@:", "\udcff"])
def test_the_store_is_in_the_folder_whatever_its_name(name: str, tmp_path: Path) -> None:
    assert place_of(Home.of({"MIRAGE_HOME": str(tmp_path / name)}).store_url) == f"{tmp_path}/{name}/store.db"


@pytest.mark.parametrize("variable", ["MIRAGE_HOME", "HOME"])
@pytest.mark.parametrize("name", ["~/mirage", "mirage", "./mirage"])
def test_a_folder_that_depends_on_the_working_directory_is_refused(
    name: str, variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError, match=f"^{variable} is '{re.escape(name)}', .*; write an absolute path"):
        Home.of({"HOME": str(tmp_path), variable: name})
    assert list(tmp_path.iterdir()) == []


def test_an_empty_home_is_refused() -> None:
    """Root would make the folder in the root directory."""
    with pytest.raises(ConfigurationError, match=r"^HOME is '', but all commands .*; write an absolute path"):
        Home.of({"HOME": "", "MIRAGE_HOME": ""})


def test_a_folder_that_belongs_to_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root could write in it, and its jobs would be submitted again, as jobs of root."""
    another = pwd.getpwuid(1)
    if os.geteuid() == 0:
        os.chown(tmp_path, another.pw_uid, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: another.pw_uid)
        another = pwd.getpwuid(tmp_path.stat().st_uid)
    with pytest.raises(ConfigurationError, match=f"{tmp_path} belongs to {another.pw_name}, and so do the jobs"):
        Home.of({"MIRAGE_HOME": str(tmp_path)})
    with monkeypatch.context() as closed:
        closed.setattr(os, "access", lambda path, mode: False)
        with pytest.raises(ConfigurationError, match=f"belongs to {another.pw_name}, and so do the jobs"):
            Home.of({"MIRAGE_HOME": str(tmp_path)})
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid)
    assert Home.of({"MIRAGE_HOME": str(tmp_path)}).folder == tmp_path


def test_root_makes_no_folder_in_one_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid():
        pytest.skip("the folder of another user needs root")
    another = pwd.getpwuid(1)
    os.chown(tmp_path, another.pw_uid, -1)
    with pytest.raises(
        ConfigurationError, match=f"{tmp_path}/a/.mirage would be in {tmp_path}, which belongs to {another.pw_name}; "
    ):
        Home.of({"HOME": f"{tmp_path}/a"})
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(os, "geteuid", lambda: 2**31)  # a member of a group whose folder this is
    assert Home.of({"HOME": f"{tmp_path}/a"}).folder.is_dir()


def test_a_folder_that_is_closed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # what a user gets who is not root
    with pytest.raises(ConfigurationError, match=f"the folder {tmp_path} is closed to this user; .* with MIRAGE_HOME"):
        Home.of({"MIRAGE_HOME": str(tmp_path)})
    assert Home.of({"MIRAGE_HOME": f"{tmp_path}/new"}).folder == tmp_path / "new"


def test_what_was_open_is_closed_but_the_folder_itself_is_its_owner_s(tmp_path: Path) -> None:
    script = tmp_path / "home" / "chains" / "train" / "script" / "job.sh"
    script.parent.mkdir(parents=True)
    script.write_text("old")
    (tmp_path / "home" / "agent.log").write_text("zero\n")
    (tmp_path / "home" / "notes").mkdir()
    made(tmp_path / "home")
    assert modes(tmp_path / "home") == CLOSED | {"home": 0o777, "home/notes": 0o777}
    assert (tmp_path / "home" / "agent.log").read_text() == "zero\none\n"
    assert script.read_text() == "#!/bin/sh\n"


def test_a_link_in_the_folder_opens_and_closes_nothing_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "chains").symlink_to(tmp_path / "elsewhere")
    Home.of({"MIRAGE_HOME": str(tmp_path / "home")})
    assert stat.S_IMODE((tmp_path / "elsewhere").stat().st_mode) == 0o777


@pytest.mark.parametrize(
    ("mode", "writers"),
    [(0o700, ""), (0o755, ""), (0o770, "its group"), (0o702, "everybody"), (0o777, "its group and everybody")],
)
def test_a_folder_in_which_others_write_is_reported(tmp_path: Path, mode: int, writers: str) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home").chmod(mode)
    assert Home.of({"MIRAGE_HOME": str(tmp_path / "home")}).writers == writers


def test_a_folder_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(StoreError, match=r"cannot make .*name another folder with MIRAGE_HOME"):
            Home.of({"MIRAGE_HOME": str(folder)})
