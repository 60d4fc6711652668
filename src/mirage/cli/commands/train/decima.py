"""``mirage train decima``: a graph network that schedules jobs of stages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mirage.cli.cli_context import check_login_node
from mirage.cli.options import CONTEXT, examples, json_output, seed_option
from mirage.cli.output import check_distinct, check_output, resumable
from mirage.cli.values import COUNT_OR_NONE, Number
from mirage.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mirage.dag.decima.networks.layers import Perceptrons
    from mirage.dag.workload.templates import JobTemplate


@click.command(
    context_settings=CONTEXT,
    epilog=examples(
        "mirage train decima -o network.model",
        "mirage train decima --profiles tpch_profiles.json.gz --minutes 60 -o network.model",
        "mirage dag compare --policies fair,capped,decima-argmax:network.model",
    ),
)
@click.option("-o", "--out", required=True, metavar="MODEL", help="File to write.")
@click.option(
    "--profiles", metavar="FILE", help="Measured TPC-H profiles (JSON, or .gz of it).  [default: built-in jobs]"
)
@click.option(
    "--minutes", type=Number(min=0), default=120.0, show_default=True, metavar="N", help="Minutes to spend at most."
)
@click.option(
    "--imitations",
    type=COUNT_OR_NONE,
    default=40,
    show_default=True,
    metavar="N",
    help="Steps in which the network imitates heuristics.",
)
@click.option(
    "--iterations",
    type=COUNT_OR_NONE,
    default=300,
    show_default=True,
    metavar="N",
    help="Steps in which it learns from the outcomes of its decisions.",
)
@click.option(
    "--resume",
    "checkpoint",
    metavar="FILE",
    help="File to store every step in, and to resume a killed training from.  [default: MODEL.checkpoint]",
)
@click.option(
    "--judged",
    type=COUNT_OR_NONE,
    default=4,
    show_default=True,
    metavar="N",
    help="Held-out episodes of each kind for the figures of MODEL.",
)
@seed_option
@json_output
def decima(
    out: str,
    profiles: str | None,
    minutes: float,
    imitations: int,
    iterations: int,
    checkpoint: str | None,
    judged: int,
    seed: int,
    as_json: bool,
) -> None:
    """Learn to schedule jobs of stages, and write the network to MODEL.

    The network first imitates two heuristics, then improves by policy gradients on clusters of 50 and of 10 executors.
    Every step is printed on standard error and stored: a killed or interrupted training resumes when the same command
    is repeated, even with more --minutes. With anything else changed it is refused. --seed decides which jobs arrive;
    those of --judged are never among them.
    """
    checkpoint_file = Path(checkpoint or f"{out}.checkpoint")
    check_output(out, profiles)
    check_output(checkpoint_file, profiles)
    check_distinct(out, checkpoint)
    check_login_node("train")
    from mirage.learn.required_packages import check_packages

    check_packages("mirage train decima", ["torch"])
    from mirage.dag.decima.network_file import write_network
    from mirage.dag.decima.training.decima_training import DecimaTrainingPlan, train
    from mirage.dag.workload.generated import generated_templates
    from mirage.dag.workload.templates import templates_digest
    from mirage.dag.workload.tpch import read_tpch

    templates = generated_templates() if profiles is None else read_tpch(Path(profiles))
    plan = DecimaTrainingPlan(seed=seed, imitations=imitations, iterations=iterations)
    with resumable(checkpoint_file):
        net, progress = train(
            templates,
            plan,
            checkpoint_file,
            budget_s=60 * minutes,
            report=lambda figures: click.echo(json.dumps(figures), err=True),
        )
        if progress.step == 0:
            raise ConfigurationError(
                f"the network has learnt nothing: there is no {checkpoint_file}, and no step fits into --minutes, "
                "--imitations and --iterations; give more of them, or the --resume of a killed training"
            )
        figures = _judged(templates, net, judged)
    learnt = {"steps": progress.step, "seed": seed, "profiles": templates_digest(templates)}
    try:
        write_network(out, net, jobs=progress.jobs, figures=figures, settings=learnt)
    except OSError as error:
        raise ConfigurationError(f"cannot write {out}: {error.strerror}") from error
    report = {"model": out, "steps": progress.step, "spent_s": round(progress.spent_s, 1), **figures}
    if as_json:
        click.echo(json.dumps({**report, "curve": progress.curve}, indent=2))
        return
    for name, value in report.items():
        click.echo(f"{name:20} {value}")


def _judged(templates: Sequence[JobTemplate], net: Perceptrons, episodes: int) -> dict[str, float]:
    """Returns mean completion times on held-out episodes of each kind; empty without episodes."""
    import numpy as np

    from mirage.dag.decima.decima_schedulers import OWN, scheduler_of
    from mirage.dag.simulator.dag_simulation import DagSimulation
    from mirage.dag.simulator.dag_world import DagCluster
    from mirage.dag.workload.dag_arrivals import poisson_arrivals

    figures: dict[str, float] = {}
    if episodes == 0:
        return figures
    for executors, jobs in ((50, 200), (10, 50)):
        for name in ("drawn", "argmax"):
            scheduler = scheduler_of(name, OWN, net, argmax=name == "argmax")
            means = []
            for seed in range(episodes):
                arrivals = poisson_arrivals(jobs, seed, templates=len(templates))
                simulation = DagSimulation(templates, arrivals, DagCluster(executors), seed=seed)
                outcome = simulation.run(scheduler.decider, scheduler.parameters_for(seed))
                means.append(outcome.jct_s.mean())
            figures[f"{name}_{executors}/{jobs}_jct_s"] = round(float(np.mean(means)), 2)
    return figures
