"""A lost or damaged store, rebuilt: from its newest sound backup or the chains' files, and then from the jobs.

The store keeps its identity and the chains their keys, so the tags of the jobs are still theirs: what runs or waits is
found, and nothing is submitted twice. What is found in the place of the store is moved aside, never deleted.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from sqlalchemy.engine import make_url

from mirage.agent.chain.found_jobs import FoundJob, found_jobs, link_from
from mirage.agent.chain.keep import place_of
from mirage.agent.model import Chain, ChainState, EventRecord, Link, LinkState, StoreIdentity, next_link
from mirage.agent.paths import Home
from mirage.agent.store.backup import Backup, copy_store, damage, into_one_file, lease_in, sound_backups
from mirage.agent.store.chain_file import KeptChain, kept_chains
from mirage.agent.store.lease import is_gone
from mirage.agent.store.sql_store import SqlStore, open_store
from mirage.agent.store.store_file import BESIDE, path_of
from mirage.errors import ConfigurationError, LeaseHeld, StoreError, WrongCluster
from mirage.job_state import MISSING
from mirage.slurm.backend import Backend, cluster_of

WAITING = (LinkState.PLANNED, LinkState.HELD, LinkState.QUEUED)

ASLEEP = (
    "recovered from its file; no job of it is in the queue, and whether it was paused, stopped or at its end is not "
    "known: `mirage chain resume {name}` goes on, `mirage chain stop {name}` ends it"
)
JOBS_ONLY = "neither a backup nor chains/NAME/chain.json tells what it is; its jobs run on as they are"


@dataclass(frozen=True, slots=True)
class RecoveredChain:
    """A chain in the rebuilt store.

    Attributes:
        found: Links that only their jobs told of.
        lost: Links of which nothing is known but their number.
    """

    chain: Chain
    links: tuple[Link, ...]
    found: tuple[int, ...]
    lost: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Recovery:
    """The result of a recovery.

    Attributes:
        source: The backup it began with; None where there was none.
        aside: Where what was in the place of the store is now.
        unknown: Chains that could not be recovered, and why.
    """

    source: Backup | None
    aside: tuple[Path, ...]
    chains: tuple[RecoveredChain, ...]
    unknown: tuple[tuple[str, str], ...]


def recover(home: Home, slurm: Backend, now_s: int, from_backup: int | None = None) -> Recovery:
    """Rebuild the store of a folder, in one step: until the end the old one is in its place.

    Args:
        from_backup: Number of the backup to put back even where the store is sound.

    Raises:
        ConfigurationError: The store is sound, or no file, or there is nothing to recover from.
        LeaseHeld: An agent looks after it.
        WrongCluster: Slurm's commands speak to another cluster than the one of the chains.
        StoreError: It cannot be written.
        SlurmError: The queue cannot be seen; without it jobs could be submitted twice.
    """
    url = make_url(home.store_url)
    path = path_of(url)
    if path is None:
        raise ConfigurationError(
            f"the store {place_of(home.store_url)} is no file that we keep backups of; use the tools of its server"
        )
    _refuse_if_needless(path, now_s, from_backup)
    backup = _chosen(path, from_backup)
    kept, unread = kept_chains(home.folder)
    part = path.with_name(f"{path.name}.recovered.{os.getpid()}.part")
    try:
        if backup is not None:
            copy_store(backup.path, part)
        with closing(open_store(url.set(database=str(part)))) as store:
            mine, unknown = _of_this_store(store, [one for one in kept if one.is_of(path)], backup is not None)
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
    """Refuse where an agent is at work, or where there is nothing to mend."""
    held = lease_in(path)
    if held is not None and held[1] >= now_s and not is_gone(held[0]):
        raise LeaseHeld(f"{held[0]} looks after this store; stop that agent first: mirage agent stop")
    if from_backup is None and not damage(path):
        raise ConfigurationError(
            f"the store {path} is sound, so there is nothing to recover; to go back to a backup: "
            "mirage agent recover --from-backup 1"
        )


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
    store: SqlStore, kept: list[KeptChain], has_backup: bool
) -> tuple[list[KeptChain], list[tuple[str, str]]]:
    """The chains' files that belong to a store, which takes its identity from them where it has no older one."""
    if not has_backup:
        if not kept:
            raise ConfigurationError(
                "nothing tells what was in this store: there is no sound backup, and no chains/NAME/chain.json names it"
            )
        store.take_identity(StoreIdentity(kept[-1].store, kept[-1].cluster))
    identity = store.identity().identity
    others = [(one.name, f"it is of another store, {one.store}, which was here before") for one in kept]
    return [one for one in kept if one.store == identity], [
        told for one, told in zip(kept, others, strict=True) if one.store != identity
    ]


