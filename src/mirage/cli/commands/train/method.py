"""``mirage train METHOD``: learn a policy from a trace, by one method or the best one.

``best`` chooses a method for each size of link. Every method is a command: ``getattr(module, "correction")`` makes it.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mirage.cli.cli_context import check_login_node
from mirage.cli.commands.train.learning_options import LearningOptions, check_used, learning_options
from mirage.cli.commands.train.learnt_from import LearntFrom
from mirage.cli.machine_options import MachineOptions, machine_options
from mirage.cli.options import CONTEXT, TraceOptions, examples, json_output, trace_options
from mirage.cli.output import as_policy, check_distinct, check_output
from mirage.cli.study import ExecutorOptions, WindowOptions, executor_options, learnt_window_options
from mirage.cli.values import NUMBERS, WORDS
from mirage.errors import ConfigurationError

if TYPE_CHECKING:
    from mirage.learn.hand_overs import HandOvers
    from mirage.learn.regression.model_contract import TrainingSettings
    from mirage.learn.training.stored_steps import StoredSteps
    from mirage.learn.training.train_policy import RollingOriginResult
    from mirage.learn.training.trained_policy import TrainedPolicy

CHOSEN_AMONG = "correction,stopping"

_WHAT = """Learn from TRACE when to submit the next link, and write a policy to MODEL.

{what}

