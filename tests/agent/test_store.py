"""The same tests for SQLite and for a real PostgreSQL server."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import postgres
import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mirage.agent.model import Chain, ChainSpec, ChainState, DecisionRecord, EventRecord, Link, LinkState
from mirage.agent.sql_store import NEWEST, SqlStore, open_store
from mirage.errors import ConfigurationError, LeaseHeld, StoreError, UnknownName
from mirage.slurm.values import Submission
from mirage.trace.table import MISSING, JobState

SPEC = ChainSpec(
    Submission("/home/ada/job.sh", {"time": "2-0", "exclusive": None}, ("--big",), {"HOME": "/home/ada"}, "/home/ada")
)


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    if not postgres.BINARIES:
        pytest.skip("there is no PostgreSQL server; apt-get install postgresql")
    with postgres.server() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path: Path) -> str:
    """Of a new, empty data base."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/store.db"
    whole = request.getfixturevalue("postgres_url")
    name = f"t{time.monotonic_ns()}"
    engine = sa.create_engine(whole, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(sa.text(f"CREATE DATABASE {name}"))
    engine.dispose()
    return whole.rsplit("/", 1)[0] + "/" + name


@pytest.fixture
def opened() -> Iterator[Callable[[str], SqlStore]]:
    """Opens stores, and closes them in the end."""
    with ExitStack() as stores:
        yield lambda url: stores.enter_context(closing(open_store(url)))


@pytest.fixture
def store(url: str, opened) -> SqlStore:
    return opened(url)


def test_a_chain_begins_with_its_first_link_planned(store: SqlStore, url: str, opened) -> None:
    chain = store.add_chain("train", SPEC, 100)
    again = opened(url)
    assert again.chain("train") == chain == Chain(chain.id, "train", SPEC, 100)
    assert again.links(chain.id) == [Link(chain.id, 1)]


def test_a_name_is_given_once_and_unknown_ones_list_the_known(store: SqlStore) -> None:
    store.add_chain("train", SPEC, 100)
    with pytest.raises(ConfigurationError, match="chain 'train' already"):
        store.add_chain("train", SPEC, 101)
    with pytest.raises(UnknownName, match="Did you mean 'train'"):
        store.chain("trian")
    assert len(store.chains()) == 1


def test_changes_come_with_their_events(store: SqlStore) -> None:
    chain = store.add_chain("train", SPEC, 100)
    event = EventRecord(chain.id, 1, 110, "started", "job 7")
    store.change_link(chain.id, 1, event, state=LinkState.RUNNING, job=7, started_s=109, outcome=JobState.UNKNOWN)
    assert store.links(chain.id) == [Link(chain.id, 1, LinkState.RUNNING, job=7, started_s=109)]
    store.change_chain(chain.id, replace(event, kind="paused"), state=ChainState.PAUSED, why="it rains")
    assert store.chains(alive=True)[0].why == "it rains"
    assert [e.kind for e in store.events(chain.id)] == ["started", "paused"]
    assert [e.kind for e in store.events(chain.id, last=1)] == ["paused"]
    store.change_chain(chain.id, state=ChainState.DONE)
    assert store.chains(alive=True) == []


def test_what_does_not_exist_cannot_be_changed(store: SqlStore) -> None:
    chain = store.add_chain("train", SPEC, 100)
    with pytest.raises(TypeError, match="links have no colour"):
        store.change_link(chain.id, 1, colour="red")
    with pytest.raises(StoreError, match="a link 1 already"):
        store.add_link(Link(chain.id, 1))


def test_a_submission_is_claimed_once(store: SqlStore) -> None:
    chain = store.add_chain("train", SPEC, 100)
    assert store.attempt(chain.id, 1, 105)
    assert not store.attempt(chain.id, 1, 106)
    store.change_link(chain.id, 1, attempted_s=MISSING)
    assert store.attempt(chain.id, 1, 107)
    assert store.links(chain.id)[0].attempted_s == 107


def test_open_links_come_with_the_last_three(store: SqlStore) -> None:
    chain, other = store.add_chain("a", SPEC, 1), store.add_chain("b", SPEC, 2)
    for number in range(2, 8):
        store.add_link(Link(chain.id, number))
    for number in (2, 3, 4, 5, 6, 7):
        store.change_link(chain.id, number, state=LinkState.ENDED)
    assert [(k.chain, k.number) for k in store.links(open=True)] == [
        (chain.id, 1), (chain.id, 5), (chain.id, 6), (chain.id, 7), (other.id, 1),
    ]  # fmt: skip


numbers = st.integers(-1, 2**40)
decisions = st.builds(
    DecisionRecord,
    chain=st.just(1),
    link=st.integers(1, 10**6),
    time_s=numbers,
    policy=st.sampled_from(["what-if", "lead:4"]),
    submits=st.booleans(),
    reason=st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=50),
    estimate=st.dictionaries(st.sampled_from(["wait_p50_s", "cost_now"]), st.floats(-1e9, 1e9)),
    saw=st.dictionaries(st.sampled_from(["pending_jobs"]), st.floats(0, 1e9)),
)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(decisions, max_size=4))
def test_decisions_are_read_as_they_were_written(store: SqlStore, made: list[DecisionRecord]) -> None:
    chain = store.chains()[0] if store.chains() else store.add_chain("train", SPEC, 100)
    mine = [replace(decision, chain=chain.id) for decision in made]
    store.add_decisions(mine)
    assert not mine or store.decisions(chain.id, last=len(mine)) == mine


