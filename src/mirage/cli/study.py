"""What is to be tried out: links and windows, and for ``mirage evaluate`` policies and costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mirage.cli.machine import discipline_help
from mirage.cli.options import CostOptions, Decorator, option_group, seed_option, workers_option
from mirage.cli.values import COUNTS, DATE, LIMITED_DURATION, NUMBERS, WORDS
from mirage.duration import DAY_S

if TYPE_CHECKING:
    from mirage.executors.executor import Executor
    from mirage.policy.cost import Cost
    from mirage.provision.chain import Link
    from mirage.provision.evaluation.protocol import Protocol
    from mirage.trace.table import JobTable

DISCIPLINE_OF = {"warm": "slurm", "published": "mirage-2023"}
DEFAULT_WINDOWS = 156
DEFAULT_POLICIES = "reactive,singleton:2,saia,sml,lead:4,average,quantile:0.95,slurm-estimate,what-if,oracle"


@dataclass(frozen=True, slots=True)
class WindowOptions:
    """The options of windows, and of the links that are tried out in them; None where nothing was said."""

    link_nodes: tuple[int, ...]
    link_limit: int
    start: int | None
    windows: int | None
    every: int
    step: int | None
    protocol: str
    discipline: str | None
    seed: int

    @property
    def queue(self) -> str:
        """The discipline: the one asked for, else that of the protocol."""
        return self.discipline or DISCIPLINE_OF[self.protocol]

    def links(self) -> list[Link]:
        """A link of each size."""
        from mirage.provision.chain import Link

        return [Link(nodes, self.link_limit) for nodes in self.link_nodes]

    def plan(self, table: JobTable) -> Protocol:
        """The protocol over the windows asked for.

        By default they are those that fit behind two thirds of the trace.
        """
        from mirage.provision.evaluation.protocol import Protocol

        changes = {"every_s": self.every} | ({} if self.step is None else {"step_s": self.step})
        submit_s = table.submit_s[table.submit_s >= 0]
        first_s, last_s = (int(submit_s.min()), int(submit_s.max())) if len(submit_s) else (0, 0)
        begin_s = self.start
        if begin_s is None:
            begin_s = (first_s + (last_s - first_s) * 2 // 3) // DAY_S * DAY_S
        windows = self.windows
        if windows is None:
            plan = Protocol.named(self.protocol, begin_s, **changes)
            windows = max(min((last_s - plan.submits_s(0)) // plan.every_s + 1, DEFAULT_WINDOWS), 1)
        return Protocol.named(self.protocol, begin_s, windows=windows, **changes)


@dataclass(frozen=True, slots=True)
class ExecutorOptions:
    """The options of who does the work; None where nothing was said.

    Raises:
        click.UsageError: An option is given of another executor than the one asked for.
    """

    workers: int | None
    executor: str
    array_jobs: int | None
    sbatch: Mapping[str, str]

    def __post_init__(self) -> None:
        if self.executor != "local" and self.workers is not None:
            raise click.UsageError(f"--workers are of this machine; --executor {self.executor} takes --array-jobs")
        if self.executor == "local" and self.array_jobs is not None:
            raise click.UsageError("--array-jobs needs --executor submitit or hyperqueue")
        if self.executor != "submitit" and self.sbatch:
            raise click.UsageError("--sbatch needs --executor submitit; to HyperQueue, hq alloc add says it")

    def made(self, folder: Path, name: str) -> Executor:
        """Whoever does the work.

        Args:
            folder: Where jobs of an array get their orders, and answer; all nodes see it.
            name: Of these jobs.
        """
        from mirage.executors.hyperqueue import TASKS, HyperQueue
        from mirage.executors.processes import Processes, available_cores
        from mirage.executors.slurm_array import JOBS, SlurmArray

        if self.executor == "submitit":
            return SlurmArray(folder, f"mirage-{name}", self.array_jobs or JOBS, self.sbatch)
        if self.executor == "hyperqueue":
            return HyperQueue(folder, f"mirage-{name}", self.array_jobs or TASKS)
        return Processes(self.workers or available_cores())

    def made_in(self, resume: str | None, name: str) -> Executor:
        """Whoever does the work whose results are kept in a folder.

        Raises:
            click.UsageError: There is no such folder, but others than this machine are to do it.
        """
        if self.executor != "local" and resume is None:
            raise click.UsageError(f"--executor {self.executor} needs --resume DIR, which all nodes see")
        return self.made(Path(resume or ".") / ".slurm", name)


@dataclass(frozen=True, slots=True)
class StudyOptions(WindowOptions):
    """The options of a study; None where nothing was said."""

    policies: tuple[str, ...]
    cost_ratios: tuple[float, ...] | None
    resume: str | None

    def costs(self, costs: CostOptions) -> list[Cost]:
        """The costs to judge by: one, or one for each ratio.

        Raises:
            click.UsageError: Both a cost and ratios were given.
            ConfigurationError: Negative, infinite, or both zero.
        """
        from mirage.policy.cost import Cost

        if self.cost_ratios is None:
            return [costs.cost()]
        if costs.given:
            raise click.UsageError("--cost-ratios takes the place of --interruption-cost and --overlap-cost")
        return [Cost(ratio, 1.0) for ratio in self.cost_ratios]


_LINKS = (
    click.option(
        "--link-nodes", type=COUNTS, default="1", show_default=True, metavar="LIST", help="Nodes of a link, as in 1,8."
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


def _window_options(start: str, windows: str) -> tuple[Decorator[Any], ...]:
    """The options of windows.

    Args:
        start: What the default of ``--start`` is, in words.
        windows: What that of ``--windows`` is.
    """
    return (
        click.option(
            "--start",
            type=DATE,
            metavar="DATE",
            help=f"Where the first window begins, UTC.  [default: {start}]",
        ),
        click.option(
            "--windows",
            type=click.IntRange(min=1),
            metavar="N",
            help=f"How many.  [default: {windows}]",
        ),
        click.option(
            "--every",
            type=LIMITED_DURATION,
            default="4h",
            show_default=True,
            metavar="TIME",
            help="Distance of windows.",
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
            metavar="NAME",
            help=f"How jobs queue: {discipline_help()}.  [default: slurm, mirage-2023 with published]",
        ),
    )


def _pairs(ctx: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> dict[str, str]:
    """``KEY=VALUE`` by key, without the dashes of an option.

    Raises:
        click.BadParameter: There is no equals sign.
    """
    pairs = [one.partition("=") for one in value]
    for key, sign, _ in pairs:
        if not key.lstrip("-") or not sign:
            raise click.BadParameter(f"{key!r} is no KEY=VALUE, as partition=cpu", ctx, parameter)
    return {key.lstrip("-"): told for key, _, told in pairs}


executor_options = option_group(
    "where",
    ExecutorOptions,
    workers_option,
    click.option(
        "--executor",
        type=click.Choice(["local", "submitit", "hyperqueue"]),
        default="local",
        show_default=True,
        help="Where the work is done: by processes here, by an array of Slurm jobs, or by tasks of HyperQueue. Jobs "
        "and tasks must see the folder of results.",
    ),
    click.option(
        "--array-jobs",
        type=click.IntRange(1),
        metavar="N",
        help="Jobs of the array, or tasks of HyperQueue, at most.  [default: 8]",
    ),
    click.option(
        "--sbatch",
        multiple=True,
        callback=_pairs,
        metavar="KEY=VALUE",
        help="An option of sbatch for jobs of the array, as partition=cpu or time=1:00:00; repeatable.",
    ),
)
"""``--workers``, ``--executor`` and their kin: who does the work."""

_WINDOWS = _window_options("2/3 into the trace", f"{DEFAULT_WINDOWS}, or what fits")

window_options = option_group("asked", WindowOptions, *_LINKS, *_WINDOWS, seed_option)
"""``--link-nodes``, ``--windows`` and their kin: what is to be tried out, and when."""

learnt_window_options = option_group(
    "asked",
    WindowOptions,
    *_LINKS,
    *_window_options("a week into the trace", "all up to the end of tuning, or of the last month"),
    seed_option,
)
"""The same for what makes a data set on the way, by ``LearningOptions.windows``."""

study_options = option_group(
    "study",
    StudyOptions,
    *_LINKS,
    click.option(
        "--policies",
        type=WORDS,
        default=DEFAULT_POLICIES,
        show_default=True,
        metavar="LIST",
        help="The policies to judge.",
    ),
    *_WINDOWS,
    click.option("--cost-ratios", type=NUMBERS, metavar="LIST", help="Several costs, as 1,2,5,10; overlap costs 1."),
    seed_option,
    click.option(
        "--resume",
        metavar="DIR",
        help="Keep results there as they come, and take over windows found there.",
    ),
)
"""``--link-nodes``, ``--policies``, ``--windows`` and their kin: what is to be evaluated."""
