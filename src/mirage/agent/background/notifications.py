"""Messages to the users of chains: a pause, a failed job, a long interruption, the end.

A message goes to a webhook, a mail address or a shell command, in a thread: a target that hangs delays no chain. Each
event is sent at least once, also across a ``kill -9`` of the agent: the store has the number of the last event
with sent messages.
"""

from __future__ import annotations

import json
import logging
import shutil
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from email.message import EmailMessage

from mirage.agent.cycle.handover import Shell
from mirage.agent.cycle.transitions import BUDGET_LOW, INTERRUPTED, RESERVED
from mirage.agent.model import Chain, EventRecord
from mirage.agent.store.protocol import Store
from mirage.errors import ConfigurationError, shown
from mirage.job_state import JobState

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
        ConfigurationError: It is empty, or a mail address on a host without sendmail.
    """
    if not target.strip():
        raise ConfigurationError("--notify is empty; give a URL, a mail address or a command")
    if target.startswith(("http://", "https://")):
        return "webhook"
    if "@" in target and not any(letter in target for letter in " /|;&$'\""):
        if _sendmail() is None:
            raise ConfigurationError(
                f"--notify {shown(target)}: there is no sendmail on this host; give a webhook or a command instead"
            )
        return "mail"
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


class Notifications:
    """The messages of an agent, in a thread.

    Args:
        deliveries: The ways to targets.
        wait: Sleeps for real seconds between attempts.
    """

    def __init__(self, deliveries: Deliveries, wait: Callable[[float], object] = time.sleep) -> None:
        self.deliveries, self.wait = deliveries, wait
        self._thread: threading.Thread | None = None
        self._failed: list[EventRecord] = []
        self._last = 0

    def update(self, store: Store, now_s: int) -> None:
        """Begin to send messages about the new events, unless earlier ones are under way.

        Raises:
            StoreError: The store cannot be read or written.
        """
        self.finish(store, 0.0)
        if self._thread is not None:
            return
        last, events = store.events_to_notify(KINDS)
        if not events:
            return
        known = {chain.id: chain for chain in store.chains()}
        wanted = [
            (event, known[event.chain])
            for event in events
            if event.chain in known and known[event.chain].spec.notify and _counts(event)
        ]
        if not wanted:
            store.record_notified(last)
            return
        self._last = last
        self._thread = threading.Thread(target=self._send, args=(wanted, now_s), name="notify", daemon=True)
        self._thread.start()

    def finish(self, store: Store, timeout_s: float) -> None:
        """Store what was sent, after waiting for the messages that are under way.

        Raises:
            StoreError: The store cannot be written.
        """
        if self._thread is None:
            return
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            return
        store.record_notified(self._last, *self._failed)
        self._thread, self._failed = None, []

    def _send(self, wanted: Sequence[tuple[EventRecord, Chain]], now_s: int) -> None:
        for event, chain in wanted:
            message = Message(chain.name, event.kind, event.link, event.time_s, event.detail)
            for target in chain.spec.notify:
                if why := self._attempt(message, target, chain):
                    detail = f"{event.kind}, to {target}: {why}"
                    self._failed.append(EventRecord(chain.id, event.link, now_s, "not-notified", detail))
                    log.warning("not-notified", extra={"chain": chain.name, "detail": detail})

    def _attempt(self, message: Message, target: str, chain: Chain) -> str:
        why = ""
        for pause_s in PAUSES_S:
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
