"""Separation of sbatch's arguments from those of ``mirage submit``."""

from __future__ import annotations

import difflib
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from mirage.cli import cli_context as cluster
from mirage.errors import ConfigurationError, InvalidOptions, SlurmError, SlurmRefused
from mirage.job_state import MISSING

if TYPE_CHECKING:
    from mirage.agent.chain.request import Caller, Request
    from mirage.agent.model import Chain
    from mirage.slurm.sbatch_options import Chosen

ABOUT_SBATCH = ("version", "usage")
"""Options that print information about sbatch and submit nothing."""

SILENT = ("parsable", "quiet", "verbose")
"""Options of sbatch that change only what it prints."""

OF_SUBMIT = ("agentless", "dry-run", "framework", "request-id")
"""Options of ``mirage submit`` that are not those of a chain."""


class LikeSbatch(click.Command):
    """A command with its own options and those of sbatch, mixed, before the script.

    Its own arguments come first: ``mirage chain edit NAME``.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Separates the arguments for sbatch and parses the others."""
        first = sum(isinstance(param, click.Argument) for param in self.params)
        if any(word.startswith("-") for word in args[:first]):
            first = 0
        own, args = args[:first], args[first:]
        flags = {name: option for option in self.params if isinstance(option, click.Option) for name in option.opts}
        ours, theirs = split_words(args, {name: not option.is_flag for name, option in flags.items()})
        ctx.meta["sbatch"] = theirs
        return super().parse_args(ctx, [*own, *ours])

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Returns the parts of the usage line: own arguments before the options."""
        options, *own = super().collect_usage_pieces(ctx)
        return [*own, options]

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Returns the options that continue a word; without one, the shell completes files."""
        return super().shell_complete(ctx, incomplete) or [CompletionItem(incomplete, type="file")]


def misplaced(ctx: click.Context, script: str | None, arguments: tuple[str, ...]) -> tuple[str, ...]:
    """Returns a remark on script arguments in the form of options of Mirage or sbatch.

    Arguments after ``--`` are exempt: the user has marked them as the script's.
    """
    before = ctx.meta["sbatch"][: -len(arguments) - 1]
    if script is None or "--" in before:
        return ()
    ours = {name for option in ctx.command.params if isinstance(option, click.Option) for name in option.opts}
    theirs = arguments[: arguments.index("--")] if "--" in arguments else arguments
    found = list(dict.fromkeys(word for word in theirs if _is_option(word, ours)))
    if not found:
        return ()
    goes, them = ("go", "them") if len(found) > 1 else ("goes", "it")
    return (
        f"{', '.join(found)} after {script} {goes} to the script, as with sbatch; place {them} before {script} to give "
        f"{them} to {ctx.command_path}",
    )


def _is_option(word: str, ours: Collection[str]) -> bool:
    """Whether a word has the form of an option: ``--links``, ``--time=5``, ``-t``, ``-t5``."""
    from mirage.slurm.sbatch_options import LETTERS, OPTIONS, Value

    name = word.partition("=")[0]
    if name.startswith("--"):
        return name in ours or name[2:] in OPTIONS
    letter = LETTERS.get(word[1:2]) if word[:1] == "-" else None
    return word in ours or (
        letter is not None and (len(word) == 2 or (letter.value is Value.NEEDED and word[2:3].isdecimal()))
    )


def split_words(words: list[str], ours: dict[str, bool]) -> tuple[list[str], list[str]]:
    """Returns our options with their values, and the other arguments, for sbatch.

    Args:
        words: The arguments of ``mirage submit``.
        ours: Option → whether it takes a value.
    """
    from mirage.slurm.sbatch_options import parse_sbatch

    mine: list[str] = []
    theirs: list[str] = []
    left = list(words)
    while left:
        name, equals, _ = left[0].partition("=")
        if name in ours or (name in ("-h", "--help")):
            mine.append(left.pop(0))
            if ours.get(name) and not equals and left:
                mine.append(left.pop(0))
        elif left[0].startswith("-") and left[0] not in ("-", "--"):
            taken = 1
            try:
                _, script, _ = parse_sbatch([left[0], "value"])
                taken = 1 if script == "value" else 2
            except ConfigurationError:  # reported later, by the parser of sbatch's arguments
                _refuse_misspelt(name, ours)
            theirs += left[:taken]
            del left[:taken]
        else:
            break
    return mine, theirs + left


