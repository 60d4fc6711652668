"""``mirage train predict``: learn a model of queue waits from a trace or from accounting."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from mirage.cli.cli_context import check_login_node
from mirage.cli.options import CONTEXT, TraceOptions, examples, json_output, seed_option, trace_options
from mirage.cli.output import check_output
from mirage.cli.trace_reading import read_named_trace
from mirage.cli.values import COUNT, Number
from mirage.duration import DAY_S
from mirage.errors import ConfigurationError, quantity


@click.command(
    context_settings=CONTEXT,
    epilog=examples(
        "mirage train predict jobs.log.gz -o waits.model",
        "mirage train predict --timezone America/Chicago ls6-a100.log.gz -o ls6-waits.model",
        "sacct -a -X -P -S now-90days -o ALL | mirage train predict - -o waits.model",
        "mirage train predict jobs.parquet --hold-out 0.1 --refit-days 7 --json -o waits.model | jq .figures",
    ),
)
@click.argument("trace")
@click.option("-o", "--out", required=True, metavar="MODEL", help="File to write.")
@click.option(
    "--hold-out",
    type=Number(0.02, 0.5),
    default=0.2,
    show_default=True,
    metavar="SHARE",
    help="Share of the time of TRACE, at its end, for the figures of the card.",
)
@click.option(
    "--refit-days",
    type=Number(0.25),
    default=7.0,
    show_default=True,
    metavar="DAYS",
    help="Time between two trainings within the held-out time.",
)
@click.option("--threads", type=COUNT, default=1, show_default=True, metavar="N")
@seed_option
@json_output
@trace_options
def predict(
    trace: str,
    out: str,
    hold_out: float,
    refit_days: float,
    threads: int,
    seed: int,
    as_json: bool,
    reading: TraceOptions,
) -> None:
    """Learn queue waits from TRACE (a file, or - for standard input), and write them to MODEL.

    The model predicts a range for the wait of a job from its request and from accounting's state of the queue at its
    submission (jobs pending and running, waits that ended recently, the user's last day). A card, printed and stored in
    MODEL, shows the accuracy at the end of TRACE: every wait there is predicted from the data known at the beginning of
    the day of its submission, and from the state of the queue at its submission.
    """
    from mirage.learn.required_packages import check_packages

    check_packages("training", ("safetensors", "xgboost"), "predict")
    check_output(out, trace)
    check_login_node("train")
    from mirage.predict.waits.boosted_waits import BoostingSettings
    from mirage.predict.waits.rolling_forecast import RollingSettings
    from mirage.predict.waits.wait_model import train_wait_model
    from mirage.report.terminal.progress import progress_bar

    table = read_named_trace(trace, reading).table
    for what, known in (("time limit", table.limit_s > 0), ("number of nodes", table.nodes > 0)):
        if not known.any():
            click.echo(
                f"mirage: warning: no job of {trace} has a {what}, so the model cannot use it; add it to the trace",
                err=True,
            )
    settings = RollingSettings(refit_s=int(refit_days * DAY_S), boosting=BoostingSettings(threads=threads, seed=seed))
    with progress_bar("held-out waits") as progress:
        model = train_wait_model(table, Path(trace).name, share=hold_out, settings=settings, progress=progress)
    try:
        model.save(out)
    except OSError as error:
        raise ConfigurationError(f"cannot write {out}: {error.strerror}") from error
    if as_json:
        click.echo(json.dumps(asdict(model.card), indent=2))
        return
    from mirage.report.terminal.model_card_text import print_model_card

    print_model_card(model.card)
    click.echo(f"mirage: wait model of {quantity(len(table), 'job')} written to {out}", err=True)
