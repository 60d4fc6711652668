"""Endpoints of the agent: files follow each cycle's snapshot, and errors stay separate."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from mirage.agent.background.endpoints import (
    SOON_EVERY_S,
    SOON_S,
    TURNS_S,
    InstalledEndpoints,
    install_endpoint,
    installed_endpoints,
    uninstall_endpoints,
)
from mirage.agent.chain.tag import Tag
from mirage.agent.cycle.context import CycleContext
from mirage.agent.cycle.own_jobs import own_jobs
from mirage.agent.cycle.poller import Snapshot
from mirage.agent.cycle.readiness import SystemShell
from mirage.agent.endpoint import NOWHERE, Endpoint, Port
from mirage.agent.model import ChainState, LinkState
from mirage.agent.paths import Home
from mirage.agent.settings import AgentSettings
from mirage.agent.store.sql_store import SqlStore
from mirage.errors import ConfigurationError
from mirage.job_state import JobState
from mirage.slurm.records import Queue, QueuedJob
from tests.support.agent_store import SPEC
from tests.support.waiting import until


class World:
    """A store with the chains ``one`` and ``two``, a running link in each, and the endpoints."""

    def __init__(self, store: SqlStore, folder: Path) -> None:
        self.store, self.folder = store, folder
        self.home = Home(folder / "home", "")
        self.now_s = 100
        self.real_s = 0.0
        self.hosts = {"one": "n1", "two": "n2"}
        for number, name in enumerate(self.hosts, 1):
            store.add_chain(name, SPEC, 0)
            store.change_link(number, 1, state=LinkState.RUNNING, job=100 + number, started_s=5, ready_s=6)
        self.shell: SystemShell | Hanging = SystemShell()
        self.agent = self.begin()

    def begin(self) -> InstalledEndpoints:
        """The endpoints of an agent that has just begun."""
        self.agent = InstalledEndpoints(self.home, self.shell, lambda: self.real_s, reload_s=5.0)
        return self.agent

    def install(self, chain: str, name: str = "", reload: str = "") -> Path:
        file = self.folder / (name or f"{chain}.conf")
        install_endpoint(self.home, Endpoint(chain, "nginx", Port(80), file, reload))
        return file

    def cycle(self, wait: bool = True) -> None:
        """One cycle, a minute after the last."""
        self.now_s, self.real_s = self.now_s + 60, self.real_s + 60
        self.agent.refresh(self.context())
        if wait:
            self.settle()

    def turn_in_s(self, chain: str = "one", ready_s: int = 6) -> int:
        """What the endpoints answer about the link of a chain, without a cycle."""
        known = self.store.chain(chain)
        link = replace(self.store.links(known.id)[0], ready_s=ready_s)
        return self.agent.turn_in_s(self.context(), known, link)

    def context(self) -> CycleContext:
        """A cycle now."""
        chains = {chain.id: chain for chain in self.store.chains(alive=True)}
        identity = self.store.identity().identity
        jobs = [
            QueuedJob(
                100 + chain.id, JobState.RUNNING, user="ada", nodelist=self.hosts[chain.name], start_s=5,
                comment=str(Tag(chain.name, 1, identity, chain.key)),
            )
            for chain in chains.values() if self.hosts.get(chain.name)
        ]  # fmt: skip
        snapshot = Snapshot(Queue(self.now_s, tuple(jobs)), own_jobs(jobs, "ada", identity))
        links = {number: self.store.links(number) for number in chains}
        return CycleContext(self.store, None, AgentSettings(), self.now_s, snapshot, chains, links)  # type: ignore[arg-type]

    def settle(self, *chains: str) -> None:
        """Wait for the threads of some chains, of all by default."""

        def settled() -> bool:
            known = self.agent._progress.items()
            return all(p.work is None or p.work.done() for e, p in known if e.chain in (chains or self.hosts))

        until(settled, 5, "files are written")

    def cycles(self, count: int = 2) -> None:
        for _ in range(count):
            self.cycle()

    def events(self, chain: str) -> list[tuple[str, str]]:
        return [(event.kind, event.detail) for event in self.store.events(self.store.chain(chain).id)]


class Hanging:
    """A shell with commands that do not end until they are released."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.runs = 0

    def succeeds(self, command: str, environment: Mapping[str, str], directory: str, timeout_s: float) -> bool:
        self.runs += 1
        if command == "hang":
            self.over.wait(60)
        return True


