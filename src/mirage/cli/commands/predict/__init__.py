"""``mirage predict``: when a job will start, and which request would start sooner."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from mirage.cli import cli_context as cluster
from mirage.cli.commands.chain.sbatch_words import LikeSbatch, misplaced
from mirage.cli.options import CONTEXT, ExtensibleOption, examples, json_output, seed_option
from mirage.cli.values import LIMITED_DURATION, Count
from mirage.duration import format_duration
from mirage.errors import ConfigurationError, SlurmError, SlurmRefused, quantity
from mirage.job_state import MISSING

if TYPE_CHECKING:
    from mirage.cli.commands.predict.by_accounts import WaitsByAccounts
    from mirage.cli.commands.predict.cluster_now import ClusterNow
    from mirage.cli.commands.predict.reported_prediction import ReportedPrediction
    from mirage.predict.start.promise_file import Promises

MOST_JOBS = 20
"""Maximum number of jobs that ``--mine`` predicts, those first in the queue."""


@click.command(
    cls=LikeSbatch,
    context_settings=CONTEXT,
    options_metavar="[SBATCH OPTIONS] [OPTIONS]",
    epilog=examples(
        "mirage predict train.sh                  when would it start if it were submitted now?",
        "mirage predict -p gpu -N 4 -t 12:00:00   the same without a script",
        "mirage predict --job 4711                a pending job",
        "mirage predict --mine                    all your pending jobs",
        "mirage predict --compare train.sh        which request would start sooner",
        "mirage predict --compare --nodes 1,2,4 --time 4h,8h,12h train.sh",
        "mirage predict --waits waits.model train.sh   also by a model trained on accounting",
        "mirage predict --calibration             how past promises held on this cluster",
    ),
)
@click.option("--job", type=Count(most=2**32), metavar="ID", help="Predict a pending job.")
@click.option("--mine", is_flag=True, help="Predict all your pending jobs.")
@click.option(
    "--compare",
    is_flag=True,
    help="Compare nodes, limits and partitions: --nodes, --time and --partition then accept lists. Without lists: "
    "shorter limits, and all partitions that accept the job.",
)
@click.option(
    "--waits",
    "waits_model",
    cls=ExtensibleOption,
    group="mirage.wait_models",
    metavar="MODEL",
    help="Also predict by a model from accounting alone, and blend its ranges with the queue's by past outcomes: a "
    "file of `mirage train predict`, or a NAME.",
)
@click.option("--calibration", is_flag=True, help="Show how past promises held, by partition and size.")
@click.option(
    "--history",
    "history_s",
    type=LIMITED_DURATION,
    default="3d",
    show_default=True,
    metavar="TIME",
    help="Period of accounting to read, up to now, for run times and future arrivals.",
)
@seed_option
@json_output
@click.pass_context
def predict(
    ctx: click.Context,
    /,
    job: int | None,
    mine: bool,
    compare: bool,
    waits_model: str | None,
    calibration: bool,
    history_s: int,
    seed: int,
    as_json: bool,
) -> None:
    """Predict when a job will start, as a range, and print Slurm's own estimate.

    Accepts every option of sbatch, and reads #SBATCH lines and sbatch's environment variables. Nothing is submitted.
    The queue is simulated many times with run times and new jobs drawn from accounting; the printed ranges contain
    50 %, 80 % and 95 % of the simulated starts. Every prediction is stored in the folder of your agent and compared
    with the actual start.
    """
    words: list[str] = ctx.meta["sbatch"]
    ways = [job is not None, mine, calibration, bool(words)]
    if sum(ways) > 1:
        raise click.UsageError("--job, --mine, --calibration, and a script or options of sbatch exclude each other")
    if compare and any(ways[:3]):
        raise click.UsageError("--compare needs a script or options of sbatch, not --job, --mine or --calibration")
    if not any(ways) and not compare:
        raise click.UsageError("name the job: a script or options of sbatch, --job ID, or --mine; see --help")
    if waits_model is not None and (compare or not words):
        raise click.UsageError("--waits predicts one job to submit: give a script or options of sbatch")
    from mirage.predict.start.promise_file import Promises

    promises = Promises(cluster.home().promises)
    if calibration:
        _show_calibration(promises, history_s, as_json=as_json)
        return
    if words or compare:
        _predict_request(promises, words, history_s, seed, waits_model, comparing=compare, as_json=as_json)
        return
    _predict_pending(promises, job, history_s, seed, as_json=as_json)


def _predict_request(
    promises: Promises,
    words: list[str],
    history_s: int,
    seed: int,
    waits_model: str | None,
    *,
    comparing: bool,
    as_json: bool,
) -> None:
    from concurrent.futures import ThreadPoolExecutor

    from mirage.cli.commands.predict import by_accounts, comparison
    from mirage.cli.commands.predict.cluster_now import observe_cluster, with_advice
    from mirage.cli.commands.predict.reported_prediction import blended, learnt, learnt_blend, promise, report_request
    from mirage.cli.commands.predict.requested_job import read_request, slurms_estimate
    from mirage.slurm.text.requested_size import requested_size

    model = by_accounts.AccountsModel.of(waits_model) if waits_model is not None else None
    requested = read_request(words, comparing=comparing)
    for remark in misplaced(click.get_current_context(), requested.script or None, requested.arguments):
        click.echo(remark, err=True)
    client = cluster.client()
    with with_advice():
        cluster.check_controller(client)
    with ThreadPoolExecutor(1) as pool:  # both at the same moment
        estimated = pool.submit(slurms_estimate, client, requested)
        now = observe_cluster(client, history_s, seed=seed)
    size = requested_size(requested.given, now.machine, now.shared)
    try:
        estimate = estimated.result()
    except SlurmRefused as error:
        most = max(len(place.nodes) for place in now.machine.partitions if place.name in size.partitions)
        if size.nodes <= most:
            raise
        raise ConfigurationError(
            f"{error}; the job requests {quantity(size.nodes, 'node')}, and its partition has {most}: request fewer, "
            "or another partition"
        ) from error
    correction = learnt(promises, now)
    reported = report_request(now, requested, size, estimate.start_s if estimate else MISSING, correction)
    waits = model.waits(now, requested, size) if model is not None else None
    if waits is not None:
        reported = blended(reported, waits.waits_s, learnt_blend(promises, now), now.queue.time_s)
    if not requested.given.keys() & {"hold", "dependency"}:  # their wait is unknown, and not the predicted one
        promise(promises, now, [reported])
    if comparing:
        first, offers = comparison.offers_for(now, requested, size)
        comparison.show(now, offers, first, correction, reported.remarks, as_json=as_json)
        return
    _show(now, [reported], waits, as_json=as_json, single=True)


def _predict_pending(promises: Promises, job: int | None, history_s: int, seed: int, *, as_json: bool) -> None:
    from mirage.cli.commands.predict.cluster_now import observe_cluster
    from mirage.cli.commands.predict.reported_prediction import learnt, pending_job, promise, report_pending

    now = observe_cluster(cluster.client(), history_s, seed=seed)
    jobs = [pending_job(now, job)] if job is not None else sorted(now.mine(), key=lambda one: (-one.priority, one.id))
    if len(jobs) > MOST_JOBS:
        click.echo(f"mirage: of {len(jobs)} pending jobs the first {MOST_JOBS} are predicted", err=True)
    correction = learnt(promises, now)
    reported = [report_pending(now, one, correction) for one in jobs[:MOST_JOBS]]
    promise(promises, now, reported)
    if not reported and not as_json:
        click.echo("mirage: you have no pending jobs", err=True)
    _show(now, reported, as_json=as_json, single=job is not None)


def _show(
    now: ClusterNow,
    reported: Sequence[ReportedPrediction],
    waits: WaitsByAccounts | None = None,
    *,
    as_json: bool,
    single: bool,
) -> None:
    from mirage.cli.commands.predict.faithfulness import faithfulness_note, faithfulness_record
    from mirage.cli.commands.predict.reported_prediction import as_record

    if as_json:
        simulator = faithfulness_record(now)
        records = []
        for one in reported:
            by_accounts = {} if waits is None else {"by_accounts": {**waits.record(), "blended_by": one.blended}}
            records.append({**as_record(one, now.queue.time_s), **by_accounts, "simulator": simulator})
        click.echo(json.dumps(records[0] if single else records, indent=2))
        return
    for one in reported:
        _print(now, one)
    if waits is not None:
        click.echo(waits.line())
    if reported:
        from mirage.report.terminal.prediction_text import blend_note, calibration_note

        for remark in dict.fromkeys(remark for one in reported for remark in one.remarks):
            click.echo(f"note: {remark}", err=True)
        click.echo(f"note: {calibration_note(reported[0].outcomes, max(one.corrected for one in reported))}", err=True)
        if waits is not None:
            click.echo(f"note: {blend_note(waits.model, reported[0].blended)}", err=True)
        click.echo(f"note: {faithfulness_note(now)}", err=True)


def _print(now: ClusterNow, reported: ReportedPrediction) -> None:
    from mirage.report.terminal.prediction_text import local, prediction_lines

    what = f"job {reported.job} ({reported.name})" if reported.job != MISSING else reported.name or "a job"
    limit = format_duration(reported.limit_s) if reported.limit_s != MISSING else "no limit"
    nodes = f"{reported.nodes} {'node' if reported.nodes == 1 else 'nodes'}"
    click.echo(f"{what}: {nodes} for {limit} in {reported.partition}")
    click.echo(f"  {'queue':<8} {len(now.view.pending)} waiting, {len(now.view.running)} running")
    if reported.prediction is None:
        by_slurm = (
            f"Slurm expects {local(reported.slurm_s)}"
            if reported.slurm_s != MISSING
            else "Slurm has no estimate either"
        )
        click.echo(f"  {'start':<8} cannot be predicted: {reported.why}; {by_slurm}")
        return
    if reported.why:
        click.echo(f"  {'waits':<8} {reported.why}")
    slurm_s = reported.slurm_s if reported.slurm_s != MISSING else None
    prediction = reported.prediction
    for line in prediction_lines(
        reported.quantiles_s, now.queue.time_s, prediction.horizon_s, slurm_s, len(prediction.waits_s)
    ):
        click.echo(line)


def _show_calibration(promises: Promises, history_s: int, *, as_json: bool) -> None:
    """Fills in the actual starts, and shows how past promises held."""
    from mirage.cli.commands.predict.cluster_now import accounts, with_advice
    from mirage.predict.start.promise import OPEN
    from mirage.predict.start.promise_calibration import calibration
    from mirage.report.terminal.prediction_text import print_calibration
    from mirage.slurm.backend import cluster_of

    client = cluster.client()
    try:
        with with_advice():
            cluster.check_controller(client)
            here, queue = cluster_of(client.configuration()), client.observe()
    except SlurmError as error:
        stored = promises.clusters()
        if len(stored) != 1:
            raise
        here = stored[0]
        remarks: tuple[str, ...] = (f"promises of {stored[0]} without starts since the last command: {error}",)
    else:
        waiting = promises.of(here, OPEN)
        since_s = min([queue.time_s - history_s, *(promise.made_s for _, promise in waiting)])
        accounted, remarks = accounts(client, since_s)
        promises.fill_in(here, [*accounted, *queue.jobs], queue.time_s)
    groups, still = calibration(promises.settled(here)), len(promises.of(here, OPEN))
    if as_json:
        click.echo(json.dumps({"cluster": here, "open": still, "groups": [one.to_json() for one in groups]}, indent=2))
        return
    if groups:
        print_calibration(groups)
    for remark in remarks:
        click.echo(f"note: {remark}", err=True)
    known = groups[0].settled if groups else 0
    click.echo(
        f"{known} {'promise' if known == 1 else 'promises'} with a known start on this cluster, {still} open", err=True
    )
