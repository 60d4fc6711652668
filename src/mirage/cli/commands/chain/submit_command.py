"""``mirage submit``: submit a job as sbatch does, kept alive beyond its time limit."""

from __future__ import annotations

import json
import os
import shlex
import tempfile
import time
from collections.abc import Container, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mirage.cli import cli_context as cluster
from mirage.cli.commands.chain.chain_options import (
    chain_options,
    check_never_two,
    check_ready_command,
    end_s,
    not_empty,
    notify_fields,
    progress_fields,
)
from mirage.cli.commands.chain.framework_option import framework_option, with_preset
from mirage.cli.commands.chain.sbatch_words import (
    LikeSbatch,
    about_sbatch,
    caller,
    check_sbatch,
    misplaced,
    of_the_command_line,
    refuse_ssh,
)
from mirage.cli.options import CONTEXT, CostOptions, cost_options, examples, json_output
from mirage.cli.output import echo_outcome
from mirage.errors import (
    ConfigurationError,
    LeaseHeld,
    MirageError,
    RequestNotSent,
    SlurmError,
    SlurmUnreachable,
    StoreError,
    UnknownName,
    quantity,
)
from mirage.job_state import MISSING

if TYPE_CHECKING:
    from mirage.agent.chain.request import Request
    from mirage.agent.model import Chain, ChainSpec
    from mirage.agent.site_file import SiteFile
    from mirage.agent.store.sql_store import SqlStore
    from mirage.policy.cost import Cost
    from mirage.presets.apply import AppliedPreset


UNKNOWN = 75
"""Exit status if it is unknown whether a job was submitted (EX_TEMPFAIL of sysexits.h)."""

NOTHING_SUBMITTED = "mirage: nothing was submitted, and there is no chain: try again"

_PATIENCE_S = 10.0
"""Seconds for sinfo: the limit of a partition is known only with its answer, and is for checks alone."""

STORE = "STORE"
"""Placeholder of the random part of a tag in a dry run."""


@click.command(
    cls=LikeSbatch,
    context_settings=CONTEXT,
    options_metavar="[SBATCH OPTIONS] [OPTIONS]",
    epilog=examples(
        "mirage submit -p gpu -N 2 --gpus-per-node=8 -t 48:00:00 --until-done train.sh --epochs 90",
        "mirage submit --for 14d --interruption-cost 5 --ready-command 'curl -sf $MIRAGE_HOST:8000/health' serve.sh",
        "mirage submit --links 10 --policy lead:4 -t 1-0 --signal-previous USR1 --grace 5m job.sh",
        "mirage submit --until 2026-12-24T18:00 serve.sh",
        "mirage submit --request-id run-7 train.sh   # repeated, it prints the same job",
        "mirage submit --budget 500 -N 4 -t 12:00:00 train.sh   # 500 node-hours, then the chain is done",
        "mirage submit --agentless -t 24:00:00 --grace 5m train.sh   # no process outside the jobs",
        "mirage submit --framework hf --dry-run train.sh   # shows what the preset sets, and its sources",
    ),
)
@chain_options(
    "for", "until", "links", "until-done", "chain", "policy", "never-two", "least-life", "waiting-links", "links-a-day",
    of_new_chain=True,
)  # fmt: skip
@cost_options(interruption=1.0, overlap=1.0)
@chain_options("bank-age", "ready-command", "ready-by-job", "warmup", of_new_chain=True)
@click.option(
    "--signal-previous",
    default="USR2",
    show_default=True,
    metavar="SIG",
    help="Signal sent to the previous job when the next is ready, and to each job one grace before its limit; or none.",
)
@chain_options(
    "grace", "budget", "shortest-link", "notify", "notify-gap", "progress-file", "no-progress-links",
    of_new_chain=True,
)  # fmt: skip
@framework_option(
    "Preset of a training framework or server: lead, requeue and environment where you give none, and a wrapper that "
    "passes the signal on to the processes that handle it. One of hf, lightning, nemo, automodel, megatron, "
    "torchtitan, composer, axolotl, submitit, vllm, sglang, tgi, triton, llama-cpp, python; auto: by the script."
)
@click.option(
    "--request-id",
    metavar="KEY",
    callback=not_empty,
    help="Submit only once for this key, even if the command is repeated.",
)
@click.option(
    "--agentless",
    is_flag=True,
    help="Run without an agent: each job itself decides when the next one may start, by a small tree in its batch "
    "script.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be submitted, and submit nothing.")
