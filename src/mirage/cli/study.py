"""Options of a study: links, windows, executors; for ``mirage evaluate`` also policies."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mirage.cli.machine_options import discipline_help
from mirage.cli.options import CostOptions, Decorator, ExtensibleOption, option_group, seed_option, workers_option
from mirage.cli.values import COUNT, COUNTS, DATE, LIMITED_DURATION, NUMBERS, WORDS, LinkUser
from mirage.duration import DAY_S, format_duration
from mirage.errors import quantity

if TYPE_CHECKING:
    from mirage.policy.cost import Cost
    from mirage.provision.evaluation.evaluation_protocol import EvaluationProtocol
    from mirage.provision.link_size import LinkSize
    from mirage.study.executors.executor import Executor
    from mirage.trace.table import JobTable

DISCIPLINE_OF = {"warm": "slurm", "published": "mirage-2023"}
DEFAULT_WINDOWS = 156
EMPTY_S = 7 * DAY_S
"""Time without a submission after the begin of the windows, in seconds, from which they are probably misplaced."""
DEFAULT_POLICIES = "reactive,singleton:2,saia,sml,lead:4,average,quantile:0.95,slurm-estimate,hold,what-if,oracle"


@dataclass(frozen=True, slots=True)
class WindowOptions:
    """The options of windows and their links; None where an option was not given."""

    link_nodes: tuple[int, ...]
    link_limit: int
    start: int | None
    windows: int | None
    every: int | None
    step: int | None
    protocol: str
    discipline: str | None
    seed: int

    @property
    def queue(self) -> str:
        """The discipline: the given one, else that of the protocol."""
        return self.discipline or DISCIPLINE_OF[self.protocol]

    def links(self) -> list[LinkSize]:
        """Returns a link of each size."""
        from mirage.provision.link_size import LinkSize

        return [LinkSize(nodes, self.link_limit) for nodes in self.link_nodes]

    def plan(self, table: JobTable) -> EvaluationProtocol:
        """Returns the protocol over the requested windows.

        By default these are the windows that fit after the first two thirds of the trace.
        """
        from mirage.provision.evaluation.evaluation_protocol import EvaluationProtocol

        given = {"every_s": self.every, "step_s": self.step}
        changes = {name: value for name, value in given.items() if value is not None}
        begin_s = self.begins_s(table)
        windows = self.windows
        if windows is None:
            plan = EvaluationProtocol.named(self.protocol, begin_s, **changes)
            windows = min(self.fitting(plan, table), DEFAULT_WINDOWS)
        plan = EvaluationProtocol.named(self.protocol, begin_s, windows=windows, **changes)
        (first_s, last_s), late = submissions_s(table), windows - self.fitting(plan, table, least=0)
        if late > 0 and plan.submits_s(windows - 1) <= last_s:  # later windows are refused
            last = time.strftime("%Y-%m-%dT%H:%M", time.gmtime(last_s))
            needed_s = plan.submits_s(windows - 1) - begin_s + self.link_limit
            earlier = "an earlier --start, " if needed_s <= last_s - first_s else ""
            where = "the window" if windows == 1 else f"{late} of {quantity(windows, 'window')}"
            click.echo(
                f"mirage: warning: in {where}, a link of {format_duration(self.link_limit)} may end after the last job "
                f"of the trace ({last}), where the queue only empties; give {earlier}a shorter "
                "--link-limit, or a longer trace",
                err=True,
            )
        return plan

    def begins_s(self, table: JobTable) -> int:
        """Returns the begin of the first window; warns if it is in a long gap of the trace."""
        first_s, last_s = submissions_s(table)
        begin_s = self.start if self.start is not None else (first_s + (last_s - first_s) * 2 // 3) // DAY_S * DAY_S
        later_s = table.submit_s[table.submit_s >= begin_s]
        if len(later_s) and later_s.min() - begin_s > EMPTY_S:
            _warn_of_gap(begin_s, int(later_s.min()))
        return begin_s

    def fitting(self, plan: EvaluationProtocol, table: JobTable, until_s: int | None = None, least: int = 1) -> int:
        """Returns the number of windows that fit into the trace.

        A link that starts at once ends before the last submission, after which the queue only empties.

        Args:
            plan: The protocol, with any number of windows.
            table: The trace.
            until_s: Links are submitted up to this moment; None for no bound.
            least: The number where fewer fit.
        """
        last_s = submissions_s(table)[1] - self.link_limit
        end_s = last_s if until_s is None else min(until_s, last_s)
        return max((end_s - plan.submits_s(0)) // plan.every_s + 1, least)


@dataclass(frozen=True, slots=True)
class ExecutorOptions:
    """The options of the executor; None where an option was not given.

    Raises:
        click.UsageError: An option belongs to another executor than the chosen one.
    """

    workers: int | None
    executor: str
    array_jobs: int | None
    sbatch: Mapping[str, str]

    def __post_init__(self) -> None:
        from mirage.study.executors.executor_registry import executor_spec

        takes = executor_spec(self.executor).takes
        if self.workers is not None and "workers" not in takes:
            other = "takes --array-jobs" if "array_jobs" in takes else "takes no --workers"
            raise click.UsageError(f"--workers is for this machine; --executor {self.executor} {other}")
        if self.array_jobs is not None and "array_jobs" not in takes:
            other = "" if self.executor == "local" else f"; --executor {self.executor} takes no --array-jobs"
            raise click.UsageError(f"--array-jobs needs --executor slurm or hyperqueue{other}")
        if self.sbatch and "sbatch" not in takes:
            raise click.UsageError("--sbatch needs --executor slurm; for HyperQueue, use hq alloc add")

    def made(self, folder: Path, name: str) -> Executor:
        """Returns the executor.

        Args:
            folder: Folder of the tasks and results of an array's jobs; visible on all nodes.
            name: Name of these jobs.
        """
        from mirage.study.executors.executor_registry import ExecutorRequest, executor_spec

        request = ExecutorRequest(folder, f"mirage-{name}", self.workers, self.array_jobs, self.sbatch)
        return executor_spec(self.executor).make(request)

    def made_in(self, resume: str | None, name: str) -> Executor:
        """Returns the executor of work with results in the folder of ``--resume``.

        Raises:
            click.UsageError: No folder is given, but the executor works on other machines.
        """
        from mirage.study.executors.executor_registry import executor_spec

        if executor_spec(self.executor).remote and resume is None:
            raise click.UsageError(f"--executor {self.executor} needs --resume DIR, visible on all nodes")
        return self.made(Path(resume or ".") / ".slurm", name)


@dataclass(frozen=True, slots=True)
class StudyOptions(WindowOptions):
    """The options of a study; None where an option was not given."""

    policies: tuple[str, ...]
    link_user: str
    hand_over: int
    cost_ratios: tuple[float, ...] | None
    resume: str | None

    def plan(self, table: JobTable) -> EvaluationProtocol:
        """Returns the protocol over the requested windows, of links of the requested user."""
        return replace(WindowOptions.plan(self, table), link_user=self.link_user, hand_over=self.hand_over)

    def costs(self, costs: CostOptions) -> list[Cost]:
        """Returns the costs to judge by: one, or one for each ratio.

        Raises:
            click.UsageError: Both a cost and ratios were given.
            ConfigurationError: A cost is negative or infinite, or both are zero.
        """
        from mirage.policy.cost import Cost

        if self.cost_ratios is None:
            return [costs.cost()]
        if costs.given:
            raise click.UsageError("--cost-ratios replaces --interruption-cost and --overlap-cost; give one of them")
        return [Cost(ratio, 1.0) for ratio in self.cost_ratios]


def report_training_windows(policies: Sequence[str], begins_s: Sequence[int]) -> list[dict[str, Any]]:
    """Warns of models trained on windows of an evaluation, and returns these models.

    Args:
        begins_s: Begin of each window.
    """
    from mirage.policy.policy_registry import policy_file

    found = []
    for policy, file in [(policy, file) for policy in policies if (file := policy_file(policy)) is not None]:
        from mirage.learn.policies.policy_file import training_data

        data = training_data(file)
        windows = 0 if data is None else sum(data.first_s <= begin_s < data.until_s for begin_s in begins_s)
        if data is not None and windows:
            found.append({"policy": policy, "windows": windows, "trace": data.trace, "until_s": data.until_s})
            until = time.strftime("%Y-%m-%d", time.gmtime(data.until_s))
            click.echo(
                f"mirage: warning: {policy} was trained on jobs of {data.trace} until {until}, so it may know the "
                f"outcome of {windows} of the {quantity(len(begins_s), 'window')}; judge it on later ones with --start",
                err=True,
            )
    return found


@cache
def _warn_of_gap(begin_s: int, end_s: int) -> None:
    """Warns once that windows begin where a trace has no jobs."""
    days = [time.strftime("%Y-%m-%d", time.gmtime(instant_s)) for instant_s in (begin_s, end_s)]
    click.echo(
        f"mirage: warning: the windows begin on {days[0]}, and the trace has no submission until {days[1]}: no other "
        "job waits there; name a day with jobs with --start (mirage trace info shows the months)",
        err=True,
    )


def submissions_s(table: JobTable) -> tuple[int, int]:
    """Returns the times of the first and of the last submission; 0 without any."""
    known_s = table.submit_s[table.submit_s >= 0]
    return (int(known_s.min()), int(known_s.max())) if len(known_s) else (0, 0)


_LINKS = (
    click.option(
        "--link-nodes",
        type=COUNTS,
        default="1",
        show_default=True,
        metavar="LIST",
        help="Nodes of a link, such as 1,8.",
    ),
    click.option(
        "--link-limit",
        type=LIMITED_DURATION,
        default="2-00:00:00",
        show_default=True,
        metavar="TIME",
        help="Time limit of a link.",
    ),
)


def _window_options(start: str, windows: str, every: str = "") -> tuple[Decorator[Any], ...]:
    """Returns the options of windows.

    Args:
        start: The default of ``--start``, in words.
        windows: The default of ``--windows``, in words.
        every: More words on the default of ``--every``.
    """
    return (
        click.option(
            "--start",
            type=DATE,
            metavar="DATE",
            help="Start of the first window, UTC; the link of a single hand-over is submitted two days later.  "
            f"[default: {start}]",
        ),
        click.option(
            "--windows",
            type=COUNT,
            metavar="N",
            help=f"Number of windows.  [default: {windows}]",
        ),
        click.option(
            "--every",
            type=LIMITED_DURATION,
            metavar="TIME",
            help=f"Time between the starts of two windows.  [default: 4h{every}]",
        ),
        click.option(
            "--step",
            type=LIMITED_DURATION,
            metavar="TIME",
            help="Time between decisions.  [default: 30m, 10m with published]",
        ),
        click.option(
            "--protocol",
            type=click.Choice(list(DISCIPLINE_OF)),
            default="warm",
            show_default=True,
            help="warm: one replay of the whole trace; published: as in the Mirage paper, two days from an empty "
            "machine.",
        ),
        click.option(
            "--discipline",
            cls=ExtensibleOption,
            group="mirage.disciplines",
            metavar="NAME",
            help=f"Queue discipline: {discipline_help()}.  [default: slurm, mirage-2023 with published]",
        ),
    )


def _pairs(ctx: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> dict[str, str]:
    """Returns the values of ``KEY=VALUE`` by key, without the dashes of an option.

    Raises:
        click.BadParameter: A value has no key or no equals sign, a key is given twice, or the array defines it.
    """
    found: dict[str, str] = {}
    for one in value:
        given, sign, text = one.partition("=")
        key = given.lstrip("-").replace("_", "-")
        if not key or not sign:
            raise click.BadParameter(f"{given!r} is not KEY=VALUE, such as partition=cpu", ctx, parameter)
        if key in ("array", "wrap"):
            raise click.BadParameter(
                f"Mirage sets {key} itself; --array-jobs limits the number of jobs", ctx, parameter
            )
        if key in found:
            raise click.BadParameter(f"{key} is given twice; give each option once", ctx, parameter)
        found[key] = text
    return found


class ExecutorName(click.ParamType[str]):
    """The name of an executor, built-in or of an installed package."""

    name = "executor"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Returns the name; click refuses an unknown one and lists the known ones."""
        return str(self._known().convert(value, param, ctx))

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:
        """Returns all names, for the help."""
        return self._known().get_metavar(param, ctx)

    @staticmethod
    def _known() -> click.Choice[str]:
        from mirage.study.executors.executor_registry import known_executors

        return click.Choice(known_executors())


