"""Options of sbatch as data, from its command line and from ``SBATCH_…`` variables.

From sbatch(1) of Slurm 21.08 to 25.11; the site's own sbatch refuses an option that it does not know, with its own
message.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from mirage.duration import format_duration, parse_limit_s
from mirage.errors import ConfigurationError


class Value(Enum):
    """Whether an option takes a value."""

    NONE = "none"
    NEEDED = "needed"
    OPTIONAL = "optional"  # attached only: --exclusive=user


@dataclass(frozen=True, slots=True)
class Option:
    """An option of sbatch: its long name without dashes, and its letter if it has one."""

    name: str
    letter: str = ""
    value: Value = Value.NEEDED


_NEEDED = """
    a:array A:account acctg-freq batch bb bbf b:begin bc cluster-constraint M:clusters cluster comment C:constraint
    container container-id context cores-per-socket S:core-spec cpu-freq cpus-per-gpu c:cpus-per-task deadline
    delay-boot d:dependency D:chdir m:distribution e:error x:exclude export-file B:extra-node-info extra gid G:gpus
    gpu-bind gpu-freq gpus-per-node gpus-per-socket gpus-per-task gres gres-flags hint i:input J:job-name
    kill-on-invalid-dep L:licenses mail-type mail-user mcs-label mem mem-bind mem-per-cpu mem-per-gpu mincpus
    network w:nodelist F:nodefile N:nodes n:ntasks ntasks-per-core ntasks-per-gpu ntasks-per-node ntasks-per-socket
    ntasks-per-tres open-mode o:output p:partition power prefer priority profile q:qos reservation segment signal
    sockets-per-node switches thread-spec threads-per-core t:time time-min tmp tres-bind tres-per-task uid
    wait-all-nodes wckey wrap
"""
_OPTIONAL = "exclusive export get-user-env nice k:no-kill oom-kill-step propagate resv-ports"
_NONE = """
    consolidate-segments contiguous H:hold h:help ignore-pbs no-requeue O:overcommit s:oversubscribe share parsable
    Q:quiet reboot requeue spread-job stepmgr test-only usage use-min-nodes v:verbose V:version W:wait
"""


def _options(text: str, value: Value) -> Iterable[Option]:
    for word in text.split():
        letter, _, name = word.rpartition(":")
        yield Option(name, letter, value)


OPTIONS: dict[str, Option] = {
    option.name: option
    for option in (
        *_options(_NEEDED, Value.NEEDED),
        *_options(_OPTIONAL, Value.OPTIONAL),
        *_options(_NONE, Value.NONE),
    )
}
"""Long name → option."""

ALIASES = {"tasks": "ntasks", "tasks-per-node": "ntasks-per-node"}
"""Name that sbatch accepts and does not document → its option."""

LETTERS: dict[str, Option] = {option.letter: option for option in OPTIONS.values() if option.letter}

_VARIABLES = """
    ACCOUNT ACCTG_FREQ ARRAY_INX:array BURST_BUFFER:bb CLUSTERS CLUSTER_CONSTRAINT CONSTRAINT CONTAINER CORE_SPEC
    CPUS_PER_GPU CPU_FREQ_REQ:cpu-freq DEBUG:verbose DELAY_BOOT DISTRIBUTION ERROR EXCLUSIVE EXPORT GET_USER_ENV GPUS
    GPUS_PER_NODE GPUS_PER_SOCKET GPUS_PER_TASK GPU_BIND GPU_FREQ GRES GRES_FLAGS HINT IGNORE_PBS INPUT JOB_NAME
    MEM_BIND MEM_PER_CPU MEM_PER_GPU MEM_PER_NODE:mem NETWORK NO_KILL NO_REQUEUE OPEN_MODE OUTPUT OVERCOMMIT PARTITION
    POWER PROFILE QOS REQUEUE REQ_SWITCH:switches RESERVATION SIGNAL SPREAD_JOB THREADS_PER_CORE THREAD_SPEC
    TIMELIMIT:time USE_MIN_NODES WAIT WAIT_ALL_NODES WCKEY
