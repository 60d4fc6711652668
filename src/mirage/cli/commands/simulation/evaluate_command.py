"""``mirage evaluate``: judge policies by interruption and overlap."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mirage.cli.commands.simulation.evaluate_chains import evaluate_chains
from mirage.cli.commands.simulation.evaluation_files import check_outputs, write_parquet
from mirage.cli.machine_options import MachineOptions, SimulatedMachine, machine_options
from mirage.cli.options import (
    CONTEXT,
    CostOptions,
    TraceOptions,
    cost_options,
    examples,
    json_output,
    trace_options,
)
from mirage.cli.study import (
    ExecutorOptions,
    StudyOptions,
    executor_options,
    report_training_windows,
    study_options,
)
from mirage.cli.trace_reading import read_named_trace
from mirage.cli.values import COUNT, LIMITED_DURATION
from mirage.report.figures import links_words
from mirage.version import __version__

if TYPE_CHECKING:
    from mirage.provision.evaluation.evaluate import Evaluation
    from mirage.provision.evaluation.evaluation_protocol import EvaluationProtocol


@click.command(
    context_settings=CONTEXT,
    epilog=examples(
        "mirage evaluate jobs.log.gz --nodes 76 --settings lonestar6 --start 2023-03-01",
        "mirage evaluate jobs.log.gz --nodes 76 --protocol published --start 2023-03-01 --link-nodes 1,8",
        "mirage evaluate jobs.csv --slurm-conf slurm.conf --interruption-cost 5 --overlap-cost 1",
        "mirage evaluate jobs.log.gz --cluster cluster.toml --start 2023-03-01",
        "mirage evaluate jobs.log.gz --slurm-conf slurm.conf --link-user median --hand-over 5",
        "mirage evaluate jobs.log.gz --nodes 76 --private-jobs --link-user median --policies reactive,auto",
        "mirage evaluate jobs.csv --nodes 64 --cost-ratios 1,2,5,10 --plot frontier.svg --resume results",
        "mirage evaluate jobs.log.gz --slurm-conf slurm.conf --chain-length 14d --link-nodes 8 --link-limit 12h",
        "mirage evaluate jobs.csv --nodes 64 --windows 700 --by month --against quantile:0.95",
        "mirage evaluate jobs.csv --nodes 64 --json | jq '.rows[] | select(.load == \"heavy\")'",
    ),
)
@click.argument("trace")
@machine_options
@study_options
@executor_options
@cost_options()
@click.option(
    "--chain-length",
    "chain_s",
    type=LIMITED_DURATION,
    metavar="TIME",
    help="Judge whole chains of this length, such as 14d, in place of single hand-overs: in each window, the agent "
    "keeps one alive with each policy, with all its own rules.",
)
@click.option(
    "--waiting-links",
    type=COUNT,
    metavar="N",
    help="With --chain-length: maximum number of links that wait at once, as in mirage submit.  [default: 3]",
)
@click.option(
    "--against",
    metavar="POLICY",
    help="Baseline of the comparison, window by window.  [default: what-if, if it is judged]",
)
@click.option(
    "--private-jobs/--no-private-jobs",
    default=None,
    help="Policies see only the jobs of the owner of the links.  [default: if --slurm-conf has PrivateData=jobs]",
)
@click.option("--by", type=click.Choice(["month"]), help="Add tables by calendar month; --json always has them.")
@click.option("--parquet", metavar="FILE", help="Also write the rows as Parquet.")
@click.option("--plot", metavar="FILE", help="Draw interruption and overlap as charts (.svg, .html, .png, .pdf).")
@json_output
@trace_options
def evaluate(
    trace: str,
    machine: MachineOptions,
    study: StudyOptions,
    where: ExecutorOptions,
    costs: CostOptions,
    chain_s: int | None,
    waiting_links: int | None,
    against: str | None,
    private_jobs: bool | None,
    by: str | None,
    parquet: str | None,
    plot: str | None,
    as_json: bool,
    reading: TraceOptions,
) -> None:
    """Evaluate policies on TRACE (a file, or - for standard input).

    Every window submits a link and lets each policy decide when to submit the next one; the outcome of every possible
    moment is known exactly, by forking the simulation. Interruption is the time without a link, overlap the time with
    two. The load of a window is light, medium or heavy by the interruption of a reactive chain there: up to 2 h, up to
    12 h, more.

    Policies: reactive, dependency, singleton:K, lead:HOURS, saia (a lead of 9 min), sml (of 3 h), average,
    quantile:SHARE, user-waits, slurm-estimate, what-if, hold[:HOURS], holds[:bank=yes], auto[:bank=yes], those of
    installed packages, and models by their path. auto is judged by the policy that it would have used in each window:
    its members are played, and chosen by the hand-overs known by then. With --private-jobs it is user-waits.

    Bounds: true-run-times (what-if with the true run times), exact-wait (with the true wait of a link submitted now),
    and in hindsight oracle (the best moment to submit) and oracle-holds (the best moment to release a link that was
    submitted early and held).

    With --chain-length, the windows have whole chains: what counts is the time without a link, and the time with two,
    in all hand-overs of a chain. The bound is oracle then: it chooses every hand-over in hindsight. By default, the
    policies are reactive, singleton:2, lead:4, average, quantile:0.95, slurm-estimate, hold, what-if, auto and oracle.
    auto is the policy that the agent takes before its first weekly choice.
    """
    private = _hides_jobs(machine.slurm_conf) if private_jobs is None else private_jobs
    if chain_s is not None:
        if private:
            raise click.UsageError("in whole chains all jobs are visible: give --no-private-jobs, or no --chain-length")
        evaluate_chains(
            trace, machine, study, where, costs, chain_s, waiting_links, against, parquet, plot, as_json, reading
        )
        return
    if waiting_links is not None:
        raise click.UsageError("--waiting-links needs --chain-length: in a single hand-over only one link waits")
    executor = where.made_in(study.resume, "evaluate")
    weighed = study.costs(costs)
    check_outputs(parquet, plot, study.resume, trace, *machine.files, *study.policies)
    simulated = machine.machine(study.queue)
    table = read_named_trace(trace, reading).table

    from mirage.provision.evaluation.episode import Scenario
    from mirage.provision.evaluation.evaluate import compared_with
    from mirage.provision.evaluation.evaluate import evaluate as evaluate_policies
    from mirage.report.terminal.evaluation_text import print_evaluation
    from mirage.report.terminal.progress import progress_bar

    compared_with(study.policies, against)
    plan = study.plan(table)
    jobs = machine.workload(table, simulated.cluster, trace)
    scenario = Scenario(simulated.cluster, jobs, study.queue, simulated.settings)
    _report_long_leads(study)
    outside = _outside_training(study, simulated)
    trained = report_training_windows(study.policies, [plan.submits_s(window) for window in range(plan.windows)])
    with progress_bar("windows") as progress:
        evaluation = evaluate_policies(
            scenario,
            plan,
            study.links(),
            study.policies,
            weighed,
            seed=study.seed,
            executor=executor,
            progress=progress,
            resume_dir=None if study.resume is None else Path(study.resume),
            against=against,
            private_jobs=private,
        )
    provenance = _provenance(trace, scenario.discipline, simulated, plan, evaluation, private, study)
    report = {
        "outside_training": outside,
        "in_training": trained,
        "rows": [row.to_json() for row in evaluation.rows],
        "months": [row.to_json() for row in evaluation.months],
        "differences": [difference.to_json() for difference in evaluation.differences],
        **provenance,
    }
    if as_json:
        click.echo(json.dumps(report, indent=2))
    else:
        print_evaluation(evaluation, provenance, by_month=by == "month")
    if parquet is not None:
        write_parquet(report, parquet)
    if plot is not None:
        from mirage.report.pages.evaluation_page import draw_frontiers

        draw_frontiers(evaluation, plot, provenance)


def _hides_jobs(slurm_conf: str | None) -> bool:
    """Whether a slurm.conf hides the jobs of other users."""
    from mirage.sim.slurm_conf.slurm_settings import read_options
    from mirage.slurm.hidden_jobs import are_private

    return slurm_conf is not None and are_private(read_options(slurm_conf))


def _outside_training(study: StudyOptions, simulated: SimulatedMachine) -> list[dict[str, Any]]:
    """Reports models that leave every decision to what-if, and returns the reasons."""
    from mirage.policy.policy_registry import is_policy_file

    found = []
    cluster = simulated.cluster
    nodes = None if cluster.changes else cluster.nodes
    for policy in filter(is_policy_file, study.policies):
        from mirage.learn.policies.policy_file import always_outside

        for link in study.links():
            feature = always_outside(policy, link, nodes)
            if feature is not None:
                found.append({"policy": policy, "link_nodes": link.nodes} | feature._asdict())
                click.echo(
                    f"mirage: {policy} decides like what-if about {links_words(link.nodes)}: {feature.feature} is "
                    f"{feature.value:g}, trained on {feature.bound:g}",
                    err=True,
                )
    return found


def _report_long_leads(study: StudyOptions) -> None:
    """Reports constant leads that are longer than a link, and so submit at its first decision."""
    from mirage.duration import HOUR_S, format_duration
    from mirage.policy.policy_registry import make_policy
    from mirage.provision.policies.lead_rules import ConstantLead

    for policy in study.policies:
        if policy.partition(":")[0] in ("lead", "saia", "sml"):
            made = make_policy(policy)
            if isinstance(made, ConstantLead) and made.hours * HOUR_S > study.link_limit:
                click.echo(
                    f"mirage: the lead of {policy}, {made.hours:g} h, is longer than a link of "
                    f"{format_duration(study.link_limit)}: it submits as early as it can",
                    err=True,
                )


def _provenance(
    trace: str,
    discipline: str,
    machine: SimulatedMachine,
    plan: EvaluationProtocol,
    evaluation: Evaluation,
    private_jobs: bool,
    study: StudyOptions,
) -> dict[str, Any]:
    from mirage.trace.statistics.summary import iso_utc

    return {
        "trace": trace,
        "nodes": machine.cluster.nodes,
        "discipline": discipline,
        "settings": machine.source,
        "protocol": plan.name,
        "start": iso_utc(plan.begin_s),
        "windows": plan.windows,
        "every_s": plan.every_s,
        "step_s": plan.step_s,
        "link_nodes": list(study.link_nodes),
        "link_limit_s": study.link_limit,
        "link_user": plan.link_user,
        "hand_over": plan.hand_over,
        "private_jobs": private_jobs,
        "costs": [{"interruption": cost.interruption, "overlap": cost.overlap} for cost in evaluation.costs],
        "intervals": evaluation.intervals,
        "windows_reused": evaluation.reused,
        "seed": study.seed,
        "version": __version__,
        "command": shlex.join(["mirage", *sys.argv[1:]]),
    }
