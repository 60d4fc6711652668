"""The check of a cluster for a controller: what works, and what would be refused."""

from __future__ import annotations

import difflib
import pwd
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from mirage.control.control_view import FirstSubmissions, control_view
from mirage.control.model_profiles import check_scheduler, profiles_of_nodes
from mirage.control.pools_file import Pools
from mirage.control.progress_files import ProgressFiles
from mirage.control.verbs import FENCE, LOAN, Verb, command_of, is_of_controller
from mirage.errors import ConfigurationError, SlurmError, first_of, quantity, shown
from mirage.schedule.schedulers.view_schedulers import ELASTIC_SCHEDULERS
from mirage.slurm.client import SlurmClient
from mirage.slurm.gpu_snapshot import REQUESTS, GpuSnapshot, take_gpu_snapshot
from mirage.slurm.survey import FAIL, MEASURED, OK, OLDEST, WARN, Finding, detect

OPERATORS = ("operator", "administrator")


def check_control(slurm: SlurmClient, pools: Pools, time_s: float) -> list[Finding]:
    """The findings; nothing is changed.

    Args:
        slurm: The cluster.
        pools: The settings.
        time_s: The present time, in seconds since 1970.

    Raises:
        ConfigurationError: The scheduler cannot decide on views.
    """
    check_scheduler(pools)
    found: list[Finding] = [Finding(OK, "scheduler", pools.scheduler)]
    try:
        version = detect(slurm.runner)
        level = FAIL if version < OLDEST else OK if version[:2] == MEASURED[:2] else WARN
        advice = {FAIL: f"older than {OLDEST}", WARN: f"the levers were measured on {MEASURED}"}.get(level, "")
        found.append(Finding(level, "version", str(version), advice))
        options = slurm.configuration()
        snapshot = take_gpu_snapshot(slurm, time_s)
    except SlurmError as error:
        return [*found, Finding(FAIL, "controller", "no answer", str(error))]
    found.append(_rights(slurm, options))
    found += [*check_pools(snapshot, pools), *_jobs(snapshot, pools), *_reservations(snapshot, pools)]
    found += [check(options) for check in _OPTIONS]
    requests = 60 * REQUESTS / pools.poll_s
    found.append(Finding(OK, "requests", f"{requests:g} a minute: {REQUESTS} every {pools.poll_s} s"))
    return found


def _rights(slurm: SlurmClient, options: Mapping[str, str]) -> Finding:
    """Whether this user may use the levers of an operator."""
    user = slurm.user
    if user in ("root", options.get("slurmuser", "").partition("(")[0]):
        return Finding(OK, "rights", f"{user} may do everything", "an operator is enough: give a controller no more")
    try:
        words = ("sacctmgr", "--parsable2", "--noheader", "show", "user", user, "format=AdminLevel")
        level = slurm.output(words).strip().lower() or "none"
    except SlurmError as error:
        return Finding(WARN, "rights", f"not known for {user}", f"advice needs none; {error}")
    if level in OPERATORS:
        advice = "" if level == "operator" else "an operator is enough: give a controller no more"
        return Finding(OK, "rights", f"{user}: {level}", advice)
    grant = f"sacctmgr modify user {user} set AdminLevel=Operator"
    return Finding(
        WARN, "rights", f"{user}: {level}", f"advice needs none; every step would be refused without: {grant}"
    )


def check_pools(snapshot: GpuSnapshot, pools: Pools) -> Iterator[Finding]:
    """The nodes and partitions of the two pools."""
    nodes = {node.name: node for node in snapshot.nodes}
    partitions = {partition for node in snapshot.nodes for partition in node.partitions}
    for what, names, needed in (
        ("owner", pools.owner_nodes, pools.owner_partitions),
        ("borrower", pools.borrower_nodes, (pools.borrower_partition,)),
    ):
        absent = [name for name in names if name not in nodes]
        if absent:
            yield Finding(FAIL, what, f"{first_of(absent)}: no such node", "name the nodes as sinfo does")
            continue
        gone = [partition for partition in needed if partition not in partitions]
        if gone:
            yield Finding(
                FAIL, what, f"{', '.join(gone)}: no such partition, or one without nodes", "name it as sinfo does"
            )
            continue
        bare = [name for name in names if not nodes[name].gpus]
        if bare:
            yield Finding(FAIL, what, f"{first_of(bare)}: no GPU in sinfo", "leave these nodes out")
            continue
        outside = [name for name in names if pools.borrower_partition not in nodes[name].partitions]
        if outside:
            advice = f"a loan would be refused: put the nodes into partition {pools.borrower_partition}, behind a fence"
            yield Finding(WARN, what, f"{first_of(outside)}: not in {pools.borrower_partition}", advice)
        unusable = [name for name in names if not nodes[name].usable]
        gpus = sum(nodes[name].gpus for name in names)
        value = f"{quantity(len(names), 'node')}, {quantity(gpus, 'GPU')}" + (
            f", {len(unusable)} not usable now" if unusable else ""
        )
        yield Finding(OK, what, value)
    types = sorted({nodes[name].gpu_type for name in pools.nodes if name in nodes})
    if unknown := sorted(set(pools.gpu_speeds) - set(types)):
        advice = f"these speeds have no effect; Slurm reports the types {', '.join(types)}"
        yield Finding(WARN, "gpu_speeds", f"{', '.join(unknown)}: no node of the pools has this GPU type", advice)


