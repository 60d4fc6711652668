"""The command line: ``mirage COMMAND``.

Data go to standard output, everything else to standard error. Exit status: 0 done, 1 refused or failed, 2 wrong usage,
130 interrupted.
"""

from __future__ import annotations

import errno
import io
import logging
import os
import re
import resource
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TextIO

import click

from mirage.cli.completion import check_completion
from mirage.cli.lazy import LazyCommand, LazyGroup
from mirage.cli.options import CONTEXT, examples
from mirage.cli.output import discard_stdout
from mirage.errors import LONGEST_SHOWN, ConfigurationError, MirageError, shortened, shown
from mirage.foreign_library import foreign_library
from mirage.kernel.compile_listener import compile_listener
from mirage.process import interrupts_while_loading
from mirage.version import __version__

SECTIONS: dict[str, dict[str, tuple[str, str]]] = {
    "Keep a job alive": {
        "submit": ("chain.submit_command:submit", "Submit a job as sbatch does, and keep it alive."),
        "adopt": ("chain.adopt_command:adopt", "Keep a job alive that runs or waits already."),
        "rehearse": ("chain.rehearse_command:rehearse", "Try whether a training leaves in time and resumes."),
        "chain": ("chain:chain", "List chains, inspect them and control them."),
        "agent": ("agent:agent", "Start, stop and find the agent."),
        "link": ("chain.link:link", "Inside a job: report that it is ready, or done."),
        "endpoint": ("chain.endpoint_command:endpoint", "Point a proxy at a chain's live job."),
        "predict": ("predict:predict", "When a job will start, and which request would start sooner."),
    },
    "Study a cluster": {
        "trace": ("trace:trace", "Inspect traces, convert them, generate new ones."),
        "simulate": ("simulation.simulate:simulate", "Replay a trace under a queue discipline."),
        "evaluate": ("simulation.evaluate_command:evaluate", "Judge policies by interruption and overlap."),
        "calibrate": ("simulation.calibrate:calibrate", "Fit the simulator to a cluster."),
    },
    "Learn a policy": {
        "compare": ("learn.learn_compare:compare", "Compare learning methods, policies and bounds over months."),
        "learn": ("learn:learn", "Learn when to submit the next link."),
        "train": ("train:train", "Train policies and wait predictions from a trace."),
        "explain": ("learn.explain:explain", "Explain a policy by a small tree that can be run and edited."),
    },
    "Schedulers of GPUs and of stages": {
        "schedule": ("schedule:schedule", "Compare schedulers of clusters with several GPU types."),
        "control": ("control:control", "Let such a scheduler decide on a real Slurm."),
        "dag": ("dag:dag", "Compare schedulers of jobs made of stages."),
        "distill": ("distill:distill", "Stage schedulers as small trees: read, edit, tune and run them."),
    },
    "Set up": {
        "demo": ("demo:demo", "Watch a service stay alive on a simulated cluster."),
        "doctor": ("setup.doctor:doctor", "Check whether Mirage will work on this cluster."),
        "emulate": ("emulate:emulate", "Jobs that behave as GPU jobs, without a GPU."),
        "lab": ("lab:lab", "A private real Slurm on this machine."),
        "compile": ("setup.compile_command:compile_kernels", "Compile the simulator before it is needed."),
    },
}
"""Title → command → module and attribute below ``mirage.cli.commands``, and its line in the list."""

COMMANDS = {
    name: LazyCommand(f"mirage.cli.commands.{entry}", summary, title)
    for title, commands in SECTIONS.items()
    for name, (entry, summary) in commands.items()
}

FAILED, INTERRUPTED = 1, 130

OF_A_LIBRARY = "; if memory is limited (ulimit -v), raise the limit, otherwise install Mirage again"
"""The remedy where a library cannot be loaded."""

OF_A_LIMIT = {errno.EMFILE: "ulimit -n", errno.ENFILE: "ulimit -n", errno.EAGAIN: "ulimit -u"}
"""Numbers of errors where a limit is reached: of open files, or of processes and threads."""

LEAST_ADDRESS_SPACE = 512 << 20
"""Bytes below which loading the simulator fails."""

