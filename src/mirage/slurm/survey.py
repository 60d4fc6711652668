"""Survey of a site: what its configuration means for chains."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from mirage.duration import UNLIMITED_S, format_duration
from mirage.errors import SlurmError, SlurmUnreachable, first_of, quantity, shown
from mirage.job_state import MISSING
from mirage.slurm.client import SlurmClient
from mirage.slurm.hidden_jobs import hidden_jobs, unexplained_nodes
from mirage.slurm.records import Machine, SlurmPartition
from mirage.slurm.runner import Runner, check_configured

_VERSION = re.compile(r"(\d\d)\.(\d\d)(?:\.(\d+))?")


class Version(NamedTuple):
    """Year, month and patch of a release: 22.05.8."""

    major: int
    minor: int
    patch: int = 0

    def __str__(self) -> str:
        return f"{self.major}.{self.minor:02d}.{self.patch}"


def parse_version(text: str) -> Version:
    """The version in ``slurm 22.05.8`` or ``slurm-wlm 22.05.8``.

    Raises:
        SlurmUnreachable: The text has none.
    """
    found = _VERSION.search(text)
    if found is None:
        raise SlurmUnreachable(f"{shown(text.strip())} names no version of Slurm")
    return Version(int(found[1]), int(found[2]), int(found[3] or 0))


def detect(runner: Runner) -> Version:
    """The version of the commands on PATH.

    Commands can talk to controllers up to two releases apart.

    Raises:
        SlurmUnreachable: They find no cluster, or print no version.
    """
    done = runner.run(["sinfo", "--version"])
    check_configured(done, "sinfo")
    return parse_version(done.stdout or done.stderr)


OK, WARN, FAIL = "ok", "warn", "fail"
OLDEST = Version(21, 8)
SHORT_MEMORY_S = 120
MEASURED = Version(22, 5, 8)
"""Version on which it was measured that a link that competed once keeps its age while held."""
MOST_LIMITS, MOST_RESERVATIONS = 4, 3
_ENFORCES_LIMITS = {"limits", "safe", "all"}


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding about the site.

    Attributes:
        level: ``ok``, ``warn`` (works, but note this) or ``fail`` (will not work).
        advice: What follows, and what to do.
    """

    level: str
    what: str
    value: str
    advice: str = ""


def survey(slurm: SlurmClient) -> list[Finding]:
    """The findings that need neither privileges nor a submission."""
    found: list[Finding] = []
    try:
        version = detect(slurm.runner)
        old = version < OLDEST
        found.append(Finding(FAIL if old else OK, "version", str(version), f"older than {OLDEST}" if old else ""))
        options, machine = slurm.configuration(), slurm.machine()
        queue = slurm.observe()
    except SlurmError as error:
        return [*found, Finding(FAIL, "controller", "no answer", str(error))]
    found.append(Finding(OK, "cluster", options.get("clustername", "without a name")))
    value = f"{_controllers(options)}; {quantity(len(queue.jobs), 'job')}, {quantity(len(machine.nodes), 'node')}"
    found.append(Finding(OK, "controller", value, "the chains of a store belong to this cluster and to no other"))
    found += [check(options) for check in _CHECKS]
    found.append(_revisions(slurm, version, options))
    found += _submissions(slurm, options)
    if "priorityweightage" in options and not _is_basic(options):
        found.append(_age_against_fair_share(options))
        found += _classic_fair_share(options)
    found.append(_limits(machine))
    found.append(_accounting(slurm, options, queue.time_s))
    found += _reservations(slurm)
    if why := hidden_jobs(options, queue, slurm.user, unexplained_nodes(machine, queue, slurm.user)):
        advice = "no forecast can use the queue: auto learns waits from your own jobs in accounting"
        if options.get("accountingstoragetype", "accounting_storage/none").endswith("none"):
            advice = "no forecast can use the queue, and there is no accounting: use a fixed lead, --policy lead:6"
        found.append(Finding(WARN, "other users", f"their jobs are hidden: {why}", advice))
    return found


def _controllers(options: Mapping[str, str]) -> str:
    """The hosts of slurmctld, the first controller first, and its port."""
    hosts = [
        value.partition("(")[0]
        for key, value in sorted(options.items())
        if key.startswith(("slurmctldhost", "controlmachine"))
    ]
    return f"{', '.join(hosts) or 'unknown host'}, port {options.get('slurmctldport', 'unknown')}"


def _is_basic(options: Mapping[str, str]) -> bool:
    return options.get("prioritytype", "").lower().endswith("basic")


def _has_slurmdbd(options: Mapping[str, str]) -> bool:
    return options.get("accountingstoragetype", "").lower().endswith("slurmdbd")


