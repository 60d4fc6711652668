"""``mirage chain edit``: change a chain while it lives."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mirage.cli import cli_context as cluster
from mirage.cli.commands.chain.chain_options import (
    COSTS,
    chain_options,
    check_never_two,
    check_ready_command,
    end_s,
    notify_fields,
    progress_fields,
)
from mirage.cli.commands.chain.framework_option import framework_option, with_preset
from mirage.cli.commands.chain.list import find
from mirage.cli.commands.chain.sbatch_words import (
    SILENT,
    LikeSbatch,
    about_sbatch,
    caller,
    misplaced,
    refuse_ssh,
    warn_of_refusal,
)
from mirage.cli.commands.chain.steer import cancel_jobs, check_cluster
from mirage.cli.commands.chain.submit_command import about_end
from mirage.cli.options import CONTEXT, CostOptions, cost_options, examples, is_given, json_output
from mirage.errors import ConfigurationError
from mirage.job_state import MISSING

if TYPE_CHECKING:
    from mirage.agent.chain.edit import JobEdit
    from mirage.agent.chain.request import Request
    from mirage.agent.model import Chain, ChainSpec, Link
    from mirage.agent.store.protocol import Store

UNANSWERED = "the waiting job stays; give --replace-waiting again when Slurm answers"

STILL_MANAGED = "the waiting job stays and needs the agent; the job after it continues without an agent"

_OF_CONTINUATION = ("agentless", "policy", "dry_run", "as_json")
"""Options that go together with ``mirage chain edit --agentless``."""

_NEXT = {
    "ending": "none follows",
    "paused": "the agent submits one with the changes after `mirage chain resume`",
}
"""What replaces a cancelled job of a chain in a state."""


@click.command(
    cls=LikeSbatch,
    context_settings=CONTEXT,
    options_metavar="[SBATCH OPTIONS] [OPTIONS] [SCRIPT [ARGUMENTS]]",
    epilog=examples(
        "mirage chain edit train-k3f9 --policy what-if --interruption-cost 5",
        "mirage chain edit train-k3f9 -t 1-0 -N 4 -p gpu,long",
        "mirage chain edit serve --replace-waiting --unset nodelist",
        "mirage chain edit train-k3f9 --for 14d train.sh --epochs 120",
        "mirage chain edit serve --dry-run -t 2-0",
        "mirage chain edit train-k3f9 --clear-excluded",
        "mirage chain edit serve --agentless   # then the agent is no longer needed",
    ),
)
@click.argument("name")
@chain_options("for", "until", "links", "until-done", of_new_chain=False)
@click.option("--no-end", is_flag=True, help="Drop the end given by --for, --until or --links.")
@chain_options("policy", "least-life", "waiting-links", "links-a-day", of_new_chain=False)
@cost_options(shows_default=False)
@chain_options("ready-command", "warmup", "grace", "budget", "shortest-link", of_new_chain=False)
@chain_options("notify", "notify-gap", of_new_chain=False)
@chain_options("progress-file", "no-progress-links", of_new_chain=False)
@framework_option("Preset for the new script. [default: the one of the chain, if it has one]")
@click.option(
    "--unset", metavar="OPTION", multiple=True, help="Drop an option of sbatch given at the submission: nodelist."
)
@click.option(
    "--clear-excluded", is_flag=True, help="Use the nodes again that the agent has excluded because jobs failed there."
)
@click.option(
    "--replace-waiting",
    is_flag=True,
    help="Cancel the waiting job, so that the agent submits one with the changes in its place. It loses its age.",
)
@click.option(
    "--agentless",
    is_flag=True,
    help="Let the next job continue the chain without an agent: from then on each job itself decides when the next one "
    "may start.",
)
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@json_output
@click.pass_context
def edit(ctx: click.Context, /, name: str, costs: CostOptions, **words: Any) -> None:
    """Change chain NAME while it lives: its policy, its end, or the job of its next links.

    Policy, costs and end apply at the agent's next poll. Options of sbatch and a new script apply to every job that
    is submitted from now on; the running job and a waiting one stay as they are, unless --replace-waiting is given.
    Everything else stays, including the environment and the working directory of the submission.
    """
    from mirage.agent.chain.edit import differences, edit_chain, edited_job
    from mirage.agent.cycle.retries import CLEARED
    from mirage.agent.model import EventRecord

    now_s = int(cluster.clock())
    edit = _job_edit(ctx)
    edit = replace(edit, unset=words["unset"])
    if words["agentless"]:
        _continue_agentless(name, words, changes_job=edit.changes_something)
        return
    _check_given(edit, words)
    with cluster.store() as store:
        chain = find(store, name)
        if chain.state.value in ("stopping", "done"):
            raise ConfigurationError(
                f"chain {chain.name} is {chain.state.value}, so nothing of it can change; submit a new one"
            )
        _check_takes_back(chain, edit)
        cluster.check_cluster(store)
        job = edited_job(chain, cluster.home(), edit)
        site = cluster.site_rules()
        site.check_place(job.given)
        for remark in site.waiting_links_remark(words["waiting_links"]):
            click.echo(remark, err=True)
        spec = _fields(words, costs, chain, store, now_s)
        spec = spec if edit.script is None else replace(spec, agentless_after=MISSING)
        job, spec = _with_preset(ctx, words, edit, job, spec)
        new_limit = edit.script is not None or "time" in (*edit.options, *edit.unset)
        spec = _checked(spec, edit, job, now_s, until_done=words["until_done"] or (spec.until_done and not new_limit))
        edited = changed = differences(chain.spec, spec, job.script_name if edit.script is not None else "")
        if words["clear_excluded"] and chain.excluded:
            changed = {**edited, "excluded": (chain.excluded, "-")}
        if not changed and not words["replace_waiting"]:
            raise ConfigurationError(f"chain {chain.name} is like that already; nothing changes")
        waiting = [link.job for link in store.links(chain.id) if link.state.value in ("held", "queued")]
        is_due = words["replace_waiting"] and bool(waiting)
        if (edit.changes_something and edited) or is_due:
            warn_of_refusal(replace(chain, spec=spec), job, is_due=is_due)
        _report_new_end(words, chain, spec, store.links(chain.id), now_s)
        if chain.state.value == "ending":
            click.echo(f"chain {chain.name} is ending: no job follows the running one, whatever changes", err=True)
        if words["replace_waiting"] and not waiting:
            click.echo(f"no job of chain {chain.name} waits: there is none to replace", err=True)
        if words["dry_run"]:
            _report(
                words,
                chain,
                changed,
                waiting=[],
                cancelled=tuple(waiting) if words["replace_waiting"] else (),
                next_line=_next_line(chain, spec, job.script_name, words),
            )
            return
        if words["replace_waiting"]:
            check_cluster(store)
        if edited:
            edit_chain(store, cluster.home(), chain, spec, job, new_script=edit.script is not None, now_s=now_s)
            _forget_continuation(chain, spec)
        if "excluded" in changed:
            store.change_chain(chain.id, EventRecord(chain.id, 0, now_s, CLEARED, chain.excluded), excluded="")
        cancelled: tuple[int, ...] = ()
        if words["replace_waiting"]:
            cancelled = cancel_jobs(
                store, chain, "replaced by hand", only_pending=True, unanswered=UNANSWERED
            ).cancelled
    _report(words, chain, changed, waiting if edit.changes_something or "excluded" in changed else [], cancelled)


def _continue_agentless(name: str, words: dict[str, Any], *, changes_job: bool) -> None:
    """Lets the next link of a chain continue it without the agent.

    Args:
        words: Options of ``mirage chain edit``.
        changes_job: Whether options of sbatch, or a script, are given too.

    Raises:
        UsageError: Another change is given.
        ConfigurationError: The chain needs an agent, or gets no further link.
    """
    from mirage.agent.chain.agentless_chain import POLICY, continue_without_agent, request_to_continue

    if changes_job or any(is_given(name) for name in (*words, *COSTS) if name not in _OF_CONTINUATION):
        raise click.UsageError(
            "--agentless goes with --policy shell-tree… only; make other changes first, by themselves"
        )
    refuse_ssh("--agentless")
    now_s, slurm, home = int(cluster.clock()), cluster.client(), cluster.home()
    with cluster.store() as store:
        chain = find(store, name)
        if chain.state.value not in ("active", "paused"):
            raise ConfigurationError(f"chain {chain.name} is {chain.state.value}: no job follows the running one")
        cluster.check_cluster(store)
        policy = words["policy"] or POLICY
        request = request_to_continue(home, chain, list(store.links(chain.id)), policy, slurm, now_s)
        if words["dry_run"]:
            text = json.dumps({"chain": chain.name, "script": request.code}) if words["as_json"] else request.code
            click.echo(text, nl=words["as_json"])
            return
        check_cluster(store)
        continue_without_agent(store, home, chain, request, now_s)
        cancelled = cancel_jobs(store, chain, "replaced by hand", only_pending=True, unanswered=STILL_MANAGED).cancelled
    if words["as_json"]:
        click.echo(json.dumps({"chain": chain.name, "folder": request.spec.folder, "replaced": list(cancelled)}))
        return
    if cancelled:
        click.echo(
            f"job {', '.join(map(str, cancelled))} is cancelled; the agent submits another in its place", err=True
        )
    click.echo(
        f"the next job of chain {chain.name} continues it without an agent; until it has taken over, an agent must run",
        err=True,
    )
    click.echo(f"log: {request.spec.folder}/log", err=True)
    click.echo(f"to end the chain after that: {shlex.join(['touch', f'{request.spec.folder}/stop'])}", err=True)


def _report_new_end(words: Mapping[str, Any], chain: Chain, spec: ChainSpec, links: Iterable[Link], now_s: int) -> None:
    """Prints a new end of a chain; one before that of the running job is a warning."""
    if spec.until_s == chain.spec.until_s:
        return
    ends_s = [link.limit_ends_s for link in links if link.state.value == "running"]
    for remark in about_end(words, chain.name, spec, now_s, min(ends_s, default=now_s) - now_s):
        click.echo(remark, err=True)


def _check_takes_back(chain: Chain, edit: JobEdit) -> None:
    """Checks a change of the job of a chain that is to continue without an agent.

    Raises:
        ConfigurationError: It does not take that back, or a job without an agent runs already.
    """
    if not chain.spec.agentless:
        return
    folder = cluster.home().agentless_folder(chain.name)
    if (folder / "link.1").exists():
        raise ConfigurationError(f"chain {chain.name} continues without an agent: its jobs decide; log: {folder}/log")
    if edit.script is None and edit.changes_something:
        raise ConfigurationError(
            f"chain {chain.name} continues without an agent from its next job on; to take that back, give its script "
            f"again: mirage chain edit {chain.name} --replace-waiting SCRIPT"
        )


def _forget_continuation(chain: Chain, spec: ChainSpec) -> None:
    """Removes the files for jobs without an agent, if the chain needs them no more."""
    if chain.spec.agentless and not spec.agentless:
        shutil.rmtree(cluster.home().agentless_folder(chain.name), ignore_errors=True)


def _check_given(edit: JobEdit, words: Mapping[str, Any]) -> None:
    """Checks that a change is given, and no empty option to be dropped."""
    if not all(edit.unset):
        raise click.UsageError("--unset is empty; name an option of sbatch")
    ours = (*words.keys() - {"dry_run", "as_json"}, "interruption_cost", "overlap_cost")
    if not edit.changes_something and not any(map(is_given, ours)):
        raise click.UsageError("which change? give options of the chain or of sbatch, or a new script")


def _with_preset(
    ctx: click.Context, words: Mapping[str, Any], edit: JobEdit, job: Request, spec: ChainSpec
) -> tuple[Request, ChainSpec]:
    """Returns the job and the specification with the preset for a new script."""
    from mirage.presets.detect import shape_of
    from mirage.presets.wrapper import ADDED

    if edit.script is None:
        if words["framework"] is not None:
            raise click.UsageError("--framework is for a new script; give the script too")
        if words["grace"] is not None and ADDED.encode() in job.script:
            click.echo(
                "the wrapper in the script still has the old grace; give the script too, to replace it", err=True
            )
        return job, spec
    own: dict[str, Any] = {
        "framework": words["framework"] or spec.framework or None,
        "grace": spec.grace_s,
        "ready_by_job": spec.ready_by_job,
        "never_two": spec.never_two,
    }
    traps = shape_of(job.script, Path(job.submission.directory)).traps
    job, _, remarks = with_preset(ctx, own, job)
    for remark in remarks:
        click.echo(remark, err=True)
    return job, replace(
        spec, framework=own["framework"] or "", to_batch_shell=own.get("to_batch_shell", spec.to_batch_shell),
        signal=spec.signal if spec.signal in traps else own.get("signal_previous", spec.signal),
    )  # fmt: skip


def _checked(spec: ChainSpec, edit: JobEdit, job: Request, now_s: int, *, until_done: bool) -> ChainSpec:
    """Returns the checked specification; folders of a changed job count on this host only."""
    from mirage.agent.chain.edit import checked_spec
    from mirage.agent.chain.spec_check import check_output_folders, time_remarks

    is_here = edit.changes_something and not os.environ.get("MIRAGE_SSH")
    directory = Path(job.submission.directory) if is_here else None
    spec = checked_spec(spec, job, directory, until_done=until_done)
    outputs = () if directory is None else check_output_folders(job.given, directory)
    for remark in (*time_remarks(spec, job.given, now_s), *outputs):
        click.echo(remark, err=True)
    return spec


def _job_edit(ctx: click.Context) -> JobEdit:
    """Returns the changes to the job, from sbatch's options and the script."""
    from mirage.agent.chain.edit import JobEdit
    from mirage.agent.chain.request import read_script
    from mirage.presets.detect import own_next_job
    from mirage.slurm.sbatch_options import parse_sbatch

    options, script, arguments = parse_sbatch(ctx.meta["sbatch"])
    if (status := about_sbatch(options)) is not None:
        ctx.exit(status)
    chosen = {name: value for name, value in options.items() if name not in SILENT}
    if script is None and "wrap" not in chosen:
        return JobEdit(chosen)
    text, script_name = read_script(chosen, script, caller())
    for remark in (*misplaced(ctx, script, arguments), *own_next_job(text, script_name)):
        click.echo(remark, err=True)
    return JobEdit(chosen, (), (text, script_name), arguments)