executor_options = option_group(
    "where",
    ExecutorOptions,
    workers_option,
    click.option(
        "--executor",
        type=ExecutorName(),
        default="local",
        show_default=True,
        help="Where to run the work: in local processes, in an array of Slurm jobs, or in tasks of HyperQueue. Jobs "
        "and tasks must see the folder of results.",
    ),
    click.option(
        "--array-jobs",
        type=COUNT,
        metavar="N",
        help="Maximum number of array jobs or HyperQueue tasks.  [default: 8]",
    ),
    click.option(
        "--sbatch",
        multiple=True,
        callback=_pairs,
        metavar="KEY=VALUE",
        help="An option of sbatch for the array jobs, such as partition=cpu or time=1:00:00; repeatable.",
    ),
)
"""``--workers``, ``--executor`` and related options: where the work runs."""

_WINDOWS = _window_options("2/3 into the trace", f"{DEFAULT_WINDOWS}, or as many as fit")

window_options = option_group("windows", WindowOptions, *_LINKS, *_WINDOWS, seed_option)
"""``--link-nodes``, ``--windows`` and related options: the links and windows to evaluate."""

learnt_window_options = option_group(
    "windows",
    WindowOptions,
    *_LINKS,
    *_window_options("a week into the trace", "all up to the end of tuning, or of the last month"),
    seed_option,
)
"""The same options for commands that make a data set themselves, with the defaults of ``LearningOptions.windows``."""


