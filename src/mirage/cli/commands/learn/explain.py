"""``mirage explain``: a policy as a tree that people can read, run and edit."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mirage.atomic_file import write_output
from mirage.cli.commands.train.learning_options import LearningOptions, data_option, futures_option
from mirage.cli.commands.train.learnt_from import LearntFrom
from mirage.cli.machine_options import MachineOptions, machine_options
from mirage.cli.options import (
    CONTEXT,
    CostOptions,
    TraceOptions,
    cost_options,
    examples,
    json_output,
    option_group,
    trace_options,
)
from mirage.cli.output import as_policy, check_output
from mirage.cli.study import ExecutorOptions, WindowOptions, executor_options, learnt_window_options
from mirage.cli.values import DATE, IntegerRange

if TYPE_CHECKING:
    from mirage.learn.explain.policy_explanation import Behaviour, Explanation
    from mirage.learn.hand_overs import HandOvers
    from mirage.learn.training.trained_policy import TrainedPolicy
    from mirage.policy.cost import Cost


@dataclass(frozen=True, slots=True)
class ExplainOptions:
    """The options of explaining; None where an option was not given."""

    out: str
    data: str | None
    until: int | None
    leaves: int
    futures: int

    def learning(self, policy: str) -> LearningOptions:
        """Returns the location of the hand-overs: ``--data``, or the training's ``POLICY.data``."""
        data_folder = Path(f"{policy}.data")
        folder = str(data_folder) if self.data is None and data_folder.is_dir() else self.data
        return LearningOptions(self.out, folder, self.until, None, None, 1, 1, None, self.futures)


explain_options = option_group(
    "options",
    ExplainOptions,
    click.option("-o", "--out", required=True, metavar="TREE", help="File to write; its path is then a policy."),
    data_option("POLICY.data of the training; if it is absent, made in TREE.data"),
    click.option(
        "--until",
        type=DATE,
        metavar="DATE",
        help="Fit the tree to windows that end before DATE, and judge it on later ones.  [default: the first 2/3]",
    ),
    click.option(
        "--leaves",
        type=IntegerRange(1, 32),
        default=32,
        show_default=True,
        metavar="N",
        help="Maximum number of leaves.",
    ),
    futures_option,
)


@click.command(
    context_settings=CONTEXT,
    epilog=examples(
        "mirage explain ./model jobs.log.gz --nodes 76 -o tree.txt",
        "mirage explain ./model --data hand-overs -o tree.txt",
        "mirage explain what-if jobs.log.gz --nodes 76 --data hand-overs --interruption-cost 3 -o tree.txt",
        "mirage evaluate jobs.log.gz --nodes 76 --policies what-if,./model,./tree.txt",
        "mirage submit --policy ./tree.txt -t 48:00:00 train.sh",
    ),
)
@click.argument("policy")
@click.argument("trace", required=False)
@explain_options
@cost_options()
@machine_options
@learnt_window_options
@executor_options
@json_output
@trace_options
def explain(
    policy: str,
    trace: str | None,
    options: ExplainOptions,
    costs: CostOptions,
    machine: MachineOptions,
    windows: WindowOptions,
    where: ExecutorOptions,
    as_json: bool,
    reading: TraceOptions,
) -> None:
    """Explain POLICY by a tree of at most 32 leaves, and write the tree to TREE.

    POLICY is a model that mirage train wrote, or any policy by name that submits or waits. A tree is fitted to its
    decisions in windows of TRACE; the last third of these windows selects the number of leaves. The tree is judged on
    later windows: how often it decides like POLICY, and what its hand-overs cost if an hour of interruption counts as
    one hour and as three hours of overlap. TREE is a text to read, edit and run; its path is a policy.

    The decisions of a model are computed from the hand-overs, so TRACE may be left out if these exist; there is then no
    comparison with what-if. Every other policy is played.
    """
    from mirage.learn.explain.policy_explanation import default_until_s
    from mirage.learn.explain.policy_explanation import explain as explain_policy
    from mirage.learn.required_packages import check_packages
    from mirage.policy.cost import Cost
    from mirage.report.terminal.console_table import plain_console
    from mirage.report.training.explanation_text import explanation_json, print_explanation, tree_file

    check_output(options.out, policy, trace, *machine.files)
    learning = options.learning(policy)
    _check_made(policy, costs.cost())
    check_packages("a tree", ["pyarrow", "sklearn"])
    if trace is None and learning.data is None:
        raise click.UsageError("give TRACE, or hand-overs of it with --data")
    begun = LearntFrom(trace or "", machine, windows, where, learning, reading)
    data = begun.data()
    weighed = tuple(dict.fromkeys([costs.cost(), Cost(), Cost(3, 1)]))
    trained = _model(policy)
    until_s = default_until_s(data) if options.until is None else options.until
    behaviour = _behaviour(policy, trained, begun, data, weighed, until_s)
    explained = explain_policy(data, behaviour, weighed, until_s, max_leaves=options.leaves, seed=windows.seed)
    write_output(options.out, tree_file(explained).encode())
    if as_json:
        again = {"held_out": _held_out(begun, data, until_s)}
        click.echo(json.dumps(explanation_json(explained, again | begun.provenance()), indent=2))
        return
    notes = _notes(explained, behaviour, trained, data)
    words = "to judge the same windows: mirage evaluate … --start {start} --windows {windows} --every {every_s}s"
    notes.append(words.format(**_held_out(begun, data, until_s)))
    print_explanation(explained, notes, plain_console())
    click.echo(f"mirage: tree written, a policy too; its name is {as_policy(options.out)}", err=True)