root = LazyGroup(
    name="mirage",
    lazy=COMMANDS,
    group="mirage.commands",
    context_settings=CONTEXT,
    help="Keep long-running jobs alive on clusters run by batch schedulers.",
    epilog=examples(
        "mirage demo                              what it does for a chain of jobs, in a minute",
        "mirage doctor                            whether it will work on this cluster",
        "mirage submit -p gpu -t 48:00:00 --until-done train.sh",
        "mirage chain list                        the state of your chains",
    ),
    params=[
        click.Option(
            ["--version"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=lambda ctx, _, wanted: _print_version(ctx) if wanted else None,
            help="Show the version and exit.",
        )
    ],
)


def _print_version(ctx: click.Context) -> None:
    click.echo(f"mirage {__version__}")
    ctx.exit()


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit status.

    Args:
        arguments: The arguments after ``mirage``; by default those of this process.
    """
    _open_closed_streams()
    if arguments is None:  # this process has no other purpose
        _set_up_processes()
    _warn_of_little_memory()
    if os.environ.get("COLUMNS") == "0":  # unknown, in some containers: rich would print nothing
        del os.environ["COLUMNS"]
    if logging.lastResort is not None:  # warnings of a command without a log
        logging.lastResort.setFormatter(logging.Formatter("mirage: warning: %(message)s"))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a character the terminal cannot print must not end the command
    try:
        check_completion(os.environ)
        _check_thread_count(os.environ.get("NUMBA_NUM_THREADS", "1"))
        with compile_listener(FirstCompilation(sys.stderr)), interrupts_while_loading():
            status = root.main(args=arguments, prog_name="mirage", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        shown = io.StringIO()
        error.show(shown)
        click.echo(
            re.sub(r"\S{200,}", lambda word: shortened(word[0], LONGEST_SHOWN), shown.getvalue()), nl=False, err=True
        )
        return error.exit_code
    except MirageError as error:
        click.echo(f"mirage: error: {error}{_gone_folder(str(error))}", err=True)
        return FAILED
    except (KeyboardInterrupt, click.Abort):
        click.echo("mirage: interrupted", err=True)
        return INTERRUPTED
    except MemoryError as error:  # numpy's names the size
        size = f": {error}" if str(error) else ""
        click.echo(f"mirage: error: not enough memory{size}; describe a smaller cluster or less work", err=True)
        return FAILED
    except BrokenPipeError:
        discard_stdout()
        return FAILED
    except ImportError as error:
        click.echo(f"mirage: error: {foreign_library(error) or f'{error}{OF_A_LIBRARY}'}", err=True)
        return FAILED
    except OSError as error:
        what = _in_words(error)
        click.echo(f"mirage: error: {what}{_gone_folder(what)}", err=True)
        discard_stdout()
        return FAILED
    return status if isinstance(status, int) else 0


def _in_words(error: OSError) -> str:
    """Returns the text of an error, with the remedy.

    Among them are a full disk under standard output, a folder that cannot be made, and a limit that is reached.
    """
    if error.errno in OF_A_LIMIT:
        return f"{error.strerror}; raise the limit ({OF_A_LIMIT[error.errno]}), or use fewer --workers"
    if error.errno is None:  # a library that cannot be loaded
        return f"{error}{OF_A_LIBRARY}"
    if error.errno == errno.EBADF:  # see _open_closed_streams
        return "standard output is closed; open it, or discard the output with >/dev/null"
    return f"cannot write {error.filename or 'the output'}: {error.strerror or error}; name another place"


def _gone_folder(message: str) -> str:
    """Returns the end of a message in a deleted working directory; else nothing."""
    try:
        os.getcwd()
    except OSError:
        if "the working directory is gone" not in message:
            return " (the working directory is gone: change into one that exists)"
    return ""


@dataclass
class FirstCompilation:
    """Reports that kernels compile: a counting line in a terminal, one plain line elsewhere."""

    stream: TextIO
    kernels: int = 0

    def __call__(self, kernel: str | None) -> None:
        """Reports a kernel, or the end; implements ``mirage.kernel.compile_listener.Listener``."""
        in_terminal = self.stream.isatty()
        if kernel is None:
            if in_terminal:
                click.echo("\r\033[K", file=self.stream, nl=False)
            return
        self.kernels += 1
        text = "mirage: compiling, once (up to a minute; the result is cached)"
        if in_terminal:
            click.echo(f"\r\033[K{text}: {self.kernels} kernels", file=self.stream, nl=False)
        elif self.kernels == 1:
            click.echo(f"{text} ...", file=self.stream)


def _set_up_processes() -> None:
    """Sets variables for libraries and worker processes, unless they are set.

    Only the C library's environment has the values (not ``os.environ``), so that jobs do not inherit them.

    By default, OpenBLAS, which NumPy and SciPy load, starts a thread per core, each with its own memory, and each waits
    actively at first: with 64 cores and 4 GB of address space, as on login nodes, loading NumPy fails. A worker process
    searches modules in the working directory: a ``types.py`` there ends it before it can report this.
    """
    for name in ("OPENBLAS_NUM_THREADS", "PYTHONSAFEPATH"):
        if name not in os.environ:
            os.putenv(name, "1")


def _check_thread_count(value: str) -> None:
    """Checks the value of ``NUMBA_NUM_THREADS``, which numba reads when a command imports it.

    Raises:
        ConfigurationError: It is not a positive whole number.
    """
    if not (value.strip().isdecimal() and int(value) > 0):
        raise ConfigurationError(
            f"NUMBA_NUM_THREADS={shown(value)} is not a number of threads; set a whole number from 1, or unset it"
        )


def _warn_of_little_memory() -> None:
    """Warns of little address space, where libraries end or hang without a message."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < LEAST_ADDRESS_SPACE:
        click.echo(
            f"mirage: warning: memory is limited to {limit >> 20} MiB (ulimit -v), and the simulator needs "
            f"{LEAST_ADDRESS_SPACE >> 20} MiB",
            err=True,
        )


def _open_closed_streams() -> None:
    """Replaces standard output and error where the caller closed them (``>&-``).

    Standard error becomes /dev/null. Standard output becomes a file that cannot be written, so that a command with an
    output fails.
    """
    for name, mode in (("stdout", os.O_RDONLY), ("stderr", os.O_WRONLY)):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, mode), "w"))
