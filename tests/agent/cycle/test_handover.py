"""From one link to the next: ready, signalled, given its grace, ended."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from threading import Event

import pytest

from mirage.agent.cycle.handover import (
    Progress,
    ReadinessProbes,
    end_links,
    hand_over,
    is_unsignalled,
    job_environment,
    note_end,
    send_signals,
)
from mirage.agent.model import ChainState, Link, LinkState
from mirage.agent.settings import AgentSettings
from mirage.duration import UNLIMITED_S
from mirage.errors import SlurmRefused, SlurmUnreachable
from mirage.job_state import JobState
from mirage.slurm.records import QueuedJob, Submission
from tests.support.one_chain import NOW_S, OneChain, Slurm, held, job, planned, queued, running, shown, tagged

CALL_S = 9_000 + 3_600 - 120
"""The latest moment of the signal to a link that runs as those of ``running`` do."""


class Scripted:
    """A shell with commands that end with a given result when they are released."""

    def __init__(self, *outcomes: bool | Exception) -> None:
        self.outcomes, self.requested, self.resume = list(outcomes), [], Event()
        self.resume.set()

    def succeeds(self, command: str, environment: Mapping[str, str], directory: str, timeout_s: float) -> bool:
        self.requested.append((command, dict(environment), directory, timeout_s))
        assert self.resume.wait(120)
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


@contextmanager
def probes(*outcomes: bool | Exception) -> Iterator[tuple[ReadinessProbes, Scripted]]:
    shell = Scripted(*outcomes)
    requesting = ReadinessProbes(shell)
    try:
        yield requesting, shell
    finally:
        shell.resume.set()


def handed_over(world: OneChain, requesting: ReadinessProbes | None = None) -> Progress:
    """A step of a hand-over with its signals; one without a ready command needs no probes."""
    progress = hand_over(world.context, world.context.chains[1], requesting)
    context = world.context
    assert send_signals(context, context.signals) == end_links(context, context.endings) == {}
    context.signals, context.endings = [], []
    return progress


def answered(requesting: ReadinessProbes) -> None:
    """Wait for the commands under way."""
    for probe in requesting.probes.values():
        probe.answer.exception(timeout=30)


# -- ready --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("links", "busy"), [((), False), ((queued(1),), True), ((planned(1), held(2)), False)])
def test_nothing_is_handed_over_where_nothing_runs(links: tuple[Link, ...], busy: bool) -> None:
    world = OneChain(*links)
    assert handed_over(world) == Progress(busy)
    assert (world.links, world.events, world.slurm.calls) == (list(links), [], [])


@pytest.mark.parametrize(("warmup_s", "ready_s"), [(0, 9_000), (999, 9_999), (1_000, 10_000), (1_001, -1)])
def test_a_link_is_ready_after_its_warm_up(warmup_s: int, ready_s: int) -> None:
    world = OneChain(running(1, started_s=9_000), warmup_s=warmup_s)
    assert handed_over(world) == (Progress(True, 9_000 + warmup_s) if ready_s < 0 else Progress(False, CALL_S))
    assert world.links == [running(1, started_s=9_000, ready_s=ready_s)]
    assert world.events == ([(1, "ready", "")] if ready_s >= 0 else [])
    assert world.slurm.calls == []


@pytest.mark.parametrize(
    ("since_s", "limit_s", "late"), [(600, 6_000, True), (599, 6_000, False), (36, 360, True), (35, 360, False)]
)
def test_a_job_that_does_not_report_that_it_is_ready_becomes_a_problem(since_s: int, limit_s: int, late: bool) -> None:
    world = OneChain(running(1, started_s=NOW_S - since_s, limit_s=limit_s), ready_by_job=True)
    handed_over(world)
    trouble = "job 101 runs and is not ready: it has not called `mirage link ready`"
    assert world.context.troubles == ({1: trouble} if late else {})


@pytest.mark.parametrize(("since_s", "late"), [(600, True), (599, False)])
def test_a_ready_command_that_does_not_succeed_becomes_a_problem(since_s: int, late: bool) -> None:
    world = OneChain(running(1, started_s=NOW_S - since_s, limit_s=6_000), ready_command="curl -f $MIRAGE_HOST:80")
    with probes(False) as (requesting, _):
        handed_over(world, requesting)
        answered(requesting)
    trouble = "job 101 runs and is not ready: curl -f $MIRAGE_HOST:80 does not succeed"
    assert world.context.troubles == ({1: trouble} if late else {})


def test_a_link_that_is_ready_stays_so() -> None:
    world = OneChain(running(1, ready_s=9_100), warmup_s=5_000)
    assert handed_over(world) == Progress(False, CALL_S)
    assert world.events == []


# -- told, then ended ---------------------------------------------------------------------------------------


def test_the_previous_link_is_signalled_once_the_next_is_ready() -> None:
    world = shown(running(1, ready_s=5_000), running(2, ready_s=9_500))
    assert handed_over(world) == Progress(True, NOW_S + 120), "looked at again when its grace is over"
    assert world.slurm.calls == [("signal", 101, "USR2")]
    assert world.events == [(1, "signalled", "USR2 to job 101")]
    assert world.links == [running(1, ready_s=5_000, signalled_s=NOW_S), running(2, ready_s=9_500)]


def test_the_previous_link_is_not_signalled_before_the_next_is_ready() -> None:
    world = shown(running(1, ready_s=5_000), running(2), warmup_s=5_000)
    assert handed_over(world).busy
    assert (world.slurm.calls, world.events) == ([], [])


@pytest.mark.parametrize(
    ("signalled_s", "turn_s", "calls"),
    [(-1, 2, []), (-1, 0, [("signal", 101, "USR2")]), (NOW_S - 5, 2, [])],
)
def test_no_link_is_signalled_before_the_proxies_point_to_the_next(
    signalled_s: int, turn_s: int, calls: list[object]
) -> None:
    """A link that has its signal already is not waited for again."""
    world = shown(running(1, ready_s=5_000, signalled_s=signalled_s), running(2, ready_s=NOW_S - 1))
    queried = []

    def turn_in_s(*words: object) -> int:
        queried.append(words)
        return turn_s

    progress = hand_over(world.context, world.context.chains[1], None, turn_in_s)  # type: ignore[arg-type]
    send_signals(world.context, world.context.signals)
    assert world.slurm.calls == calls
    assert bool(queried) == (signalled_s == -1)
    assert (progress.next_s == NOW_S + 2) == (turn_s == 2 and signalled_s == -1)


def test_ready_and_signalled_in_one_cycle() -> None:
    world = shown(running(1, ready_s=5_000), running(2))
    assert handed_over(world).busy
    assert [(link, kind) for link, kind, _ in world.events] == [(2, "ready"), (1, "signalled")]


@pytest.mark.parametrize(("signalled_s", "over"), [(NOW_S - 119, False), (NOW_S - 120, True), (NOW_S - 121, True)])
def test_a_link_is_ended_when_its_grace_is_over(signalled_s: int, over: bool) -> None:
    world = shown(running(1, signalled_s=signalled_s), running(2, ready_s=9_500), grace_s=120)
    assert handed_over(world) == Progress(True, CALL_S if over else signalled_s + 120)
    assert world.slurm.calls == ([("cancel", 101)] if over else [])
    assert world.events == ([(1, "ended-by-us", "job 101, grace of 120 s over")] if over else [])
    assert world.links[0].cancelled_s == (NOW_S if over else -1)


def test_without_a_grace_it_is_ended_as_it_is_signalled() -> None:
    world = shown(running(1), running(2, ready_s=9_500), grace_s=0, signal="TERM")
    handed_over(world)
    assert world.slurm.calls == [("signal", 101, "TERM"), ("cancel", 101)]
    assert world.links[0] == running(1, signalled_s=NOW_S, cancelled_s=NOW_S)


def test_without_a_signal_there_is_no_grace() -> None:
    world = shown(running(1), running(2, ready_s=9_500), signal="", grace_s=600)
    handed_over(world)
    assert world.slurm.calls == [("cancel", 101)]
    assert world.events == [
        (1, "signalled", "no signal to job 101"),
        (1, "ended-by-us", "job 101, grace of 0 s over"),
    ]


@pytest.mark.parametrize("known", [{"signalled_s": 9_990}, {"signalled_s": 5_000, "cancelled_s": 6_000}])
def test_no_link_is_signalled_or_ended_twice(known: dict[str, int]) -> None:
    world = shown(running(1, **known), running(2, ready_s=9_500))
    assert handed_over(world).busy
    assert (world.slurm.calls, world.events) == ([], [])


def test_of_three_that_run_the_newest_stays() -> None:
    world = shown(running(1), running(2), running(3, ready_s=9_500))
    assert handed_over(world).busy
    assert world.slurm.calls == [("signal", 101, "USR2"), ("signal", 102, "USR2")]


@pytest.mark.parametrize(
    ("state", "until_s", "leaves"),
    [
        (ChainState.ENDING, NOW_S, True),
        (ChainState.ENDING, NOW_S + 1, False),
        (ChainState.ENDING, -1, False),
        (ChainState.PAUSED, NOW_S, False),
    ],
)
def test_at_the_end_of_its_time_the_last_link_leaves_too(state: ChainState, until_s: int, leaves: bool) -> None:
    world = shown(running(1, ready_s=9_500), chain={"state": state}, until_s=until_s)
    assert not handed_over(world).busy
    assert world.slurm.calls == ([("signal", 101, "USR2")] if leaves else [])


def test_a_link_that_becomes_ready_as_its_time_ends_leaves_at_once() -> None:
    world = shown(running(1), chain={"state": ChainState.ENDING}, until_s=NOW_S)
    assert not handed_over(world).busy
    assert world.slurm.calls == [("signal", 101, "USR2")]


def test_a_signal_that_slurm_refuses_is_reported_and_the_next_link_takes_over() -> None:
    world = shown(running(1), running(2, ready_s=9_500), grace_s=60)
    world.slurm.refuses["signal"] = "Invalid signal"
    assert handed_over(world) == Progress(True, NOW_S + 60)
    assert world.events == [(1, "signal-refused", "Invalid signal")]
    assert world.trouble == "USR2 cannot be sent to job 101: Invalid signal"
    world.context.now_s += 60
    handed_over(world)
    assert world.slurm.calls == [("cancel", 101)]


def test_an_end_that_slurm_refuses_is_a_trouble_and_tried_again() -> None:
    world = shown(running(1, signalled_s=9_000), running(2, ready_s=9_500))
    world.slurm.refuses["cancel"] = "Access/permission denied"
    for _ in range(2):
        assert handed_over(world).busy
        assert (world.events, world.links[0].cancelled_s) == ([], -1)
        assert world.trouble == "job 101 cannot be cancelled (its grace is over): Access/permission denied"
    world.context.backend = world.slurm = Slurm()
    handed_over(world)
    assert world.slurm.calls == [("cancel", 101)]


OTHERS = [{"user": "eve"}, {"comment": tagged(2)}, {"comment": tagged(1, store="fern")}]


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("signalled_s", [-1, 9_000])
def test_nothing_is_sent_to_a_number_of_another_job(other: dict[str, str], signalled_s: int) -> None:
    world = OneChain(running(1, signalled_s=signalled_s), running(2, ready_s=9_500))
    world.shows(replace(job(101, link=1), **other), job(102, link=2))
    assert handed_over(world) == Progress(True, CALL_S)
    assert (world.slurm.calls, world.events) == ([], [])


# -- the last call before the limit -------------------------------------------------------------------------

LAST_CALL = {"started_s": NOW_S - 3_480, "limit_s": 3_600}
"""A link whose grace of two minutes before its limit begins now."""


@pytest.mark.parametrize("next_", [(), (held(2),), (queued(2),), (running(2, started_s=9_990),)])
@pytest.mark.parametrize("margin_s", [0, 25])
def test_every_link_is_signalled_its_grace_before_its_limit_and_not_ended(
    next_: tuple[Link, ...], margin_s: int
) -> None:
    world = shown(running(1, **LAST_CALL, ready_s=7_000), *next_, ready_by_job=True)
    world.context.margin_s = margin_s
    world.context.now_s -= 1 + margin_s
    assert handed_over(world).next_s == NOW_S - margin_s, "looked at again on the second"
    assert world.slurm.calls == []
    world.context.now_s = NOW_S - margin_s
    handed_over(world)
    assert world.slurm.calls == [("signal", 101, "USR2")]
    world.context.now_s += 300  # a site may let jobs run beyond their limits
    handed_over(world)
    assert world.slurm.calls == [("signal", 101, "USR2")]


def test_one_command_signals_the_links_of_all_chains() -> None:
    world = shown(running(1, **LAST_CALL, ready_s=7_000))
    other = world.other(2, running(1, job=201), key="hind")
    sent: list[tuple[object, str]] = []
    world.slurm.signal = lambda jobs, name: sent.append((jobs, name))  # type: ignore[method-assign]
    both = [(world.chain, world.links[0]), (other, world.context.links[2][0])]
    assert send_signals(world.context, both) == {}
    assert sent == [([101, 201], "USR2")]
    assert {link.signalled_s for row in world.context.links.values() for link in row} == {NOW_S}


def test_a_batch_shell_that_passes_the_signal_on_gets_it_alone() -> None:
    world = shown(running(1, **LAST_CALL, ready_s=7_000), to_batch_shell=True)
    plain = replace(world.chain.spec, to_batch_shell=False)
    other = world.other(2, running(1, job=201), key="hind", spec=plain)
    assert send_signals(world.context, [(world.chain, world.links[0]), (other, world.context.links[2][0])]) == {}
    assert world.slurm.calls == [("signal", 101, "USR2", "batch shell"), ("signal", 201, "USR2")]


def test_an_adopted_link_without_a_handler_is_ended_at_once() -> None:
    world = shown(running(1), running(2, ready_s=9_500), first_signal="none", grace_s=300)
    hand_over(world.context, world.chain, ReadinessProbes(Scripted()))
    assert [link.number for _, link in world.context.endings] == [1]
    own = shown(running(1), running(2, ready_s=9_500), first_signal="steps:USR1", grace_s=300, signal="")
    hand_over(own.context, own.chain, ReadinessProbes(Scripted()))
    assert (own.context.endings, [link.number for _, link in own.context.signals]) == ([], [1])


def test_an_adopted_link_gets_a_signal_of_its_own() -> None:
    first, second = running(1, **LAST_CALL, ready_s=7_000), running(2, ready_s=7_000)
    world = shown(first, second, to_steps=True, signal="USR1", first_signal="shell:TERM")
    silent = world.other(2, running(1, job=201), key="hind", spec=replace(world.chain.spec, first_signal="none"))
    wanted = [(world.chain, first), (world.chain, second), (silent, world.context.links[2][0])]
    assert send_signals(world.context, wanted) == {}
    assert world.slurm.calls == [("signal", 101, "TERM", "batch shell"), ("signal", 102, "USR1", "steps")]
    details = [event.detail for event in world.store.reported if event.kind == "signalled"]
    assert details == ["TERM to job 101", "USR1 to job 102", "no signal to job 201"]


def test_a_signal_that_fails_for_one_chain_reaches_the_others() -> None:
    world = shown(running(1, **LAST_CALL, ready_s=7_000))
    rows = [(world.chain, world.links[0])]
    for number in (2, 3, 4):
        chain = world.other(number, running(1, job=100 * number), key=f"hind{number}")
        rows.append((chain, world.context.links[number][0]))
    sent: list[int] = []

    def signal(jobs: list[int], name: str) -> None:
        if len(jobs) > 1:
            raise SlurmRefused("at least one")
        if (error := {200: SlurmUnreachable("no answer"), 300: KeyError("surprise")}.get(jobs[0])) is not None:
            raise error
        sent.extend(jobs)

    world.slurm.signal = signal  # type: ignore[method-assign, assignment]
    failed = send_signals(world.context, rows)
    assert (sent, sorted(failed)) == ([101, 400], [2, 3])
    assert "no answer" in failed[2]
    assert "a fault of Mirage: KeyError" in failed[3]
    assert [row[0].signalled_s for row in world.context.links.values()] == [NOW_S, -1, -1, NOW_S]


def test_a_job_that_is_suspended_is_signalled_when_it_runs_again() -> None:
    world = OneChain(running(1, **LAST_CALL, ready_s=7_000, ends_s=UNLIMITED_S))
    world.shows(replace(job(101, link=1), state=JobState.SUSPENDED))
    handed_over(world)
    assert (world.slurm.calls, world.links[0].signalled_s) == ([], -1)
    assert "job 101 is suspended: its limit does not run, and no signal reaches it until it runs" in world.trouble


TIMED_OUT = {"state": LinkState.ENDED, "outcome": JobState.TIMEOUT, "started_s": 1_000, "limit_s": 3_600}


@pytest.mark.parametrize(
    ("known", "spec", "event"),
    [
        ({}, {}, ("unsignalled", "job 101 reached its limit without a signal of the agent")),
        (
            {"signalled_s": 4_486},
            {},
            ("unsignalled", "job 101 reached its limit 114 s after its signal, of a grace of 120 s"),
        ),
        ({"signalled_s": 4_485}, {}, None),
        (  # slurmctld was down, and so was Slurm's own signal
            {"signalled_s": 4_641, "ended_s": 4_652},
            {"slurm_warning_s": 120},
            ("unsignalled", "job 101 reached its limit 41 s before its signal: Slurm did not answer"),
        ),
        ({}, {"signal": ""}, None),
        ({"outcome": JobState.COMPLETED}, {}, None),
        (
            {},
            {"slurm_warning_s": 120},
            (
                "signalled-by-slurm",
                "job 101 reached its limit without a signal of the agent; Slurm's own --signal has reached its batch "
                "script",
            ),
        ),
    ],
)
def test_a_limit_that_ends_a_link_without_a_signal_in_time_is_written_down(
    known: dict[str, object], spec: dict[str, object], event: tuple[str, str] | None
) -> None:
    world = OneChain(replace(running(1), **(TIMED_OUT | known)), **spec)
    note_end(world.context, world.chain, world.links[0])
    assert world.events == ([(1, *event)] if event else [])
    assert is_unsignalled(world.chain, world.links[0]) == (event is not None and event[0] == "unsignalled")


@pytest.mark.parametrize(
    ("links", "spec"),
    [
        ((running(1, **LAST_CALL, ready_s=7_000), queued(2)), {"signal": ""}),
        ((running(1, started_s=9_000, limit_s=-1, ready_s=9_000), queued(2)), {}),
        ((running(1, started_s=9_000, limit_s=UNLIMITED_S, ready_s=9_000), queued(2)), {}),
    ],
)
def test_links_without_a_last_call(links: tuple[Link, ...], spec: dict[str, str]) -> None:
    world = shown(*links, **spec)
    handed_over(world)
    assert (world.slurm.calls, world.events) == ([], [])


def test_a_link_that_reports_so_itself_is_ready_by_its_word_alone() -> None:
    world = shown(running(1, ready_s=7_000), running(2), ready_by_job=True, warmup_s=60)
    assert handed_over(world).busy
    assert (world.slurm.calls, world.events) == ([], [])
    world = shown(running(1, ready_s=7_000), running(2, ready_s=9_990), ready_by_job=True)
    handed_over(world)
    assert world.slurm.calls == [("signal", 101, "USR2")]


# -- ready commands -----------------------------------------------------------------------------------------


def requests(*links: Link) -> OneChain:
    submission = Submission("job.sh", directory="/home/ada/run", environment={"PORT": "8080"})
    settings = AgentSettings(ready_timeout_s=7.5)
    return OneChain(*links, settings=settings, ready_command="curl -sf localhost", submission=submission, warmup_s=0)


def test_a_ready_command_is_run_aside_and_heard_a_cycle_later() -> None:
    world = requests(running(3)).shows(QueuedJob(103, JobState.RUNNING, nodelist="gpu[07-09]"))
    with probes(True) as (requesting, shell):
        assert handed_over(world, requesting).busy
        assert world.events == []
        answered(requesting)
        assert not handed_over(world, requesting).busy
        assert world.events == [(3, "ready", "")]
        assert world.links == [running(3, ready_s=NOW_S)]
        assert requesting.probes == {}
    environment = {
        "PORT": "8080",
        "MIRAGE_CHAIN": "train",
        "MIRAGE_LINK": "3",
        "MIRAGE_JOB": "103",
        "MIRAGE_HOST": "gpu07",
    }
    assert shell.requested == [("curl -sf localhost", environment, "/home/ada/run", 7.5)]


def test_a_command_under_way_is_not_queried_again() -> None:
    world = requests(running(1))
    with probes(True) as (requesting, shell):
        shell.resume.clear()
        for _ in range(3):
            assert handed_over(world, requesting).busy
        assert list(requesting.probes) == [1]
        shell.resume.set()
        answered(requesting)
    assert len(shell.requested) == 1


@pytest.mark.parametrize("first", [False, OSError("no such directory")])
def test_a_command_that_fails_is_queried_again_each_cycle(first: bool | Exception) -> None:
    world = requests(running(1))
    with probes(first, True) as (requesting, shell):
        for _ in range(2):
            assert handed_over(world, requesting).busy
            answered(requesting)
        assert len(shell.requested) == 2
        assert not handed_over(world, requesting).busy
    assert world.links[0].ready_s == NOW_S


@pytest.mark.parametrize("other", [running(2), running(1, started_s=9_700)])
def test_each_run_of_a_link_is_requested_itself(other: Link) -> None:
    """The result of a probe before a requeue does not apply to the run after it."""
    with probes(True, False, True) as (requesting, shell):
        for link in (running(1), other, other):
            handed_over(requests(link), requesting)
            answered(requesting)
        assert len(shell.requested) == 3


def test_where_a_link_runs() -> None:
    world = OneChain(running(1))
    assert job_environment(world.context, running(1)) == {"MIRAGE_JOB": "101", "MIRAGE_HOST": ""}
    world.shows(QueuedJob(101, JobState.RUNNING))
    assert job_environment(world.context, running(1)) == {"MIRAGE_JOB": "101", "MIRAGE_HOST": ""}
    world.shows(QueuedJob(101, JobState.RUNNING, nodelist="n[2,5]"), QueuedJob(102, JobState.RUNNING, nodelist="n9"))
    assert job_environment(world.context, running(1)) == {"MIRAGE_JOB": "101", "MIRAGE_HOST": "n2"}


def test_commands_that_hang_beyond_their_time_stop_no_other_from_being_queried() -> None:
    now = [0.0]
    shell = Scripted(*[True] * 9)
    requesting = ReadinessProbes(shell, at_once=2, real_s=lambda: now[0])
    shell.resume.clear()
    worlds = {chain: requests(running(1)) for chain in range(4)}

    def requested_by(chain: int) -> int:
        link, world = replace(running(1), chain=chain), worlds[chain]
        requesting.is_ready(world.context, world.context.chains[1], link)
        return len(requesting.probes)

    try:
        assert [requested_by(chain) for chain in range(4)] == [1, 2, 2, 2]
        now[0] = 1.5 * worlds[0].context.settings.ready_timeout_s
        assert [requested_by(chain) for chain in (2, 3)] == [2, 2], "a command that is ended at its time is no hung one"
        now[0] = 2 * worlds[0].context.settings.ready_timeout_s + 1
        assert [requested_by(chain) for chain in (2, 3, 0)] == [3, 4, 4]
    finally:
        shell.resume.set()


def test_the_end_of_the_agent_waits_for_no_command() -> None:
    hangs = """
import time
from types import SimpleNamespace as Some
from mirage.agent.cycle.handover import ReadinessProbes
asking = ReadinessProbes(Some(succeeds=lambda *_: time.sleep(600)))
context = Some(settings=Some(ready_timeout_s=1.0), snapshot=Some(by_id={}))
spec = Some(submission=Some(environment={}, directory="/"), ready_command="true")
asking.is_ready(context, Some(spec=spec, name="train"), Some(chain=1, number=1, started_s=0, job=101))
print(len(asking.probes))
"""
    done = subprocess.run([sys.executable, "-c", hangs], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "1\n")
