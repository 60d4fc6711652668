"""Settings of a scheduler: Slurm's own parameters, under Slurm's own names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Self

from mirage.duration import DAY_S, MINUTE_S, UNLIMITED_S, parse_duration_s
from mirage.errors import ConfigurationError, UnknownName, shown
from mirage.kernel.record_arrays import Records, records
from mirage.sim.cluster import Cluster, Limit
from mirage.sim.kernel.arrays import SETTINGS
from mirage.text_file import is_device

LIMIT_CHECK_S = 30
CREDENTIAL_S = 120


@dataclass(frozen=True, slots=True)
class SlurmSettings:
    """Parameters of the two loops and of priorities, with Slurm's defaults.

    Attributes:
        bf_interval_s: Seconds between passes of the backfill loop.
        bf_resolution_s: Reservations are widened to multiples of this.
        bf_window_s: No reservation is made beyond this.
        max_job_test: ``bf_max_job_test``; for ``conservative``, the number of jobs planned. 0 for no backfill, as for
            ``SchedulerType=sched/builtin`` and ``bf_interval=-1`` in a slurm.conf.
        limit_check_s: Interval of the checks of limits: a job overruns its own by less. Slurm's loop runs every 30 s
            (``PERIODIC_TIMEOUT``), which a slurm.conf implies; studies of traces end jobs to the second.
        consecutive: Nodes that jobs share are chosen as ``select/cons_tres`` does, which a slurm.conf implies; else the
            fullest first.
        requeue_hold_s: Delay until a preempted job competes again: until its old credential has expired, and a second
            more (``AuthInfo=cred_expire``, 120 s by default). It starts over, and its work is lost.
        youngest_first: The job that started last is preempted first, else the one of the lowest QOS
            (``preempt_youngest_first``).
        weight_gpus: ``PriorityWeightTRES`` of ``GRES/gpu``, times the job's share of its partition's GPUs.
        weight_cpus: The same for ``CPU``; other resources in it are not modelled.
        size_over_time: The factor of size is a job's size by its limit in minutes (``PriorityFlags`` with
            ``SMALL_RELATIVE_TO_TIME``).
        priority: ``multifactor`` is Slurm's own; ``wfp`` uses nodes^size × wait^wait / limit^limit instead, as Cobalt
            does (Tang et al., Cluster 2009), without the weights.
        wfp_size: Exponent of a job's nodes.
        wfp_wait: Exponent of its wait so far.
        wfp_limit: Exponent of its time limit.
        wfp_shortest_s: Shorter limits count as this one.
        wfp_longest_s: Longer limits count as this one.
        turnover_s: Delay until the nodes of an ended job are available again (epilog, health check, COMPLETING in
            Slurm); plans include it. ``mirage-2023`` has no such delay.
        recorded_priority: Where the trace has the priorities of jobs at their submission, these replace everything but
            the age, such as fair-share on a machine of which the trace shows only a part; the other weights are then 0.
            Jobs without a recorded priority, and injected ones, have this value. None where priorities are computed.
        age_survives_hold: A job that was eligible keeps its age when it is held again, or given a begin time or a
            dependency by update. On Slurm 22.05.8 it does so unless ``AccountingStorageEnforce`` has limits in it
            (measured with and without); then its age starts again when it is released. None: as the limits of the
            cluster require, see ``retains_age``.
        every_pass: Also run the passes in which nothing can have changed (to measure that they have no effect).
    """

    bf_interval_s: int = 30
    bf_resolution_s: int = 60
    bf_window_s: int = DAY_S
    max_job_test: int = 500
    default_queue_depth: int = 100
    calc_period_s: int = 300
    half_life_s: float = 7.0 * DAY_S
    max_age_s: float = 7.0 * DAY_S
    weight_age: float = 0.0
    weight_fairshare: float = 0.0
    weight_size: float = 0.0
    weight_partition: float = 0.0
    weight_qos: float = 0.0
    weight_gpus: float = 0.0
    weight_cpus: float = 0.0
    favor_small: bool = False
    size_over_time: bool = False
    priority: Literal["multifactor", "wfp"] = "multifactor"
    wfp_size: float = 1.0
    wfp_wait: float = 3.0
    wfp_limit: float = 3.0
    wfp_shortest_s: int = 0
    wfp_longest_s: int = UNLIMITED_S
    limit_check_s: int = 1
    consecutive: bool = False
    requeue_hold_s: int = CREDENTIAL_S + 1
    youngest_first: bool = False
    turnover_s: int = 0
    recorded_priority: float | None = None
    age_survives_hold: bool | None = None
    every_pass: bool = False

    def __post_init__(self) -> None:
        if self.priority not in (kinds := ("multifactor", "wfp")):
            raise UnknownName("priority", self.priority, kinds)
        for name, least in _LEAST.items():
            if not least <= getattr(self, name) <= UNLIMITED_S:
                between = f"must be from {least} to {UNLIMITED_S}"
                raise ConfigurationError(f"{name.removesuffix('_s')} is {getattr(self, name)}; it {between}")
        for name in ("half_life_s", "max_age_s"):
            if not getattr(self, name) > 0:
                raise ConfigurationError(f"{name.removesuffix('_s')} is {getattr(self, name)}; it must be more than 0")
        for name in _PRIORITY_WEIGHTS.values():
            if not getattr(self, name) >= 0:
                raise ConfigurationError(f"{name} is {getattr(self, name):g}; it must be 0 or more")

    @classmethod
    def lonestar6(cls) -> Self:
        """Settings of TACC's Lonestar6 for the gpu-a100 queue of the published trace."""
        return cls(
            bf_interval_s=10, bf_resolution_s=600, bf_window_s=2880 * MINUTE_S, max_job_test=3000,
            default_queue_depth=1000, half_life_s=2.0 * DAY_S, weight_age=7000, weight_fairshare=4000,
            weight_size=100, weight_partition=3000, weight_qos=4000,
        )  # fmt: skip

    @classmethod
    def from_slurm_conf(cls, path: str | Path) -> Self:
        """Settings of a ``slurm.conf``; missing options have Slurm's defaults.

        Raises:
            ConfigurationError: A value cannot be read.
        """
        return cls.from_options(read_options(path), path)

    @classmethod
    def from_options(cls, options: Mapping[str, str], path: str | Path) -> Self:
        """Settings from options, keys in lower case, as in ``scontrol show config``.

        Args:
            path: The source of the options, for messages.

        Raises:
            ConfigurationError: A value cannot be read.
        """
        found: dict[str, float | bool] = {"limit_check_s": LIMIT_CHECK_S, "consecutive": True}
        if expires := _CREDENTIAL.search(options.get("authinfo", "")):
            found["requeue_hold_s"] = int(expires[1]) + 1
        found |= _scheduler_parameters(options, path)
        for option, name in _PRIORITY_WEIGHTS.items():
            if (key := option.lower()) in options:
                found[name] = _number(path, option, options[key])
                if found[name] < 0:
                    raise ConfigurationError(
                        f"{path}: {option}={options[key]} is less than 0, which slurmctld refuses; correct it there"
                    )
        for key, name in _PRIORITY_TIMES.items():
            if key in options:
                found[name] = float(_seconds(path, key, options[key])) or float(UNLIMITED_S)
        for word in options.get("priorityweighttres", "").split(","):
            key, _, value = word.strip().partition("=")
            if key.lower() in _TRES_WEIGHTS and value:
                found[_TRES_WEIGHTS[key.lower()]] = _decimal(path, f"PriorityWeightTRES {key}", value)
        if (key := "prioritycalcperiod") in options:
            found["calc_period_s"] = _seconds(path, key, options[key])
            if not 0 < found["calc_period_s"] < UNLIMITED_S:
                raise ConfigurationError(
                    f"{path}: PriorityCalcPeriod={options[key]} is no period for slurmctld; correct it there"
                )
        enforced = {word.strip() for word in options.get("accountingstorageenforce", "").lower().split(",")}
        flags = _flags(options)
        if "ACCRUE_ALWAYS" in flags:
            found["age_survives_hold"] = True
        elif enforced & _ENFORCE_LIMITS:
            found["age_survives_hold"] = False
        found["size_over_time"] = "SMALL_RELATIVE_TO_TIME" in flags
        found["favor_small"] = options.get("priorityfavorsmall", "no").lower() == "yes"
        found |= dict.fromkeys(ignored_weights(options), 0.0)
        try:
            return replace(cls(), **found)  # type: ignore[arg-type]
        except ConfigurationError as error:
            raise ConfigurationError(f"{path}: {error}") from None

    def retains_age(self, limits: Sequence[Limit]) -> bool:
        """Whether a job retains its age when it is held again, on a cluster with these limits.

        Slurm cannot enforce limits and let held jobs keep their age, unless ``PriorityFlags`` has ``ACCRUE_ALWAYS``.
        """
        return not limits if self.age_survives_hold is None else self.age_survives_hold

    def record(self, cluster: Cluster, epoch_s: int) -> Records:
        """The SETTINGS record of a world."""
        values = {name: getattr(self, name, 0) for name in SETTINGS.names or ()} | {
            "wfp": self.priority == "wfp",
            "nodes": cluster.nodes,
            "cpus": max(sum(group.count * group.cpus for group in cluster.groups), 1),
            "stacked": not cluster.shared_nodes,
            "epoch_s": epoch_s,
            "reserves": bool(cluster.reservations),
        }
        setting = records(SETTINGS, 1)
        setting[0] = tuple(values.values())
        return setting


