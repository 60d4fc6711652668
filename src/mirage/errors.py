"""Every error Mirage raises on purpose.

    MirageError
    ├── TraceError          a trace cannot be read: names the file, the line and the remedy
    ├── ClusterError        a cluster description is inconsistent
    ├── JobRefused          a job can never run on this cluster: names the job and the shortfall
    ├── PlanInfeasible      an action cannot be applied: names the job, the node and the shortfall
    ├── UnknownName         a name is not in a registry: lists the known ones and the nearest
    ├── ConfigurationError  a setting or an option has a value that cannot be used
    ├── SlurmError          Slurm's commands: quotes what Slurm said
    │   ├── SlurmUnreachable    no answer, or none that can be read: whether it happened is not known; try again
    │   │   └── SlurmNotAsked       the request never left: nothing happened; try again
    │   └── SlurmRefused        Slurm answered and said no: trying the same again is of no use
    ├── StoreError          the agent's store cannot be opened, read or written
    │   ├── LeaseHeld           another agent looks after this store
    │   ├── WrongCluster        the chains of this store live on another cluster
    │   ├── StoreGone           the store's file was deleted, moved or replaced: an agent ends, no empty one is made
    │   └── ScriptGone          the copy of a chain's script is not in the agent's folder
    ├── ModelFileError      a model file cannot be read, or holds another model: names the file and the remedy
    └── ContractBroken      a check_* function found a plug-in or a schedule doing what it must not

    LineError (a ValueError)    a line of a trace holds no usable job; readers raise a TraceError of it, or count it

A message says what happened, the value, and what to do next.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

LONGEST_SHOWN = 80
"""Characters of a value that a message quotes."""


def shown(value: object) -> str:
    """A value as a message quotes it: Python's own form, cut where it is long."""
    text = repr(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 2]}…{text[-1]}"


def shortened(text: str, longest: int) -> str:
    """A text cut to so many characters."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


class MirageError(Exception):
    """Base of all errors raised on purpose; the command line prints it and exits with 1."""


class TraceError(MirageError):
    """A trace cannot be read; the message starts with ``file:line:``."""


class ClusterError(MirageError):
    """A cluster description is inconsistent."""


class JobRefused(MirageError):
    """A job can never run on this cluster, however long it waits."""


class PlanInfeasible(MirageError):
    """An action of a plan cannot be applied to the cluster as it stands."""


class ConfigurationError(MirageError):
    """A setting or an option has a value that cannot be used."""


class ModelFileError(MirageError):
    """A model file is absent, damaged, foreign, of another kind or newer than this version."""


class ContractBroken(MirageError):
    """A policy, a discipline or a schedule does what its contract rules out: a defect, not bad input."""


class UnknownName(MirageError):
    """A name is not registered.

    Args:
        kind: What was looked up, in the singular: ``"policy"``, ``"discipline"``.
        name: The name that was asked for.
        known: The names that exist.
    """

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self.kind, self.name, self.known = kind, name, sorted(known)
        near = difflib.get_close_matches(name, self.known, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        known_words = f"Known: {', '.join(self.known)}." if self.known else f"There is no {kind} yet."
        super().__init__(f"unknown {kind} {shown(name)}.{hint} {known_words}")


class SlurmError(MirageError):
    """Something about Slurm's commands; the message quotes Slurm's own words.

    Args:
        message: What was tried and what to do next.
        stderr: What Slurm wrote.
    """

    def __init__(self, message: str, stderr: str = "") -> None:
        self.stderr = stderr.strip()
        super().__init__(f"{message}: {self.stderr}" if self.stderr else message)


class SlurmUnreachable(SlurmError):
    """No answer from Slurm, or none that can be read; whether a change took place is not known."""


class SlurmNotAsked(SlurmUnreachable):
    """The request never reached Slurm; nothing took place."""


class SlurmRefused(SlurmError):
    """Slurm answered and said no."""


class StoreError(MirageError):
    """The agent's store cannot be opened, read or written."""


class LeaseHeld(StoreError):
    """Another agent looks after this store."""


class WrongCluster(StoreError):
    """The chains of this store live on another cluster than the one that Slurm's commands speak to."""


class StoreGone(StoreError):
    """The file of a store was deleted or moved, or another took its place; an agent of it must end."""


class ScriptGone(StoreError):
    """The copy of a chain's script is not in the agent's folder; no other chain is concerned."""


class LineError(ValueError):
    """A line that holds no usable job; raised by the parsers and answered by the reader.

    Args:
        reason: What is wrong, in words that do not vary from line to line: skipped lines are counted by it.
        detail: The value that is wrong.
        remedy: What to do about it.
    """

    def __init__(self, reason: str, detail: str, remedy: str) -> None:
        super().__init__(f"{reason}: {shortened(detail, 2 * LONGEST_SHOWN)}; {remedy}")
        self.reason = reason
