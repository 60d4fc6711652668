"""Endpoints that the agent follows: it writes the files of proxies in its cycle."""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mirage.agent.endpoint import RELOAD_S, Endpoint, Port, check_file, live_job, render, write_if_changed
from mirage.agent.model import Chain, ChainState, EventRecord, Link
from mirage.agent.paths import Home, private_folder
from mirage.atomic_file import write_atomically
from mirage.daemon_threads import answer_in_thread
from mirage.errors import ConfigurationError, StoreError, UnknownName, reason, shown
from mirage.slurm.records import QueuedJob

if TYPE_CHECKING:
    from mirage.agent.cycle.context import CycleContext
    from mirage.agent.cycle.handover import Shell

log = logging.getLogger("mirage.agent")

CHECK_S = 60.0
"""Real seconds after which an unchanged file is compared again: another program may have written it."""

FIRST_RETRY_S, LONGEST_RETRY_S = 5.0, 300.0
"""Real seconds until the next attempt after trouble; the time doubles with each attempt."""

HANGS_S = 30.0
"""Real seconds that writing a file may take, in addition to the reload command, until it is reported."""

TURNS_S = 300
"""Seconds after its readiness for which a link is not taken over from while a proxy does not point to it."""

SOON_S, SOON_EVERY_S = 10.0, 2
"""Real seconds in which a proxy that turns is checked often, and the time between two checks."""


def install_endpoint(home: Home, endpoint: Endpoint) -> None:
    """Persist an endpoint, which the agent follows from its next cycle on.

    Raises:
        ConfigurationError: The file belongs to another chain, or cannot be written.
    """
    path = _path(home, endpoint.file)
    check_unfollowed(home, endpoint, replaces=True)
    check_file(endpoint.file)
    if endpoint.file.is_dir():
        raise ConfigurationError(f"cannot write {endpoint.file}: it is a folder; name a file")
    folder = os.path.dirname(os.path.realpath(endpoint.file))
    try:
        tempfile.TemporaryFile(dir=folder).close()  # a right to write does not suffice, as in /proc
    except OSError as error:
        raise ConfigurationError(
            f"cannot write {endpoint.file}: the folder {folder} is absent or not writable for this user; make it, or "
            "name another file"
        ) from error
    text = json.dumps(
        {
            "chain": endpoint.chain,
            "kind": endpoint.kind,
            "port": str(endpoint.port),
            "file": str(endpoint.file),
            "reload": endpoint.reload,
        },
        indent=1,
    )
    try:
        private_folder(path.parent)
        write_atomically(path, text.encode(), 0o600)
    except OSError as error:
        raise ConfigurationError(f"cannot write {path}: {error.strerror}; name another MIRAGE_HOME") from error


def check_unfollowed(home: Home, endpoint: Endpoint, *, replaces: bool = False) -> None:
    """Refuse a file, or a link to one, that the agent writes for another chain or form.

    Args:
        replaces: Whether the form is to be replaced.

    Raises:
        ConfigurationError: It is one.
    """
    for known in installed_endpoints(home)[0]:
        has_form = replaces or (known.kind, known.port) == (endpoint.kind, endpoint.port)
        same_file = os.path.realpath(known.file) == os.path.realpath(endpoint.file)
        if same_file and not (has_form and known.chain == endpoint.chain):
            raise ConfigurationError(
                f"{known.file} follows chain {known.chain} already; mirage endpoint {known.chain} --uninstall ends that"
            )


def uninstall_endpoints(home: Home, chain: str, file: Path | None = None) -> list[Path]:
    """Remove the endpoints of a chain, or the one of a file; returns their files.

    The files themselves stay as they are.
    """
    removed = []
    for known in installed_endpoints(home)[0]:
        if known.chain == chain and file in (None, known.file):
            _path(home, known.file).unlink(missing_ok=True)
            removed.append(known.file)
    return removed


def installed_endpoints(home: Home) -> tuple[list[Endpoint], dict[Path, str]]:
    """The endpoints by chain and file, and the unreadable files with the reason."""
    found, unread = [], {}
    for path in sorted(home.endpoints.glob("*.json")):
        try:
            row = json.loads(path.read_bytes())
            endpoint = Endpoint(
                row["chain"], row["kind"], Port.parse(row["port"]), Path(row["file"]), str(row["reload"])
            )
            render(endpoint.kind, endpoint.chain, None, 1)
            found.append(endpoint)
        except FileNotFoundError:
            continue
        except OSError as error:
            unread[path] = str(error.strerror)
        except (ValueError, KeyError, TypeError, ConfigurationError) as error:
            unread[path] = f"it describes no endpoint ({reason(error)})"
    return sorted(found, key=lambda endpoint: (endpoint.chain, endpoint.file)), unread


