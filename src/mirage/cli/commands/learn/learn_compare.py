"""``mirage compare``: learning methods, policies and bounds, compared over several months."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mirage.cli.commands.train.learning_options import (
    LearningOptions,
    check_used,
    data_option,
    futures_option,
    threads_option,
    trees_option,
)
from mirage.cli.commands.train.learnt_from import LearntFrom
from mirage.cli.machine_options import MachineOptions, machine_options
from mirage.cli.options import (
    CONTEXT,
    TraceOptions,
    examples,
    json_output,
    option_group,
    trace_options,
)
from mirage.cli.study import (
    ExecutorOptions,
    WindowOptions,
    executor_options,
    learnt_window_options,
    policies_option,
)
from mirage.cli.values import LIMITED_DURATION, NUMBERS, WORDS
from mirage.duration import format_duration
from mirage.errors import ConfigurationError

if TYPE_CHECKING:
    from mirage.learn.training.comparison.comparison_plan import ComparisonPlan
    from mirage.learn.training.comparison.play_comparison import ComparisonSetup
    from mirage.provision.evaluation.evaluation_protocol import EvaluationProtocol

ALL_METHODS, NO_METHODS = "all", "none"
DEFAULT_POLICIES = (
    "reactive,average,what-if,holds,holds:bank=yes,dependency,singleton:2,saia,sml,lead:4,lead:8,lead:12,quantile:0.95,"
    "slurm-estimate,true-run-times,exact-wait,oracle,oracle-holds"
)


Epochs = dict[str, int]
"""Method → epochs; other methods use those of ``EVERY``, or else their own default."""

EVERY = ""


def _epochs(ctx: click.Context, parameter: click.Parameter, value: str) -> Epochs:
    """Returns the epochs by method.

    Raises:
        click.BadParameter: An entry is not valid, or names no method.
    """
    from mirage.learn.training.methods import METHODS

    found = {}
    for entry in filter(None, value.split(",")):
        method, _, epochs = entry.rpartition("=")
        if not (epochs.isascii() and epochs.isdecimal() and int(epochs)) or method not in (EVERY, *METHODS):
            raise click.BadParameter(f"{entry!r} is neither N nor METHOD=N, such as moe-dqn=12", ctx, parameter)
        found[method] = int(epochs)
    return found


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """The options of a comparison."""

    out: str
    months: tuple[str, ...]
    methods: tuple[str, ...]
    policies: tuple[str, ...]
    seeds: str
    cost_ratios: tuple[float, ...]
    played_every: int | None
    against: str | None
    data: str | None
    threads: int
    trees: int
    epochs: Epochs
    futures: int

    def plan(self) -> ComparisonPlan:
        """Returns the plan of the comparison.

        Raises:
            ConfigurationError: The seeds are not numbers from 0.
            click.UsageError: ``--epochs`` names a method that is not compared.
        """
        from mirage.dag.setting import seeds_of
        from mirage.learn.training.comparison.comparison_plan import ComparisonPlan
        from mirage.learn.training.methods import METHODS
        from mirage.policy.cost import Cost

        named: dict[tuple[str, ...], tuple[str, ...]] = {(ALL_METHODS,): tuple(METHODS), (NO_METHODS,): ()}
        methods = named.get(self.methods, self.methods)
        if absent := [method for method in self.epochs if method not in (EVERY, *methods)]:
            raise click.UsageError(f"--epochs limits {absent[0]}, which is not compared; name it with --methods")
        costs = tuple(Cost(ratio, 1.0) for ratio in self.cost_ratios)
        return ComparisonPlan(methods, self.policies, self.months, costs, seeds_of(self.seeds))

    def play_every(self, protocol: EvaluationProtocol) -> int:
        """Returns k, where every k-th window of the data is played.

        Raises:
            click.UsageError: ``--played-every`` is not a multiple of the time between windows of the data.
        """
        if self.played_every is None:
            return 1
        times, rest = divmod(self.played_every, protocol.every_s)
        if rest or not times:
            apart = format_duration(protocol.every_s)
            raise click.UsageError(f"--played-every must be a multiple of the {apart} between windows of the data")
        return times

    def learning(self, months: tuple[str, ...]) -> LearningOptions:
        """Returns the options for making the data set, up to the end of the last month."""
        from mirage.learn.training.folds import month_begin_s, shifted

        end_s = month_begin_s(shifted(max(months), 1))
        made = str(Path(self.out) / "hand-overs")
        return LearningOptions(made, self.data, None, end_s, None, self.threads, self.trees, None, self.futures)


_compare_options = option_group(
    "options",
    CompareOptions,
    click.option(
        "-o",
        "--out",
        required=True,
        metavar="DIR",
        help="Folder of the results; repeat the command to resume.",
    ),
    click.option(
        "--months", type=WORDS, required=True, metavar="LIST", help="Test months, such as 2023-01,2023-02,2023-03."
    ),
    click.option(
        "--methods",
        type=WORDS,
        default=ALL_METHODS,
        show_default=True,
        metavar="LIST",
        help=f"Methods of `mirage train`, {ALL_METHODS}, or {NO_METHODS}.",
    ),
    policies_option(DEFAULT_POLICIES, "Policies and bounds to play, too."),
    click.option(
        "--seeds",
        default="0-2",
        show_default=True,
        metavar="LIST",
        help="Seeds of training and of everything random when played, such as 0,3,10-19.",
    ),
    click.option(
        "--cost-ratios",
        type=NUMBERS,
        default="1,3",
        show_default=True,
        metavar="LIST",
        help="Interruption costs; overlap costs 1.",
    ),
    click.option(
        "--against",
        metavar="POLICY",
        help="Baseline of the comparison, window by window.  [default: what-if, if it is played]",
    ),
    click.option(
        "--played-every",
        type=LIMITED_DURATION,
        metavar="TIME",
        help="Time between the windows to play.  [default: play all windows of the data]",
    ),
    data_option("made in DIR/hand-overs.data"),
    threads_option,
    trees_option,
    click.option(
        "--epochs",
        default="",
        callback=_epochs,
        metavar="LIST",
        help="Maximum epochs of networks in each stage except REINFORCE, such as 12 or 12,moe-dqn-2023=4.  [default: "
        "that of the method; as published: 300 epochs, many hours]",
    ),
    futures_option,
)


@click.command(
    context_settings=CONTEXT,
    epilog=examples(
        "mirage compare jobs.log.gz --nodes 76 --link-nodes 1,8 --start 2022-12-01 --every 12h "
        "--months 2023-01,2023-02,2023-03 -o results",
        "mirage compare jobs.log.gz --nodes 76 --data hand-overs --months 2023-02,2023-03 -o results",
        "mirage compare jobs.csv --cluster cluster.toml --months 2024-05 --methods correction --seeds 0-4 -o results",
        "mirage compare jobs.csv --nodes 64 --months 2024-05 --methods none --policies what-if,holds,oracle -o results",
        "mirage compare jobs.csv --nodes 64 --months 2024-05 --methods correction --policies holds,holds:by=correction "
        "--against holds -o results",
    ),
)
@click.argument("trace")
@_compare_options
@machine_options
@learnt_window_options
@executor_options
@json_output
@trace_options
def compare(
    trace: str,
    options: CompareOptions,
    machine: MachineOptions,
    windows: WindowOptions,
    where: ExecutorOptions,
    as_json: bool,
    reading: TraceOptions,
) -> None:
    """Compare learning methods, policies and bounds on the hand-overs of TRACE by month.

    For every month and seed, each method is trained on windows that ended before the month and tuned on the latest of
    them. It is then played in the windows of the month from its model file, as an agent would load it. Policies and
    bounds are played in the same windows. Intervals are over time, differences are paired by window; a window counts
    once, whatever the number of seeds.

    DIR gets results.json, results.md with tables and what they prove, a frontier for each size of link (SVG, PNG),
    and the models and windows from which a killed run resumes.
    """
    from mirage.learn.dataset.recipe import digest_of
    from mirage.learn.regression.model_contract import TrainingSettings
    from mirage.learn.training.comparison.comparison_models import ModelRecipe, train_models
    from mirage.learn.training.comparison.method_comparison import judged
    from mirage.learn.training.comparison.play_comparison import ComparisonSetup, play, windows_in
    from mirage.learn.training.folds import month_begin_s
    from mirage.learn.training.methods import check_installed
    from mirage.learn.training.train_policy import CardDetails
    from mirage.provision.evaluation.evaluate import compared_with
    from mirage.report.judgement.results_page import check_results_folder, write_results
    from mirage.report.judgement.results_text import print_comparison
    from mirage.report.terminal.progress import progress_bar

    plan = options.plan()
    check_installed(plan.methods)
    check_used(plan.methods)
    compared_with(plan.names, options.against)
    folder = Path(options.out)
    check_results_folder(folder)
    begun = LearntFrom(trace, machine, windows, where, options.learning(plan.months), reading)
    begun.simulated()
    planned = begun.planned()
    for month in plan.months:
        windows_in(planned, month)
        if plan.methods and planned.begin_s >= month_begin_s(month):
            raise ConfigurationError(
                f"no window begins before {month}, so there is none to train on; give later --months, or an earlier "
                "--start"
            )
    data = begun.data(features=bool(plan.methods))
    manifest = begun.manifest()
    world = ComparisonSetup(
        begun.scenario(),
        begun.protocol(),
        tuple(begun.links(data)),
        folder / "played",
        begun.executor,
        options.play_every(begun.protocol()),
    )
    settings = TrainingSettings(threads=options.threads, trees=options.trees, epochs=options.epochs.get(EVERY))
    origin = CardDetails(Path(trace).name, int(manifest["futures"] or 0))
    with progress_bar("models") as training:
        work = ModelRecipe(data, digest_of(manifest), origin, settings, options.epochs)
        models = train_models(work, plan, folder / "models", begun.executor, training)
    with progress_bar("windows") as playing:
        comparison = judged(plan, play(world, plan, models, playing), options.against)
    provenance = _provenance(begun, plan, world)
    write_results(folder, comparison, provenance)
    if as_json:
        click.echo(json.dumps(comparison.to_json() | provenance, indent=2))
    else:
        print_comparison(comparison)
    click.echo(f"mirage: tables in {folder / 'results.md'}, figures in {folder / 'results.json'}", err=True)


def _provenance(begun: LearntFrom, plan: ComparisonPlan, world: ComparisonSetup) -> dict[str, Any]:
    return begun.provenance() | {
        "trace": Path(begun.trace).name,
        "settings": begun.simulated().source,
        "windows": sum(world.within(month).windows for month in plan.months),
        "every_s": world.protocol.every_s * world.every,
        "months": list(plan.months),
        "seeds": list(plan.seeds),
        "methods": list(plan.methods),
        "costs": [{"interruption": cost.interruption, "overlap": cost.overlap} for cost in plan.costs],
    }
