"""Messages to the users of chains, over HTTP, a real shell and a sendmail on PATH."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from mirage.agent.background.notifications import Deliveries, Message, Notifications, check_target
from mirage.agent.cycle.readiness import SystemShell
from mirage.agent.cycle.transitions import steer
from mirage.agent.model import Chain, ChainState, EventRecord
from mirage.agent.store.sql_store import SqlStore, open_store
from mirage.errors import ConfigurationError
from mirage.slurm.records import Submission
from tests.support.agent_store import SPEC, without_waiting_for_the_disk
from tests.support.one_chain import NOW_S, OneChain, ended, held, running
from tests.support.recording_server import RecordingServer

MESSAGE = Message("train", "paused", 0, 110, "3 links in a row failed")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlStore]:
    with closing(open_store(f"sqlite:///{tmp_path}/store.db")) as opened:
        without_waiting_for_the_disk(opened)
        yield opened


@pytest.fixture
def sender() -> Callable[[], Notifications]:
    """A new agent's notifications, without pauses between attempts."""
    return lambda: Notifications(Deliveries(SystemShell()), lambda _: None)


def chain_with(store: SqlStore, tmp_path: Path, *targets: str, name: str = "train") -> Chain:
    submission = Submission("job.sh", environment={"PATH": "/usr/bin:/bin"}, directory=str(tmp_path))
    return store.add_chain(name, replace(SPEC, submission=submission, notify=targets), 100)


def happened(store: SqlStore, chain: Chain, kind: str, detail: str = "", link: int = 0) -> None:
    store.change_chain(chain.id, EventRecord(chain.id, link, 110, kind, detail))


def test_a_webhook_gets_json_with_a_text(
    store: SqlStore, tmp_path: Path, recording_server: RecordingServer, sender
) -> None:
    chain, notifications = chain_with(store, tmp_path, recording_server.url), sender()
    happened(store, chain, "paused", "3 links in a row failed")
    notifications.update(store, 120)
    notifications.finish(store, 10)
    assert recording_server.received == [
        {
            "text": "chain train: paused (3 links in a row failed)", "chain": "train", "event": "paused", "link": 0,
            "time_s": 110, "detail": "3 links in a row failed",
        }
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "detail", "sent"),
    [
        ("paused", "by hand", True), ("done", "all 3 links have run", True), ("interrupted", "since 12:00", True),
        ("reserved", "no job can run", True), ("reserved-over", "maint", False), ("sized", "job 7", False),
        ("ended", "job 7, FAILED 2", True), ("ended", "job 7, NODE_FAIL", True),
        ("ended", "job 7, OUT_OF_MEMORY", True),
        ("ended", "job 7, COMPLETED", False), ("ended", "job 7, TIMEOUT", False), ("started", "job 7", False),
    ],
)  # fmt: skip
def test_failures_and_the_end_cause_messages_and_the_usual_does_not(
    store: SqlStore, tmp_path: Path, recording_server: RecordingServer, sender, kind: str, detail: str, sent: bool
) -> None:
    chain, notifications = chain_with(store, tmp_path, recording_server.url), sender()
    happened(store, chain, kind, detail, link=2)
    notifications.update(store, 120)
    notifications.finish(store, 10)
    assert [one["text"] for one in recording_server.received] == [f"chain train, link 2: {kind} ({detail})"] * sent


def test_an_event_is_sent_once_also_by_the_next_agent(
    store: SqlStore, tmp_path: Path, recording_server: RecordingServer, sender
) -> None:
    chain = chain_with(store, tmp_path, recording_server.url)
    other = chain_with(store, tmp_path, name="quiet")
    for detail in ("first", "second"):
        happened(store, other, "paused", "nobody asked")
        happened(store, chain, "paused", detail)
        for _ in range(2):
            notifications = sender()
            notifications.update(store, 120)
            notifications.finish(store, 10)
    assert [one["detail"] for one in recording_server.received] == ["first", "second"]


def test_an_agent_that_was_killed_before_it_stored_them_sends_again(
    store: SqlStore, tmp_path: Path, recording_server: RecordingServer, sender
) -> None:
    chain = chain_with(store, tmp_path, recording_server.url)
    happened(store, chain, "done")
    killed = sender()
    killed.update(store, 120)
    for thread in list(killed._threads.values()):
        thread.join(10)
    following = sender()
    following.update(store, 130)
    following.finish(store, 10)
    assert len(recording_server.received) == 2


def test_a_target_that_fails_is_tried_three_times_and_noted_and_harms_no_other(
    store: SqlStore, tmp_path: Path, recording_server: RecordingServer, sender
) -> None:
    file = tmp_path / "said.txt"
    chain = chain_with(store, tmp_path, recording_server.url, "exit 3", f'echo "$MIRAGE_EVENT: $MIRAGE_TEXT" > {file}')
    recording_server.status = 500
    happened(store, chain, "paused", "by hand")
    notifications = sender()
    notifications.update(store, 120)
    notifications.finish(store, 20)
    assert len(recording_server.received) == 3
    assert file.read_text() == "paused: chain train: paused (by hand)\n"
    noted = [event.detail for event in store.events(chain.id) if event.kind == "not-notified"]
    assert noted == [
        f"paused, to {recording_server.url}: it answered 500 Internal Server Error",
        "paused, to exit 3: the command failed, or took more than 20 s",
    ]


def test_a_slow_target_delays_no_cycle(store: SqlStore, tmp_path: Path, sender) -> None:
    chain, notifications = chain_with(store, tmp_path, "sleep 1"), sender()
    happened(store, chain, "done")
    notifications.update(store, 120)
    notifications.update(store, 121)
    assert store.events_to_notify(("done",))[0] > 0, "still under way, so not stored"
    notifications.finish(store, 10)
    assert store.events_to_notify(("done",)) == (0, [])