@click.option("--parsable", is_flag=True, help="Print only the job ID, as sbatch does.")
@chain_options("no-agent", of_new_chain=True)
@json_output
@click.pass_context
def submit(ctx: click.Context, /, costs: CostOptions, **words: Any) -> None:
    """Submit a batch script as sbatch does, and keep it alive beyond its time limit.

    Accepts every option of sbatch, and reads #SBATCH lines and sbatch's environment variables. The first job is
    submitted now. The agent submits each next job held and releases it in time. When it is ready, the agent signals
    the previous job to checkpoint, and cancels that job after the grace.

    Exit status: 0 submitted, 1 nothing was submitted, 2 wrong usage, 75 unknown: the answer was lost, and the agent
    will find out.
    """
    from mirage.agent.chain.create import chain_of_request
    from mirage.agent.chain.request import read_request
    from mirage.slurm.sbatch_options import parse_sbatch

    check_sbatch()
    if words["agentless"]:
        refuse_ssh("--agentless")
    options, script, arguments = parse_sbatch(ctx.meta["sbatch"])
    if (status := about_sbatch(options)) is not None:
        ctx.exit(status)
    _check_grace(words)
    words["quiet"] = "quiet" in options
    try:
        request = read_request(options, script, arguments, caller())
    except ConfigurationError as error:
        raise of_the_command_line(error) from error
    request = _with_default_limit(request)
    request, applied, reasons = with_preset(ctx, words, request)
    note(words, *request.remarks, *misplaced(ctx, script, arguments), *reasons)
    now_s = int(cluster.clock())
    site = cluster.site_rules()
    site.check_place(request.given)
    note(words, *site.waiting_links_remark(words["waiting_links"]))
    if words["agentless"]:
        with cluster.store(to_read=True) as store:
            site.check_chains(store, cluster.home())
        _submit_agentless(ctx, words, costs, request, site, now_s)
        return
    spec = new_spec(words, costs.cost(), request, now_s)
    if words["dry_run"]:
        with cluster.store(to_read=True) as store:
            site.check_chains(store, cluster.home())
            cluster.check_cluster(store)
            if words["request_id"] and (known := chain_of_request(store, words["request_id"])) is not None:
                _report(words, *_known(words, known, store, request, spec))
                return
            if words["name"]:
                store.check_name(words["name"])
        name = words["name"] or new_name(words, request)
        _show_dry_run(request, spec, name, applied, as_json=words["as_json"])
        note(words, *about_end(words, name, spec, now_s, _first_end_s(request, now_s)))
        return
    with cluster.store() as store:
        site.check_chains(store, cluster.home())
        name, job = _submitted(words, store, request, spec, now_s)
        try:
            _report(words, name, job)
        finally:  # the job is submitted even if printing fails
            if not words["no_agent"]:
                ensure_agent(words, store, now_s, request)
    if job == MISSING:
        ctx.exit(UNKNOWN)


def _with_default_limit(request: Request) -> Request:
    """Returns the request with the time limit of its partition, if it has none of its own.

    Where Slurm does not answer, or the job cannot be in that partition, the limit stays unknown.
    """
    from mirage.duration import format_duration
    from mirage.slurm.text.requested_size import requested_size

    if "time" in request.given:
        return request
    try:
        size = requested_size(request.given, cluster.client(_PATIENCE_S).machine(), shared=False)
    except (SlurmError, ConfigurationError, UnknownName):  # sbatch reports what is wrong
        return request
    given = {**request.given, "time": format_duration(size.limit_s)}
    return replace(request, given=given, limit_name=f"the default time limit of partition {size.partitions[0]},")


