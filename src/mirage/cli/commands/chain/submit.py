"""``mirage submit``: a job submitted as by sbatch, and kept alive beyond its limit."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mirage.cli import context as cluster
from mirage.cli.options import CONTEXT, CostOptions, cost_options, examples, json_output
from mirage.cli.values import DURATION, POSITIVE_DURATION
from mirage.duration import format_duration, parse_duration_s
from mirage.errors import ConfigurationError, SlurmRefused, SlurmUnreachable

if TYPE_CHECKING:
    from mirage.agent.chain.create import Request
    from mirage.agent.model import ChainSpec
    from mirage.policy.cost import Cost


class LikeSbatch(click.Command):
    """A command whose own options may stand among those of sbatch, anywhere before the script."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep the words meant for sbatch aside, and read the others."""
        flags = {name: option for option in self.params if isinstance(option, click.Option) for name in option.opts}
        ours, theirs = split_words(args, {name: not option.is_flag for name, option in flags.items()})
        ctx.meta["sbatch"] = theirs
        return super().parse_args(ctx, ours)


def split_words(words: list[str], ours: dict[str, bool]) -> tuple[list[str], list[str]]:
    """Our options with their values, and the rest as sbatch is to read it.

    Args:
        ours: Option → whether it takes a value.
    """
    from mirage.slurm.options import parse_sbatch

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
            except ConfigurationError:
                pass  # sbatch's reader will complain about it, in its own words
            theirs += left[:taken]
            del left[:taken]
        else:
            break
    return mine, theirs + left


@click.command(
    cls=LikeSbatch,
    context_settings=CONTEXT,
    options_metavar="[SBATCH OPTIONS] [OPTIONS]",
    epilog=examples(
        "mirage submit -p gpu -N 2 --gpus-per-node=8 -t 48:00:00 --until-done train.sh --epochs 90",
        "mirage submit --for 14d --interruption-cost 5 --ready-command 'curl -sf $MIRAGE_HOST:8000/health' serve.sh",
        "mirage submit --links 10 --policy lead:4 -t 1-0 --signal-previous USR1 --grace 5m job.sh",
        "mirage submit --dry-run train.sh",
    ),
)
@click.option("--for", "lasting", type=POSITIVE_DURATION, metavar="TIME", help="Keep it alive for so long: 14d, 36h.")
@click.option("--links", metavar="N", type=click.IntRange(1), default=None, help="At most so many jobs.")
@click.option("--until-done", is_flag=True, help="Until a job ends by itself with exit code 0, or `mirage link done`.")
@click.option("--chain", "name", metavar="NAME", help="Name of the chain. [default: the job's and four letters]")
@click.option("--policy", default="what-if", show_default=True, metavar="NAME", help="When to ask for the next job.")
@cost_options(interruption=1.0, overlap=1.0)
@click.option("--ready-command", default="", metavar="CMD", help="Succeeds once the next job can take over.")
@click.option("--ready-by-job", is_flag=True, help="The next job says itself that it can: `mirage link ready`.")
@click.option("--warmup", type=DURATION, default="0", metavar="TIME", help="Without either: how long a job loads.")
@click.option(
    "--signal-previous",
    default="USR2",
    show_default=True,
    metavar="SIG",
    help="Sent to the previous job when the next is ready; none for none.",
)
@click.option(
    "--grace", type=DURATION, default="2m", show_default=True, metavar="TIME", help="From that signal to its end."
)
@click.option("--dry-run", is_flag=True, help="Show what would be submitted, and submit nothing.")
@click.option("--parsable", is_flag=True, help="Print the job number alone, as sbatch does.")
@click.option("--no-agent", is_flag=True, help="Do not start an agent where none runs.")
@json_output
@click.pass_context
def submit(ctx: click.Context, /, costs: CostOptions, **words: Any) -> None:
    """Submit a batch script as sbatch does, and keep it alive beyond its time limit.

    Takes every option of sbatch, and reads #SBATCH lines. The first job is submitted now; the agent asks for
    each next one in time, waits until it is ready, tells the previous one to checkpoint, and ends it.
    """
    from mirage.agent.chain.create import create_chain, name_for, read_request
    from mirage.slurm.options import parse_sbatch

    if shutil.which("sbatch") is None:
        raise ConfigurationError(
            "there is no sbatch here; run this on a login node of the cluster, with Slurm's bin folder on PATH, "
            "or try it on a private Slurm: mirage lab up"
        )
    options, script, arguments = parse_sbatch(ctx.meta["sbatch"])
    request = read_request(options, script, arguments, os.environ, Path.cwd())
    now_s = int(cluster.clock())
    spec = _spec(words, costs.cost(), request, now_s)
    name = words["name"] or name_for(request.job_name)
    if words["dry_run"]:
        _show(request, spec, name, words["as_json"])
        return
    home, slurm = cluster.home(), cluster.client()
    with cluster.store() as store:
        try:
            job = create_chain(store, slurm, home, request, spec, name, now_s)
        except SlurmUnreachable as error:
            click.echo(f"mirage: {error}", err=True)
            click.echo(f"mirage: chain {name} stands; the agent will see whether its first job was submitted", err=True)
            job = -1
        started = None if words["no_agent"] else _agent(store, now_s)
    _tell(words, name, job, started)
    if job < 0:
        ctx.exit(1)