def _jobs(snapshot: GpuSnapshot, pools: Pools) -> Iterator[Finding]:
    """The jobs that take part, and why others do not."""
    try:
        view = control_view(
            snapshot,
            pools,
            FirstSubmissions(),
            ProgressFiles(pools.progress_file).read,
            lambda nodes: profiles_of_nodes(pools, nodes),
        )
    except (SlurmError, ConfigurationError) as error:
        yield Finding(FAIL, "jobs", "no view", str(error))
        return
    running = sum(job.running for job in view.jobs)
    out = "; ".join(f"{quantity(count, 'job')} ({why})" for why, count in sorted(view.left_out.items()))
    others = {word for one in snapshot.jobs for word in one.job.comment.replace(",", " ").split()} - {pools.comment}
    for word in difflib.get_close_matches(pools.comment, sorted(others), n=1, cutoff=0.8) if out else []:
        out += f"; a comment has {shown(word)}, and the word of these pools is {shown(pools.comment)}"
    value = f"{len(view.jobs) - running} pending and {running} running jobs take part"
    yield Finding(OK if view.jobs else WARN, "jobs", value, f"left out: {out}" if out else "")
    if pools.scheduler in ELASTIC_SCHEDULERS:
        rigid = "; ".join(f"{count}: {why}" for why, count in sorted(view.rigid.items()))
        elastic = sum(job.sizes.elastic for job in view.jobs)
        yield Finding(WARN if rigid else OK, "sizes", f"{elastic} of these jobs are elastic", rigid)


def _is_user(name: str) -> bool:
    """Whether this host knows a user, as scontrol must to name it in a reservation."""
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def _reservations(snapshot: GpuSnapshot, pools: Pools) -> Iterator[Finding]:
    """The fence, the loans, and other reservations of the nodes."""
    owner = set(pools.owner_nodes)
    fenced = {node for one in snapshot.reservations if one.name == FENCE and one.active for node in one.nodes}
    unknown = [user for user in pools.owner_users if not _is_user(user)]
    if unknown:
        yield Finding(
            FAIL, "fence", f"{first_of(unknown)}: no such user", "correct users in [owner]: names of users here"
        )
    elif owner - fenced:
        named = pools if pools.owner_users or pools.owner_accounts else replace(pools, owner_users=("USERS_OF_OWNER",))
        create = command_of(Verb("fence"), named)
        value = f"{len(owner - fenced)} of {len(owner)} nodes of the owner are not behind {FENCE}"
        yield Finding(
            WARN, "fence", value, f"nothing keeps borrowers out of them; an operator runs: {shlex.join(create)}"
        )
    else:
        yield Finding(OK, "fence", f"{FENCE} has all nodes of the owner")
    loans = [one for one in snapshot.reservations if one.name.startswith(LOAN)]
    strange = [one.name for one in loans if one.nodes != (one.name.removeprefix(LOAN),) or not set(one.nodes) <= owner]
    if strange:
        advice = "a loan has one node of the owner, the one in its name; delete these reservations"
        yield Finding(WARN, "loans", f"{first_of(strange)}: not loans of these pools", advice)
    yield Finding(OK, "loans", f"{len(loans) - len(strange)} now")
    for pool, nodes, advice in (
        ("owner", owner, "Slurm would refuse a loan that overlaps a reservation without the flag OVERLAP"),
        ("borrower", set(pools.borrower_nodes), "free GPUs of a node that is reserved for others do not count"),
    ):
        others = [
            one.name for one in snapshot.reservations if set(one.nodes) & nodes and not is_of_controller(one.name)
        ]
        if others:
            yield Finding(WARN, "reservations", f"{first_of(others)} on nodes of the {pool}", advice)


def _requeue(options: Mapping[str, str]) -> Finding:
    if options.get("jobrequeue", "1") == "0":
        advice = "a requeue would be refused for jobs without sbatch --requeue"
        return Finding(WARN, "requeue", "JobRequeue=0", advice)
    return Finding(OK, "requeue", f"jobs are killed {options.get('killwait', '30 sec')} after SIGTERM (KillWait)")


def _preemption(options: Mapping[str, str]) -> Finding:
    kind = options.get("preempttype", "preempt/none")
    if kind.endswith("none"):
        return Finding(OK, "preemption", "none by Slurm itself")
    return Finding(WARN, "preemption", kind, "Slurm itself may preempt jobs that take part")


def _priorities(options: Mapping[str, str]) -> Finding:
    kind = options.get("prioritytype", "priority/basic")
    value = f"{kind}; the order of starts is set by nice values"
    return Finding(OK, "priorities", value)


_OPTIONS: tuple[Callable[[Mapping[str, str]], Finding], ...] = (_requeue, _preemption, _priorities)