def _check_grace(words: Mapping[str, Any]) -> None:
    """Checks that the grace begins with a signal, or that the job itself needs to know it.

    Raises:
        UsageError: It does not.
    """
    from mirage.agent.chain.spec_check import signal_name

    needed = any(words[name] for name in ("agentless", "framework", "ready_by_job"))
    if words["grace"] is not None and not needed and not signal_name(words["signal_previous"]):
        raise click.UsageError(
            "--grace is the time after the signal, and --signal-previous none sends none; leave one of them out"
        )


def new_spec(words: Mapping[str, Any], cost: Cost, request: Request, now_s: int) -> ChainSpec:
    """Returns the specification of the chain, checked before anything is submitted."""
    from mirage.agent.chain.spec_check import (
        check_output_folders,
        check_spec,
        default_grace_s,
        least_limit_s,
        limit_s,
        policy_name,
        signal_name,
        slurm_warning_s,
        time_remarks,
    )
    from mirage.agent.model import WAITING_LINKS, ChainSpec
    from mirage.policy.policy_registry import lasting_name

    check_ready_command(words)
    if words["never_two"]:
        check_never_two()
    has_end = _has_end(words)
    grace_s = words["grace"] if words["grace"] is not None else default_grace_s(limit_s(request.given))
    policy = policy_name(words["policy"], never_two=words["never_two"])
    signal = signal_name(words["signal_previous"])
    spec = ChainSpec(
        request.submission,
        until_s=end_s(words, now_s),
        links=words["links"] or 0,
        until_done=words["until_done"] or not has_end,
        policy=lasting_name(policy),
        interruption_cost=cost.interruption,
        overlap_cost=cost.overlap,
        ready_command=words["ready_command"] or "",
        ready_by_job=words["ready_by_job"],
        warmup_s=words["warmup"] or 0,
        signal=signal,
        grace_s=grace_s,
        request_id=words["request_id"] or "",
        bank_age=words["bank_age"],
        least_limit_s=least_limit_s(request.given),
        slurm_warning_s=slurm_warning_s(request.given, signal, grace_s),
        least_life=words["least_life"] if words["least_life"] is not None else MISSING,
        waiting_links=words["waiting_links"] or WAITING_LINKS,
        links_a_day=words["links_a_day"] or 0,
        shortest_link_s=words["shortest_link"] or MISSING,
        budget_node_h=words["budget"] or 0.0,
        never_two=words["never_two"],
        **notify_fields(words),
        **progress_fields(words),
        to_batch_shell=words.get("to_batch_shell", False),
        framework=words["framework"] or "",
    )
    if spec.until_s != MISSING and spec.until_s <= (begins_s := _begins_s(request, now_s)) > now_s:
        raise ConfigurationError(
            f"the chain would end before its first job begins, at {time.strftime('%FT%T', time.localtime(begins_s))}; "
            "give a later end, or an earlier --begin"
        )
    _check_first_job(spec, request)
    directory = None if os.environ.get("MIRAGE_SSH") else Path(request.submission.directory)
    check_spec(spec, request.given, directory, has_end=has_end, name=words["name"] or "", limit_name=request.limit_name)
    note(words, *time_remarks(spec, request.given, now_s, request.limit_name))
    if directory is not None:
        note(words, *check_output_folders(request.given, directory))
    return spec


def _check_first_job(spec: ChainSpec, request: Request) -> None:
    """Checks that the first job, which is submitted at once, is within the budget.

    Raises:
        ConfigurationError: It is not.
    """
    from mirage.agent.chain.history import most_nodes
    from mirage.agent.chain.spec_check import limit_s
    from mirage.duration import HOUR_S, UNLIMITED_S, format_duration

    limit = limit_s(request.given)
    if not spec.budget_node_h or limit is None or limit >= UNLIMITED_S:
        return
    options = {**spec.submission.options, "nodes": request.given.get("nodes")}
    nodes = most_nodes(replace(spec, submission=replace(spec.submission, options=options)))
    if (needed := nodes * limit / HOUR_S) > spec.budget_node_h:
        raise ConfigurationError(
            f"--budget {spec.budget_node_h:g} is less than one job needs: {quantity(nodes, 'node')} for "
            f"{format_duration(limit)}, that is {needed:g} node-hours; give a shorter -t, or a larger budget"
        )


