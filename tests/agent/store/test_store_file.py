"""The file of a store, deleted or replaced: nothing is written or created then."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mirage.agent.model import ChainSpec, EventRecord
from mirage.agent.store.backup import back_up
from mirage.agent.store.chain_file import StoredChain, read_chain_files, write_chain_file
from mirage.agent.store.sql_store import SqlStore, open_store, open_to_read
from mirage.errors import StoreError, StoreGone
from mirage.slurm.records import Submission
from tests.support.read_only import as_other_user, full_disk, read_only

SPEC = ChainSpec(
    Submission("/home/ada/job.sh", {"time": "2-0", "exclusive": None}, ("--big",), {"LEGACY": "a\udcff"}, "/home/ada")
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqlStore]:
    with closing(open_store(f"sqlite:///{path}")) as opened:
        opened.add_chain("train", SPEC, 100)
        yield opened


def delete(path: Path) -> None:
    for found in path.parent.glob(path.name + "*"):
        found.unlink()


def every_write(store: SqlStore) -> list[object]:
    event = EventRecord(1, 0, 1, "x")
    return [
        lambda: store.take_lease("one", 1.0, 60),
        lambda: store.drop_lease("one"),
        lambda: store.change_chain(1, event, refusals=1),
        lambda: store.attempt(1, 1, 5, 0),
        lambda: store.add_chain("other", SPEC, 1),
        store.check_present,
        store.chains,
    ]


def test_a_deleted_store_is_not_written_and_not_made_anew(store: SqlStore, path: Path) -> None:
    delete(path)
    for call in every_write(store):
        with pytest.raises(StoreGone, match=r"store\.db was deleted or moved; where it was deleted, `mirage agent"):
            call()
    assert list(path.parent.iterdir()) == []


def test_a_replaced_store_is_not_written(store: SqlStore, path: Path) -> None:
    delete(path)
    with closing(open_store(f"sqlite:///{path}")) as other:
        for call in every_write(store):
            with pytest.raises(StoreGone, match="another file took the place"):
                call()
        assert other.chains() == []
        assert other.lease() is None


def test_writes_outlive_a_second_opening_in_the_process_and_the_end_of_another(store: SqlStore, path: Path) -> None:
    """The last process that closes the store deletes its log; this one still has it open."""
    with closing(open_store(f"sqlite:///{path}")):
        ends = f"import sqlite3; c = sqlite3.connect({str(path)!r}); c.execute('SELECT * FROM chains'); c.close()"
        subprocess.run([sys.executable, "-c", ends], check=True)
        store.change_chain(1, refusals=7)
        reads = f"import sqlite3; print(*sqlite3.connect({str(path)!r}).execute('SELECT refusals FROM chains'))"
        printed = subprocess.run([sys.executable, "-c", reads], check=True, capture_output=True, text=True).stdout
    assert printed == "(7,)\n"


def test_no_connection_makes_a_file(path: Path) -> None:
    with closing(open_store(f"sqlite:///{path}")) as store:
        store.engine.dispose()  # the next transaction has to connect anew
        delete(path)
        with pytest.raises(StoreGone):
            store.chains()
    assert not path.exists()


def test_a_folder_that_cannot_be_reached_is_no_deleted_store(store: SqlStore, path: Path, monkeypatch) -> None:
    def stale(_: object) -> None:
        raise OSError(116, "Stale file handle")

    monkeypatch.setattr("mirage.agent.store.store_file.os.stat", stale)
    with pytest.raises(StoreError, match="cannot be reached: Stale file handle; try again") as reported:
        store.check_present()
    assert not isinstance(reported.value, StoreGone)


def test_a_store_that_was_there_is_not_begun_anew(store: SqlStore, path: Path) -> None:
    back_up(path, 0)
    store.close()
    path.unlink()
    with pytest.raises(StoreGone, match=r"gone, but its backups \(store\.db\.backup-1\) show.*recover.*elsewhere"):
        open_store(f"sqlite:///{path}")
    assert not path.exists()


def test_an_emptied_store_is_not_begun_anew_nor_written(store: SqlStore, path: Path) -> None:
    """``: > store.db``, or a copy that a full disk cut off."""
    back_up(path, 0)
    store.engine.dispose()
    path.write_bytes(b"")
    with pytest.raises(StoreGone, match="is empty, but its backups"):
        open_store(f"sqlite:///{path}")
    with pytest.raises(StoreError, match=r"no such table: \w+; its newest sound backup is"):
        store.add_chain("other", SPEC, 1)
    with pytest.raises(StoreGone, match="is empty, but its backups"):
        open_store(f"sqlite:///{path}")


def stored(path: Path, name: str = "train", place: str | None = None) -> StoredChain:
    return StoredChain(name, "k3y", 100, SPEC, "st0re", place or str(path), "lab@host:7000")


def test_a_store_with_existing_chains_is_not_begun_again(path: Path) -> None:
    for name, place in (("train", None), ("foreign", "/elsewhere/store.db")):
        (path.parent / "chains" / name).mkdir(parents=True)
        write_chain_file(path.parent / "chains" / name, stored(path, name, place))
    with pytest.raises(StoreGone, match=r"the files of its chains \(train\) show"):
        open_store(f"sqlite:///{path}")
    (path.parent / "chains" / "train" / "chain.json").unlink()
    open_store(f"sqlite:///{path}").close()


def test_the_file_of_a_chain_is_read_as_it_was_written(path: Path) -> None:
    folder = path.parent / "chains" / "train"
    folder.mkdir(parents=True)
    before = os.umask(0)
    try:
        write_chain_file(folder, stored(path))
    finally:
        os.umask(before)
    assert stat.S_IMODE((folder / "chain.json").stat().st_mode) == 0o600
    assert read_chain_files(path.parent) == ([stored(path)], {})


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"store": 1, "spec": {}}', "\udcff"])
def test_a_file_that_reports_of_no_chain_is_named_with_the_reason(path: Path, text: str) -> None:
    file = path.parent / "chains" / "train" / "chain.json"
    file.parent.mkdir(parents=True)
    file.write_bytes(text.encode(errors="surrogateescape"))
    found, unread = read_chain_files(path.parent)
    assert found == []
    assert [key for key, why in unread.items() if "not a chain's file" in why] == [file]


def test_a_pipe_is_not_a_store(path: Path) -> None:
    os.mkfifo(path)  # SQLite would wait for ever for its writer
    for open_one in (open_store, open_to_read):
        with pytest.raises(StoreError, match=r"store\.db: it is not a file; name another with MIRAGE_STORE"):
            open_one(f"sqlite:///{path}")


def test_what_was_open_to_others_is_closed(path: Path) -> None:
    before = os.umask(0)
    try:
        with closing(open_store(f"sqlite:///{path}")) as store:
            store.add_chain("train", SPEC, 100)
            path.chmod(0o666)
            path.with_name("store.db-wal").chmod(0o644)
            with closing(open_store(f"sqlite:///{path}")):
                modes = {found.name: stat.S_IMODE(found.stat().st_mode) for found in path.parent.iterdir()}
    finally:
        os.umask(before)
    assert modes == {"store.db": 0o600, "store.db-wal": 0o600, "store.db-shm": 0o600}


# -- read where nothing can be written -------------------------------------------------------------------------


def names(store: SqlStore) -> list[str]:
    return [chain.name for chain in store.chains()]


def url_in(folder: Path) -> str:
    return f"sqlite:///{folder}/store.db"


def test_a_store_that_can_be_written_is_opened_as_before(store: SqlStore, path: Path) -> None:
    with closing(open_to_read(url_in(path.parent))) as found:
        assert (found.unwritable, names(found)) == ("", ["train"])
        found.add_chain("next", SPEC, 5)


@pytest.mark.parametrize("alive", [False, True])
def test_a_store_on_a_read_only_file_system_is_read(tmp_path: Path, alive: bool) -> None:
    """Also the changes of a writer that lives, which are not in the file itself."""
    folder = tmp_path / "home"
    writer = open_store(url_in(folder))
    writer.add_chain("train", SPEC, 100)
    if not alive:
        writer.close()
    with read_only(folder, tmp_path / "seen") as observed:
        with pytest.raises(StoreError, match="Read-only file system"):
            open_store(url_in(observed))
        with closing(open_to_read(url_in(observed))) as found:
            assert "Read-only file system" in found.unwritable
            assert names(found) == ["train"]
            writer.add_chain("next", SPEC, 101)
            assert names(found) == ["train", "next"]
            with pytest.raises(StoreError, match=r"readonly|read-only"):
                found.change_chain(1, refusals=1)
    writer.close()


def test_a_store_on_a_full_disk_is_read(store: SqlStore, path: Path, tmp_path: Path) -> None:
    store.close()
    with full_disk(path.parent, tmp_path / "full") as full:
        with pytest.raises(StoreError, match=r"disk (I/O|is full)"):
            open_store(url_in(full))
        with closing(open_to_read(url_in(full))) as found:
            assert names(found) == ["train"]


@pytest.mark.parametrize("alive", [False, True])
def test_a_store_of_another_user_is_read_where_that_user_allows_it(open_folder: Path, alive: bool) -> None:
    with closing(open_store(url_in(open_folder))) as writer:
        writer.add_chain("train", SPEC, 100)
        if not alive:
            writer.close()
        for file in open_folder.iterdir():
            file.chmod(0o644)
        open_folder.chmod(0o755)
        with as_other_user(), closing(open_to_read(url_in(open_folder))) as found:
            assert "Permission denied" in found.unwritable
            assert names(found) == ["train"]


@pytest.mark.parametrize("spoil", ["UPDATE alembic_version SET version_num = '0001'", "DROP TABLE alembic_version"])
def test_a_store_of_another_version_is_not_read(store: SqlStore, path: Path, tmp_path: Path, spoil: str) -> None:
    with store.engine.begin() as connection:
        connection.exec_driver_sql(spoil)
    store.close()
    with (
        read_only(path.parent, tmp_path.with_name(f"{tmp_path.name}-seen")) as observed,
        pytest.raises(StoreError, match="Read-only file system"),
    ):
        open_to_read(url_in(observed))


def test_reading_makes_no_store(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    with read_only(tmp_path / "home", tmp_path / "seen") as observed:
        for folder in (tmp_path / "home", observed):
            with closing(open_to_read(url_in(folder))) as found:
                assert (found.unwritable, names(found)) == ("", [])
    assert not list((tmp_path / "home").iterdir())
