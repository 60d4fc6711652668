"""What commands about chains work on: home, store and cluster of the environment."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from mirage.cli import cli_context
from mirage.errors import ConfigurationError, RequestNotSent, StoreError
from mirage.slurm.client import SlurmClient
from mirage.slurm.queue_source import ScontrolClient
from mirage.slurm.rest import RestClient
from mirage.slurm.runner import TIMEOUT_S, SystemRunner


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MIRAGE_HOME", "MIRAGE_STORE", "MIRAGE_QUEUE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.mark.parametrize("timeout_s", [None, 5.0])
def test_a_long_wait_for_slurm_is_reported_once(timeout_s: float | None, capsys: pytest.CaptureFixture[str]) -> None:
    """Not where the caller has a time-out of its own."""
    cli_context._report_wait.cache_clear()
    runner = cli_context.client(timeout_s).runner
    runner.slow_s = 0.05
    for _ in range(2):
        runner.run(["sleep", "0.5"])
    assert capsys.readouterr().err == "mirage: waits for Slurm; each command has 60 s\n" * (timeout_s is None)


@pytest.mark.parametrize(
    ("changed", "folder", "url"),
    [
        ({}, ".mirage", "sqlite:///{home}/.mirage/store.db"),
        ({"MIRAGE_HOME": ""}, ".mirage", "sqlite:///{home}/.mirage/store.db"),
        ({"MIRAGE_HOME": "{home}/a/b"}, "a/b", "sqlite:///{home}/a/b/store.db"),
        ({"MIRAGE_STORE": "sqlite:///{home}/other.db"}, ".mirage", "sqlite:///{home}/other.db"),
    ],
)
def test_the_home_is_where_the_environment_declares_and_closed_to_others(
    changed: dict[str, str], folder: str, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in changed.items():
        monkeypatch.setenv(name, value.format(home=tmp_path))
    home = cli_context.home()
    assert (home.folder, home.store_url) == (tmp_path / folder, url.format(home=tmp_path))
    assert stat.S_IMODE(home.folder.stat().st_mode) == 0o700
    assert home.log == tmp_path / folder / "agent.log"


@pytest.mark.parametrize("url", ["sqlite:///", "sqlite://", "sqlite:///store.db", "sqlite+pysqlite:///:memory:"])
def test_a_store_that_the_next_command_would_not_find_is_refused(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIRAGE_STORE", url)
    with pytest.raises(ConfigurationError, match="write an absolute path, with four slashes: sqlite:////path"):
        cli_context.home()
    assert list(tmp_path.iterdir()) == []


def test_a_home_that_cannot_be_is_reported_with_the_variable_that_names_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("MIRAGE_HOME", f"{tmp_path}/file/home")
    with pytest.raises(StoreError) as refused:
        cli_context.home()
    assert str(refused.value) == (
        f"cannot make {tmp_path}/file/home: Not a directory; name another folder with MIRAGE_HOME"
    )


def test_the_store_is_released_even_where_a_command_fails() -> None:
    pools = []

    def fail() -> None:
        with cli_context.store() as opened:
            opened.chains()
            pools.append((opened.engine, opened.engine.pool))
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    ((engine, pool),) = pools
    assert engine.pool is not pool, "a closed engine has a new, empty pool"


@pytest.mark.parametrize(
    ("source", "kind"),
    [("", SlurmClient), ("squeue", SlurmClient), ("scontrol", ScontrolClient), ("http://host:6820", RestClient)],
)
def test_the_cluster_is_observed_as_the_environment_declares(
    source: str, kind: type[SlurmClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIRAGE_QUEUE", source)
    client = cli_context.client()
    assert type(client) is kind
    assert client.clock is cli_context.clock


@pytest.mark.parametrize(("requested", "patience_s"), [(None, TIMEOUT_S), (5, 5), (0, TIMEOUT_S)])
def test_a_command_is_given_the_requested_time(requested: float | None, patience_s: float) -> None:
    runner = cli_context.client(requested).runner
    assert isinstance(runner, SystemRunner)
    assert runner.timeout_s == patience_s


def test_a_home_in_which_others_can_write_is_reported_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / ".mirage").mkdir()
    (tmp_path / ".mirage").chmod(0o775)
    for _ in range(2):
        cli_context.home()
    assert capsys.readouterr().err == (
        f"mirage: warning: its group can write in {tmp_path}/.mirage, and so have jobs submitted in your name; "
        f"chmod go-w {tmp_path}/.mirage\n"
    )


@pytest.mark.parametrize("name", ["/nowhere/slurm.conf", ""])
def test_a_configuration_that_is_not_there_is_named_at_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of Slurm's commands would wait for it for a minute."""
    monkeypatch.delenv("MIRAGE_SSH", raising=False)
    monkeypatch.setenv("SLURM_CONF", name)
    with pytest.raises(RequestNotSent, match=f"SLURM_CONF is '{name}', and there is no such file; name"):
        cli_context.client()
    monkeypatch.setenv("SLURM_CONF", __file__)
    cli_context.client()
