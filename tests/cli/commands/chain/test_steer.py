"""Chains that are paused, resumed and stopped by hand."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from mirage.agent.chain.tag import Tag
from mirage.agent.model import ChainState, LinkState
from mirage.agent.store.lease import holder_name
from mirage.agent.store.sql_store import SqlStore
from mirage.cli import cli_context
from mirage.errors import SlurmUnreachable
from mirage.job_state import JobState
from mirage.slurm.records import QueuedJob

Type = Callable[..., tuple[str, str]]

NOW_S = 1_790_000_000
"""2026-09-21T14:13:20 UTC: now, in the store of these tests."""


@pytest.fixture
def queue(store: SqlStore, slurm: Any) -> Any:
    """The cluster, with the jobs of serve in its queue."""
    slurm.jobs = (job_of(store, 102, JobState.RUNNING), job_of(store, 103, JobState.PENDING))
    return slurm


def job_of(of: SqlStore, number: int, state: JobState, user: str = "ada", **tag: str) -> QueuedJob:
    """A job of chain serve, or one that only resembles it: with something else in its tag."""
    ours = {"store": of.identity().identity, "key": of.chain("serve").key}
    return QueuedJob(number, state, user=user, comment=str(Tag("serve", number - 100, **ours | tag)))


def test_pause_withdraws_the_waiting_job_and_resume_continues(type_: Type, store: SqlStore, queue: Any) -> None:
    assert type_("chain", "pause", "serve") == (
        "", "chain serve is paused: job 102 runs to its end, none follows until `mirage chain resume serve`\n",
    )  # fmt: skip
    assert queue.calls == [("cancel", 103, "only pending")]
    assert store.chain("serve").why == "paused by hand"
    assert [(link.cancelled_s, link.withdrawn_s) for link in store.links(1)] == [(-1, -1), (-1, -1), (NOW_S, NOW_S)]
    store.change_chain(1, refusals=3, failures=2, next_try_s=NOW_S + 600)
    store.take_lease(holder_name(), NOW_S - 10, 60)
    assert type_("chain", "resume", "serve") == ("", "chain serve resumes with the agent's next poll\n")
    chain = store.chain("serve")
    assert (chain.state, chain.why, chain.refusals, chain.failures, chain.next_try_s) == (
        ChainState.ACTIVE,
        "",
        0,
        0,
        0,
    )
    assert [(event.link, event.kind, event.detail) for event in store.events(1)[3:]] == [
        (0, "paused", "paused by hand"), (3, "withdrawn", "job 103, by hand"), (0, "resumed", ""),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "cancelled", "message"),
    [
        (["serve"], [("cancel", 103), ("cancel", 102)], "stopping: jobs 102 and 103 are cancelled"),
        (
            ["--after-this-link", "serve"],
            [("cancel", 103, "only pending")],
            "ending: job 102 runs to its end, none follows",
        ),
        (["train"], [], "stopping: the queue shows no job of it"),
        (["--after-this-link", "train"], [], "ending: no job of it runs, none follows"),
    ],
)
def test_stop_cancels_what_waits_and_unless_an_option_differs_what_runs(
    type_: Type, store: SqlStore, queue: Any, words: list[str], cancelled: list[tuple[object, ...]], message: str
) -> None:
    assert type_("chain", "stop", *words) == ("", f"chain {words[-1]} is {message}\n")
    assert queue.calls == cancelled
    chain = store.chain(words[-1])
    state = ChainState.ENDING if words[0] == "--after-this-link" else ChainState.STOPPING
    assert (chain.state, chain.why, chain.stopped_s) == (state, "stopped by hand", NOW_S)


@pytest.mark.parametrize(
    ("words", "cancelled"), [(["pause"], False), (["stop", "--after-this-link"], False), (["stop"], True)]
)
def test_a_link_that_has_started_since_the_last_poll_runs_on(
    type_: Type, store: SqlStore, queue: Any, words: list[str], cancelled: bool
) -> None:
    queue.jobs = (job_of(store, 103, JobState.RUNNING),)
    type_("chain", *words, "serve")
    assert queue.calls == ([("cancel", 103)] if cancelled else [])
    assert store.links(1)[-1].cancelled_s == (NOW_S if cancelled else -1)


def test_a_chain_that_is_ending_or_stopping_can_be_stopped_once_more(
    type_: Type, store: SqlStore, queue: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    type_("chain", "stop", "--after-this-link", "serve")
    monkeypatch.setattr(cli_context, "clock", lambda: NOW_S + 100)
    type_("chain", "stop", "serve")
    assert queue.calls == [("cancel", 103, "only pending"), ("cancel", 102)], "each once"
    stopped, events = store.chain("serve"), store.events(1)
    assert (stopped.state, stopped.stopped_s) == (ChainState.STOPPING, NOW_S)
    monkeypatch.setattr(cli_context, "clock", lambda: NOW_S + 300)
    type_("chain", "stop", "serve")
    assert queue.calls == [("cancel", 103, "only pending"), ("cancel", 102)]
    assert (store.chain("serve"), store.events(1)) == (stopped, events), "repeated, it changes nothing"


def test_a_job_that_has_ended_is_not_cancelled(type_: Type, store: SqlStore, slurm: Any) -> None:
    slurm.jobs = (job_of(store, 102, JobState.COMPLETED), job_of(store, 103, JobState.PENDING))
    assert type_("chain", "stop", "serve") == ("", "chain serve is stopping: job 103 is cancelled\n")
    assert slurm.calls == [("cancel", 103)]


@pytest.mark.parametrize("other", [{"user": "eve"}, {"store": "fern"}, {"key": "geese"}])
def test_a_job_that_is_another_user_s_is_not_cancelled(
    type_: Type, store: SqlStore, slurm: Any, other: dict[str, str]
) -> None:
    slurm.jobs = (job_of(store, 102, JobState.RUNNING, **other),)
    type_("chain", "stop", "serve")
    assert slurm.calls == []
    assert store.chain("serve").state is ChainState.STOPPING, "the agent goes on"


@pytest.mark.parametrize("command", ["pause", "stop"])
def test_on_another_cluster_nothing_is_changed(type_: Type, store: SqlStore, queue: Any, command: str) -> None:
    store.bind("lab@head:6817")
    printed = type_("chain", command, "serve", status=1)[1]
    assert "live on the cluster lab@head:6817, and Slurm's commands speak to c1@head:6817" in printed
    assert (queue.calls, store.chain("serve").state) == ([], ChainState.ACTIVE)


def test_where_slurm_does_not_answer_the_agent_cancels(type_: Type, store: SqlStore, queue: Any) -> None:
    queue.trouble = SlurmUnreachable("squeue did not answer")
    assert type_("chain", "stop", "serve")[1].splitlines() == [
        "mirage: squeue did not answer",
        "mirage: squeue did not answer; the agent cancels the jobs when Slurm answers again",
        "mirage: warning: no agent runs; start it with `mirage agent start`",
        "chain serve is stopping: jobs 102 and 103 are cancelled by the agent",
    ]
    store.take_lease(holder_name(), NOW_S - 10, 60)
    assert "no agent runs" not in type_("chain", "stop", "serve")[1]
    assert (queue.calls, store.chain("serve").state) == ([], ChainState.STOPPING)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["pause"], "paused: jobs 102 and 103 run to their ends, none follows until `mirage chain resume serve`"),
        (["stop", "--after-this-link"], "ending: jobs 102 and 103 run to their ends, none follows"),
    ],
)
def test_a_job_that_runs_on_is_named_whatever_the_agent_has_observed(
    type_: Type, store: SqlStore, queue: Any, words: list[str], message: str
) -> None:
    queue.jobs = (job_of(store, 102, JobState.RUNNING), job_of(store, 103, JobState.RUNNING))
    assert type_("chain", *words, "serve")[1] == f"chain serve is {message}\n"


def test_a_pause_without_an_answer_names_the_job_that_ran_last(type_: Type, store: SqlStore, queue: Any) -> None:
    queue.trouble = SlurmUnreachable("squeue did not answer")
    printed = type_("chain", "pause", "serve")[1].splitlines()[-1]
    assert printed == "chain serve is paused: job 102 runs to its end, none follows until `mirage chain resume serve`"


def test_to_wait_for_the_end_takes_an_agent_that_is_not_suspended(type_: Type, store: SqlStore, queue: Any) -> None:
    assert store.path is not None
    with store.path.open() as file, subprocess.Popen(["sleep", "617"], stdin=file) as agent:
        store.take_lease(holder_name(agent.pid), NOW_S, 60)
        agent.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, agent.pid, os.WSTOPPED | os.WNOWAIT)
        printed = type_("chain", "stop", "--wait", "serve", status=1)[1]
        agent.kill()
    assert printed.endswith(
        f"cannot be done now: the process is suspended, and does nothing: kill -CONT {agent.pid} continues it\n"
    )


def test_to_wait_for_the_end_takes_an_agent(
    type_: Type, store: SqlStore, queue: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = type_("chain", "stop", "--wait", "serve", status=1)[1]
    assert "chain serve cannot be done while no agent runs; mirage agent start, then repeat this command" in printed
    store.take_lease(holder_name(), NOW_S, 300)
    waited = []

    def end(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 3:
            store.change_chain(1, state=ChainState.DONE)

    monkeypatch.setattr("mirage.cli.commands.chain.steer.time.sleep", end)
    assert type_("chain", "stop", "--wait", "serve")[1].splitlines() == [
        "chain serve is stopping: jobs 102 and 103 are cancelled",
        "waiting until the agent has observed the end of its jobs ...",
        "chain serve is done",
    ]
    assert len(waited) == 3


@pytest.mark.parametrize(
    ("command", "name", "message"),
    [
        ("resume", "serve", "chain serve is active already"),
        ("pause", "train-old", "chain train-old is done already: all its jobs have ended"),
        ("stop", "train-old", "chain train-old is done already: all its jobs have ended"),
    ],
)
def test_a_chain_in_another_state_is_left_alone(type_: Type, slurm: Any, command: str, name: str, message: str) -> None:
    assert type_("chain", command, name, status=1) == ("", f"mirage: error: {message}\n")
    assert slurm.calls == []


@pytest.mark.parametrize(
    ("state", "command", "message"),
    [
        (ChainState.PAUSED, "pause", "chain serve is paused already"),
        (ChainState.ENDING, "pause", "chain serve is ending already: no job follows"),
        (ChainState.STOPPING, "resume", "chain serve is stopping, and not paused: there is nothing to resume"),
    ],
)
def test_a_chain_that_cannot_change_names_its_state(
    type_: Type, store: SqlStore, slurm: Any, state: ChainState, command: str, message: str
) -> None:
    store.change_chain(1, state=state)
    assert type_("chain", command, "serve", status=1) == ("", f"mirage: error: {message}\n")


def test_an_empty_name_is_no_chain_even_where_there_is_only_one(type_: Type, store: SqlStore, slurm: Any) -> None:
    """``mirage chain stop "$NAME"`` where NAME is not set must not stop a service."""
    with store.engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM links WHERE chain > 1")
        connection.exec_driver_sql("DELETE FROM chains WHERE id > 1")
    assert type_("chain", "stop", "", status=1)[1] == "mirage: error: unknown chain ''. Known: serve.\n"
    assert slurm.calls == []


def test_where_slurm_does_not_answer_it_is_not_known_whether_a_job_runs(
    type_: Type, store: SqlStore, queue: Any
) -> None:
    store.change_link(1, 2, state=LinkState.QUEUED)
    queue.trouble = SlurmUnreachable("squeue did not answer")
    printed = type_("chain", "pause", "serve")[1].splitlines()[-1]
    assert printed.startswith(
        "chain serve is paused: a job of it that has started by now runs to its end, none follows"
    )
