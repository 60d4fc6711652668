"""The wrapper in the batch shell, which passes a warning on to trainers or servers."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from importlib.resources import files

LEFT_ON_WARNING = 75
"""Exit status of a job whose script exits with 0 after a warning (EX_TEMPFAIL of sysexits.h)."""

OBSERVER = "mirage-rehearsal-observer"
"""A word in the command line of a process that is no part of the training."""

ADDED = "# The next statement was added by mirage submit --framework."
"""The comment before the wrapper in a batch script."""

_SHELL = re.compile(rb"#!\s*(/\S*/)?(env\s+(-S\s+)?)?(/\S*/)?(ba|da|z|k)?sh\b")


def is_shell_script(script: bytes) -> bool:
    """Whether a shell of the Bourne family runs the script: only there a wrapper can be added."""
    return _SHELL.match(script.partition(b"\n")[0]) is not None


def wrapped(
    script: bytes,
    signal: str,
    lead_s: int,
    limit_s: int,
    environment: Mapping[str, str],
    *,
    server: bool,
    ready_by_job: bool = False,
) -> bytes:
    """A batch script that runs itself as a child of the wrapper.

    The wrapper is one statement before the first command: ``#SBATCH`` lines remain what they were.

    Args:
        script: A shell script: see ``is_shell_script``.
        signal: The signal for the processes that handle it, ``file`` for a stop file only, ``none``.
        lead_s: Seconds in which processes that handle the signal later also get it.
        limit_s: The time limit of the job; 0 where unknown.
        environment: Variables to set where the job has no value for them.
        server: Whether it serves: then other programs than Python get the signal too, and two links may run at once.
        ready_by_job: Whether the training itself waits for the link before it, by ``mirage link takeover``.
    """
    text = (files("mirage.presets") / "wrapper.sh").read_text(encoding="utf-8")
    exports = "\n".join(f'export {name}="${{{name}-{value}}}"' for name, value in environment.items())
    values = {
        "DELIVER": signal,
        "LEAD": str(max(lead_s, 1)),
        "LIMIT": str(limit_s),
        "EXPORTS": exports,
        "EXECUTABLE": "*" if server else "*/python*",
        "WAITS": str(int(not server and not ready_by_job)),
        "OBSERVER": OBSERVER,
        "STATE": _PREVIOUS_STATE,
        "LONGEST": str(LONGEST_WAIT_S),
    }
    body = re.sub("@([A-Z]+)@", lambda found: values[found[1]], text)
    start = (
        f"{ADDED}\n"
        f'case "${{MIRAGE_WRAPPED:-}}" in "$SLURM_JOB_ID"-*) ;; *) exec bash -c {shlex.quote(body)} "$0" "$@" ;; esac\n'
    )
    return with_statement(script, start)


LONGEST_WAIT_S = 900
"""The time that a training waits for a job whose end Slurm does not report."""

_PREVIOUS_STATE = (
    'squeue -h -j "$MIRAGE_PREVIOUS_JOB" -t RUNNING,SUSPENDED,COMPLETING -o %T 2>&1 || echo failed'  # one line a job
)


def waiting_for_previous(script: bytes, longest_s: int = LONGEST_WAIT_S) -> bytes:
    """A shell script that first waits until the job before it in its chain has left.

    Two trainings must not run at once, and the second one loads what the first one saves at its end. The wrapper of a
    preset waits by itself, but only for jobs that have the wrapper, too. The pauses between two queries grow with the
    wait. A script that waits already stays as it is.

    Args:
        script: A shell script: see ``is_shell_script``.
        longest_s: The longest wait while slurmctld does not answer or cannot complete the job. While the job runs, the
            wait has no end.
    """
    if b"\nmirage_waited=0;" in script:
        return script
    statement = (
        "# The next statement was added by Mirage: the job before this one saves and leaves first.\n"
        'mirage_waited=0; mirage_ran=0; while [ -n "${MIRAGE_PREVIOUS_JOB:-}" ] && '
        f'case $({_PREVIOUS_STATE}) in *"nvalid job"*) false ;; *RUNNING*|*SUSPENDED*) mirage_ran=$mirage_waited ;; '
        f"*COMPLETING*|*failed) [ $((mirage_waited - mirage_ran)) -lt {longest_s} ] ;; *) false ;; esac; do "
        "mirage_pause=$((mirage_waited < 580 ? 2 + mirage_waited / 10 : 60)); sleep $mirage_pause; "
        "mirage_waited=$((mirage_waited + mirage_pause)); done\n"
    )
    return with_statement(script, statement)


def with_statement(script: bytes, statement: str) -> bytes:
    """A shell script with a statement before its first command.

    ``#SBATCH`` lines remain what they were.
    """
    lines = script.splitlines(keepends=True)
    at = next((k for k, line in enumerate(lines) if line.strip() and not line.lstrip().startswith(b"#")), len(lines))
    head = b"".join(lines[:at])
    return head + (b"" if head.endswith(b"\n") else b"\n") + os.fsencode(statement) + b"".join(lines[at:])
