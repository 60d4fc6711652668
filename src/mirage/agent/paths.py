"""The agent's folder: ``MIRAGE_HOME``, by default ``~/.mirage``, closed to others."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from mirage.atomic_file import write_atomically
from mirage.errors import ConfigurationError, StoreError, shown
from mirage.user_folder import user_folder

LINK_SCRIPT = "link.sh"
"""Batch script of every link, in the folder of a chain without an agent."""

CALIBRATIONS = "calibration"


@dataclass(frozen=True, slots=True)
class Home:
    """The agent's folder, and the paths in it.

    Attributes:
        store_url: ``MIRAGE_STORE``, by default an SQLite file in the folder.
    """

    folder: Path
    store_url: str

    @classmethod
    def named(cls, environment: Mapping[str, str]) -> Home:
        """The folder and the store that the environment names; they may not exist.

        Raises:
            ConfigurationError: The store is in memory, or a path is relative.
        """
        url = environment.get("MIRAGE_STORE", "")
        if re.fullmatch(r"sqlite[\w+]*:/{0,3}(?!/|file:).*", url):
            raise ConfigurationError(
                f"MIRAGE_STORE is {shown(url)}, but all commands and the agent must find the same file; write an "
                "absolute path, with four slashes: sqlite:////path/to/file"
            )
        folder = folder_of(environment).absolute()
        place = str(folder.resolve()).replace("%", "%25").replace("?", "%3F")  # only these mean something in the URL
        return cls(folder, url or f"sqlite:///{place}/store.db")

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Home:
        """The folder and the store that the environment names; makes the folder.

        Raises:
            ConfigurationError: The store is in memory, or a path is relative.
            StoreError: The folder cannot be created.
        """
        home = cls.named(environment)
        folder = home.folder
        try:
            private_folder(folder)
            close_to_others(folder / "chains", folder / "endpoints", folder / "agent.log")
        except OSError as error:
            raise StoreError(f"cannot make {folder}: {error.strerror}; name another folder with MIRAGE_HOME") from error
        return home

    def check_writable(self) -> None:
        """Check that files can be written in the folder, which may not exist; leaves none.

        Raises:
            StoreError: They cannot.
        """
        try:
            try_folder(self.folder)
        except OSError as error:
            do = "write" if self.folder.is_dir() else "make"
            raise StoreError(
                f"cannot {do} {self.folder}: {error.strerror}; name another folder with MIRAGE_HOME"
            ) from error

    @property
    def writers(self) -> str:
        """Other users with write access to the folder, as text; empty for none."""
        mode = self.folder.stat().st_mode
        return " and ".join(
            group for bit, group in ((stat.S_IWGRP, "its group"), (stat.S_IWOTH, "everybody")) if mode & bit
        )

    @property
    def log(self) -> Path:
        """The log file of an agent in the background."""
        return self.folder / "agent.log"

    @property
    def logs(self) -> tuple[Path, Path]:
        """The log files of an agent in the background, and of one in a job."""
        return self.log, self.folder / "agent-job.log"

    @property
    def agent_state(self) -> Path:
        """The file in which the agent writes its present outage."""
        return self.folder / "agent.state"

    @property
    def pass_memory(self) -> Path:
        """The file that a pass of the agent leaves for the next one."""
        return self.folder / "agent.pass"

    @property
    def promises(self) -> Path:
        """The file of forecasts of ``mirage predict``, and of their outcomes."""
        return self.folder / "promises.db"

    @property
    def calibrations(self) -> Path:
        """The folder of the results of ``mirage calibrate --site``, by cluster."""
        return self.folder / CALIBRATIONS

    @property
    def endpoints(self) -> Path:
        """The folder of the endpoints that the agent follows."""
        return self.folder / "endpoints"

    def open_log(self) -> BinaryIO:
        """The log file, opened to append; only its owner may read it.

        Raises:
            StoreError: It cannot be written.
        """
        try:
            file = os.fdopen(os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600), "ab")
        except OSError as error:
            raise StoreError(f"cannot write the log {self.log}: {error.strerror}") from error
        close_to_others(self.log)
        return file

    def chain_folder(self, chain: str) -> Path:
        """The folder of a chain: the copies of its script, and its specification."""
        return self.folder / "chains" / chain

    def agentless_folder(self, chain: str) -> Path:
        """The folder of a chain without an agent."""
        return agentless_folder(self.folder, chain)

    def agentless_chains(self) -> list[str]:
        """The names of the chains without an agent that have not ended."""
        folders = (script.parent for script in self.folder.glob(f"agentless/*/{LINK_SCRIPT}"))
        return sorted(one.name for one in folders if not (one / "stop").exists() and not (one / "done").exists())

    def forget(self, chain: str) -> None:
        """Remove the files of a chain."""
        shutil.rmtree(self.chain_folder(chain), ignore_errors=True)

    def spool(self, chain: str, name: str, text: bytes) -> Path:
        """Store a copy of a chain's script for its links; returns its path from the folder.

        The folder may be moved.

        Args:
            name: Name of the copy in the chain's folder, ``script/job.sh``.

        Raises:
            StoreError: It cannot be written.
        """
        folder = self.chain_folder(chain)
        path = folder / name
        try:
            private_folder(path.parent)
            close_to_others(folder)
            write_atomically(path, text, 0o700)
        except OSError as error:
            raise StoreError(f"cannot store a copy of the script in {folder}: {error.strerror}") from error
        return path.relative_to(self.folder)


def agentless_folder(folder: Path, chain: str) -> Path:
    """The folder of a chain without an agent, in the agent's folder."""
    return folder / "agentless" / chain


