"""Options of the commands that learn hand-overs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from mirage.cli.options import Decorator, is_given, option_group
from mirage.cli.study import WindowOptions, submissions_s
from mirage.cli.values import COUNT, DATE, Count
from mirage.duration import DAY_S

if TYPE_CHECKING:
    from mirage.learn.hand_overs import HandOvers
    from mirage.learn.training.train_policy import Slices
    from mirage.trace.table import JobTable

WARM_UP_S = 7 * DAY_S
"""Default time from the first job to the first window: before, the replayed cluster is still filling up."""


_ORDER = "--until must come before --tune-until: models are tuned on what comes in between"
_NOTHING_KNOWN = "--tune-until is before the first window of the data; give a later date"


@dataclass(frozen=True, slots=True)
class LearningOptions:
    """The options of learning; None where an option was not given."""

    out: str
    data: str | None
    until: int | None
    tune_until: int | None
    report: str | None
    threads: int
    trees: int
    epochs: int | None
    futures: int

    def windows(self, windows: WindowOptions, table: JobTable) -> WindowOptions:
        """Returns the windows of the data: by default from a week into the trace to --tune-until.

        None of them ends after the trace.
        """
        first_s, _ = submissions_s(table)
        start_s = -(-(first_s + WARM_UP_S) // DAY_S) * DAY_S if windows.start is None else windows.start
        made = replace(windows, start=start_s)
        if windows.windows is not None:
            return made
        plan = replace(made, windows=1).plan(table)
        return replace(made, windows=made.fitting(plan, table, self.tune_until))

    def check_dates(self, first_s: int | None = None, last_s: int | None = None) -> None:
        """Checks the dates before the work.

        Args:
            first_s: When the first link is submitted, if known.
            last_s: When the last job is submitted, if known.

        Raises:
            click.UsageError: --until is not before --tune-until, or leaves no windows before or after it.
        """
        if self.until is None:
            return
        if self.tune_until is not None and self.until >= self.tune_until:
            raise click.UsageError(_ORDER)
        date = datetime.fromtimestamp(self.until, UTC).date()
        if last_s is not None and self.until > last_s:
            end = datetime.fromtimestamp(last_s, UTC).date()
            raise click.UsageError(f"--until {date} is after the last job of the trace, {end}; give an earlier date")
        if first_s is not None and self.until <= first_s:
            begin = datetime.fromtimestamp(first_s, UTC).replace(tzinfo=None).isoformat(timespec="minutes")
            raise click.UsageError(
                f"--until {date} leaves no window to train on: the first link is submitted {begin}; give a later date"
            )

    def slices(self, data: HandOvers) -> Slices:
        """Returns the slices for training and tuning; by default everything, the last for tuning."""
        from mirage.learn.training.folds import tune_since_s
        from mirage.learn.training.train_policy import Slices

        last_s = int(data.next_start_s.max()) if len(data) else 0
        tune_until_s = last_s if self.tune_until is None else self.tune_until
        until_s = tune_since_s(data, tune_until_s) if self.until is None else self.until
        if until_s >= tune_until_s:
            raise click.UsageError(_NOTHING_KNOWN if self.until is None else _ORDER)
        return Slices(until_s, tune_until_s)


def check_used(methods: Sequence[str]) -> None:
    """Checks that a method uses the given ``--trees`` and ``--epochs``.

    Raises:
        click.UsageError: None does; the message names those that do.
    """
    from mirage.learn.training.methods import METHODS

    users = {
        "trees": [name for name, method in METHODS.items() if method.sized],
        "epochs": [name for name, method in METHODS.items() if method.body],
    }
    for option, names in users.items():
        if is_given(option) and not set(names) & set(methods):
            raise click.UsageError(f"--{option} is for {', '.join(names)}; leave it out")


def data_option(default: str) -> Decorator[Any]:
    """Returns the option ``--data``.

    Args:
        default: The data set without the option, in words.
    """
    return click.option(
        "--data",
        metavar="DIR",
        help=f"A data set of `mirage learn dataset`; it defines the windows.  [default: {default}]",
    )


threads_option = click.option(
    "--threads", type=COUNT, default=1, show_default=True, metavar="N", help="Threads of one training."
)

trees_option = click.option(
    "--trees",
    type=Count(most=10_000),
    default=100,
    show_default=True,
    metavar="N",
    help="Trees of a forest, and of xgboost-2023.",
)

epochs_option = click.option(
    "--epochs",
    type=COUNT,
    metavar="N",
    help="Maximum epochs of a network in each stage except REINFORCE.  [default: that of the method; as published: 300 "
    "epochs, many hours]",
)

futures_option = click.option(
    "--futures",
    type=COUNT,
    default=32,
    show_default=True,
    metavar="N",
    help="Futures of each forecast, if a data set is made.",
)

learning_options = option_group(
    "learning",
    LearningOptions,
    click.option("-o", "--out", required=True, metavar="MODEL", help="File to write; its path is then a policy."),
    data_option("made in MODEL.data"),
    click.option("--until", type=DATE, metavar="DATE", help="Train on windows that end before DATE."),
    click.option(
        "--tune-until",
        type=DATE,
        metavar="DATE",
        help="Stop early by the windows from --until to DATE; later ones are not used.  [default: the end]",
    ),
    click.option(
        "--report",
        metavar="DIR",
        help="Write learning curves (TensorBoard and PNG) and the report to DIR.",
    ),
    threads_option,
    trees_option,
    epochs_option,
    futures_option,
)
"""``-o``, ``--data``, ``--until`` and related options: the data to learn from, and the model's file."""
