"""Outages: what the agent writes, and what commands read, on this host and from another."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
from pathlib import Path

import pytest

from mirage.agent.monitoring.outage import FILE_BYTES, POLL, SLURM, STORE, AgentState, Outage, OutageWatch, known_outage
from mirage.agent.settings import AgentSettings
from mirage.agent.store.lease import holder_name
from mirage.agent.store.sql_store import SqlStore

NOW_S = 1_790_000_000
HERE, ELSEWHERE = holder_name(), "login7:4242:99"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "agent.state"


def watch(file: Path | None, holder: str = HERE, spread: float = 0.0) -> OutageWatch:
    made = OutageWatch(AgentSettings(), holder, file, lambda: spread)
    made.contact(STORE, NOW_S - 700)
    made.contact(SLURM, NOW_S - 690)
    return made


def test_an_outage_begins_at_the_last_contact_and_ends(file: Path, utc: None) -> None:
    watched = watch(file)
    assert AgentState.read(file) == AgentState(HERE, NOW_S - 700, None)
    watched.begin(SLURM, "squeue had no\nanswer", NOW_S - 100)
    watched.begin(SLURM, "scontrol ping: no controller", NOW_S)
    outage = Outage(SLURM, NOW_S - 690, "squeue had no answer")
    assert watched.current == outage
    assert AgentState.read(file) == AgentState(HERE, NOW_S, outage)
    assert outage.in_words(NOW_S + 0.4) == (
        "no contact with slurmctld since 2026-09-21T14:01:50 (00:11:30 ago): squeue had no answer"
    )
    watched.end(NOW_S + 15)
    assert watched.current is None
    assert AgentState.read(file) == AgentState(HERE, NOW_S + 15, None)


def test_an_outage_that_changes_its_source_began_with_the_first(file: Path) -> None:
    watched = watch(file)
    watched.begin(SLURM, "no answer", NOW_S - 100)
    watched.begin(STORE, "the disk is full", NOW_S)
    assert watched.current == Outage(STORE, NOW_S - 690, "the disk is full")


def test_an_agent_without_a_lease_leaves_the_file_of_another_alone(file: Path) -> None:
    OutageWatch(AgentSettings(), HERE, file, lambda: 0.0).begin(STORE, "locked", NOW_S)
    assert not file.exists()


def test_the_file_has_one_size_and_is_its_owner_s_alone(file: Path) -> None:
    old = os.umask(0)
    try:
        watched = watch(file)
    finally:
        os.umask(old)
    sizes = {file.stat().st_size}
    for detail in ("short", '\U0001f6a8\udcff"\\' * 900, ""):
        watched.begin(SLURM, detail, NOW_S)
        sizes.add(file.stat().st_size)
        state = AgentState.read(file)
        assert state is not None
        assert state.outage is not None
        watched.end(NOW_S)
    assert sizes == {FILE_BYTES}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_full_disk_does_not_hide_an_outage(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", disk], capture_output=True).returncode:
        pytest.skip("cannot mount a small file system: needs root")
    try:
        watched = watch(disk / "agent.state")
        with pytest.raises(OSError, match="No space left"):
            (disk / "fill").write_bytes(bytes(2**17))
        watched.begin(STORE, "the disk is full", NOW_S)
        state = AgentState.read(disk / "agent.state")
        assert state is not None
        assert state.outage == watched.current
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)


def test_a_file_that_cannot_be_written_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    watched = watch(tmp_path / "gone" / "agent.state")
    watched.begin(SLURM, "no answer", NOW_S)
    assert [record.msg for record in caplog.records] == ["no state", "outage"]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"holder": "x"}', '{"holder": "x", "written_s": 1, "outage": {"since_s": 3}}',
             '{"holder": "x", "written_s": 1, "outage": {"source": "moon", "since_s": 3}}', "\xff"],
)  # fmt: skip
def test_a_file_that_cannot_be_read_is_no_state(file: Path, text: str) -> None:
    file.write_bytes(text.encode("latin-1"))
    assert AgentState.read(file) is None


@pytest.mark.parametrize(
    ("holder", "lease_s", "written_s", "is_known"),
    [
        (HERE, 100, NOW_S - 10, True),
        (HERE, -900, NOW_S - 900, True),  # it cannot renew its lease, and its process lives
        (ELSEWHERE, 100, NOW_S - 900, True),
        (ELSEWHERE, -900, NOW_S - 240, True),
        (ELSEWHERE, -900, NOW_S - 241, False),
        (f"{socket.gethostname()}:4194304:1", 100, NOW_S, False),  # it is dead
    ],
    ids=["here", "here without its lease", "elsewhere", "elsewhere of late", "elsewhere too long ago", "dead"],
)
def test_outages_that_count(
    store: SqlStore, file: Path, holder: str, lease_s: int, written_s: int, is_known: bool
) -> None:
    store.take_lease(holder, NOW_S + lease_s - 240, 240)
    store.record_poll(NOW_S)
    outage = Outage(STORE, NOW_S - 950, "the disk is full")
    state = {
        "holder": holder,
        "written_s": written_s,
        "outage": {"source": STORE, "since_s": NOW_S - 950, "detail": outage.detail},
    }
    file.write_text(json.dumps(state))
    assert known_outage(store, file, NOW_S) == (outage if is_known else None)
    store.drop_lease(holder)
    assert known_outage(store, file, NOW_S) is None
    store.take_lease("another:1:2", NOW_S, 240)
    assert known_outage(store, file, NOW_S) is None, "the file is of an agent before"


@pytest.mark.parametrize(
    ("ago_s", "lease_s", "is_outage"), [(1_200, 100, False), (1_201, 100, True), (1_201, -1, False)]
)
def test_without_a_file_the_last_poll_counts(
    store: SqlStore, file: Path, utc: None, ago_s: int, lease_s: int, is_outage: bool
) -> None:
    store.take_lease(ELSEWHERE, NOW_S + lease_s - 240, 240)
    assert known_outage(store, file, NOW_S) is None, "never polled"
    store.record_poll(NOW_S - ago_s)
    found = known_outage(store, file, NOW_S)
    assert found == (Outage(POLL, NOW_S - ago_s) if is_outage else None)
    if found is not None:
        assert found.in_words(NOW_S) == "the agent has not polled the queue since 2026-09-21T13:53:19 (00:20:01 ago)"


def test_an_agent_that_sleeps_long_is_no_outage(store: SqlStore, file: Path) -> None:
    store.take_lease(HERE, NOW_S, 240)
    store.record_poll(NOW_S - 5_000)
    watch(file)
    assert known_outage(store, file, NOW_S) is None


@pytest.mark.parametrize(
    ("answered", "spread", "pause_s"),
    [
        (0, 0.0, 20.0),
        (0, 1.0, 15.0),
        (1, 0.0, 20.0),
        (2, 0.0, 40.0),
        (5, 0.5, 280.0),
        (9, 0.0, 600.0),
        (5_000, 0.0, 600.0),
    ],
)
def test_pauses_grow_only_where_probes_are_answered(answered: int, spread: float, pause_s: float) -> None:
    watched = watch(None, spread=spread)
    watched.probes_answered = answered
    assert watched.pause_s() == pause_s
    quick = OutageWatch(AgentSettings(poll_s=1), HERE, None, lambda: 0.0)
    assert quick.pause_s() == 1
