"""Messages to the users of chains: a pause, a failed job, a long interruption, the end.

A message goes to a webhook, a mail address or a shell command, in a thread of its target: one that hangs delays no
chain, and no message to another target. Each event is sent at least once, also across a ``kill -9`` of the agent: the
store has the number of the last event with sent messages.
"""

from __future__ import annotations

import json
import logging
import re
import shutil
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from email.message import EmailMessage

from mirage.agent.cycle.handover import Shell
from mirage.agent.cycle.transitions import BUDGET_LOW, INTERRUPTED, RESERVED
from mirage.agent.model import Chain, EventRecord
from mirage.agent.store.protocol import Store
from mirage.errors import ConfigurationError, shown
from mirage.job_state import JobState
from mirage.web_url import is_web_url

log = logging.getLogger("mirage.agent")

KINDS = ("paused", "ended", INTERRUPTED, RESERVED, BUDGET_LOW, "done")
"""The events that may cause a message; of the ended jobs, those that failed."""

FAILED = frozenset(
    state.name
    for state in (
        JobState.FAILED, JobState.NODE_FAIL, JobState.BOOT_FAIL, JobState.OUT_OF_MEMORY, JobState.DEADLINE,
    )
)  # fmt: skip

PAUSES_S = (0.0, 10.0, 60.0)
"""Real seconds before each attempt to deliver a message."""

TIMEOUT_S = 20.0

SENDMAIL = "/usr/sbin/sendmail"


@dataclass(frozen=True, slots=True)
class Message:
    """A message about an event of a chain.

    Attributes:
        chain: Name of the chain.
        event: ``paused``, ``ended``, ``interrupted``, ``reserved``, ``budget-low`` or ``done``.
        link: Number of the link; 0 for the chain.
        time_s: Time of the event, seconds since 1970.
        detail: What happened, in words.
    """

    chain: str
    event: str
    link: int
    time_s: int
    detail: str

    @property
    def text(self) -> str:
        """One line for people."""
        where = f"chain {self.chain}" + (f", link {self.link}" if self.link else "")
        return f"{where}: {self.event}" + (f" ({self.detail})" if self.detail else "")


def check_target(target: str) -> str:
    """The kind of a target: ``webhook``, ``mail`` or ``command``.

    Raises:
        ConfigurationError: It is empty, a URL of another kind, a mail address on a host without sendmail, or a command
            by a path that is not there.
    """
    if not target.strip():
        raise ConfigurationError("--notify is empty; give a URL, a mail address or a command")
    if scheme := re.match(r"([A-Za-z][\w+.-]*)://", target):
        if scheme[1].lower() not in ("http", "https"):
            raise ConfigurationError(
                f"--notify {shown(target)}: messages go to URLs of http:// and https:// only; give one of these, a "
                "mail address or a command"
            )
        if not is_web_url(target):
            raise ConfigurationError(f"--notify {shown(target)} is no URL; give one like https://chat.example.org/hook")
        return "webhook"
    program = target.split()[0]
    if re.match(r"[A-Za-z][\w+.-]*:", program):
        raise ConfigurationError(
            f"--notify {shown(target)} is no target; give a URL of http:// or https://, a mail address such as "
            "ada@example.org, or a command"
        )
    if "@" in target and not any(letter in target for letter in " /|;&$'\""):
        if _sendmail() is None:
            raise ConfigurationError(
                f"--notify {shown(target)}: there is no sendmail on this host; give a webhook or a command instead"
            )
        return "mail"
    if re.fullmatch(r"/[\w./+-]+", program) and shutil.which(program) is None:
        raise ConfigurationError(f"--notify {shown(target)}: {program} is no program here that can run; check its path")
    return "command"


def _sendmail() -> str | None:
    return shutil.which("sendmail") or shutil.which(SENDMAIL)


class Deliveries:
    """The ways of a message to its target.

    Args:
        shell: Runs commands.
    """

    def __init__(self, shell: Shell) -> None:
        self.shell = shell

    def deliver(self, message: Message, target: str, chain: Chain) -> str:
        """Deliver a message once; returns the reason of a failure, empty for success."""
        try:
            kind = check_target(target)
            if kind == "webhook":
                return _post(target, message)
            if kind == "mail":
                return _mail(target, message)
        except urllib.error.HTTPError as error:
            return f"it answered {error.code} {error.reason}"
        except urllib.error.URLError as error:
            return getattr(error.reason, "strerror", None) or str(error.reason)
        except (ConfigurationError, OSError, ValueError, subprocess.SubprocessError) as error:
            return str(error)
        submission = chain.spec.submission
        own = {f"MIRAGE_{name.upper()}": str(value) for name, value in asdict(message).items()}
        environment = {**submission.environment, **own, "MIRAGE_TEXT": message.text}
        done = self.shell.succeeds(target, environment, submission.directory, TIMEOUT_S)
        return "" if done else f"the command failed, or took more than {TIMEOUT_S:.0f} s"


