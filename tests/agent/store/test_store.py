"""The same tests for SQLite and for a real PostgreSQL server."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
import textwrap
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mirage.agent.model import Chain, ChainSpec, ChainState, DecisionRecord, EventRecord, Link, LinkState
from mirage.agent.store.engine import journal_mode
from mirage.agent.store.sql_store import DETAILED_LINKS, SqlStore
from mirage.errors import ConfigurationError, LeaseHeld, StoreError, UnknownName
from mirage.job_state import MISSING, JobState
from mirage.slurm.records import Submission
from tests.support.agent_store import SPEC, killed


def test_a_chain_begins_with_its_first_link_planned(store: SqlStore, url: str, opened) -> None:
    chain = store.add_chain("train", SPEC, 100)
    again = opened(url)
    assert again.chain("train") == chain == Chain(chain.id, "train", SPEC, 100, key=chain.key)
    assert again.links(chain.id) == [Link(chain.id, 1)]


def test_a_name_is_given_once_and_unknown_ones_list_the_known(store: SqlStore) -> None:
    store.add_chain("train", SPEC, 100)
    with pytest.raises(ConfigurationError, match="chain 'train' already, and it is active; choose another name"):
        store.add_chain("train", SPEC, 101)
    with pytest.raises(UnknownName, match="Did you mean 'train'"):
        store.chain("trian")
    assert len(store.chains()) == 1


def test_a_chain_that_is_done_can_be_removed_and_no_other(store: SqlStore) -> None:
    for name in ("train", "serve"):
        chain = store.add_chain(name, SPEC, 100)
        store.change_chain(chain.id, EventRecord(chain.id, 1, 1, "paused"))
        store.add_decisions([DecisionRecord(chain.id, 1, 1, "lead:4", False, "x")])
    one, other = store.chains()
    with pytest.raises(ConfigurationError, match=f"chain {one.id} is active; only one that is done"):
        store.remove_chain(one.id)
    store.change_chain(one.id, state=ChainState.DONE)
    with pytest.raises(ConfigurationError, match="it is done: `mirage chain rm train` frees its name"):
        store.add_chain("train", SPEC, 101)
    store.remove_chain(one.id)
    with pytest.raises(ConfigurationError, match="is not there"):
        store.remove_chain(one.id)
    assert (store.links(one.id), store.events(one.id), store.decisions(one.id)) == ([], [], [])
    assert [len(found(other.id)) for found in (store.links, store.events, store.decisions)] == [1, 1, 1]
    assert store.add_chain("train", replace(SPEC, links=7), 101).spec == store.chain("train").spec


def test_an_edited_specification_is_read_by_a_running_agent(store: SqlStore, url: str, opened) -> None:
    agent = opened(url)
    chain = store.add_chain("train", SPEC, 100)
    store.change_chain(chain.id, refusals=2, next_try_s=900, next_decision_s=800, wrong_forecasts=4)
    assert agent.chain("train").spec == SPEC
    edited = replace(SPEC, policy="lead:9")
    store.change_spec(store.chain("train"), edited, EventRecord(chain.id, 0, 110, "edited", "policy"))
    assert agent.chain("train") == replace(chain, spec=edited, edits=1), "and is tried and decided at once"
    assert [event.kind for event in agent.events(chain.id)] == ["edited"]
    with pytest.raises(ConfigurationError, match="chain train was edited or ended by another command"):
        store.change_spec(chain, SPEC)
    store.change_chain(chain.id, state=ChainState.DONE)
    with pytest.raises(ConfigurationError, match="edited or ended"):
        store.change_spec(store.chain("train"), SPEC)
    assert agent.chain("train").spec == edited


def test_the_number_of_a_removed_chain_is_never_given_again(store: SqlStore, url: str, opened) -> None:
    """An agent that runs meanwhile must not take a new chain for the old one."""
    agent = opened(url)
    given = []
    for links in range(1, 4):
        chain = store.add_chain("train", replace(SPEC, links=links), 100)
        given.append(chain.id)
        assert [one.spec.links for one in agent.chains()] == [links]
        store.change_chain(chain.id, state=ChainState.DONE)
        store.remove_chain(chain.id)
    assert sorted(set(given)) == given


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


def test_a_state_is_only_changed_from_the_one_that_was_read(store: SqlStore) -> None:
    chain = store.add_chain("train", SPEC, 100)
    event = EventRecord(chain.id, 0, 110, "stopping")
    assert store.change_chain(chain.id, event, from_state=ChainState.ACTIVE, state=ChainState.STOPPING, why="by hand")
    late = replace(event, kind="paused")
    assert not store.change_chain(chain.id, late, from_state=ChainState.ACTIVE, state=ChainState.PAUSED, why="late")
    assert (store.chain("train").state, store.chain("train").why) == (ChainState.STOPPING, "by hand")
    assert [e.kind for e in store.events(chain.id)] == ["stopping"]


def test_what_does_not_exist_cannot_be_changed(store: SqlStore) -> None:
    chain = store.add_chain("train", SPEC, 100)
    with pytest.raises(TypeError, match="links have no colour"):
        store.change_link(chain.id, 1, colour="red")
    with pytest.raises(TypeError, match="chains have no id, spec to set"):
        store.change_chain(chain.id, id=7, spec=SPEC)
    with pytest.raises(StoreError, match="a link 1 already"):
        store.add_link(Link(chain.id, 1), EventRecord(chain.id, 1, 1, "planned"))
    with pytest.raises(StoreError, match="no link 2 to change"):
        store.change_link(chain.id, 2, EventRecord(chain.id, 2, 1, "started"), job=7)
    with pytest.raises(StoreError, match="no chain with the number 99"):
        store.change_chain(99, refusals=1)
    with pytest.raises(StoreError, match="no chain with the number 99"):
        store.change_chain(99, from_state=ChainState.ACTIVE, state=ChainState.PAUSED)
    assert store.events(chain.id) == []


def test_a_submission_is_claimed_once(store: SqlStore) -> None:
    chain = store.add_chain("train", SPEC, 100)
    assert store.attempt(chain.id, 1, 105, 0)
    assert not store.attempt(chain.id, 1, 106, 0)
    store.change_link(chain.id, 1, attempted_s=MISSING)
    assert store.attempt(chain.id, 1, 107, 0)
    assert store.links(chain.id)[0].attempted_s == 107


def test_what_was_edited_since_it_was_read_is_not_submitted(store: SqlStore) -> None:
    chain = store.add_chain("train", SPEC, 100)
    store.change_spec(chain, SPEC)
    assert not store.attempt(chain.id, 1, 105, chain.edits)
    assert store.attempt(chain.id, 1, 106, chain.edits + 1)


def test_old_decisions_to_wait_are_removed_and_those_that_submitted_stay(store: SqlStore) -> None:
    chain, other = store.add_chain("a", SPEC, 1), store.add_chain("b", SPEC, 2)
    for number in range(1, DETAILED_LINKS + 4):
        if number > 1:
            store.add_link(Link(chain.id, number))
        of_link = [
            DecisionRecord(chain.id, number, number, "what-if", submits, "r") for submits in (False, False, True)
        ]
        store.add_decisions([*of_link, DecisionRecord(other.id, 1, number, "reactive", False, "r")])
    found = store.decisions(chain.id)
    assert [one.link for one in found if one.submits] == list(range(1, DETAILED_LINKS + 4))
    waits = [one.link for one in found if not one.submits]
    assert (waits[0], len(waits)) == (3, 2 * (DETAILED_LINKS + 1)), "the present link, and so many before"
    assert len(store.decisions(other.id)) == DETAILED_LINKS + 3
    assert [one.time_s for one in store.decisions(chain.id, last=1)] == [DETAILED_LINKS + 3]


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
counts = st.integers(0, 2**31 - 1)
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
surroundings = st.text(st.characters(exclude_characters="\0"), max_size=30)  # undecodable bytes: lone surrogates
specs = st.builds(
    ChainSpec,
    submission=st.builds(
        Submission,
        script=texts,
        options=st.dictionaries(texts, st.none() | texts, max_size=3),
        arguments=st.lists(surroundings, max_size=3).map(tuple),
        environment=st.dictionaries(surroundings, surroundings, max_size=3),
        directory=surroundings,
    ),
    until_s=numbers,
    links=counts,
    until_done=st.booleans(),
    policy=texts,
    interruption_cost=st.floats(0, 1e9),
    overlap_cost=st.floats(0, 1e9),
    ready_command=texts,
    warmup_s=counts,
    signal=texts,
    grace_s=counts,
    ready_by_job=st.booleans(),
)
links = st.builds(
    Link,
    chain=st.just(1),
    number=st.integers(2, 2**31 - 1),
    state=st.sampled_from(LinkState),
    **{
        name: numbers
        for name in (
            "job", "attempted_s", "submitted_s", "released_s", "started_s", "limit_s", "ready_s", "signalled_s",
            "cancelled_s", "ended_s",
        )
    },
    finished=st.booleans(),
    outcome=st.sampled_from(JobState),
    exit_code=st.integers(-1, 255),
    reason=texts,
    earlier=st.lists(st.tuples(numbers, numbers, numbers), max_size=3).map(tuple),
)  # fmt: skip
anything = st.dictionaries(texts, st.floats(allow_nan=False), max_size=4)
decisions = st.builds(
    DecisionRecord,
    chain=st.just(1),
    link=st.integers(1, 10**6),
    time_s=numbers,
    policy=st.sampled_from(["what-if", "lead:4"]),
    submits=st.booleans(),
    reason=texts,
    estimate=anything,
    observed=anything,
)
often = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@often
@given(specs)
def test_a_specification_is_read_as_it_was_written(store: SqlStore, spec: ChainSpec) -> None:
    name = f"c{len(store.chains())}"
    made = store.add_chain(name, spec, 100)
    with closing(SqlStore(store.engine)) as fresh:  # one that has not read it before
        assert fresh.chain(name) == made == Chain(made.id, name, spec, 100, key=made.key)


@often
@given(links)
def test_links_are_read_as_they_were_written(store: SqlStore, link: Link) -> None:
    chain = store.add_chain(f"c{len(store.chains())}", SPEC, 100)
    written = replace(link, chain=chain.id)
    store.add_link(written)
    assert store.links(chain.id) == [Link(chain.id, 1), written]


@often
@given(st.lists(decisions, max_size=4))
def test_decisions_are_read_as_they_were_written(store: SqlStore, made: list[DecisionRecord]) -> None:
    chain = store.chains()[0] if store.chains() else store.add_chain("train", SPEC, 100)
    mine = [replace(decision, chain=chain.id) for decision in made]
    store.add_decisions(mine)
    assert not mine or store.decisions(chain.id, last=len(mine)) == mine


def test_what_a_data_base_cannot_hold_is_made_fit(store: SqlStore) -> None:
    chain = store.add_chain("train", SPEC, 100)
    store.change_chain(chain.id, EventRecord(chain.id, 1, 1, "refused", "a\0b \udcff"), why="half \ud800")
    assert store.events(chain.id)[0].detail == "a\ufffdb ?"
    assert store.chains()[0].why == "half ?"
    store.add_decisions([DecisionRecord(chain.id, 1, 1, "lead:4", False, "", {"wait_p95_s": float("nan")})])
    assert store.decisions(chain.id)[0].estimate["wait_p95_s"] != store.decisions(chain.id)[0].estimate["wait_p95_s"]
    store.add_decisions([DecisionRecord(chain.id, 1, 1, f"shell-tree:tree=/{'model/' * 20}", False, "")])
    assert store.decisions(chain.id)[-1].policy == f"shell-tree:tree=/{'model/' * 10}mo…"


def test_reasons_and_kinds_are_counted_once(store: SqlStore) -> None:
    chain = store.add_chain("train", SPEC, 100)
    early = DecisionRecord(chain.id, 1, 1, "lead:4", False, "lead-not-reached")
    store.add_decisions([early, early, replace(early, submits=True, reason="lead-reached")])
    last, counted = store.decided_since(0)
    assert counted == {("lead-not-reached", False): 2, ("lead-reached", True): 1}
    assert store.decided_since(last) == (last, {})
    store.add_decisions([early])
    assert store.decided_since(last)[1] == {("lead-not-reached", False): 1}
    store.change_chain(chain.id, EventRecord(chain.id, 1, 1, "refused"), refusals=1)
    last, kinds = store.happened_since(0)
    assert (kinds, store.happened_since(last)) == ({"refused": 1}, (last, {}))


def test_one_agent_has_the_lease(store: SqlStore, url: str, opened) -> None:
    store.take_lease("one", 100.0, 60)
    store.take_lease("one", 130.0, 60)
    second = opened(url)
    with pytest.raises(LeaseHeld, match=r"an agent on one \(process \?\) manages these chains; its lease ends in 50 s"):
        second.take_lease("two", 140.0, 60)
    second.take_lease("two", 191.0, 60)
    with pytest.raises(LeaseHeld, match="two"):
        store.take_lease("one", 192.0, 60)
    store.drop_lease("one")
    assert second.lease() == ("two", 251.0)
    second.drop_lease("two")
    assert store.lease() is None


TAKER = """
    import sys
    from mirage.agent.store.sql_store import open_store
    from mirage.errors import LeaseHeld
    store = open_store(sys.argv[1])
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        store.take_lease(sys.argv[2], 100.0, 60)
    except LeaseHeld:
        print("held")
    else:
        print("taken")
