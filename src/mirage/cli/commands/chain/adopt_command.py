"""``mirage adopt``: a job that is in the queue already becomes the first link of a chain."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mirage.cli import cli_context as cluster
from mirage.cli.commands.chain.chain_options import chain_options
from mirage.cli.commands.chain.framework_option import AUTO, framework_option, with_preset
from mirage.cli.commands.chain.sbatch_words import SILENT, LikeSbatch, caller, check_sbatch, refuse_ssh, warn_of_refusal
from mirage.cli.commands.chain.submit_command import UNKNOWN, about_end, ensure_agent, new_name, new_spec, note
from mirage.cli.options import CONTEXT, CostOptions, cost_options, examples, is_given, json_output
from mirage.cli.output import echo_outcome
from mirage.errors import ConfigurationError, RequestNotSent, SlurmUnreachable
from mirage.job_state import MISSING

if TYPE_CHECKING:
    from mirage.agent.chain.adopt import Delivery
    from mirage.agent.chain.job_to_adopt import JobToAdopt
    from mirage.agent.chain.request import Request
    from mirage.agent.chain.tag import Tag
    from mirage.agent.model import ChainSpec
    from mirage.agent.site_file import SiteFile
    from mirage.agent.store.sql_store import SqlStore
    from mirage.presets.detect import ScriptShape
    from mirage.presets.preset import Preset
    from mirage.slurm.client import SlurmClient
    from mirage.slurm.sbatch_options import Chosen


@click.command(
    cls=LikeSbatch,
    context_settings=CONTEXT,
    options_metavar="[SBATCH OPTIONS] [OPTIONS]",
    epilog=examples(
        "mirage adopt 48151 --dry-run   # shows what is known of the job, from which source, and changes nothing",
        "mirage adopt 48151 --until-done",
        "mirage adopt 48151 --for 14d --framework hf   # later jobs leave in time by a wrapper",
        "mirage adopt 48151 --links 10 -t 12:00:00 --first-signal steps:USR1",
    ),
)
@click.argument("job", required=False, metavar="JOB")
@chain_options(
    "for", "until", "links", "until-done", "chain", "policy", "never-two", "least-life", "waiting-links", "links-a-day",
    of_new_chain=True,
)  # fmt: skip
@cost_options(interruption=1.0, overlap=1.0)
@chain_options("bank-age", "ready-command", "ready-by-job", "warmup", of_new_chain=True)
@click.option(
    "--signal-previous",
    metavar="SIG",
    help="Signal sent to the previous job when the next is ready, and to each job one grace before its limit; or none. "
    "[default: the one that the processes of the job handle]",
)
@click.option(
    "--first-signal",
    metavar="TO:SIG",
    help="What the adopted job itself gets: steps:USR1, shell:USR2, all:TERM, or none. [default: by its processes]",
)
@chain_options(
    "grace", "budget", "shortest-link", "notify", "notify-gap", "progress-file", "no-progress-links",
    of_new_chain=True,
)  # fmt: skip
@framework_option(
    "Preset of a training framework or server for later jobs, as in `mirage submit`; auto: by the script."
)
@click.option(
    "--variables-from",
    "source",
    type=click.Choice(["accounting", "job", "here"]),
    help="Source of the environment of later jobs: accounting, the running job's own processes, or this shell. "
    "[default: the first of them that shows it]",
)
@click.option("--dry-run", is_flag=True, help="Show what was found and what would be done, and change nothing.")
@chain_options("no-agent", of_new_chain=True)
@json_output
@click.pass_context
def adopt(ctx: click.Context, /, job: str | None, costs: CostOptions, **words: Any) -> None:
    """Make a running or pending job the first link of a chain.

    JOB is the number of a batch job of yours, submitted by any launcher. Its script, arguments, working directory,
    environment and options are read from accounting, from a step inside the job, and from the queue; options of sbatch
    given here override them for later jobs. All is checked before anything is changed. The job itself gets a tag in
    its comment, and is otherwise left as it is.

    Exit status: 0 adopted, 1 refused and nothing was changed, 2 wrong usage, 75 unknown: the answer was lost; repeat
    the command.
    """
    from mirage.agent.chain.adopt import adopt_job, adopted_spec
    from mirage.agent.model import Chain
    from mirage.agent.paths import stop_agentless
    from mirage.presets.detect import shape_of
    from mirage.presets.wrapper import LONGEST_WAIT_S, is_shell_script, waiting_for_previous

    number, options = _number_and_options(ctx, job)
    refuse_ssh("mirage adopt")
    check_sbatch()
    words |= {"request_id": "", "quiet": "quiet" in options}
    options = {name: value for name, value in options.items() if name not in SILENT}
    now_s, site, slurm = int(cluster.clock()), cluster.site_rules(), cluster.client()
    cluster.check_controller(slurm)
    with cluster.store(to_read=words["dry_run"]) as store:
        cluster.check_cluster(store)
        found, left = _found(store, slurm, number, options, words, site, now_s)
        shape = shape_of(found.request.script, Path(found.request.submission.directory))
        _words_of_chain(words, found)
        delivery = _delivery(words, found, shape)
        known = _training_or_server(words, shape)
        no_requeue = known is not None and known.requeue.value == "no" and "requeue" not in found.request.given
        request = _without_requeue(found.request) if no_requeue else found.request
        waits = known is not None and not (known.server or words["ready_by_job"]) and is_shell_script(request.script)
        if waits:
            longest_s = max((words["grace"] or 0) + 60, LONGEST_WAIT_S)
            request = replace(request, script=waiting_for_previous(request.script, longest_s))
        _framework_words(words, delivery)
        request, applied, reasons = with_preset(ctx, words, request)
        site.check_place(request.given)
        site.check_chains(store, cluster.home())
        note(words, *site.waiting_links_remark(words["waiting_links"]))
        spec = adopted_spec(
            new_spec(words, costs.cost(), request, now_s), delivery, has_wrapper=bool(words["framework"])
        )
        name = words["name"] or (left.chain if left else new_name(words, request, {c.name for c in store.chains()}))
        if left is None:
            store.check_name(name)
        found = replace(found, request=request)
        if options:
            warn_of_refusal(Chain(0, name, spec, now_s), request)
        end_s = found.queued.end_s if found.queued.end_s != MISSING else now_s + found.queued.limit_s
        end = about_end(words, name, spec, now_s, end_s - now_s)
        steps = _steps(found, spec, delivery, name, no_requeue=no_requeue, waits=waits)
        remarks = (*reasons, *(f"preset: {change}" for change in (applied.changes if applied else ())))
        if words["dry_run"]:
            _show(words, found, name, delivery, steps, remarks)
            note(words, *end)
            return
        _note_findings(words, found, delivery, remarks)
        try:
            store.bind(_cluster(slurm))
            adopt_job(store, slurm, cluster.home(), found, spec, name, now_s, left=left, no_requeue=no_requeue)
            if found.rules is not None:
                stop_agentless(Path(found.rules.folder))
        except RequestNotSent:
            click.echo("mirage: nothing was changed, and there is no chain: try again", err=True)
            raise
        except SlurmUnreachable as error:
            click.echo(f"mirage: {error}", err=True)
            click.echo(
                f"mirage: it is not known whether job {found.queued.id} got its tag, and there is no chain yet: repeat "
                "this command",
                err=True,
            )
            ctx.exit(UNKNOWN)
        try:
            _report(words, name, found, delivery, steps, end)
        finally:  # the job is adopted even if printing fails
            if not words["no_agent"]:
                ensure_agent(words, store, now_s, request)


def _number_and_options(ctx: click.Context, job: str | None) -> tuple[int, Chosen]:
    """Returns the number of the job, which may come last, and the options of sbatch."""
    from mirage.slurm.sbatch_options import parse_sbatch

    options, script, rest = parse_sbatch(ctx.meta["sbatch"])
    if job is None:
        if script is None:
            raise click.UsageError("Missing argument 'JOB': the number of a job; squeue --me lists yours")
        if rest:
            raise click.UsageError(f"the number of the job comes before {rest[0]}: mirage adopt {script} [OPTIONS]")
        return _number(script), options
    if script is not None:
        raise click.UsageError(f"{script}: the script is that of job {job}; give options only")
    return _number(job), options


def _number(text: str) -> int:
    """Returns the number of a job.

    Raises:
        ConfigurationError: It names an array, a heterogeneous job, a step, or a job of another cluster.
    """
    if text.isdecimal() and int(text) > 0:
        return int(text)
    for mark, what in (
        ("_", "a task of an array: a chain is one job after another; submit one chain a task"),
        ("+", "a component of a heterogeneous job, which cannot be a chain"),
        ("@", "a job of another cluster: one agent serves one cluster; run this there"),
        (".", "a step; give the number of its job"),
    ):
        if mark in text and text[:1].isdecimal():
            raise ConfigurationError(f"{text} names {what}")
    raise ConfigurationError(f"{text!r} is no number of a job; squeue --me lists yours")


def _cluster(slurm: SlurmClient) -> str:
    from mirage.slurm.backend import cluster_of

    return cluster_of(slurm.configuration())


def _found(
    store: SqlStore, slurm: SlurmClient, number: int, options: Chosen, words: dict[str, Any], site: SiteFile, now_s: int
) -> tuple[JobToAdopt, Tag | None]:  # fmt: skip
    """Returns a job that passed all checks, and the tag that an interrupted adoption has left."""
    from mirage.agent.chain.job_to_adopt import check_job, check_tag, describe_job, rules_of
    from mirage.agent.model import LinkState
    from mirage.agent.paths import stop_agentless
    from mirage.agent.settings import AgentSettings
    from mirage.slurm.job_reader import JobReader

    reader = JobReader(slurm.runner, os.environ)
    details = reader.details(number)
    jobs = [one for one in slurm.observe_jobs([number]) if one.id == number] if details.user == slurm.user else []
    poll_s = max(AgentSettings().poll_s, site.least_poll_s)
    queued = check_job(details, jobs[0] if jobs else None, slurm.user, now_s, poll_s)
    site.check_place({"partition": queued.partition, "qos": queued.qos})
    keys = {chain.key: chain.name for chain in store.chains()}
    try:
        left = check_tag(queued, store.identity().identity, keys)
    except ConfigurationError:
        if not words["dry_run"] and (rules := rules_of(reader.batch_script(number))) is not None:
            stop_agentless(Path(rules.folder))  # an adoption may have been killed before this
        raise
    for chain in store.chains(alive=True):
        for link in store.links(chain.id, open=True):
            if link.job == number and link.state is not LinkState.ENDED:
                raise ConfigurationError(f"job {number} is link {link.number} of chain {chain.name} already")
    name = slurm.configuration().get("clustername", "")
    found = describe_job(reader, details, queued, name, options, caller(), words["source"] or "")
    return found, left


def _words_of_chain(words: dict[str, Any], found: JobToAdopt) -> None:
    """Sets options that were not given to the rules of a chain without an agent."""
    rules = found.rules
    if rules is None:
        return
    known: dict[str, Any] = {
        "signal_previous": rules.signal or "none",
        "grace": rules.grace_s,
        "warmup": rules.warmup_s,
        "ready_by_job": rules.ready_by_job,
    }
    has_end = words["until_done"] or any(words[name] is not None for name in ("lasting", "until", "links"))
    if not has_end:
        known["until_done"] = rules.until_done
        known["links"] = rules.links or None
        if rules.until_s:
            known["until"] = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(rules.until_s))
    words |= {name: value for name, value in known.items() if not is_given(name)}


def _delivery(words: dict[str, Any], found: JobToAdopt, shape: ScriptShape) -> Delivery:
    """Returns the signal of the adopted job: the user's, or the one that its processes handle."""
    from mirage.agent.chain.adopt import Delivery, chosen_delivery, read_delivery
    from mirage.agent.chain.spec_check import signal_name
    from mirage.agent.model import SHELL
    from mirage.presets.preset import presets
    from mirage.slurm.job_reader import SIGNALS

    if words["first_signal"] is not None:
        return read_delivery(words["first_signal"])
    if found.rules is not None:
        return Delivery("USR2", SHELL, "it passes the signal of its chain on to its script")
    if words["signal_previous"] is not None:
        wanted = [signal_name(words["signal_previous"])]
        if not wanted[0]:
            return read_delivery("none")
    else:
        preset = presets().get(shape.framework)
        of_preset = [preset.signal.value] if preset is not None else []
        wanted = [name for name in dict.fromkeys((*shape.traps, *of_preset, "USR2", "USR1")) if name in SIGNALS]
    return chosen_delivery(found.processes, shape, wanted)


