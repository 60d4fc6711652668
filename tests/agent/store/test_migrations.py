"""Stores of earlier versions, and of later ones, for SQLite and PostgreSQL."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import textwrap
from contextlib import closing
from dataclasses import asdict

import pytest
import sqlalchemy as sa

from mirage.agent.model import Chain, ChainState, DecisionRecord, EventRecord, Link, LinkState, StoreIdentity
from mirage.agent.store.engine import make_engine
from mirage.agent.store.identity import OF_CHAIN, OF_STORE
from mirage.agent.store.migrations import NEWEST, upgrade
from mirage.agent.store.sql_store import SqlStore
from mirage.errors import StoreError
from mirage.job_state import JobState
from tests.support.agent_store import SPEC, is_identity, killed


def test_a_store_of_the_future_is_refused(store: SqlStore, url: str, opened) -> None:
    with store.engine.begin() as connection:
        connection.info["writes"] = True
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(StoreError, match="newer than this Mirage"):
        opened(url)


def at_version(url: str, version: str) -> None:
    """A store as an early version left it, with a chain, links, a decision and an event in it."""
    with closing(SqlStore(make_engine(url))) as old:
        spec = json.dumps({name: value for name, value in asdict(SPEC).items() if name != "ready_by_job"})
        link = "INSERT INTO links VALUES (1, {}, '{}', 7, 101, 102, 102, 103, 3600, 104, -1, {}, {}, {}, 0{})"
        last = {"0001": "", "0002": ", -1"}[version]
        with old._writing() as connection:
            upgrade(connection, version)
            no = "false" if connection.dialect.name == "postgresql" else 0
            for word in (
                f"INSERT INTO chains VALUES (1, 'train', '{spec}', 100, 'active', '', 0, 0, 0, 0)",
                f"INSERT INTO chains VALUES (2, 'serve', '{spec}', 90, 'paused', 'it rains', 0, 0, 0, 0)",
                link.format(1, "ended", 3700, no, int(JobState.TIMEOUT), last),
                link.format(2, "running", -1, no, -1, last),
                f"INSERT INTO decisions VALUES (1, 1, 1, 150, 'what-if', {no}, 'waiting-costs-less', '{{}}', '{{}}')",
                "INSERT INTO events VALUES (1, 1, 1, 103, 'started', 'job 7')",
            ):
                connection.exec_driver_sql(word)


def check_early_version_is_stored(store: SqlStore) -> None:
    times = {"job": 7, "attempted_s": 101, "submitted_s": 102, "released_s": 102, "started_s": 103, "limit_s": 3600}
    ended = Link(1, 1, LinkState.ENDED, **times, ready_s=104, ended_s=3700, outcome=JobState.TIMEOUT)
    train, serve = store.chains()
    assert train == Chain(1, "train", SPEC, 100, key=train.key)
    assert serve == Chain(2, "serve", SPEC, 90, ChainState.PAUSED, "it rains", key=serve.key)
    assert is_identity(train.key, OF_CHAIN)
    assert is_identity(serve.key, OF_CHAIN)
    assert train.key != serve.key
    known = store.identity()
    assert known == StoreIdentity(known.identity)
    assert is_identity(known.identity, OF_STORE)
    assert store.links(1) == [ended, Link(1, 2, LinkState.RUNNING, **times, ready_s=104)]
    assert store.decisions(1) == [DecisionRecord(1, 1, 150, "what-if", False, "waiting-costs-less")]
    assert store.events(1) == [EventRecord(1, 1, 103, "started", "job 7")]


@pytest.mark.parametrize("version", ["0001", "0002"])
def test_an_old_store_is_updated_with_what_is_in_it(url: str, opened, version: str) -> None:
    at_version(url, version)
    store = opened(url)
    check_early_version_is_stored(store)
    check_early_version_is_stored(opened(url))
    assert opened(url).identity() == store.identity(), "given once"
    store.add_link(Link(1, 3, reason="Priority", earlier=((1, 2, 3),)))
    assert store.links(1)[2] == Link(1, 3, reason="Priority", earlier=((1, 2, 3),))
    store.change_chain(1, trouble="no disk", quick_ends=2, stopped_s=7)
    assert store.chain("train").trouble == "no disk"


def test_a_store_without_revisions_gets_room_for_them(url: str, opened) -> None:
    link = {"job": 7, "attempted_s": 101, "submitted_s": 102, "released_s": 102, "started_s": 103, "limit_s": 3600}
    gone = {"ready_s": -1, "signalled_s": -1, "cancelled_s": -1, "ended_s": -1, "outcome": -1, "exit_code": 0}
    with closing(SqlStore(make_engine(url))) as old, old._writing() as connection:
        upgrade(connection, "0003")
        chain = {"id": 1, "name": "train", "created_s": 100, "state": "active", "why": "", "key": "deer"}
        counts = {name: 0 for name in ("refusals", "failures", "next_try_s", "next_look_s")}
        _insert(connection, "chains", chain | counts | {"spec": asdict(SPEC)})
        stored = {"chain": 1, "number": 2, "state": "queued", "finished": False, "reason": "", "earlier": []}
        _insert(connection, "links", stored | link | gone)
        decided = {"chain": 1, "link": 1, "time_s": 150, "policy": "lead:1", "submits": True, "reason": "r"}
        _insert(connection, "decisions", decided | {"estimate": {}, "saw": {}})
    store = opened(url)
    assert store.links(1) == [Link(1, 2, LinkState.QUEUED, **link)]
    assert store.decisions(1) == [DecisionRecord(1, 1, 150, "lead:1", True, "r")]
    store.change_link(1, 2, begins_s=5, withdrawn_s=6)
    store.add_link(Link(1, 3, given_up=1))
    store.add_decisions([DecisionRecord(1, 1, 151, "lead:1", False, "r", revision="hold")])
    assert [(one.begins_s, one.withdrawn_s, one.given_up) for one in store.links(1)] == [(5, 6, 0), (-1, -1, 1)]
    assert store.decisions(1)[1].revision == "hold"


def test_a_store_without_nodes_and_progress_gets_room_for_them(url: str, opened) -> None:
    at_version(url, "0002")
    with closing(SqlStore(make_engine(url))) as old, old._writing() as connection:
        upgrade(connection, "0006")
    store = opened(url)
    check_early_version_is_stored(store)
    store.change_link(1, 2, nodelist="n[1-2]")
    store.change_chain(1, excluded="n1,n2")
    store.change_link(1, 1, progress="step 40")
    assert [(link.nodelist, link.progress) for link in opened(url).links(1)] == [("", "step 40"), ("n[1-2]", "")]
    assert [chain.excluded for chain in opened(url).chains()] == ["n1,n2", ""]


def test_a_store_without_reservations_gets_room_for_them(url: str, opened) -> None:
    at_version(url, "0002")
    with closing(SqlStore(make_engine(url))) as old, old._writing() as connection:
        upgrade(connection, "0008")
    store = opened(url)
    check_early_version_is_stored(store)
    store.change_link(1, 2, shortened_from_s=7200)
    store.change_chain(1, reserved="5 6 maint")
    assert [link.shortened_from_s for link in opened(url).links(1)] == [-1, 7200]
    assert [chain.reserved for chain in opened(url).chains()] == ["5 6 maint", ""]


def test_a_store_without_suspensions_gets_room_for_them(url: str, opened) -> None:
    at_version(url, "0002")
    with closing(SqlStore(make_engine(url))) as old, old._writing() as connection:
        upgrade(connection, "0009")
    store = opened(url)
    check_early_version_is_stored(store)
    store.change_link(1, 2, ends_s=7200)
    assert [link.ends_s for link in opened(url).links(1)] == [-1, 7200]


def _insert(connection: sa.Connection, table: str, row: dict[str, object]) -> None:
    kinds = {"spec": sa.JSON(), "earlier": sa.JSON(), "estimate": sa.JSON(), "saw": sa.JSON()}
    columns = [sa.column(name, kinds[name]) if name in kinds else sa.column(name) for name in row]
    connection.execute(sa.table(table, *columns).insert().values(row))


def test_the_tables_are_those_of_the_schema(store: SqlStore) -> None:
    pytest.importorskip("alembic", reason="pip install mirage-hpc[test]")
    from alembic.autogenerate import compare_metadata
    from alembic.runtime.migration import MigrationContext

    from mirage.agent.store.schema import metadata

    with store._reading() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
        assert connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar() == NEWEST


OPENER = """
    import sys
    from mirage.agent.store.sql_store import open_store
    open_store(sys.argv[1])
