"""The site file: what a site allows chains to do, and how often Slurm may be queried.

An administrator writes ``/etc/mirage/site.toml``; a user may have another one. Both count, and the stricter value of
each wins: a user cannot loosen a cap of the site.

    contact = "hpc-help@example.org"
    least_poll = "2m"
    most_chains = 20
    most_held_jobs = 10
    most_waiting_links = 1
    most_overlap = "45m"
    no_chains_in_partitions = ["debug"]
    no_chains_in_qos = ["debug"]
    login_nodes = ["login[1-4]"]
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirage.duration import format_duration, parse_duration_s
from mirage.errors import ConfigurationError, first_of, quantity, shown
from mirage.slurm_words.hostlist import expand_hosts
from mirage.text_file import read_toml_file
from mirage.user_folder import user_folder

if TYPE_CHECKING:
    from mirage.agent.paths import Home
    from mirage.agent.store.protocol import Store

SITE_FILE = Path("/etc/mirage/site.toml")
"""The administrator's file."""

_NAME = re.compile(r"[^\s,]+")
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")

LONGEST_LEAST_POLL_S = 1800
"""With a longer time between polls an agent cannot hand over."""


@dataclass(frozen=True, slots=True)
class SiteFile:
    """The rules of one file, or of both; by default there are none.

    Attributes:
        path: The file; of both, the administrator's.
        contact: Contact line for users; empty for none.
        least_poll_s: Least time between two polls of the queue.
        most_chains: Largest number of chains of a user that are alive; None for no cap.
        most_held_jobs: The same for jobs that are held: each chain has one; None for no cap.
        most_waiting_links: Largest number of links of a chain that wait at once; None for no cap.
        most_overlap_s: Longest time with two links of a chain; None for no cap.
        no_chains_in_partitions: Partitions in which chains are not allowed.
        no_chains_in_qos: QOS in which chains are not allowed.
        login_nodes: Hosts on which nothing is compiled, calibrated or trained.
    """

    path: str = ""
    contact: str = ""
    least_poll_s: int = 0
    most_chains: int | None = None
    most_held_jobs: int | None = None
    most_waiting_links: int | None = None
    most_overlap_s: int | None = None
    no_chains_in_partitions: tuple[str, ...] = ()
    no_chains_in_qos: tuple[str, ...] = ()
    login_nodes: tuple[str, ...] = ()

    def with_user_file(self, other: SiteFile) -> SiteFile:
        """The rules of this file and of a user's one: the stricter of each."""
        return SiteFile(
            path=" and ".join(filter(None, (self.path, other.path))),
            contact=self.contact or other.contact,
            least_poll_s=max(self.least_poll_s, other.least_poll_s),
            most_chains=_least(self.most_chains, other.most_chains),
            most_held_jobs=_least(self.most_held_jobs, other.most_held_jobs),
            most_waiting_links=_least(self.most_waiting_links, other.most_waiting_links),
            most_overlap_s=_least(self.most_overlap_s, other.most_overlap_s),
            no_chains_in_partitions=_both(self.no_chains_in_partitions, other.no_chains_in_partitions),
            no_chains_in_qos=_both(self.no_chains_in_qos, other.no_chains_in_qos),
            login_nodes=_both(self.login_nodes, other.login_nodes),
        )

    def refusal(self, what: str) -> str:
        """A message that names the rule, the file and the contact line."""
        return f"{what} (site file {self.path})" + (f"; contact: {self.contact}" if self.contact else "")

    def chains_refusal(self, alive: int) -> str:
        """The refusal of one more chain; empty where it is allowed.

        Args:
            alive: Number of chains that are not done.
        """
        if self.most_chains is not None and alive >= self.most_chains:
            return self.refusal(f"this site allows {quantity(self.most_chains, 'chain')} of a user; alive: {alive}")
        if self.most_held_jobs is not None and alive >= self.most_held_jobs:
            held = f"this site allows {quantity(self.most_held_jobs, 'held job')} of a user"
            return self.refusal(f"{held}: each chain holds one; alive: {quantity(alive, 'chain')}")
        return ""

    def check_chains(self, store: Store, home: Home) -> None:
        """Check that the site allows one more chain in a store and a folder.

        Raises:
            ConfigurationError: It does not.
        """
        if not self.path:
            return
        agentless = home.agentless_chains()
        if why := self.chains_refusal(len(store.chains(alive=True)) + len(agentless)):
            raise ConfigurationError(why + f"; without an agent: {first_of(agentless)}" * bool(agentless))

    def place_refusal(self, partition: str, qos: str) -> str:
        """The refusal of chains in a partition or a QOS; empty where they are allowed.

        Args:
            partition: One or more partitions, separated by commas; empty where unknown.
            qos: Empty where unknown.
        """
        for kind, names, refused in (
            ("partition", partition.split(","), self.no_chains_in_partitions),
            ("QOS", qos.lower().split(","), self.no_chains_in_qos),
        ):
            for name in names:
                if name in refused:
                    return self.refusal(f"this site allows no chains in {kind} {name}; choose another {kind}")
        return ""

    def check_place(self, given: Mapping[str, str | None]) -> None:
        """Check that the site allows chains in the partition and the QOS of a job.

        Args:
            given: The effective options of sbatch.

        Raises:
            ConfigurationError: It does not.
        """
        if why := self.place_refusal(given.get("partition") or "", given.get("qos") or ""):
            raise ConfigurationError(why)

    def waiting_links_remark(self, wanted: int | None) -> tuple[str, ...]:
        """A remark on more waiting links than the site allows; none of them is refused.

        Args:
            wanted: The number that the user gives; None for none.
        """
        most = self.most_waiting_links
        if wanted is None or most is None or wanted <= most:
            return ()
        return (self.refusal(f"--waiting-links {wanted} counts as {most}, the most that this site allows"),)

    def is_login_node(self, host: str = "") -> bool:
        """Whether a host is a login node, by its full or its short name.

        Args:
            host: By default this host.
        """
        host = host or socket.gethostname()
        return bool({host, host.partition(".")[0]} & set(self.login_nodes))

    def login_refusal(self, work: str) -> str:
        """The refusal of work on this host; empty where it is no login node.

        Args:
            work: In words: "compile the simulator".
        """
        if not self.is_login_node():
            return ""
        return self.refusal(f"{socket.gethostname()} is a login node: do not {work} here, but in a job")

    def lines(self) -> list[str]:
        """The rules in words, for ``mirage doctor``."""
        rules = {
            "least time between polls": format_duration(self.least_poll_s) if self.least_poll_s else "",
            "most chains": _number(self.most_chains),
            "most held jobs": _number(self.most_held_jobs),
            "most waiting links of a chain": _number(self.most_waiting_links),
            "longest overlap": "" if self.most_overlap_s is None else format_duration(self.most_overlap_s),
            "no chains in partitions": ", ".join(self.no_chains_in_partitions),
            "no chains in QOS": ", ".join(self.no_chains_in_qos),
            "login nodes": ", ".join(self.login_nodes),
            "contact": self.contact,
        }
        return [f"{name}: {value}" for name, value in rules.items() if value]


