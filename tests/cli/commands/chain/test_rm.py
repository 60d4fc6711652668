"""Chains that are done, removed: nothing of them is left, and their names are free."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from mirage.agent.model import ChainSpec, ChainState
from mirage.agent.store.chain_file import StoredChain, read_chain_files, write_chain_file
from mirage.agent.store.sql_store import SqlStore
from mirage.cli import cli_context as cluster
from mirage.slurm.records import Submission

Type = Callable[..., tuple[str, str]]


def rows(store: SqlStore) -> set[int]:
    """Numbers of the chains of which there is anything in the store."""
    with store._reading() as connection:
        return {
            number
            for table in ("chains", "links", "decisions", "events")
            for (number,) in connection.execute(
                sa.text(f"SELECT {'id' if table == 'chains' else 'chain'} FROM {table}")
            )
        }


def with_files(name: str) -> Path:
    return cluster.home().folder / cluster.home().spool(name, "job.sh", b"#!/bin/sh\n").parent


def test_a_chain_that_is_done_goes_with_its_folder_and_its_name_is_free(type_: Type, store: SqlStore) -> None:
    store.change_chain(1, state=ChainState.DONE)  # links, decisions and events hang on this one
    gone, other = with_files("serve"), with_files("train")
    assert type_("chain", "rm", "serve") == ("", "removed serve\n")
    assert rows(store) == {2, 3}
    assert (gone.exists(), stat.S_IMODE(other.stat().st_mode)) == (False, 0o700)
    assert store.add_chain("serve", ChainSpec(Submission("serve.sh")), 5).name == "serve"


def test_all_that_are_done_go(type_: Type, store: SqlStore) -> None:
    assert type_("chain", "rm", "--all-done") == ("", "removed train-old\n")
    assert [chain.name for chain in store.chains()] == ["serve", "train"]
    assert type_("chain", "rm", "--all-done") == ("", "removed nothing: no chain is done\n")


def test_a_chain_that_is_stopping_is_waited_for(type_: Type, store: SqlStore) -> None:
    store.change_chain(1, state=ChainState.STOPPING)
    assert (
        "chain serve is stopping; wait until its jobs have ended: mirage chain stop --wait serve"
        in (type_("chain", "rm", "serve", status=1)[1])
    )


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["serve"], 1, "mirage: error: chain serve is active; stop it first: mirage chain stop serve"),
        (["train-old", "serve"], 1, "mirage: error: chain serve is active; stop it first: mirage chain stop serve"),
        (["train-o"], 1, "mirage: error: unknown chain 'train-o'. Did you mean 'train-old'? Known: serve, train, tra"),
        ([], 2, "Error: name the chains, or give --all-done"),
        (["train-old", "--all-done"], 2, "Error: give the names or --all-done, not both"),
    ],
)
def test_what_is_not_done_or_not_named_stays(
    type_: Type, store: SqlStore, words: list[str], status: int, message: str
) -> None:
    folder = with_files("train-old")
    printed = type_("chain", "rm", *words, status=status)[1]
    assert printed.splitlines()[-1].startswith(message)
    assert rows(store) == {1, 2, 3}
    assert (folder / "job.sh").exists()


def test_the_folder_of_a_chain_of_another_store_stays(type_: Type, store: SqlStore) -> None:
    folder = with_files("train-old")
    write_chain_file(
        folder, StoredChain("train-old", "0ther", 5, ChainSpec(Submission("x")), "st0re", "/elsewhere.db", "c")
    )
    assert type_("chain", "rm", "train-old") == ("", "removed train-old\n")
    assert sorted(path.name for path in folder.iterdir()) == ["chain.json", "job.sh"]
    mine = store.add_chain("train-new", ChainSpec(Submission("x")), 5)
    store.change_chain(mine.id, state=ChainState.DONE)
    folder = with_files("train-new")
    write_chain_file(folder, StoredChain("train-new", mine.key, 5, mine.spec, "st0re", "/store.db", "c"))
    type_("chain", "rm", "train-new")
    assert not folder.exists()


def test_a_folder_that_is_gone_already_is_no_trouble(type_: Type, store: SqlStore) -> None:
    assert type_("chain", "rm", "train-old", "train-old") == ("", "removed train-old\n")
    assert read_chain_files(cluster.home().folder) == ([], {})
    assert type_("chain", "list", "--all", "-P", "-n", "-o", "chain")[0] == "serve\ntrain\n"