def _age(options: Mapping[str, str]) -> Finding:
    """Whether jobs gain priority by age, and from when."""
    flags = options.get("priorityflags", "")
    if _is_basic(options):
        advice = "no job has an age: priority is the order of submission, also of jobs that a dependency holds"
        return Finding(OK, "age", options["prioritytype"], advice)
    if not _has_slurmdbd(options):
        value = f"counts for nothing without slurmdbd, nor does fair-share (measured on {MEASURED})"
        return Finding(
            WARN, "age", value, "slurmctld ignores PriorityWeightAge and PriorityWeightFairshare, as do forecasts"
        )
    if "ACCRUE_ALWAYS" in flags.upper():
        return Finding(
            WARN, "age", flags, "jobs held by a dependency gain priority by age, too: waiting costs less than elsewhere"
        )
    return Finding(OK, "age", flags or "no PriorityFlags", "a held job gains priority by age from its release on")


def _revisions(slurm: SlurmClient, version: Version, options: Mapping[str, str]) -> Finding:
    """Whether a competing link can be held again, and released, without losing its age."""
    what = "revisions"
    if _is_basic(options) or not _has_slurmdbd(options):
        return Finding(OK, what, "a held link keeps its priority", "a link that is held again only loses its turn")
    if "ACCRUE_ALWAYS" in options.get("priorityflags", "").upper():
        return Finding(OK, what, "held jobs gain age here, ACCRUE_ALWAYS", "so holding a link again costs no age")
    enforced = options.get("accountingstorageenforce", "").lower()
    if _ENFORCES_LIMITS & {word.strip() for word in enforced.split(",")}:
        value = f"age starts again when a held link is released, as limits are enforced (measured on {MEASURED})"
        limits = f"limits on jobs that gain age: {_accrual_limits(slurm, options)}"
        return Finding(WARN, what, value, f"AccountingStorageEnforce={enforced}: holds relies on no age here; {limits}")
    measured = version[:2] == MEASURED[:2]
    retained = f"a link that competed once keeps its age while it is held (measured on {MEASURED})"
    unknown = f"whether a held link keeps its age is not known for {version} (it does on {MEASURED})"
    limits = _accrual_limits(slurm, options)
    advice = f"limits on jobs that gain age: {limits}" + ("" if measured else "; compare AccrueTime before and after")
    return Finding(OK if measured else WARN, what, retained if measured else unknown, advice)


def _submissions(slurm: SlurmClient, options: Mapping[str, str]) -> list[Finding]:
    """Limits that refuse the second job of a chain; nothing where there are none."""
    enforced = options.get("accountingstorageenforce", "").lower()
    if not _ENFORCES_LIMITS & {word.strip() for word in enforced.split(",")}:
        return []
    low = [limit for limit in slurm.submission_limits() or () if limit.endswith(("=0", "=1"))]
    if not low:
        return []
    level = FAIL if any(limit.startswith("assoc") and f" {slurm.user} " in limit for limit in low) else WARN
    advice = "a chain has two jobs in the queue, of which Slurm refuses the second one; ask for a higher limit"
    return [Finding(level, "submissions", first_of(low), advice)]


def _age_against_fair_share(options: Mapping[str, str]) -> Finding:
    """What early submission with a hold gains: age, which fair-share may outweigh."""
    what = "holds"
    age, share = (_weight(options, key) for key in ("priorityweightage", "priorityweightfairshare"))
    oldest = options.get("prioritymaxage", "7-00:00:00")
    value = f"PriorityWeightAge={age:,} after {oldest}, PriorityWeightFairshare={share:,}"
    if not _has_slurmdbd(options):
        value = f"PriorityWeightAge={age:,} and PriorityWeightFairshare={share:,} are ignored"
        return Finding(WARN, what, value, "a link that is submitted early only comes before its equals")
    if age == 0:
        advice = "no job gains by its age: a link that is submitted early only comes before its equals"
        return Finding(WARN, what, value, advice)
    if share > age:
        advice = (
            "fair-share outweighs age: the order of the queue follows what users have used, and a link that was "
            "submitted early and held has less of it; in simulations of such clusters no policy was significantly "
            "better than reactive"
        )
        return Finding(WARN, what, value, advice)
    return Finding(OK, what, value, "age weighs as much as fair-share or more, as where holds was measured")


def _classic_fair_share(options: Mapping[str, str]) -> list[Finding]:
    """That forecasts rank users by fair-tree where Slurm does not; nothing where it does."""
    flags = {word.strip() for word in options.get("priorityflags", "").upper().split(",")}
    if not flags & {"NO_FAIR_TREE", "DEPTH_OBLIVIOUS"} or not _has_slurmdbd(options):
        return []
    if _weight(options, "priorityweightfairshare") == 0:
        return []
    advice = "forecasts rank users as by fair-tree, with equal shares: starts under fair-share are less certain"
    return [Finding(WARN, "fair-share", options["priorityflags"], advice)]


def _weight(options: Mapping[str, str], key: str) -> int:
    """A priority weight; 0 where it is missing or not a number."""
    text = options.get(key, "").strip()
    return int(text) if text.isdecimal() else 0