_LEAST = {
    "bf_interval_s": 1, "bf_resolution_s": 1, "bf_window_s": 1, "calc_period_s": 1, "limit_check_s": 1,
    "max_job_test": 0, "default_queue_depth": 0, "requeue_hold_s": 0, "turnover_s": 0,
}  # fmt: skip
"""The least value of whole numbers; periods are divisors."""

_SCHEDULER_PARAMETERS = {
    "bf_interval": ("bf_interval_s", 1, 1),
    "bf_resolution": ("bf_resolution_s", 1, 1),
    "bf_window": ("bf_window_s", MINUTE_S, 1),
    "bf_max_job_test": ("max_job_test", 1, 1),
    "default_queue_depth": ("default_queue_depth", 1, 0),
}
"""Parameter → setting, its unit in seconds, and the least that slurmctld accepts (backfill.c, job_scheduler.c)."""

_NOT_SIMULATED = frozenset((
    "assoc_limit_stop", "batch_sched_delay", "bf_busy_nodes", "bf_job_part_count_reserve", "bf_max_job_array_resv",
    "bf_max_job_assoc", "bf_max_job_part", "bf_max_job_start", "bf_max_job_user", "bf_max_job_user_part", "bf_max_time",
    "bf_min_age_reserve", "bf_min_prio_reserve", "bf_node_space_size", "bf_one_resv_per_job", "bf_running_job_reserve",
    "defer", "max_rpc_cnt", "max_sched_time", "pack_serial_at_end", "partition_job_depth", "sched_max_job_start",
))  # fmt: skip
"""Parameters by which slurmctld starts jobs at other times, unless they are 0."""

