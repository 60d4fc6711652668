"""Survey of a site: what its configuration means for chains."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mirage.duration import UNLIMITED_S, format_duration
from mirage.errors import SlurmError
from mirage.slurm.client import SlurmClient
from mirage.slurm.values import Machine
from mirage.slurm.version import Version, detect

OK, WARN, FAIL = "ok", "warn", "fail"
OLDEST = Version(21, 8)
SHORT_MEMORY_S = 120


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding about the site.

    Attributes:
        level: ``ok``, ``warn`` (works, but know this) or ``fail`` (will not work).
        advice: What follows, and what to do.
    """

    level: str
    what: str
    value: str
    advice: str = ""


def survey(slurm: SlurmClient) -> list[Finding]:
    """The findings that need no rights and no submission."""
    found: list[Finding] = []
    try:
        version = detect(slurm.runner)
        old = version < OLDEST
        found.append(Finding(FAIL if old else OK, "version", str(version), f"older than {OLDEST}" if old else ""))
        options, machine = slurm.configuration(), slurm.machine()
        queue = slurm.observe()
    except SlurmError as error:
        return [*found, Finding(FAIL, "controller", "no answer", str(error))]
    found.append(Finding(OK, "controller", f"{len(queue.jobs)} jobs, {len(machine.nodes)} nodes"))
    found += [check(options) for check in _CHECKS]
    found.append(_limits(machine))
    found.append(_accounting(slurm, options, queue.time_s))
    return found


def _flags(options: Mapping[str, str]) -> Finding:
    flags = options.get("priorityflags", "")
    if "ACCRUE_ALWAYS" in flags.upper():
        return Finding(
            WARN, "accrue flags", flags, "jobs held by a dependency gain age: waiting costs less than elsewhere"
        )
    return Finding(OK, "accrue flags", flags or "none", "a job gains age from when its dependency is cleared")


def _backfill(options: Mapping[str, str]) -> Finding:
    scheduler = options.get("schedulertype", "")
    words = dict(word.partition("=")[::2] for word in options.get("schedulerparameters", "").split(","))
    window = words.get("bf_window", "1440")
    value = f"{scheduler}, window {window} min, interval {words.get('bf_interval', '30')} s"
    if "backfill" not in scheduler:
        return Finding(WARN, "backfill", value, "without backfill what-if's forecasts assume too much")
    return Finding(OK, "backfill", value)


def _memory(options: Mapping[str, str]) -> Finding:
    value = options.get("minjobage", "300").split()[0]
    seconds = int(value) if value.isdecimal() else 300
    if seconds < SHORT_MEMORY_S:
        return Finding(
            WARN, "MinJobAge", f"{seconds} s", "jobs are forgotten soon: accounting is needed to know their end"
        )
    return Finding(OK, "MinJobAge", f"{seconds} s", "so long squeue remembers a job that has ended")


def _preemption(options: Mapping[str, str]) -> Finding:
    kind = options.get("preempttype", "preempt/none")
    if kind.endswith("none"):
        return Finding(OK, "preemption", "none")
    return Finding(
        WARN, "preemption", kind, "a link that is preempted is queued again; use a QOS that is not, if you may"
    )


_CHECKS: tuple[Callable[[Mapping[str, str]], Finding], ...] = (_flags, _backfill, _memory, _preemption)


def _limits(machine: Machine) -> Finding:
    longest = {partition.name: partition.max_time_s for partition in machine.partitions}
    told = ", ".join(f"{name} {format_duration(limit_s)}" for name, limit_s in longest.items())
    if longest and all(limit_s >= UNLIMITED_S for limit_s in longest.values()):
        return Finding(OK, "time limits", told, "no partition has one: give -t, or a link never hands over")
    return Finding(OK, "time limits", told)


def _accounting(slurm: SlurmClient, options: Mapping[str, str], now_s: int) -> Finding:
    kind = options.get("accountingstoragetype", "accounting_storage/none")
    if kind.endswith("none"):
        return Finding(WARN, "accounting", "none", "what squeue has forgotten is lost: keep the agent running")
    try:
        jobs = slurm.accounting(now_s - 86_400)
    except SlurmError as error:
        return Finding(WARN, "accounting", kind, f"sacct failed: {error}")
    users = {job.user for job in jobs} - {os.environ.get("USER", "")}
    value = f"{len(jobs)} jobs of the last day" + ("" if users else ", your own only")
    return Finding(OK, "accounting", value, "" if users else "average and what-if learn from your own jobs only")
