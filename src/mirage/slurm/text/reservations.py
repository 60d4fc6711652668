"""Reservations from ``scontrol --oneliner show reservation``."""

from __future__ import annotations

import re

from mirage.job_state import MISSING
from mirage.slurm.records import SkippedRecords, SlurmReservation
from mirage.slurm.text.machine import first_pairs
from mirage.slurm_words.absent import text_of
from mirage.slurm_words.hostlist import expand_hosts
from mirage.slurm_words.timestamps import instant_s

RESERVATIONS_COMMAND = ("scontrol", "--oneliner", "show", "reservation")

_NONE = "no reservations in the system"
_NAME = re.compile(r"ReservationName=(.*?) (?=StartTime=)")


def read_reservations(output: str) -> tuple[tuple[SlurmReservation, ...], SkippedRecords]:
    """The reservations in the output of the command, and the lines that could not be read.

    A reservation without nodes, as one of licences, is left out.
    """
    found, skipped = list[SlurmReservation](), SkippedRecords()
    for line in output.splitlines():
        if not line.strip() or line.strip().lower() == _NONE:
            continue
        reservation = _reservation(line)
        if reservation is None:
            skipped = skipped.and_one(line)
        elif reservation.nodes:
            found.append(reservation)
    return tuple(found), skipped


def _reservation(line: str) -> SlurmReservation | None:
    """A reservation; None where name, times or nodes cannot be read.

    A name may contain blanks. ``CoreIDs`` is printed only where some cores of a node are not reserved (22.05.8).
    """
    name = _NAME.match(line)
    if name is None:
        return None
    row = first_pairs(line[name.end() :])
    start_s, end_s = instant_s(row.get("StartTime", "")), instant_s(row.get("EndTime", ""))
    try:
        nodes = tuple(expand_hosts(row.get("Nodes", "")))
    except ValueError:
        return None
    if MISSING in (start_s, end_s):
        return None
    return SlurmReservation(
        name[1],
        start_s,
        end_s,
        nodes,
        flags=_words(row.get("Flags", "")),
        users=_words(row.get("Users", "")),
        accounts=_words(row.get("Accounts", "")),
        partial="CoreIDs" in row,
        lends=bool(text_of(row.get("MaxStartDelay", ""))),
        active=row.get("State") == "ACTIVE",
    )


def _words(text: str) -> tuple[str, ...]:
    return tuple(word for word in text_of(text).split(",") if word)
