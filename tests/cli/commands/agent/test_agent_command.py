"""``mirage agent``: what it prints where no agent runs, and where one does elsewhere."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from mirage.agent.agent import Agent
from mirage.agent.chain.create import store_new_chain
from mirage.agent.chain.request import Request
from mirage.agent.hosting.installed_passes import entry_text, pass_script
from mirage.agent.hosting.pass_memory import LONGEST_EVERY_S, SHORTEST_EVERY_S, PassMemory
from mirage.agent.model import ChainSpec, EventRecord, Link, LinkState
from mirage.agent.monitoring.outage import STORE, OutageWatch
from mirage.agent.paths import private_folder
from mirage.agent.settings import AgentSettings
from mirage.agent.site_file import LONGEST_LEAST_POLL_S
from mirage.agent.store.lease import holder_name
from mirage.agent.store.sql_store import SqlStore, open_store
from mirage.cli import cli_context as cluster
from mirage.cli import main
from mirage.cli.commands.agent.foreground_agent import patient_settings
from mirage.cli.commands.chain.submit_command import ensure_agent
from mirage.duration import DAY_S
from mirage.errors import LeaseHeld, SlurmError, SlurmRefused, SlurmUnreachable
from mirage.slurm.records import Queue, Submission

NOW_S = 1_790_000_000


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqlStore]:
    monkeypatch.setenv("MIRAGE_HOME", str(tmp_path))
    monkeypatch.delenv("MIRAGE_STORE", raising=False)
    monkeypatch.setattr(cluster, "clock", lambda: NOW_S)
    with closing(open_store(cluster.home().store_url)) as opened:
        opened.add_chain("serve", ChainSpec(Submission("serve.sh")), NOW_S)
        yield opened


def test_where_none_runs(store: SqlStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    assert main(["agent", "status"]) == 1
    assert capsys.readouterr().out == f"no agent runs; 1 chain of {url} waits for one: mirage agent start\n"
    assert main(["agent", "status", "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == {
        "agent": None, "chains": 1, "store": url, "outage_since": None, "outage": None,
        "passes": None, "entry_trouble": None,
    }  # fmt: skip
    assert main(["agent", "stop"]) == 0
    assert capsys.readouterr() == ("", "no agent runs\n")


def test_passes_count_as_an_agent_while_they_come(
    store: SqlStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], utc: None
) -> None:
    PassMemory(begun_s=(NOW_S - 1500, NOW_S - 900)).write(cluster.home().pass_memory)
    assert main(["agent", "status"]) == 0
    url = f"sqlite:///{tmp_path}/store.db"
    words = "passes every 00:10:00, the last one at 2026-09-21T13:58:20, manage 1 chain of"
    assert capsys.readouterr().out == f"{words} {url}\n"
    assert main(["agent", "status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["passes"] == {"last_s": NOW_S - 900, "every_s": 600}
    assert main(["chain", "list"]) == 0
    assert "no agent runs" not in capsys.readouterr().err
    monkeypatch.setattr(cluster, "clock", lambda: NOW_S + 400)
    assert main(["agent", "status"]) == 1
    PassMemory(begun_s=(NOW_S - 900,), every_s=1800).write(cluster.home().pass_memory)
    assert main(["agent", "status"]) == 0, "the declared interval"


@pytest.mark.usefixtures("store")
def test_a_pass_without_an_answer_of_slurm_is_incomplete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "squeue").write_text("#!/bin/sh\necho Unable to contact slurm controller >&2; exit 1\n")
    (tmp_path / "squeue").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("mirage.agent.background.calibration.ONE_THREAD", {})
    monkeypatch.setattr("mirage.agent.monitoring.log.start_logging", lambda **_: None)
    stopping = SimpleNamespace(sleep=None, arrived=lambda: False)
    monkeypatch.setattr("mirage.cli.commands.agent.agent_once.StopSignals", lambda: stopping)
    assert main(["agent", "once"]) == 1
    out, err = capsys.readouterr()
    assert out == "incomplete pass, 1 Slurm command; the next pass is expected 00:05:00 later\n"
    assert err == "mirage: warning: squeue had no answer from Slurm: Unable to contact slurm controller\n"


def test_an_entry_that_slurm_has_disabled_is_reported(
    store: SqlStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scrontab, home = tmp_path / "bin" / "scrontab", cluster.home()
    scrontab.parent.mkdir()
    text = entry_text(home, "scrontab", 300).decode().replace("*/5", "#DISABLED: */5")
    scrontab.write_text(f"#!/bin/sh\ncat <<'X'\n{text}X\n")
    scrontab.chmod(0o755)
    monkeypatch.setenv("PATH", f"{scrontab.parent}:/usr/bin:/bin")
    pass_script(home, "scrontab").touch()
    main(["agent", "status"])
    assert "Slurm has disabled the entry for passes in scrontab" in capsys.readouterr().out
    scrontab.write_text("#!/bin/sh\nexit 0\n")
    main(["agent", "status", "--json"])
    assert "is not in scrontab any more" in json.loads(capsys.readouterr().out)["entry_trouble"]


def test_where_one_runs_on_another_host(store: SqlStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store.take_lease("login7:4242:99", NOW_S - 10, 60)
    url = f"sqlite:///{tmp_path}/store.db"
    assert main(["agent", "status"]) == 0
    assert capsys.readouterr().out == f"process 4242 on login7 manages 1 chain of {url}\n"
    assert main(["agent", "status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["agent"] == {"host": "login7", "pid": 4242, "lease_s": 50}
    assert main(["agent", "start"]) == 0
    assert capsys.readouterr() == ("", "an agent runs already on login7, process 4242\n")
    assert main(["agent", "stop"]) == 1
    assert capsys.readouterr() == ("", "mirage: error: the agent runs on login7 (process 4242); stop it there\n")


def agent_of(store: SqlStore) -> subprocess.Popen[bytes]:
    """A process that has the file of a store open, as an agent has."""
    assert store.path is not None
    with store.path.open() as file:
        return subprocess.Popen(["sleep", "617"], stdin=file)


def test_the_agent_of_a_folder_does_not_manage_a_copy_of_it(
    store: SqlStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "other").touch()
    with (tmp_path / "other").open() as file, subprocess.Popen(["sleep", "617"], stdin=file) as agent:
        store.take_lease(holder_name(agent.pid), NOW_S - 10, 60)
        assert main(["agent", "status"]) == 1
        assert main(["agent", "stop"]) == 0
        agent.kill()
    waits = f"no agent runs; 1 chain of {store.engine.url} waits for one: mirage agent start\n"
    assert capsys.readouterr() == (waits, "no agent runs\n")


def test_an_agent_that_is_suspended_is_reported(store: SqlStore, capsys: pytest.CaptureFixture[str]) -> None:
    with agent_of(store) as agent:
        try:
            store.take_lease(holder_name(agent.pid), NOW_S - 10, 60)
            assert main(["agent", "status"]) == 0
            assert "suspended" not in capsys.readouterr().out
            agent.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, agent.pid, os.WSTOPPED | os.WNOWAIT)
            assert main(["agent", "status"]) == 0
            assert main(["agent", "start"]) == 0
            ensure_agent({"quiet": False}, store, NOW_S, Request(Submission("serve.sh"), b"", "serve.sh", {}))
        finally:
            agent.kill()
    words = f"the process is suspended, and does nothing: kill -CONT {agent.pid} continues it"
    status, commands = capsys.readouterr()
    assert status.splitlines()[1:] == [words]
    assert commands.splitlines()[1::2] == [f"mirage: warning: {words}"] * 2


@pytest.mark.parametrize(
    ("known", "warns"),
    [
        ((Link(2, 1, LinkState.RUNNING, 101), Link(2, 2, LinkState.HELD, 102)), True),
        ((Link(2, 1, LinkState.ENDED, 101), Link(2, 2)), True),
        ((Link(2, 1, LinkState.ENDED, 101), Link(2, 2, LinkState.HELD, 102)), False),
    ],
)
def test_a_chain_that_still_needs_the_agent_is_named_when_it_ends(
    store: SqlStore, capsys: pytest.CaptureFixture[str], known: tuple[Link, ...], warns: bool
) -> None:
    store.add_chain("train", ChainSpec(Submission("train.sh"), agentless_after=1), NOW_S)
    store.put_links(known, EventRecord(2, 0, NOW_S, "recovered", ""))
    with agent_of(store) as agent:
        store.take_lease(holder_name(agent.pid), NOW_S - 10, 60)
        assert main(["agent", "stop"]) == 0
    warning = "mirage: warning: chain train still needs an agent, until its first job without one has taken over: "
    assert capsys.readouterr() == (f"ended process {agent.pid}\n", f"{warning}mirage agent start\n" * warns)


def test_an_agent_that_cannot_renew_its_lease_shows_its_outage(
    store: SqlStore, capsys: pytest.CaptureFixture[str], utc: None
) -> None:
    holder, url = holder_name(), store.engine.url
    store.take_lease(holder, NOW_S - 900, 240)
    watched = OutageWatch(AgentSettings(), holder, cluster.home().agent_state, lambda: 0.0)
    watched.contact(STORE, NOW_S - 900)
    watched.begin(STORE, "the disk is full", NOW_S - 300)
    words = "the agent cannot write the store since 2026-09-21T13:58:20 (00:15:00 ago): the disk is full"
    assert main(["agent", "status"]) == 0
    process = f"process {os.getpid()} on {socket.gethostname()} manages 1 chain of {url}"
    assert capsys.readouterr().out.splitlines() == [process, words]
    assert main(["agent", "status", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["agent"]["pid"], facts["outage_since"], facts["outage"]) == (os.getpid(), NOW_S - 900, words)
    watched.end(NOW_S)
    assert main(["agent", "status"]) == 1, "without an outage a lease that has run out is no agent"


def test_an_agent_with_a_damaged_store_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MIRAGE_HOME", str(tmp_path))
    monkeypatch.delenv("MIRAGE_STORE", raising=False)
    (tmp_path / "store.db").write_bytes(b"no database" * 1000)
    assert main(["agent", "stop"]) == 1
    assert "mirage: error: the store " in capsys.readouterr().err
    with subprocess.Popen(["sleep", "60"]) as agent:
        state = cluster.home().agent_state
        OutageWatch(AgentSettings(), holder_name(agent.pid), state, lambda: 0.0).contact(STORE, NOW_S)
        assert main(["agent", "stop"]) == 0
    out, err = capsys.readouterr()
    assert out == f"ended process {agent.pid}\n"
    assert "mirage: warning: the store " in err
    assert "file is not a database" in err


def test_a_lease_that_has_run_out_is_no_agent(store: SqlStore, capsys: pytest.CaptureFixture[str]) -> None:
    store.take_lease("login7:4242:99", NOW_S - 61, 60)
    assert main(["agent", "status"]) == 1
    assert capsys.readouterr().out.startswith("no agent runs; ")


class Slurm:
    """A cluster with an empty queue."""

    everybody, user, runner = True, "ada", None

    def configuration(self) -> dict[str, str]:
        return {"clustername": "c1", "slurmctldhost[0]": "head", "slurmctldport": "6817"}

    def observe(self) -> Queue:
        return Queue(NOW_S, ())

    def accounting(self, since_s: int) -> tuple[()]:
        assert not self.everybody, "months of everybody's jobs"
        return ()


def test_a_recovery_reports_each_chain_and_what_was_not_recovered(
    store: SqlStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cluster, "client", lambda *_: Slurm())
    assert main(["agent", "recover"]) == 1
    assert f"the store {tmp_path}/store.db is sound, so there is nothing to recover\n" in capsys.readouterr().err
    private_folder(cluster.home().chain_folder("serve"))
    store_new_chain(cluster.home(), store.chains()[0], store.identity())
    torn = tmp_path / "chains" / "torn" / "chain.json"
    torn.parent.mkdir()
    torn.write_text("{")
    for left in tmp_path.glob("store.db*"):
        left.unlink()
    (tmp_path / "store.db").write_bytes(b"rubbish")
    assert main(["agent", "recover"]) == 0
    printed = capsys.readouterr()
    first, second = printed.out.splitlines()
    assert first == "serve  paused  no job in the queue; restore its script: serve.sh"
    assert second.startswith(f"{torn}  not recovered: it is not a chain's file")
    assert printed.err.splitlines() == [
        "started from the files of the chains",
        f"the previous file was moved to {tmp_path}/store.db.damaged-1",
        "start the agent again: mirage agent start",
    ]
    assert main(["agent", "recover", "--from-backup", "3"]) == 1
    assert "there is no sound backup 3" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--poll", "30"], "'--poll': '30' has no unit; write 30s or 30m"),
        (["--poll", "90"], "'--poll': '90' has no unit; write 90s or 90m"),
        (["--poll", f"{LONGEST_LEAST_POLL_S + 1}s"], "'--poll': '1801s' is too long; at most 00:30:00"),
        (["--command-timeout", "3h"], "'--command-timeout': '3h' is too long; at most 02:00:00"),
        (["--calibrate-every", "1"], "'--calibrate-every': '1' has no unit; write 1s or 1m"),
        (["--metrics-port", "70000"], "'--metrics-port': 70000 is not in the range 1<=x<=65535."),
        (["--command-timeout", "0s"], "'--command-timeout': '0s' is too short; at least 1 s"),
        (
            ["--command-timeout", "nan"],
            "'--command-timeout': 'nan' is no duration; write it as Slurm does (2-00:00:00, 48:00:00, 30:00) "
            "or with a unit (90m, 4h, 2d)",
        ),
    ],
)
def test_settings_that_cannot_be_are_refused_before_anything_runs(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["agent", "run", *words]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == f"Error: Invalid value for {message}"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "--calibrate-every", "59m"], "00:59:00 is too short; give at least 1h, or 0 for never"),
        (["once", "--every", f"{SHORTEST_EVERY_S - 1}s"], "'--every': '59s' is too short; at least 60 s"),
        (["once", "--every", f"{LONGEST_EVERY_S + 1}s"], "'--every': '7201s' is too long; at most 02:00:00"),
    ],
)
def test_intervals_have_bounds(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agent", *words]) == 2
    assert capsys.readouterr().err.splitlines()[-1].endswith(message)


@pytest.mark.parametrize(
    ("interval", "words", "every_s"),
    [
        (None, [], 7 * DAY_S),
        ("14d", [], 14 * DAY_S),
        ("0", [], 0),
        ("14d", ["--calibrate-every", "0"], 0),
    ],
)
@pytest.mark.usefixtures("store")
def test_how_often_the_site_is_calibrated(
    interval: str | None, words: list[str], every_s: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Agent] = []
    monkeypatch.setattr(cluster, "client", lambda *_: Slurm())
    monkeypatch.setattr(Agent, "run", lambda agent, *_: made.append(agent))
    monkeypatch.setattr("mirage.agent.monitoring.log.start_logging", lambda **_: None)
    monkeypatch.setattr(
        "mirage.cli.commands.agent.agent_run.StopSignals", lambda: SimpleNamespace(sleep=None, arrived=None)
    )
    monkeypatch.delenv("MIRAGE_CALIBRATE_EVERY", raising=False)
    if interval is not None:
        monkeypatch.setenv("MIRAGE_CALIBRATE_EVERY", interval)
    assert main(["agent", "run", *words]) == 0
    calibration = made[0].calibration
    assert calibration is not None
    assert (calibration.settings.calibrate_every_s, calibration.user) == (every_s, "ada")
    assert calibration.folder == tmp_path / "calibration"


@pytest.mark.parametrize(
    ("interval", "message"), [("soon", "'soon' is no duration; "), ("59m", "00:59:00 is too short; give at least 1h")]
)
@pytest.mark.usefixtures("store")
def test_the_variable_of_a_refused_time_is_named(
    interval: str, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MIRAGE_CALIBRATE_EVERY", interval)
    assert main(["agent", "run"]) == 2
    where = "Error: Invalid value for '--calibrate-every', set by MIRAGE_CALIBRATE_EVERY: "
    assert capsys.readouterr().err.splitlines()[-1].startswith(where + message)
    assert main(["agent", "run", "--calibrate-every", interval]) == 2
    assert f"Error: Invalid value for '--calibrate-every': {message}" in capsys.readouterr().err


@pytest.mark.parametrize(("timeout_s", "lease_s"), [(None, 240), (60, 240), (1_800, 7_200)])
def test_a_lease_lasts_four_times_as_long_as_a_command_may(timeout_s: int | None, lease_s: int) -> None:
    assert patient_settings(AgentSettings(), timeout_s).lease_s == lease_s


def test_an_agent_is_of_one_kind(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agent", "start", "--systemd", "--in-job", "-t", "1-0"]) == 2
    assert "give --systemd or --in-job, not both" in capsys.readouterr().err


@pytest.mark.parametrize("words", [[], ["--systemd"], ["--in-job", "-t", "1-0"]])
def test_none_is_started_for_the_chains_of_another_cluster(
    store: SqlStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
) -> None:
    monkeypatch.setattr(cluster, "client", lambda *_: Slurm())
    store.bind("lab@head:6817")
    before = sorted(path.name for path in tmp_path.iterdir())
    assert main(["agent", "start", *words]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "live on the cluster lab@head:6817, and Slurm's commands speak to c1@head:6817 here" in err
    assert sorted(path.name for path in tmp_path.iterdir()) == before, "no log of an agent"


@pytest.mark.parametrize(
    ("trouble", "warning"),
    [
        (
            SlurmUnreachable("squeue found no cluster"),
            "mirage: warning: squeue found no cluster; the agent tries again until Slurm answers\n",
        ),
        (SlurmRefused("squeue failed with status 1", "slurm_load_jobs error: Invalid job id specified"), ""),
    ],
)
def test_an_agent_that_starts_without_an_answer_of_slurm_is_started_with_a_warning(
    trouble: SlurmError,
    warning: str,
    store: SqlStore,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Silent(Slurm):
        def probe(self) -> None:
            raise trouble

    monkeypatch.setattr(cluster, "client", lambda *_: Silent())
    monkeypatch.setattr("mirage.agent.service.start", lambda *_: 4711)
    assert main(["agent", "start"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("started process 4711; it logs to ")
    assert err == warning

    def late(*_: object) -> None:
        raise LeaseHeld("an agent runs already on n1, process 7")

    monkeypatch.setattr("mirage.agent.service.start", late)
    assert main(["agent", "start"]) == 0
    assert capsys.readouterr() == ("", f"{warning}an agent runs already on n1, process 7\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [("agent run --ssh", "--ssh is empty; name a host"), ("chain list -o", "there is no column ''; there are chain,")],
)
def test_an_empty_text_is_a_wrong_usage(
    words: str, message: str, store: SqlStore, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words.split(), ""]) == 2
    assert message in capsys.readouterr().err
