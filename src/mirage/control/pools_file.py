"""The file of a controller: pools of nodes, jobs that take part, rates, and the scheduler.

An example; the page about control in the documentation describes all keys:

    scheduler = "aryl"
    poll = "60s"

    [owner]
    nodes = ["inf[1-4]"]
    partitions = ["inference"]

    [borrower]
    nodes = ["gpu[1-12]"]
    partition = "train"

    [jobs]
    comment = "mirage-control"
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, time
from pathlib import Path
from typing import Any

from mirage.duration import DAY_S, HOUR_S, parse_duration_s
from mirage.errors import ConfigurationError, shown
from mirage.slurm.gpu_snapshot import REQUESTS
from mirage.slurm.records import QueuedJob
from mirage.slurm_words.hostlist import expand_hosts
from mirage.text_file import read_toml_file

OWNER, BORROWER = "owner", "borrower"
USUAL_REQUESTS, MOST_REQUESTS = 6, 60
"""Requests to slurmctld in a minute: by default, and what an operator may allow at most."""

SIGNALS = ("USR1", "USR2", "TERM", "INT", "CONT")


@dataclass(frozen=True, slots=True)
class Pools:
    """The settings of a controller.

    Attributes:
        path: The file.
        scheduler: Name of the scheduler.
        poll_s: Seconds between two snapshots.
        owner_nodes: Nodes that belong to inference, and may be lent.
        owner_partitions: Partitions of the jobs of inference.
        owner_users: Users who may use the fence.
        owner_accounts: Accounts that may use the fence, in place of users.
        borrower_nodes: Nodes that belong to training.
        borrower_partition: Partition of the jobs that take part.
        comment: A job with this word in its comment takes part; empty for none.
        accounts: All jobs of these accounts take part.
        signal: Signal that requests a checkpoint before a requeue.
        grace_s: Seconds between the signal and the requeue.
        promise_s: Duration of a loan: Slurm ends it then.
        requests_per_minute: Requests to slurmctld in a minute for snapshots and the lease, at most.
        commands_per_minute: Commands that change something in a minute, at most.
        evictions_per_hour: Jobs that may be preempted in an hour.
        evictions_per_job_hour: How often one job may be preempted in an hour.
        restart_s: Declared cost of a restart of a job.
        save_s: Declared time to write a checkpoint.
        gpu_speeds: Work that one GPU of a type does in a second; 1 for other types.
        most_gpus: The most GPUs that an elastic job may get; 0: no job is elastic.
        resizes_per_hour: Running jobs that may change their size in an hour.
        resizes_per_job_hour: How often one running job may change its size in an hour.
        profiles: Folder of measured speeds, as of ``mirage schedule``; empty for none.
        profiles_gpu_type: The type in the profiles of GPUs that Slurm reports without a type; empty for none.
        progress_file: Path of a job's progress file, with ``{job}`` and perhaps ``{user}``; empty for none.
    """

    path: str
    owner_nodes: tuple[str, ...]
    owner_partitions: tuple[str, ...]
    borrower_nodes: tuple[str, ...]
    borrower_partition: str
    owner_users: tuple[str, ...] = ()
    owner_accounts: tuple[str, ...] = ()
    scheduler: str = "fifo"
    poll_s: int = 60
    comment: str = ""
    accounts: tuple[str, ...] = ()
    signal: str = "USR1"
    grace_s: int = 60
    promise_s: int = HOUR_S
    requests_per_minute: int = USUAL_REQUESTS
    commands_per_minute: int = 30
    evictions_per_hour: int = 6
    evictions_per_job_hour: int = 1
    restart_s: float = 60.0
    save_s: float = 30.0
    gpu_speeds: Mapping[str, float] = field(default_factory=dict)
    most_gpus: int = 0
    resizes_per_hour: int = 12
    resizes_per_job_hour: int = 2
    profiles: str = ""
    profiles_gpu_type: str = ""
    progress_file: str = ""

    @property
    def nodes(self) -> tuple[str, ...]:
        """All nodes, those of the borrower first."""
        return (*self.borrower_nodes, *self.owner_nodes)

    def takes_part(self, job: QueuedJob) -> bool:
        """Whether a job is in the borrower's partition and has opted in."""
        words = job.comment.replace(",", " ").split()
        opted_in = (bool(self.comment) and self.comment in words) or job.account in self.accounts
        return opted_in and self.borrower_partition in job.partition.split(",")


