"""``mirage dag compare``: schedulers of stages, compared on the same episodes."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mirage.cli.commands.dag.edge_case import Chosen, case_option, chosen
from mirage.cli.options import CONTEXT, ExtensibleOption, examples, json_output
from mirage.cli.values import COUNT, WORDS
from mirage.version import __version__

if TYPE_CHECKING:
    from mirage.dag.compare.dag_comparison import DagComparison

_POLICIES = (
    "fifo  fair                        rules; fifo:1 takes stages by number, fair:1 counts all jobs",
    "weighted-fair:EXPONENT            shares by a power of work",
    "sjf:SHARE  sjf-critical-path      the shortest job first, up to a share of the executors",
    "capped:A:B  capped-by-load        the shortest job first, up to a cap by its work",
    "critical-path                     the longest path first; critical-path-local stays at its job",
    "equal-finish                      shares with which all jobs end together, for the makespan",
    "tree  FILE                        the shipped tree, or one in a file of 'mirage distill'",
    "decima:own  decima-argmax:own     the shipped network: sampled decisions, or the most likely",
    "decima:FILE  decima-argmax:FILE   one of 'mirage train decima', or published weights (npz)",
    "decima  decima-argmax             with the weights of --weights",
)
"""The built-in policies; ``mirage.dag.schedulers.stage_schedulers`` has their parameters."""


@click.command(
    context_settings=CONTEXT,
    epilog="\n".join(["\b", "Policies:", *(f"  {line}" for line in _POLICIES)])
    + "\n\n"
    + examples(
        "mirage dag compare",
        "mirage dag compare --setting 50/200,10/50 --seeds 300-319 --policies fair,capped:0.25:1.5,sjf:0.5",
        "mirage dag compare --profiles tpch_profiles.json.gz --policies fifo,fair,weighted-fair:-1 --json",
        "mirage dag compare --policies capped,fair --moving-delay 10 --gap 15 --noise 0.2",
        "mirage dag compare --policies tree,fair --case large-job    one large job among small ones",
        "mirage dag compare --policies fair,tree,my-tree.txt --against tree    the shipped tree, and one from a file",
        "mirage dag compare --policies fair,decima:own,decima-argmax:own --setting 10/50",
        "mirage dag compare --policies decima-argmax --weights decima.npz --seeds 0-3",
        "mirage dag compare --setting 50/20 --batch --policies fair,critical-path,equal-finish",
        "mirage dag compare --seeds 0-199 --policies fair,decima:own --workers 4 --resume results",
        "mirage dag compare --setting 10/50 --policies tree,fair --plot pictures",
    ),
)
@click.option(
    "--profiles", metavar="FILE", help="Measured TPC-H profiles (JSON, or .gz of it).  [default: built-in jobs]"
)
@click.option(
    "--setting",
    "settings",
    type=WORDS,
    metavar="N/JOBS,…",
    help="Executors and jobs of an episode.  [default: 50/200, or those of the case]",
)
@click.option(
    "--seeds", default="0-9", show_default=True, metavar="LIST", help="Seeds of the episodes, such as 0,3,300-319."
)
@click.option(
    "--policies",
    cls=ExtensibleOption,
    group="mirage.stage_schedulers",
    type=WORDS,
    default="fair,capped",
    show_default=True,
    metavar="LIST",
    help="The policies to compare, with parameters after colons.",
)
@click.option(
    "--weights",
    metavar="FILE",
    help="Weights of decima and decima-argmax.  [default: the published ones next to the profiles]",
)
@click.option("--against", metavar="POLICY", help="Baseline of the differences.  [default: the first policy]")
@click.option("--gap", "gap_s", type=float, metavar="S", help="Mean time between arrivals.  [default: 25]")
@click.option("--batch", is_flag=True, help="Submit all jobs at the beginning.")
@click.option(
    "--moving-delay",
    "moving_s",
    type=float,
    metavar="S",
    help="Time an executor needs to move to another job.  [default: 2]",
)
@click.option("--noise", type=float, metavar="X", help="Stretch each duration by up to ± X.  [default: 0]")
@case_option
@click.option(
    "--environment",
    default="spark-sched-sim",
    show_default=True,
    metavar="NAME",
    help="Simulator dynamics: spark-sched-sim or decima-2019.",
)
@click.option(
    "--workers",
    type=COUNT,
    default=1,
    show_default=True,
    metavar="N",
    help="Parallel processes; a rule plays an episode faster than a process starts.",
)
@click.option("--resume", metavar="DIR", help="Store results in DIR as they arrive, and reuse those found there.")
@click.option(
    "--plot",
    "plots",
    metavar="DIR",
    help="Draw mean times with intervals, and the executors of the first seed's episode under the first two policies.",
)
@json_output
def compare(
    profiles: str | None,
    settings: tuple[str, ...] | None,
    seeds: str,
    policies: tuple[str, ...],
    weights: str | None,
    against: str | None,
    gap_s: float | None,
    batch: bool,
    moving_s: float | None,
    noise: float | None,
    case: str | None,
    environment: str,
    workers: int,
    resume: str | None,
    plots: str | None,
    as_json: bool,
) -> None:
    """Compare schedulers of stages by the time jobs take from arrival to end (JCT).

    Every scheduler gets the same jobs with the same durations, so differences are paired by seed. Policies of installed
    packages can be compared, too.
    """
    _refuse_contradictions(weights, policies, batch=batch, gap_s=gap_s)
    from mirage.dag.compare.dag_comparison import compare as compare_schedulers
    from mirage.dag.compare.dag_trial import Scene
    from mirage.dag.decima.decima_schedulers import with_weights
    from mirage.dag.setting import seeds_of
    from mirage.dag.simulator.dag_world import DagCluster
    from mirage.dag.workload.edge_cases import edge_case_of
    from mirage.dag.workload.generated import generated_templates
    from mirage.dag.workload.tpch import read_tpch
    from mirage.report.dag.comparison_charts import check_plots_folder, write_plots
    from mirage.report.dag.dag_comparison_text import print_comparison
    from mirage.report.terminal.progress import progress_bar
    from mirage.study.executors.local_processes import LocalProcesses

    usual = ("50/200",)
    played = chosen(case, settings=settings, gap_s=gap_s, moving_s=moving_s, noise=noise, usual=usual, batch=batch)
    sizes = [played.of(text, batch=batch) for text in played.settings]
    numbers = seeds_of(seeds)
    schedulers = [with_weights(text, weights, profiles) for text in policies]
    cluster = DagCluster(moving_s=played.moving_s, noise=played.noise, environment=environment)
    templates = generated_templates() if profiles is None else read_tpch(Path(profiles))
    if plots is not None:
        check_plots_folder(Path(plots))
    with progress_bar("episodes") as progress:
        comparison = compare_schedulers(
            templates,
            sizes,
            numbers,
            schedulers,
            against=against,
            cluster=cluster,
            progress=progress,
            executor=LocalProcesses(workers),
            resume_folder=None if resume is None else Path(resume),
        )
    for row in comparison.rows:
        if row.warning is not None:
            click.echo(f"mirage: warning: {row.warning}", err=True)
    if plots is not None:
        jobs = "built-in jobs" if profiles is None else Path(profiles).name
        scene = Scene(tuple(templates), tuple(schedulers), cluster)
        drawn = write_plots(Path(plots), comparison, scene, sizes, numbers, jobs)
        click.echo(f"mirage: wrote {', '.join(str(path) for path in drawn)}", err=True)
    if as_json:
        facts = {"profiles": profiles, "seeds": seeds, "case": case, "environment": environment, "batch": batch}
        click.echo(json.dumps(_report(comparison, played, facts), indent=2))
        return
    if case is not None:
        click.echo(f"{case}: {edge_case_of(case).about}")
    print_comparison(comparison)


def _report(comparison: DagComparison, played: Chosen, facts: dict[str, Any]) -> dict[str, Any]:
    """Returns the comparison and its options as JSON."""
    return {
        "rows": [row.to_json() for row in comparison.rows],
        "differences": [difference.to_json() for difference in comparison.differences],
        **facts,
        "gap_s": None if facts["batch"] else played.gap_s,
        "moving_s": played.moving_s,
        "noise": played.noise,
        "episodes_reused": comparison.reused,
        "version": __version__,
        "command": shlex.join(["mirage", *sys.argv[1:]]),
    }


def _refuse_contradictions(weights: str | None, policies: tuple[str, ...], *, batch: bool, gap_s: float | None) -> None:
    """Refuses options that contradict others or have no effect."""
    if weights is not None and not {"decima", "decima-argmax"} & set(policies):
        raise click.UsageError(
            "--weights is for the policies decima and decima-argmax, and neither is compared; "
            "name one, or leave --weights out"
        )
    if batch and gap_s is not None:
        raise click.UsageError(
            "--batch submits all jobs at the beginning, --gap is the time between them; give one of them"
        )
