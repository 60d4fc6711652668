"""``mirage doctor``: check this cluster for everything Mirage needs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from mirage.cli import cli_context as cluster
from mirage.cli.check_findings import print_findings
from mirage.cli.options import CONTEXT, examples, json_output
from mirage.errors import ConfigurationError, SlurmError, StoreError, WrongCluster

if TYPE_CHECKING:
    from mirage.slurm.client import SlurmClient
    from mirage.slurm.survey import Finding


@click.command(
    context_settings=CONTEXT,
    epilog=examples("mirage doctor", "mirage doctor --json", "mirage doctor --in-job -p service"),
)
@click.option(
    "--in-job", is_flag=True, help="Also run a job of a minute that tries whether an agent can live in a job."
)
@click.option("-p", "--partition", default="", metavar="NAME", help="Partition of that job.")
@json_output
@click.pass_context
def doctor(ctx: click.Context, in_job: bool, partition: str, as_json: bool) -> None:
    """Check the cluster's version, limits and settings; report what will not work and why.

    The last findings are the faithfulness of the simulator here, as measured by mirage calibrate --site, and the
    policies that it chose for auto.

    Submits nothing and changes nothing, except for the job of --in-job. Exit status 1 if something will not work.
    """
    from mirage.slurm.survey import survey

    if partition and not in_job:
        raise click.UsageError("-p is for the job of --in-job")
    slurm = cluster.client()
    findings = [*survey(slurm), *_hosting()]
    if any(finding.what == "cluster" for finding in findings):  # the controller has answered
        findings += [_trial(slurm, partition)] if in_job else []
        findings += [*_chains(), _polls(), _calibration(slurm), *_choices(slurm)]
    if print_findings(findings, as_json):
        ctx.exit(1)


def _hosting() -> list[Finding]:
    """Returns the rules of the site file, and what is wrong with the agent's folder."""
    from mirage.agent.failure.log_patterns import read_patterns
    from mirage.agent.failure.output_reading import OWN_PATTERNS
    from mirage.agent.hosting.installed_passes import entry_trouble
    from mirage.agent.paths import Home
    from mirage.agent.store.sql_store import check_store
    from mirage.slurm.survey import FAIL, OK, WARN, Finding

    findings = []
    try:
        site = cluster.site_rules()
    except ConfigurationError as error:
        findings.append(Finding(FAIL, "site file", "cannot be used; no chain is submitted", str(error)))
    else:
        if site.path:
            findings.append(Finding(OK, "site file", site.path, "; ".join(site.lines())))
        if site.is_login_node():
            findings.append(
                Finding(WARN, "login node", "nothing is compiled or calibrated here", site.login_refusal("compile"))
            )
    home = Home.named(os.environ)  # doctor makes no folder
    try:
        if os.path.lexists(home.folder / OWN_PATTERNS):
            read_patterns(home.folder / OWN_PATTERNS)
    except ConfigurationError as error:
        findings.append(Finding(FAIL, "log patterns", "cannot be used; only the built-in ones count", str(error)))
    try:
        home.check_writable()
        check_store(home.store_url)
    except StoreError as error:
        findings.append(Finding(FAIL, "folder", "cannot be used; no chain is submitted", str(error)))
    if home.folder.is_dir() and (trouble := entry_trouble(cluster.home())):
        findings.append(Finding(WARN, "passes", "the installed entry does not start passes", trouble))
    return findings


def _chains() -> list[Finding]:
    """Returns whether the chains of the store live on another cluster."""
    from mirage.agent.paths import Home
    from mirage.slurm.survey import FAIL, Finding

    if not Home.named(os.environ).folder.is_dir():
        return []
    try:
        with cluster.store(to_read=True) as store:
            cluster.check_cluster(store)
    except WrongCluster as error:
        return [Finding(FAIL, "chains", "of another cluster", str(error))]
    except StoreError:  # the finding of the folder reports it
        return []
    return []


def _trial(slurm: SlurmClient, partition: str) -> Finding:
    """Returns whether a job can submit jobs, as an agent in a job must."""
    from mirage.agent.hosting.agent_job import TRIAL_S, submission_trial
    from mirage.slurm.survey import FAIL, OK, WARN, Finding

    what = "agent in a job"
    try:
        done = slurm.runner.run(submission_trial(partition, os.environ), timeout_s=2.0 * TRIAL_S)
    except SlurmError as error:
        return Finding(WARN, what, "not known", str(error))
    printed = " ".join(done.stderr.split())
    if done.status and "invalid partition" in printed.lower():
        return Finding(FAIL, what, f"not tried: Slurm takes no partition {partition}", printed)
    if done.status:
        return Finding(FAIL, what, "does not work: sbatch or srun refused", printed)
    return Finding(OK, what, "works: compute nodes may submit jobs", printed)


def _polls() -> Finding:
    """Returns how often an agent polls the queue here."""
    from mirage.agent.settings import AgentSettings
    from mirage.slurm.survey import OK, Finding

    try:
        settings = AgentSettings().under(cluster.site_rules())
    except ConfigurationError:
        settings = AgentSettings()  # the finding of the site file reports it
    often = f"an agent runs squeue every {settings.poll_s} s, and every {settings.busy_poll_s} s during a hand-over"
    return Finding(OK, "polls", often)


def _calibration(slurm: SlurmClient) -> Finding:
    """Returns how faithful the simulator is here; costs one more query of slurm.conf."""
    from mirage.calibration.site.doctor_finding import WHAT, calibration_finding
    from mirage.cli.own_site import own_place
    from mirage.slurm.survey import WARN, Finding

    try:
        return calibration_finding(own_place(slurm.configuration()), cluster.clock())
    except SlurmError as error:
        return Finding(WARN, WHAT, "not known", str(error))


def _choices(slurm: SlurmClient) -> list[Finding]:
    """Returns the policies that an evaluation of this site chose."""
    from mirage.calibration.site.doctor_finding import choice_findings
    from mirage.cli.own_site import own_place

    try:
        return choice_findings(own_place(slurm.configuration()))
    except SlurmError:
        return []  # the calibration's finding reports it
