"""Reservations, from ``scontrol show reservation``."""

from __future__ import annotations

from dataclasses import dataclass

from mirage.slurm.text.machine import pairs
from mirage.slurm_words.absent import text_of
from mirage.slurm_words.hostlist import expand_hosts
from mirage.slurm_words.timestamps import instant_s

RESERVATIONS_COMMAND = ("scontrol", "--oneliner", "show", "reservation")
_NONE = "no reservations in the system"


@dataclass(frozen=True, slots=True)
class NodeReservation:
    """A reservation of nodes.

    Attributes:
        start_s: Its start, in seconds since 1970.
        end_s: Its end.
        flags: Its flags, such as ``OVERLAP``.
        users: The users who may use it, as Slurm prints them; empty for none.
        accounts: The accounts that may use it.
        active: Whether it has begun and not ended.
    """

    name: str
    nodes: tuple[str, ...]
    start_s: int
    end_s: int
    flags: tuple[str, ...]
    users: str
    accounts: str
    active: bool


def read_reservations(output: str) -> tuple[tuple[NodeReservation, ...], tuple[str, ...]]:
    """The reservations that the command prints, and the lines that cannot be read."""
    found, unreadable = [], []
    for line in output.splitlines():
        if not line.strip() or line.strip().lower() == _NONE:
            continue
        row = pairs(line)
        try:
            if "ReservationName" not in row:
                raise ValueError(line)
            found.append(
                NodeReservation(
                    name=row["ReservationName"],
                    nodes=tuple(expand_hosts(text_of(row.get("Nodes", "")))),
                    start_s=instant_s(row.get("StartTime", "")),
                    end_s=instant_s(row.get("EndTime", "")),
                    flags=tuple(filter(None, text_of(row.get("Flags", "")).split(","))),
                    users=text_of(row.get("Users", "")),
                    accounts=text_of(row.get("Accounts", "")),
                    active=row.get("State", "") == "ACTIVE",
                )
            )
        except ValueError:
            unreadable.append(line[:200])
    return tuple(found), tuple(unreadable)