def _training_or_server(words: dict[str, Any], shape: ScriptShape) -> Preset | None:
    """Returns the preset that the user names, or that the script shows."""
    from mirage.presets.preset import presets

    named = words["framework"]
    name = named if named not in (None, AUTO) else shape.framework
    return presets().get(name) if named or name != "python" else None


def _framework_words(words: dict[str, Any], delivery: Delivery) -> None:
    """Sets the signal of later links where the user has named none."""
    if words["signal_previous"] is None:
        words["signal_previous"] = "USR2" if words["framework"] else delivery.signal or "none"


def _without_requeue(request: Request) -> Request:
    options = {**request.submission.options, "no-requeue": None}
    return replace(
        request,
        given={**request.given, "no-requeue": None},
        submission=replace(request.submission, options=options),
    )


def _steps(
    found: JobToAdopt, spec: ChainSpec, delivery: Delivery, name: str, *, no_requeue: bool, waits: bool
) -> list[str]:
    """Returns what the command does, in words."""
    job = found.queued.id
    at_end = f"gets {delivery.signal} ({delivery.receivers})" if delivery.signal else "gets no signal"
    done = [f"scontrol update JobId={job} Comment=mirage:{name}:1:..."]
    if no_requeue:
        done.append(f"scontrol update JobId={job} Requeue=0: a requeued job would run together with its successor")
    second = "no link" if spec.links == 1 else "link 2"
    done.append(f"chain {name}, policy {spec.policy}; job {job} is link 1, and {second} follows it")
    if spec.links == 1:
        return done
    if waits:
        done.append("a later link waits until the one before it has left: both would train at once")
    elif not spec.never_two:
        done.append("a later link starts while the one before it still runs; --never-two makes it wait")
    done.append(f"when link 2 is ready, job {job} {at_end}: {delivery.why}")
    if not delivery.signal:
        done.append(
            f"job {job} is then cancelled, and loses what it has not saved since its last checkpoint; --first-signal "
            "names a signal, --framework makes later jobs leave in time"
        )
    return done


