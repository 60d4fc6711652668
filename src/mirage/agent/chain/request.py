"""What the user asks ``mirage submit`` for: options, script and environment, read but not yet submitted."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from mirage.agent.chain.kept_environment import KEEP_OUT, kept_environment, kept_out
from mirage.agent.chain.submission import CHAIN, LINK, PREVIOUS_JOB, READY_AFTER, TAG
from mirage.errors import ConfigurationError
from mirage.slurm.options import VARIABLES, Chosen, from_environment
from mirage.slurm.text.batch_script import directives, ignored
from mirage.slurm.values import Submission

NOT_FOR_CHAINS = {
    "array": "a chain is one job after another; submit one chain a task",
    "wait": "a chain outlives its command; look at it with `mirage chain show`",
    "test-only": "use --dry-run",
    "hold": "a chain submits itself; submit it when it may run",
    "clusters": "one agent looks after one cluster",
}
"""Options of sbatch that make no sense for a chain, and what to do instead."""

WRAPPED = "#!/bin/sh\n# This script was created by sbatch --wrap.\n\n{}\n"
"""As sbatch makes a script of ``--wrap``."""

FROM_STANDARD_INPUT = "sbatch"
"""sbatch's name for a script, and so for its job, that comes from standard input."""

_OF_A_LINK = (CHAIN, LINK, PREVIOUS_JOB, TAG, READY_AFTER)
"""Variables of a job of a chain, which another chain that it submits does not inherit."""

_WAIT, _UMASK = "SBATCH_WAIT", "SLURM_UMASK"


@dataclass(frozen=True, slots=True)
class Caller:
    """The process that submits, as far as a job inherits from it.

    Attributes:
        umask: Of that process.
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
        submission: Without its script, which is still to be copied.
        script: The bytes of the batch script.
        script_name: As sbatch would know it: the job's name where the user names none.
        given: Options as they count: those of the command line over the environment's over those of the script.
        remarks: What the user is to be told.
    """

    submission: Submission
    script: bytes
    script_name: str
    given: Chosen
    remarks: tuple[str, ...] = ()

    @property
    def job_name(self) -> str:
        """The job's name."""
        return self.given.get("job-name") or self.script_name


def read_request(options: Chosen, script: str | None, arguments: tuple[str, ...], caller: Caller) -> Request:
    """Read the script and see whether this can be a chain.

    Raises:
        ConfigurationError: There is no script, it cannot be read, or an option makes no sense for a chain.
    """
    chosen = dict(options)
    text, name = _script(chosen, script, arguments, caller)
    environment = {k: v for k, v in caller.environment.items() if k not in _OF_A_LINK}
    remarks = []
    if environment.pop(_WAIT, None) is not None:
        remarks.append(f"{_WAIT} has no effect: {NOT_FOR_CHAINS['wait']}")
    given = {**directives(text), **from_environment(environment), **chosen}
    _check_for_chain(given, environment)
    for ours in ("parsable", "quiet"):
        chosen.pop(ours, None)
    for said in ("comment", "export", "nodes"):  # wherever said: we add to the first two, and the store is to know
        if said in given:
            chosen[said] = given[said]
    kept = kept_environment(environment, given.get("export"))
    if secret := sorted(name for name in environment if kept_out(name, environment)):
        remarks.append(f"{KEEP_OUT} keeps these from the jobs: {', '.join(secret)}")
    kept.setdefault(_UMASK, f"{caller.umask:04o}")
    submission = Submission("", chosen, arguments, kept, str(caller.directory), dict(caller.limits))
    return Request(submission, text, name, given, (*remarks, *ignored(text)))


def _check_for_chain(given: Chosen, environment: Mapping[str, str]) -> None:
    for option, why in NOT_FOR_CHAINS.items():
        if option in given:
            variables = [name for name, meant in VARIABLES.items() if meant == option and environment.get(name)]
            hint = f" ({' and '.join(variables)} in the environment)" if variables else ""
            raise ConfigurationError(f"--{option}{hint} cannot be used with a chain: {why}")


def _script(chosen: Chosen, script: str | None, arguments: tuple[str, ...], caller: Caller) -> tuple[bytes, str]:
    """The batch script, and its name."""
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
        shown, name, text = "standard input", FROM_STANDARD_INPUT, caller.script.read()
    else:
        path = caller.directory / script
        try:
            shown, name, text = script, path.name, path.read_bytes()
        except OSError as error:
            why = f"{error.strerror}; name one that exists"
            raise ConfigurationError(f"cannot read the script {script}: {why}") from error
    _check_script(text, shown)
    return text, name


def _check_script(text: bytes, shown: str) -> None:
    """Refuse what sbatch refuses, in its words."""
    if not text:
        raise ConfigurationError(f"Batch script is empty! ({shown})")
    if not text.startswith(b"#!"):
        raise ConfigurationError(f"{shown} does not begin with #!, as sbatch asks of a batch script; add #!/bin/bash")
    if b"\r\n" in text:
        raise ConfigurationError(
            f"Batch script contains DOS line breaks (\\r\\n) instead of expected UNIX line breaks (\\n): {shown}; "
            "`dos2unix` changes them"
        )
