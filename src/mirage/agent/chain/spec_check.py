"""The checks of the user's request, before anything is submitted."""

from __future__ import annotations

import os
import re
import shlex
import signal
import sys
from itertools import takewhile
from pathlib import Path

from mirage.agent.chain.request import TIME_LIMIT
from mirage.agent.chain.tag import chain_name
from mirage.agent.model import ChainSpec
from mirage.duration import DAY_S, HOUR_S, MINUTE_S, UNLIMITED_S, format_duration, parse_limit_s
from mirage.errors import ConfigurationError, quantity, shown
from mirage.job_state import MISSING
from mirage.policy.auto_parameters import AUTO
from mirage.policy.cost import Cost
from mirage.policy.policy_registry import is_policy_file, known_policies, make_policy, policy_spec
from mirage.policy.policy_settings import PolicySettings
from mirage.slurm.sbatch_options import Chosen

GRACE_S = 2 * MINUTE_S
GRACE_SHARE = 4
"""By default the grace is two minutes, and at most this part of the time limit."""

SHORTEST_S, SHORTEST_SHARE = HOUR_S, 4
"""By default the agent shortens a link to an hour at least, or to this part of its limit."""

BANK_AGE = "bank_age"
"""The need of a policy that submits a link early only to gather age."""

_SIGNALS = "HUP INT QUIT ABRT ALRM TERM USR1 USR2 URG CONT TSTP TTIN TTOU XCPU"
SIGNALS = tuple(_SIGNALS.split())
"""Names of signals that scancel knows and a job can handle."""

_JOB_NUMBER = re.compile(r"(?<!%)%\d*[jJA]")
"""Patterns in names of output files that stand for the number of the job."""

_NOT_HANDLED = ("KILL", "STOP", str(int(signal.SIGKILL)), str(int(signal.SIGSTOP)))