@pytest.fixture
def world(store: SqlStore, tmp_path: Path) -> World:
    return World(store, tmp_path)


def test_a_file_follows_the_live_job_and_its_changes_are_events(world: World) -> None:
    file = world.install("one", reload=f"echo x >> {world.folder}/reloads")
    world.cycles()
    assert "server n1:80;" in file.read_text()
    world.hosts["one"] = "n7"
    world.cycles()
    assert "server n7:80;" in file.read_text()
    world.hosts["one"] = ""
    world.cycles(3)
    assert NOWHERE in file.read_text()
    assert world.events("one") == [
        ("endpoint", f"{file} points to n1:80"),
        ("endpoint", f"{file} points to n7:80"),
        ("endpoint", f"{file} points nowhere"),
    ]
    assert (world.folder / "reloads").read_text() == "x\n" * 3


def test_a_link_takes_over_when_every_proxy_points_to_it(world: World) -> None:
    hanging = world.shell = Hanging()
    world.begin()
    world.install("one")
    world.install("one", "second.conf", reload="hang")
    assert world.turn_in_s() == SOON_EVERY_S, "no file is written yet"
    world.cycle(wait=False)
    until(lambda: hanging.runs == 1, 5, "the reload begins")
    assert world.turn_in_s() > 0, "the file is written, but its proxy has not read it"
    hanging.over.set()
    world.settle()
    assert world.turn_in_s() == 0, "at once, and not at the next cycle"
    world.hosts["one"] = "n7"
    assert world.turn_in_s() > 0, "the files still point to n1"
    world.cycles()
    assert world.turn_in_s() == 0
    world.install("one", "third.conf")
    assert world.turn_in_s() > 0
    assert world.turn_in_s("two") == 0, "no proxy follows it"


def test_a_proxy_that_fails_delays_a_hand_over_for_a_while_only(world: World) -> None:
    world.install("one", reload="false")
    world.cycles()
    assert world.turn_in_s() == SOON_EVERY_S
    world.real_s += SOON_S
    ready_s = world.now_s
    assert world.turn_in_s(ready_s=ready_s) == AgentSettings().busy_poll_s, "no more polls than usual"
    world.now_s += TURNS_S
    assert world.turn_in_s(ready_s=ready_s) == 0
    world.begin()
    assert world.turn_in_s(ready_s=ready_s) == SOON_EVERY_S, "an agent that begins gives the proxies a moment"


def test_an_agent_that_begins_reloads_once_for_the_one_that_was_killed_before_it_could(world: World) -> None:
    world.install("one", reload=f"echo x >> {world.folder}/reloads")
    world.cycles()
    world.begin()
    world.cycles(3)
    assert (world.folder / "reloads").read_text() == "x\n" * 2


def test_a_file_that_another_program_has_changed_is_written_again(world: World) -> None:
    file = world.install("one")
    world.cycles()
    file.write_text("else")
    world.cycles()
    assert "n1:80" in file.read_text()
    file.unlink()
    world.cycles()
    assert "n1:80" in file.read_text()


@pytest.mark.parametrize("removed", [False, True])
def test_a_chain_that_is_done_or_removed_points_nowhere(world: World, removed: bool) -> None:
    file, other = world.install("one"), world.install("two")
    world.cycles()
    world.store.change_chain(1, state=ChainState.DONE)
    if removed:
        world.store.remove_chain(1)
    world.cycles()
    assert NOWHERE in file.read_text()
    assert "n2:80" in other.read_text()
    if not removed:
        assert world.events("one")[-1] == ("endpoint", f"{file} points nowhere")