def _rebuild(
    store: SqlStore, kept: list[KeptChain], slurm: Backend, now_s: int
) -> tuple[list[RecoveredChain], list[tuple[str, str]]]:
    """Bring a store up to what files and jobs tell; its chains, and what is known of jobs without one."""
    identity, here = store.identity(), cluster_of(slurm.configuration())
    if identity.cluster and identity.cluster != here:
        raise WrongCluster(
            f"the chains of this store live on the cluster {identity.cluster}, and Slurm's commands speak to {here} "
            "here; use SLURM_CONF to reach that one"
        )
    known = {chain.key: chain for chain in store.chains()}
    begun_s = [chain.created_s for chain in known.values()] + [one.created_s for one in kept]
    since_s = min(begun_s, default=now_s)
    jobs = found_jobs(slurm, slurm.user, identity.identity, since_s)
    recovered = [_complete(store, chain, jobs.pop(chain.key, []), now_s) for chain in known.values()]
    fresh = [one for one in kept if one.key not in known]
    recovered += [_revive(store, one, jobs.pop(one.key, []), now_s) for one in fresh]
    if (held := store.lease()) is not None:
        store.drop_lease(held[0])  # of the agent at the time of the backup
    strays = [
        (found[0].tag.chain, f"jobs {', '.join(str(job.number) for job in found)}: {JOBS_ONLY}")
        for found in jobs.values()
    ]
    return recovered, strays


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
            links[number] = replace(link, attempted_s=now_s)  # it may be on its way: it is looked for first
    told = f"links that their jobs told of: {_listed(found)}; of which nothing is known: {_listed(lost)}"
    event = EventRecord(chain.id, 0, now_s, "recovered", told)
    store.put_links([links[number] for number in sorted(links)], event)
    return RecoveredChain(chain, tuple(links[number] for number in sorted(links)), tuple(found), tuple(lost))


def _gets_another(chain: Chain, links: dict[int, Link]) -> bool:
    """Whether a link is to be looked for that the last agent may have been about to submit."""
    waits = any(link.state in WAITING for link in links.values())
    last = links[max(links)] if links else None
    allowed = not chain.spec.links or next_link(chain.id, last).place <= chain.spec.links
    return chain.state is ChainState.ACTIVE and not waits and allowed


def _revive(store: SqlStore, kept: KeptChain, jobs: list[FoundJob], now_s: int) -> RecoveredChain:
    """A chain of which only its file and its jobs are left: it goes on where one of these is alive."""
    alive = any(job.is_alive for job in jobs)
    done = next((job for job in jobs if job.tag.done), None)
    state, why = (ChainState.ACTIVE, "") if alive else (ChainState.PAUSED, ASLEEP.format(name=kept.name))
    if done is not None and not alive:
        state, why = ChainState.DONE, f"link {done.tag.link} said that the work is done"
    chain = store.restore_chain(Chain(0, kept.name, kept.spec, kept.created_s, state=state, why=why, key=kept.key))
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
    """Move what is in the place of a store elsewhere, and its logs: SQLite would play them into the new one."""
    there = [found for found in (path, *(path.with_name(path.name + end) for end in BESIDE)) if found.exists()]
    number = next(k for k in range(1, 1_000_000) if not list(path.parent.glob(f"{path.name}.{word}-{k}*")))
    moved = []
    for found in there:
        target = path.with_name(f"{path.name}.{word}-{number}{found.name.removeprefix(path.name)}")
        os.rename(found, target)
        moved.append(target)
    return tuple(moved)


def _put_in_place(part: Path, path: Path) -> None:
    """Put a new store where none is.

    Raises:
        StoreError: One has been made meanwhile.
    """
    try:
        os.link(part, path)
    except FileExistsError as error:
        raise StoreError(f"another store was made at {path} meanwhile; try again") from error
    except OSError:  # no hard links there
        os.rename(part, path)


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers)) or "none"
