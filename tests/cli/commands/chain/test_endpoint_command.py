"""``mirage endpoint``: where a proxy finds the live job."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mirage.agent.endpoint import NOWHERE
from mirage.agent.model import ChainState, EventRecord, LinkState
from mirage.agent.store.sql_store import SqlStore
from mirage.cli import cli_context as cluster
from mirage.cli.commands.chain import endpoint_watch
from mirage.errors import SlurmUnreachable
from mirage.job_state import JobState
from mirage.slurm.records import QueuedJob

Type = Callable[..., tuple[str, str]]

LIST_ALONE = "--list prints the files of the agent; leave --port, --kind, -o and --reload out"
TOO_HIGH = "reaches port 65536, the last is 65535; give a smaller span"
NO_PORT = "is no port; give one from 1 to 65535, or BASE+JOB%SPAN, as 20000+JOB%20000"


@pytest.mark.parametrize(
    ("kind", "nodes", "text"),
    [
        ("nginx", "gpu[07-08]", "upstream serve {\n    server gpu07:8000;\n}\n"),
        ("nginx", "", "upstream serve {\n    server 127.0.0.1:9 down;\n}\n"),
        ("haproxy", "gpu07", "backend serve\n    server live gpu07:8000 check init-addr last,libc,none\n"),
        ("haproxy", "", "backend serve\n"),
    ],
)
def test_the_endpoint_is_the_first_host_of_the_live_job(
    type_: Type, slurm: Any, kind: str, nodes: str, text: str
) -> None:
    slurm.jobs = (QueuedJob(101, JobState.TIMEOUT, nodelist="old1"), QueuedJob(102, JobState.RUNNING, nodelist=nodes))
    assert type_("endpoint", "serve", "--port", "8000", "--kind", kind) == (text, "")


def test_an_endpoint_in_a_file_is_written_once_and_what_follows_it_is_run(
    type_: Type, slurm: Any, tmp_path: Path
) -> None:
    slurm.jobs = (QueuedJob(102, JobState.RUNNING, nodelist="gpu07"),)
    words = ["endpoint", "serve", "--port", "80", "-o", "up.conf", "--reload"]
    assert type_(*words, "cp up.conf seen; false", status=1) == (
        "", "serve points to gpu07:80\nmirage: 'cp up.conf seen; false' failed; "
        "run it in a shell, which prints its error\n",
    )  # fmt: skip
    assert (tmp_path / "seen").read_text() == (tmp_path / "up.conf").read_text()
    assert type_(*words, "false") == ("", "")


@pytest.mark.parametrize("more", [[], ["--watch"]])
def test_the_links_of_another_cluster_are_not_absent(
    type_: Type, slurm: Any, store: SqlStore, tmp_path: Path, more: list[str]
) -> None:
    store.rebind("other@head:6817")
    (tmp_path / "up.conf").write_text("backend serve\n")
    _, printed = type_("endpoint", "serve", "--port", "80", "-o", "up.conf", *more, status=1)
    assert "live on the cluster other@head:6817, and Slurm's commands speak to c1@head:6817 here" in printed
    assert (tmp_path / "up.conf").read_text() == "backend serve\n"


@pytest.mark.parametrize("more", [[], ["--watch"], ["--install"]])
def test_a_file_of_the_user_is_not_replaced(type_: Type, slurm: Any, tmp_path: Path, more: list[str]) -> None:
    text = "events {}\nhttp { server { listen 80; } }\n"
    (tmp_path / "nginx.conf").write_text(text)
    _, printed = type_("endpoint", "serve", "--port", "80", "-o", "nginx.conf", *more, status=1)
    assert "nginx.conf is not a file of mirage endpoint, which would replace all of it" in printed
    assert (tmp_path / "nginx.conf").read_text() == text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--port", "80", "--watch"], "Error: --watch needs -o FILE"),
        (["--port", "0"], f"Error: Invalid value for '--port': '0' {NO_PORT}"),
        (["--port", "9+JOB%65528"], f"Error: Invalid value for '--port': '9+JOB%65528' {TOO_HIGH}"),
        (["--port", "9+JOB%0"], f"Error: Invalid value for '--port': '9+JOB%0' {NO_PORT}"),
        (["--port", "80", "--install"], "Error: --install needs -o FILE"),
        (["--list", "--port", "80"], f"Error: {LIST_ALONE}"),
        (["--list", "-o", "up.conf"], f"Error: {LIST_ALONE}"),
        (["--port", "80", "--json"], "Error: --json prints the files of --list; give that, too"),
        (
            ["--port", "80", "--every", "9s"],
            "Error: --every is the time between queries of --watch; the agent has one of its own",
        ),
        (["--port", "80", "--install", "--watch"], "Error: give one of --install, --uninstall, --list and --watch"),
        (
            ["--port", "80", "--every", "-1"],
            "Error: Invalid value for '--every': '-1' is negative; give a time from 0 on",
        ),
        ([], "Error: Missing option '--port'."),
    ],
)
def test_an_endpoint_that_cannot_be_is_refused(type_: Type, words: list[str], message: str) -> None:
    assert type_("endpoint", "serve", *words, status=2)[1].splitlines()[-1] == message


def test_a_port_may_be_derived_from_the_number_of_the_job(type_: Type, slurm: Any) -> None:
    slurm.jobs = (QueuedJob(102, JobState.RUNNING, nodelist="gpu07"),)
    assert "server gpu07:20002;" in type_("endpoint", "serve", "--port", "20000+JOB%50")[0]


class Scenario:
    """The pauses of a watch: the next step takes place in each, while the clock advances."""

    def __init__(self, patch: pytest.MonkeyPatch, file: Path) -> None:
        self.file, self.steps = file, list[Callable[[], object]]()
        self.pauses: list[float] = []
        self.texts: list[str] = []
        self.now_s = cluster.clock()
        patch.setattr(cluster, "clock", lambda: self.now_s)
        patch.setattr(endpoint_watch, "sleep", self.sleep)

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        self.pauses.append(seconds)
        self.texts.append(self.file.read_text() if self.file.exists() else "")
        self.steps.pop(0)()

    def nothing(self) -> None:
        pass


@pytest.fixture
def scenario(store: SqlStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Scenario:
    return Scenario(monkeypatch, tmp_path / "up.conf")


WATCH = ("endpoint", "serve", "--port", "80", "-o", "up.conf", "--watch")
DONE = {"state": ChainState.DONE, "why": "3 links ran"}


def at(host: str, number: int = 102) -> tuple[QueuedJob, ...]:
    return (QueuedJob(number, JobState.RUNNING, nodelist=host),)


def test_a_watch_survives_silence_and_retains_the_target(
    type_: Type, slurm: Any, store: SqlStore, scenario: Scenario
) -> None:
    slurm.jobs = at("gpu07")
    silence = SlurmUnreachable("squeue had no answer from Slurm", "timed out")
    scenario.steps = [
        lambda: setattr(slurm, "trouble", silence), *[scenario.nothing] * 5,
        lambda: (setattr(slurm, "trouble", None), setattr(slurm, "jobs", at("gpu08"))),
        lambda: setattr(slurm, "jobs", ()),
        lambda: store.change_chain(1, **DONE),
    ]  # fmt: skip
    _, printed = type_(*WATCH)
    assert scenario.pauses == [5, 10, 20, 30, 30, 30, 30, 5, 5]
    assert ["gpu07" in text for text in scenario.texts] == [True] * 7 + [False] * 2
    assert "gpu08:80" in scenario.texts[7]
    assert NOWHERE in scenario.texts[8]
    lost, back = f"contact lost since {INSTANT}", "contact is back after 155 s"
    assert printed.splitlines() == [
        "serve points to gpu07:80",
        f"mirage: {lost}: squeue had no answer from Slurm: timed out; {scenario.file} stays as it is "
        "(points to gpu07:80), and queries continue",
        f"mirage: {back}",
        "serve points to gpu08:80",
        "serve points nowhere",
        f"mirage: chain serve is done (3 links ran); {scenario.file} points nowhere now",
    ]


INSTANT = "2026-09-21T14:13:20"


def test_a_watch_does_not_take_another_cluster_for_its_own_after_an_outage(
    type_: Type, slurm: Any, store: SqlStore, scenario: Scenario
) -> None:
    store.bind("c1@head:6817")
    slurm.jobs = at("gpu07")
    silence = SlurmUnreachable("squeue had no answer from Slurm", "timed out")
    scenario.steps = [
        lambda: setattr(slurm, "trouble", silence),
        lambda: (setattr(slurm, "trouble", None), setattr(slurm, "jobs", ()), slurm.options.update(clustername="c2")),
        scenario.nothing,
        lambda: (slurm.options.update(clustername="c1"), setattr(slurm, "jobs", at("gpu08"))),
        lambda: store.change_chain(1, **DONE),
    ]  # fmt: skip
    type_(*WATCH)
    assert [text.split()[4] for text in scenario.texts[:5]] == [*["gpu07:80;"] * 4, "gpu08:80;"]


def test_a_watch_ends_where_its_chain_is_removed(type_: Type, slurm: Any, store: SqlStore, scenario: Scenario) -> None:
    slurm.jobs = at("gpu07")
    scenario.steps = [lambda: (store.change_chain(1, **DONE), store.remove_chain(1))]
    _, printed = type_(*WATCH)
    assert printed.splitlines()[-1] == f"mirage: chain serve was removed; {scenario.file} points nowhere now"
    assert NOWHERE in scenario.file.read_text()


def test_a_store_that_is_away_ends_no_watch_and_hides_no_end_of_a_job(
    type_: Type, slurm: Any, store: SqlStore, scenario: Scenario, tmp_path: Path
) -> None:
    slurm.jobs = at("gpu07")
    home = tmp_path / "home"

    def away() -> None:
        (home / "store.db").rename(home / "aside")

    scenario.steps = [
        away, scenario.nothing, lambda: setattr(slurm, "jobs", ()),
        lambda: (home / "aside").rename(home / "store.db"),
        lambda: store.change_chain(1, **DONE),
    ]  # fmt: skip
    _, printed = type_(*WATCH)
    assert [NOWHERE in text for text in scenario.texts] == [False, False, False, True, True]
    assert "was deleted" in printed
    assert "contact is back" in printed
    assert printed.count("contact") == 2
    assert "is done" in printed


def test_another_store_in_its_place_has_removed_no_chain(
    type_: Type, slurm: Any, store: SqlStore, scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm.jobs = at("gpu07")
    mine, other = tmp_path / "home", tmp_path / "other"
    scenario.steps = [
        lambda: (mine.rename(tmp_path / "aside"), cluster.home(), store_at(mine)),
        scenario.nothing,
        lambda: (mine.rename(other), (tmp_path / "aside").rename(mine)),
        lambda: store.change_chain(1, **DONE),
    ]
    _, printed = type_(*WATCH)
    assert all("gpu07" in text for text in scenario.texts)
    assert "was removed" not in printed
    assert "another" in printed
    assert "is done" in printed


def store_at(folder: Path) -> None:
    """An empty store."""
    from contextlib import closing

    from mirage.agent.store.sql_store import open_store

    with closing(open_store(f"sqlite:///{folder}/store.db")):
        pass


def test_a_reload_that_fails_is_run_again_and_reported_once(
    type_: Type, slurm: Any, store: SqlStore, scenario: Scenario, tmp_path: Path
) -> None:
    slurm.jobs = at("gpu07")
    scenario.steps = [
        scenario.nothing, lambda: (tmp_path / "works").touch(), scenario.nothing, lambda: store.change_chain(1, **DONE)
    ]  # fmt: skip
    command = "test -e works && echo x >> reloads"
    _, printed = type_(*WATCH, "--reload", command)
    assert printed.count("failed") == 1
    assert (tmp_path / "reloads").read_text() == "x\nx\n", "once for gpu07, once for the end"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_watch_without_an_error(
    type_: Type, slurm: Any, scenario: Scenario, number: signal.Signals
) -> None:
    slurm.jobs = at("gpu07")
    scenario.steps = [lambda: os.kill(os.getpid(), number)]
    before = signal.getsignal(number)
    _, printed = type_(*WATCH)
    assert printed.splitlines()[-1] == f"mirage: ended by {number.name}; up.conf stays as it is"
    assert "gpu07:80" in scenario.file.read_text()
    assert signal.getsignal(number) is before


def test_a_link_that_the_store_does_not_know_to_run_is_followed(type_: Type, slurm: Any, store: SqlStore) -> None:
    """No agent has polled since link 2 ended and link 3 started."""
    slurm.jobs = (QueuedJob(102, JobState.NODE_FAIL, nodelist="gpu07"), QueuedJob(103, JobState.RUNNING, nodelist="n3"))
    assert "server n3:80;" in type_("endpoint", "serve", "--port", "80")[0]
    assert store.links(1)[2].state is LinkState.HELD


def test_a_reload_that_fails_is_a_failure(type_: Type, slurm: Any, tmp_path: Path) -> None:
    words = ("endpoint", "serve", "--port", "80")
    _, printed = type_(*words, "-o", "up.conf", "--reload", "false", status=1)
    assert printed.endswith("mirage: 'false' failed; run it in a shell, which prints its error\n")
    assert (tmp_path / "up.conf").exists()
    assert "--reload runs a command after changes of a file" in type_(*words, "--reload", "true", status=2)[1]


def test_endpoints_are_installed_listed_and_removed(type_: Type, slurm: Any, store: SqlStore, tmp_path: Path) -> None:
    words = ("endpoint", "serve", "--port", "80", "-o", "up.conf", "--reload", "true", "--install")
    printed = type_(*words)[1]
    assert f"the agent writes {tmp_path}/up.conf from its next cycle on" in printed
    assert "no agent runs" in printed
    through = f"../{tmp_path.name}/up.conf"
    type_(*(through if word == "up.conf" else word for word in words))  # the same file
    store.change_chain(1, EventRecord(1, 2, 5, "endpoint", f"{tmp_path}/up.conf points to gpu07:80"))
    (row,) = json.loads(type_("endpoint", "--list", "--json")[0])
    assert row == {
        "chain": "serve", "kind": "nginx", "port": "80", "file": f"{tmp_path}/up.conf", "reload": "true",
        "state": "points to gpu07:80",
    }  # fmt: skip
    assert type_("endpoint", "--list")[0].splitlines()[1].split()[:4] == ["serve", "nginx", "80", f"{tmp_path}/up.conf"]
    (tmp_path / "link.conf").symlink_to("up.conf")
    for file, more in (
        ("up.conf", ["--install"]),
        ("link.conf", ["--install"]),
        ("link.conf", ["--watch"]),
        ("up.conf", []),
    ):
        other = type_("endpoint", "train", "--port", "80", "-o", file, *more, status=1)[1]
        assert f"{tmp_path}/up.conf follows chain serve already; mirage endpoint serve --uninstall ends that" in other
    form = ("--kind", "haproxy", "--port", "80")
    assert "up.conf follows chain serve already" in type_("endpoint", "serve", *form, "-o", "up.conf", status=1)[1]
    assert not (tmp_path / "up.conf").exists()
    type_("endpoint", "serve", "--port", "80", "-o", "up.conf")  # as the agent does
    assert f"the agent follows no endpoint of 'train'; it follows {tmp_path}/up.conf of serve" in type_(
        "endpoint", "train", "--uninstall", status=1
    )[1]  # fmt: skip
    assert json.loads(type_("endpoint", "train", "--list", "--json")[0]) == []
    assert "follows" in type_("endpoint", "serve", "--uninstall")[1]
    assert json.loads(type_("endpoint", "--list", "--json")[0]) == []


def test_a_folder_that_is_absent_is_reported_at_once(type_: Type, tmp_path: Path) -> None:
    printed = type_("endpoint", "serve", "--port", "80", "-o", "no/up.conf", "--install", status=1)[1]
    assert f"the folder {tmp_path}/no is absent or not writable" in printed
    for file, why in (("/proc/up.conf", "absent or not writable"), (str(tmp_path), "it is a folder; name a file")):
        assert why in type_("endpoint", "serve", "--port", "80", "-o", file, "--install", status=1)[1]
    for further in ((), ("--watch",)):
        printed = type_("endpoint", "serve", "--port", "80", "-o", "no/up.conf", *further, status=1)[1]
        assert printed == "mirage: error: cannot write no/up.conf: there is no folder no; make it, or name another\n"
