"""The user's request to ``mirage submit``: options, script and environment."""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import BinaryIO

from mirage.agent.chain.submission import CHAIN, LINK, PREVIOUS_JOB, READY_AFTER, TAG
from mirage.agent.chain.tag import GRACE
from mirage.duration import format_duration, parse_limit_s
from mirage.errors import ConfigurationError
from mirage.presets.detect import own_next_job
from mirage.slurm.records import Submission
from mirage.slurm.sbatch_options import VARIABLES, Chosen, from_environment, refuse_no_nodes, refuse_unit
from mirage.slurm.text.batch_script import directives, ignored
from mirage.text_file import unreadable

EXCLUDED = "MIRAGE_KEEP_OUT"
"""Patterns of names, separated by commas: ``*TOKEN*,AWS_*``. Such variables reach no link, and are not stored.

``SLURM_CONF`` is never one of them: sbatch finds the cluster with it.
"""

_ALL = ("", "all")
_NEEDED_WORDS = """
    PATH HOME USER LOGNAME SHELL LANG LANGUAGE TZ TMPDIR LD_LIBRARY_PATH LD_PRELOAD KRB5CCNAME XDG_RUNTIME_DIR
"""
_NEEDED = frozenset(_NEEDED_WORDS.split())
_NEEDED_BEGIN = ("SLURM_", "SBATCH_", "SPANK_", "LC_", "FAKETIME")
"""Variables that sbatch itself needs and passes on in any case, and those of a ready command."""


def exported_environment(environment: Mapping[str, str], export: str | None) -> dict[str, str]:
    """The variables for every link's sbatch.

    Args:
        export: The value of ``--export``, from any source.
    """
    words = {word.partition("=")[0] for word in (export or "").split(",")}
    everything = any(word.lower() in _ALL for word in words)
    return {
        name: value
        for name, value in environment.items()
        if (everything or name in words or name in _NEEDED or name.startswith(_NEEDED_BEGIN))
        and not is_excluded(name, environment)
    }


def is_excluded(name: str, environment: Mapping[str, str]) -> bool:
    """Whether the user excludes a variable from the jobs."""
    patterns = environment.get(EXCLUDED, "").split(",")
    return name != "SLURM_CONF" and any(fnmatchcase(name, pattern.strip()) for pattern in patterns)


NOT_FOR_CHAINS = {
    "array": "submit one chain for each task; a rehearsal runs one of them",
    "wait": "a chain continues after its command has ended; see `mirage chain show`",
    "test-only": "use `mirage submit --dry-run`",
    "hold": "Mirage itself holds and releases the jobs of a chain; submit the chain when it may run",
    "clusters": "one agent serves one cluster",
}
"""Options of sbatch that make no sense for a chain, and the alternatives."""

WRAPPED = "#!/bin/sh\n# This script was created by sbatch --wrap.\n\n{}\n"
"""The script that sbatch makes from ``--wrap``."""

FROM_STANDARD_INPUT = "sbatch"
"""sbatch's name for a script, and so for its job, that comes from standard input."""

FROM_ANY_SOURCE = ("comment", "exclude", "export", "nodes")
"""Options that the store needs even if the script or the environment gives them: we add to three of them."""

TIME_LIMIT = "the time limit"
"""What messages call a limit that the user gave."""

_OF_A_JOB = frozenset({
    CHAIN, LINK, PREVIOUS_JOB, TAG, READY_AFTER, GRACE, "MIRAGE_READY", "MIRAGE_WRAPPED", "MIRAGE_JOB_END_TIME",
    "MIRAGE_OBSERVED", "MIRAGE_REHEARSAL",
})  # fmt: skip
"""Variables that Mirage sets for one job, which a job submitted by it does not inherit."""

_STOP_FILE_OF_A_JOB = re.compile(r"(.*/)?\.mirage-stop-\d+")
"""The stop file of a wrapper; another one is the user's own."""

LARGEST_SCRIPT = 16 << 20
"""Bytes; slurmctld accepts 4 MiB by default (``max_script_size``), and a device may have no end."""

_BYTE_ORDER_MARKS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

_WAIT, _UMASK = "SBATCH_WAIT", "SLURM_UMASK"


@dataclass(frozen=True, slots=True)
class Caller:
    """The properties of the submitting process that a job inherits.

    Attributes:
        umask: Its umask.
        limits: Its soft limits by name.
        script: Standard input where a script may come from it; None at a terminal.
    """

    environment: Mapping[str, str]
    directory: Path
    umask: int
    limits: Mapping[str, int] = field(default_factory=dict)
    script: BinaryIO | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """A job as the user described it.

    Attributes:
        submission: The submission without its script, which is copied later.
        script: The bytes of the batch script.
        script_name: The name sbatch would use for it: the job's name where the user gives none.
        given: The effective options: the command line over the environment over the script.
        remarks: Messages for the user.
        limit_name: What messages call the time limit in ``given``.
    """

    submission: Submission
    script: bytes
    script_name: str
    given: Chosen
    remarks: tuple[str, ...] = ()
    limit_name: str = TIME_LIMIT

    @property
    def job_name(self) -> str:
        """The job's name."""
        return self.given.get("job-name") or self.script_name


