"""Recovery of a lost or damaged store: from a backup or the chains' files, and the jobs.

The newest sound backup is used, else the chains' files. The store retains its identity and the chains their keys, so
the tags of the jobs are still valid: what runs or is pending is found, and nothing is submitted twice. Files in the
place of the store are moved away, never deleted.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from sqlalchemy.engine import make_url

from mirage.agent.chain.tag import Tag, parse_tag, tag_in_line
from mirage.agent.model import WAITING, Chain, ChainState, EventRecord, Link, LinkState, StoreIdentity, next_link
from mirage.agent.paths import Home
from mirage.agent.store.backup import Backup, copy_store, damage, into_one_file, lease_in, sound_backups
from mirage.agent.store.chain_file import StoredChain, read_chain_files
from mirage.agent.store.engine import place_of
from mirage.agent.store.lease import is_gone
from mirage.agent.store.sql_store import SqlStore, open_store
from mirage.agent.store.store_file import SIDE_FILES, path_of, remains
from mirage.errors import ConfigurationError, LeaseHeld, SlurmRefused, StoreError, WrongCluster
from mirage.job_state import MISSING, JobState
from mirage.slurm.backend import Backend, cluster_of
from mirage.slurm.records import AccountedJob, QueuedJob
from mirage.slurm_words.states import ALIVE

ASLEEP = "recovered without a job: `mirage chain resume {name}` or `mirage chain stop {name}`"
JOBS_ONLY = "neither a backup nor chains/NAME/chain.json describes it; its jobs continue unchanged"


@dataclass(frozen=True, slots=True)
class RecoveredChain:
    """A chain in the rebuilt store.

    Attributes:
        links: Links with a job in the queue, in the state that the job shows.
        found: Links that only their jobs showed.
        lost: Links of which only the number is known.
    """

    chain: Chain
    links: tuple[Link, ...]
    found: tuple[int, ...]
    lost: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Recovery:
    """The result of a recovery.

    Attributes:
        source: The backup that was used; None where there was none.
        aside: The new paths of the files that were in the place of the store.
        unknown: Chains that could not be recovered, and the reasons.
    """

    source: Backup | None
    aside: tuple[Path, ...]
    chains: tuple[RecoveredChain, ...]
    unknown: tuple[tuple[str, str], ...]


def recover(home: Home, slurm: Backend, now_s: int, from_backup: int | None = None) -> Recovery:
    """Rebuild the store of a folder, in one step: until the end the old one is in its place.

    Args:
        from_backup: Number of the backup to restore even where the store is sound.

    Raises:
        ConfigurationError: The store is sound, or is not a file, or there is nothing to recover from.
        LeaseHeld: An agent runs on it.
        WrongCluster: Slurm's commands reach another cluster than that of the chains.
        StoreError: It cannot be written.
        SlurmError: The queue cannot be read; without it jobs could be submitted twice.
    """
    url = make_url(home.store_url)
    path = path_of(url)
    if path is None:
        raise ConfigurationError(
            f"the store {place_of(home.store_url)} is not a file with backups of Mirage; use the tools of its server"
        )
    _refuse_if_needless(path, now_s, from_backup)
    backup = _chosen(path, from_backup)
    stored, unread = read_chain_files(home.folder)
    part = path.with_name(f"{path.name}.recovered.{os.getpid()}.part")
    try:
        if backup is not None:
            copy_store(backup.path, part)
        with closing(open_store(url.set(database=str(part)))) as store:
            mine, unknown = _of_this_store(store, [one for one in stored if one.is_of(path)], backup is not None)
            chains, strays = _rebuild(store, mine, slurm, now_s)
        into_one_file(part)
        aside = _move_aside(path, "replaced" if from_backup is not None and not damage(path) else "damaged")
        _put_in_place(part, path)
    finally:
        for left in path.parent.glob(f"{part.name}*"):
            left.unlink()
    names = {one.chain.name for one in chains}
    unknown += [(name, why) for name, why in strays if name not in names]
    unknown += [(str(file), why) for file, why in unread.items() if file.parent.name not in names]
    return Recovery(backup, aside, tuple(chains), tuple(unknown))


def _refuse_if_needless(path: Path, now_s: int, from_backup: int | None) -> None:
    """Refuse where an agent is running, or where there is nothing to recover."""
    held = lease_in(path)
    if held is not None and held[1] >= now_s and not is_gone(held[0]):
        host, pid, _ = held[0].rsplit(":", 2)
        raise LeaseHeld(
            f"{held[0]} runs on this store; stop that agent first: mirage agent stop, or, if that cannot read the "
            f"store, kill {pid} on {host}"
        )
    if not path.exists() and not remains(path):
        raise ConfigurationError(
            f"there is no store {path}, and no backup or chain shows that there was one; is MIRAGE_HOME right?"
        )
    if from_backup is None and not damage(path):
        back = "; to go back to a backup: mirage agent recover --from-backup 1" if sound_backups(path) else ""
        raise ConfigurationError(f"the store {path} is sound, so there is nothing to recover{back}")


def _chosen(path: Path, number: int | None) -> Backup | None:
    sound = sound_backups(path)
    if number is None:
        return sound[0] if sound else None
    for backup in sound:
        if backup.number == number:
            return backup
    known = ", ".join(str(backup.number) for backup in sound) or "none"
    raise ConfigurationError(f"there is no sound backup {number} of {path}; there are: {known}")


def _of_this_store(
    store: SqlStore, stored: list[StoredChain], has_backup: bool
) -> tuple[list[StoredChain], list[tuple[str, str]]]:
    """The chains' files that belong to a store, and the others with the reason.

    A store without a backup takes its identity from the newest file.
    """
    if not has_backup:
        if not stored:
            raise ConfigurationError(
                "nothing shows what was in this store: there is no sound backup, and no chains/NAME/chain.json names "
                "it; move its file away to begin with an empty store (jobs that run or wait go on, without an agent)"
            )
        store.take_identity(StoreIdentity(stored[-1].store, stored[-1].cluster))
    identity = store.identity().identity
    others = [(one.name, f"it is of another store, {one.store}, which was here before") for one in stored]
    return [one for one in stored if one.store == identity], [
        unknown for one, unknown in zip(stored, others, strict=True) if one.store != identity
    ]


def _rebuild(
    store: SqlStore, stored: list[StoredChain], slurm: Backend, now_s: int
) -> tuple[list[RecoveredChain], list[tuple[str, str]]]:
    """Update a store from files and jobs; returns its chains, and the jobs without one."""
    identity, here = store.identity(), cluster_of(slurm.configuration())
    if identity.cluster and identity.cluster != here:
        raise WrongCluster(
            f"the chains of this store live on the cluster {identity.cluster}, and Slurm's commands speak to {here} "
            "here; use SLURM_CONF to reach that one"
        )
    known = {chain.key: chain for chain in store.chains()}
    begun_s = [chain.created_s for chain in known.values()] + [one.created_s for one in stored]
    since_s = min(begun_s, default=now_s)
    jobs = found_jobs(slurm, slurm.user, identity.identity, since_s)
    recovered = []
    for chain in known.values():
        found = jobs.pop(chain.key, [])
        recovered.append(_complete(store, _asleep_without_job(store, chain, found), found, now_s))
    fresh = [one for one in stored if one.key not in known]
    recovered += [_revive(store, one, jobs.pop(one.key, []), now_s) for one in fresh]
    if (held := store.lease()) is not None:
        store.drop_lease(held[0])  # of the agent at the time of the backup
    strays = [
        (found[0].tag.chain, f"jobs {', '.join(str(job.number) for job in found)}: {JOBS_ONLY}")
        for found in jobs.values()
    ]
    return recovered, strays


def _asleep_without_job(store: SqlStore, chain: Chain, jobs: list[FoundJob]) -> Chain:
    """A chain of a backup, paused if no job of it is alive: it may have been stopped since."""
    if chain.state is not ChainState.ACTIVE or any(job.is_alive or job.tag.done for job in jobs):
        return chain
    why = ASLEEP.format(name=chain.name)
    store.change_chain(chain.id, state=ChainState.PAUSED, why=why)
    return replace(chain, state=ChainState.PAUSED, why=why)


def _complete(store: SqlStore, chain: Chain, jobs: list[FoundJob], now_s: int) -> RecoveredChain:
    """A chain of a backup, with the links that were submitted since."""
    links = {link.number: link for link in store.links(chain.id)}
    found, lost = [], []
    for number, job in _newest(jobs).items():
        link = links.get(number, Link(chain.id, number))
        if link.job == MISSING:
            links[number] = link_from(link, job, now_s)
            found.append(number)
    for number in range(1, max(links, default=0)):
        if number not in links:
            links[number] = Link(chain.id, number, LinkState.ENDED, ended_s=now_s)
            lost.append(number)
    if _gets_another(chain, links):
        another = next_link(chain.id, links[max(links)] if links else None)
        links[another.number] = another
    for number, link in links.items():
        if link.state is LinkState.PLANNED and link.job == MISSING:
            links[number] = replace(link, attempted_s=now_s)  # it may be under way: it is searched first
    summary = f"links found by their jobs: {_listed(found)}; without any trace: {_listed(lost)}"
    event = EventRecord(chain.id, 0, now_s, "recovered", summary)
    store.put_links([links[number] for number in sorted(links)], event)
    alive = {job.number: job for job in jobs if job.is_alive}
    shown = (link_from(link, alive[link.job], now_s) for _, link in sorted(links.items()) if link.job in alive)
    return RecoveredChain(chain, tuple(shown), tuple(found), tuple(lost))


def _gets_another(chain: Chain, links: dict[int, Link]) -> bool:
    """Whether the last agent may have been about to submit one more link."""
    waits = any(link.state in WAITING for link in links.values())
    last = links[max(links)] if links else None
    allowed = not chain.spec.links or next_link(chain.id, last).place <= chain.spec.links
    return chain.state is ChainState.ACTIVE and not waits and allowed


def _revive(store: SqlStore, stored: StoredChain, jobs: list[FoundJob], now_s: int) -> RecoveredChain:
    """A chain from its file and its jobs; active where one of these is alive, else paused."""
    alive = any(job.is_alive for job in jobs)
    done = next((job for job in jobs if job.tag.done), None)
    state, why = (ChainState.ACTIVE, "") if alive else (ChainState.PAUSED, ASLEEP.format(name=stored.name))
    if done is not None and not alive:
        state, why = ChainState.DONE, f"link {done.tag.link} reported that the work is done"
    chain = store.restore_chain(
        Chain(0, stored.name, stored.spec, stored.created_s, state=state, why=why, key=stored.key)
    )
    return _complete(store, chain, jobs, now_s)


def _newest(jobs: Iterable[FoundJob]) -> dict[int, FoundJob]:
    """The job of each link: the first that is alive, else the last."""
    best: dict[int, FoundJob] = {}
    for job in sorted(jobs, key=lambda job: job.number):
        known = best.get(job.tag.link)
        if known is None or not known.is_alive:
            best[job.tag.link] = job
    return dict(sorted(best.items()))


def _move_aside(path: Path, word: str) -> tuple[Path, ...]:
    """Move the files of a store away, with its logs: SQLite would replay them into a new one."""
    there = [
        found for found in (path, *(path.with_name(path.name + end) for end in SIDE_FILES)) if os.path.lexists(found)
    ]
    number = next(k for k in range(1, 1_000_000) if not list(path.parent.glob(f"{path.name}.{word}-{k}*")))
    moved = []
    for found in there:
        target = path.with_name(f"{path.name}.{word}-{number}{found.name.removeprefix(path.name)}")
        os.rename(found, target)
        moved.append(target)
    return tuple(moved)


def _put_in_place(part: Path, path: Path) -> None:
    """Move a new store to its place, where there is none.

    Raises:
        StoreError: Another one was made in the meantime.
    """
    try:
        os.link(part, path)
    except FileExistsError as error:
        raise StoreError(f"another store was made at {path} meanwhile; try again") from error
    except OSError:  # no hard links there
        os.rename(part, path)


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers)) or "none"


@dataclass(frozen=True, slots=True)
class FoundJob:
    """A job and its tag."""

    tag: Tag
    job: QueuedJob | AccountedJob

    @property
    def number(self) -> int:
        """Slurm's id."""
        return self.job.id

    @property
    def is_alive(self) -> bool:
        """Whether it is pending or runs."""
        return self.job.state in ALIVE