"""


@pytest.mark.slow
def test_of_agents_that_want_the_lease_at_once_one_gets_it(url: str) -> None:
    words = [sys.executable, "-c", textwrap.dedent(TAKER), url]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    agents = [subprocess.Popen([*words, f"agent {k}"], **pipes) for k in range(5)]
    assert [agent.stdout.readline() for agent in agents] == ["ready\n"] * 5
    for agent in agents:
        agent.stdin.write("go\n")
        agent.stdin.flush()
    assert sorted(agent.communicate(timeout=60)[0] for agent in agents) == ["held\n"] * 4 + ["taken\n"]


WRITER = """
    import sys
    from mirage.agent.model import EventRecord, LinkState
    from mirage.agent.store.sql_store import open_store
    store = open_store(sys.argv[1])
    chain = store.chains()[0].id
    job = store.links(chain)[0].job
    while True:
        job += 1
        store.change_link(chain, 1, EventRecord(chain, 1, job, "submitted"), job=job)
        print("ready", flush=True)
"""


@pytest.mark.slow
def test_killed_while_it_writes_a_change_has_happened_with_its_event_or_not_at_all(store: SqlStore, url: str) -> None:
    chain = store.add_chain("train", SPEC, 100).id
    dice = random.Random(3)
    for _ in range(5):
        killed(WRITER, url, dice.uniform(0.01, 0.3))
        link, events = store.links(chain)[0], store.events(chain)
        assert events[-1].time_s == link.job
        assert [event.time_s for event in events] == list(range(len(events)))


def test_a_full_disk_is_reported_and_nothing_is_lost(tmp_path: Path, opened) -> None:
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


def test_a_server_that_ended_all_sessions_is_met_again(postgres_url: str, opened) -> None:
    store = opened(postgres_url)
    with store._reading() as connection:
        before = connection.execute(sa.text("SELECT pg_backend_pid()")).scalar()
    engine = sa.create_engine(postgres_url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        assert connection.execute(sa.text(f"SELECT pg_terminate_backend({before})")).scalar()
    engine.dispose()
    assert store.lease() is None


@pytest.mark.parametrize(
    ("bad", "error", "message"),
    [
        ("nonsense", ConfigurationError, "not a database URL"),
        ("nosuch://x/y", ConfigurationError, "neither sqlite"),
        ("mysql://ada:secret@host/x", ConfigurationError, "neither sqlite"),
        ("postgresql://ada:se:secret@host:many/x", ConfigurationError, "not a database URL"),
        ("sqlite:////tmp/store.db?mode=ro", ConfigurationError, "SQLite takes no option 'mode'; leave out what"),
        ("sqlite:////proc/no/store.db", StoreError, "MIRAGE_STORE"),
        ("postgresql://nobody:secret@127.0.0.1:1/x", StoreError, "check that its server runs"),
    ],
)
def test_a_store_that_cannot_be_opened_reports_so(bad: str, error: type[Exception], message: str, opened) -> None:
    with pytest.raises(error, match=message) as reported:
        opened(bad)
    assert "secret" not in str(reported.value)
    assert "\n" not in str(reported.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("links SET state = 'runing'", "the state of link 1 of chain number 1 is 'runing', and none of planned, held,"),
        ("links SET outcome = 99", "the outcome of link 1 of chain number 1 is 99, and none of"),
        ("chains SET state = 'on'", "the state of chain train is 'on', and none of active, paused, ending,"),
        ("chains SET edits = 1, spec = '{}'", "it has no 'submission'"),
    ],
)
def test_a_value_changed_by_hand_is_named(store: SqlStore, url: str, change: str, message: str) -> None:
    store.add_chain("train", SPEC, 100)
    assert len(store.chains()) == len(store.links()) == 1
    with store.engine.begin() as connection:
        connection.execute(sa.text(f"UPDATE {change}"))
    with pytest.raises(StoreError) as reported:
        store.chains(), store.links()
    assert message in str(reported.value)
    assert "undo that change" in str(reported.value)
    assert ("mirage agent recover --from-backup 1" in str(reported.value)) == url.startswith("sqlite")


def test_a_file_that_is_no_store_reports_so(tmp_path: Path, opened) -> None:
    (tmp_path / "store.db").write_text("Dear diary, " * 500)
    with pytest.raises(StoreError, match="not a database; there is no sound backup; `mirage agent recover`"):
        opened(f"sqlite:///{tmp_path}/store.db")


def test_a_store_that_another_process_holds_reports_so(tmp_path: Path, opened) -> None:
    store = opened(f"sqlite:///{tmp_path}/store.db?timeout=0.1")
    with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="locked; another process has locked it"):
            store.drop_lease("one")
    store.drop_lease("one")


def test_a_store_that_must_not_be_written_reports_so(tmp_path: Path, opened) -> None:
    opened(f"sqlite:///{tmp_path}/store.db")
    store = opened(f"sqlite:///file:{tmp_path}/store.db?mode=ro&uri=true")
    assert store.chains() == []
    with pytest.raises(StoreError, match="readonly database; get the right"):
        store.drop_lease("one")


MOUNTS = """\
22 1 0:20 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
41 22 0:41 / /home rw - nfs4 server:/home rw,vers=4.2
42 41 0:42 / /home/ada/my\\040disk rw - xfs /dev/sdb1 rw
43 22 0:43 / /scratch rw - lustre mgs:/scratch rw,flock
nonsense
"""


@pytest.mark.parametrize(
    ("path", "journal"),
    [
        ("/var/store.db", "WAL"),
        ("/home/ada/.mirage/store.db", "DELETE"),
        ("/home/ada/my disk/store.db", "WAL"),
        ("/homestead/store.db", "WAL"),
        ("/scratch/store.db", "DELETE"),
    ],
)
def test_where_other_hosts_see_the_file_no_memory_is_shared(path: str, journal: str) -> None:
    assert journal_mode(Path(path), MOUNTS) == journal


def test_a_store_on_a_shared_disk_works(tmp_path: Path, opened, monkeypatch) -> None:
    monkeypatch.setattr("mirage.agent.store.engine.journal_mode", lambda path: "DELETE")
    store = opened(f"sqlite:///{tmp_path}/store.db")
    chain = store.add_chain("train", SPEC, 100)
    assert store.attempt(chain.id, 1, 105, 0)
    with store._reading() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "delete"
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2


def test_importing_the_store_is_light() -> None:
    script = "import sys, mirage.agent.store.sql_store; print(*{'alembic', 'numba', 'psycopg'} & sys.modules.keys())"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout == "\n"


def test_only_its_owner_can_read_it(tmp_path: Path, opened) -> None:
    store = opened(f"sqlite:///{tmp_path}/sub/store.db")
    store.add_chain("train", SPEC, 100)
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "sub").iterdir()} == {0o600}
