"""Options that several commands share, and the form of their help."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

CONTEXT: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
"""Settings of every command."""

Command = TypeVar("Command", bound=Callable[..., Any])

_FORMATS = ("csv", "mirage-log", "parquet", "sacct", "sacct-json", "swf")


def examples(*lines: str) -> str:
    """The end of a help text: commands to copy, one a line."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])


def trace_reading(command: Command) -> Command:
    """The options that say how a trace is to be read: format, fields, delimiter, time zone, bad lines."""
    for option in reversed(
        (
            click.option(
                "--format",
                "format_",
                metavar="NAME",
                help=f"What the trace is: {', '.join(_FORMATS)}. By default told by its content.",
            ),
            click.option(
                "--fields",
                metavar="LIST",
                help="The field list of sacct text without a header, as given to sacct -o.",
            ),
            click.option(
                "--delimiter",
                metavar="TEXT",
                help=r"What stands between the cells of sacct text, as given to sacct --delimiter; \t is a tab.  "
                "[default: |]",
            ),
            click.option(
                "--timezone",
                metavar="ZONE",
                default="UTC",
                show_default=True,
                help="Zone of times that name none, as America/Chicago.",
            ),
            click.option(
                "--skip-bad-lines",
                is_flag=True,
                help="Skip and count lines that cannot be read, instead of stopping at the first.",
            ),
        )
    ):
        command = option(command)
    return command


def json_output(command: Command) -> Command:
    """``--json``: one JSON value on standard output, times in ISO-8601 UTC, durations in seconds."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON value.")(command)
