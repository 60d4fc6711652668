"""The foreground loop of ``mirage endpoint --watch``."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from time import localtime, sleep, strftime
from typing import TYPE_CHECKING

import click

from mirage.cli import cli_context as cluster
from mirage.errors import ConfigurationError, SlurmError, StoreError, UnknownName, WrongCluster, shortened, shown

if TYPE_CHECKING:
    from mirage.agent.endpoint import Endpoint
    from mirage.agent.model import Chain, Link
    from mirage.agent.store.sql_store import SqlStore
    from mirage.slurm.client import SlurmClient
    from mirage.slurm.records import QueuedJob

LONGEST_PAUSE_S = 30
"""Longest pause between two queries while Slurm or the store does not answer, in seconds."""


class Follower:
    """The endpoint file of one chain, written by this process.

    Attributes:
        job: The live job at the last answered query.
        links: The links of the chain, as last read from the store.
    """

    def __init__(self, chain: Chain, endpoint: Endpoint) -> None:
        self.chain, self.endpoint = chain, endpoint
        self.slurm: SlurmClient = cluster.client()
        self.job: QueuedJob | None = None
        self.links: list[Link] = []
        self.reload_due = False
        self.complaint = ""

    def query_slurm(self) -> None:
        """Queries Slurm for the live job among the known links: one command."""
        from mirage.agent.endpoint import live_job, numbers_of

        jobs = {job.id: job for job in self.slurm.observe_jobs(numbers_of(self.links))}
        self.job = live_job(self.links, jobs, self.chain)

    def write(self) -> bool:
        """Writes the file if it changes, runs the reload command; returns whether both succeeded.

        A failed reload command is run again the next time.
        """
        from mirage.agent.cycle.readiness import SystemShell
        from mirage.agent.endpoint import RELOAD_S, write_if_changed

        wanted = self.endpoint
        if write_if_changed(wanted.file, wanted.text(self.job)):
            self.reload_due, self.complaint = bool(wanted.reload), ""
            click.echo(f"{wanted.chain} {wanted.target(self.job)}", err=True)
        if self.reload_due and not SystemShell().succeeds(wanted.reload, os.environ, ".", RELOAD_S):
            self.complain(f"{shown(wanted.reload)} failed; run it in a shell, which prints its error")
            return False
        self.reload_due, self.complaint = False, ""
        return True

    def complain(self, what: str) -> None:
        """Prints a problem, once while it lasts."""
        if what != self.complaint:
            click.echo(f"mirage: {what}", err=True)
        self.complaint = what


class Watch:
    """The loop of ``--watch``, which runs until its chain ends, even without contact.

    Args:
        every_s: Seconds between two queries while Slurm and the store answer.

    Attributes:
        answered: Whether Slurm has answered at least once with the live job, or with none.
        identity: Identity of the store at the start; only that store can have removed the chain.
        lost: Why contact is lost; empty while there is contact.
        good_s: When store and Slurm last answered.
    """

    def __init__(self, chain: Chain, endpoint: Endpoint, every_s: int) -> None:
        self.chain, self.endpoint, self.every_s = chain, endpoint, every_s
        self.follower = Follower(chain, endpoint)
        self.store: SqlStore | None = None
        self.answered = False
        self.identity = ""
        self.lost = ""
        self.good_s = cluster.clock()

    def run(self) -> None:
        """Follows the chain until it is done or removed.

        Raises:
            ConfigurationError: The file cannot be written at the start, or at the end.
        """
        try:
            self._run()
        finally:
            self._close()

    def _run(self) -> None:
        pause_s, written = self.every_s, False
        while True:
            over, trouble = self._query()
            self._note_contact(trouble)
            try:
                done = self.follower.write() if self.answered else True
                written = written or self.answered
            except ConfigurationError as error:
                if over or not written:
                    raise
                self.follower.complain(str(error))
                done = False
            if over:
                click.echo(f"mirage: {over}; {self.endpoint.file} points nowhere now", err=True)
                if not done:
                    raise ConfigurationError(f"{shown(self.endpoint.reload)} failed at the end; run it again")
                return
            pause_s = min(2 * pause_s, max(LONGEST_PAUSE_S, self.every_s)) if trouble else self.every_s
            sleep(pause_s)

    def _query(self) -> tuple[str, str]:
        """Returns why the chain is over and why store or Slurm gave no answer; empty for neither.

        If only the store gives no answer, Slurm is queried for the known links, so that an ended job leaves the file.
        """
        from mirage.slurm.backend import cluster_of

        trouble, known = "", bool(self.follower.links)
        try:
            if over := self._query_store():
                self.follower.job, self.answered = None, True
                return over, ""
            known = True
        except StoreError as error:
            trouble = str(error)
            self._close()
        try:
            if known:
                if self.lost and self.store is not None:  # the same slurm.conf may name another cluster since
                    self.store.check_cluster(cluster_of(self.follower.slurm.configuration()))
                self.follower.query_slurm()
                self.answered = True
        except (SlurmError, WrongCluster) as error:
            trouble = trouble or str(error)
        return "", trouble

    def _query_store(self) -> str:
        """Refreshes the links of a live chain; returns why it is over, empty while it is not.

        Raises:
            StoreError: It gives no answer, or another store is in its place: only the store that had the chain can have
                removed it.
        """
        if self.store is None:
            self.store = _open_again()
        store = self.store
        identity = store.identity().identity
        self.identity = self.identity or identity
        if identity != self.identity:
            raise StoreError(f"{store.engine.url} is another store than before; mirage agent recover restores that one")
        try:
            chain = store.chain(self.chain.name)
        except UnknownName:
            return f"chain {self.chain.name} was removed"
        if chain.key != self.chain.key:
            return f"chain {self.chain.name} was removed, and there is another of that name"
        if chain.state.value == "done":
            return f"chain {self.chain.name} is done ({chain.why})"
        self.follower.links = store.links(chain.id)
        return ""

    def _note_contact(self, trouble: str) -> None:
        """Prints when contact is lost, and when it is back."""
        now_s = cluster.clock()
        if trouble and not self.lost:
            since = strftime("%Y-%m-%dT%H:%M:%S", localtime(self.good_s))
            why = shortened(" ".join(trouble.split()), 300)
            target = f" ({self.endpoint.target(self.follower.job)})" if self.answered else ""
            click.echo(
                f"mirage: contact lost since {since}: {why}; {self.endpoint.file} stays as it is{target}, "
                "and queries continue",
                err=True,
            )
        if not trouble:
            if self.lost:
                click.echo(f"mirage: contact is back after {now_s - self.good_s:.0f} s", err=True)
            self.good_s = now_s
        self.lost = trouble

    def _close(self) -> None:
        """Closes the store; the next query opens it again."""
        store, self.store = self.store, None
        if store is not None:
            store.close()


def _open_again() -> SqlStore:
    """Opens an existing store; a missing one is not created, as its folder may come back.

    Raises:
        StoreError: The store does not exist, or cannot be opened.
    """
    from sqlalchemy.engine import make_url

    from mirage.agent.paths import Home
    from mirage.agent.store.sql_store import open_store
    from mirage.agent.store.store_file import path_of

    url = Home.named(os.environ).store_url
    path = path_of(make_url(url))
    if path is not None and not path.exists():
        raise StoreError(f"there is no store {path} now; mirage agent recover restores a lost one")
    return open_store(url)


class _Ended(BaseException):
    """A signal that ends the watch."""


@contextmanager
def ended_by_signal() -> Iterator[list[str]]:
    """Ends its body at SIGTERM or SIGINT without an error; yields the name of the signal."""
    arrived: list[str] = []

    def end(number: int, _: object) -> None:
        if not arrived:
            arrived.append(signal.Signals(number).name)
            raise _Ended

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield arrived
    except _Ended:
        pass
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
