"""Comparison of the simulator's own view with the one made from Slurm's output."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from mirage.lab.commands.invocation import Invocation
from mirage.lab.commands.server import answer
from mirage.lab.virtual.queries import ACCOUNT
from mirage.lab.virtual.virtual_slurm import VirtualSlurm
from mirage.policy.view import ChainView, Ended, Nodes, QueueJobs, View
from mirage.sim.simulation import Simulation
from mirage.slurm.backend import Backend
from mirage.slurm.runner import Completed
from mirage.slurm.slurm_view import Names, ended_of, view_of

NameOf = Callable[[int], Any]


def slurm_view(backend: Backend, names: Names) -> View:
    """The view as the agent makes it, from four answers of a cluster."""
    queue, machine, ended = backend.observe(), backend.machine(), backend.accounting(0)
    return view_of(queue, machine, ended_of(ended, names), names, backend.configuration())


class NamedView:
    """A view as plain values, with Slurm's names of jobs, users, partitions and QOS.

    Without the keys of users: they follow from names on a real cluster, and from codes in a simulation.
    """

    def __init__(self, view: View, **name_of: NameOf) -> None:
        self.name_of = name_of
        self.values = {
            field.name: self.plain(getattr(view, field.name)) for field in fields(View) if field.name != "user_keys"
        }

    def plain(self, value: Any) -> Any:
        if isinstance(value, QueueJobs):
            return self.columns(value)
        if isinstance(value, Ended):
            return self.in_no_order_within_a_second(self.columns(value))
        if isinstance(value, Nodes):
            return self.nodes(value)
        if isinstance(value, ChainView):
            return {field.name: self.named(field.name, getattr(value, field.name)) for field in fields(ChainView)}
        return value

    def named(self, column: str, value: Any) -> Any:
        return self.name_of[column](int(value)) if column in self.name_of else value

    def columns(self, rows: QueueJobs | Ended) -> dict[str, list[Any]]:
        return {
            field.name: [self.named(field.name, value) for value in getattr(rows, field.name).tolist()]
            for field in fields(rows)
        }

    def nodes(self, nodes: Nodes) -> dict[str, Any]:
        plain = {field.name: np.asarray(getattr(nodes, field.name)).tolist() for field in fields(Nodes)}
        plain["allowed"] = {self.named("partition", code): row for code, row in enumerate(plain["allowed"])}
        return plain | {"total": nodes.total}

    @staticmethod
    def in_no_order_within_a_second(columns: dict[str, list[Any]]) -> dict[str, list[Any]]:
        """Ended jobs in order; the contract leaves open that of one second."""
        assert columns["end_s"] == sorted(columns["end_s"])
        rows = sorted(zip(*columns.values()), key=lambda row: (row[list(columns).index("end_s")], row))
        return {name: [row[k] for row in rows] for k, name in enumerate(columns)}


def values_of_simulator(sim: Simulation, user: str = "me", chain: ChainView | None = None) -> dict[str, Any]:
    """The simulator's view; its numbers are places in the trace's and the cluster's lists.

    A job that the trace gives no name, or no account, has those that the simulated Slurm shows.
    """
    book, users = sim.labels.book, [user, *sim.workload.table.user.names]
    return NamedView(
        sim.view(chain),
        id=lambda row: row + 1,
        predecessor=lambda row: row + 1,
        user=users.__getitem__,
        partition=[partition.name for partition in sim.cluster.partitions].__getitem__,
        qos=["normal", *sim.cluster.qos_factors].__getitem__,
        name=[*book.names, "job"].__getitem__,
        account=[*book.accounts, ACCOUNT].__getitem__,
    ).values


def values_of_slurm(view: View, names: Names) -> dict[str, Any]:
    """The view from Slurm's output; its numbers are those of a name book."""
    known = {kind: [*codes, None] for kind, codes in names.codes.items()}
    return NamedView(view, **{kind: listed.__getitem__ for kind, listed in known.items()}).values


def differences(one: dict[str, Any], other: dict[str, Any], at: str = "") -> list[str]:
    """Paths at which two views differ, each with both values."""
    found = []
    for name in one.keys() | other.keys():
        mine, its = one.get(name), other.get(name)
        if isinstance(mine, dict) and isinstance(its, dict):
            found += differences(mine, its, f"{at}{name}.")
        elif mine != its:
            found.append(f"{at}{name}: simulator {mine}, Slurm {its}")
    return sorted(found)


def assert_worlds_equal(
    slurm: VirtualSlurm,
    names: Names,
    moment: str,
    *,
    backend: Backend | None = None,
    chain: ChainView | None = None,
    but: Sequence[str] = (),
) -> View:
    """Hold the two views of this moment equal; returns the one from Slurm's output.

    Args:
        backend: Through which Slurm is asked; by default without command lines.
        chain: Whose provisioner looks, in the simulator.
        but: Fields of the view that may differ here, by name.
    """
    view = slurm_view(backend or slurm, names)
    mine, its = values_of_simulator(slurm.sim, chain=chain), values_of_slurm(view, names)
    but = [*but, "chain"] if chain is not None else but
    found = [reported for reported in differences(mine, its) if reported.partition(":")[0] not in but]
    assert not found, "\n".join([f"{moment}, second {slurm.now_s}:", *found])
    return view


@dataclass
class CommandLines:
    """Runs the simulated Slurm's command lines without a process."""

    slurm: VirtualSlurm
    spool: Path

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float | None = None,
        environment: Mapping[str, str] | None = None,
        directory: str | None = None,
    ) -> Completed:
        command = Invocation(argv[1:], directory or ".", self.spool, {"SLURM_TIME_FORMAT": "%s", **(environment or {})})
        reported = answer(self.slurm, argv[0], command)
        return Completed(reported.status, reported.out, reported.err)
