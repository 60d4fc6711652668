"""Options of ``mirage schedule``: the cluster and the costs of starts."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import click

from mirage.cli.options import ExtensibleOption, option_group, seed_option
from mirage.cli.values import COUNT, WINDOW, WORDS, Count, Number
from mirage.version import __version__

if TYPE_CHECKING:
    from mirage.schedule.compare.gpu_trial import GpuSetting


NAMES = (
    "Built in: fifo, sjf, srtf, easy, tiresias, gittins, aryl, aryl-plus, pickyman, pickyman-plus, fitgpp, kueue, "
    "slurm-preempt, gavel, gavel-max-min, sia, sia-plus."
)
"""Names of schedulers for help texts, without importing them."""


def schedulers_option(default: str) -> Callable[[Any], Any]:
    """Returns ``--schedulers`` with the default of a command."""
    return click.option(
        "--schedulers",
        cls=ExtensibleOption,
        group="mirage.gpu_schedulers",
        type=WORDS,
        default=default,
        show_default=True,
        metavar="LIST",
        help=f"The schedulers, each NAME or NAME:KEY=VALUE.  {NAMES}",
    )


@dataclass(frozen=True, slots=True)
class PlayOptions:
    """The options of the cluster and the jobs to play."""

    profiles: str | None
    cluster: str
    first_jobs: int | None
    later: float
    cost_spread: float
    restart_s: float | None
    save_s: float | None
    checkpoint_s: float | None
    gpus_per_node: int | None
    prediction_error: float
    save_succeeds: float
    skip_impossible: bool
    demand: str | None
    window: tuple[float, float] | None
    assume: tuple[str, ...] | None
    seed: int

    def setting(self, schedulers: Iterable[str]) -> GpuSetting:
        """Returns the setting of all trials.

        Warns of GPU types without measured speeds, and of assumptions that change nothing.

        Args:
            schedulers: The schedulers of the trials.

        Raises:
            ClusterError: The cluster file cannot be used.
            ConfigurationError: A number cannot be used.
            UnknownName: There is no such cluster, assumption or scheduler.
        """
        from mirage.schedule.compare.assumptions import Assumptions
        from mirage.schedule.compare.gpu_trial import GpuSetting
        from mirage.schedule.compare.preemption_costs import PreemptionCosts
        from mirage.schedule.gpu_cluster import gpu_cluster

        assumptions = Assumptions.of(self.assume or ())
        setting = GpuSetting(
            cluster=assumptions.cluster(gpu_cluster(self.cluster)),
            profiles=self.profiles,
            seed=self.seed,
            cost_spread=self.cost_spread,
            later_s=self.later,
            first_jobs=self.first_jobs,
            skip_impossible=self.skip_impossible,
            preemption_costs=PreemptionCosts(self.restart_s, self.save_s, self.checkpoint_s),
            gpus_per_node=self.gpus_per_node,
            demand=self.demand,
            window_s=self.window,
            assumptions=assumptions,
            prediction_error=self.prediction_error,
            save_succeeds=self.save_succeeds,
        )
        _report_unmeasured(setting)
        _report_unused(setting, schedulers)
        return setting


play_options = option_group(
    "played",
    PlayOptions,
    click.option(
        "--profiles",
        metavar="DIR",
        help="Measured speeds of the jobs' models: a folder in the form of Pollux and Sia, or Gavel's JSON.  "
        "[default: all GPUs are equally fast]",
    ),
    click.option(
        "--cluster",
        default="sia64",
        show_default=True,
        metavar="FILE|NAME",
        help="The servers: a TOML file, or sia64, pool128, philly7704, aryl7704.",
    ),
    click.option(
        "--first-jobs", type=Count(most=1_000_000_000), metavar="N", help="Only the first N jobs of each workload."
    ),
    click.option(
        "--later",
        type=Number(min=0),
        default=0.0,
        metavar="SECONDS",
        help="Submit every job later by this much, to test whether results depend on the second.",
    ),
    click.option(
        "--cost-spread",
        type=Number(min=0),
        default=0.0,
        metavar="X",
        help="Coefficient of variation of the costs of starts and restarts.  [default: 0, always the mean]",
    ),
    click.option(
        "--restart-s",
        type=float,
        metavar="SECONDS",
        help="Cost of a start after a preemption, or of a move, for jobs of a Philly CSV or a job table.  [default: 0]",
    ),
    click.option(
        "--save-s",
        type=float,
        metavar="SECONDS",
        help="Time that such a job needs to save its work when it is preempted.  [default: 0]",
    ),
    click.option(
        "--checkpoint-s",
        type=float,
        metavar="SECONDS",
        help="Such jobs write a checkpoint every SECONDS of work: a preempted job is killed and repeats the work after "
        "its last checkpoint; with --save-s, only if that is faster than saving. Under sia and gavel it runs on to its "
        "next checkpoint.  [default: saved on demand]",
    ),
    click.option(
        "--gpus-per-node",
        type=COUNT,
        metavar="N",
        help="GPUs of a node, for a job table that records nodes but no GPUs.  [default: 1]",
    ),
    click.option(
        "--prediction-error",
        type=Number(min=0),
        default=0.0,
        metavar="SIGMA",
        help="Schedulers know predicted run times: the true ones times exp(SIGMA x N(0,1)), drawn for each job by "
        "--seed.  [default: the jobs' time limits, or true run times]",
    ),
    click.option(
        "--save-succeeds",
        type=Number(min=0, max=1),
        default=1.0,
        metavar="P",
        help="Probability that a preempted job saves its work on demand; otherwise it loses the work since its last "
        "checkpoint.  [default: 1]",
    ),
    click.option("--skip-impossible", is_flag=True, help="Leave out jobs that fit on no GPU type; do not stop."),
    click.option(
        "--demand",
        metavar="FILE|daily",
        help="Inference demand: a CSV time_s,pool,servers or time_s,pool,requests_per_s, with seconds on the clock of "
        "the workload, or daily for a daily shape in the pool inference. Jobs then run in the pool without demand, on "
        "its servers and those lent to it.  [default: none]",
    ),
    click.option(
        "--window",
        type=WINDOW,
        metavar="FROM-TO",
        help="Measure only jobs submitted in this window, such as 3d-13d, on the clock of the workload.  "
        "[default: all]",
    ),
    click.option(
        "--assume",
        type=WORDS,
        metavar="KEY=VALUE,…",
        help="Assumptions: elastic_jobs or elastic_gpu_time (shares), elastic_max, fungible, t4_per_v100, headroom, "
        "interval_s, demand_low, demand_high, notice_s, announce_error; for requests server_slots, service_s, "
        "wait_target_s, late_share, warm_up_s.",
    ),
    seed_option,
)
"""``--profiles``, ``--cluster`` and related options."""


def provenance(played: PlayOptions, setting: GpuSetting) -> dict[str, Any]:
    """Returns the provenance of the figures, for a report."""
    return {
        "cluster": played.cluster,
        "gpus": setting.cluster.gpus,
        "profiles": played.profiles,
        "restart_s": played.restart_s,
        "save_s": played.save_s,
        "checkpoint_s": played.checkpoint_s,
        "gpus_per_node": played.gpus_per_node,
        "demand": played.demand,
        "window_s": played.window,
        "assume": played.assume,
        "prediction_error": played.prediction_error,
        "save_succeeds": played.save_succeeds,
        "seed": played.seed,
        "version": __version__,
        "command": shlex.join(["mirage", *sys.argv[1:]]),
    }


def _report_unmeasured(setting: GpuSetting) -> None:
    from mirage.schedule.workload.gpu_workload import unmeasured_types

    unmeasured = unmeasured_types(setting.profiles, setting.cluster) if setting.profiles is not None else ()
    if unmeasured:
        click.echo(
            f"mirage: warning: {setting.profiles} has no speeds of GPU type {', '.join(unmeasured)}, so no job of its "
            "models runs there; name the cluster's GPU types as the profiles do",
            err=True,
        )


def _report_unused(setting: GpuSetting, schedulers: Iterable[str]) -> None:
    from mirage.schedule.compare.scheduler_text import SchedulerText
    from mirage.schedule.compare.sensitivity import why_unused

    named = [SchedulerText.of(text) for text in schedulers]
    for key in [key for key, value in asdict(setting.assumptions).items() if value is not None]:
        if reason := why_unused(key, setting, named):
            click.echo(f"mirage: warning: the assumption {key} changes nothing: {reason}", err=True)


def report_left_out(left_out: Iterable[tuple[str, int]], notes: Iterable[str], workload: str) -> None:
    """Prints on standard error remarks on a workload, and which of its jobs were not played."""
    for note in notes:
        click.echo(f"mirage: {note}", err=True)
    for reason, count in left_out:
        jobs = "job" if count == 1 else "jobs"
        click.echo(f"mirage: {workload}: {count:,} {jobs} left out: {reason}", err=True)