def _submit_agentless(
    ctx: click.Context, words: dict[str, Any], costs: CostOptions, request: Request, site: SiteFile, now_s: int
) -> None:
    """Submits a chain without an agent: its jobs decide.

    Raises:
        UsageError: An option needs an agent.
    """
    from mirage.agent.chain.agentless_chain import (
        NOT_AGENTLESS,
        POLICY,
        agentless_request,
        all_end_soon,
        shell_tree,
        submit_agentless,
    )

    for name, why in NOT_AGENTLESS.items():
        if words[name]:
            raise click.UsageError(f"--{name.replace('_', '-')} cannot be used with --agentless: {why}")
    cost = costs.cost()
    if cost.interruption != cost.overlap:
        raise click.UsageError(
            "--agentless weighs interruption and overlap alike; give a tree for other costs: "
            f"--policy {POLICY}:tree=FILE"
        )
    words["policy"] = words["policy"] or POLICY
    shell_tree(words["policy"])
    spec = new_spec(words, cost, request, now_s)
    name, slurm = words["name"] or new_name(words, request), cluster.client()
    chain = agentless_request(cluster.home(), request, spec, name, slurm, now_s)
    note(words, *all_end_soon(spec, request.given))
    if site.no_chains_in_partitions and not request.given.get("partition"):  # no agent finds out where Slurm puts it
        site.check_place({"partition": ",".join(one.name for one in slurm.machine().partitions if one.default)})
    if words["dry_run"]:
        click.echo(json.dumps({"chain": name, "script": chain.code}) if words["as_json"] else chain.code, nl=False)
        return
    try:
        job = submit_agentless(slurm, chain)
    except RequestNotSent:
        click.echo(NOTHING_SUBMITTED, err=True)
        raise
    except SlurmUnreachable as error:
        click.echo(f"mirage: {error}", err=True)
        click.echo(
            f"mirage: it is not known whether a job was submitted; see squeue --me, and remove {chain.spec.folder} "
            "where there is none",
            err=True,
        )
        ctx.exit(UNKNOWN)
    note(words, *slurm.remarks.splitlines(), f"log: {chain.spec.folder}/log")
    note(words, f"to end the chain: {shlex.join(['touch', f'{chain.spec.folder}/stop'])}")
    _report(words, name, job)


def _has_end(words: Mapping[str, Any]) -> bool:
    """Whether the options define when the chain ends."""
    return words["until_done"] or any(words[name] is not None for name in ("lasting", "until", "links"))


def _first_end_s(request: Request, now_s: int) -> int | None:
    """The time until the first job may end by its limit; None where it is not known."""
    from mirage.agent.chain.spec_check import limit_s

    limit = limit_s(request.given)
    return None if limit is None else _begins_s(request, now_s) - now_s + limit


def _begins_s(request: Request, now_s: int) -> int:
    """The earliest start of the first job by its ``--begin``."""
    from mirage.slurm_words.timestamps import next_instant_s

    try:
        return max(next_instant_s(request.given.get("begin") or "now", now_s), now_s)
    except ConfigurationError:  # a form that only sbatch reads
        return now_s


def about_end(words: Mapping[str, Any], name: str, spec: ChainSpec, now_s: int, first_s: int | None) -> tuple[str, ...]:
    """Returns a remark on when a chain ends, or on its having no defined end.

    Args:
        first_s: Time for which the first job may still run; None where it is not known.
    """
    from mirage.duration import format_duration

    if spec.until_s != MISSING:
        left_s = spec.until_s - now_s
        instant = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(spec.until_s))
        ends = f"chain {name} ends at {instant}, in {format_duration(left_s)}"
        if first_s is None or left_s >= first_s:
            return (ends,)
        option = "--for" if words["lasting"] is not None else "--until"
        return (
            f"mirage: warning: {ends}: the job that runs then is ended before its time limit; give a later end with "
            f"{option}",
        )
    if _has_end(words):
        return ()
    return (
        f"chain {name} ends when a job exits with 0 well before its limit, or when you run `mirage chain stop {name}`; "
        "--links, --for and --until set another end",
    )


