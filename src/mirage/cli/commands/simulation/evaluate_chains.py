"""``mirage evaluate --chain-length``: judge policies by whole chains of the agent."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mirage.cli.commands.simulation.evaluation_files import check_outputs, write_parquet
from mirage.cli.machine_options import MachineOptions
from mirage.cli.options import CostOptions, TraceOptions, is_given
from mirage.cli.study import DEFAULT_WINDOWS, ExecutorOptions, StudyOptions, report_training_windows, submissions_s
from mirage.cli.trace_reading import read_named_trace
from mirage.version import __version__

if TYPE_CHECKING:
    from mirage.chains.chain_evaluation import ChainEvaluation, ChainStudy
    from mirage.policy.cost import Cost
    from mirage.provision.evaluation.episode import Scenario
    from mirage.trace.table import JobTable

DEFAULT_POLICIES = (
    "reactive",
    "singleton:2",
    "lead:4",
    "average",
    "quantile:0.95",
    "slurm-estimate",
    "hold",
    "what-if",
    "auto",
    "oracle",
)
"""The rules that a real agent runs, from the simplest on, and the ceiling."""

_OF_HAND_OVERS = {
    "protocol": "--protocol",
    "hand_over": "--hand-over",
    "by": "--by",
    "seed": "--seed",
}
"""Options that only single hand-overs have."""


def evaluate_chains(
    trace: str,
    machine: MachineOptions,
    study: StudyOptions,
    where: ExecutorOptions,
    costs: CostOptions,
    chain_s: int,
    waiting_links: int | None,
    against: str | None,
    parquet: str | None,
    plot: str | None,
    as_json: bool,
    reading: TraceOptions,
) -> None:
    """Evaluate policies by chains of ``chain_s`` seconds.

    The arguments are those of ``mirage evaluate``.

    Raises:
        click.UsageError: An option is given that whole chains do not have.
    """
    for name, option in _OF_HAND_OVERS.items():
        if is_given(name):
            raise click.UsageError(f"{option} is for single hand-overs, not for --chain-length; leave one of them out")
    executor = where.made_in(study.resume, "evaluate")
    weighed = study.costs(costs)
    check_outputs(parquet, plot, study.resume, trace, *machine.files, *study.policies)
    simulated = machine.machine(study.queue)
    table = read_named_trace(trace, reading).table

    from mirage.chains.chain_evaluation import evaluate_chains as play_chains
    from mirage.provision.evaluation.episode import Scenario
    from mirage.report.terminal.chain_evaluation_text import print_chain_evaluation
    from mirage.report.terminal.progress import progress_bar

    jobs = machine.workload(table, simulated.cluster, trace)
    scenario = Scenario(simulated.cluster, jobs, study.queue, simulated.settings)
    played = _study_of(study, scenario, table, chain_s, waiting_links)
    policies = study.policies if is_given("policies") else DEFAULT_POLICIES
    trained = report_training_windows(policies, [played.begins_s(window) for window in range(played.windows)])
    with progress_bar("chains") as progress:
        evaluation = play_chains(
            played,
            policies,
            weighed,
            executor=executor,
            progress=progress,
            resume_dir=None if study.resume is None else Path(study.resume),
            against=against,
        )
    report = {
        **_tables(evaluation),
        "in_training": trained,
        **_provenance(trace, simulated.source, played, study, weighed, evaluation.reused),
    }
    if as_json:
        click.echo(json.dumps(report, indent=2))
    else:
        print_chain_evaluation(evaluation, report)
    if parquet is not None:
        write_parquet(report, parquet)
    if plot is not None:
        from mirage.report.pages.chain_evaluation_page import draw_chains

        draw_chains(evaluation, plot, report)


def _study_of(
    study: StudyOptions, scenario: Scenario, table: JobTable, chain_s: int, waiting_links: int | None
) -> ChainStudy:
    """Returns the windows with their defaults: as many as fit, without gaps."""
    from mirage.agent.model import WAITING_LINKS
    from mirage.chains.chain_evaluation import ChainStudy
    from mirage.duration import MINUTE_S

    begin_s, every_s = study.begins_s(table), study.every or chain_s
    fitting = max((submissions_s(table)[1] - chain_s - begin_s) // every_s + 1, 1)
    return ChainStudy(
        scenario,
        begin_s,
        windows=study.windows or min(fitting, DEFAULT_WINDOWS),
        every_s=every_s,
        chain_s=chain_s,
        links=tuple(study.links()),
        candidates=(),
        step_s=study.step or 30 * MINUTE_S,
        waiting_links=waiting_links or WAITING_LINKS,
        link_user=study.link_user,
    )


def _tables(evaluation: ChainEvaluation) -> dict[str, Any]:
    return {
        "rows": [row.to_json() for row in evaluation.rows],
        "differences": [difference.to_json() for difference in evaluation.differences],
        "chains": [
            {"policy": policy, "link_nodes": nodes, "cost_ratio": cost.ratio, **chain.to_json()}
            for (policy, nodes, cost), chains in evaluation.chains.items()
            for chain in chains
        ],
    }


def _provenance(
    trace: str, settings: str, played: ChainStudy, study: StudyOptions, costs: Sequence[Cost], reused: int
) -> dict[str, Any]:
    from mirage.trace.statistics.summary import iso_utc

    return {
        "trace": trace,
        "nodes": played.scenario.cluster.nodes,
        "discipline": played.scenario.discipline,
        "settings": settings,
        "start": iso_utc(played.begin_s),
        "windows": played.windows,
        "every_s": played.every_s,
        "chain_s": played.chain_s,
        "step_s": played.step_s,
        "link_nodes": list(study.link_nodes),
        "link_limit_s": study.link_limit,
        "link_user": study.link_user,
        "waiting_links": played.waiting_links,
        "costs": [{"interruption": cost.interruption, "overlap": cost.overlap} for cost in costs],
        "chains_reused": reused,
        "version": __version__,
        "command": shlex.join(["mirage", *sys.argv[1:]]),
    }
