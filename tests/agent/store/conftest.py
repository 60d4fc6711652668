"""New, empty data bases: SQLite, and a real PostgreSQL server."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from mirage.agent.store.sql_store import SqlStore, open_store
from tests.support import postgres


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    if not postgres.BINARIES:
        pytest.skip("there is no PostgreSQL server; apt-get install postgresql")
    with postgres.server() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path: Path) -> str:
    """Of a new, empty data base."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/store.db"
    whole = request.getfixturevalue("postgres_url")
    name = f"t{time.monotonic_ns()}"
    engine = sa.create_engine(whole, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(sa.text(f"CREATE DATABASE {name}"))
    engine.dispose()
    return whole.rsplit("/", 1)[0] + "/" + name


@pytest.fixture
def opened() -> Iterator[Callable[[str], SqlStore]]:
    """Opens stores, and closes them in the end."""
    with ExitStack() as stores:
        yield lambda url: stores.enter_context(closing(open_store(url)))


@pytest.fixture
def store(url: str, opened) -> SqlStore:
    return opened(url)
