"""A store rebuilt from backups, the chains' files and jobs; Slurm is a list of jobs here."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from mirage.agent.chain.create import create_chain
from mirage.agent.chain.recover import Recovery, recover
from mirage.agent.chain.request import Caller, read_request
from mirage.agent.chain.tag import Tag
from mirage.agent.model import Chain, ChainSpec, ChainState, EventRecord, Link, LinkState
from mirage.agent.paths import Home
from mirage.agent.store import chain_file
from mirage.agent.store.backup import back_up, damage
from mirage.agent.store.lease import holder_name
from mirage.agent.store.sql_store import SqlStore, open_store
from mirage.errors import ConfigurationError, LeaseHeld, SlurmRefused, SlurmUnreachable, StoreError, WrongCluster
from mirage.job_state import JobState
from mirage.slurm.records import AccountedJob, Queue, QueuedJob, Submission

NOW_S = 1_790_000_040
ME = "ada"
CONFIGURATION = {"clustername": "c1", "slurmctldhost[0]": "head", "slurmctldport": "6817"}


@dataclass
class Slurm:
    """A cluster that shows what it is given."""

    user = ME

    jobs: list[QueuedJob] = field(default_factory=list)
    ended: list[AccountedJob] = field(default_factory=list)
    options: dict[str, str] = field(default_factory=lambda: dict(CONFIGURATION))
    trouble: Exception | None = None
    submitted: list[Submission] = field(default_factory=list)

    def configuration(self) -> dict[str, str]:
        return self.options

    def observe(self) -> Queue:
        if isinstance(self.trouble, SlurmUnreachable):
            raise self.trouble
        return Queue(NOW_S, tuple(self.jobs))

    def accounting(self, since_s: int) -> tuple[AccountedJob, ...]:
        if self.trouble is not None:
            raise self.trouble
        self.since_s = since_s
        return tuple(self.ended)

    def submit(self, submission: Submission) -> int:
        self.submitted.append(submission)
        return 100 + len(self.submitted)


@dataclass
class Place:
    """A folder with a store, and the cluster that its chains are on."""

    home: Home
    slurm: Slurm

    @property
    def path(self) -> Path:
        return self.home.folder / "store.db"

    def opened(self) -> SqlStore:
        return open_store(self.home.store_url)

    def make(self, name: str, **spec: object) -> Chain:
        """A chain as ``mirage submit`` makes it; its first job is in the queue then."""
        (self.home.folder / "job.sh").write_text("#!/bin/sh\n")
        request = read_request({}, "job.sh", (), Caller({}, self.home.folder, 0o022))
        with closing(self.opened()) as store:
            wanted = ChainSpec(Submission(""), **spec)  # type: ignore[arg-type]
            job = create_chain(store, self.slurm, self.home, request, wanted, name, NOW_S - 9_000)  # type: ignore[arg-type]
            chain = store.chain(name)
            self.slurm.jobs.append(self.job(job, chain, 1, JobState.RUNNING))
            return chain

    def tag(self, chain: Chain, link: int) -> Tag:
        stored = next(k for k in chain_file.read_chain_files(self.home.folder)[0] if k.key == chain.key)
        return Tag(chain.name, link, stored.store, chain.key)

    def job(self, number: int, chain: Chain, link: int, state: JobState, **known: object) -> QueuedJob:
        times = {"submit_s": NOW_S - 8_000, "eligible_s": NOW_S - 8_000, "limit_s": 3_600}
        if state is not JobState.PENDING:
            times["start_s"] = NOW_S - 7_000
        values = {"user": ME, "comment": str(self.tag(chain, link)), **times, **known}
        return QueuedJob(number, state, **values)  # type: ignore[arg-type]

    def accounted(self, number: int, chain: Chain, link: int, state: JobState, **known: object) -> AccountedJob:
        times = {"submit_s": NOW_S - 8_000, "start_s": NOW_S - 7_000, "end_s": NOW_S - 3_400, "limit_s": 3_600}
        values = {"user": ME, "comment": str(self.tag(chain, link)), **times, **known}
        return AccountedJob(number, state, **values)  # type: ignore[arg-type]

    def recover(self, **how: int) -> Recovery:
        return recover(self.home, self.slurm, NOW_S, **how)  # type: ignore[arg-type]

    def lose(self) -> None:
        for left in self.home.folder.glob("store.db*"):
            left.unlink()

    def links(self, name: str) -> dict[int, Link]:
        with closing(self.opened()) as store:
            return {link.number: link for link in store.links(store.chain(name).id)}

    def chain(self, name: str) -> Chain:
        with closing(self.opened()) as store:
            return store.chain(name)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(Home.of({"MIRAGE_HOME": str(tmp_path / "home")}), Slurm())


def test_a_deleted_store_is_rebuilt_from_the_chains_files_and_their_jobs(place: Place) -> None:
    chain = place.make("serve", policy="lead:2", links=9)
    with closing(place.opened()) as store:
        identity = store.identity()
    place.lose()
    place.slurm.jobs = [
        place.job(103, chain, 3, JobState.RUNNING, eligible_s=NOW_S - 7_900),
        place.job(104, chain, 4, JobState.PENDING, dependency="afterany:103(unfulfilled)", eligible_s=0),
    ]
    place.slurm.ended = [place.accounted(102, chain, 2, JobState.TIMEOUT, comment="", submit_line="")]
    place.slurm.ended[0] = replace(
        place.slurm.ended[0], submit_line=f"sbatch --comment '{place.tag(chain, 2)}' -t 60 /x/job.sh"
    )
    done = place.recover()
    assert [(one.chain.name, one.found, one.lost) for one in done.chains] == [("serve", (2, 3, 4), (1,))]
    assert (done.source, done.aside, done.unknown) == (None, (), ())
    with closing(place.opened()) as store:
        assert (store.identity().identity, store.identity().cluster) == (identity.identity, "c1@head:6817")
        assert [event.kind for event in store.events(store.chain("serve").id)] == ["recovered"]
    again = place.chain("serve")
    assert (again.key, again.spec, again.created_s, again.state) == (
        chain.key, chain.spec, chain.created_s, ChainState.ACTIVE,
    )  # fmt: skip
    number = again.id
    common = {"attempted_s": NOW_S - 8_000, "submitted_s": NOW_S - 8_000, "limit_s": 3_600}
    assert place.links("serve") == {
        1: Link(number, 1, LinkState.ENDED, ended_s=NOW_S),
        2: Link(
            number, 2, LinkState.ENDED, 102, **common, released_s=NOW_S - 8_000, started_s=NOW_S - 7_000,
            ended_s=NOW_S - 3_400, outcome=JobState.TIMEOUT,
        ),
        3: Link(number, 3, LinkState.RUNNING, 103, **common, released_s=NOW_S - 7_900, started_s=NOW_S - 7_000),
        4: Link(number, 4, LinkState.HELD, 104, **common),
    }  # fmt: skip
    assert place.slurm.since_s == chain.created_s


def test_what_the_last_agent_may_have_been_about_to_submit_is_searched_first(place: Place) -> None:
    free = place.make("serve")
    place.make("last", links=1)
    place.lose()
    place.recover()
    assert {n: (link.state, link.attempted_s) for n, link in place.links("serve").items()} == {
        1: (LinkState.RUNNING, NOW_S - 8_000),
        2: (LinkState.PLANNED, NOW_S),
    }
    assert list(place.links("last")) == [1]
    assert free.spec.links == 0


def test_with_a_backup_its_history_is_stored_and_what_came_since_is_added(place: Place) -> None:
    old = place.make("old")
    with closing(place.opened()) as store:
        store.change_link(old.id, 1, EventRecord(old.id, 1, 5, "started"), state=LinkState.RUNNING, started_s=7)
        store.add_link(Link(old.id, 2))
        paused = place.make("paused")
        store.change_chain(paused.id, state=ChainState.PAUSED, why="by hand")
        store.take_lease("login7:1:2", NOW_S - 10, 600)
        back_up(place.path, NOW_S - 60)
    new = place.make("new")
    place.slurm.jobs.append(place.job(120, old, 2, JobState.PENDING))
    place.path.write_bytes(b"rubbish" * 1_000)
    for end in ("-wal", "-shm"):
        place.path.with_name(f"store.db{end}").write_bytes(b"more")
    done = place.recover()
    assert done.source is not None
    assert (done.source.number, done.source.made_s) == (1, NOW_S - 60)
    assert sorted(path.name for path in done.aside) == [f"store.db.damaged-1{end}" for end in ("", "-shm", "-wal")]
    assert done.aside[0].read_bytes() == b"rubbish" * 1_000
    assert [(one.chain.name, one.found) for one in done.chains] == [("old", (2,)), ("paused", ()), ("new", (1,))]
    assert damage(place.path) == ""
    links = place.links("old")
    assert (links[1].started_s, links[2].job, links[2].state) == (7, 120, LinkState.QUEUED)
    assert place.chain("paused").why == "by hand"
    assert place.chain("new").key == new.key
    with closing(place.opened()) as store:
        assert [event.kind for event in store.events(old.id)] == ["submitted", "started", "recovered"]
        assert store.lease() is None


def test_a_planned_link_of_a_backup_is_searched_before_it_is_submitted_again(place: Place) -> None:
    chain = place.make("serve")
    with closing(place.opened()) as store:
        store.add_link(Link(chain.id, 2))
        back_up(place.path, NOW_S)
    place.path.unlink()
    place.recover()
    assert (place.links("serve")[2].state, place.links("serve")[2].attempted_s) == (LinkState.PLANNED, NOW_S)


@pytest.mark.parametrize(
    ("words", "state", "why"),
    [
        ("", ChainState.PAUSED, "recovered without a job: `mirage chain resume serve` or `mirage chain stop serve`"),
        (" done", ChainState.DONE, "link 1 reported that"),
    ],
)
def test_a_chain_without_a_job_is_not_woken(place: Place, words: str, state: ChainState, why: str) -> None:
    chain = place.make("serve")
    place.lose()
    comment = f"{place.tag(chain, 1)}{words}"
    place.slurm.jobs = [place.job(101, chain, 1, JobState.TIMEOUT, comment=comment, end_s=NOW_S - 60)]
    place.recover()
    assert place.chain("serve").state is state
    assert why in place.chain("serve").why
    assert list(place.links("serve")) == [1]


def test_a_chain_of_a_backup_without_a_job_in_the_queue_is_paused(place: Place) -> None:
    stopped, alive = place.make("stopped"), place.make("alive")
    with closing(place.opened()):
        back_up(place.path, NOW_S)
    place.path.unlink()
    place.slurm.jobs = [place.job(102, alive, 1, JobState.PENDING)]
    place.slurm.ended = [place.accounted(101, stopped, 1, JobState.CANCELLED)]
    done = place.recover()
    assert [[(link.number, link.job) for link in one.links] for one in done.chains] == [[], [(1, 102)]]
    assert place.chain("alive").state is ChainState.ACTIVE
    assert place.chain("stopped").state is ChainState.PAUSED
    assert "recovered without a job" in place.chain("stopped").why
    assert list(place.links("stopped")) == [1]


def test_jobs_of_others_and_of_other_stores_are_not_polled(place: Place) -> None:
    chain = place.make("serve")
    place.lose()
    ours = place.slurm.jobs[0]
    place.slurm.jobs += [
        place.job(200, chain, 2, JobState.RUNNING, user="mallory"),
        place.job(201, chain, 3, JobState.RUNNING, comment=str(replace(place.tag(chain, 3), store="anew"))),
        place.job(202, chain, 4, JobState.RUNNING, comment="mirage:serve:5"),
    ]
    place.slurm.ended = [
        place.accounted(210, chain, 6, JobState.TIMEOUT, user="mallory"),
        place.accounted(211, chain, 7, JobState.TIMEOUT, comment=str(replace(place.tag(chain, 7), store="anew"))),
    ]
    done = place.recover()
    assert [link.job for link in done.chains[0].links] == [ours.id]
    assert done.unknown == ()


def test_of_two_jobs_with_one_tag_the_first_that_lives_counts(place: Place) -> None:
    chain = place.make("serve")
    place.lose()
    states = {150: JobState.CANCELLED, 151: JobState.PENDING, 152: JobState.PENDING}
    place.slurm.jobs = [place.job(number, chain, 1, state) for number, state in states.items()]
    place.recover()
    assert place.links("serve")[1].job == 151


def test_a_chain_of_which_only_jobs_are_known_is_named(place: Place) -> None:
    place.make("serve")
    stray = place.make("stray")
    place.slurm.jobs.append(place.job(300, stray, 2, JobState.PENDING))
    place.lose()
    (place.home.chain_folder("stray") / "chain.json").unlink()
    (place.home.folder / "chains" / "torn").mkdir()
    (place.home.folder / "chains" / "torn" / "chain.json").write_text('{"name": ')
    done = place.recover()
    reported = dict(done.unknown)
    assert reported["stray"].startswith("jobs 102, 300: neither a backup nor chains/NAME/chain.json describes")
    assert "not a chain's file" in reported[str(place.home.folder / "chains" / "torn" / "chain.json")]
    assert [one.chain.name for one in done.chains] == ["serve"]


def test_a_chain_of_an_older_store_in_the_same_place_is_named_and_left(place: Place) -> None:
    place.make("ancient")
    stored = place.home.chain_folder("ancient")
    text = (
        (stored / "chain.json")
        .read_text()
        .replace('"id": "', '"id": "x')
        .replace(f'"created_s": {NOW_S - 9_000}', '"created_s": 5')
    )
    (stored / "chain.json").write_text(text)
    place.make("serve")
    place.lose()
    place.slurm.jobs.pop(0)
    done = place.recover()
    assert [one.chain.name for one in done.chains] == ["serve"]
    assert "it is of another store, x" in dict(done.unknown)["ancient"]


def files(place: Place) -> list[str]:
    """The existing stores, without the files that SQLite adds to read them."""
    return sorted(path.name for path in place.home.folder.glob("store.db*") if path.name[-4:] not in ("-shm", "-wal"))


def refused(place: Place, **how: int) -> Callable[[type[Exception], str], None]:
    def as_(error: type[Exception], words: str) -> None:
        before = files(place)
        with pytest.raises(error, match=words):
            place.recover(**how)
        assert files(place) == before

    return as_


def test_a_sound_store_is_left_alone_unless_a_backup_is_requested(place: Place) -> None:
    place.make("serve")
    refused(place)(ConfigurationError, "is sound, so there is nothing to recover$")
    refused(place, from_backup=1)(ConfigurationError, r"no sound backup 1 of .*; there are: none")
    back_up(place.path, NOW_S)
    refused(place)(ConfigurationError, r"is sound, so there is nothing to recover.*--from-backup 1")
    place.make("later")
    done = place.recover(from_backup=1)
    assert {path.name.rpartition("-")[0] for path in done.aside} >= {"store.db.replaced"}
    assert [one.chain.name for one in done.chains] == ["serve", "later"]
    with closing(sqlite3.connect(done.aside[0])) as moved:
        assert moved.execute("SELECT count(*) FROM chains").fetchone() == (2,)


@pytest.mark.parametrize("kind", ["pipe", "circle", "folder"])
def test_what_is_no_file_in_the_place_of_the_store_is_moved_aside(place: Place, kind: str) -> None:
    chain = place.make("serve", policy="lead:2", links=9)
    place.lose()
    if kind == "pipe":
        os.mkfifo(place.path)  # SQLite would wait for its writer
    elif kind == "circle":
        place.path.symlink_to(place.path.name)
    else:
        place.path.mkdir()
    place.slurm.jobs = [place.job(103, chain, 3, JobState.RUNNING)]
    done = place.recover()
    assert [path.name for path in done.aside] == ["store.db.damaged-1"]
    assert place.chain("serve").key == chain.key


def test_while_an_agent_is_at_work_nothing_is_done(place: Place) -> None:
    place.make("serve")
    with closing(place.opened()) as store:
        store.take_lease(holder_name(), NOW_S, 60)
    back_up(place.path, NOW_S)
    before = place.path.read_bytes()
    refused(place, from_backup=1)(LeaseHeld, r"mirage agent stop, or, if that cannot read the store, kill \d+ on \S+$")
    assert place.path.read_bytes() == before


def test_on_another_cluster_nothing_is_done(place: Place) -> None:
    place.make("serve")
    place.lose()
    place.slurm.options["clustername"] = "lab"
    refused(place)(WrongCluster, "live on the cluster c1@head:6817, and Slurm's commands speak to lab@head:6817")
    assert not place.path.exists()


def test_where_slurm_does_not_answer_nothing_is_done(place: Place) -> None:
    place.make("serve")
    place.lose()
    place.slurm.trouble = SlurmUnreachable("squeue did not answer")
    refused(place)(SlurmUnreachable, "squeue did not answer")
    place.slurm.trouble = SlurmRefused("sacct: not for you")
    assert [one.found for one in place.recover().chains] == [(1,)]


def test_where_there_is_nothing_to_recover_from_that_is_reported(place: Place, tmp_path: Path) -> None:
    refused(place)(
        ConfigurationError,
        "there is no store .*, and no backup or chain shows that there was one; is MIRAGE_HOME right",
    )
    place.path.write_text("damaged" * 999)
    refused(place)(ConfigurationError, "nothing shows what was in this store")
    elsewhere = Home.of({"MIRAGE_HOME": str(tmp_path), "MIRAGE_STORE": "postgresql://ada:secret@db/x"})
    with pytest.raises(ConfigurationError, match=r"postgresql://ada:\*\*\*@db/x is not a file"):
        recover(elsewhere, place.slurm, NOW_S)  # type: ignore[arg-type]


def test_a_store_made_meanwhile_is_not_written_over(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.make("serve")
    place.lose()
    monkeypatch.setattr("mirage.agent.chain.recover._move_aside", lambda path, word: path.write_text("mine") and ())
    with pytest.raises(StoreError, match="another store was made at"):
        place.recover()
    assert place.path.read_text() == "mine"


def test_recovered_twice_nothing_changes(place: Place) -> None:
    place.make("serve")
    place.lose()
    place.recover()
    first = place.links("serve")
    place.lose()
    place.recover()
    assert place.links("serve") == first


def test_a_name_that_is_taken_costs_the_living_chain_nothing(place: Place) -> None:
    place.make("serve")
    script = place.home.chain_folder("serve") / "script" / "job.sh"
    script.write_text("#!/bin/sh\n# the one that runs\n")
    with pytest.raises(ConfigurationError, match="there is a chain 'serve' already, and it is active"):
        place.make("serve")
    assert "the one that runs" in script.read_text()


def test_two_stores_that_share_a_folder_do_not_share_the_script_of_a_name(place: Place) -> None:
    place.make("serve")
    script = place.home.chain_folder("serve") / "script" / "job.sh"
    script.write_text("#!/bin/sh\n# the one that runs\n")
    other = Place(replace(place.home, store_url=f"sqlite:///{place.home.folder}/other.db"), place.slurm)
    with pytest.raises(ConfigurationError, match=r"belongs to a chain of another store, .*/store\.db; choose another"):
        other.make("serve")
    assert "the one that runs" in script.read_text()
    assert other.make("mine").key != place.chain("serve").key


def test_a_chain_without_a_writable_file_is_not_begun(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise StoreError("cannot write chain.json: No space left on device")

    monkeypatch.setattr("mirage.agent.chain.create.store_new_chain", full)
    with pytest.raises(StoreError, match="No space left"):
        place.make("serve")
    assert place.slurm.submitted == []
    with closing(place.opened()) as store:
        assert store.chains() == []
    assert not place.home.chain_folder("serve").exists()
