"""The job that ``mirage predict`` predicts: its options, its size, and sbatch's estimate."""

from __future__ import annotations

import os
import re
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from mirage.duration import format_duration, parse_limit_s
from mirage.errors import ConfigurationError, SlurmRefused, SlurmUnreachable, shown
from mirage.text_file import unreadable

if TYPE_CHECKING:
    from mirage.slurm.client import SlurmClient
    from mirage.slurm.sbatch_options import Chosen
    from mirage.slurm.text.start_estimate import StartEstimate

_ABOUT_SUBMITTING = ("parsable", "quiet", "test-only", "wait", "verbose")
_BUSY = re.compile(r"requested nodes are busy", re.IGNORECASE)
_LISTS = ("nodes", "time", "partition")
"""Options that may have several values when requests are compared."""

_EMPTY_SCRIPT = "#!/bin/sh\n"


@dataclass(frozen=True, slots=True)
class RequestedJob:
    """A requested job.

    Attributes:
        script: Its path; empty for none.
        chosen: Options of the command line.
        given: All options: those of the command line override the environment's, which override those of the script.
        lists: The values of ``nodes``, ``time`` and ``partition`` to compare, where several are given.
        own: The values of the script and the environment for the options in ``lists``.
    """

    script: str
    arguments: tuple[str, ...]
    chosen: Chosen
    given: Chosen
    lists: dict[str, list[str]] = field(default_factory=dict)
    own: Chosen = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name that the job will have; empty without a script."""
        default = "wrap" if "wrap" in self.chosen else Path(self.script).name
        return self.given.get("job-name") or default


def read_request(words: list[str], *, comparing: bool) -> RequestedJob:
    """Reads options and script.

    Args:
        words: Arguments of sbatch.
        comparing: Whether lists of nodes, limits and partitions are to be compared.

    Raises:
        ConfigurationError: The script cannot be read, an option is not one of sbatch, a limit or a number of a list
            cannot be read, a list is not to be compared, or the job is heterogeneous.
    """
    from mirage.slurm.sbatch_options import from_environment, parse_sbatch, refuse_no_nodes, refuse_unit
    from mirage.slurm.text.batch_script import directives

    options, script, arguments = parse_sbatch(words)
    chosen = {name: value for name, value in options.items() if name not in _ABOUT_SUBMITTING}
    text = _read_script(script)
    if re.search(rb"^#SBATCH\s+(hetjob|packjob)\b", text, re.MULTILINE) or ":" in arguments:
        raise ConfigurationError("a heterogeneous job starts when all its components can, which is not predicted")
    in_environment = from_environment(os.environ)
    refuse_unit("SBATCH_TIMELIMIT", in_environment.get("time"))
    declared = {**directives(text), **in_environment}
    lists = {}
    for name in _LISTS:
        values = [value for value in (chosen.get(name) or "").split(",") if value]
        if len(values) > 1 and comparing:
            lists[name] = values
            chosen[name] = declared[name] if declared.get(name) in values else values[0]
        elif len(values) > 1 and name != "partition":
            raise ConfigurationError(f"--{name}={chosen[name]}: to compare several values, add --compare")
    for limit in lists.get("time") or filter(None, [{**declared, **chosen}.get("time")]):
        try:
            parse_limit_s(limit)
        except ConfigurationError as error:
            source = "SBATCH_TIMELIMIT" if "time" in in_environment.keys() - chosen.keys() else "--time"
            raise ConfigurationError(f"{source}: {error}") from error
    refuse_no_nodes({**declared, **chosen}.get("nodes"))
    for number in lists.get("nodes", ()):
        node_count(number)
    own = {name: declared[name] for name in lists.keys() & declared.keys()}
    return RequestedJob(script or "", arguments, chosen, {**declared, **chosen}, lists, own)


def node_count(text: str) -> int:
    """Returns the number of nodes of a value in a list.

    Raises:
        ConfigurationError: It is no number of nodes.
    """
    if not (text.isascii() and text.isdecimal() and 0 < int(text) < 10**7):
        raise ConfigurationError(f"{shown(text)} is no number of nodes; write --nodes=1,2,4")
    return int(text)


def _read_script(script: str | None) -> bytes:
    if script is None:
        return _EMPTY_SCRIPT.encode()
    try:
        return Path(script).read_bytes()
    except OSError as error:
        raise ConfigurationError(f"cannot read the script {script}: {unreadable(error)}") from error


def slurms_estimate(client: SlurmClient, requested: RequestedJob, **instead: str) -> StartEstimate | None:
    """Returns the estimate of ``sbatch --test-only``; None without an estimate or an answer.

    Args:
        client: The cluster.
        requested: The job.
        instead: Options that replace those of the job.

    Raises:
        SlurmRefused: Slurm would not accept the job.
    """
    from mirage.slurm.records import Submission
    from mirage.slurm.text.start_estimate import read_estimate

    options = {**requested.chosen, **instead}
    wrapped = options.pop("wrap", None) is not None
    if options.get("time"):  # also Mirage's own form, 4h
        options["time"] = format_duration(parse_limit_s(options["time"] or ""))
    with tempfile.TemporaryDirectory(prefix="mirage-") as folder:
        script = Path(requested.script).absolute()
        if wrapped or not requested.script:
            script = Path(folder, "job.sh")
            script.write_text(_EMPTY_SCRIPT, encoding="utf-8")
        environment = {**os.environ, "LC_ALL": "C", "SLURM_TIME_FORMAT": "%s"}
        submission = Submission(str(script), options, requested.arguments, environment, str(Path.cwd()))
        try:
            return read_estimate(client.test(submission))
        except SlurmUnreachable:
            return None
        except SlurmRefused as error:
            if _BUSY.search(error.stderr):
                return None
            raise
