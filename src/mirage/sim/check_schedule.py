"""Check of a schedule: no job runs twice at once, too early, too long, or without nodes."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from mirage.array_types import Ints
from mirage.errors import ContractBroken
from mirage.job_state import MISSING
from mirage.kernel.record_arrays import Records
from mirage.sim.cluster import Cluster, Limit, NodeGroup
from mirage.sim.kernel.arrays import WHOLE_NODE
from mirage.sim.schedule import Schedule
from mirage.sim.workload import gpus_counted, is_counted, job_records


def check_schedule(schedule: Schedule, cluster: Cluster, *, complete: bool = True) -> None:
    """Check that a schedule is feasible.

    Valid for every discipline and policy. Where jobs share nodes, GPUs, CPUs and memory are summed over the nodes of a
    partition; a schedule does not contain which node a job ran on.

    Args:
        schedule: As returned by a simulation, stopped at any time.
        cluster: The simulated cluster.
        complete: Whether every job of the trace must have run.

    Raises:
        ContractBroken: The first violation found, with the job, the second and the shortfall.
    """
    _check_jobs(schedule, complete)
    _check_one_at_a_time(schedule)
    for limit in cluster.limits:
        _check_limit(schedule, cluster, limit)
    for groups in _unions_of_partitions(cluster):
        _check_capacity(schedule, cluster, groups)


def _name(schedule: Schedule, job: int) -> str:
    return f"job {schedule.table.job_id[job]}" if job < len(schedule.table) else f"injected job {job}"


def _check_jobs(schedule: Schedule, complete: bool) -> None:
    s = schedule.segments
    for wrong, what in (
        (s.start_s < s.submit_s, "starts at {start_s}, before it is submitted at {submit_s}"),
        (s.end_s < s.start_s, "ends at {end_s}, before it starts at {start_s}"),
        (s.end_s - s.start_s > s.limit_s, "runs from {start_s} to {end_s}, longer than its limit of {limit_s} s"),
        (s.width < 1, "runs on {width} nodes"),
    ):
        for segment in s[wrong]:
            fields = {name: int(segment[name]) for name in ("start_s", "end_s", "submit_s", "limit_s", "width")}
            raise ContractBroken(f"{_name(schedule, int(segment.id))} {what.format(**fields)}")
    never = np.flatnonzero(schedule.end_s == MISSING)
    if complete and len(never):
        raise ContractBroken(f"{_name(schedule, int(never[0]))} never ran ({len(never)} such jobs in all)")


def _check_one_at_a_time(schedule: Schedule) -> None:
    s = schedule.segments
    order = np.lexsort((s.end_s, s.start_s, s.id))
    before, after = s[order[:-1]], s[order[1:]]
    for k in np.flatnonzero((before.id == after.id) & (after.start_s < before.end_s)):
        raise ContractBroken(
            f"{_name(schedule, int(after.id[k]))} starts at {after.start_s[k]} while it runs until {before.end_s[k]}"
        )


def _levels(segments: Records, amount: Ints, times: Ints | None = None) -> tuple[Ints, Ints]:
    """The total that segments hold: (times, by default of all starts; level after each time)."""
    lasting = segments.end_s > segments.start_s
    starts_s, ends_s = segments.start_s[lasting], segments.end_s[lasting]
    times = np.unique(starts_s) if times is None else times
    started = np.concatenate([[0], np.cumsum(amount[lasting][np.argsort(starts_s, kind="stable")])])
    ended = np.concatenate([[0], np.cumsum(amount[lasting][np.argsort(ends_s, kind="stable")])])
    level: Ints = started[np.searchsorted(np.sort(starts_s), times, side="right")]
    return times, level - ended[np.searchsorted(np.sort(ends_s), times, side="right")]


def _check_limit(schedule: Schedule, cluster: Cluster, limit: Limit) -> None:
    """Check that no user or account is over a limit.

    A schedule does not contain QOS, partition and account of injected jobs, so limits on these do not count them; other
    limits do.
    """
    segments, holders, gpus = _counted(schedule, cluster, limit)
    for what, each, most in (
        ("jobs", np.ones(len(segments), dtype=np.int64), limit.jobs),
        ("nodes", segments.width, limit.nodes),
        ("GPUs", segments.width * gpus, limit.gpus),
    ):
        if most is None:
            continue
        for holder in np.unique(holders):
            own = holders == holder
            times, level = _levels(segments[own], each[own])
            for k in np.flatnonzero(level > most):
                counted_for = "all" if limit.per == "all" else f"{limit.per} {holder}"
                raise ContractBroken(f"{counted_for} has {level[k]} {what} at {times[k]}; the limit is {limit}")


def _counted(schedule: Schedule, cluster: Cluster, limit: Limit) -> tuple[Records, Ints, Ints]:
    """Segments that a limit counts, the holder of each, and its GPUs per node."""
    segments, table = schedule.segments, schedule.table
    if limit.qos or limit.partitions or limit.gpus is not None or limit.per == "account":
        segments = segments[segments.id < len(table)]
        jobs = job_records(table, cluster)[segments.id]
        counted = is_counted(jobs, cluster, limit)
        segments, jobs = segments[counted], jobs[counted]
        gpus = gpus_counted(jobs, cluster) // jobs.nodes
        account = jobs.account
    else:
        gpus = account = np.zeros(len(segments), dtype=np.int64)
    holders = {"user": segments.user, "account": account, "all": np.zeros(len(segments), dtype=np.int64)}
    return segments, holders[limit.per], gpus


def _unions_of_partitions(cluster: Cluster) -> list[frozenset[str]]:
    """Every set of groups that up to five partitions cover together."""
    own = [frozenset(g.name for g in cluster.groups_of(p)) for p in cluster.partitions]
    unions = {frozenset[str]().union(*some) for n in range(1, min(len(own), 5) + 1) for some in combinations(own, n)}
    return sorted({*unions, frozenset(g.name for g in cluster.groups)}, key=sorted)


def _check_capacity(schedule: Schedule, cluster: Cluster, groups: frozenset[str]) -> None:
    """Check that jobs which may only run on these groups hold no more than the groups have."""
    inside = [{g.name for g in cluster.groups_of(p)} <= groups for p in cluster.partitions]
    place = {p.name: k for k, p in enumerate(cluster.partitions)}
    of_name = np.array([inside[place.get(name, 0)] for name in schedule.table.partition.names] + [inside[0]])
    ours = schedule.segments.id < len(schedule.table)
    ours[ours] = of_name[schedule.table.partition.codes[schedule.segments.id[ours]]]
    segments = schedule.segments[ours]
    members = [g for g in cluster.groups if g.name in groups]
    begins_s = [r.start_s for r in cluster.reservations if r.announced_s is None and r.group in groups]
    for what, amount, sizes in _demands(schedule, segments, members, cluster):
        node_has = dict(zip((g.name for g in members), sizes))
        times, level = _levels(segments, amount)
        there = _there_is(cluster, node_has, times)
        for k in np.flatnonzero(level > there):
            raise ContractBroken(
                f"at {times[k]} jobs start although {level[k]} {what} are in use then and "
                f"{', '.join(sorted(groups))} have {there[k]}"
            )
        times, level = _levels(segments, amount, np.unique(begins_s).astype(np.int64))
        there = _there_is(cluster, node_has, times, may_stay=True)
        for k in np.flatnonzero(level > there):
            raise ContractBroken(
                f"{level[k]} {what} are in use at {times[k]}, when a reservation begins that was always known, and "
                f"{', '.join(sorted(groups))} have {there[k]} outside it"
            )


def _demands(
    schedule: Schedule, segments: Records, groups: list[NodeGroup], cluster: Cluster
) -> list[tuple[str, Ints, list[int]]]:
    """(Resource, amount used by each segment, amount of a node of each group)."""
    if not cluster.shared_nodes:
        return [("nodes", segments.width, [1] * len(groups))]
    jobs = job_records(schedule.table, cluster)[segments.id]
    whole = jobs.gpus == WHOLE_NODE  # takes all of its nodes, of which only a lower bound is known
    gpus = np.where(whole, min(g.gpus for g in groups), jobs.gpus)
    cpus = np.where(whole, min(g.cpus for g in groups), jobs.cpus)
    demands = [
        ("GPUs", segments.width * gpus, [g.gpus for g in groups]),
        ("CPUs", segments.width * cpus, [g.cpus for g in groups]),
    ]
    sizes = [g.memory_mib for g in groups if g.memory_mib is not None]
    if len(sizes) == len(groups):  # otherwise jobs may run where memory is not counted
        memory = np.where(whole | (jobs.memory == WHOLE_NODE), min(sizes), jobs.memory)
        demands.append(("MiB", segments.width * memory, sizes))
    return demands


def _there_is(cluster: Cluster, node_has: dict[str, int], times: Ints, may_stay: bool = False) -> Ints:
    """Units the groups have at each time.

    Nodes that leave do so as they become free. With several groups, or shared nodes, each may still have as many in use
    as before; with one, this holds only at times other than starts (``may_stay``). A reservation that was always known
    is empty when it begins.
    """
    there = np.zeros(len(times), dtype=np.int64)
    foreseen = {k for k, reservation in enumerate(cluster.reservations) if reservation.announced_s is None}
    for group in cluster.groups:
        steps = [m for m in cluster.capacity_steps() if m.group == group.name]
        away = [m for m in steps if m.reservation in foreseen]
        steps = [m for m in steps if m.reservation not in foreseen]
        levels = np.cumsum([group.count, *(m.nodes for m in steps)])
        if may_stay or cluster.shared_nodes or len(cluster.groups) > 1:
            levels = np.maximum.accumulate(levels)
        now = np.searchsorted([m.time_s for m in steps], times, side="right")
        reserved = np.cumsum([0, *(m.nodes for m in away)])[np.searchsorted([m.time_s for m in away], times, "right")]
        there += (levels[now] + reserved) * node_has.get(group.name, 0)
    return there
