"""The checks of a chain before its submission.

Whole command lines are in the tests of ``mirage submit``.
"""

from __future__ import annotations

import signal
import subprocess
from contextlib import nullcontext
from pathlib import Path

import pytest

from mirage.agent.chain.spec_check import (
    SIGNALS,
    check_policy,
    check_spec,
    default_grace_s,
    late_signal,
    least_limit_s,
    limit_s,
    no_hand_over,
    policy_name,
    signal_name,
    slurm_warning_s,
    too_few_a_day,
)
from mirage.agent.model import ChainSpec
from mirage.agent.policy_runner.question import PolicyRequest, settings_for
from mirage.agent.store.rows import spec_from_json, spec_to_json
from mirage.duration import HOUR_S, UNLIMITED_S
from mirage.errors import ConfigurationError, ModelFileError, UnknownName
from mirage.job_state import MISSING
from mirage.policy.contract import PolicySpec
from mirage.policy.policy_registry import POLICIES
from mirage.slurm.records import Submission


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("USR2", "USR2"), ("sigterm", "TERM"), ("none", ""), ("12", "12"), ("RTMIN", str(int(signal.SIGRTMIN))),
        ("SIGRTMIN+3", str(signal.SIGRTMIN + 3)), ("rtmax-1", str(signal.SIGRTMAX - 1)),
    ],
)  # fmt: skip
def test_signals(text: str, name: str) -> None:
    assert signal_name(text) == name


@pytest.mark.parametrize("text", ["NOSUCH", "", "0", "65", "-1", "RTMIN-1", "RTMAX+1", "WINCH", "USR2 TERM", "１"])
def test_signals_that_there_are_not(text: str) -> None:
    with pytest.raises(ConfigurationError, match="no such signal"):
        signal_name(text)


@pytest.mark.parametrize("text", ["KILL", "sigstop", "9", "19"])
def test_signals_that_no_job_can_handle(text: str) -> None:
    with pytest.raises(ConfigurationError, match="no program can handle this signal"):
        signal_name(text)


@pytest.mark.real_slurm
@pytest.mark.slow
def test_the_signals_are_those_of_the_real_scancel(private_cluster) -> None:
    environment = private_cluster(nodes=1, gpus=0).environment

    def is_known(name: str) -> bool:
        done = subprocess.run(["scancel", "-s", name, "1"], env=environment, capture_output=True, text=True)
        assert ("Unknown job signal" in done.stderr) != ("Invalid job id" in done.stderr), done.stderr
        return "Invalid job id" in done.stderr

    names = {sign.name.removeprefix("SIG") for sign in signal.Signals} - {"RTMIN", "RTMAX"}
    assert {name for name in names if is_known(name)} - {"KILL", "STOP"} == set(SIGNALS)
    assert is_known(signal_name("RTMIN+1"))
    assert is_known(signal_name("64"))


@pytest.mark.parametrize(
    ("time", "seconds"),
    [(None, None), ("5", 300), ("0:30", 60), ("1:30", 120), ("0", UNLIMITED_S), ("INFINITE", UNLIMITED_S)],
)
def test_limits_are_read_as_sbatch_reads_them(time: str | None, seconds: int | None) -> None:
    assert limit_s({} if time is None else {"time": time}) == seconds


def test_the_grace_is_a_quarter_of_a_short_limit() -> None:
    assert [default_grace_s(limit) for limit in (None, 60, 480, 481, UNLIMITED_S)] == [120, 15, 120, 120, 120]


@pytest.mark.parametrize(("given", "seconds"), [({}, MISSING), ({"time-min": "90"}, 5_400)])
def test_the_least_limit_is_the_user_s(given: dict[str, str], seconds: int) -> None:
    assert least_limit_s(given) == seconds


