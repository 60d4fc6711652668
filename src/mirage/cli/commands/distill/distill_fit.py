"""``mirage distill fit``: a small tree that imitates a scheduler of stages."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import click

from mirage.atomic_file import write_output
from mirage.cli.commands.distill.distill_options import EpisodeOptions, episode_options
from mirage.cli.commands.distill.times import by_setting, times_line
from mirage.cli.commands.distill.tree_file import check_tree_output, fidelity_line, path_of, read
from mirage.cli.options import CONTEXT, examples, json_output, seed_option
from mirage.cli.output import check_distinct, check_output, checkpoint_of, resumable
from mirage.cli.values import WORDS, IntegerRange
from mirage.errors import ConfigurationError, shown

if TYPE_CHECKING:
    from mirage.dag.distilled.executor_rule import ExecutorRule
    from mirage.dag.distilled.methods.tree_methods import TimedLearner
    from mirage.dag.distilled.student import Student
    from mirage.dag.schedulers.stage_schedulers import StageScheduler
    from mirage.distill.tree import Node, Tree


@click.command(
    context_settings=CONTEXT,
    epilog=examples(
        "mirage distill fit --teacher capped:0.25:1.5 --setting 50/200 --seeds 1000-1003 -o mine.txt",
        "mirage distill fit --teacher sjf --leaves 4,8,16,32 -o mine.txt      writes the last, reports all",
        "mirage distill fit --teacher decima-argmax:own --rounds 8 --rule tree -o mine.txt",
        "mirage distill fit --teacher fair --method cart,optimal,trustee --leaves 8 -o mine.txt --plot beside.svg",
    ),
)
@click.option("--teacher", required=True, metavar="POLICY", help="The scheduler to imitate.")
@click.option("-o", "--out", required=True, metavar="FILE", help="Tree to write; its path is then a policy.")
@click.option("--leaves", type=WORDS, default="32", show_default=True, metavar="N,…", help="Maximum number of leaves.")
@click.option(
    "--method",
    "methods",
    type=WORDS,
    default="cart",
    show_default=True,
    metavar="NAME,…",
    help="cart; climb: cart, then small changes that make it more faithful; optimal: the least squared error of its "
    "depth, at most 5, over few thresholds (pystreed); trustee: the branches that matter most, stable over runs.",
)
@click.option(
    "--weight",
    default="equal",
    show_default=True,
    metavar="NAME",
    help="Weight of a decision: equal, or margin: by how much the teacher prefers its best candidate.",
)
@click.option(
    "--rule", metavar="TREE", help="Take the executor rule from this tree; without it, executors are not limited."
)
@click.option("--plot", metavar="FILE", help="Draw fidelity against completion times by method (.svg, .png, .pdf).")
@click.option(
    "--rounds",
    type=IntegerRange(0, 20),
    default=1,
    show_default=True,
    metavar="N",
    help="Rounds in which states that the tree reaches are added.",
)
@click.option(
    "--keep",
    "chosen_tree",
    default="soonest",
    show_default=True,
    metavar="NAME",
    help="Tree to keep of all rounds: soonest, with which jobs end soonest; faithful, most faithful in its own states.",
)
@episode_options
@seed_option
@json_output
def fit(
    teacher: str,
    out: str,
    leaves: tuple[str, ...],
    methods: tuple[str, ...],
    weight: str,
    rule: str | None,
    plot: str | None,
    rounds: int,
    chosen_tree: str,
    played: EpisodeOptions,
    seed: int,
    as_json: bool,
) -> None:
    """Fit a small tree to a scheduler's decisions, in states that either of them reaches.

    The tree picks the stage; the executor rule in its settings (of another tree, with --rule) limits the number of
    executors. The last quarter of the seeds is only for judging. Fidelity and completion times are reported together.
    Every size of --leaves has its own rounds.

    A killed or interrupted command resumes after the last fitted tree when it is repeated, even with other --leaves
    and --rounds.
    """
    import numpy as np

    from mirage.dag.decima.decima_schedulers import with_weights
    from mirage.dag.distilled.executor_rule import ExecutorRule, rule_of
    from mirage.dag.distilled.methods.tree_journal import TreeJournal
    from mirage.dag.distilled.methods.tree_methods import OPTIMAL
    from mirage.dag.distilled.student import students
    from mirage.dag.distilled.teachers import teacher_of
    from mirage.distill.tree_text import text_of
    from mirage.report.picture_file import picture_kind
    from mirage.study.work_journal import WorkJournal

    sizes = [_leaves(word) for word in leaves]
    inputs = (path_of(teacher), teacher.partition(":")[2], rule and path_of(rule), played.profiles)
    check_tree_output(out, *inputs)
    if plot is not None:
        picture_kind(plot)
        check_output(plot, *inputs)
    check_distinct(out, plot)
    unproven: list[tuple[int, Node]] = []
    learners = _learners(methods, weight, seed, unproven)
    scheduler = with_weights(teacher, None, played.profiles)
    executor_rule = ExecutorRule() if rule is None else rule_of(dict(read(rule)[1].settings))
    journal = WorkJournal(checkpoint_of(out), _plan(scheduler, played, executor_rule, weight, seed))
    settings = played.episodes()
    rows: list[dict[str, Any]] = []
    with resumable(journal.path):
        for name, learner in learners.items():
            trees = TreeJournal(journal, name)
            taken_over = {most for most, _ in trees}
            if trees:
                _note(name, f"resumes after {len(trees)} trees")
            found = students(
                teacher_of(scheduler),
                settings,
                np.random.default_rng(seed),
                leaves=sizes,
                rounds=rounds,
                select_by=chosen_tree,
                rule=executor_rule,
                fitted=trees,
                learn=learner,
                report=partial(_note, name),
            )
            for most, one in zip(sizes, found, strict=True):
                is_new = most not in taken_over
                is_proven = (most, one.tree.root) not in unproven if name == OPTIMAL and is_new else None
                rows.append(_row(name, one, played.settings, is_proven, learner.seconds[most] if is_new else None))
    write_output(out, text_of(found[-1].tree))
    journal.remove()
    _report(rows, teacher, out, plot, as_json=as_json)


def _learners(
    methods: tuple[str, ...], weight: str, seed: int, unproven: list[tuple[int, Node]]
) -> dict[str, TimedLearner]:
    """Returns the learners by method; trees not proven optimal are listed and reported."""
    from mirage.dag.distilled.methods.optimal import DEFAULTS
    from mirage.dag.distilled.methods.tree_methods import OPTIMAL, TimedLearner, learner_of

    def stopped(most: int, tree: Tree) -> None:
        unproven.append((most, tree.root))
        _note(OPTIMAL, f"not proven to be optimal: the solver stopped after {DEFAULTS.limit_s:g} s of processor time")

    return {name: TimedLearner(learner_of(name, weight, seed, stopped)) for name in methods}


def _row(
    method: str, student: Student, settings: tuple[str, ...], is_proven: bool | None, fit_s: float | None
) -> dict[str, Any]:
    """Returns a student as JSON; time and proof are None for a tree of an earlier run."""
    return {
        "method": method,
        "leaves": len(student.tree.leaves),
        "depth": student.tree.depth,
        "proven": is_proven,
        "states_of_teacher": asdict(student.on_teacher),
        "own_states": asdict(student.on_own),
        **by_setting(settings, student.mean_jct_s, student.makespan_s),
        "fit_s": fit_s,
    }


def _report(rows: list[dict[str, Any]], teacher: str, out: str, plot: str | None, *, as_json: bool) -> None:
    """Draws and prints the students."""
    from mirage.report.dag.distillation_chart import students_chart
    from mirage.report.picture_file import write_picture

    if plot is not None:
        write_picture(students_chart(rows, teacher), plot)
    if as_json:
        click.echo(json.dumps({"teacher": teacher, "tree": out, "students": rows}, indent=2))
        return
    for row in rows:
        _print(row)


def _print(row: dict[str, Any]) -> None:
    line = f"{row['method']}, {row['leaves']} leaves, depth {row['depth']}"
    line += ", not proven to be optimal" if row["proven"] is False else ""
    line += "" if row["fit_s"] is None else f", fitted in {row['fit_s']:.1f} s"
    click.echo(f"{line}: {times_line(row)}")
    for where, one in (("the teacher's states", row["states_of_teacher"]), ("its own states", row["own_states"])):
        click.echo(f"  {fidelity_line(where, one)}")


def _note(method: str, what: str) -> None:
    click.echo(f"mirage: {method}: {what}", err=True)


def _leaves(word: str) -> int:
    if not word.isdecimal() or not 1 <= int(word) <= 1024:
        raise ConfigurationError(f"{shown(word)} is no number of leaves; give 1 to 1024")
    return int(word)


_CODE = (
    "mirage.dag.distilled.student",
    "mirage.dag.distilled.teachers",
    "mirage.dag.distilled.methods.tree_methods",
    "mirage.dag.distilled.methods.tree_journal",
)


def _plan(
    teacher: StageScheduler, played: EpisodeOptions, rule: ExecutorRule, weight: str, seed: int
) -> dict[str, object]:
    """Returns all that determines the fitted trees, except methods, sizes and rounds."""
    from mirage.source_digest import source_digest

    return {
        "teacher": teacher.name,
        "weights of the teacher": sha256(teacher.parameters.tobytes()).hexdigest()[:16],
        **played.plan(),
        "rule": ", ".join(f"{name}: {value}" for name, value in rule.settings()),
        "weight": weight,
        "seed": seed,
        "version of the code": source_digest([*_CODE, teacher.decider.__module__])[:16],
    }