def read_site_files(environment: Mapping[str, str], site: Path | None = None) -> SiteFile:
    """The rules of the administrator's file and of the user's.

    Args:
        environment: Where the user's folder of settings is: ``XDG_CONFIG_HOME``, or ``HOME``.
        site: The administrator's file; by default ``SITE_FILE``.

    Raises:
        ConfigurationError: A file cannot be read, or has a rule that is not known: no rule is ignored silently.
    """
    rules = read_site_file(site or SITE_FILE)
    try:
        folder = user_folder(environment, "XDG_CONFIG_HOME", ".config")
    except ConfigurationError:  # a user without a home folder has no such file
        return rules
    return rules.with_user_file(read_site_file(folder / "mirage" / "site.toml"))


def read_site_file(path: Path) -> SiteFile:
    """The rules of one file; none where there is no such file.

    Raises:
        ConfigurationError: It cannot be read, or has a rule or a value that is not known.
    """
    try:
        declared = read_toml_file(path, "ask its owner to make it a readable text file, or to remove it", at_rest=True)
    except FileNotFoundError:
        return SiteFile()
    values: dict[str, Any] = {}
    for name, value in declared.items():
        if name not in _RULES:
            raise ConfigurationError(f"{path}: unknown rule {shown(name)}. Known: {', '.join(_RULES)}.")
        field, read = _RULES[name]
        try:
            values[field] = read(value)
        except (ValueError, TypeError, ConfigurationError) as error:
            raise ConfigurationError(f"{path}: {name} = {shown(value)}: {error}") from error
    return SiteFile(path=str(path), **values)


