"""Dispatch of the simulated Slurm's commands: ``sbatch``, ``squeue`` and others, as text.

They take the options that Mirage, its tests and interactive users need, and reject others with getopt's messages.
"""

from __future__ import annotations

import getopt
from collections.abc import Callable

from mirage.errors import ConfigurationError, SlurmRefused, SlurmUnreachable
from mirage.lab.commands.control import sbatch, scancel, scontrol
from mirage.lab.commands.invocation import Answer, Failed, Invocation, getopt_words
from mirage.lab.commands.query import sacct, sinfo, sprio, squeue
from mirage.lab.virtual.slurm import VirtualSlurm

VERSION = "slurm-wlm 22.05.8"


def answer(slurm: VirtualSlurm, name: str, asked: Invocation) -> Answer:
    """Executes a command.

    Raises:
        WantsScript: The command reads its script from its standard input.
    """
    try:
        if set(asked.words) & {"-V", "--version"}:
            return Answer(VERSION + "\n")
        said = COMMANDS[name](slurm, asked)
        return said if isinstance(said, Answer) else Answer(said)
    except Failed as error:
        return Answer("", error.words + "\n", error.status)
    except getopt.GetoptError as error:
        return Answer("", f'{name}: {getopt_words(error)}\nTry "{name} --help" for more information\n', 1)
    except (SlurmRefused, SlurmUnreachable) as error:
        lost = isinstance(error, SlurmUnreachable) and name == "sbatch"
        before = "sbatch: error: Batch job submission failed: " if lost else ""
        return Answer("", f"{before}{error.stderr}\n", 1)
    except ConfigurationError as error:
        return Answer("", f"{name}: error: {error}\n", 1)


COMMANDS: dict[str, Callable[[VirtualSlurm, Invocation], str | Answer]] = {
    "sbatch": sbatch, "squeue": squeue, "sacct": sacct, "scancel": scancel, "scontrol": scontrol, "sinfo": sinfo,
    "sprio": sprio,
}  # fmt: skip
