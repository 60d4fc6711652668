"""Accounts of the cluster that Mirage runs on, collected from sacct in slices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from mirage.calibration.declared_settings import DeclaredSettings
from mirage.calibration.fit_mechanisms import SHORTEST_S, WARM_UP_S
from mirage.calibration.inferred.capacity import ran
from mirage.duration import DAY_S, HOUR_S
from mirage.errors import ConfigurationError, RequestNotSent, SlurmError, SlurmUnreachable
from mirage.job_state import MISSING, UNFINISHED, JobState
from mirage.sim.slurm_conf.associations import associations
from mirage.sim.slurm_conf.qos import QosTable, qos_table
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from mirage.slurm.backend import cluster_of
from mirage.slurm.client import SlurmClient
from mirage.slurm.records import Machine
from mirage.slurm.slurm_view import shares_nodes
from mirage.slurm.text.sacct import HISTORY_FIELDS
from mirage.slurm_words.timestamps import LocalClock
from mirage.trace.formats.read_report import ReadTally
from mirage.trace.formats.sacct_text import read_sacct
from mirage.trace.table import JobTable

LEAST_S = WARM_UP_S + 2 * SHORTEST_S
"""Two weeks of warm-up, a slice to fit to, a slice to judge on."""

FEWEST_JOBS = 200
"""With fewer jobs that ran, figures of fidelity are dominated by chance."""

SHORTEST_QUERY_S, LONGEST_QUERY_S = 6 * HOUR_S, 7 * DAY_S
QUICK_S, SLOW_S = 2.0, 20.0
"""Real seconds: after a faster answer the next query covers up to twice the time, after a slower one about half."""

PAUSE_S = 0.2
"""Real seconds between two queries, at least; the pause is twice the duration of the answer where that is longer."""

KNOWN_BY_THEN_S = 7 * DAY_S
"""If the accounts of this period contain jobs of one user only, others may be hidden."""


@dataclass(frozen=True, slots=True)
class SiteAccounts:
    """Accounts and settings of a cluster, read from its commands.

    Attributes:
        cluster: Its unique name, as ``cluster_of`` returns it.
        jobs: Jobs of the pool, by submission; running jobs are assumed to end now.
        declared: Its scheduler, from ``scontrol show config``, and its QOS, where ``sacctmgr`` prints them.
        pool: The nodes that are calibrated.
        remarks: Notes on jobs left out and on partitions that are not distinguished, as text.
    """

    cluster: str
    jobs: JobTable
    declared: DeclaredSettings
    pool: Pool
    remarks: tuple[str, ...]

    def facts(self) -> dict[str, object]:
        """Returns the facts that a cluster file contains about it."""
        return {"cluster": self.cluster, "partitions": list(self.pool.partitions), "remarks": list(self.remarks)}


@dataclass
class SacctHistory:
    """Jobs of the last weeks, the newest first, queried at the low rate a login node needs.

    Args:
        slurm: The cluster.
        sleep: Sleeps for a number of real seconds.
        real_s: Monotonic clock in real seconds.
        on_part: Called after every answer with the seconds covered so far, and the seconds to cover in total.
    """

    slurm: SlurmClient
    sleep: Callable[[float], object]
    real_s: Callable[[], float]
    on_part: Callable[[int, int], object] = lambda done, most: None
    rows: dict[tuple[str, str], str] = field(default_factory=dict)

    def gather(self, now_s: int, since_s: int) -> JobTable:
        """Returns the jobs of all users submitted since then.

        Raises:
            ConfigurationError: Accounting shows only the own jobs.
            SlurmUnreachable: Accounting does not answer even for a quarter of a day.
            SlurmRefused: There is no accounting.
        """
        until_s, length_s, checked = now_s, DAY_S, False
        while until_s > since_s:
            from_s = max(until_s - length_s, since_s)
            begun_s = self.real_s()
            try:
                self._store(self.slurm.history(from_s, until_s))
            except RequestNotSent:
                raise
            except SlurmUnreachable:
                if length_s <= SHORTEST_QUERY_S:
                    raise
                length_s = max(length_s // 2, SHORTEST_QUERY_S)
                self._rest(begun_s)
                continue
            until_s = from_s
            length_s = self._next_length_s(length_s, self.real_s() - begun_s)
            self.on_part(now_s - until_s, now_s - since_s)
            if not checked and now_s - until_s >= KNOWN_BY_THEN_S:
                checked = True
                self._check_users()
            if until_s > since_s:
                self._rest(begun_s)
        if not checked:
            self._check_users()
        jobs = self._table(now_s)
        return jobs[jobs.submit_s >= since_s].sorted_by_submit()

    def _store(self, text: str) -> None:
        """Stores rows of an answer, each attempt of a job once: long jobs are in several."""
        number, submit = HISTORY_FIELDS.index("JobID"), HISTORY_FIELDS.index("Submit")
        for line in text.splitlines():
            cells = line.split("|")
            if len(cells) == len(HISTORY_FIELDS) and cells[number] != HISTORY_FIELDS[number]:
                self.rows.setdefault((cells[number], cells[submit]), line)

    def _next_length_s(self, length_s: int, took_s: float) -> int:
        if took_s > SLOW_S:
            return max(length_s // 2, SHORTEST_QUERY_S)
        return min(length_s * 2, LONGEST_QUERY_S) if took_s < QUICK_S else length_s

    def _rest(self, begun_s: float) -> None:
        self.sleep(max(PAUSE_S, 2 * (self.real_s() - begun_s)))

    def _check_users(self) -> None:
        place = HISTORY_FIELDS.index("User")
        users = {line.split("|")[place] for line in self.rows.values()} - {""}
        if users - {self.slurm.user}:
            return
        private = self.slurm.accounts_are_private()
        if private or (private is None and users):
            why = "PrivateData=jobs in slurmdbd.conf" if private else "nothing shows that there are no others"
            raise _hidden(f"accounting shows only jobs of {self.slurm.user} ({why})")

    def _table(self, now_s: int) -> JobTable:
        tally = ReadTally("sacct", "skip")
        text = "\n".join(["|".join(HISTORY_FIELDS), *self.rows.values(), ""])
        jobs = read_sacct(text.encode(), tally, LocalClock("UTC"), None)
        runs = np.isin(jobs.state, [int(state) for state in UNFINISHED]) & (jobs.start_s >= 0)
        return jobs.with_columns(
            end_s=np.where(runs, now_s, jobs.end_s), state=np.where(runs, int(JobState.COMPLETED), jobs.state)
        )


def site_accounts(history: SacctHistory, now_s: int, weeks: int) -> SiteAccounts:
    """Reads everything that the calibration of a cluster needs.

    Args:
        history: Its accounts.
        now_s: The cluster's time.
        weeks: Length of the history to read.

    Raises:
        ConfigurationError: Accounts show only the own jobs, are too short, or contain too few jobs; or jobs share
            nodes.
        SlurmError: A command failed.
    """
    slurm = history.slurm
    options, machine = slurm.configuration(), slurm.machine()
    if not stores_accounts(options):
        raise ConfigurationError("this cluster stores no accounts (AccountingStorageType): nothing to calibrate with")
    jobs = history.gather(now_s, now_s - weeks * 7 * DAY_S)
    _check_in_use(machine, jobs, now_s)
    pool = busiest_pool(machine, options, jobs) if len(jobs) else None
    own = jobs[pool.has(jobs)] if pool is not None else jobs
    _check_enough(own, now_s)
    assert pool is not None
    settings = SlurmSettings.from_options(options, "scontrol show config")
    remarks = list(pool_remarks(pool, jobs))
    declared = DeclaredSettings(settings, "scontrol show config")
    try:
        qos = _qos_of(slurm, own)
        declared = replace(declared, qos=qos, qos_by="sacctmgr show qos" if qos is not None else "")
    except (SlurmError, ConfigurationError) as error:
        remarks.append(f"limits of QOS are not known, and are inferred where possible: {error}")
    try:
        declared = with_associations(declared, slurm, options, own)
    except (SlurmError, ConfigurationError) as error:
        remarks.append(f"limits of users and accounts on jobs that accrue age are not known: {error}")
    return SiteAccounts(cluster_of(options), own, declared, pool, tuple(remarks))


def _qos_of(slurm: SlurmClient, jobs: JobTable) -> QosTable | None:
    """Returns the QOS with their limits; None where no job has one of them.

    Raises:
        SlurmError: sacctmgr fails.
        ConfigurationError: Its output cannot be read.
    """
    found = qos_table(slurm.qos(), "sacctmgr show qos")
    there = {jobs.qos.names[code] for code in np.unique(jobs.qos.codes[jobs.qos.codes >= 0])}
    return found if there & found.factors.keys() else None


def with_associations(
    declared: DeclaredSettings, slurm: SlurmClient, options: Mapping[str, str], jobs: JobTable
) -> DeclaredSettings:
    """Adds the associations where Slurm enforces their limits on age and some apply here.

    Raises:
        SlurmError: sacctmgr fails.
        ConfigurationError: Its output cannot be read.
    """
    if declared.settings.retains_age(()):  # nothing is enforced
        return declared
    by = "sacctmgr show assoc"
    found = replace(
        declared, associations=associations(slurm.associations(options.get("clustername", "")), by), associations_by=by
    )
    return found if found.age_limits(jobs) else declared


def stores_accounts(options: Mapping[str, str]) -> bool:
    """Whether a cluster stores accounts of its jobs at all."""
    kind = options.get("accountingstoragetype", "")
    return bool(kind) and not kind.endswith("none")


def _check_in_use(machine: Machine, jobs: JobTable, now_s: int) -> None:
    """Refuses accounts with less than half of the running jobs: some may be hidden."""
    busy = sum(node.state.startswith(("alloc", "mix")) for node in machine.nodes)
    known = int(jobs.nodes[jobs.end_s == now_s].sum())
    if 2 * known < busy:
        raise _hidden(f"{busy:,} nodes are in use, and accounting shows jobs on {known:,} of them")


def _check_enough(jobs: JobTable, now_s: int) -> None:
    known = jobs[(jobs.start_s != MISSING) & (jobs.end_s >= jobs.start_s)]
    count = int(ran(known).sum()) if len(known) else 0
    days = (now_s - int(known.submit_s.min())) / DAY_S if len(known) else 0.0
    least = LEAST_S // DAY_S
    if round(days) < least:
        raise ConfigurationError(
            f"accounts cover {days:.0f} days, but at least {least} are needed: two weeks to warm up, two to fit to, "
            f"two to judge by; try again in {least - days:.0f} days, or set a higher --weeks if older accounts exist"
        )
    if count < FEWEST_JOBS:
        raise ConfigurationError(
            f"accounts contain {count:,} jobs that ran, but at least {FEWEST_JOBS} are needed to fit to and to judge "
            "by; set a higher --weeks"
        )


def _hidden(what: str) -> ConfigurationError:
    return ConfigurationError(
        f"{what}: jobs of others would be missing, and a calibration without them is wrong; ask the operators for "
        "their accounts, or calibrate with a trace of theirs"
    )


@dataclass(frozen=True, slots=True)
class Pool:
    """Nodes, and all partitions with jobs that may run on any of them.

    Attributes:
        partitions: Their names, in Slurm's order.
        nodes: Number of nodes, up or down.
        whole_nodes: Whether every job has exclusive use of its nodes.
        alike: Whether every partition has all of the nodes.
    """

    partitions: tuple[str, ...]
    nodes: int
    whole_nodes: bool
    alike: bool

    def has(self, jobs: JobTable) -> NDArray[np.bool_]:
        """Returns which jobs are of these partitions, shape (n,); the first named one counts."""
        ours = [name.partition(",")[0] in self.partitions for name in jobs.partition.names]
        found: NDArray[np.bool_] = np.array([*ours, False])[jobs.partition.codes]
        return found


def pools(machine: Machine, options: Mapping[str, str]) -> tuple[Pool, ...]:
    """Returns the pools of a cluster; two partitions with a node in common are in one.

    Args:
        machine: Nodes and partitions.
        options: Of slurm.conf, keys in lower case.
    """
    groups: list[tuple[set[str], list[str]]] = []
    for partition in machine.partitions:
        nodes, names = set(partition.nodes), [partition.name]
        for other in [group for group in groups if group[0] & nodes]:
            groups.remove(other)
            nodes, names = nodes | other[0], other[1] + names
        if nodes:
            groups.append((nodes, names))
    return tuple(_pool(machine, options, nodes, names) for nodes, names in groups)


def _pool(machine: Machine, options: Mapping[str, str], nodes: set[str], names: list[str]) -> Pool:
    partitions = tuple(partition for partition in machine.partitions if partition.name in names)
    whole = not shares_nodes(Machine(machine.nodes, partitions), options)
    alike = all(set(partition.nodes) == nodes for partition in partitions)
    return Pool(tuple(partition.name for partition in partitions), len(nodes), whole, alike)


def busiest_pool(machine: Machine, options: Mapping[str, str], jobs: JobTable) -> Pool:
    """Returns the pool of whole nodes with the most node hours of jobs.

    Raises:
        ConfigurationError: Jobs share nodes everywhere.
    """
    whole = [pool for pool in pools(machine, options) if pool.whole_nodes]
    if not whole:
        raise ConfigurationError(
            "jobs share nodes in every partition of this cluster (no partition has OverSubscribe=EXCLUSIVE, and "
            "SelectType is not select/linear); calibration supports whole nodes only"
        )
    used = np.maximum(jobs.end_s - jobs.start_s, 0) * jobs.nodes * (jobs.start_s >= 0)
    return max(whole, key=lambda pool: int(used[pool.has(jobs)].sum()))


def pool_remarks(pool: Pool, jobs: JobTable) -> Iterator[str]:
    """Yields remarks on jobs left out and partitions merged in the calibration of one pool.

    Args:
        pool: The pool.
        jobs: The jobs of the whole cluster.
    """
    others = int((~pool.has(jobs)).sum())
    if others:
        names = ", ".join(pool.partitions)
        yield f"only {names}: {others:,} of {len(jobs):,} jobs ran on other nodes, or in partitions that are gone"
    if len(pool.partitions) > 1:
        why = "" if pool.alike else ", though they do not have the same nodes"
        yield f"partitions {', '.join(pool.partitions)} are one pool, not distinguished{why}"
