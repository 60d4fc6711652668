"""``mirage agent install``: entries that start passes, and the agent's jobs."""

from __future__ import annotations

import json
import os
import shlex
from typing import TYPE_CHECKING, Any

import click

from mirage.cli import cli_context as cluster
from mirage.cli.options import CONTEXT, examples, is_given, json_output
from mirage.cli.values import DURATION_WITH_UNIT, LIMITED_DURATION
from mirage.errors import ConfigurationError, one_line

if TYPE_CHECKING:
    from mirage.agent.paths import Home

_WAYS = ("cron", "scrontab", "systemd", "job")


def job_options(command: Any) -> Any:
    """Adds the options of the agent's jobs, and words for sbatch."""
    command = click.argument("sbatch_options", nargs=-1, type=click.UNPROCESSED)(command)
    limit = click.option(
        "-t", "--time", "limit_s", metavar="TIME", type=LIMITED_DURATION, help="Time limit of the agent's jobs."
    )
    return click.option("-p", "--partition", default="", metavar="NAME", help="Partition of the agent's jobs.")(
        limit(command)
    )


def check_job_options(
    in_job: bool, partition: str, limit_s: int | None, words: tuple[str, ...], option: str = "--in-job"
) -> None:
    """Checks that options of the agent's jobs are given for such jobs, and with a time limit.

    Args:
        option: The option that requests such jobs.

    Raises:
        UsageError: They are not.
    """
    if in_job and limit_s is None:
        raise click.UsageError("the agent's jobs need a time limit, such as -t 1-0")
    if not in_job and (partition or limit_s is not None or words):
        raise click.UsageError(f"-p, -t and words after -- are for an agent that is a job: {option}")


def submit_agent_job(home: Home, store: str, partition: str, limit_s: int | None, words: tuple[str, ...]) -> str:
    """Submits the first job of an agent that is a job; returns what sbatch prints.

    Args:
        store: Identity of the store.

    Raises:
        ConfigurationError: sbatch refuses.
    """
    from mirage.agent.hosting.agent_job import job_command, write_agent_script

    command = job_command(home, store, partition, limit_s or 0, words)
    write_agent_script(home, os.environ, command, limit_s or 0)
    outside = {
        name: value
        for name, value in os.environ.items()
        if name == "SLURM_CONF" or not name.startswith(("SLURM_", "SBATCH_"))
    }
    done = cluster.client().runner.run(command, environment=outside)
    if done.status:
        raise ConfigurationError(
            f"sbatch refuses the agent's job: {one_line(done.stderr)}; change -p, -t or the options"
        )
    return done.stdout.strip()