_PRIORITY_WEIGHTS = {
    "PriorityWeightAge": "weight_age",
    "PriorityWeightFairshare": "weight_fairshare",
    "PriorityWeightJobSize": "weight_size",
    "PriorityWeightPartition": "weight_partition",
    "PriorityWeightQOS": "weight_qos",
}
_TRES_WEIGHTS = {"gres/gpu": "weight_gpus", "cpu": "weight_cpus"}
_PRIORITY_TIMES = {"prioritydecayhalflife": "half_life_s", "prioritymaxage": "max_age_s"}
_ENFORCE_LIMITS = {"limits", "safe", "all"}
_CREDENTIAL = re.compile(r"cred_expire=(\d+)", re.IGNORECASE)
_PREFIXES = (
    "accounting", "auth", "cluster", "control", "job", "nodename", "partitionname", "preempt", "priority", "scheduler",
    "select", "slurm",
)  # fmt: skip
"""Beginnings of options, of which each ``slurm.conf``, also a part of one, has some."""
_COMMENT = re.compile(r"#.*")
_CONTINUED = re.compile(r"\\[^\S\n]*\n")
_INCLUDE = re.compile(r"\s*include\s+(\S+)\s*$", re.IGNORECASE)
_OPTION = re.compile(r"\s*([A-Za-z]+)\s*=\s*(\S.*?)\s*$")
_SEVERAL = re.compile(
    r"\s*(?!(?:nodename|nodeset|partitionname|downnodes|frontendname)\b)([a-z]+)\s*=\s*"
    r"(?:\"[^\"]*\"|[^\"]*?[^\s\",])\s+([a-z]+)\s*=",
    re.IGNORECASE,
)
"""Two options on a line that may have one. ``scontrol show config`` prints ``CPU=1, Mem=2`` without its quotes."""