def _show(
    words: dict[str, Any], found: JobToAdopt, name: str, delivery: Delivery, steps: list[str], remarks: tuple[str, ...]
) -> None:
    """Prints what was found and what would be done."""
    if words["as_json"]:
        click.echo(json.dumps(_record(name, found, delivery, steps) | {"remarks": remarks}))
        return
    click.echo(f"job {found.queued.id}: {found.queued.state.name}, {found.request.job_name}")
    for line in found.findings:
        click.echo(f"found: {line}")
    for kind, lines in (("unknown", found.unknown), ("warning", found.warnings), ("remark", remarks)):
        for text in lines:
            click.echo(f"{kind}: {text}")
    for step in steps:
        click.echo(f"would: {step}")


def _note_findings(words: dict[str, Any], found: JobToAdopt, delivery: Delivery, remarks: tuple[str, ...]) -> None:
    note(words, *(f"found: {line}" for line in found.findings), *(f"unknown: {line}" for line in found.unknown))
    note(words, *(f"warning: {line}" for line in found.warnings), *remarks)


def _report(
    words: dict[str, Any], name: str, found: JobToAdopt, delivery: Delivery, steps: list[str], end: tuple[str, ...]
) -> None:
    """Prints the chain."""
    if words["as_json"]:
        echo_outcome(json.dumps(_record(name, found, delivery, steps)))
    elif not words["quiet"]:
        echo_outcome(f"Adopted batch job {found.queued.id}")
    note(words, *steps[1:], *end)


def _record(name: str, found: JobToAdopt, delivery: Delivery, steps: list[str]) -> dict[str, Any]:
    """Returns the adoption as JSON."""
    return {
        "chain": name,
        "job": found.queued.id,
        "state": found.queued.state.name,
        "found": [{"what": one.what, "value": one.value, "source": one.source} for one in found.findings],
        "unknown": found.unknown,
        "warnings": found.warnings,
        "signal": {"name": delivery.signal, "to": delivery.receivers, "why": delivery.why},
        "steps": steps,
    }