def new_name(words: Mapping[str, Any], request: Request, taken: Container[str] = ()) -> str:
    """Returns a name for a chain that the user has not named."""
    from mirage.agent.chain.create import name_for

    return name_for(request.job_name, words["request_id"] or "", taken)


def _submitted(
    words: Mapping[str, Any], store: SqlStore, request: Request, spec: ChainSpec, now_s: int
) -> tuple[str, int]:
    """Returns name and first job of the chain, new or created by the same request before.

    The job is ``MISSING`` where it is unknown.

    Raises:
        RequestNotSent: Slurm was not reached, and nothing was submitted.
        SlurmRefused: sbatch rejected the job.
    """
    from mirage.agent.chain.create import chain_of_request, create_chain

    key = words["request_id"]
    if key and (known := chain_of_request(store, key)) is not None:
        return _known(words, known, store, request, spec)
    taken = {chain.name for chain in store.chains()}
    name, slurm = words["name"] or new_name(words, request, taken), cluster.client()
    try:
        job = create_chain(store, slurm, cluster.home(), request, spec, name, now_s)
    except ConfigurationError:
        if key and (known := chain_of_request(store, key)) is not None:  # another process was faster
            return _known(words, known, store, request, spec)
        raise
    except KeyboardInterrupt:
        if any(chain.name == name for chain in store.chains()):
            click.echo(
                f"mirage: chain {name} exists, and its job is or will be submitted: `mirage chain stop {name}` ends it",
                err=True,
            )
        raise
    except RequestNotSent:
        click.echo(NOTHING_SUBMITTED, err=True)
        raise
    except SlurmUnreachable as error:
        click.echo(f"mirage: {error}", err=True)
        click.echo(
            f"mirage: it is not known whether a job was submitted; chain {name} exists, and the agent will find out: "
            f"do not submit it again, see `mirage chain show {name}`",
            err=True,
        )
        return name, MISSING
    note(words, *slurm.remarks.splitlines(), *about_end(words, name, spec, now_s, _first_end_s(request, now_s)))
    return name, job


def _known(
    words: Mapping[str, Any], chain: Chain, store: SqlStore, request: Request, spec: ChainSpec
) -> tuple[str, int]:
    """Returns name and first job of the chain that this request has made before."""
    from mirage.agent.chain.create import first_job
    from mirage.agent.chain.edit import differences
    from mirage.agent.chain.submission import script_of

    job, key = first_job(store, chain), words["request_id"]
    if job == MISSING:
        click.echo(f"mirage: request {key} has made chain {chain.name}; its job is not known yet", err=True)
    else:
        note(words, f"request {key} was submitted before, as chain {chain.name} ({chain.state.value})")
    try:
        new_script = request.script_name if script_of(chain, 1).read_bytes() != request.script else ""
    except (OSError, StoreError):  # its files are gone
        new_script = ""
    found = differences(replace(chain.spec, until_s=spec.until_s), spec, new_script)
    if words["name"] not in (None, chain.name):
        found["name"] = chain.name, words["name"]
    if found:
        changes = ", ".join(f"{name} {before} (now {after})" for name, (before, after) in found.items())
        click.echo(f"mirage: warning: request {key} was another one, and nothing was submitted: {changes}", err=True)
    return chain.name, job


def note(words: Mapping[str, Any], *lines: str) -> None:
    """Prints remarks on standard error, unless sbatch's own --quiet is given."""
    for line in lines if not words["quiet"] else ():
        click.echo(line, err=True)


