"""Dispatch of the simulated Slurm's commands: ``sbatch``, ``squeue`` and others, as text.

They take the options that Mirage, its tests and interactive users need, and reject others with getopt's messages.
"""

from __future__ import annotations

import getopt
from collections.abc import Callable

from mirage.errors import ConfigurationError, SlurmRefused, SlurmUnreachable
from mirage.lab.commands.control_commands import sbatch, scancel, scontrol
from mirage.lab.commands.invocation import CommandOutput, Failed, Invocation, getopt_words
from mirage.lab.commands.query_commands import sacct, sinfo, sprio, squeue
from mirage.lab.virtual.virtual_slurm import VirtualSlurm

VERSION = "slurm-wlm 22.05.8"


def answer(slurm: VirtualSlurm, name: str, command: Invocation) -> CommandOutput:
    """Executes a command.

    Raises:
        WantsScript: The command reads its script from its standard input.
    """
    try:
        if set(command.words) & {"-V", "--version"}:
            return CommandOutput(VERSION + "\n")
        result = COMMANDS[name](slurm, command)
        return result if isinstance(result, CommandOutput) else CommandOutput(result)
    except Failed as error:
        return CommandOutput("", error.words + "\n", error.status)
    except getopt.GetoptError as error:
        return CommandOutput("", f'{name}: {getopt_words(error)}\nTry "{name} --help" for more information\n', 1)
    except (SlurmRefused, SlurmUnreachable) as error:
        lost = isinstance(error, SlurmUnreachable) and name == "sbatch"
        before = "sbatch: error: Batch job submission failed: " if lost else ""
        return CommandOutput("", f"{before}{error.stderr}\n", 1)
    except ConfigurationError as error:
        return CommandOutput("", f"{name}: error: {error}\n", 1)


COMMANDS: dict[str, Callable[[VirtualSlurm, Invocation], str | CommandOutput]] = {
    "sbatch": sbatch, "squeue": squeue, "sacct": sacct, "scancel": scancel, "scontrol": scontrol, "sinfo": sinfo,
    "sprio": sprio,
}  # fmt: skip