def stop_agentless(folder: Path) -> None:
    """Let no job of a chain without an agent submit another one.

    A waiting one is cancelled at the next pass.

    Raises:
        StoreError: The file cannot be made.
    """
    try:
        (folder / "stop").touch()
    except OSError as error:
        raise StoreError(
            f"cannot write {folder}/stop: {error.strerror}; make this file, or the job submits another one, too"
        ) from error


def folder_of(environment: Mapping[str, str]) -> Path:
    """The folder from the environment, which may not exist.

    Raises:
        ConfigurationError: Its path is relative, as with a quoted ``~``, or it is closed to this user, or another's;
            or root would make it in a folder of another user; or no home folder is known.
    """
    name = "MIRAGE_HOME" if environment.get("MIRAGE_HOME") else "HOME"
    named = environment.get(name)
    if named is not None and not Path(named).is_absolute():
        raise ConfigurationError(
            f"{name} is {shown(named)}, but all commands and the agent must find the same folder; write an "
            "absolute path, or ~/FOLDER without quotes"
        )
    folder = user_folder(environment, "MIRAGE_HOME", ".mirage")
    there = next(one for one in (folder, *folder.parents) if os.path.exists(one))
    owner = _other_user(there.stat().st_uid)
    if owner and there == folder:
        raise ConfigurationError(
            f"the folder {folder} belongs to {owner}, and so do the jobs of its chains; run this as {owner}, or name a "
            "folder of your own with MIRAGE_HOME"
        )
    if owner and os.geteuid() == 0:  # another user may share a folder with this one, but none with root
        raise ConfigurationError(
            f"the folder {folder} would be in {there}, which belongs to {owner}; run this as {owner}, or name a folder "
            "of your own with MIRAGE_HOME"
        )
    if os.path.isdir(folder) and not os.access(folder, os.R_OK | os.X_OK):
        raise ConfigurationError(
            f"the folder {folder} is closed to this user; name a folder of your own with MIRAGE_HOME"
        )
    return folder


def _other_user(owner: int) -> str:
    """Name of an owner other than this user; empty for none, and for an unknown one.

    Root may have made the folder for a user. Files of an unknown owner are shown as those of ``nobody``.
    """
    if owner in (os.geteuid(), 0):
        return ""
    try:
        name = pwd.getpwuid(owner).pw_name
    except KeyError:
        return ""
    return name if name != "nobody" else ""


def private_folder(folder: Path) -> None:
    """Make a folder and its missing parents for their owner only, whatever the umask.

    Raises:
        OSError: It cannot be created.
    """
    for missing in reversed([one for one in (folder, *folder.parents) if not one.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)
    if not folder.is_dir():
        raise NotADirectoryError(0, "there is a file of that name", str(folder))


def try_folder(folder: Path) -> None:
    """Make a file and remove it, in a folder or in the nearest one that exists above it.

    Permissions alone do not show read-only and virtual file systems, full disks and quotas.

    Raises:
        OSError: It cannot be made or written.
    """
    there = next(one for one in (folder, *folder.parents) if os.path.lexists(one))
    with (
        tempfile.TemporaryDirectory(prefix=".mirage-", dir=there) as trial,
        (Path(trial) / "file").open("wb", buffering=0) as file,
    ):
        file.write(b"\0" * 4096)
        os.fsync(file.fileno())


def close_to_others(*paths: Path) -> None:
    """Remove the rights of group and others from our files.

    Files that are missing, or not ours, stay as they are.
    """
    for path in paths:
        try:
            found = path.lstat()
            wide = stat.S_IMODE(found.st_mode) & 0o077 and not stat.S_ISLNK(found.st_mode)
            if wide and found.st_uid == os.geteuid():
                path.chmod(stat.S_IMODE(found.st_mode) & 0o700)
                if path.is_dir():
                    close_to_others(*path.iterdir())
        except OSError:
            continue