"""

VARIABLES: dict[str, str] = {
    "SLURM_CLUSTERS": "clusters",
    **{
        f"SBATCH_{name}": option or name.lower().replace("_", "-")
        for name, _, option in (word.partition(":") for word in _VARIABLES.split())
    },
}
"""Variable that sbatch reads → its option."""

Chosen = dict[str, str | None]
"""Long name → value, None for a flag."""


def parse_sbatch(argv: Sequence[str]) -> tuple[Chosen, str | None, tuple[str, ...]]:
    """Parse a command line as sbatch does.

    Options end at the first word that is not one, which is the script.

    Args:
        argv: The words after ``sbatch``.

    Returns:
        Options, the last one of a name; the script, None where there is none; its arguments.

    Raises:
        ConfigurationError: An option that sbatch does not have, or one that lacks its value.
    """
    chosen: Chosen = {}
    words = list(argv)
    while words:
        word = words.pop(0)
        if word == "--":
            break
        if not word.startswith("-") or word == "-":
            words.insert(0, word)
            break
        _take(word, words, chosen)
    return chosen, (words[0] if words else None), tuple(words[1:])


def one_option(words: Sequence[str]) -> tuple[Chosen, list[str]]:
    """The first of several options, with its value, and the words after it.

    Combined letters (``-HQ``) are taken together.

    Raises:
        ConfigurationError: An option that sbatch does not have, or one that lacks its value.
    """
    chosen: Chosen = {}
    left = list(words)
    _take(left.pop(0), left, chosen)
    return chosen, left


def from_environment(environment: Mapping[str, str]) -> Chosen:
    """The options in ``SBATCH_…`` variables.

    They override those of the script; those of the command line override them.
    """
    return {
        option: environment[variable] or None for variable, option in VARIABLES.items() if environment.get(variable)
    }


def refuse_unit(name: str, limit: str | None) -> None:
    """Refuses a time limit such as ``4h``, which sbatch does not read.

    Args:
        name: The option or the variable, for the message.
        limit: Its value.

    Raises:
        ConfigurationError: The limit has a unit.
    """
    if limit and re.fullmatch(r"[\d.]+[smhdw]", limit, re.IGNORECASE):
        plain = format_duration(parse_limit_s(limit))
        raise ConfigurationError(f"sbatch knows no units in {name}={limit}; write {name}={plain}")


def refuse_no_nodes(nodes: str | None) -> None:
    """Refuses a job of no nodes; ``sbatch --test-only`` accepts it.

    Raises:
        ConfigurationError: The number is 0.
    """
    if nodes and re.fullmatch(r"0+(-0+)?", nodes):
        raise ConfigurationError(f"--nodes={nodes}: a job needs at least one node; give another number")


def to_argv(options: Mapping[str, str | None]) -> list[str]:
    """Options as words for sbatch."""
    return [f"--{name}" if value is None else f"--{name}={value}" for name, value in options.items()]


def _take(word: str, words: list[str], chosen: Chosen) -> None:
    """Take one option; its value may be the next of the words."""
    if word.startswith("--"):
        _long(word, words, chosen)
    else:
        _short(word, words, chosen)


def _long(word: str, words: list[str], chosen: Chosen) -> None:
    name, equals, value = word[2:].partition("=")
    option = _by_name(name)
    if option.value is Value.NONE:
        if equals:
            raise ConfigurationError(f"option '--{option.name}' doesn't allow an argument")
        chosen[option.name] = None
    elif equals:
        chosen[option.name] = value
    elif option.value is Value.OPTIONAL:
        chosen[option.name] = None
    else:
        chosen[option.name] = _next(words, f"--{option.name}")


def _short(word: str, words: list[str], chosen: Chosen) -> None:
    letters = word[1:]
    while letters:
        letter, letters = letters[0], letters[1:]
        option = LETTERS.get(letter)
        if option is None:
            raise ConfigurationError(f"invalid option -- '{letter}'; sbatch knows -{' -'.join(sorted(LETTERS))}")
        if option.value is Value.NONE:
            chosen[option.name] = None
            continue
        if letters:
            chosen[option.name] = letters.removeprefix("=") if option.value is Value.OPTIONAL else letters
        elif option.value is Value.OPTIONAL:
            chosen[option.name] = None
        else:
            chosen[option.name] = _next(words, f"-{letter}")
        return


def _next(words: list[str], what: str) -> str:
    if not words:
        raise ConfigurationError(f"option '{what}' requires an argument")
    return words.pop(0)


def _by_name(name: str) -> Option:
    """An option by its name or an unambiguous prefix of it, as getopt_long reads them."""
    name = ALIASES.get(name, name)
    if name in OPTIONS:
        return OPTIONS[name]
    begun = sorted(known for known in OPTIONS if known.startswith(name)) if name else []
    if len(begun) == 1:
        return OPTIONS[begun[0]]
    if begun:
        raise ConfigurationError(f"option '--{name}' is ambiguous; it may be --{', --'.join(begun)}")
    near = difflib.get_close_matches(name, OPTIONS, n=1)
    hint = f"; did you mean --{near[0]}?" if near else ""
    raise ConfigurationError(f"unrecognized option '--{name}'{hint}")