def limit_s(given: Chosen) -> int | None:
    """The time limit, rounded up to a minute as Slurm does; None where the partition decides.

    Raises:
        ConfigurationError: It is no duration.
    """
    text = given.get("time")
    if text is None:
        return None
    try:
        seconds = parse_limit_s(text)
    except ConfigurationError as error:
        raise ConfigurationError(f"--time: {error}") from error
    return seconds if seconds == UNLIMITED_S else -(-seconds // MINUTE_S) * MINUTE_S


def least_limit_s(given: Chosen) -> int:
    """The shortest limit of the user (``--time-min``); ``MISSING`` where not given.

    Raises:
        ConfigurationError: It is no duration.
    """
    least = given.get("time-min")
    return MISSING if least is None else parse_limit_s(least)


def least_link_s(spec: ChainSpec) -> int:
    """The shortest limit of a link: as configured, and longer than warm-up and grace."""
    return max(spec.least_limit_s, spec.warmup_s + (spec.grace_s if spec.signal else 0) + MINUTE_S)


def shortest_link_s(spec: ChainSpec, usual_s: int) -> int:
    """The shortest limit that the agent gives to a link, seconds.

    Args:
        usual_s: Its usual limit.
    """
    wanted_s = spec.shortest_link_s
    if wanted_s == MISSING:
        wanted_s = min(SHORTEST_S, usual_s // SHORTEST_SHARE)
    return max(wanted_s, least_link_s(spec))


def default_grace_s(limit: int | None) -> int:
    """The default time from the signal to a link's end."""
    return GRACE_S if limit is None else min(GRACE_S, limit // GRACE_SHARE)


DEFAULT_POLICY = AUTO

AT_THE_END = ("reactive", "dependency", "singleton")
"""Policies under which the next link competes only once the present one has ended."""


OF_CONSTANT_HOURS = ("lead", "saia", "sml", "hold")
"""Policies that release the next link a constant number of hours before the end of the present one."""


def policy_name(named: str | None, *, never_two: bool) -> str:
    """The policy of a chain.

    Args:
        named: The user's policy; None for the default.
        never_two: Whether a link may only start once Slurm reports the end of the one before.

    Raises:
        UnknownName: There is no such policy.
        ConfigurationError: The policy would let two links run at once.
    """
    if not never_two:
        return DEFAULT_POLICY if named is None else named
    if named is not None and named.partition(":")[0] not in AT_THE_END:
        policy_spec(named)  # a name that does not exist is reported as such
        raise ConfigurationError(
            f"--policy {named} may start the next job before the last one has ended, which --never-two rules out; "
            f"leave one of them out, or choose from {', '.join(AT_THE_END)}"
        )
    return "dependency" if named is None else named


LONGEST_WARNING_S = 65_535
"""sbatch accepts no longer time for ``--signal``."""


def slurm_warning_s(given: Chosen, signal: str, grace_s: int) -> int:
    """The time before its limit at which Slurm itself signals a link; 0 for never.

    It is 0 where the user requests a signal from Slurm, where the chain sends none, and without a limit.
    """
    limit = limit_s(given)
    if "signal" in given or not signal or (limit is not None and limit >= UNLIMITED_S):
        return 0
    return min(grace_s, LONGEST_WARNING_S, *([] if limit is None else [limit // 2]))


def time_remarks(spec: ChainSpec, given: Chosen, now_s: int, limit_name: str = TIME_LIMIT) -> tuple[str, ...]:
    """Remarks on times that defeat the purpose of a chain."""
    return (
        *late_signal(spec, given, limit_name), *no_hand_over(spec, given, limit_name),
        *too_few_a_day(spec, given, now_s),
    )  # fmt: skip


def late_signal(spec: ChainSpec, given: Chosen, limit_name: str = TIME_LIMIT) -> tuple[str, ...]:
    """A remark on no grace, or on one above half of the limit, the most that a link gets."""
    if spec.signal and not spec.grace_s:
        return ("--grace 0 ends a job as it gets its signal, before it can save; give a longer grace",)
    limit = limit_s(given)
    if limit is None or not spec.signal or spec.grace_s <= limit // 2:
        return ()
    return (
        f"--grace {format_duration(spec.grace_s)} is longer than half of {limit_name} {format_duration(limit)}: each "
        f"job gets its signal only {format_duration(limit // 2)} before its end; give a shorter grace, or a longer "
        "limit",
    )


def no_hand_over(spec: ChainSpec, given: Chosen, limit_name: str = TIME_LIMIT) -> tuple[str, ...]:
    """A remark on a chain of several jobs without a time limit."""
    if spec.links == 1 or (limit_s(given) or 0) < UNLIMITED_S:
        return ()
    return (
        f"{limit_name} {given['time']} never ends, so no job hands over: a next one starts only after the one before "
        "has ended by itself; give a limit with -t",
    )


def too_few_a_day(spec: ChainSpec, given: Chosen, now_s: int) -> tuple[str, ...]:
    """A remark on a number of links a day that cannot fill a day."""
    limit = limit_s(given)
    if not spec.links_a_day or limit is None:
        return ()
    lasts_s = DAY_S if spec.until_s == MISSING else min(spec.until_s - now_s, DAY_S)
    needed = min(-(-lasts_s // limit), spec.links or sys.maxsize)
    if needed <= spec.links_a_day:
        return ()
    return (
        f"--links-a-day {spec.links_a_day} is less than the {quantity(needed, 'job')} of {format_duration(limit)} that "
        f"{format_duration(lasts_s)} can need: the chain is paused before; give a larger number",
    )


def signal_name(text: str, option: str = "--signal-previous") -> str:
    """A signal as scancel accepts it; empty for none.

    Args:
        option: The option that names it.

    Raises:
        ConfigurationError: There is no such signal, or no program can handle it.
    """
    word = text.strip().upper().removeprefix("SIG")
    if word in _NOT_HANDLED:
        raise ConfigurationError(
            f"{option} {shown(text)}: no program can handle this signal, so a job could not save its work; "
            "give one that the job handles, such as USR2 or TERM, or none for none"
        )
    if word == "NONE":
        return ""
    if word.isascii() and word.isdecimal() and 1 <= int(word) <= signal.SIGRTMAX:
        return word
    if real_time := re.fullmatch(r"RT(MIN|MAX)([+-]\d{1,2})?", word):
        number = int(signal.SIGRTMIN if real_time[1] == "MIN" else signal.SIGRTMAX) + int(real_time[2] or 0)
        if signal.SIGRTMIN <= number <= signal.SIGRTMAX:
            return str(number)
    if word not in SIGNALS:
        raise ConfigurationError(
            f"{option} {shown(text)}: there is no such signal for scancel; it takes {', '.join(SIGNALS)}, "
            f"numbers up to {int(signal.SIGRTMAX)}, RTMIN+1 and the like; none for none"
        )
    return word


def check_spec(
    spec: ChainSpec,
    given: Chosen,
    directory: Path | None,
    *,
    has_end: bool,
    name: str = "",
    limit_name: str = TIME_LIMIT,
) -> None:
    """Check that a chain can work as specified.

    Args:
        given: The effective options of the job.
        directory: The user's working directory.
        has_end: Whether the user defines the chain's end.
        name: The user's name for the chain; empty for none.
        limit_name: What messages call the time limit.

    Raises:
        ConfigurationError: It cannot; the message contains the remedy.
        UnknownName: There is no such policy.
    """
    if name:
        chain_name(name)
    check_policy(spec)
    _check_budget(spec, limit_s(given))
    if directory is not None:
        _check_directory(given, directory)
    limit = limit_s(given)
    if limit is None:
        return
    if limit >= UNLIMITED_S:
        if not has_end:
            raise ConfigurationError(
                f"{limit_name} {given['time']} never ends, so no job would hand over to a next one; give a "
                "limit with -t, or define the chain's end with --links, --for, --until or --until-done"
            )
        return
    lasts = f"{limit_name} {format_duration(limit)}"
    _check_times(spec, limit, lasts)
    warning_s = (given.get("signal") or "").partition("@")[2]
    if warning_s.isdecimal() and int(warning_s) >= limit:
        raise ConfigurationError(
            f"--signal={given['signal']}: {warning_s} s before the end is not less than {lasts}: a job would be "
            "signalled to leave as it starts; give a shorter time, or lengthen the limit"
        )


def check_policy(spec: ChainSpec) -> None:
    """Check that the policy exists and accepts its parameter.

    A policy that simulates is only created where it has a parameter: creating it loads the simulator. A file is read.

    Raises:
        ConfigurationError: It does not accept this parameter, or the package for a file is not installed.
        ModelFileError: There is no such file, or it holds no policy.
        UnknownName: There is no such policy.
    """
    in_file = is_policy_file(spec.policy)
    _, colon, parameter = spec.policy.partition(":")
    declared = policy_spec(spec.policy)
    if colon and not parameter and not in_file:
        raise ConfigurationError(f"--policy {spec.policy} ends with a colon; write the parameter after it")
    if in_file or parameter or (declared.parameter and "scheduler" not in declared.needs):
        make_policy(spec.policy, PolicySettings(Cost(spec.interruption_cost, spec.overlap_cost)))
    if spec.bank_age and BANK_AGE not in declared.needs:
        able = ", ".join(name for name in known_policies() if BANK_AGE in policy_spec(name).needs)
        raise ConfigurationError(
            f"--bank-age: the policy {spec.policy} does not bank age; leave the option out, or choose one that does: "
            f"{able or 'no policy here does'}"
        )


def _check_budget(spec: ChainSpec, limit: int | None) -> None:
    """Check that a budget can be met."""
    if not spec.budget_node_h or limit is None:
        return
    budget = f"--budget {spec.budget_node_h:g}"
    if limit >= UNLIMITED_S:
        raise ConfigurationError(f"{budget}: a job without a time limit can use any number of node-hours; give -t")


def _check_directory(given: Chosen, directory: Path) -> None:
    wanted = given.get("chdir")
    if wanted and (directory / wanted).is_dir() and not os.access(directory / wanted, os.X_OK):
        raise ConfigurationError(f"--chdir {wanted}: you may not enter this folder; name one that you may enter")
    if wanted and not (directory / wanted).is_dir():
        raise ConfigurationError(
            f"--chdir {wanted}: there is no such folder here, and each job of the chain would start in another; "
            "make it, or change into it in the script"
        )


def check_output_folders(given: Chosen, directory: Path) -> tuple[str, ...]:
    """Refuse an output file that no job can open: each job would fail at once.

    From a name with a pattern on, nothing is checked.

    Returns:
        Warnings: an absolute path may be another one on the compute nodes.

    Raises:
        ConfigurationError: It cannot be opened in the working directory.
    """
    where, warnings = directory / (given.get("chdir") or ""), []
    for option, default in (("output", "slurm-%j.out"), ("error", "")):
        file = given.get(option) or default
        problem, remedy = _output_problem(where, file.replace("\\", "")) if file and where.is_dir() else ("", "")
        if problem and not file.startswith("/"):
            raise ConfigurationError(f"--{option} {file}: {problem}, and each job would fail at once; {remedy}")
        if problem:
            warnings.append(
                f"warning: --{option} {file}: {problem}; if it is so on compute nodes too, each job fails at once: "
                f"{remedy}"
            )
    return tuple(warnings)


def _output_problem(where: Path, file: str) -> tuple[str, str]:
    """The reason why a job cannot open its output, and the remedy; empty for none."""
    place, parents = where / file, Path(file).parent.parts
    folder = where.joinpath(*takewhile(lambda part: "%" not in part, parents))
    if not os.path.isdir(folder):  # unlike Path.is_dir, also answers in a folder that is closed
        return f"there is no folder {folder}, which Slurm does not make", f"mkdir -p {shlex.quote(str(folder))}"
    if any(_JOB_NUMBER.search(part) for part in parents):
        return "no folder has the number of a new job, and Slurm makes none", "put %j into the name of the file"
    if file.endswith("/") or os.path.isdir(place):
        return f"{place} is a folder", "name a file in it"
    there = place if os.path.exists(place) else folder
    if not any("%" in part for part in parents) and not os.access(there, os.W_OK):
        return f"you may not write {there}", "name a file that you may write with -o or -e"
    return "", ""


def _check_times(spec: ChainSpec, limit: int, lasts: str) -> None:
    """Check that a link has time between warm-up and grace, and for the lead."""
    if spec.warmup_s >= limit:
        raise ConfigurationError(
            f"--warmup {format_duration(spec.warmup_s)} is not shorter than {lasts}: no link would ever be ready; "
            "shorten the warm-up, or lengthen the limit"
        )
    grace_s = spec.grace_s if spec.signal else 0
    if grace_s >= limit:
        raise ConfigurationError(
            f"--grace {format_duration(grace_s)} is not shorter than {lasts}: a link would be signalled to leave as it "
            "starts; shorten the grace, or lengthen the limit"
        )
    if spec.warmup_s + grace_s >= limit:
        raise ConfigurationError(
            f"--warmup {format_duration(spec.warmup_s)} and --grace {format_duration(grace_s)} leave nothing of "
            f"{lasts}; shorten one of them, or lengthen the limit"
        )
    constant = spec.policy.partition(":")[0] in OF_CONSTANT_HOURS
    hours = getattr(make_policy(spec.policy), "hours", 0.0) if constant else 0.0
    name = spec.policy.partition(":")[0] if ":" in spec.policy else "lead"
    over_s = spec.warmup_s + min(grace_s, limit // 2)
    if hours * HOUR_S + over_s >= limit:
        over = "" if hours * HOUR_S >= limit else f"with {format_duration(over_s)} for warm-up and grace "
        raise ConfigurationError(
            f"--policy {spec.policy} leads by {hours:g} h, which {over}is not less than {lasts}: the next job would be "
            "due before the last one started; give a longer limit, or a shorter lead, such as "
            f"{name}:{(limit - over_s) / 2 / HOUR_S:.2g} (hours)"
        )
