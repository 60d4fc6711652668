"""The home folder, the store, the cluster and the clock of commands about chains."""

from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from mirage.agent.paths import Home
    from mirage.agent.site_file import SiteFile
    from mirage.agent.store.sql_store import SqlStore
    from mirage.slurm.client import SlurmClient
    from mirage.slurm.ssh_runner import SshRunner

clock: Callable[[], float] = lambda: time.clock_gettime(time.CLOCK_REALTIME)  # noqa: E731
"""The wall clock; on a cluster with a compressed clock, that clock."""


def home() -> Home:
    """Returns the folder of this user's agent; warns once if other users can write there."""
    from mirage.agent.paths import Home

    found = Home.of(os.environ)
    if found.writers:
        _warn(
            f"{found.writers} can write in {found.folder}, and so have jobs submitted in your name; "
            f"chmod go-w {found.folder}"
        )
    return found


@functools.cache
def _warn(text: str) -> None:
    print(f"mirage: warning: {text}", file=sys.stderr)


@contextmanager
def store(*, to_read: bool = False) -> Iterator[SqlStore]:
    """Opens the store for one command.

    Args:
        to_read: Whether the command only reads; a store that cannot be written is then read, with a warning.
    """
    from mirage.agent.store.sql_store import open_store, open_to_read

    url = home().store_url
    opened = open_to_read(url) if to_read else open_store(url)
    if opened.unwritable:
        _warn(f"the store is opened read-only: {opened.unwritable}")
    try:
        yield opened
    finally:
        opened.close()


def check_cluster(opened: SqlStore, timeout_s: float | None = None) -> None:
    """Checks that Slurm's commands reach the cluster of the store's chains; ignores silence.

    Args:
        timeout_s: Seconds after which a silent controller is ignored; None for the default time-out.

    Raises:
        WrongCluster: They reach another cluster.
    """
    from mirage.errors import SlurmError
    from mirage.slurm.backend import cluster_of

    if not opened.identity().cluster:
        return
    try:
        found = cluster_of(client(timeout_s).configuration())
    except SlurmError:  # the cluster is unknown, so nothing is known to be wrong
        return
    opened.check_cluster(found)


def site_copy() -> Path:
    """Returns the path of the copy of the rules of the host of ``MIRAGE_SSH``."""
    from mirage.agent.paths import folder_of

    return folder_of(os.environ) / "ssh" / f"site-{os.environ['MIRAGE_SSH'].removeprefix('ssh://')}.toml"


def site_rules() -> SiteFile:
    """Returns the rules of the site and of the user.

    With ``MIRAGE_SSH`` they are those of the other host, as the last agent has copied them.

    Raises:
        ConfigurationError: A file cannot be used.
    """
    from mirage.agent.site_file import read_site_files

    return read_site_files(os.environ, site_copy() if os.environ.get("MIRAGE_SSH") else None)


def check_login_node(work: str) -> None:
    """Checks that this host may do heavy work; the site file names the login nodes.

    Args:
        work: In words: "compile the simulator".

    Raises:
        ConfigurationError: It is a login node.
    """
    from mirage.agent.site_file import read_site_files
    from mirage.errors import ConfigurationError

    if why := read_site_files(os.environ).login_refusal(work):
        raise ConfigurationError(why)


def client(timeout_s: float | None = None) -> SlurmClient:
    """Returns a client of Slurm's commands, with the queue source of ``MIRAGE_QUEUE``.

    The commands are those on PATH, or with ``MIRAGE_SSH`` those of another host.

    Raises:
        RequestNotSent: The file of ``SLURM_CONF`` is not there, for which each of Slurm's commands waits for a minute.
    """
    from mirage.errors import RequestNotSent, shown
    from mirage.slurm.queue_source import client_from
    from mirage.slurm.runner import TIMEOUT_S, SystemRunner

    if os.environ.get("MIRAGE_SSH"):
        runner = ssh_runner(timeout_s)
        return client_from(os.environ, runner, clock, user=runner.login_name())
    if (conf := os.environ.get("SLURM_CONF")) is not None and not os.path.exists(conf):
        raise RequestNotSent(f"SLURM_CONF is {shown(conf)}, and there is no such file; name the cluster's, or unset it")
    on_slow = _report_wait if timeout_s is None else None
    return client_from(os.environ, SystemRunner(timeout_s=timeout_s or TIMEOUT_S, on_slow=on_slow), clock)


@functools.cache
def _report_wait() -> None:
    """Reports once that Slurm has not answered for some time."""
    from mirage.slurm.runner import TIMEOUT_S

    print(f"mirage: waits for Slurm; each command has {TIMEOUT_S:g} s", file=sys.stderr)


def check_controller(slurm: SlurmClient) -> None:
    """Checks by a ping and a small query that the controller answers.

    A dead one is found at once, and not by the time-out of each command.

    Raises:
        SlurmUnreachable: It does not answer.
    """
    from mirage.errors import SlurmRefused

    with suppress(SlurmRefused):  # it answers that the job of the query does not exist
        slurm.probe()


def ssh_runner(timeout_s: float | None = None) -> SshRunner:
    """Returns the runner of Slurm's commands on the host of ``MIRAGE_SSH``.

    Raises:
        ConfigurationError: ssh cannot use the host.
        StoreError: The folder for its socket cannot be made.
    """
    from mirage.agent.paths import private_folder
    from mirage.errors import StoreError
    from mirage.slurm.runner import TIMEOUT_S
    from mirage.slurm.ssh_runner import SshRunner

    folder = home().folder / "ssh"
    try:
        private_folder(folder)
    except OSError as error:
        raise StoreError(f"cannot make {folder}: {error.strerror}; name another folder with MIRAGE_HOME") from error
    return SshRunner(os.environ["MIRAGE_SSH"], folder, timeout_s or TIMEOUT_S)