def _report(words: Mapping[str, Any], name: str, job: int) -> None:
    """Prints the job ID as sbatch does, at once."""
    if words["as_json"]:
        echo_outcome(json.dumps({"chain": name, "job": job if job != MISSING else None}))
    elif job != MISSING and not words["quiet"]:
        echo_outcome(str(job) if words["parsable"] else f"Submitted batch job {job}")
    note(words, f"chain {name}")


def ensure_agent(words: Mapping[str, Any], store: SqlStore, now_s: int, request: Request) -> None:
    """Starts an agent if none runs; if that fails, only warns: the job is submitted."""
    from mirage.agent.chain.spec_check import limit_s
    from mirage.agent.hosting.pass_memory import recent_passes, too_rare
    from mirage.agent.service import running_agent, start

    try:
        if (found := running_agent(store, now_s)) is not None:
            note(words, f"the agent on {found.host} (process {found.pid}) manages it")
            if found.suspension:
                click.echo(f"mirage: warning: {found.suspension}", err=True)
            return
        if (passes := recent_passes(cluster.home().pass_memory, now_s)) is not None:
            note(words, f"{passes.in_words()} manage it")
            limit = limit_s(request.given)
            if rare := too_rare(passes.every_s, [] if limit is None else [limit]):
                click.echo(f"mirage: warning: {rare}", err=True)
            return
        pid = start(cluster.home(), os.environ, now_s)
        note(words, f"no agent was running: started one here (process {pid}); see `mirage agent status`")
    except LeaseHeld as error:
        note(words, str(error))
    except (MirageError, OSError) as error:
        click.echo(
            f"mirage: warning: no agent was started: {error}; nothing manages the chain until `mirage agent start` "
            "succeeds",
            err=True,
        )


def _show_dry_run(
    request: Request, spec: ChainSpec, name: str, applied: AppliedPreset | None, *, as_json: bool
) -> None:
    """Prints the command lines of the first and next job, and sbatch's answer to the first.

    With a preset it also prints what the preset has set.

    Raises:
        SlurmRefused: sbatch would refuse the first job.
    """
    from mirage.agent.chain.create import with_scripts
    from mirage.agent.chain.submission import FIRST_LINK_ONLY, link_submission
    from mirage.agent.model import Chain
    from mirage.agent.paths import Home
    from mirage.slurm.sbatch_options import to_argv

    with tempfile.TemporaryDirectory() as folder:
        copied = with_scripts(Home(Path(folder), ""), request, spec, name)
        chain = Chain(0, name, copied, 0, key="KEY")
        lines = []
        for number, previous in ((1, MISSING), (2, 0)):
            link = link_submission(chain, STORE, number, previous, hold=number > 1)
            text = shlex.join(["sbatch", *to_argv(link.options), request.script_name, *link.arguments])
            lines.append(text.replace("afterany:0", "afterany:JOB"))
        answer = cluster.client().test(link_submission(chain, STORE, 1, MISSING, hold=False))
    has_next = spec.links != 1
    first_only = [f"--{option}" for option in FIRST_LINK_ONLY if option in request.given]
    left_out = first_only if copied.later_script and has_next else []
    if as_json:
        record: dict[str, object] = {
            "chain": name,
            "first": lines[0],
            "next": lines[1] if has_next else None,
            "left_out": left_out,
            "sbatch": answer,
        }
        if applied is not None:
            changes = [{"setting": c.setting, "value": c.value, "why": c.why} for c in applied.changes]
            record |= {"preset": changes, "script": applied.script.decode(errors="replace")}
        click.echo(json.dumps(record))
        return
    click.echo(f"chain {name}, policy {spec.policy}")
    click.echo(f"now:   {lines[0]}")
    if has_next:
        click.echo(f"then, as soon as that one runs: {lines[1]}")
    if left_out:
        click.echo(f"       with a copy of the script that lacks {' and '.join(left_out)}, for the first job only")
    for change in applied.changes if applied is not None else ():
        click.echo(f"preset: {change}")
    click.echo(answer, err=True)