def _post(url: str, message: Message) -> str:
    body = json.dumps({"text": message.text, **asdict(message)}).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"}, method="POST")
    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
        return "" if answer.status < 300 else f"it answered {answer.status}"


def _mail(address: str, message: Message) -> str:
    mail = EmailMessage()
    mail["To"], mail["Subject"] = address, message.text.replace("\n", " ")
    mail.set_content(f"{message.text}\n\nmirage chain show {message.chain}\n")
    command = [_sendmail() or SENDMAIL, "-t", "-i"]
    done = subprocess.run(command, input=mail.as_bytes(), capture_output=True, timeout=TIMEOUT_S, check=False)
    return done.stderr.decode(errors="replace").strip() or f"exit {done.returncode}" if done.returncode else ""


@dataclass(slots=True)
class _Batch:
    """Events that were read together, and the messages about them that are not settled."""

    last: int
    now_s: int
    unsettled: int
    failed: list[EventRecord]


@dataclass(frozen=True, slots=True)
class _Queued:
    """A message in the queue of a target."""

    message: Message
    chain: Chain
    batch: _Batch


class Notifications:
    """The messages of an agent: a queue and a thread for each target.

    A target that fails or hangs delays no message to another. The number of the last event with sent messages is
    stored once all earlier messages are settled, so an agent that is killed sends again, rather than not at all.

    Args:
        deliveries: The ways to targets.
        wait: Sleeps for real seconds between attempts.
    """

    def __init__(self, deliveries: Deliveries, wait: Callable[[float], object] = time.sleep) -> None:
        self.deliveries, self.wait = deliveries, wait
        self._lock = threading.Lock()
        self._queues: dict[str, deque[_Queued]] = {}
        self._threads: dict[str, threading.Thread] = {}
        self._batches: deque[_Batch] = deque()
        self._read = 0

    def update(self, store: Store, now_s: int) -> None:
        """Begin to send messages about the new events.

        Raises:
            StoreError: The store cannot be read or written.
        """
        self.finish(store, 0.0)
        last, events = store.events_to_notify(KINDS, self._read)
        if not events:
            return
        known = {chain.id: chain for chain in store.chains()}
        wanted = [
            (event, known[event.chain], target)
            for event in events
            if event.chain in known and _counts(event)
            for target in known[event.chain].spec.notify
        ]
        batch = _Batch(last, now_s, len(wanted), [])
        self._batches.append(batch)
        self._read = last
        for event, chain, target in wanted:
            message = Message(chain.name, event.kind, event.link, event.time_s, event.detail)
            self._enqueue(target, _Queued(message, chain, batch))
        if not wanted:
            self.finish(store, 0.0)

    def finish(self, store: Store, timeout_s: float) -> None:
        """Store what was sent, after waiting for the messages that are under way.

        Raises:
            StoreError: The store cannot be written.
        """
        deadline_s = time.monotonic() + timeout_s
        with self._lock:
            threads = list(self._threads.values())
        for thread in threads:
            thread.join(max(0.0, deadline_s - time.monotonic()))
        while self._batches and not self._batches[0].unsettled:
            store.record_notified(self._batches[0].last, *self._batches[0].failed)
            self._batches.popleft()

    def _enqueue(self, target: str, queued: _Queued) -> None:
        with self._lock:
            if target in self._queues:
                self._queues[target].append(queued)
                return
            self._queues[target] = deque([queued])
            thread = threading.Thread(target=self._send, args=(target,), name="notify", daemon=True)
            self._threads[target] = thread
            thread.start()

    def _send(self, target: str) -> None:
        """Sends what is queued for a target; after one that failed, each is tried only once."""
        pauses_s: Sequence[float] = PAUSES_S
        while True:
            with self._lock:
                if not self._queues[target]:
                    del self._queues[target], self._threads[target]
                    return
                queued = self._queues[target].popleft()
            message, batch = queued.message, queued.batch
            why = self._attempt(message, target, queued.chain, pauses_s)
            pauses_s = PAUSES_S[:1] if why else PAUSES_S
            failed = []
            if why:
                detail = f"{message.event}, to {target}: {why}"
                failed = [EventRecord(queued.chain.id, message.link, batch.now_s, "not-notified", detail)]
                log.warning("not-notified", extra={"chain": message.chain, "detail": detail})
            with self._lock:
                batch.failed += failed
                batch.unsettled -= 1

    def _attempt(self, message: Message, target: str, chain: Chain, pauses_s: Sequence[float]) -> str:
        why = ""
        for pause_s in pauses_s:
            self.wait(pause_s)
            try:
                why = self.deliveries.deliver(message, target, chain)
            except Exception as error:
                why = f"a fault of Mirage: {type(error).__name__}: {error}"
            if not why:
                break
        return why


def _counts(event: EventRecord) -> bool:
    """Whether an event causes a message: of the ended jobs, only those that failed."""
    return event.kind != "ended" or any(word in FAILED for word in event.detail.replace(",", " ").split())