def test_trouble_of_one_endpoint_is_an_event_once_and_is_over_once(world: World) -> None:
    (world.folder / "sub").mkdir()
    bad, good = world.install("one", "sub/up.conf"), world.install("two")
    (world.folder / "sub").rmdir()
    world.cycles(4)
    assert world.events("one") == [("endpoint-trouble", f"cannot write {bad}: No such file or directory")]
    assert "n2:80" in good.read_text()
    (world.folder / "sub").mkdir()
    world.cycles(12)
    assert world.events("one")[1:] == [
        ("endpoint-trouble-over", str(bad)), ("endpoint", f"{bad} points to n1:80")
    ]  # fmt: skip
    assert "n1:80" in bad.read_text()
    assert [kind for kind, _ in world.events("two")] == ["endpoint"]


def test_a_reload_that_fails_is_tried_again_and_the_file_is_right_meanwhile(world: World) -> None:
    command = f"test -e {world.folder}/works"
    file = world.install("one", reload=command)
    world.cycles()
    ((kind, detail),) = world.events("one")
    assert kind == "endpoint-trouble"
    assert "is written, but" in detail
    assert "failed, or took longer than 5 s" in detail
    assert "n1:80" in file.read_text()
    (world.folder / "works").touch()
    world.cycles(12)
    assert [kind for kind, _ in world.events("one")] == ["endpoint-trouble", "endpoint-trouble-over", "endpoint"]


def test_a_reload_that_hangs_holds_up_neither_the_cycle_nor_another_endpoint(world: World) -> None:
    shell = world.shell = Hanging()
    world.begin()
    world.install("one", reload="hang")
    good = world.install("two", reload="fine")
    began = time.monotonic()
    for host in ("n2", "n3", "n4"):
        world.hosts["two"] = host
        for _ in range(2):
            world.cycle(wait=False)
            world.settle("two")
        assert f"{host}:80" in good.read_text()
    assert time.monotonic() - began < 30
    assert shell.runs == 4, "one thread for the endpoint that hangs"
    ((kind, detail),) = world.events("one")
    assert kind == "endpoint-trouble"
    assert "does its folder hang?" in detail
    shell.over.set()
    world.settle()
    world.cycle()
    assert [kind for kind, _ in world.events("one")][1:] == ["endpoint-trouble-over", "endpoint"]


def test_a_file_that_describes_no_endpoint_is_reported_and_the_others_are_followed(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    file = world.install("one")
    (world.home.endpoints / "0.json").write_text("{")
    (world.home.endpoints / "1.json").write_text(
        '{"chain": "two", "kind": "apache", "port": "1", "file": "/x", "reload": ""}'
    )
    world.cycles(3)
    assert "n1:80" in file.read_text()
    assert [record.message for record in caplog.records].count("trouble") == 2


def test_an_endpoint_is_installed_removed_and_belongs_to_one_chain(world: World) -> None:
    file = world.install("one")
    world.install("one", reload="true")
    assert [(one.chain, one.reload) for one in installed_endpoints(world.home)[0]] == [("one", "true")]
    with pytest.raises(ConfigurationError, match="follows chain one already"):
        world.install("two", "one.conf")
    world.cycles()
    assert uninstall_endpoints(world.home, "two") == []
    assert uninstall_endpoints(world.home, "one", file) == [file]
    before = file.read_text()
    world.hosts["one"] = "n9"
    world.cycles()
    assert file.read_text() == before
    assert (world.home.endpoints.stat().st_mode & 0o777) == 0o700


def test_a_fault_in_one_endpoint_is_its_own(world: World) -> None:
    world.install("one")
    good = world.install("two")
    world.hosts["one"] = "n[1-"
    world.cycles()
    assert "n2:80" in good.read_text()
    assert world.events("one")[0][0] == "endpoint-trouble"
    assert "a fault of Mirage" in world.events("one")[0][1]