def _spec(words: dict[str, Any], cost: Cost, request: Request, now_s: int) -> ChainSpec:
    """The specification of the chain, checked before anything is submitted."""
    from mirage.agent.chain.tag import chain_name
    from mirage.agent.model import ChainSpec
    from mirage.errors import UnknownName
    from mirage.job_state import MISSING
    from mirage.policy.registry import known_policies

    if words["name"]:
        chain_name(words["name"])
    base = words["policy"].partition(":")[0]
    if base not in known_policies():
        raise UnknownName("policy", base, known_policies())
    ends = [words["lasting"] is not None, words["links"] is not None, words["until_done"]]
    signal = words["signal_previous"].upper().removeprefix("SIG")
    warmup_s = words["warmup"]
    if (limit := request.given.get("time")) and warmup_s >= parse_duration_s(limit):
        raise ConfigurationError(
            f"--warmup {format_duration(warmup_s)} is not shorter than the time limit {limit}: "
            "no link would ever be ready"
        )
    return ChainSpec(
        request.submission,
        until_s=now_s + words["lasting"] if words["lasting"] else MISSING,
        links=words["links"] or 0,
        until_done=words["until_done"] or not any(ends),
        policy=words["policy"],
        interruption_cost=cost.interruption,
        overlap_cost=cost.overlap,
        ready_command=words["ready_command"],
        ready_by_job=words["ready_by_job"],
        warmup_s=warmup_s,
        signal="" if signal == "NONE" else signal,
        grace_s=words["grace"],
    )


def _agent(store: Any, now_s: int) -> str:
    """The agent in words; one is started where none runs."""
    from mirage.agent.service import running_agent, start

    if (found := running_agent(store, now_s)) is not None:
        return f"the agent on {found.host} (process {found.pid}) looks after it"
    pid = start(cluster.home(), os.environ)
    return f"no agent was running: started one here (process {pid}); see `mirage agent status`"


def _tell(words: dict[str, Any], name: str, job: int, agent: str | None) -> None:
    click.echo(f"chain {name}", err=True)
    if agent:
        click.echo(agent, err=True)
    if words["as_json"]:
        click.echo(json.dumps({"chain": name, "job": job, "agent": agent}))
    elif job >= 0:
        click.echo(str(job) if words["parsable"] else f"Submitted batch job {job}")


def _show(request: Request, spec: ChainSpec, name: str, as_json: bool) -> None:
    """Print both command lines, and what sbatch says of the first."""
    from mirage.agent.chain.submission import link_submission
    from mirage.agent.model import Chain
    from mirage.job_state import MISSING
    from mirage.slurm.options import to_argv

    lines = []
    for number, previous in ((1, MISSING), (2, 0)):
        link = link_submission(Chain(0, name, spec, 0, key="KEY"), "STORE", number, previous, hold=number > 1)
        text = shlex.join(["sbatch", *to_argv(link.options), request.job_name, *link.arguments])
        lines.append(text.replace("afterany:0", "afterany:JOB"))
    said = _test_only(request)
    if as_json:
        click.echo(json.dumps({"chain": name, "first": lines[0], "next": lines[1], "sbatch": said}))
        return
    click.echo(f"chain {name}, policy {spec.policy}")
    click.echo(f"now:   {lines[0]}")
    click.echo(f"then, as soon as that one runs: {lines[1]}")
    click.echo(said, err=True)


def _test_only(request: Request) -> str:
    """The answer of ``sbatch --test-only``, which submits nothing."""
    import tempfile

    from mirage.slurm.options import to_argv

    asked = request.submission
    with tempfile.NamedTemporaryFile("w", suffix=".sh") as script:
        script.write(request.text)
        script.flush()
        argv = ["sbatch", "--test-only", *to_argv(asked.options), script.name, *asked.arguments]
        done = cluster.client().runner.run(argv, environment=asked.environment, directory=asked.directory)
    if done.status:
        raise SlurmRefused("sbatch would refuse this", done.stderr)
    return done.stderr.strip()