def _check_made(policy: str, cost: Cost) -> None:
    """Checks that a policy can be explained, before anything is played.

    Raises:
        UnknownName: There is no such policy.
        ConfigurationError: It cannot be made, it is the oracle, which decides nothing, or it revises queued links.
    """
    from mirage.errors import ConfigurationError
    from mirage.policy.policy_registry import make_policy, policy_named_by, policy_spec
    from mirage.policy.policy_settings import PolicySettings
    from mirage.provision.evaluation.candidate import ORACLE

    if policy == ORACLE:
        raise ConfigurationError("the oracle is the best moment in hindsight and decides nothing; name another policy")
    if policy_spec(policy).revises_queued_link:
        raise ConfigurationError(
            f"{policy} revises queued links: it holds a queued link and releases it, but a tree only submits or waits; "
            f"explain {policy_named_by(policy) or 'what-if'}, on which it is based"
        )
    make_policy(policy, PolicySettings(cost))


def _model(policy: str) -> TrainedPolicy | None:
    """Returns the model of a policy that is a model file; None for other policies."""
    from mirage.learn.policies.learned_provisioner import LearnedProvisioner
    from mirage.policy.policy_registry import is_policy_file, make_policy

    made = make_policy(policy) if is_policy_file(policy) else None
    return made.trained if isinstance(made, LearnedProvisioner) else None


def _behaviour(
    policy: str,
    trained: TrainedPolicy | None,
    begun: LearntFrom,
    data: HandOvers,
    costs: tuple[Cost, ...],
    until_s: int,
) -> Behaviour:
    """Returns the decisions of the policy: computed from the data, or played."""
    from mirage.learn.explain.policy_examples import covers, model_submits, outside, played_submits
    from mirage.learn.explain.policy_explanation import Behaviour
    from mirage.learn.explain.policy_recording import played_since, recorded
    from mirage.learn.training.trained_policy import WHAT_IF
    from mirage.provision.evaluation.candidate import Candidate
    from mirage.report.terminal.progress import progress_bar

    manifest = begun.manifest()
    futures, seed = int(manifest["futures"] or 0), int(manifest["seed"])
    if trained is not None and covers(trained, data):
        at_costs = {Candidate(policy, cost).key: model_submits(trained, data, cost) for cost in costs}
        played = None
        if begun.trace:
            with progress_bar("windows of what-if") as progress:
                played = played_since(
                    begun.scenario(),
                    begun.protocol(),
                    begun.links(data),
                    WHAT_IF,
                    costs,
                    since_s=until_s,
                    seed=seed,
                    executor=begun.executor,
                    progress=progress,
                )
        submits = at_costs[Candidate(policy, costs[0]).key]
        return Behaviour(policy, costs[0], submits, at_costs, played, futures, outside(trained, data))
    if not begun.trace:
        raise click.UsageError(f"give TRACE: the decisions of {policy} are not in the data, it has to be played")
    with progress_bar("windows") as progress:
        found = recorded(
            begun.scenario(),
            begun.protocol(),
            begun.links(data),
            list(dict.fromkeys([policy, WHAT_IF])),
            costs,
            judged_s=until_s,
            seed=seed,
            executor=begun.executor,
            progress=progress,
        )
    return Behaviour(policy, costs[0], played_submits(data, found.submits), {}, found.trials, futures)


def _notes(explained: Explanation, behaviour: Behaviour, trained: TrainedPolicy | None, data: HandOvers) -> list[str]:
    """Returns remarks for the reader of the explanation."""
    found = []
    if trained is not None and trained.trained_on.until_s > explained.until_s:
        shared = len({int(s) for s in data.window_s if explained.until_s <= s < trained.trained_on.until_s})
        found.append(f"the model was trained on {shared} of the moments it is judged at: it will do worse on others")
    if behaviour.outside_share:
        found.append(
            f"{behaviour.outside_share:.1%} of the decisions are unlike any in the model's training; the policy leaves "
            "them to what-if, but here the model's decisions are used"
        )
    if behaviour.played is None:
        found.append("without TRACE there is no comparison with what-if")
    ratio = f"{explained.cost.interruption:g}:{explained.cost.overlap:g}"
    found.append(
        f"the tree imitates the policy at {ratio}; at other costs the policy decides differently, the tree does not: "
        "--interruption-cost makes a tree for them"
    )
    return found


def _held_out(begun: LearntFrom, data: HandOvers, until_s: int) -> dict[str, Any]:
    """Returns the windows that the tree is judged on, as options of ``mirage evaluate``."""
    from mirage.trace.statistics.summary import iso_utc

    manifest = begun.manifest()
    windows_s = {int(window_s) for window_s in data.window_s if window_s >= until_s}
    start_s = min(windows_s) - int(manifest["lead_in_s"])
    return {"start": iso_utc(start_s), "windows": len(windows_s), "every_s": manifest["every_s"]}