def test_a_target_that_fails_delays_no_message_to_another(
    store: SqlStore, tmp_path: Path, recording_server: RecordingServer
) -> None:
    proceed = threading.Event()
    notifications = Notifications(Deliveries(SystemShell()), lambda pause_s: pause_s and proceed.wait(10))
    broken, healthy = chain_with(store, tmp_path, "exit 1"), chain_with(store, tmp_path, recording_server.url, name="b")
    happened(store, broken, "done")
    happened(store, healthy, "done")
    notifications.update(store, 120)
    notifications.finish(store, 0.1)
    happened(store, healthy, "paused", "later")
    notifications.update(store, 130)
    notifications.finish(store, 0.1)
    assert [one["event"] for one in recording_server.received] == ["done", "paused"]
    assert store.events_to_notify(("done", "paused"))[0] > 0, "one is under way, so the store has none as sent"
    proceed.set()
    notifications.finish(store, 10)
    assert store.events_to_notify(("done", "paused")) == (0, [])
    assert len(recording_server.received) == 2
    assert [event.detail for event in store.events(broken.id) if event.kind == "not-notified"] == [
        "done, to exit 1: the command failed, or took more than 20 s"
    ]


def test_after_a_failure_what_is_queued_for_the_target_is_tried_once(
    store: SqlStore, tmp_path: Path, recording_server: RecordingServer, sender
) -> None:
    chain, notifications = chain_with(store, tmp_path, recording_server.url), sender()
    recording_server.status = 404
    for detail in ("1", "2", "3"):
        happened(store, chain, "paused", detail)
    notifications.update(store, 120)
    notifications.finish(store, 10)
    assert [one["detail"] for one in recording_server.received] == ["1", "1", "1", "2", "3"]


def test_the_reason_of_a_failure_is_in_words(store: SqlStore, tmp_path: Path, sender) -> None:
    chain, notifications = chain_with(store, tmp_path, "http://127.0.0.1:1/"), sender()
    happened(store, chain, "done")
    notifications.update(store, 120)
    notifications.finish(store, 10)
    (why,) = [event.detail for event in store.events(chain.id) if event.kind == "not-notified"]
    assert why == "done, to http://127.0.0.1:1/: Connection refused"


def test_mail_goes_through_the_sendmail_of_the_site(
    store: SqlStore, tmp_path: Path, sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sendmail").write_text(f"#!/bin/sh\necho $* > {tmp_path}/words\ncat > {tmp_path}/mail\n")
    (tmp_path / "sendmail").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    chain, notifications = chain_with(store, tmp_path, "ada@site.example"), sender()
    happened(store, chain, "paused", "by\nhand")
    notifications.update(store, 120)
    notifications.finish(store, 10)
    mail = (tmp_path / "mail").read_text()
    assert "To: ada@site.example\nSubject: chain train: paused (by hand)\n" in mail
    assert "mirage chain show train" in mail
    assert (tmp_path / "words").read_text() == "-t -i\n"


def test_the_kind_of_a_target(monkeypatch: pytest.MonkeyPatch) -> None:
    assert check_target("https://hooks.example/x@y") == check_target("HTTP://hooks.example/") == "webhook"
    assert check_target("notify-send ada@host") == "command"
    with pytest.raises(ConfigurationError, match="--notify is empty"):
        check_target(" ")
    with pytest.raises(
        ConfigurationError, match="--notify 'htp://x': messages go to URLs of http:// and https:// only"
    ):
        check_target("htp://x")
    for url in ("http://", "https://chat:99999/hook", "http://two words/"):
        with pytest.raises(ConfigurationError, match=f"--notify '{url}' is no URL; give one like https://"):
            check_target(url)
    for target in ("mail:ada", "mailto:ada@example.org", "slack:#runs now"):
        with pytest.raises(ConfigurationError, match=f"--notify '{target}' is no target; give a URL of http:// or"):
            check_target(target)
    assert check_target("A=b:c curl -d $MIRAGE_TEXT http://h:80/") == "command"
    with pytest.raises(ConfigurationError, match=r"--notify '/no/such/cmd -x': /no/such/cmd is no program here"):
        check_target("/no/such/cmd -x")
    assert check_target("/bin/sh -c true") == "command"
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("mirage.agent.background.notifications.SENDMAIL", "/nowhere/sendmail")
    with pytest.raises(ConfigurationError, match="there is no sendmail on this host; give a webhook or a command"):
        check_target("ada@site.example")


# -- interruptions ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("links", "spec", "noted"),
    [
        ([ended(1, ended_s=NOW_S - 3_600), held(2)], {}, True),
        ([ended(1, ended_s=NOW_S - 3_599), held(2)], {}, False),
        ([ended(1, ended_s=NOW_S - 900), held(2)], {"notify_gap_s": 900}, True),
        ([ended(1, ended_s=NOW_S - 7_200), running(2), held(3)], {}, False),
        ([ended(1, ended_s=NOW_S - 7_200), held(2)], {"notify": ()}, False),
        ([held(1)], {}, False),
    ],
)
def test_a_long_interruption_is_an_event_once(links: list, spec: dict[str, object], noted: bool) -> None:
    world = OneChain(*links, **{"notify": ("true",), **spec})
    for _ in range(2):
        steer(world.context, world.chain, [])
    assert [kind for _, kind, _ in world.events if kind == "interrupted"] == ["interrupted"] * noted
    assert world.chain.state is ChainState.ACTIVE
