"""Chains that are paused, resumed and stopped by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mirage.agent.model import ChainState
from mirage.agent.store.sql_store import SqlStore

Type = Callable[..., tuple[str, str]]

NOW_S = 1_790_000_000
"""2026-09-21T14:13:20 UTC: now, in the store of these tests."""


def test_pause_withdraws_the_waiting_job_and_resume_goes_on(type_: Type, store: SqlStore, slurm: Any) -> None:
    assert type_("chain", "pause", "serve") == (
        "", "chain serve is paused; `mirage chain resume serve` goes on\n",
    )  # fmt: skip
    assert slurm.calls == [("cancel", 103)]
    assert store.chain("serve").why == "paused by hand"
    assert [link.cancelled_s for link in store.links(1)] == [-1, -1, NOW_S]
    store.change_chain(1, refusals=3, failures=2, next_try_s=NOW_S + 600)
    assert type_("chain", "resume", "serve") == ("", "chain serve goes on with the agent's next look\n")
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
    ("words", "cancelled"), [(["serve"], [103, 102]), (["--after-this-link", "serve"], [103]), (["train"], [])]
)
def test_stop_cancels_what_waits_and_unless_told_otherwise_what_runs(
    type_: Type, store: SqlStore, slurm: Any, words: list[str], cancelled: list[int]
) -> None:
    assert type_("chain", "stop", *words) == ("", f"chain {words[-1]} is stopped\n")
    assert slurm.calls == [("cancel", job) for job in cancelled]
    assert (store.chain(words[-1]).state, store.chain(words[-1]).why) == (ChainState.ENDING, "stopped by hand")


@pytest.mark.parametrize(
    ("command", "name", "message"),
    [
        ("resume", "serve", "chain serve is active; only paused ones can be"),
        ("pause", "train-old", "chain train-old is done; only active ones can be"),
        ("stop", "train-old", "chain train-old is done; only active or paused ones can be"),
    ],
)
def test_a_chain_in_another_state_is_left_alone(type_: Type, slurm: Any, command: str, name: str, message: str) -> None:
    assert type_("chain", command, name, status=1) == ("", f"mirage: error: {message}\n")
    assert slurm.calls == []


def test_an_empty_name_is_no_chain_even_where_there_is_only_one(type_: Type, store: SqlStore, slurm: Any) -> None:
    """``mirage chain stop "$NAME"`` where NAME is not set must not stop a service."""
    with store.engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM links WHERE chain > 1")
        connection.exec_driver_sql("DELETE FROM chains WHERE id > 1")
    assert type_("chain", "stop", "", status=1)[1] == "mirage: error: unknown chain ''. Known: serve.\n"
    assert slurm.calls == []
