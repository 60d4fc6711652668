"""The agent as a systemd unit and as a job: what is written for them, and for whose eyes."""

import stat
import subprocess
import sys

import pytest

from mirage.agent.paths import Home
from mirage.agent.service import following_job, install_unit, systemd_unit

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
def test_a_value_stands_in_a_unit_as_systemd_reads_it(value, written):
    assert f'Environment="MIRAGE_STORE={written}"' in systemd_unit({"MIRAGE_STORE": value}).splitlines()


def test_the_interpreter_may_have_any_name(monkeypatch):
    monkeypatch.setattr(sys, "executable", '/opt/my "py"/100%/$x/python')
    line = 'ExecStart="/opt/my \\"py\\"/100%%/$$x/python" -m mirage agent run'
    assert line in systemd_unit({}).splitlines()


def test_a_unit_holds_what_the_agent_needs_and_no_more():
    assert "zsh" not in systemd_unit(SECRET)


def test_only_its_owner_may_read_a_unit(tmp_path, monkeypatch):
    said = tmp_path / "said"
    (tmp_path / "systemctl").write_text(f'#!/bin/sh\necho "$@" >> {said}\n')
    (tmp_path / "systemctl").chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    older = tmp_path / "systemd" / "user" / "mirage-agent.service"
    older.parent.mkdir(parents=True)
    older.write_text("[Unit]\n")
    older.chmod(0o644)
    unit = install_unit({**SECRET, "XDG_CONFIG_HOME": str(tmp_path)})
    assert unit == older
    assert stat.S_IMODE(unit.stat().st_mode) == 0o600
    assert said.read_text().splitlines() == ["--user daemon-reload", "--user enable --now mirage-agent.service"]


def test_only_its_owner_may_read_the_script_of_an_agent_that_is_a_job(tmp_path):
    path = following_job(Home(tmp_path, "sqlite://"), SECRET, ["-p", "long queue"])
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    subprocess.run(["sh", "-n", str(path)], check=True)
    assert f"sbatch -p 'long queue' {path}" in path.read_text()
