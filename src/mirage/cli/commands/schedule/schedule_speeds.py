"""``mirage schedule speeds``: step times predicted from four measurements."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from mirage.cli.options import CONTEXT, examples, json_output, seed_option
from mirage.cli.values import COUNT, WORDS


@click.command(
    context_settings=CONTEXT,
    epilog=examples(
        "mirage schedule speeds profiles",
        "mirage schedule speeds profiles --types aws,dgx-ext,rtx",
        "mirage schedule speeds profiles --json | jq '.rows[] | {model, gpu_type, within}'",
    ),
)
@click.argument("profiles")
@click.option("--types", type=WORDS, metavar="LIST", help="The GPU types to use.  [default: all of each model]")
@click.option(
    "--candidates",
    type=COUNT,
    metavar="N",
    help="Random sets of four placements out of which the measured one is chosen.  [default: 200]",
)
@seed_option
@json_output
def speeds(profiles: str, types: tuple[str, ...] | None, candidates: int | None, seed: int, as_json: bool) -> None:
    """Predict step times of each model from four measurements, and test the predictions.

    PROFILES is a folder in the form of Pollux and Sia. For each GPU type, the four placements are chosen so that the
    predictions become most precise, and all other rows of the table are predicted: by a law of four terms, by the
    tables of the model's other GPU types, scaled, and by what other models show about these types.
    """
    from mirage.report.terminal.console_table import plain_console, print_table
    from mirage.schedule.speeds.step_time_prediction import CANDIDATES, predict_tables

    rows = predict_tables(Path(profiles), types, candidates or CANDIDATES, seed)
    if as_json:
        click.echo(json.dumps({"rows": [asdict(row) for row in rows]}, indent=2))
        return
    names = ("model", "GPU type", "measured placement:batch", "rows", "within 10 %", "by the law alone", "median error")
    cells = [
        (
            row.model,
            row.gpu_type,
            ", ".join(f"{placement}:{batch:g}" for placement, batch in row.measured),
            f"{row.rows:,}",
            f"{row.within:.1%}",
            f"{row.law_within:.1%}",
            f"{row.median_error:.1%}",
        )
        for row in rows
    ]
    print_table(plain_console(), names, cells, left=3)
