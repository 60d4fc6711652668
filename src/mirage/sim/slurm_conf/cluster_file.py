"""Cluster files: a machine, its outages and its scheduler in TOML.

``mirage calibrate`` writes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_origin

from mirage.atomic_file import write_output
from mirage.errors import ClusterError, ConfigurationError, shown
from mirage.sim.cluster import UNDECLARED, Cluster
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from mirage.sim.slurm_conf.toml_values import hints_of, key_of, read_table, toml, toml_key, written
from mirage.text_file import read_toml_file

FORMAT = 1
"""The version of the file format, under the key ``mirage_cluster``."""

_ABOUT = {
    "cluster": "The machine as a whole.",
    "group": "Equal nodes: their number, and the GPUs, CPUs and MiB of memory of each.",
    "partition": "Partitions; the first is the default one. Jobs may use the nodes of its groups; of all where none is "
    "named.",
    "qos": "QOS: the factor in a job's priority, any scale, and the QOS whose running jobs it may preempt.",
    "limit": "Limits of what may run at once.",
    "change": "Nodes that leave (fewer) or come, unannounced; nodes in use leave as they become free.",
    "reservation": "Reservations and maintenance: known to plans since they were announced, or always.",
    "scheduler": "Slurm's parameters; half_life and those with max_ and weight_ are its multifactor priority's, those "
    "with wfp_ another's.",
    "users": "think_time: jobs submitted at most this time after another of their user's had started or ended follow "
    "it; a replay (mirage simulate) submits them as long after it as recorded. Zero: none do.",
    "calibration": "Facts about how this file was made; only people and reports read them.",
    "said_by": "The sources of the sections.",
}
_QOS = ("qos_factors", "qos_preempts")
_RARE = ("users", "accounts")
"""Lists that are left out where they are empty."""

_PERIODS = ("bf_interval_s", "bf_resolution_s", "calc_period_s", "limit_check_s", "half_life_s", "max_age_s")
"""Settings that must not be zero, as they are divisors."""


@dataclass(frozen=True, slots=True)
class Users:
    """How users react to the queue.

    Attributes:
        think_time_s: Jobs submitted at most this time after another of their user's had started or ended follow that
            one. 0: jobs are submitted at the times of the trace, whatever happens to others.
    """

    think_time_s: int = 0


@dataclass(frozen=True, slots=True)
class ClusterFile:
    """The contents of a cluster file.

    Attributes:
        cluster: The machine: nodes, partitions, QOS, limits, outages and reservations.
        settings: The parameters of its scheduler.
        sources: Section → its source, for people: ``{"group": "most nodes busy at once in jobs.csv"}``.
        calibration: Free facts: names of traces, dates, figures of fidelity; stored unchanged.
        users: How users react to the queue, for replays.
    """

    cluster: Cluster
    settings: SlurmSettings = field(default_factory=SlurmSettings)
    sources: Mapping[str, str] = field(default_factory=dict)
    calibration: Mapping[str, Any] = field(default_factory=dict)
    users: Users = field(default_factory=Users)


# -- writing ----------------------------------------------------------------------------------------------------------


def write_cluster_file(path: str | Path, file: ClusterFile, mode: int | None = None) -> None:
    """Write a cluster file; the old contents are replaced only when it is complete.

    Args:
        path: The file to write.
        file: Its contents.
        mode: Permissions of the file, minus the umask; by default those of an existing file, or all.

    Raises:
        ConfigurationError: The file cannot be written, or TOML cannot represent a free fact.
    """
    write_output(path, cluster_toml(file), mode)


def cluster_toml(file: ClusterFile) -> str:
    """The text of a cluster file.

    Raises:
        ConfigurationError: TOML cannot represent a free fact.
    """
    head = [
        "# A cluster for Mirage: mirage simulate TRACE --cluster THIS_FILE",
        '# Durations are as Slurm writes them ("2-00:00:00", "00:30:00", "UNLIMITED"), times in UTC.',
        f"mirage_cluster = {FORMAT}",
    ]
    return "\n".join([*head, *_sections(file), ""])


def _sections(file: ClusterFile) -> Iterator[str]:
    cluster, sources = file.cluster, file.sources
    yield from _heading("cluster", sources)
    yield from _table("[cluster]", _filled(cluster, _scalars()))
    for name in _rows_of():
        rows = getattr(cluster, name)
        if rows == (UNDECLARED,):  # a reader makes it again
            continue
        section = name.removesuffix("s")
        for place, row in enumerate(rows):
            yield from _heading(section, sources) if place == 0 else [""]
            yield from _table(f"[[{section}]]", _filled(row))
    for place, (name, factor) in enumerate(cluster.qos_factors.items()):
        yield from _heading("qos", sources) if place == 0 else [""]
        displaced = {"preempts": list(cluster.qos_preempts[name])} if name in cluster.qos_preempts else {}
        yield from _table(f"[qos.{toml_key(name)}]", {"factor": factor, **displaced})
    yield from _heading("scheduler", sources)
    yield from _table("[scheduler]", _filled(file.settings))
    if file.users != Users():
        yield from _heading("users", sources)
        yield from _table("[users]", _filled(file.users))
    for section, facts in (("calibration", file.calibration), ("said_by", sources)):
        if facts:
            yield from _heading(section, sources)
            yield from _facts(toml_key(section), facts)


def _heading(section: str, sources: Mapping[str, str]) -> Iterator[str]:
    yield ""
    if section in _ABOUT:
        yield f"# {_ABOUT[section]}"
    if section in sources:
        plain = "".join(letter if letter.isprintable() or letter == "\n" else " " for letter in sources[section])
        yield from (f"# From: {line}" for line in plain.split("\n"))


def _table(heading: str, values: Mapping[str, Any]) -> Iterator[str]:
    yield heading
    yield from (f"{toml_key(key)} = {toml(value)}" for key, value in values.items())


def _facts(section: str, facts: Mapping[str, Any]) -> Iterator[str]:
    """Free facts; tables within them become sections."""
    inner = {key: value for key, value in facts.items() if isinstance(value, Mapping)}
    yield from _table(f"[{section}]", {key: value for key, value in facts.items() if key not in inner})
    for key, value in inner.items():
        yield ""
        yield from _facts(f"{section}.{toml_key(key)}", value)


def _filled(item: Any, only: frozenset[str] | None = None) -> dict[str, Any]:
    """Key → value of the fields that are set."""
    values = {f.name: getattr(item, f.name) for f in fields(item) if only is None or f.name in only}
    filled = {name: value for name, value in values.items() if value is not None and (value != () or name not in _RARE)}
    return {key_of(name): written(name, value) for name, value in filled.items()}


# -- the parts of a cluster -------------------------------------------------------------------------------------------


def _rows_of() -> dict[str, type[Any]]:
    """Field → dataclass of the tables of a cluster: groups, partitions, limits, changes …."""
    hints = {name: hint for name, hint in hints_of(Cluster).items() if get_origin(hint) is tuple}
    return {name: get_args(hint)[0] for name, hint in hints.items() if is_dataclass(get_args(hint)[0])}


def _scalars() -> frozenset[str]:
    """Fields of a cluster that are single values."""
    return frozenset(f.name for f in fields(Cluster)) - _rows_of().keys() - {*_QOS}


# -- reading ----------------------------------------------------------------------------------------------------------


def read_cluster_file(path: str | Path) -> ClusterFile:
    """Read a cluster file.

    Raises:
        ConfigurationError: It cannot be read, is not a cluster file, or has an impossible value; the message names
            file, section and key.
    """
    declared = read_toml_file(path, "name a readable cluster file")
    _check_format(path, declared)
    settings = _settings(path, declared.pop("scheduler", {}))
    users = Users(**read_table(Users, declared.pop("users", {}), f"{path}: [users]"))
    calibration, sources = _dict(path, declared, "calibration"), _dict(path, declared, "said_by")
    for section, text in sources.items():
        if not isinstance(text, str):
            raise ConfigurationError(f"{path}: [said_by]: {section}: {shown(text)} is not text in quotes")
    return ClusterFile(_cluster(path, declared), settings, sources, calibration, users)


def _check_format(path: str | Path, declared: dict[str, Any]) -> None:
    form = declared.pop("mirage_cluster", None)
    if form != FORMAT or isinstance(form, bool):
        problem = "is not a cluster file" if form is None else f"has the format {shown(form)}"
        raise ConfigurationError(
            f"{path} {problem}; the first key of one that this version reads is mirage_cluster = {FORMAT}"
        )


def _settings(path: str | Path, table: Any) -> SlurmSettings:
    found = read_table(SlurmSettings, table, f"{path}: [scheduler]")
    for name in _PERIODS:
        if name in found and found[name] <= 0:
            raise ConfigurationError(f'{path}: [scheduler]: {key_of(name)} must be more than 0, such as "00:00:01"')
    try:
        return SlurmSettings(**found)
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: [scheduler]: {error}") from None


def _cluster(path: str | Path, declared: dict[str, Any]) -> Cluster:
    parts = read_table(Cluster, declared.pop("cluster", {}), f"{path}: [cluster]", _scalars())
    for name, kind in _rows_of().items():
        section = name.removesuffix("s")
        rows = declared.pop(section, None)
        if rows is None:
            continue
        if not isinstance(rows, list):
            raise ConfigurationError(f"{path}: {section} is not a list of tables; write each as [[{section}]]")
        parts[name] = tuple(
            _row(kind, row, f"{path}: [[{section}]] number {place}") for place, row in enumerate(rows, 1)
        )
    parts |= _qos(path, _dict(path, declared, "qos"))
    if declared:
        known = [
            "cluster",
            *(name.removesuffix("s") for name in _rows_of()),
            "qos",
            "scheduler",
            "users",
            "calibration",
            "said_by",
        ]
        raise ConfigurationError(
            f"{path}: there is no section {shown(next(iter(declared)))}; known are {', '.join(known)}"
        )
    if "groups" not in parts:
        raise ConfigurationError(f"{path}: it has no [[group]], and a cluster needs nodes")
    try:
        return Cluster(**parts)
    except ClusterError as error:
        raise ConfigurationError(f"{path}: {error}") from error


def _row(kind: type[Any], table: Any, place: str) -> Any:
    found = read_table(kind, table, place)
    try:
        return kind(**found)
    except ClusterError as error:
        raise ConfigurationError(f"{place}: {error}") from error


@dataclass(frozen=True, slots=True)
class _Qos:
    """A section of a QOS."""

    factor: float
    preempts: tuple[str, ...] | None = None


def _qos(path: str | Path, table: Mapping[str, Any]) -> dict[str, Any]:
    found = {name: _Qos(**read_table(_Qos, own, f"{path}: [qos.{name}]")) for name, own in table.items()}
    return {
        "qos_factors": {name: qos.factor for name, qos in found.items()},
        "qos_preempts": {name: qos.preempts for name, qos in found.items() if qos.preempts is not None},
    }


def _dict(path: str | Path, declared: dict[str, Any], section: str) -> dict[str, Any]:
    table = declared.pop(section, {})
    if not isinstance(table, dict):
        raise ConfigurationError(f"{path}: {section} is not a table; write it as a section, [{section}]")
    return table