def ignored_weights(options: Mapping[str, str]) -> tuple[str, ...]:
    """The weight settings that slurmctld ignores: all of priority/basic, two without slurmdbd.

    Without ``AccountingStorageType=accounting_storage/slurmdbd``, which is not the default, priority/multifactor logs
    that age and fair-share are ignored, and both factors stay 0 (measured on 22.05.8). ``scontrol show config`` and
    ``sprio -w`` still show their weights.

    Args:
        options: Keys in lower case.
    """
    if options.get("prioritytype", "").lower().endswith("basic"):
        return (*_PRIORITY_WEIGHTS.values(), *_TRES_WEIGHTS.values())
    with_slurmdbd = options.get("accountingstoragetype", "").lower().endswith("slurmdbd")
    return () if with_slurmdbd else ("weight_age", "weight_fairshare")


def fair_share_remark(options: Mapping[str, str]) -> str:
    """That users are ranked by fair-tree where Slurm does not; empty where it does.

    Args:
        options: Keys in lower case.
    """
    classic = [flag for flag in ("NO_FAIR_TREE", "DEPTH_OBLIVIOUS") if flag in _flags(options)]
    weighs = options.get("priorityweightfairshare", "0").strip("0")
    if not classic or not weighs or "weight_fairshare" in ignored_weights(options):
        return ""
    return f"PriorityFlags={classic[0]} is not simulated: users are ranked as by fair-tree, with equal shares"


def _flags(options: Mapping[str, str]) -> frozenset[str]:
    """The words of ``PriorityFlags``, in upper case."""
    return frozenset(word.strip() for word in options.get("priorityflags", "").upper().split(","))


def ignored_remark(options: Mapping[str, str]) -> str:
    """Which weights slurmctld ignores although they are set, and why; empty for none.

    Args:
        options: Keys in lower case.
    """
    ignored = ignored_weights(options)
    names = [
        option for option, name in _PRIORITY_WEIGHTS.items()
        if name in ignored and options.get(option.lower(), "0").strip("0")
    ]  # fmt: skip
    if not names:
        return ""
    if options.get("prioritytype", "").lower().endswith("basic"):
        return f"Slurm ignores {' and '.join(names)}: PriorityType is priority/basic"
    return (
        f"Slurm ignores {' and '.join(names)} without AccountingStorageType=accounting_storage/slurmdbd; add that line "
        "if the cluster has slurmdbd"
    )


def priority_type_remark(options: Mapping[str, str]) -> str:
    """That older versions of Slurm ignore the weights; empty if they do not.

    The default of ``PriorityType`` is priority/multifactor since Slurm 23.11, before it is priority/basic.

    Args:
        options: Keys in lower case.
    """
    weighs = any(key.startswith("priorityweight") and value.strip("0") for key, value in options.items())
    if "prioritytype" in options or not weighs:
        return ""
    return (
        "the weights of priorities are simulated, but Slurm before 23.11 ignores them without PriorityType; add the "
        "PriorityType that `scontrol show config` prints"
    )


def foreign_file_remark(options: Mapping[str, str]) -> str:
    """That a file has nothing of a ``slurm.conf``; empty if it has.

    Args:
        options: Keys in lower case.
    """
    if any(key.startswith(_PREFIXES) for key in options):
        return ""
    return "it has no line of a slurm.conf, so Slurm's defaults are simulated; name the slurm.conf of the controller"


def small_parameters_remark(options: Mapping[str, str]) -> str:
    """Which numbers in ``SchedulerParameters`` slurmctld ignores; empty for none.

    Args:
        options: Keys in lower case.
    """
    small = [
        word for word in _parameters(options)
        if (key := word.partition("=")[0]) in _SCHEDULER_PARAMETERS and re.fullmatch(r"-?\d+", word[len(key) + 1 :])
        and word != "bf_interval=-1" and int(word[len(key) + 1 :]) < _SCHEDULER_PARAMETERS[key][2]
    ]  # fmt: skip
    return f"Slurm ignores {' and '.join(small)}, too small a number, and takes its default" if small else ""