"""

DYING_OPENER = """
    import os, signal, sys
    import psycopg, sqlalchemy as sa
    from mirage.agent.store.sql_store import SqlStore
    from mirage.agent.store.engine import make_engine

    statement = 0
    while True:
        statement += 1
        child = os.fork()
        if not child:
            engine, said = make_engine(sys.argv[1]), 0

            def die(*_):
                global said
                said += 1
                if said == statement:
                    os.kill(os.getpid(), signal.SIGKILL)

            sa.event.listen(engine, "before_cursor_execute", die)
            sa.event.listen(engine, "commit", die)
            SqlStore(engine).migrate()
            os._exit(0)
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if ended != -signal.SIGKILL:
            break
        with SqlStore(make_engine(sys.argv[1]))._reading() as connection:
            kinds = sorted(sa.inspect(connection).get_table_names())
            at = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar() if kinds else None
            print(at, len(kinds), flush=True)
    print(statement)
    sys.exit(ended)
"""


def killed_at_every_statement(url: str) -> tuple[set[str], int]:
    """The state of the store after each kill, and the number of statements of a migration."""
    words = [sys.executable, "-c", textwrap.dedent(DYING_OPENER), url]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    *found, statements = done.stdout.splitlines()
    return set(found), int(statements)


@pytest.mark.slow
def test_killed_at_any_statement_of_its_making_there_is_no_store_or_a_whole_one(url: str, opened) -> None:
    found, statements = killed_at_every_statement(url)
    assert statements > 15
    assert found <= {"None 0", f"{NEWEST} 7"}
    chain = opened(url).add_chain("train", SPEC, 100)
    assert opened(url).links(chain.id) == [Link(chain.id, 1)]


@pytest.mark.slow
def test_killed_at_any_statement_of_an_upgrade_the_store_is_old_or_new(url: str, opened) -> None:
    at_version(url, "0001")
    found, statements = killed_at_every_statement(url)
    assert statements > 8
    assert found <= {"0001 6", f"{NEWEST} 7"}
    check_early_version_is_stored(opened(url))


@pytest.mark.slow
def test_killed_at_any_moment_of_its_making_the_store_can_be_opened(url: str, opened) -> None:
    dice = random.Random(5)
    for _ in range(4):
        killed(OPENER, url, dice.uniform(0.3, 0.9), wait_ready=False)
    assert opened(url).chains() == []


@pytest.mark.slow
def test_many_may_open_a_new_store_at_once(url: str) -> None:
    children = [subprocess.Popen([sys.executable, "-c", textwrap.dedent(OPENER), url]) for _ in range(4)]
    assert [child.wait(300) for child in children] == [0, 0, 0, 0]
