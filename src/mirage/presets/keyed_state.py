"""State that is named by the number of a job: the next job would not find it."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from mirage.errors import ConfigurationError, shown
from mirage.presets.wrapper import is_shell_script, with_statement

_SUBMITIT = re.compile(r"-m\s+submitit\.core\._submit\s+(?P<folder>'[^']+'|\"[^\"]+\"|\S+)")
_NUMBER = re.compile(r"\$\{?SLURM_(ARRAY_)?JOB_?ID\b|(?<=\s)SLURM_JOB_?ID\b|%[jA]\b")
_SRUN_LOG = re.compile(
    r"(?P<before>\bsrun(?:\s+--?[\w-]+(?:[=\s]\s*[^-\s]\S*)?)*?)\s+(?:-[oe]\s*|--(?:output|error)[=\s]\s*)\S+"
)
"""An option of srun for its output: not one of the program that it starts."""

PICKLE = "_submitted.pkl"
"""End of the name of the file with submitit's function and arguments, after the number of the job."""


@dataclass(frozen=True, slots=True)
class KeyedLine:
    """A line of a batch script that uses the number of the job.

    Attributes:
        number: Line number, from 1.
        is_log: Whether it only names the output of the job.
    """

    number: int
    text: str
    is_log: bool

    def __str__(self) -> str:
        return f"line {self.number} of the script, {shown(self.text)}"


def keyed_lines(script: bytes) -> tuple[KeyedLine, ...]:
    """The lines of a script that use the number of the job, comments left out."""
    found = []
    for number, line in enumerate(script.decode(errors="replace").splitlines(), 1):
        is_option = line.startswith("#SBATCH")
        if (is_option or not line.lstrip().startswith("#")) and _NUMBER.search(line):
            rest, removed = line, 1
            while removed:
                rest, removed = _SRUN_LOG.subn(r"\g<before>", rest)
            found.append(KeyedLine(number, line.strip(), is_option or not _NUMBER.search(rest)))
    return tuple(found)


def submitit_folder(script: bytes) -> Path | None:
    """The folder of a script that submitit has written; None for other scripts."""
    found = _SUBMITIT.search(script.decode(errors="replace"))
    return Path(shlex.split(found["folder"])[0]) if found else None


def with_submitit_bridge(script: bytes, job: int) -> bytes:
    """A script of submitit for later jobs, which find the state of the job before them.

    submitit loads ``NUMBER_submitted.pkl`` with the number of its own job, and a checkpoint replaces the content of
    that file. The bridge is a link from the name of each later job to the file of the adopted one, so all of them
    continue from the last checkpoint.

    Args:
        job: Number of the adopted job.

    Raises:
        ConfigurationError: The state of the job is not there, or the script is not one of a shell.
    """
    folder = submitit_folder(script)
    if folder is None:
        raise ConfigurationError("the script is not one of submitit")
    if not (folder / f"{job}{PICKLE}").is_file():
        raise ConfigurationError(
            f"submitit's state of job {job}, {folder / f'{job}{PICKLE}'}, is not there, and a later job could not "
            "continue from it; run this where that folder is mounted"
        )
    if not is_shell_script(script):
        raise ConfigurationError("the script of submitit is not one of a shell, so its state cannot be bridged")
    place = shlex.quote(str(folder))
    statement = (
        "# The next statement was added by mirage adopt: submitit loads the state of its own job number.\n"
        f'[ -e {place}/"$SLURM_JOB_ID"{PICKLE} ] || ln -s {job}{PICKLE} {place}/"$SLURM_JOB_ID"{PICKLE}\n'
    )
    return with_statement(script, statement)
