"""``--gangs`` of ``mirage trace generate``: a workload of gangs for ``mirage schedule``."""

from __future__ import annotations

from dataclasses import dataclass

import click
from click.core import ParameterSource

from mirage.atomic_file import write_output
from mirage.cli.options import option_group
from mirage.cli.output import check_output
from mirage.cli.values import COUNT
from mirage.duration import DAY_S
from mirage.errors import quantity

ALLOWED = ("gangs", "epochs", "cluster", "cap_days", "days", "jobs", "load", "seed", "out")
"""Options that a workload of gangs takes; every other option is refused."""

DEFAULT_CLUSTER = "pool128"


@dataclass(frozen=True, slots=True)
class GangOptions:
    """The options of a workload of gangs; None where an option was not given."""

    gangs: bool
    epochs: int | None
    cluster: str | None
    cap_days: float | None

    def write(self, out: str, *, jobs: int | None, days: float | None, load: float | None, seed: int) -> None:
        """Writes the workload, and reports what it contains.

        Raises:
            UsageError: An option contradicts ``--gangs``.
            MirageError: A number or the cluster cannot be used, or the file cannot be written.
        """
        _refuse_others()
        if jobs is None and days is None:
            raise click.UsageError("--gangs needs --jobs or --days")
        if not out.endswith(".csv"):
            raise click.UsageError(f"--gangs writes CSV only: {out} does not end in .csv")
        check_output(out)
        from mirage.schedule.gpu_cluster import gpu_cluster
        from mirage.schedule.workload.generate_gangs import CAP_S, DEFAULT_EPOCHS, generate_gangs

        cluster = self.cluster or DEFAULT_CLUSTER
        found = generate_gangs(
            gpu_cluster(cluster).gpus,
            seed=seed,
            jobs=jobs,
            days=days,
            load=1.0 if load is None and None in (jobs, days) else load,
            epochs=DEFAULT_EPOCHS if self.epochs is None else self.epochs,
            cap_s=CAP_S if self.cap_days is None else self.cap_days * DAY_S,
        )
        write_output(out, found.to_csv())
        click.echo(
            f"mirage: {quantity(len(found), 'job')} over {found.submit_s[-1] / DAY_S:.1f} days at load "
            f"{found.offered_load:.2f} of {cluster}, {found.wide_share:.0%} of the GPU time in gangs of 16 GPUs or "
            f"more, written to {out} for 'mirage schedule' with --cluster {cluster}",
            err=True,
        )

    def refuse_alone(self) -> None:
        """Refuses options of gangs without ``--gangs``.

        Raises:
            UsageError: There is one.
        """
        given = {"--epochs": self.epochs, "--cluster": self.cluster, "--cap-days": self.cap_days}
        for option, value in given.items():
            if value is not None:
                raise click.UsageError(f"{option} needs --gangs")


def _refuse_others() -> None:
    context = click.get_current_context()
    for parameter in context.command.params:
        name = parameter.name or ""
        if name not in ALLOWED and context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--gangs and {parameter.opts[-1]} exclude each other")


gang_options = option_group(
    "gang",
    GangOptions,
    click.option("--gangs", is_flag=True, help="Write GPU jobs of 1 to 64 GPUs for 'mirage schedule', as CSV."),
    click.option("--epochs", type=COUNT, metavar="N", help="Epochs of a job of --gangs.  [default: 40]"),
    click.option(
        "--cluster",
        metavar="FILE|NAME",
        help="GPU cluster of --gangs; --load is of its GPUs. Give it to 'mirage schedule', too.  [default: "
        f"{DEFAULT_CLUSTER}]",
    ),
    click.option(
        "--cap-days", type=float, metavar="N", help="Longest run time of a job of --gangs, in days.  [default: 3]"
    ),
)
"""``--gangs`` and the options that need it."""
