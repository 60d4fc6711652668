"""Options shared by several commands: each group is read into one frozen object."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from mirage.cli.values import COUNT, SEED

if TYPE_CHECKING:
    from mirage.policy.cost import Cost

CONTEXT: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
"""Settings of every command."""

Command = TypeVar("Command", bound=Callable[..., Any])
Decorator = Callable[[Command], Command]

_FORMATS = ("csv", "mirage-log", "parquet", "pbs", "sacct", "sacct-json", "schedule", "swf")


class ExtensibleOption(click.Option):
    """An option with values that installed packages add to; its help lists theirs.

    Args:
        group: The entry-point group of the values.
    """

    def __init__(self, *arguments: Any, group: str, **attributes: Any) -> None:
        super().__init__(*arguments, **attributes)
        self.group = group

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Returns the option and its help, with the names that installed packages declare."""
        from mirage.registry import plug_ins

        names = sorted({point.name for point in plug_ins(self.group)})
        own_help = self.help
        if names:
            self.help = f"{own_help}  From installed packages: {', '.join(names)}."
        try:
            return super().get_help_record(ctx)
        finally:
            self.help = own_help


class VariableOption(click.Option):
    """An option with an environment variable, which errors about its value name."""

    def get_error_hint(self, ctx: click.Context | None) -> str:
        """Returns the option, and the variable if the value is that of the variable."""
        hint = super().get_error_hint(ctx)
        if ctx is None or ctx.get_parameter_source(self.name or "") is not ParameterSource.ENVIRONMENT:
            return hint
        return f"{hint}, set by {self.envvar}"


def examples(*lines: str) -> str:
    """Returns the end of a help text: commands to copy, one per line."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])


def is_given(option: str) -> bool:
    """Whether an option of the running command has a value that is not its default.

    Args:
        option: Its name as a parameter: ``link_nodes`` of ``--link-nodes``.
    """
    return click.get_current_context().get_parameter_source(option) not in (None, ParameterSource.DEFAULT)


def given_options(*groups: Any) -> list[str]:
    """Returns the options of groups of the running command for which ``is_given`` holds.

    Args:
        groups: Objects that ``option_group`` passes.
    """
    names = [field.name for group in groups for field in fields(group)]
    return [f"--{name.replace('_', '-')}" for name in names if is_given(name)]


def option_group(name: str, kind: type[Any], *options: Decorator[Any]) -> Decorator[Any]:
    """Returns a decorator that adds options to a command and passes them as one object.

    Args:
        name: The parameter of the command that receives the object.
        kind: A frozen dataclass with one field per option, named after the option.
        options: The options, in the order of the help text.
    """
    names = [field.name for field in fields(kind)]

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def collected(*arguments: Any, **values: Any) -> Any:
            group = kind(**{field: values.pop(field) for field in names})
            return command(*arguments, **{name: group}, **values)

        return functools.reduce(lambda made, option: option(made), reversed(options), collected)  # type: ignore[return-value]

    return decorate


@dataclass(frozen=True, slots=True)
class TraceOptions:
    """The options for reading a trace."""

    format: str | None
    fields: str | None
    delimiter: str | None
    timezone: str
    skip_bad_lines: bool
    columns: str | None = None


trace_options = option_group(
    "reading",
    TraceOptions,
    click.option(
        "--format",
        cls=ExtensibleOption,
        group="mirage.trace_readers",
        metavar="NAME",
        help=f"Format of the trace: {', '.join(_FORMATS)}. By default detected from its content.",
    ),
    click.option(
        "--fields",
        metavar="LIST",
        help="The field list of sacct text without a header, as given to sacct -o.",
    ),
    click.option(
        "--columns",
        metavar="MAP",
        help="Map the columns of your own CSV: submit_s=submitted[%d/%m/%Y %H:%M],limit_s=timelimit[min],nodes==1; "
        "or @FILE, the same map in TOML.",
    ),
    click.option(
        "--delimiter",
        metavar="TEXT",
        help=r"Separator of the cells of sacct text or, with --columns, of a CSV; \t is a tab.  "
        "[default: a bar; in a CSV, detected from its first row]",
    ),
    click.option(
        "--timezone",
        metavar="ZONE",
        default="UTC",
        show_default=True,
        help="Time zone of times without one, such as America/Chicago.",
    ),
    click.option(
        "--skip-bad-lines",
        is_flag=True,
        help="Skip and count lines that cannot be read, instead of stopping at the first.",
    ),
)
"""``--format``, ``--fields`` and related options: how a trace is read."""


@dataclass(frozen=True, slots=True)
class CostOptions:
    """The costs of interruption and overlap; None where an option was not given."""

    interruption_cost: float | None
    overlap_cost: float | None

    @property
    def given(self) -> bool:
        """Whether at least one of the options was given."""
        return self.interruption_cost is not None or self.overlap_cost is not None

    def cost(self) -> Cost:
        """Returns the cost; 1 per hour where an option was not given.

        Raises:
            ConfigurationError: A cost is negative or infinite, or both are zero.
        """
        from mirage.policy.cost import Cost

        return Cost(
            1.0 if self.interruption_cost is None else self.interruption_cost,
            1.0 if self.overlap_cost is None else self.overlap_cost,
        )


def cost_options(
    interruption: float | None = None, overlap: float | None = None, *, shows_default: bool = True
) -> Decorator[Any]:
    """Returns ``--interruption-cost`` and ``--overlap-cost`` with the defaults of a command.

    Args:
        shows_default: Whether the help names the default of an option without one here, which is 1.
    """
    return option_group(
        "costs",
        CostOptions,
        *(
            click.option(
                name,
                type=float,
                default=default,
                show_default=True,
                metavar=letter,
                help=meaning + ("  [default: 1]" if default is None and shows_default else ""),
            )
            for name, letter, default, meaning in (
                ("--interruption-cost", "X", interruption, "Cost of an hour without the service."),
                ("--overlap-cost", "Y", overlap, "Cost of an hour with two jobs."),
            )
        ),
    )


json_output = click.option("--json", "as_json", is_flag=True, help="Print one JSON value.")
"""``--json``: one JSON value on standard output, times in ISO-8601 UTC, durations in seconds."""

seed_option = click.option("--seed", type=SEED, default=0, show_default=True, metavar="S")
"""``--seed``: equal options give equal results."""

workers_option = click.option("--workers", type=COUNT, metavar="N", help="Parallel processes.  [default: all cores]")
"""``--workers``: number of parallel processes."""

to_option = click.option("--to", metavar="NAME", help="csv, parquet or swf. By default the suffix of OUT.")
"""``--to``: the format of a trace to write."""
