"""Rolling backups of an SQLite store: their times, their contents, and their robustness."""

from __future__ import annotations

import logging
import os
import random
import signal
import sqlite3
import stat
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mirage.agent.model import ChainSpec
from mirage.agent.store import backup as backups
from mirage.agent.store.backup import back_up, backup_path, damage, sound_backups
from mirage.agent.store.engine import make_engine
from mirage.agent.store.migrations import upgrade
from mirage.agent.store.sql_store import SqlStore, open_store
from mirage.duration import HOUR_S
from mirage.errors import StoreError
from mirage.slurm.records import Submission

SPEC = ChainSpec(Submission("/home/ada/job.sh"))
NOW_S = 1_790_000_040
"""A whole minute."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "my store?.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqlStore]:
    with closing(open_store(url_of(path))) as opened:
        yield opened


def url_of(path: Path) -> str:
    return f"sqlite:///{path}".replace("?", "%3F")


def names(path: Path) -> list[str]:
    """The chains in a file that is a store."""
    with closing(sqlite3.connect(f"file:{str(path).replace('?', '%3f')}?mode=ro", uri=True)) as connection:
        return [name for (name,) in connection.execute("SELECT name FROM chains ORDER BY id")]


def spoil(path: Path) -> None:
    """Overwrite pages in the middle of a database."""
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\x5a" * max(path.stat().st_size - 8192, 8192))


def test_a_backup_is_due_at_once_and_then_every_hour(store: SqlStore, path: Path) -> None:
    store.add_chain("one", SPEC, NOW_S)
    assert store.backup_if_due(NOW_S) == backup_path(path, 1)
    store.add_chain("two", SPEC, NOW_S)
    assert store.backup_if_due(NOW_S + HOUR_S - 1) is None
    assert names(backup_path(path, 1)) == ["one"]
    assert store.backup_if_due(NOW_S + HOUR_S) == backup_path(path, 1)
    assert [names(backup_path(path, k)) for k in (1, 2)] == [["one", "two"], ["one"]]
    assert [found.made_s for found in sound_backups(path)] == [NOW_S + HOUR_S, NOW_S]


def test_another_agent_goes_by_the_backup_that_is_there(store: SqlStore, path: Path) -> None:
    store.backup_if_due(NOW_S)
    with closing(open_store(url_of(path))) as later:
        assert later.backup_if_due(NOW_S + 600) is None
        assert later.backup_if_due(NOW_S + HOUR_S) is not None


def test_a_clock_that_was_set_back_does_not_end_the_backups(store: SqlStore) -> None:
    assert store.backup_if_due(NOW_S) is not None
    assert store.backup_if_due(NOW_S - 30 * HOUR_S) is not None
    assert store.backup_if_due(NOW_S - 30 * HOUR_S + 60) is None


def test_five_are_stored_for_their_owner_alone_each_one_file(store: SqlStore, path: Path) -> None:
    before = os.umask(0)
    try:
        for hour in range(7):
            store.add_chain(f"c{hour}", SPEC, NOW_S)
            store.backup_if_due(NOW_S + hour * HOUR_S)
    finally:
        os.umask(before)
    store.close()
    found = sorted(one.name for one in path.parent.iterdir())
    assert found == [path.name, *(f"{path.name}.backup-{k}" for k in range(1, 6))]
    assert [len(names(backup_path(path, k))) for k in range(1, 6)] == [7, 6, 5, 4, 3]
    assert {stat.S_IMODE(backup_path(path, k).stat().st_mode) for k in range(1, 6)} == {0o600}


def test_a_store_is_backed_up_before_it_is_upgraded(path: Path) -> None:
    with closing(SqlStore(make_engine(url_of(path)))) as old, old._writing() as connection:
        upgrade(connection, "0001")
    assert sound_backups(path) == []
    open_store(url_of(path)).close()
    (stored,) = sound_backups(path)
    with closing(sqlite3.connect(f"file:{str(stored.path).replace('?', '%3f')}?mode=ro", uri=True)) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchone() == ("0001",)
    assert abs(stored.made_s - time.time()) < 120


def test_a_damaged_store_pushes_no_sound_backup_out(
    store: SqlStore, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for k in range(200):
        store.add_chain(f"c{k}", SPEC, NOW_S)
    store.backup_if_due(NOW_S)
    store.close()
    spoil(path)
    with pytest.raises(StoreError, match=r"is damaged: .*newest sound backup is .*backup-1, of 2026-09-21T14:14Z; "):
        back_up(path, NOW_S + HOUR_S)
    with caplog.at_level(logging.WARNING):
        assert store.backup_if_due(NOW_S + HOUR_S) is None
    assert caplog.messages == ["no backup"]
    assert [len(names(found.path)) for found in sound_backups(path)] == [200]
    assert store.backup_if_due(NOW_S + HOUR_S + 60) is None, "tried again only after some minutes"
    assert len(caplog.messages) == 1


def test_a_store_that_cannot_be_read_names_its_newest_sound_backup(store: SqlStore, path: Path) -> None:
    for hour in range(3):
        back_up(path, NOW_S + hour * HOUR_S)
    store.close()
    backup_path(path, 1).write_bytes(b"")
    path.write_bytes(b"nonsense" * 2_000)
    path.with_name(path.name + "-wal").unlink(missing_ok=True)
    with pytest.raises(
        StoreError,
        match=r"not a database; its newest sound backup is .*backup-2, of 2026-09-21T15:14Z; `mirage a",
    ):
        open_store(url_of(path))


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "no such file"), (b"", "not a store of Mirage"), (b"x" * 9_000, "not a database")],
)
def test_what_is_no_backup(path: Path, content: bytes | None, message: str) -> None:
    if content is not None:
        path.write_bytes(content)
    assert message in damage(path)


def test_no_room_is_reported_and_leaves_what_there_is(store: SqlStore, path: Path, monkeypatch) -> None:
    back_up(path, NOW_S)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(backups.os, "fsync", full)
    with pytest.raises(StoreError, match=r"cannot back up .*No space left on device.*its disk has room"):
        back_up(path, NOW_S + HOUR_S)
    assert [found.made_s for found in sound_backups(path)] == [NOW_S]
    assert [one.name for one in path.parent.glob("*.part")] == []


def test_a_gap_in_the_numbers_is_filled(store: SqlStore, path: Path) -> None:
    for hour in range(4):
        back_up(path, NOW_S + hour * HOUR_S)
    backup_path(path, 2).unlink()
    back_up(path, NOW_S + 9 * HOUR_S)
    assert [(found.number, (found.made_s - NOW_S) // HOUR_S) for found in sound_backups(path)] == [
        (1, 9), (2, 3), (3, 1), (4, 0),
    ]  # fmt: skip


def test_a_store_in_memory_has_none() -> None:
    with closing(open_store("sqlite://")) as store:
        assert store.backup_if_due(NOW_S) is None


WRITER = """
    import sys
    from mirage.agent.model import EventRecord
    from mirage.agent.store.backup import back_up
    from mirage.agent.store.sql_store import open_store
    store = open_store(sys.argv[1])
    count = 0
    while True:
        count += 1
        for k in range(20):
            store.change_chain(1, EventRecord(1, 0, count, "x"), refusals=count)
        back_up(store.path, 60 * count)
        print("made", flush=True)
"""


@pytest.mark.slow
def test_killed_at_any_moment_every_backup_is_whole(store: SqlStore, path: Path) -> None:
    """The part file of a killed agent is no backup, and does not hinder the next."""
    store.add_chain("one", SPEC, NOW_S)
    back_up(path, 0)
    dice = random.Random(4)
    for _ in range(6):
        child = subprocess.Popen([sys.executable, "-c", textwrap.dedent(WRITER), url_of(path)], stdout=subprocess.PIPE)
        assert child.stdout is not None
        assert child.stdout.readline() == b"made\n"
        time.sleep(dice.uniform(0.05, 0.4))
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        there = list(path.parent.glob(f"{path.name}.backup-*"))
        assert there
        assert [damage(one) for one in there] == [""] * len(there)
    back_up(path, 60)  # one killed between two renamings leaves a gap, which the next fills
    assert len(sound_backups(path)) == backups.BACKUPS