def policies_option(default: str, help_text: str) -> Decorator[Any]:
    """Returns the option ``--policies``: names, built in or of installed packages."""
    return click.option(
        "--policies",
        cls=ExtensibleOption,
        group="mirage.policies",
        type=WORDS,
        default=default,
        show_default=True,
        metavar="LIST",
        help=help_text,
    )


study_options = option_group(
    "study",
    StudyOptions,
    *_LINKS,
    policies_option(DEFAULT_POLICIES, "The policies to judge."),
    *_window_options(
        "2/3 into the trace", f"{DEFAULT_WINDOWS}, or as many as fit", ", the whole chain with --chain-length"
    ),
    click.option(
        "--link-user",
        type=LinkUser(["newcomer", "light", "median", "heavy"]),
        default="newcomer",
        show_default=True,
        help="Owner of the links: a newcomer, who has used nothing but them; the user of the trace at the quantile "
        "0.1, 0.5 or 0.9 of the use in the two weeks before a window; or user:NAME, a user of the trace. Matters with "
        "fair-share and limits.",
    ),
    click.option(
        "--hand-over",
        type=COUNT,
        default=1,
        show_default=True,
        metavar="N",
        help="Number of the hand-over to judge; the links before it are submitted when the last has ended. 5 is near "
        "the steady state of a chain under fair-share.",
    ),
    click.option(
        "--cost-ratios",
        type=NUMBERS,
        metavar="LIST",
        help="Interruption costs, such as 1,2,5,10; overlap costs 1.",
    ),
    seed_option,
    click.option(
        "--resume",
        metavar="DIR",
        help="Store results in DIR as they arrive, and reuse windows found there.",
    ),
)
"""``--link-nodes``, ``--policies``, ``--windows`` and related options: the study to evaluate."""
