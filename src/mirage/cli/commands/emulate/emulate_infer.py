"""``mirage emulate infer``: an emulated inference server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from mirage.cli.options import CONTEXT, examples
from mirage.cli.values import COUNT, IntegerRange, Number


def number_option(name: str, default: float, metavar: str, meaning: str, *, least: float = 0) -> Callable[[Any], Any]:
    """Returns an option for a number with a default."""
    return click.option(name, type=Number(min=least), default=default, show_default=True, metavar=metavar, help=meaning)


@click.command(
    context_settings=CONTEXT,
    epilog=examples(
        "mirage emulate infer --model llama --port 8000",
        "mirage emulate infer --model llama --port 8000 --shutdown-timeout 30",
        "mirage emulate infer --model llama --port 8000 --first-token-s 0.2 --token-s 0.02 --max-num-seqs 64",
    ),
)
@click.option("--model", required=True, metavar="NAME", help="Name of the model that clients request.")
@click.option("--port", type=IntegerRange(0, 65_535), required=True, metavar="PORT", help="Port; 0 for a free one.")
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Address to listen on.")
@number_option(
    "--shutdown-timeout",
    0.0,
    "SECONDS",
    "After SIGTERM, complete the present requests for at most SECONDS; new ones get 503. With 0, cut them.",
)
@number_option("--first-token-s", 0.05, "SECONDS", "Time to the first token of a request that runs alone.")
@number_option("--token-s", 0.01, "SECONDS", "Time between two tokens of a request that runs alone.")
@click.option(
    "--max-num-seqs",
    type=COUNT,
    default=256,
    show_default=True,
    metavar="N",
    help="Requests that run at once; others wait.",
)
@number_option(
    "--full-load", 2.0, "X", "With N running requests, tokens take X times as long; less with fewer.", least=1
)
@number_option("--restart-s", 0.0, "SECONDS", "Time to load before it listens.")
@click.option(
    "--speed",
    type=Number(min=0, min_open=True),
    default=1.0,
    metavar="N",
    help="Emulated seconds per second, of all times but --shutdown-timeout.  [default: 1]",
)
def infer(
    model: str,
    port: int,
    host: str,
    shutdown_timeout: float,
    first_token_s: float,
    token_s: float,
    max_num_seqs: int,
    full_load: float,
    restart_s: float,
    speed: float,
) -> None:
    """Run an emulated vLLM: /v1/completions (also streamed), /v1/models, /health and /metrics.

    At SIGTERM it cuts all requests at once, as vLLM does; with --shutdown-timeout it completes them first.
    """
    if not model:
        raise click.UsageError("--model is empty; name a model")
    from mirage.emulate.inference_server import ServedModel, serve

    served = ServedModel(model, first_token_s, token_s, max_num_seqs, full_load, speed)
    serve(
        served,
        host,
        port,
        shutdown_timeout,
        restart_s,
        lambda at: click.echo(f"mirage: {model} listens on {host}:{at}", err=True),
    )