For every window of TRACE the outcome of each possible submission is known. The model is trained on windows that end
before --until, and stops early by those up to --tune-until. Without --data the windows begin a week into TRACE and end
at --tune-until. The path of MODEL is then a policy: mirage evaluate TRACE --start DATE --policies ./MODEL, on days
after --tune-until. If the queue is unlike any in training, the policy decides like what-if and reports so. A command
that is killed and repeated ends with the same model.
"""


def __getattr__(name: str) -> click.Command:
    from mirage.learn.training.methods import METHODS

    if name not in METHODS:
        raise AttributeError(name)
    return _command(name, f"Method: {METHODS[name].summary}.")


def _command(method: str, what: str) -> click.Command:
    """Returns the command of a method."""

    @click.command(
        method,
        context_settings=CONTEXT,
        help=_WHAT.format(what=what),
        epilog=examples(
            f"mirage train {method} jobs.log.gz --nodes 76 --link-nodes 8 --until 2023-02-01 --tune-until 2023-03-01 "
            "-o model",
            f"mirage train {method} jobs.log.gz --data hand-overs --report report -o model",
            "mirage evaluate jobs.log.gz --nodes 76 --link-nodes 8 --start 2023-03-01 --policies what-if,./model",
        ),
    )
    @click.argument("trace")
    @learning_options
    @machine_options
    @learnt_window_options
    @executor_options
    @json_output
    @trace_options
    def command(
        trace: str,
        learning: LearningOptions,
        machine: MachineOptions,
        windows: WindowOptions,
        where: ExecutorOptions,
        as_json: bool,
        reading: TraceOptions,
    ) -> None:
        begun = _begin(trace, machine, windows, where, learning, reading, (method,))
        data = begun.data()
        _write(begun, data, dict.fromkeys(sorted(set(data.link_nodes.tolist())), method), as_json)

    return command


@click.command(
    "best",
    context_settings=CONTEXT,
    help=_WHAT.format(
        what="For each size of link the method is chosen by rolling origin over the months before --tune-until: "
        "trained before a month, tested on it. A method replaces what-if only if the paired interval of the difference "
        "in cost excludes a loss at every ratio of the costs. The report shows this."
    ),
    epilog=examples(
        "mirage train best jobs.log.gz --nodes 76 --link-nodes 1,8 --tune-until 2023-03-01 --report report -o model",
        "mirage train best jobs.log.gz --nodes 76 --data hand-overs --months 2023-01,2023-02,2023-03 -o model",
    ),
)
@click.argument("trace")
@learning_options
@click.option(
    "--methods", type=WORDS, default=CHOSEN_AMONG, show_default=True, metavar="LIST", help="Candidate methods."
)
@click.option(
    "--months",
    type=WORDS,
    metavar="LIST",
    help="Test months, such as 2023-01.  [default: three before --tune-until]",
)
@click.option("--cost-ratios", type=NUMBERS, default="1,3", show_default=True, metavar="LIST", help="Overlap costs 1.")
@click.option(
    "--resume",
    metavar="DIR",
    help="Store the windows played by what-if in DIR, and reuse those found there.  [default: stored until the end]",
)
@machine_options
@learnt_window_options
@executor_options
@json_output
@trace_options
def best(
    trace: str,
    learning: LearningOptions,
    methods: tuple[str, ...],
    months: tuple[str, ...] | None,
    cost_ratios: tuple[float, ...],
    resume: str | None,
    machine: MachineOptions,
    windows: WindowOptions,
    where: ExecutorOptions,
    as_json: bool,
    reading: TraceOptions,
) -> None:
    """``mirage train best``."""
    from mirage.learn.training.folds import check_folds, check_months, known_until, last_months
    from mirage.learn.training.method_trials import RollingOriginPlan
    from mirage.learn.training.train_policy import play_what_if, try_and_choose
    from mirage.policy.cost import Cost
    from mirage.report.terminal.progress import progress_bar, step_line

    if months is not None:
        check_months(months)
    check_distinct(learning.out, resume)
    begun = _begin(trace, machine, windows, where, learning, reading, methods)
    begun.simulated()
    data = begun.data()
    slices = learning.slices(data)
    data = known_until(data, slices.tune_until_s)
    costs = tuple(Cost(ratio, 1.0) for ratio in cost_ratios)
    plan = RollingOriginPlan(methods, months or last_months(slices.tune_until_s + 1), costs, (windows.seed,))
    check_folds(data, plan.months)
    steps = _steps(learning, data, windows.seed, plan)
    with progress_bar("windows of what-if") as progress:
        played = play_what_if(
            begun.scenario(),
            begun.protocol(),
            begun.links(data),
            plan.months,
            costs,
            seed=int(begun.manifest()["seed"]),
            executor=begun.executor,
            progress=progress,
            resume_dir=Path(resume) if resume else _steps_folder(learning) / "what-if",
        )
    with step_line() as steps.progress:
        tried = try_and_choose(data, plan, played, _settings(learning, windows.seed), steps, begun.executor)
    chosen = {choice.link_nodes: choice.method for choice in tried.choices}
    _write(begun, data, chosen, as_json, tried, steps)


_UNKNOWN_SOURCE = (
    "does not contain how much users repeat themselves, because an older version made it or the trace has no users: "
    "the model will not notice when it is used on another cluster"
)


def _begin(
    trace: str,
    machine: MachineOptions,
    windows: WindowOptions,
    where: ExecutorOptions,
    learning: LearningOptions,
    reading: TraceOptions,
    methods: tuple[str, ...],
) -> LearntFrom:
    """Checks packages and outputs before the work, and returns the data to learn from."""
    check_login_node("train")
    from mirage.learn.training.methods import check_installed

    check_installed(methods)
    check_used(methods)
    check_output(learning.out, trace, *machine.files)
    check_distinct(learning.out, learning.report)
    learning.check_dates()
    if learning.report is not None:
        from mirage.report.training.report_folder import check_report_folder

        check_report_folder(learning.report)
    return LearntFrom(trace, machine, windows, where, learning, reading)


def _write(
    begun: LearntFrom,
    data: HandOvers,
    methods: dict[int, str],
    as_json: bool,
    tried: RollingOriginResult | None = None,
    before: StoredSteps | None = None,
) -> None:
    """Trains, writes and prints the model and the report, and removes the stored steps."""
    from mirage.learn.training.train_policy import CardDetails, train_policy
    from mirage.report.terminal.progress import step_line

    learning, seed = begun.learning, begun.windows.seed
    if not data.has_repeats:
        click.echo(f"mirage: {begun.folder} {_UNKNOWN_SOURCE}", err=True)
    steps = _steps(learning, data, seed, None)
    if before is not None:
        steps.curves.update(before.curves)
    chosen = {"by": "rolling origin", "sizes": [c.to_json() for c in tried.choices]} if tried else {"by": "name"}
    origin = CardDetails(begun.source, int(begun.manifest()["futures"] or 0))
    with step_line() as steps.progress:
        trained = train_policy(
            methods,
            data,
            learning.slices(data),
            origin,
            _settings(learning, seed),
            steps,
            json.loads(json.dumps(chosen)),
            executor=begun.executor,
        )
    try:
        trained.save(learning.out)
    except OSError as error:
        raise ConfigurationError(f"cannot write {learning.out}: {error.strerror}") from error
    _report(begun, trained, tried, steps, as_json)
    shutil.rmtree(_steps_folder(learning), ignore_errors=True)


def _report(
    begun: LearntFrom, trained: TrainedPolicy, tried: RollingOriginResult | None, steps: StoredSteps, as_json: bool
) -> None:
    """Prints the tried methods and the model's card; writes the report."""
    from mirage.report.terminal.console_table import plain_console
    from mirage.report.training.report_folder import report_of, write_report
    from mirage.report.training.training_text import print_choices, print_trained

    provenance = begun.provenance() | {"settings": "of the data set"}
    if begun.learning.report is not None:
        write_report(begun.learning.report, trained.card, tried, steps.curves, provenance)
    if as_json:
        click.echo(json.dumps(report_of(trained.card, tried, provenance), indent=2))
        return
    console = plain_console()
    if tried is not None:
        print_choices(tried.choices, tried.evaluation, provenance, console)
        console.print()
    print_trained(trained.card, console)
    click.echo(f"mirage: policy written; its name is {as_policy(begun.learning.out)}", err=True)


def _steps(learning: LearningOptions, data: HandOvers, seed: int, plan: Any) -> StoredSteps:
    """Returns the store of this training's steps, which exists until the training ends."""
    from mirage.learn.training.stored_steps import StoredSteps, training_key

    key = training_key(data, learning.slices(data), _settings(learning, seed), plan)
    return StoredSteps(_steps_folder(learning) / key)


def _steps_folder(learning: LearningOptions) -> Path:
    """Returns the folder of steps and windows that are stored until a training ends."""
    return Path(f"{learning.out}.steps")


def _settings(learning: LearningOptions, seed: int) -> TrainingSettings:
    from mirage.learn.regression.model_contract import TrainingSettings

    return TrainingSettings(seed=seed, threads=learning.threads, trees=learning.trees, epochs=learning.epochs)