def test_age_is_banked_only_by_a_policy_that_can(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = ChainSpec(Submission("job.sh"), policy="reactive", bank_age=True)
    with pytest.raises(ConfigurationError, match="policy reactive does not bank age"):
        check_policy(spec)
    banks = PolicySpec("nowhere:nothing", "banks age", needs=("bank_age",), revises_queued_link=True)
    monkeypatch.setitem(POLICIES, "reactive", banks)  # type: ignore[misc]
    check_policy(spec)


def test_a_model_that_another_policy_is_to_query_is_searched_at_once(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="none: no such file"):
        check_policy(ChainSpec(Submission("job.sh"), policy=f"holds:by={tmp_path}/none"))
    with pytest.raises(ConfigurationError, match="name the file of a model that does"):
        check_policy(ChainSpec(Submission("job.sh"), policy="holds:by=reactive"))


def test_banked_age_reaches_the_policy_and_is_stored() -> None:
    assert settings_for(PolicyRequest("reactive", 1.0, 1.0, bank_age=True), {}).bank_age
    assert not settings_for(PolicyRequest("reactive", 1.0, 1.0), {}).bank_age
    spec = ChainSpec(Submission("job.sh"), bank_age=True, least_limit_s=600)
    assert spec_from_json(spec_to_json(spec), "train") == spec


@pytest.mark.parametrize(
    ("given", "signal", "grace_s", "warning_s"),
    [
        ({"time": "60"}, "USR2", 120, 120),
        ({}, "USR2", 120, 120),
        ({"time": "2"}, "USR2", 100, 60),  # at most half of the limit
        ({"time": "60", "signal": "B:TERM@30"}, "USR2", 120, 0),  # the user has one of their own
        ({"time": "60"}, "", 120, 0),
        ({"time": "UNLIMITED"}, "USR2", 120, 0),
        ({"time": "3-0"}, "USR2", 100_000, 65_535),
    ],
)
def test_slurm_s_own_signal_comes_the_grace_before_the_limit(
    given: dict[str, str], signal: str, grace_s: int, warning_s: int
) -> None:
    assert slurm_warning_s(given, signal, grace_s) == warning_s


@pytest.mark.parametrize(
    ("given", "signal", "grace_s", "is_late"),
    [
        ({"time": "60"}, "USR2", 1_801, True),
        ({"time": "60"}, "USR2", 1_800, False),
        ({"time": "60"}, "", 1_801, False),
        ({}, "USR2", 1_801, False),
        ({"time": "UNLIMITED"}, "USR2", 1_801, False),
    ],
)
def test_a_grace_above_half_of_the_limit_is_reported(
    given: dict[str, str], signal: str, grace_s: int, is_late: bool
) -> None:
    spec = ChainSpec(Submission("job.sh"), signal=signal, grace_s=grace_s)
    remark = (
        "--grace 00:30:01 is longer than half of the time limit 01:00:00: each job gets its signal only 00:30:00 "
        "before its end; give a shorter grace, or a longer limit"
    )
    assert late_signal(spec, given) == ((remark,) if is_late else ())


@pytest.mark.parametrize(
    ("limit", "links", "reported"), [("0", 9, True), ("INFINITE", 0, True), ("0", 1, False), ("60", 9, False)]
)
def test_a_chain_of_jobs_without_a_limit_is_reported(limit: str, links: int, reported: bool) -> None:
    remark = (
        f"the time limit {limit} never ends, so no job hands over: a next one starts only after the one before has "
        "ended by itself; give a limit with -t"
    )
    found = no_hand_over(ChainSpec(Submission("job.sh"), links=links), {"time": limit})
    assert found == ((remark,) if reported else ())
    assert not no_hand_over(ChainSpec(Submission("job.sh")), {}), "the partition's limit is unknown"


@pytest.mark.parametrize(("own", "early"), [("B:USR2@300", True), ("USR2@299", False), ("USR2", False)])
def test_a_signal_of_the_user_s_own_comes_after_the_start(own: str, early: bool) -> None:
    spec, given = ChainSpec(Submission("job.sh"), grace_s=60), {"time": "5", "signal": own}
    with pytest.raises(ConfigurationError, match="signalled to leave as it starts") if early else nullcontext():
        check_spec(spec, given, None, has_end=True)


@pytest.mark.parametrize(
    ("links_a_day", "lasts_s", "links", "needed"),
    [(1, MISSING, 0, 144), (144, MISSING, 0, 0), (1, HOUR_S, 0, 6), (6, HOUR_S, 0, 0), (2, MISSING, 3, 3),
     (3, MISSING, 3, 0), (0, MISSING, 0, 0)],
)  # fmt: skip
def test_fewer_links_a_day_than_a_day_can_need_are_reported(
    links_a_day: int, lasts_s: int, links: int, needed: int
) -> None:
    until_s = MISSING if lasts_s == MISSING else 500 + lasts_s
    spec = ChainSpec(Submission("job.sh"), links_a_day=links_a_day, until_s=until_s, links=links)
    (remark,) = too_few_a_day(spec, {"time": "10"}, 500) or ("",)
    assert remark.startswith(f"--links-a-day {links_a_day} is less than the {needed} jobs of 00:10:00") == bool(needed)
    assert too_few_a_day(spec, {}, 500) == ()


@pytest.mark.parametrize(
    ("policy", "minutes", "lead"), [("lead:0.5", 30, "0.5 h"), ("sml", 180, "3 h"), ("saia", 9, "0.15 h"),
                                    ("hold:1", 60, "1 h")],
)  # fmt: skip
def test_a_constant_lead_is_shorter_than_the_limit(policy: str, minutes: int, lead: str) -> None:
    spec = ChainSpec(Submission("job.sh"), policy=policy, signal="USR2", grace_s=120, warmup_s=60)
    check_spec(spec, {"time": str(minutes + 4)}, None, has_end=True)
    name = "hold" if policy == "hold:1" else "lead"
    for longer, over in ((0, ""), (3, "with 00:03:00 for warm-up and grace ")):
        refused = f"--policy {policy} leads by {lead}, which {over}is not less than the time limit .*, "
        refused += rf"such as {name}:{(minutes + longer - 3) / 120:.2g} \(hours\)"
        with pytest.raises(ConfigurationError, match=refused):
            check_spec(spec, {"time": str(minutes + longer)}, None, has_end=True)


def test_a_chain_that_is_never_to_hold_two_takes_a_policy_that_never_does() -> None:
    assert policy_name(None, never_two=False) == "auto"
    assert policy_name(None, never_two=True) == "dependency"
    assert policy_name("singleton:2", never_two=True) == "singleton:2"
    with pytest.raises(ConfigurationError, match=r"--policy lead:4 may start .* choose from reactive, dependency"):
        policy_name("lead:4", never_two=True)
    with pytest.raises(UnknownName, match="unknown policy 'whatif'"):
        policy_name("whatif", never_two=True)
