"""A command as it was typed, its options, and its output."""

from __future__ import annotations

import getopt
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from mirage.job_state import JobState
from mirage.lab.commands.output_columns import STATE_LETTERS, OutputFormat
from mirage.lab.virtual.virtual_slurm import VirtualSlurm
from mirage.slurm.records import AccountedJob, QueuedJob
from mirage.slurm_words.states import job_state


class Failed(Exception):
    """A command that ends with its own error."""

    def __init__(self, words: str, status: int = 1) -> None:
        self.words, self.status = words, status
        super().__init__(words)


class WantsScript(Exception):
    """``sbatch`` without a script reads one from its standard input."""


@dataclass(frozen=True, slots=True)
class Invocation:
    """A command as it was typed.

    Attributes:
        script: Text of its standard input; None until it is requested.
        spool: Where scripts are stored that are not files.
    """

    words: Sequence[str]
    directory: str
    spool: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    script: str | None = None


@dataclass(frozen=True, slots=True)
class CommandOutput:
    """Output and exit status of a command."""

    out: str = ""
    err: str = ""
    status: int = 0


AnyJob = TypeVar("AnyJob", QueuedJob, AccountedJob)


def selected(slurm: VirtualSlurm, command: str, chosen: Mapping[str, str], jobs: Sequence[AnyJob]) -> list[AnyJob]:
    """Returns the jobs selected by the options of a command: squeue, sacct, sprio or scancel."""

    def listed(long: str, letter: str) -> list[str]:
        return [word for word in chosen.get(long, chosen.get(letter, "")).split(",") if word]

    users = listed("user", "u") + ([slurm.showing.user] if "me" in chosen else [])
    states = {_state(command, word) for word in listed("states", "t") + listed("state", "") if word.lower() != "all"}
    numbers, partitions, names = listed("jobs", "j"), listed("partition", "p"), listed("name", "n")
    return [
        job
        for job in jobs
        if (not users or job.user in users)
        and (not states or job.state in states)
        and (not numbers or str(job.id) in numbers)
        and (not partitions or job.partition in partitions)
        and (not names or job.name in names)
    ]


def _state(command: str, word: str) -> JobState:
    letters = {letter: state for state, letter in STATE_LETTERS.items()}
    state = letters.get(word.upper(), job_state(word))
    if state is JobState.UNKNOWN:
        raise Failed(f"{command}: error: Invalid job state specified: {word}")
    return state


def read_words(words: Sequence[str], letters: str, names: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Returns options without their dashes, and the other words; like getopt_long."""
    options, rest = getopt.gnu_getopt(list(words), letters, list(names))
    return {name.lstrip("-"): value for name, value in options}, rest


def getopt_words(error: getopt.GetoptError) -> str:
    """Returns an error in the wording of getopt_long."""
    letter = error.msg.startswith("option -") and not error.msg.startswith("option --")
    if "not recognized" in error.msg:
        return f"invalid option -- '{error.opt}'" if letter else f"unrecognized option '--{error.opt}'"
    if "requires argument" in error.msg:
        return (
            f"option requires an argument -- '{error.opt}'"
            if letter
            else f"option '--{error.opt}' requires an argument"
        )
    if "must not have" in error.msg:
        return f"option '--{error.opt}' doesn't allow an argument"
    return f"option '--{error.opt}' is ambiguous"


def form_of(slurm: VirtualSlurm, command: Invocation) -> OutputFormat:
    """Returns the time format that the caller requests."""
    return OutputFormat(slurm.now_s, command.environment.get("SLURM_TIME_FORMAT") == "%s")


def midnight_s(now_s: int) -> int:
    """Returns the beginning of this day on this machine."""
    there = time.localtime(now_s)
    return now_s - there.tm_hour * 3600 - there.tm_min * 60 - there.tm_sec
