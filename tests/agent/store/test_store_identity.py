"""The random letters of a store and its chains, and the cluster on which they live."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirage.agent.model import StoreIdentity
from mirage.agent.store.identity import OF_CHAIN, OF_STORE
from mirage.agent.store.sql_store import SqlStore
from mirage.errors import WrongCluster
from mirage.job_state import MISSING
from tests.support.agent_store import SPEC, is_identity


def test_a_store_and_its_chains_are_distinguished_from_all_others(
    store: SqlStore, url: str, opened, tmp_path: Path
) -> None:
    known, other = store.identity(), opened(f"sqlite:///{tmp_path}/other.db").identity()
    assert is_identity(known.identity, OF_STORE)
    assert known == StoreIdentity(known.identity, "", MISSING)
    assert known.identity != other.identity
    assert opened(url).identity() == known
    keys = {store.add_chain(f"c{k}", SPEC, 100).key for k in range(5)}
    assert len(keys) == 5
    assert all(is_identity(key, OF_CHAIN) for key in keys)
    assert keys == {chain.key for chain in opened(url).chains()}


def test_a_store_is_bound_to_one_cluster(store: SqlStore, url: str, opened) -> None:
    store.bind("lab@head:6817")
    store.bind("lab@head:6817")
    with pytest.raises(WrongCluster, match=r"live on the cluster lab@head:6817, .* speak to site@head:6817 here"):
        opened(url).bind("site@head:6817")
    assert opened(url).identity().cluster == "lab@head:6817"
    store.rebind("lab@new:6817")
    opened(url).bind("lab@new:6817")


def test_when_the_queue_was_observed_last_is_stored(store: SqlStore, url: str, opened) -> None:
    store.record_poll(2**33)
    store.record_poll(2**33 + 60)
    assert opened(url).identity().polled_s == 2**33 + 60