def other_parameters_remark(options: Mapping[str, str]) -> str:
    """Which ``SchedulerParameters`` change starts only in Slurm; empty for none.

    Args:
        options: Keys in lower case.
    """
    words = [word.partition("=") for word in _parameters(options)]
    others = [key for key, equals, value in words if key in _NOT_SIMULATED and (value.strip("0") or not equals)]
    return f"SchedulerParameters that are not simulated: {', '.join(dict.fromkeys(others))}" if others else ""


def _parameters(options: Mapping[str, str]) -> list[str]:
    """The words of ``SchedulerParameters``, in lower case."""
    return [word.strip() for word in options.get("schedulerparameters", "").lower().split(",")]


def _scheduler_parameters(options: Mapping[str, str], path: str | Path) -> dict[str, float | bool]:
    """Settings of ``SchedulerParameters``, as slurmctld reads them.

    It ignores case and too small numbers; of a repeated one, it reads the first.
    """
    found: dict[str, float | bool] = {}
    backfills = "builtin" not in options.get("schedulertype", "")
    words = [word.partition("=") for word in _parameters(options)]
    for key, value in {key: value for key, _, value in reversed(words)}.items():
        if key == "preempt_youngest_first":
            found["youngest_first"] = True
        if key in _SCHEDULER_PARAMETERS and value:
            name, unit, least = _SCHEDULER_PARAMETERS[key]
            number = _number(path, key, value)
            backfills &= (key, number) != ("bf_interval", -1)
            if number >= least:
                found[name] = number * unit
    return found if backfills else found | {"max_job_test": 0}


def read_options(path: str | Path) -> dict[str, str]:
    """Options of a ``slurm.conf``, keys in lower case, without nodes and partitions.

    Raises:
        ConfigurationError: The file cannot be read.
    """
    return {key: value.strip('"') for key, value in option_lines(path)}


def option_lines(path: str | Path, within: tuple[Path, ...] = (), cluster: str = "%c") -> list[tuple[str, str]]:
    """Lines of ``Key=value`` of a ``slurm.conf`` in order, keys in lower case.

    Comments are dropped, and ``Include`` is followed.

    Args:
        within: The files that include this one.
        cluster: The cluster's name in these, which replaces ``%c`` in an ``Include``, in lower case.

    Raises:
        ConfigurationError: A file cannot be read, is a device, or includes itself; the ``Include`` of it is named. Or
            a line has several options, which slurmctld refuses (22.05.8).
    """
    if is_device(path):
        raise ConfigurationError(f"cannot read {path}: it is a device, which may have no end; name a slurm.conf")
    if Path(path).absolute() in within:
        raise ConfigurationError(f"{path} includes itself; remove the Include")
    try:
        text = Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror}; name a readable slurm.conf") from error
    options: list[tuple[str, str]] = []
    number = 1
    for line in _CONTINUED.sub("\0", _COMMENT.sub("", text)).splitlines():
        plain = line.replace("\0", "")
        if included := _INCLUDE.match(plain):
            cluster = dict(options).get("clustername", cluster).strip('"').lower()
            other = Path(path).parent / included[1].replace("%c", cluster)
            try:
                options += option_lines(other, (*within, Path(path).absolute()), cluster)
            except ConfigurationError as error:
                raise ConfigurationError(f"{path}:{number}: Include {included[1]}: {error}") from None
        elif several := _SEVERAL.match(plain):
            raise ConfigurationError(
                f"{path}:{number}: {several[1]} and {several[2]} are on one line, which slurmctld refuses; write each "
                "on its own line"
            )
        elif option := _OPTION.match(plain):
            options.append((option[1].lower(), option[2]))
        number += 1 + line.count("\0")  # a continued line is several
    return options


def _number(path: str | Path, key: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise ConfigurationError(f"{path}: {key}={shown(value)} is not a whole number; correct it there") from None


def _decimal(path: str | Path, key: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise ConfigurationError(f"{path}: {key}={shown(value)} is not a number") from None


def _seconds(path: str | Path, key: str, value: str) -> int:
    try:
        return parse_duration_s(value)
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: {key}: {error}") from None
