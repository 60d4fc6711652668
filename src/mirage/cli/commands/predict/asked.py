"""The job that ``mirage predict`` is asked about: its options, its size, and what sbatch says of it."""

from __future__ import annotations

import os
import re
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from mirage.duration import format_duration
from mirage.errors import ConfigurationError, SlurmRefused, SlurmUnreachable

if TYPE_CHECKING:
    from mirage.slurm.client import SlurmClient
    from mirage.slurm.options import Chosen
    from mirage.slurm.text.start_estimate import SlurmEstimate

_ABOUT_SUBMITTING = ("parsable", "quiet", "test-only", "wait", "verbose")
_BUSY = re.compile(r"requested nodes are busy", re.IGNORECASE)
_LISTS = ("nodes", "time", "partition")
"""Options that may name several values, where requests are compared."""

_EMPTY_SCRIPT = "#!/bin/sh\n"


@dataclass(frozen=True, slots=True)
class Asked:
    """A job as it was described.

    Attributes:
        script: Its path; empty for none.
        chosen: Options of the command line.
        given: All options: those of the command line over the environment's over those of the script.
        lists: For ``nodes``, ``time`` and ``partition`` the values to compare, where several are named.
    """

    script: str
    arguments: tuple[str, ...]
    chosen: Chosen
    given: Chosen
    lists: dict[str, list[str]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name that the job will have; empty where there is no script."""
        default = "wrap" if "wrap" in self.chosen else Path(self.script).name
        return self.given.get("job-name") or default


def read_asked(words: list[str], *, comparing: bool) -> Asked:
    """Read options and script.

    Args:
        words: As for sbatch.
        comparing: Whether lists of nodes, limits and partitions are to be compared.

    Raises:
        ConfigurationError: The script cannot be read, or an option is none of sbatch's.
    """
    from mirage.slurm.options import from_environment, parse_sbatch
    from mirage.slurm.text.batch_script import directives

    options, script, arguments = parse_sbatch(words)
    chosen = {name: value for name, value in options.items() if name not in _ABOUT_SUBMITTING}
    text = _read_script(script)
    if re.search(rb"^#SBATCH\s+(hetjob|packjob)\b", text, re.MULTILINE) or ":" in arguments:
        raise ConfigurationError("a heterogeneous job starts when all its components can, which is not predicted")
    said = {**directives(text), **from_environment(os.environ)}
    lists = {}
    if comparing:
        for name in _LISTS:
            values = [value for value in (chosen.get(name) or "").split(",") if value]
            if len(values) > 1:
                lists[name] = values
                chosen[name] = said[name] if said.get(name) in values else values[0]
    return Asked(script or "", arguments, chosen, {**said, **chosen}, lists)


def _read_script(script: str | None) -> bytes:
    if script is None:
        return _EMPTY_SCRIPT.encode()
    try:
        return Path(script).read_bytes()
    except OSError as error:
        raise ConfigurationError(f"cannot read the script {script}: {error.strerror}; name one that exists") from error


def slurms_estimate(client: SlurmClient, asked: Asked, **instead: str) -> SlurmEstimate | None:
    """What ``sbatch --test-only`` expects; None where Slurm has no estimate, or did not answer.

    Args:
        instead: Options in the place of those asked for.

    Raises:
        SlurmRefused: Slurm would not take the job.
    """
    from mirage.duration import parse_limit_s
    from mirage.slurm.text.start_estimate import read_estimate
    from mirage.slurm.values import Submission

    options = {**asked.chosen, **instead}
    wrapped = options.pop("wrap", None) is not None
    if options.get("time"):  # also our own form, 4h
        options["time"] = format_duration(parse_limit_s(options["time"] or ""))
    with tempfile.TemporaryDirectory(prefix="mirage-") as folder:
        script = Path(asked.script).absolute()
        if wrapped or not asked.script:
            script = Path(folder, "job.sh")
            script.write_text(_EMPTY_SCRIPT, encoding="utf-8")
        environment = {**os.environ, "LC_ALL": "C", "SLURM_TIME_FORMAT": "%s"}
        submission = Submission(str(script), options, asked.arguments, environment, str(Path.cwd()))
        try:
            return read_estimate(client.test(submission))
        except SlurmUnreachable:
            return None
        except SlurmRefused as error:
            if _BUSY.search(error.stderr):
                return None
            raise
