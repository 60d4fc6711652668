"""What do I see? The command line: ``mirage COMMAND``.

Data go to standard output, everything else to standard error. Exit status: 0 done, 1 refused or failed,
2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Sequence

import click

from mirage import __version__
from mirage.cli.first_compile import FirstCompilation
from mirage.cli.lazy import LazyCommand, LazyGroup
from mirage.cli.options import CONTEXT, examples
from mirage.errors import LONGEST_SHOWN, MirageError, shortened
from mirage.sim.first_compile import told

COMMANDS = {
    "demo": LazyCommand("mirage.cli.commands.demo:demo", "See a service stay alive on a busy cluster, in a minute."),
    "submit": LazyCommand("mirage.cli.commands.chain.submit:submit", "Submit a job as sbatch does, and keep it alive."),
    "chain": LazyCommand("mirage.cli.commands.chain:chain", "Look at chains, and steer them."),
    "agent": LazyCommand("mirage.cli.commands.agent:agent", "Start, stop and find the agent."),
    "link": LazyCommand("mirage.cli.commands.chain.link:link", "Inside a job: say that it is ready, or done."),
    "predict": LazyCommand(
        "mirage.cli.commands.predict:predict", "When will a job start, and what to ask for to start sooner."
    ),
    "endpoint": LazyCommand("mirage.cli.commands.chain.endpoint:endpoint", "Point a proxy at a chain's live job."),
    "doctor": LazyCommand("mirage.cli.commands.setup.doctor:doctor", "See whether Mirage will work on this cluster."),
    "lab": LazyCommand("mirage.cli.commands.lab:lab", "A private real Slurm on this machine."),
    "simulate": LazyCommand(
        "mirage.cli.commands.simulation.simulate:simulate", "Replay a trace under a queue discipline."
    ),
    "evaluate": LazyCommand(
        "mirage.cli.commands.simulation.evaluate:evaluate", "Judge policies by interruption and overlap."
    ),
    "compare": LazyCommand(
        "mirage.cli.commands.learn.compare:compare", "Compare learning methods, policies and bounds over months."
    ),
    "schedule": LazyCommand(
        "mirage.cli.commands.schedule:schedule", "Compare schedulers of GPU clusters: who runs, where, with how much."
    ),
    "calibrate": LazyCommand("mirage.cli.commands.simulation.calibrate:calibrate", "Fit the simulator to a cluster."),
    "compile": LazyCommand(
        "mirage.cli.commands.setup.compile:compile_kernels", "Compile the simulator before it is needed."
    ),
    "learn": LazyCommand("mirage.cli.commands.learn:learn", "Learn when to ask for the next link."),
    "train": LazyCommand("mirage.cli.commands.train:train", "Train policies, and predictions of waits, from a trace."),
    "explain": LazyCommand(
        "mirage.cli.commands.learn.explain:explain", "Explain a policy by a small tree, which runs and can be changed."
    ),
    "dag": LazyCommand("mirage.cli.commands.dag:dag", "Schedule jobs made of stages, and compare how."),
    "distill": LazyCommand(
        "mirage.cli.commands.dag.distill:distill", "Schedulers of stages that fit on a page: read, edit and run them."
    ),
    "trace": LazyCommand("mirage.cli.commands.trace:trace", "Look into traces, convert them, generate new ones."),
}

FAILED, INTERRUPTED = 1, 130

root = LazyGroup(
    name="mirage",
    lazy=COMMANDS,
    context_settings=CONTEXT,
    help="Keep long-running jobs alive on clusters run by batch schedulers.",
    epilog=examples(
        "mirage demo                              what it does for a chain of jobs, in a minute",
        "mirage doctor                            whether it will work on this cluster",
        "mirage submit -p gpu -t 48:00:00 --until-done train.sh",
        "mirage chain list                        how your chains stand",
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
    """The exit status of a command, once it has run.

    Args:
        arguments: The words after ``mirage``; by default those of this process.
    """
    _open_closed_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a name the terminal cannot show must not end the command
    try:
        with told(FirstCompilation(sys.stderr)):
            status = root.main(args=arguments, prog_name="mirage", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        said = io.StringIO()
        error.show(said)
        click.echo(
            re.sub(r"\S{200,}", lambda word: shortened(word[0], LONGEST_SHOWN), said.getvalue()), nl=False, err=True
        )
        return error.exit_code
    except MirageError as error:
        click.echo(f"mirage: error: {error}", err=True)
        return FAILED
    except (KeyboardInterrupt, click.Abort):
        click.echo("mirage: interrupted", err=True)
        return INTERRUPTED
    except BrokenPipeError:
        _discard_stdout()
        return FAILED
    except OSError as error:  # standard output on a full disk; files have errors of their own
        click.echo(f"mirage: error: {error}", err=True)
        _discard_stdout()
        return FAILED
    return status if isinstance(status, int) else 0


def _open_closed_streams() -> None:
    """Point standard output and standard error nowhere where the caller has closed them (``>&-``)."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))


def _discard_stdout() -> None:
    """Point standard output nowhere, so that Python does not complain again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