def _fields(words: Mapping[str, Any], costs: CostOptions, chain: Chain, store: Store, now_s: int) -> ChainSpec:
    """Returns the specification with the fields that the options change."""
    from mirage.agent.chain.spec_check import policy_name
    from mirage.policy.cost import Cost
    from mirage.policy.policy_registry import lasting_name

    check_ready_command({**words, "ready_by_job": chain.spec.ready_by_job})
    if chain.spec.never_two:
        check_never_two()
    fields: dict[str, Any] = {
        field: words[field]
        for field in ("least_life", "waiting_links", "links_a_day", "ready_command", "links")
        if words[field] is not None
    }
    fields |= {f"{word}_s": words[word] for word in ("warmup", "grace", "shortest_link") if words[word] is not None}
    if words["budget"] is not None:
        fields["budget_node_h"] = words["budget"]
    fields |= notify_fields(words, chain.spec.notify) | progress_fields(words, chain.spec.progress_file)
    if words["policy"] is not None:
        fields["policy"] = lasting_name(policy_name(words["policy"], never_two=chain.spec.never_two))
    fields |= {cost: value for cost in COSTS if (value := getattr(costs, cost)) is not None}
    spec = chain.spec
    Cost(*(fields.get(cost, getattr(spec, cost)) for cost in COSTS))
    if (until_s := end_s(words, now_s)) != MISSING:
        fields["until_s"] = until_s
    if words["no_end"]:
        if "until_s" in fields or "links" in fields:
            raise click.UsageError("--no-end drops the end that --for, --until and --links define; give one of them")
        fields |= {"until_s": MISSING, "links": 0, "until_done": True}
    if words["until_done"]:
        fields["until_done"] = True
    _check_links(words["links"], chain, store)
    return replace(spec, **fields)


