"""The agent as a process and as a systemd unit: the files, and their rights."""

import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from contextlib import closing

import pytest

from mirage.agent.paths import Home
from mirage.agent.service import RunningAgent, install_unit, start, stop, systemd_unit
from mirage.agent.store.lease import holder_name
from mirage.agent.store.sql_store import open_store
from mirage.errors import ConfigurationError, LeaseHeld, StoreError

SECRET = {"MIRAGE_STORE": "postgresql://ada:50%20off@db/x", "PATH": "/bin", "SHELL": "/bin/zsh"}


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("plain", "plain"),
        ("50%20", "50%%20"),
        ('say "hi"', 'say \\"hi\\"'),
        ("back\\slash", "back\\\\slash"),
        ("two\nlines", "two\\nlines"),
        ("$HOME stays", "$HOME stays"),
    ],
)
def test_a_value_is_in_a_unit_as_systemd_reads_it(value, written):
    assert f'Environment="MIRAGE_STORE={written}"' in systemd_unit({"MIRAGE_STORE": value}).splitlines()


def test_the_interpreter_may_have_any_name(monkeypatch):
    monkeypatch.setattr(sys, "executable", '/opt/my "py"/100%/$x/python')
    line = r'ExecStart=/bin/sh -c "exec \"$$0\" \"$$@\"" "/opt/my \"py\"/100%%/$$x/python" -m mirage agent run'
    assert line in systemd_unit({}).splitlines()


def test_a_unit_holds_what_the_agent_needs_and_no_more():
    assert "zsh" not in systemd_unit(SECRET)


def test_only_its_owner_may_read_a_unit(tmp_path, monkeypatch):
    output = tmp_path / "said"
    (tmp_path / "systemctl").write_text(f'#!/bin/sh\necho "$@" >> {output}\n')
    (tmp_path / "systemctl").chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    older = tmp_path / "systemd" / "user" / "mirage-agent.service"
    older.parent.mkdir(parents=True)
    older.write_text("[Unit]\n")
    older.chmod(0o644)
    unit = install_unit({**SECRET, "XDG_CONFIG_HOME": str(tmp_path)})
    assert unit == older
    assert stat.S_IMODE(unit.stat().st_mode) == 0o600
    assert output.read_text().splitlines() == [
        "--user daemon-reload", "--user enable mirage-agent.service", "--user restart mirage-agent.service",
    ]  # fmt: skip


def test_a_unit_that_does_not_start_is_as_before(tmp_path, monkeypatch):
    units = tmp_path / "systemd" / "user"
    unit, enabled = units / "mirage-agent.service", units / "default.target.wants" / "mirage-agent.service"
    (tmp_path / "systemctl").write_text(
        f'#!/bin/sh\n[ "$2" != enable ] || {{ mkdir -p {enabled.parent}; ln -sf {unit} {enabled}; }}\n'
        'if [ "$2" = restart ]; then echo Failed to connect to bus >&2; exit 1; fi\n'
    )
    (tmp_path / "systemctl").chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    for before in (None, "[Unit]\n"):
        if before is not None:
            unit.write_text(before)
        with pytest.raises(ConfigurationError, match=r"restart mirage-agent\.service: Failed to connect to bus; there"):
            install_unit({**SECRET, "XDG_CONFIG_HOME": str(tmp_path)})
        assert (unit.read_text() if unit.exists() else None) == before
        assert enabled.is_symlink() == (before is not None)


ODD = {
    "MIRAGE_STORE": "postgresql://ada:50%25$HOME\\n'\"@db/x",
    "MIRAGE_HOME": "/scratch/a b/%h/ü",
    "SLURM_CONF": '/etc/x %H/slurm "q".conf',
    "MIRAGE_LINES": "one\ntwo",
}


def test_systemd_itself_reads_a_unit_of_odd_names_without_complaint(tmp_path, monkeypatch):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze")
    folder = tmp_path / 'my "py" 100% $x \\t'
    folder.mkdir()
    (folder / "python").symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(folder / "python"))

    def complaints(text):
        unit = tmp_path / "mirage-agent.service"
        unit.write_text(text)
        done = subprocess.run(
            ["systemd-analyze", "--user", "verify", str(unit)], capture_output=True, text=True,
            env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
        )  # fmt: skip
        return done.stderr

    text = systemd_unit({**ODD, "PATH": "/bin"})
    assert complaints(text) == ""
    assert complaints(text.replace('\\"', '"', 1)) != ""


def test_an_agent_without_a_store_leaves_no_process(tmp_path, monkeypatch):
    (tmp_path / "store.db").mkdir()
    started = []
    monkeypatch.setattr(subprocess, "Popen", lambda *command, **_: started.append(command))
    with pytest.raises(StoreError):
        start(Home(tmp_path, f"sqlite:///{tmp_path}/store.db"), {}, 0.0)
    assert started == []


def test_an_agent_that_is_suspended_is_stopped():
    with subprocess.Popen(["sleep", "617"]) as agent:
        agent.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, agent.pid, os.WSTOPPED | os.WNOWAIT)
        try:
            stop(RunningAgent(holder_name(agent.pid), socket.gethostname(), agent.pid, True, 0.0), patience_s=10.0)
        finally:
            agent.kill()
    assert agent.returncode == -signal.SIGTERM


def test_of_two_agents_started_at_once_the_second_names_the_first(tmp_path):
    home = Home(tmp_path, f"sqlite:///{tmp_path}/store.db")
    now_s = time.time()
    with closing(open_store(home.store_url)) as store:
        store.take_lease(holder_name(), now_s, 300.0)  # this process was quicker
    with pytest.raises(LeaseHeld, match=rf"^an agent runs already on {socket.gethostname()}, process {os.getpid()}$"):
        start(home, {**os.environ, "MIRAGE_HOME": str(tmp_path)}, now_s)


def test_an_agent_that_ends_at_once_is_quoted_without_the_errors_of_earlier_ones(tmp_path):
    home = Home(tmp_path, f"sqlite:///{tmp_path}/store.db")
    home.log.write_text("an old error\n")
    with pytest.raises(StoreError, match=rf"^the agent ended at once; {home.log} ends with: .*'often'") as ended:
        start(home, {**os.environ, "MIRAGE_HOME": str(tmp_path), "MIRAGE_HEARTBEAT": "often"}, time.time())
    assert "an old error" not in str(ended.value)
