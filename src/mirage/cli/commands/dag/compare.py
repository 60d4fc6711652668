"""``mirage dag compare``: schedulers of stages, side by side on the same episodes."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import click

from mirage import __version__
from mirage.cli.options import CONTEXT, examples, json_output
from mirage.cli.values import WORDS


@click.command(
    context_settings=CONTEXT,
    epilog=examples(
        "mirage dag compare",
        "mirage dag compare --setting 50/200,10/50 --seeds 300-319 --policies fair,capped:0.25:1.5,sjf:0.5",
        "mirage dag compare --profiles tpch_profiles.json.gz --policies fifo,fair,weighted-fair:-1 --json",
        "mirage dag compare --policies capped,fair --moving-delay 10 --gap 15 --noise 0.2",
    ),
)
@click.option(
    "--profiles", metavar="FILE", help="Measured TPC-H profiles (JSON, or .gz of it).  [default: built-in jobs]"
)
@click.option(
    "--setting",
    "settings",
    type=WORDS,
    default="50/200",
    show_default=True,
    metavar="N/JOBS,…",
    help="Executors and jobs of an episode.",
)
@click.option(
    "--seeds", default="0-9", show_default=True, metavar="LIST", help="Of arrivals and durations, as 0,3,300-319."
)
@click.option(
    "--policies",
    type=WORDS,
    default="fair,capped",
    show_default=True,
    metavar="LIST",
    help="With their parameters after colons.",
)
@click.option(
    "--weights",
    metavar="FILE",
    help="Of decima and decima-argmax.  [default: published ones beside the profiles]",
)
@click.option("--against", metavar="POLICY", help="Whom differences are to.  [default: the first policy]")
@click.option(
    "--gap", "gap_s", type=float, default=25.0, show_default=True, metavar="S", help="Mean time between arrivals."
)
@click.option(
    "--moving-delay",
    "moving_s",
    type=float,
    default=2.0,
    show_default=True,
    metavar="S",
    help="What an executor needs to get to another job.",
)
@click.option(
    "--noise", type=float, default=0.0, show_default=True, metavar="X", help="Stretch each duration by up to ± X."
)
@click.option(
    "--environment",
    default="spark-sched-sim",
    show_default=True,
    metavar="NAME",
    help="Whose dynamics: spark-sched-sim or decima-2019.",
)
@json_output
def compare(
    profiles: str | None,
    settings: tuple[str, ...],
    seeds: str,
    policies: tuple[str, ...],
    weights: str | None,
    against: str | None,
    gap_s: float,
    moving_s: float,
    noise: float,
    environment: str,
    as_json: bool,
) -> None:
    """Compare schedulers of stages by the time jobs take from arrival to end (JCT).

    Every scheduler meets the same jobs with the same durations, so differences are paired by seed. Policies: fifo,
    fair, weighted-fair:EXPONENT, sjf:SHARE, sjf-critical-path:SHARE, critical-path, capped:A:B, capped-by-load,
    decima and decima-argmax (:FILE of weights, or :own), and those of installed packages.
    """
    from mirage.dag.comparison import compare as compare_schedulers
    from mirage.dag.decima.teachers import with_weights
    from mirage.dag.setting import seeds_of, setting_of
    from mirage.dag.simulator.world import DagCluster
    from mirage.dag.workload.generated import generated_templates
    from mirage.dag.workload.tpch import read_tpch
    from mirage.report.dag.terminal import print_comparison
    from mirage.report.terminal.evaluation import progress_bar

    sizes = [setting_of(text, gap_s) for text in settings]
    numbers = seeds_of(seeds)
    schedulers = [with_weights(text, weights, profiles) for text in policies]
    cluster = DagCluster(moving_s=moving_s, noise=noise, environment=environment)
    templates = generated_templates() if profiles is None else read_tpch(Path(profiles))
    with progress_bar("episodes") as progress:
        comparison = compare_schedulers(
            templates, sizes, numbers, schedulers, against=against, cluster=cluster, progress=progress
        )
    if not as_json:
        print_comparison(comparison)
        return
    report = {
        "rows": [row.to_json() for row in comparison.rows],
        "differences": [difference.to_json() for difference in comparison.differences],
        "profiles": profiles,
        "seeds": seeds,
        "gap_s": gap_s,
        "moving_s": moving_s,
        "noise": noise,
        "environment": environment,
        "version": __version__,
        "command": shlex.join(["mirage", *sys.argv[1:]]),
    }
    click.echo(json.dumps(report, indent=2))
