"""Queue, accounting and nodes through slurmrestd, without Slurm's commands.

Read-only: jobs are submitted and changed by the commands, which accept every option of the site.

    views = RestViews("http://127.0.0.1:6820", user="ada", token=os.environ["SLURM_JWT"], clock=time.time)
    queue = views.observe()
"""

from __future__ import annotations

import http.client
import json
import logging
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from mirage.errors import SlurmRefused, SlurmUnreachable, quantity, reason, shown
from mirage.slurm import slurm_json as json_values
from mirage.slurm.client import GONE, SlurmClient
from mirage.slurm.records import AccountedJob, Machine, Queue, QueuedJob
from mirage.slurm.runner import Runner

log = logging.getLogger("mirage.slurm")

TIMEOUT_S = 60.0
TOKEN_S = 86_400
"""Lifetime of a token that is made here."""

_T = TypeVar("_T")

_VERSIONED = re.compile(r"/slurm/v(\d{1,9})\.(\d{1,9})\.(\d{1,9})/jobs/?$", re.ASCII)


class TokenRefused(SlurmRefused):
    """A token that is not valid, or no longer."""


class PathUnknown(SlurmRefused):
    """A path that slurmrestd does not serve, or no longer."""


class RestViews:
    """Read-only access to a cluster through slurmrestd.

    Args:
        url: Where it listens, without a path.
        user: User of the token.
        token: A JSON web token, from ``scontrol token``.
        clock: The cluster's time, for snapshots.
        timeout_s: Longest wait for an answer.
    """

    def __init__(
        self,
        url: str,
        *,
        user: str,
        token: str,
        clock: Callable[[], float],
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self.url, self.timeout_s, self.clock = url.rstrip("/"), timeout_s, clock
        self.user, self.token = user, token
        self._version = ""

    def observe(self) -> Queue:
        """Every job the controller knows, including those that ended lately."""
        jobs = self._read("slurm", "jobs", json_values.queued_job, "job_id")
        return Queue(int(self.clock()), jobs)

    def ping(self) -> None:
        """Get an answer from the controller through slurmrestd.

        Raises:
            SlurmUnreachable: slurmrestd or the controller does not answer.
        """
        try:
            pings = self._get("slurm", "ping").get("pings")
        except TokenRefused:
            raise
        except SlurmRefused as error:  # slurmrestd answers with a 500 where it finds no controller (22.05.8)
            raise SlurmUnreachable("slurmrestd answered the ping with an error", str(error)) from error
        found = [one for one in (pings if isinstance(pings, list) else []) if isinstance(one, Mapping)]
        if not any("UP" in (one.get("ping"), one.get("pinged")) for one in found):
            raise SlurmUnreachable(f"{self.url} found no controller that is up", shown(pings))

    def job(self, number: int) -> tuple[QueuedJob, ...]:
        """The job with an id; none where the controller does not know it."""
        try:
            return self._read("slurm", f"job/{number}", json_values.queued_job, "job_id", "jobs")
        except SlurmRefused as error:
            if GONE.search(error.stderr):
                return ()
            raise

    def accounting(self, since_s: int) -> tuple[AccountedJob, ...]:
        """Jobs that were alive at or after a time."""
        return self._read("slurmdb", f"jobs?start_time={since_s}", json_values.accounted_job, "job_id")

    def machine(self) -> Machine:
        """Nodes and partitions."""
        nodes = self._read("slurm", "nodes", json_values.node, "name")
        partitions = self._read("slurm", "partitions", json_values.partition, "name")
        return Machine(nodes, partitions)

    def version(self) -> str:
        """The newest version of the interface that is served, such as ``v0.0.38``."""
        if not self._version:
            paths = self._fetch("/openapi/v3").get("paths")
            found = [_VERSIONED.search(path) for path in (paths if isinstance(paths, dict) else {})]
            served = sorted(tuple(map(int, one.groups())) for one in found if one is not None)
            if not served:
                raise SlurmRefused(f"{self.url} serves no /slurm/v…/jobs; is it slurmrestd?")
            self._version = "v" + ".".join(map(str, served[-1]))
        return self._version

    def _get(self, part: str, what: str) -> Mapping[str, Any]:
        version = self.version()
        try:
            answer = self._fetch(f"/{part}/{version}/{what}")
        except PathUnknown:
            if part != "slurm":  # no accounting
                raise
            self._version = ""  # an update of Slurm removes old versions of the interface
            if self.version() == version:
                raise
            answer = self._fetch(f"/{part}/{self.version()}/{what}")
        if errors := answer.get("errors"):
            message = "; ".join(map(_words, errors if isinstance(errors, list) else [errors]))
            raise SlurmRefused(f"slurmrestd refused /{part}/…/{what}", message)
        return answer

    def _read(
        self, part: str, what: str, read: Callable[[Mapping[str, Any]], json_values.Read], key: str, listed_as: str = ""
    ) -> tuple[json_values.Read, ...]:
        """The records of an answer; those that cannot be read are logged.

        Raises:
            SlurmUnreachable: The answer has no list, or no record can be read.
        """
        name = listed_as or what.partition("?")[0]
        listed = self._get(part, what).get(name)
        if listed is None:  # an empty list is an answer, but no list is not: jobs would count as gone
            raise SlurmUnreachable(f"slurmrestd answered /{part}/…/{what} without {shown(name)}; it may be overloaded")
        found, skipped = json_values.records(listed, read, key)
        if skipped.count:
            log.warning("records of slurmrestd skipped", extra={"count": skipped.count, "detail": skipped.first})
        if skipped.count and not found:
            raise SlurmUnreachable(
                f"slurmrestd answered /{part}/…/{what} with {quantity(skipped.count, 'record')} that cannot be read",
                skipped.first,
            )
        return found

    def _fetch(self, path: str) -> Mapping[str, Any]:
        headers = {"X-SLURM-USER-NAME": self.user, "X-SLURM-USER-TOKEN": self.token, "Accept": "application/json"}
        request = urllib.request.Request(self.url + path, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=self.timeout_s) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            message = _body(error).decode(errors="replace")[:500]
            if error.code in (401, 403):
                hint = "is the token still valid? `scontrol token` makes one"
                raise TokenRefused(f"slurmrestd answered {error.code} to {path}; {hint}", message) from error
            if error.code == 404:
                raise PathUnknown(f"slurmrestd answered 404 to {path}", message) from error
            kind = SlurmUnreachable if error.code >= 500 and "errors" not in message else SlurmRefused
            raise kind(f"slurmrestd answered {error.code} to {path}", message) from error
        except (OSError, ValueError, http.client.HTTPException) as error:  # the last one: only a part has arrived
            raise SlurmUnreachable(f"no answer from slurmrestd at {self.url}", reason(error)) from error
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise SlurmUnreachable(f"{self.url}{path} did not answer with JSON", str(error)) from error
        if not isinstance(found, dict):
            raise SlurmUnreachable(f"{self.url}{path} answered with a {type(found).__name__}, not an object")
        return found


def _body(error: urllib.error.HTTPError) -> bytes:
    """The text of an error, as far as it has arrived."""
    try:
        return error.read()
    except http.client.IncompleteRead as incomplete:
        return incomplete.partial
    except OSError:
        return b""


def _words(error: Any) -> str:
    """The text of an error of slurmrestd, from those of its fields that have any."""
    if not isinstance(error, Mapping):
        return str(error)
    return " ".join(str(error[key]) for key in ("description", "error", "source") if error.get(key))


class RestClient(SlurmClient):
    """A cluster observed through slurmrestd and changed by Slurm's commands.

    Args:
        url: Where slurmrestd listens.
        runner: Runs the commands.
        clock: The cluster's time.
        user: User of the token.
        token: The first token; ``scontrol token`` makes one where it is empty, and a new one after it has expired.
    """

    def __init__(self, url: str, runner: Runner, *, clock: Callable[[], float], user: str, token: str = "") -> None:
        super().__init__(runner, clock=clock)
        self._views = RestViews(url, user=user, token=token, clock=clock)

    def observe(self) -> Queue:
        """Every job the controller knows."""
        return self._query(RestViews.observe)

    def observe_jobs(self, numbers: Sequence[int]) -> tuple[QueuedJob, ...]:
        """Some of this user's jobs, one request per id; without those unknown to the controller."""
        found: list[QueuedJob] = []
        for number in numbers:
            found += self._query(partial(RestViews.job, number=number))
        return tuple(job for job in found if job.user == self.user and job.id in numbers)

    def machine(self) -> Machine:
        """Nodes and partitions."""
        return self._query(RestViews.machine)

    def probe(self) -> None:
        """One ping of the controller through slurmrestd."""
        self._query(RestViews.ping)

    def accounting(self, since_s: int) -> tuple[AccountedJob, ...]:
        """Jobs alive at or after a time; from sacct where slurmrestd serves no accounting."""
        try:
            return self._query(lambda views: views.accounting(since_s))
        except SlurmRefused:
            return super().accounting(since_s)

    def _query(self, query: Callable[[RestViews], _T]) -> _T:
        """One query, with a new token where the old one has expired."""
        if self._views.token:
            with suppress(TokenRefused):  # it has expired: make another
                return query(self._views)
        self._views.token = self._new_token()
        return query(self._views)

    def _new_token(self) -> str:
        message = self._run(("scontrol", "token", f"lifespan={TOKEN_S}")).stdout.strip()
        name, _, token = message.partition("=")
        if name != "SLURM_JWT" or not token:
            raise SlurmRefused(
                f"scontrol token answered {shown(message)}, which is not a token; does this cluster use auth/jwt?"
            )
        return token