def read_request(options: Chosen, script: str | None, arguments: tuple[str, ...], caller: Caller) -> Request:
    """Read the script, and check that it can be a chain.

    Raises:
        ConfigurationError: There is no script, it cannot be read, or an option makes no sense for a chain.
    """
    chosen = with_slurms_limits(options)
    text, name = read_script(chosen, script, caller)
    environment = for_another_job(caller.environment)
    remarks = []
    if environment.pop(_WAIT, None) is not None:
        remarks.append(f"{_WAIT} has no effect: {NOT_FOR_CHAINS['wait']}")
    refuse_unit("SBATCH_TIMELIMIT", environment.get("SBATCH_TIMELIMIT"))  # by sbatch even with -t
    given = {**directives(text), **from_environment(environment), **chosen}
    check_for_chain(given, environment)
    for ours in ("parsable", "quiet"):
        chosen.pop(ours, None)
    for option_name in FROM_ANY_SOURCE:
        if option_name in given:
            chosen[option_name] = given[option_name]
    exported = exported_environment(environment, given.get("export"))
    if secret := sorted(name for name in environment if is_excluded(name, environment)):
        remarks.append(f"{EXCLUDED} excludes these from the jobs: {', '.join(secret)}")
    exported.setdefault(_UMASK, f"{caller.umask:04o}")
    submission = Submission("", chosen, arguments, exported, str(caller.directory), dict(caller.limits))
    return Request(submission, text, name, given, (*remarks, *ignored(text), *own_next_job(text, name)))


def for_another_job(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables of a process, without those that Mirage has set for its own job."""
    found = {name: value for name, value in environment.items() if name not in _OF_A_JOB}
    if _STOP_FILE_OF_A_JOB.fullmatch(found.get("MIRAGE_STOP_FILE", "")):
        del found["MIRAGE_STOP_FILE"]
    return found


def with_slurms_limits(options: Chosen) -> Chosen:
    """The options with limits such as ``4h``, which only Mirage reads, in Slurm's form."""
    found = dict(options)
    for name in ("time", "time-min"):
        with suppress(ConfigurationError):  # the checks of the request report it
            if (limit := found.get(name)) and limit[-1:].isalpha():
                found[name] = format_duration(parse_limit_s(limit))
    return found


def check_for_chain(given: Chosen, environment: Mapping[str, str]) -> None:
    """Refuse options of sbatch that make no sense for a chain, and a job of no nodes.

    Raises:
        ConfigurationError: One of them is given.
    """
    for option, why in NOT_FOR_CHAINS.items():
        if option in given:
            variables = [name for name, meant in VARIABLES.items() if meant == option and environment.get(name)]
            hint = f" ({' and '.join(variables)} in the environment)" if variables else ""
            raise ConfigurationError(f"--{option}{hint} cannot be used with a chain: {why}")
    refuse_no_nodes(given.get("nodes"))


def read_script(chosen: Chosen, script: str | None, caller: Caller) -> tuple[bytes, str]:
    """The batch script, and its name; takes ``wrap`` out of the options.

    Raises:
        ConfigurationError: There is none, it cannot be read, or sbatch would refuse it.
    """
    wrapped = chosen.pop("wrap", None)
    if wrapped is not None:
        if script is not None:
            raise ConfigurationError("Script arguments not permitted with --wrap option; give a script or --wrap")
        return os.fsencode(WRAPPED.format(wrapped)), "wrap"
    if script == ":":
        raise ConfigurationError("a chain is made of jobs of one component; a heterogeneous job cannot be one")
    if script is None:
        if caller.script is None:
            raise ConfigurationError("which script? mirage submit [options] script.sh [arguments]")
        shown, name, text = "standard input", FROM_STANDARD_INPUT, caller.script.read(LARGEST_SCRIPT + 1)
    else:
        path = caller.directory / script
        try:
            shown, name, text = script, path.name, _read_start(path)
        except OSError as error:
            raise ConfigurationError(f"cannot read the script {script}: {unreadable(error)}") from error
    _check_script(text, shown)
    return text, name


def _read_start(path: Path) -> bytes:
    """The file, or of a larger one what shows that it is too large; a device may have no end."""
    with path.open("rb") as file:
        return file.read(LARGEST_SCRIPT + 1)


def _check_script(text: bytes, shown: str) -> None:
    """Refuse what sbatch refuses, with its messages."""
    if not text:
        raise ConfigurationError(f"Batch script is empty! ({shown})")
    if len(text) > LARGEST_SCRIPT:
        raise ConfigurationError(
            f"{shown} has more than {LARGEST_SCRIPT >> 20} MiB, and Slurm accepts 4 MiB unless the site sets "
            "max_script_size; put data into files of their own"
        )
    if text.startswith(_BYTE_ORDER_MARKS):
        raise ConfigurationError(
            f"{shown} begins with a byte order mark, so its first line is not #!; save it as UTF-8 without one, or "
            "run dos2unix on it"
        )
    if not text.startswith(b"#!"):
        remedy = "add #!/bin/bash"
        if text[:4] == b"\x7fELF":
            remedy = "it is a program: submit a script that runs it"
        elif shown.endswith(".py"):
            remedy = f"submit a script that runs python3 {shown}, or add #!/usr/bin/env python3"
        raise ConfigurationError(f"{shown} does not begin with #!, as sbatch requires of a batch script; {remedy}")
    if b"\r\n" in text:
        raise ConfigurationError(
            f"Batch script contains DOS line breaks (\\r\\n) instead of expected UNIX line breaks (\\n): {shown}; "
            "`dos2unix` changes them"
        )