@click.command(
    context_settings=CONTEXT,
    epilog=examples(
        "mirage agent install --cron",
        "mirage agent install --scrontab --every 10m -- -p cron -q workflow",
        "mirage agent install --job -p service -t 1-0",
        "mirage agent install --cron --remove",
    ),
)
@click.option("--cron", is_flag=True, help="Passes by cron on this host.")
@click.option("--scrontab", is_flag=True, help="Passes by Slurm's scrontab.")
@click.option("--systemd", is_flag=True, help="Passes by a timer of systemd on this host.")
@click.option("--job", is_flag=True, help="An agent in a small Slurm job: `mirage agent start --in-job`.")
@click.option("--remove", is_flag=True, help="Remove what was installed.")
@click.option(
    "--every", "every_s", metavar="TIME", type=DURATION_WITH_UNIT, default="5m", show_default=True,
    help="Time between passes: a number of minutes that divides an hour.",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Print what would be installed, and change nothing.")
@job_options
@json_output
def install(
    remove: bool,
    every_s: int,
    dry_run: bool,
    partition: str,
    limit_s: int | None,
    sbatch_options: tuple[str, ...],
    as_json: bool,
    **ways: bool,
) -> None:
    """Install what starts passes of the agent, or its jobs, where no process may live.

    Other entries of the user stay as they are. A second call replaces the entry. Words after -- are options of sbatch
    for the jobs of scrontab and for the agent's jobs.
    """
    chosen = [name for name in _WAYS if ways[name]]
    if len(chosen) != 1:
        raise click.UsageError(
            f"give one of {', '.join(f'--{name}' for name in chosen or _WAYS)}" + ", not both" * (len(chosen) == 2)
        )
    (way,) = chosen
    if is_given("every_s") and (way == "job" or remove):
        raise click.UsageError("--every is the time between passes: leave it out with --job and with --remove")
    if way != "scrontab" or partition or limit_s is not None:
        check_job_options(way == "job" and not remove, partition, limit_s, sbatch_options, "--job")
    changed, text = _remove(way, dry_run) if remove else _install(
        way, every_s, dry_run, partition, limit_s, sbatch_options
    )  # fmt: skip
    if as_json:
        click.echo(json.dumps({"way": way, "removed": remove, "changed": changed, "text": text, "dry_run": dry_run}))
        return
    done = "would be " if dry_run else ""
    verb = "removed" if remove else "installed"
    click.echo(f"{done}{verb}:" if changed else f"nothing to {'remove' if remove else 'change'}", err=True)
    if text:
        click.echo(text.rstrip("\n"))


def _install(
    way: str, every_s: int, dry_run: bool, partition: str, limit_s: int | None, words: tuple[str, ...]
) -> tuple[bool, str]:
    """Installs an entry; returns whether that changes anything, and the entry."""
    from mirage.agent.hosting import installed_passes as passes
    from mirage.agent.hosting.agent_job import job_command

    home = cluster.home()
    if way == "job":
        with cluster.store() as store:
            identity = store.identity().identity
        if dry_run:
            return True, shlex.join(job_command(home, identity, partition, limit_s or 0, words))
        return True, submit_agent_job(home, identity, partition, limit_s, words)
    if way == "systemd":
        passes.schedule(every_s)
        if not dry_run:
            is_new = not passes.pass_script(home, way).exists()
            script = passes.write_pass_script(home, os.environ, way, every_s)
            try:
                passes.install_timer(os.environ, home, every_s)
            except ConfigurationError:
                if is_new:
                    script.unlink()
                raise
        return True, "\n".join(passes.pass_units(home, every_s).values())
    table = passes.CRON if way == "cron" else passes.SCRONTAB
    entry = passes.entry_text(home, table, every_s, words)
    before = passes.read_table(table)
    after = passes.with_entry(home, table, before, entry)
    if not dry_run:
        with cluster.store():  # a pass must find a store
            passes.write_pass_script(home, os.environ, table, every_s)
        if after != before:
            passes.write_table(table, after)
    return after != before, entry.decode(errors="replace")


def _remove(way: str, dry_run: bool) -> tuple[bool, str]:
    """Removes an entry; returns whether there was one, and the entry."""
    from mirage.agent.hosting import installed_passes as passes

    home = cluster.home()
    if way == "job":
        return _remove_jobs(dry_run)
    if way == "systemd":
        if dry_run:
            return passes.has_timer(os.environ), ""
        try:
            return passes.remove_timer(os.environ), ""
        finally:
            passes.pass_script(home, way).unlink(missing_ok=True)
    table = passes.CRON if way == "cron" else passes.SCRONTAB
    before = passes.read_table(table)
    after, found = passes.without_entry(home, table, before), passes.installed_entry(home, table, before)
    if not dry_run:
        if after != before:
            passes.write_table(table, after)
        passes.pass_script(home, table).unlink(missing_ok=True)
    return after != before, "" if found is None else found.line


def _remove_jobs(dry_run: bool) -> tuple[bool, str]:
    """Cancels the agent's jobs; returns whether there were any, and their numbers."""
    from mirage.agent.hosting.agent_job import job_name

    slurm = cluster.client()
    with cluster.store() as store:
        name = job_name(store.identity().identity)
    jobs = [job.id for job in slurm.observe().jobs if job.name == name and job.user == slurm.user and _waits(job.state)]
    if jobs and not dry_run:
        slurm.cancel(sorted(jobs, reverse=True))  # the successor first
    return bool(jobs), " ".join(f"job {job}" for job in jobs)


def _waits(state: int) -> bool:
    """Whether a job is pending or runs."""
    from mirage.job_state import UNFINISHED

    return state in UNFINISHED