def test_one_agent_has_the_lease(store: SqlStore, url: str, opened) -> None:
    store.take_lease("one", 100.0, 60)
    store.take_lease("one", 130.0, 60)
    second = opened(url)
    with pytest.raises(LeaseHeld, match="one looks after this store, for 50 s more"):
        second.take_lease("two", 140.0, 60)
    second.take_lease("two", 191.0, 60)
    with pytest.raises(LeaseHeld, match="two"):
        store.take_lease("one", 192.0, 60)
    store.drop_lease("one")
    assert second.lease() == ("two", 251.0)
    second.drop_lease("two")
    assert store.lease() is None


def test_a_store_of_the_future_is_refused(store: SqlStore, url: str, opened) -> None:
    with store.engine.begin() as connection:
        connection.info["writes"] = True
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(StoreError, match="newer than this Mirage"):
        opened(url)


def test_an_old_store_is_brought_up_to_date_with_what_is_in_it(url: str, opened) -> None:
    old = opened(url)
    chain = old.add_chain("train", SPEC, 100)
    with old._writing() as connection:
        for word in (
            *(f"DROP INDEX ix_{name}" for name in ("links_state", "decisions_chain", "events_chain")),
            "ALTER TABLE links DROP COLUMN cancelled_s",
            "UPDATE alembic_version SET version_num = '0001'",
        ):
            connection.execute(sa.text(word))
    assert opened(url).links(chain.id) == [Link(chain.id, 1)]


def test_the_tables_are_those_of_the_schema(store: SqlStore) -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.runtime.migration import MigrationContext

    from mirage.agent.schema import metadata

    with store._reading() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
        assert connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar() == NEWEST


WRITER = """
    import sys
    from mirage.agent.model import EventRecord, LinkState
    from mirage.agent.sql_store import open_store
    store = open_store(sys.argv[1])
    chain = store.chains()[0].id
    job = store.links(chain)[0].job
    print("ready", flush=True)
    while True:
        job += 1
        store.change_link(chain, 1, EventRecord(chain, 1, job, "submitted"), job=job)
"""


def killed(program: str, url: str, after_s: float, *, wait_ready: bool = True) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program), url], stdout=subprocess.PIPE, env={**os.environ}
    )
    assert child.stdout is not None
    if wait_ready:
        assert child.stdout.readline() == b"ready\n"
    time.sleep(after_s)
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()


def test_killed_while_it_writes_a_change_has_happened_with_its_event_or_not_at_all(store: SqlStore, url: str) -> None:
    chain = store.add_chain("train", SPEC, 100).id
    dice = random.Random(3)
    for _ in range(5):
        killed(WRITER, url, dice.uniform(0.01, 0.3))
        link, events = store.links(chain)[0], store.events(chain)
        assert events[-1].time_s == link.job
        assert [event.time_s for event in events] == list(range(len(events)))


OPENER = """
    import sys
    from mirage.agent.sql_store import open_store
    open_store(sys.argv[1])
"""


def test_killed_while_it_migrates_the_store_is_old_or_new(url: str, opened) -> None:
    dice = random.Random(5)
    for _ in range(12):
        killed(OPENER, url, dice.uniform(0.3, 1.2), wait_ready=False)
    chain = opened(url).add_chain("train", SPEC, 100)
    assert opened(url).links(chain.id) == [Link(chain.id, 1)]


def test_many_may_open_a_new_store_at_once(url: str) -> None:
    children = [subprocess.Popen([sys.executable, "-c", textwrap.dedent(OPENER), url]) for _ in range(4)]
    assert [child.wait(60) for child in children] == [0, 0, 0, 0]


def test_a_full_disk_is_told_and_nothing_is_lost(tmp_path: Path, opened) -> None:
    store = opened(f"sqlite:///{tmp_path}/store.db")
    chain = store.add_chain("train", SPEC, 100)

    @sa.event.listens_for(store.engine, "checkout")
    def small(connection: sqlite3.Connection, *_: object) -> None:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count={pages}")

    def write_until_full() -> None:
        for k in range(10_000):
            store.change_link(chain.id, 1, EventRecord(chain.id, 1, k, "submitted", "x" * 500), job=k)
            written.append(k)

    written: list[int] = []
    with pytest.raises(StoreError, match="full; make room on its disk"):
        write_until_full()
    assert store.links(chain.id)[0].job == written[-1]
    assert store.events(chain.id)[-1].time_s == written[-1]


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        ("nonsense", ConfigurationError),
        ("nosuch://x/y", ConfigurationError),
        ("sqlite:////proc/no/store.db", StoreError),
        ("postgresql+psycopg://nobody@127.0.0.1:1/x", StoreError),
    ],
)
def test_a_store_that_cannot_be_opened_says_so(bad: str, error: type[Exception], opened) -> None:
    with pytest.raises(error):
        opened(bad)


def test_only_its_owner_can_read_it(tmp_path: Path, opened) -> None:
    opened(f"sqlite:///{tmp_path}/sub/store.db")
    assert (tmp_path / "sub" / "store.db").stat().st_mode & 0o777 == 0o600