def _duration_s(value: object) -> int:
    if not isinstance(value, str):
        raise TypeError('a duration is a text, such as "2m" or "00:45:00"')
    seconds, word = parse_duration_s(value), value.strip()
    if word == "-1":  # Slurm's word for no limit, and here a slip
        raise ValueError("it is negative; leave the rule out where there is no limit")
    if seconds and word.isdecimal():
        raise ValueError(f'it has no unit; write "{word}s" or "{word}m"')
    return seconds


def _least_poll_s(value: object) -> int:
    seconds = _duration_s(value)
    if not 0 <= seconds <= LONGEST_LEAST_POLL_S:
        raise ValueError(f"it is at most {format_duration(LONGEST_LEAST_POLL_S)}: an agent must see hand-overs")
    return seconds


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise TypeError("it is a number of at least 0")
    return value


def _at_least_one(value: object) -> int:
    if not (count := _count(value)):
        raise ValueError("it is a number of at least 1: one link waits in every chain")
    return count


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.isprintable():
        raise TypeError("it is one line of text")
    return value


def _names(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(name, str) and _NAME.fullmatch(name) for name in value):
        raise TypeError('it is a list of names, one a text: ["debug", "short"]')
    if any("*" in name for name in value):
        raise ValueError("no name has a *, with which sinfo marks the default partition; write each name in full")
    return tuple(value)


def _qos(value: object) -> tuple[str, ...]:
    """Names of QOS in lower case, as Slurm has them: unlike partitions, it accepts any case."""
    return tuple(name.lower() for name in _names(value))


def _hosts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(names, str) and expand_hosts(names) for names in value):
        raise TypeError('it is a list of names of hosts: ["login[1-4]"]')
    hosts = tuple(host for names in value for host in expand_hosts(names))
    for host in hosts:
        if not _HOST.fullmatch(host):
            raise ValueError(f'{shown(host)} is no name of a host; write names and ranges: ["login[1-4]"]')
    return hosts


_RULES: dict[str, tuple[str, Callable[[object], Any]]] = {
    "contact": ("contact", _text),
    "least_poll": ("least_poll_s", _least_poll_s),
    "most_chains": ("most_chains", _count),
    "most_held_jobs": ("most_held_jobs", _count),
    "most_waiting_links": ("most_waiting_links", _at_least_one),
    "most_overlap": ("most_overlap_s", _duration_s),
    "no_chains_in_partitions": ("no_chains_in_partitions", _names),
    "no_chains_in_qos": ("no_chains_in_qos", _qos),
    "login_nodes": ("login_nodes", _hosts),
}
"""Rules as a file names them: the attribute, and the reader of its value."""


def _least(one: int | None, other: int | None) -> int | None:
    return min((cap for cap in (one, other) if cap is not None), default=None)


def _both(one: Sequence[str], other: Collection[str]) -> tuple[str, ...]:
    return (*one, *(name for name in other if name not in one))


def _number(cap: int | None) -> str:
    return "" if cap is None else str(cap)