def _accrual_limits(slurm: SlurmClient, options: Mapping[str, str]) -> str:
    """The limits as text, or why they are not known."""
    if options.get("accountingstoragetype", "accounting_storage/none").endswith("none"):
        return "none, since there is no accounting"
    limits = slurm.accrual_limits()
    if limits is None:
        return "unknown, sacctmgr does not show them"
    shown = ", ".join(limits[:MOST_LIMITS]) + (f" and {len(limits) - MOST_LIMITS} more" * (len(limits) > MOST_LIMITS))
    return shown or "none that sacctmgr shows"


def _backfill(options: Mapping[str, str]) -> Finding:
    scheduler = options.get("schedulertype", "")
    words = dict(word.strip().partition("=")[::2] for word in options.get("schedulerparameters", "").lower().split(","))
    window = words.get("bf_window", "1440")
    value = f"plans {window} min ahead, every {words.get('bf_interval', '30')} s"
    if "backfill" not in scheduler:
        return Finding(
            WARN, "backfill", scheduler or "no scheduler named", "no backfill here: what-if expects jobs too early"
        )
    return Finding(OK, "backfill", value)


def _memory(options: Mapping[str, str]) -> Finding:
    value = options.get("minjobage", "300").split()[0]
    seconds = int(value) if value.isdecimal() else 300
    if seconds < SHORT_MEMORY_S:
        return Finding(
            WARN,
            "MinJobAge",
            f"{seconds} s",
            "squeue forgets jobs soon after their end: only accounting shows how they ended",
        )
    return Finding(OK, "MinJobAge", f"{seconds} s", "squeue shows an ended job for this time")


def _preemption(options: Mapping[str, str]) -> Finding:
    kind = options.get("preempttype", "preempt/none")
    if kind.endswith("none"):
        return Finding(OK, "preemption", "none")
    return Finding(
        WARN, "preemption", kind, "a link that is preempted is queued again; use a QOS that is not, if you may"
    )


_CHECKS: tuple[Callable[[Mapping[str, str]], Finding], ...] = (_age, _backfill, _memory, _preemption)


def _limits(machine: Machine) -> Finding:
    """The longest limit of each partition, and its default."""
    shown = ", ".join(_limit(partition) for partition in machine.partitions)
    endless = [partition.name for partition in machine.partitions if _default_s(partition) >= UNLIMITED_S]
    if endless:
        return Finding(
            OK, "time limits", shown, f"without -t a job of {', '.join(endless)} never ends, and so never hands over"
        )
    short = [partition.name for partition in machine.partitions if _default_s(partition) < partition.max_time_s]
    advice = f"without -t a job of {', '.join(short)} gets the default, not the longest" if short else ""
    return Finding(OK, "time limits", shown, advice)


def _default_s(partition: SlurmPartition) -> int:
    return partition.default_time_s if partition.default_time_s != MISSING else partition.max_time_s


def _limit(partition: SlurmPartition) -> str:
    longest, default = format_duration(partition.max_time_s), format_duration(_default_s(partition))
    return f"{partition.name} {longest}" + (f" (default {default})" if default != longest else "")


def _reservations(slurm: SlurmClient) -> list[Finding]:
    """The next reservations; nothing where there are none, or where they are not shown."""
    try:
        reservations = sorted(slurm.reservations(), key=lambda one: one.start_s)
    except SlurmError:
        return []
    if not reservations:
        return []
    shown = [
        f"{one.name}, {quantity(len(one.nodes), 'node')} from {_instant(one.start_s)} to {_instant(one.end_s)}"
        for one in reservations[:MOST_RESERVATIONS]
    ]
    more = f" and {len(reservations) - MOST_RESERVATIONS} more" * (len(reservations) > MOST_RESERVATIONS)
    advice = "links get a shorter limit, to end before one that leaves them too few nodes"
    return [Finding(OK, "reservations", "; ".join(shown) + more, advice)]


def _instant(time_s: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M", time.localtime(time_s))


def _accounting(slurm: SlurmClient, options: Mapping[str, str], now_s: int) -> Finding:
    kind = options.get("accountingstoragetype", "accounting_storage/none")
    if kind.endswith("none"):
        return Finding(
            WARN, "accounting", "none", "the end of a job is known only while squeue shows it: keep the agent running"
        )
    try:
        jobs = slurm.accounting(now_s - 86_400)
    except SlurmError as error:
        return Finding(WARN, "accounting", kind, f"sacct failed: {error}")
    users = {job.user for job in jobs} - {os.environ.get("USER", "")}
    value, own = f"{quantity(len(jobs), 'job')} of the last day", bool(jobs) and not users
    advice = "average and what-if learn from your own jobs only" if own else ""
    return Finding(OK, "accounting", value + (", your own only" if own else ""), advice)
