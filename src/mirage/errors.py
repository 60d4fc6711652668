"""All errors that Mirage raises on purpose.

    MirageError
    ├── TraceError          a trace cannot be read: names the file, the line and the remedy
    │   └── UnknownFormat       a file has none of the known formats: lists them
    ├── ClusterError        a cluster description is inconsistent
    ├── JobRefused          a job can never run on this cluster: names the job and the shortfall
    ├── PlanInfeasible      an action cannot be applied: names the job, the node and the shortfall
    ├── UnknownName         a name is not in a registry: lists the known ones and the nearest
    ├── ConfigurationError  a setting or an option has a value that cannot be used
    ├── OutOfDeviceMemory   an emulated GPU has too little free memory: the framework's own text
    ├── DeviceLost          an emulated GPU is lost: names the node
    ├── SlurmError          Slurm's commands failed: quotes Slurm's message
    │   ├── SlurmUnreachable    no answer, or an unreadable one: whether the change took place is unknown; retry
    │   │   └── RequestNotSent      the request was never sent: nothing changed; retry
    │   └── SlurmRefused        Slurm rejected the request: retrying it unchanged does not help
    │       └── InvalidOptions      sbatch cannot parse its options: no other time or cluster would accept them
    ├── StoreError          the agent's store cannot be opened, read or written
    │   ├── LeaseHeld           another agent holds the lease of this store
    │   ├── WrongCluster        the chains of this store belong to another cluster
    │   ├── StoreGone           the store's file was deleted, moved or replaced: its agent exits and creates no other
    │   └── ScriptGone          the copy of a chain's script is not in the agent's folder
    ├── ModelFileError      a model file cannot be read, or holds another model: names the file and the remedy
    └── ContractBroken      a check_* function found a plug-in or a schedule that violates its contract

    LineError (a ValueError)    a line of a trace holds no usable job; readers raise a TraceError from it, or count it

A message states what happened, the value, and what to do next.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from json import JSONDecodeError

LONGEST_SHOWN = 80
"""Characters of a value that a message quotes."""

LONGEST_LINE = 1000
"""Characters of what a command has printed that a message, a table or a log quotes."""


def shown(value: object) -> str:
    """Returns a value as a message quotes it: its ``repr``, truncated where it is long."""
    text = repr(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 2]}…{text[-1]}"


def quantity(number: float, noun: str) -> str:
    """Returns a number with a noun in the right form: ``1 GPU``, ``2,000 GPUs``.

    Args:
        number: A whole number.
        noun: In the singular; its plural ends in s.
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def first_of(names: Sequence[str], most: int = 3) -> str:
    """Returns the first names of a list, and the number of others: ``a, b, c and 9 more``."""
    return ", ".join(map(one_line, names[:most])) + (f" and {len(names) - most} more" if len(names) > most else "")


def reason(error: Exception) -> str:
    """Returns the text of an error for a user, without numbers of errors and names of classes.

    That of a ``KeyError`` names what is missing, that of a ``UnicodeDecodeError`` or of JSON the place in the file.
    """
    if isinstance(error, UnicodeDecodeError):
        return f"it is not text in UTF-8: byte {error.start + 1:,} is {error.object[error.start]:#04x}"
    if isinstance(error, JSONDecodeError):
        return f"it is not JSON at line {error.lineno}, column {error.colno}" if error.doc.strip() else "it is empty"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, OSError):
        cause = getattr(error, "reason", None)  # urllib wraps the error of the connection
        return reason(cause) if isinstance(cause, Exception) else error.strerror or str(error)
    return f"it has no {error.args[0]!r}" if isinstance(error, KeyError) and error.args else str(error) or repr(error)


def shortened(text: str, longest: int) -> str:
    """Returns a text truncated to at most ``longest`` characters."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def one_line(text: str) -> str:
    """Returns a text as a printable line: its lines joined by semicolons, and truncated."""
    lines = text[: 2 * LONGEST_LINE].expandtabs(1).splitlines()
    joined = "; ".join(line.strip() for line in lines if line.strip())
    return shortened("".join(one if one.isprintable() else "?" for one in joined), LONGEST_LINE)


class MirageError(Exception):
    """Base class of all these errors; the command line prints the message and exits with 1."""


class TraceError(MirageError):
    """A trace cannot be read; the message starts with ``file:line:``."""


class UnknownFormat(TraceError):
    """A file has none of the known formats of traces."""


class ClusterError(MirageError):
    """A cluster description is inconsistent."""


class JobRefused(MirageError):
    """A job can never run on this cluster."""


class PlanInfeasible(MirageError):
    """An action of a plan cannot be applied to the cluster in its present state."""


class ConfigurationError(MirageError):
    """A setting or an option has a value that cannot be used."""


class OutOfDeviceMemory(MirageError):
    """An emulated GPU has too little free memory; the message is the framework's own."""


class DeviceLost(MirageError):
    """An emulated GPU of a running job is lost."""


class ModelFileError(MirageError):
    """A model file is absent, damaged, foreign, of another kind or newer than this version."""


class ContractBroken(MirageError):
    """A policy, discipline or schedule violates its contract: a defect, not bad input."""


class UnknownName(MirageError):
    """A name is not registered.

    Args:
        kind: What kind of thing the name should name, in the singular: ``"policy"``, ``"discipline"``.
        name: The unknown name.
        known: The names that exist.
    """

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self.kind, self.name, self.known = kind, name, sorted(known)
        near = difflib.get_close_matches(name.lower(), self.known, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        known_words = f"Known: {', '.join(self.known)}." if self.known else f"There is no {kind} yet."
        super().__init__(f"unknown {kind} {shown(name)}.{hint} {known_words}")


class SlurmError(MirageError):
    """A Slurm command failed; the message quotes Slurm's own message.

    Args:
        message: What was attempted and what to do next.
        stderr: What Slurm wrote.
    """

    def __init__(self, message: str, stderr: str = "") -> None:
        self.stderr = stderr.strip()
        super().__init__(f"{message}: {one_line(self.stderr)}" if self.stderr else message)


class SlurmUnreachable(SlurmError):
    """Slurm gave no readable answer; whether a change took place is unknown."""


class RequestNotSent(SlurmUnreachable):
    """The request never reached Slurm; nothing changed."""


class SlurmRefused(SlurmError):
    """Slurm rejected the request."""


class InvalidOptions(SlurmRefused):
    """sbatch cannot parse its options."""


class StoreError(MirageError):
    """The agent's store cannot be opened, read or written."""


class LeaseHeld(StoreError):
    """Another agent holds the lease of this store."""


class WrongCluster(StoreError):
    """The chains of this store belong to another cluster than Slurm's commands on PATH."""


class StoreGone(StoreError):
    """The file of a store was deleted, moved or replaced; its agent must exit."""


class ScriptGone(StoreError):
    """The copy of a chain's script is not in the agent's folder; other chains are unaffected."""


class LineError(ValueError):
    """A line that holds no usable job; parsers raise it and readers handle it.

    Args:
        reason: What is wrong, in constant words: skipped lines are counted by reason.
        detail: The value that is wrong.
        remedy: What to do about it.
    """

    def __init__(self, reason: str, detail: str, remedy: str) -> None:
        super().__init__(f"{reason}: {shortened(detail, 2 * LONGEST_SHOWN)}; {remedy}")
        self.reason = reason