def found_jobs(slurm: Backend, user: str, store: str, since_s: int) -> dict[str, list[FoundJob]]:
    """A user's jobs with tags of a store, by the key of their chain.

    The queue takes precedence over accounting.

    Args:
        store: Identity of the store.
        since_s: Time from which accounting is read.

    Raises:
        SlurmUnreachable: No answer.
    """
    found: dict[int, FoundJob] = {}
    try:
        accounted = slurm.accounting(since_s)
    except SlurmRefused:  # a site without accounting for users
        accounted = ()
    for ended in accounted:
        tag = parse_tag(ended.comment) or (tag_in_line(ended.submit_line) if ended.submit_line else None)
        if tag is not None and tag.store == store and ended.user == user:
            found[ended.id] = FoundJob(tag, ended)
    for job in slurm.observe().jobs:
        tag = parse_tag(job.comment)
        if tag is not None and tag.store == store and job.user == user:
            found[job.id] = FoundJob(tag, job)
    by_chain: dict[str, list[FoundJob]] = {}
    for one in sorted(found.values(), key=lambda one: one.number):
        by_chain.setdefault(one.tag.key, []).append(one)
    return by_chain


def link_from(link: Link, found: FoundJob, now_s: int) -> Link:
    """A link from its job; the agent's next poll completes it."""
    job, tag = found.job, found.tag
    submitted_s = job.submit_s if job.submit_s != MISSING else now_s
    begun_s = job.eligible_s if job.eligible_s > 0 else submitted_s
    known = replace(
        link, job=job.id, attempted_s=submitted_s, submitted_s=submitted_s, limit_s=job.limit_s, ready_s=tag.ready_s,
        finished=tag.done,
    )  # fmt: skip
    if job.state is JobState.PENDING:
        if isinstance(job, QueuedJob) and job.dependency:
            return replace(known, state=LinkState.HELD)
        return replace(known, state=LinkState.QUEUED, released_s=begun_s)
    started_s = job.start_s if job.start_s != MISSING else begun_s
    released_s = min(begun_s, started_s)
    if found.is_alive:
        return replace(known, state=LinkState.RUNNING, released_s=released_s, started_s=started_s)
    ended_s = job.end_s if job.end_s != MISSING else now_s
    over = replace(known, state=LinkState.ENDED, ended_s=ended_s, outcome=job.state, exit_code=job.exit_code)
    ran = job.start_s != MISSING and job.start_s < ended_s
    return replace(over, started_s=job.start_s, released_s=released_s) if ran else over