def read_pools(path: Path) -> Pools:
    """The settings in a file.

    Raises:
        ConfigurationError: It cannot be read, or a key or a value cannot be used; the message names it.
    """
    declared = read_toml_file(path, "name a file of pools with --config")
    values = _values(path, declared)
    for name, place in _REQUIRED.items():
        if name not in values:
            raise ConfigurationError(f"{path}: {place} is missing; docs/how-to/control.md has an example")
    pools = Pools(path=str(path), **values)
    _check(pools)
    return pools


def _values(path: Path, declared: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of ``Pools`` in a parsed file."""
    values: dict[str, Any] = {}
    for name, value in declared.items():
        if name == "gpu_speeds":
            values[name] = _gpu_speeds(path, value)
        elif isinstance(value, dict) and name in _TABLES:
            for key, one in value.items():
                _read(path, values, f"[{name}] {key}", f"{name}.{key}", one)
        elif name in _TABLES:
            raise ConfigurationError(f"{path}: {name} is one table; write [{name}], and its keys below")
        else:
            _read(path, values, name, name, value)
    return values


def _read(path: Path, values: dict[str, Any], shown_as: str, key: str, value: object) -> None:
    if key not in _KEYS:
        table, dot, _ = key.rpartition(".")
        known = [name.removeprefix(f"{table}.") for name in _KEYS if name.rpartition(".")[0] == table]
        others = "" if dot else f", and the tables {', '.join(_TABLES)} and gpu_speeds"
        raise ConfigurationError(f"{path}: unknown key {shown_as}. Known: {', '.join(known)}{others}.")
    name, read = _KEYS[key]
    try:
        values[name] = read(value)
    except (ValueError, TypeError, ConfigurationError) as error:
        written = str(value) if isinstance(value, date | time) else shown(value)
        raise ConfigurationError(f"{path}: {shown_as} = {written}: {error}") from error


def _gpu_speeds(path: Path, declared: object) -> dict[str, float]:
    if not isinstance(declared, dict):
        raise ConfigurationError(f"{path}: gpu_speeds = {shown(declared)}: write a table, as in [gpu_speeds] t4 = 0.33")
    for gpu_type, speed in declared.items():
        if isinstance(speed, bool) or not isinstance(speed, int | float) or not 0 < speed < float("inf"):
            raise ConfigurationError(f"{path}: [gpu_speeds] {gpu_type} = {shown(speed)}: it is a number above 0")
    return {gpu_type: float(speed) for gpu_type, speed in declared.items()}


def _check(pools: Pools) -> None:
    """Check what several values mean together."""
    twice = sorted(set(pools.owner_nodes) & set(pools.borrower_nodes))
    if twice:
        raise ConfigurationError(f"{pools.path}: node {twice[0]} is in both pools; leave it in one of them")
    if pools.borrower_partition in pools.owner_partitions:
        raise ConfigurationError(
            f"{pools.path}: partition {pools.borrower_partition} belongs to both pools; give the jobs of each "
            "pool a partition of their own"
        )
    if not pools.comment and not pools.accounts:
        raise ConfigurationError(
            f"{pools.path}: no job takes part; give a word for their comments, [jobs] comment, or [jobs] accounts"
        )
    if pools.owner_users and pools.owner_accounts:
        raise ConfigurationError(
            f"{pools.path}: [owner] has users and accounts, but the fence is for one of them; leave one out"
        )
    if pools.poll_s * pools.requests_per_minute < REQUESTS * 60:
        least_s = -(-REQUESTS * 60 // pools.requests_per_minute)
        raise ConfigurationError(
            f"{pools.path}: poll = {pools.poll_s}s needs more than {pools.requests_per_minute} requests a minute; "
            f"poll every {least_s}s or less often"
        )
    if pools.progress_file and ("{job}" not in pools.progress_file or not pools.progress_file.startswith("/")):
        raise ConfigurationError(
            f"{pools.path}: [jobs] progress = {shown(pools.progress_file)}: give a path from / with {{job}} in it"
        )
    if unknown := [name for name in re.findall(r"{\w*}", pools.progress_file) if name not in ("{job}", "{user}")]:
        raise ConfigurationError(f"{pools.path}: [jobs] progress: unknown {unknown[0]}; use {{job}} and {{user}}")


def _word(value: object) -> str:
    if not isinstance(value, str) or not value or any(character.isspace() or character == "," for character in value):
        raise TypeError("it is one word")
    return value


def _comment(value: object) -> str:
    if "=" in (word := _word(value)):
        raise ValueError("a word with = declares a size, a worker or a model; give one without, such as mirage-control")
    return word


def _words(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not value:
        raise TypeError('it is a list of names: ["one"]')
    return tuple(map(_word, value))


def _hosts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(isinstance(one, str) and one for one in value):
        raise TypeError('it is a list of nodes: ["gpu[1-12]"]')
    found = tuple(dict.fromkeys(host for names in value for host in expand_hosts(names)))
    if not found:
        raise ValueError("it names no node")
    return found


def _duration_s(least_s: int, most_s: int) -> Callable[[object], int]:
    def read(value: object) -> int:
        if not isinstance(value, str):
            raise TypeError('a duration is a text, such as "30s" or "01:00:00"')
        seconds, word = parse_duration_s(value), value.strip()
        if seconds and word.isdecimal():  # Slurm counts minutes, and here seconds are usual
            raise ValueError(f'it has no unit; write "{word}s" or "{word}m"')
        if not least_s <= seconds <= most_s:
            raise ValueError(f"it is from {least_s} to {most_s} seconds")
        return seconds

    return read


def _count(least: int, most: int) -> Callable[[object], int]:
    def read(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise ValueError(f"it is a whole number from {least} to {most}")
        return value

    return read


def _signal(value: object) -> str:
    name = str(value).removeprefix("SIG")
    if name not in SIGNALS:
        raise ValueError(f"it is one of {', '.join(SIGNALS)}")
    return name


def _path(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("it is a path")
    return value


_SECONDS = _duration_s(0, DAY_S)
_TABLES = ("owner", "borrower", "jobs", "rates", "costs", "profiles")
_KEYS: dict[str, tuple[str, Callable[[object], Any]]] = {
    "scheduler": ("scheduler", _word),
    "poll": ("poll_s", _duration_s(1, HOUR_S)),
    "owner.nodes": ("owner_nodes", _hosts),
    "owner.partitions": ("owner_partitions", _words),
    "owner.users": ("owner_users", _words),
    "owner.accounts": ("owner_accounts", _words),
    "owner.promise": ("promise_s", _duration_s(60, 7 * DAY_S)),
    "borrower.nodes": ("borrower_nodes", _hosts),
    "borrower.partition": ("borrower_partition", _word),
    "jobs.comment": ("comment", _comment),
    "jobs.accounts": ("accounts", _words),
    "jobs.signal": ("signal", _signal),
    "jobs.grace": ("grace_s", _SECONDS),
    "jobs.progress": ("progress_file", _path),
    "jobs.most_gpus": ("most_gpus", _count(1, 100_000)),
    "rates.requests_per_minute": ("requests_per_minute", _count(REQUESTS, MOST_REQUESTS)),
    "rates.commands_per_minute": ("commands_per_minute", _count(1, 600)),
    "rates.evictions_per_hour": ("evictions_per_hour", _count(0, 1000)),
    "rates.evictions_per_job_hour": ("evictions_per_job_hour", _count(0, 60)),
    "rates.resizes_per_hour": ("resizes_per_hour", _count(0, 1000)),
    "rates.resizes_per_job_hour": ("resizes_per_job_hour", _count(0, 60)),
    "costs.restart": ("restart_s", _SECONDS),
    "costs.save": ("save_s", _SECONDS),
    "profiles.folder": ("profiles", _path),
    "profiles.gpu_type": ("profiles_gpu_type", _word),
}
"""Keys as a file names them: the attribute, and the reader of its value."""

_REQUIRED = {
    "owner_nodes": "[owner] nodes",
    "owner_partitions": "[owner] partitions",
    "borrower_nodes": "[borrower] nodes",
    "borrower_partition": "[borrower] partition",
}
