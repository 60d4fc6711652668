"""Limits on age of associations, from the output of ``sacctmgr show assoc``."""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mirage.errors import ConfigurationError, shown
from mirage.sim.cluster import Limit
from mirage.sim.slurm_conf.command_output import read_command_output

_MOST, _GROUP = "MaxJobsAccrue", "GrpJobsAccrue"
_COLUMNS = ("Cluster", "Account", "ParentName", "User", "Partition", _GROUP, _MOST)
_COMMAND = f"sacctmgr -P show assoc format={','.join(_COLUMNS)}"


@dataclass(frozen=True, slots=True)
class Association:
    """An account, or a user in an account.

    Attributes:
        account: The account.
        parent: The parent of an account; empty for the root, and for users.
        user: The user; empty for the account itself.
        most: Waiting jobs of the user in this account that may gain age (``MaxJobsAccrue``), its own or that of the
            next account above; None for any number.
        group: Waiting jobs of all in it that may gain age (``GrpJobsAccrue``).
    """

    account: str
    parent: str = ""
    user: str = ""
    most: int | None = None
    group: int | None = None


def read_associations(path: str | Path) -> tuple[Association, ...]:
    """The associations in a file with the output of ``sacctmgr -P show assoc``.

    Raises:
        ConfigurationError: It cannot be read, or as ``associations``.
    """
    return associations(read_command_output(path, _COMMAND), str(path))


def associations(text: str, path: str) -> tuple[Association, ...]:
    """The associations of ``sacctmgr -P show assoc`` with the columns of limits on age.

    Those of a single partition are left out.

    Args:
        text: Its output.
        path: The source of the text, for messages.

    Raises:
        ConfigurationError: A row cannot be read, a column is missing, or there are several clusters.
    """
    rows = list(csv.DictReader(text.splitlines(), delimiter="|", quoting=csv.QUOTE_NONE))
    lacking = [name for name in _COLUMNS if not rows or name not in rows[0]]
    if lacking:
        raise ConfigurationError(f"{path} is not what `{_COMMAND}` prints: no {', '.join(lacking)}")
    clusters = sorted({row["Cluster"] or "" for row in rows})
    if len(clusters) > 1:
        raise ConfigurationError(
            f"{path} has the clusters {', '.join(clusters)}; write `{_COMMAND} cluster=NAME` to it"
        )
    return tuple(_association(f"{path}: line {k}", row) for k, row in enumerate(rows, 2) if not row["Partition"])


def _association(place: str, row: dict[str, str | None]) -> Association:
    most, group = (_count(place, column, row[column]) for column in (_MOST, _GROUP))
    return Association(row["Account"] or "", row["ParentName"] or "", row["User"] or "", most, group)


def _count(place: str, column: str, cell: str | None) -> int | None:
    if cell is None or (cell and not cell.isdecimal()):
        problem = "is missing" if cell is None else f"{shown(cell)} is not a number"
        raise ConfigurationError(f"{place}: {column} {problem}; write `{_COMMAND}` to it again")
    return int(cell) if cell else None


def age_limits(found: Sequence[Association], accounts: Collection[str]) -> tuple[Limit, ...]:
    """Limits on the number of waiting jobs that gain age, in Slurm's order.

    The first limit that counts a job decides. First those of users in an account, on all their jobs there and then
    their ``MaxJobsAccrue``; then ``GrpJobsAccrue`` of accounts with all that is within them, from the innermost
    outwards (measured on 22.05.8).

    Args:
        found: The associations of a cluster.
        accounts: The accounts of jobs: limits that count no job are left out.
    """
    users = [one for one in found if one.user]
    groups = [
        Limit("all", ageing=one.group, users=(one.user,), accounts=(one.account,))
        for one in users
        if one.group is not None
    ]
    own = [limit for account in dict.fromkeys(one.account for one in users) for limit in _of_users(users, account)]
    limits = (*groups, *own, *_of_accounts([one for one in found if not one.user]))
    return tuple(limit for limit in limits if not set(accounts).isdisjoint(limit.accounts))


def _of_users(users: Sequence[Association], account: str) -> Iterator[Limit]:
    """``MaxJobsAccrue`` of the users of an account: one limit for all users of equal value."""
    here = [one for one in users if one.account == account]
    for most in dict.fromkeys(one.most for one in here):
        if most is not None:
            alike = tuple(one.user for one in here if one.most == most)
            yield Limit(ageing=most, users=alike if len(alike) < len(here) else (), accounts=(account,))


def _of_accounts(found: Sequence[Association]) -> list[Limit]:
    """``GrpJobsAccrue`` of accounts, the innermost first."""
    parent = {one.account: one.parent for one in found}
    lines = {account: _line(account, parent) for account in parent}
    deepest_first = sorted((one for one in found if one.group is not None), key=lambda one: -len(lines[one.account]))
    within = {one.account: tuple(name for name in lines if one.account in lines[name]) for one in deepest_first}
    return [Limit("all", ageing=one.group, accounts=within[one.account]) for one in deepest_first]


def _line(account: str, parent: dict[str, str]) -> list[str]:
    """An account and its ancestors, up to the root."""
    line = [account]
    while (above := parent.get(line[-1], "")) and above not in line:
        line.append(above)
    return line