def _check_links(wanted: int | None, chain: Chain, store: Store) -> None:
    """Checks that a number of links is not below those that the chain has already.

    Raises:
        ConfigurationError: It is.
    """
    places = [link.place for link in store.links(chain.id) if not link.never_ran and link.job != MISSING]
    if wanted is not None and wanted < max(places, default=0):
        raise ConfigurationError(
            f"--links {wanted}: chain {chain.name} has {max(places)} jobs already; give at least {max(places)}, or end "
            f"it with the running one: mirage chain stop --after-this-link {chain.name}"
        )


def _next_line(chain: Chain, spec: ChainSpec, script_name: str, words: Mapping[str, Any]) -> str:
    """Returns the command line of the next job."""
    from mirage.agent.chain.submission import link_submission
    from mirage.slurm.sbatch_options import to_argv

    edited = replace(chain, spec=replace(spec, folder=""), excluded="" if words["clear_excluded"] else chain.excluded)
    link = link_submission(edited, "STORE", 2, 0, hold=True)
    line = shlex.join(["sbatch", *to_argv(link.options), script_name, *link.arguments])
    return line.replace("afterany:0", "afterany:JOB")


def _report(
    words: Mapping[str, Any],
    chain: Chain,
    changed: Mapping[str, tuple[str, str]],
    waiting: list[int],
    cancelled: tuple[int, ...],
    next_line: str = "",
) -> None:
    if words["as_json"]:
        record: dict[str, Any] = {"chain": chain.name, "changed": {k: list(v) for k, v in changed.items()}}
        record |= {"next": next_line} if next_line else {"waiting": waiting}
        record |= {"replaced": list(cancelled)}
        click.echo(json.dumps(record))
        return
    for name, (old, new) in changed.items():
        click.echo(f"{name}: {old} -> {new}")
    if next_line:
        click.echo(f"next job: {next_line}")
    if cancelled:
        listed, is_done = ", ".join(map(str, cancelled)), "would be" if next_line else "is"
        what = _NEXT.get(chain.state.value, "the agent submits one with the changes in its place")
        click.echo(f"job {listed} {is_done} cancelled; {what}", err=True)
    elif waiting:
        listed = ", ".join(map(str, waiting))
        click.echo(f"job {listed} waits as it was submitted; --replace-waiting exchanges it", err=True)