def _refuse_misspelt(name: str, ours: Collection[str]) -> None:
    """Refuses an unknown option that resembles one of ours, or is one of ``mirage submit``."""
    from mirage.cli.commands.chain.chain_options import OPTIONS as OF_CHAINS
    from mirage.slurm.sbatch_options import OPTIONS

    if name.removeprefix("--") in (*OF_CHAINS, *OF_SUBMIT):
        raise click.UsageError(f"{name} is an option of mirage submit, and this command does not take it")
    near = difflib.get_close_matches(name, [*ours, *(f"--{known}" for known in OPTIONS)], n=1, cutoff=0.75)
    if near and near[0] in ours:
        raise click.UsageError(f"unrecognized option '{name}'; did you mean {near[0]}?")


def of_the_command_line(error: ConfigurationError) -> ConfigurationError:
    """An error about a script, reworded if a line has an option of ``mirage submit``."""
    from mirage.cli.commands.chain.chain_options import OPTIONS as OF_CHAINS

    found = re.search(r"unrecognized option '--([\w-]+)'", str(error))
    if found is None or found[1] not in (*OF_CHAINS, *OF_SUBMIT):
        return error
    return ConfigurationError(
        f"{str(error)[: found.end()]}: it is an option of mirage submit; give it on the command line, not in the script"
    )


def caller() -> Caller:
    """Returns the attributes of this process that a job inherits."""
    from mirage.agent.chain.request import Caller
    from mirage.slurm.runner import soft_limits

    umask = os.umask(0o077)
    os.umask(umask)
    script = None if sys.stdin is None or sys.stdin.isatty() else sys.stdin.buffer
    try:
        directory = Path.cwd()
    except FileNotFoundError as error:
        raise ConfigurationError("the working directory is gone; change into one that exists") from error
    return Caller(os.environ, directory, umask, soft_limits(), script)


def warn_of_refusal(chain: Chain, job: Request, *, is_due: bool = False) -> None:
    """Warns if Slurm would refuse a chain's next job now; this may change until it is due.

    Raises:
        InvalidOptions: sbatch cannot parse the options, which does not change.
        ConfigurationError: Slurm would refuse it, and it is due.
    """
    from mirage.agent.chain.create import with_scripts
    from mirage.agent.chain.submission import link_submission
    from mirage.agent.paths import Home

    try:
        with tempfile.TemporaryDirectory() as folder:
            spec = with_scripts(Home(Path(folder), ""), job, chain.spec, chain.name)
            cluster.client().test(link_submission(replace(chain, spec=spec), "STORE", 1, MISSING, hold=False))
    except InvalidOptions:
        raise
    except SlurmRefused as error:
        refused = f"Slurm would refuse the next job now: {error}; give other options"
        if is_due:
            raise ConfigurationError(f"{refused}, or leave --replace-waiting out; nothing was changed") from error
        click.echo(f"mirage: warning: {refused}", err=True)
    except SlurmError:  # it is tried when the job is due
        return


def check_sbatch() -> None:
    """Checks that sbatch is on PATH, unless it runs on another host.

    Raises:
        ConfigurationError: It is not.
    """
    if not os.environ.get("MIRAGE_SSH") and shutil.which("sbatch") is None:
        raise ConfigurationError(
            "there is no sbatch here; run this on a login node of the cluster, with Slurm's bin folder on PATH, "
            "or try it on a private Slurm: mirage lab up"
        )


def refuse_ssh(what: str) -> None:
    """Refuses what uses files of the jobs, if Slurm's commands run on another host.

    Args:
        what: A command or an option.

    Raises:
        ConfigurationError: They do.
    """
    if os.environ.get("MIRAGE_SSH"):
        raise ConfigurationError(
            f"{what} reads and writes files of the jobs, so it does not work through ssh; unset MIRAGE_SSH, and run "
            "this on a login node of the cluster"
        )


def about_sbatch(options: Chosen) -> int | None:
    """Runs ``sbatch --version`` or ``--usage`` if given and returns its status; else None."""
    for name in ABOUT_SBATCH:
        if name in options:
            done = cluster.client().runner.run(["sbatch", f"--{name}"], environment=os.environ)
            click.echo(done.stdout, nl=False)
            click.echo(done.stderr, nl=False, err=True)
            return done.status
    return None