def _path(home: Home, file: Path) -> Path:
    return home.endpoints / f"{hashlib.blake2b(os.fsencode(file), digest_size=8).hexdigest()}.json"


@dataclass(slots=True)
class _Progress:
    """The state of one endpoint.

    Attributes:
        text: Text of the last attempt to write the file.
        work: The attempt under way, in a thread of its own.
        begun_s: Its start, real seconds; of the last one where none is under way.
        reloaded: Whether the reload command has succeeded since the file changed, and since the agent began: an agent
            that was killed between the two may have left it undone.
        failures: Attempts in a row that failed.
        trouble: What was reported last; empty for nothing.
        reported: The target that was reported last.
    """

    text: str = ""
    work: Future[str] | None = None
    begun_s: float = 0.0
    reloaded: bool = False
    failures: int = 0
    trouble: str = ""
    target: str = ""
    link: int = 0
    reported: str = ""


class InstalledEndpoints:
    """The endpoints that the agent follows.

    A file is written, and its proxy reloaded, in a thread: neither a folder that hangs nor a reload command delays the
    cycle. A problem is an event of the chain, and tried again; it affects no other chain or endpoint.

    Args:
        home: The agent's folder, which holds the endpoints.
        shell: Runs reload commands, in ``/`` with the agent's environment.
        real_s: Clock of real seconds that never goes back.
        reload_s: Real seconds that a reload command may take.
    """

    def __init__(self, home: Home, shell: Shell, real_s: Callable[[], float], reload_s: float = RELOAD_S) -> None:
        self.home, self.shell, self.real_s, self.reload_s = home, shell, real_s, reload_s
        self._progress: dict[Endpoint, _Progress] = {}
        self._unread: dict[Path, str] = {}
        self._waits: dict[int, tuple[int, float]] = {}

    def turn_in_s(self, context: CycleContext, chain: Chain, link: Link) -> int:
        """Seconds until the proxies of a chain are checked again; 0 once all have turned.

        A proxy has turned when it points to the link that is ready.

        The previous link is signalled after that, so that it gets no further requests while it completes its own. A
        proxy that fails to turn for ``TURNS_S`` is not waited for: two jobs hold nodes meanwhile.
        """
        number, since_s = self._waits.get(chain.id, (0, 0.0))
        if number != link.number:
            number, since_s = self._waits[chain.id] = link.number, self.real_s()
        try:
            endpoints = [one for one in installed_endpoints(self.home)[0] if one.chain == chain.name]
        except OSError:
            endpoints = [one for one in self._progress if one.chain == chain.name]
        job = context.job_of(chain, link)
        if all(self._points_to(endpoint, endpoint.text(job)) for endpoint in endpoints):
            return 0
        if self.real_s() - since_s < SOON_S:
            return SOON_EVERY_S
        return 0 if context.now_s - link.ready_s >= TURNS_S else math.ceil(context.settings.busy_poll_s)

    def _points_to(self, endpoint: Endpoint, text: str) -> bool:
        """Whether a file has a text, and its proxy was reloaded since."""
        progress = self._progress.get(endpoint)
        if progress is None or progress.text != text:
            return False
        if progress.work is None:
            return not progress.failures
        return progress.work.done() and not progress.work.result()

    def refresh(self, context: CycleContext) -> None:
        """Update every file from this cycle's snapshot, unless an attempt is under way.

        Raises:
            StoreError: An event cannot be written.
        """
        try:
            endpoints, unread = installed_endpoints(self.home)
        except OSError as error:
            endpoints, unread = list(self._progress), {self.home.endpoints: str(error.strerror)}
        for path, why in unread.items():
            if self._unread.get(path) != why:
                log.warning("trouble", extra={"detail": f"{path}: {why}; remove it, and install the endpoint again"})
        self._unread = unread
        self._waits = {chain: wait for chain, wait in self._waits.items() if chain in context.chains}
        for gone in self._progress.keys() - endpoints:
            del self._progress[gone]
        for endpoint in endpoints:
            try:
                self._follow(context, endpoint, self._progress.setdefault(endpoint, _Progress()))
            except StoreError:
                raise
            except Exception as error:
                log.exception("fault", extra={"chain": endpoint.chain, "detail": f"in the endpoint {endpoint.file}"})
                fault = f"a fault of Mirage: {type(error).__name__}: {error}"
                self._note_trouble(context, endpoint, self._progress[endpoint], fault)

    def close(self, patience_s: float = 2.0) -> None:
        """Wait a moment for files being written; threads that hang end with the process."""
        end_s = self.real_s() + patience_s
        for progress in self._progress.values():
            if progress.work is not None:
                wait_s = max(end_s - self.real_s(), 0.0)
                done = threading.Event()
                progress.work.add_done_callback(lambda _, done=done: done.set())  # type: ignore[misc]
                done.wait(wait_s)

    def _follow(self, context: CycleContext, endpoint: Endpoint, progress: _Progress) -> None:
        now_s = self.real_s()
        if progress.work is not None and not self._collect(context, endpoint, progress, now_s):
            return
        link, job = _live(context, endpoint.chain)
        text = endpoint.text(job)
        if progress.failures:
            pause_s = min(FIRST_RETRY_S * 2 ** min(progress.failures - 1, 10), LONGEST_RETRY_S)
        else:
            pause_s = CHECK_S
        if text == progress.text and now_s - progress.begun_s < pause_s:
            return
        progress.text, progress.target, progress.link = text, endpoint.target(job), link
        progress.begun_s = now_s
        work = partial(self._apply, endpoint, text, progress)
        progress.work = answer_in_thread(partial(_answer, work), "endpoint")

    def _apply(self, endpoint: Endpoint, text: str, progress: _Progress) -> str:
        """Write the file and reload the proxy; returns the error, empty for none. Threaded."""
        try:
            if write_if_changed(endpoint.file, text):
                progress.reloaded = False
        except ConfigurationError as error:
            return str(error)
        due = bool(endpoint.reload) and not progress.reloaded
        if due and not self.shell.succeeds(endpoint.reload, os.environ, "/", self.reload_s):
            words = f"{shown(endpoint.reload)} failed, or took longer than {self.reload_s:g} s"
            return f"{endpoint.file} is written, but {words}"
        progress.reloaded = True
        return ""

    def _collect(self, context: CycleContext, endpoint: Endpoint, progress: _Progress, now_s: float) -> bool:
        """Report the result of an attempt; False while it is under way."""
        assert progress.work is not None
        if not progress.work.done():
            if now_s - progress.begun_s > self.reload_s + HANGS_S:
                hangs = f"{endpoint.file} is not written after {now_s - progress.begun_s:.0f} s: does its folder hang?"
                self._note_trouble(context, endpoint, progress, progress.trouble or hangs)
            return False
        trouble, progress.work = progress.work.result(), None
        progress.failures = progress.failures + 1 if trouble else 0
        self._note_trouble(context, endpoint, progress, trouble)
        if not trouble and progress.reported != progress.target:
            progress.reported = progress.target
            _report(context, endpoint, progress.link, "endpoint", progress.target)
        return True

    def _note_trouble(self, context: CycleContext, endpoint: Endpoint, progress: _Progress, trouble: str) -> None:
        """Report a problem when it begins or changes, and when it is over."""
        if trouble == progress.trouble:
            return
        kind = "endpoint-trouble" if trouble else "endpoint-trouble-over"
        progress.trouble = trouble
        _report(context, endpoint, 0, kind, trouble)


def _live(context: CycleContext, chain: str) -> tuple[int, QueuedJob | None]:
    """The link and the job that serve now; 0 and None where there is none."""
    known = next((one for one in context.chains.values() if one.name == chain), None)
    if known is None or known.state is ChainState.DONE:
        return 0, None
    links = context.links.get(known.id, [])
    job = live_job(links, context.snapshot.by_id, known)
    return next((link.number for link in links if job is not None and link.job == job.id), 0), job


def _report(context: CycleContext, endpoint: Endpoint, link: int, kind: str, detail: str) -> None:
    """An event of the chain, where there is one, and a line of the agent's log."""
    if str(endpoint.file) not in detail:
        detail = f"{endpoint.file} {detail}".strip()
    level = logging.WARNING if kind == "endpoint-trouble" else logging.INFO
    log.log(level, kind, extra={"chain": endpoint.chain, "link": link, "detail": detail})
    try:
        known = context.store.chain(endpoint.chain)
    except UnknownName:
        return
    context.store.change_chain(known.id, EventRecord(known.id, link, context.now_s, kind, detail))


def _answer(work: Callable[[], str]) -> str:
    try:
        return work()
    except BaseException as error:
        return f"a fault of Mirage: {type(error).__name__}: {error}"
